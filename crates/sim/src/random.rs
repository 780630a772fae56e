//! Random numbers of a run. Each generator is seeded from the run's seed.

use knee_queue::time::Time;

/// A splitmix64 generator: small, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// Returns a seed that differs at each time.
#[inline]
pub(crate) fn at(seed: u64, now: Time) -> u64 {
    seed.wrapping_add(now.ps().wrapping_mul(0xd134_2543_de82_ef95))
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws a number that is uniform over 64 bits.
    pub(crate) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number that is uniform over 32 bits.
    pub(crate) fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// Draws a number that is uniform over 0 to `bound` - 1; 0 for a bound of 0. The bias is below
    /// 2^-64 * bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
}

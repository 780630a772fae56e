//! Random numbers, the same on every machine and for any number of threads.

/// A splitmix64 generator, as the simulator's: paths of flows follow from the same draws.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Starts a generator for one thing of a run, as a link or a flow.
    pub(crate) fn of(seed: u64, what: u64, number: u64) -> Random {
        let mut random = Random(seed ^ what.rotate_left(48));
        Random(random.u64() ^ Random(number).u64())
    }

    /// Draws a number that is uniform over 64 bits.
    pub(crate) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number that is uniform over 0 to `bound` - 1; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
}

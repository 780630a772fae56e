//! Random numbers, the same on every machine.

/// What the state grows by at each draw: 2^64 over the golden ratio.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a number so that each of its bits acts on all of the result.
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one word of state, and any seed will do.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Draws a number that is uniform over 64 bits.
    #[inline]
    pub const fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Draws a number that is uniform over 32 bits.
    #[inline]
    pub const fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// Draws a number that is uniform over 0 to `bound` - 1; 0 for a bound of 0. The bias is below 2^-64 * bound.
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Draws a number from 0 to below 1, in steps of 2^-53.
    pub const fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_first_values_come_out() {
        let mut random = Random::new(1_234_567);
        let first = [(); 3].map(|()| random.u64());
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}

//! Start times: the reference's own, and ours.
//!
//! The driver of the reference runs drew start jitters with Python's generator, seeded by
//! `1000 * seed + kB` for the bulk mix (`short_start_ms` of `runs_bulk_mix.csv` shows it) and by
//! `77 * seed + kB` for the incast (the completion times of 10 kB show it to the packet). With the same
//! generator here a run of ours starts its flows exactly when the reference run of that seed did, and
//! the two are compared as a pair.

/// Where random numbers come from.
pub struct Random(Box<dyn FnMut() -> f64>);

impl Random {
    /// Python's `random.Random(seed)`, from a seed below 2^32.
    pub fn python(seed: u32) -> Random {
        let mut twister = MersenneTwister::new(seed);
        Random(Box::new(move || {
            let (a, b) = (u64::from(twister.word() >> 5), u64::from(twister.word() >> 6));
            share((a << 26) + b)
        }))
    }

    /// Our own (SplitMix64), from a seed.
    pub fn own(seed: u64) -> Random {
        let mut state = seed;
        Random(Box::new(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            share((z ^ (z >> 31)) >> 11)
        }))
    }

    /// Uniform between two values.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0)()
    }
}

/// 53 bits as a number from 0 to below 1.
fn share(bits: u64) -> f64 {
    bits as f64 / (1u64 << 53) as f64
}

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// MT19937 (Matsumoto and Nishimura 1998), seeded by an array of one word as Python does.
struct MersenneTwister {
    state: [u32; WORDS],
    next: usize,
}

impl MersenneTwister {
    fn new(seed: u32) -> MersenneTwister {
        let mixed = |word: u32, factor: u32| (word ^ (word >> 30)).wrapping_mul(factor);
        let mut state = [19_650_218; WORDS];
        for i in 1..WORDS {
            state[i] = mixed(state[i - 1], 1_812_433_253).wrapping_add(i as u32);
        }
        // Once around with the seed, once with the numbers of the words. The first word is a copy of the last one.
        for step in 0..2 * WORDS - 1 {
            let i = 1 + step % (WORDS - 1);
            if i == 1 && step > 0 {
                state[0] = state[WORDS - 1];
            }
            state[i] = match step < WORDS {
                true => (state[i] ^ mixed(state[i - 1], 1_664_525)).wrapping_add(seed),
                false => (state[i] ^ mixed(state[i - 1], 1_566_083_941)).wrapping_sub(i as u32),
            };
        }
        state[0] = 0x8000_0000;
        MersenneTwister { state, next: WORDS }
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % WORDS] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_numbers_come_out() {
        // python3 -c 'import random; print(random.Random(1).random(), random.Random(42).random())'
        assert_eq!(Random::python(1).uniform(0.0, 1.0), 0.134_364_244_112_401_22);
        assert_eq!(Random::python(42).uniform(0.0, 1.0), 0.639_426_798_457_883_8);
    }

    #[test]
    fn the_references_start_times_come_out() {
        // Seed 1 with 10 kB started at 534.201 ms, seed 2 with 800 kB at 539.364 ms.
        for (seed, started_ms) in [(1010, 534.201), (2800, 539.364)] {
            let ms = 500.0 + Random::python(seed).uniform(-100.0, 100.0);
            assert!((ms - started_ms).abs() < 0.001, "{ms}");
        }
    }

    #[test]
    fn our_own_stay_in_their_range() {
        let mut random = Random::own(7);
        let mean = (0..10_000).map(|_| random.uniform(2.0, 4.0)).sum::<f64>() / 10_000.0;
        assert!((mean - 3.0).abs() < 0.02, "{mean}");
    }
}

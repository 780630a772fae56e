//! Seeds and start jitter. Each number depends only on the seed, the repeat and its purpose. The same repeat thus
//! starts its flows at the same times in every case.

use knee_queue::time::Duration;
use knee_units::random::{self, GAMMA, mix};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(random::Random);

impl Random {
    /// Returns the stream for one purpose, which `labels` identify.
    pub(crate) fn new(seed: u64, labels: &[u64]) -> Random {
        let fold = |state: u64, label: &u64| mix(state.wrapping_add(GAMMA) ^ mix(*label));
        Random(random::Random::new(labels.iter().fold(mix(seed), fold)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64()
    }

    /// Returns a uniform number from 0 to below 1, in steps of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Returns a uniform number from 0 to below `count`, which must be above 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.below(count as u64) as usize
    }

    /// Returns an exponential time with this mean, by von Neumann's method (1951). It compares uniform draws and
    /// needs no logarithm, whose last bit differs between machines.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        for whole in 0_u64.. {
            let first = self.next();
            // For a run of falling draws that begins with `first`, the probability of an odd length is exp(-first).
            let (mut last, mut falling) = (first, 1);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                (last, falling) = (next, falling + 1);
            }
            if falling % 2 == 1 {
                let part = (u128::from(first) * u128::from(mean.ps())) >> 64;
                return Duration::from_ps(mean.ps().saturating_mul(whole) + part as u64);
            }
        }
        mean
    }

    /// Returns a uniform time from 0 to `width`, both inclusive.
    pub(crate) fn up_to(&mut self, width: Duration) -> Duration {
        let span = u128::from(width.ps()) + 1;
        Duration::from_ps(((u128::from(self.next()) * span) >> 64) as u64)
    }
}

/// Returns the seed of a repeat. The first repeat uses the experiment's own seed, so any run can be repeated alone
/// with one repeat and its seed.
pub(crate) fn run_seed(seed: u64, repeat: u32) -> u64 {
    if repeat == 0 { seed } else { Random::new(seed, &[u64::from(repeat)]).next() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_draws_fill_their_range_and_stay_in_it() {
        let width = Duration::from_us(50);
        let mut random = Random::new(1, &[2]);
        let draws: Vec<_> = (0..10_000).map(|_| random.up_to(width)).collect();
        let mean = draws.iter().map(|d| d.as_secs_f64()).sum::<f64>() / 10_000.0;
        assert!(draws.iter().all(|d| *d <= width));
        // The mean of 10,000 draws has a standard deviation of 0.14 us.
        assert!((mean - 25e-6).abs() < 0.6e-6, "{mean}");
        assert_eq!(Random::new(1, &[2]).up_to(Duration::ZERO), Duration::ZERO);
    }

    /// Checks mean, variance and tail of the exponential distribution.
    #[test]
    fn gaps_are_exponential() {
        let mean = Duration::from_us(100);
        let mut random = Random::new(5, &[]);
        let draws: Vec<f64> =
            (0..100_000).map(|_| random.exponential(mean).as_secs_f64() / 100e-6).collect();
        let average = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|d| d * d).sum::<f64>() / 1e5;
        // Standard deviations of 0.003, of 0.014 and, for the tails, of at most 0.0016.
        assert!((average - 1.0).abs() < 0.013, "{average}");
        assert!((square - 2.0).abs() < 0.06, "{square}");
        for above in [0.1, 0.5, 1.0, 2.0, 3.0_f64] {
            let share = draws.iter().filter(|d| **d > above).count() as f64 / 1e5;
            assert!((share - (-above).exp()).abs() < 0.0065, "{above}: {share}");
        }
    }

    #[test]
    fn seeds_of_repeats_and_purposes_differ() {
        let mut seeds: Vec<_> = (0..1000).map(|repeat| run_seed(1, repeat)).collect();
        seeds.extend((0..1000).map(|repeat| run_seed(2, repeat)));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 2000);
        assert_ne!(Random::new(1, &[0, 1]).next(), Random::new(1, &[1, 0]).next());
    }
}

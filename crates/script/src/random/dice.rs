//! Numbers from a seed.

use knee_queue::time::Duration;
use knee_units::Random;

/// Draws of a conversation.
pub(super) struct Dice(Random);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(Random::new(seed))
    }

    /// Uniform from 0 to below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.u64() % bound.max(1)
    }

    /// True with this probability, in percent.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(super) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_ms(from + self.below(to - from + 1))
    }
}

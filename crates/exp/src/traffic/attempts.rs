//! `kind = "attempts"`: connections at random times that carry no data. The metric is whether they are established.

use knee_file::keys::Key;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::NodeId;

use crate::random::Random;

keys! {
    /// Connections at random times that nothing is sent on.
    pub(super) static KEYS: AttemptKeys = "attempts" {
        /// Number of attempts.
        count: Key<u64> = needed("20").within(1, super::MAX_FLOWS),
        /// Last start time.
        until: Key<Duration> = needed("1 s"),
        /// Later establishment counts as failure.
        deadline: Key<Duration> = needed("900 ms").above("0 s"),
    }
}

/// Connection attempts, uniformly spread over a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    pub(crate) count: u64,
    start: Duration,
    until: Duration,
    /// Time after which an unanswered attempt has failed.
    deadline: Duration,
}

/// A connection attempt.
pub(crate) struct Attempt {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) start: Time,
    pub(crate) deadline: Time,
}

impl Attempts {
    /// Reads the keys of such an entry.
    pub(crate) fn read(reader: &Reader<'_>, start: Duration) -> Result<Attempts, Error> {
        let count = reader.read(&KEYS.count)?;
        let until = reader.read(&KEYS.until)?;
        if until <= start {
            return Err(reader.error(&KEYS.until, "must be later than the start"));
        }
        let deadline = reader.read(&KEYS.deadline)?;
        Ok(Attempts { count, start, until, deadline })
    }

    /// Draws the attempts of one run, sorted by start time, each between one of the pairs.
    pub(crate) fn draw(&self, pairs: &[(NodeId, NodeId)], mut random: Random) -> Vec<Attempt> {
        let span = Duration::from_ps(self.until.ps() - self.start.ps());
        let mut attempts: Vec<_> = (0..self.count)
            .map(|_| {
                let start = Time::ZERO + self.start + random.up_to(span);
                let (from, to) = pairs[random.below(pairs.len())];
                Attempt { from, to, start, deadline: start + self.deadline }
            })
            .collect();
        attempts.sort_by_key(|attempt| attempt.start);
        attempts
    }
}

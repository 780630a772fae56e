//! `kind = "attempts"`: connections at random times that nothing is sent on; what counts is whether they come about.

use knee_file::{Error, Reader};
use knee_queue::time::{Duration, Time};
use knee_run::spec::NodeId;

use crate::random::Random;

/// Attempts to connect, uniformly spread over a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    pub(crate) count: u64,
    start: Duration,
    until: Duration,
    /// An attempt that is not answered within this has failed.
    deadline: Duration,
}

/// One of them.
pub(crate) struct Attempt {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) start: Time,
    pub(crate) deadline: Time,
}

impl Attempts {
    /// The keys of such an entry, of at most `most` attempts.
    pub(crate) fn read(reader: &Reader<'_>, start: Duration, most: u64) -> Result<Attempts, Error> {
        let count = reader.integer("count", 1..=most)?;
        let count = count.ok_or_else(|| reader.error("count", "missing, as in count = 20"))?;
        let until: Duration = reader.need("until", "1 s")?;
        if until <= start {
            return Err(reader.error("until", "must be later than the start"));
        }
        let deadline: Duration = reader.need("deadline", "900 ms")?;
        if deadline == Duration::ZERO {
            return Err(reader.error("deadline", "must be above 0 s, as in \"900 ms\""));
        }
        Ok(Attempts { count, start, until, deadline })
    }

    /// Those of one run, in the order of their starts, each between one of the pairs.
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

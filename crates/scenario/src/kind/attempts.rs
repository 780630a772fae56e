//! `kind = "attempts"`: connections at random times that carry no data. The metric is whether they are established.

use std::sync::Arc;

use knee_file::keys::Key;
use knee_file::{Error, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Flow, Run};

use super::connections::{CONNECTIONS, Connections};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, MAX_FLOWS, NAMED, Pattern,
    TrafficSpec,
};
use crate::metric::{Kind, Known, Measured, Metric as M};

keys! {
    /// Connections at random times that nothing is sent on.
    static KEYS: AttemptKeys = "attempts" {
        /// Number of attempts.
        count: Key<u64> = needed("20").within(1, MAX_FLOWS),
        /// Last start time.
        until: Key<Duration> = needed("1 s"),
        /// Later establishment counts as failure.
        deadline: Key<Duration> = needed("900 ms").above("0 s"),
    }
}

pub(super) static ATTEMPTS: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &CONNECTIONS, &KEYS], read };

/// Connection attempts, uniformly spread over a time.
#[derive(Debug)]
struct Attempts {
    count: u64,
    until: Duration,
    /// Time after which an unanswered attempt has failed.
    deadline: Duration,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let reader = entry.reader;
    let connections = Some(Connections::read_alone(entry)?);
    let count = reader.read(&KEYS.count)?;
    let until = reader.read(&KEYS.until)?;
    if until <= entry.start {
        return Err(reader.error(&KEYS.until, "must be later than the start"));
    }
    let attempts = Attempts { count, until, deadline: reader.read(&KEYS.deadline)? };
    let pairs = entry.pairs()?;
    Ok(EntryParts { kind: Kind::Attempts, pairs, connections, pattern: Arc::new(attempts) })
}

impl Pattern for Attempts {
    fn flows(&self, _entry: &TrafficSpec) -> u64 {
        self.count
    }

    /// Attempts have a deadline of their own.
    fn last_start(&self, _entry: &TrafficSpec) -> Option<Duration> {
        None
    }

    /// Adds the attempts, sorted by start time, each between one of the pairs.
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let Some(connections) = &entry.connections else { return };
        let mut random = in_run.random(5);
        let span = Duration::from_ps(self.until.ps() - entry.start.ps());
        let first = run.flows.len();
        run.flows.extend((0..self.count).map(|_| {
            let start = Time::ZERO + entry.start + random.up_to(span);
            let (from, to) = entry.pairs[random.below(entry.pairs.len())];
            // This connection never writes.
            let (first_write, stop) = (Some(Time::MAX), Some(start + self.deadline));
            Flow { from, to, start, first_write, stop, ..connections.flow(in_run.group) }
        }));
        run.flows[first..].sort_by_key(|flow| flow.start);
    }

    /// Measures the share of connections established before their deadline, and the times of all. Attempts cut off by the
    /// end of the run do not count in the share. The time of an attempt that was not established in time is at least its age
    /// then.
    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        let end = group.facts.outcome.end;
        let (mut attempts, mut successes) = (0, 0);
        for (_, flow, got) in group.flows() {
            let (Some(deadline), Some(connected)) = (flow.stop, got.connected_at) else { continue };
            match got.established_at {
                Some(at) if at <= deadline => {
                    successes += 1;
                    measured.record(M::Latency, at.since(connected).ns());
                }
                _ => {
                    let given_up = deadline.min(end);
                    measured.record_time(M::Latency, Known::between(connected, None, given_up));
                    if deadline > end {
                        continue;
                    }
                }
            }
            attempts += 1;
        }
        Group::record_share(measured, M::SuccessShare, successes, attempts);
    }
}

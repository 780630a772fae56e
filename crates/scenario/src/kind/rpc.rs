//! `kind = "rpc"`: requests and answers, one after the other.

use std::sync::Arc;

use knee_file::keys::{Key, List};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Duration;
use knee_run::spec::{Run, Traffic};

use super::connections::{CONNECTIONS, Connections, Rounds, TIMED_CONNECTIONS};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec,
};
use crate::metric::{Kind, Measured, Metric as M};

keys! {
    /// Requests and answers, one after the other.
    static KEYS: RpcKeys = "rpc" {
        /// Request size, or one per flow.
        request: Key<List<Size>> = usually("`100 B`"),
        /// Response size, or one per flow.
        response: Key<List<Size>> = usually("`100 B`"),
        /// Exchanges per connection.
        count: Key<u64> = within(1, 1_000_000_000).usually("without end"),
        /// Stop time.
        stop: Key<Duration> = usually("end of the run"),
        /// Time between stops.
        stop_stagger: Key<Duration> = or(Duration::ZERO),
    }
}

pub(super) static RPC: Described = Described {
    keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &TIMED_CONNECTIONS, &CONNECTIONS, &KEYS],
    read,
};

#[derive(Debug)]
struct Rpc;

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let pairs = entry.repeated(&entry.pairs()?)?;
    let connections = Some(Connections::read(entry, |_| Ok(Rounds::ONE), read_exchanges)?);
    Ok(EntryParts { kind: Kind::Rpc, pairs, connections, pattern: Arc::new(Rpc) })
}

fn read_exchanges(reader: &Reader<'_>) -> Result<Vec<Traffic>, Error> {
    let requests = reader.list(&KEYS.request)?.unwrap_or_else(|| vec![Size(100)]);
    let responses = reader.list(&KEYS.response)?.unwrap_or_else(|| vec![Size(100)]);
    let count = reader.get(&KEYS.count)?;
    // Flow i takes size i of each list. The shorter list repeats.
    let mixes = requests.len().max(responses.len());
    let mix = |i: usize| Traffic::Rpc {
        request_bytes: requests[i % requests.len()].0,
        response_bytes: responses[i % responses.len()].0,
        count,
    };
    Ok((0..mixes).map(mix).collect())
}

impl Pattern for Rpc {
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        entry.connect(in_run, run);
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_unfinished(measured);
        if group.facts.is_window_empty() {
            return;
        }
        let mut count = 0;
        for rpc in group.exchanges() {
            measured.record(M::Latency, rpc.latency.ns());
            count += 1;
        }
        measured.record(M::Exchanges, count);
        for time in group.members.iter().filter_map(|flow| group.facts.waiting(*flow)) {
            measured.record_time(M::Latency, time);
        }
    }
}

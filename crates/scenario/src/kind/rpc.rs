//! `kind = "rpc"`: requests and answers on connections that stay, one after the other or at times of their own.

use std::sync::Arc;

use knee_file::keys::{Key, List, Special};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Run, Traffic};

use super::connections::{CONNECTIONS, Connections, Rounds, TIMED_CONNECTIONS};
use super::open_loop::{OPEN_LOOP, Requests, read_mean_gap};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec,
};
use crate::metric::{Kind, Known, Measured, Metric as M};
use crate::sizes::{self, Sizes};

keys! {
    /// Requests and answers, one after the other.
    static KEYS: RpcKeys = "rpc" {
        /// Request size, or one per flow.
        request: Key<List<Size>> = usually("`100 B`"),
        /// Response size, or one per flow.
        response: Key<List<Size>> = usually("`100 B`"),
        /// Response sizes that are drawn for each request, as of `poisson`.
        sizes: Special = takes(sizes::takes).usually("`response`"),
        /// Exchanges per connection.
        count: Key<u64> = within(1, 1_000_000_000).usually("without end"),
        /// Stop time.
        stop: Key<Duration> = usually("end of the run"),
        /// Time between stops.
        stop_stagger: Key<Duration> = or(Duration::ZERO),
    }
}

pub(super) static RPC: Described = Described {
    keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &TIMED_CONNECTIONS, &CONNECTIONS, &OPEN_LOOP, &KEYS],
    read,
};

#[derive(Debug)]
struct Rpc {
    /// `None`: each request leaves when the one before is answered.
    open: Option<Requests>,
}

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let pairs = entry.repeated(&entry.pairs()?)?;
    let mut connections = Connections::read(entry, |_| Ok(Rounds::ONE), read_exchanges)?;
    let open = read_open(entry, &connections.traffic)?;
    if open.is_some() {
        // It is of arrivals: what has arrived is answered.
        connections.stop = None;
    }
    let (connections, pattern) = (Some(connections), Arc::new(Rpc { open }));
    Ok(EntryParts { kind: Kind::Rpc, pairs, connections, pattern })
}

/// Reads when requests arrive, if that does not depend on the answers before.
fn read_open(entry: &EntryReader<'_>, traffic: &[Traffic]) -> Result<Option<Requests>, Error> {
    let reader = entry.reader;
    let sizes = match reader.has(&KEYS.sizes) {
        true => Some(Sizes::read(reader, &KEYS.sizes)?),
        false => None,
    };
    if sizes.is_some() && reader.has(&KEYS.response) {
        return Err(reader.error(&KEYS.sizes, "conflicts with \"response\": leave one out"));
    }
    // Sizes of a list belong to connections, and requests take the one that is free.
    let of_connections = |key: &Key<List<Size>>| {
        let why = "has one size for requests at times of their own: use \"sizes\" for responses, as a mix, or one entry for each size";
        Err(reader.error(key, why))
    };
    // Load is of the direction that has more of it.
    let mean = |of: fn(&Traffic) -> u64| {
        traffic.iter().map(|it| of(it) as f64).sum::<f64>() / traffic.len().max(1) as f64
    };
    let response = sizes.as_ref().map_or_else(|| mean(Traffic::response_bytes), Sizes::mean_bytes);
    let mean_bytes = mean(Traffic::request_bytes).max(response);
    let Some(mean_gap) = read_mean_gap(reader, entry.network, mean_bytes)? else {
        let needs =
            "needs \"load\", \"rate\" or \"arrivals_per_sec\"; without them use \"response\"";
        return match sizes {
            Some(_) => Err(reader.error(&KEYS.sizes, needs)),
            None => Ok(None),
        };
    };
    for key in [&KEYS.request, &KEYS.response] {
        if reader.list(key)?.is_some_and(|sizes| sizes.len() > 1) {
            return of_connections(key);
        }
    }
    for (name, is_there) in [
        (KEYS.count.as_ref(), reader.has(&KEYS.count)),
        (KEYS.stop_stagger.as_ref(), reader.has(&KEYS.stop_stagger)),
        // Connections are there when the first request can arrive.
        (TIMED.start_jitter.as_ref(), reader.has(&TIMED.start_jitter)),
        (TIMED_CONNECTIONS.stagger.as_ref(), reader.has(&TIMED_CONNECTIONS.stagger)),
        // Each host would have the whole load.
        (TIMED_CONNECTIONS.each.as_ref(), reader.has(&TIMED_CONNECTIONS.each)),
    ] {
        if is_there {
            let why =
                "has no meaning for requests at times of their own: leave it out, or use \"stop\"";
            return Err(reader.error(name, why));
        }
    }
    let until = reader.get(&KEYS.stop)?;
    if until.is_some_and(|until| until <= entry.start) {
        return Err(reader.error(&KEYS.stop, "must be later than the start"));
    }
    Ok(Some(Requests { mean_gap, until, sizes }))
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
        let first = entry.connect(in_run, run);
        if let Some(open) = &self.open {
            open.build(entry.start, in_run, first, run);
        }
    }

    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_unfinished(measured);
        let facts = group.facts;
        if facts.is_window_empty() {
            return;
        }
        let mut count = 0;
        for rpc in group.exchanges() {
            if !facts.arrives(rpc.flow) {
                measured.record(M::Latency, rpc.latency.ns());
            }
            count += 1;
        }
        measured.record(M::Exchanges, count);
        for time in group.members.iter().filter_map(|flow| facts.waiting(*flow)) {
            measured.record_time(M::Latency, time);
        }
        if !facts.has_arrivals() {
            return;
        }
        // Requests at times of their own count where they arrive: those that take long are no fewer.
        for rpc in group.arrived() {
            measured.record(M::Latency, rpc.latency.ns());
        }
        for arrival in group.unanswered().filter(|arrival| facts.holds(*arrival)) {
            measured.record_time(M::Latency, Known::between(arrival, None, facts.outcome.end));
        }
    }

    fn requests(&self, entry: &TrafficSpec, end: Time) -> u64 {
        self.open.as_ref().map_or(0, |open| open.most(entry.start, end))
    }

    fn sizes_words(&self) -> Option<String> {
        self.open.as_ref()?.sizes.as_ref()?.words()
    }
}

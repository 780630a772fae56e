//! `kind = "query"`: requests to several servers at once, the next when all have answered.

use std::sync::Arc;

use knee_file::keys::Key;
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_run::outcome::RpcRecord;
use knee_run::spec::{NodeId, Run, Traffic};

use super::connections::{CONNECTIONS, Connections};
use super::pairs::BETWEEN;
use super::{
    COMMON, Described, EntryInRun, EntryParts, EntryReader, Group, NAMED, Pattern, TIMED,
    TrafficSpec,
};
use super::{cut_off, rounds};
use crate::metric::{Kind, Known, Measured, Metric as M};

const REQUEST_BYTES: u64 = 100;

keys! {
    /// Requests to all of `to` at once, the next when all have answered.
    static KEYS: QueryKeys = "query" {
        /// Request size.
        request: Key<Size> = or(Size(REQUEST_BYTES)),
        /// Size of each response.
        response: Key<Size> = usually("from `total`"),
        /// Size of all responses together.
        total: Key<Size> = usually("from `response`"),
        /// Number of queries.
        count: Key<u64> = within(1, 1_000_000_000).usually("without end"),
    }
}

pub(super) static QUERY: Described =
    Described { keys: &[&NAMED, &BETWEEN, &COMMON, &TIMED, &CONNECTIONS, &KEYS], read };

#[derive(Debug)]
struct Query;

fn read(entry: &EntryReader<'_>) -> Result<EntryParts, Error> {
    let pairs = entry.all_pairs()?;
    let mut connections = Connections::read_alone(entry)?;
    rounds::check_flows(entry.reader, BETWEEN.to.as_ref(), pairs.len() as u64)?;
    connections.traffic = read_queries(entry.reader, &pairs)?.into();
    let (connections, pattern) = (Some(connections), Arc::new(Query));
    Ok(EntryParts { kind: Kind::Query, pairs, connections, pattern })
}

/// Reads the queries of each client's connections.
fn read_queries(reader: &Reader<'_>, pairs: &[(NodeId, NodeId)]) -> Result<Vec<Traffic>, Error> {
    let request = reader.read(&KEYS.request)?.0;
    let response = reader.get(&KEYS.response)?;
    let total = reader.get(&KEYS.total)?;
    let count = reader.get(&KEYS.count)?;
    let of_servers = |servers: u64| match (response, total) {
        (Some(Size(response)), None) => Ok(response),
        (None, Some(Size(total))) if total >= servers => Ok(total / servers),
        (None, Some(_)) => Err(reader.error(
            &KEYS.total,
            format!("must be at least one byte from each of the {servers} servers"),
        )),
        (Some(_), Some(_)) => {
            Err(reader.error(&KEYS.total, "conflicts with \"response\": leave one out"))
        }
        (None, None) => Err(reader.error(
            &KEYS.response,
            "missing, as in response = \"20 kB\" of each server, or total = \"1 MB\"",
        )),
    };
    pairs
        .iter()
        .map(|(client, _)| {
            let servers = pairs.iter().filter(|(other, _)| other == client).count() as u64;
            Ok(Traffic::Rpc { request_bytes: request, response_bytes: of_servers(servers)?, count })
        })
        .collect()
}

impl Pattern for Query {
    fn build(&self, entry: &TrafficSpec, in_run: &EntryInRun, run: &mut Run) {
        let first = entry.connect(in_run, run);
        let clients = rounds::by_host(&run.flows[first..], |flow| flow.from).into_values();
        let number = |i: usize| (first + i) as u32;
        let sets = clients.map(|set| set.into_iter().map(number).collect());
        run.schedule.together.extend(sets);
    }

    /// Measures queries that all servers have answered: their times, and the share with a timeout. A query whose timeout
    /// was cut off by the end of the run counts in the share. The time of a query that waits for answers when the window ends
    /// is what it took in the end, or at least its age.
    fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        group.measure_unfinished(measured);
        let facts = group.facts;
        if facts.is_window_empty() {
            return;
        }
        let (run, outcome) = (facts.run, facts.outcome);
        let mut of_flow: Vec<Vec<&RpcRecord>> = vec![Vec::new(); run.flows.len()];
        for rpc in &outcome.rpcs {
            if let Some(records) = of_flow.get_mut(rpc.flow as usize) {
                records.push(rpc);
            }
        }
        // Queries, those with a timeout, and whether timeouts are known.
        let (mut queries, mut late, mut are_known, mut unanswered) = (0, 0, true, 0);
        let is_of_group = |set: &&Vec<u32>| {
            set.first().is_some_and(|flow| run.flows[*flow as usize].group == group.number)
        };
        for set in run.schedule.together.iter().filter(is_of_group) {
            let records = || set.iter().map(|flow| &of_flow[*flow as usize]);
            let done = records().map(Vec::len).min().unwrap_or(0);
            let waits_for = || set.iter().filter_map(|flow| facts.waiting(*flow as usize));
            if waits_for().next().is_some() {
                let until = facts.window.map_or(outcome.end, |window| window.until);
                let is_in = |query: &&Vec<&RpcRecord>, at: usize| {
                    query[at].start + query[at].latency <= until
                };
                // The number of the query that waits: the servers have answered those before it.
                let answered = |at: &usize| records().all(|of_server| is_in(&of_server, *at));
                let open = (0..done).take_while(answered).count();
                let time = match open < done {
                    true => {
                        let parts = || records().map(|of_server| of_server[open]);
                        let start = parts().map(|rpc| rpc.start).min();
                        let last = parts().map(|rpc| rpc.start + rpc.latency).max();
                        start.map(|start| Known::between(start, last, outcome.end))
                    }
                    false => waits_for().max_by_key(|known| known.least()),
                };
                time.into_iter().for_each(|time| measured.record_time(M::Latency, time));
            }
            for query in 0..done {
                let parts = || records().map(|of_server| of_server[query]);
                let ends = parts().map(|rpc| rpc.start + rpc.latency).max();
                let Some((start, end)) = parts().map(|rpc| rpc.start).min().zip(ends) else {
                    continue;
                };
                if !facts.holds(end) {
                    continue;
                }
                measured.record(M::Latency, end.since(start).ns());
                queries += 1;
                late += u64::from(parts().any(|rpc| rpc.timeouts.is_some_and(|count| count > 0)));
                are_known &= parts().all(|rpc| rpc.timeouts.is_some());
            }
            // A query cut off by the end of the run counts if it has waited for a timer, because such queries take
            // longest.
            let waits = set.iter().any(|flow| {
                let of_answered = of_flow[*flow as usize].iter().filter_map(|rpc| rpc.timeouts);
                let got = outcome.flows.get(*flow as usize);
                let timeouts = got.and_then(|got| cut_off::timeouts_of_exchanges(&got.counters));
                timeouts.is_some_and(|timeouts| timeouts > of_answered.sum())
            });
            if waits && facts.holds(outcome.end) {
                late += 1;
                unanswered += 1;
            }
        }
        measured.record(M::Exchanges, queries);
        if are_known {
            Group::record_share(measured, M::TimeoutShare, late, queries + unanswered);
        }
    }
}

//! Transfers that wait for others: consecutive rounds, shuffles, and queries to many servers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use knee_file::keys::{Choice, Key, List};
use knee_file::units::Size;
use knee_file::{Error, Reader, keys};
use knee_queue::time::Time;
use knee_run::spec::{Flow, NodeId, Schedule, Sequence, Series, Traffic};

use super::{Connections, MAX_FLOWS};
use crate::metric::Kind;
use crate::random::Random;

const REQUEST_BYTES: u64 = 100;

keys! {
    /// Transfers from each to each.
    pub(super) static SHUFFLE: ShuffleKeys = "shuffle" {
        /// Transfer size, or one per flow.
        size: Key<List<Size>> = needed("10 kB"),
        /// Rounds, one after another, on new connections.
        rounds: Key<u64> = or(1).within(1, MAX_FLOWS),
        /// Parallel transfers per host.
        parallel: Key<u32> = or(4).within(1, MAX_FLOWS),
        /// Count parallel transfers per sender or receiver.
        per: Choice<Per> = of(&[("sender", Per::Sender), ("receiver", Per::Receiver)]).or("receiver"),
        /// First transfer: to the next host, or random.
        order: Choice<Turn> = of(&[("rotated", Turn::Rotated), ("random", Turn::Random)]).or("rotated"),
    }
}

keys! {
    /// Requests to all of `to` at once, the next when all have answered.
    pub(super) static QUERY: QueryKeys = "query" {
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

/// Dependencies between the flows of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// Incast: a round begins when the previous one is done.
    Rounds,
    /// Each host has at most `parallel` transfers at a time. Rounds follow each other as in incast.
    Shuffle { parallel: u32, per: Per, order: Turn },
    /// A client sends its next query when all of its servers have answered.
    Queries { traffic: Arc<[Traffic]> },
}

/// The side at which parallel transfers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    Sender,
    Receiver,
}

/// Order of a host's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Each host begins with the next one in the list.
    Rotated,
    /// A random order for each host and round.
    Random,
}

/// Reads the keys of queries and shuffles. `pairs` holds all pairs of hosts.
pub(crate) fn read(
    reader: &Reader<'_>,
    kind: Kind,
    pairs: &[(NodeId, NodeId)],
    connections: Connections,
) -> Result<Connections, Error> {
    let flows = (pairs.len() as u64).saturating_mul(connections.rounds);
    if flows > MAX_FLOWS {
        let key = if reader.has(&SHUFFLE.rounds) { SHUFFLE.rounds.as_ref() } else { "to" };
        let message = format!("gives {flows} flows, but at most {MAX_FLOWS} are allowed");
        return Err(reader.error(key, message));
    }
    let waiting = if kind == Kind::Shuffle {
        Waiting::Shuffle {
            parallel: reader.read(&SHUFFLE.parallel)?,
            per: reader.choose(&SHUFFLE.per)?,
            order: reader.choose(&SHUFFLE.order)?,
        }
    } else {
        Waiting::Queries { traffic: read_queries(reader, pairs)? }
    };
    // Queries take their traffic from their servers, flow by flow.
    let traffic = match &waiting {
        Waiting::Queries { traffic } => Arc::clone(traffic),
        _ => Arc::clone(&connections.traffic),
    };
    Ok(Connections { traffic, waiting: Some(waiting), ..connections })
}

/// Reads the queries of each client's connections.
fn read_queries(reader: &Reader<'_>, pairs: &[(NodeId, NodeId)]) -> Result<Arc<[Traffic]>, Error> {
    let request = reader.read(&QUERY.request)?.0;
    let response = reader.get(&QUERY.response)?;
    let total = reader.get(&QUERY.total)?;
    let count = reader.get(&QUERY.count)?;
    let of_servers = |servers: u64| match (response, total) {
        (Some(Size(response)), None) => Ok(response),
        (None, Some(Size(total))) if total >= servers => Ok(total / servers),
        (None, Some(_)) => Err(reader.error(
            &QUERY.total,
            format!("must be at least one byte from each of the {servers} servers"),
        )),
        (Some(_), Some(_)) => {
            Err(reader.error(&QUERY.total, "conflicts with \"response\": leave one out"))
        }
        (None, None) => Err(reader.error(
            &QUERY.response,
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

impl Waiting {
    /// Adds the dependencies to the run. `flows` are those of the entry, round by round, numbered
    /// from `entry.first`.
    pub(crate) fn arrange(
        &self,
        flows: &mut [Flow],
        entry: &Entry,
        mut random: Random,
        schedule: &mut Schedule,
    ) {
        let number = |i: usize| (entry.first + i) as u32;
        let per_round = flows.len() / entry.rounds as usize;
        match self {
            Waiting::Queries { .. } => {
                let sets = by_host(flows, |flow| flow.from).into_values();
                schedule.together.extend(sets.map(|set| set.into_iter().map(number).collect()));
            }
            Waiting::Rounds => {
                // Each receiver with its own rounds proceeds independently.
                let whose = |flow: &Flow| if entry.per_target { flow.to } else { 0 };
                let mut series: BTreeMap<NodeId, Series> = BTreeMap::new();
                for (round, flows) in flows.chunks(per_round).enumerate() {
                    for (host, members) in by_host(flows, whose) {
                        let flows = members.into_iter().map(|i| number(round * per_round + i));
                        let lane = Sequence { flows: flows.collect(), parallel: u32::MAX };
                        series.entry(host).or_default().rounds.push(vec![lane]);
                    }
                }
                schedule.series.extend(series.into_values());
            }
            Waiting::Shuffle { parallel, per, order: turn } => {
                let whose = |flow: &Flow| if *per == Per::Sender { flow.from } else { flow.to };
                let mut series = Series::default();
                for (round, flows) in flows.chunks_mut(per_round).enumerate() {
                    let mut lanes = Vec::new();
                    for (place, mut members) in by_host(flows, whose).into_values().enumerate() {
                        match turn {
                            Turn::Rotated => {
                                let length = members.len();
                                members.rotate_left(place % length);
                            }
                            Turn::Random => shuffle(&mut members, &mut random),
                        }
                        if round == 0 {
                            // The start time of waiting flows counts from their turn, not from the start of the
                            // entry.
                            for i in members.iter().skip(*parallel as usize) {
                                flows[*i].start = Time::ZERO + flows[*i].start.since(entry.start);
                            }
                        }
                        let flows = members.into_iter().map(|i| number(round * per_round + i));
                        lanes.push(Sequence { flows: flows.collect(), parallel: *parallel });
                    }
                    series.rounds.push(lanes);
                }
                schedule.series.push(series);
            }
        }
    }
}

/// An entry's flows in a run.
pub(crate) struct Entry {
    /// Number of its first flow.
    pub(crate) first: usize,
    pub(crate) start: Time,
    pub(crate) rounds: u64,
    /// Whether each receiver has its own rounds.
    pub(crate) per_target: bool,
}

/// Groups the indices of flows by one of their hosts.
fn by_host(flows: &[Flow], host: impl Fn(&Flow) -> NodeId) -> BTreeMap<NodeId, Vec<usize>> {
    let mut all: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (i, flow) in flows.iter().enumerate() {
        all.entry(host(flow)).or_default().push(i);
    }
    all
}

/// Shuffles uniformly (Fisher and Yates).
fn shuffle(all: &mut [usize], random: &mut Random) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
}

//! An entry of a file, ready to build the flows of any repeat.

use std::sync::Arc;

use knee_algo::Algorithm;
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Flow, NodeId, Run, Traffic};

use super::connections::Connections;
use super::{Converged, EntryInRun, Group, Pattern};
use crate::metric::{Kind, Measured, Metric};

/// Hosts of `from` and `to` of drawn pairs.
type FromToRef<'a> = (&'a [NodeId], &'a [NodeId]);

/// A traffic entry, ready to build the flows of any repeat.
#[derive(Clone, Debug)]
pub struct TrafficSpec {
    /// Index of its `[[traffic]]` table in the file.
    pub(crate) table: usize,
    /// Whether that names no algorithm.
    pub(super) takes_case_cc: bool,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Metrics in the table.
    pub(crate) show: Vec<Metric>,
    /// Sending and receiving host of each connection of a round, or of each stream of packets.
    pub(super) pairs: Vec<(NodeId, NodeId)>,
    pub(super) start: Duration,
    pub(super) start_jitter: Duration,
    /// Criterion for fair sharing of its transfers.
    pub(super) converged: Option<Converged>,
    /// Settings of its connections, if it has any.
    pub(super) connections: Option<Connections>,
    pub(crate) pattern: Arc<dyn Pattern>,
}

impl TrafficSpec {
    /// Splits an entry with `each` into one entry per sender.
    pub(super) fn of_each(self, senders: usize) -> Vec<TrafficSpec> {
        if senders == 1 {
            return vec![self];
        }
        // Pair i belongs to sender i modulo their number.
        let all = &self.pairs;
        let common = TrafficSpec { pairs: Vec::new(), ..self.clone() };
        let entry = |sender| {
            let pairs = all.get(sender..).unwrap_or_default().iter();
            TrafficSpec { pairs: pairs.step_by(senders).copied().collect(), ..common.clone() }
        };
        (0..senders).map(entry).collect()
    }

    /// Measures what its kind alone has, of all entries of a name together.
    pub fn measure(&self, measured: &mut Measured, group: &Group<'_>) {
        self.pattern.measure(measured, group);
    }

    /// Returns the largest number of connections that it makes in a run.
    pub(crate) fn flows(&self) -> u64 {
        self.pattern.flows(self)
    }

    /// Returns the number of connections if each pair has one in each round.
    pub(super) fn flows_of_pairs(&self) -> u64 {
        (self.pairs.len() as u64).saturating_mul(self.rounds())
    }

    /// Returns the number of rounds.
    pub(super) fn rounds(&self) -> u64 {
        self.connections.as_ref().map_or(1, |connections| connections.rounds.count)
    }

    /// Returns the last start of connections of pairs that start when the file says.
    pub(super) fn last_start_of_pairs(&self) -> Option<Duration> {
        let connections = self.connections.as_ref()?;
        let last = (self.pairs.len() as u64).saturating_sub(1);
        let rounds = connections.rounds.count.saturating_sub(1);
        Some(
            self.start
                + self.start_jitter
                + times(connections.stagger, last)
                + times(connections.rounds.every, rounds),
        )
    }

    /// Returns the last start that the file gives to its transfers or exchanges. `None` if they do not end, so that no run
    /// cuts them off.
    pub(crate) fn last_start(&self) -> Option<Duration> {
        self.pattern.last_start(self)
    }

    /// Returns the number of host pairs, or of hosts that are paired at random.
    pub(crate) fn size(&self) -> usize {
        let drawn = |(from, to): FromToRef<'_>| from.len() + to.len();
        self.pairs.len() + self.pattern.drawn_hosts().map_or(0, drawn)
    }

    fn have_answers(&self) -> bool {
        self.connections.as_ref().is_some_and(Connections::have_answers)
    }

    /// Returns the number of pings that it sends until `end`.
    pub(crate) fn pings(&self, end: Time) -> u64 {
        let of_stream = |interval: Duration| end.ps() / interval.ps();
        let of_stream = self.pattern.ping_interval().map_or(0, of_stream);
        of_stream.saturating_mul(self.pairs.len() as u64)
    }

    /// Returns the largest number of its requests that arrive at times of their own until `end`.
    pub(crate) fn requests(&self, end: Time) -> u64 {
        self.pattern.requests(self, end)
    }

    /// Returns the number of its ping streams.
    pub fn ping_streams(&self) -> usize {
        self.pattern.ping_interval().map_or(0, |_| self.pairs.len())
    }

    /// Returns the criterion for fair sharing of its transfers.
    pub(crate) fn converged(&self) -> Option<Converged> {
        self.converged
    }

    /// Returns whether any of its connections ends by itself.
    pub(crate) fn can_end(&self) -> bool {
        let traffic = self.connections.iter().flat_map(|connections| connections.traffic.iter());
        self.drawn_sizes().is_some() || traffic.into_iter().any(Traffic::ends)
    }

    /// Returns whether its connections are under an algorithm of its own.
    pub(crate) fn names_cc(&self) -> bool {
        self.connections.is_some() && !self.takes_case_cc
    }

    /// Returns whether any of its connections is under the case's algorithm.
    pub(crate) fn takes_case_cc(&self) -> bool {
        self.takes_case_cc && self.flows() > 0
    }

    /// Returns the algorithm of the connecting side.
    pub(crate) fn algorithm(&self) -> Option<&'static Algorithm> {
        Some(self.connections.as_ref()?.cc.algorithm)
    }

    /// Returns the algorithm of the listening side, if it has its own.
    pub(crate) fn peer_algorithm(&self) -> Option<&'static Algorithm> {
        Some(self.connections.as_ref()?.peer_cc.as_ref()?.algorithm)
    }

    /// Returns its start time without jitter.
    pub(crate) fn start(&self) -> Duration {
        self.start
    }

    /// Returns the number of sampled connections.
    pub(crate) fn sampled_flows(&self) -> u64 {
        let sampled = self.connections.as_ref().is_some_and(|connections| connections.sampled);
        if sampled { self.flows() } else { 0 }
    }

    /// Returns the hosts whose switch port its data passes.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = NodeId> + '_ {
        let answers = self.have_answers();
        let of_pairs = self
            .pairs
            .iter()
            .flat_map(move |(from, to)| [Some(*to), answers.then_some(*from)])
            .flatten();
        of_pairs.chain(self.pattern.drawn_hosts().into_iter().flat_map(|(_, to)| to).copied())
    }

    /// Returns the hosts that send data.
    pub(crate) fn senders(&self) -> impl Iterator<Item = NodeId> + '_ {
        let answers = self.have_answers();
        let of_pairs = self.pairs.iter().flat_map(move |(from, to)| {
            [Some(*from), answers.then_some(*to)].into_iter().flatten()
        });
        of_pairs.chain(self.pattern.drawn_hosts().into_iter().flat_map(|(from, _)| from).copied())
    }

    /// Returns the pairs of hosts that send to each other, and the hosts of drawn pairs: any of the first may send to
    /// any other of the second.
    pub(crate) fn ways(&self) -> (&[(NodeId, NodeId)], Option<FromToRef<'_>>) {
        (&self.pairs, self.pattern.drawn_hosts())
    }

    /// Returns the smallest and the largest transfer, if sizes are drawn.
    pub(crate) fn drawn_sizes(&self) -> Option<(u64, u64)> {
        self.pattern.drawn_sizes()
    }

    /// Returns the number of messages and computations.
    pub(crate) fn tasks(&self) -> u64 {
        self.pattern.tasks()
    }

    /// Adds its flows or pings to a run.
    pub(crate) fn build(&self, in_run: &EntryInRun, run: &mut Run) {
        self.pattern.build(self, in_run, run);
    }

    /// Adds a connection for each pair and round. Returns the number of the first.
    pub(super) fn connect(&self, in_run: &EntryInRun, run: &mut Run) -> usize {
        let first = run.flows.len();
        let Some(connections) = &self.connections else { return first };
        let mut jitter = in_run.random(1);
        let shift = connections.start_shift;
        let both_ways = Duration::from_ps(shift.ps() * 2);
        let moved = Time::ZERO + self.start + in_run.random(2).up_to(both_ways) - shift;
        let rounds = connections.rounds;
        for round in 0..rounds.count {
            // The start time of a waiting flow counts from its turn.
            let waits = rounds.wait && round > 0;
            let start = if waits { Time::ZERO } else { moved + times(rounds.every, round) };
            run.flows.extend(self.pairs.iter().zip(0u64..).map(|(&(from, to), i)| {
                Flow {
                    from,
                    to,
                    start: start + times(connections.stagger, i) + jitter.up_to(self.start_jitter),
                    stop: connections
                        .stop
                        .map(|stop| Time::ZERO + stop + times(connections.stop_stagger, i)),
                    traffic: connections.traffic[i as usize % connections.traffic.len()],
                    ..connections.flow(in_run.group)
                }
            }));
        }
        first
    }
}

fn times(duration: Duration, n: u64) -> Duration {
    Duration::from_ps(duration.ps().saturating_mul(n))
}

//! Transfers and exchanges that the end of the run cut off.
//!
//! A transfer of a size has taken at least its age. An exchange is another matter: a connection that sends the next request
//! after each answer is always in one. One that is soon answered is no news, and to count it would say less of all others.
//! One that waits, as at a link that is down or for a retransmission timer, would be missing everywhere: it has no latency.
//! So would a ping that is lost; one that is in flight when the run ends is no news.

use std::collections::HashMap;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowCounters, FlowOutcome, Outcome, PingRecord, RpcRecord};
use knee_run::spec::{Pool, Run};

use crate::metric::Known;

/// Returns the completion time of a transfer, or its age. `None` if it has not begun.
pub(super) fn completion(flow: &FlowOutcome, end: Time) -> Option<Known> {
    let cut_off = flow.stopped_at.unwrap_or(end);
    Some(Known::between(flow.connected_at?, flow.done_at, cut_off))
}

/// Returns the retransmission timeouts of a connection behind its handshake: those of its exchanges. `None` if a host does not
/// tell, or not which were of the handshake.
pub(super) fn timeouts_of_exchanges(counters: &FlowCounters) -> Option<u64> {
    match counters.timeouts? {
        0 => Some(0),
        all => Some(all.saturating_sub(counters.syn_timeouts?)),
    }
}

/// The exchanges of a connection that were answered by some time.
#[derive(Clone, Copy, Default)]
struct Answered<'a> {
    count: u64,
    /// Start and end of the last one.
    last: (Time, Time),
    longest: Duration,
    /// Retransmission timeouts; `None`: a host does not tell.
    timeouts: Option<u64>,
    /// The first exchange that was answered later.
    next: Option<&'a RpcRecord>,
}

impl Answered<'_> {
    /// Returns whether an exchange that began at `begin` and was not answered at `until` waits: it has had a retransmission
    /// timeout, or has taken longer than each before it.
    fn waits(&self, got: &FlowOutcome, begin: Time, until: Time) -> bool {
        let of_next = self.next.map(|next| next.timeouts.map(|count| count > 0));
        let timeouts = || timeouts_of_exchanges(&got.counters).zip(self.timeouts);
        let is_late = of_next.unwrap_or_else(|| timeouts().map(|(all, answered)| all > answered));
        begin < until && (is_late == Some(true) || until.since(begin) > self.longest)
    }
}

/// Returns for each flow the exchange that waits for an answer at `until`: its latency if it was answered later, or else at
/// least its age. Empty if no flow has exchanges.
pub(super) fn waiting(run: &Run, outcome: &Outcome, until: Time) -> Vec<Option<Known>> {
    let is_in_pool = in_pools(run);
    let has_exchanges = |flow: usize| {
        run.flows[flow].traffic.is_rpc() && !is_in_pool.get(flow).is_some_and(|it| *it)
    };
    if outcome.flows.len() < run.flows.len() || !(0..run.flows.len()).any(has_exchanges) {
        return Vec::new();
    }
    let none = Answered { timeouts: Some(0), ..Answered::default() };
    let mut answered = vec![none; run.flows.len()];
    for rpc in &outcome.rpcs {
        let Some(of_flow) = answered.get_mut(rpc.flow as usize) else { continue };
        if rpc.start + rpc.latency > until {
            of_flow.next.get_or_insert(rpc);
            continue;
        }
        of_flow.count += 1;
        of_flow.last = (rpc.start, rpc.start + rpc.latency);
        of_flow.longest = of_flow.longest.max(rpc.latency);
        of_flow.timeouts = of_flow.timeouts.zip(rpc.timeouts).map(|(sum, more)| sum + more);
    }
    // The start of what each flow asked last; `None`: it has an answer, and waits for flows that send together with it.
    let mut begins: Vec<Option<Time>> = answered.iter().map(|it| Some(it.last.1)).collect();
    for set in &run.schedule.together {
        let of_set = || set.iter().map(|flow| (*flow as usize, &answered[*flow as usize]));
        let Some(round) = of_set().map(|(_, it)| it.count).min() else { continue };
        let this_round = of_set().find(|(_, it)| it.count > round).map(|(_, it)| it.last.0);
        let begin = this_round.or_else(|| of_set().map(|(_, it)| it.last.1).max());
        for (flow, it) in of_set() {
            begins[flow] = begin.filter(|_| it.count == round);
        }
    }
    let waits = |flow: usize| {
        let (got, it) = (&outcome.flows[flow], &answered[flow]);
        let has_ended = [got.done_at, got.stopped_at].into_iter().flatten().any(|at| at <= until);
        let (Some(connected), Some(begin)) = (got.connected_at, begins[flow]) else { return None };
        let first = run.flows[flow].first_write.unwrap_or(Time::ZERO);
        let begin = it.next.map_or(begin.max(connected).max(first), |next| next.start);
        if has_ended || !it.waits(got, begin, until) {
            return None;
        }
        Some(match (it.next, got.established_at) {
            (Some(next), _) => Known::Took(next.latency),
            (None, Some(_)) => Known::AtLeast(outcome.end.since(begin)),
            // The request waits for a handshake: nothing is known of its latency.
            (None, None) => Known::AtLeast(Duration::ZERO),
        })
    };
    (0..run.flows.len()).map(|flow| waits(flow).filter(|_| has_exchanges(flow))).collect()
}

/// Returns for each flow whether its requests arrive at times of their own; empty if none do.
pub(super) fn in_pools(run: &Run) -> Vec<bool> {
    let pools = &run.schedule.pools;
    let mut are = vec![false; if pools.is_empty() { 0 } else { run.flows.len() }];
    for flow in pools.iter().flat_map(|pool| &pool.flows) {
        are[*flow as usize] = true;
    }
    are
}

/// Returns the requests of each pool that had arrived and were not answered when the run ended, by their arrivals.
pub(super) fn unanswered(run: &Run, outcome: &Outcome) -> Vec<Vec<Time>> {
    let pools = &run.schedule.pools;
    if pools.is_empty() {
        return Vec::new();
    }
    let of_flows: HashMap<u32, usize> = (0..)
        .zip(pools)
        .flat_map(|(number, pool)| pool.flows.iter().map(move |flow| (*flow, number)))
        .collect();
    let mut answered: Vec<Vec<Time>> = vec![Vec::new(); pools.len()];
    for rpc in &outcome.rpcs {
        if let Some(pool) = of_flows.get(&rpc.flow) {
            answered[*pool].push(rpc.start);
        }
    }
    let of_pool = |(pool, mut answered): (&Pool, Vec<Time>)| {
        answered.sort_unstable();
        let mut answered = answered.into_iter().peekable();
        let arrivals = pool.arrivals_ns.iter().map(|at_ns| Time::from_ns(*at_ns));
        let arrived = arrivals.take_while(|at| *at <= outcome.end);
        arrived.filter(|at| answered.next_if_eq(at).is_none()).collect()
    };
    pools.iter().zip(answered).map(of_pool).collect()
}

/// The pings of a stream that were answered.
#[derive(Clone, Copy, Default)]
pub(super) struct AnsweredPings {
    longest: Duration,
    /// When the last of them was sent.
    last_sent: Time,
}

impl AnsweredPings {
    /// Returns whether a ping that nothing had answered when the run ended waits: it has taken longer than each that was
    /// answered, or a later one has overtaken it.
    pub(super) fn waits(self, ping: &PingRecord, end: Time) -> bool {
        ping.sent < self.last_sent || (ping.sent < end && end.since(ping.sent) > self.longest)
    }
}

/// Returns for each of so many streams what was answered.
pub(super) fn answered_pings(outcome: &Outcome, streams: usize) -> Vec<AnsweredPings> {
    let mut answered = vec![AnsweredPings::default(); streams];
    for ping in &outcome.pings {
        if let (Some(of_stream), Some(rtt)) = (answered.get_mut(ping.ping as usize), ping.rtt) {
            of_stream.longest = of_stream.longest.max(rtt);
            of_stream.last_sent = of_stream.last_sent.max(ping.sent);
        }
    }
    answered
}

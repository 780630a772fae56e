//! The outcome of a run from those of its domains.

use crate::domains::Division;
use knee_queue::time::Time;
use knee_run::outcome::{FlowOutcome, Outcome, QueueOutcome, RpcRecord, Windowed};
use knee_run::spec::Run;

/// The outcome of one domain. What the domain does not have is 0 or absent.
pub(crate) struct Part {
    pub(crate) outcome: Outcome,
    /// For each exchange, the time until which timeouts belong to it.
    pub(crate) exchange_ends: Vec<Time>,
    /// Timeouts of the servers of exchanges: flow and time.
    pub(crate) server_timeouts: Vec<(u32, Time)>,
}

/// Merges the parts, which are in the order of their domains.
pub(crate) fn outcome(run: &Run, division: &Division, parts: Vec<Part>) -> Outcome {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return Outcome::default() };
    for (part, domain) in parts.zip(1..) {
        all.exchange_ends.extend(part.exchange_ends);
        all.server_timeouts.extend(part.server_timeouts);
        let (into, from) = (&mut all.outcome, part.outcome);
        into.rpcs.extend(from.rpcs);
        into.pings.extend(from.pings);
        into.flow_samples.extend(from.flow_samples);
        into.queue_samples.extend(from.queue_samples);
        into.goodput_samples.extend(from.goodput_samples);
        into.link_samples.extend(from.link_samples);
        for ((into, from), flow) in into.flows.iter_mut().zip(from.flows).zip(&run.flows) {
            let has_client = division.domain_of(flow.from) == domain;
            add_flow(into, from, has_client);
        }
        let is_here = |queue: &QueueOutcome| {
            division.domain_of(run.network.links[queue.link as usize].from) == domain
        };
        replace_queues(&mut into.queues, from.queues, is_here);
        if let (Some(into), Some(from)) = (&mut into.window, from.window) {
            add_window(into, from, is_here);
        }
        into.work.events += from.work.events;
        into.work.data_pkts += from.work.data_pkts;
        into.work.pkt_hops += from.work.pkt_hops;
    }
    let outcome = &mut all.outcome;
    outcome.flow_samples.sort_by_key(|sample| (sample.at, sample.flow));
    outcome.queue_samples.sort_by_key(|sample| (sample.at, sample.link, sample.part));
    outcome.goodput_samples.sort_by_key(|sample| (sample.at, sample.flow));
    outcome.link_samples.sort_by_key(|sample| (sample.at, sample.link));
    all.finish()
}

impl Part {
    /// Completes the outcome of a whole run.
    pub(crate) fn finish(mut self) -> Outcome {
        self.server_timeouts.sort_unstable();
        let mut exchanges: Vec<(RpcRecord, Time)> =
            self.outcome.rpcs.drain(..).zip(self.exchange_ends).collect();
        exchanges.sort_by_key(|(exchange, _)| (exchange.start + exchange.latency, exchange.flow));
        let timeouts = &self.server_timeouts;
        let counted = exchanges.into_iter().map(|(mut exchange, end)| {
            let before = |at: Time| timeouts.partition_point(|it| *it < (exchange.flow, at));
            let servers = before(end) - before(exchange.start);
            exchange.timeouts = exchange.timeouts.map(|clients| clients + servers as u64);
            exchange
        });
        self.outcome.rpcs = counted.collect();
        self.outcome.pings.sort_by_key(|ping| (ping.sent, ping.ping));
        self.outcome
    }
}

/// Adds the counts of a flow in one domain to those in others.
fn add_flow(into: &mut FlowOutcome, from: FlowOutcome, has_client: bool) {
    let counters = into.counters.plus(&from.counters);
    let received_bytes = into.received_bytes + from.received_bytes;
    let done_at = into.done_at.or(from.done_at);
    let warnings = into.warnings.drain(..).chain(from.warnings.clone()).collect();
    if has_client {
        *into = from;
    }
    *into = FlowOutcome { counters, received_bytes, done_at, warnings, ..std::mem::take(into) };
}

fn replace_queues(
    into: &mut [QueueOutcome],
    from: Vec<QueueOutcome>,
    is_here: impl Fn(&QueueOutcome) -> bool,
) {
    for (into, from) in into.iter_mut().zip(from) {
        if is_here(&from) {
            *into = from;
        }
    }
}

fn add_window(into: &mut Windowed, from: Windowed, is_here: impl Fn(&QueueOutcome) -> bool) {
    for (into, from) in into.flows.iter_mut().zip(from.flows) {
        into.received_bytes += from.received_bytes;
        into.counters = into.counters.plus(&from.counters);
    }
    replace_queues(&mut into.queues, from.queues, is_here);
}

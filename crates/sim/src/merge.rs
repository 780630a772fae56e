//! The outcome of a run from those of its domains.

use crate::domains::Division;
use knee_queue::time::Time;
use knee_run::outcome::{FlowOutcome, FlowWindow, Outcome, PingRecord, RpcRecord};
use knee_run::spec::Run;
use std::collections::HashMap;
use std::vec::IntoIter;

/// The outcome of one domain: its links, and the flows with an end in it. What the domain does not
/// know of a flow is 0 or absent.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) outcome: Outcome,
    /// For each exchange, the time until which timeouts belong to it.
    pub(crate) exchange_ends: Vec<Time>,
    /// Timeouts of the servers of exchanges: flow and time.
    pub(crate) server_timeouts: Vec<(u32, Time)>,
    /// Packets that came one way: stream, number and time.
    pub(crate) arrivals: Vec<(u32, u32, Time)>,
    /// Packets that go one way and had not come when the run ended: stream and number.
    pub(crate) in_flight: Vec<(u32, u32)>,
}

/// Merges the parts, which are in the order of their domains.
pub(crate) fn outcome(run: &Run, division: &Division, parts: Vec<Part>) -> Outcome {
    let mut all = Part::default();
    let (mut flows, mut windows) = (Vec::new(), Vec::new());
    for part in parts {
        all.exchange_ends.extend(part.exchange_ends);
        all.server_timeouts.extend(part.server_timeouts);
        all.arrivals.extend(part.arrivals);
        all.in_flight.extend(part.in_flight);
        let (into, from) = (&mut all.outcome, part.outcome);
        into.end = from.end;
        into.rpcs.extend(from.rpcs);
        into.pings.extend(from.pings);
        into.flow_samples.extend(from.flow_samples);
        into.queue_samples.extend(from.queue_samples);
        into.goodput_samples.extend(from.goodput_samples);
        into.link_samples.extend(from.link_samples);
        into.host_counts.extend(from.host_counts);
        into.queues.extend(from.queues);
        flows.push(from.flows.into_iter());
        if let Some(from) = from.window {
            into.window.get_or_insert_default().queues.extend(from.queues);
            windows.push(from.flows.into_iter());
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
    outcome.host_counts.sort_by_key(|host| host.node);
    outcome.queues.sort_by_key(|queue| (queue.link, queue.part));
    outcome.flows = both_ends(run, division, &mut flows, add_flow);
    if let Some(window) = &mut outcome.window {
        window.queues.sort_by_key(|queue| (queue.link, queue.part));
        window.flows = both_ends(run, division, &mut windows, |client, server| FlowWindow {
            received_bytes: client.received_bytes + server.received_bytes,
            counters: client.counters.plus(&server.counters),
        });
    }
    all.finish()
}

/// Joins what the domains know of each flow. Each has a list of its flows, in their order.
fn both_ends<T>(
    run: &Run,
    division: &Division,
    domains: &mut [IntoIter<T>],
    add: impl Fn(T, T) -> T,
) -> Vec<T> {
    let flows = run.flows.iter().filter_map(|flow| {
        let [client, server] = [flow.from, flow.to].map(|node| division.domain_of(node) as usize);
        let of_client = domains.get_mut(client)?.next()?;
        if client == server {
            return Some(of_client);
        }
        Some(add(of_client, domains.get_mut(server)?.next()?))
    });
    flows.collect()
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
        add_arrivals(&mut self.outcome.pings, &self.arrivals, &self.in_flight);
        self.outcome
    }
}

/// Tells the records of packets that go one way, which are in the order of sending, when these arrived, or that they are on their
/// way.
fn add_arrivals(sent: &mut [PingRecord], arrivals: &[(u32, u32, Time)], in_flight: &[(u32, u32)]) {
    if arrivals.is_empty() && in_flight.is_empty() {
        return;
    }
    let mut of_stream: HashMap<u32, Vec<usize>> = HashMap::new();
    for (place, record) in sent.iter().enumerate() {
        of_stream.entry(record.ping).or_default().push(place);
    }
    for (stream, number, at) in arrivals {
        let record = &mut sent[of_stream[stream][*number as usize]];
        // Of a copy the first one counts.
        record.rtt.get_or_insert(at.since(record.sent));
    }
    for (stream, number) in in_flight {
        sent[of_stream[stream][*number as usize]].in_flight = true;
    }
}

/// Joins the outcomes of a flow at its two ends.
fn add_flow(client: FlowOutcome, server: FlowOutcome) -> FlowOutcome {
    FlowOutcome {
        counters: client.counters.plus(&server.counters),
        received_bytes: server.received_bytes,
        done_at: client.done_at.or(server.done_at),
        warnings: client.warnings.into_iter().chain(server.warnings).collect(),
        ..client
    }
}

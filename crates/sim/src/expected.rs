//! The load that the flows of a run are expected to bring to each node and link: about the number of events.
//! Only the division into domains depends on it, not the results.

use std::collections::HashMap;

use crate::plan::Plan;
use knee_queue::time::{PS_PER_S, Time};
use knee_run::spec::{Flow, Link, Run, Traffic};

/// Bytes of a full packet.
const PACKET_BYTES: f64 = 1500.0;
/// Data packets per ACK.
const PER_ACK: f64 = 2.0;
/// Events of a packet's sender besides arrivals: timers.
const AT_SENDER: f64 = 1.0;
/// Rate of a link that has none.
const MOST_BYTES_PER_S: f64 = 1e11;
/// Load of a node or link without traffic, for each: memory, and samples.
const IDLE: f64 = 1.0;
/// Load of an end of a flow besides its packets.
const END: f64 = 4.0;

/// The expected load of each thing of a network.
#[derive(Debug)]
pub(crate) struct Loads {
    /// What hosts do, and what a node has without traffic.
    pub(crate) of_nodes: Vec<f64>,
    /// Packets that come to a link.
    pub(crate) of_links: Vec<f64>,
    /// All of it but what things have without packets.
    pub(crate) events: f64,
}

/// Returns the expected loads of a run.
pub(crate) fn loads(run: &Run, plan: &Plan) -> Loads {
    let network = &run.network;
    let links_from = |start: u32| plan.links(start).map(|link| link as usize);
    // Flows without an end share the rates of their links.
    let mut sharing = vec![0u32; network.links.len()];
    let of_pools = of_pools(run);
    let amounts = |index: usize, flow: &Flow| {
        amounts(&flow.traffic).or_else(|| of_pools.get(&(index as u32)).copied())
    };
    for (index, (flow, (there, _))) in run.flows.iter().zip(&plan.of_flows).enumerate() {
        if amounts(index, flow).is_none() {
            links_from(*there).for_each(|link| sharing[link] += 1);
        }
    }
    let mut of_nodes = vec![IDLE; network.nodes.len()];
    let mut of_links = vec![IDLE; network.links.len()];
    let mut events = 0.0;
    for (index, (flow, (there, back))) in run.flows.iter().zip(&plan.of_flows).enumerate() {
        let share =
            |link: usize| bytes_per_s(&network.links[link]) / f64::from(sharing[link].max(1));
        let most =
            links_from(*there).map(share).fold(MOST_BYTES_PER_S, f64::min) * seconds(flow, run.end);
        let (request, response) = match amounts(index, flow) {
            Some((request, response)) => (request.min(most), response.min(most)),
            None => split(&flow.traffic, most),
        };
        let packets = |data: f64, acked: f64| (data + acked / PER_ACK) / PACKET_BYTES;
        let ways = [
            (*there, [flow.from, flow.to], packets(request, response)),
            (*back, [flow.to, flow.from], packets(response, request)),
        ];
        for (start, [sender, receiver], packets) in ways {
            of_nodes[sender as usize] += END + AT_SENDER * packets;
            of_nodes[receiver as usize] += packets;
            events += packets * (AT_SENDER + links_from(start).count() as f64);
            // To the first link they come from the sender itself.
            links_from(start).skip(1).for_each(|link| of_links[link] += packets);
        }
    }
    Loads { of_nodes, of_links, events }
}

/// Returns the bytes of a flow there and back, if it has an end.
fn amounts(traffic: &Traffic) -> Option<(f64, f64)> {
    match traffic {
        Traffic::Bulk { bytes } => bytes.map(|bytes| (bytes as f64, 0.0)),
        Traffic::Rpc { request_bytes, response_bytes, count } => {
            let count = f64::from(u32::try_from((*count)?).unwrap_or(u32::MAX));
            Some((*request_bytes as f64 * count, *response_bytes as f64 * count))
        }
    }
}

/// Returns the bytes there and back of each flow whose requests arrive at times of their own.
fn of_pools(run: &Run) -> HashMap<u32, (f64, f64)> {
    let mut all = HashMap::new();
    for pool in &run.schedule.pools {
        let each = pool.arrivals_ns.len() as f64 / pool.flows.len().max(1) as f64;
        let drawn: u64 = pool.response_bytes.iter().sum();
        for flow in &pool.flows {
            let traffic = &run.flows[*flow as usize].traffic;
            let response = match pool.response_bytes.len() {
                0 => traffic.response_bytes() as f64,
                sizes => drawn as f64 / sizes as f64,
            };
            all.insert(*flow, (traffic.request_bytes() as f64 * each, response * each));
        }
    }
    all
}

/// Splits the bytes of a flow without an end into those there and those back.
fn split(traffic: &Traffic, bytes: f64) -> (f64, f64) {
    match traffic {
        Traffic::Bulk { .. } => (bytes, 0.0),
        Traffic::Rpc { request_bytes, response_bytes, .. } => {
            let (request, response) = (*request_bytes as f64, *response_bytes as f64);
            let of_request = request / (request + response).max(1.0);
            (bytes * of_request, bytes * (1.0 - of_request))
        }
    }
}

/// Returns the time in which a flow may send, s.
fn seconds(flow: &Flow, end: Time) -> f64 {
    let until = flow.stop.map_or(end, |stop| stop.min(end));
    until.since(flow.start.min(until)).ps() as f64 / PS_PER_S as f64
}

fn bytes_per_s(link: &Link) -> f64 {
    link.rate.map_or(MOST_BYTES_PER_S, |rate| rate.bps() as f64 / 8.0)
}

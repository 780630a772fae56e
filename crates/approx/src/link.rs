//! The simulation of one link, with its flows and no other congested place.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_queue::time::{Duration, Time};
use knee_queue::{DropTailConfig, ETHERNET_BYTES, Limit, QueueConfig};
use knee_run::spec::{
    Cable, Flow, HEADER_BYTES, HostConfig, Link, LinkId, Network, NodeId, Run, Sampling, Schedule,
    Serialisation,
};

/// A flow at one link: the rest of its path is time without congestion, so its base RTT stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The link.
    pub(crate) link: LinkId,
    /// The host's own link, which limits its rate; `None`: it is `link`.
    pub(crate) first: Option<LinkId>,
    /// From the end of `first` to `link`.
    before: Duration,
    /// From the end of `link` to the receiver.
    after: Duration,
    /// From the receiver to the sender.
    back: Duration,
}

/// Returns the time that a frame takes over a link without a queue.
fn latency(link: &Link, frame_bytes: u32) -> Duration {
    let sending = match link.serialisation {
        Serialisation::StoreAndForward => link.time_of(frame_bytes).unwrap_or(Duration::ZERO),
        Serialisation::TokenBucket { .. } => Duration::ZERO,
    };
    link.delay + sending
}

fn latencies(network: &Network, links: &[LinkId], frame_bytes: u32) -> Duration {
    let all = links.iter().map(|link| latency(&network.links[*link as usize], frame_bytes).ps());
    Duration::from_ps(all.fold(0, u64::saturating_add))
}

/// Describes a flow at the link at this position of its path.
pub(crate) fn segment(
    network: &Network,
    (there, back): (&[LinkId], &[LinkId]),
    position: usize,
    sender: NodeId,
) -> Segment {
    let host = host(network, sender);
    let frame_bytes = host.mtu_bytes + ETHERNET_BYTES;
    let ack_bytes = HEADER_BYTES + host.extra_header_bytes();
    Segment {
        link: there[position],
        first: there.first().copied().filter(|_| position > 0),
        before: latencies(network, there.get(1..position).unwrap_or_default(), frame_bytes),
        after: latencies(network, &there[position + 1..], frame_bytes),
        back: latencies(network, back, ack_bytes),
    }
}

/// A link that only delays.
fn delay_only(from: NodeId, to: NodeId, delay: Duration) -> Link {
    let cable = Cable {
        rate: None,
        serialisation: Serialisation::StoreAndForward,
        overhead_bytes: 0,
        delay,
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }),
        sampled: false,
    };
    Link { from, to, parallel: 1, sampled: false, cable: cable.into() }
}

/// Returns a link of the network between other nodes.
fn moved(link: &Link, from: NodeId, to: NodeId) -> Link {
    Link { from, to, parallel: 1, sampled: false, cable: Arc::clone(&link.cable) }
}

/// Returns a run without flows that ends when they are done.
fn empty_run(seed: u64, end: Time) -> Run {
    Run {
        seed,
        end,
        until_done: true,
        network: Network::default(),
        flows: Vec::new(),
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    }
}

/// Returns the host of a node. [`check`](crate::refuse::check) has seen that flows join hosts.
fn host(network: &Network, node: NodeId) -> Arc<HostConfig> {
    let host = network.nodes[node as usize].host.clone();
    host.unwrap_or_else(|| HostConfig::new(knee_run::spec::LinuxVersion::V6_1).into())
}

/// Builds the run of one link: each flow behind a link as its host's, then the link, then only delays. Flows of one host do not
/// meet before the link: they do so in the simulation of the host's own.
pub(crate) fn run(network: &Network, seed: u64, end: Time, flows: &[(&Flow, Segment)]) -> Run {
    let mut made = empty_run(seed, end);
    let Some(&(first_flow, first)) = flows.first() else { return made };
    let link = &network.links[first.link as usize];
    let small = &mut made.network;
    let enter = match first.first {
        Some(_) => small.switch("enter"),
        None => small.host("from", host(network, first_flow.from)),
    };
    let is_last = network.nodes[link.to as usize].host.is_some();
    let leave = match is_last {
        true => small.host("to", host(network, first_flow.to)),
        false => small.switch("leave"),
    };
    small.links.push(moved(link, enter, leave));
    let mut receivers = HashMap::new();
    let mut answers = HashSet::new();
    for (flow, segment) in flows {
        let from = match segment.first {
            None => enter,
            Some(first) => {
                let node = small.host("from", host(network, flow.from));
                let mut own = moved(&network.links[first as usize], node, enter);
                own.delay = own.delay + segment.before;
                small.links.push(own);
                node
            }
        };
        let to = match is_last {
            true => leave,
            false => {
                *receivers.entry((flow.to, segment.after, segment.back)).or_insert_with(|| {
                    let node = small.host("to", host(network, flow.to));
                    small.links.push(delay_only(leave, node, segment.after));
                    node
                })
            }
        };
        if answers.insert((to, from)) {
            small.links.push(delay_only(to, from, segment.back));
        }
        made.flows.push(Flow { group: 0, from, to, sampled: false, ..(*flow).clone() });
    }
    made
}

/// Builds the run of one flow alone on its whole path.
pub(crate) fn alone(
    network: &Network,
    (seed, end): (u64, Time),
    flow: &Flow,
    (there, back): (&[LinkId], &[LinkId]),
) -> Run {
    let mut made = empty_run(seed, end);
    let small = &mut made.network;
    let from = small.host("from", host(network, flow.from));
    let to = small.host("to", host(network, flow.to));
    for (links, from, to) in [(there, from, to), (back, to, from)] {
        let mut node = from;
        for (index, link) in links.iter().enumerate() {
            let is_last = index + 1 == links.len();
            let next = if is_last { to } else { small.switch(format!("{from}.{index}")) };
            small.links.push(moved(&network.links[*link as usize], node, next));
            node = next;
        }
    }
    made.flows.push(Flow { group: 0, from, to, sampled: false, ..flow.clone() });
    made
}

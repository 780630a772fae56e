//! The simulation of one link, with its flows and no other congested place.

use std::collections::HashMap;

use knee_queue::time::{Duration, Time};
use knee_queue::{DropTailConfig, ETHERNET_BYTES, Limit, QueueConfig};
use knee_run::spec::{
    Flow, HEADER_BYTES, HostConfig, Link, LinkId, Network, NodeId, Run, Sampling, Schedule,
    Serialisation,
};

/// A flow at one link: the rest of its paths is time without congestion, so its base RTT stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The link.
    pub(crate) link: LinkId,
    /// Whether its ACKs pass the link, and not its data.
    pub(crate) is_ack: bool,
    /// Own link of the host that sends over `link`; `None`: it is `link`.
    first: Option<LinkId>,
    /// From the end of `first` to `link`.
    before: Duration,
    /// From the end of `link` to the host that receives over it.
    after: Duration,
    /// Own link of the sender of data that do not pass `link`: it limits their rate.
    limit: Option<LinkId>,
    /// From `limit`, or from the receiver, to the other host.
    opposite: Duration,
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

/// Describes a flow at the link at this place of its two paths, which count on: first that of its data, then that of its
/// ACKs.
pub(crate) fn segment(
    network: &Network,
    (there, back): (&[LinkId], &[LinkId]),
    place: usize,
    host: &HostConfig,
) -> Segment {
    let frame_bytes = host.mtu_bytes + ETHERNET_BYTES;
    let ack_bytes = HEADER_BYTES + host.extra_header_bytes();
    let is_ack = place >= there.len();
    let (path, at) = if is_ack { (back, place - there.len()) } else { (there, place) };
    // A host that sends data and ACKs over the link is one host there, so both have its time before the link.
    let after_bytes = if is_ack { ack_bytes } else { frame_bytes };
    let opposite = match is_ack {
        true => latencies(network, there.get(1..).unwrap_or_default(), frame_bytes),
        false => latencies(network, back, ack_bytes),
    };
    Segment {
        link: path[at],
        is_ack,
        first: path.first().copied().filter(|_| at > 0),
        before: latencies(network, path.get(1..at).unwrap_or_default(), frame_bytes),
        after: latencies(network, &path[at + 1..], after_bytes),
        limit: there.first().copied().filter(|_| is_ack),
        opposite,
    }
}

/// A link that only delays.
fn delay_only(from: NodeId, to: NodeId, delay: Duration) -> Link {
    Link {
        name: String::new(),
        from,
        to,
        rate: None,
        serialisation: Serialisation::StoreAndForward,
        overhead_bytes: 0,
        delay,
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }),
        sampled: false,
    }
}

/// Returns a link of the network between other nodes.
fn moved(link: &Link, from: NodeId, to: NodeId) -> Link {
    Link { name: String::new(), from, to, sampled: false, ..link.clone() }
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
fn host(network: &Network, node: NodeId) -> HostConfig {
    let host = network.nodes[node as usize].host.clone();
    host.unwrap_or_else(|| HostConfig::new(knee_run::spec::LinuxVersion::V6_1))
}

/// Builds the run of one link: each host that sends over it behind its own link, then the link, then only delays. What goes
/// the opposite way meets nothing.
pub(crate) fn run(network: &Network, seed: u64, end: Time, flows: &[(&Flow, Segment)]) -> Run {
    let mut made = empty_run(seed, end);
    let Some(&(_, first)) = flows.first() else { return made };
    let small = &mut made.network;
    let enter = first.first.map(|_| small.switch("enter"));
    let leave = small.switch("leave");
    let (mut senders, mut receivers) = (HashMap::new(), HashMap::new());
    let mut pairs = HashMap::new();
    let mut entry = None;
    for (flow, segment) in flows {
        let (over, to) = if segment.is_ack { (flow.to, flow.from) } else { (flow.from, flow.to) };
        let sender = *senders.entry((over, segment.before)).or_insert_with(|| {
            let node = small.host(format!("over {over}"), host(network, over));
            if let (Some(first), Some(enter)) = (segment.first, enter) {
                let mut own = moved(&network.links[first as usize], node, enter);
                own.delay = own.delay + segment.before;
                small.links.push(own);
            }
            node
        });
        entry.get_or_insert(enter.unwrap_or(sender));
        // Of a sender of data that do not pass the link, what they leave for.
        let (receiver, away) =
            *receivers.entry((to, segment.after, segment.is_ack)).or_insert_with(|| {
                let node = small.host(format!("to {to}"), host(network, to));
                small.links.push(delay_only(leave, node, segment.after));
                let away = segment.limit.map(|limit| {
                    let away = small.switch(format!("from {to}"));
                    small.links.push(moved(&network.links[limit as usize], node, away));
                    away
                });
                (node, away.unwrap_or(node))
            });
        pairs.entry((away, sender)).or_insert_with(|| {
            small.links.push(delay_only(away, sender, segment.opposite));
        });
        let (from, to) = if segment.is_ack { (receiver, sender) } else { (sender, receiver) };
        made.flows.push(Flow { group: 0, from, to, sampled: false, ..(*flow).clone() });
    }
    if let Some(entry) = entry {
        small.links.push(moved(&network.links[first.link as usize], entry, leave));
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

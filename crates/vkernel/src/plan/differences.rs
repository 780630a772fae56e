//! Differences between a run on the guest's kernel and in the simulator, by the parts that the run has.

use knee_queue::{DropTailConfig, Limit, QueueConfig, Threshold};
use knee_run::Run;
use knee_run::spec::{HostConfig, Link, Serialisation, Traffic};

use super::routes::next_links;

/// Returns one sentence per difference. Packet sizes, rates, delays and their places are the same.
pub fn differences(run: &Run) -> Vec<&'static str> {
    let links = || run.network.links.iter();
    let hosts = || run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let paces = |link: &Link| {
        let host = run.network.nodes[link.from as usize].host.as_ref();
        host.is_some_and(|host| host.fq)
    };
    let has_transfers = run.flows.iter().any(|flow| matches!(flow.traffic, Traffic::Bulk { .. }));
    let all = [
        (has_transfers, "the last segment of a transfer is acknowledged at once"),
        (
            run.flows.iter().any(|flow| flow.stop.is_some()),
            "what is stopped is reset: the listening side has what had come by then",
        ),
        (
            has_several_ways(run),
            "of equal ways a hash of addresses and ports chooses one, the same at every switch",
        ),
        (
            links().any(|link| link.queue.any(is_step_in_pkts)),
            "step: k in packets is as many packets of full length in bytes",
        ),
        (
            links().any(|link| link.queue.any(is_red)),
            "step, red: a packet that is marked and then finds the buffer full counts as marked, and as dropped",
        ),
        (
            links().any(|link| link.rate.is_some() && paces(link) && is_in_bytes(&link.queue)),
            "hosts.fq: a limit in bytes is as many packets of full length",
        ),
        (
            links().any(|link| matches!(link.serialisation, Serialisation::TokenBucket { .. })),
            "burst: the kernel's tbf, whose tokens are times of 64 ns",
        ),
        (
            hosts().any(|host| host.gso_max_segs > 1),
            "gso_max_segs: a host's queue holds large segments, which are cut as they leave it",
        ),
        (
            hosts().any(|host| {
                let stock = HostConfig::new(host.linux);
                (host.skb_overhead_bytes, host.max_tcp_header_bytes)
                    != (stock.skb_overhead_bytes, stock.max_tcp_header_bytes)
            }),
            "hosts.skb_overhead and max_tcp_header have no effect: the guest's kernel has its own",
        ),
        (
            links().any(|link| link.loss > 0.0 && link.loses_bursts),
            "loss_per = \"burst\": a burst is what TCP has sent as one large segment",
        ),
        (
            true,
            "counters that Linux does not tell of a connection are those of its host, or absent",
        ),
    ];
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect()
}

/// Whether it marks above a number of packets.
fn is_step_in_pkts(queue: &QueueConfig) -> bool {
    matches!(queue, QueueConfig::Step(step) if matches!(step.threshold, Threshold::Pkts(_)))
}

/// Whether it is the kernel's RED.
fn is_red(queue: &QueueConfig) -> bool {
    matches!(queue, QueueConfig::Step(_) | QueueConfig::Red(_))
}

fn is_in_bytes(queue: &QueueConfig) -> bool {
    matches!(queue, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(_) }))
}

/// Returns whether any node has several shortest paths to a host.
fn has_several_ways(run: &Run) -> bool {
    let nodes = run.network.nodes.iter().zip(0..);
    let mut hosts = nodes.filter(|(node, _)| node.host.is_some());
    hosts.any(|(_, host)| next_links(&run.network, host).iter().any(|links| links.len() > 1))
}

//! In what a run on the guest's kernel is not what the simulator's is, by the parts that the run has.

use knee_queue::{QueueConfig, Threshold};
use knee_sim::Run;
use knee_sim::spec::{Serialisation, Traffic};

/// Each in a sentence. Packet sizes, rates and delays are the same, and where they sit.
pub fn differences(run: &Run) -> Vec<&'static str> {
    let links = || run.network.links.iter();
    let hosts = || run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let in_pkts = |queue: &QueueConfig| matches!(queue, QueueConfig::Step(step) if matches!(step.threshold, Threshold::Pkts(_)));
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
            links().any(|link| in_pkts(&link.queue)),
            "step: k in packets is as many packets of full length in bytes",
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

/// Whether a node has several links to others that are no hosts: then there may be equal ways.
fn has_several_ways(run: &Run) -> bool {
    let nodes = &run.network.nodes;
    let is_switch = |node: u32| nodes[node as usize].host.is_none();
    let between = |node: u32| {
        let own = run.network.links.iter().filter(move |link| link.from == node);
        own.filter(|link| is_switch(link.to)).count()
    };
    (0..nodes.len() as u32).any(|node| is_switch(node) && between(node) > 1)
}

//! Differences between a run on the guest's kernel and in the simulator.

use knee_run::Run;
use knee_run::support::{self, Facts, On};

use super::routes::next_links;

/// Returns one sentence per difference. Packet sizes, rates, delays and their places are the same.
pub fn differences(run: &Run) -> Vec<String> {
    let mut all = support::differences(run, On::Vkernel, Facts::default());
    if has_several_ways(run) {
        let how =
            "of equal ways a hash of addresses and ports chooses one, the same at every switch";
        all.push(how.to_owned());
    }
    all.push(
        "counters that Linux does not tell of a connection are those of its host, or absent"
            .to_owned(),
    );
    all
}

/// Returns whether any node has several shortest paths to a host.
fn has_several_ways(run: &Run) -> bool {
    let nodes = run.network.nodes.iter().zip(0..);
    let mut hosts = nodes.filter(|(node, _)| node.host.is_some());
    hosts.any(|(_, host)| next_links(&run.network, host).iter().any(|links| links.len() > 1))
}

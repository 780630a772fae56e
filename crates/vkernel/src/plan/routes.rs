//! Routes through a network: for each node and host, the links on a shortest path.

use knee_run::spec::{LinkId, Network, NodeId};

/// Returns for each node the links on shortest paths to the host `to`. The list is empty at the host itself, and if
/// there is no path.
pub(super) fn next_links(network: &Network, to: NodeId) -> Vec<Vec<LinkId>> {
    let distances = distances(network, to);
    let mut next = vec![Vec::new(); network.nodes.len()];
    for (link, id) in network.links.iter().zip(0..) {
        let (from, behind) = (distances[link.from as usize], distances[link.to as usize]);
        if let (Some(from), Some(behind)) = (from, behind) {
            if from == behind + 1 {
                next[link.from as usize].push(id);
            }
        }
    }
    next
}

/// Returns the distance of each node to `to` in links, by a backward breadth-first search. Hosts do not forward.
fn distances(network: &Network, to: NodeId) -> Vec<Option<u32>> {
    let mut distances = vec![None; network.nodes.len()];
    distances[to as usize] = Some(0);
    let mut reached = vec![(to, 0)];
    let mut at = 0;
    while let Some(&(node, distance)) = reached.get(at) {
        at += 1;
        if node != to && network.nodes[node as usize].host.is_some() {
            continue;
        }
        for link in network.links.iter().filter(|link| link.to == node) {
            let before = &mut distances[link.from as usize];
            if before.is_none() {
                *before = Some(distance + 1);
                reached.push((link.from, distance + 1));
            }
        }
    }
    distances
}

//! Paths: shortest by number of links, and of several equally short ones the one that a hash picks.

use crate::Error;
use crate::spec::{LinkId, Network, NodeId};
use std::collections::HashMap;

/// Ends a path in a list of them: the packet has reached its host.
pub const PATH_END: LinkId = LinkId::MAX;

/// Ways through a network. It keeps what it needs of that: paths are also found while a run goes on.
pub struct Routes {
    names: Vec<String>,
    is_host: Vec<bool>,
    /// The nodes that each link joins.
    ends: Vec<(NodeId, NodeId)>,
    /// Links that leave each node.
    out: Vec<Vec<LinkId>>,
    /// Links that enter each node.
    into: Vec<Vec<LinkId>>,
    /// Distance of every node to a destination, in links; `u32::MAX`: no way.
    distances: HashMap<NodeId, Vec<u32>>,
    /// Where the paths that were found while the run went on begin in the list of paths.
    known: HashMap<Vec<LinkId>, u32>,
}

impl Routes {
    /// Computes the routes of a network.
    pub fn new(network: &Network) -> Routes {
        let mut out = vec![Vec::new(); network.nodes.len()];
        let mut into = vec![Vec::new(); network.nodes.len()];
        for (index, link) in network.links.iter().enumerate() {
            out[link.from as usize].push(index as LinkId);
            into[link.to as usize].push(index as LinkId);
        }
        Routes {
            names: network.nodes.iter().map(|node| node.name.clone()).collect(),
            is_host: network.nodes.iter().map(|node| node.host.is_some()).collect(),
            ends: network.links.iter().map(|link| (link.from, link.to)).collect(),
            out,
            into,
            distances: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// The links from one host to another; `hash` stands for the flow's addresses, ports and label.
    ///
    /// # Errors
    /// If there is no way.
    pub fn path(&mut self, from: NodeId, to: NodeId, hash: u64) -> Result<Vec<LinkId>, Error> {
        let Routes { names, is_host, ends, out, into, distances, .. } = self;
        let distances =
            distances.entry(to).or_insert_with(|| distances_to(ends, is_host, into, to));
        let name = |node: NodeId| &names[node as usize];
        if distances[from as usize] == u32::MAX {
            let (from, to) = (name(from), name(to));
            return Err(Error::Refused(format!("there is no path from {from} to {to}: add links")));
        }
        let mut links = Vec::new();
        let mut node = from;
        while node != to {
            let next = distances[node as usize] - 1;
            let choices: Vec<LinkId> = out[node as usize]
                .iter()
                .copied()
                .filter(|link| distances[ends[*link as usize].1 as usize] == next)
                .collect();
            let link = choices[(mix(hash, node) % choices.len() as u64) as usize];
            links.push(link);
            node = ends[link as usize].1;
        }
        Ok(links)
    }

    /// Gives back the memory that finding the first paths took; it is found again where it is needed.
    pub fn forget_distances(&mut self) {
        self.distances = HashMap::new();
    }

    /// Where a path between the same hosts as that at `path` begins, for another hash. Those found
    /// before are used again: packets may be on any of them, and there are only so many.
    pub fn another(&mut self, paths: &mut Vec<u32>, path: u32, hash: u64) -> u32 {
        let links = paths[path as usize..].iter().take_while(|link| **link != PATH_END);
        let ends = |link: u32| self.ends[link as usize];
        let (Some(first), Some(last)) = (links.clone().next(), links.last()) else { return path };
        let ((from, _), (_, to)) = (ends(*first), ends(*last));
        // There was a way when the run began.
        let Ok(links) = self.path(from, to, hash) else { return path };
        if let Some(known) = self.known.get(&links) {
            return *known;
        }
        let start = paths.len() as u32;
        paths.extend(&links);
        paths.push(PATH_END);
        self.known.insert(links, start);
        start
    }
}

/// Each switch hashes differently, or all of them would choose alike.
pub fn mix(hash: u64, node: NodeId) -> u64 {
    let mut z = hash ^ u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Breadth first, backwards; hosts do not forward.
fn distances_to(
    ends: &[(NodeId, NodeId)],
    is_host: &[bool],
    into: &[Vec<LinkId>],
    to: NodeId,
) -> Vec<u32> {
    let mut distances = vec![u32::MAX; is_host.len()];
    distances[to as usize] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&node) = reached.get(next) {
        next += 1;
        if node != to && is_host[node as usize] {
            continue;
        }
        for &link in &into[node as usize] {
            let before = ends[link as usize].0;
            if distances[before as usize] == u32::MAX {
                distances[before as usize] = distances[node as usize] + 1;
                reached.push(before);
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HostConfig, LinuxVersion, Serialisation};
    use crate::topology::{Cable, LeafSpine};
    use knee_queue::time::Duration;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    const SPINES: u32 = 4;

    fn fabric() -> Network {
        let cable = Cable {
            rate: None,
            serialisation: Serialisation::StoreAndForward,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            overhead_bytes: 0,
            loses_bursts: false,
            queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(1) }),
            sampled: false,
        };
        let fabric = LeafSpine {
            leaves: 2,
            spines: SPINES,
            hosts_per_leaf: 2,
            host: HostConfig::new(LinuxVersion::V6_1),
            host_up: cable.clone(),
            host_down: cable.clone(),
            fabric: cable,
        };
        fabric.build()
    }

    #[test]
    fn another_hash_is_another_way_between_the_same_hosts() {
        let network = fabric();
        let mut routes = Routes::new(&network);
        let mut draws = 0..;
        let mut draw = || mix(1, draws.next().unwrap());
        // Something else first: positions are not counted from 0.
        let mut paths = vec![7, PATH_END];
        let first = paths.len() as u32;
        paths.extend(routes.path(0, 2, draw()).unwrap());
        paths.push(PATH_END);
        routes.forget_distances();
        let mut path = first;
        let mut taken: HashMap<u32, u32> = HashMap::new();
        for _ in 0..400 {
            path = routes.another(&mut paths, path, draw());
            let links = &paths[path as usize..path as usize + 5];
            let ends = |link: u32| &network.links[link as usize];
            assert_eq!((ends(links[0]).from, ends(links[3]).to, links[4]), (0, 2, PATH_END));
            *taken.entry(links[1]).or_default() += 1;
        }
        let mut counts: Vec<u32> = taken.into_values().collect();
        counts.sort_unstable();
        assert_eq!(counts.len() as u32, SPINES);
        assert!(counts[0] >= 70 && counts[3] <= 130, "{counts:?}");
        assert_eq!(paths.len() as u32, first + 5 * (1 + SPINES), "each way is kept once");
    }
}

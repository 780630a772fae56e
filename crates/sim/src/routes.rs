//! Paths: shortest by number of links, and of several equally short ones the one that a hash picks.

use crate::Error;
use crate::spec::{LinkId, Network, NodeId};
use std::collections::HashMap;

pub(crate) struct Routes<'a> {
    network: &'a Network,
    /// Links that leave each node.
    out: Vec<Vec<LinkId>>,
    /// Links that enter each node.
    into: Vec<Vec<LinkId>>,
    /// Distance of every node to a destination, in links; `u32::MAX`: no way.
    distances: HashMap<NodeId, Vec<u32>>,
}

impl<'a> Routes<'a> {
    pub(crate) fn new(network: &'a Network) -> Routes<'a> {
        let mut out = vec![Vec::new(); network.nodes.len()];
        let mut into = vec![Vec::new(); network.nodes.len()];
        for (index, link) in network.links.iter().enumerate() {
            out[link.from as usize].push(index as LinkId);
            into[link.to as usize].push(index as LinkId);
        }
        Routes { network, out, into, distances: HashMap::new() }
    }

    /// The links from one host to another; `hash` stands for the flow's addresses, ports and label.
    pub(crate) fn path(
        &mut self,
        from: NodeId,
        to: NodeId,
        hash: u64,
    ) -> Result<Vec<LinkId>, Error> {
        let network = self.network;
        let distances =
            self.distances.entry(to).or_insert_with(|| distances_to(network, &self.into, to));
        let name = |node: NodeId| &network.nodes[node as usize].name;
        if distances[from as usize] == u32::MAX {
            let (from, to) = (name(from), name(to));
            return Err(Error(format!("there is no way from {from} to {to}: add links")));
        }
        let mut links = Vec::new();
        let mut node = from;
        while node != to {
            let next = distances[node as usize] - 1;
            let choices: Vec<LinkId> = self.out[node as usize]
                .iter()
                .copied()
                .filter(|link| distances[network.links[*link as usize].to as usize] == next)
                .collect();
            let link = choices[(mix(hash, node) % choices.len() as u64) as usize];
            links.push(link);
            node = network.links[link as usize].to;
        }
        Ok(links)
    }
}

/// Each switch hashes differently, or all of them would choose alike.
fn mix(hash: u64, node: NodeId) -> u64 {
    let mut z = hash ^ u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Breadth first, backwards; hosts do not forward.
fn distances_to(network: &Network, into: &[Vec<LinkId>], to: NodeId) -> Vec<u32> {
    let mut distances = vec![u32::MAX; network.nodes.len()];
    distances[to as usize] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&node) = reached.get(next) {
        next += 1;
        if node != to && network.nodes[node as usize].host.is_some() {
            continue;
        }
        for &link in &into[node as usize] {
            let before = network.links[link as usize].from;
            if distances[before as usize] == u32::MAX {
                distances[before as usize] = distances[node as usize] + 1;
                reached.push(before);
            }
        }
    }
    distances
}

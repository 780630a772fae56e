//! The links of each flow's two paths, as the simulator chooses them.

use std::collections::{BTreeMap, VecDeque};

use knee_queue::time::PS_PER_S;
use knee_run::Error;
use knee_run::routes::{Routes, mix};
use knee_run::spec::{LinkId, Network, NodeId, Run};

use crate::random::Random;

/// Paths of all flows.
pub(crate) struct Paths {
    /// Bounds of the paths in `links`: of flow i there `2 i`, back `2 i + 1`.
    bounds: Vec<(u32, u32)>,
    links: Vec<LinkId>,
}

impl Paths {
    /// Finds the paths of every flow of a run.
    ///
    /// # Errors
    /// If there is no way.
    pub(crate) fn new(run: &Run) -> Result<Paths, Error> {
        let hashes = hashes(run);
        let ends = run.flows.iter().zip(&hashes);
        let ends = ends
            .flat_map(|(flow, hash)| [(flow.from, flow.to, *hash), (flow.to, flow.from, *hash)]);
        let ends: Vec<(NodeId, NodeId, u64)> = ends.collect();
        let mut paths = Paths { bounds: vec![(0, 0); ends.len()], links: Vec::new() };
        match Tree::new(&run.network) {
            Some(tree) => paths.fill_by_leaf(&tree, &run.network, &ends)?,
            None => {
                let mut routes = Routes::new(&run.network);
                for (index, (from, to, hash)) in ends.into_iter().enumerate() {
                    let path = routes.path(from, to, hash)?;
                    paths.set(index, path);
                }
            }
        }
        Ok(paths)
    }

    fn set(&mut self, index: usize, path: impl IntoIterator<Item = LinkId>) {
        let start = self.links.len() as u32;
        self.links.extend(path);
        self.bounds[index] = (start, self.links.len() as u32);
    }

    /// Distances are computed once per switch that has destinations, and forgotten before the next.
    fn fill_by_leaf(
        &mut self,
        tree: &Tree,
        network: &Network,
        ends: &[(NodeId, NodeId, u64)],
    ) -> Result<(), Error> {
        let mut by_leaf: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (index, (_, to, _)) in ends.iter().enumerate() {
            by_leaf.entry(tree.host_links[*to as usize].1).or_default().push(index);
        }
        for (leaf, members) in by_leaf {
            let distances = tree.distances_to(network, leaf);
            for index in members {
                let (from, to, hash) = ends[index];
                let path = tree.path(network, &distances, (from, to), hash);
                let path = path.ok_or_else(|| {
                    let name = |node: NodeId| &network.nodes[node as usize].name;
                    let (from, to) = (name(from), name(to));
                    Error::Refused(format!("there is no path from {from} to {to}: add links"))
                })?;
                self.set(index, path);
            }
        }
        Ok(())
    }

    fn get(&self, index: usize) -> &[LinkId] {
        let (start, end) = self.bounds[index];
        &self.links[start as usize..end as usize]
    }

    /// Returns the links of a flow's data.
    pub(crate) fn there(&self, flow: usize) -> &[LinkId] {
        self.get(2 * flow)
    }

    /// Returns the links of its ACKs.
    pub(crate) fn back(&self, flow: usize) -> &[LinkId] {
        self.get(2 * flow + 1)
    }
}

/// Returns the hash of each flow, from the same draws as the simulator's.
fn hashes(run: &Run) -> Vec<u64> {
    let mut random = Random::new(run.seed);
    for host in run.network.nodes.iter().filter_map(|node| node.host.as_ref()) {
        random.u64();
        if host.jiffies_at_start.is_none() {
            random.below(PS_PER_S / u64::from(host.hz));
        }
    }
    run.flows.iter().map(|_| random.u64()).collect()
}

/// A network in which each host has one cable, to a switch.
struct Tree {
    /// Links from each switch to switches.
    out: Vec<Vec<LinkId>>,
    /// Links into each switch from switches.
    into: Vec<Vec<LinkId>>,
    /// Of each host: the link from it, the switch of the link into it, and that link.
    host_links: Vec<(LinkId, NodeId, LinkId)>,
}

impl Tree {
    /// `None` if a host has another number of links, or a neighbour that is a host.
    fn new(network: &Network) -> Option<Tree> {
        const NONE: LinkId = LinkId::MAX;
        let n = network.nodes.len();
        let is_host = |node: NodeId| network.nodes[node as usize].host.is_some();
        let (mut out, mut into) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let mut host_links = vec![(NONE, 0, NONE); n];
        for (index, link) in network.links.iter().enumerate() {
            let index = index as LinkId;
            match (is_host(link.from), is_host(link.to)) {
                (true, true) => return None,
                (true, false) => {
                    let first = std::mem::replace(&mut host_links[link.from as usize].0, index);
                    if first != NONE {
                        return None;
                    }
                }
                (false, true) => {
                    let of_host = &mut host_links[link.to as usize];
                    if of_host.2 != NONE {
                        return None;
                    }
                    (of_host.1, of_host.2) = (link.from, index);
                }
                (false, false) => {
                    out[link.from as usize].push(index);
                    into[link.to as usize].push(index);
                }
            }
        }
        let has_both = |node: usize| host_links[node].0 != NONE && host_links[node].2 != NONE;
        let all = (0..n).all(|node| !is_host(node as NodeId) || has_both(node));
        all.then_some(Tree { out, into, host_links })
    }

    /// Returns the distance of each switch to one of them, in links.
    fn distances_to(&self, network: &Network, to: NodeId) -> Vec<u32> {
        let mut distances = vec![u32::MAX; network.nodes.len()];
        distances[to as usize] = 0;
        let mut reached = VecDeque::from([to]);
        while let Some(node) = reached.pop_front() {
            for link in &self.into[node as usize] {
                let before = network.links[*link as usize].from;
                if distances[before as usize] == u32::MAX {
                    distances[before as usize] = distances[node as usize] + 1;
                    reached.push_back(before);
                }
            }
        }
        distances
    }

    /// Returns the path of a hash; `None`: there is none.
    fn path(
        &self,
        network: &Network,
        distances: &[u32],
        (from, to): (NodeId, NodeId),
        hash: u64,
    ) -> Option<Vec<LinkId>> {
        let (_, leaf, last) = self.host_links[to as usize];
        let first = self.host_links[from as usize].0;
        let end = |link: LinkId| network.links[link as usize].to;
        let mut path = vec![first];
        let mut node = end(first);
        if distances[node as usize] == u32::MAX {
            return None;
        }
        while node != leaf {
            let next = distances[node as usize] - 1;
            let is_nearer = |link: &&LinkId| distances[end(**link) as usize] == next;
            let choices = self.out[node as usize].iter().filter(is_nearer);
            let number = (mix(hash, node) % choices.clone().count() as u64) as usize;
            let link = *choices.clone().nth(number)?;
            path.push(link);
            node = end(link);
        }
        path.push(last);
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::time::{Duration, Rate, Time};
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::spec::{
        Cc, Flow, HostConfig, LinuxVersion, Sampling, Schedule, Serialisation, Traffic,
    };
    use knee_run::topology::{Cable, FatTree};

    #[test]
    fn paths_are_the_simulators() {
        let cable = Cable {
            rate: Rate::from_bps(10_000_000_000),
            serialisation: Serialisation::StoreAndForward,
            overhead_bytes: 0,
            delay: Duration::from_us(1),
            jitter: Duration::ZERO,
            loss: 0.0,
            loses_bursts: false,
            queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1000) }),
            sampled: true,
        };
        let host = HostConfig::new(LinuxVersion::V6_1);
        let (host_up, host_down, edge, core) = (cable.clone(), cable.clone(), cable.clone(), cable);
        let network = FatTree { k: 4, host, host_up, host_down, edge, core }.build();
        let flow = |i: u32| Flow {
            group: 0,
            from: i % 16,
            to: (i * 7 + 5) % 16,
            cc: Cc::by_name("reno").expect("it is built in"),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: Some(1) },
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: false,
        };
        let flows: Vec<Flow> = (0..40).map(flow).filter(|flow| flow.from != flow.to).collect();
        let mut run = Run {
            seed: 5,
            end: Time::from_ms(100),
            until_done: true,
            network,
            flows,
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule::default(),
        };
        let paths = Paths::new(&run).expect("there are ways");
        let mut by_routes = Routes::new(&run.network);
        for (index, hash) in hashes(&run).into_iter().enumerate() {
            let (from, to) = (run.flows[index].from, run.flows[index].to);
            assert_eq!(Ok(paths.there(index).to_vec()), by_routes.path(from, to, hash));
            assert_eq!(Ok(paths.back(index).to_vec()), by_routes.path(to, from, hash));
        }
        // All flows but one never begin: its packets pass these links and no others.
        for index in 0..run.flows.len() {
            for (other, flow) in run.flows.iter_mut().enumerate() {
                flow.start = if other == index { Time::ZERO } else { Time::from_ms(200) };
            }
            run.until_done = false;
            let outcome = knee_sim::simulate(&run).expect("it runs");
            let used = outcome.queues.iter().filter(|queue| queue.sent_pkts > 0);
            let used: Vec<LinkId> = used.map(|queue| queue.link).collect();
            let mut ours = [paths.there(index), paths.back(index)].concat();
            ours.sort_unstable();
            ours.dedup();
            assert_eq!(used, ours, "flow {index}");
        }
    }
}

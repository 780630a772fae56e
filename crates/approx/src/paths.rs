//! The links of each flow's two paths, as the simulator chooses them.

use knee_queue::time::PS_PER_S;
use knee_run::Error;
use knee_run::routes::{Routes, no_path};
use knee_run::spec::{LinkId, NodeId, Run};

use crate::random::Random;

/// Paths of all flows of a run whose switches choose by the hash of a flow.
pub struct Paths {
    /// Bounds of the paths in `links`: of flow i there `2 i`, back `2 i + 1`.
    bounds: Vec<(u32, u32)>,
    links: Vec<LinkId>,
}

impl Paths {
    /// Finds the paths of every flow of a run.
    ///
    /// # Errors
    /// If there is no way.
    pub fn new(run: &Run) -> Result<Paths, Error> {
        let hashes = hashes(run);
        let ends = run.flows.iter().zip(&hashes);
        let ends = ends
            .flat_map(|(flow, hash)| [(flow.from, flow.to, *hash), (flow.to, flow.from, *hash)]);
        let ends: Vec<(NodeId, NodeId, u64)> = ends.collect();
        // Destinations of one switch share their distances. Those of the switch before are forgotten.
        let mut switches: Vec<NodeId> = (0..).take(run.network.nodes.len()).collect();
        run.network.links.iter().for_each(|link| switches[link.to as usize] = link.from);
        let switch_of = |index: &usize| switches[ends[*index].1 as usize];
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(switch_of);
        let mut paths = Paths { bounds: vec![(0, 0); ends.len()], links: Vec::new() };
        let mut routes = Routes::new(&run.network);
        for same in order.chunk_by(|a, b| switch_of(a) == switch_of(b)) {
            for &index in same {
                let (from, to, hash) = ends[index];
                let start = paths.links.len() as u32;
                let name = |node: NodeId| &*run.network.nodes[node as usize].name;
                let links = routes.path(from, to, hash);
                paths.links.extend(links.ok_or_else(|| no_path(name(from), name(to)))?);
                paths.bounds[index] = (start, paths.links.len() as u32);
            }
            routes.forget_distances();
        }
        Ok(paths)
    }

    fn get(&self, index: usize) -> &[LinkId] {
        let (start, end) = self.bounds[index];
        &self.links[start as usize..end as usize]
    }

    /// Returns the links of a flow's data.
    pub fn there(&self, flow: usize) -> &[LinkId] {
        self.get(2 * flow)
    }

    /// Returns the links of its ACKs.
    pub fn back(&self, flow: usize) -> &[LinkId] {
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
            assert_eq!(Some(paths.there(index).to_vec()), by_routes.path(from, to, hash));
            assert_eq!(Some(paths.back(index).to_vec()), by_routes.path(to, from, hash));
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

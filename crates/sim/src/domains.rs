//! Domains: the parts of a network that a run works on side by side (docs/decisions/0018-windows-by-domains.md).
//!
//! A domain is a set of switches with their hosts. A packet needs at least the least delay of a link
//! between domains to reach another one, so each domain can work off a window of this length by
//! itself.

use knee_queue::time::{Duration, Time};
use knee_run::spec::{Cc, Flow, Network, NodeId, Run};
use std::sync::Arc;

/// A run that ends when all flows are complete ends at a multiple of this time, or of the least delay
/// of a link if that is shorter.
const GRID_MAX: Duration = Duration::from_us(1);

/// Shortest window. In shorter ones domains would mostly wait for each other: with links of 10 ns between 256 hosts, a run
/// takes several times as long on two threads as on one.
const WINDOW_MIN: Duration = Duration::from_ns(200);

/// Returns the times at which a run can end early: the multiples of this.
pub(crate) fn grid(network: &Network) -> Duration {
    let delays = network.least_delays().into_iter().filter(|it| *it > Duration::ZERO);
    delays.min().map_or(Duration::from_ps(1), |least| least.min(GRID_MAX))
}

/// Returns the first multiple of `grid` after `at`.
pub(crate) fn next_on_grid(at: Time, grid: Duration) -> Time {
    Time::from_ps((at.ps() / grid.ps()).saturating_add(1).saturating_mul(grid.ps()))
}

/// A network divided into domains.
#[derive(Debug)]
pub(crate) struct Division {
    /// Domain of each node.
    domain_of: Vec<u32>,
    pub(crate) domains: usize,
    /// Length of a window: no packet reaches another domain sooner.
    pub(crate) window: Duration,
}

impl Division {
    /// Divides the network of a run into up to `most` domains of about equal load. Returns `None` if
    /// it has to stay whole.
    pub(crate) fn of(run: &Run, most: usize) -> Option<Division> {
        if most < 2 || !can_be_divided(run) {
            return None;
        }
        let network = &run.network;
        let sites = sites(network);
        let domain_of = assign(run, &sites, most);
        let domains = domain_of.iter().max().map_or(0, |last| *last as usize + 1);
        let is_cut = |link: &knee_run::spec::Link| {
            domain_of[link.from as usize] != domain_of[link.to as usize]
        };
        let links = network.links.iter().zip(network.least_delays());
        let least = links.filter(|(link, _)| is_cut(link)).map(|(_, delay)| delay).min()?;
        let window = if run.until_done { least.min(grid(network)) } else { least };
        (domains > 1 && window >= WINDOW_MIN).then_some(Division { domain_of, domains, window })
    }
}

impl Division {
    /// Returns the domain of a node.
    pub(crate) fn domain_of(&self, node: NodeId) -> u32 {
        self.domain_of[node as usize]
    }
}

/// Reports whether no feature of a run spans its network.
fn can_be_divided(run: &Run) -> bool {
    let network = &run.network;
    let is_of_file = |cc: &Cc| cc.algorithm.module().is_some();
    let flow_is_local =
        |flow: &Flow| !is_of_file(&flow.cc) && !flow.peer_cc.as_ref().is_some_and(is_of_file);
    let mut hosts = network.nodes.iter().filter_map(|node| node.host.as_ref());
    network.flow_control.is_none()
        && network.buffers.is_empty()
        && network.ports.is_empty()
        && run.schedule.is_empty()
        && hosts.all(|host| !host.ipv6 && host.coalesce.is_none() && host.cpu.is_none())
        && run.flows.iter().all(flow_is_local)
}

/// Returns the site of each node: nodes of one site are in one domain. A site is a switch with its
/// hosts, and with all that links without delay join to it.
fn sites(network: &Network) -> Vec<u32> {
    let mut sites = Sites((0..network.nodes.len() as u32).collect());
    let is_host = |node: NodeId| network.nodes[node as usize].host.is_some();
    let mut has_switch = vec![false; network.nodes.len()];
    for (link, least_delay) in network.links.iter().zip(network.least_delays()) {
        let first_switch = |host: NodeId, other: NodeId, has_switch: &[bool]| {
            is_host(host) && !is_host(other) && !has_switch[host as usize]
        };
        if least_delay == Duration::ZERO {
            sites.join(link.from, link.to);
        }
        for (host, other) in [(link.from, link.to), (link.to, link.from)] {
            if first_switch(host, other, &has_switch) {
                has_switch[host as usize] = true;
                sites.join(host, other);
            }
        }
    }
    (0..network.nodes.len() as u32).map(|node| sites.of(node)).collect()
}

/// Disjoint sets of nodes: each node's parent, a root its own.
struct Sites(Vec<u32>);

impl Sites {
    fn of(&mut self, node: u32) -> u32 {
        let mut root = node;
        while self.0[root as usize] != root {
            // Halves the path.
            self.0[root as usize] = self.0[self.0[root as usize] as usize];
            root = self.0[root as usize];
        }
        root
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}

/// Assigns sites to at most `most` domains. The heaviest site comes first, always to the domain with
/// the least load. The load of a site is the number of its links and of the ends of flows.
fn assign(run: &Run, sites: &[u32], most: usize) -> Vec<u32> {
    let mut load = vec![0u64; sites.len()];
    for node in sites {
        load[*node as usize] += 1;
    }
    for link in &run.network.links {
        load[sites[link.from as usize] as usize] += 1;
    }
    for flow in &run.flows {
        for end in [flow.from, flow.to] {
            load[sites[end as usize] as usize] += 4;
        }
    }
    let mut order: Vec<u32> = (0..sites.len() as u32).filter(|it| load[*it as usize] > 0).collect();
    order.sort_by_key(|site| (std::cmp::Reverse(load[*site as usize]), *site));
    let mut domains = vec![0u64; most.min(order.len())];
    let mut domain_of_site = vec![0u32; sites.len()];
    for site in order {
        let least = domains.iter().zip(0..).min().map_or(0, |(_, domain)| domain);
        domains[least as usize] += load[site as usize];
        domain_of_site[site as usize] = least;
    }
    sites.iter().map(|site| domain_of_site[*site as usize]).collect()
}

/// One domain of a division, or the whole network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domain {
    division: Option<Arc<Division>>,
    number: u32,
}

impl Domain {
    pub(crate) fn new(division: &Arc<Division>, number: u32) -> Domain {
        Domain { division: Some(Arc::clone(division)), number }
    }

    /// Reports whether the domain has this node.
    pub(crate) fn has_node(&self, node: NodeId) -> bool {
        self.beyond(node).is_none()
    }

    /// Returns the domain of a node if it is another one.
    pub(crate) fn beyond(&self, node: NodeId) -> Option<u32> {
        let domain = self.division.as_ref()?.domain_of[node as usize];
        (domain != self.number).then_some(domain)
    }

    /// Reports whether this is the domain that counts what all domains do.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::spec::{HostConfig, LinuxVersion, Sampling, Schedule, Serialisation};
    use knee_run::topology::{Cable, LeafSpine};

    #[test]
    fn short_windows_are_not_worth_threads() {
        let is_divided = |host_delay, fabric_delay, until_done| {
            let cable = |delay| Cable {
                rate: None,
                serialisation: Serialisation::StoreAndForward,
                delay,
                jitter: Duration::ZERO,
                loss: 0.0,
                overhead_bytes: 0,
                loses_bursts: false,
                queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(1) }),
                sampled: false,
            };
            let network = LeafSpine {
                leaves: 2,
                spines: 2,
                hosts_per_leaf: 2,
                host: HostConfig::new(LinuxVersion::V6_1),
                host_up: cable(host_delay),
                host_down: cable(host_delay),
                fabric: cable(fabric_delay),
            };
            let run = Run {
                seed: 1,
                end: Time::from_ms(1),
                until_done,
                network: network.build(),
                flows: Vec::new(),
                pings: Vec::new(),
                sampling: Sampling::default(),
                schedule: Schedule::default(),
            };
            Division::of(&run, 2).is_some()
        };
        let (short, long) = (Duration::from_ns(199), Duration::from_ns(200));
        assert!(is_divided(long, long, false) && is_divided(long, long, true));
        assert!(!is_divided(long, short, false));
        // Links to hosts are within domains, but such a run may end at multiples of their delay.
        assert!(is_divided(short, long, false) && !is_divided(short, long, true));
    }
}

//! Domains: the parts of a network that a run works on side by side (docs/decisions/0018-windows-by-domains.md).
//!
//! A domain is a set of switches with their hosts. A packet needs at least the least delay of a link
//! between domains to reach another one, so each domain can work off a window of this length by
//! itself.

use crate::expected;
use crate::numbered::Numbering;
use crate::plan::Plan;
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Cc, Flow, Network, Node, NodeId, Run};
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
    /// Place of each link and of each socket in the list of its domain.
    link_places: Arc<[u32]>,
    sock_places: Arc<[u32]>,
    /// Length of a window: no packet reaches another domain sooner.
    pub(crate) window: Duration,
}

impl Division {
    /// Divides the network of a run into up to `most` domains of about equal load. Returns `None` if
    /// it has to stay whole.
    pub(crate) fn of(run: &Run, plan: &Plan, most: usize) -> Option<Division> {
        if most < 2 || !can_be_divided(run) {
            return None;
        }
        let network = &run.network;
        let sites = sites(network);
        let domain_of = assign(&expected::loads(run, plan), &sites, most);
        let domains = domain_of.iter().max().map_or(0, |last| *last as usize + 1);
        let is_cut = |link: &knee_run::spec::Link| {
            domain_of[link.from as usize] != domain_of[link.to as usize]
        };
        let links = network.links.iter().zip(network.least_delays());
        let least = links.filter(|(link, _)| is_cut(link)).map(|(_, delay)| delay).min()?;
        let window = if run.until_done { least.min(grid(network)) } else { least };
        if domains < 2 || window < WINDOW_MIN {
            return None;
        }
        let of_node = |node: NodeId| domain_of[node as usize];
        let link_places = places(domains, network.links.iter().map(|link| of_node(link.from)));
        let ends = run.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let sock_places = places(domains, ends.map(of_node));
        Some(Division { domain_of, domains, link_places, sock_places, window })
    }
}

/// Returns the place of each thing in the list of its domain.
fn places(domains: usize, of: impl Iterator<Item = u32>) -> Arc<[u32]> {
    let mut next = vec![0; domains];
    let place = |domain: u32| {
        let next = &mut next[domain as usize];
        *next += 1;
        *next - 1
    };
    of.map(place).collect()
}

/// What a domain has of links, of sockets, and of flows with a socket in it.
pub(crate) struct Numberings {
    pub(crate) links: Numbering,
    pub(crate) socks: Numbering,
    pub(crate) flows: Numbering,
}

impl Division {
    /// Returns the domain of a node.
    pub(crate) fn domain_of(&self, node: NodeId) -> u32 {
        self.domain_of[node as usize]
    }
}

/// Reports whether no feature of a run spans its network.
fn can_be_divided(run: &Run) -> bool {
    let is_of_file = |cc: &Cc| cc.algorithm.module().is_some();
    let flow_is_local =
        |flow: &Flow| !is_of_file(&flow.cc) && !flow.peer_cc.as_ref().is_some_and(is_of_file);
    let is_ipv6 = |node: &Node| node.host.as_ref().is_some_and(|host| host.ipv6);
    // A new hash of a flow changes the choices of all switches.
    let switches_learn_hashes =
        !run.network.balance.is_empty() && run.network.nodes.iter().any(is_ipv6);
    !switches_learn_hashes && run.schedule.is_empty() && run.flows.iter().all(flow_is_local)
}

/// Returns the site of each node: nodes of one site are in one domain. A site is a switch with its
/// hosts, and with all that links without delay or shared buffers join to it.
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
    for buffer in &network.buffers {
        let mut nodes = buffer.links.iter().map(|link| network.links[*link as usize].from);
        if let Some(first) = nodes.next() {
            nodes.for_each(|node| sites.join(first, node));
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
/// the least load. `loads` are those of nodes.
fn assign(loads: &[f64], sites: &[u32], most: usize) -> Vec<u32> {
    let mut load = vec![0u64; sites.len()];
    for (of_node, site) in loads.iter().zip(sites) {
        load[*site as usize] += *of_node as u64;
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

    /// Returns the numbers of what the domain has.
    pub(crate) fn numbering(&self, run: &Run) -> Numberings {
        let Some(division) = &self.division else {
            let all = Numbering::default;
            return Numberings { links: all(), socks: all(), flows: all() };
        };
        let has = |node: &NodeId| self.has_node(*node);
        let links = (0..).zip(&run.network.links).filter(|(_, link)| has(&link.from));
        let ends = run.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let socks = (0..).zip(ends).filter(|(_, node)| has(node));
        let flows = (0..).zip(&run.flows).filter(|(_, flow)| has(&flow.from) || has(&flow.to));
        Numberings {
            links: Numbering::shared(&division.link_places, links.map(|(number, _)| number)),
            socks: Numbering::shared(&division.sock_places, socks.map(|(number, _)| number)),
            flows: Numbering::own(run.flows.len(), flows.map(|(number, _)| number)),
        }
    }

    /// Returns the numbers of the links that lead to the domain's nodes.
    pub(crate) fn links_to(&self, network: &Network) -> Numbering {
        if self.division.is_none() {
            return Numbering::default();
        }
        let links = (0..).zip(&network.links).filter(|(_, link)| self.has_node(link.to));
        Numbering::own(network.links.len(), links.map(|(number, _)| number))
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
            Division::of(&run, &Plan::new(&run).unwrap(), 2).is_some()
        };
        let (short, long) = (Duration::from_ns(199), Duration::from_ns(200));
        assert!(is_divided(long, long, false) && is_divided(long, long, true));
        assert!(!is_divided(long, short, false));
        // Links to hosts are within domains, but such a run may end at multiples of their delay.
        assert!(is_divided(short, long, false) && !is_divided(short, long, true));
    }
}

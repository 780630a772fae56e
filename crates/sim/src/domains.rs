//! Domains: the parts of a network that a run works on side by side (docs/decisions/0018-windows-by-domains.md).
//!
//! A domain is a set of switches with their hosts, and of ports of other switches ([`assign`](crate::assign)). A packet needs at least the least delay of a link
//! between domains to reach another one, so each domain can work off a window of this length by
//! itself.

use crate::assign::Assignment;
use crate::events::FarEnd;
use crate::expected;
use crate::numbered::Numbering;
use crate::plan::Plan;
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Cc, Flow, LinkId, Network, Node, NodeId, Run};
use std::sync::Arc;

/// A run that ends when all flows are complete ends at a multiple of this time, or of the least delay
/// of a link if that is shorter.
const GRID_MAX: Duration = Duration::from_us(1);

/// Shortest window. In shorter ones domains would mostly wait for each other: with links of 10 ns between 256 hosts, a run
/// takes several times as long on two threads as on one.
const WINDOW_MIN: Duration = Duration::from_ns(200);

/// Flows for each domain: with fewer the exchange between threads costs more than they gain.
const FLOWS_MIN: usize = 32;

/// Events of a window for each domain. With fewer, threads mostly wait for each other: with one or two, two threads take seven times
/// the processor time of one.
const EVENTS_MIN: f64 = 8.0;

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
    assignment: Assignment,
    pub(crate) domains: usize,
    /// Place of each link and of each socket in the list of its domain.
    link_places: Arc<[u32]>,
    sock_places: Arc<[u32]>,
    /// Length of a window: no packet reaches another domain sooner.
    pub(crate) window: Duration,
    /// Expected number of events of the run.
    events: f64,
}

impl Division {
    /// Like [`Division::of`], into as many domains as the run gains from.
    pub(crate) fn worth_it(run: &Run, plan: &Plan, most: usize) -> Option<Division> {
        let mut most = most.min(run.flows.len() / FLOWS_MIN);
        while most > 1 {
            let Some(division) = Division::of(run, plan, most) else {
                most /= 2;
                continue;
            };
            let windows = busy_time(run).ps().div_ceil(division.window.ps()).max(1);
            if division.events >= EVENTS_MIN * division.domains as f64 * windows as f64 {
                return Some(division);
            }
            most /= 2;
        }
        None
    }

    /// Divides the network of a run into up to `most` domains of about equal load. Returns `None` if
    /// it has to stay whole.
    pub(crate) fn of(run: &Run, plan: &Plan, most: usize) -> Option<Division> {
        if most < 2 || !can_be_divided(run) {
            return None;
        }
        let network = &run.network;
        let loads = expected::loads(run, plan);
        let assignment = Assignment::new(network, &loads, most);
        let links = (0..).zip(network.least_delays());
        let least =
            links.filter(|(link, _)| assignment.is_cut(network, *link)).map(|it| it.1).min()?;
        let window = if run.until_done { least.min(grid(network)) } else { least };
        let domains = assignment.domains;
        if domains < 2 || window < WINDOW_MIN {
            return None;
        }
        let link_places = places(domains, assignment.of_links.iter().copied());
        let ends = run.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let sock_places = places(domains, ends.map(|node| assignment.of_nodes[node as usize]));
        let events = loads.events;
        Some(Division { assignment, domains, link_places, sock_places, window, events })
    }
}

/// Returns a lower bound of the time in which flows send.
fn busy_time(run: &Run) -> Duration {
    let sends_until = |flow: &Flow| {
        let end = if flow.traffic.ends() { flow.start } else { flow.stop.unwrap_or(run.end) };
        end.min(run.end)
    };
    let first = run.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO).min(run.end);
    run.flows.iter().map(sends_until).max().map_or(Duration::ZERO, |last| last.since(first))
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
    /// Returns the number of switches whose ports are in several domains.
    pub(crate) fn split_switches(&self) -> usize {
        self.assignment.is_split.iter().filter(|is_split| **is_split).count()
    }

    /// Returns the domain of a node.
    pub(crate) fn domain_of(&self, node: NodeId) -> u32 {
        self.assignment.of_nodes[node as usize]
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
    // An ACK that waits may be replaced, but may also be on its way to another domain.
    let thins_acks = run.network.links.iter().any(|link| link.thins_acks);
    !switches_learn_hashes
        && !thins_acks
        && run.schedule.is_empty()
        && run.flows.iter().all(flow_is_local)
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

    /// Reports whether the domain has this link.
    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.division.as_ref().is_none_or(|it| it.assignment.of_links[link as usize] == self.number)
    }

    /// Returns where the packets of a link of this domain arrive.
    pub(crate) fn far_end(&self, network: &Network, link: LinkId) -> FarEnd {
        let to = network.links[link as usize].to;
        match &self.division {
            Some(division) if division.assignment.is_split[to as usize] => FarEnd::ByNextLink,
            _ => self.beyond(to).map_or(FarEnd::Here, FarEnd::There),
        }
    }

    /// Returns the number of the domain and the domain of each link; `None` if it is the whole network.
    pub(crate) fn among(&self) -> Option<(u32, Arc<[u32]>)> {
        let of_links = &self.division.as_ref()?.assignment.of_links;
        Some((self.number, Arc::clone(of_links)))
    }

    /// Returns the domain of a node if it is another one.
    pub(crate) fn beyond(&self, node: NodeId) -> Option<u32> {
        let domain = self.division.as_ref()?.domain_of(node);
        (domain != self.number).then_some(domain)
    }

    /// Returns the numbers of what the domain has.
    pub(crate) fn numbering(&self, run: &Run) -> Numberings {
        let Some(division) = &self.division else {
            let all = Numbering::default;
            return Numberings { links: all(), socks: all(), flows: all() };
        };
        let has = |node: &NodeId| self.has_node(*node);
        let links = (0..run.network.links.len() as u32).filter(|link| self.has_link(*link));
        let ends = run.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let socks = (0..).zip(ends).filter(|(_, node)| has(node));
        let flows = (0..).zip(&run.flows).filter(|(_, flow)| has(&flow.from) || has(&flow.to));
        Numberings {
            links: Numbering::shared(&division.link_places, links),
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
    use crate::stop::Stop;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::spec::{HostConfig, LinuxVersion, Sampling, Schedule, Traffic};
    use knee_run::topology::{Cable, LeafSpine};

    fn run(
        hosts_per_leaf: u32,
        host_delay: Duration,
        fabric_delay: Duration,
        flows: Vec<Flow>,
    ) -> Run {
        let cable = |delay| Cable {
            delay,
            ..Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(1) }))
        };
        let network = LeafSpine {
            leaves: 2,
            spines: 2,
            hosts_per_leaf,
            host: HostConfig::new(LinuxVersion(6, 1)),
            host_up: cable(host_delay),
            host_down: cable(host_delay),
            fabric: cable(fabric_delay),
        };
        Run {
            seed: 1,
            end: Time::from_ms(100),
            until_done: false,
            network: network.build(),
            flows,
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule::default(),
        }
    }

    #[test]
    fn short_windows_are_not_worth_threads() {
        let is_divided = |host_delay, fabric_delay, until_done| {
            let run = Run { until_done, ..run(2, host_delay, fabric_delay, Vec::new()) };
            Division::of(&run, &Plan::new(&run, Stop::default()).unwrap(), 2).is_some()
        };
        let (short, long) = (Duration::from_ns(199), Duration::from_ns(200));
        assert!(is_divided(long, long, false) && is_divided(long, long, true));
        assert!(!is_divided(long, short, false));
        // Links to hosts are within domains, but such a run may end at multiples of their delay.
        assert!(is_divided(short, long, false) && !is_divided(short, long, true));
    }

    #[test]
    fn few_flows_and_sparse_ones_are_not_worth_threads() {
        // Each flow sends 10 packets, `gap` after the one before.
        let threads = |hosts_per_leaf: u32, flows: u64, gap: Duration| {
            let flow = |number: u64| Flow {
                group: 0,
                from: number as u32 % (2 * hosts_per_leaf),
                to: (number as u32 + 1) % (2 * hosts_per_leaf),
                cc: Cc::by_name("dctcp").unwrap(),
                peer_cc: None,
                start: Time::from_ps(gap.ps() * number),
                first_write: None,
                base_rtt: None,
                dscp: 0,
                peer_dscp: 0,
                max_pacing_rate: None,
                stop: None,
                traffic: Traffic::Bulk { bytes: Some(15_000) },
                read_at_bytes: 1,
                sampled: false,
            };
            let us = Duration::from_us(1);
            let run = run(hosts_per_leaf, us, us, (0..flows).map(flow).collect());
            Division::worth_it(&run, &Plan::new(&run, Stop::default()).unwrap(), 2)
                .map_or(1, |it| it.domains)
        };
        let (dense, sparse) = (Duration::from_ns(100), Duration::from_us(100));
        assert_eq!(
            [threads(2, 63, dense), threads(2, 64, dense), threads(2, 64, sparse)],
            [1, 2, 1]
        );
        // Idle hosts have no events.
        assert_eq!(threads(2000, 64, Duration::from_us(10)), 1);
    }
}

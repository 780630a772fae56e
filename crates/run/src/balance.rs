//! How switches choose among equally short ways, and the next links of each switch.

use crate::Error;
use crate::error::refuse;
use crate::routes::Routes;
use crate::spec::{
    Balance, LinkId, MAX_FLOWLETS, MAX_WEIGHT, Network, NodeId, SwitchBalance, Weights,
};
use knee_queue::time::Duration;
use std::collections::HashMap;

/// Refuses choices that contradict themselves or the network.
pub(crate) fn check(network: &Network) -> Result<(), Error> {
    let mut seen = vec![false; network.nodes.len()];
    for SwitchBalance { switch, balance } in &network.balance {
        let node = network.nodes.get(*switch as usize).filter(|node| node.host.is_none());
        let Some(node) = node else {
            return refuse(format!("balance: node {switch} is no switch: name switches"));
        };
        let name = &node.name;
        if std::mem::replace(&mut seen[*switch as usize], true) {
            return refuse(format!("balance: {name} has two choices: leave one out"));
        }
        match balance {
            Balance::Flowlet { gap, .. } if *gap == Duration::ZERO => {
                return refuse(format!("balance: {name}: a gap of 0: must be above 0"));
            }
            Balance::Flowlet { entries, .. } if !(1..=MAX_FLOWLETS).contains(entries) => {
                return refuse(format!(
                    "balance: {name}: {entries} flowlets: must be 1 to {MAX_FLOWLETS}"
                ));
            }
            Balance::Weighted(Weights::Given(given)) => check_weights(network, *switch, given)?,
            Balance::Weighted(weights) => check_rates(network, *switch, weights)?,
            Balance::Flowlet { .. } | Balance::Spray(_) => {}
        }
    }
    if !network.balance.is_empty() && !network.changes.routes.is_empty() {
        return refuse(
            "balance: only switches that choose by hash (ecmp) learn of links that routes avoid: \
             leave reroute or balance out",
        );
    }
    Ok(())
}

fn check_weights(network: &Network, switch: NodeId, given: &[(LinkId, u32)]) -> Result<(), Error> {
    let name = &network.nodes[switch as usize].name;
    if !given.is_sorted_by(|one, other| one.0 < other.0) {
        return refuse(format!("balance: {name}: weights are not in the order of links"));
    }
    for &(id, weight) in given {
        let Some(link) = network.links.get(id as usize).filter(|link| link.from == switch) else {
            return refuse(format!("balance: {name}: link {id} does not leave this switch"));
        };
        if !(1..=MAX_WEIGHT).contains(&weight) {
            return refuse(format!(
                "balance: link {}: a weight of {weight}: must be 1 to {MAX_WEIGHT}",
                network.link_name(link)
            ));
        }
    }
    Ok(())
}

/// Weights by rates need rates: of the switch's links to switches, or of all such links.
fn check_rates(network: &Network, switch: NodeId, weights: &Weights) -> Result<(), Error> {
    let is_switch =
        |node: NodeId| network.nodes.get(node as usize).is_some_and(|node| node.host.is_none());
    let counts = |from: NodeId| match weights {
        Weights::Rate => from == switch,
        _ => is_switch(from),
    };
    let mut links = network.links.iter().filter(|link| counts(link.from) && is_switch(link.to));
    match links.find(|link| link.rate.is_none()) {
        Some(link) => refuse(format!(
            "balance: weights of {} go by rates, and link {} has none: give it a rate, or give weights",
            network.nodes[switch as usize].name,
            network.link_name(link)
        )),
        None => Ok(()),
    }
}

/// Links from which a switch chooses.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// Number of this set of links in the network; one switch has it.
    pub set: u32,
    /// The links, in ascending order.
    pub links: &'a [LinkId],
    /// For each link the sum of its weight and of those before it; empty: all weigh the same.
    pub sums: &'a [u64],
}

/// For each switch and each place of hosts, the next links. A place is a set of switches that some hosts are linked to.
#[derive(Debug, Default)]
pub struct NextHops {
    /// Place of each host; unused for hosts without traffic.
    place_of: Vec<u32>,
    /// Index of each switch, by node.
    index_of: Vec<u32>,
    switches: usize,
    /// Number of a set, by place and switch; [`AT_HOST`]: hosts of this place have links from the switch.
    set_of: Vec<u32>,
    /// Where each set begins in `links`, and where the last one ends.
    starts: Vec<u32>,
    links: Vec<LinkId>,
    /// As long as `links`. The sums of sets without weights are 0.
    sums: Vec<u64>,
    /// Links from switches into each host: switch and link.
    into_host: Vec<Vec<(NodeId, LinkId)>>,
}

/// The next link leads to the host.
const AT_HOST: u32 = u32::MAX;
/// There is no way.
const NO_WAY: u32 = u32::MAX - 1;

impl NextHops {
    /// Computes the next links to these hosts.
    pub fn new(
        network: &Network,
        routes: &mut Routes,
        traffic: impl IntoIterator<Item = NodeId>,
    ) -> NextHops {
        let mut index_of = vec![0; network.nodes.len()];
        let mut switches = Vec::new();
        for (node, id) in network.nodes.iter().zip(0..) {
            if node.host.is_none() {
                index_of[id as usize] = switches.len() as u32;
                switches.push(id);
            }
        }
        let mut balances: Vec<Option<&Balance>> = vec![None; network.nodes.len()];
        for SwitchBalance { switch, balance } in &network.balance {
            balances[*switch as usize] = Some(balance);
        }
        let mut hops = NextHops {
            place_of: vec![0; network.nodes.len()],
            index_of,
            switches: switches.len(),
            starts: vec![0],
            into_host: vec![Vec::new(); network.nodes.len()],
            ..NextHops::default()
        };
        for (link, id) in network.links.iter().zip(0..) {
            if network.nodes[link.from as usize].host.is_none() {
                hops.into_host[link.to as usize].push((link.from, id));
            }
        }
        let mut places: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut sets: HashMap<(Vec<LinkId>, Vec<u64>), u32> = HashMap::new();
        let mut is_known = vec![false; network.nodes.len()];
        for host in traffic {
            if std::mem::replace(&mut is_known[host as usize], true) {
                continue;
            }
            let place = routes.switches_of(host);
            let next = places.len() as u32;
            let number = *places.entry(place.clone()).or_insert(next);
            hops.place_of[host as usize] = number;
            if number == next {
                let ways = Ways { network, routes, switches: &switches, place: &place };
                hops.add_place(&ways, &balances, &mut sets);
            }
        }
        hops
    }

    fn add_place(
        &mut self,
        ways: &Ways<'_>,
        balances: &[Option<&Balance>],
        sets: &mut HashMap<(Vec<LinkId>, Vec<u64>), u32>,
    ) {
        let network = ways.network;
        let wants_capacity =
            |balance: &&Balance| matches!(balance, Balance::Weighted(Weights::Capacity));
        let capacities = match balances.iter().flatten().any(wants_capacity) {
            true => ways.capacities(),
            false => Vec::new(),
        };
        for &switch in ways.switches {
            let mut links = Vec::new();
            let distance = ways.routes.next_switches(switch, ways.place, &mut links);
            let set = match distance {
                1 => AT_HOST,
                _ if links.is_empty() => NO_WAY,
                _ => {
                    let weights = match balances[switch as usize] {
                        Some(Balance::Weighted(weights)) => {
                            let weight =
                                |link: &LinkId| weigh(network, weights, *link, &capacities);
                            links.iter().map(weight).collect()
                        }
                        _ => Vec::new(),
                    };
                    let next = sets.len() as u32;
                    let set = *sets.entry((links.clone(), weights.clone())).or_insert(next);
                    if set == next {
                        let mut sum = 0u64;
                        self.sums.extend((0..links.len()).map(|at| {
                            sum = sum.saturating_add(weights.get(at).copied().unwrap_or(0));
                            sum
                        }));
                        self.links.extend(links);
                        self.starts.push(self.links.len() as u32);
                    }
                    set
                }
            };
            self.set_of.push(set);
        }
    }

    /// The links from which a switch chooses for packets to a host; `None`: there is one link, to the host.
    #[inline]
    pub fn of(&self, switch: NodeId, host: NodeId) -> Option<Choice<'_>> {
        let place = self.place_of[host as usize] as usize;
        let set = self.set_of[place * self.switches + self.index_of[switch as usize] as usize];
        if set >= NO_WAY {
            return None;
        }
        let range = self.starts[set as usize] as usize..self.starts[set as usize + 1] as usize;
        let (links, sums) = (&self.links[range.clone()], &self.sums[range]);
        let has_weights = sums.last().is_some_and(|sum| *sum > 0);
        Some(Choice { set, links, sums: if has_weights { sums } else { &[] } })
    }

    /// The first link from a switch to a host that is linked to it.
    pub fn to_host(&self, switch: NodeId, host: NodeId) -> Option<LinkId> {
        let mut into = self.into_host[host as usize].iter();
        into.find(|(from, _)| *from == switch).map(|(_, link)| *link)
    }

    /// Number of sets of links.
    pub fn sets(&self) -> usize {
        self.starts.len() - 1
    }

    /// The least delay from a switch to a host by any of its shortest ways.
    pub fn least_delay(&self, network: &Network, switch: NodeId, host: NodeId) -> Duration {
        let mut reached = vec![(switch, Duration::ZERO)];
        let mut least: Option<Duration> = None;
        // All ways are as long, so those at each distance are looked at together.
        while !reached.is_empty() {
            let mut next: HashMap<NodeId, Duration> = HashMap::new();
            let mut order = Vec::new();
            for (node, delay) in reached {
                if let Some(link) = self.to_host(node, host) {
                    let all = delay + network.links[link as usize].delay;
                    least = Some(least.map_or(all, |least| least.min(all)));
                    continue;
                }
                for link in self.of(node, host).map_or(&[][..], |choice| choice.links) {
                    let link = &network.links[*link as usize];
                    let delay = delay + link.delay;
                    let known = next.entry(link.to).or_insert_with(|| {
                        order.push(link.to);
                        delay
                    });
                    *known = delay.min(*known);
                }
            }
            reached = order.into_iter().map(|node| (node, next[&node])).collect();
        }
        least.unwrap_or(Duration::ZERO)
    }
}

/// The ways to a place.
struct Ways<'a> {
    network: &'a Network,
    routes: &'a Routes,
    switches: &'a [NodeId],
    place: &'a [u32],
}

impl Ways<'_> {
    /// What each node can carry on to the place, bit/s.
    fn capacities(&self) -> Vec<u64> {
        let mut order = Vec::with_capacity(self.switches.len());
        for &switch in self.switches {
            let mut links = Vec::new();
            let distance = self.routes.next_switches(switch, self.place, &mut links);
            order.push((distance, switch, links));
        }
        order.sort_unstable();
        let mut capacities = vec![0u64; self.network.nodes.len()];
        for (distance, switch, links) in order {
            let flows = links.iter().map(|link| flow_of(self.network, *link, &capacities));
            let sum = flows.fold(0, u64::saturating_add);
            // The link to the host is common to all ways.
            capacities[switch as usize] = if distance == 1 { u64::MAX } else { sum };
        }
        capacities
    }
}

/// What a link can carry on, if its far end carries this.
fn flow_of(network: &Network, link: LinkId, capacities: &[u64]) -> u64 {
    let link = &network.links[link as usize];
    link.rate.map_or(u64::MAX, |rate| rate.bps()).min(capacities[link.to as usize])
}

/// The weight of a link, at least 1.
fn weigh(network: &Network, weights: &Weights, link: LinkId, capacities: &[u64]) -> u64 {
    let weight = match weights {
        Weights::Capacity => flow_of(network, link, capacities),
        Weights::Rate => network.links[link as usize].rate.map_or(1, |rate| rate.bps()),
        Weights::Given(given) => {
            let found = given.binary_search_by_key(&link, |(id, _)| *id);
            found.map_or(1, |at| u64::from(given[at].1))
        }
    };
    weight.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HostConfig, LinuxVersion};
    use crate::topology::{Cable, FatTree};
    use knee_queue::time::Rate;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    /// A fat tree of 16 hosts, all links at 10 Gbps and 1 us.
    fn tree() -> Network {
        let cable = Cable {
            delay: Duration::from_us(1),
            ..Cable::new(
                Rate::from_bps(10_000_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(100) }),
            )
        };
        FatTree {
            k: 4,
            host: HostConfig::new(LinuxVersion(6, 1)),
            host_up: cable.clone(),
            host_down: cable.clone(),
            edge: cable.clone(),
            core: cable,
        }
        .build()
    }

    fn node(network: &Network, name: &str) -> NodeId {
        (0..).zip(&network.nodes).find(|(_, node)| node.name == name).unwrap().0
    }

    fn link<'a>(network: &'a mut Network, name: &str) -> &'a mut crate::spec::Link {
        let id = network.link_named(name).unwrap();
        &mut network.links[id as usize]
    }

    /// Names of the links that a switch chooses from, and the sums of their weights in Gbps.
    fn choice(network: &Network, switch: &str, host: &str) -> Option<(Vec<String>, Vec<u64>)> {
        let (switch, host) = (node(network, switch), node(network, host));
        let mut routes = Routes::new(network);
        let hops = NextHops::new(network, &mut routes, [host, host]);
        let choice = hops.of(switch, host)?;
        let names =
            choice.links.iter().map(|link| network.link_name(&network.links[*link as usize]));
        Some((names.collect(), choice.sums.iter().map(|sum| sum / 1_000_000_000).collect()))
    }

    #[test]
    fn next_links_are_those_of_all_shortest_ways() {
        let network = tree();
        let names = |switch, host| choice(&network, switch, host).map(|(names, _)| names);
        let of = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
        let up = ["edge0.0-aggregation0.0", "edge0.0-aggregation0.1"];
        assert_eq!(names("edge0.0", "h2.1.0"), of(up));
        assert_eq!(names("edge0.0", "h0.1.0"), of(up));
        assert_eq!(
            names("aggregation0.1", "h2.1.0"),
            of(["aggregation0.1-core2", "aggregation0.1-core3"])
        );
        assert_eq!(names("core3", "h2.1.0").map(|names| names.len()), Some(1));
        assert_eq!(names("edge2.1", "h2.1.0"), None, "the host is linked to it");
    }

    #[test]
    fn weights_by_capacity_are_what_links_can_carry_to_the_place() {
        let mut network = tree();
        let balance = Balance::Weighted(Weights::Capacity);
        let switch = node(&network, "edge0.0");
        network.balance = vec![SwitchBalance { switch, balance }];
        let sums = |network: &Network| choice(network, "edge0.0", "h2.1.0").unwrap().1;
        assert_eq!(sums(&network), [10, 20]);
        // Of the two cores above aggregation0.1 one has a slow link down, and the other a slower one up.
        link(&mut network, "core2-aggregation2.1").rate = Rate::from_bps(4_000_000_000);
        link(&mut network, "aggregation0.1-core3").rate = Rate::from_bps(1_000_000_000);
        assert_eq!(sums(&network), [10, 15]);
        network.balance[0].balance = Balance::Weighted(Weights::Rate);
        assert_eq!(sums(&network), [10, 20]);
        let id = network.link_named("edge0.0-aggregation0.1").unwrap();
        let given = vec![(id, 3_000_000_000)];
        network.balance[0].balance = Balance::Weighted(Weights::Given(given));
        assert_eq!(sums(&network), [0, 3], "a link that is not given has 1");
    }

    #[test]
    fn the_least_delay_is_that_of_the_fastest_of_the_shortest_ways() {
        let mut network = tree();
        let (switch, host) = (node(&network, "edge0.0"), node(&network, "h2.1.0"));
        link(&mut network, "aggregation0.1-core2").delay = Duration::from_ns(300);
        link(&mut network, "edge0.0-aggregation0.1").delay = Duration::from_ns(1_200);
        let hops = NextHops::new(&network, &mut Routes::new(&network), [host]);
        // 1.2 + 0.3 + 3 links of 1 us.
        assert_eq!(hops.least_delay(&network, switch, host), Duration::from_ns(4_500));
    }
}

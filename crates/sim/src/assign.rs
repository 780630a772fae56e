//! Which domain has which node and which link.
//!
//! Switches with hosts are dealt out first. A switch without hosts belongs to the domain of its neighbours if they have one in common.
//! If not, each of its ports belongs to the domain that it leads to. So most packets change their domain once at most.

use crate::expected::Loads;
use knee_queue::time::Duration;
use knee_run::spec::{LinkId, Network, NodeId};
use std::cmp::Reverse;
use std::sync::Arc;

/// How much heavier the heaviest domain may be than with whole sites, if fewer packets change their domain for it.
const UNEVEN: f64 = 1.05;
/// Rounds in which switches without hosts join their neighbours' domain. One that is further away from all hosts is split.
const JOIN_ROUNDS: usize = 8;
/// Steps in the search for the least load of the heaviest piece: each halves the error.
const HALVINGS: usize = 30;
/// The domain of a node that has none yet.
const NOBODY: u32 = u32::MAX;

/// What domains have of a network.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) domains: usize,
    /// Domain of each node; the first one for a node whose ports are in several domains.
    pub(crate) of_nodes: Vec<u32>,
    pub(crate) of_links: Arc<[u32]>,
    /// Whether the ports of a node are in several domains.
    pub(crate) is_split: Vec<bool>,
}

impl Assignment {
    /// Assigns a network to at most `most` domains of about equal load.
    pub(crate) fn new(network: &Network, loads: &Loads, most: usize) -> Assignment {
        let sites = sites(network);
        let by_weight = Assignment::by_weight(network, loads, &sites, most);
        if !ports_are_independent(network) {
            return by_weight;
        }
        let by_place = Assignment::by_place(network, loads, &sites, most);
        let heaviest = |it: &Assignment| it.load(loads).into_iter().fold(0.0, f64::max);
        let is_even = heaviest(&by_place) <= heaviest(&by_weight) * UNEVEN;
        if is_even { by_place } else { by_weight }
    }

    /// Assigns whole sites, the heaviest first, always to the domain with the least load.
    fn by_weight(network: &Network, loads: &Loads, sites: &[NodeId], most: usize) -> Assignment {
        let mut weights = vec![0u64; sites.len()];
        for (site, load) in sites.iter().zip(&loads.of_nodes) {
            weights[*site as usize] += *load as u64;
        }
        for (link, load) in network.links.iter().zip(&loads.of_links) {
            weights[sites[link.from as usize] as usize] += *load as u64;
        }
        let mut order: Vec<u32> =
            (0..).zip(&weights).filter(|it| *it.1 > 0).map(|it| it.0).collect();
        order.sort_by_key(|site| (Reverse(weights[*site as usize]), *site));
        let mut domains = vec![0u64; most.min(order.len())];
        let mut of_sites = vec![0; sites.len()];
        for site in order {
            let least = domains.iter().zip(0..).min().map_or(0, |(_, domain)| domain);
            domains[least as usize] += weights[site as usize];
            of_sites[site as usize] = least;
        }
        let of_nodes: Vec<u32> = sites.iter().map(|site| of_sites[*site as usize]).collect();
        Assignment {
            domains: domains.len(),
            of_links: network.links.iter().map(|link| of_nodes[link.from as usize]).collect(),
            is_split: vec![false; of_nodes.len()],
            of_nodes,
        }
    }

    /// Cuts the list of sites with hosts into pieces. Sites with numbers next to each other are often neighbours in the network.
    fn by_place(network: &Network, loads: &Loads, sites: &[NodeId], most: usize) -> Assignment {
        // A site of one switch alone can be split.
        let mut is_whole = vec![false; sites.len()];
        for (node, site) in (0..).zip(sites) {
            is_whole[*site as usize] |=
                network.nodes[node as usize].host.is_some() || node != *site;
        }
        // What is between two switches that can be split, no site has.
        let mut weights = vec![0.0; sites.len()];
        for (site, load) in sites.iter().zip(&loads.of_nodes) {
            weights[*site as usize] += load;
        }
        for (link, load) in network.links.iter().zip(&loads.of_links) {
            let [from, to] = [link.from, link.to].map(|node| sites[node as usize] as usize);
            weights[if is_whole[from] { from } else { to }] += load;
        }
        let whole: Vec<usize> = (0..sites.len()).filter(|site| is_whole[*site]).collect();
        let pieces = pieces(whole.iter().map(|site| weights[*site]).collect(), most);
        let mut of_sites = vec![NOBODY; sites.len()];
        for (site, piece) in whole.iter().zip(&pieces) {
            of_sites[*site] = *piece;
        }
        let mut of_nodes: Vec<u32> = sites.iter().map(|site| of_sites[*site as usize]).collect();
        join_neighbours(network, &mut of_nodes);
        let domains = pieces.last().map_or(0, |last| *last as usize + 1);
        let mut of_links = Vec::with_capacity(network.links.len());
        for (index, link) in network.links.iter().enumerate() {
            let [from, to] = [link.from, link.to].map(|node| of_nodes[node as usize]);
            // Between two switches that are split, any domain may have it.
            let any = (index % domains.max(1)) as u32;
            of_links.push([from, to].into_iter().find(|it| *it != NOBODY).unwrap_or(any));
        }
        let is_split: Vec<bool> = of_nodes.iter().map(|domain| *domain == NOBODY).collect();
        of_nodes.iter_mut().filter(|domain| **domain == NOBODY).for_each(|domain| *domain = 0);
        Assignment { domains, of_nodes, of_links: of_links.into(), is_split }
    }

    fn load(&self, loads: &Loads) -> Vec<f64> {
        let mut load = vec![0.0; self.domains.max(1)];
        let nodes = self.of_nodes.iter().zip(&loads.of_nodes);
        for (domain, of_one) in nodes.chain(self.of_links.iter().zip(&loads.of_links)) {
            load[*domain as usize] += of_one;
        }
        load
    }

    /// Reports whether packets of a link may arrive in another domain.
    pub(crate) fn is_cut(&self, network: &Network, link: LinkId) -> bool {
        let to = network.links[link as usize].to as usize;
        self.is_split[to] || self.of_links[link as usize] != self.of_nodes[to]
    }
}

/// Reports whether what a port of a switch does depends on its own packets alone.
fn ports_are_independent(network: &Network) -> bool {
    network.buffers.is_empty()
        && network.flow_control.is_none()
        && network.ports.is_empty()
        && network.balance.is_empty()
}

/// Gives switches the domain of those of their neighbours that have one, if they all have the same one.
fn join_neighbours(network: &Network, of_nodes: &mut [u32]) {
    for _ in 0..JOIN_ROUNDS {
        let before = of_nodes.to_vec();
        let mut neighbours = vec![None; before.len()];
        for link in &network.links {
            let domain = before[link.to as usize];
            if before[link.from as usize] == NOBODY && domain != NOBODY {
                let common: &mut Option<Option<u32>> = &mut neighbours[link.from as usize];
                *common = Some(common.unwrap_or(Some(domain)).filter(|it| *it == domain));
            }
        }
        for (of_node, common) in of_nodes.iter_mut().zip(neighbours) {
            if let Some(Some(domain)) = common {
                *of_node = domain;
            }
        }
        if before == of_nodes {
            return;
        }
    }
}

/// Cuts a list of things into at most `most` pieces, so that the heaviest one is about as light as possible. Returns the piece of each.
fn pieces(weights: Vec<f64>, most: usize) -> Vec<u32> {
    let cut = |most_weight: f64| {
        let (mut piece, mut weight) = (0, 0.0);
        let place = weights.iter().map(|it| {
            if weight > 0.0 && weight + it > most_weight {
                (piece, weight) = (piece + 1, 0.0);
            }
            weight += it;
            piece
        });
        place.collect::<Vec<u32>>()
    };
    let sum: f64 = weights.iter().sum();
    let (mut too_light, mut enough) = (0.0, sum);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(too_light, enough);
        let fits = cut(middle).last().is_none_or(|last| (*last as usize) < most);
        *(if fits { &mut enough } else { &mut too_light }) = middle;
    }
    cut(enough)
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

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::time::Rate;
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_run::routes::Routes;
    use knee_run::spec::{FlowControl, HostConfig, LinuxVersion, Stops};
    use knee_run::topology::{Cable, FatTree, LeafSpine};

    fn cable() -> Cable {
        Cable {
            delay: Duration::from_us(1),
            ..Cable::new(
                Rate::from_bps(10_000_000_000),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::UNLIMITED }),
            )
        }
    }

    fn leaf_spine() -> Network {
        let host = HostConfig::new(LinuxVersion(6, 1));
        let (host_up, host_down, fabric) = (cable(), cable(), cable());
        LeafSpine { leaves: 4, spines: 3, hosts_per_leaf: 2, host, host_up, host_down, fabric }
            .build()
    }

    fn fat_tree() -> Network {
        let host = HostConfig::new(LinuxVersion(6, 1));
        let (host_up, host_down) = (cable(), cable());
        FatTree { k: 4, host, host_up, host_down, edge: cable(), core: cable() }.build()
    }

    /// Each link has the same load.
    fn even(network: &Network) -> Loads {
        let of_links = vec![100.0; network.links.len()];
        Loads { of_nodes: vec![1.0; network.nodes.len()], of_links, events: 0.0 }
    }

    fn assigned(network: &Network, domains: usize) -> Assignment {
        Assignment::new(network, &even(network), domains)
    }

    /// The most times that a packet changes its domain between any two hosts.
    fn most_changes(network: &Network, assignment: &Assignment) -> usize {
        let mut routes = Routes::new(network);
        let hosts = || (0..).zip(&network.nodes).filter(|it| it.1.host.is_some()).map(|it| it.0);
        let pairs = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
        let ways = pairs
            .filter(|(from, to)| from != to)
            .flat_map(|pair| (0..8).map(move |hash| (pair, hash)));
        let changes = ways.map(|((from, to), hash)| {
            let path = routes.path(from, to, hash).unwrap();
            let on_the_way = path.iter().map(|link| assignment.of_links[*link as usize]);
            let all: Vec<u32> = on_the_way.chain([assignment.of_nodes[to as usize]]).collect();
            all.windows(2).filter(|pair| pair[0] != pair[1]).count()
        });
        changes.max().unwrap()
    }

    #[test]
    fn packets_change_their_domain_once_at_most() {
        for (network, domains) in
            [(leaf_spine(), 2), (leaf_spine(), 4), (fat_tree(), 2), (fat_tree(), 4)]
        {
            let assignment = assigned(&network, domains);
            assert_eq!(assignment.domains, domains);
            assert_eq!(most_changes(&network, &assignment), 1);
            let load = assignment.load(&even(&network));
            assert!(load.iter().all(|it| *it < load[0] * 1.01 && *it > load[0] * 0.99), "{load:?}");
        }
        // Halves of pods: their packets do, too, within the pod.
        assert!(most_changes(&fat_tree(), &assigned(&fat_tree(), 8)) <= 3);
    }

    #[test]
    fn spines_and_cores_are_split_and_switches_of_a_pod_are_not() {
        let split = |network: &Network, domains| {
            let assignment = assigned(network, domains);
            assignment.is_split.iter().filter(|it| **it).count()
        };
        assert_eq!(
            (split(&leaf_spine(), 2), split(&fat_tree(), 2), split(&fat_tree(), 4)),
            (3, 4, 4)
        );
        // All neighbours of the cores are split, too.
        assert_eq!(split(&fat_tree(), 8), 4 + 8);
    }

    #[test]
    fn what_spans_a_switch_keeps_it_whole() {
        let mut network = leaf_spine();
        let thresholds = knee_run::spec::Thresholds { xoff_bytes: 6000, xon_bytes: 3000 };
        network.flow_control = Some(FlowControl {
            switches: None,
            stops: Stops::Links(thresholds),
            reaction: Duration::ZERO,
            quanta: 1,
            lossless: false,
        });
        let assignment = assigned(&network, 2);
        assert_eq!(assignment.domains, 2);
        assert!(!assignment.is_split.contains(&true));
    }

    #[test]
    fn a_network_without_hosts_is_assigned() {
        let mut network = leaf_spine();
        network.nodes.iter_mut().for_each(|node| node.host = None);
        let assignment = assigned(&network, 2);
        let domains = assignment.domains as u32;
        assert!(assignment.of_links.iter().all(|domain| *domain < domains));
    }

    #[test]
    fn a_heavy_site_is_alone_in_its_domain() {
        let network = leaf_spine();
        let mut loads = even(&network);
        loads.of_nodes[0] = 1e6;
        let assignment = Assignment::new(&network, &loads, 3);
        let beside = |node: usize| assignment.of_nodes[node] == assignment.of_nodes[0];
        // Hosts 0 and 1 have one leaf.
        assert_eq!((0..8).filter(|host| beside(*host)).count(), 2);
    }
}

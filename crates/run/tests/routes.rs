//! Paths through random networks, beside those of a plain search of the whole network per host.

use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::routes::{Routes, mix};
use knee_run::spec::{HostConfig, LinkId, LinuxVersion, Network, NodeId};
use knee_run::topology::{Cable, FatTree, LeafSpine};
use proptest::prelude::*;

fn cable() -> Cable {
    Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(1) }))
}

fn network(hosts: &[bool], links: &[(u32, u32)]) -> Network {
    let mut network = Network::default();
    for (i, is_host) in hosts.iter().enumerate() {
        match is_host {
            true => network.host(format!("n{i}"), HostConfig::new(LinuxVersion(6, 1))),
            false => network.switch(format!("n{i}")),
        };
    }
    for &(from, to) in links {
        network.link(from, to, cable());
    }
    network
}

/// Distance of each node, breadth first and backwards from the host; hosts do not forward.
fn distances(network: &Network, to: NodeId) -> Vec<u32> {
    let mut distances = vec![u32::MAX; network.nodes.len()];
    distances[to as usize] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&node) = reached.get(next) {
        next += 1;
        if node != to && network.nodes[node as usize].host.is_some() {
            continue;
        }
        for link in network.links.iter().filter(|link| link.to == node) {
            if distances[link.from as usize] == u32::MAX {
                distances[link.from as usize] = distances[node as usize] + 1;
                reached.push(link.from);
            }
        }
    }
    distances
}

/// At each node the hash picks one of the links to nodes that are nearer, and that forward.
fn plain_path(network: &Network, from: NodeId, to: NodeId, hash: u64) -> Option<Vec<LinkId>> {
    let distances = distances(network, to);
    let mut path = Vec::new();
    let mut node = from;
    while node != to {
        let next = distances[node as usize].checked_sub(1).filter(|next| *next < u32::MAX - 1)?;
        let links = network.links.iter().zip(0..);
        let forwards = |node: NodeId| node == to || network.nodes[node as usize].host.is_none();
        let nearer = links.filter(|(link, _)| {
            link.from == node && distances[link.to as usize] == next && forwards(link.to)
        });
        let nearer: Vec<LinkId> = nearer.map(|(_, id)| id).collect();
        path.push(nearer[(mix(hash, node) % nearer.len() as u64) as usize]);
        node = network.links[*path.last()? as usize].to;
    }
    Some(path)
}

fn same_paths(network: &Network, hash: u64) {
    let mut routes = Routes::new(network);
    let hosts = || (0..).zip(&network.nodes).filter(|(_, node)| node.host.is_some());
    for (to, _) in hosts() {
        for (from, _) in hosts().filter(|(from, _)| *from != to) {
            let hash = mix(hash, from);
            let expected = plain_path(network, from, to, hash);
            assert_eq!(routes.path(from, to, hash), expected, "{from} to {to}");
        }
        if to % 3 == 0 {
            routes.forget_distances();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Hosts may have several links, links may be one-way or double, and parts may be apart.
    #[test]
    fn random_graphs_have_the_paths_of_a_search_per_host(
        hosts in prop::collection::vec(prop::bool::weighted(0.4), 2..16),
        links in prop::collection::vec((0u32..16, 0u32..16, any::<bool>()), 0..60),
        hash in any::<u64>(),
    ) {
        let count = hosts.len() as u32;
        let mut both = Vec::new();
        for (a, b, is_oneway) in links {
            let (a, b) = (a % count, b % count);
            if a != b {
                both.push((a, b));
                both.extend((!is_oneway).then_some((b, a)));
            }
        }
        same_paths(&network(&hosts, &both), hash);
    }

    /// The hosts of a data center are linked to one or two switches each.
    #[test]
    fn fabrics_have_the_paths_of_a_search_per_host(
        switches in 1u32..8,
        cables in prop::collection::vec((0u32..8, 0u32..8), 0..24),
        places in prop::collection::vec((0u32..8, 0u32..8), 2..8),
        hash in any::<u64>(),
    ) {
        let mut hosts = vec![false; switches as usize];
        let mut links = Vec::new();
        let mut join = |a, b| if a != b { links.extend([(a, b), (b, a)]) };
        cables.iter().for_each(|(a, b)| join(a % switches, b % switches));
        for (first, second) in places {
            let host = hosts.len() as u32;
            hosts.push(true);
            join(host, first % switches);
            // Half of them have one link.
            join(host, if second < 4 { second % switches } else { host });
        }
        same_paths(&network(&hosts, &links), hash);
    }
}

#[test]
fn regular_fabrics_have_the_paths_of_a_search_per_host() {
    let host = || HostConfig::new(LinuxVersion(6, 1));
    let leaf_spine = LeafSpine {
        leaves: 5,
        spines: 3,
        hosts_per_leaf: 2,
        host: host(),
        host_up: cable(),
        host_down: cable(),
        fabric: cable(),
    };
    let fat_tree = FatTree {
        k: 4,
        host: host(),
        host_up: cable(),
        host_down: cable(),
        edge: cable(),
        core: cable(),
    };
    same_paths(&leaf_spine.build(), 7);
    same_paths(&fat_tree.build(), 8);
}

#[test]
fn a_host_with_two_links_does_not_forward() {
    // Leaves 0 and 1, spine 2; host 3 has links to both leaves, as long a way as over the spine.
    let joined = [(0, 2), (1, 2), (3, 0), (3, 1), (4, 0), (5, 1)];
    let links: Vec<_> = joined.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let network = network(&[false, false, false, true, true, true], &links);
    let mut routes = Routes::new(&network);
    for hash in 0..32 {
        let path = routes.path(4, 5, mix(hash, 1)).expect("there is a way");
        let nodes: Vec<_> = path.iter().map(|link| network.links[*link as usize].to).collect();
        assert_eq!(nodes, [0, 2, 1, 5]);
    }
    same_paths(&network, 5);
}

#[test]
fn a_row_of_300_switches_has_its_one_path() {
    let mut hosts = vec![false; 300];
    hosts.extend([true, true]);
    let mut links: Vec<_> = (1..300).flat_map(|i| [(i - 1, i), (i, i - 1)]).collect();
    links.extend([(300, 0), (0, 300), (301, 299), (299, 301)]);
    same_paths(&network(&hosts, &links), 9);
}

/// A host with links to two switches is as near to what is behind the second one as a switch between them.
#[test]
fn no_path_leads_through_a_host() {
    const HOSTS: [bool; 6] = [true, false, true, false, false, true];
    let cables = [(0, 1), (1, 2), (2, 4), (1, 3), (3, 4), (4, 5)];
    let links: Vec<_> = cables.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    let network = network(&HOSTS, &links);
    let mut routes = Routes::new(&network);
    for hash in 0..64 {
        let path = routes.path(0, 5, mix(hash, 0)).unwrap();
        let nodes: Vec<NodeId> = path.iter().map(|link| network.links[*link as usize].to).collect();
        assert_eq!(nodes, [1, 3, 4, 5]);
    }
    // Its own packets leave by either link, and reach it by either.
    let ways = |routes: &mut Routes, from, to| {
        let all = (0..64).map(|hash| routes.path(from, to, mix(hash, 9)).unwrap().len());
        all.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ways(&mut routes, 0, 2), [2].into());
    assert_eq!(ways(&mut routes, 2, 5), [2].into());
}

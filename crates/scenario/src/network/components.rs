//! Strongly connected components of a network's switches: each switch has a path to all others of its component. Most
//! networks are one component, so that paths need not be looked for pair by pair.

use knee_run::spec::{Network, NodeId};

/// The components next to each host.
pub(super) struct Components {
    /// By node: the components to which a host has a link and from which it has one, in order. Empty for a switch.
    of_host: Vec<Vec<NodeId>>,
}

impl Components {
    pub(super) fn of(network: &Network) -> Components {
        let is_host = |node: NodeId| network.nodes[node as usize].host.is_some();
        let lists = || vec![Vec::new(); network.nodes.len()];
        let (mut out, mut into) = (lists(), lists());
        for link in &network.links {
            out[link.from as usize].push(link.to);
            into[link.to as usize].push(link.from);
        }
        let component = components(&out, &into, &is_host);
        let next_to = |nodes: &[NodeId]| -> Vec<NodeId> {
            let switches = nodes.iter().filter(|node| !is_host(**node));
            let mut all: Vec<NodeId> = switches.map(|node| component[*node as usize]).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let of_host = out.iter().zip(&into).zip(0..).map(|((out, into), node)| {
            if !is_host(node) {
                return Vec::new();
            }
            let (mut both, into) = (next_to(out), next_to(into));
            both.retain(|component| into.binary_search(component).is_ok());
            both
        });
        Components { of_host: of_host.collect() }
    }

    /// Whether two hosts are next to one component, so that there are paths between them in both directions.
    pub(super) fn join(&self, a: NodeId, b: NodeId) -> bool {
        let [a, b] = [a, b].map(|host| &self.of_host[host as usize]);
        a.iter().any(|component| b.binary_search(component).is_ok())
    }
}

/// Returns the component of each switch, as the number of one of its switches (Kosaraju's algorithm). Hosts do not
/// forward, so no path leads through them.
fn components(
    out: &[Vec<NodeId>],
    into: &[Vec<NodeId>],
    is_host: &dyn Fn(NodeId) -> bool,
) -> Vec<NodeId> {
    let mut seen: Vec<bool> = (0..out.len() as NodeId).map(is_host).collect();
    // Each switch after all that are reached from it for the first time.
    let mut order = Vec::new();
    let mut path: Vec<(NodeId, usize)> = Vec::new();
    for first in 0..out.len() as NodeId {
        if !std::mem::replace(&mut seen[first as usize], true) {
            path.push((first, 0));
        }
        while let Some((node, next)) = path.last_mut() {
            let to = out[*node as usize].get(*next).copied();
            *next += 1;
            match to {
                Some(to) if std::mem::replace(&mut seen[to as usize], true) => {}
                Some(to) => path.push((to, 0)),
                None => {
                    order.push(*node);
                    path.pop();
                }
            }
        }
    }
    let mut component: Vec<Option<NodeId>> = vec![None; out.len()];
    for first in order.into_iter().rev() {
        let mut reached = vec![first];
        while let Some(node) = reached.pop() {
            if !is_host(node) && component[node as usize].is_none() {
                component[node as usize] = Some(first);
                reached.extend(&into[node as usize]);
            }
        }
    }
    (0..).zip(component).map(|(node, component)| component.unwrap_or(node)).collect()
}

#[cfg(test)]
mod tests {
    use knee_run::routes::Routes;
    use knee_run::spec::{HostConfig, LinuxVersion};
    use proptest::prelude::*;

    use super::*;

    /// Hosts first, then switches.
    fn network(hosts: NodeId, switches: NodeId, links: &[(NodeId, NodeId)]) -> Network {
        let mut network = Network::default();
        for host in 0..hosts {
            network.host(format!("h{host}"), HostConfig::new(LinuxVersion(6, 1)));
        }
        for switch in 0..switches {
            network.switch(format!("s{switch}"));
        }
        for (from, to) in links.iter().filter(|(from, to)| from != to) {
            network.link(*from, *to, super::super::nothing());
        }
        network
    }

    #[test]
    fn a_ring_of_one_way_links_is_a_component_and_a_chain_is_none() {
        let at_hosts = [(0, 2), (2, 0), (1, 4), (4, 1)];
        let chain = [(2, 3), (3, 4)];
        let joined = |links: &[(NodeId, NodeId)]| {
            Components::of(&network(2, 3, &[&at_hosts, links].concat())).join(0, 1)
        };
        assert!(!joined(&chain));
        assert!(joined(&[&chain[..], &[(4, 2)]].concat()));
        // A host does not forward.
        assert!(!joined(&[&chain[..], &[(4, 0)]].concat()));
    }

    proptest! {
        #[test]
        fn hosts_that_a_component_joins_have_paths(
            links in prop::collection::vec((0..9u32, 0..9u32), 0..40),
        ) {
            let network = network(4, 5, &links);
            let (components, mut routes) = (Components::of(&network), Routes::new(&network));
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let leads = routes.leads(a, b) && routes.leads(b, a);
                prop_assert!(leads || !components.join(a, b), "{a} {b} {links:?}");
            }
            // With both directions of each link, a path leads over one component or one link.
            let back: Vec<_> = links.iter().map(|(from, to)| (*to, *from)).collect();
            let both = self::network(4, 5, &[links.clone(), back].concat());
            let (components, mut routes) = (Components::of(&both), Routes::new(&both));
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let is_linked = links.contains(&(a, b)) || links.contains(&(b, a));
                prop_assert_eq!(routes.leads(a, b), is_linked || components.join(a, b));
            }
        }
    }
}

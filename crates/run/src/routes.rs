//! Paths: shortest by number of links, and of several equally short ones the one that a hash picks.

use crate::Error;
use crate::spec::{LinkId, Network, NodeId};
use std::collections::{HashMap, HashSet};

/// Ends a path in a list of them: the packet has reached its host.
pub const PATH_END: LinkId = LinkId::MAX;

/// Ways through a network. It keeps what it needs of that: paths are also found while a run goes on.
///
/// Distances are kept between switches only, one table for all hosts of the same switches: memory does not grow with hosts squared.
pub struct Routes {
    /// The nodes that each link joins.
    ends: Vec<(NodeId, NodeId)>,
    /// Links that leave each node.
    out: Lists,
    /// Links that enter each node.
    into: Lists,
    /// Links of `out` that lead to switches: hosts do not forward.
    forward: Lists,
    switches: Switches,
    /// Distances to the hosts of these switches, by indices of switches in ascending order.
    distances: HashMap<Vec<u32>, Distances>,
}

impl Routes {
    /// Prepares the routes of a network.
    pub fn new(network: &Network) -> Routes {
        Routes::without(network, &HashSet::new())
    }

    /// Prepares the routes of a network that avoid these links.
    fn without(network: &Network, avoided: &HashSet<LinkId>) -> Routes {
        let nodes = &network.nodes;
        let is_used = |id: &LinkId| avoided.is_empty() || !avoided.contains(id);
        let ends: Vec<_> = network.links.iter().map(|link| (link.from, link.to)).collect();
        let by = |node: fn(&(NodeId, NodeId)) -> NodeId| {
            let items = ends.iter().zip(0..).filter(|(_, id)| is_used(id));
            Lists::new(nodes.len(), items.map(move |(ends, id)| (node(ends), id)))
        };
        let (out, into) = (by(|ends| ends.0), by(|ends| ends.1));
        let is_host = |node: NodeId| nodes[node as usize].host.is_some();
        let leading = ends.iter().zip(0..).filter(|((_, to), id)| !is_host(*to) && is_used(id));
        let forward = Lists::new(nodes.len(), leading.map(|(ends, id)| (ends.0, id)));
        Routes {
            switches: Switches::new(network, is_used),
            ends,
            out,
            into,
            forward,
            distances: HashMap::new(),
        }
    }

    /// The links from one host to another; `hash` stands for the flow's addresses, ports and label. `None`: there is no
    /// way; see [`no_path`].
    pub fn path(&mut self, from: NodeId, to: NodeId, hash: u64) -> Option<Vec<LinkId>> {
        let key = self.find_distances(to);
        let distances = &self.distances[&key];
        let mut left = self.distance(from, to, distances);
        if left == u32::MAX {
            return None;
        }
        let mut links = Vec::with_capacity(left as usize);
        let mut node = from;
        while left > 0 {
            left -= 1;
            let link = match (left, key.as_slice()) {
                (0, _) => self.choose_to(to, node, hash),
                // A spine has many more links than a leaf.
                (1, &[only]) => self.choose_to(self.switches.nodes[only as usize], node, hash),
                _ => choose(self.forward.of(node), mix(hash, node), |link| {
                    self.distance(self.ends[link as usize].1, to, distances) == left
                }),
            };
            links.push(link);
            node = self.ends[link as usize].1;
        }
        Some(links)
    }

    /// Whether there is a way from one host to another.
    pub fn leads(&mut self, from: NodeId, to: NodeId) -> bool {
        let key = self.find_distances(to);
        self.distance(from, to, &self.distances[&key]) != u32::MAX
    }

    /// Computes the distances to a host, unless they are known, and returns their key.
    fn find_distances(&mut self, to: NodeId) -> Vec<u32> {
        let before = self.into.of(to).iter().map(|link| self.ends[*link as usize].0);
        let mut key: Vec<u32> = before.filter_map(|node| self.switches.index(node)).collect();
        key.sort_unstable();
        key.dedup();
        if !self.distances.contains_key(&key) {
            let distances = self.switches.distances_to(&key);
            self.distances.insert(key.clone(), distances);
        }
        key
    }

    /// A link from `node` to its neighbour `to`.
    fn choose_to(&self, to: NodeId, node: NodeId, hash: u64) -> LinkId {
        choose(self.into.of(to), mix(hash, node), |link| self.ends[link as usize].0 == node)
    }

    /// Distance of a node to the host `to`, in links; `u32::MAX`: no way. Hosts do not forward.
    fn distance(&self, node: NodeId, to: NodeId, distances: &Distances) -> u32 {
        if node == to {
            return 0;
        }
        if let Some(switch) = self.switches.index(node) {
            return distances.of(switch);
        }
        let next = self.out.of(node).iter().map(|link| self.ends[*link as usize].1);
        let after = next.map(|next| match self.switches.index(next) {
            _ if next == to => 1,
            Some(switch) => distances.of(switch).saturating_add(1),
            None => u32::MAX,
        });
        after.min().unwrap_or(u32::MAX)
    }

    /// The switches with a link to a host, by their indices: hosts of the same ones have the same ways up to there.
    pub(crate) fn switches_of(&mut self, host: NodeId) -> Vec<u32> {
        self.find_distances(host)
    }

    /// Appends the links from a switch to the switches that are next on the shortest ways to a place. Returns
    /// the switch's distance to the hosts there, in links; `u32::MAX`: no way.
    pub(crate) fn next_switches(
        &self,
        switch: NodeId,
        place: &[u32],
        links: &mut Vec<LinkId>,
    ) -> u32 {
        let Some(distances) = self.distances.get(place) else { return u32::MAX };
        let of = |node| self.switches.index(node).map_or(u32::MAX, |index| distances.of(index));
        let distance = of(switch);
        if distance > 1 && distance != u32::MAX {
            let all = self.forward.of(switch).iter().copied();
            links.extend(all.filter(|link| of(self.ends[*link as usize].1) == distance - 1));
        }
        distance
    }

    /// Gives back the memory that finding the first paths took; it is found again where it is needed.
    pub fn forget_distances(&mut self) {
        self.distances = HashMap::new();
    }

    /// The links of a path between the same hosts as this one, for another hash.
    pub fn another(
        &mut self,
        path: impl Iterator<Item = LinkId> + Clone,
        hash: u64,
    ) -> Option<Vec<LinkId>> {
        let (first, last) = (path.clone().next()?, path.last()?);
        let (from, to) = (self.ends[first as usize].0, self.ends[last as usize].1);
        // There was a way when the run began.
        self.path(from, to, hash)
    }

    /// Avoids these links from now on, and no others.
    pub fn avoid(&mut self, network: &Network, avoided: &HashSet<LinkId>) {
        *self = Routes::without(network, avoided);
    }

    /// The first link to a host for another hash, from the node that `link` leaves; `None`: there is no way.
    pub fn another_first(&mut self, link: LinkId, to: NodeId, hash: u64) -> Option<LinkId> {
        let from = self.ends[link as usize].0;
        self.path(from, to, hash)?.first().copied()
    }
}

/// The error of a network without a path between two hosts of these names.
pub fn no_path(from: &str, to: &str) -> Error {
    Error::Refused(format!("there is no path from {from} to {to}: add links"))
}

/// Each switch hashes differently, or all of them would choose alike.
pub fn mix(hash: u64, node: NodeId) -> u64 {
    let mut z = hash ^ u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// The one of the links that fit which a hash picks; one fits at least.
fn choose(links: &[LinkId], hash: u64, fits: impl Fn(LinkId) -> bool) -> LinkId {
    let fitting = || links.iter().copied().filter(|link| fits(*link));
    let count = fitting().count() as u64;
    let chosen = fitting().nth((hash % count) as usize);
    chosen.expect("the hash is reduced to the number of links")
}

/// A list of numbers for each of so many things, one after the other.
struct Lists {
    /// Where each list begins, and where the last one ends.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Sorts items into their lists; each list keeps their order.
    fn new(count: usize, items: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut starts = vec![0; count + 1];
        for (list, _) in items.clone() {
            starts[list as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; starts[count] as usize];
        for (list, item) in items {
            let at = &mut next[list as usize];
            sorted[*at as usize] = item;
            *at += 1;
        }
        Lists { starts, items: sorted }
    }

    fn of(&self, list: u32) -> &[u32] {
        let list = list as usize;
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }
}

/// Distance of each switch in links; the largest value: no way.
enum Distances {
    Narrow(Vec<u8>),
    Wide(Vec<u32>),
}

impl Distances {
    fn of(&self, switch: u32) -> u32 {
        match self {
            Distances::Narrow(all) => match all[switch as usize] {
                u8::MAX => u32::MAX,
                distance => distance.into(),
            },
            Distances::Wide(all) => all[switch as usize],
        }
    }
}

/// Index of what is no switch.
const NO_SWITCH: u32 = u32::MAX;

/// The network without its hosts.
struct Switches {
    nodes: Vec<NodeId>,
    /// Index in `nodes`, by node.
    indices: Vec<u32>,
    /// Switches with a link to each switch.
    before: Lists,
    /// Switches to which each switch has a link.
    after: Lists,
}

impl Switches {
    fn new(network: &Network, is_used: impl Fn(&LinkId) -> bool) -> Switches {
        let mut nodes = Vec::new();
        let mut indices = vec![NO_SWITCH; network.nodes.len()];
        for (node, id) in network.nodes.iter().zip(0..) {
            if node.host.is_none() {
                indices[id as usize] = nodes.len() as u32;
                nodes.push(id);
            }
        }
        let links = network.links.iter().zip(0..).filter(|(_, id)| is_used(id));
        let ends = links.map(|(link, _)| (link.from, link.to));
        let ends = ends.map(|(a, b)| (indices[a as usize], indices[b as usize]));
        let pairs = ends.filter(|(a, b)| *a != NO_SWITCH && *b != NO_SWITCH);
        let before = Lists::new(nodes.len(), pairs.clone().map(|(a, b)| (b, a)));
        let after = Lists::new(nodes.len(), pairs);
        Switches { nodes, indices, before, after }
    }

    fn index(&self, node: NodeId) -> Option<u32> {
        let index = self.indices[node as usize];
        (index != NO_SWITCH).then_some(index)
    }

    /// Breadth first, backwards, from switches with a link to the destination.
    fn distances_to(&self, first: &[u32]) -> Distances {
        let mut distances = vec![u32::MAX; self.nodes.len()];
        first.iter().for_each(|switch| distances[*switch as usize] = 1);
        let mut reached = first.to_vec();
        let mut missing: Vec<u32> = Vec::new();
        let mut missing_count = self.nodes.len() - first.len();
        let mut distance = 1;
        while !reached.is_empty() && missing_count > 0 {
            let links: usize = reached.iter().map(|switch| self.before.of(*switch).len()).sum();
            let mut next = Vec::new();
            if links <= missing_count {
                for &before in reached.iter().flat_map(|switch| self.before.of(*switch)) {
                    if distances[before as usize] == u32::MAX {
                        distances[before as usize] = distance + 1;
                        next.push(before);
                    }
                }
            } else {
                // Most links of those reached lead to others reached: it is quicker to ask the missing ones.
                if missing.is_empty() {
                    missing.extend(0..self.nodes.len() as u32);
                }
                missing.retain(|switch| {
                    if distances[*switch as usize] != u32::MAX {
                        return false;
                    }
                    let is_reached = |after: &u32| distances[*after as usize] == distance;
                    let is_next = self.after.of(*switch).iter().any(is_reached);
                    if is_next {
                        next.push(*switch);
                    }
                    !is_next
                });
                next.iter().for_each(|switch| distances[*switch as usize] = distance + 1);
            }
            distance += 1;
            missing_count -= next.len();
            reached = next;
        }
        if distance >= u8::MAX.into() {
            return Distances::Wide(distances);
        }
        let narrow = distances.iter().map(|d| u8::try_from(*d).unwrap_or(u8::MAX));
        Distances::Narrow(narrow.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HostConfig, LinuxVersion};
    use crate::topology::{Cable, LeafSpine};

    use knee_queue::{DropTailConfig, Limit, QueueConfig};

    const SPINES: u32 = 4;

    fn fabric() -> Network {
        let cable =
            Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(1) }));
        let fabric = LeafSpine {
            leaves: 2,
            spines: SPINES,
            hosts_per_leaf: 2,
            host: HostConfig::new(LinuxVersion(6, 1)),
            host_up: cable.clone(),
            host_down: cable.clone(),
            fabric: cable,
        };
        fabric.build()
    }

    #[test]
    fn another_hash_is_another_way_between_the_same_hosts() {
        let network = fabric();
        let mut routes = Routes::new(&network);
        let mut draws = 0..;
        let mut draw = || mix(1, draws.next().unwrap());
        let mut path = routes.path(0, 2, draw()).unwrap();
        routes.forget_distances();
        let mut taken: HashMap<u32, u32> = HashMap::new();
        for _ in 0..400 {
            path = routes.another(path.iter().copied(), draw()).unwrap();
            let ends = |link: u32| &network.links[link as usize];
            assert_eq!((ends(path[0]).from, ends(path[3]).to, path.len()), (0, 2, 4));
            *taken.entry(path[1]).or_default() += 1;
        }
        let mut counts: Vec<u32> = taken.into_values().collect();
        counts.sort_unstable();
        assert_eq!(counts.len() as u32, SPINES);
        assert!(counts[0] >= 70 && counts[3] <= 130, "{counts:?}");
    }
}

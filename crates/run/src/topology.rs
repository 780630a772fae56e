//! Networks by shape. Nothing else in the simulator knows about shapes.

pub use crate::spec::Cable;
use crate::spec::{HostConfig, Link, LinkId, Network, Node, NodeId};
use std::collections::HashMap;
use std::sync::Arc;

impl Network {
    /// Adds a host.
    pub fn host(&mut self, name: impl Into<String>, config: impl Into<Arc<HostConfig>>) -> NodeId {
        let config = config.into();
        let last = self.nodes.last().and_then(|node| node.host.as_ref());
        let shared = last.filter(|last| **last == config).cloned();
        self.node(name.into(), Some(shared.unwrap_or(config)))
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), None)
    }

    fn node(&mut self, name: String, host: Option<Arc<HostConfig>>) -> NodeId {
        self.nodes.push(Node { name, host });
        self.nodes.len() as NodeId - 1
    }

    /// Adds a directed link. Links of one [`Arc`] share the cable.
    pub fn link(&mut self, from: NodeId, to: NodeId, cable: impl Into<Arc<Cable>>) -> LinkId {
        let cable = cable.into();
        self.links.push(Link { from, to, parallel: 1, sampled: cable.sampled, cable });
        self.links.len() as LinkId - 1
    }

    /// The name of a link, as in results: `FROM-TO`, and `FROM-TO#2` for the second one between the same nodes.
    pub fn link_name(&self, link: &Link) -> String {
        let (from, to) = self.end_names(link);
        match link.parallel {
            0..=1 => format!("{from}-{to}"),
            parallel => format!("{from}-{to}#{parallel}"),
        }
    }

    /// The names of all links, in order.
    pub fn link_names(&self) -> impl Iterator<Item = String> {
        self.links.iter().map(|link| self.link_name(link))
    }

    /// The length of a link's name, bytes.
    pub fn link_name_len(&self, link: &Link) -> usize {
        match link.parallel {
            0..=1 => {
                let (from, to) = self.end_names(link);
                from.len() + 1 + to.len()
            }
            _ => self.link_name(link).len(),
        }
    }

    /// The first link of this name.
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        let fits = |link: &Link| self.link_name_len(link) == name.len();
        let found = self.links.iter().position(|link| fits(link) && self.link_name(link) == name);
        found.map(|at| at as LinkId)
    }

    /// Changes every cable, each once: links that share one share it afterwards.
    pub fn change_cables(&mut self, mut change: impl FnMut(&mut Cable)) {
        // A cable that is still to be changed is alive, so no other one has its address.
        let mut changed: HashMap<*const Cable, Arc<Cable>> = HashMap::new();
        for link in &mut self.links {
            let new = changed.entry(Arc::as_ptr(&link.cable)).or_insert_with(|| {
                let mut new = Cable::clone(&link.cable);
                change(&mut new);
                Arc::new(new)
            });
            link.cable = Arc::clone(new);
        }
    }

    /// Changes every configuration of hosts, each once: hosts that share one share it afterwards.
    pub fn change_hosts(&mut self, mut change: impl FnMut(&mut HostConfig)) {
        let mut changed: HashMap<*const HostConfig, Arc<HostConfig>> = HashMap::new();
        for host in self.nodes.iter_mut().filter_map(|node| node.host.as_mut()) {
            let new = changed.entry(Arc::as_ptr(host)).or_insert_with(|| {
                let mut new = HostConfig::clone(host);
                change(&mut new);
                Arc::new(new)
            });
            *host = Arc::clone(new);
        }
    }

    fn end_names(&self, link: &Link) -> (&str, &str) {
        let name = |node: NodeId| self.nodes.get(node as usize).map_or("", |node| &node.name);
        (name(link.from), name(link.to))
    }

    /// Adds both directions between a host and a switch (or two switches).
    pub fn duplex(
        &mut self,
        a: NodeId,
        b: NodeId,
        a_to_b: impl Into<Arc<Cable>>,
        b_to_a: impl Into<Arc<Cable>>,
    ) {
        self.link(a, b, a_to_b);
        self.link(b, a, b_to_a);
    }
}

/// Hosts around one switch: every output port of it has the same queue.
#[derive(Clone, Debug)]
pub struct Star {
    pub hosts: Vec<(String, HostConfig)>,
    /// From a host to the switch: the host's own link.
    pub up: Cable,
    /// From the switch to a host: the port with the queue under test.
    pub down: Cable,
}

impl Star {
    /// The network; hosts have the node numbers 0 to n - 1, the switch is last.
    pub fn build(self) -> Network {
        let mut network = Network::default();
        let n = self.hosts.len() as NodeId;
        for (name, config) in self.hosts {
            network.host(name, config);
        }
        let switch = network.switch("switch");
        let (up, down) = (Arc::new(self.up), Arc::new(self.down));
        for host in 0..n {
            network.duplex(host, switch, Arc::clone(&up), Arc::clone(&down));
        }
        network
    }
}

/// Senders, a switch, one bottleneck, a second switch, receivers.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Left side.
    pub senders: Vec<(String, HostConfig)>,
    /// Right side.
    pub receivers: Vec<(String, HostConfig)>,
    /// From a sender to the left switch.
    pub sender_up: Cable,
    /// From the left switch to a sender.
    pub sender_down: Cable,
    /// The bottleneck, left to right.
    pub bottleneck: Cable,
    /// Right to left.
    pub back: Cable,
    /// From the right switch to a receiver.
    pub receiver_down: Cable,
    /// From a receiver to the right switch.
    pub receiver_up: Cable,
}

impl Dumbbell {
    /// The network; senders have the node numbers 0 to n - 1, receivers follow, then two switches.
    pub fn build(self) -> Network {
        let mut network = Network::default();
        let (n, m) = (self.senders.len() as NodeId, self.receivers.len() as NodeId);
        for (name, config) in self.senders.into_iter().chain(self.receivers) {
            network.host(name, config);
        }
        let left = network.switch("left");
        let right = network.switch("right");
        let (up, down) = (Arc::new(self.sender_up), Arc::new(self.sender_down));
        for host in 0..n {
            network.duplex(host, left, Arc::clone(&up), Arc::clone(&down));
        }
        let (up, down) = (Arc::new(self.receiver_up), Arc::new(self.receiver_down));
        for host in n..n + m {
            network.duplex(host, right, Arc::clone(&up), Arc::clone(&down));
        }
        network.duplex(left, right, self.bottleneck, self.back);
        network
    }
}

/// Two tiers of switches: each leaf is joined to each spine, hosts to their leaf.
#[derive(Clone, Debug)]
pub struct LeafSpine {
    pub leaves: u32,
    pub spines: u32,
    pub hosts_per_leaf: u32,
    pub host: HostConfig,
    pub host_up: Cable,
    pub host_down: Cable,
    /// Between leaf and spine, either way.
    pub fabric: Cable,
}

impl LeafSpine {
    /// The network; hosts have the node numbers 0 to n - 1, leaf by leaf.
    pub fn build(self) -> Network {
        let mut network = Network::default();
        let config = Arc::new(self.host);
        let (up, down) = (Arc::new(self.host_up), Arc::new(self.host_down));
        let fabric = Arc::new(self.fabric);
        let hosts = (self.leaves * self.hosts_per_leaf) as usize;
        network.nodes.reserve_exact(hosts + (self.leaves + self.spines) as usize);
        network.links.reserve_exact(2 * (hosts + (self.leaves * self.spines) as usize));
        for leaf in 0..self.leaves {
            for host in 0..self.hosts_per_leaf {
                network.host(format!("h{leaf}.{host}"), Arc::clone(&config));
            }
        }
        let leaves: Vec<_> = (0..self.leaves).map(|i| network.switch(format!("leaf{i}"))).collect();
        let spines: Vec<_> =
            (0..self.spines).map(|i| network.switch(format!("spine{i}"))).collect();
        for (i, &leaf) in leaves.iter().enumerate() {
            for j in 0..self.hosts_per_leaf {
                let host = i as NodeId * self.hosts_per_leaf + j;
                network.duplex(host, leaf, Arc::clone(&up), Arc::clone(&down));
            }
            for &spine in &spines {
                network.duplex(leaf, spine, Arc::clone(&fabric), Arc::clone(&fabric));
            }
        }
        network
    }
}

/// Three tiers of switches that have `k` ports each: `k` pods of `k / 2` edge and as many aggregation switches, each edge joined
/// to each aggregation switch of its pod, and `(k / 2)^2` core switches that are joined to one aggregation switch of every pod.
#[derive(Clone, Debug)]
pub struct FatTree {
    /// Ports of a switch; even.
    pub k: u32,
    pub host: HostConfig,
    /// From a host to its edge switch.
    pub host_up: Cable,
    /// From an edge switch to a host.
    pub host_down: Cable,
    /// Between edge and aggregation, either way.
    pub edge: Cable,
    /// Between aggregation and core, either way.
    pub core: Cable,
}

impl FatTree {
    /// The network. Hosts `hPOD.EDGE.HOST`, counted from 0, have the first node numbers in this order; then come `edgePOD.EDGE`,
    /// `aggregationPOD.NUMBER` and `core0`.. .
    pub fn build(self) -> Network {
        let mut network = Network::default();
        let half = self.k / 2;
        let config = Arc::new(self.host);
        let (up, down) = (Arc::new(self.host_up), Arc::new(self.host_down));
        let (within, above) = (Arc::new(self.edge), Arc::new(self.core));
        let hosts = (self.k * half * half) as usize;
        network.nodes.reserve_exact(hosts + (2 * self.k * half + half * half) as usize);
        network.links.reserve_exact(6 * hosts);
        let per_pod = |pod: u32| (0..half).map(move |i| (pod, i));
        for (pod, edge) in (0..self.k).flat_map(per_pod) {
            for host in 0..half {
                network.host(format!("h{pod}.{edge}.{host}"), Arc::clone(&config));
            }
        }
        let mut tier = |name: &str| -> Vec<NodeId> {
            let names = (0..self.k).flat_map(per_pod).map(|(pod, i)| format!("{name}{pod}.{i}"));
            names.map(|name| network.switch(name)).collect()
        };
        let (edges, aggregations) = (tier("edge"), tier("aggregation"));
        let cores: Vec<_> = (0..half * half).map(|i| network.switch(format!("core{i}"))).collect();
        for (i, &edge) in edges.iter().enumerate() {
            for j in 0..half {
                let host = i as NodeId * half + j;
                network.duplex(host, edge, Arc::clone(&up), Arc::clone(&down));
            }
            let pod = i - i % half as usize;
            for &aggregation in &aggregations[pod..pod + half as usize] {
                network.duplex(edge, aggregation, Arc::clone(&within), Arc::clone(&within));
            }
        }
        for (i, &aggregation) in aggregations.iter().enumerate() {
            let first = i % half as usize * half as usize;
            for &core in &cores[first..first + half as usize] {
                network.duplex(aggregation, core, Arc::clone(&above), Arc::clone(&above));
            }
        }
        network
    }
}

/// Switches in a row. A long path goes over all the cables between neighbours, and across each of them goes traffic that
/// enters before and leaves behind it.
#[derive(Clone, Debug)]
pub struct ParkingLot {
    /// Cables between neighbours: one less than there are switches.
    pub hops: u32,
    /// Hosts at either end of the row.
    pub through: u32,
    /// Hosts on either side of each hop.
    pub cross: u32,
    pub host: HostConfig,
    /// Between a host and its switch, either way.
    pub access: Cable,
    /// From a switch to the next.
    pub bottleneck: Cable,
    /// From a switch to the one before.
    pub back: Cable,
}

impl ParkingLot {
    /// The network. `s1`.. send over all hops to `r1`..; `x2.1`.. are the hosts before the second hop, `y2.1`.. those behind
    /// it. Hosts have the first node numbers, in this order, hop by hop; then come `switch1` and so on.
    pub fn build(self) -> Network {
        let mut network = Network::default();
        let config = Arc::new(self.host);
        let (access, bottleneck) = (Arc::new(self.access), Arc::new(self.bottleneck));
        let back = Arc::new(self.back);
        let mut hosts = Vec::new();
        let mut add = |prefix: String, count: u32, switch: u32| {
            for i in 1..=count {
                hosts.push((network.host(format!("{prefix}{i}"), Arc::clone(&config)), switch));
            }
        };
        add("s".to_owned(), self.through, 0);
        add("r".to_owned(), self.through, self.hops);
        for hop in 1..=self.hops {
            add(format!("x{hop}."), self.cross, hop - 1);
            add(format!("y{hop}."), self.cross, hop);
        }
        let switches: Vec<NodeId> =
            (0..=self.hops).map(|i| network.switch(format!("switch{}", i + 1))).collect();
        for (host, switch) in hosts {
            let switch = switches[switch as usize];
            network.duplex(host, switch, Arc::clone(&access), Arc::clone(&access));
        }
        for pair in switches.windows(2) {
            network.duplex(pair[0], pair[1], Arc::clone(&bottleneck), Arc::clone(&back));
        }
        network
    }
}

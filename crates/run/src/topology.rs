//! Networks by shape. Nothing else in the simulator knows about shapes.

use crate::spec::{HostConfig, Link, LinkId, Network, Node, NodeId, Serialisation};
use knee_queue::QueueConfig;
use knee_queue::time::{Duration, Rate};

/// One direction of a cable with its queue, without its end points.
#[derive(Clone, Debug)]
pub struct Cable {
    /// `None`: no queue and no serialisation.
    pub rate: Option<Rate>,
    /// When a packet counts as sent.
    pub serialisation: Serialisation,
    /// Bytes beside each frame that take time and no room.
    pub overhead_bytes: u32,
    /// Propagation.
    pub delay: Duration,
    /// Uniform extra delay per packet.
    pub jitter: Duration,
    /// Share of packets lost at random before the queue.
    pub loss: f64,
    /// Whether what is lost is whole bursts.
    pub loses_bursts: bool,
    /// Queue of the link.
    pub queue: QueueConfig,
    /// Whether the queue is sampled and reported.
    pub sampled: bool,
}

impl Network {
    /// Adds a host.
    pub fn host(&mut self, name: impl Into<String>, config: HostConfig) -> NodeId {
        self.node(name.into(), Some(config))
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), None)
    }

    fn node(&mut self, name: String, host: Option<HostConfig>) -> NodeId {
        self.nodes.push(Node { name, host });
        self.nodes.len() as NodeId - 1
    }

    /// Adds a directed link named `from-to`.
    pub fn link(&mut self, from: NodeId, to: NodeId, cable: Cable) -> LinkId {
        let name = format!("{}-{}", self.nodes[from as usize].name, self.nodes[to as usize].name);
        let Cable {
            rate,
            serialisation,
            overhead_bytes,
            delay,
            jitter,
            loss,
            loses_bursts,
            queue,
            sampled,
        } = cable;
        self.links.push(Link {
            name,
            from,
            to,
            rate,
            serialisation,
            overhead_bytes,
            delay,
            jitter,
            loss,
            loses_bursts,
            queue,
            sampled,
        });
        self.links.len() as LinkId - 1
    }

    /// Adds both directions between a host and a switch (or two switches).
    pub fn duplex(&mut self, a: NodeId, b: NodeId, a_to_b: Cable, b_to_a: Cable) {
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
        for host in 0..n {
            network.duplex(host, switch, self.up.clone(), self.down.clone());
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
        for host in 0..n {
            network.duplex(host, left, self.sender_up.clone(), self.sender_down.clone());
        }
        for host in n..n + m {
            network.duplex(host, right, self.receiver_up.clone(), self.receiver_down.clone());
        }
        network.duplex(left, right, self.bottleneck, self.back);
        network
    }
}

/// Two tiers of switches: each leaf is joined to each spine, hosts to their leaf.
#[derive(Clone, Debug)]
pub struct LeafSpine {
    /// Number of leaves.
    pub leaves: u32,
    /// Number of spines.
    pub spines: u32,
    pub hosts_per_leaf: u32,
    pub host: HostConfig,
    /// From a host to its leaf.
    pub host_up: Cable,
    /// From a leaf to a host.
    pub host_down: Cable,
    /// Between leaf and spine, either way.
    pub fabric: Cable,
}

impl LeafSpine {
    /// The network; hosts have the node numbers 0 to n - 1, leaf by leaf.
    pub fn build(self) -> Network {
        let mut network = Network::default();
        for leaf in 0..self.leaves {
            for host in 0..self.hosts_per_leaf {
                network.host(format!("h{leaf}.{host}"), self.host.clone());
            }
        }
        let leaves: Vec<_> = (0..self.leaves).map(|i| network.switch(format!("leaf{i}"))).collect();
        let spines: Vec<_> =
            (0..self.spines).map(|i| network.switch(format!("spine{i}"))).collect();
        for (i, &leaf) in leaves.iter().enumerate() {
            for j in 0..self.hosts_per_leaf {
                let host = i as NodeId * self.hosts_per_leaf + j;
                network.duplex(host, leaf, self.host_up.clone(), self.host_down.clone());
            }
            for &spine in &spines {
                network.duplex(leaf, spine, self.fabric.clone(), self.fabric.clone());
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
        let per_pod = |pod: u32| (0..half).map(move |i| (pod, i));
        for (pod, edge) in (0..self.k).flat_map(per_pod) {
            for host in 0..half {
                network.host(format!("h{pod}.{edge}.{host}"), self.host.clone());
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
                network.duplex(host, edge, self.host_up.clone(), self.host_down.clone());
            }
            let pod = i - i % half as usize;
            for &aggregation in &aggregations[pod..pod + half as usize] {
                network.duplex(edge, aggregation, self.edge.clone(), self.edge.clone());
            }
        }
        for (i, &aggregation) in aggregations.iter().enumerate() {
            let first = i % half as usize * half as usize;
            for &core in &cores[first..first + half as usize] {
                network.duplex(aggregation, core, self.core.clone(), self.core.clone());
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
        let mut hosts = Vec::new();
        let mut add = |prefix: String, count: u32, switch: u32| {
            for i in 1..=count {
                hosts.push((network.host(format!("{prefix}{i}"), self.host.clone()), switch));
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
            network.duplex(host, switch, self.access.clone(), self.access.clone());
        }
        for pair in switches.windows(2) {
            network.duplex(pair[0], pair[1], self.bottleneck.clone(), self.back.clone());
        }
        network
    }
}

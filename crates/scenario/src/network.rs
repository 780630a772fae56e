//! `[network]`, `[hosts]` and `[[host]]`: hosts, switches and cables.

mod cables;
mod components;
mod fat_tree;
mod file;
mod graph;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_file::keys::{Below, Choice, Key, Keys, Shape, Special, Table, Text, entries};
use knee_file::schema::with_defaults;
use knee_file::units::{Pkts, Size};
use knee_file::{Error, Node, Reader, keys, one_of};
use knee_queue::ETHERNET_BYTES;
use knee_queue::time::{Duration, Rate};
use knee_run::spec::{Defects, HostConfig, Link, LinuxVersion, Network, NodeId, PROFILES, Sysctls};
use knee_run::topology::{Cable, Dumbbell, LeafSpine, ParkingLot, Star};

use crate::balance;
use crate::classes::find_inputs;
use crate::inputs;
use crate::names::{MAX_HOSTS, expand, expand_all};
use crate::random::Random;
use crate::receiving;
use crate::switches;
use cables::{CABLE, CableKeys, Cables, End, draws, nothing};
use graph::Ways;
use serde_json::Value as Json;

/// Largest socket buffer, in bytes.
const MAX_BUFFER_BYTES: u32 = 1 << 30;
/// Largest overhead in bytes that a kernel charges for a packet besides its payload.
const MAX_OVERHEAD_BYTES: u32 = 64 << 10;
/// Largest number of cables between leaves and spines.
const MAX_FABRIC_CABLES: u64 = 250_000;
/// Largest number of links of a graph, each direction by itself.
const MAX_LINKS: u64 = 800_000;

/// The table `[network]`.
pub(crate) static TABLE: Table = Table {
    name: "network",
    says: "Hosts, switches and links.",
    shape: || {
        let keys = |&(word, topology)| (word, entries(&keys_of(topology)));
        Shape::By("topology", TOPOLOGIES.iter().map(keys).collect())
    },
};

keys! {
    /// A network of any kind.
    static ANY: AnyKeys = "any" {
        /// Shape of the network; gives the names of hosts.
        topology: Choice<Topology> = of(TOPOLOGIES).needed("many-to-one"),
    }
}

keys! {
    /// Hosts `s1`.. and `r`.
    static MANY_TO_ONE: ManyToOneKeys = "many-to-one" {
        /// Senders `s1`, `s2`, ...
        senders: Key<u64> = or(1).within(1, MAX_HOSTS),
        /// Sender to switch.
        access: Below = table(&CableKeys::TABLE).needed(),
        /// Switch to `r`.
        bottleneck: Below = table(&CableKeys::TABLE).needed(),
        /// Switch to sender.
        r#return: Below = table(&CableKeys::TABLE).usually("infinite rate, no delay"),
    }
}

keys! {
    /// Hosts `h1`.. around `switch`.
    static STAR: StarKeys = "star" {
        /// Hosts `h1`, `h2`, ...
        hosts: Key<u64> = or(2).within(2, MAX_HOSTS),
        /// Host to switch.
        up: Below = table(&CableKeys::TABLE).needed(),
        /// Switch to host.
        down: Below = table(&CableKeys::TABLE).needed(),
    }
}

keys! {
    /// Hosts `s1`.. and `r1`.. on either side of `left` and `right`.
    static DUMBBELL: DumbbellKeys = "dumbbell" {
        /// Left hosts `s1`, `s2`, ...
        senders: Key<u64> = or(1).within(1, MAX_HOSTS),
        /// Right hosts `r1`, `r2`, ...
        receivers: Key<u64> = usually("`senders`").within(1, MAX_HOSTS),
        /// Host and switch, both ways.
        access: Below = table(&CableKeys::TABLE).needed(),
        /// Between switches, left to right.
        bottleneck: Below = table(&CableKeys::TABLE).needed(),
        /// Between switches, right to left.
        back: Below = table(&CableKeys::TABLE).usually("`bottleneck`, without its losses"),
        /// Right host and switch, both ways.
        receiver_access: Below = table(&CableKeys::TABLE).usually("`access`"),
    }
}

keys! {
    /// Hosts `h0.0`.. (leaf, host) below `leaf0`.. and `spine0`...
    static LEAF_SPINE: LeafSpineKeys = "leaf-spine" {
        /// Switches `leaf0`, `leaf1`, ...
        leaves: Key<u64> = or(2).within(1, 1000),
        /// Switches `spine0`, `spine1`, ...
        spines: Key<u64> = or(2).within(1, 1000),
        /// Hosts per leaf.
        hosts_per_leaf: Key<u64> = or(2).within(1, 1000),
        /// Host to switch.
        up: Below = table(&CableKeys::TABLE).needed(),
        /// Switch to host.
        down: Below = table(&CableKeys::TABLE).needed(),
        /// Leaf and spine, both ways.
        fabric: Below = table(&CableKeys::TABLE).needed(),
    }
}

keys! {
    /// Hosts `s1`.. and `r1`.. at the ends of a row of switches, `x1.1`.. and `y1.1`.. (hop, host) along it.
    static PARKING_LOT: ParkingLotKeys = "parking-lot" {
        /// Bottlenecks in a row.
        hops: Key<u64> = or(2).within(1, 1000),
        /// Hosts per end: `s1`, ... and `r1`, ...
        through: Key<u64> = or(1).within(1, MAX_HOSTS),
        /// Hosts per side of each hop: `x1.1`, ... and `y1.1`, ...
        cross: Key<u64> = or(1).within(0, MAX_HOSTS),
        /// Host and switch, both ways.
        access: Below = table(&CableKeys::TABLE).needed(),
        /// Each hop, forward.
        bottleneck: Below = table(&CableKeys::TABLE).needed(),
        /// Each hop, backward.
        back: Below = table(&CableKeys::TABLE).usually("`bottleneck`, without its losses"),
    }
}

/// Keys of `[network]`, in the order of messages.
fn keys_of(topology: Topology) -> [&'static dyn Keys; 4] {
    let own: &dyn Keys = match topology {
        Topology::ManyToOne => &MANY_TO_ONE,
        Topology::Star => &STAR,
        Topology::Dumbbell => &DUMBBELL,
        Topology::LeafSpine => &LEAF_SPINE,
        Topology::ParkingLot => &PARKING_LOT,
        Topology::FatTree => &fat_tree::KEYS,
        Topology::Graph => &graph::KEYS,
        Topology::File => &file::KEYS,
    };
    [&ANY, own, &switches::KEYS, &balance::KEYS]
}

/// A network that can be built for any number of runs.
#[derive(Clone, Debug)]
pub(crate) struct NetworkSpec {
    network: Network,
    /// Indices of links that are sampled only if a traffic entry sends to their host.
    sampled_if_used: Vec<usize>,
    /// The hosts in the order of their names.
    by_name: Vec<NodeId>,
    /// The key of the links, if every node and link is drawn by itself, so that a path may be missing.
    drawn: Option<&'static str>,
}

const TOPOLOGIES: &[(&str, Topology)] = &[
    ("many-to-one", Topology::ManyToOne),
    ("star", Topology::Star),
    ("dumbbell", Topology::Dumbbell),
    ("leaf-spine", Topology::LeafSpine),
    ("parking-lot", Topology::ParkingLot),
    ("fat-tree", Topology::FatTree),
    ("graph", Topology::Graph),
    ("file", Topology::File),
];

#[derive(Clone, Copy, Debug)]
enum Topology {
    ManyToOne,
    Star,
    Dumbbell,
    LeafSpine,
    ParkingLot,
    FatTree,
    Graph,
    File,
}

impl NetworkSpec {
    pub(crate) fn read(root: &Reader<'_>) -> Result<NetworkSpec, Error> {
        let hosts = Hosts::read(root)?;
        let reader = root.need_child("network")?;
        let topology = reader.choose(&ANY.topology)?;
        reader.check(&keys_of(topology))?;
        let frame = hosts.base.mtu_bytes + ETHERNET_BYTES;
        let cables = Cables { network: &reader, frame_bytes: frame };
        let (mut network, sampled_if_used) = match topology {
            Topology::ManyToOne => (many_to_one(&reader, &cables, &hosts)?, Vec::new()),
            Topology::Star => star(&reader, &cables, &hosts)?,
            Topology::Dumbbell => (dumbbell(&reader, &cables, &hosts)?, Vec::new()),
            Topology::LeafSpine => leaf_spine(&reader, &cables, &hosts)?,
            Topology::ParkingLot => (parking_lot(&reader, &cables, &hosts)?, Vec::new()),
            Topology::FatTree => fat_tree::read(&reader, &cables, &hosts)?,
            Topology::Graph => graph::read(&reader, &cables, &hosts)?,
            Topology::File => file::read(&reader, &cables, &hosts)?,
        };
        switches::read(&reader, &mut network, frame)?;
        balance::read(&reader, &mut network)?;
        let name = |id: NodeId| &network.nodes[id as usize].name;
        let host_ids = (0..).zip(&network.nodes).filter(|(_, node)| node.host.is_some());
        let mut by_name: Vec<NodeId> = host_ids.map(|(id, _)| id).collect();
        by_name.sort_unstable_by(|one, other| name(*one).cmp(name(*other)));
        let mut spec = NetworkSpec {
            network,
            sampled_if_used,
            by_name,
            drawn: match topology {
                Topology::Graph => Some("link"),
                Topology::File => Some("links"),
                _ => None,
            },
        };
        hosts.apply_overrides(root, &mut spec)?;
        find_inputs(&mut spec.network, &reader)?;
        Ok(spec)
    }

    /// Returns the network with links sampled if traffic crosses them. `destinations` are the receiving hosts.
    pub(crate) fn sampled(
        &self,
        destinations: impl FnOnce() -> HashSet<NodeId>,
    ) -> Cow<'_, Network> {
        if self.sampled_if_used.is_empty() {
            return Cow::Borrowed(&self.network);
        }
        let (mut network, destinations) = (self.network.clone(), destinations());
        for &link in &self.sampled_if_used {
            network.links[link].sampled = destinations.contains(&network.links[link].to);
        }
        Cow::Owned(network)
    }

    /// Builds the network of one run.
    pub(crate) fn build(
        &self,
        destinations: impl FnOnce() -> HashSet<NodeId>,
        seed: u64,
    ) -> Network {
        let mut network = self.sampled(destinations).into_owned();
        let mut known = HashMap::new();
        for (i, link) in network.links.iter_mut().enumerate() {
            // A link that draws needs a cable of its own.
            let of_cable = known.entry(Arc::as_ptr(&link.cable));
            if *of_cable.or_insert_with(|| draws(&link.queue)) {
                let mut random = Random::new(seed, &[i as u64, 3]);
                link.queue.seed(&mut || random.next());
            }
        }
        network
    }

    /// Returns the number of nodes and links.
    pub(crate) fn size(&self) -> usize {
        self.network.nodes.len() + self.network.links.len()
    }

    /// Returns the network without what depends on a run.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) fn links(&self) -> usize {
        self.network.links.len()
    }

    pub(crate) fn has_flow_control(&self) -> bool {
        self.network.flow_control.is_some()
    }

    /// Returns whether hosts use IPv6. Either all do, or none.
    pub(crate) fn ipv6(&self) -> bool {
        self.network.nodes.iter().any(|node| node.host.as_ref().is_some_and(|host| host.ipv6))
    }

    pub(crate) fn name(&self, id: NodeId) -> &str {
        &self.network.nodes[id as usize].name
    }

    /// Returns whether shared memory of this name is sampled.
    pub(crate) fn has_sampled_buffer(&self, name: &str) -> bool {
        self.network.buffers.iter().any(|buffer| buffer.sampled && buffer.name == name)
    }

    /// Returns whether a link of this name, or one of its classes, is sampled.
    pub(crate) fn has_sampled_queue(&self, name: &str) -> bool {
        let is_named = |link: &Link, name: &str| {
            self.network.link_name_len(link) == name.len() && self.network.link_name(link) == name
        };
        self.network.links.iter().filter(|link| link.sampled).any(|link| {
            is_named(link, name)
                || link.queue.part_names().iter().any(|part| {
                    let part = name.strip_suffix(part).and_then(|rest| rest.strip_suffix('/'));
                    part.is_some_and(|part| is_named(link, part))
                })
        })
    }

    /// Returns the hosts of a name or a range such as `s1..s10`.
    pub(crate) fn hosts_named(&self, text: &str) -> Result<Vec<NodeId>, String> {
        self.ids(&expand(text)?)
    }

    /// Returns the hosts of a list of names and ranges.
    pub(crate) fn hosts_of(&self, texts: &[&str]) -> Result<Vec<NodeId>, String> {
        self.ids(&expand_all(texts)?)
    }

    /// Checks that a hand-drawn network has the paths that traffic needs. The error has the key of the links.
    pub(crate) fn check_ways<'a>(
        &self,
        ways: impl Iterator<Item = Ways<'a>>,
    ) -> Result<(), (&'static str, String)> {
        let Some(key) = self.drawn else { return Ok(()) };
        graph::check_ways(&self.network, ways).map_err(|why| (key, why))
    }

    /// Returns the rate of a link, or the sum of the rates of links to the named hosts, in bit/s.
    pub(crate) fn rate_bps_named(&self, text: &str) -> Result<u64, String> {
        let links = &self.network.links;
        let rate = |link: &Link| {
            link.rate.map(Rate::bps).ok_or_else(|| {
                let name = self.network.link_name(link);
                format!("must name links with a rate: {name} has none")
            })
        };
        if let Some(link) = self.network.link_named(text) {
            return rate(&links[link as usize]);
        }
        let hosts =
            self.hosts_named(text).map_err(|why| format!("{why}; a link is possible, too"))?;
        let hosts: HashSet<NodeId> = hosts.into_iter().collect();
        links.iter().filter(|link| hosts.contains(&link.to)).map(rate).sum()
    }

    fn ids(&self, names: &[String]) -> Result<Vec<NodeId>, String> {
        let nodes = &self.network.nodes;
        let mut ids: Vec<NodeId> = Vec::with_capacity(names.len());
        for name in names {
            // A range names hosts in the order of the network.
            let next = ids.last().map_or(0, |last| last + 1);
            let is_next =
                nodes.get(next as usize).is_some_and(|it| it.host.is_some() && it.name == *name);
            ids.push(if is_next { next } else { self.id(name)? });
        }
        Ok(ids)
    }

    fn id(&self, name: &str) -> Result<NodeId, String> {
        let nodes = &self.network.nodes;
        let at = self.by_name.binary_search_by(|id| (*nodes[*id as usize].name).cmp(name));
        at.map(|at| self.by_name[at]).map_err(|_| {
            let hosts: Vec<_> =
                self.network.nodes.iter().filter(|node| node.host.is_some()).collect();
            let named: Vec<&str> = match hosts.as_slice() {
                [first, .., last] if hosts.len() > 8 => vec![&first.name, "...", &last.name],
                _ => hosts.iter().map(|node| node.name.as_str()).collect(),
            };
            let (named, shown) = (named.join(", "), inputs::shown(name));
            format!("must name hosts of this network ({named}): {shown} does not exist")
        })
    }
}

// ---- hosts ----

keys! {
    /// TCP settings of a host.
    static HOST: HostKeys = "host" {
        /// Linux version of the TCP.
        linux: Choice<LinuxVersion> = of(&PROFILES).or("6.1"),
        /// Ticks per second: 100, 250, 300 or 1000.
        hz: Key<u32> = within(100, 1000),
        /// Jiffies at the start of a run.
        jiffies_at_start: Key<u64> = within(0, u32::MAX as u64),
        /// Use IPv6, on all hosts or none.
        ipv6: Key<bool>,
        /// Sysctl. 0: no ECN; 1: request and accept; 2: accept.
        tcp_ecn: Key<u32> = within(0, 2),
        /// Route feature ecn_low of kernels with BBRv3, for modules of API v3.
        ecn_low: Key<bool>,
        /// Sysctl: retry a lost ECN SYN without ECN.
        tcp_ecn_fallback: Key<bool>,
        /// ECT on SYN and SYN-ACK if the algorithm needs ECN; `false` before Linux 3.18.
        syn_ect: Key<bool>,
        /// Largest IP packet; the same on all hosts.
        mtu: Key<Size> = at_least("576 B").at_most("65535 B").like("1500 B"),
        /// Initial window.
        initial_cwnd: Key<Pkts>,
        /// Minimum retransmission timeout.
        rto_min: Key<Duration> = at_least("1 us").like("200 ms"),
        /// Sysctl: reduce cwnd after idle time.
        slow_start_after_idle: Key<bool>,
        /// Sysctl: selective acknowledgements.
        sack: Key<bool>,
        /// Segments per TSO packet; 1: offloads off. On the lab it needs `--offloads on`.
        gso_max_segs: Key<u32> = within(1, 65_535),
        /// GRO merges packets of a flow within this time. On the lab it needs `--offloads on`.
        gro_window: Key<Duration>,
        /// Limit of TCP small queues: 4 MTU to 1 GiB.
        limit_output: Key<Size>,
        /// truesize of a packet minus payload, at most 64 KiB.
        skb_overhead: Key<Size>,
        /// The kernel's MAX_TCP_HEADER, for the receive buffer of Linux 6.1.
        max_tcp_header: Key<Size> = at_least("128 B").at_most("512 B").like("320 B"),
        /// RTT without queues, for algorithms that use it.
        base_rtt: Key<Duration> = at_least("1 us").at_most("60000 ms").like("50 us").usually("none"),
        /// Pace with fq instead of TCP's timer.
        fq: Key<bool>,
        /// fq counts headers, as before Linux 4.20.
        fq_counts_headers: Key<bool>,
        /// Sysctl: larger bursts below an RTT of 2^this us; 0: off.
        tso_rtt_log: Key<u32> = within(0, 31),
        /// Initial receive buffer. All four sizes: 4 MTU to 1 GiB.
        rcvbuf_initial: Key<Size>,
        /// Its maximum.
        rcvbuf_max: Key<Size>,
        /// Initial send buffer; needs `sndbuf_max`.
        sndbuf_initial: Key<Size>,
        /// Its maximum.
        sndbuf_max: Key<Size> = usually("no limit"),
        /// Defects of older kernels: docs/tcp.md.
        defects: Special = takes(defects).usually("none"),
    }
}

keys! {
    /// Hosts of a `[[host]]`; missing keys are as in `[hosts]`.
    static SOME: SomeKeys = "some" {
        /// A host, or a range as `s1..s3`.
        hosts: Key<Text> = needed("r"),
    }
}

/// The table `[hosts]`, with what its keys are of Linux 6.1 where it does not say.
pub(crate) static HOSTS_TABLE: Table = Table {
    name: "hosts",
    says: "Settings of all hosts. Defaults are those of `linux = \"6.1\"`.",
    shape: || {
        let entries = entries(&[&HOST, &receiving::KEYS]);
        Shape::Keys(with_defaults(entries, &Node::nothing(), Hosts::read_table))
    },
};

/// Each table `[[host]]`.
pub(crate) static HOST_TABLE: Table = Table {
    name: "host",
    says: "Settings of some hosts that differ from `[hosts]`.",
    shape: || {
        let mut entries = entries(&[&SOME, &HOST, &receiving::KEYS]);
        entries.iter_mut().skip(1).for_each(|entry| entry.default = "as in `hosts`".to_owned());
        Shape::Keys(entries)
    },
};

struct Hosts {
    base: HostConfig,
}

impl Hosts {
    fn read(root: &Reader<'_>) -> Result<Hosts, Error> {
        Hosts::read_table(&root.child_or_empty("hosts")?)
    }

    fn read_table(reader: &Reader<'_>) -> Result<Hosts, Error> {
        reader.check(&[&HOST, &receiving::KEYS])?;
        let linux = reader.choose(&HOST.linux)?;
        let base = read_host(reader, HostConfig::new(linux))?;
        Ok(Hosts { base })
    }

    fn apply_overrides(&self, root: &Reader<'_>, spec: &mut NetworkSpec) -> Result<(), Error> {
        for reader in root.children("host")? {
            reader.check(&[&SOME, &HOST, &receiving::KEYS])?;
            let names = [reader.need_text(&SOME.hosts)?];
            let mut base = self.base.clone();
            if reader.has(&HOST.linux) {
                base.linux = reader.choose(&HOST.linux)?;
            }
            let config = read_host(&reader, base)?;
            if config.mtu_bytes != self.base.mtu_bytes {
                return Err(
                    reader.error(&HOST.mtu, "must be the same on all hosts: give it in [hosts]")
                );
            }
            if config.ipv6 != self.base.ipv6 {
                return Err(
                    reader.error(&HOST.ipv6, "must be the same on all hosts: give it in [hosts]")
                );
            }
            let config = Arc::new(config);
            for id in spec.hosts_of(&names).map_err(|why| reader.error(&SOME.hosts, why))? {
                spec.network.nodes[id as usize].host = Some(Arc::clone(&config));
            }
        }
        Ok(())
    }

    fn numbered(&self, prefix: &str, count: u64) -> Vec<(String, HostConfig)> {
        (1..=count).map(|i| (format!("{prefix}{i}"), self.base.clone())).collect()
    }
}

fn read_host(reader: &Reader<'_>, base: HostConfig) -> Result<HostConfig, Error> {
    let bytes = |key: &Key<Size>, default: u32| -> Result<u32, Error> {
        let size = reader.get_or(key, Size(u64::from(default)))?;
        u32::try_from(size.0)
            .map_err(|_| reader.error(key, "must be at most 4 GB, as in \"6 MiB\""))
    };
    // Defaults are not checked, because some are below four packets with an MTU of 64 KB.
    let buffer = |key: &Key<Size>, mtu: u32, default: u32| -> Result<u32, Error> {
        let value = bytes(key, default)?;
        let least = 4 * mtu;
        if reader.has(key) && !(least..=MAX_BUFFER_BYTES).contains(&value) {
            return Err(reader.error(
                key,
                format!("must be from {least} B (4 packets of the MTU) to 1 GiB, as in \"6 MiB\""),
            ));
        }
        Ok(value)
    };
    let hz = reader.get_or(&HOST.hz, base.hz)?;
    if ![100, 250, 300, 1000].contains(&hz) {
        return Err(reader.error(&HOST.hz, "must be 100, 250, 300 or 1000"));
    }
    let mtu_bytes = bytes(&HOST.mtu, base.mtu_bytes)?;
    let max_tcp_header_bytes = bytes(&HOST.max_tcp_header, base.max_tcp_header_bytes)?;
    if reader.has(&HOST.max_tcp_header) && base.linux >= LinuxVersion(6, 6) {
        let why = "has no effect since Linux 6.6: leave it out, or set linux = \"6.1\"";
        return Err(reader.error(&HOST.max_tcp_header, why));
    }
    if reader.has(&HOST.sndbuf_initial)
        && !reader.has(&HOST.sndbuf_max)
        && base.sndbuf_max_bytes.is_none()
    {
        let why = "needs sndbuf_max: without it the sender never waits for memory";
        return Err(reader.error(&HOST.sndbuf_initial, why));
    }
    let jiffies = reader.get(&HOST.jiffies_at_start)?;
    let mut config = HostConfig {
        hz,
        ipv6: reader.get_or(&HOST.ipv6, base.ipv6)?,
        mtu_bytes,
        jiffies_at_start: match jiffies {
            Some(jiffies) => u32::try_from(jiffies).ok(),
            None => base.jiffies_at_start,
        },
        tcp_ecn: reader.get_or(&HOST.tcp_ecn, u32::from(base.tcp_ecn))? as u8,
        tcp_ecn_fallback: reader.get_or(&HOST.tcp_ecn_fallback, base.tcp_ecn_fallback)?,
        ecn_low: reader.get_or(&HOST.ecn_low, base.ecn_low)?,
        syn_ect: reader.get_or(&HOST.syn_ect, base.syn_ect)?,
        initial_cwnd_pkts: reader.get_or(&HOST.initial_cwnd, Pkts(base.initial_cwnd_pkts))?.0,
        rto_min: reader.get_or(&HOST.rto_min, base.rto_min)?,
        slow_start_after_idle: reader
            .get_or(&HOST.slow_start_after_idle, base.slow_start_after_idle)?,
        sack: reader.get_or(&HOST.sack, base.sack)?,
        gso_max_segs: reader.get_or(&HOST.gso_max_segs, base.gso_max_segs)?,
        gro_window: reader.get_or(&HOST.gro_window, base.gro_window)?,
        limit_output_bytes: buffer(&HOST.limit_output, mtu_bytes, base.limit_output_bytes)?,
        skb_overhead_bytes: match bytes(&HOST.skb_overhead, base.skb_overhead_bytes)? {
            overhead @ ..=MAX_OVERHEAD_BYTES => overhead,
            _ => {
                let why = "must be at most 64 KiB, as in \"1216 B\": payload does not count";
                return Err(reader.error(&HOST.skb_overhead, why));
            }
        },
        max_tcp_header_bytes,
        base_rtt: reader.get(&HOST.base_rtt)?.or(base.base_rtt),
        fq: reader.get_or(&HOST.fq, base.fq)?,
        fq_counts_headers: fq_counts_headers(reader, &base)?,
        sysctls: read_sysctls(reader, base.sysctls.clone())?,
        rcvbuf_initial_bytes: buffer(&HOST.rcvbuf_initial, mtu_bytes, base.rcvbuf_initial_bytes)?,
        rcvbuf_max_bytes: buffer(&HOST.rcvbuf_max, mtu_bytes, base.rcvbuf_max_bytes)?,
        sndbuf_initial_bytes: buffer(&HOST.sndbuf_initial, mtu_bytes, base.sndbuf_initial_bytes)?,
        sndbuf_max_bytes: match reader.has(&HOST.sndbuf_max) {
            true => Some(buffer(&HOST.sndbuf_max, mtu_bytes, 0)?),
            false => base.sndbuf_max_bytes,
        },
        defects: read_defects(reader, base.defects)?,
        ..base
    };
    receiving::read(reader, &mut config)?;
    Ok(config)
}

/// Reads `fq_counts_headers`, which requires fq.
fn fq_counts_headers(reader: &Reader<'_>, base: &HostConfig) -> Result<bool, Error> {
    if reader.has(&HOST.fq_counts_headers) && !reader.get_or(&HOST.fq, base.fq)? {
        return Err(reader.error(&HOST.fq_counts_headers, "needs fq = true"));
    }
    reader.get_or(&HOST.fq_counts_headers, base.fq_counts_headers)
}

/// Reads the sysctls that experiments may set.
fn read_sysctls(reader: &Reader<'_>, base: Sysctls) -> Result<Sysctls, Error> {
    let tso_rtt_log = reader.get_or(&HOST.tso_rtt_log, base.tso_rtt_log.into())?;
    Ok(Sysctls { tso_rtt_log: tso_rtt_log as u8, ..base })
}

type Defect = (&'static str, fn(&mut Defects) -> &mut bool);

/// All defects that experiments may name.
const DEFECTS: [Defect; 7] = [
    ("stale_special_ack", |defects| &mut defects.stale_special_ack),
    ("special_ack_cancels_delack", |defects| &mut defects.special_ack_cancels_delack),
    ("no_immediate_ack_on_ce_change", |defects| &mut defects.no_immediate_ack_on_ce_change),
    ("ce_change_resets_ato", |defects| &mut defects.ce_change_resets_ato),
    ("no_ack_on_cwr", |defects| &mut defects.no_ack_on_cwr),
    ("ece_not_on_special_ack", |defects| &mut defects.ece_not_on_special_ack),
    ("no_small_queues", |defects| &mut defects.no_small_queues),
];

fn defects() -> (String, Json) {
    keys::list_of(keys::words(DEFECTS.iter().map(|(name, _)| *name)))
}

/// Reads the named defects. The others are absent.
fn read_defects(reader: &Reader<'_>, base: Defects) -> Result<Defects, Error> {
    let Some(names) = reader.texts_of(&HOST.defects)? else { return Ok(base) };
    let mut defects = Defects::default();
    for name in names {
        match DEFECTS.iter().find(|(known, _)| *known == name) {
            Some((_, present)) => *present(&mut defects) = true,
            None => {
                let known = DEFECTS.iter().map(|(name, _)| *name);
                return Err(reader.error(&HOST.defects, one_of(name, known)));
            }
        }
    }
    Ok(defects)
}

// ---- topologies ----

/// Builds the network of the reference runs: senders `s1..`, one switch, one receiver `r`. The cable `return` leads
/// from the switch to each sender. Usually it only has a delay.
fn many_to_one(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<Network, Error> {
    let senders = reader.read(&MANY_TO_ONE.senders)?;
    let access = cables.need(&MANY_TO_ONE.access, End::Host, false)?;
    let bottleneck = cables.need(&MANY_TO_ONE.bottleneck, End::Switch, true)?;
    let back = match reader.child(&MANY_TO_ONE.r#return)? {
        Some(back) => cables.read(&back, End::Host, false)?,
        None => nothing(),
    };
    let mut network = Network::default();
    let (access, back) = (Arc::new(access), Arc::new(back));
    let senders: Vec<_> = hosts
        .numbered("s", senders)
        .into_iter()
        .map(|(name, config)| network.host(name, config))
        .collect();
    let receiver = network.host("r", hosts.base.clone());
    let switch = network.switch("switch");
    for sender in senders {
        network.duplex(sender, switch, Arc::clone(&access), Arc::clone(&back));
    }
    network.duplex(switch, receiver, bottleneck, nothing());
    Ok(network)
}

/// Builds hosts `h1..` around one switch.
fn star(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    let count = reader.read(&STAR.hosts)?;
    let (down, if_used) = port_to_host(reader, cables, &STAR.down)?;
    let up = cables.need(&STAR.up, End::Host, false)?;
    let network = Star { hosts: hosts.numbered("h", count), up, down }.build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}

/// Builds senders `s1..`, two switches, and receivers `r1..`.
fn dumbbell(reader: &Reader<'_>, cables: &Cables<'_, '_>, hosts: &Hosts) -> Result<Network, Error> {
    let senders = reader.read(&DUMBBELL.senders)?;
    let receivers = reader.get_or(&DUMBBELL.receivers, senders)?;
    let access = cables.need(&DUMBBELL.access, End::Host, false)?;
    let receiver_access = match reader.child(&DUMBBELL.receiver_access)? {
        Some(access) => cables.read(&access, End::Host, false)?,
        None => access.clone(),
    };
    let bottleneck = cables.need(&DUMBBELL.bottleneck, End::Switch, true)?;
    let back = cables.back_of(&DUMBBELL.back, &bottleneck)?;
    let network = Dumbbell {
        senders: hosts.numbered("s", senders),
        receivers: hosts.numbered("r", receivers),
        sender_up: access.clone(),
        sender_down: access,
        bottleneck,
        back,
        receiver_down: receiver_access.clone(),
        receiver_up: receiver_access,
    };
    Ok(network.build())
}

/// Builds leaves with hosts `hLEAF.HOST`, from 0. Each leaf is linked to each spine.
fn leaf_spine(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    let leaves = reader.read(&LEAF_SPINE.leaves)?;
    let spines = reader.read(&LEAF_SPINE.spines)?;
    let per_leaf = reader.read(&LEAF_SPINE.hosts_per_leaf)?;
    if leaves * per_leaf > MAX_HOSTS {
        let message =
            format!("must give at most {MAX_HOSTS} hosts in all, not {}", leaves * per_leaf);
        return Err(reader.error(&LEAF_SPINE.hosts_per_leaf, message));
    }
    if leaves * spines > MAX_FABRIC_CABLES {
        let message = format!(
            "must give at most {MAX_FABRIC_CABLES} links between leaves and spines, not {}",
            leaves * spines
        );
        return Err(reader.error(&LEAF_SPINE.spines, message));
    }
    let (host_down, if_used) = port_to_host(reader, cables, &LEAF_SPINE.down)?;
    let network = LeafSpine {
        leaves: leaves as u32,
        spines: spines as u32,
        hosts_per_leaf: per_leaf as u32,
        host: hosts.base.clone(),
        host_up: cables.need(&LEAF_SPINE.up, End::Host, false)?,
        host_down,
        fabric: cables.need(&LEAF_SPINE.fabric, End::Switch, false)?,
    }
    .build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}

/// Builds senders `s1..` at one end of a row of switches and receivers `r1..` at the other. At each hop, cross
/// traffic goes from `x1.1..` (hop, host) to `y1.1..`.
fn parking_lot(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<Network, Error> {
    let hops = reader.read(&PARKING_LOT.hops)?;
    let through = reader.read(&PARKING_LOT.through)?;
    let cross = reader.read(&PARKING_LOT.cross)?;
    let count = 2 * (through + hops * cross);
    if count > MAX_HOSTS {
        let message = format!("gives {count} hosts, but at most {MAX_HOSTS} are allowed");
        return Err(reader.error(&PARKING_LOT.cross, message));
    }
    let access = cables.need(&PARKING_LOT.access, End::Host, false)?;
    let bottleneck = cables.need(&PARKING_LOT.bottleneck, End::Switch, true)?;
    let network = ParkingLot {
        hops: hops as u32,
        through: through as u32,
        cross: cross as u32,
        host: hosts.base.clone(),
        access,
        back: cables.back_of(&PARKING_LOT.back, &bottleneck)?,
        bottleneck,
    };
    Ok(network.build())
}

/// Returns the cable to hosts, and whether the file leaves the recording of these ports open.
fn port_to_host(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    key: &Below,
) -> Result<(Cable, bool), Error> {
    let down = cables.need(key, End::Switch, true)?;
    let says = reader.child(key)?.is_some_and(|down| down.has(&CABLE.record));
    Ok((down, !says))
}

fn ports_to_hosts(network: &Network) -> Vec<usize> {
    let leads_to_host =
        |link: &Link| network.nodes[link.to as usize].host.is_some() && link.rate.is_some();
    let links = network.links.iter().enumerate();
    links.filter(|(_, link)| leads_to_host(link)).map(|(i, _)| i).collect()
}

//! `[network]`, `[hosts]` and `[[host]]`: hosts, switches and cables.

mod cables;
mod components;
mod fat_tree;
mod file;
mod graph;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use knee_file::keys::{Below, Choice, Key, Keys, Name, Shape, Special, Table, Text, entries};
use knee_file::units::Quantity as _;
use knee_file::{Error, Fields, Reader, Value, keys};
use knee_queue::ETHERNET_BYTES;
use knee_queue::time::Rate;
use knee_run::spec::{HostConfig, Link, LinuxVersion, Network, NodeId, PROFILES};
use knee_run::topology::{Cable, Dumbbell, LeafSpine, ParkingLot, Star};
use serde_json::json;

use crate::balance;
use crate::classes::find_inputs;
use crate::inputs;
use crate::names::{MAX_HOSTS, expand, expand_all};
use crate::random::Random;
use crate::receiving;
use crate::switches;
use cables::{CABLE, Cables, End, TABLE as CABLE_TABLE, draws, nothing};
use graph::Ways;

/// Largest number of cables between leaves and spines.
const MAX_FABRIC_CABLES: u64 = 250_000;
/// Bounds on the oversubscription of a leaf.
const LEAST_RATIO: f64 = 0.1;
const MOST_RATIO: f64 = 1000.0;
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
        access: Below = table(&CABLE_TABLE).needed(),
        /// Switch to `r`.
        bottleneck: Below = table(&CABLE_TABLE).needed(),
        /// Switch to sender.
        r#return: Below = table(&CABLE_TABLE).usually("infinite rate, no delay"),
    }
}

keys! {
    /// Hosts `h1`.. around `switch`.
    static STAR: StarKeys = "star" {
        /// Hosts `h1`, `h2`, ...
        hosts: Key<u64> = or(2).within(2, MAX_HOSTS),
        /// Host to switch.
        up: Below = table(&CABLE_TABLE).needed(),
        /// Switch to host.
        down: Below = table(&CABLE_TABLE).needed(),
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
        access: Below = table(&CABLE_TABLE).needed(),
        /// Between switches, left to right.
        bottleneck: Below = table(&CABLE_TABLE).needed(),
        /// Between switches, right to left.
        back: Below = table(&CABLE_TABLE).usually("`bottleneck`, without its losses"),
        /// Right host and switch, both ways.
        receiver_access: Below = table(&CABLE_TABLE).usually("`access`"),
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
        up: Below = table(&CABLE_TABLE).needed(),
        /// Switch to host.
        down: Below = table(&CABLE_TABLE).needed(),
        /// Leaf and spine, both ways.
        fabric: Below = table(&CABLE_TABLE).needed(),
        /// Rate of a leaf's hosts over that of its links to spines. It gives `fabric` its rate.
        oversubscription: Special = takes(|| {
            let words = format!("a number from {LEAST_RATIO} to {MOST_RATIO}");
            (words, json!({ "type": "number", "minimum": LEAST_RATIO, "maximum": MOST_RATIO }))
        }).usually("that of `fabric.rate`"),
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
        access: Below = table(&CABLE_TABLE).needed(),
        /// Each hop, forward.
        bottleneck: Below = table(&CABLE_TABLE).needed(),
        /// Each hop, backward.
        back: Below = table(&CABLE_TABLE).usually("`bottleneck`, without its losses"),
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
        let cables = Cables { network: &reader, frame_bytes: frame, rate: None };
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
    /// What decides the defaults of other keys.
    static VERSION: VersionKeys = "version" {
        /// Linux version of the TCP.
        linux: Choice<LinuxVersion> = of(&PROFILES).or("6.1"),
        /// `"on"`: `gso_max_segs`, `coalesce`, `receive_queues` and `gro` as stock hosts with 25 Gbps have them: docs/receiving.md.
        offloads: Choice<bool> = of(&[("off", false), ("on", true)]).or("off"),
    }
}

/// TCP settings of a host, and how it receives: docs/receiving.md.
static HOST: Fields = Fields {
    show: |v| HostConfig::new(PROFILES[0].1).fields(v),
    tables: |below| match below.as_ref() {
        "coalesce" => below.table(&receiving::COALESCE_TABLE),
        _ => below.table(&receiving::CPU_TABLE),
    },
};

keys! {
    /// Hosts of a `[[host]]`; missing keys are as in `[hosts]`.
    static SOME: SomeKeys = "some" {
        /// Name in paths, as in `host.slow.rto_min`.
        name: Key<Name> = usually("none"),
        /// A host, or a range as `s1..s3`.
        hosts: Key<Text> = needed("r"),
    }
}

/// The table `[hosts]`, with what its keys are of Linux 6.1 where it does not say.
pub(crate) static HOSTS_TABLE: Table = Table {
    name: "hosts",
    says: "Settings of all hosts. Defaults are those of `linux = \"6.1\"`.",
    shape: || Shape::Keys(entries(&[&VERSION, &HOST])),
};

/// Each table `[[host]]`.
pub(crate) static HOST_TABLE: Table = Table {
    name: "host",
    says: "Settings of some hosts that differ from `[hosts]`.",
    shape: || {
        let mut entries = entries(&[&SOME, &VERSION, &HOST]);
        entries
            .iter_mut()
            .skip(SOME.names().len())
            .for_each(|entry| entry.default = "as in `hosts`".to_owned());
        Shape::Keys(entries)
    },
};

struct Hosts {
    base: HostConfig,
}

impl Hosts {
    fn read(root: &Reader<'_>) -> Result<Hosts, Error> {
        let reader = root.child_or_empty("hosts")?.only(&[&VERSION, &HOST])?;
        let linux = reader.choose(&VERSION.linux)?;
        let mut host = HostConfig::new(linux);
        host.set_offloads(reader.choose(&VERSION.offloads)?);
        Ok(Hosts { base: read_host(&reader, host)? })
    }

    fn apply_overrides(&self, root: &Reader<'_>, spec: &mut NetworkSpec) -> Result<(), Error> {
        for reader in root.children("host")? {
            reader.check(&[&SOME, &VERSION, &HOST])?;
            if reader.has(&SOME.name) {
                reader.need_name(&SOME.name)?;
            }
            let names = [reader.need_text(&SOME.hosts)?];
            let mut base = self.base.clone();
            if reader.has(&VERSION.linux) {
                let in_hosts = root.child_or_empty("hosts")?;
                set_linux(&mut base, reader.choose(&VERSION.linux)?, &in_hosts);
            }
            if reader.has(&VERSION.offloads) {
                base.set_offloads(reader.choose(&VERSION.offloads)?);
            }
            let config = read_host(&reader, base)?;
            if config.mtu_bytes != self.base.mtu_bytes {
                return Err(
                    reader.error("mtu", "must be the same on all hosts: give it in [hosts]")
                );
            }
            if config.ipv6 != self.base.ipv6 {
                return Err(
                    reader.error("ipv6", "must be the same on all hosts: give it in [hosts]")
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

/// Makes a host one of another version: what depends on the version is as by default, unless `[hosts]` says it.
fn set_linux(host: &mut HostConfig, linux: LinuxVersion, in_hosts: &Reader<'_>) {
    let stock = HostConfig::new(linux);
    host.linux = linux;
    host.sysctls.comp_sack_slack = stock.sysctls.comp_sack_slack;
    if !in_hosts.has("limit_output") {
        host.limit_output_bytes = stock.limit_output_bytes;
    }
    if !in_hosts.has("rcvbuf_max") {
        host.rcvbuf_max_bytes = stock.rcvbuf_max_bytes;
    }
}

/// Reads the settings of a host. Those that are missing are as in `host`.
fn read_host(reader: &Reader<'_>, mut host: HostConfig) -> Result<HostConfig, Error> {
    if let Some(coalesce) = reader.child("coalesce")? {
        host.coalesce = Some(receiving::read_coalesce(&coalesce, None)?);
    }
    if let Some(cpu) = reader.child("cpu")? {
        let costs = host.cpu.get_or_insert_default();
        cpu.only(&[&receiving::CPU])?.fill_rest(0, |v| costs.fields(v))?;
    }
    reader.fill_rest(0, |v| host.fields(v))?;
    Ok(host)
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
    let host_up = cables.need(&LEAF_SPINE.up, End::Host, false)?;
    let of_fabric = fabric_rate(reader, host_up.rate, (per_leaf, spines))?;
    let fabric = Cables { rate: of_fabric, ..*cables };
    let network = LeafSpine {
        leaves: leaves as u32,
        spines: spines as u32,
        hosts_per_leaf: per_leaf as u32,
        host: hosts.base.clone(),
        host_up,
        host_down,
        fabric: fabric.need(&LEAF_SPINE.fabric, End::Switch, false)?,
    }
    .build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}

/// Returns the rate of links between leaves and spines, if the file gives their oversubscription in its place: `hosts * rate of
/// a host / (spines * oversubscription)`.
fn fabric_rate(
    reader: &Reader<'_>,
    of_host: Option<Rate>,
    (hosts, spines): (u64, u64),
) -> Result<Option<Rate>, Error> {
    let key = &LEAF_SPINE.oversubscription;
    let Some(node) = reader.node(key) else { return Ok(None) };
    let ratio = match &node.value {
        Value::Integer(_) | Value::Other(_) | Value::Text(_) => node.label().parse::<f64>().ok(),
        _ => None,
    };
    let is_fine = |ratio: &f64| (LEAST_RATIO..=MOST_RATIO).contains(ratio);
    let ratio = ratio.filter(is_fine).ok_or_else(|| {
        let why = format!("must be a number from {LEAST_RATIO} to {MOST_RATIO}, as in 3 or 1.5");
        reader.error(key, why)
    })?;
    if reader.child(&LEAF_SPINE.fabric)?.is_some_and(|fabric| fabric.has("rate")) {
        return Err(reader.error(key, "conflicts with network.fabric.rate: leave one out"));
    }
    let Some(of_host) = of_host else {
        return Err(reader.error(key, "needs network.up.rate, the rate of a host"));
    };
    let bps = hosts as f64 * of_host.bps() as f64 / (spines as f64 * ratio);
    let rate = Rate::parse(&format!("{bps:.0} bps")).map_err(|_| {
        reader.error(
            key,
            format!("gives network.fabric {bps:.0} bps, but 1 kbps to 1 Tbps are allowed"),
        )
    })?;
    reader.note(key, node.json());
    reader.note("fabric.rate", rate.show());
    Ok(Some(rate))
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
    let says = reader.child(key)?.is_some_and(|down| down.has("record"));
    Ok((down, !says))
}

fn ports_to_hosts(network: &Network) -> Vec<usize> {
    let leads_to_host =
        |link: &Link| network.nodes[link.to as usize].host.is_some() && link.rate.is_some();
    let links = network.links.iter().enumerate();
    links.filter(|(_, link)| leads_to_host(link)).map(|(i, _)| i).collect()
}

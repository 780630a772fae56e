//! `[network]`, `[hosts]` and `[[host]]`: who is joined to whom by what.

mod fat_tree;
mod graph;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use knee_file::units::{Burst, Pkts, Share, Size};
use knee_file::{Error, Reader, one_of};
use knee_queue::time::{Duration, Rate};
use knee_queue::{DropTailConfig, Limit, Place, QueueConfig};
use knee_run::spec::{
    Defects, HostConfig, Link, LinuxVersion, Network, NodeId, Serialisation, Sysctls,
};
use knee_run::topology::{Cable, Dumbbell, LeafSpine, ParkingLot, Star};

use crate::cc::read_base_rtt;
use crate::classes::find_inputs;
use crate::names::{MAX_HOSTS, expand, expand_all};
use crate::queues::read_queue;
use crate::random::Random;
use crate::receiving;
use crate::switches;

/// Ethernet's header, which queues count with a packet.
const ETHERNET_BYTES: u32 = 14;

/// Of a socket.
const MAX_BUFFER_BYTES: u32 = 1 << 30;
/// More than any kernel charges a packet beside its payload.
const MAX_OVERHEAD_BYTES: u32 = 64 << 10;
const MAX_FABRIC_CABLES: u64 = 50_000;

/// Where each topology's names come from; the keys of `[network]` are these and `topology`.
const MANY_TO_ONE: &[&str] = &["topology", "senders", "access", "bottleneck", "return"];
const STAR: &[&str] = &["topology", "hosts", "up", "down"];
const DUMBBELL: &[&str] =
    &["topology", "senders", "receivers", "access", "bottleneck", "back", "receiver_access"];
const LEAF_SPINE: &[&str] =
    &["topology", "leaves", "spines", "hosts_per_leaf", "up", "down", "fabric"];
const PARKING_LOT: &[&str] =
    &["topology", "hops", "through", "cross", "access", "bottleneck", "back"];

/// A network, ready to be built for any number of runs.
#[derive(Clone, Debug)]
pub(crate) struct NetworkSpec {
    network: Network,
    /// Links sampled only if a traffic entry sends to their host.
    sampled_if_used: Vec<usize>,
    ids: HashMap<String, NodeId>,
    /// Whether the file has every node and link, so that a way may be missing.
    is_drawn: bool,
}

#[derive(Clone, Copy, Debug)]
enum Topology {
    ManyToOne,
    Star,
    Dumbbell,
    LeafSpine,
    ParkingLot,
    FatTree,
    Graph,
}

/// Who owns the sending end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A host: its queue is never the question, and is unlimited if nothing is said.
    Host,
    /// A switch: its queue must be given.
    Switch,
}

impl NetworkSpec {
    pub(crate) fn read(root: &Reader<'_>) -> Result<NetworkSpec, Error> {
        let hosts = Hosts::read(root)?;
        let reader = root.need_child("network")?;
        let topologies = [
            ("many-to-one", Topology::ManyToOne),
            ("star", Topology::Star),
            ("dumbbell", Topology::Dumbbell),
            ("leaf-spine", Topology::LeafSpine),
            ("parking-lot", Topology::ParkingLot),
            ("fat-tree", Topology::FatTree),
            ("graph", Topology::Graph),
        ];
        reader.need_text("topology", "many-to-one")?;
        let topology = reader.choice_or("topology", &topologies, "")?;
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
        };
        switches::read(&reader, &mut network, frame)?;
        let host_ids = network.nodes.iter().zip(0..).filter(|(node, _)| node.host.is_some());
        let ids = host_ids.map(|(node, id)| (node.name.clone(), id)).collect();
        let mut spec = NetworkSpec {
            network,
            sampled_if_used,
            ids,
            is_drawn: matches!(topology, Topology::Graph),
        };
        hosts.apply_overrides(root, &mut spec)?;
        find_inputs(&mut spec.network, &reader)?;
        Ok(spec)
    }

    /// The network with the links sampled that traffic is sent over; `destinations` are the hosts that it is sent to.
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

    /// The network of one run.
    pub(crate) fn build(
        &self,
        destinations: impl FnOnce() -> HashSet<NodeId>,
        seed: u64,
    ) -> Network {
        let mut network = self.sampled(destinations).into_owned();
        for (i, link) in network.links.iter_mut().enumerate() {
            let mut random = Random::new(seed, &[i as u64, 3]);
            link.queue.seed(&mut || random.next());
        }
        network
    }

    /// Nodes and links.
    pub(crate) fn size(&self) -> usize {
        self.network.nodes.len() + self.network.links.len()
    }

    pub(crate) fn has_flow_control(&self) -> bool {
        self.network.flow_control.is_some()
    }

    /// Whether hosts speak IPv6: all of them do, or none.
    pub(crate) fn ipv6(&self) -> bool {
        self.network.nodes.iter().any(|node| node.host.as_ref().is_some_and(|host| host.ipv6))
    }

    pub(crate) fn name(&self, id: NodeId) -> &str {
        &self.network.nodes[id as usize].name
    }

    /// Whether shared memory of this name is sampled.
    pub(crate) fn has_sampled_buffer(&self, name: &str) -> bool {
        self.network.buffers.iter().any(|buffer| buffer.sampled && buffer.name == name)
    }

    /// Whether a link of this name may be sampled, or one of the queues that its queue consists of.
    pub(crate) fn has_sampled_queue(&self, name: &str) -> bool {
        self.network.links.iter().filter(|link| link.sampled).any(|link| {
            link.name == name
                || link.queue.part_names().iter().any(|part| {
                    let part = name.strip_suffix(part).and_then(|rest| rest.strip_suffix('/'));
                    part == Some(&link.name)
                })
        })
    }

    /// The hosts that a text such as `s1..s10` names.
    pub(crate) fn hosts_named(&self, text: &str) -> Result<Vec<NodeId>, String> {
        let names = expand(text)?;
        names.iter().map(|name| self.id(name)).collect()
    }

    /// The hosts of a list of names and ranges.
    pub(crate) fn hosts_of(&self, texts: &[&str]) -> Result<Vec<NodeId>, String> {
        expand_all(texts)?.iter().map(|name| self.id(name)).collect()
    }

    /// Whether there is a way between the hosts of each pair, of a network that was drawn by hand.
    pub(crate) fn check_ways(
        &self,
        pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<(), String> {
        if self.is_drawn { graph::check_ways(&self.network, pairs) } else { Ok(()) }
    }

    /// The rate of a link, or of the links to hosts, all of them together.
    pub(crate) fn rate_bps_named(&self, text: &str) -> Result<u64, String> {
        let links = &self.network.links;
        let rate = |link: &Link| {
            let name = &link.name;
            link.rate.map(Rate::bps).ok_or_else(|| format!("must have a rate, and {name} has none"))
        };
        if let Some(link) = links.iter().find(|link| link.name == text) {
            return rate(link);
        }
        let hosts = self.hosts_named(text).map_err(|why| format!("{why}; a link will do too"))?;
        links.iter().filter(|link| hosts.contains(&link.to)).map(rate).sum()
    }

    fn id(&self, name: &str) -> Result<NodeId, String> {
        self.ids.get(name).copied().ok_or_else(|| {
            let hosts: Vec<_> =
                self.network.nodes.iter().filter(|node| node.host.is_some()).collect();
            let named: Vec<&str> = match hosts.as_slice() {
                [first, .., last] if hosts.len() > 8 => vec![&first.name, "...", &last.name],
                _ => hosts.iter().map(|node| node.name.as_str()).collect(),
            };
            let shown: String = name.chars().take(40).collect();
            format!(
                "must name hosts of this network ({}), and there is no \"{shown}\"",
                named.join(", ")
            )
        })
    }
}

// ---- hosts ----

const HOST_KEYS: &[&str] = &[
    "linux",
    "hz",
    "jiffies_at_start",
    "ipv6",
    "tcp_ecn",
    "tcp_ecn_fallback",
    "syn_ect",
    "mtu",
    "initial_cwnd",
    "rto_min",
    "slow_start_after_idle",
    "sack",
    "gso_max_segs",
    "gro_window",
    "limit_output",
    "skb_overhead",
    "max_tcp_header",
    "base_rtt",
    "fq",
    "fq_counts_headers",
    "tso_rtt_log",
    "rcvbuf_initial",
    "rcvbuf_max",
    "sndbuf_initial",
    "sndbuf_max",
    "defects",
];

struct Hosts {
    base: HostConfig,
}

impl Hosts {
    fn read(root: &Reader<'_>) -> Result<Hosts, Error> {
        let reader = root.child_or_empty("hosts")?.only(&[HOST_KEYS, &receiving::KEYS].concat())?;
        let linux = reader.choice_or("linux", &LinuxVersion::NAMED, "6.1")?;
        let base = read_host(&reader, HostConfig::new(linux))?;
        Ok(Hosts { base })
    }

    fn apply_overrides(&self, root: &Reader<'_>, spec: &mut NetworkSpec) -> Result<(), Error> {
        let keys: Vec<_> = ["hosts"].iter().chain(HOST_KEYS).copied().collect();
        for reader in root.children("host")? {
            reader.check(&[keys.as_slice(), &receiving::KEYS].concat())?;
            reader.need_text("hosts", "r")?;
            let mut base = self.base.clone();
            if reader.has("linux") {
                base.linux = reader.choice_or("linux", &LinuxVersion::NAMED, "6.1")?;
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
            let names = reader.texts("hosts")?.unwrap_or_default();
            for id in spec.hosts_of(&names).map_err(|why| reader.error("hosts", why))? {
                spec.network.nodes[id as usize].host = Some(config.clone());
            }
        }
        Ok(())
    }

    fn numbered(&self, prefix: &str, count: u64) -> Vec<(String, HostConfig)> {
        (1..=count).map(|i| (format!("{prefix}{i}"), self.base.clone())).collect()
    }
}

fn read_host(reader: &Reader<'_>, base: HostConfig) -> Result<HostConfig, Error> {
    let bytes = |key: &str, default: u32| -> Result<u32, Error> {
        let size = reader.get_or(key, Size(u64::from(default)))?;
        u32::try_from(size.0)
            .map_err(|_| reader.error(key, "must be at most 4 GB, as in \"6 MiB\""))
    };
    // Defaults are not checked: with an MTU of 64 KB some are below four packets.
    let buffer = |key: &str, mtu: u32, default: u32| -> Result<u32, Error> {
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
    let hz = reader.u32_or("hz", 100..=1000, base.hz)?;
    if ![100, 250, 300, 1000].contains(&hz) {
        return Err(reader.error("hz", "must be 100, 250, 300 or 1000"));
    }
    let mtu_bytes = bytes("mtu", base.mtu_bytes)?;
    if !(576..=65_535).contains(&mtu_bytes) {
        return Err(reader.error("mtu", "must be from 576 B to 65535 B, as in \"1500 B\""));
    }
    let max_tcp_header_bytes = bytes("max_tcp_header", base.max_tcp_header_bytes)?;
    if !(128..=512).contains(&max_tcp_header_bytes) {
        return Err(reader.error("max_tcp_header", "must be from 128 B to 512 B, as in \"320 B\""));
    }
    let jiffies = reader.integer("jiffies_at_start", 0..=u64::from(u32::MAX))?;
    let mut config = HostConfig {
        hz,
        ipv6: reader.flag_or("ipv6", base.ipv6)?,
        mtu_bytes,
        jiffies_at_start: match jiffies {
            Some(jiffies) => u32::try_from(jiffies).ok(),
            None => base.jiffies_at_start,
        },
        tcp_ecn: reader.u32_or("tcp_ecn", 0..=2, u32::from(base.tcp_ecn))? as u8,
        tcp_ecn_fallback: reader.flag_or("tcp_ecn_fallback", base.tcp_ecn_fallback)?,
        syn_ect: reader.flag_or("syn_ect", base.syn_ect)?,
        initial_cwnd_pkts: reader.get_or("initial_cwnd", Pkts(base.initial_cwnd_pkts))?.0,
        rto_min: at_least_1_us(reader, "rto_min", base.rto_min)?,
        slow_start_after_idle: reader
            .flag_or("slow_start_after_idle", base.slow_start_after_idle)?,
        sack: reader.flag_or("sack", base.sack)?,
        gso_max_segs: reader.u32_or("gso_max_segs", 1..=65_535, base.gso_max_segs)?,
        gro_window: reader.get_or("gro_window", base.gro_window)?,
        limit_output_bytes: buffer("limit_output", mtu_bytes, base.limit_output_bytes)?,
        skb_overhead_bytes: match bytes("skb_overhead", base.skb_overhead_bytes)? {
            overhead @ ..=MAX_OVERHEAD_BYTES => overhead,
            _ => {
                let why = "must be at most 64 KiB, as in \"1216 B\": it is beside the payload";
                return Err(reader.error("skb_overhead", why));
            }
        },
        max_tcp_header_bytes,
        base_rtt: read_base_rtt(reader)?.or(base.base_rtt),
        fq: reader.flag_or("fq", base.fq)?,
        fq_counts_headers: fq_counts_headers(reader, &base)?,
        sysctls: read_sysctls(reader, base.sysctls.clone())?,
        rcvbuf_initial_bytes: buffer("rcvbuf_initial", mtu_bytes, base.rcvbuf_initial_bytes)?,
        rcvbuf_max_bytes: buffer("rcvbuf_max", mtu_bytes, base.rcvbuf_max_bytes)?,
        sndbuf_initial_bytes: buffer("sndbuf_initial", mtu_bytes, base.sndbuf_initial_bytes)?,
        sndbuf_max_bytes: match reader.has("sndbuf_max") {
            true => Some(buffer("sndbuf_max", mtu_bytes, 0)?),
            false => base.sndbuf_max_bytes,
        },
        defects: read_defects(reader, base.defects)?,
        ..base
    };
    receiving::read(reader, &mut config)?;
    Ok(config)
}

/// Only where there is an fq.
fn fq_counts_headers(reader: &Reader<'_>, base: &HostConfig) -> Result<bool, Error> {
    if reader.has("fq_counts_headers") && !reader.flag_or("fq", base.fq)? {
        return Err(reader.error("fq_counts_headers", "has no effect without fq = true beside it"));
    }
    reader.flag_or("fq_counts_headers", base.fq_counts_headers)
}

/// Those that experiments may set.
fn read_sysctls(reader: &Reader<'_>, base: Sysctls) -> Result<Sysctls, Error> {
    let tso_rtt_log = reader.u32_or("tso_rtt_log", 0..=31, base.tso_rtt_log.into())?;
    Ok(Sysctls { tso_rtt_log: tso_rtt_log as u8, ..base })
}

/// Names of defects; those not named are absent.
fn read_defects(reader: &Reader<'_>, base: Defects) -> Result<Defects, Error> {
    let Some(names) = reader.texts("defects")? else { return Ok(base) };
    let mut defects = Defects::default();
    for name in names {
        let mut known = [
            ("stale_special_ack", &mut defects.stale_special_ack),
            ("special_ack_cancels_delack", &mut defects.special_ack_cancels_delack),
            ("no_immediate_ack_on_ce_change", &mut defects.no_immediate_ack_on_ce_change),
            ("ce_change_resets_ato", &mut defects.ce_change_resets_ato),
            ("no_ack_on_cwr", &mut defects.no_ack_on_cwr),
            ("ece_not_on_special_ack", &mut defects.ece_not_on_special_ack),
            ("no_small_queues", &mut defects.no_small_queues),
        ];
        let names = known.each_ref().map(|(name, _)| *name);
        match known.iter_mut().find(|(known, _)| *known == name) {
            Some((_, present)) => **present = true,
            None => return Err(reader.error("defects", one_of(name, names.into_iter()))),
        }
    }
    Ok(defects)
}

fn at_least_1_us(reader: &Reader<'_>, key: &str, default: Duration) -> Result<Duration, Error> {
    let value = reader.get_or(key, default)?;
    if value < Duration::from_us(1) {
        return Err(reader.error(key, "must be at least 1 us, as in \"200 ms\""));
    }
    Ok(value)
}

// ---- cables ----

struct Cables<'r, 'a> {
    network: &'r Reader<'a>,
    frame_bytes: u32,
}

const CABLE_KEYS: &[&str] =
    &["rate", "burst", "delay", "jitter", "loss", "loss_per", "queue", "record"];

impl Cables<'_, '_> {
    /// The cable of this key, which must be there.
    fn need(&self, key: &str, end: End, recorded: bool) -> Result<Cable, Error> {
        let reader = self.network.need_child(key)?;
        self.read(&reader, end, recorded)
    }

    /// The cable `back`, or one like `forth`, without its losses.
    fn back_of(&self, forth: &Cable) -> Result<Cable, Error> {
        match self.network.child("back")? {
            Some(back) => self.read(&back, End::Switch, false),
            None => Ok(Cable { sampled: false, loss: 0.0, ..forth.clone() }),
        }
    }

    fn read(&self, reader: &Reader<'_>, end: End, recorded: bool) -> Result<Cable, Error> {
        reader.check(CABLE_KEYS)?;
        self.read_checked(reader, end, recorded)
    }

    /// As `read`, of a table whose keys were looked at already.
    fn read_checked(&self, reader: &Reader<'_>, end: End, recorded: bool) -> Result<Cable, Error> {
        let rate: Option<Rate> = reader.get("rate")?;
        if rate.is_none() {
            for key in ["queue", "burst", "record"] {
                if reader.has(key) {
                    return Err(reader.error(key, "has no meaning without a rate beside it"));
                }
            }
        }
        let has_burst = reader.has("burst");
        let queue = match (rate, reader.child("queue")?) {
            (Some(rate), Some(queue)) => {
                read_queue(&queue, Place { frame_bytes: self.frame_bytes, rate, has_burst })?
            }
            (Some(_), None) if end == End::Switch => {
                return Err(reader.error(
                    "queue",
                    "missing, as in queue = { kind = \"droptail\", limit = \"500 pkts\" }",
                ));
            }
            _ => unlimited(),
        };
        Ok(Cable {
            rate,
            serialisation: self.serialisation(reader)?,
            delay: reader.get_or("delay", Duration::ZERO)?,
            jitter: reader.get_or("jitter", Duration::ZERO)?,
            loss: reader.get_or("loss", Share(0.0))?.0,
            loses_bursts: loses_bursts(reader)?,
            queue,
            sampled: rate.is_some() && reader.flag_or("record", recorded)?,
        })
    }

    fn serialisation(&self, reader: &Reader<'_>) -> Result<Serialisation, Error> {
        let burst_bytes = match reader.get("burst")? {
            None => return Ok(Serialisation::StoreAndForward),
            Some(Burst::Bytes(bytes)) => bytes,
            Some(Burst::Pkts(pkts)) => pkts.saturating_mul(self.frame_bytes),
        };
        if burst_bytes < self.frame_bytes {
            return Err(reader.error(
                "burst",
                format!("must hold one full packet ({} B), or none ever passes", self.frame_bytes),
            ));
        }
        Ok(Serialisation::TokenBucket { burst_bytes })
    }
}

/// Whether losses take whole bursts; only where there are any.
fn loses_bursts(reader: &Reader<'_>) -> Result<bool, Error> {
    if reader.has("loss_per") && !reader.has("loss") {
        return Err(reader.error("loss_per", "has no effect without loss beside it"));
    }
    reader.choice_or("loss_per", &[("packet", false), ("burst", true)], "packet")
}

fn unlimited() -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) })
}

/// A cable that is not there: no rate, no delay.
fn nothing() -> Cable {
    Cable {
        rate: None,
        serialisation: Serialisation::StoreAndForward,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue: unlimited(),
        sampled: false,
    }
}

// ---- topologies ----

/// Whether the keys are those of this topology, and of what every topology may have beside it.
fn check(reader: &Reader<'_>, of_topology: &[&str]) -> Result<(), Error> {
    reader.check(&[of_topology, switches::KEYS].concat())
}

/// The network of the reference runs: senders `s1..`, one switch, one receiver `r`. Back from the
/// switch to each sender goes the cable `return`, as a rule a delay alone.
fn many_to_one(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<Network, Error> {
    check(reader, MANY_TO_ONE)?;
    let senders = reader.integer_or("senders", 1..=MAX_HOSTS, 1)?;
    let access = cables.need("access", End::Host, false)?;
    let bottleneck = cables.need("bottleneck", End::Switch, true)?;
    let back = match reader.child("return")? {
        Some(back) => cables.read(&back, End::Host, false)?,
        None => nothing(),
    };
    let mut network = Network::default();
    let senders: Vec<_> = hosts
        .numbered("s", senders)
        .into_iter()
        .map(|(name, config)| network.host(name, config))
        .collect();
    let receiver = network.host("r", hosts.base.clone());
    let switch = network.switch("switch");
    for sender in senders {
        network.duplex(sender, switch, access.clone(), back.clone());
    }
    network.duplex(switch, receiver, bottleneck, nothing());
    Ok(network)
}

/// Hosts `h1..` around one switch.
fn star(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    check(reader, STAR)?;
    let count = reader.integer_or("hosts", 2..=MAX_HOSTS, 2)?;
    let (down, if_used) = port_to_host(reader, cables)?;
    let up = cables.need("up", End::Host, false)?;
    let network = Star { hosts: hosts.numbered("h", count), up, down }.build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}

/// Senders `s1..`, two switches, receivers `r1..`.
fn dumbbell(reader: &Reader<'_>, cables: &Cables<'_, '_>, hosts: &Hosts) -> Result<Network, Error> {
    check(reader, DUMBBELL)?;
    let senders = reader.integer_or("senders", 1..=MAX_HOSTS, 1)?;
    let receivers = reader.integer_or("receivers", 1..=MAX_HOSTS, senders)?;
    let access = cables.need("access", End::Host, false)?;
    let receiver_access = match reader.child("receiver_access")? {
        Some(access) => cables.read(&access, End::Host, false)?,
        None => access.clone(),
    };
    let bottleneck = cables.need("bottleneck", End::Switch, true)?;
    let back = cables.back_of(&bottleneck)?;
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

/// Leaves with hosts `hLEAF.HOST`, from 0, each leaf joined to each spine.
fn leaf_spine(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<(Network, Vec<usize>), Error> {
    check(reader, LEAF_SPINE)?;
    let leaves = reader.integer_or("leaves", 1..=1000, 2)?;
    let spines = reader.integer_or("spines", 1..=1000, 2)?;
    let per_leaf = reader.integer_or("hosts_per_leaf", 1..=1000, 2)?;
    if leaves * per_leaf > MAX_HOSTS {
        let message =
            format!("must leave at most {MAX_HOSTS} hosts in all, not {}", leaves * per_leaf);
        return Err(reader.error("hosts_per_leaf", message));
    }
    if leaves * spines > MAX_FABRIC_CABLES {
        let message = format!(
            "must leave at most {MAX_FABRIC_CABLES} cables between leaves and spines, not {}",
            leaves * spines
        );
        return Err(reader.error("spines", message));
    }
    let (host_down, if_used) = port_to_host(reader, cables)?;
    let network = LeafSpine {
        leaves: leaves as u32,
        spines: spines as u32,
        hosts_per_leaf: per_leaf as u32,
        host: hosts.base.clone(),
        host_up: cables.need("up", End::Host, false)?,
        host_down,
        fabric: cables.need("fabric", End::Switch, false)?,
    }
    .build();
    let ports = if if_used { ports_to_hosts(&network) } else { Vec::new() };
    Ok((network, ports))
}

/// Senders `s1..` at one end of a row of switches, receivers `r1..` at the other; before and behind each hop, cross traffic
/// from `x1.1..` (hop, host) to `y1.1..`.
fn parking_lot(
    reader: &Reader<'_>,
    cables: &Cables<'_, '_>,
    hosts: &Hosts,
) -> Result<Network, Error> {
    check(reader, PARKING_LOT)?;
    let hops = reader.integer_or("hops", 1..=1000, 2)?;
    let through = reader.integer_or("through", 1..=MAX_HOSTS, 1)?;
    let cross = reader.integer_or("cross", 0..=MAX_HOSTS, 1)?;
    let count = 2 * (through + hops * cross);
    if count > MAX_HOSTS {
        let message = format!("must leave at most {MAX_HOSTS} hosts in all, not {count}");
        return Err(reader.error("cross", message));
    }
    let access = cables.need("access", End::Host, false)?;
    let bottleneck = cables.need("bottleneck", End::Switch, true)?;
    let network = ParkingLot {
        hops: hops as u32,
        through: through as u32,
        cross: cross as u32,
        host: hosts.base.clone(),
        access,
        back: cables.back_of(&bottleneck)?,
        bottleneck,
    };
    Ok(network.build())
}

/// The cable `down`, and whether the file leaves open which of these ports are recorded.
fn port_to_host(reader: &Reader<'_>, cables: &Cables<'_, '_>) -> Result<(Cable, bool), Error> {
    let down = cables.need("down", End::Switch, true)?;
    let says = reader.child("down")?.is_some_and(|down| down.has("record"));
    Ok((down, !says))
}

fn ports_to_hosts(network: &Network) -> Vec<usize> {
    let leads_to_host =
        |link: &Link| network.nodes[link.to as usize].host.is_some() && link.rate.is_some();
    let links = network.links.iter().enumerate();
    links.filter(|(_, link)| leads_to_host(link)).map(|(i, _)| i).collect()
}

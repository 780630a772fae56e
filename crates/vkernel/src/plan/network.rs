//! Hosts, switches and cables as namespaces, devices, addresses and routes.

use std::net::{IpAddr, Ipv4Addr};

use knee_netns::netlink::{
    self, Attributes, LinkSettings, Message, NewLink, ROOT, Route, add_address, add_route,
};
use knee_queue::{Limit, QueueConfig};
use knee_run::addresses::{address, mac};
use knee_run::spec::{
    Adaptive, HostConfig, Link, LinkId, Network, NodeId, Serialisation, SharedBuffer, Since,
};

use super::queues::{self, Added, BELOW_BUCKET, Place};
use super::routes::next_links;
use super::{Discipline, ETHERNET_BYTES, SampledQueue, host};
use crate::Error;
use crate::guest::{QueueOrder, Step};

/// Index of a namespace's first device after its loopback.
const FIRST_DEVICE: u32 = 2;
/// Offset from the index of a link's device to that of its entry device.
const ENTRY_ABOVE: u32 = 100_000;

/// A network as a guest builds it.
pub(super) struct Built {
    pub(super) steps: Vec<Step>,
    /// The hosts' nodes, in the order of their namespaces.
    pub(super) hosts: Vec<NodeId>,
    /// Namespace of each node.
    pub(super) namespaces: Vec<u32>,
    pub(super) queues: Vec<SampledQueue>,
    pub(super) queue_orders: Vec<QueueOrder>,
}

/// The end of a cable where a link leaves.
struct End {
    cable: u32,
    /// Index of the end's device in its node's namespace.
    index: u32,
}

/// Turns a network into steps.
///
/// # Errors
/// Names what no device or discipline of the kernel can do, and the alternative.
pub(super) fn build(network: &Network) -> Result<Built, Error> {
    let is_host = |node: &NodeId| network.nodes[*node as usize].host.is_some();
    let all = 0..network.nodes.len() as NodeId;
    let hosts: Vec<NodeId> = all.clone().filter(is_host).collect();
    let switches = all.filter(|node| !is_host(node));
    let mut namespaces = vec![0; network.nodes.len()];
    for (node, namespace) in hosts.iter().copied().chain(switches).zip(0..) {
        namespaces[node as usize] = namespace;
    }
    let mut builder = Builder {
        network,
        ends: ends(network)?,
        largest_mtu: largest_mtu(network),
        built: Built {
            steps: Vec::new(),
            hosts,
            namespaces,
            queues: Vec::new(),
            queue_orders: Vec::new(),
        },
    };
    builder.settings()?;
    for id in 0..network.links.len() {
        builder.link(id as LinkId)?;
    }
    builder.routes()?;
    Ok(builder.built)
}

fn largest_mtu(network: &Network) -> u32 {
    let hosts = network.nodes.iter().filter_map(|node| node.host.as_ref());
    hosts.map(|host| host.mtu_bytes).max().unwrap_or(1500)
}

/// Returns the end at which each link leaves. Two links between the same nodes are the directions of one cable.
fn ends(network: &Network) -> Result<Vec<End>, Error> {
    let mut next_index = vec![FIRST_DEVICE; network.nodes.len()];
    let mut cables = 0..;
    let mut waiting: Vec<(NodeId, NodeId, u32)> = Vec::new();
    let mut ends = Vec::with_capacity(network.links.len());
    for link in &network.links {
        let back = |(from, to, _): &(NodeId, NodeId, u32)| (*from, *to) == (link.to, link.from);
        let cable = match waiting.iter().position(back) {
            Some(at) => waiting.remove(at).2,
            None => {
                let cable = cables.next().unwrap_or(u32::MAX);
                waiting.push((link.from, link.to, cable));
                cable
            }
        };
        let index = &mut next_index[link.from as usize];
        ends.push(End { cable, index: *index });
        *index += 1;
    }
    match waiting.first() {
        None => Ok(ends),
        Some((from, to, _)) => {
            let name = |node: &NodeId| &network.nodes[*node as usize].name;
            Err(Error::Refused(format!(
                "from {} to {} goes a link and none back: cables of a guest have two directions",
                name(from),
                name(to)
            )))
        }
    }
}

struct Builder<'a> {
    network: &'a Network,
    ends: Vec<End>,
    largest_mtu: u32,
    built: Built,
}

impl Builder<'_> {
    fn host(&self, node: NodeId) -> Option<&HostConfig> {
        self.network.nodes[node as usize].host.as_deref()
    }

    fn netlink(&mut self, node: NodeId, request: Message, what: String) {
        let namespace = self.built.namespaces[node as usize];
        let request = request.answered().into_bytes();
        self.built.steps.push(Step::Netlink { namespace, request, what });
    }

    /// Sets the sysctls of hosts and switches.
    fn settings(&mut self) -> Result<(), Error> {
        // The guest's first namespace comes after all of ours. A write there sets memory limits so high that nothing
        // waits for memory.
        let first = self.network.nodes.len() as u32;
        let mut steps = vec![host::write(first, "net/ipv4/tcp_mem", "4194304 4194304 4194304")];
        for (node, namespace) in self.network.nodes.iter().zip(&self.built.namespaces) {
            match &node.host {
                Some(config) => steps.extend(host::steps(*namespace, &node.name, config)?),
                None => {
                    for (path, text) in [
                        ("net/ipv4/ip_forward", "1"),
                        ("net/ipv4/conf/all/send_redirects", "0"),
                        ("net/ipv4/conf/default/send_redirects", "0"),
                        // A hash of a flow's addresses and ports selects one of several equal routes.
                        ("net/ipv4/fib_multipath_hash_policy", "1"),
                    ] {
                        steps.push(host::write(*namespace, path, text));
                    }
                }
            }
        }
        self.built.steps.extend(steps);
        Ok(())
    }

    /// Adds the device at which a link leaves, and its queue.
    fn link(&mut self, id: LinkId) -> Result<(), Error> {
        let link = &self.network.links[id as usize];
        let name = self.network.link_name(link);
        let device = self.device(id);
        self.netlink(link.from, device, format!("the device of link {name}"));
        if self.has_entry(id) {
            self.netlink(link.from, self.entry(id), format!("the way into link {name}"));
        }
        let index = self.ends[id as usize].index;
        let parent = match (link.rate, link.serialisation) {
            (Some(rate), Serialisation::TokenBucket { burst_bytes }) => {
                let bucket = queues::bucket(index, (rate, burst_bytes, link.overhead_bytes));
                self.netlink(link.from, bucket, format!("the token bucket of link {name}"));
                BELOW_BUCKET
            }
            _ => ROOT,
        };
        let place = Place::of_link(index, parent);
        let Some(added) = self.queue(link, place)? else { return Ok(()) };
        for request in added.requests {
            self.netlink(link.from, request, format!("the queue of link {name}"));
        }
        let is_in_memory = self.memory_of(id).is_some_and(|(_, memory)| memory.sampled);
        if link.sampled || is_in_memory {
            let has_classes = added.told_by.len() > 1;
            for ((place, discipline), part) in added.told_by.into_iter().zip(0..) {
                let part = has_classes.then_some(part);
                self.look(link, (id, part, discipline), place.look(), false);
            }
            if self.has_entry(id) {
                let request = netlink::ask_link(index + ENTRY_ABOVE);
                let only_counts = self.memory_of(id).is_none();
                self.look(link, (id, None, Discipline::Entry), request, only_counts);
            }
        }
        Ok(())
    }

    /// Returns the shared memory of a link's queue, with its number.
    fn memory_of(&self, id: LinkId) -> Option<(u32, &SharedBuffer)> {
        (0..).zip(&self.network.buffers).find(|(_, memory)| memory.links.contains(&id))
    }

    /// Returns whether a link's queue has an entry device before it.
    fn has_entry(&self, id: LinkId) -> bool {
        let link = &self.network.links[id as usize];
        let has_classes = matches!(link.queue, QueueConfig::Classes(_)) && link.rate.is_some();
        link.loss > 0.0 || has_classes || self.memory_of(id).is_some()
    }

    fn look(
        &mut self,
        link: &Link,
        (id, part, discipline): (LinkId, Option<u32>, Discipline),
        request: Message,
        only_counts: bool,
    ) {
        let request = request.into_bytes();
        let namespace = self.built.namespaces[link.from as usize];
        self.built.queue_orders.push(QueueOrder { namespace, only_counts, request });
        let is_reported = link.sampled;
        self.built.queues.push(SampledQueue { link: id, part, discipline, is_reported });
    }

    /// Adds a link's queue. `None` means that nothing waits there.
    fn queue(&self, link: &Link, place: Place) -> Result<Option<Added>, Error> {
        let frame_bytes = self.largest_mtu + ETHERNET_BYTES;
        let paces = self.host(link.from).is_some_and(|host| host.fq);
        let added = match (&link.queue, link.rate) {
            (_, None) if paces => Some(queues::fq(place, Limit::Bytes(u64::MAX), frame_bytes)),
            (_, None) => return Ok(None),
            (QueueConfig::DropTail(tail), _) if paces => {
                Some(queues::fq(place, tail.limit, frame_bytes))
            }
            (_, _) if paces => None,
            (queue, _) => queues::queue(place, queue, frame_bytes),
        };
        let why = || {
            format!(
                "link {}: no discipline of Linux does what its queue does",
                self.network.link_name(link)
            )
        };
        added.map(Some).ok_or_else(|| Error::Refused(why()))
    }

    /// Returns the `RTM_NEWLINK` request for an end of a cable (`kernel/knee_cable.c`).
    fn device(&self, id: LinkId) -> Message {
        let (link, end) = (&self.network.links[id as usize], &self.ends[id as usize]);
        let rate = match link.serialisation {
            // The token bucket above the device limits the rate.
            Serialisation::TokenBucket { .. } => None,
            Serialisation::StoreAndForward => link.rate,
        };
        // Only hosts have captures.
        let is_seen = self.host(link.from).is_some() || self.host(link.to).is_some();
        // If there is a token bucket, it counts the overhead.
        let overhead_bytes = if rate.is_some() { link.overhead_bytes } else { 0 };
        // Number, rate, delay, jitter, link and overhead.
        let mut cable = Attributes::default()
            .with_u32(1, end.cable)
            .with_u64(2, rate.map_or(0, |rate| rate.bps()))
            .with_u64(3, link.delay.ps())
            .with_u64(4, link.jitter.ps())
            .with_u32(5, if is_seen { id + 1 } else { 0 })
            .with_u32(6, overhead_bytes);
        let host = self.host(link.from);
        if let Some((host, coalesce)) = host.and_then(|host| Some((host, host.coalesce?))) {
            let since = match coalesce.since {
                Since::First => 0,
                Since::Last => 1,
                Since::Interrupt => 2,
            };
            // Receive queues, frames, time, whether GRO merges, what the time counts from, and DIM.
            cable = cable
                .with_u32(7, host.receive_queues)
                .with_u32(8, coalesce.frames.unwrap_or(0))
                .with_u64(9, coalesce.time.ns())
                .with_u32(10, host.gro.into())
                .with_u32(11, since)
                .with_u32(12, matches!(coalesce.adaptive, Some(Adaptive::Dim(_))).into());
        }
        self.new_link(id, ('e', end.index), "knee_cable", cable)
    }

    /// Returns the `RTM_NEWLINK` request for the entry device of a link's queue (`kernel/knee_entry.c`).
    fn entry(&self, id: LinkId) -> Message {
        let (link, end) = (&self.network.links[id as usize], &self.ends[id as usize]);
        // The simulator compares the same share with a 32-bit random number.
        let share = (link.loss.clamp(0.0, 1.0) * (1_u64 << 32) as f64).round() as u64;
        // The device below, the loss share, and whether bursts are lost whole.
        let mut entry = Attributes::default()
            .with_u32(1, end.index)
            .with_u64(2, share)
            .with_u32(3, link.loses_bursts.into());
        // The shared memory: number, shared bytes, reserved bytes, and alpha in 1/65536.
        if let Some((number, memory)) = self.memory_of(id) {
            let law = &memory.law;
            entry = entry
                .with_u32(4, number + 1)
                .with_u64(5, law.shared_bytes(memory.links.len()).unwrap_or(0))
                .with_u64(6, law.reserved_bytes)
                .with_u64(7, (law.alpha * 65536.0).round() as u64);
        }
        if let (QueueConfig::Classes(classes), Some(_)) = (&link.queue, link.rate) {
            entry = entry.with(8, &queues::conditions(classes));
        }
        self.new_link(id, ('l', end.index + ENTRY_ABOVE), "knee_entry", entry)
    }

    /// Returns the request for a device where a link leaves: letter of its name, index, kind, and the kind's
    /// attributes.
    fn new_link(
        &self,
        id: LinkId,
        (letter, index): (char, u32),
        kind: &str,
        data: Attributes,
    ) -> Message {
        let (link, end) = (&self.network.links[id as usize], &self.ends[id as usize]);
        let host = self.host(link.from);
        let settings = LinkSettings {
            mtu_bytes: Some(host.map_or(self.largest_mtu, |host| host.mtu_bytes)),
            gso_max_segs: Some(host.map_or(1, |host| host.gso_max_segs)),
            mac: Some(mac(end.cable as usize)),
            up: true,
            ..LinkSettings::default()
        };
        let name = format!("{letter}{}", end.index - FIRST_DEVICE);
        NewLink { index, name: &name, kind, settings, data }.message()
    }

    /// Adds the hosts' addresses, and routes to them from every node.
    fn routes(&mut self) -> Result<(), Error> {
        let hosts = self.built.hosts.clone();
        for (number, node) in hosts.iter().copied().enumerate() {
            let to = host_address(number);
            let own = (0..).zip(&self.network.links).filter(|(_, link)| link.from == node);
            let own: Vec<LinkId> = own.map(|(id, _)| id).collect();
            let [own] = own[..] else {
                return Err(Error::Refused(format!(
                    "{} has {} links: hosts of a guest have one",
                    self.network.nodes[node as usize].name,
                    own.len()
                )));
            };
            let request = add_address(self.ends[own as usize].index, to.into(), 32, false);
            self.netlink(node, request, format!("address {to}"));
            let route = self.route(node, None, &[own]);
            self.netlink(node, route, "a host's route".to_owned());
        }
        for (number, to) in hosts.into_iter().enumerate() {
            let next = next_links(self.network, to);
            for (from, links) in (0..).zip(next) {
                if self.host(from).is_some() || links.is_empty() {
                    continue;
                }
                let address = host_address(number);
                let route = self.route(from, Some(address), &links);
                self.netlink(from, route, format!("a route to {address}"));
            }
        }
        Ok(())
    }

    /// Returns a route over one or several links, to one address or to all.
    fn route(&self, from: NodeId, to: Option<Ipv4Addr>, links: &[LinkId]) -> Message {
        let device = |link: &LinkId| {
            let above = if self.has_entry(*link) { ENTRY_ABOVE } else { 0 };
            self.ends[*link as usize].index + above
        };
        let devices: Vec<u32> = links.iter().map(device).collect();
        let config = self.host(from);
        let (initcwnd_pkts, rto_min_ms) = config.map_or((None, None), host::metrics);
        let own = self.built.namespaces[from as usize] as usize;
        let route = Route {
            to: to.unwrap_or(Ipv4Addr::UNSPECIFIED).into(),
            prefix_len: if to.is_some() { 32 } else { 0 },
            from: config.map(|_| host_address(own).into()),
            initcwnd_pkts,
            rto_min_ms,
        };
        add_route(&devices, &route)
    }
}

/// Returns the address of a host, by its number.
pub(super) fn host_address(number: usize) -> Ipv4Addr {
    match address(number, false) {
        IpAddr::V4(address) => address,
        // The address was requested as IPv4.
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

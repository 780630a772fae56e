//! Devices, addresses, routes and neighbours.

use std::io;
use std::net::IpAddr;

use super::{
    Attributes, Message, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, Netlink, attributes, long, word,
};

// From the kernel's user API: rtnetlink.h, if_link.h, if_addr.h, neighbour.h, veth.h and if.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_PID: u16 = 19;
const IFLA_STATS64: u16 = 23;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFF_UP: u32 = 1;
const IFF_NOARP: u32 = 1 << 7;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTAX_LOCK: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Fixed part of messages about devices, `struct ifinfomsg`.
const IFINFOMSG_BYTES: usize = 16;

/// `struct ifinfomsg`: family, type, index, flags, and which of them.
fn ifinfomsg(index: u32, set: u32, of: u32) -> Vec<u8> {
    [0, index, set, of].iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Changes of a device; `None` and `false` leave a property as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkSettings {
    /// Largest packet, bytes.
    pub mtu_bytes: Option<u32>,
    /// Length of its plain queue, packets.
    pub tx_queue_pkts: Option<u32>,
    /// Segments in a packet that is handed to it, at most.
    pub gso_max_segs: Option<u32>,
    /// MAC address.
    pub mac: Option<[u8; 6]>,
    /// No ARP or neighbour discovery (`IFF_NOARP`): neighbours are static.
    pub no_arp: bool,
    /// Brings the device up.
    pub up: bool,
}

impl LinkSettings {
    fn attributes(&self) -> Attributes {
        let all = Attributes::default()
            .with_some_u32(IFLA_MTU, self.mtu_bytes)
            .with_some_u32(IFLA_TXQLEN, self.tx_queue_pkts)
            .with_some_u32(IFLA_GSO_MAX_SEGS, self.gso_max_segs);
        match self.mac {
            Some(mac) => all.with(IFLA_ADDRESS, &mac),
            None => all,
        }
    }

    fn flags(&self) -> u32 {
        [(self.up, IFF_UP), (self.no_arp, IFF_NOARP)]
            .iter()
            .filter_map(|(on, flag)| on.then_some(flag))
            .sum()
    }
}

/// Changes a device.
pub fn set_link(index: u32, settings: &LinkSettings) -> Message {
    let flags = settings.flags();
    Message::new(RTM_NEWLINK, 0, &ifinfomsg(index, flags, flags), &settings.attributes())
}

/// A device to create.
#[derive(Clone, Debug)]
pub struct NewLink<'a> {
    /// The number that it gets; 0: one that the kernel chooses.
    pub index: u32,
    pub name: &'a str,
    /// Kind of device, such as `ifb`.
    pub kind: &'a str,
    /// Whatever else is set from the start.
    pub settings: LinkSettings,
    /// Attributes of its kind (`IFLA_INFO_DATA`).
    pub data: Attributes,
}

impl NewLink<'_> {
    /// The message that creates the device.
    pub fn message(&self) -> Message {
        let named = Attributes::default().with_name(IFLA_IFNAME, self.name);
        self.with(&named.with_all(&self.settings.attributes()))
    }

    fn with(&self, attributes: &Attributes) -> Message {
        let info = Attributes::default()
            .with_name(IFLA_INFO_KIND, self.kind)
            .with_nested(IFLA_INFO_DATA, &self.data);
        let attributes = attributes.clone().with_nested(IFLA_LINKINFO, &info);
        let flags = self.settings.flags();
        let fixed = ifinfomsg(self.index, flags, flags);
        Message::new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &fixed, &attributes)
    }
}

/// Asks for what a device has counted.
pub fn ask_link(index: u32) -> Message {
    Message::new(RTM_GETLINK, 0, &ifinfomsg(index, 0, 0), &Attributes::default())
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct VethEnd<'a> {
    pub name: &'a str,
    /// A process or thread whose namespace it is put in; `None`: that of the socket.
    pub namespace_of: Option<i32>,
    /// Whatever else is set from the start; flags are for later.
    pub settings: LinkSettings,
}

impl VethEnd<'_> {
    fn attributes(&self) -> Attributes {
        let namespace = self.namespace_of.map(|tid| tid as u32);
        Attributes::default()
            .with_name(IFLA_IFNAME, self.name)
            .with_some_u32(IFLA_NET_NS_PID, namespace)
            // One queue each way: frames keep their order.
            .with_u32(IFLA_NUM_TX_QUEUES, 1)
            .with_u32(IFLA_NUM_RX_QUEUES, 1)
            .with_all(&self.settings.attributes())
    }
}

/// Makes a pair of devices; what is sent into one comes out of the other.
pub fn new_veth(one: &VethEnd<'_>, other: &VethEnd<'_>) -> Message {
    let peer = [ifinfomsg(0, 0, 0), other.attributes().into_bytes()].concat();
    let data = Attributes::default().with(VETH_INFO_PEER, &peer);
    // Flags are for later.
    let settings = LinkSettings::default();
    NewLink { index: 0, name: one.name, kind: "veth", settings, data }.with(&one.attributes())
}

fn family_and_bytes(ip: IpAddr) -> (u8, Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    }
}

/// Gives a device an address, without looking for others that have it; with a route to its subnet, or without.
pub fn add_address(index: u32, ip: IpAddr, prefix_len: u8, with_route: bool) -> Message {
    let (family, bytes) = family_and_bytes(ip);
    // struct ifaddrmsg: family, length of the prefix, flags, scope, index.
    let mut fixed = vec![family, prefix_len, 0, 0];
    fixed.extend(index.to_ne_bytes());
    let without_route = if with_route { 0 } else { IFA_F_NOPREFIXROUTE };
    let attributes = Attributes::default()
        .with(IFA_LOCAL, &bytes)
        .with(IFA_ADDRESS, &bytes)
        .with_u32(IFA_FLAGS, IFA_F_NODAD | without_route);
    Message::new(RTM_NEWADDR, NLM_F_CREATE, &fixed, &attributes)
}

/// A route to what is at the other end of devices.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Any address in the subnet.
    pub to: IpAddr,
    /// Length of the subnet's prefix.
    pub prefix_len: u8,
    /// Source address of what takes it; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// Initial window of its connections, packets.
    pub initcwnd_pkts: Option<u32>,
    /// Least retransmission timeout of its connections, ms.
    pub rto_min_ms: Option<u32>,
}

/// Adds a route through a device, or through several equal ones.
pub fn add_route(devices: &[u32], route: &Route) -> Message {
    let (family, mut to) = family_and_bytes(route.to);
    mask(&mut to, route.prefix_len);
    let scope = if family == AF_INET { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
    // struct rtmsg: family, prefix lengths of both ends, tos, table, who made it, scope, type, flags.
    let mut fixed =
        vec![family, route.prefix_len, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST];
    fixed.extend([0; 4]);
    let mut attributes = Attributes::default().with(RTA_DST, &to);
    attributes = match devices {
        [one] => attributes.with_u32(RTA_OIF, *one),
        several => attributes.with(RTA_MULTIPATH, &next_hops(several)),
    };
    if let Some(from) = route.from {
        attributes = attributes.with(RTA_PREFSRC, &family_and_bytes(from).1);
    }
    // TCP looks at this timeout only where it is locked.
    let locked = route.rto_min_ms.map(|_| 1 << RTAX_RTO_MIN);
    let metrics = Attributes::default()
        .with_some_u32(RTAX_LOCK, locked)
        .with_some_u32(RTAX_INITCWND, route.initcwnd_pkts)
        .with_some_u32(RTAX_RTO_MIN, route.rto_min_ms);
    if !metrics.is_empty() {
        attributes = attributes.with_nested(RTA_METRICS, &metrics);
    }
    Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &fixed, &attributes)
}

/// `struct rtnexthop` of each: length, flags, weight less 1, index.
fn next_hops(devices: &[u32]) -> Vec<u8> {
    let hop = |device: &u32| [&8_u16.to_ne_bytes()[..], &[0, 0], &device.to_ne_bytes()].concat();
    devices.iter().flat_map(hop).collect()
}

/// Clears the bits behind a prefix: the kernel takes no others.
fn mask(address: &mut [u8], prefix_len: u8) {
    for (byte, first_bit) in address.iter_mut().zip((0_u8..).step_by(8)) {
        let kept_bits = u32::from(prefix_len.saturating_sub(first_bit).min(8));
        *byte &= !(0xff_u32 >> kept_bits) as u8;
    }
}

/// Tells a device who has an address, for good.
pub fn add_neighbour(index: u32, ip: IpAddr, mac: [u8; 6]) -> Message {
    let (family, bytes) = family_and_bytes(ip);
    // struct ndmsg: family and padding, index, state, flags and type.
    let mut fixed = vec![family, 0, 0, 0];
    fixed.extend(index.to_ne_bytes());
    fixed.extend(NUD_PERMANENT.to_ne_bytes());
    fixed.extend([0; 2]);
    let attributes = Attributes::default().with(NDA_DST, &bytes).with(NDA_LLADDR, &mac);
    Message::new(RTM_NEWNEIGH, NLM_F_CREATE, &fixed, &attributes)
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub rx_pkts: u64,
    pub tx_pkts: u64,
    /// Received packets that were dropped before any protocol saw them.
    pub rx_dropped_pkts: u64,
    /// Packets that could not be sent.
    pub tx_dropped_pkts: u64,
    /// Packets that it had no room for.
    pub tx_fifo_errors: u64,
}

impl LinkStats {
    /// Reads them from the body of `RTM_NEWLINK`; `None`: it is incomplete.
    pub fn read(body: &[u8]) -> Option<LinkStats> {
        let mut found = attributes(body.get(IFINFOMSG_BYTES..)?);
        let (_, value) = found.find(|(kind, _)| *kind == IFLA_STATS64)?;
        // struct rtnl_link_stats64: packets, bytes, errors, dropped, each received first; further errors, of sending's that of the
        // fifo is the 19th.
        let at = |place: usize| long(value, place * 8);
        Some(LinkStats {
            rx_pkts: at(0)?,
            tx_pkts: at(1)?,
            rx_dropped_pkts: at(6)?,
            tx_dropped_pkts: at(7)?,
            tx_fifo_errors: at(18)?,
        })
    }
}

impl Netlink {
    /// The figures of all devices of the namespace, by their numbers.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn link_stats(&self) -> io::Result<Vec<(u32, LinkStats)>> {
        let all = ifinfomsg(0, 0, 0);
        let all = Message::new(RTM_GETLINK, NLM_F_DUMP, &all, &Attributes::default());
        let stats =
            |answer: &super::Answer| Some((word(&answer.body, 4)?, LinkStats::read(&answer.body)?));
        Ok(self.list(&all)?.iter().filter_map(stats).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_prefix_is_cleared() {
        let masked = |prefix_len| {
            let mut address = [198, 18, 255, 255];
            mask(&mut address, prefix_len);
            address
        };
        assert_eq!(masked(16), [198, 18, 0, 0]);
        assert_eq!(masked(19), [198, 18, 0b1110_0000, 0]);
        assert_eq!(masked(32), [198, 18, 255, 255]);
        assert_eq!(masked(0), [0; 4]);
    }
}

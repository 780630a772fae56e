//! Devices, addresses, routes and neighbours.

use std::io;
use std::net::IpAddr;

use super::{Message, NLM_F_CREATE, NLM_F_EXCL, Netlink, attributes, long, word};

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
const RTAX_LOCK: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Fixed part of messages about devices, `struct ifinfomsg`.
const IFINFOMSG_BYTES: usize = 16;

/// `struct ifinfomsg`: family, type, index, flags, and which of them.
fn link_message(kind: u16, flags: u16, index: u32, set: u32, of: u32) -> Message {
    let mut message = Message::new(kind, flags, &[0; 4]);
    for number in [index, set, of] {
        message.bytes.extend(number.to_ne_bytes());
    }
    message
}

/// What is set at a device; what is `None` or `false` is left as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkSettings {
    /// Largest packet, bytes.
    pub mtu_bytes: Option<u32>,
    /// Length of its plain queue, packets.
    pub tx_queue_pkts: Option<u32>,
    /// Segments in a packet that is handed to it, at most.
    pub gso_max_segs: Option<u32>,
    /// Its MAC address.
    pub mac: Option<[u8; 6]>,
    /// It never asks who has an address and never answers: every neighbour is told to it.
    pub no_arp: bool,
    /// It is switched on.
    pub up: bool,
}

impl LinkSettings {
    fn put(&self, message: &mut Message) {
        let numbers = [
            (IFLA_MTU, self.mtu_bytes),
            (IFLA_TXQLEN, self.tx_queue_pkts),
            (IFLA_GSO_MAX_SEGS, self.gso_max_segs),
        ];
        for (kind, value) in numbers {
            if let Some(value) = value {
                message.put_u32(kind, value);
            }
        }
        if let Some(mac) = self.mac {
            message.put(IFLA_ADDRESS, &mac);
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
    let mut message = link_message(RTM_NEWLINK, 0, index, flags, flags);
    settings.put(&mut message);
    message
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// A process or thread whose namespace it is put in; `None`: that of the socket.
    pub namespace_of: Option<i32>,
    /// Whatever else is set from the start; flags are for later.
    pub settings: LinkSettings,
}

impl VethEnd<'_> {
    fn put(&self, message: &mut Message) {
        message.put_name(IFLA_IFNAME, self.name);
        if let Some(tid) = self.namespace_of {
            message.put_u32(IFLA_NET_NS_PID, tid as u32);
        }
        // One queue each way: frames keep their order.
        message.put_u32(IFLA_NUM_TX_QUEUES, 1);
        message.put_u32(IFLA_NUM_RX_QUEUES, 1);
        self.settings.put(message);
    }
}

/// Makes a pair of devices; what is sent into one comes out of the other.
pub fn new_veth(one: &VethEnd<'_>, other: &VethEnd<'_>) -> Message {
    let mut message = link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0, 0, 0);
    one.put(&mut message);
    message.nest(IFLA_LINKINFO, |message| {
        message.put_name(IFLA_INFO_KIND, "veth");
        message.nest(IFLA_INFO_DATA, |message| {
            message.nest(VETH_INFO_PEER, |message| {
                message.bytes.extend([0; IFINFOMSG_BYTES]);
                other.put(message);
            });
        });
    });
    message
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
    let mut message = Message::new(RTM_NEWADDR, NLM_F_CREATE, &[family, prefix_len, 0, 0]);
    message.bytes.extend(index.to_ne_bytes());
    message.put(IFA_LOCAL, &bytes);
    message.put(IFA_ADDRESS, &bytes);
    let without_route = if with_route { 0 } else { IFA_F_NOPREFIXROUTE };
    message.put_u32(IFA_FLAGS, IFA_F_NODAD | without_route);
    message
}

/// A route to what is at the other end of a device.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Any address in the subnet.
    pub to: IpAddr,
    /// Length of the subnet's prefix.
    pub prefix_len: u8,
    /// Source address of what takes it.
    pub from: IpAddr,
    /// Initial window of its connections, packets.
    pub initcwnd_pkts: Option<u32>,
    /// Least retransmission timeout of its connections, ms.
    pub rto_min_ms: Option<u32>,
}

/// Adds a route through a device.
pub fn add_route(index: u32, route: &Route) -> Message {
    let (family, mut to) = family_and_bytes(route.to);
    mask(&mut to, route.prefix_len);
    let scope = if family == AF_INET { RT_SCOPE_LINK } else { RT_SCOPE_UNIVERSE };
    // struct rtmsg: family, prefix lengths of both ends, tos, table, who made it, scope, type, flags.
    let fixed = [family, route.prefix_len, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST];
    let mut message = Message::new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &fixed);
    message.bytes.extend([0; 4]);
    message.put(RTA_DST, &to);
    message.put(RTA_PREFSRC, &family_and_bytes(route.from).1);
    message.put_u32(RTA_OIF, index);
    message.nest(RTA_METRICS, |message| {
        // TCP looks at this timeout only where it is locked.
        let locked = route.rto_min_ms.map(|_| 1 << RTAX_RTO_MIN);
        let metrics = [
            (RTAX_LOCK, locked),
            (RTAX_INITCWND, route.initcwnd_pkts),
            (RTAX_RTO_MIN, route.rto_min_ms),
        ];
        for (kind, value) in metrics {
            if let Some(value) = value {
                message.put_u32(kind, value);
            }
        }
    });
    message
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
    let mut message = Message::new(RTM_NEWNEIGH, NLM_F_CREATE, &[family, 0, 0, 0]);
    message.bytes.extend(index.to_ne_bytes());
    message.bytes.extend(NUD_PERMANENT.to_ne_bytes());
    message.bytes.extend([0; 2]);
    message.put(NDA_DST, &bytes);
    message.put(NDA_LLADDR, &mac);
    message
}

/// What a device has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets received.
    pub rx_pkts: u64,
    /// Packets sent.
    pub tx_pkts: u64,
    /// Received packets that were dropped before any protocol saw them.
    pub rx_dropped_pkts: u64,
    /// Packets that could not be sent.
    pub tx_dropped_pkts: u64,
}

impl Netlink {
    /// The figures of all devices of the namespace, by their numbers.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn link_stats(&self) -> io::Result<Vec<(u32, LinkStats)>> {
        let answers = self.list(&link_message(RTM_GETLINK, super::NLM_F_DUMP, 0, 0, 0))?;
        let stats = |answer: &super::Answer| {
            let index = word(&answer.body, 4)?;
            let mut found = attributes(answer.body.get(IFINFOMSG_BYTES..)?);
            let (_, value) = found.find(|(kind, _)| *kind == IFLA_STATS64)?;
            // struct rtnl_link_stats64: packets, bytes, errors, dropped; each received first.
            let at = |place: usize| long(value, place * 8);
            let stats = LinkStats {
                rx_pkts: at(0)?,
                tx_pkts: at(1)?,
                rx_dropped_pkts: at(6)?,
                tx_dropped_pkts: at(7)?,
            };
            Some((index, stats))
        };
        Ok(answers.iter().filter_map(stats).collect())
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

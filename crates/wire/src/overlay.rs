//! Packets within packets: tunnels, mirrors and labels, unwrapped down to the IP packet that holds no other.
//!
//! Every step reads a header of known size and goes on behind it. Steps are bounded, so that no packet can be nested without end.

use std::fmt;

/// Steps from the link layer down, at most: VLAN tags, labels and headers each take one.
const MOST_STEPS: usize = 24;
/// Extension headers of an IPv6 header, at most.
const MOST_EXTENSIONS: usize = 8;

/// Kinds of EtherTypes (IEEE 802).
mod ether {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    pub(super) const MPLS: [u16; 2] = [0x8847, 0x8848];
    pub(super) const PPPOE: u16 = 0x8864;
    /// A whole Ethernet frame (RFC 1701 calls it transparent Ethernet bridging).
    pub(super) const FRAME: u16 = 0x6558;
    /// PPP in GRE (RFC 2637).
    pub(super) const PPP: u16 = 0x880b;
    pub(super) const ERSPAN: u16 = 0x88be;
    pub(super) const ERSPAN3: u16 = 0x22eb;
}

/// Protocols of PPP that carry IP or labels (RFC 1661).
mod ppp {
    pub(super) const IPV4: u16 = 0x0021;
    pub(super) const IPV6: u16 = 0x0057;
    pub(super) const MPLS: u16 = 0x0281;
}

/// UDP ports of tunnels.
mod port {
    pub(super) const VXLAN: u16 = 4789;
    /// Linux used this one before IANA assigned the other.
    pub(super) const VXLAN_LINUX: u16 = 8472;
    pub(super) const VXLAN_GPE: u16 = 4790;
    pub(super) const GENEVE: u16 = 6081;
    pub(super) const GTP_U: u16 = 2152;
    pub(super) const MPLS: u16 = 6635;
}

/// What a packet was wrapped in, beside VLAN tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layers {
    kinds: u16,
    /// Number of the mirror (ERSPAN): each is a place of its own.
    mirror: u16,
}

/// Kinds of layers, the outermost first where several are usual.
const KINDS: [(u16, &str); 9] = [
    (Layers::PPPOE, "PPPoE"),
    (Layers::MPLS, "MPLS"),
    (Layers::IP_IN_IP, "IP-in-IP"),
    (Layers::GRE, "GRE"),
    (Layers::ERSPAN, "ERSPAN"),
    (Layers::VXLAN, "VXLAN"),
    (Layers::GENEVE, "Geneve"),
    (Layers::GTP_U, "GTP-U"),
    (Layers::PPP, "PPP"),
];

impl Layers {
    const PPPOE: u16 = 1;
    const MPLS: u16 = 2;
    const IP_IN_IP: u16 = 4;
    const GRE: u16 = 8;
    const ERSPAN: u16 = 16;
    const VXLAN: u16 = 32;
    const GENEVE: u16 = 64;
    const PPP: u16 = 128;
    const GTP_U: u16 = 256;

    /// Whether the packet was wrapped in nothing.
    pub fn is_empty(self) -> bool {
        self.kinds == 0
    }

    fn add(&mut self, kind: u16) {
        self.kinds |= kind;
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A mirror and PPP over Ethernet name what carries them.
        let implied = match self.kinds {
            kinds if kinds & Layers::ERSPAN != 0 => Layers::GRE,
            kinds if kinds & Layers::PPPOE != 0 => Layers::PPP,
            _ => 0,
        };
        let names = KINDS.iter().filter(|(kind, _)| self.kinds & !implied & kind != 0);
        for (at, (kind, name)) in names.enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            f.write_str(name)?;
            if *kind == Layers::ERSPAN && self.mirror != 0 {
                write!(f, " {}", self.mirror)?;
            }
        }
        Ok(())
    }
}

/// What begins at a place of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// An Ethernet header.
    Ethernet,
    /// What an EtherType says.
    Kind(u16),
    Ip,
    /// A PPP header, with or without address and control.
    Ppp,
    /// A PPPoE header.
    PppOe,
    Mpls,
    Gre,
    Udp,
    Nothing,
}

/// A packet on the way down.
struct Walk<'a> {
    data: &'a [u8],
    at: usize,
    layers: Layers,
    /// The IP header that was found last, and what it was wrapped in.
    ip: Option<(usize, Layers)>,
}

/// Where the innermost IP packet begins, and what it is wrapped in. Where something inside is not known, the packet around it counts.
pub(crate) fn innermost(data: &[u8], at: usize, next: Next) -> Option<(usize, Layers)> {
    let mut walk = Walk { data, at, layers: Layers::default(), ip: None };
    let mut next = next;
    for _ in 0..MOST_STEPS {
        match walk.step(next) {
            Some(Next::Nothing) | None => break,
            Some(inner) => next = inner,
        }
    }
    walk.ip
}

impl Walk<'_> {
    fn u8(&self, ahead: usize) -> Option<u8> {
        self.data.get(self.at.checked_add(ahead)?).copied()
    }

    fn u16(&self, ahead: usize) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8(ahead)?, self.u8(ahead + 1)?]))
    }

    /// Goes on behind a header of so many bytes.
    fn behind(&mut self, bytes: usize, next: Next) -> Option<Next> {
        self.at = self.at.checked_add(bytes)?;
        Some(next)
    }

    fn step(&mut self, what: Next) -> Option<Next> {
        match what {
            Next::Ethernet => {
                let kind = self.u16(12)?;
                self.behind(14, Next::Kind(kind))
            }
            Next::Kind(kind) => self.kind(kind),
            Next::Ip => self.ip(),
            Next::Ppp => self.ppp(),
            Next::PppOe => {
                self.layers.add(Layers::PPPOE);
                self.behind(6, Next::Ppp)
            }
            Next::Mpls => self.mpls(),
            Next::Gre => self.gre(),
            Next::Udp => self.udp(),
            Next::Nothing => None,
        }
    }

    fn kind(&mut self, kind: u16) -> Option<Next> {
        match kind {
            ether::IPV4 | ether::IPV6 => Some(Next::Ip),
            ether::PPPOE => Some(Next::PppOe),
            ether::FRAME => Some(Next::Ethernet),
            ether::PPP => Some(Next::Ppp),
            kind if ether::MPLS.contains(&kind) => Some(Next::Mpls),
            kind if ether::VLANS.contains(&kind) => {
                let inner = self.u16(2)?;
                self.behind(4, Next::Kind(inner))
            }
            _ => None,
        }
    }

    fn ip(&mut self) -> Option<Next> {
        self.ip = Some((self.at, self.layers));
        let (protocol, bytes) = match self.u8(0)? >> 4 {
            4 => {
                let bytes = usize::from(self.u8(0)? & 0xf) * 4;
                let is_later = self.u16(6)? & 0x1fff != 0;
                (self.u8(9).filter(|_| !is_later && bytes >= 20)?, bytes)
            }
            6 => self.behind_extensions()?,
            _ => return None,
        };
        match protocol {
            4 | 41 => {
                self.layers.add(Layers::IP_IN_IP);
                self.behind(bytes, Next::Ip)
            }
            17 => self.behind(bytes, Next::Udp),
            47 => self.behind(bytes, Next::Gre),
            137 => self.behind(bytes, Next::Mpls),
            _ => None,
        }
    }

    /// The protocol in an IPv6 packet, and where it begins.
    fn behind_extensions(&self) -> Option<(u8, usize)> {
        let (mut protocol, mut bytes) = (self.u8(6)?, 40);
        for _ in 0..MOST_EXTENSIONS {
            let len = match protocol {
                // Hop by hop, routing, destination.
                0 | 43 | 60 => usize::from(self.u8(bytes + 1)?) * 8 + 8,
                // The first fragment alone has what follows.
                44 if self.u16(bytes + 2)? >> 3 == 0 => 8,
                _ => break,
            };
            protocol = self.u8(bytes)?;
            bytes += len;
        }
        Some((protocol, bytes))
    }

    fn ppp(&mut self) -> Option<Next> {
        self.layers.add(Layers::PPP);
        // Address and control may be left out, and so may the first byte of a protocol below 256.
        if self.u16(0)? == 0xff03 {
            self.at = self.at.checked_add(2)?;
        }
        let is_short = self.u8(0)? & 1 != 0;
        let (protocol, bytes) = if is_short { (self.u8(0)?.into(), 1) } else { (self.u16(0)?, 2) };
        match protocol {
            ppp::IPV4 | ppp::IPV6 => self.behind(bytes, Next::Ip),
            ppp::MPLS => self.behind(bytes, Next::Mpls),
            _ => None,
        }
    }

    /// One label; behind the last the first half byte says what follows.
    fn mpls(&mut self) -> Option<Next> {
        self.layers.add(Layers::MPLS);
        let is_last = self.u8(2)? & 1 != 0;
        if !is_last {
            return self.behind(4, Next::Mpls);
        }
        self.behind(4, Next::Nothing)?;
        match self.u8(0)? >> 4 {
            4 | 6 => Some(Next::Ip),
            // A control word before an Ethernet frame (RFC 4448), or the frame alone.
            0 if self.u16(0)? == 0 => self.behind(4, Next::Ethernet),
            _ => Some(Next::Ethernet),
        }
    }

    fn gre(&mut self) -> Option<Next> {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        const ACKNOWLEDGEMENT: u16 = 0x0080;
        self.layers.add(Layers::GRE);
        let (flags, kind) = (self.u16(0)?, self.u16(2)?);
        if flags & ROUTING != 0 {
            return None;
        }
        let is_pptp = flags & 7 == 1;
        let words = [CHECKSUM, KEY, SEQUENCE, if is_pptp { ACKNOWLEDGEMENT } else { 0 }];
        let bytes = 4 + 4 * words.iter().filter(|flag| flags & **flag != 0).count();
        let has_sequence = flags & SEQUENCE != 0;
        self.behind(bytes, Next::Nothing)?;
        match kind {
            ether::ERSPAN | ether::ERSPAN3 => self.layers.add(Layers::ERSPAN),
            _ => return Some(Next::Kind(kind)),
        }
        // The first version has no header of its own, and no sequence number.
        if kind == ether::ERSPAN && !has_sequence {
            return Some(Next::Ethernet);
        }
        self.layers.mirror = self.u16(2)? & 0x3ff;
        if kind == ether::ERSPAN {
            return self.behind(8, Next::Ethernet);
        }
        let last = self.u16(10)?;
        let (holds_ip, has_more) = (last >> 10 & 0x1f == 2, last & 1 != 0);
        let next = if holds_ip { Next::Ip } else { Next::Ethernet };
        self.behind(if has_more { 20 } else { 12 }, next)
    }

    fn udp(&mut self) -> Option<Next> {
        let to = self.u16(2)?;
        self.behind(8, Next::Nothing)?;
        match to {
            port::VXLAN | port::VXLAN_LINUX | port::VXLAN_GPE => {
                let flags = self.u8(0)?;
                // Without a valid network identifier it is something else.
                if flags & 0x08 == 0 {
                    return None;
                }
                self.layers.add(Layers::VXLAN);
                let inner = match (to == port::VXLAN_GPE && flags & 0x04 != 0, self.u8(3)?) {
                    (true, 1 | 2) => Next::Ip,
                    (true, 3) | (false, _) => Next::Ethernet,
                    _ => return None,
                };
                self.behind(8, inner)
            }
            port::GENEVE if self.u8(0)? >> 6 == 0 => {
                self.layers.add(Layers::GENEVE);
                let (options, kind) = (usize::from(self.u8(0)? & 0x3f) * 4, self.u16(2)?);
                self.behind(8 + options, Next::Kind(kind))
            }
            port::GTP_U => self.gtp_u(),
            port::MPLS => Some(Next::Mpls),
            _ => None,
        }
    }

    /// A user's packet in a mobile network (3GPP TS 29.281, section 5).
    fn gtp_u(&mut self) -> Option<Next> {
        const VERSION_AND_PROTOCOL: u8 = 0xf0;
        const VERSION_1: u8 = 0x30;
        const OPTIONAL: u8 = 0x07;
        const EXTENDED: u8 = 0x04;
        const USERS_PACKET: u8 = 255;
        let (flags, message) = (self.u8(0)?, self.u8(1)?);
        if flags & VERSION_AND_PROTOCOL != VERSION_1 || message != USERS_PACKET {
            return None;
        }
        self.layers.add(Layers::GTP_U);
        // One flag is enough for all three optional fields to be there.
        let has_more = flags & OPTIONAL != 0;
        let mut extension = if flags & EXTENDED != 0 { self.u8(11)? } else { 0 };
        self.behind(if has_more { 12 } else { 8 }, Next::Nothing)?;
        for _ in 0..MOST_EXTENSIONS {
            if extension == 0 {
                break;
            }
            // In words of four bytes; the last byte says what follows.
            let bytes = usize::from(self.u8(0)?) * 4;
            extension = self.u8(bytes.checked_sub(1)?)?;
            self.behind(bytes, Next::Nothing)?;
        }
        // It may be an Ethernet frame or something else, too, which only the tunnel's ends know.
        matches!(self.u8(0)? >> 4, 4 | 6).then_some(Next::Ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: usize = 14;

    /// An IPv4 header of 20 bytes with this protocol.
    fn ipv4(protocol: u8) -> Vec<u8> {
        let mut header = vec![0; 20];
        (header[0], header[9]) = (0x45, protocol);
        header
    }

    fn ethernet(kind: u16) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes()].concat()
    }

    fn udp(to: u16) -> Vec<u8> {
        [&[0, 9][..], &to.to_be_bytes(), &[0; 4]].concat()
    }

    /// What these headers, one behind the other, and a packet of TCP behind them are read as.
    fn read(headers: &[Vec<u8>]) -> (bool, String) {
        let outer = headers.concat();
        let data = [&outer[..], &ipv4(6), &[0; 20]].concat();
        let (at, layers) = innermost(&data, 0, Next::Ethernet).unwrap();
        (at == outer.len(), layers.to_string())
    }

    #[test]
    fn the_inner_packet_is_found_in_every_wrapping() {
        let ip = |protocol| [ethernet(0x0800), ipv4(protocol)].concat();
        let is = |headers: &[Vec<u8>], name: &str| {
            assert_eq!(read(headers), (true, name.to_owned()));
        };
        is(&[ethernet(0x0800)], "");
        is(&[ethernet(0x88a8), vec![0, 1, 0x81, 0], vec![0, 2, 8, 0]], "");
        is(&[ethernet(0x8847), vec![0, 0, 0, 9], vec![0, 1, 1, 9]], "MPLS");
        is(&[ethernet(0x8847), vec![0, 1, 1, 9], vec![0; 4], ethernet(0x0800)], "MPLS");
        is(&[ethernet(0x8864), vec![0x11, 0, 0, 1, 0, 60, 0, 0x21]], "PPPoE");
        is(&[ip(4)], "IP-in-IP");
        is(&[ip(47), vec![0, 0, 8, 0]], "GRE");
        is(&[ip(47), vec![0xb0, 0, 8, 0], vec![1; 12]], "GRE");
        is(&[ip(47), vec![0x20, 0, 0x65, 0x58, 0, 0, 0, 1], ethernet(0x0800)], "GRE");
        is(&[ip(47), vec![0, 0, 0x88, 0xbe], ethernet(0x0800)], "ERSPAN");
        let second = vec![0x10, 1, 0, 7, 0, 0, 0, 0];
        is(&[ip(47), vec![0x10, 0, 0x88, 0xbe, 0, 0, 0, 1], second, ethernet(0x0800)], "ERSPAN 7");
        for (last, more) in [(0, 0), (1, 8)] {
            let third = vec![0x20, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, last];
            let headers = [
                ip(47),
                vec![0x10, 0, 0x22, 0xeb, 0, 0, 0, 1],
                third,
                vec![0; more],
                ethernet(0x0800),
            ];
            is(&headers, "ERSPAN 9");
        }
        for to in [4789, 8472] {
            is(&[ip(17), udp(to), vec![8, 0, 0, 0, 0, 0, 1, 0], ethernet(0x0800)], "VXLAN");
        }
        let geneve = vec![2, 0, 0x65, 0x58, 0, 0, 1, 0];
        is(&[ip(17), udp(6081), geneve, vec![0; 8], ethernet(0x0800)], "Geneve");
        for header in [
            vec![0x30, 255, 0, 40, 0, 0, 0, 1],
            vec![0x32, 255, 0, 44, 0, 0, 0, 1, 0, 9, 0, 0],
            // One extension header (of 5G), and another of two words.
            vec![0x34, 255, 0, 48, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0],
            vec![
                0x34, 255, 0, 56, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0xc0, 2, 0, 0, 0, 0, 0, 0, 0,
            ],
        ] {
            is(&[ip(17), udp(2152), header], "GTP-U");
        }
        let pptp = vec![0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1];
        is(&[ip(47), pptp, vec![0xff, 3, 0, 0x21]], "GRE, PPP");
        let mut ipv6 = vec![0; 40];
        (ipv6[0], ipv6[6]) = (0x60, 0);
        is(&[ethernet(0x86dd), ipv6, vec![47, 0, 0, 0, 0, 0, 0, 0], vec![0, 0, 8, 0]], "GRE");
        // A mirror of a tunnel.
        let mirror = [ip(47), vec![0, 0, 0x88, 0xbe], ip(17), udp(4789)].concat();
        is(&[mirror, vec![8, 0, 0, 0, 0, 0, 1, 0], ethernet(0x0800)], "ERSPAN, VXLAN");
    }

    #[test]
    fn what_is_no_tunnel_is_the_packet_itself() {
        let ip = [ethernet(0x0800), ipv4(17)].concat();
        let (is_inner, layers) = read(&[ip.clone(), udp(53)]);
        assert_eq!((is_inner, layers.as_str()), (false, ""));
        // An echo of a tunnel's end, the older protocol on its port, and an extension without a length.
        for header in [
            vec![0x32, 1, 0, 4, 0, 0, 0, 0, 0, 9, 0, 0],
            vec![0x1e, 255, 0, 40, 0, 0, 0, 1],
            vec![0x34, 255, 0, 48, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 9, 0],
        ] {
            assert!(!read(&[ip.clone(), udp(2152), header]).0);
        }
        // No network identifier.
        assert!(!read(&[ip, udp(4789), vec![0; 8], ethernet(0x0800)]).0);
        assert_eq!(innermost(&ethernet(0x0806), 0, Next::Ethernet), None);
    }

    #[test]
    fn any_bytes_end_soon() {
        // Labels, packets in packets and tags that never end; and all of these cut anywhere.
        let labels = [ethernet(0x8847), vec![0; 4000]].concat();
        let nested = [ethernet(0x0800), ipv4(4).repeat(200)].concat();
        let tags = [ethernet(0x8100), [0, 1, 0x81, 0].repeat(1000)].concat();
        for data in [labels, nested, tags] {
            for end in 0..data.len().min(300) {
                let _ = innermost(&data[..end], 0, Next::Ethernet);
            }
            let inner = innermost(&data, 0, Next::Ethernet);
            assert!(inner.is_none_or(|(at, _)| at <= ETHERNET + 20 * MOST_STEPS));
        }
    }
}

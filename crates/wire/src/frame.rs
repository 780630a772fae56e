//! Ethernet frames of packets.

use crate::Error;
use crate::packet::{Packet, ipv4_header, ipv6_header, with_zeros};
use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, UdpHeader,
};
use knee_queue::{ETHERNET_BYTES, Ecn};
use std::net::{IpAddr, SocketAddr};

/// Length of the header of an ICMP echo, and of UDP.
const ECHO_BYTES: u32 = 8;
const UDP_BYTES: u32 = 8;

/// A frame from one device to another. The IP header of what it carries is to have a DSCP of 0, in whose place its own comes.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Sender and receiver.
    pub macs: [[u8; 6]; 2],
    /// DSCP of what it carries, 0 to 63.
    pub dscp: u8,
    pub content: Content,
}

/// Packet of a simulated host, for a capture.
#[derive(Clone, Debug)]
pub enum Content {
    Tcp(Packet),
    /// A UDP datagram.
    Udp {
        /// Sender and receiver.
        ends: [SocketAddr; 2],
        ecn: Ecn,
        wire_bytes: u32,
    },
    /// ICMP's echo request or reply.
    Echo {
        /// Addresses of sender and receiver.
        addresses: (IpAddr, IpAddr),
        /// ICMP identifier.
        id: u16,
        /// ICMP sequence number.
        number: u16,
        is_reply: bool,
        ecn: Ecn,
        wire_bytes: u32,
    },
}

impl Frame {
    /// Writes the headers into `bytes`, and zeros for the payload up to `most` bytes of the frame. Gives the frame's length.
    ///
    /// # Errors
    /// What has no bytes: addresses of two families, an echo that does not fit one packet.
    pub fn encode(&self, most: u32, bytes: &mut Vec<u8>) -> Result<u32, Error> {
        let [from, to] = self.macs;
        let is_ipv6 = match &self.content {
            Content::Tcp(packet) => packet.source.is_ipv6(),
            Content::Udp { ends, .. } => ends[0].is_ipv6(),
            Content::Echo { addresses, .. } => addresses.0.is_ipv6(),
        };
        bytes.clear();
        bytes.extend_from_slice(&to);
        bytes.extend_from_slice(&from);
        let kind: u16 = if is_ipv6 { 0x86dd } else { 0x0800 };
        bytes.extend_from_slice(&kind.to_be_bytes());
        let payload_bytes = match self.content {
            Content::Tcp(ref packet) => {
                packet.encode_headers(bytes)?;
                packet.len
            }
            Content::Udp { ends, ecn, wire_bytes } => encode_udp(ends, ecn, wire_bytes, bytes)?,
            Content::Echo { addresses, id, number, is_reply, ecn, wire_bytes } => {
                let echo = IcmpEchoHeader { id, seq: number };
                encode_echo(echo, is_reply, addresses, ecn, wire_bytes, bytes)?
            }
        };
        set_dscp(&mut bytes[ETHERNET_BYTES as usize..], self.dscp);
        let len = bytes.len() as u32 + payload_bytes;
        bytes.resize(bytes.len().max(len.min(most) as usize), 0);
        Ok(len)
    }
}

/// Puts a DSCP where an IP packet has none yet, and says so to its checksum (RFC 1624).
fn set_dscp(ip: &mut [u8], dscp: u8) {
    if ip[0] >> 4 == 6 {
        ip[0] |= dscp >> 2;
        ip[1] |= dscp << 6;
        return;
    }
    ip[1] |= dscp << 2;
    let sum = !u16::from_be_bytes([ip[10], ip[11]]);
    let (sum, carry) = sum.overflowing_add(u16::from(dscp) << 2);
    ip[10..12].copy_from_slice(&(!(sum + u16::from(carry))).to_be_bytes());
}

/// Appends the headers of a UDP datagram; gives the length of the zeros that follow them.
fn encode_udp(
    [from, to]: [SocketAddr; 2],
    ecn: Ecn,
    wire_bytes: u32,
    bytes: &mut Vec<u8>,
) -> Result<u32, Error> {
    let too_long = || Error::Ping { bytes: wire_bytes };
    let ip_bytes = if from.is_ipv6() { 40 } else { 20 };
    let zeros = wire_bytes.saturating_sub(ETHERNET_BYTES + ip_bytes + UDP_BYTES);
    let len = u16::try_from(UDP_BYTES + zeros).map_err(|_| too_long())?;
    let (ports, payload) = ([from.port(), to.port()], vec![0; zeros as usize]);
    let udp = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let ip = ipv4_header(from, to, len, IpNumber::UDP, ecn).ok_or_else(too_long)?;
            bytes.extend_from_slice(&ip.to_bytes());
            UdpHeader::with_ipv4_checksum(ports[0], ports[1], &ip, &payload)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = ipv6_header(from, to, len, IpNumber::UDP, ecn);
            bytes.extend_from_slice(&ip.to_bytes());
            UdpHeader::with_ipv6_checksum(ports[0], ports[1], &ip, &payload)
        }
        (from, to) => return Err(Error::Families(from, to)),
    };
    bytes.extend_from_slice(&udp.map_err(|_| too_long())?.to_bytes());
    Ok(zeros)
}

/// Appends the headers of an ICMP echo request or reply; gives the length of the zeros that follow them.
fn encode_echo(
    echo: IcmpEchoHeader,
    is_reply: bool,
    addresses: (IpAddr, IpAddr),
    ecn: Ecn,
    wire_bytes: u32,
    bytes: &mut Vec<u8>,
) -> Result<u32, Error> {
    let too_long = || Error::Ping { bytes: wire_bytes };
    let ip_bytes = if addresses.0.is_ipv6() { 40 } else { 20 };
    let zeros = wire_bytes.saturating_sub(ETHERNET_BYTES + ip_bytes + ECHO_BYTES);
    let len = u16::try_from(ECHO_BYTES + zeros).map_err(|_| too_long())?;
    match addresses {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let kind = match is_reply {
                true => Icmpv4Type::EchoReply(echo),
                false => Icmpv4Type::EchoRequest(echo),
            };
            let ip = ipv4_header(from, to, len, IpNumber::ICMP, ecn).ok_or_else(too_long)?;
            bytes.extend_from_slice(&ip.to_bytes());
            bytes.extend_from_slice(&Icmpv4Header::with_checksum(kind, &[]).to_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kind = match is_reply {
                true => Icmpv6Type::EchoReply(echo),
                false => Icmpv6Type::EchoRequest(echo),
            };
            let ip = ipv6_header(from, to, len, IpNumber::IPV6_ICMP, ecn);
            let icmp = Icmpv6Header::with_checksum(kind, from.octets(), to.octets(), &[]);
            let mut icmp = icmp.map_err(|_| too_long())?;
            icmp.checksum = with_zeros(icmp.checksum, zeros as u16);
            bytes.extend_from_slice(&ip.to_bytes());
            bytes.extend_from_slice(&icmp.to_bytes());
        }
        (from, to) => return Err(Error::Families(from, to)),
    }
    Ok(zeros)
}

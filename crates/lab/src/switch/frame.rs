//! Fields that the switch reads and changes in a frame: addresses, the ECN field, the ECMP hash.

use knee_queue::Ecn;
use knee_units::Random;

/// Ethernet's header: a frame has no VLAN tag here.
pub(in crate::switch) const ETHERNET_BYTES: usize = knee_queue::ETHERNET_BYTES as usize;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
pub(super) const TCP: u8 = 6;
const UDP: u8 = 17;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

/// Header fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Destination MAC address.
    pub(super) mac: [u8; 6],
    pub(super) version: Version,
    pub(super) ecn: Ecn,
    pub(super) dscp: u8,
    /// Pure ACK: no payload, SYN, FIN or RST.
    pub(super) is_pure_ack: bool,
    pub(super) protocol: u8,
    /// Where the header of the transport begins.
    pub(super) transport_at: usize,
    /// ECMP hash of addresses, protocol, ports and flow label.
    pub(super) hash: u64,
}

/// Reads a frame; `None`: it is no whole IP packet.
pub(super) fn parse(frame: &[u8]) -> Option<Header> {
    let mac = frame.first_chunk::<6>()?;
    let packet = frame.get(ETHERNET_BYTES..)?;
    match be16(frame, 12)? {
        ETHERTYPE_IPV4 => parse_v4(*mac, packet),
        ETHERTYPE_IPV6 => parse_v6(*mac, packet),
        _ => None,
    }
}

fn parse_v4(mac: [u8; 6], packet: &[u8]) -> Option<Header> {
    let header = packet.first_chunk::<IPV4_BYTES>()?;
    let header_bytes = usize::from(header[0] & 15) * 4;
    let total_bytes = usize::from(be16(header, 2)?);
    let fits = (IPV4_BYTES..=total_bytes).contains(&header_bytes) && total_bytes <= packet.len();
    if header[0] >> 4 != 4 || !fits {
        return None;
    }
    let protocol = header[9];
    // Later fragments have no ports, so that none of a packet's may count.
    let is_fragment = be16(header, 6)? & 0x3fff != 0;
    let ports = if is_fragment { 0 } else { ports(protocol, &packet[header_bytes..]) };
    let hash = [&header[12..16], &header[16..20]].into_iter().fold(0, hash_bytes);
    Some(Header {
        mac,
        version: Version::V4,
        ecn: Ecn::from_tos(header[1]),
        dscp: header[1] >> 2,
        is_pure_ack: !is_fragment && is_pure_ack(protocol, &packet[header_bytes..total_bytes]),
        protocol,
        transport_at: ETHERNET_BYTES + header_bytes,
        hash: mix(mix(hash, u64::from(protocol)), u64::from(ports)),
    })
}

fn parse_v6(mac: [u8; 6], packet: &[u8]) -> Option<Header> {
    let header = packet.first_chunk::<IPV6_BYTES>()?;
    let payload_bytes = usize::from(be16(header, 4)?);
    if header[0] >> 4 != 6 || IPV6_BYTES + payload_bytes > packet.len() {
        return None;
    }
    let protocol = header[6];
    let label = u32::from_be_bytes([0, header[1] & 15, header[2], header[3]]);
    let hash = header[8..40].chunks_exact(8).fold(0, hash_bytes);
    let ports = ports(protocol, &packet[IPV6_BYTES..]);
    let hash = mix(mix(hash, u64::from(protocol)), u64::from(ports));
    Some(Header {
        mac,
        version: Version::V6,
        ecn: Ecn::from_tos(header[1] >> 4),
        dscp: (header[0] & 15) << 2 | header[1] >> 6,
        is_pure_ack: is_pure_ack(protocol, &packet[IPV6_BYTES..IPV6_BYTES + payload_bytes]),
        protocol,
        transport_at: ETHERNET_BYTES + IPV6_BYTES,
        hash: mix(hash, u64::from(label)),
    })
}

/// Both ports as one number; 0 where there are none.
fn ports(protocol: u8, transport: &[u8]) -> u32 {
    match transport.first_chunk() {
        Some(ports) if protocol == TCP || protocol == UDP => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

/// Whether a transport header, with what follows it in the packet, is an acknowledgement and nothing else: no payload, no SYN,
/// FIN or RST.
fn is_pure_ack(protocol: u8, transport: &[u8]) -> bool {
    let Some(header) = transport.first_chunk::<20>().filter(|_| protocol == TCP) else {
        return false;
    };
    const FIN_SYN_RST: u8 = 7;
    const ACK: u8 = 16;
    usize::from(header[12] >> 4) * 4 == transport.len() && header[13] & (FIN_SYN_RST | ACK) == ACK
}

/// Makes the ECN field of a frame CE; `version` is what [`parse`] found.
pub(super) fn set_ce(frame: &mut [u8], version: Version) {
    let packet = &mut frame[ETHERNET_BYTES..];
    match version {
        Version::V4 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            let after = before | 3;
            packet[1] |= 3;
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            let checksum = checksum_after(checksum, before, after);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        // The two low bits of the traffic class; IPv6 has no checksum of its header.
        Version::V6 => packet[1] |= 0x30,
    }
}

/// A checksum when one word under it changes: HC' = ~(~HC + ~m + m'), RFC 1624, equation 3.
pub(super) fn checksum_after(checksum: u16, before: u16, after: u16) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!before) + u32::from(after))
}

/// A sum of 16-bit words, its carries added in.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A number of two bytes as the network writes it.
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn hash_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let word = bytes.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    mix(hash, word)
}

/// Multiplies and shifts so that each bit of both acts on all of the result.
fn mix(hash: u64, word: u64) -> u64 {
    Random::new(hash ^ word).u64()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet of a full header: the example of RFC 1071 as many know it, checksum 0xb861.
    pub(crate) fn frame_v4() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        frame.extend([0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61]);
        frame.extend([192, 168, 0, 1, 192, 168, 0, 199]);
        frame.resize(ETHERNET_BYTES + 0x73, 0);
        frame
    }

    /// An IPv6 packet with flow label 0x12345, ECT(0) and a TCP header of zeros.
    pub(crate) fn frame_v6() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        frame.extend([0x60, 0x21, 0x23, 0x45, 0, 20, TCP, 64]);
        frame.extend([0xfd; 16]);
        frame.extend([0xfe; 16]);
        frame.extend([0; 20]);
        frame
    }

    fn checksum_of(header: &[u8]) -> u16 {
        fold(header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum())
    }

    #[test]
    fn a_mark_keeps_the_checksum_of_ipv4_right() {
        for tos in [0_u8, 1, 2, 3, 0xb8, 0xff] {
            let mut frame = frame_v4();
            frame[15] = tos;
            // 0x4500 becomes 0x45tos, so the sum grows by it.
            let checksum = !fold(u32::from(!0xb861_u16) + u32::from(tos));
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(checksum_of(&frame[14..34]), 0xffff);
            let header = parse(&frame).unwrap();
            assert_eq!(header.ecn, Ecn::from_tos(tos));
            set_ce(&mut frame, header.version);
            assert_eq!(frame[15], tos | 3, "the DSCP stays");
            assert_eq!(checksum_of(&frame[14..34]), 0xffff);
            assert_eq!(parse(&frame).unwrap().ecn, Ecn::Ce);
        }
    }

    #[test]
    fn a_mark_in_ipv6_leaves_class_and_label() {
        let mut frame = frame_v6();
        let before = parse(&frame).unwrap();
        assert_eq!(before.ecn, Ecn::Ect0);
        set_ce(&mut frame, before.version);
        assert_eq!(frame[14..18], [0x60, 0x31, 0x23, 0x45]);
        assert_eq!(parse(&frame), Some(Header { ecn: Ecn::Ce, ..before }));
    }

    #[test]
    fn the_dscp_is_the_six_bits_above_ecn() {
        let mut frame = frame_v4();
        frame[15] = 0x06;
        assert_eq!(parse(&frame).map(|header| (header.dscp, header.ecn)), Some((1, Ecn::Ect0)));
        let mut frame = frame_v6();
        // Traffic class 0xb9: DSCP 46, ECT(1).
        frame[14..16].copy_from_slice(&[0x6b, 0x91]);
        assert_eq!(parse(&frame).map(|header| (header.dscp, header.ecn)), Some((46, Ecn::Ect1)));
    }

    #[test]
    fn an_ack_with_data_syn_fin_or_rst_is_no_pure_one() {
        let tcp_at = ETHERNET_BYTES + IPV6_BYTES;
        let is_pure = |flags: u8, words: u8, payload: usize| {
            let mut frame = frame_v6();
            frame[tcp_at + 12..tcp_at + 14].copy_from_slice(&[words << 4, flags]);
            frame[19] = 20 + payload as u8;
            // Ethernet's padding is no payload.
            frame.resize(tcp_at + 20 + payload + 6, 0);
            parse(&frame).unwrap().is_pure_ack
        };
        assert!(is_pure(0x10, 5, 0));
        assert!(is_pure(0x50, 8, 12), "ECE, and 12 bytes of options");
        assert!(!is_pure(0x10, 5, 1));
        assert!([0x00, 0x02, 0x12, 0x11, 0x14].iter().all(|flags| !is_pure(*flags, 5, 0)));
        assert!(!parse(&frame_v4()).unwrap().is_pure_ack, "UDP");
    }

    #[test]
    fn label_and_ports_choose_among_paths() {
        let frame = frame_v6();
        let hash = |at: usize, value: u8| {
            let mut frame = frame.clone();
            frame[at] = value;
            parse(&frame).unwrap().hash
        };
        let plain = parse(&frame).unwrap().hash;
        assert_ne!(hash(17, 0x46), plain, "the flow label");
        assert_ne!(hash(ETHERNET_BYTES + IPV6_BYTES + 1, 7), plain, "a port");
        assert_eq!(hash(21, 63), plain, "the hop limit");
    }

    #[test]
    fn what_is_no_ip_packet_is_refused() {
        let cut = |frame: Vec<u8>| frame[..frame.len() - 1].to_vec();
        assert_eq!(parse(&cut(frame_v4())), None);
        assert_eq!(parse(&cut(frame_v6())), None);
        let mut arp = frame_v4();
        arp[13] = 6;
        assert_eq!(parse(&arp), None);
        let mut short_header = frame_v4();
        short_header[14] = 0x44;
        assert_eq!(parse(&short_header), None);
    }

    proptest! {
        /// A mark in anything that parses as a packet does not panic either.
        #[test]
        fn no_bytes_make_it_panic(
            mut frame in prop::collection::vec(any::<u8>(), 0..120),
            ipv6 in any::<bool>(),
            first in any::<u8>(),
        ) {
            if frame.len() > 14 {
                let (kind, version) = if ipv6 { ([0x86, 0xdd], 0x60) } else { ([8, 0], 0x40) };
                frame[12..14].copy_from_slice(&kind);
                frame[14] = version | (first & 15);
            }
            if let Some(header) = parse(&frame) {
                prop_assert!(header.transport_at <= frame.len());
                set_ce(&mut frame, header.version);
                prop_assert_eq!(parse(&frame).unwrap().ecn, Ecn::Ce);
            }
        }
    }
}

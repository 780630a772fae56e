//! Segments as packets of the TUN device, and back.

use std::net::IpAddr;

use etherparse::{
    IpEcn, IpNumber, IpSlice, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpOptionElement,
    TcpSlice,
};
use knee_queue::Ecn;
use knee_sim::endpoint::Segment;

use crate::Refusal;

/// Where the initial sequence number of the script's peer is: nothing depends on it.
const PEER_ISS: u32 = 1_000_000;
/// Of the peer's packets, as a host nearby sends them.
const TTL: u8 = 64;
/// Ranges that a SACK option may have.
const SACKS: usize = 4;

/// Address and port of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// The connection as its packets show it.
#[derive(Debug)]
pub(super) struct Wire {
    stack: Side,
    peer: Side,
    /// The stack's initial sequence number, from its SYN.
    stack_iss: Option<u32>,
    /// Window scales that the SYNs announced.
    stack_scale: Option<u8>,
    peer_scale: Option<u8>,
}

/// Bits of the header and where etherparse has them.
fn flags(header: &mut TcpHeader) -> [(u16, &mut bool); 9] {
    [
        (Segment::FIN, &mut header.fin),
        (Segment::SYN, &mut header.syn),
        (Segment::RST, &mut header.rst),
        (Segment::PSH, &mut header.psh),
        (Segment::ACK, &mut header.ack),
        (Segment::URG, &mut header.urg),
        (Segment::ECE, &mut header.ece),
        (Segment::CWR, &mut header.cwr),
        (Segment::AE, &mut header.ns),
    ]
}

impl Wire {
    pub(super) fn new(stack: Side, peer: Side) -> Wire {
        Wire { stack, peer, stack_iss: None, stack_scale: None, peer_scale: None }
    }

    /// By how many bits windows of that side are shifted: only if both have agreed to it.
    fn shift(&self, of: Option<u8>) -> u8 {
        // The kernel takes no more than 14 (RFC 7323, section 2.3).
        if self.stack_scale.is_some() && self.peer_scale.is_some() {
            of.unwrap_or(0).min(14)
        } else {
            0
        }
    }

    /// The packet of a segment from the peer.
    pub(super) fn encode(&mut self, segment: &Segment) -> Result<Vec<u8>, Refusal> {
        let is_syn = segment.has(Segment::SYN);
        if is_syn {
            self.peer_scale = segment.window_scale;
        }
        let shift = if is_syn { 0 } else { self.shift(self.peer_scale) };
        // Rounded down, as every sender does.
        let window = u16::try_from(segment.window_bytes >> shift).map_err(|_| {
            let most = u32::from(u16::MAX) << shift;
            Refusal(format!(
                "a window of {} bytes does not fit the header: {most} is the most with the window scale that \
                 was agreed on",
                segment.window_bytes
            ))
        })?;
        let stack_iss = self.stack_iss.unwrap_or(0);
        let mut tcp = TcpHeader::new(
            self.peer.port,
            self.stack.port,
            PEER_ISS.wrapping_add(segment.seq),
            window,
        );
        if segment.has(Segment::ACK) {
            tcp.acknowledgment_number = stack_iss.wrapping_add(segment.ack);
        }
        for (flag, field) in flags(&mut tcp) {
            *field = segment.has(flag);
        }
        tcp.set_options(&options(segment, stack_iss)?).map_err(|_| {
            Refusal("a segment's options take more than the 40 bytes of a header".to_owned())
        })?;
        let payload = vec![0; segment.len as usize];
        let too_long =
            || Refusal(format!("{} bytes do not fit one packet of at most 65535", segment.len));
        let mut packet = match (self.peer.ip, self.stack.ip) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let len =
                    u16::try_from(tcp.header_len() + payload.len()).map_err(|_| too_long())?;
                let mut ip = Ipv4Header::new(len, TTL, IpNumber::TCP, from.octets(), to.octets())
                    .map_err(|_| too_long())?;
                ip.ecn = to_ip(segment.ecn);
                ip.dont_fragment = true;
                ip.header_checksum = ip.calc_header_checksum();
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, &payload).map_err(|_| too_long())?;
                ip.to_bytes().to_vec()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let len =
                    u16::try_from(tcp.header_len() + payload.len()).map_err(|_| too_long())?;
                let mut ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: len,
                    next_header: IpNumber::TCP,
                    hop_limit: TTL,
                    source: from.octets(),
                    destination: to.octets(),
                };
                ip.set_ecn(to_ip(segment.ecn));
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, &payload).map_err(|_| too_long())?;
                ip.to_bytes().to_vec()
            }
            _ => unreachable!("both sides have addresses of one family"),
        };
        packet.extend_from_slice(&tcp.to_bytes());
        packet.extend_from_slice(&payload);
        Ok(packet)
    }

    /// The segment that a packet from the stack holds; `None`: it is not of this connection.
    pub(super) fn decode(&mut self, packet: &[u8]) -> Option<Segment> {
        let ip = IpSlice::from_slice(packet).ok()?;
        if ip.payload_ip_number() != IpNumber::TCP || ip.is_fragmenting_payload() {
            return None;
        }
        let tcp = TcpSlice::from_slice(ip.payload().payload).ok()?;
        let from = Side { ip: ip.source_addr(), port: tcp.source_port() };
        let to = Side { ip: ip.destination_addr(), port: tcp.destination_port() };
        if (from, to) != (self.stack, self.peer) {
            return None;
        }
        let tos = match &ip {
            IpSlice::Ipv4(ip) => ip.header().slice()[1],
            IpSlice::Ipv6(ip) => ip.header().traffic_class(),
        };
        let mut segment = Segment {
            ecn: Ecn::from_tos(tos),
            len: tcp.payload().len() as u32,
            ..Segment::default()
        };
        for (flag, field) in flags(&mut tcp.to_header()) {
            segment.flags |= if *field { flag } else { 0 };
        }
        let is_syn = segment.has(Segment::SYN);
        if is_syn {
            self.stack_iss = Some(tcp.sequence_number());
            self.stack_scale = None;
        }
        let stack_iss = self.stack_iss.unwrap_or(0);
        segment.seq = tcp.sequence_number().wrapping_sub(stack_iss);
        if segment.has(Segment::ACK) {
            segment.ack = tcp.acknowledgment_number().wrapping_sub(PEER_ISS);
        }
        let relative =
            |(start, end): (u32, u32)| (start.wrapping_sub(PEER_ISS), end.wrapping_sub(PEER_ISS));
        for option in tcp.options_iterator().map_while(Result::ok) {
            match option {
                TcpOptionElement::Noop => {}
                TcpOptionElement::MaximumSegmentSize(mss) => segment.mss = Some(mss),
                TcpOptionElement::WindowScale(scale) => segment.window_scale = Some(scale),
                TcpOptionElement::SelectiveAcknowledgementPermitted => segment.sack_ok = true,
                TcpOptionElement::Timestamp(value, echo) => {
                    segment.timestamps = Some((value, echo));
                }
                TcpOptionElement::SelectiveAcknowledgement(first, more) => {
                    segment.sacks.push(relative(first));
                    segment.sacks.extend(more.into_iter().flatten().map(relative));
                }
            }
        }
        if is_syn {
            self.stack_scale = segment.window_scale;
        }
        let shift = if is_syn { 0 } else { self.shift(self.stack_scale) };
        segment.window_bytes = u32::from(tcp.window_size()) << shift;
        Some(segment)
    }
}

fn to_ip(ecn: Ecn) -> IpEcn {
    match ecn {
        Ecn::NotEct => IpEcn::ZERO,
        Ecn::Ect1 => IpEcn::ONE,
        Ecn::Ect0 => IpEcn::TWO,
        Ecn::Ce => IpEcn::THREE,
    }
}

/// In the order and with the padding that Linux has.
fn options(segment: &Segment, stack_iss: u32) -> Result<Vec<TcpOptionElement>, Refusal> {
    let mut options = Vec::new();
    if let Some(mss) = segment.mss {
        options.push(TcpOptionElement::MaximumSegmentSize(mss));
    }
    match (segment.sack_ok, segment.timestamps) {
        (true, Some(_)) => options.push(TcpOptionElement::SelectiveAcknowledgementPermitted),
        (true, None) => options.extend([
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::SelectiveAcknowledgementPermitted,
        ]),
        (false, Some(_)) => options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]),
        (false, None) => {}
    }
    if let Some((value, echo)) = segment.timestamps {
        options.push(TcpOptionElement::Timestamp(value, echo));
    }
    if let Some(scale) = segment.window_scale {
        options.extend([TcpOptionElement::Noop, TcpOptionElement::WindowScale(scale)]);
    }
    if segment.sacks.len() > SACKS {
        return Err(Refusal(format!(
            "a segment has room for {SACKS} SACK ranges, not for {}",
            segment.sacks.len()
        )));
    }
    let mut sacks = segment
        .sacks
        .iter()
        .map(|(start, end)| (stack_iss.wrapping_add(*start), stack_iss.wrapping_add(*end)));
    if let Some(first) = sacks.next() {
        let more = [sacks.next(), sacks.next(), sacks.next()];
        options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
        options.push(TcpOptionElement::SelectiveAcknowledgement(first, more));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The wire between two, as each of them sees it.
    fn both(ipv6: bool) -> [Wire; 2] {
        let side = |n: u8, port| {
            let ip = if ipv6 {
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()))
            } else {
                IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))
            };
            Side { ip, port }
        };
        let (a, b) = (side(1, 8080), side(2, 40_000));
        [Wire::new(a, b), Wire::new(b, a)]
    }

    #[test]
    fn a_segment_survives_the_wire_with_all_it_has() {
        for ipv6 in [false, true] {
            let [mut script, mut other] = both(ipv6);
            // Both count from the constant here.
            script.stack_iss = Some(PEER_ISS);
            let syn = Segment {
                flags: Segment::SYN | Segment::ECE | Segment::CWR | Segment::AE,
                window_bytes: 65_535,
                mss: Some(1460),
                window_scale: Some(7),
                sack_ok: true,
                timestamps: Some((1, 0)),
                ..Segment::default()
            };
            let packet = script.encode(&syn).unwrap();
            assert_eq!(other.decode(&packet), Some(syn));
            (script.stack_scale, other.peer_scale) = (Some(3), Some(3));
            let data = Segment {
                flags: Segment::ACK | Segment::PSH | Segment::FIN | Segment::URG | Segment::RST,
                ecn: Ecn::Ce,
                seq: u32::MAX - 10,
                len: 100,
                ack: 77,
                window_bytes: 1 << 20,
                timestamps: Some((5, 6)),
                sacks: vec![(10, 20), (30, 40), (50, 60)],
                ..Segment::default()
            };
            let packet = script.encode(&data).unwrap();
            assert_eq!(packet.len(), if ipv6 { 60 } else { 40 } + 12 + 28 + 100);
            assert_eq!(other.decode(&packet), Some(data));
            assert_eq!(script.decode(&packet), None, "it is its own");
            assert_eq!(other.decode(&packet[..30]), None);
        }
    }

    #[test]
    fn a_window_is_rounded_down_to_what_the_header_can_say() {
        let [mut script, mut other] = both(false);
        let ack =
            |window_bytes| Segment { flags: Segment::ACK, window_bytes, ..Segment::default() };
        assert!(script.encode(&ack(65_536)).unwrap_err().0.contains("65535 is the most"));
        (script.stack_scale, script.peer_scale) = (Some(0), Some(4));
        (other.stack_scale, other.peer_scale) = (Some(4), Some(0));
        let packet = script.encode(&ack(65_543)).unwrap();
        assert_eq!(other.decode(&packet).unwrap().window_bytes, 65_536);
        // One side alone does not scale.
        script.stack_scale = None;
        assert!(script.encode(&ack(65_543)).is_err());
    }

    #[test]
    fn what_does_not_fit_a_packet_is_refused() {
        let [mut script, _] = both(false);
        let mut why = |segment: Segment| script.encode(&segment).unwrap_err().0;
        assert!(why(Segment { len: 65_536, ..Segment::default() }).contains("65535"));
        let sacks = vec![(1, 2); 4];
        let timestamps = Some((1, 2));
        assert!(why(Segment { sacks, timestamps, ..Segment::default() }).contains("40 bytes"));
        assert!(why(Segment { sacks: vec![(1, 2); 5], ..Segment::default() }).contains("4 SACK"));
    }
}

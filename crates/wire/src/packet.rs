//! TCP packets as bytes, read and written: what a capture has, or a device gives and takes.

use crate::Error;
use crate::Segment;
use crate::compact::Compact;
use etherparse::{
    IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpOptionElement,
};
use knee_queue::Ecn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Time to live of written packets, as from a host nearby.
const TTL: u8 = 64;
/// IPv6, and TCP with all options that fit.
const MOST_HEADER_BYTES: usize = 40 + 60;
/// Ranges that a SACK option may have.
const SACKS: usize = 4;
/// The largest shift of windows (RFC 7323, section 2.3).
pub const MAX_SCALE: u8 = 14;

/// A TCP segment with its addresses, numbers as they are on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Bits of the header, [`Segment::SYN`] and its like.
    pub flags: u16,
    pub ecn: Ecn,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Payload, bytes: by the IP header, whether the capture has it or not.
    pub len: u32,
    /// The acknowledgement field, whether the flag is set or not.
    pub ack: u32,
    /// The window field, not scaled.
    pub window: u16,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_ok: bool,
    /// Option: value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Option: first and next byte of each range.
    pub sacks: Vec<(u32, u32)>,
    /// The options end before the header does, or make no sense: some may be missing here.
    pub are_options_cut: bool,
}

/// Reads a packet that begins with its IP header. `original_len` is its length on the wire, of which `ip` may be
/// only the beginning. Nothing if it is no TCP, a later fragment, or too short for a TCP header.
pub fn decode(ip: &[u8], original_len: u32) -> Option<Packet> {
    Compact::decode(ip, original_len).map(|packet| Packet {
        source: packet.source,
        destination: packet.destination,
        flags: packet.flags,
        ecn: packet.ecn,
        seq: packet.seq,
        len: packet.len,
        ack: packet.ack,
        window: packet.window,
        mss: packet.mss,
        window_scale: packet.window_scale,
        sack_ok: packet.sack_ok,
        timestamps: packet.timestamps,
        sacks: packet.sacks().to_vec(),
        are_options_cut: packet.are_options_cut,
    })
}

/// Initial sequence numbers and window scale of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Initial sequence number of the sender.
    pub iss: u32,
    /// The receiver's, from which what it has sent is acknowledged.
    pub peer_iss: u32,
    /// Shifts the sender's windows, but for that of a SYN.
    pub scale: u8,
}

impl Origin {
    fn shift(self, flags: u16) -> u32 {
        if flags & Segment::SYN != 0 { 0 } else { u32::from(self.scale.min(MAX_SCALE)) }
    }
}

impl Packet {
    /// Whether a header bit is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The segment, its numbers counted from `origin`.
    pub fn relative(&self, origin: Origin) -> Segment {
        let syn = self.has(Segment::SYN);
        let of_peer = |number: u32| number.wrapping_sub(origin.peer_iss);
        Segment {
            flags: self.flags,
            ecn: self.ecn,
            seq: self.seq.wrapping_sub(origin.iss),
            len: self.len,
            ack: if self.has(Segment::ACK) { of_peer(self.ack) } else { 0 },
            window_bytes: u32::from(self.window) << origin.shift(self.flags),
            mss: self.mss.filter(|_| syn),
            window_scale: self.window_scale.filter(|_| syn),
            sack_ok: self.sack_ok && syn,
            timestamps: self.timestamps,
            sacks: self.sacks.iter().map(|(a, b)| (of_peer(*a), of_peer(*b))).collect(),
        }
    }

    /// The packet of a segment whose numbers count from `origin`. Its window is rounded down to what the header
    /// can say, as every sender does.
    ///
    /// # Errors
    /// If the window is larger than the header can say.
    pub fn absolute(
        segment: &Segment,
        source: SocketAddr,
        destination: SocketAddr,
        origin: Origin,
    ) -> Result<Packet, Error> {
        let shift = origin.shift(segment.flags);
        let window = u16::try_from(segment.window_bytes >> shift).map_err(|_| Error::Window {
            bytes: segment.window_bytes,
            most: u32::from(u16::MAX) << shift,
        })?;
        let of_peer = |number: u32| number.wrapping_add(origin.peer_iss);
        Ok(Packet {
            source,
            destination,
            flags: segment.flags,
            ecn: segment.ecn,
            seq: origin.iss.wrapping_add(segment.seq),
            len: segment.len,
            ack: if segment.has(Segment::ACK) { of_peer(segment.ack) } else { 0 },
            window,
            mss: segment.mss,
            window_scale: segment.window_scale,
            sack_ok: segment.sack_ok,
            timestamps: segment.timestamps,
            sacks: segment.sacks.iter().map(|(a, b)| (of_peer(*a), of_peer(*b))).collect(),
            are_options_cut: false,
        })
    }

    /// The bytes from the IP header on, with checksums and a payload of zeros.
    ///
    /// # Errors
    /// What does not fit a packet, and addresses of two families.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(MOST_HEADER_BYTES + self.len as usize);
        self.encode_headers(&mut bytes)?;
        bytes.resize(bytes.len() + self.len as usize, 0);
        Ok(bytes)
    }

    /// Appends its headers alone, as they stand before a payload of zeros.
    ///
    /// # Errors
    /// As [`Packet::encode`].
    pub fn encode_headers(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let (from, to) = (self.source, self.destination);
        let mut tcp = TcpHeader::new(from.port(), to.port(), self.seq, self.window);
        tcp.acknowledgment_number = self.ack;
        for (flag, field) in flags(&mut tcp) {
            *field = self.has(flag);
        }
        tcp.set_options(&self.options()?).map_err(|_| Error::Options)?;
        let too_long = || Error::Segment { bytes: self.len };
        let len = tcp.header_len() as u64 + u64::from(self.len);
        let len = u16::try_from(len).map_err(|_| too_long())?;
        match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip =
                    ipv4_header(from, to, len, IpNumber::TCP, self.ecn).ok_or_else(too_long)?;
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, &[]).map_err(|_| too_long())?;
                bytes.extend_from_slice(&ip.to_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = ipv6_header(from, to, len, IpNumber::TCP, self.ecn);
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, &[]).map_err(|_| too_long())?;
                bytes.extend_from_slice(&ip.to_bytes());
            }
            (from, to) => return Err(Error::Families(from, to)),
        }
        tcp.checksum = with_zeros(tcp.checksum, self.len as u16);
        bytes.extend_from_slice(&tcp.to_bytes());
        Ok(())
    }

    /// TCP options in Linux's order, with Linux's padding.
    fn options(&self) -> Result<Vec<TcpOptionElement>, Error> {
        use TcpOptionElement::{
            MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted,
            Timestamp, WindowScale,
        };
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.push(MaximumSegmentSize(mss));
        }
        match (self.sack_ok, self.timestamps) {
            (true, Some(_)) => options.push(SelectiveAcknowledgementPermitted),
            (true, None) => options.extend([Noop, Noop, SelectiveAcknowledgementPermitted]),
            (false, Some(_)) => options.extend([Noop, Noop]),
            (false, None) => {}
        }
        if let Some((value, echo)) = self.timestamps {
            options.push(Timestamp(value, echo));
        }
        if let Some(scale) = self.window_scale {
            options.extend([Noop, WindowScale(scale)]);
        }
        if self.sacks.len() > SACKS {
            return Err(Error::Sacks { most: SACKS, asked: self.sacks.len() });
        }
        let mut sacks = self.sacks.iter().copied();
        if let Some(first) = sacks.next() {
            let more = [sacks.next(), sacks.next(), sacks.next()];
            options.extend([Noop, Noop, SelectiveAcknowledgement(first, more)]);
        }
        Ok(options)
    }
}

/// An IPv4 header before `len` bytes, as Linux writes it; nothing if they do not fit.
pub(crate) fn ipv4_header(
    from: Ipv4Addr,
    to: Ipv4Addr,
    len: u16,
    protocol: IpNumber,
    ecn: Ecn,
) -> Option<Ipv4Header> {
    let mut ip = Ipv4Header::new(len, TTL, protocol, from.octets(), to.octets()).ok()?;
    ip.ecn = to_ip(ecn);
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    Some(ip)
}

/// An IPv6 header before `len` bytes.
pub(crate) fn ipv6_header(
    from: Ipv6Addr,
    to: Ipv6Addr,
    len: u16,
    protocol: IpNumber,
    ecn: Ecn,
) -> Ipv6Header {
    let mut ip = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: len,
        next_header: protocol,
        hop_limit: TTL,
        source: from.octets(),
        destination: to.octets(),
    };
    ip.set_ecn(to_ip(ecn));
    ip
}

/// The checksum after appending `zeros` bytes of zeros, which the length in the pseudo header counts (RFC 1624).
pub(crate) fn with_zeros(checksum: u16, zeros: u16) -> u16 {
    let (sum, carry) = (!checksum).overflowing_add(zeros);
    !(sum + u16::from(carry))
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

fn to_ip(ecn: Ecn) -> IpEcn {
    match ecn {
        Ecn::NotEct => IpEcn::ZERO,
        Ecn::Ect1 => IpEcn::ONE,
        Ecn::Ect0 => IpEcn::TWO,
        Ecn::Ce => IpEcn::THREE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(ipv6: bool) -> [SocketAddr; 2] {
        let ends = match ipv6 {
            true => ["[fd6b:6e65:65::1]:10000", "[fd6b:6e65:65::2]:40000"],
            false => ["198.18.0.1:10000", "198.18.0.2:40000"],
        };
        ends.map(|end| end.parse().unwrap())
    }

    fn packet(ipv6: bool) -> Packet {
        let [source, destination] = sides(ipv6);
        Packet {
            source,
            destination,
            flags: Segment::ACK | Segment::PSH | Segment::FIN | Segment::URG | Segment::AE,
            ecn: Ecn::Ce,
            seq: u32::MAX - 10,
            len: 100,
            ack: 77,
            window: 1234,
            mss: None,
            window_scale: None,
            sack_ok: false,
            timestamps: Some((5, 6)),
            sacks: vec![(10, 20), (30, 40), (50, u32::MAX)],
            are_options_cut: false,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for ipv6 in [false, true] {
            let data = packet(ipv6);
            let bytes = data.encode().unwrap();
            assert_eq!(bytes.len(), if ipv6 { 60 } else { 40 } + 12 + 28 + 100);
            assert_eq!(decode(&bytes, bytes.len() as u32), Some(data));
            for timestamps in [None, Some((1, 0))] {
                for sack_ok in [false, true] {
                    let syn = Packet {
                        flags: Segment::SYN | Segment::ECE | Segment::CWR,
                        len: 0,
                        mss: Some(1460),
                        window_scale: Some(7),
                        sack_ok,
                        timestamps,
                        sacks: Vec::new(),
                        ..packet(ipv6)
                    };
                    let bytes = syn.encode().unwrap();
                    assert_eq!(decode(&bytes, bytes.len() as u32), Some(syn));
                }
            }
        }
    }

    #[test]
    fn a_cut_packet_is_read_as_far_as_it_goes() {
        let whole = packet(false);
        let bytes = whole.encode().unwrap();
        let headers = bytes.len() - 100;
        assert_eq!(decode(&bytes[..headers], bytes.len() as u32), Some(whole.clone()));
        let cut = decode(&bytes[..60], bytes.len() as u32).unwrap();
        assert_eq!((cut.len, cut.seq, cut.are_options_cut), (100, whole.seq, true));
        assert_eq!(decode(&bytes[..39], bytes.len() as u32), None);
        for len in 0..bytes.len() {
            let _ = decode(&bytes[..len], len as u32);
        }
    }

    #[test]
    fn numbers_count_from_the_origin_of_their_direction() {
        let [source, destination] = sides(false);
        let origin = Origin { iss: u32::MAX - 5, peer_iss: 1000, scale: 4 };
        let segment = Segment {
            flags: Segment::ACK,
            seq: 20,
            ack: 30,
            window_bytes: 65_543,
            sacks: vec![(50, 60)],
            ..Segment::default()
        };
        let packet = Packet::absolute(&segment, source, destination, origin).unwrap();
        assert_eq!((packet.seq, packet.ack, packet.window), (14, 1030, 4096));
        assert_eq!(packet.sacks, [(1050, 1060)]);
        // The window is rounded down.
        assert_eq!(packet.relative(origin), Segment { window_bytes: 65_536, ..segment });
    }

    #[test]
    fn what_does_not_fit_a_packet_is_refused() {
        let why = |packet: Packet| packet.encode().unwrap_err().to_string();
        assert!(why(Packet { len: 65_536, ..packet(false) }).contains("65535"));
        assert!(why(Packet { sacks: vec![(1, 2); 4], ..packet(false) }).contains("40 bytes"));
        assert!(why(Packet { sacks: vec![(1, 2); 5], ..packet(false) }).contains("4 SACK"));
        let destination = sides(true)[1];
        assert!(why(Packet { destination, ..packet(false) }).contains("two address families"));
        let [source, destination] = sides(false);
        let segment = Segment { window_bytes: 65_536, ..Segment::default() };
        let why = Packet::absolute(&segment, source, destination, Origin::default())
            .unwrap_err()
            .to_string();
        assert!(why.contains("allows at most 65535"), "{why}");
    }
}

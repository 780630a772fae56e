//! A TCP packet as bytes: what a capture has, or a device gives.

use etherparse::{IpNumber, LaxIpSlice};
use knee_queue::Ecn;
use knee_sim::endpoint::Segment;
use std::net::SocketAddr;

const TCP_BYTES: usize = 20;

/// A TCP segment with its addresses, numbers as they are on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Bits of the header, [`Segment::SYN`] and its like.
    pub flags: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// First byte.
    pub seq: u32,
    /// Payload, bytes: by the IP header, whether the capture has it or not.
    pub len: u32,
    /// The acknowledgement field, whether the flag is set or not.
    pub ack: u32,
    /// The window field, not scaled.
    pub window: u16,
    /// Option.
    pub mss: Option<u16>,
    /// Option.
    pub window_scale: Option<u8>,
    /// Option.
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
pub fn decode(ip: &[u8], original_len: u32) -> Option<Wire> {
    let (slice, _) = LaxIpSlice::from_slice(ip).ok()?;
    let payload = slice.payload();
    if payload.ip_number != IpNumber::TCP {
        return None;
    }
    // A length of 0: the device cuts the packet later, and it is as long as it was handed over.
    let (ecn, ip_len, is_first) = match &slice {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            let first = header.fragments_offset().value() == 0;
            (header.ecn().value(), u32::from(header.total_len()), first)
        }
        LaxIpSlice::Ipv6(v6) => {
            let header = v6.header();
            let len = u32::from(header.payload_length());
            let len = if len == 0 { 0 } else { len + 40 };
            (header.traffic_class() & 3, len, !payload.fragmented)
        }
    };
    if !is_first {
        return None;
    }
    let ip_len = if ip_len == 0 { original_len } else { ip_len };
    let tcp = payload.payload;
    let before_tcp = u32::try_from(tcp.as_ptr() as usize - ip.as_ptr() as usize).ok()?;
    let header = tcp.get(..TCP_BYTES)?;
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| (u32::from(u16_at(at)) << 16) | u32::from(u16_at(at + 2));
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < TCP_BYTES {
        return None;
    }
    let len = ip_len.checked_sub(before_tcp)?.checked_sub(header_len as u32)?;
    let mut wire = Wire {
        source: SocketAddr::new(slice.source_addr(), u16_at(0)),
        destination: SocketAddr::new(slice.destination_addr(), u16_at(2)),
        flags: u16_at(12) & 0x1ff,
        ecn: match ecn {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        },
        seq: u32_at(4),
        len,
        ack: u32_at(8),
        window: u16_at(14),
        mss: None,
        window_scale: None,
        sack_ok: false,
        timestamps: None,
        sacks: Vec::new(),
        are_options_cut: tcp.len() < header_len,
    };
    let end = header_len.min(tcp.len());
    if !options(&tcp[TCP_BYTES..end], &mut wire) {
        wire.are_options_cut = true;
    }
    Some(wire)
}

/// Reads options one by one; false if one is broken, and those behind it with it.
fn options(mut rest: &[u8], wire: &mut Wire) -> bool {
    while let Some((kind, after)) = rest.split_first() {
        match kind {
            0 => return true,
            1 => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let Some(len) = after.first().map(|len| usize::from(*len)) else { return false };
        if len < 2 || len > rest.len() {
            return false;
        }
        let (value, behind) = (&rest[2..len], &rest[len..]);
        let u32_at = |at: usize| {
            let bytes = [value[at], value[at + 1], value[at + 2], value[at + 3]];
            u32::from_be_bytes(bytes)
        };
        match (kind, value.len()) {
            (2, 2) => wire.mss = Some(u16::from_be_bytes([value[0], value[1]])),
            (3, 1) => wire.window_scale = Some(value[0]),
            (4, 0) => wire.sack_ok = true,
            (5, 8 | 16 | 24 | 32) => {
                let starts = (0..value.len()).step_by(8);
                wire.sacks = starts.map(|at| (u32_at(at), u32_at(at + 4))).collect();
            }
            (8, 8) => wire.timestamps = Some((u32_at(0), u32_at(4))),
            _ => {}
        }
        rest = behind;
    }
    true
}

impl Wire {
    /// Whether a header bit is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The segment, its numbers counted from the initial ones of its sender and receiver. `scale` shifts its window
    /// unless it is a SYN.
    pub fn relative(&self, iss: u32, peer_iss: u32, scale: u8) -> Segment {
        let syn = self.has(Segment::SYN);
        let shift = if syn { 0 } else { u32::from(scale.min(14)) };
        let of_peer = |number: u32| number.wrapping_sub(peer_iss);
        Segment {
            flags: self.flags,
            ecn: self.ecn,
            seq: self.seq.wrapping_sub(iss),
            len: self.len,
            ack: if self.has(Segment::ACK) { of_peer(self.ack) } else { 0 },
            window_bytes: u32::from(self.window) << shift,
            mss: self.mss.filter(|_| syn),
            window_scale: self.window_scale.filter(|_| syn),
            sack_ok: self.sack_ok && syn,
            timestamps: self.timestamps,
            sacks: self.sacks.iter().map(|(a, b)| (of_peer(*a), of_peer(*b))).collect(),
        }
    }
}

//! A TCP packet's headers without any memory of their own: what an analysis of millions of packets reads.

use etherparse::{IpNumber, LaxIpSlice};
use knee_queue::Ecn;
use std::net::SocketAddr;

/// A TCP header without options.
const TCP_BYTES: usize = 20;
/// Ranges that a SACK option has room for.
const SACKS: usize = 4;

/// Headers of a packet, with sequence numbers as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Bits of the header, [`crate::Segment::SYN`] and its like.
    pub flags: u16,
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Identification of the IP header; nothing for IPv6, and 0 where the sender does not count.
    pub ip_id: Option<u16>,
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
    /// Option of Accurate ECN (RFC 9768, section 3.2.3): bytes that arrived with CE, modulo 2^24.
    pub ce_bytes: Option<u32>,
    sacks: [(u32, u32); SACKS],
    sack_count: u8,
    /// The options end before the header does, or make no sense: some may be missing here.
    pub are_options_cut: bool,
}

impl Compact {
    /// Reads a packet that begins with its IP header. `original_len` is its length on the wire, of which `ip` may be
    /// only the beginning. Nothing if it is no TCP, a later fragment, or too short for a TCP header.
    pub fn decode(ip: &[u8], original_len: u32) -> Option<Compact> {
        let (slice, _) = LaxIpSlice::from_slice(ip).ok()?;
        let payload = slice.payload();
        if payload.ip_number != IpNumber::TCP {
            return None;
        }
        // A length of 0: the device cuts the packet later, and it is as long as it was handed over.
        let (ecn, ttl, ip_id, ip_len, is_first) = match &slice {
            LaxIpSlice::Ipv4(v4) => {
                let header = v4.header();
                let first = header.fragments_offset().value() == 0;
                let id = Some(header.identification());
                (header.ecn().value(), header.ttl(), id, u32::from(header.total_len()), first)
            }
            LaxIpSlice::Ipv6(v6) => {
                let header = v6.header();
                let len = u32::from(header.payload_length());
                let len = if len == 0 { 0 } else { len + 40 };
                (header.traffic_class() & 3, header.hop_limit(), None, len, !payload.fragmented)
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
        let mut packet = Compact {
            source: SocketAddr::new(slice.source_addr(), u16_at(0)),
            destination: SocketAddr::new(slice.destination_addr(), u16_at(2)),
            flags: u16_at(12) & 0x1ff,
            ecn: Ecn::from_tos(ecn),
            ttl,
            ip_id,
            seq: u32_at(4),
            len,
            ack: u32_at(8),
            window: u16_at(14),
            mss: None,
            window_scale: None,
            sack_ok: false,
            timestamps: None,
            ce_bytes: None,
            sacks: [(0, 0); SACKS],
            sack_count: 0,
            are_options_cut: tcp.len() < header_len,
        };
        let end = header_len.min(tcp.len());
        if !packet.options(&tcp[TCP_BYTES..end]) {
            packet.are_options_cut = true;
        }
        Some(packet)
    }

    /// Whether a header bit is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// All fields that two copies of one packet have in common, wherever on a path they were taken, in short.
    pub fn fingerprint(&self) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let (value, echo) = self.timestamps.unwrap_or_default();
        let pair = |high: u32, low: u32| (u64::from(high) << 32) | u64::from(low);
        let id = u32::from(self.ip_id.unwrap_or_default());
        let rest = pair(u32::from(self.window), (u32::from(self.flags) << 16) | id);
        let fixed = [pair(self.seq, self.ack), pair(self.len, 0), pair(value, echo), rest];
        let sacks = self.sacks().iter().map(|sack| pair(sack.0, sack.1));
        // 0 is no fingerprint.
        fixed
            .into_iter()
            .chain(sacks)
            .fold(1, |sum: u64, part| (sum ^ part).wrapping_mul(FACTOR).rotate_left(29))
            | 1
    }

    /// Option: first and next byte of each range.
    pub fn sacks(&self) -> &[(u32, u32)] {
        &self.sacks[..usize::from(self.sack_count)]
    }

    /// Reads options one by one; false if one is broken, and those behind it with it.
    fn options(&mut self, mut rest: &[u8]) -> bool {
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
                (2, 2) => self.mss = Some(u16::from_be_bytes([value[0], value[1]])),
                (3, 1) => self.window_scale = Some(value[0]),
                (4, 0) => self.sack_ok = true,
                (5, 8 | 16 | 24 | 32) => {
                    self.sack_count = (value.len() / 8) as u8;
                    let starts = (0..value.len()).step_by(8);
                    for (sack, at) in self.sacks.iter_mut().zip(starts) {
                        *sack = (u32_at(at), u32_at(at + 4));
                    }
                }
                // Of the two orders of its counters both have this one in the middle.
                (172 | 174, 6 | 9) => self.ce_bytes = Some(u32_at(2) & 0xff_ffff),
                (8, 8) => self.timestamps = Some((u32_at(0), u32_at(4))),
                _ => {}
            }
            rest = behind;
        }
        true
    }
}

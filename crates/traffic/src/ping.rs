//! Pings: ICMP and ICMPv6 echo requests, and matching of their replies.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Os, PingPlan, PingSocket};

/// Type of a request and of its echo.
const ICMP: (u8, u8) = (8, 0);
const ICMPV6: (u8, u8) = (128, 129);
/// Most packets received per event, so that other sockets get their turn.
const AT_ONCE: usize = 64;

/// A stream of pings.
pub(crate) struct Pinger<S> {
    pub(crate) plan: PingPlan,
    socket: PingSocket<S>,
    packet: Vec<u8>,
    /// Indices of the records of its packets, in the order of sending.
    records: Vec<usize>,
}

/// Stream, time of sending, round-trip time; ns.
type Record = (u32, u64, Option<u64>);

impl PingPlan {
    /// Length of the IP header in bytes.
    fn ip_header_bytes(&self) -> u32 {
        if self.to_address.is_ipv6() { 40 } else { 20 }
    }

    /// The reason if the plan is impossible.
    pub fn fault(&self) -> Option<alloc::string::String> {
        // With type, code, checksum, identifier, number.
        let least = self.ip_header_bytes() + 8;
        let is_possible = (least..=65_535).contains(&self.ip_bytes) && self.interval_ns > 0;
        (!is_possible).then(|| {
            alloc::format!(
                "ping {}: {} bytes every {} ns: take {least} to 65535 bytes and an interval above 0",
                self.ping,
                self.ip_bytes,
                self.interval_ns
            )
        })
    }
}

impl<S> Pinger<S> {
    pub(crate) fn new(plan: PingPlan, socket: PingSocket<S>) -> Pinger<S> {
        let mut packet = vec![0; (plan.ip_bytes - plan.ip_header_bytes()) as usize];
        packet[0] = if plan.to_address.is_ipv6() { ICMPV6.0 } else { ICMP.0 };
        packet[4..6].copy_from_slice(&socket.id.to_be_bytes());
        Pinger { plan, socket, packet, records: Vec::new() }
    }

    /// Sends the next packet.
    pub(crate) fn send(&mut self, os: &mut impl Os<Socket = S>, records: &mut Vec<Record>) {
        let number = self.records.len() as u16;
        self.packet[6..8].copy_from_slice(&number.to_be_bytes());
        if self.plan.to_address.is_ipv4() {
            // IPv6's is the kernel's work, with its pseudo-header.
            self.packet[2..4].fill(0);
            let sum = checksum(&self.packet);
            self.packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.records.push(records.len());
        records.push((self.plan.ping, os.now_ns(), None));
        os.send_ping(&self.socket.socket, &self.packet);
    }

    /// Receives replies and records their round-trip times.
    pub(crate) fn receive(&mut self, os: &mut impl Os<Socket = S>, records: &mut [Record]) {
        let mut buffer = [0; 256];
        for _ in 0..AT_ONCE {
            // One call reports an ICMP error and clears it.
            let Some((len, stamp_ns)) = os.receive_ping(&self.socket.socket, &mut buffer) else {
                return;
            };
            let record = self.number_of(&buffer[..len.min(buffer.len())]);
            let record = record.and_then(|number| records.get_mut(*self.records.get(number)?));
            if let Some((_, sent_ns, rtt_ns @ None)) = record {
                let at_ns = stamp_ns.unwrap_or_else(|| os.now_ns());
                *rtt_ns = Some(at_ns.saturating_sub(*sent_ns));
            }
        }
    }

    /// Index of the packet that this reply echoes.
    fn number_of(&self, packet: &[u8]) -> Option<usize> {
        let ipv6 = self.plan.to_address.is_ipv6();
        let has_header = self.socket.is_raw && !ipv6;
        let ip_header_bytes = if has_header { usize::from(packet.first()? & 15) * 4 } else { 0 };
        let [kind, _, _, _, id @ .., number_high, number_low] =
            packet.get(ip_header_bytes..)?.first_chunk::<8>()?;
        let is_echo = *kind == if ipv6 { ICMPV6.1 } else { ICMP.1 };
        // The kernel gives ping sockets an identifier of its choice, and only what bears it.
        if !is_echo || self.socket.is_raw && *id != self.socket.id.to_be_bytes() {
            return None;
        }
        // Sequence numbers wrap: the newest packet with this number.
        let newest = self.records.len().checked_sub(1)?;
        let number = u16::from_be_bytes([*number_high, *number_low]);
        newest.checked_sub(usize::from((newest as u16).wrapping_sub(number)))
    }
}

/// Internet checksum (RFC 1071).
fn checksum(packet: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    // 65535 bytes are half as many words: their sum fits.
    let mut sum: u32 = packet.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // Its section 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }
}

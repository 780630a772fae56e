//! Echoes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{self, SendFlags, SocketType, sockopt};

use super::{PingPlan, clock, sys};
use crate::Error;
use crate::error::failed;

/// Type, code, checksum, identifier, number.
const HEADER_BYTES: u32 = 8;
/// Type of a request and of its echo.
const ICMP: (u8, u8) = (8, 0);
const ICMPV6: (u8, u8) = (128, 129);
/// Packets that a look at the socket takes at most: others wait, too.
const AT_ONCE: usize = 64;

/// A stream of pings.
pub(super) struct Pinger {
    pub(super) plan: PingPlan,
    socket: OwnedFd,
    /// A raw socket, which sees every echo of the address, and with IPv4 its header.
    is_raw: bool,
    id: u16,
    packet: Vec<u8>,
    /// Where the records of its packets are, in the order of sending.
    records: Vec<usize>,
}

/// Stream, when it left, and until its echo was back.
type Record = (u32, u64, Option<u64>);

impl Pinger {
    pub(super) fn new(plan: PingPlan, socket: OwnedFd) -> Result<Pinger, Error> {
        let of_ip = if plan.to_address.is_ipv6() { 40 } else { 20 };
        let least = of_ip + HEADER_BYTES;
        if plan.ip_bytes < least || plan.ip_bytes > 65_535 || plan.interval_ns == 0 {
            return Err(Error::Failed(format!(
                "ping {}: packets of {} bytes each {} ns: headers are {least} bytes, a packet is 65535 at most, and \
                 the interval must not be 0",
                plan.ping, plan.ip_bytes, plan.interval_ns
            )));
        }
        let is_raw = set_up(&plan, socket.as_fd())
            .map_err(failed(format!("ping {} to {}", plan.ping, plan.to_address)))?;
        let mut packet = vec![0; (plan.ip_bytes - of_ip) as usize];
        // Each stream of each process has its own.
        let id = (std::process::id() as u16).wrapping_mul(64).wrapping_add(plan.ping as u16);
        packet[0] = if plan.to_address.is_ipv6() { ICMPV6.0 } else { ICMP.0 };
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        Ok(Pinger { plan, socket, is_raw, id, packet, records: Vec::new() })
    }

    /// Sends the next one.
    pub(super) fn send(&mut self, zero_ns: u64, records: &mut Vec<Record>) {
        let number = self.records.len() as u16;
        self.packet[6..8].copy_from_slice(&number.to_be_bytes());
        if self.plan.to_address.is_ipv4() {
            // IPv6's is the kernel's work, with its pseudo-header.
            self.packet[2..4].fill(0);
            let sum = checksum(&self.packet);
            self.packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.records.push(records.len());
        records.push((self.plan.ping, clock::now_ns().saturating_sub(zero_ns), None));
        // What the host itself does not take counts as sent and lost.
        let _ = net::send(&self.socket, &self.packet, SendFlags::DONTWAIT);
    }

    /// Takes the echoes that are there. Their times are the kernel's stamps, at which the host got them.
    pub(super) fn receive(&mut self, zero_ns: u64, records: &mut [Record]) {
        let mut buffer = [0; 256];
        for _ in 0..AT_ONCE {
            // An ICMP error that came back is told by one call, and cleared by it.
            let Ok((len, stamp)) = sys::receive_stamped(self.socket.as_fd(), &mut buffer) else {
                return;
            };
            let now_ns = clock::now_ns();
            let at_ns = stamp.map_or(now_ns, |stamp| {
                (stamp as i64 - clock::realtime_ahead_ns()).clamp(0, now_ns as i64) as u64
            });
            let record = self.number_of(&buffer[..len.min(buffer.len())]);
            let record = record.and_then(|number| records.get_mut(*self.records.get(number)?));
            if let Some((_, sent_ns, rtt_ns @ None)) = record {
                *rtt_ns = Some(at_ns.saturating_sub(zero_ns + *sent_ns));
            }
        }
    }

    /// Which of its packets this echoes.
    fn number_of(&self, packet: &[u8]) -> Option<usize> {
        let ipv6 = self.plan.to_address.is_ipv6();
        let of_ip = if self.is_raw && !ipv6 { usize::from(packet.first()? & 15) * 4 } else { 0 };
        let [kind, _, _, _, id @ .., number_high, number_low] =
            packet.get(of_ip..)?.first_chunk::<8>()?;
        let is_echo = *kind == if ipv6 { ICMPV6.1 } else { ICMP.1 };
        // The kernel gives ping sockets an identifier of its choice, and only what bears it.
        if !is_echo || self.is_raw && *id != self.id.to_be_bytes() {
            return None;
        }
        // Of those with this number the newest.
        let newest = self.records.len().checked_sub(1)?;
        let number = u16::from_be_bytes([*number_high, *number_low]);
        newest.checked_sub(usize::from((newest as u16).wrapping_sub(number)))
    }
}

impl AsFd for Pinger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes a socket ready; whether it is a raw one.
fn set_up(plan: &PingPlan, socket: BorrowedFd<'_>) -> io::Result<bool> {
    let is_raw = sockopt::socket_type(socket)? == SocketType::RAW;
    if is_raw {
        sys::set_echo_filter(socket, plan.to_address)?;
    }
    sys::set_tos(socket, plan.to_address, plan.dscp << 2 | plan.ecn)?;
    sys::set_stamps(socket)?;
    // From no other address does it get anything then.
    net::connect(socket, &SocketAddr::new(plan.to_address, 0))?;
    Ok(is_raw)
}

/// RFC 1071.
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

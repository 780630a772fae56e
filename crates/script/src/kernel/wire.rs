//! Segments as packets of the TUN device, and back.

use std::net::SocketAddr;

use knee_wire::Segment;

use crate::Refusal;
use crate::wire::{Origin, Packet, decode};

/// Where the initial sequence number of the script's peer is: nothing depends on it.
const PEER_ISS: u32 = 1_000_000;

/// The connection as its packets show it.
#[derive(Debug)]
pub(super) struct Wire {
    stack: SocketAddr,
    peer: SocketAddr,
    /// The stack's initial sequence number, from its SYN.
    stack_iss: Option<u32>,
    /// Window scales that the SYNs announced.
    stack_scale: Option<u8>,
    peer_scale: Option<u8>,
}

impl Wire {
    pub(super) fn new([stack, peer]: [SocketAddr; 2]) -> Wire {
        Wire { stack, peer, stack_iss: None, stack_scale: None, peer_scale: None }
    }

    /// Window scale of that side; 0 unless both sides negotiated it.
    fn scale(&self, of: Option<u8>) -> u8 {
        of.filter(|_| self.stack_scale.is_some() && self.peer_scale.is_some()).unwrap_or(0)
    }

    /// The packet of a segment from the peer.
    pub(super) fn encode(&mut self, segment: &Segment) -> Result<Vec<u8>, Refusal> {
        if segment.has(Segment::SYN) {
            self.peer_scale = segment.window_scale;
        }
        let origin = Origin {
            iss: PEER_ISS,
            peer_iss: self.stack_iss.unwrap_or(0),
            scale: self.scale(self.peer_scale),
        };
        Ok(Packet::absolute(segment, self.peer, self.stack, origin)?.encode()?)
    }

    /// The segment that a packet from the stack holds; `None`: it is not of this connection.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Option<Segment> {
        let packet = decode(bytes, u32::try_from(bytes.len()).ok()?)?;
        if (packet.source, packet.destination) != (self.stack, self.peer) {
            return None;
        }
        if packet.has(Segment::SYN) {
            self.stack_iss = Some(packet.seq);
            self.stack_scale = packet.window_scale;
        }
        Some(packet.relative(Origin {
            iss: self.stack_iss.unwrap_or(0),
            peer_iss: PEER_ISS,
            scale: self.scale(self.stack_scale),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sides;

    /// The wire between two, as each of them sees it; both count from the constant.
    fn both() -> [Wire; 2] {
        let [a, b] = sides(false);
        let mut script = Wire::new([a, b]);
        script.stack_iss = Some(PEER_ISS);
        [script, Wire::new([b, a])]
    }

    #[test]
    fn windows_are_scaled_once_both_have_agreed() {
        let [mut script, mut other] = both();
        let ack =
            |window_bytes| Segment { flags: Segment::ACK, window_bytes, ..Segment::default() };
        let syn = Segment {
            flags: Segment::SYN,
            window_bytes: 65_535,
            window_scale: Some(4),
            ..Segment::default()
        };
        assert_eq!(other.decode(&script.encode(&syn).unwrap()), Some(syn));
        // One side alone does not scale.
        assert!(script.encode(&ack(65_543)).is_err());
        (script.stack_scale, other.peer_scale) = (Some(0), Some(0));
        let packet = script.encode(&ack(65_543)).unwrap();
        assert_eq!(other.decode(&packet), Some(ack(65_536)));
    }

    #[test]
    fn packets_of_others_are_left_out() {
        let [mut script, mut other] = both();
        let ack = Segment { flags: Segment::ACK, seq: 1, ack: 1, ..Segment::default() };
        let packet = script.encode(&ack).unwrap();
        assert_eq!(script.decode(&packet), None, "it is its own");
        assert_eq!(other.decode(&packet[..30]), None);
        assert_eq!(other.decode(&[]), None);
    }
}

//! What a script's player saw, as a capture for other tools.

use super::link;
use crate::stack::Refusal;
use crate::wire::{Origin, Packet, sides};
use knee_sim::endpoint::Segment;
use knee_sim::tap::Tapped;

/// Says: classic pcap, times in ns.
const MAGIC: u32 = 0xa1b2_3c4d;
const MAX_PACKET_BYTES: u32 = 65_535;

/// The bytes of a pcap file of these segments. Times count from the start of the script, sequence numbers from 0, so
/// that a SYN is 0 as in scripts; payload is zeros.
///
/// # Errors
/// If a segment does not fit a packet.
pub fn write(segments: &[Tapped], ipv6: bool) -> Result<Vec<u8>, Refusal> {
    let mut file = Vec::new();
    let words = |file: &mut Vec<u8>, words: &[u32]| {
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    // Version 2.4.
    words(&mut file, &[MAGIC, 2 | 4 << 16, 0, 0, MAX_PACKET_BYTES, link::RAW]);
    let [stack, peer] = sides(ipv6);
    let mut scales = Scales::default();
    for tapped in segments {
        let Tapped { at, is_out, segment } = tapped;
        scales.look(*is_out, segment);
        let (source, destination) = if *is_out { (stack, peer) } else { (peer, stack) };
        let origin = Origin { scale: scales.of(*is_out), ..Origin::default() };
        let bytes = Packet::absolute(segment, source, destination, origin)?.encode()?;
        let len = bytes.len() as u32;
        let (s, ns) = (at.ns() / 1_000_000_000, at.ns() % 1_000_000_000);
        words(&mut file, &[u32::try_from(s).unwrap_or(u32::MAX), ns as u32, len, len]);
        file.extend(bytes);
    }
    Ok(file)
}

/// Window scales that the SYNs announced.
#[derive(Default)]
struct Scales {
    stack: Option<u8>,
    peer: Option<u8>,
}

impl Scales {
    fn look(&mut self, is_out: bool, segment: &Segment) {
        if segment.has(Segment::SYN) {
            *(if is_out { &mut self.stack } else { &mut self.peer }) = segment.window_scale;
        }
    }

    /// Both must have agreed to it.
    fn of(&self, is_out: bool) -> u8 {
        match (self.stack, self.peer) {
            (Some(stack), Some(peer)) => {
                if is_out {
                    stack
                } else {
                    peer
                }
            }
            _ => 0,
        }
    }
}

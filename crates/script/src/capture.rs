//! The segments of a played script as a capture file.

pub use knee_wire::{Captured, Ending, link, read};

use crate::stack::Refusal;
use crate::wire::{Origin, Packet, sides};
use knee_sim::tap::Tapped;
use knee_wire::Segment;
use knee_wire::{Direction, Interface, Record, Writer};

/// The bytes of a pcapng file of these segments. Times count from the start of the script, sequence numbers from 0, so
/// that a SYN is 0 as in scripts; payload is zeros.
///
/// # Errors
/// If a segment does not fit a packet.
pub fn write(segments: &[Tapped], ipv6: bool) -> Result<Vec<u8>, Refusal> {
    let interface = Interface { name: "script".to_owned(), link: link::RAW, snaplen: 0 };
    let mut file = Writer::new(Vec::new(), "the capture", &[interface])?;
    let [stack, peer] = sides(ipv6);
    let mut scales = Scales::default();
    for tapped in segments {
        let Tapped { at, is_out, segment } = tapped;
        scales.look(*is_out, segment);
        let (source, destination) = if *is_out { (stack, peer) } else { (peer, stack) };
        let origin = Origin { scale: scales.of(*is_out), ..Origin::default() };
        let data = Packet::absolute(segment, source, destination, origin)?.encode()?;
        file.write(&Record {
            at_ns: at.ns(),
            original_len: data.len() as u32,
            data: &data,
            direction: Some(if *is_out { Direction::Out } else { Direction::In }),
            ..Record::default()
        })?;
    }
    Ok(file.finish()?)
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

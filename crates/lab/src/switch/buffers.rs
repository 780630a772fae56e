//! Memory for frames in the switch.

use knee_queue::time::Duration;

use super::frame::Version;

/// Memory for frames in the switch: at 1500 bytes, 1.4 s of 1 Gbps. Frames beyond it are dropped and counted.
const MEMORY_BYTES: usize = 256 << 20;

/// A frame in the switch.
#[derive(Default)]
pub(super) struct Carried {
    /// The bytes of its offloads, then the frame.
    pub(super) bytes: Vec<u8>,
    /// The device that it leaves by.
    pub(super) device: u32,
    /// IP version; `None`: no IP packet.
    pub(super) version: Option<Version>,
    /// Delay from its arrival to its entry into the network.
    pub(super) late: Duration,
}

/// Places for frames, by number. Memory that a frame has used is used again.
pub(super) struct Buffers {
    places: Vec<Carried>,
    free: Vec<u32>,
    most: usize,
}

impl Buffers {
    /// For frames of up to `frame_bytes`, including their [`Offload`](super::segment::Offload).
    pub(super) fn new(frame_bytes: usize) -> Buffers {
        Buffers { places: Vec::new(), free: Vec::new(), most: MEMORY_BYTES / frame_bytes.max(1) }
    }

    /// An empty place; `None`: the memory is full.
    pub(super) fn take(&mut self, frame_bytes: usize) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            self.places[place as usize].bytes.clear();
            return Some(place);
        }
        if self.places.len() == self.most {
            return None;
        }
        self.places.push(Carried { bytes: Vec::with_capacity(frame_bytes), ..Carried::default() });
        Some(self.places.len() as u32 - 1)
    }

    pub(super) fn get(&self, place: u32) -> &Carried {
        &self.places[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Carried {
        &mut self.places[place as usize]
    }

    pub(super) fn free(&mut self, place: u32) {
        self.free.push(place);
    }
}

//! Packets: small plain values in a slab, never allocated one by one.

use knee_queue::Ecn;
pub(crate) use knee_run::spec::HEADER_BYTES;
use std::ops::Deref;

/// TCP flags and marks of a packet.
pub(crate) mod flags {
    pub(crate) const SYN: u16 = 1;
    pub(crate) const ACK: u16 = 2;
    pub(crate) const PSH: u16 = 4;
    pub(crate) const ECE: u16 = 8;
    pub(crate) const CWR: u16 = 16;
    /// The packet is a ping or its echo, not TCP.
    pub(crate) const PING: u16 = 32;
    /// The SYN permits SACK.
    pub(crate) const SACK_OK: u16 = 64;
    pub(crate) const FIN: u16 = 128;
    pub(crate) const RST: u16 = 256;
    /// The AE bit of Accurate ECN.
    pub(crate) const AE: u16 = 512;
    /// The packet has no timestamps.
    pub(crate) const NO_TS: u16 = 1024;
    /// The sender of this SYN does not scale windows.
    pub(crate) const NO_SCALE: u16 = 2048;
    /// The frame comes from outside the simulator; `seq` is the hash of its flow.
    pub(crate) const FRAME: u16 = 4096;
    /// The packet is not the first of its burst. Headers do not have this bit, so GRO ignores it.
    pub(crate) const IN_BURST: u16 = 8192;
    /// A switch has cut the payload off. The sequence numbers are still those of the whole segment.
    pub(crate) const TRIMMED: u16 = 16384;
}

/// Wire length of a SYN or SYN-ACK with MSS, SACK, timestamps and window scale.
pub(crate) const SYN_BYTES: u32 = 74;
/// The most SACK ranges of a packet without timestamps. With timestamps there is room for one less.
pub(crate) const MAX_SACKS: usize = 4;
/// The ranges of a packet without SACK.
pub(crate) const NO_SACKS: [(u32, u32); MAX_SACKS - 1] = [(0, 0); MAX_SACKS - 1];
/// Length of the timestamp option in every segment, bytes.
pub(crate) const TIMESTAMP_BYTES: u32 = 12;

/// The TOS or traffic-class byte of a packet: DSCP and ECN field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tos(u8);

impl Tos {
    /// Puts the DSCP into the six high bits and the ECN field into the others.
    pub(crate) const fn new(dscp: u8, ecn: Ecn) -> Tos {
        Tos(dscp << 2 | ecn as u8)
    }

    #[inline]
    pub(crate) const fn ecn(self) -> Ecn {
        Ecn::from_tos(self.0)
    }

    pub(crate) const fn dscp(self) -> u8 {
        self.0 >> 2
    }

    #[inline]
    pub(crate) fn set_ecn(&mut self, ecn: Ecn) {
        self.0 = self.0 & !3 | ecn as u8;
    }
}

/// A packet in flight, in one cache line. The `start` and `end` of ranges are sequence numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// Receiving socket or ping stream.
    pub(crate) to: u32,
    /// Position of the next link in the list of paths.
    pub(crate) hop: u32,
    pub(crate) wire_bytes: u32,
    pub(crate) seq: u32,
    /// `seq` plus payload, plus one for a SYN and one for a FIN.
    pub(crate) end_seq: u32,
    pub(crate) ack_seq: u32,
    /// Advertised window, bytes.
    pub(crate) window_bytes: u32,
    /// Timestamp value and echo, in ticks of 1 ms.
    pub(crate) ts_val: u32,
    pub(crate) ts_ecr: u32,
    pub(crate) flags: u16,
    pub(crate) tos: Tos,
    pub(crate) sacks_len: u8,
    /// The SACK ranges except the fourth, which a packet without timestamps stores in their fields.
    pub(crate) sacks: [(u32, u32); MAX_SACKS - 1],
}

/// The SACK ranges of a packet.
pub(crate) struct Sacks {
    ranges: [(u32, u32); MAX_SACKS],
    len: usize,
}

impl Deref for Sacks {
    type Target = [(u32, u32)];
    fn deref(&self) -> &[(u32, u32)] {
        &self.ranges[..self.len]
    }
}

impl Packet {
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns the hash by which disciplines with a queue per flow tell flows apart: the receiving
    /// end, or a frame's own hash.
    pub(crate) fn flow_hash(&self) -> u32 {
        if self.has(flags::FRAME) {
            self.seq
        } else {
            // Sockets and pings have separate numbers.
            self.to ^ u32::from(self.has(flags::PING)) << 31
        }
    }

    pub(crate) fn sacks(&self) -> Sacks {
        let mut ranges = [(self.ts_val, self.ts_ecr); MAX_SACKS];
        ranges[..MAX_SACKS - 1].copy_from_slice(&self.sacks);
        Sacks { ranges, len: self.sacks_len.into() }
    }

    /// Stores as many ranges as fit.
    #[inline]
    pub(crate) fn set_sacks(&mut self, ranges: &[(u32, u32)]) {
        let beside_timestamps = ranges.len().min(MAX_SACKS - 1);
        self.sacks[..beside_timestamps].copy_from_slice(&ranges[..beside_timestamps]);
        self.sacks_len = beside_timestamps as u8;
        if self.has(flags::NO_TS) && ranges.len() >= MAX_SACKS {
            (self.ts_val, self.ts_ecr) = ranges[MAX_SACKS - 1];
            self.sacks_len = MAX_SACKS as u8;
        }
    }

    /// Payload bytes; 0 for a SYN, a pure ACK and a ping.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u32 {
        if self.has(flags::SYN) { 0 } else { self.sequence_len() - u32::from(self.has(flags::FIN)) }
    }

    /// Returns the payload bytes that a switch may cut off; 0 for a ping and for a frame from outside.
    pub(crate) fn payload_to_trim(&self) -> u32 {
        let others = flags::SYN | flags::PING | flags::FRAME | flags::TRIMMED;
        if self.flags & others != 0 { 0 } else { self.payload_bytes() }
    }

    /// Reports whether the packet is a TCP segment with an ACK only.
    pub(crate) fn is_pure_ack(&self) -> bool {
        let others = flags::SYN | flags::FIN | flags::RST | flags::PING;
        self.flags & (flags::ACK | others) == flags::ACK && self.seq == self.end_seq
    }

    /// Returns the length in sequence space: the payload, plus one for a FIN.
    #[inline]
    pub(crate) fn sequence_len(&self) -> u32 {
        self.end_seq.wrapping_sub(self.seq)
    }
}

/// All packets in flight.
#[derive(Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = packet;
            id
        } else {
            self.slots.push(packet);
            self.slots.len() as u32 - 1
        }
    }

    /// The packets in the network.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Packet> {
        let mut is_free = vec![false; self.slots.len()];
        self.free.iter().for_each(|id| is_free[*id as usize] = true);
        self.slots.iter().zip(is_free).filter_map(|(packet, is_free)| (!is_free).then_some(packet))
    }

    /// Number of packets for which there is a slot.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Fetches a packet into the near cache.
    #[inline]
    pub(crate) fn fetch(&self, id: u32) {
        if let Some(packet) = self.slots.get(id as usize) {
            knee_prefetch::fetch(packet, 0..1);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Packet {
        &self.slots[id as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.slots[id as usize]
    }

    #[inline]
    pub(crate) fn free(&mut self, id: u32) {
        self.free.push(id);
    }
}

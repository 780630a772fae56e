//! Extensions to the kernel API on which BBR version 3 and TCP Prague are developed. Modules for
//! that API (`module::Api::V3`) have extra operations and see extra data. Recordings do not hold
//! these calls.

use std::mem::offset_of;

use crate::{Algorithm, Has, Host, Instance, Sk, TcpSock};

/// Flags of algorithms for a patched kernel's API.
const WANTS_CE_EVENTS: u32 = 4;
const NEEDS_ACCECN: u32 = 8;

/// Operations that mainline's table lacks.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PatchedOps {
    tso_segs: Option<unsafe extern "C" fn(Sk, u32) -> u32>,
    skb_marked_lost: Option<unsafe extern "C" fn(Sk, *const SentSegment)>,
}

impl PatchedOps {
    /// Returns the address of an operation's function.
    pub(crate) fn address(&self, operation: &str) -> Option<usize> {
        let function = match operation {
            "tso_segs" => self.tso_segs? as *const (),
            "skb_marked_lost" => self.skb_marked_lost? as *const (),
            _ => return None,
        };
        Some(function.addr())
    }
}

/// A segment as an operation sees it: `struct sk_buff` of `module_skb.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SentSegment {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Sequence number after the last byte.
    pub end_seq: u32,
    /// Number of segments in the buffer.
    pub gso_segs: u32,
    /// Bits of [`sent_mark`].
    pub sacked: u8,
    /// State at the last transmission.
    pub tx: SentState,
    /// Payload length in bytes.
    pub len: u32,
}

/// Values of the counters when a segment was last sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SentState {
    /// The application limited the flow at that time.
    pub is_app_limited: bool,
    /// Value of `delivered_ce`, in packets.
    pub delivered_ce: u32,
    /// Packets in flight, including this segment.
    pub in_flight: u32,
    /// Value of `delivered`, in packets.
    pub delivered: u32,
    /// Value of `lost`, in packets.
    pub lost: u32,
    /// Start of the send phase, in us.
    pub first_tx_mstamp: u64,
    /// Time of the last update of `delivered`, in us. 0 if the segment has been SACKed since.
    pub delivered_mstamp: u64,
}

// The layout matches the struct. `module_skb.h` asserts the same numbers.
const _: () = assert!(
    offset_of!(SentSegment, tx) == 16
        && offset_of!(SentSegment, tx.lost) == 32
        && offset_of!(SentSegment, tx.delivered_mstamp) == 48
        && offset_of!(SentSegment, len) == 56
);

/// Marks of a [`SentSegment`] (`TCPCB_...`).
pub mod sent_mark {
    /// The segment is SACKed.
    pub const SACKED: u8 = 1;
    /// The segment was retransmitted, and the retransmission is in flight.
    pub const RETRANS: u8 = 2;
    /// The segment is considered lost.
    pub const LOST: u8 = 4;
    /// The segment has been retransmitted at some time.
    pub const EVER_RETRANS: u8 = 128;
}

impl Has {
    /// Adds the operations that a module for a patched kernel's API has.
    pub(crate) fn with_patched(mut self, is_patched: bool, patched: PatchedOps) -> Has {
        self.is_patched = is_patched;
        self.skb_marked_lost = patched.skb_marked_lost.is_some();
        self.tso_segs = patched.tso_segs.is_some();
        let tso_segs = if is_patched { "tso_segs" } else { "tso_segs_goal" };
        self.operations.extend(patched.tso_segs.map(|_| tso_segs));
        self.operations.extend(patched.skb_marked_lost.map(|_| "skb_marked_lost"));
        self
    }
}

impl Algorithm {
    /// Returns whether the algorithm is written for a patched kernel's API.
    #[inline]
    pub fn is_patched(&self) -> bool {
        self.has.is_patched
    }

    /// Returns whether the algorithm has `tso_segs`, which sets the number of segments per burst.
    #[inline]
    pub fn has_tso_segs(&self) -> bool {
        self.has.tso_segs
    }

    /// Returns whether the algorithm has `min_tso_segs`, in place of the sysctl.
    #[inline]
    pub fn has_min_tso_segs(&self) -> bool {
        self.has.min_tso_segs
    }

    /// Returns whether the algorithm has `skb_marked_lost`, which reports each segment marked lost.
    #[inline]
    pub fn has_skb_marked_lost(&self) -> bool {
        self.has.skb_marked_lost
    }

    /// Returns whether the algorithm wants an event for each data segment, with or without CE.
    #[inline]
    pub fn wants_ce_events(&self) -> bool {
        self.needs_ecn() || (self.has.is_patched && self.flags & WANTS_CE_EVENTS != 0)
    }

    /// Returns whether connections report the number of packets with CE (Accurate ECN, RFC 9768) if
    /// both ends support it.
    pub fn needs_accecn(&self) -> bool {
        self.has.is_patched && self.flags & NEEDS_ACCECN != 0
    }
}

impl Instance {
    /// Returns the number of segments per burst for this MSS. `None` leaves it to the kernel's
    /// rule: the algorithm has no such operation, or returns 0 in the API before 4.17.
    pub fn tso_segs(&mut self, sock: &mut TcpSock, host: &mut Host, mss: u32) -> Option<u32> {
        let tso_segs = self.running.as_ref()?.patched.tso_segs?;
        // SAFETY: see `Instance::with`; the table of the copy in use has this operation.
        let run = |_: *const _, sk, _: *mut Host| unsafe { tso_segs(sk, mss) };
        let name = if self.algorithm.is_patched() { &"tso_segs" } else { &"tso_segs_goal" };
        let segs = self.with_pointers(sock, host, || name, run);
        Some(segs).filter(|segs| *segs > 0 || self.algorithm.is_patched())
    }

    /// Reports a segment that was just marked lost.
    pub fn skb_marked_lost(&mut self, sock: &mut TcpSock, host: &mut Host, segment: &SentSegment) {
        let Some(running) = &self.running else { return };
        let Some(skb_marked_lost) = running.patched.skb_marked_lost else { return };
        // SAFETY: as above; the operation only reads the segment, whose layout both sides assert.
        let run = |_: *const _, sk, _: *mut Host| unsafe {
            skb_marked_lost(sk, segment);
            0
        };
        self.with_pointers(sock, host, || &"skb_marked_lost", run);
    }
}

//! What kernels have beyond mainline's that BBR version 3 and TCP Prague are developed on: the operations that only modules of that
//! API have (`module::Api::V3`), and what they are shown. No recording holds these calls.

use std::mem::offset_of;

use crate::{Algorithm, Has, Host, Instance, Sk, TcpSock};

/// Flags of such an algorithm.
const WANTS_CE_EVENTS: u32 = 4;
const NEEDS_ACCECN: u32 = 8;

/// Operations that mainline's table has not.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PatchedOps {
    tso_segs: Option<unsafe extern "C" fn(Sk, u32) -> u32>,
    skb_marked_lost: Option<unsafe extern "C" fn(Sk, *const SentSegment)>,
}

impl PatchedOps {
    /// Where the function of an operation is.
    pub(crate) fn address(&self, operation: &str) -> Option<usize> {
        let function = match operation {
            "tso_segs" => self.tso_segs? as *const (),
            "skb_marked_lost" => self.skb_marked_lost? as *const (),
            _ => return None,
        };
        Some(function.addr())
    }
}

/// A segment as an operation is shown it: `struct sk_buff` of `module_skb.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SentSegment {
    /// First byte.
    pub seq: u32,
    /// One beyond the last.
    pub end_seq: u32,
    /// Segments of it.
    pub gso_segs: u32,
    /// [`sent_mark`]s.
    pub sacked: u8,
    /// How it was last sent.
    pub tx: SentState,
    /// Bytes of payload.
    pub len: u32,
}

/// What the counters were when a segment was last sent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SentState {
    /// The application limited the flow.
    pub is_app_limited: bool,
    /// `delivered_ce`.
    pub delivered_ce: u32,
    /// Packets in flight, itself among them.
    pub in_flight: u32,
    /// `delivered`.
    pub delivered: u32,
    /// `lost`.
    pub lost: u32,
    /// Start of the send phase, us.
    pub first_tx_mstamp: u64,
    /// When `delivered` was current, us; 0: it was SACKed since.
    pub delivered_mstamp: u64,
}

// As the struct has it: module_skb.h asserts the same numbers.
const _: () = assert!(
    offset_of!(SentSegment, tx) == 16
        && offset_of!(SentSegment, tx.lost) == 32
        && offset_of!(SentSegment, tx.delivered_mstamp) == 48
        && offset_of!(SentSegment, len) == 56
);

/// Marks of a [`SentSegment`] (`TCPCB_...`).
pub mod sent_mark {
    /// SACKed.
    pub const SACKED: u8 = 1;
    /// Sent again, and that is in flight.
    pub const RETRANS: u8 = 2;
    /// Thought lost.
    pub const LOST: u8 = 4;
    /// Sent again at some time.
    pub const EVER_RETRANS: u8 = 128;
}

impl Has {
    /// With what a module of a patched kernel's API has besides.
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
    /// Whether it is written against a patched kernel's API.
    #[inline]
    pub fn is_patched(&self) -> bool {
        self.has.is_patched
    }

    /// Whether it says how many segments a burst has.
    #[inline]
    pub fn has_tso_segs(&self) -> bool {
        self.has.tso_segs
    }

    /// Whether it hears of each segment that is marked lost.
    #[inline]
    pub fn has_skb_marked_lost(&self) -> bool {
        self.has.skb_marked_lost
    }

    /// Whether it hears of each data segment whether it came with CE.
    #[inline]
    pub fn wants_ce_events(&self) -> bool {
        self.needs_ecn() || (self.has.is_patched && self.flags & WANTS_CE_EVENTS != 0)
    }

    /// Whether its connections tell how many packets came with CE (RFC 9768), where both ends ask for it.
    pub fn needs_accecn(&self) -> bool {
        self.has.is_patched && self.flags & NEEDS_ACCECN != 0
    }
}

impl Instance {
    /// Segments per burst for this MSS; `None`: it does not say, and the kernel's own rule holds. In kernels before 4.17 that is 0.
    pub fn tso_segs(&mut self, sock: &mut TcpSock, host: &mut Host, mss: u32) -> Option<u32> {
        let tso_segs = self.running.as_ref()?.patched.tso_segs?;
        // SAFETY: see `Instance::with`; the table of the copy in use has this operation.
        let run = |_: *const _, sk, _: *mut Host| unsafe { tso_segs(sk, mss) };
        let name = if self.algorithm.is_patched() { &"tso_segs" } else { &"tso_segs_goal" };
        let segs = self.with_pointers(sock, host, || name, run);
        Some(segs).filter(|segs| *segs > 0 || self.algorithm.is_patched())
    }

    /// A segment was just marked lost.
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

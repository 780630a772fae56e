//! How much may wait, and how much until packets are marked.

use crate::time::Duration;

/// Length of a queue, without the packet in transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backlog {
    pub pkts: u32,
    pub bytes: u64,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many packets (Linux `pfifo`).
    Pkts(u32),
    /// This many bytes: a packet fits if it fits whole (Linux `bfifo`). The reference runs' buffers are
    /// packets x 1514.
    Bytes(u64),
}

impl Limit {
    /// No limit.
    pub const UNLIMITED: Limit = Limit::Bytes(u64::MAX);

    /// Whether a packet of `len_bytes` fits behind `backlog`.
    #[inline]
    pub const fn has_room(self, backlog: Backlog, len_bytes: u32) -> bool {
        match self {
            Limit::Pkts(limit) => backlog.pkts < limit,
            Limit::Bytes(limit) => backlog.bytes.saturating_add(len_bytes as u64) <= limit,
        }
    }
}

/// The marking threshold K, and the quantity that is compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Pkts(u32),
    Bytes(u64),
    /// The time that the packet has waited; known at dequeue only.
    Sojourn(Duration),
}

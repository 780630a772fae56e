//! The traits of queue disciplines and AQMs, and their counters.

use crate::packet::{Ecn, Packet};
use crate::time::{Duration, Time};
use knee_units::Backlog;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// No room: tail drop. Also a packet that is longer than the burst of a [`Shaped`](crate::Shaped) queue.
    Full,
    /// Above the marking threshold, and not ECN-capable.
    NotEct,
    /// Chosen by the probability of an AQM, or above the rate of a policer, before the queue was full.
    Early,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueAction {
    /// Accepted as it is.
    Queued,
    /// Accepted, and carries CE (it may have carried it before).
    Marked,
    Dropped(DropReason),
}

/// A packet about to leave a FIFO, as an [`Admission`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The queue after this packet left.
    pub behind: Backlog,
    pub len_bytes: u32,
    pub ecn: Ecn,
    pub enqueued_at: Time,
}

/// The policy of a FIFO discipline (tail drop or AQM), apart from the FIFO itself.
///
/// Drop-tail and step marking at enqueue need [`admit`](Admission::admit) only. As its answer depends on
/// nothing but the backlog found, a simulator that knows when packets leave can ask at arrival and
/// keep no queue at all. The other methods are for policies that also act later.
pub trait Admission {
    /// Decides about a packet of `len_bytes` that finds `backlog` waiting, itself not counted.
    /// `Marked` means that the caller sets CE.
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, now: Time) -> QueueAction;

    /// Decides about a packet as it leaves: `Queued` lets it go as it is.
    fn release(&mut self, _departure: Departure, _now: Time) -> QueueAction {
        QueueAction::Queued
    }

    /// Does what was due at the time that [`next_event`](Admission::next_event) gave.
    fn tick(&mut self, _backlog: Backlog, _now: Time) {}

    /// When to call [`tick`](Admission::tick); never earlier than `now`.
    fn next_event(&self, _now: Time) -> Option<Time> {
        None
    }

    /// How many packets have met a marking threshold so far; see [`Stats::threshold_hits`].
    fn threshold_hits(&self) -> u64 {
        0
    }

    /// Internal state of the AQM, for sampling.
    fn inside(&self) -> Option<Inside> {
        None
    }
}

/// A queue discipline.
///
/// `now` never decreases from one call to the next.
pub trait Qdisc<P: Packet> {
    /// Takes the packet in, or drops it. Sets CE itself when the answer is `Marked`.
    fn enqueue(&mut self, pkt: P, now: Time) -> QueueAction;

    /// Gives the next packet, or `None` if none may leave now. May drop packets on the way to it.
    fn dequeue(&mut self, now: Time) -> Option<P>;

    /// The length in bytes of the packet that the next successful [`dequeue`](Qdisc::dequeue) will give.
    ///
    /// For a shaper above this queue. What a discipline decides at departure (a mark, a measured delay)
    /// it decides here, since transmission begins; the packet counts as waiting until it is dequeued.
    fn peek(&mut self, now: Time) -> Option<u32>;

    /// Counts as dropped ([`DropReason::Full`]) a packet of `len_bytes` that a shaper above did not pass on.
    fn refuse(&mut self, len_bytes: u32) -> QueueAction;

    /// When something will happen by itself; never earlier than `now`. The host then calls
    /// [`tick`](Qdisc::tick), and [`dequeue`](Qdisc::dequeue) if the link is free.
    fn next_event(&self, now: Time) -> Option<Time>;

    /// Does what was due at the time that [`next_event`](Qdisc::next_event) gave; harmless at any other.
    fn tick(&mut self, _now: Time) {}

    /// Queue length in packets, without the packet in transmission.
    fn len_pkts(&self) -> u32;

    /// Queue length in bytes, without the packet in transmission.
    fn len_bytes(&self) -> u64;

    /// Counters since the queue was built.
    fn stats(&self) -> &Stats;

    /// The inner state of a discipline that has one, for sampling.
    fn inside(&self) -> Option<Inside> {
        None
    }

    /// The figures of one of the queues that it consists of, in the order of
    /// [`QueueConfig::part_names`](crate::QueueConfig::part_names); `None`: there is no such part.
    fn part(&self, _index: usize) -> Option<Part> {
        None
    }
}

/// One of the queues that a discipline consists of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub backlog: Backlog,
    /// Counters of the packets of this part.
    pub stats: Stats,
    pub inside: Option<Inside>,
}

/// Internal state of an AQM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inside {
    /// Drop probability; PIE's can pass 1. `None`: the AQM has none.
    pub drop_probability: Option<f64>,
    /// Queueing delay that the AQM acts on.
    pub qdelay: Option<Duration>,
}

/// Counters of a queue. Offered = dequeued + dropped + still waiting, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets accepted (some disciplines drop a few of them later, at dequeue).
    pub enqueued_pkts: u64,
    pub enqueued_bytes: u64,
    pub dequeued_pkts: u64,
    pub dequeued_bytes: u64,
    /// Packets accepted that this queue marked or would have marked had they not been CE already.
    pub marked_pkts: u64,
    /// Packets that met a marking threshold: marked, queued unmarked or dropped, for want of ECN or then
    /// by the full buffer. This is what Linux RED counts as `overlimits`.
    pub threshold_hits: u64,
    /// Packets dropped by tail drop.
    pub dropped_full_pkts: u64,
    /// Packets dropped above a marking threshold for not being ECN-capable.
    pub dropped_not_ect_pkts: u64,
    /// Packets dropped by an AQM's probability.
    pub dropped_early_pkts: u64,
    /// Bytes dropped for any reason.
    pub dropped_bytes: u64,
    /// Packets accepted whose payload was cut off here; bytes count them without it.
    pub trimmed_pkts: u64,
}

impl Stats {
    /// Packets dropped for any reason.
    pub const fn dropped_pkts(&self) -> u64 {
        self.dropped_full_pkts + self.dropped_not_ect_pkts + self.dropped_early_pkts
    }

    /// Adds the counts of another queue.
    pub(crate) fn add(&mut self, other: &Stats) {
        self.enqueued_pkts += other.enqueued_pkts;
        self.enqueued_bytes += other.enqueued_bytes;
        self.dequeued_pkts += other.dequeued_pkts;
        self.dequeued_bytes += other.dequeued_bytes;
        self.marked_pkts += other.marked_pkts;
        self.threshold_hits += other.threshold_hits;
        self.dropped_full_pkts += other.dropped_full_pkts;
        self.dropped_not_ect_pkts += other.dropped_not_ect_pkts;
        self.dropped_early_pkts += other.dropped_early_pkts;
        self.dropped_bytes += other.dropped_bytes;
        self.trimmed_pkts += other.trimmed_pkts;
    }

    pub(crate) fn count_enqueued(&mut self, len_bytes: u32) {
        self.enqueued_pkts += 1;
        self.enqueued_bytes += u64::from(len_bytes);
    }

    /// Takes back [`Stats::count_enqueued`]: the packet went at once.
    pub(crate) fn uncount_enqueued(&mut self, len_bytes: u32) {
        self.enqueued_pkts -= 1;
        self.enqueued_bytes -= u64::from(len_bytes);
    }

    pub(crate) fn count_dequeued(&mut self, len_bytes: u32) {
        self.dequeued_pkts += 1;
        self.dequeued_bytes += u64::from(len_bytes);
    }

    pub(crate) fn count_dropped(&mut self, reason: DropReason, len_bytes: u32) {
        match reason {
            DropReason::Full => self.dropped_full_pkts += 1,
            DropReason::NotEct => self.dropped_not_ect_pkts += 1,
            DropReason::Early => self.dropped_early_pkts += 1,
        }
        self.dropped_bytes += u64::from(len_bytes);
    }
}

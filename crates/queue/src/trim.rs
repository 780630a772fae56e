//! Packet trimming: a packet that finds no room loses its payload, and its headers go on ahead of all data.
//!
//! As NDP (SIGCOMM 2017) and Ultra Ethernet do it, with step marking for what fits. The headers have a short queue of their
//! own, which is served first. A receiver that knows of trimming learns at once what is missing; one that does not drops the
//! rest as it would drop any broken packet.

use crate::droptail::{DropTail, DropTailConfig};
use crate::fifo::Fifo;
use crate::packet::Packet;
use crate::qdisc::{DropReason, Qdisc, QueueAction, Stats};
use crate::settings::{PortProperties, Settings, drain};
use crate::step::{MarkAt, MarkWhen, NotEctAbove, Step, StepConfig};
use crate::time::{Duration, Rate, Time};
use knee_units::settings::{Setting, Visit, key};
use knee_units::{Backlog, Limit, Threshold};

/// Settings of a queue that trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimConfig {
    /// How much may wait of packets that are whole.
    pub limit: Limit,
    /// Marking threshold of whole packets, at arrival.
    pub threshold: Threshold,
    /// How many headers may wait.
    pub headers_pkts: u32,
}

impl Settings for TrimConfig {
    fn kind(&self) -> &'static str {
        "trim"
    }

    fn at(_place: PortProperties) -> TrimConfig {
        TrimConfig {
            limit: Limit::UNLIMITED,
            threshold: Threshold::Pkts(u32::MAX),
            headers_pkts: 1000,
        }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.limit(&mut self.limit);
        v.key(
            key("k", "Marking threshold of whole packets: packets or bytes.").needed("65 pkts"),
            Setting::Threshold(&mut self.threshold),
        );
        v.key(
            key("headers", "Limit of the queue of headers."),
            Setting::Pkts(&mut self.headers_pkts),
        );
        if matches!(self.threshold, Threshold::Sojourn(_)) {
            v.refuse("k", "a queue that trims marks at arrival, by packets or bytes");
        }
    }

    fn acts_at(&self, rate: Rate) -> Option<Duration> {
        match self.threshold {
            Threshold::Pkts(k) => Some(drain(rate, u64::from(k) * 1514)),
            Threshold::Bytes(k) => Some(drain(rate, k)),
            Threshold::Sojourn(_) => None,
        }
    }

    fn drops_early(&self) -> Option<&'static str> {
        None
    }
}

/// A queue of whole packets, and one of headers before it.
#[derive(Clone, Debug)]
pub struct Trim<P> {
    limit: Limit,
    whole: Fifo<Step, P>,
    headers: Fifo<DropTail, P>,
    /// Whether the next packet is one of headers, once a shaper has asked for its length.
    next_is_headers: Option<bool>,
    stats: Stats,
}

impl<P: Packet> Trim<P> {
    /// An empty queue with these settings.
    pub fn new(config: TrimConfig) -> Trim<P> {
        let step = StepConfig {
            limit: config.limit,
            threshold: config.threshold,
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Queue,
        };
        let headers = DropTailConfig { limit: Limit::Pkts(config.headers_pkts) };
        Trim {
            limit: config.limit,
            whole: Fifo::new(Step::new(step)),
            headers: Fifo::new(DropTail::new(headers)),
            next_is_headers: None,
            stats: Stats::default(),
        }
    }

    fn sum_up(&mut self) {
        let trimmed_pkts = self.stats.trimmed_pkts;
        self.stats = *self.whole.stats();
        self.stats.add(self.headers.stats());
        self.stats.trimmed_pkts = trimmed_pkts;
    }

    fn takes_headers(&self) -> bool {
        self.next_is_headers.unwrap_or(self.headers.len_pkts() > 0)
    }
}

impl<P: Packet> Qdisc<P> for Trim<P> {
    /// What cannot be trimmed and finds no room is dropped, and so are headers that find none. Packets trimmed elsewhere
    /// go ahead, too.
    fn enqueue(&mut self, mut pkt: P, now: Time) -> QueueAction {
        let waiting = Backlog { pkts: self.whole.len_pkts(), bytes: self.whole.len_bytes() };
        let has_room = self.limit.has_room(waiting, pkt.len_bytes());
        let action = if pkt.is_trimmed() {
            self.headers.enqueue(pkt, now)
        } else if has_room || !pkt.trim() {
            self.whole.enqueue(pkt, now)
        } else {
            let action = self.headers.enqueue(pkt, now);
            self.stats.trimmed_pkts += u64::from(action == QueueAction::Queued);
            action
        };
        self.sum_up();
        action
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let taken = match self.takes_headers() {
            true => self.headers.dequeue(now),
            false => self.whole.dequeue(now),
        };
        self.next_is_headers = None;
        self.sum_up();
        taken
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        let takes_headers = self.takes_headers();
        let len_bytes = match takes_headers {
            true => self.headers.peek(now),
            false => self.whole.peek(now),
        };
        self.next_is_headers = len_bytes.map(|_| takes_headers);
        len_bytes
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.whole.refuse(len_bytes);
        self.sum_up();
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, _now: Time) -> Option<Time> {
        None
    }

    fn len_pkts(&self) -> u32 {
        self.whole.len_pkts() + self.headers.len_pkts()
    }

    fn len_bytes(&self) -> u64 {
        self.whole.len_bytes() + self.headers.len_bytes()
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;

    /// A packet with 66 bytes of headers.
    #[derive(Debug, PartialEq)]
    struct Segment {
        id: u32,
        len_bytes: u32,
        is_trimmed: bool,
        is_marked: bool,
    }

    impl Packet for Segment {
        fn len_bytes(&self) -> u32 {
            self.len_bytes
        }
        fn ecn(&self) -> Ecn {
            Ecn::Ect0
        }
        fn set_ce(&mut self) {
            self.is_marked = true;
        }
        fn trim(&mut self) -> bool {
            let has_payload = self.len_bytes > 66;
            self.len_bytes = 66;
            self.is_trimmed |= has_payload;
            has_payload
        }
        fn is_trimmed(&self) -> bool {
            self.is_trimmed
        }
    }

    fn queue(limit: u32, k: u32, headers_pkts: u32) -> Trim<Segment> {
        let (limit, threshold) = (Limit::Pkts(limit), Threshold::Pkts(k));
        Trim::new(TrimConfig { limit, threshold, headers_pkts })
    }

    fn offer(queue: &mut Trim<Segment>, id: u32, len_bytes: u32) -> QueueAction {
        let (is_trimmed, is_marked) = (false, false);
        queue.enqueue(Segment { id, len_bytes, is_trimmed, is_marked }, Time::ZERO)
    }

    fn ids(queue: &mut Trim<Segment>) -> Vec<u32> {
        std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|segment| segment.id).collect()
    }

    #[test]
    fn headers_of_what_finds_no_room_go_ahead_of_all_data() {
        let mut queue = queue(2, 9, 9);
        for id in 0..4 {
            assert_eq!(offer(&mut queue, id, 1514), QueueAction::Queued);
        }
        assert_eq!((queue.len_pkts(), queue.len_bytes()), (4, 2 * 1514 + 2 * 66));
        assert_eq!(ids(&mut queue), [2, 3, 0, 1]);
        let stats = queue.stats();
        assert_eq!((stats.trimmed_pkts, stats.dequeued_pkts, stats.dropped_pkts()), (2, 4, 0));
        assert_eq!(stats.dequeued_bytes, 2 * 1514 + 2 * 66);
    }

    #[test]
    fn without_payload_or_room_for_headers_packets_are_dropped() {
        let mut queue = queue(1, 9, 1);
        let full = QueueAction::Dropped(DropReason::Full);
        assert_eq!(offer(&mut queue, 0, 1514), QueueAction::Queued);
        assert_eq!(offer(&mut queue, 1, 66), full);
        assert_eq!(offer(&mut queue, 2, 1514), QueueAction::Queued);
        assert_eq!(offer(&mut queue, 3, 1514), full);
        assert_eq!((queue.stats().trimmed_pkts, queue.stats().dropped_full_pkts), (1, 2));
        assert_eq!(ids(&mut queue), [2, 0]);
    }

    #[test]
    fn trimmed_elsewhere_goes_ahead_and_is_not_counted_again() {
        let mut queue = queue(5, 9, 5);
        offer(&mut queue, 0, 1514);
        let before = Segment { id: 1, len_bytes: 66, is_trimmed: true, is_marked: false };
        assert_eq!(queue.enqueue(before, Time::ZERO), QueueAction::Queued);
        assert_eq!((queue.stats().trimmed_pkts, ids(&mut queue)), (0, vec![1, 0]));
    }

    #[test]
    fn what_fits_is_marked_from_k_on_and_what_a_shaper_saw_leaves_next() {
        let mut queue = queue(2, 1, 5);
        let actions = [0, 1].map(|id| offer(&mut queue, id, 1514));
        assert_eq!(actions, [QueueAction::Queued, QueueAction::Marked]);
        // The shaper has seen the length of a whole packet before the headers come.
        assert_eq!(queue.peek(Time::ZERO), Some(1514));
        offer(&mut queue, 2, 1514);
        assert_eq!(ids(&mut queue), [0, 2, 1]);
    }
}

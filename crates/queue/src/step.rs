//! Step marking, as DCTCP wants it of a switch: mark every packet while the queue stands at K or more.
//!
//! No averaging and no randomness. Linux RED with min = max = K and Wlog = 0, under a `tbf` parent, does
//! the same as [`MarkAt::AtLeast`] with [`MarkWhen::Enqueue`] (Linux 6.1).

use crate::packet::Ecn;
use crate::qdisc::{Admission, Departure, DropReason, QueueAction};
use crate::settings::{PortProperties, Settings, drain};
use crate::time::{Duration, Rate, Time};
use knee_units::settings::{Setting, Visit, key};
use knee_units::{Backlog, Limit, Threshold};

/// Whether a value equal to K is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkAt {
    /// K or more.
    #[default]
    AtLeast,
    /// More than K.
    Above,
}

/// When a packet is held against the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkWhen {
    /// On arrival, against what it finds waiting, itself not counted.
    #[default]
    Enqueue,
    /// On leaving, against what stays waiting behind it, or its own sojourn time. Below a shaper this is
    /// when the packet becomes the head (see [`Qdisc::peek`](crate::Qdisc::peek)).
    Dequeue,
}

/// Treatment of packets above the threshold that are not ECN-capable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotEctAbove {
    /// Queue it as below the threshold (Linux RED's `nodrop`).
    #[default]
    Queue,
    /// Drop it.
    Drop,
}

impl NotEctAbove {
    pub(crate) const WORDS: [(&'static str, NotEctAbove); 2] =
        [("queue", NotEctAbove::Queue), ("drop", NotEctAbove::Drop)];
}

/// Settings of a step-marking queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepConfig {
    /// How much may wait.
    pub limit: Limit,
    /// Marking threshold K.
    pub threshold: Threshold,
    /// Whether a value equal to K is marked.
    pub mark_at: MarkAt,
    /// When a packet is held against K.
    pub when: MarkWhen,
    pub not_ect: NotEctAbove,
}

impl StepConfig {
    /// Whether it marks at arrival, by the backlog found.
    pub(crate) fn decides_at_arrival(&self) -> bool {
        self.when == MarkWhen::Enqueue && !matches!(self.threshold, Threshold::Sojourn(_))
    }
}

impl Settings for StepConfig {
    fn kind(&self) -> &'static str {
        "step"
    }

    fn at(_place: PortProperties) -> StepConfig {
        StepConfig {
            limit: Limit::UNLIMITED,
            threshold: Threshold::Pkts(u32::MAX),
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Queue,
        }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.limit(&mut self.limit);
        v.key(
            key("k", "Threshold: packets, bytes or sojourn time.").needed("65 pkts"),
            Setting::Threshold(&mut self.threshold),
        );
        v.word(
            key("mark_at", "Mark at or above the threshold."),
            &mut self.mark_at,
            &[(">=", MarkAt::AtLeast), (">", MarkAt::Above)],
        );
        let mark_when = [("enqueue", MarkWhen::Enqueue), ("dequeue", MarkWhen::Dequeue)];
        v.word(
            key(
                "mark_when",
                "Mark on enqueue by backlog, or on dequeue by backlog or sojourn time.",
            ),
            &mut self.when,
            &mark_when,
        );
        v.word(
            key("not_ect", "Action on Not-ECT packets above the threshold."),
            &mut self.not_ect,
            &NotEctAbove::WORDS,
        );
        if matches!((self.threshold, self.when), (Threshold::Sojourn(_), MarkWhen::Enqueue)) {
            v.refuse(
                "k",
                "a sojourn-time threshold needs marking at dequeue: how long a packet will wait is not known at enqueue",
            );
        }
    }

    fn acts_at(&self, rate: Rate) -> Option<Duration> {
        // "Above K" is K and one more.
        let more = u64::from(self.mark_at == MarkAt::Above);
        Some(match self.threshold {
            Threshold::Pkts(k) => drain(rate, (u64::from(k) + more) * 1514),
            Threshold::Bytes(k) => drain(rate, k),
            Threshold::Sojourn(k) => k,
        })
    }

    fn drops_early(&self) -> Option<&'static str> {
        (self.not_ect == NotEctAbove::Drop).then_some("drops what is not ECN-capable above K")
    }
}

/// Step marking at a threshold K (RFC 8257 3.1).
#[derive(Clone, Copy, Debug)]
pub struct Step {
    config: StepConfig,
    threshold_hits: u64,
}

impl Step {
    /// A queue with these settings.
    pub const fn new(config: StepConfig) -> Step {
        Step { config, threshold_hits: 0 }
    }

    fn reaches_threshold(&self, backlog: Backlog, sojourn: Duration) -> bool {
        let (value, k) = match self.config.threshold {
            Threshold::Pkts(k) => (u64::from(backlog.pkts), u64::from(k)),
            Threshold::Bytes(k) => (backlog.bytes, k),
            Threshold::Sojourn(k) => (sojourn.ps(), k.ps()),
        };
        match self.config.mark_at {
            MarkAt::AtLeast => value >= k,
            MarkAt::Above => value > k,
        }
    }

    fn on_above_threshold(&mut self, ecn: Ecn) -> QueueAction {
        self.threshold_hits += 1;
        match self.config.not_ect {
            _ if ecn.is_capable() => QueueAction::Marked,
            NotEctAbove::Queue => QueueAction::Queued,
            NotEctAbove::Drop => QueueAction::Dropped(DropReason::NotEct),
        }
    }
}

impl Admission for Step {
    /// The threshold comes before the tail drop, as in Linux RED: a packet that finds the buffer full
    /// counts too, and one that is not ECN-capable is then dropped as [`DropReason::NotEct`].
    #[inline]
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, _now: Time) -> QueueAction {
        let is_above = self.config.when == MarkWhen::Enqueue
            && self.reaches_threshold(backlog, Duration::ZERO);
        let action = if is_above { self.on_above_threshold(ecn) } else { QueueAction::Queued };
        let is_dropped = matches!(action, QueueAction::Dropped(_));
        if is_dropped || self.config.limit.has_room(backlog, len_bytes) {
            action
        } else {
            QueueAction::Dropped(DropReason::Full)
        }
    }

    #[inline]
    fn release(&mut self, departure: Departure, now: Time) -> QueueAction {
        let sojourn = now.since(departure.enqueued_at);
        if self.config.when == MarkWhen::Dequeue
            && self.reaches_threshold(departure.behind, sojourn)
        {
            self.on_above_threshold(departure.ecn)
        } else {
            QueueAction::Queued
        }
    }

    fn threshold_hits(&self) -> u64 {
        self.threshold_hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::Fifo;
    use crate::qdisc::Qdisc;
    use crate::testing::{Pkt, full};

    /// K = 2 packets, room for 4.
    const CONFIG: StepConfig = StepConfig {
        limit: Limit::Pkts(4),
        threshold: Threshold::Pkts(2),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };

    fn queue(config: StepConfig) -> Fifo<Step, Pkt> {
        Fifo::new(Step::new(config))
    }

    fn enqueue_all(queue: &mut Fifo<Step, Pkt>, ecn: Ecn, count: u64) -> Vec<QueueAction> {
        (0..count).map(|id| queue.enqueue(full(id, ecn), Time::ZERO)).collect()
    }

    const FULL: QueueAction = QueueAction::Dropped(DropReason::Full);
    const NOT_ECT: QueueAction = QueueAction::Dropped(DropReason::NotEct);
    use QueueAction::{Marked, Queued};

    #[test]
    fn a_packet_that_finds_k_waiting_is_marked() {
        let mut queue = queue(CONFIG);
        assert_eq!(enqueue_all(&mut queue, Ecn::Ect0, 5), [Queued, Queued, Marked, Marked, FULL]);
        // The packet dropped by the full buffer had met the threshold first.
        assert_eq!(queue.stats().threshold_hits, 3);
        assert_eq!(queue.stats().marked_pkts, 2);
        let ecn = |queue: &mut Fifo<Step, Pkt>| queue.dequeue(Time::ZERO).unwrap().ecn;
        assert_eq!([(); 4].map(|()| ecn(&mut queue)), [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce]);
    }

    #[test]
    fn above_k_leaves_k_itself_unmarked() {
        let mut queue = queue(StepConfig { mark_at: MarkAt::Above, ..CONFIG });
        assert_eq!(enqueue_all(&mut queue, Ecn::Ect1, 4), [Queued, Queued, Queued, Marked]);
    }

    #[test]
    fn bytes_are_counted_without_the_arriving_packet() {
        let mut queue = queue(StepConfig { threshold: Threshold::Bytes(2 * 1514 + 1), ..CONFIG });
        assert_eq!(enqueue_all(&mut queue, Ecn::Ect0, 4), [Queued, Queued, Queued, Marked]);
    }

    #[test]
    fn a_packet_that_is_ce_already_counts_as_marked() {
        let mut queue = queue(CONFIG);
        assert_eq!(enqueue_all(&mut queue, Ecn::Ce, 3), [Queued, Queued, Marked]);
        assert_eq!(queue.stats().marked_pkts, 1);
    }

    #[test]
    fn not_ect_above_k_is_queued_or_dropped_as_asked() {
        let mut queues = queue(CONFIG);
        assert_eq!(
            enqueue_all(&mut queues, Ecn::NotEct, 5),
            [Queued, Queued, Queued, Queued, FULL]
        );
        assert_eq!(queues.stats().threshold_hits, 3);

        let mut drops = queue(StepConfig { not_ect: NotEctAbove::Drop, ..CONFIG });
        assert_eq!(enqueue_all(&mut drops, Ecn::NotEct, 4), [Queued, Queued, NOT_ECT, NOT_ECT]);
        assert_eq!(drops.stats().dropped_not_ect_pkts, 2);
        assert_eq!(drops.stats().dropped_bytes, 2 * 1514);
    }

    #[test]
    fn not_ect_comes_before_full() {
        let config = StepConfig { limit: Limit::Pkts(2), not_ect: NotEctAbove::Drop, ..CONFIG };
        assert_eq!(enqueue_all(&mut queue(config), Ecn::NotEct, 3), [Queued, Queued, NOT_ECT]);
        assert_eq!(enqueue_all(&mut queue(config), Ecn::Ect0, 3), [Queued, Queued, FULL]);
    }

    #[test]
    fn at_dequeue_what_stays_behind_decides() {
        let mut queue = queue(StepConfig { when: MarkWhen::Dequeue, ..CONFIG });
        assert_eq!(enqueue_all(&mut queue, Ecn::Ect0, 4), [Queued; 4]);
        let out = [(); 4].map(|()| queue.dequeue(Time::ZERO).unwrap().ecn);
        assert_eq!(out, [Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ect0]);
        assert_eq!(queue.stats().marked_pkts, 2);
    }

    #[test]
    fn at_dequeue_a_dropped_packet_gives_its_turn_to_the_next() {
        let config = StepConfig { when: MarkWhen::Dequeue, not_ect: NotEctAbove::Drop, ..CONFIG };
        let mut queue = queue(config);
        enqueue_all(&mut queue, Ecn::NotEct, 4);
        // 3 and 2 stay behind the first two: both go. One stays behind the third: it leaves.
        assert_eq!(queue.dequeue(Time::ZERO).unwrap().id, 2);
        assert_eq!(queue.stats().dropped_not_ect_pkts, 2);
        assert_eq!(queue.len_pkts(), 1);
    }

    #[test]
    fn sojourn_time_decides_to_the_picosecond() {
        let config = StepConfig {
            when: MarkWhen::Dequeue,
            threshold: Threshold::Sojourn(Duration::from_us(100)),
            ..CONFIG
        };
        let mut queue = queue(config);
        enqueue_all(&mut queue, Ecn::Ect0, 2);
        let almost = Time::from_us(100) - Duration::from_ps(1);
        assert_eq!(queue.dequeue(almost).unwrap().ecn, Ecn::Ect0);
        assert_eq!(queue.dequeue(Time::from_us(100)).unwrap().ecn, Ecn::Ce);
    }

    #[test]
    fn peek_decides_once_and_keeps_the_packet_counted() {
        let mut queue = queue(StepConfig { when: MarkWhen::Dequeue, ..CONFIG });
        enqueue_all(&mut queue, Ecn::Ect0, 2);
        assert_eq!(queue.peek(Time::ZERO), Some(1514));
        assert_eq!(queue.len_pkts(), 2);
        // Two more behind it would reach K, but the decision was made with one behind it.
        enqueue_all(&mut queue, Ecn::Ect0, 2);
        assert_eq!(queue.peek(Time::ZERO), Some(1514));
        assert_eq!(queue.dequeue(Time::ZERO).unwrap().ecn, Ecn::Ect0);
        assert_eq!(queue.stats().threshold_hits, 0);
    }
}

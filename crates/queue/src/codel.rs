//! CoDel: drop or mark at the head when packets have waited longer than a target for a whole interval.
//!
//! Meanwhile drops (or marks) come closer together:
//!
//! ```text
//! next drop = last drop + interval / sqrt(count)
//! ```
//!
//! Sources: RFC 8289, and Linux 6.12 where the two differ: a clock of 1024 ns, 1/sqrt(count) as a fraction of 16 bits
//! that one Newton step refines per drop, and `ce_threshold`. [`Codel`] is apart from the queue, since FQ-CoDel has one
//! per flow.

use std::collections::VecDeque;

use crate::packet::{Ecn, Packet};
use crate::qdisc::{DropReason, Inside, Qdisc, QueueAction, Stats};
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, PS_PER_NS, Rate, Time};
use knee_units::settings::{Setting, Visit, key};

/// Tick of CoDel's clock: 1024 ns (Linux `CODEL_SHIFT`).
const TICK_PS: u64 = 1024 * PS_PER_NS;
/// 1/sqrt(count) is kept in this many bits.
const INV_SQRT_BITS: u32 = 16;
/// 1/sqrt(1), rounded to [`INV_SQRT_BITS`].
const INV_SQRT_ONE: u16 = u16::MAX;
/// A dropping state that ended within this many intervals is taken up where it was left.
const RECENT_INTERVALS: i64 = 16;

/// Packets that `ce_threshold` marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CeThresholdFor {
    /// All that are ECN-capable.
    #[default]
    EctAny,
    /// ECT(1) alone: what L4S senders send (Linux: `ce_threshold_selector 0x1/0x3`).
    Ect1,
}

knee_units::settings! {
    /// Parameters of CoDel (RFC 8289). [`Default`] is Linux's `codel`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CodelParams as (config, v) check check {
        // CoDel acts when the minimum over an interval stays above it.
        /// Target sojourn time.
        pub target: Duration = Duration::from_ms(5) => "target": Time;
        // About the longest RTT.
        /// Time above target before the first drop.
        pub interval: Duration = Duration::from_ms(100) => "interval": Time;
        /// Mark ECN-capable packets.
        pub ecn: bool = false => "ecn": Flag;
        // Also outside the dropping state.
        /// Also mark every packet above this sojourn time.
        pub ce_threshold: Option<Duration> = None => "ce_threshold": MaybeTime.usually("none");
        /// Packets that `ce_threshold` marks.
        pub ce_threshold_for: CeThresholdFor = CeThresholdFor::EctAny
            => "ce_threshold_for": Word[("any-ect", CeThresholdFor::EctAny), ("ect1", CeThresholdFor::Ect1)]
                .only_if(config.ce_threshold.is_some(), "has no meaning without ce_threshold");
        /// A backlog of at most this, in bytes, is no queue: the longest packet, Ethernet header included.
        pub mtu_bytes: u32 = 1514;
    }
}

/// Refuses settings that cannot work.
fn check(config: &mut CodelParams, v: &mut dyn Visit) {
    if config.interval <= config.target || config.interval.ps() < TICK_PS {
        let why = "CoDel's interval must be longer than its target and at least 1024 ns, the tick of its clock: take the longest RTT, \
                   and a tenth of it or less as the target";
        v.refuse("interval", why);
    }
}

impl CodelParams {
    /// The shortest sojourn time that leads to a mark or drop.
    pub(crate) fn acts_at(&self) -> Duration {
        self.ce_threshold.map_or(self.target, |threshold| threshold.min(self.target))
    }
}

/// Settings of a CoDel queue. [`Default`] is Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// How many packets may wait.
    pub limit_pkts: u32,
    pub codel: CodelParams,
}

impl Default for CodelConfig {
    fn default() -> CodelConfig {
        CodelConfig { limit_pkts: 1000, codel: CodelParams::default() }
    }
}

impl Settings for CodelConfig {
    fn kind(&self) -> &'static str {
        "codel"
    }

    fn at(place: PortProperties) -> CodelConfig {
        let linux = CodelConfig::default();
        CodelConfig { codel: CodelParams { mtu_bytes: place.frame_bytes, ..linux.codel }, ..linux }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        v.key(key("limit", "Limit in packets."), Setting::Pkts(&mut self.limit_pkts));
        self.codel.fields(v);
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        Some(self.codel.acts_at())
    }
}

/// [`CodelParams`] in ticks of [`TICK_PS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickParams {
    target_ticks: u64,
    interval_ticks: u64,
    ecn: bool,
    ce_threshold_ticks: Option<u64>,
    ce_threshold_for: CeThresholdFor,
    mtu_bytes: u64,
}

/// The queue that CoDel takes packets from.
pub(crate) trait Source<P> {
    /// The next packet, and when it was enqueued. It leaves the backlog.
    fn take(&mut self) -> Option<(P, Time)>;
    /// Backlog of the whole discipline, in bytes.
    fn backlog_bytes(&self) -> u64;
    /// The counters of the discipline.
    fn stats(&mut self) -> &mut Stats;
}

/// State of CoDel, one per queue (Linux `struct codel_vars`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Codel {
    /// Drops and marks since the dropping state began.
    count: u32,
    /// `count` when the dropping state began.
    last_count: u32,
    is_dropping: bool,
    /// 1/sqrt(count) in 1/2^16.
    inv_sqrt: u16,
    /// When the sojourn time has been above the target for an interval; `None`: it is not above it.
    first_above_ticks: Option<u64>,
    /// When the next drop or mark is due.
    next_drop_ticks: u64,
    /// The sojourn time last seen.
    sojourn_ticks: u64,
}

impl TickParams {
    pub(crate) fn new(params: CodelParams) -> TickParams {
        TickParams {
            target_ticks: ticks(params.target),
            interval_ticks: ticks(params.interval),
            ecn: params.ecn,
            ce_threshold_ticks: params.ce_threshold.map(ticks),
            ce_threshold_for: params.ce_threshold_for,
            mtu_bytes: u64::from(params.mtu_bytes),
        }
    }

    /// Marks a packet whose sojourn time is above `ce_threshold`; returns whether it is marked.
    fn apply_ce_threshold<P: Packet>(
        &self,
        pkt: &mut P,
        sojourn_ticks: u64,
        stats: &mut Stats,
    ) -> bool {
        let is_above = self.ce_threshold_ticks.is_some_and(|threshold| sojourn_ticks > threshold);
        let is_meant = match self.ce_threshold_for {
            CeThresholdFor::EctAny => true,
            CeThresholdFor::Ect1 => pkt.ecn() == Ecn::Ect1,
        };
        if !is_above || !is_meant {
            return false;
        }
        stats.threshold_hits += 1;
        let is_capable = pkt.ecn().is_capable();
        if is_capable {
            pkt.set_ce();
        }
        is_capable
    }
}

impl Codel {
    /// The next packet that may leave; drops and counts those before it (Linux `codel_dequeue`).
    pub(crate) fn next<P: Packet>(
        &mut self,
        params: &TickParams,
        source: &mut impl Source<P>,
        now: Time,
    ) -> Option<P> {
        let now_ticks = now.ps() / TICK_PS;
        let mut head = self.look(params, source, now_ticks);
        let mut is_marked = false;
        if self.is_dropping {
            if !head.ok_to_drop {
                self.is_dropping = false;
            }
            while self.is_dropping && now_ticks >= self.next_drop_ticks {
                self.count = self.count.wrapping_add(1);
                self.refine_inv_sqrt();
                if params.ecn && head.mark() {
                    is_marked = true;
                    self.schedule(params, self.next_drop_ticks);
                    break;
                }
                head.drop_into(source);
                head = self.look(params, source, now_ticks);
                if head.ok_to_drop {
                    self.schedule(params, self.next_drop_ticks);
                } else {
                    self.is_dropping = false;
                }
            }
        } else if head.ok_to_drop {
            if params.ecn && head.mark() {
                is_marked = true;
            } else {
                head.drop_into(source);
                head = self.look(params, source, now_ticks);
            }
            self.start_dropping(params, now_ticks);
        }
        let mut pkt = head.pkt?;
        is_marked |= params.apply_ce_threshold(&mut pkt, self.sojourn_ticks, source.stats());
        source.stats().marked_pkts += u64::from(is_marked);
        Some(pkt)
    }

    /// Raises the drop count by packets that a full buffer dropped (Linux `fq_codel_drop`).
    pub(crate) fn count_dropped(&mut self, pkts: u32) {
        self.count = self.count.wrapping_add(pkts);
    }

    pub(crate) fn sojourn(&self) -> Duration {
        Duration::from_ps(self.sojourn_ticks.saturating_mul(TICK_PS))
    }

    /// Takes the head; `ok_to_drop` if sojourn times were above the target for an interval (RFC 8289 5.2).
    fn look<P>(
        &mut self,
        params: &TickParams,
        source: &mut impl Source<P>,
        now_ticks: u64,
    ) -> Head<P> {
        let Some((pkt, enqueued_at)) = source.take() else {
            self.first_above_ticks = None;
            self.is_dropping = false;
            return Head { pkt: None, ok_to_drop: false };
        };
        self.sojourn_ticks = now_ticks.saturating_sub(enqueued_at.ps() / TICK_PS);
        let is_fine =
            self.sojourn_ticks < params.target_ticks || source.backlog_bytes() <= params.mtu_bytes;
        let ok_to_drop = match self.first_above_ticks {
            _ if is_fine => {
                self.first_above_ticks = None;
                false
            }
            None => {
                self.first_above_ticks = Some(now_ticks + params.interval_ticks);
                false
            }
            Some(first_above) => now_ticks > first_above,
        };
        Head { pkt: Some(pkt), ok_to_drop }
    }

    fn start_dropping(&mut self, params: &TickParams, now_ticks: u64) {
        let since_last = self.count.wrapping_sub(self.last_count);
        // Negative if the next drop was still to come.
        let ago_ticks = now_ticks as i64 - self.next_drop_ticks as i64;
        let is_recent = ago_ticks < RECENT_INTERVALS.saturating_mul(params.interval_ticks as i64);
        self.is_dropping = true;
        if since_last > 1 && is_recent {
            self.count = since_last;
            self.refine_inv_sqrt();
        } else {
            self.count = 1;
            self.inv_sqrt = INV_SQRT_ONE;
        }
        self.last_count = self.count;
        self.schedule(params, now_ticks);
    }

    /// next = from + interval / sqrt(count)
    fn schedule(&mut self, params: &TickParams, from_ticks: u64) {
        // Intervals are below 2^44 ticks.
        let gap_ticks = (params.interval_ticks * u64::from(self.inv_sqrt)) >> INV_SQRT_BITS;
        self.next_drop_ticks = from_ticks + gap_ticks;
    }

    /// One Newton step: x = x * (3 - count * x^2) / 2, with x in 1/2^32.
    fn refine_inv_sqrt(&mut self) {
        let x = u64::from(self.inv_sqrt) << (32 - INV_SQRT_BITS);
        let square = (x * x) >> 32;
        // A count that grew by much makes the bracket negative: then the root is as small as can be.
        let bracket = (3_u64 << 32).saturating_sub(u64::from(self.count) * square);
        // Two bits are given up first: 3 * 2^32 * 2^32 would not fit.
        let refined = ((bracket >> 2) * x) >> (32 + 1 - 2);
        self.inv_sqrt = (refined >> (32 - INV_SQRT_BITS)).min(u64::from(INV_SQRT_ONE)) as u16;
    }
}

/// A packet taken from the source.
struct Head<P> {
    pkt: Option<P>,
    ok_to_drop: bool,
}

impl<P: Packet> Head<P> {
    /// Marks an ECN-capable packet; false if there is none.
    fn mark(&mut self) -> bool {
        let Some(pkt) = self.pkt.as_mut().filter(|pkt| pkt.ecn().is_capable()) else {
            return false;
        };
        pkt.set_ce();
        true
    }

    fn drop_into(&mut self, source: &mut impl Source<P>) {
        if let Some(pkt) = self.pkt.take() {
            source.stats().count_dropped(DropReason::Early, pkt.len_bytes());
        }
    }
}

fn ticks(span: Duration) -> u64 {
    span.ps() / TICK_PS
}

/// A CoDel queue.
#[derive(Clone, Debug)]
pub struct CodelQueue<P> {
    limit_pkts: u32,
    params: TickParams,
    codel: Codel,
    waiting: Waiting<P>,
    /// The packet that CoDel released and a shaper has not taken yet.
    released: Option<P>,
}

/// The queue without the released packet.
#[derive(Clone, Debug)]
struct Waiting<P> {
    queue: VecDeque<(P, Time)>,
    bytes: u64,
    stats: Stats,
}

impl<P: Packet> Source<P> for Waiting<P> {
    fn take(&mut self) -> Option<(P, Time)> {
        let (pkt, enqueued_at) = self.queue.pop_front()?;
        self.bytes -= u64::from(pkt.len_bytes());
        Some((pkt, enqueued_at))
    }
    fn backlog_bytes(&self) -> u64 {
        self.bytes
    }
    fn stats(&mut self) -> &mut Stats {
        &mut self.stats
    }
}

impl<P: Packet> CodelQueue<P> {
    /// An empty queue.
    pub fn new(config: CodelConfig) -> CodelQueue<P> {
        CodelQueue {
            limit_pkts: config.limit_pkts,
            params: TickParams::new(config.codel),
            codel: Codel::default(),
            waiting: Waiting { queue: VecDeque::new(), bytes: 0, stats: Stats::default() },
            released: None,
        }
    }

    fn release(&mut self, now: Time) -> Option<P> {
        self.released.take().or_else(|| self.codel.next(&self.params, &mut self.waiting, now))
    }
}

impl<P: Packet> Qdisc<P> for CodelQueue<P> {
    fn enqueue(&mut self, pkt: P, now: Time) -> QueueAction {
        let len_bytes = pkt.len_bytes();
        if self.len_pkts() >= self.limit_pkts {
            return self.refuse(len_bytes);
        }
        self.waiting.stats.count_enqueued(len_bytes);
        self.waiting.bytes += u64::from(len_bytes);
        self.waiting.queue.push_back((pkt, now));
        QueueAction::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let pkt = self.release(now)?;
        self.waiting.stats.count_dequeued(pkt.len_bytes());
        Some(pkt)
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        self.released = self.release(now);
        self.released.as_ref().map(P::len_bytes)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.waiting.stats.count_dropped(DropReason::Full, len_bytes);
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, _now: Time) -> Option<Time> {
        None
    }

    fn len_pkts(&self) -> u32 {
        self.waiting.queue.len() as u32 + u32::from(self.released.is_some())
    }

    fn len_bytes(&self) -> u64 {
        self.waiting.bytes + self.released.as_ref().map_or(0, |pkt| u64::from(pkt.len_bytes()))
    }

    fn stats(&self) -> &Stats {
        &self.waiting.stats
    }

    fn inside(&self) -> Option<Inside> {
        Some(Inside { drop_probability: None, qdelay: Some(self.codel.sojourn()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Pkt, full};

    /// Ticks, as a moment.
    fn at(ticks: u64) -> Time {
        Time::from_ps(ticks * TICK_PS)
    }

    /// Target 10, interval 1000 ticks.
    fn config() -> CodelConfig {
        let span = |ticks: u64| Duration::from_ps(ticks * TICK_PS);
        let codel =
            CodelParams { target: span(10), interval: span(1000), ..CodelParams::default() };
        CodelConfig { limit_pkts: 10_000, codel }
    }

    fn queue(config: CodelConfig, ecn: Ecn, pkts: u64) -> CodelQueue<Pkt> {
        let mut queue = CodelQueue::new(config);
        for id in 0..pkts {
            queue.enqueue(full(id, ecn), Time::ZERO);
        }
        queue
    }

    #[test]
    fn linux_defaults_are_4882_and_97656_ticks() {
        let params = TickParams::new(CodelParams::default());
        assert_eq!((params.target_ticks, params.interval_ticks), (4882, 97_656));
    }

    /// All late from the start: above the target at 10, one interval later at 1010, dropped after that.
    #[test]
    fn the_first_drop_comes_an_interval_after_the_target_was_passed() {
        let mut queue = queue(config(), Ecn::Ect0, 100);
        let id = |queue: &mut CodelQueue<Pkt>, ticks| queue.dequeue(at(ticks)).unwrap().id;
        assert_eq!(id(&mut queue, 9), 0);
        assert_eq!(id(&mut queue, 10), 1);
        assert_eq!(id(&mut queue, 1010), 2, "not later than it");
        assert_eq!(id(&mut queue, 1011), 4, "3 is dropped");
        assert_eq!(queue.stats().dropped_early_pkts, 1);
        // The next is due 1000 * 65535 / 65536 = 999 ticks later.
        assert_eq!(id(&mut queue, 2009), 5);
        assert_eq!(id(&mut queue, 2010), 7);
        // count = 2: x = 65535/65536, x * (3 - 2 x^2) / 2 = 0.50002, so that it is due 500 ticks later at 2510.
        assert_eq!(id(&mut queue, 2509), 8);
        assert_eq!(id(&mut queue, 2510), 10);
    }

    /// Newton's step converges on 1/sqrt(count) from below.
    #[test]
    fn hits_come_as_the_inverse_square_root() {
        let mut codel = Codel { inv_sqrt: INV_SQRT_ONE, count: 1, ..Codel::default() };
        for count in 2..=400_u32 {
            codel.count = count;
            codel.refine_inv_sqrt();
            let exact = 65_536.0 / f64::from(count).sqrt();
            let off = f64::from(codel.inv_sqrt) / exact;
            assert!(
                if count < 6 { off > 0.7 } else { off > 0.985 } && off <= 1.0,
                "{count}: {off}"
            );
        }
    }

    #[test]
    fn one_low_sojourn_ends_it_and_it_is_taken_up_where_it_was() {
        let mut queue = queue(config(), Ecn::Ect0, 400);
        let mut now = 0;
        while queue.stats().dropped_early_pkts < 10 {
            now += 20;
            queue.dequeue(at(now));
        }
        let count = queue.codel.count;
        assert_eq!((queue.codel.is_dropping, count), (true, 10));
        // The rest is dropped or leaves; what comes then has not waited.
        while queue.len_pkts() > 0 {
            queue.dequeue(at(now));
        }
        let left = queue.codel.count;
        for id in 0..400 {
            queue.enqueue(full(id, Ecn::Ect0), at(now));
        }
        queue.dequeue(at(now + 1));
        assert!(!queue.codel.is_dropping);
        let before = queue.stats().dropped_early_pkts;
        queue.dequeue(at(now + 10));
        queue.dequeue(at(now + 1011));
        assert_eq!(queue.stats().dropped_early_pkts, before + 1);
        // last_count was 1: the count begins at one drop fewer than before, instead of at 1.
        assert_eq!(queue.codel.count, left - 1);
    }

    #[test]
    fn the_last_packets_are_never_dropped() {
        let mut queue = queue(config(), Ecn::NotEct, 2);
        queue.dequeue(at(10));
        queue.enqueue(full(2, Ecn::NotEct), at(10));
        // One packet stays behind it: at most the MTU.
        assert_eq!(queue.dequeue(at(100_000)).unwrap().id, 1);
        assert_eq!(queue.stats().dropped_pkts(), 0);
    }

    #[test]
    fn with_ecn_the_head_is_marked_and_stays() {
        let codel = CodelParams { ecn: true, ..config().codel };
        let mut queue = queue(CodelConfig { codel, ..config() }, Ecn::Ect0, 20);
        queue.dequeue(at(10));
        let marked = queue.dequeue(at(1011)).unwrap();
        assert_eq!((marked.id, marked.ecn), (1, Ecn::Ce));
        assert_eq!(queue.dequeue(at(1012)).unwrap().ecn, Ecn::Ect0);
        assert_eq!((queue.stats().marked_pkts, queue.stats().dropped_pkts()), (1, 0));
    }

    #[test]
    fn ce_threshold_marks_by_the_packets_own_wait_and_never_drops() {
        let span = |ticks: u64| Duration::from_ps(ticks * TICK_PS);
        let codel = CodelParams { ce_threshold: Some(span(50)), ..CodelParams::default() };
        for (ecn, only, expected) in [
            (Ecn::Ect0, CeThresholdFor::EctAny, Ecn::Ce),
            (Ecn::Ect0, CeThresholdFor::Ect1, Ecn::Ect0),
            (Ecn::Ect1, CeThresholdFor::Ect1, Ecn::Ce),
            (Ecn::NotEct, CeThresholdFor::EctAny, Ecn::NotEct),
        ] {
            let codel = CodelParams { ce_threshold_for: only, ..codel };
            let mut queue = queue(CodelConfig { codel, ..config() }, ecn, 2);
            assert_eq!(queue.dequeue(at(50)).unwrap().ecn, ecn, "not above it");
            assert_eq!(queue.dequeue(at(51)).unwrap().ecn, expected);
            let expected_marks = u64::from(expected == Ecn::Ce && ecn != Ecn::Ce);
            assert_eq!(queue.stats().marked_pkts, expected_marks);
        }
    }

    #[test]
    fn a_packet_that_was_peeked_at_counts_until_it_is_taken() {
        let mut queue = queue(CodelConfig { limit_pkts: 2, ..config() }, Ecn::Ect0, 2);
        assert_eq!(queue.peek(at(1)), Some(1514));
        assert_eq!((queue.len_pkts(), queue.len_bytes()), (2, 2 * 1514));
        let full_ = QueueAction::Dropped(DropReason::Full);
        assert_eq!(queue.enqueue(full(2, Ecn::Ect0), at(1)), full_);
        assert_eq!(queue.peek(at(100_000)), Some(1514));
        assert_eq!(queue.dequeue(at(100_000)).unwrap().id, 0);
        assert_eq!(queue.len_bytes(), 1514);
    }
}

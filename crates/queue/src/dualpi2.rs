//! DualPI2: a queue of low latency for scalable senders (L4S, DCTCP) beside one for all others.
//!
//! One PI controller steers the longer wait to a target. Its probability p goes to the classic queue (C) squared, as
//! Reno's and CUBIC's rates fall with its root, and to the other (L) times a coupling factor, as DCTCP's falls with p
//! itself:
//!
//! ```text
//! every update interval, with q the larger age of the two heads
//! p    = p + alpha * (q - target) + beta * (q - prior q)          alpha, beta in 1/s; 0 <= p <= 1
//! p_C  = p^2,   p_L = k * p;   beside that, L is marked from a step threshold on
//! ```
//!
//! Sources: RFC 9332 and Linux 6.18. Deviations: gains are not rounded to Linux's fractions; a memory limit of twice
//! the packets' lengths is left out, as no packet here takes more than its length; GSO packets do not exist.

use std::collections::VecDeque;

use crate::packet::{Ecn, Packet};
use crate::qdisc::{DropReason, Inside, Qdisc, QueueAction, Stats};
use crate::settings::{PortProperties, Settings, drain};
use crate::time::{Duration, PS_PER_S, Rate, Time};
use knee_units::Random;
use knee_units::Threshold;
use knee_units::settings::{Setting, Visit, key};

/// A probability of 1, in fractions of 2^32.
const PROB_ONE: u64 = u32::MAX as u64;
/// Gains are in millionths per second.
const GAIN_UNIT: i128 = 1_000_000;
/// Range of the gains, as in `tc`: up to 32 per second.
const MOST_GAIN: u64 = 32_000_000;

/// Step threshold of the L queue: above it, every packet is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepThreshold {
    /// Sojourn time of the packet.
    Sojourn(Duration),
    /// Packets that stay behind it.
    Pkts(u32),
}

/// Band packets go to the L queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LowLatency {
    /// ECT(1), and CE, which may have been ECT(1): what L4S senders send.
    #[default]
    Ect1,
    /// All that are ECN-capable, as for DCTCP with ECT(0) (Linux: `any_ect`).
    EctAny,
}

knee_units::settings! {
    /// Settings of a DualPI2 queue. [`Default`] is Linux's, with seed 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DualPi2Config as (config, v) check check {
        /// Limit in packets, both queues.
        pub limit_pkts: u32 = 10_000 => "limit": Pkts;
        /// Target delay of queue C.
        pub target: Duration = Duration::from_ms(15) => "target": Time;
        /// Update period of the probability.
        pub update_interval: Duration = Duration::from_ms(16) => "update_interval": Time;
        /// Gain on the delay error, in 1e-6 per second.
        pub alpha_ppm: u32 = 160_000 => "alpha": Gain.within(0, MOST_GAIN);
        /// Gain on the delay change, in 1e-6 per second.
        pub beta_ppm: u32 = 3_200_000 => "beta": Gain.within(0, MOST_GAIN);
        /// Coupling factor k: L marks with k times C's probability.
        pub coupling_factor: u32 = 2 => "coupling": Number.within(1, 255);
        /// When L marks.
        pub step: StepThreshold = StepThreshold::Sojourn(Duration::from_ms(1)) => { step(config, v) };
        /// Packets for L: ECT(1) and CE, or ECT(0) too.
        pub low_latency: LowLatency = LowLatency::Ect1
            => "low_latency": Word[("ect1", LowLatency::Ect1), ("any-ect", LowLatency::EctAny)];
        /// C's share of the link while both wait, in percent, 1 to 99.
        pub c_weight_pct: u32 = 10 => { c_weight(config, v) };
        // Otherwise p stops at 1 / k.
        /// Drop from L on overload.
        pub drop_on_overload: bool = true => "drop_on_overload": Flag;
        /// Drop on enqueue instead of dequeue.
        pub drop_early: bool = false => "drop_early": Flag;
        /// The longest packet in bytes, Ethernet header included.
        pub mtu_bytes: u32 = 1514;
        /// Seed of the decisions.
        pub seed: u64 = 0 => { v.seed(&mut config.seed) };
    }
}

/// Shows the step of L.
fn step(config: &mut DualPi2Config, v: &mut dyn Visit) {
    let mut step = match config.step {
        StepThreshold::Sojourn(sojourn) => Threshold::Sojourn(sojourn),
        StepThreshold::Pkts(pkts) => Threshold::Pkts(pkts),
    };
    let says = "Marking threshold of L: sojourn time, or packets left in the queue.";
    v.key(key("step", says), Setting::Threshold(&mut step));
    match step {
        Threshold::Sojourn(sojourn) => config.step = StepThreshold::Sojourn(sojourn),
        Threshold::Pkts(pkts) => config.step = StepThreshold::Pkts(pkts),
        Threshold::Bytes(_) => {
            v.refuse("step", "must be a waiting time or packets, as in \"1 ms\" or \"5 pkts\"");
        }
    }
}

/// Shows the share of C.
fn c_weight(config: &mut DualPi2Config, v: &mut dyn Visit) {
    let mut share = f64::from(config.c_weight_pct) / 100.0;
    v.key(key("c_weight", "Share of C while both have packets."), Setting::Share(&mut share));
    let percent = (share * 100.0).round();
    if (share * 100.0 - percent).abs() > 1e-6 {
        v.refuse("c_weight", "must be a whole number of percent, as in \"10 %\"");
    }
    config.c_weight_pct = percent as u32;
}

/// Refuses settings that cannot work.
fn check(config: &mut DualPi2Config, v: &mut dyn Visit) {
    if config.update_interval < Duration::from_us(1) {
        v.refuse("update_interval", "the time between updates must be at least 1 us");
    }
    if !(1..=99).contains(&config.c_weight_pct) {
        v.refuse("c_weight", "the weight of DualPI2's classic queue must be from 1 to 99 %");
    }
    if config.coupling_factor == 0 {
        v.refuse("coupling", "DualPI2's coupling factor must be at least 1 (usually 2)");
    }
}

impl Settings for DualPi2Config {
    fn kind(&self) -> &'static str {
        "dualpi2"
    }

    fn at(place: PortProperties) -> DualPi2Config {
        DualPi2Config { mtu_bytes: place.frame_bytes, ..DualPi2Config::default() }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        DualPi2Config::fields(self, v);
    }

    fn acts_at(&self, rate: Rate) -> Option<Duration> {
        let step = match self.step {
            StepThreshold::Sojourn(sojourn) => sojourn,
            StepThreshold::Pkts(pkts) => drain(rate, (u64::from(pkts) + 1) * 1514),
        };
        Some(step.min(self.target))
    }
}

/// A DualPI2 queue.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    config: DualPi2Config,
    l_queue: VecDeque<(P, Time)>,
    c_queue: VecDeque<(P, Time)>,
    /// Backlog of both queues, without the released packet.
    bytes: u64,
    /// p, in 1/2^32.
    prob: u64,
    /// The wait at the last update.
    qdelay: Duration,
    next_update: Time,
    /// L is served while C waits only at 0 or below: weighted bytes.
    credit: i64,
    /// The released packet that a shaper has not taken yet.
    released: Option<P>,
    stats: Stats,
    random: Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Band {
    /// Low latency.
    L,
    /// Classic.
    C,
}

impl<P: Packet> DualPi2<P> {
    /// An empty queue, created at time zero.
    pub fn new(config: DualPi2Config) -> DualPi2<P> {
        let config = DualPi2Config {
            c_weight_pct: config.c_weight_pct.clamp(1, 99),
            coupling_factor: config.coupling_factor.max(1),
            ..config
        };
        DualPi2 {
            l_queue: VecDeque::new(),
            c_queue: VecDeque::new(),
            bytes: 0,
            prob: 0,
            qdelay: Duration::ZERO,
            next_update: Time::ZERO + config.update_interval,
            credit: first_credit(&config),
            released: None,
            stats: Stats::default(),
            random: Random::new(config.seed),
            config,
        }
    }

    /// p: the root of the probability of the C queue.
    pub fn probability(&self) -> f64 {
        self.prob as f64 / PROB_ONE as f64
    }

    fn queue_of(&self, ecn: Ecn) -> Band {
        match (ecn, self.config.low_latency) {
            (Ecn::Ect1 | Ecn::Ce, _) | (Ecn::Ect0, LowLatency::EctAny) => Band::L,
            _ => Band::C,
        }
    }

    fn roll(&mut self, prob: u64) -> bool {
        self.random.u64() >> 32 < prob
    }

    /// Applies the probability: `Queued` lets the packet go as it is.
    fn apply_probability(&mut self, band: Band, ecn: Ecn) -> QueueAction {
        let bytes = self.len_bytes();
        if bytes < 2 * u64::from(self.config.mtu_bytes) {
            return QueueAction::Queued;
        }
        // 32 bits times 32.
        let l_prob = self.prob * u64::from(self.config.coupling_factor);
        let is_overload = l_prob > PROB_ONE;
        // C's: two draws, so that their probabilities multiply.
        let squared = |queue: &mut Self| queue.roll(queue.prob) && queue.roll(queue.prob);
        let dropped = match band {
            Band::C if !squared(self) => return QueueAction::Queued,
            Band::C => is_overload || !ecn.is_capable(),
            Band::L if is_overload => self.config.drop_on_overload && squared(self),
            Band::L if !self.roll(l_prob) => return QueueAction::Queued,
            Band::L => !ecn.is_capable(),
        };
        if dropped { QueueAction::Dropped(DropReason::Early) } else { QueueAction::Marked }
    }

    fn is_above_step(&self, sojourn: Duration) -> bool {
        match self.config.step {
            StepThreshold::Sojourn(threshold) => sojourn > threshold,
            StepThreshold::Pkts(threshold) => self.l_queue.len() > threshold as usize,
        }
    }

    /// Takes the next packet of the queue whose turn it is, and says what that changes of the credit.
    fn take(&mut self) -> Option<(P, Time, Band, i64)> {
        let (l_waits, c_waits) = (!self.l_queue.is_empty(), !self.c_queue.is_empty());
        let c_weight = i64::from(self.config.c_weight_pct);
        let band = if l_waits && (!c_waits || self.credit <= 0) { Band::L } else { Band::C };
        let (queue, other_waits, weight) = match band {
            Band::L => (&mut self.l_queue, c_waits, c_weight),
            Band::C => (&mut self.c_queue, l_waits, c_weight - 100),
        };
        let Some((pkt, enqueued_at)) = queue.pop_front() else {
            self.credit = first_credit(&self.config);
            return None;
        };
        let len_bytes = pkt.len_bytes();
        self.bytes -= u64::from(len_bytes);
        let change = if other_waits { weight * i64::from(len_bytes) } else { 0 };
        Some((pkt, enqueued_at, band, change))
    }

    fn release(&mut self, now: Time) -> Option<P> {
        if self.released.is_some() {
            return self.released.take();
        }
        while let Some((mut pkt, enqueued_at, band, change)) = self.take() {
            let ecn = pkt.ecn();
            let mut action = match self.config.drop_early {
                true => QueueAction::Queued,
                false => self.apply_probability(band, ecn),
            };
            let is_dropped = matches!(action, QueueAction::Dropped(_));
            if !is_dropped && band == Band::L && self.is_above_step(now.since(enqueued_at)) {
                self.stats.threshold_hits += 1;
                action = match ecn.is_capable() {
                    true => QueueAction::Marked,
                    false => QueueAction::Dropped(DropReason::NotEct),
                };
            }
            match action {
                QueueAction::Dropped(reason) => {
                    self.stats.count_dropped(reason, pkt.len_bytes());
                    continue;
                }
                QueueAction::Marked => {
                    pkt.set_ce();
                    self.stats.marked_pkts += 1;
                }
                QueueAction::Queued => {}
            }
            self.credit += change;
            return Some(pkt);
        }
        None
    }

    fn update(&mut self, now: Time) {
        let age = |queue: &VecDeque<(P, Time)>| {
            queue.front().map_or(Duration::ZERO, |(_, enqueued_at)| now.since(*enqueued_at))
        };
        let qdelay = age(&self.l_queue).max(age(&self.c_queue));
        self.prob = self.next_prob(qdelay);
        self.qdelay = qdelay;
    }

    /// The PI controller (RFC 9332 A.1).
    fn next_prob(&self, qdelay: Duration) -> u64 {
        let ps = |span: Duration| i128::from(span.ps());
        let from_target = ps(qdelay) - ps(self.config.target);
        let change = ps(qdelay) - ps(self.qdelay);
        // Spans are below 2^64 ps and gains below 2^32: with the scale of 2^32 below 2^128 by far after the division.
        let gained = i128::from(self.config.alpha_ppm) * from_target
            + i128::from(self.config.beta_ppm) * change;
        let delta = gained / GAIN_UNIT * i128::from(PROB_ONE) / i128::from(PS_PER_S);
        let most = match self.config.drop_on_overload {
            true => PROB_ONE,
            false => PROB_ONE / u64::from(self.config.coupling_factor),
        };
        (i128::from(self.prob) + delta).clamp(0, i128::from(most)) as u64
    }
}

/// MTU * (C's weight - L's weight): L begins with as much in hand.
fn first_credit(config: &DualPi2Config) -> i64 {
    i64::from(config.mtu_bytes) * (2 * i64::from(config.c_weight_pct) - 100)
}

impl<P: Packet> Qdisc<P> for DualPi2<P> {
    fn enqueue(&mut self, mut pkt: P, now: Time) -> QueueAction {
        let (len_bytes, ecn) = (pkt.len_bytes(), pkt.ecn());
        if self.len_pkts() >= self.config.limit_pkts {
            return self.refuse(len_bytes);
        }
        let band = self.queue_of(ecn);
        let action = match self.config.drop_early {
            true => self.apply_probability(band, ecn),
            false => QueueAction::Queued,
        };
        match action {
            QueueAction::Dropped(reason) => {
                self.stats.count_dropped(reason, len_bytes);
                return action;
            }
            QueueAction::Marked => {
                pkt.set_ce();
                self.stats.marked_pkts += 1;
            }
            QueueAction::Queued => {}
        }
        self.stats.count_enqueued(len_bytes);
        self.bytes += u64::from(len_bytes);
        match band {
            Band::L => self.l_queue.push_back((pkt, now)),
            Band::C => self.c_queue.push_back((pkt, now)),
        }
        action
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let pkt = self.release(now)?;
        self.stats.count_dequeued(pkt.len_bytes());
        Some(pkt)
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        self.released = self.release(now);
        self.released.as_ref().map(P::len_bytes)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.stats.count_dropped(DropReason::Full, len_bytes);
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        Some(self.next_update.max(now))
    }

    /// One update, if due; the next is due one interval from now.
    fn tick(&mut self, now: Time) {
        if now >= self.next_update {
            self.update(now);
            let interval = self.config.update_interval.max(Duration::from_us(1));
            self.next_update = now + interval;
        }
    }

    fn len_pkts(&self) -> u32 {
        let released = u32::from(self.released.is_some());
        (self.l_queue.len() + self.c_queue.len()) as u32 + released
    }

    fn len_bytes(&self) -> u64 {
        self.bytes + self.released.as_ref().map_or(0, |pkt| u64::from(pkt.len_bytes()))
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn inside(&self) -> Option<Inside> {
        Some(Inside { drop_probability: Some(self.probability()), qdelay: Some(self.qdelay) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Pkt, full};

    fn queue(config: DualPi2Config) -> DualPi2<Pkt> {
        DualPi2::new(config)
    }

    fn enqueue(queue: &mut DualPi2<Pkt>, ecn: Ecn, count: u64) {
        for id in 0..count {
            queue.enqueue(full(id, ecn), Time::ZERO);
        }
    }

    /// q = 20 ms, for the first time: 0.16 * 5 ms + 3.2 * 20 ms = 0.0008 + 0.064; then 0.16 * 9 ms + 3.2 * 4 ms more.
    #[test]
    fn the_probability_follows_the_older_head() {
        let mut queue = queue(DualPi2Config::default());
        queue.enqueue(full(0, Ecn::Ect0), Time::from_ms(12));
        queue.enqueue(full(1, Ecn::Ect1), Time::from_ms(30));
        assert_eq!(queue.next_event(Time::ZERO), Some(Time::from_ms(16)));
        queue.tick(Time::from_ms(32));
        assert!((queue.probability() - 0.0648).abs() < 1e-8, "{}", queue.probability());
        assert_eq!(queue.inside().unwrap().qdelay, Some(Duration::from_ms(20)));
        queue.tick(Time::from_ms(47));
        assert!((queue.probability() - 0.0648).abs() < 1e-8, "not due");
        queue.tick(Time::from_ms(48));
        // 36 ms: 0.16 * 21 ms + 3.2 * 16 ms = 0.00336 + 0.0512.
        assert!((queue.probability() - 0.11936).abs() < 1e-8, "{}", queue.probability());
    }

    #[test]
    fn the_probability_stays_between_0_and_1_or_1_over_k() {
        let mut queue = queue(DualPi2Config::default());
        queue.tick(Time::from_ms(16));
        assert_eq!(queue.prob, 0);
        for (drop_on_overload, expected) in [(true, 1.0), (false, 0.5)] {
            queue.config.drop_on_overload = drop_on_overload;
            let prob = queue.next_prob(Duration::from_ms(10_000)) as f64 / PROB_ONE as f64;
            assert!((prob - expected).abs() < 1e-9, "{prob}");
        }
    }

    /// p = 1/4: C drops with 1/16, L marks with 1/2.
    #[test]
    fn c_has_the_square_and_l_twice_the_root() {
        for (ecn, expected) in [(Ecn::Ect0, 1.0 / 16.0), (Ecn::Ect1, 0.5)] {
            let mut queue = queue(DualPi2Config::default());
            queue.prob = PROB_ONE / 4;
            let mut marked = 0;
            for _ in 0..10_000 {
                enqueue(&mut queue, ecn, 3);
                marked += u32::from(queue.dequeue(Time::ZERO).unwrap().ecn == Ecn::Ce);
                queue.dequeue(Time::ZERO);
                queue.dequeue(Time::ZERO);
            }
            // Standard deviations of 24 and 50.
            let off = f64::from(marked) - 10_000.0 * expected;
            assert!(off.abs() < 200.0, "{ecn:?}: {marked}");
            assert_eq!(u64::from(marked), queue.stats().marked_pkts, "below two packets none");
        }
    }

    #[test]
    fn what_cannot_be_marked_is_dropped_and_overload_drops_all_alike() {
        let marks_and_drops = |ecn: Ecn, prob: u64, drop_on_overload: bool| {
            let mut queue = queue(DualPi2Config { drop_on_overload, ..DualPi2Config::default() });
            queue.prob = prob;
            enqueue(&mut queue, ecn, 4);
            queue.dequeue(Time::ZERO);
            (queue.stats().marked_pkts, queue.stats().dropped_early_pkts)
        };
        // At p = 1 every C packet is dropped, until the backlog is below two packets.
        assert_eq!(marks_and_drops(Ecn::NotEct, PROB_ONE, true), (0, 2));
        assert_eq!(marks_and_drops(Ecn::Ect0, PROB_ONE, true), (0, 2));
        assert_eq!(marks_and_drops(Ecn::Ect1, PROB_ONE, true), (0, 2));
        assert_eq!(marks_and_drops(Ecn::Ect1, PROB_ONE, false), (1, 0));
    }

    #[test]
    fn above_the_step_all_of_l_is_marked_and_none_of_c() {
        for (step, at) in [
            (StepThreshold::Sojourn(Duration::from_ms(1)), Time::from_us(1001)),
            (StepThreshold::Pkts(1), Time::ZERO),
        ] {
            let mut queue = queue(DualPi2Config { step, ..DualPi2Config::default() });
            enqueue(&mut queue, Ecn::Ect1, 3);
            assert_eq!(queue.dequeue(at).unwrap().ecn, Ecn::Ce, "two stay behind it");
            let last = if at == Time::ZERO { Ecn::Ect1 } else { Ecn::Ce };
            assert_eq!(queue.dequeue(at).unwrap().ecn, last, "one does");
            queue.dequeue(at);
            enqueue(&mut queue, Ecn::Ect0, 3);
            assert_eq!(queue.dequeue(at).unwrap().ecn, Ecn::Ect0);
        }
        let mut queue = queue(DualPi2Config::default());
        enqueue(&mut queue, Ecn::Ect1, 1);
        assert_eq!(queue.dequeue(Time::from_ms(1)).unwrap().ecn, Ecn::Ect1, "not above it");
    }

    /// Credit begins at -80 MTUs; each L packet adds 10, each C packet takes 90. So L goes 9 times (-80 .. 0, served at
    /// 0 still), then C once, and again 9 times L.
    #[test]
    fn c_has_a_tenth_of_the_link_while_both_wait() {
        let mut queue = queue(DualPi2Config::default());
        enqueue(&mut queue, Ecn::Ect1, 40);
        enqueue(&mut queue, Ecn::NotEct, 10);
        let order: String = (0..29)
            .map(|_| if queue.dequeue(Time::ZERO).unwrap().ecn == Ecn::Ect1 { 'L' } else { 'C' })
            .collect();
        assert_eq!(order, "LLLLLLLLLCLLLLLLLLLCLLLLLLLLL");
    }

    #[test]
    fn the_ecn_field_chooses_the_queue() {
        let l4s = queue(DualPi2Config::default());
        let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        assert_eq!(fields.map(|ecn| l4s.queue_of(ecn)), [Band::C, Band::C, Band::L, Band::L]);
        let any =
            queue(DualPi2Config { low_latency: LowLatency::EctAny, ..DualPi2Config::default() });
        assert_eq!(fields.map(|ecn| any.queue_of(ecn)), [Band::C, Band::L, Band::L, Band::L]);
    }
}

//! RED: mark or drop early, with a probability that grows with the average queue.
//!
//! The average is taken when packets arrive, before they are added, with weight W = 2^-Wlog:
//!
//! ```text
//! avg = avg + W * (backlog - avg)
//! avg = avg * (1 - W)^(idle time / packet time)        for the first packet after an idle time
//! p   = max_p * (avg - min) / (max - min)              from min to max; all from max on
//! ```
//!
//! Marks are spaced out: the count of packets since the last one multiplies p, and is held against one uniform draw
//! per mark (Floyd and Jacobson 1993, method 2). The average, the thresholds and the draw are Linux 6.12's, in whole
//! bytes and microseconds. Also there: `gentle` (Floyd 2000), which Linux lacks.

use crate::packet::Ecn;
use crate::qdisc::{Admission, Departure, DropReason, Inside, QueueAction};
use crate::settings::{PortProperties, Settings, drain};
use crate::step::NotEctAbove;
use crate::time::{Duration, PS_PER_US, Rate, Time};
use knee_units::settings::{Setting, Visit, key};
use knee_units::{Backlog, Limit, Random};

/// The largest Wlog.
const WLOG_MAX: u32 = 31;
/// The largest threshold: the average, in 1/2^Wlog bytes, stays below 2^63.
const THRESHOLD_MAX_BYTES: u64 = 1 << 30;
/// A probability of 1, in fractions of 2^32.
const PROB_ONE: u64 = 1 << 32;
/// Adaptive RED leaves `max_p` alone above 50 %, and lowers it no further below 1 %.
const ADAPTIVE_MAX: u64 = PROB_ONE / 2;
const ADAPTIVE_MIN: u64 = PROB_ONE / 100;
/// Adaptive RED's time between updates in Linux.
const ADAPT_INTERVAL: Duration = Duration::from_ms(500);
/// More idle time than the table has entries leaves nothing of the average.
const IDLE_ENTRIES: usize = 256;
const IDLE_SHIFT_MAX: u8 = 31;

knee_units::settings! {
    /// Settings of a RED queue.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RedConfig(place: PortProperties) as (config, v) check check {
        /// How much may wait.
        pub limit: Limit = Limit::UNLIMITED => { v.limit(&mut config.limit) };
        // Below this nothing happens.
        /// Minimum threshold of the average, in full packets or bytes.
        pub min_bytes: u64 = THRESHOLD_MAX_BYTES => "min": Backlog.needed("20 pkts");
        // From this average on every packet is marked or dropped.
        /// Maximum threshold.
        pub max_bytes: u64 = THRESHOLD_MAX_BYTES => "max": Backlog.needed("60 pkts");
        /// Probability at `max`.
        pub max_p: f64 = 0.1 => "max_p": Share;
        // 0: the average is the backlog.
        /// EWMA weight 2^-wlog.
        pub wlog: u32 = 9 => "wlog": Number.within(0, WLOG_MAX as u64);
        // Below a token bucket Linux's RED never learns that it is idle.
        /// Packet time for the decay in idle periods; 0: no decay.
        pub packet_time: Duration =
            if place.has_burst { Duration::ZERO } else { place.rate.time_of(place.frame_bytes) } => "packet_time": Time;
        /// Mark ECN-capable packets.
        pub ecn: bool = true => "ecn": Flag;
        // Of those chosen for a mark; Linux drops them by default.
        /// Action on Not-ECT packets.
        pub not_ect: NotEctAbove = NotEctAbove::Drop
            => "not_ect": Word[("queue", NotEctAbove::Queue), ("drop", NotEctAbove::Drop)].only_if(config.ecn, NEEDS_ECN);
        /// Drop ECN-capable packets above `max`.
        pub harddrop: bool = false => "harddrop": Flag.only_if(config.ecn, NEEDS_ECN);
        // Only from twice `max` on all are marked or dropped.
        /// Gentle mode: probability rises to 1 at twice `max`.
        pub gentle: bool = false => "gentle": Flag;
        /// How often `max_p` is moved so that the average stays between 40 and 60 % of the way from min to max; Linux's
        /// interval is 500 ms. `None`: it stays as it is.
        pub adapt_interval: Option<Duration> = None => { adaptive(config, v) };
        /// Seed of the decisions.
        pub seed: u64 = 0 => { v.seed(&mut config.seed) };
    }
}

const NEEDS_ECN: &str = "has no meaning without ecn: then all are dropped";

/// Shows the time between updates of `max_p`, as whether there are any.
fn adaptive(config: &mut RedConfig, v: &mut dyn Visit) {
    let mut adaptive = config.adapt_interval.is_some();
    v.key(key("adaptive", "Adaptive RED."), Setting::Flag(&mut adaptive));
    let mut interval = config.adapt_interval.unwrap_or(ADAPT_INTERVAL);
    v.time(&mut interval);
    config.adapt_interval = adaptive.then_some(interval);
    if interval < Duration::from_us(1) {
        v.refuse("adaptive", "the time between updates must be at least 1 us");
    }
}

/// Refuses settings that cannot work.
fn check(config: &mut RedConfig, v: &mut dyn Visit) {
    if config.min_bytes > config.max_bytes || config.max_bytes > THRESHOLD_MAX_BYTES {
        v.refuse("max", "RED's max must be at least its min, and both at most 1 GiB");
    }
    if !(0.0..=1.0).contains(&config.max_p) {
        v.refuse("max_p", "RED's max_p must be a share from 0 to 1");
    }
    if config.wlog > WLOG_MAX {
        v.refuse("wlog", "RED's wlog must be from 0 (no averaging) to 31");
    }
}

impl Settings for RedConfig {
    fn kind(&self) -> &'static str {
        "red"
    }

    fn at(place: PortProperties) -> RedConfig {
        RedConfig::new(place)
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        RedConfig::fields(self, v);
    }

    fn acts_at(&self, rate: Rate) -> Option<Duration> {
        Some(drain(rate, self.min_bytes.max(1514)))
    }
}

/// RED (Floyd and Jacobson 1993; Linux `sch_red`).
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    /// The average in 1/2^wlog bytes.
    avg: u64,
    /// `max_p` in 1/2^32, as adapted.
    max_p: u64,
    /// Packets since the last mark or drop; `None` while the average is out of range.
    count: Option<u64>,
    /// Uniform in 32 bits; drawn anew after each mark or drop.
    draw: u64,
    /// When the queue became empty; `None` while it is not.
    idle_since: Option<Time>,
    idle_decay: IdleDecay,
    next_adaptation: Option<Time>,
    threshold_hits: u64,
    random: Random,
}

/// Decision by the average queue (Linux `red_action`, whose counters are `prob_*` and `forced_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedAction {
    Pass,
    /// By the probability between min and max.
    Prob,
    /// The average is at max or above.
    Forced,
}

impl Red {
    /// A queue with these settings, empty since time zero.
    pub fn new(config: RedConfig) -> Red {
        let config = RedConfig {
            wlog: config.wlog.min(WLOG_MAX),
            min_bytes: config.min_bytes.min(THRESHOLD_MAX_BYTES),
            max_bytes: config.max_bytes.min(THRESHOLD_MAX_BYTES),
            ..config
        };
        Red {
            avg: 0,
            max_p: (config.max_p.clamp(0.0, 1.0) * PROB_ONE as f64) as u64,
            count: None,
            draw: 0,
            idle_since: None,
            idle_decay: IdleDecay::new(config.wlog, config.packet_time),
            next_adaptation: config.adapt_interval.map(|interval| Time::ZERO + interval),
            threshold_hits: 0,
            random: Random::new(config.seed),
            config,
        }
    }

    /// The average queue in bytes.
    pub fn avg_bytes(&self) -> u64 {
        self.avg >> self.config.wlog
    }

    /// The probability by the average, before marks are spaced.
    pub fn probability(&self) -> f64 {
        let avg_bytes = self.avg_bytes();
        if avg_bytes < self.config.min_bytes {
            0.0
        } else if avg_bytes < self.config.max_bytes {
            let above = (avg_bytes - self.config.min_bytes) as f64;
            self.max_p as f64 / PROB_ONE as f64 * above / self.range_bytes() as f64
        } else {
            self.gentle_prob().map_or(1.0, |prob| prob as f64 / PROB_ONE as f64)
        }
    }

    fn range_bytes(&self) -> u64 {
        self.config.max_bytes.saturating_sub(self.config.min_bytes).max(1)
    }

    fn update_average(&mut self, backlog: Backlog, now: Time) {
        self.avg = match self.idle_since.take() {
            Some(since) if backlog.pkts == 0 => self.idle_decay.after(self.avg, now.since(since)),
            // A backlog of more than 2^32 bytes is far above every threshold.
            _ => self.avg + backlog.bytes.min(PROB_ONE) - self.avg_bytes(),
        };
    }

    fn action(&mut self) -> RedAction {
        let avg_bytes = self.avg_bytes();
        if avg_bytes < self.config.min_bytes {
            self.count = None;
            return RedAction::Pass;
        }
        if avg_bytes < self.config.max_bytes {
            // p * count >= U, with p = max_p / range * above. In Linux the division comes first, and is rounded down.
            let per_byte = (self.max_p / self.range_bytes()).max(1);
            let above = avg_bytes - self.config.min_bytes;
            return self.spaced(|count, draw| above.saturating_mul(count) >= draw / per_byte);
        }
        match self.gentle_prob() {
            Some(prob) => self.spaced(|count, draw| prob.saturating_mul(count) >= draw),
            None => {
                self.count = None;
                RedAction::Forced
            }
        }
    }

    /// Between max and twice max, if the queue is gentle there, in 1/2^32.
    fn gentle_prob(&self) -> Option<u64> {
        let (avg_bytes, max_bytes) = (self.avg_bytes(), self.config.max_bytes);
        let is_gentle = self.config.gentle && avg_bytes < 2 * max_bytes;
        // 32 bits times 30.
        let of_rest = |rest: u64| rest * avg_bytes.saturating_sub(max_bytes) / max_bytes.max(1);
        is_gentle.then(|| self.max_p + of_rest(PROB_ONE - self.max_p))
    }

    /// Compares the count of packets with the draw. The first packet in range always passes.
    fn spaced(&mut self, is_due: impl Fn(u64, u64) -> bool) -> RedAction {
        let action = match self.count {
            Some(count) if is_due(count + 1, self.draw) => RedAction::Prob,
            Some(count) => {
                self.count = Some(count + 1);
                return RedAction::Pass;
            }
            None => RedAction::Pass,
        };
        self.count = Some(0);
        self.draw = self.random.u64() >> 32;
        action
    }

    fn apply(&mut self, action: RedAction, ecn: Ecn) -> QueueAction {
        self.threshold_hits += 1;
        if !self.config.ecn || (action == RedAction::Forced && self.config.harddrop) {
            QueueAction::Dropped(DropReason::Early)
        } else if ecn.is_capable() {
            QueueAction::Marked
        } else if self.config.not_ect == NotEctAbove::Queue {
            QueueAction::Queued
        } else {
            QueueAction::Dropped(DropReason::NotEct)
        }
    }

    /// Moves `max_p`: up by a quarter, at most 1 %, if the average is high; down by a tenth if it is low.
    fn adapt(&mut self, now: Time) {
        let avg = match self.idle_since {
            Some(since) => self.idle_decay.after(self.avg, now.since(since)),
            None => self.avg,
        };
        let avg_bytes = avg >> self.config.wlog;
        let part = |tenths: u64| self.config.min_bytes + self.range_bytes() * tenths / 10;
        if avg_bytes > part(6) && self.max_p <= ADAPTIVE_MAX {
            self.max_p += (self.max_p / 4).min(ADAPTIVE_MIN);
        } else if avg_bytes < part(4) && self.max_p >= ADAPTIVE_MIN {
            self.max_p = self.max_p / 10 * 9;
        }
    }
}

impl Admission for Red {
    /// RED comes before the tail drop, as in Linux: a packet that finds the buffer full may count as early too.
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, now: Time) -> QueueAction {
        self.update_average(backlog, now);
        let action = match self.action() {
            RedAction::Pass => QueueAction::Queued,
            action => self.apply(action, ecn),
        };
        let is_dropped = matches!(action, QueueAction::Dropped(_));
        if is_dropped || self.config.limit.has_room(backlog, len_bytes) {
            action
        } else {
            QueueAction::Dropped(DropReason::Full)
        }
    }

    /// The queue is idle from the moment that its last packet goes.
    fn release(&mut self, departure: Departure, now: Time) -> QueueAction {
        if departure.behind.pkts == 0 && self.config.packet_time > Duration::ZERO {
            self.idle_since = Some(now);
        }
        QueueAction::Queued
    }

    fn tick(&mut self, _backlog: Backlog, now: Time) {
        if self.next_adaptation.is_some_and(|due| now >= due) {
            self.adapt(now);
            let interval = self.config.adapt_interval.unwrap_or_default();
            self.next_adaptation = Some(now + interval.max(Duration::from_us(1)));
        }
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        self.next_adaptation.map(|due| due.max(now))
    }

    fn threshold_hits(&self) -> u64 {
        self.threshold_hits
    }

    fn inside(&self) -> Option<Inside> {
        Some(Inside { drop_probability: Some(self.probability()), qdelay: None })
    }
}

/// Decay of the average over an idle time: a table of shifts, as `tc` computes it for Linux.
#[derive(Clone, Debug)]
struct IdleDecay {
    /// Entry i is for idle times of i << `cell_log` us: `avg >> shift` approximates (1 - W)^(time / packet time).
    shifts: [u8; IDLE_ENTRIES],
    cell_log: u32,
}

impl IdleDecay {
    fn new(wlog: u32, packet_time: Duration) -> IdleDecay {
        // Halvings per us. 1 - W is 0 for wlog 0: one packet's time leaves nothing.
        let kept = 1.0 - (-f64::from(wlog)).exp2();
        let packet_us = packet_time.ps() as f64 / PS_PER_US as f64;
        let halvings_per_us = -kept.log2() / packet_us.max(1e-6);
        let longest_us = f64::from(IDLE_SHIFT_MAX) / halvings_per_us;
        let is_covered = |log: &u32| longest_us / f64::from(1_u32 << log) < 2.0 * 256.0;
        let cell_log = (0..31).find(is_covered).unwrap_or(31);
        let mut shifts = [IDLE_SHIFT_MAX; IDLE_ENTRIES];
        for (cell, shift) in (0_u64..).zip(&mut shifts[..IDLE_ENTRIES - 1]) {
            let us = (cell << cell_log) as f64;
            // Zero times infinity is no number, and 0 as a whole one.
            *shift = ((us * halvings_per_us) as u8).min(IDLE_SHIFT_MAX);
        }
        IdleDecay { shifts, cell_log }
    }

    /// The average after an idle time; where not even a halving is due, what is lost grows with the time, to one half.
    fn after(&self, avg: u64, idle: Duration) -> u64 {
        let longest_us = (IDLE_ENTRIES as u64 - 1) << self.cell_log;
        let us = idle.us().min(longest_us);
        match self.shifts[(us >> self.cell_log) as usize] {
            0 => {
                avg - ((u128::from(avg) * u128::from(us)) >> self.cell_log).min(avg as u128 / 2)
                    as u64
            }
            shift => avg >> shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::Fifo;
    use crate::qdisc::Qdisc;
    use crate::testing::{Pkt, full};

    /// 20 to 60 packets of 1000 bytes, half at the upper end, the backlog itself for an average.
    fn config() -> RedConfig {
        RedConfig {
            limit: Limit::Bytes(200_000),
            min_bytes: 20_000,
            max_bytes: 60_000,
            max_p: 0.5,
            wlog: 0,
            packet_time: Duration::ZERO,
            ecn: true,
            not_ect: NotEctAbove::Drop,
            harddrop: false,
            gentle: false,
            adapt_interval: None,
            seed: 1,
        }
    }

    fn waiting(bytes: u64) -> Backlog {
        Backlog { pkts: bytes.div_ceil(1000) as u32, bytes }
    }

    fn admit(red: &mut Red, bytes: u64, ecn: Ecn) -> QueueAction {
        red.admit(waiting(bytes), 1000, ecn, Time::ZERO)
    }

    const EARLY: QueueAction = QueueAction::Dropped(DropReason::Early);

    #[test]
    fn each_key_is_shown_once_with_ecn_and_without() {
        let keys = |ecn| crate::QueueConfig::Red(RedConfig { ecn, ..config() }).keys();
        assert_eq!(keys(false), keys(true));
    }

    #[test]
    fn the_average_moves_by_its_weight() {
        let mut red = Red::new(RedConfig { wlog: 2, ..config() });
        // avg = 3/4 avg + 1/4 of 16000: 4000, 7000, 9250.
        let averages = [(); 3].map(|()| {
            admit(&mut red, 16_000, Ecn::Ect0);
            red.avg_bytes()
        });
        assert_eq!(averages, [4000, 7000, 9250]);
        // And down: 3/4 of 9250, 6937.5, of which the quarters are kept.
        admit(&mut red, 0, Ecn::Ect0);
        assert_eq!((red.avg, red.avg_bytes()), (27_750, 6937));
    }

    #[test]
    fn below_min_nothing_and_from_max_on_everything_is_marked() {
        let mut red = Red::new(config());
        for bytes in [0, 19_999] {
            assert_eq!(admit(&mut red, bytes, Ecn::Ect0), QueueAction::Queued);
        }
        for bytes in [60_000, 100_000] {
            assert_eq!(admit(&mut red, bytes, Ecn::Ect0), QueueAction::Marked);
        }
        assert_eq!(red.threshold_hits(), 2);
    }

    /// p = 0.5 * (40000 - 20000) / 40000 = 1/4, so that gaps between marks are uniform in 1..4: 2.5 packets on average.
    #[test]
    fn between_them_marks_are_a_uniform_number_of_packets_apart() {
        let mut red = Red::new(config());
        assert_eq!(
            admit(&mut red, 40_000, Ecn::Ect0),
            QueueAction::Queued,
            "the first always passes"
        );
        let mut gaps = [0_u32; 6];
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            if admit(&mut red, 40_000, Ecn::Ect0) == QueueAction::Marked {
                gaps[gap] += 1;
                gap = 0;
            }
        }
        // 40000 marks, each gap 10000 times with a standard deviation of 87.
        assert_eq!(gaps[0] + gaps[5], 0, "{gaps:?}");
        assert!(gaps[1..5].iter().all(|count| (9_600..10_400).contains(count)), "{gaps:?}");
        assert_eq!(red.probability(), 0.25);
    }

    #[test]
    fn what_cannot_be_marked_is_dropped_or_queued_as_asked() {
        let mut drops = Red::new(config());
        let not_ect = QueueAction::Dropped(DropReason::NotEct);
        assert_eq!(admit(&mut drops, 60_000, Ecn::NotEct), not_ect);
        let mut queues = Red::new(RedConfig { not_ect: NotEctAbove::Queue, ..config() });
        assert_eq!(admit(&mut queues, 60_000, Ecn::NotEct), QueueAction::Queued);
        assert_eq!(queues.threshold_hits(), 1);
        let mut no_ecn = Red::new(RedConfig { ecn: false, ..config() });
        assert_eq!(admit(&mut no_ecn, 60_000, Ecn::Ect0), EARLY);
        let mut hard = Red::new(RedConfig { harddrop: true, ..config() });
        assert_eq!(admit(&mut hard, 60_000, Ecn::Ect0), EARLY);
    }

    /// At 90 of 60 to 120 kB: 0.5 + 0.5 / 2 = 3/4.
    #[test]
    fn gentle_grows_from_max_p_to_one_at_twice_max() {
        let mut red = Red::new(RedConfig { gentle: true, harddrop: true, ..config() });
        admit(&mut red, 90_000, Ecn::Ect0);
        assert_eq!(red.probability(), 0.75);
        let marks = (0..10_000)
            .filter(|_| admit(&mut red, 90_000, Ecn::Ect0) == QueueAction::Marked)
            .count();
        // A gap is 1 with probability 3/4, else 2: 1.25 packets a mark, 8000 marks.
        assert!((7_900..8_100).contains(&marks), "{marks}");
        assert_eq!(admit(&mut red, 120_000, Ecn::Ect0), EARLY);
    }

    /// W = 1/2 and packets of 4 us: a halving for every 4 us. 31 of them are 124 us, so that cells are of 1 us.
    #[test]
    fn an_idle_time_halves_the_average_for_every_packet_time() {
        let decay = IdleDecay::new(1, Duration::from_us(4));
        assert_eq!(decay.cell_log, 0);
        let left =
            [4, 8, 11, 12, 40, 1_000_000].map(|us| decay.after(1 << 20, Duration::from_us(us)));
        assert_eq!(left, [1 << 19, 1 << 18, 1 << 18, 1 << 17, 1 << 10, 0]);
        // Before the first halving Linux takes off avg * us, but never more than half.
        assert_eq!(decay.after(1 << 20, Duration::from_us(1)), 1 << 19);
        assert_eq!(decay.after(1 << 20, Duration::from_ns(999)), 1 << 20);
    }

    /// 31 halvings are 31 ms, so that cells are of 64 us, and what is less is not counted.
    #[test]
    fn long_packet_times_are_looked_up_in_longer_cells() {
        let decay = IdleDecay::new(1, Duration::from_ms(1));
        assert_eq!(decay.cell_log, 6);
        let left = [2_000, 2_048, 4_000, 4_032, 1_000_000].map(|us| {
            let idle = Duration::from_us(us);
            decay.after(1 << 40, idle)
        });
        assert_eq!(left, [1 << 39, 1 << 38, 1 << 37, 1 << 36, 1 << 9]);
    }

    #[test]
    fn a_queue_of_weight_one_forgets_within_a_microsecond() {
        let decay = IdleDecay::new(0, Duration::from_us(1));
        assert_eq!(decay.after(90_000, Duration::from_us(1)), 90_000 >> 31);
        assert_eq!(decay.after(90_000, Duration::from_ns(900)), 90_000);
    }

    #[test]
    fn idle_time_counts_from_the_last_departure() {
        let idle = RedConfig { wlog: 1, packet_time: Duration::from_us(4), ..config() };
        for (config, expected) in
            [(idle.clone(), 757 / 4), (RedConfig { packet_time: Duration::ZERO, ..idle }, 378)]
        {
            let mut queue: Fifo<Red, Pkt> = Fifo::new(Red::new(config));
            queue.enqueue(full(0, Ecn::Ect0), Time::ZERO);
            queue.enqueue(full(1, Ecn::Ect0), Time::ZERO);
            assert_eq!(queue.policy().avg_bytes(), 757);
            // Not from this one, behind which another waits.
            queue.dequeue(Time::from_us(1));
            queue.dequeue(Time::from_us(6));
            // 8 us are two halvings; without them this is one more arrival that finds nothing.
            queue.enqueue(full(2, Ecn::Ect0), Time::from_us(14));
            assert_eq!(queue.policy().avg_bytes(), expected);
        }
    }

    #[test]
    fn adaptation_moves_max_p_by_a_quarter_or_a_tenth() {
        let interval = Duration::from_ms(500);
        let mut red =
            Red::new(RedConfig { max_p: 0.02, adapt_interval: Some(interval), ..config() });
        let percent = |red: &Red| red.max_p as f64 / PROB_ONE as f64 * 100.0;
        // Above 20 + 0.6 * 40 = 44 kB: + 0.5 %, a quarter of 2 %.
        admit(&mut red, 45_000, Ecn::Ect0);
        assert_eq!(red.next_event(Time::ZERO), Some(Time::from_ms(500)));
        red.tick(waiting(0), Time::from_ms(499));
        assert!((percent(&red) - 2.0).abs() < 1e-6);
        red.tick(waiting(0), Time::from_ms(500));
        assert!((percent(&red) - 2.5).abs() < 1e-6);
        // Between 36 and 44 kB it stays; below it loses a tenth.
        admit(&mut red, 40_000, Ecn::Ect0);
        red.tick(waiting(0), Time::from_ms(1000));
        assert!((percent(&red) - 2.5).abs() < 1e-6);
        admit(&mut red, 35_000, Ecn::Ect0);
        red.tick(waiting(0), Time::from_ms(1500));
        assert!((percent(&red) - 2.25).abs() < 1e-6);
    }

    /// The fact that the reference runs rest on: RED with min = max and no averaging is step marking.
    #[test]
    fn min_as_max_without_averaging_is_a_step() {
        let step = RedConfig { min_bytes: 30_000, max_bytes: 30_000, ..config() };
        let mut red = Red::new(step);
        assert_eq!(admit(&mut red, 29_999, Ecn::Ect0), QueueAction::Queued);
        assert_eq!(admit(&mut red, 30_000, Ecn::Ect0), QueueAction::Marked);
        assert_eq!(admit(&mut red, 29_999, Ecn::Ect0), QueueAction::Queued);
        let full = QueueAction::Dropped(DropReason::Full);
        assert_eq!(admit(&mut red, 199_001, Ecn::Ect0), full);
        assert_eq!(red.threshold_hits(), 2);
    }
}

//! PIE: drop with a probability that steers the queueing delay to a target.
//!
//! Every update interval, with qdelay the current delay and the gains in 1/s,
//!
//! ```text
//! prob += a * (qdelay - target) + b * (qdelay - previous qdelay)
//! a = alpha / 16, b = beta / 16, both smaller while prob is small
//! ```
//!
//! Sources: RFC 8033, and what Linux 6.1 does where the two differ: integer gains on a clock of 64 ns, a
//! probability in 1/2^56 that may pass 1, and the two-update rule for the burst allowance.

use crate::packet::Ecn;
use crate::qdisc::{Admission, Departure, DropReason, Inside, QueueAction};
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, PS_PER_NS, Rate, Time};
use knee_units::settings::Visit;
use knee_units::{Backlog, Random};

/// PIE's clock: all delays are whole ticks of this length.
const TICK_PS: u64 = 64 * PS_PER_NS;
const TICKS_PER_SEC: u64 = 15_625_000;

/// Probabilities are fractions of 2^56.
const PROB_BITS: u32 = 56;
/// A probability of 1.
const PROB_ONE: u64 = (1 << PROB_BITS) - 1;
const PROB_10_PCT: u64 = PROB_ONE / 10;
const PROB_2_PCT: u64 = PROB_ONE / 50;

/// Derandomisation (RFC 8033, section 5.4): no drop before the probabilities of the packets since the
/// last one add up to 0.85, and certainly one at 8.5.
const ACCUMULATED_MIN: u64 = PROB_ONE / 100 * 85;
const ACCUMULATED_MAX: u64 = PROB_ONE / 2 * 17;

/// 250 ms. A delay above this adds 2 % to the probability per update (RFC 8033 4.2).
const HIGH_DELAY_TICKS: u64 = 250_000_000 / 64;

/// A departure rate is measured over this many bytes, from a moment when as many wait. (Linux 6.1; up to
/// about 5.0 it was 10 000.) Fewer bytes make the measured rate jump with the packets' lengths.
const MEASURED_BYTES: u64 = 16_384;
/// Departure rates are in 1/256 byte per tick.
const RATE_SHIFT: u32 = 8;

/// Where PIE takes the queueing delay from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PieDelay {
    /// The time that the packet last dequeued had waited (Linux's default).
    #[default]
    Timestamps,
    /// The backlog divided by the measured departure rate (RFC 8033, section 5.2, and older Linux).
    DepartureRate,
}

knee_units::settings! {
    /// Settings of a PIE queue. [`Default`] is Linux's, with seed 0.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PieConfig as (config, v) check check {
        /// Limit in packets.
        pub limit_pkts: u32 = 1000 => "limit": Pkts;
        /// Target sojourn time.
        pub target: Duration = Duration::from_ms(15) => "target": Time;
        // Linux rounds it up to its timer tick (1 ms or 4 ms).
        /// Update period of the probability.
        pub update_interval: Duration = Duration::from_ms(15) => "update_interval": Time;
        // From time zero.
        /// Time of the first update.
        pub first_update: Duration = Duration::from_ms(500) => "first_update": Time;
        // In 1/16 per second.
        /// Gain on the delay error, in Linux's units.
        pub alpha: u32 = 2 => "alpha": Number.within(0, 32);
        /// Gain on the delay change, in Linux's units.
        pub beta: u32 = 20 => "beta": Number.within(0, 32);
        // How long a queue may be busy, from the start or from a quiet time, before anything is dropped.
        /// Burst allowance.
        pub burst_allowance: Duration = Duration::from_ms(150) => "burst_allowance": Time;
        // At most 10 %.
        /// Mark ECN-capable packets while the probability is low.
        pub ecn: bool = false => "ecn": Flag;
        // Shorter packets are dropped less, in proportion to their length.
        /// Scale the probability by packet length.
        pub byte_mode: bool = false => "byte_mode": Flag;
        /// The longest packet in bytes, Ethernet header included.
        pub mtu_bytes: u32 = 1514;
        /// Delay estimate.
        pub delay: PieDelay = PieDelay::Timestamps
            => "delay": Word[("timestamps", PieDelay::Timestamps), ("departure-rate", PieDelay::DepartureRate)];
        // Drops are kept from bunching and from staying away by chance; false for older Linux.
        /// De-randomise drops and marks.
        pub derandomise: bool = true => "derandomise": Flag;
        /// Seed of the drop decisions.
        pub seed: u64 = 0 => { v.seed(&mut config.seed) };
    }
}

/// Refuses settings that cannot work.
fn check(config: &mut PieConfig, v: &mut dyn Visit) {
    if config.update_interval.ps() < TICK_PS {
        let why = "PIE's update interval must be at least 64 ns, the tick of its clock";
        v.refuse("update_interval", why);
    }
    if config.mtu_bytes == 0 {
        let why = "PIE's MTU must be above 0 bytes (1514 for Ethernet, header included)";
        v.refuse("kind", why);
    }
}

impl Settings for PieConfig {
    fn kind(&self) -> &'static str {
        "pie"
    }

    fn at(place: PortProperties) -> PieConfig {
        PieConfig { mtu_bytes: place.frame_bytes, ..PieConfig::default() }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        PieConfig::fields(self, v);
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        Some(self.target)
    }
}

/// PIE (RFC 8033; Linux `sch_pie`).
#[derive(Clone, Debug)]
pub struct Pie {
    config: PieConfig,
    /// Drop probability, in 1/2^56; may pass 1.
    prob: u64,
    /// Sum of the probabilities of the packets since the last drop, in 1/2^56.
    accumulated_prob: u64,
    qdelay_ticks: u64,
    /// The delay at the update before.
    prior_qdelay_ticks: u64,
    /// Rest of the burst allowance.
    burst_left_ticks: u64,
    /// When a packet last left; `None` after a restart.
    dequeued_at_ticks: Option<u64>,
    departure_rate: DepartureRate,
    next_update: Time,
    random: Random,
}

impl Pie {
    /// A queue with these settings, created at time zero.
    pub fn new(config: PieConfig) -> Pie {
        Pie {
            prob: 0,
            accumulated_prob: 0,
            qdelay_ticks: 0,
            prior_qdelay_ticks: 0,
            burst_left_ticks: ticks(config.burst_allowance),
            dequeued_at_ticks: None,
            departure_rate: DepartureRate::default(),
            next_update: Time::ZERO + config.first_update,
            random: Random::new(config.seed),
            config,
        }
    }

    /// The drop probability. It can pass 1: PIE only ever bounds its changes.
    pub fn probability(&self) -> f64 {
        self.prob as f64 / (1u64 << PROB_BITS) as f64
    }

    /// The queueing delay that PIE acts on, in steps of 64 ns.
    pub fn qdelay(&self) -> Duration {
        Duration::from_ps(self.qdelay_ticks.saturating_mul(TICK_PS))
    }

    /// Whether the queue is so short that nothing is dropped early.
    fn is_safe(&self, backlog: Backlog) -> bool {
        let is_delay_low = self.qdelay_ticks < self.half_target_ticks() && self.prob < PROB_ONE / 5;
        self.burst_left_ticks > 0
            || is_delay_low
            || backlog.bytes < 2 * u64::from(self.config.mtu_bytes)
    }

    /// Draws whether an arriving packet is dropped or marked (Linux `pie_drop_early`).
    fn drop_early(&mut self, len_bytes: u32) -> bool {
        let prob = self.prob_for(len_bytes);
        if self.config.derandomise {
            self.accumulated_prob =
                if prob == 0 { 0 } else { self.accumulated_prob.saturating_add(prob) };
            if self.accumulated_prob < ACCUMULATED_MIN {
                return false;
            }
            // The sum stays: if the packet is marked, the next one is marked or dropped as well.
            if self.accumulated_prob >= ACCUMULATED_MAX {
                return true;
            }
        }
        let is_chosen = self.random.u64() >> (u64::BITS - PROB_BITS) < prob;
        if is_chosen {
            self.accumulated_prob = 0;
        }
        is_chosen
    }

    fn prob_for(&self, len_bytes: u32) -> u64 {
        let mtu_bytes = self.config.mtu_bytes.max(1);
        if self.config.byte_mode && len_bytes <= mtu_bytes {
            // At most prob: no overflow.
            u64::from(len_bytes) * (self.prob / u64::from(mtu_bytes))
        } else {
            self.prob
        }
    }

    /// The delay of the packet that leaves, or none if it leaves the queue empty.
    fn measure_by_timestamp(&mut self, departure: Departure, now_ticks: u64) {
        self.qdelay_ticks = if departure.behind.bytes == 0 {
            0
        } else {
            now_ticks.saturating_sub(departure.enqueued_at.ps() / TICK_PS)
        };
        if let Some(before) = self.dequeued_at_ticks.replace(now_ticks) {
            self.spend_burst(now_ticks.saturating_sub(before));
        }
    }

    fn spend_burst(&mut self, spent_ticks: u64) {
        self.burst_left_ticks = self.burst_left_ticks.saturating_sub(spent_ticks);
    }

    fn update(&mut self, backlog: Backlog) {
        if self.config.delay == PieDelay::DepartureRate {
            self.qdelay_ticks = self.departure_rate.delay_ticks(backlog.bytes);
        }
        self.prob = self.next_prob();
        let is_idle = self.qdelay_ticks == 0 && self.prior_qdelay_ticks == 0 && backlog.bytes == 0;
        if is_idle {
            self.prob -= self.prob / 64;
        }
        if self.is_quiet() {
            self.restart();
        }
        self.prior_qdelay_ticks = self.qdelay_ticks;
    }

    /// The PI controller (RFC 8033 4.2).
    fn next_prob(&self) -> u64 {
        let (alpha, beta) = self.gains();
        let from_target = i128::from(self.qdelay_ticks) - i128::from(ticks(self.config.target));
        let change = i128::from(self.qdelay_ticks) - i128::from(self.prior_qdelay_ticks);
        // Gains are below 2^61 and delays below 2^49: no overflow.
        let mut delta = i128::from(alpha) * from_target + i128::from(beta) * change;
        if self.prob >= PROB_10_PCT {
            delta = delta.min(i128::from(PROB_2_PCT));
        }
        if self.qdelay_ticks > HIGH_DELAY_TICKS {
            delta += i128::from(PROB_2_PCT);
        }
        let next = i128::from(self.prob) + delta;
        // Linux notices only that 64 bits have wrapped, and then takes 1.
        u64::try_from(next.max(0)).unwrap_or(PROB_ONE)
    }

    /// The gains in 1/2^56 per tick: halved below 10 %, then quartered at each decade from 1 % to 0.0001 %.
    fn gains(&self) -> (u64, u64) {
        let per_tick = PROB_ONE / TICKS_PER_SEC;
        let mut shift = 4; // alpha and beta are in 1/16.
        if self.prob < PROB_10_PCT {
            let decades = [100, 1_000, 10_000, 100_000, 1_000_000];
            let passed = decades.iter().filter(|&&decade| self.prob < PROB_ONE / decade).count();
            shift += 1 + 2 * passed as u32;
        }
        // 32 bits times 33.
        let gain = |setting: u32| ((u128::from(setting) * u128::from(per_tick)) >> shift) as u64;
        (gain(self.config.alpha), gain(self.config.beta))
    }

    /// Whether congestion is over: two low delays in a row, and no probability left.
    fn is_quiet(&self) -> bool {
        let half_target = self.half_target_ticks();
        self.qdelay_ticks < half_target
            && self.prior_qdelay_ticks < half_target
            && self.prob == 0
            && (self.config.delay == PieDelay::Timestamps || self.departure_rate.is_known())
    }

    /// Grants a new burst allowance.
    fn restart(&mut self) {
        self.burst_left_ticks = ticks(self.config.burst_allowance);
        self.accumulated_prob = 0;
        self.dequeued_at_ticks = None;
        self.departure_rate = DepartureRate::default();
    }

    fn half_target_ticks(&self) -> u64 {
        ticks(self.config.target) / 2
    }
}

impl Admission for Pie {
    fn admit(&mut self, backlog: Backlog, len_bytes: u32, ecn: Ecn, _now: Time) -> QueueAction {
        let reason = if backlog.pkts >= self.config.limit_pkts {
            DropReason::Full
        } else if self.is_safe(backlog) || !self.drop_early(len_bytes) {
            return QueueAction::Queued;
        } else if self.config.ecn && self.prob <= PROB_10_PCT && ecn.is_capable() {
            return QueueAction::Marked;
        } else {
            DropReason::Early
        };
        self.accumulated_prob = 0;
        QueueAction::Dropped(reason)
    }

    fn release(&mut self, departure: Departure, now: Time) -> QueueAction {
        let now_ticks = now.ps() / TICK_PS;
        match self.config.delay {
            PieDelay::Timestamps => self.measure_by_timestamp(departure, now_ticks),
            PieDelay::DepartureRate => {
                if let Some(took) = self.departure_rate.on_departure(departure, now_ticks) {
                    self.spend_burst(took);
                }
            }
        }
        QueueAction::Queued
    }

    /// One update, if due; the next is due one interval from now.
    fn tick(&mut self, backlog: Backlog, now: Time) {
        if now >= self.next_update {
            self.update(backlog);
            let interval = self.config.update_interval.max(Duration::from_ps(TICK_PS));
            self.next_update = now + interval;
        }
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        Some(self.next_update.max(now))
    }

    fn inside(&self) -> Option<Inside> {
        Some(Inside { drop_probability: Some(self.probability()), qdelay: Some(self.qdelay()) })
    }
}

/// The departure rate of a busy queue, for a delay without timestamps.
#[derive(Clone, Debug, Default)]
struct DepartureRate {
    /// The measurement under way: when it began, in ticks, and the bytes that have left since.
    measurement: Option<(u64, u64)>,
    /// Average of the measurements with weight 1/8, in 1/256 byte per tick; 0 while unknown.
    rate: u64,
}

impl DepartureRate {
    fn is_known(&self) -> bool {
        self.rate > 0
    }

    /// How long `bytes` take to leave, in ticks; 0 while the rate is unknown.
    fn delay_ticks(&self, bytes: u64) -> u64 {
        (bytes << RATE_SHIFT).checked_div(self.rate).unwrap_or(0)
    }

    /// Counts a departure. If that completes a measurement, returns the ticks that it took.
    ///
    /// The packet whose departure starts a measurement is counted in it, as in Linux.
    fn on_departure(&mut self, departure: Departure, now_ticks: u64) -> Option<u64> {
        let is_long = departure.behind.bytes >= MEASURED_BYTES;
        if self.measurement.is_none() && is_long {
            self.measurement = Some((now_ticks, 0));
        }
        let (start_ticks, bytes) = self.measurement.as_mut()?;
        *bytes += u64::from(departure.len_bytes);
        let took = now_ticks.saturating_sub(*start_ticks);
        if *bytes < MEASURED_BYTES || took == 0 {
            return None;
        }
        let measured = (*bytes << RATE_SHIFT) / took;
        self.rate = match self.rate {
            0 => measured,
            rate => rate - rate / 8 + measured / 8,
        };
        self.measurement = is_long.then_some((now_ticks, 0));
        Some(took)
    }
}

fn ticks(span: Duration) -> u64 {
    span.ps() / TICK_PS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::Fifo;
    use crate::qdisc::Qdisc;
    use crate::shaper::{Shaped, TokenBucket};
    use crate::testing::{Pkt, full};
    use crate::time::Rate;

    const EARLY: QueueAction = QueueAction::Dropped(DropReason::Early);
    const BUSY: Backlog = Backlog { pkts: 20, bytes: 20 * 1514 };
    const EMPTY: Backlog = Backlog { pkts: 0, bytes: 0 };
    const MS: u64 = TICKS_PER_SEC / 1000;

    /// PIE past its burst allowance, with this probability and 30 ms of delay now and before.
    fn pie(prob: u64, config: PieConfig) -> Pie {
        let mut pie = Pie::new(config);
        pie.prob = prob;
        pie.qdelay_ticks = 30 * MS;
        pie.prior_qdelay_ticks = 30 * MS;
        pie.burst_left_ticks = 0;
        pie
    }

    fn departure(behind_bytes: u64, enqueued_at: Time) -> Departure {
        let behind = Backlog { pkts: (behind_bytes / 1514) as u32, bytes: behind_bytes };
        Departure { behind, len_bytes: 1514, ecn: Ecn::NotEct, enqueued_at }
    }

    #[test]
    fn gains_shrink_with_the_probability() {
        // floor((2^56 - 1) / 15625000) = 4611686018; times 2 or 20, over 16.
        let gains = |prob| pie(prob, PieConfig::default()).gains();
        assert_eq!(gains(PROB_10_PCT), (576_460_752, 5_764_607_522));
        assert_eq!(gains(PROB_10_PCT - 1), (288_230_376, 2_882_303_761));
        assert_eq!(gains(PROB_ONE / 100), (288_230_376, 2_882_303_761));
        // One decade: right shift by 3 in all. Five decades: by 11.
        assert_eq!(gains(PROB_ONE / 200), (72_057_594, 720_575_940));
        assert_eq!(gains(PROB_ONE / 1_000), (72_057_594, 720_575_940));
        assert_eq!(gains(PROB_ONE / 2_000_000), (281_474, 2_814_749));
        assert_eq!(gains(0), (281_474, 2_814_749));
    }

    #[test]
    fn the_controller_at_zero_probability() {
        let mut pie = pie(0, PieConfig::default());
        pie.prior_qdelay_ticks = 0;
        // 30 ms = 468750 ticks, 15 above the target: 281474 * 234375 + 2814749 * 468750.
        assert_eq!(pie.next_prob(), 65_970_468_750 + 1_319_413_593_750);
        // In seconds: (0.125 * 0.015 + 1.25 * 0.030) / 2048 = 19.2 in a million.
        pie.update(BUSY);
        assert!((pie.probability() - 19.2e-6).abs() < 0.1e-6);
        assert_eq!(pie.prior_qdelay_ticks, 468_750);
    }

    #[test]
    fn the_controller_at_half_a_percent() {
        let prob = PROB_ONE / 200;
        let mut pie = pie(prob, PieConfig::default());
        pie.qdelay_ticks = 20 * MS;
        // 5 ms (78125 ticks) above the target, 10 ms (156250 ticks) less than before.
        assert_eq!(pie.next_prob(), prob + 72_057_594 * 78_125 - 720_575_940 * 156_250);
    }

    #[test]
    fn above_ten_percent_a_step_is_at_most_two() {
        let mut pie = pie(PROB_10_PCT, PieConfig::default());
        pie.prior_qdelay_ticks = 0;
        // 1.25 * 0.030 + 0.125 * 0.015 = 3.9 % without the bound.
        assert_eq!(pie.next_prob(), PROB_10_PCT + 1_441_151_880_758_558);
    }

    #[test]
    fn above_250_ms_a_step_is_two_percent_more() {
        let mut pie = pie(PROB_10_PCT, PieConfig::default());
        pie.qdelay_ticks = 250 * MS;
        pie.prior_qdelay_ticks = 250 * MS;
        assert_eq!(pie.next_prob(), PROB_10_PCT + PROB_2_PCT);
        pie.qdelay_ticks += 1;
        assert_eq!(pie.next_prob(), PROB_10_PCT + 2 * PROB_2_PCT);
    }

    #[test]
    fn the_probability_stops_at_zero_but_not_at_one() {
        let mut pie = pie(1, PieConfig::default());
        pie.qdelay_ticks = 0;
        assert_eq!(pie.next_prob(), 0);
        pie.qdelay_ticks = 30 * MS;
        pie.prob = PROB_ONE;
        assert!(pie.next_prob() > PROB_ONE);
        pie.prob = u64::MAX;
        assert_eq!(pie.next_prob(), PROB_ONE);
    }

    #[test]
    fn an_idle_queue_loses_another_64th() {
        let mut pie = pie(PROB_ONE / 2, PieConfig::default());
        pie.qdelay_ticks = 0;
        pie.prior_qdelay_ticks = 0;
        let by_controller = PROB_ONE / 2 - 576_460_752 * 234_375;
        assert_eq!(pie.next_prob(), by_controller);
        let mut busy = pie.clone();
        busy.update(BUSY);
        assert_eq!(busy.prob, by_controller);
        pie.update(EMPTY);
        assert_eq!(pie.prob, by_controller - by_controller / 64);
    }

    #[test]
    fn two_quiet_updates_grant_a_new_burst() {
        let mut pie = pie(0, PieConfig::default());
        pie.accumulated_prob = 1;
        pie.dequeued_at_ticks = Some(1);
        pie.departure_rate.rate = 90;
        pie.qdelay_ticks = 7 * MS;
        pie.update(BUSY);
        assert_eq!((pie.prob, pie.burst_left_ticks), (0, 0));
        pie.update(BUSY);
        assert_eq!(pie.burst_left_ticks, 150 * MS);
        assert_eq!((pie.accumulated_prob, pie.dequeued_at_ticks), (0, None));
        assert!(!pie.departure_rate.is_known());
    }

    #[test]
    fn the_burst_allowance_runs_between_departures() {
        let mut pie = Pie::new(PieConfig::default());
        for (at_ms, left_ms) in [(1000, 150), (1010, 140), (1100, 50), (1151, 0), (1200, 0)] {
            pie.release(departure(1514, Time::from_ms(at_ms - 1)), Time::from_ms(at_ms));
            assert_eq!(pie.burst_left_ticks, left_ms * MS, "at {at_ms} ms");
        }
        // Certain to be dropped, but for the allowance.
        pie.prob = PROB_ONE;
        assert_eq!(pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO), EARLY);
        pie.burst_left_ticks = 1;
        assert_eq!(pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO), QueueAction::Queued);
    }

    #[test]
    fn the_delay_is_that_of_the_last_departure_and_zero_when_nothing_is_left() {
        let mut pie = Pie::new(PieConfig::default());
        pie.release(departure(1514, Time::from_ms(3)), Time::from_ms(10));
        assert_eq!(pie.qdelay(), Duration::from_ms(7));
        pie.release(departure(0, Time::from_ms(3)), Time::from_ms(11));
        assert_eq!(pie.qdelay(), Duration::ZERO);
    }

    #[test]
    fn short_queues_and_low_delays_are_safe() {
        let mut pie = pie(PROB_ONE, PieConfig::default());
        let below_two = Backlog { pkts: 3, bytes: 2 * 1514 - 1 };
        assert_eq!(pie.admit(below_two, 1514, Ecn::NotEct, Time::ZERO), QueueAction::Queued);
        let two = Backlog { pkts: 2, bytes: 2 * 1514 };
        assert_eq!(pie.admit(two, 1514, Ecn::NotEct, Time::ZERO), EARLY);
        // A low delay helps only below 20 %.
        pie.qdelay_ticks = 7 * MS;
        assert_eq!(pie.admit(two, 1514, Ecn::NotEct, Time::ZERO), EARLY);
        pie.prob = PROB_ONE / 5 - 1;
        pie.accumulated_prob = ACCUMULATED_MAX;
        assert_eq!(pie.admit(two, 1514, Ecn::NotEct, Time::ZERO), QueueAction::Queued);
    }

    #[test]
    fn the_limit_comes_first_and_clears_the_sum() {
        let mut pie = pie(1, PieConfig { limit_pkts: 20, ..PieConfig::default() });
        pie.accumulated_prob = 5;
        let action = pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO);
        assert_eq!(action, QueueAction::Dropped(DropReason::Full));
        assert_eq!(pie.accumulated_prob, 0);
    }

    #[test]
    fn probabilities_add_up_between_drops() {
        // At 1 %: nothing for 84 packets at least, and a drop at the 850th at the latest.
        let mut gaps = Vec::new();
        let mut pie = pie(PROB_ONE / 100, PieConfig::default());
        while gaps.len() < 2000 {
            let gap = (1..).find(|_| pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO) == EARLY);
            assert_eq!(pie.accumulated_prob, 0);
            gaps.push(gap.unwrap());
        }
        assert!(gaps.iter().all(|gap| (85..=851).contains(gap)));
        // 84 packets for certain, then 1 % each: 184 on average, and a standard error of 2.2.
        let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        assert!((175.0..193.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_sum_of_eight_and_a_half_is_a_hit_whatever_the_draw() {
        let config = PieConfig { ecn: true, ..PieConfig::default() };
        let mut pie = pie(1, config);
        pie.accumulated_prob = ACCUMULATED_MAX - 1;
        // A mark leaves the sum as it is, so the next packet is marked too; a drop clears it.
        assert_eq!(pie.admit(BUSY, 1514, Ecn::Ect0, Time::ZERO), QueueAction::Marked);
        assert_eq!(pie.accumulated_prob, ACCUMULATED_MAX);
        assert_eq!(pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO), EARLY);
        assert_eq!(pie.accumulated_prob, 0);
    }

    #[test]
    fn without_derandomisation_each_packet_is_drawn_alone() {
        let config = PieConfig { derandomise: false, ..PieConfig::default() };
        let mut pie = pie(PROB_ONE / 4, config);
        let drops =
            (0..10_000).filter(|_| pie.admit(BUSY, 1514, Ecn::NotEct, Time::ZERO) == EARLY).count();
        // 2500, and a standard deviation of 43.
        assert!((2300..2700).contains(&drops), "{drops}");
    }

    #[test]
    fn ecn_marks_up_to_ten_percent_and_drops_above() {
        let config = PieConfig { ecn: true, ..PieConfig::default() };
        let mut at_ten = pie(PROB_10_PCT, config.clone());
        at_ten.accumulated_prob = ACCUMULATED_MAX;
        let mut above = pie(PROB_10_PCT + 1, config);
        above.accumulated_prob = ACCUMULATED_MAX;
        assert_eq!(at_ten.admit(BUSY, 1514, Ecn::Ect1, Time::ZERO), QueueAction::Marked);
        assert_eq!(above.admit(BUSY, 1514, Ecn::Ect1, Time::ZERO), EARLY);
    }

    #[test]
    fn byte_mode_scales_with_the_length_up_to_the_mtu() {
        let config = PieConfig { byte_mode: true, ..PieConfig::default() };
        let pie = pie(1514 * 1000 + 7, config);
        assert_eq!(pie.prob_for(64), 64_000);
        assert_eq!(pie.prob_for(1514), 1_514_000);
        assert_eq!(pie.prob_for(1515), 1_514_007);
    }

    #[test]
    fn with_a_known_departure_rate_quiet_updates_grant_one_too() {
        let config = PieConfig { delay: PieDelay::DepartureRate, ..PieConfig::default() };
        let mut pie = pie(0, config);
        for (rate, burst_left_ticks) in [(0, 0), (90, 150 * MS)] {
            pie.departure_rate.rate = rate;
            pie.update(EMPTY);
            pie.update(EMPTY);
            assert_eq!(pie.burst_left_ticks, burst_left_ticks, "rate {rate}");
        }
    }

    #[test]
    fn updates_come_at_their_times() {
        let mut pie = Pie::new(PieConfig::default());
        assert_eq!(pie.next_event(Time::ZERO), Some(Time::from_ms(500)));
        pie.tick(EMPTY, Time::from_ms(499));
        assert_eq!(pie.next_event(Time::ZERO), Some(Time::from_ms(500)));
        pie.tick(EMPTY, Time::from_ms(500));
        assert_eq!(pie.next_event(Time::from_ms(500)), Some(Time::from_ms(515)));
        assert_eq!(pie.next_event(Time::from_ms(600)), Some(Time::from_ms(600)));
    }

    #[test]
    fn the_departure_rate_gives_the_delay() {
        let config = PieConfig { delay: PieDelay::DepartureRate, ..PieConfig::default() };
        let mut pie = Pie::new(config);
        // A full packet each 302.8 us (40 Mb/s) = 4731.25 ticks. The 11th makes 16654 bytes, after 10 gaps.
        let at = |pkt: u64| Time::from_ns(pkt * 302_800);
        for pkt in 0..10 {
            pie.release(departure(60_000, Time::ZERO), at(pkt));
        }
        assert!(!pie.departure_rate.is_known());
        pie.release(departure(60_000, Time::ZERO), at(10));
        // floor(16654 * 256 / 47312) = 90, and the allowance falls by the length of the measurement.
        assert_eq!(pie.departure_rate.rate, 90);
        assert_eq!(pie.burst_left_ticks, 150 * MS - 47_312);
        pie.update(Backlog { pkts: 40, bytes: 60_560 });
        // floor(60560 * 256 / 90) ticks = 11.0 ms.
        assert_eq!(pie.qdelay_ticks, 172_259);
        // The next measurement has as many packets but one gap more: floor(16654 * 256 / 52044) = 81.
        for pkt in 11..=21 {
            pie.release(departure(60_000, Time::ZERO), at(pkt));
        }
        assert_eq!(pie.departure_rate.rate, 90 - 90 / 8 + 81 / 8);
    }

    #[test]
    fn no_measurement_starts_while_little_waits() {
        let config = PieConfig { delay: PieDelay::DepartureRate, ..PieConfig::default() };
        let mut pie = Pie::new(config);
        for ms in 0..100 {
            pie.release(departure(MEASURED_BYTES - 1, Time::ZERO), Time::from_ms(ms));
        }
        assert!(!pie.departure_rate.is_known());
        // Nor is there a restart while the rate is unknown.
        pie.burst_left_ticks = 0;
        pie.update(EMPTY);
        pie.update(EMPTY);
        assert_eq!(pie.burst_left_ticks, 0);
    }

    #[test]
    fn below_a_shaper_the_delay_lacks_the_packets_own_transmission() {
        let rate = Rate::from_bps(40_000_000).unwrap();
        let pie: Fifo<Pie, Pkt> = Fifo::new(Pie::new(PieConfig::default()));
        let mut queue = Shaped::new(pie, TokenBucket::new(rate, 1514));
        for id in 0..4 {
            queue.enqueue(full(id, Ecn::NotEct), Time::ZERO);
        }
        // Packet 0 leaves at once; packet 1 becomes the head then, with no wait so far.
        assert_eq!(queue.dequeue(Time::ZERO).unwrap().id, 0);
        assert_eq!(queue.dequeue(Time::ZERO), None);
        assert_eq!(queue.len_pkts(), 3);
        assert_eq!(queue.inside().unwrap().qdelay, Some(Duration::ZERO));
        // Packet 1 leaves one transmission later; only then packet 2 is taken: 302.8 us, in whole ticks.
        let release = Time::from_ns(302_800);
        assert_eq!(queue.next_event(Time::ZERO), Some(release));
        assert_eq!(queue.dequeue(release).unwrap().id, 1);
        assert_eq!(queue.inside().unwrap().qdelay, Some(Duration::from_ns(302_784)));
        // Packet 3, taken with nothing behind it: no delay, although it still waits.
        let release = Time::from_ns(605_600);
        assert_eq!(queue.dequeue(release).unwrap().id, 2);
        assert_eq!(queue.inside().unwrap().qdelay, Some(Duration::ZERO));
        assert_eq!(queue.len_pkts(), 1);
    }
}

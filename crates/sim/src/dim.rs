//! Dynamic interrupt moderation (DIM): every 64 interrupts, a receive queue keeps its level of moderation or tries the one beside it.
//! It goes on in a direction while bytes per time grow by 11 % or more, or else packets do, or interrupts become fewer, and rests when they do not.
//! Follows `lib/dim` of Linux 7.3; 6.1 has the same rules.

use std::cmp::Ordering;

use knee_queue::time::{Duration, Time};
use knee_run::spec::{DIM_LEVELS, Dim};

/// Interrupts of a measurement (`DIM_NEVENTS`).
const INTERRUPTS: u64 = 64;
/// Steps after which a search rests (`NET_DIM_PARAMS_NUM_PROFILES * 2`).
const MOST_STEPS: u32 = 2 * DIM_LEVELS as u32;
/// Microseconds of a millisecond: rates are per ms.
const US_PER_MS: u64 = 1000;

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    at: Time,
    interrupts: u64,
    pkts: u64,
    bytes: u64,
}

/// What a measurement found, per ms.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    bytes: u64,
    pkts: u64,
    interrupts: u64,
}

/// `enum dim_tune_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tuning {
    /// The best level was found.
    #[default]
    OnTop,
    /// Too many steps were taken; the next measurements take none.
    Tired,
    /// To more moderation.
    Right,
    Left,
}

/// Moderation of one queue.
#[derive(Debug)]
pub(crate) struct Moderation {
    dim: Dim,
    level: usize,
    tuning: Tuning,
    steps_left: u32,
    steps_right: u32,
    steps: u32,
    before: Rates,
    now: Counts,
    /// Counters at the start of the measurement; `None`: the next interrupt begins one.
    start: Option<Counts>,
}

impl Moderation {
    /// At its first level, while the device still has what drivers set when they begin.
    pub(crate) fn new(dim: Dim) -> Moderation {
        Moderation {
            dim,
            level: 0,
            tuning: Tuning::OnTop,
            steps_left: 0,
            steps_right: 0,
            steps: 0,
            before: Rates::default(),
            now: Counts::default(),
            start: None,
        }
    }

    /// Counts an interrupt with these packets (`net_dim`). Returns time and packets until the next ones, if they change.
    pub(crate) fn interrupt(
        &mut self,
        now: Time,
        pkts: u64,
        bytes: u64,
    ) -> Option<(Duration, u32)> {
        self.now.at = now;
        self.now.interrupts += 1;
        self.now.pkts += pkts;
        self.now.bytes += bytes;
        let Some(start) = self.start else {
            self.start = Some(self.now);
            return None;
        };
        if self.now.interrupts - start.interrupts < INTERRUPTS {
            return None;
        }
        let rates = self.rates(&start)?;
        let level = self.level;
        self.decide(rates);
        if self.level != level {
            // The driver sets the level from a work queue, and the interrupt after it begins the next measurement.
            self.start = None;
            return Some(self.dim.level(self.level));
        }
        self.start = Some(self.now);
        None
    }

    /// `dim_calc_stats`; `None` within a microsecond.
    fn rates(&self, start: &Counts) -> Option<Rates> {
        let us = self.now.at.since(start.at).ps() / self.dim.us.ps().max(1);
        if us == 0 {
            return None;
        }
        // Bytes of 64 interrupts are below 2^43.
        let per_ms = |count: u64| (count * US_PER_MS).div_ceil(us);
        Some(Rates {
            bytes: per_ms(self.now.bytes - start.bytes),
            pkts: per_ms(self.now.pkts - start.pkts),
            interrupts: per_ms(INTERRUPTS),
        })
    }

    /// `net_dim_decision`.
    fn decide(&mut self, rates: Rates) {
        let was_on_top = self.tuning == Tuning::OnTop;
        match self.tuning {
            Tuning::OnTop => {
                if rates.against(&self.before) != Ordering::Equal {
                    self.leave();
                }
            }
            Tuning::Tired => {
                self.steps -= 1;
                if self.steps == 0 {
                    self.leave();
                }
            }
            Tuning::Right | Tuning::Left => {
                if rates.against(&self.before) != Ordering::Greater {
                    self.turn();
                }
                self.go_on();
            }
        }
        if !(was_on_top && self.tuning == Tuning::OnTop) {
            self.before = rates;
        }
    }

    /// `net_dim_exit_parking`.
    fn leave(&mut self) {
        self.tuning = if self.level == 0 { Tuning::Right } else { Tuning::Left };
        self.step();
    }

    /// `dim_turn`.
    fn turn(&mut self) {
        if self.tuning == Tuning::Right {
            (self.tuning, self.steps_left) = (Tuning::Left, 0);
        } else {
            (self.tuning, self.steps_right) = (Tuning::Right, 0);
        }
    }

    fn go_on(&mut self) {
        // `dim_on_top`: it came from better levels on both sides.
        let is_top = match self.tuning {
            Tuning::Right => self.steps_left > 1 && self.steps_right == 1,
            _ => self.steps_right > 1 && self.steps_left == 1,
        };
        let at_edge = match self.tuning {
            Tuning::Right => self.level == DIM_LEVELS - 1,
            _ => self.level == 0,
        };
        let is_tired = self.steps == MOST_STEPS;
        if is_top || (at_edge && !is_tired) {
            self.rest(Tuning::OnTop);
            self.steps = 0;
        } else if is_tired {
            self.rest(Tuning::Tired);
        } else {
            self.step();
        }
    }

    /// `dim_park_on_top`, `dim_park_tired`.
    fn rest(&mut self, tuning: Tuning) {
        (self.steps_left, self.steps_right, self.tuning) = (0, 0, tuning);
    }

    /// `net_dim_step`, away from an edge.
    fn step(&mut self) {
        if self.tuning == Tuning::Right {
            self.level += 1;
            self.steps_right += 1;
        } else {
            self.level -= 1;
            self.steps_left += 1;
        }
        self.steps += 1;
    }
}

impl Rates {
    /// Greater is better: more bytes, else more packets, else fewer interrupts, by 11 % or more (`net_dim_stats_compare`).
    fn against(&self, before: &Rates) -> Ordering {
        if before.bytes == 0 {
            return self.bytes.cmp(&0);
        }
        if differ(self.bytes, before.bytes) {
            return self.bytes.cmp(&before.bytes);
        }
        if before.pkts == 0 {
            return self.pkts.cmp(&0);
        }
        if differ(self.pkts, before.pkts) {
            return self.pkts.cmp(&before.pkts);
        }
        if differ(self.interrupts, before.interrupts) {
            return before.interrupts.cmp(&self.interrupts);
        }
        Ordering::Equal
    }
}

/// `IS_SIGNIFICANT_DIFF`.
fn differ(value: u64, reference: u64) -> bool {
    reference > 0 && 100 * value.abs_diff(reference) / reference > 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_run::spec::DimMode;

    /// Levels after each measurement, of a queue whose bytes per us depend on its level. Every interrupt has as many packets as fit its time.
    fn levels(measurements: usize, bytes_per_us: impl Fn(usize, usize) -> u64) -> Vec<usize> {
        let dim = Dim::new(DimMode::Cqe);
        let mut moderation = Moderation::new(dim);
        let (mut now, mut found) = (Time::ZERO, Vec::new());
        while found.len() < measurements {
            let (time, _) = dim.level(moderation.level);
            now += time;
            let bytes = bytes_per_us(found.len(), moderation.level) * time.ps() / 1_000_000;
            let interrupts = moderation.start.map_or(0, |start| start.interrupts);
            let changed = moderation.interrupt(now, bytes / 1500, bytes);
            let began_anew = moderation.start.is_some_and(|start| start.interrupts > interrupts);
            if changed.is_some() || (began_anew && interrupts > 0) {
                found.push(moderation.level);
            }
        }
        found
    }

    #[test]
    fn moderation_grows_while_fewer_interrupts_bring_as_much() {
        assert_eq!(levels(8, |_, _| 3000), [1, 2, 3, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn a_level_that_brings_less_is_left() {
        let found = levels(30, |_, level| if level > 2 { 2000 } else { 3000 });
        assert_eq!(found[..4], [1, 2, 3, 2]);
        assert!(found[20..].iter().all(|level| *level <= 3), "{found:?}");
    }

    #[test]
    fn what_rests_goes_on_once_the_traffic_changes_by_more_than_a_tenth() {
        let changes_at =
            |tenths: u64| levels(12, move |at, _| if at < 8 { 3000 } else { 300 * tenths });
        assert_eq!(changes_at(10)[8..], [4, 4, 4, 4]);
        assert_eq!(changes_at(9)[8..], [4, 4, 4, 4]);
        assert_eq!(changes_at(8)[8..][..1], [3]);
    }

    #[test]
    fn differences_are_of_whole_percent() {
        assert!(!differ(1109, 1000) && differ(1110, 1000));
        assert!(!differ(891, 1000) && differ(890, 1000));
    }

    #[test]
    fn a_search_of_ten_steps_rests_for_as_many_measurements() {
        let mut moderation = Moderation::new(Dim::new(DimMode::Eqe));
        let rates = |bytes| Rates { bytes, pkts: 1000, interrupts: 10 };
        // Each step is worse than the one before, so it turns back and forth and is never on top.
        let mut bytes = 1 << 40;
        let mut decide = |moderation: &mut Moderation| {
            bytes -= bytes / 4;
            moderation.decide(rates(bytes));
        };
        while moderation.tuning != Tuning::Tired {
            decide(&mut moderation);
            assert!(moderation.steps <= MOST_STEPS);
        }
        let level = moderation.level;
        for _ in 1..MOST_STEPS {
            decide(&mut moderation);
            assert_eq!((moderation.tuning, moderation.level), (Tuning::Tired, level));
        }
        decide(&mut moderation);
        assert!(moderation.tuning != Tuning::Tired && moderation.level != level);
    }

    #[test]
    fn no_run_of_measurements_leaves_the_levels() {
        let mut state = 1_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let mut moderation = Moderation::new(Dim::new(DimMode::Eqe));
        let mut now = Time::ZERO;
        for _ in 0..1_000_000 {
            now += Duration::from_ns(next() % 20_000);
            moderation.interrupt(now, next() % 50, next() % 70_000);
            assert!(moderation.level < DIM_LEVELS);
        }
    }
}

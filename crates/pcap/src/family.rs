//! A guess at a sender's congestion control, from what it had in flight in each round trip.
//!
//! The window itself is not in a capture. What is in flight is the window as long as neither the application nor the receiver
//! holds the sender back, so that round trips in which it is far below what it was are no evidence.

use crate::model::{Direction, EcnCounts, Family, FamilyGuess, Round};

/// Cuts of a window that are enough for a guess, and as many as are looked at.
const FEWEST_CUTS: usize = 3;
const MOST_CUTS: usize = 256;
/// Tolerance of the median cut against a family's factor: the window also grows in the same round trip.
const CUT_TOLERANCE: f64 = 0.07;
/// Round trips needed for a guess, and calm ones needed for a growth rate.
const FEWEST_ROUNDS: u64 = 16;
/// Smallest window, in segments, whose cut is precise enough.
const FEWEST_SEGMENTS: f64 = 8.0;
/// DCTCP's gain (RFC 8257, section 3.3).
const DCTCP_GAIN: f64 = 1.0 / 16.0;
/// Round trips before DCTCP's estimate, which begins at 1, has settled: after 32 of them an eighth of that is left.
const SETTLED_ROUNDS: u64 = 32;
/// BBR's window in PROBE_RTT, segments (version 1), and the time between two such probes, ns.
const PROBE_RTT_SEGMENTS: f64 = 4.0;
const PROBE_RTT_EVERY_NS: (u64, u64) = (4_500_000_000, 11_000_000_000);
/// Duration of a probe: 200 ms or a round trip, with coarse clocks; on a long path the window returns after some more round trips.
/// After a loss, a small window grows per round trip and on a short path does not stay small for this long.
const PROBE_RTT_LASTS_NS: (u64, u64) = (150_000_000, 1_000_000_000);
/// Growth that is Reno's: a segment each round trip, less where the application holds it back now and then.
const RENO_GROWTH: (f64, f64) = (0.75, 1.25);
/// Sureness where one piece of evidence speaks for it, and where two do.
const LIKELY: f64 = 0.6;
const SURE: f64 = 0.85;

/// Changes of a sender's window per round trip, in constant memory.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// The last round trips, the newest last.
    last: [(Round, f64); 3],
    rounds: u64,
    /// Windows behind reductions, as shares of those before.
    cuts: Vec<f64>,
    /// The window before the reductions that are going on, and whether a timeout is among them.
    reducing: Option<(f64, bool)>,
    growth: f64,
    calm: u64,
    alpha: f64,
    /// Cuts at marks, and how far they are from DCTCP's and from fixed factors, in sums.
    marked: u32,
    by_share: f64,
    by_factor: f64,
    /// Smoothed window, segments; begins of falls to a few segments, and how many follow each other as those of a probe do.
    usual: f64,
    /// Since when it has been a few segments, ns.
    low_since_ns: Option<u64>,
    low_at_ns: Option<u64>,
    lows: u32,
    regular: u32,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits {
            last: Default::default(),
            rounds: 0,
            cuts: Vec::new(),
            reducing: None,
            growth: 0.0,
            calm: 0,
            alpha: 1.0,
            marked: 0,
            by_share: 0.0,
            by_factor: 0.0,
            usual: 0.0,
            low_since_ns: None,
            low_at_ns: None,
            lows: 0,
            regular: 0,
        }
    }
}

fn is_calm(round: &Round) -> bool {
    round.retransmitted == 0 && round.ece_bytes == 0
}

impl Habits {
    /// A round trip that is over.
    pub(crate) fn round(&mut self, round: &Round, mss: u32) {
        let window = round.inflight_bytes as f64 / f64::from(mss.max(1));
        self.last.rotate_left(1);
        self.last[2] = (*round, window);
        self.rounds += 1;
        if self.rounds >= 3 {
            self.note_cut();
            self.note_marks();
            self.note_probe();
        }
        self.usual += (window - self.usual) / 8.0;
    }

    /// A reduction is over with the first calm round trip behind it.
    fn note_cut(&mut self) {
        let [_, (earlier, before), (round, window)] = self.last;
        match (is_calm(&round), self.reducing) {
            (false, None) => self.reducing = Some((before.max(window), round.rtos > 0)),
            (false, Some((_, is_timeout))) if round.rtos > 0 && !is_timeout => {
                self.reducing = self.reducing.map(|(before, _)| (before, true));
            }
            (true, Some((before, is_timeout))) => {
                self.reducing = None;
                if !is_timeout && before >= FEWEST_SEGMENTS && self.cuts.len() < MOST_CUTS {
                    self.cuts.push(window / before);
                }
            }
            (true, None) if is_calm(&earlier) && round.idle_ns == 0 && !self.cuts.is_empty() => {
                // A jump is no growth of congestion avoidance: slow start, or a pause of the application.
                let step = window - before;
                if step.abs() <= (before / 8.0).max(2.0) {
                    self.growth += step;
                    self.calm += 1;
                }
            }
            _ => {}
        }
    }

    /// DCTCP: a cut by half of the smoothed share of marks, in the round trip behind the ACKs that tell of them.
    fn note_marks(&mut self) {
        let [(first, before), (_, after), (_, later)] = self.last;
        if first.acked_bytes == 0 {
            return;
        }
        let share = first.ece_bytes as f64 / first.acked_bytes as f64;
        self.alpha += (share - self.alpha) * DCTCP_GAIN;
        let is_clear = self.last.iter().all(|(round, _)| round.retransmitted == 0);
        if share > 0.0 && self.rounds > SETTLED_ROUNDS && is_clear && before >= FEWEST_SEGMENTS {
            let cut = after.min(later) / before;
            self.by_share += (cut - (1.0 - self.alpha / 2.0)).abs();
            self.by_factor += (cut - 0.7).abs().min((cut - 0.5).abs());
            self.marked += 1;
        }
    }

    /// BBR: a fall to a few segments every some seconds, for no loss.
    fn note_probe(&mut self) {
        let [_, _, (round, window)] = self.last;
        let is_low = window <= PROBE_RTT_SEGMENTS + 1.0 && is_calm(&round) && round.idle_ns == 0;
        if is_low {
            if self.low_since_ns.is_none() && self.usual >= FEWEST_SEGMENTS {
                self.low_since_ns = Some(round.begin_ns);
            }
            return;
        }
        let Some(since_ns) = self.low_since_ns.take() else { return };
        let within = |(least, most): (u64, u64), ns: u64| (least..=most).contains(&ns);
        if !within(PROBE_RTT_LASTS_NS, round.begin_ns.saturating_sub(since_ns)) {
            return;
        }
        let gap_ns = self.low_at_ns.map(|at| since_ns.saturating_sub(at));
        self.regular += u32::from(gap_ns.is_some_and(|gap| within(PROBE_RTT_EVERY_NS, gap)));
        self.lows += 1;
        self.low_at_ns = Some(since_ns);
    }

    /// The likeliest family, or none.
    pub(crate) fn guess(&self, out: &Direction, to_sender_ns: Option<u64>) -> FamilyGuess {
        // Behind the middle of the path little of what is in flight is seen.
        let is_far = to_sender_ns.is_some_and(|ns| out.rtt.min().is_none_or(|ahead| ns > ahead));
        if self.rounds < FEWEST_ROUNDS || is_far {
            return FamilyGuess::default();
        }
        let guesses = [self.by_probes(), self.by_marks(), self.by_cuts()];
        let surer = |a: &FamilyGuess, b: &FamilyGuess| a.confidence.total_cmp(&b.confidence);
        let possible = guesses.into_iter().flatten().filter_map(|guess| by_wire(guess, &out.ecn));
        possible.max_by(surer).unwrap_or_default()
    }

    fn by_probes(&self) -> Option<FamilyGuess> {
        (self.regular > 0).then(|| FamilyGuess {
            family: Family::Bbr,
            confidence: if self.regular > 1 { SURE } else { LIKELY },
            evidence: vec![format!(
                "it fell to {PROBE_RTT_SEGMENTS} segments {} times, some 5 to 10 s apart, without a loss: a probe of the RTT",
                self.lows
            )],
        })
    }

    fn by_marks(&self) -> Option<FamilyGuess> {
        if (self.marked as usize) < FEWEST_CUTS {
            return None;
        }
        let count = f64::from(self.marked);
        let (by_share, by_factor) = (self.by_share / count, self.by_factor / count);
        let is_clear = self.marked as usize >= 2 * FEWEST_CUTS && by_share * 2.0 <= by_factor;
        (by_share < by_factor && by_share <= 2.0 * CUT_TOLERANCE).then(|| FamilyGuess {
            family: Family::Dctcp,
            confidence: if is_clear { SURE } else { LIKELY },
            evidence: vec![format!(
                "in {} marked round trips the window was cut by half of the smoothed share of marks, within {by_share:.2}; \
                 a fixed factor misses by {by_factor:.2}",
                self.marked
            )],
        })
    }

    fn by_cuts(&self) -> Option<FamilyGuess> {
        let mut cuts = self.cuts.clone();
        if cuts.len() < FEWEST_CUTS {
            return None;
        }
        cuts.sort_by(f64::total_cmp);
        let (count, cut) = (cuts.len(), cuts[cuts.len() / 2]);
        let families = [(Family::Reno, 0.5), (Family::Cubic, 0.7), (Family::Bic, 0.8)];
        let off = |family: &(Family, f64)| (family.1 - cut).abs();
        let nearest = families.into_iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        if off(&nearest) > CUT_TOLERANCE {
            return None;
        }
        let what = "reductions the window was";
        let mut evidence = vec![format!("after {count} {what} {cut:.2} of what it was before")];
        let growth = (self.calm >= FEWEST_ROUNDS).then(|| self.growth / self.calm as f64);
        let is_renos = growth.map(|growth| (RENO_GROWTH.0..=RENO_GROWTH.1).contains(&growth));
        let is_grown = is_renos == Some(nearest.0 == Family::Reno);
        if let Some(growth) = growth {
            evidence.push(format!("between them it grew by {growth:.2} segments per round trip"));
        }
        let confidence = if is_grown && count >= 2 * FEWEST_CUTS { SURE } else { LIKELY };
        Some(FamilyGuess { family: nearest.0, confidence, evidence })
    }
}

/// What a sender's ECN field leaves of a guess: ECT(1) is of scalable senders alone (RFC 9331, section 4.1), and no sender cuts by the
/// share of marks that has no ECT at all.
fn by_wire(mut guess: FamilyGuess, ecn: &EcnCounts) -> Option<FamilyGuess> {
    let capable = ecn.ect0 + ecn.ect1 + ecn.ce;
    let is_scalable = ecn.ect1 > ecn.ect0 && ecn.ect1 > ecn.not_ect;
    match guess.family {
        Family::Reno | Family::Cubic | Family::Bic if is_scalable => None,
        Family::Dctcp if is_scalable => {
            guess.family = Family::Prague;
            guess.evidence.push("its data is ECT(1)".to_owned());
            Some(guess)
        }
        Family::Dctcp if capable == 0 => None,
        _ => Some(guess),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 1 ms with 20 segments, and of 4 for so long every 5 s.
    fn falls_for(ms: u64) -> Family {
        let mut habits = Habits::default();
        for at_ms in 0..21_000_u64 {
            let segments = if at_ms % 5000 > 0 && at_ms % 5000 <= ms { 4 } else { 20 };
            let begin_ns = at_ms * 1_000_000;
            let round = Round { begin_ns, inflight_bytes: segments * 1000, ..Round::default() };
            habits.round(&round, 1000);
        }
        habits.guess(&Direction::default(), None).family
    }

    #[test]
    fn only_a_fall_that_lasts_as_long_as_bbrs_probe_is_one() {
        assert_eq!(falls_for(200), Family::Bbr);
        // A window that was small for a few round trips, as behind a loss.
        assert_ne!(falls_for(3), Family::Bbr);
        // An application that had little to send.
        assert_ne!(falls_for(2000), Family::Bbr);
    }
}

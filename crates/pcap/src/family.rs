//! A guess at a sender's congestion control, from what it had on its way in each round trip.
//!
//! The window itself is not in a capture. What is on its way is the window as long as neither the application nor the receiver
//! holds the sender back, so that round trips in which it is far below what it was are no evidence.

use crate::model::{Direction, Family, FamilyGuess, Round};

/// Cuts of a window that are enough for a guess.
const FEWEST_CUTS: usize = 3;
/// How far the middle cut may be from a family's factor: the window grows by some segments in the same round trip.
const CUT_TOLERANCE: f64 = 0.07;
/// Round trips without losses and marks before a growth is told from them.
const FEWEST_ROUNDS: usize = 16;
/// A window below so many segments has too coarse a cut.
const FEWEST_SEGMENTS: f64 = 8.0;
/// DCTCP's gain (RFC 8257, section 3.3).
const DCTCP_GAIN: f64 = 1.0 / 16.0;
/// Marked round trips before DCTCP's estimate has settled: four times the inverse of its gain would be all of it.
const SETTLED_ROUNDS: usize = 32;
/// What BBR has on its way while it probes for the RTT, segments (version 1), and how often it does so, ns.
const PROBE_RTT_SEGMENTS: f64 = 4.0;
const PROBE_RTT_EVERY_NS: (u64, u64) = (4_500_000_000, 11_000_000_000);
/// Sureness where one piece of evidence speaks for it, and where two do.
const LIKELY: f64 = 0.6;
const SURE: f64 = 0.85;

/// The likeliest family, or none.
pub(crate) fn guess(out: &Direction, to_sender_ns: Option<u64>) -> FamilyGuess {
    let Some(mss) = out.mss else { return FamilyGuess::default() };
    let rounds: Vec<Round> =
        out.rounds.iter().filter(|round| round.round_trips == 1).copied().collect();
    let is_far = to_sender_ns.is_some_and(|ns| out.rtt.min().is_none_or(|ahead| ns > ahead));
    // Behind the middle of the path little of what is on its way is seen.
    if rounds.len() < FEWEST_ROUNDS || is_far {
        return FamilyGuess::default();
    }
    let windows: Vec<f64> =
        rounds.iter().map(|round| round.inflight_bytes as f64 / f64::from(mss)).collect();
    let guesses =
        [by_probes(&rounds, &windows), by_marks(&rounds, &windows), by_cuts(&rounds, &windows)];
    let best = guesses.into_iter().flatten().max_by(|a, b| a.confidence.total_cmp(&b.confidence));
    best.unwrap_or_default()
}

/// BBR: a drop to a few segments every some seconds, for no loss.
fn by_probes(rounds: &[Round], windows: &[f64]) -> Option<FamilyGuess> {
    let usual = middle(windows.to_vec())?;
    if usual < FEWEST_SEGMENTS {
        return None;
    }
    let is_low = |at: usize| {
        let round = &rounds[at];
        windows[at] <= PROBE_RTT_SEGMENTS + 1.0
            && round.retransmitted == 0
            && round.ece_bytes == 0
            && round.idle_ns == 0
    };
    let begins = (1..rounds.len()).filter(|at| is_low(*at) && !is_low(at - 1));
    let begins: Vec<u64> = begins.map(|at| rounds[at].begin_ns).collect();
    let gaps = begins.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) = PROBE_RTT_EVERY_NS;
    let regular = gaps.filter(|gap| (least..=most).contains(gap)).count();
    (regular > 0).then(|| FamilyGuess {
        family: Family::Bbr,
        confidence: if regular > 1 { SURE } else { LIKELY },
        evidence: vec![format!(
            "it fell to {PROBE_RTT_SEGMENTS} segments {} times, some 5 to 10 s apart, without a loss: a probe of the RTT",
            begins.len()
        )],
    })
}

/// DCTCP: cuts by half of the smoothed share of marks.
fn by_marks(rounds: &[Round], windows: &[f64]) -> Option<FamilyGuess> {
    let mut alpha = 1.0_f64;
    let mut settled = 0;
    let (mut by_share, mut by_loss, mut cuts) = (0.0, 0.0, 0_u32);
    for at in 0..rounds.len().saturating_sub(2) {
        let round = &rounds[at];
        let share = match round.acked_bytes {
            0 => continue,
            acked => round.ece_bytes as f64 / acked as f64,
        };
        alpha += (share - alpha) * DCTCP_GAIN;
        settled += usize::from(round.acked_bytes > 0);
        let is_clear = rounds[at..at + 3].iter().all(|round| round.retransmitted == 0);
        if share <= 0.0 || settled < SETTLED_ROUNDS || !is_clear || windows[at] < FEWEST_SEGMENTS {
            continue;
        }
        // The cut takes effect in the round behind the ACKs that tell of the marks, beside the growth of that round.
        let cut = windows[at + 1].min(windows[at + 2]) / windows[at];
        by_share += (cut - (1.0 - alpha / 2.0)).abs();
        by_loss += (cut - 0.7).abs().min((cut - 0.5).abs());
        cuts += 1;
    }
    let marked = cuts as usize;
    if marked < FEWEST_CUTS {
        return None;
    }
    let (by_share, by_loss) = (by_share / f64::from(cuts), by_loss / f64::from(cuts));
    (by_share < by_loss && by_share <= 2.0 * CUT_TOLERANCE).then(|| FamilyGuess {
        family: Family::Dctcp,
        confidence: if marked >= 2 * FEWEST_CUTS && by_share * 2.0 <= by_loss { SURE } else { LIKELY },
        evidence: vec![format!(
            "in {cuts} marked round trips the window was cut by half of the smoothed share of marks, within {:.2}; \
             a fixed factor misses by {:.2}",
            by_share, by_loss
        )],
    })
}

/// Reno, CUBIC, BIC: the factor at losses or at ECE, and the growth between.
fn by_cuts(rounds: &[Round], windows: &[f64]) -> Option<FamilyGuess> {
    let cuts = cuts(rounds, windows);
    if cuts.len() < FEWEST_CUTS {
        return None;
    }
    let count = cuts.len();
    let cut = middle(cuts)?;
    let growth = growth(rounds, windows);
    let families = [(Family::Reno, 0.5), (Family::Cubic, 0.7), (Family::Bic, 0.8)];
    let nearest = families.iter().min_by(|a, b| (a.1 - cut).abs().total_cmp(&(b.1 - cut).abs()))?;
    if (nearest.1 - cut).abs() > CUT_TOLERANCE {
        return None;
    }
    let mut evidence =
        vec![format!("after {count} reductions the window was {cut:.2} of what it was before")];
    // Reno grows by a segment each round trip; CUBIC where it is no faster than Reno by 3 (1 - 0.7) / (1 + 0.7) of one.
    let is_grown = match (nearest.0, growth) {
        (Family::Reno, Some(growth)) => (0.75..=1.25).contains(&growth),
        (Family::Cubic, Some(growth)) => !(0.75..=1.25).contains(&growth),
        _ => false,
    };
    if let (true, Some(growth)) = (is_grown, growth) {
        evidence.push(format!("between them it grew by {growth:.2} segments per round trip"));
    }
    let confidence = if is_grown && count >= 2 * FEWEST_CUTS { SURE } else { LIKELY };
    Some(FamilyGuess { family: nearest.0, confidence, evidence })
}

/// Windows behind reductions, as shares of those before.
fn cuts(rounds: &[Round], windows: &[f64]) -> Vec<f64> {
    let is_calm = |round: &Round| round.retransmitted == 0 && round.ece_bytes == 0;
    let mut cuts = Vec::new();
    let mut at = 1;
    while at < rounds.len() {
        if is_calm(&rounds[at]) || !is_calm(&rounds[at - 1]) {
            at += 1;
            continue;
        }
        let before = windows[at].max(windows[at - 1]);
        let end = (at..rounds.len()).find(|end| is_calm(&rounds[*end])).unwrap_or(rounds.len());
        let is_timeout = rounds[at..end].iter().any(|round| round.rtos > 0);
        if let (Some(after), false) = (windows.get(end), is_timeout) {
            if before >= FEWEST_SEGMENTS {
                cuts.push(after / before);
            }
        }
        at = end + 1;
    }
    cuts
}

/// Growth of the window in calm round trips, segments per round trip.
fn growth(rounds: &[Round], windows: &[f64]) -> Option<f64> {
    let is_calm =
        |round: &Round| round.retransmitted == 0 && round.ece_bytes == 0 && round.idle_ns == 0;
    let steps = (1..rounds.len()).filter(|at| is_calm(&rounds[*at]) && is_calm(&rounds[at - 1]));
    let steps: Vec<f64> = steps.map(|at| windows[at] - windows[at - 1]).collect();
    // Growth is slower than a round trip can show: the mean without its extremes.
    let mut steps = steps;
    steps.sort_by(f64::total_cmp);
    let cut = steps.len() / 10;
    let kept = &steps[cut..steps.len() - cut];
    (kept.len() >= FEWEST_ROUNDS).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

//! A path that becomes longer at once, and senders that go on with the RTT of the old one.
//!
//! A queue grows and shrinks with what is in flight: its own sender's, or others'. Another path has another RTT within one round trip, and
//! keeps it whatever is in flight.

use super::{Kind, SHOWN, View, median, path, rate, time};
use crate::model::{Finding, Round, Severity};

pub(super) const STALE: Kind = Kind {
    name: "stale-min-rtt",
    usually_means: "The path became longer, and the sender sizes its window by the smallest RTT that it has seen (BBR). With the RTT of \
                    the old path it sends less than one window per round trip.",
    try_this: "It ends when the smallest RTT is measured anew (BBR: ten seconds without a smaller one, and a probe). Shorten that time, \
               or open new connections after a planned change of routes.",
    severity: Severity::Severe,
};

/// Round trips before and behind a change that are compared.
const ROUNDS: usize = 5;
/// Round trips behind it that have to keep the new RTT.
const KEPT: usize = 12;
/// Least change, as a share of the RTT before.
const SHIFT: f64 = 0.25;
/// How far the smallest RTTs behind a change differ from each other, as a share: queues of packets differ by more.
const FLAT: f64 = 0.02;
/// How much of the longer RTT more data in flight may explain.
const EXPLAINED: f64 = 0.5;
/// Unless it is this part of that later, with the same RTT.
const LESS_FLIGHT: f64 = 0.85;
/// The sender is held back if it has this part of the rate from before, with no more in flight than this many times.
const RATE_LEFT: f64 = 0.6;
const SAME_FLIGHT: f64 = 1.15;
/// BBR may have two BDPs of the old path in flight, and a few bursts. With more than that it is not held by its RTT.
const BBR_BDPS: f64 = 2.25;
/// To measure its smallest RTT anew it has so many segments in flight for a while (PROBE_RTT).
const PROBE_SEGMENTS: u64 = 4;

/// A change to a longer path.
pub(super) struct Longer<'a> {
    /// The round trips behind it.
    behind: Vec<&'a Round>,
    before_ns: u64,
    /// The smallest RTT behind it.
    pub(super) after_ns: u64,
    before_bps: f64,
    before_inflight: u64,
}

fn rtts(rounds: &[&Round]) -> Vec<u64> {
    rounds.iter().filter_map(|round| round.rtt_min_ns).collect()
}

/// The last change to a longer path, if there is one.
pub(super) fn longer<'a>(view: &View<'a>) -> Option<Longer<'a>> {
    // Elsewhere the RTT is that of a part of the path.
    if !view.is_near_sender {
        return None;
    }
    let rounds: Vec<&Round> = view.rounds().collect();
    let last = rounds.len().checked_sub(KEPT)?;
    (ROUNDS..last).rev().find_map(|at| {
        let (before, behind) = (&rounds[at - ROUNDS..at], &rounds[at + 1..]);
        let kept = behind.get(..KEPT)?;
        let before_ns = median(rtts(before))?;
        let after = rtts(kept);
        let after_ns = *after.iter().min()?;
        // First what most places fail.
        let is_jump = after_ns as f64 >= (1.0 + SHIFT) * before_ns as f64
            && rtts(before).iter().all(|rtt| *rtt as f64 <= (1.0 + SHIFT / 2.0) * before_ns as f64);
        if !is_jump {
            return None;
        }
        let is_flat =
            after.iter().filter(|rtt| (**rtt - after_ns) as f64 <= FLAT * after_ns as f64).count()
                * 4
                >= after.len() * 3;
        let stays = rtts(behind).iter().all(|rtt| *rtt as f64 >= (1.0 - FLAT) * after_ns as f64);
        let before_inflight = median(before.iter().map(|round| round.inflight_bytes))?;
        let after_inflight = median(kept.iter().map(|round| round.inflight_bytes))?;
        let longer = after_ns as f64 / before_ns.max(1) as f64 - 1.0;
        // Of an own queue less in flight leaves less.
        let is_followed = |round: &&&Round| {
            round.inflight_bytes as f64 <= LESS_FLIGHT * after_inflight as f64 && round.idle_ns == 0
        };
        let is_explained = after_inflight as f64
            >= before_inflight as f64 * (1.0 + EXPLAINED * longer)
            && behind.iter().filter(is_followed).count() < ROUNDS;
        let is_quiet = kept.iter().all(|round| round.retransmitted == 0 && round.idle_ns == 0);
        let is_changed = is_flat && stays && is_quiet && !is_explained;
        is_changed.then(|| Longer {
            behind: behind.to_vec(),
            before_ns,
            after_ns,
            before_bps: median(before.iter().map(|round| round.rate_bps)).unwrap_or(0.0),
            before_inflight,
        })
    })
}

impl Longer<'_> {
    /// Rate and bytes in flight of the last round trips.
    fn last(&self) -> Option<(f64, u64)> {
        let last = &self.behind[self.behind.len().saturating_sub(KEPT)..];
        let bps = median(last.iter().map(|round| round.rate_bps))?;
        Some((bps, median(last.iter().map(|round| round.inflight_bytes))?))
    }
}

/// The path became longer.
pub(super) fn change(view: &View<'_>) -> Option<Finding> {
    let longer = longer(view)?;
    let (bps, inflight) = longer.last()?;
    let summary = format!(
        "The RTT rose from {} to {} within one round trip and stayed there, while {:.0} kB and then {:.0} kB were in flight: the path \
         became {} longer, and no queue follows what is in flight like this. The rate was {} before and is {} at the end.",
        time(longer.before_ns),
        time(longer.after_ns),
        longer.before_inflight as f64 / 1000.0,
        inflight as f64 / 1000.0,
        time(longer.after_ns - longer.before_ns),
        rate(longer.before_bps),
        rate(bps),
    );
    let evidence = longer.behind.iter().take(SHOWN).map(|round| {
        let rtt = time(round.rtt_min_ns.unwrap_or_default());
        let said = format!("an RTT of {rtt} with {} bytes in flight", round.inflight_bytes);
        view.evidence(round.first_number, said)
    });
    let kind =
        Kind { usually_means: path::LONGER_MEANS, try_this: path::LONGER_TRY, ..path::CHANGE };
    Some(view.finding(&kind, summary, evidence.collect(), 0.85))
}

/// Round trips behind a change in which the sender has no more in flight than suits the old path.
struct Held<'a> {
    last: &'a [&'a Round],
    bps: f64,
    inflight: u64,
}

/// The sender is held in all these round trips, with at most so much in flight in the last of them.
fn held<'a>(
    view: &View<'_>,
    behind: &'a [&'a Round],
    before_bps: f64,
    most: f64,
) -> Option<Held<'a>> {
    let last = &behind[behind.len().checked_sub(KEPT)?..];
    let bps = median(last.iter().map(|round| round.rate_bps))?;
    let inflight = median(last.iter().map(|round| round.inflight_bytes))?;
    // Losses, marks and the receiver's window are reasons of their own.
    let is_free = |round: &&Round| {
        let has_room = round.room_bytes.is_none_or(|room| room >= view.mss());
        round.retransmitted == 0 && round.ece_bytes == 0 && has_room
    };
    let is_held = inflight as f64 <= most && bps <= RATE_LEFT * before_bps;
    (is_held && behind.iter().all(is_free)).then_some(Held { last, bps, inflight })
}

/// The path became longer, and the sender has no more in flight than suits the old one: to the end, or until it measures the RTT anew.
pub(super) fn stale(view: &View<'_>) -> Option<Finding> {
    let longer = longer(view)?;
    let (behind, before_bps) = (&longer.behind, longer.before_bps);
    let to_the_end = held(view, behind, before_bps, SAME_FLIGHT * longer.before_inflight as f64);
    // A loss-based sender keeps its window for some time, too, but does not let all of it drain.
    let until_probe = || {
        let drains = |round: &Round| round.inflight_bytes <= PROBE_SEGMENTS * view.mss();
        let at = behind.iter().position(|round| drains(round))?;
        let most = BBR_BDPS * before_bps * longer.before_ns as f64 / 8e9;
        let held = held(view, &behind[..at], before_bps, most)?;
        let (at_end, _) = longer.last()?;
        let lasted = time(behind[at].begin_ns.saturating_sub(behind[0].begin_ns));
        let says = format!(
            " After {lasted} it measured the RTT anew, and it has {} at the end.",
            rate(at_end)
        );
        // Something else holds a sender that does not gain by the probe.
        (held.bps <= RATE_LEFT * at_end).then_some((held, says))
    };
    let (held, ended) = to_the_end.map(|held| (held, String::new())).or_else(until_probe)?;
    let summary = format!(
        "When the path became longer ({} instead of {}) the flow got {} instead of {}: it kept {:.0} kB in flight, no more than suits \
         the shorter path, without a loss or a mark.{ended}",
        time(longer.after_ns),
        time(longer.before_ns),
        rate(held.bps),
        rate(before_bps),
        held.inflight as f64 / 1000.0,
    );
    let evidence = held.last.iter().rev().take(SHOWN).map(|round| {
        let said = format!("{} bytes in flight, {}", round.inflight_bytes, rate(round.rate_bps));
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&STALE, summary, evidence.collect(), 0.8))
}

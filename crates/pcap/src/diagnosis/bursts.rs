//! Packets that leave back to back and stand in a queue together.

use super::{Kind, SHOWN, View, per_cent, share, time};
use crate::model::{Finding, Round, Severity};

pub(super) const BURSTS: Kind = Kind {
    name: "sender-bursts",
    usually_means: "The sender does not pace and hands large segments to its device (TSO), or ACKs for many segments release as \
                    many at once.",
    try_this: "Pace (fq at the host, or an algorithm that paces), or lower the largest segment (ip link set ... gso_max_segs 16).",
    severity: Severity::Costs,
};

/// Twice Linux's initial window: ten segments at once are what every path is made to take.
const BURST_SEGMENTS: u64 = 20;
/// Least share of the data in such bursts.
const MOST: f64 = 0.25;
/// Least ratio of a burst's rate to the average rate: near saturation of the host's link, all packets follow without a gap at the
/// average rate.
const FASTER: f64 = 1.5;
/// Fewer segments do not tell what is usual.
const USUAL_SEGMENTS: u64 = 200;

/// Much of the data in bursts that are larger than an initial window, and losses or marks or a queue by them.
pub(super) fn bursts(view: &View<'_>) -> Option<Finding> {
    let data = view.data;
    if !view.is_near_sender || data.segments < USUAL_SEGMENTS {
        return None;
    }
    let segments = |least: u64| -> f64 {
        let large = data.bursts.buckets().filter(|bucket| bucket.from >= least);
        large.map(|bucket| bucket.from as f64 * bucket.count as f64).sum()
    };
    let of_all = segments(BURST_SEGMENTS) / segments(0).max(1.0);
    if of_all < MOST || !are_faster(view) {
        return None;
    }
    let base = view.base_rtt_ns()?;
    let costs = view.losses() > 0
        || data.ecn.ece > 0
        || data.rtt.quantile(0.9)? > base.saturating_add(base / 2);
    if !costs {
        return None;
    }
    let mut largest: Vec<&Round> = data.rounds.iter().collect();
    largest.sort_by_key(|round| std::cmp::Reverse(round.largest_burst_segments));
    let summary = format!(
        "{} of the data leaves in bursts of at least {BURST_SEGMENTS} segments, the largest {}; {} segments were lost.",
        per_cent(of_all),
        data.bursts.max().unwrap_or_default(),
        view.losses(),
    );
    let evidence = largest.iter().take(SHOWN).map(|round| {
        let said = format!(
            "{} segments within {}",
            round.largest_burst_segments,
            time(round.largest_burst_ns)
        );
        view.evidence(round.largest_burst_number, said)
    });
    Some(view.finding(&BURSTS, summary, evidence.collect(), 0.8))
}

/// Whether bursts leave faster than the flow as a whole, and than the round trips that they are in.
fn are_faster(view: &View<'_>) -> bool {
    let data = view.data;
    let is_large = |round: &&Round| u64::from(round.largest_burst_segments) >= BURST_SEGMENTS;
    let (mut segments, mut of_flow, mut of_rounds) = (0.0, 0.0, 0.0);
    for round in data.rounds.iter().filter(is_large) {
        // From the first packet to the last it is one segment less.
        segments += f64::from(round.largest_burst_segments - 1);
        // What is sent on average while a burst lasts.
        let average = |segments: u64, in_ns| segments as f64 * share(round.largest_burst_ns, in_ns);
        of_flow += average(data.segments, data.duration_ns);
        of_rounds += average(round.segments.into(), round.duration_ns);
    }
    segments >= FASTER * f64::max(of_flow, of_rounds)
}

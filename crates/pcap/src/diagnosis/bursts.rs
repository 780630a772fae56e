//! Packets that leave back to back and stand in a queue together.

use super::{Kind, SHOWN, View, per_cent, time};
use crate::model::{Finding, Round, Severity};

pub(super) const BURSTS: Kind = Kind {
    name: "sender-bursts",
    usually_means: "The sender hands its device large segments (TSO) and does not pace, or ACKs for many segments let as many go at once.",
    try_this: "Pace (fq at the host, or an algorithm that paces), or lower the largest segment (ip link set ... gso_max_segs 16).",
    severity: Severity::Costs,
};

/// Twice Linux's initial window: ten segments at once are what every path is made to take.
const BURST_SEGMENTS: u64 = 20;
/// Of the data, in such bursts.
const MOST: f64 = 0.25;
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
    if of_all < MOST {
        return None;
    }
    let base = view.base_rtt_ns()?;
    let costs = view.losses() > 0 || data.ecn.ece > 0 || data.rtt.quantile(0.9)? > base + base / 2;
    if !costs {
        return None;
    }
    let mut largest: Vec<&Round> = data.rounds.iter().collect();
    largest.sort_by_key(|round| std::cmp::Reverse(round.largest_burst_segments));
    let summary = format!(
        "{} of the data leaves in bursts of {BURST_SEGMENTS} segments and more, {} at most; {} segments were lost.",
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

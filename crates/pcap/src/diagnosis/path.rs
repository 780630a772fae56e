//! Reordering at which the RTT changes for good.

use super::{Kind, SHOWN, View, median, time};
use crate::model::{Event, EventKind, Finding, Round, Severity};

pub(super) const CHANGE: Kind = Kind {
    name: "path-change",
    usually_means: "The flow was moved to another path (PLB, a new flow label after a timeout, a link that went down, flowlet switching), \
                    and packets of the new one overtook those of the old.",
    try_this: "Nothing if it is rare; else see how often labels change (nstat TcpTimeoutRehash, TcpExtTCPPLBRehash), and keep RACK on so \
               that reordering is not taken for loss.",
    severity: Severity::Note,
};

/// Round trips on either side that are compared.
const ROUNDS: usize = 3;
/// Queues come and go by packets; paths differ by more than an eighth of the RTT, or nobody need care.
const SHIFT: f64 = 0.125;

/// Reordering with another smallest RTT behind it than before.
pub(super) fn change(view: &View<'_>) -> Option<Finding> {
    // Elsewhere the RTT is that of a part of the path.
    if !view.is_near_sender {
        return None;
    }
    let rounds: Vec<&Round> = view.rounds().collect();
    let reordered = view
        .data
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::OutOfOrder | EventKind::Spurious));
    let mut changes: Vec<(&Event, u64, u64)> = Vec::new();
    for event in reordered {
        // Packets that are late cluster; a cluster is one change.
        if changes
            .last()
            .is_some_and(|(last, from, to)| event.at_ns - last.at_ns < ROUNDS as u64 * from.max(to))
        {
            continue;
        }
        let at = rounds.partition_point(|round| round.begin_ns < event.at_ns);
        let least = |part: &[&Round]| median(part.iter().filter_map(|round| round.rtt_min_ns));
        // The round trips around the event have packets of both paths.
        let before = at.checked_sub(ROUNDS + 1).and_then(|from| least(&rounds[from..at - 1]));
        let after = rounds.get(at + 1..at + 1 + ROUNDS).and_then(least);
        let (Some(before), Some(after)) = (before, after) else { continue };
        // Only a shorter way lets later packets overtake.
        if (before.saturating_sub(after)) as f64 > SHIFT * before as f64 {
            changes.push((event, before, after));
        }
    }
    let (_, before, after) = *changes.first()?;
    let summary = format!(
        "{} times packets overtook others and the RTT stayed lower from then on, first from {} to {}.",
        changes.len(),
        time(before),
        time(after),
    );
    let evidence = changes.iter().take(SHOWN).map(|(event, before, after)| {
        let said =
            format!("late; RTTs are {} before and {} behind it", time(*before), time(*after));
        view.evidence(event.number, said)
    });
    Some(view.finding(&CHANGE, summary, evidence.collect(), 0.7))
}

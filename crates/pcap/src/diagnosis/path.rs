//! Reordering at which the RTT changes for good.

use super::{Kind, RATE_QUANTILE, SHOWN, View, median, time, times};
use crate::model::{Event, EventKind, Finding, Round, Severity, Span};

pub(super) const CHANGE: Kind = Kind {
    name: "path-change",
    usually_means: "The flow moved to another path (PLB, a new flow label after a timeout, a failed link, flowlet switching), \
                    where packets overtook those on the old one. It may also be that a queue drained while packets were reordered.",
    try_this: "Nothing if it is rare. Otherwise check how often labels change (nstat TcpTimeoutRehash, TcpExtTCPPLBRehash), and \
               keep RACK on, which tolerates reordering.",
    severity: Severity::Note,
};

/// The same for a path that becomes longer.
pub(super) const LONGER_MEANS: &str = "The flow moved to a longer path: a link failed, a route changed, or traffic was moved to another \
                                       site or provider.";
pub(super) const LONGER_TRY: &str = "Look for route changes at that time (BGP, IGP, SD-WAN), and trace the path. A queue is not at fault.";

/// Round trips on either side that are compared.
const ROUNDS: usize = 3;
/// Least change of the RTT, as a share: queues change by packets, and smaller changes of the path do not matter.
const SHIFT: f64 = 0.125;

/// Whether an event shows reordering: a packet out of order, or a spurious fast retransmission. A spurious retransmission by a timer
/// or a probe shows a late ACK only.
fn is_reordering(view: &View<'_>, event: &Event) -> bool {
    let is_fast =
        |number| view.events(EventKind::FastRetransmission).any(|fast| fast.number == number);
    match event.kind {
        EventKind::OutOfOrder => true,
        EventKind::Spurious => event.earlier.is_some_and(is_fast),
        _ => false,
    }
}

/// Medians of the round trips before or after a change.
struct Side {
    rtt_ns: u64,
    inflight: u64,
}

fn side(rounds: &[&Round]) -> Option<Side> {
    let rtt_ns = median(rounds.iter().filter_map(|round| round.rtt_min_ns))?;
    let inflight = median(rounds.iter().map(|round| round.inflight_bytes))?;
    Some(Side { rtt_ns, inflight })
}

/// Reordering with another smallest RTT behind it than before.
pub(super) fn change(view: &View<'_>) -> Option<Finding> {
    // Elsewhere the RTT is that of a part of the path.
    if !view.is_near_sender {
        return None;
    }
    let rounds: Vec<&Round> = view.rounds().collect();
    let bps = view.data.ack_rate_bps.quantile(RATE_QUANTILE)?.max(1) as f64;
    let cluster = |rtt_ns: u64| rtt_ns.saturating_mul(ROUNDS as u64);
    // Clusters without a change, and where the last one began.
    let (mut unchanged, mut unchanged_ns) = (0, None::<u64>);
    let reordered = view.data.events.iter().filter(|event| is_reordering(view, event));
    let mut changes: Vec<(&Event, u64, u64)> = Vec::new();
    for event in reordered {
        // Packets that are late cluster; a cluster is one change.
        if changes
            .last()
            .is_some_and(|(last, from, to)| event.at_ns - last.at_ns < cluster(*from.max(to)))
        {
            continue;
        }
        let at = rounds.partition_point(|round| round.begin_ns < event.at_ns);
        // The round trips around the event have packets of both paths.
        let Some(from) = at.checked_sub(ROUNDS + 1) else { continue };
        let Some(behind) = rounds.get(at + 1..at + 1 + ROUNDS) else { continue };
        let (Some(before), Some(after)) = (side(&rounds[from..at - 1]), side(behind)) else {
            continue;
        };
        // While nothing is in flight the queue of others comes and goes.
        if rounds[from + 1..at + 1 + ROUNDS].iter().any(|round| round.idle_ns > 0) {
            continue;
        }
        // A queue that overflowed is shorter when all its senders have cut their windows.
        let until_ns = behind[ROUNDS - 1].begin_ns;
        let is_loss = |lost: &Span| (rounds[from].begin_ns..until_ns).contains(&lost.begin_ns);
        if view.data.losses.iter().any(is_loss) {
            continue;
        }
        // What the window is smaller by waits no longer; the rest of the path takes what it took.
        let smaller = before.inflight.saturating_sub(after.inflight);
        let explained_ns = smaller as f64 * 8e9 / bps;
        // Only a shorter way lets later packets overtake.
        let drop_ns = before.rtt_ns.saturating_sub(after.rtt_ns) as f64;
        if drop_ns > explained_ns + SHIFT * before.rtt_ns as f64 {
            changes.push((event, before.rtt_ns, after.rtt_ns));
        } else if unchanged_ns.is_none_or(|last_ns| event.at_ns - last_ns >= cluster(before.rtt_ns))
        {
            unchanged += 1;
            unchanged_ns = Some(event.at_ns);
        }
    }
    // Where packets overtake each other all the time, an RTT that falls meanwhile is chance.
    if unchanged > changes.len() {
        return None;
    }
    let (_, before, after) = *changes.first()?;
    let summary = format!(
        "Packets overtook others {} and the RTT stayed lower afterwards, the first time {} instead of {}.",
        times(changes.len()),
        time(after),
        time(before),
    );
    let evidence = changes.iter().take(SHOWN).map(|(event, before, after)| {
        let said = format!(
            "out of order; RTTs are {} before and {} after it",
            time(*before),
            time(*after)
        );
        view.evidence(event.number, said)
    });
    Some(view.finding(&CHANGE, summary, evidence.collect(), 0.7))
}

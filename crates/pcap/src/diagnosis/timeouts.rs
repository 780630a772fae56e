//! Waits for the sender's timers.

use std::collections::BTreeSet;

use super::{Kind, SHOWN, View, median, per_cent, share, sum, time};
use crate::data::MOST_EVENTS;
use crate::model::{Event, EventKind, Finding, Severity};

pub(super) const FLOOR: Kind = Kind {
    name: "rto-floor",
    usually_means: "A loss that no ACK could tell of waited for the retransmission timer, whose least value is made for long paths.",
    try_this: "Lower the floor on this route (ip route change ... rto_min 10ms), see that SACK is on, and find out what is dropped \
               (buffers, marking) before that.",
    severity: Severity::Severe,
};

pub(super) const TAIL: Kind = Kind {
    name: "tail-loss",
    usually_means: "The last packets of a burst met a full buffer, and nothing behind them could make the receiver tell of it.",
    try_this: "Keep tail loss probes and RACK on (net.ipv4.tcp_early_retrans=3, SACK at both ends), and mark or pace so that ends \
               of bursts are not dropped.",
    severity: Severity::Costs,
};

/// A timeout without a floor is srtt and four deviations, two or three RTTs. Beyond ten it is the floor that is waited for.
const ROUND_TRIPS_WAITED: u64 = 10;

/// Timeouts that took far longer than the path.
pub(super) fn floor(view: &View<'_>) -> Option<Finding> {
    let base = view.base_rtt_ns()?;
    let is_long = |event: &&Event| event.lasted_ns >= base.saturating_mul(ROUND_TRIPS_WAITED);
    let waits: Vec<&Event> = view.events(EventKind::Rto).filter(is_long).collect();
    let shortest = waits.iter().map(|event| event.lasted_ns).min()?;
    let in_all = sum(waits.iter().map(|event| event.lasted_ns));
    let of_flow = |ns: u64| per_cent(share(ns, view.flow.end_ns - view.flow.begin_ns));
    let (shortest_of, round_trips) = (time(shortest), shortest / base.max(1));
    let summary = if view.at_least(&[EventKind::Rto]).is_empty() {
        format!(
            "{} retransmission timeouts of {shortest_of} and more, {round_trips} round trips of this path each, in all {} or {} of the \
             flow's time.",
            waits.len(),
            time(in_all),
            of_flow(in_all),
        )
    } else {
        let (timeouts, all_ns) = (view.data.retransmitted.rto, view.data.rto_stall_ns);
        format!(
            "{timeouts} retransmission timeouts, in all {} or {} of the flow's time; {} of the first {MOST_EVENTS} took {shortest_of} \
             and more, {round_trips} round trips of this path each.",
            time(all_ns),
            of_flow(all_ns),
            waits.len(),
        )
    };
    let evidence = waits.iter().take(SHOWN).map(|event| {
        let said = format!("sent again after a silence of {}", time(event.lasted_ns));
        view.evidence(event.number, said)
    });
    Some(view.finding(&FLOOR, summary, evidence.collect(), 0.95))
}

/// Losses at the end of what was sent.
pub(super) fn tail(view: &View<'_>, arrived: &BTreeSet<(u32, bool, u64)>) -> Option<Finding> {
    let is_needless =
        |event: &Event| arrived.contains(&(view.flow.connection, view.is_of_a(), event.seq));
    let mut tails: Vec<&Event> = view
        .events(EventKind::TailLoss)
        .chain(view.events(EventKind::TailLossProbe))
        .filter(|event| !is_needless(event))
        .collect();
    tails.sort_by_key(|event| event.number);
    tails.dedup_by_key(|event| event.number);
    let typical = median(tails.iter().map(|event| event.lasted_ns))?;
    let by_probe =
        view.events(EventKind::TailLossProbe).filter(|event| !is_needless(event)).count();
    let at_least = view.at_least(&[EventKind::TailLoss, EventKind::TailLossProbe]);
    let summary = format!(
        "The tail was lost {at_least}{} times, with nothing sent behind it: {by_probe} were repaired by a probe, the others by a timeout; \
         {} in the median.",
        tails.len(),
        time(typical),
    );
    let evidence = tails.iter().take(SHOWN).map(|event| {
        let said = match event.earlier {
            Some(original) => format!("sends {original} again after {}", time(event.lasted_ns)),
            None => format!("sent again after {}", time(event.lasted_ns)),
        };
        view.evidence(event.number, said)
    });
    Some(view.finding(&TAIL, summary, evidence.collect(), 0.9))
}

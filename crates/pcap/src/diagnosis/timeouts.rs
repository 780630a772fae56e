//! Waits for the sender's timers.

use std::collections::BTreeSet;

use super::late::Known;
use super::{
    HOST_NS, Kind, SHOWN, View, median, per_cent, severity, share, silence, sum, time, times,
};
use crate::data::MOST_EVENTS;
use crate::model::{Event, EventKind, Finding, Severity};

pub(super) const FLOOR: Kind = Kind {
    name: "rto-floor",
    usually_means: "No ACK could report the loss, so the sender waited for the retransmission timer, whose minimum suits long \
                    paths. It may also be that ACKs were late and nothing was lost: then a lower minimum makes it worse. Or a \
                    policer or a queue of a few packets drops most of each burst.",
    try_this: "Lower the minimum RTO on this route (ip route change ... rto_min 10ms), check that SACK is on, and first find \
               the cause of the losses (buffers, marking).",
    severity: Severity::Severe,
};

pub(super) const TAIL: Kind = Kind {
    name: "tail-loss",
    usually_means: "The last packets of a burst met a full buffer, and no later packet made the receiver report the loss. It may also be a \
                    bad link, or a path that was gone for a moment: then all that was in flight is lost.",
    try_this: "Keep tail loss probes and RACK on (net.ipv4.tcp_early_retrans=3, SACK at both ends), and mark or pace to avoid \
               drops at the ends of bursts.",
    severity: Severity::Costs,
};

/// A timeout without a floor is srtt and four deviations, two or three RTTs. Beyond ten it is the floor that is waited for.
const ROUND_TRIPS_WAITED: u64 = 10;

/// Timeouts of one flow that took far longer than its path.
struct Waits<'a> {
    view: &'a View<'a>,
    /// The kept events.
    events: Vec<&'a Event>,
    shortest_ns: u64,
    round_trips: u64,
    /// Number of waits; if not all events were kept, of all timeouts, short ones included.
    count: u64,
    in_all_ns: u64,
    is_full: bool,
}

fn waits<'a>(view: &'a View<'a>, known: &Known) -> Option<Waits<'a>> {
    let base = view.base_rtt_ns()?;
    let is_long = |event: &&Event| event.lasted_ns >= base.saturating_mul(ROUND_TRIPS_WAITED);
    let backed_off = silence::backed_off(view);
    // No floor is at fault where ACKs were late, nor where the other end did not answer.
    let is_of_loss =
        |event: &&Event| !known.is_late(view, event) && !backed_off.contains(&event.seq);
    let events: Vec<&Event> =
        view.events(EventKind::Rto).filter(is_long).filter(is_of_loss).collect();
    let shortest_ns = events.iter().map(|event| event.lasted_ns).min()?;
    let is_full = !view.at_least(&[EventKind::Rto]).is_empty();
    let (count, in_all_ns) = if is_full {
        (view.data.retransmitted.rto, view.data.rto_stall_ns)
    } else {
        (events.len() as u64, sum(events.iter().map(|event| event.lasted_ns)))
    };
    let round_trips = shortest_ns / base.max(HOST_NS);
    Some(Waits { view, events, shortest_ns, round_trips, count, in_all_ns, is_full })
}

/// Timeouts that took far longer than the path, of all flows together.
pub(super) fn floor(views: &[View<'_>], known: &Known) -> Option<Finding> {
    // Of several points that see a sender the first.
    let mut seen = BTreeSet::new();
    let is_first = |view: &&View<'_>| seen.insert((view.flow.connection, view.is_of_a()));
    let found: Vec<Waits<'_>> = views.iter().filter_map(|view| waits(view, known)).collect();
    let firsts: BTreeSet<(u32, bool, u32)> = found
        .iter()
        .map(|waits| waits.view)
        .filter(is_first)
        .map(|view| (view.flow.connection, view.is_of_a(), view.flow.id))
        .collect();
    let is_first = |waits: &&Waits<'_>| {
        let view = waits.view;
        firsts.contains(&(view.flow.connection, view.is_of_a(), view.flow.id))
    };
    let mut found: Vec<&Waits<'_>> = found.iter().filter(is_first).collect();
    found.sort_by_key(|waits| std::cmp::Reverse(waits.in_all_ns));
    let shortest = time(found.iter().map(|waits| waits.shortest_ns).min()?);
    let round_trips = found.iter().map(|waits| waits.round_trips).min()?;
    let count: u64 = found.iter().map(|waits| waits.count).sum();
    let in_all = time(sum(found.iter().map(|waits| waits.in_all_ns)));
    let most = found.iter().map(|waits| {
        let flow = waits.view.flow;
        share(waits.in_all_ns, flow.end_ns.saturating_sub(flow.begin_ns))
    });
    let most = most.fold(0.0, f64::max);
    let kind = Kind { severity: severity(most), ..FLOOR };
    let most = per_cent(most);
    let (of, paths, times) = match found.len() {
        1 => (String::new(), "this path", format!("or {most} of the flow's time")),
        flows => (
            format!(" in {flows} flows"),
            "their paths",
            format!("and up to {most} of a flow's time"),
        ),
    };
    let summary = if found.iter().any(|waits| waits.is_full) {
        let kept: usize = found.iter().map(|waits| waits.events.len()).sum();
        let first = found.iter().filter(|waits| waits.is_full).count() * MOST_EVENTS as usize;
        format!(
            "{count} retransmission timeouts{of}, in all {in_all} {times}; {kept} of the first {first} took at least \
             {shortest}, {round_trips} round trips of {paths} each.",
        )
    } else {
        format!(
            "{count} retransmission timeouts{of} of at least {shortest}, {round_trips} round trips of {paths} each, in all \
             {in_all} {times}."
        )
    };
    let evidence = found.iter().flat_map(|waits| {
        waits.events.iter().take(SHOWN).map(|event| {
            let said = format!("retransmitted after a silence of {}", time(event.lasted_ns));
            waits.view.evidence(event.number, said)
        })
    });
    let flows = found.iter().map(|waits| waits.view.flow.id).collect();
    Some(kind.finding(flows, summary, evidence.collect(), 0.95))
}

/// Losses at the end of what was sent.
pub(super) fn tail(view: &View<'_>, known: &Known) -> Option<Finding> {
    let backed_off = silence::backed_off(view);
    let is_needless =
        |event: &Event| known.of(view, event).is_some() || backed_off.contains(&event.seq);
    let mut tails: Vec<&Event> = view
        .events(EventKind::TailLoss)
        .chain(view.events(EventKind::TailLossProbe))
        .chain(view.events(EventKind::NewDataProbe))
        .filter(|event| !is_needless(event))
        .collect();
    tails.sort_by_key(|event| event.number);
    tails.dedup_by_key(|event| event.number);
    let typical = median(tails.iter().map(|event| event.lasted_ns))?;
    let by_probe = tails.iter().filter(|event| event.kind != EventKind::TailLoss).count();
    let kinds = [EventKind::TailLoss, EventKind::TailLossProbe, EventKind::NewDataProbe];
    let at_least = view.at_least(&kinds);
    let summary = format!(
        "The tail was lost {at_least}{}, with nothing sent after it: probes found {by_probe}, timeouts the others; after \
         {} in the median.",
        times(tails.len()),
        time(typical),
    );
    let evidence = tails.iter().take(SHOWN).map(|event| {
        let said = match event.earlier {
            Some(original) => format!("retransmits {original} after {}", time(event.lasted_ns)),
            None if event.kind == EventKind::NewDataProbe => {
                format!(
                    "sends new data after {}, whose ACK reports the loss",
                    time(event.lasted_ns)
                )
            }
            None => format!("retransmitted after {}", time(event.lasted_ns)),
        };
        view.evidence(event.number, said)
    });
    let waited = sum(tails.iter().map(|event| event.lasted_ns));
    let kind =
        Kind { severity: severity(share(waited, view.lasted_ns())).min(TAIL.severity), ..TAIL };
    Some(view.finding(&kind, summary, evidence.collect(), 0.9))
}

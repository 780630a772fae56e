//! ACKs that come late, not at all, or for too much or too little at once.

use super::late::{Arrival, Known, timers};
use super::{HOST_NS, Kind, SHOWN, View, median, per_cent, severity, share, sum, time, times};
use crate::model::{Event, EventKind, Finding, Round, Severity};

pub(super) const DELAYED: Kind = Kind {
    name: "delayed-ack",
    usually_means: "The window is one packet, or Nagle's algorithm holds back a short write: the delayed-ACK timer expires \
                    before a second packet arrives. Where the capture is not at the receiver, it may also be a path whose delay rose for a \
                    moment, or a queue that others fill.",
    try_this: "Set TCP_NODELAY, keep windows above one packet (fewer connections, a larger K), run Linux 4.18 or later (DCTCP \
               acknowledges changes of CE at once), or set quickack on the route.",
    severity: Severity::Severe,
};

pub(super) const LEFT_OUT: Kind = Kind {
    name: "ack-left-out",
    usually_means: "The receiver got the last packet, but its ACK does not cover it. DCTCP receivers of Linux 4.0 to 4.17 do so at a \
                    change of CE. The sender waits for a timer.",
    try_this: "Update the receiver's kernel to 4.18 or later, and keep SACK and tail loss probes on meanwhile.",
    severity: Severity::Severe,
};

/// As [`LEFT_OUT`], but the receiver delayed the ACK.
const BEYOND_TIMER: Kind = Kind {
    usually_means: "The receiver delays the ACK of a single packet for longer than the sender's retransmission timer, whose \
                    minimum is lower than usual.",
    try_this: "Raise the sender's minimum RTO above the receiver's delayed ACK (ip route change ... rto_min; at least 40 ms in \
               Linux), or set quickack on the receiver's route.",
    ..LEFT_OUT
};

/// As [`LEFT_OUT`], where a lost ACK looks the same.
const LOST_OR_LEFT_OUT: Kind = Kind {
    usually_means: "The ACK of the last packet may have been lost on the way back, or a later one overtook it. Or the receiver left it \
                    out, as DCTCP receivers of Linux 4.0 to 4.17 do at a change of CE.",
    try_this: "Capture at the receiver to tell which of the two it is, and keep SACK and tail loss probes on.",
    ..LEFT_OUT
};

pub(super) const STRETCH: Kind = Kind {
    name: "stretch-acks",
    usually_means: "The receiver merges packets before TCP (GRO, LRO), its device coalesces interrupts, or its application \
                    reads late and Linux acknowledges on reads.",
    try_this: "Nothing if rates and queues are fine. Otherwise pace the sender (fq): each such ACK releases a burst. If the \
               receiver merges (ethtool -k), lower gro_flush_timeout and coalescing; if not, check its application.",
    severity: Severity::Note,
};

/// As [`STRETCH`], where ACKs may have been lost, thinned out or overtaken on their way.
const STRETCH_OR_LOST: Kind = Kind {
    usually_means: "The receiver merges packets before TCP (GRO, LRO), its device coalesces interrupts, or its application \
                    reads late. It may also be that ACKs are lost, thinned out or overtaken on the way back (a slow or lossy return \
                    path, a modem that drops older ACKs).",
    ..STRETCH
};

pub(super) const BROKEN_MERGING: Kind = Kind {
    name: "gro-broken-by-marks",
    usually_means: "GRO merges packets with the same ECN field only: marks on some of them break merges, so the receiver \
                    handles more packets and sends more ACKs.",
    try_this: "Compare the receiver's CPU time with the share of marks. Marks in runs (a step at dequeue, a larger K) break \
               fewer merges than random ones.",
    severity: Severity::Costs,
};

/// Linux delays ACKs by 40 ms and more, others by 50, 100 or 200 ms; timers are up to a quarter early on coarse clocks.
const DELAYED_LEAST_NS: u64 = 30_000_000;
/// Linux's longest is 200 ms, with its clock's coarseness; what takes longer is no delayed ACK but an application or a loss.
const DELAYED_MOST_NS: u64 = 250_000_000;
/// The standard (RFC 9293) asks for an ACK for every second full segment. Twice that is not by delayed ACKs any more.
const STRETCHED_SEGMENTS: u64 = 4;
/// Segments that must be there to say what is usual: less than some initial windows tell nothing.
const USUAL_SEGMENTS: u64 = 200;
/// Merging is broken where it comes down to less than two thirds: one mark in a merge makes up to three of it.
const BROKEN: f64 = 2.0 / 3.0;
/// Round trips on either side of a late ACK that tell what waits in a queue meanwhile.
const ROUNDS_BESIDE: usize = 10;
/// With more segments in flight no ACK of the first ones waits for a timer.
const ALONE_SEGMENTS: u64 = 2;
/// Round trips of each sort that are compared.
const ROUNDS_COMPARED: usize = 5;

/// ACKs for one or two segments that took a delayed-ACK timer, and that the sender waited for.
pub(super) fn delayed(view: &View<'_>) -> Option<Finding> {
    let base = view.base_rtt_ns()?;
    // The sender went on within a round trip of the point and itself, and what it takes to: it had waited for this ACK and for nothing
    // else.
    let soon_ns = base.saturating_add(HOST_NS);
    let went_on = |event: &Event| {
        let after = |round: &&Round| round.begin_ns >= event.at_ns;
        let next = view.data.rounds.iter().find(after);
        next.is_some_and(|round| {
            round.begin_ns - event.at_ns <= soon_ns && !round.was_idle_answered
        })
    };
    // What stands in a queue makes all ACKs late, those of larger windows, too.
    let rounds = &view.data.rounds;
    let queued_ns = |event: &Event| {
        let at = rounds.partition_point(|round| round.begin_ns <= event.at_ns);
        let beside = at.saturating_sub(ROUNDS_BESIDE)..(at + ROUNDS_BESIDE).min(rounds.len());
        let larger = rounds[beside]
            .iter()
            .filter(|round| round.inflight_bytes > ALONE_SEGMENTS * view.mss());
        larger.filter_map(|round| round.rtt_min_ns).min().map_or(0, |rtt| rtt.saturating_sub(base))
    };
    let is_timer = |event: &Event| {
        (DELAYED_LEAST_NS..=DELAYED_MOST_NS)
            .contains(&event.lasted_ns.saturating_sub(queued_ns(event)))
    };
    let waits: Vec<&Event> = view
        .events(EventKind::DelayedAck)
        .filter(|event| is_timer(event))
        .filter(|event| event.lasted_ns >= base && went_on(event))
        .collect();
    let typical = median(waits.iter().map(|event| event.lasted_ns))?;
    let in_all = sum(waits.iter().map(|event| event.lasted_ns));
    let of_time = share(in_all, view.lasted_ns());
    let short = waits.iter().filter(|event| event.bytes < view.mss()).count();
    let at_least = view.at_least(&[EventKind::DelayedAck]);
    let summary = format!(
        "The sender waited {at_least}{} for a delayed ACK, about {} each: {at_least}{} or {} of the flow's time ({short} \
         of the waits follow less than a full segment).",
        times(waits.len()),
        time(typical),
        time(in_all),
        per_cent(of_time),
    );
    let evidence = waits.iter().take(SHOWN).map(|event| {
        let data = event.earlier.map_or_else(String::new, |earlier| format!(" of {earlier}"));
        view.evidence(event.number, format!("the ACK{data}, delayed by {}", time(event.lasted_ns)))
    });
    let kind = Kind { severity: severity(of_time), ..DELAYED };
    Some(view.finding(&kind, summary, evidence.collect(), 0.9))
}

/// Packets that arrived and were not acknowledged, so that a timer sent them again.
pub(super) fn left_out(view: &View<'_>, known: &Known) -> Option<Finding> {
    let found: Vec<(&Event, &str)> = timers(view)
        .filter_map(|event| match known.of(view, event)? {
            Arrival::NotAcked(why) => Some((event, why)),
            Arrival::AckedLate(_) => None,
        })
        .collect();
    let typical = median(found.iter().map(|(event, _)| event.lasted_ns))?;
    let timeouts = found.iter().filter(|(event, _)| event.kind == EventKind::Rto).count();
    // One segment alone that nothing was said about waits for the receiver's timer; a second one would have been acknowledged.
    let is_delayed = |event: &Event| {
        let is_alone = event.inflight_bytes <= view.mss();
        is_alone && event.duplicate_acks == 0 && event.lasted_ns <= DELAYED_MOST_NS
    };
    let delayed = found.iter().filter(|(event, _)| is_delayed(event)).count();
    // Where the receiver's answers are seen, or one came that its arrival caused, no ACK was lost.
    // Behind other retransmissions an answer may be to one of those.
    let again = &view.data.retransmitted;
    let is_first = again.segments <= found.len() as u64;
    let is_seen = |event: &Event| view.is_near_receiver || (event.duplicate_acks > 0 && is_first);
    let seen = found.iter().filter(|(event, _)| is_seen(event)).count();
    let (kind, why) = if 2 * delayed > found.len() {
        (BEYOND_TIMER, "the receiver delayed its ACK for longer than the sender's timer")
    } else if 2 * seen > found.len() {
        (LEFT_OUT, "the receiver did not acknowledge it")
    } else {
        (LOST_OR_LEFT_OUT, "no ACK of it came: it may have been lost on the way back, or left out")
    };
    // A probe is no more than a packet too many.
    let severity = match timeouts {
        0 => Severity::Note,
        _ => severity(share(sum(found.iter().map(|(event, _)| event.lasted_ns)), view.lasted_ns())),
    };
    let kind = Kind { severity, ..kind };
    let at_least = view.at_least(&[EventKind::Rto, EventKind::TailLossProbe]);
    let summary = format!(
        "The last packet in flight arrived {at_least}{}, but {why}: {timeouts} timeouts and {} probes retransmitted it, \
         after {} in the median.",
        times(found.len()),
        found.len() - timeouts,
        time(typical),
    );
    let evidence = found.iter().take(SHOWN).map(|(event, why)| {
        let original = event.earlier.map_or_else(String::new, |earlier| format!(" {earlier}"));
        view.evidence(event.number, format!("retransmits{original}, {why}"))
    });
    Some(view.finding(&kind, summary, evidence.collect(), 0.8))
}

/// ACKs for many segments at once.
pub(super) fn stretch(view: &View<'_>) -> Option<Finding> {
    let segments = &view.data.ack_segments;
    if view.data.segments < USUAL_SEGMENTS {
        return None;
    }
    // What most of the data saw, not most of the ACKs: many small ACKs may stand beside few large ones.
    let by = |least: u64| -> u128 {
        let large = segments.buckets().filter(|bucket| bucket.from >= least);
        large.map(|bucket| u128::from(bucket.from) * u128::from(bucket.count)).sum()
    };
    let stretched = by(STRETCHED_SEGMENTS);
    let of_all = stretched as f64 / by(0).max(1) as f64;
    if of_all < 0.5 {
        return None;
    }
    let summary = format!(
        "ACKs for at least {STRETCHED_SEGMENTS} segments acknowledge {} of the data, the largest {} segments; an ACK covers \
         {:.1} on average.",
        per_cent(of_all),
        segments.max().unwrap_or_default(),
        segments.sum() as f64 / segments.count().max(1) as f64,
    );
    let mut largest: Vec<&Round> = view.data.rounds.iter().collect();
    largest.sort_by_key(|round| std::cmp::Reverse(round.largest_ack_segments));
    let evidence = largest.iter().take(SHOWN).map(|round| {
        let most = round.largest_ack_segments;
        view.evidence(round.first_number, format!("a round trip with an ACK for {most} segments"))
    });
    let kind = if view.is_near_receiver { STRETCH } else { STRETCH_OR_LOST };
    Some(view.finding(&kind, summary, evidence.collect(), 0.95))
}

/// ACKs for much at once where marks do not change, and for little where they do.
pub(super) fn broken_merging(view: &View<'_>) -> Option<Finding> {
    let usable = || view.data.rounds.iter().filter(|round| round.acks > 0 && round.segments > 0);
    let changes = |round: &Round| round.ce_changes.max(round.ece_changes);
    // A run of marks has two changes, its beginning and its end; it cuts merges only there.
    let is_mixed = |round: &&Round| changes(round) >= 2;
    let mixed: Vec<&Round> = usable().filter(is_mixed).collect();
    let plain: Vec<&Round> = usable().filter(|round| changes(round) == 0).collect();
    if mixed.len() < ROUNDS_COMPARED || plain.len() < ROUNDS_COMPARED {
        return None;
    }
    let of = |rounds: &[&Round]| median(rounds.iter().filter_map(|round| round.ack_ratio));
    let (broken, merged) = (of(&mixed)?, of(&plain)?);
    if merged < STRETCHED_SEGMENTS as f64 || broken > BROKEN * merged {
        return None;
    }
    let summary = format!(
        "An ACK covers {merged:.1} segments where marks do not change, and {broken:.1} where they do ({} of {} round trips): \
         marks break merges.",
        mixed.len(),
        view.data.rounds.len(),
    );
    let evidence = mixed.iter().take(SHOWN).map(|round| {
        let said = format!(
            "a round trip with {} changes of marks: {} ACKs for {} segments",
            changes(round),
            round.acks,
            round.segments
        );
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&BROKEN_MERGING, summary, evidence.collect(), 0.85))
}

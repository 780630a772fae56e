//! Senders that ignore marks, and senders that starve beside them.
//!
//! Where all data is marked for many round trips on end, every sender that heeds marks is down at a window of a few segments: DCTCP cuts
//! by half of the share that is marked, others once in each round trip. What a sender has in flight then says which kind it is.

use super::{Kind, SHOWN, View, ecn, median, per_cent, rate, share, time};
use crate::model::{EcnAgreed, Finding, Round, Severity};

pub(super) const IGNORED: Kind = Kind {
    name: "marks-ignored",
    usually_means: "The congestion control sends ECT but ignores marks (BBR version 1), or something sets ECT on a connection \
                    without ECN (an application's TOS byte, a tunnel, a middlebox).",
    try_this: "Use a congestion control that responds to marks (DCTCP, CUBIC, Reno), switch its ECN off, or give it a separate \
               queue (another DSCP): senders that respond to marks starve next to it.",
    severity: Severity::Severe,
};

pub(super) const STARVED: Kind = Kind {
    name: "starved-by-marks",
    usually_means: "Another sender at this port ignores marks and holds the queue above K, or the minimum windows of many \
                    senders alone exceed K.",
    try_this: "Find the sender with most of the rate (marks-ignored in its capture) and make it respond to marks or use another \
               queue. With many senders, limit their number or raise K.",
    severity: Severity::Severe,
};

pub(super) const ALL_MARKED: Kind = Kind {
    name: "marks-everything",
    usually_means: "A middlebox or a queueing discipline sets CE on every packet, whether a queue waits or not. It may also be that others \
                    hold a queue that is too short to be seen in these RTTs above a very small K.",
    try_this: "Capture at hops on the path to find where CE begins, and mend that device. Until then switch ECN off for this path \
               (net.ipv4.tcp_ecn = 2 or 0, or ip route ... features without ecn).",
    severity: Severity::Severe,
};

/// Share of all data of a flow that is marked where something marks everything.
const EVERYTHING: f64 = 0.95;
/// What nothing queues adds to most RTTs, as a share of the smallest.
const NOTHING_QUEUES: f64 = 0.1;

/// Share of marked data that counts as all: delayed ACKs at the ends of runs cover some unmarked data.
const ALL: f64 = 0.9;
/// Round trips on end behind which a window is at its least: cuts by a tenth would leave an eighth.
const ROUND_TRIPS: u32 = 20;
/// Largest window of a sender after so many marks, segments: it adds one per round trip to its minimum of two.
const LEAST_WINDOW: u64 = 4;
/// Least window of a sender that ignores marks, segments: an initial window.
const LARGE_WINDOW: u64 = 10;
/// An RTT that is this many times the smallest one at all times is of a queue.
const DOUBLED: u64 = 2;
/// Segments that are ECN-capable and should not be: some are retransmissions or probes of another stack.
const USUAL_SEGMENTS: u64 = 100;

/// All data is marked, and nothing queues.
pub(super) fn all_marked(view: &View<'_>) -> Option<Finding> {
    let (data, ecn) = (view.data, &view.data.ecn);
    let is_all = share(ecn.ece_bytes, ecn.acked_bytes) >= EVERYTHING;
    // ECE that is held says nothing of marks, unless they are seen themselves.
    let is_latched = data.receiver.held_without_cwr > 0 && ecn::endless(view).is_some();
    let segments = ecn.ce + ecn.ect0 + ecn.ect1;
    let sees_marks = view.is_near_receiver && ecn.ce > 0;
    if sees_marks && share(ecn.ce, segments) < EVERYTHING {
        return None;
    }
    if !view.is_near_sender || !is_all || is_latched || segments < USUAL_SEGMENTS {
        return None;
    }
    let base = view.base_rtt_ns()?;
    let typical = data.rtt.quantile(0.5)?;
    if typical.saturating_sub(base) as f64 > NOTHING_QUEUES * base as f64 {
        return None;
    }
    let summary = format!(
        "{} of the data is reported as marked, from the first round trip on, although nothing queues: RTTs are {} in the median, the \
         smallest is {}. The flow gets {}.",
        per_cent(share(ecn.ece_bytes, ecn.acked_bytes)),
        time(typical),
        time(base),
        rate(data.goodput_bps.unwrap_or(0.0)),
    );
    let rounds = data.rounds.iter().filter(|round| round.ece_bytes > 0).take(SHOWN);
    let evidence = rounds.map(|round| {
        let said =
            format!("a round trip with {} of {} bytes marked", round.ece_bytes, round.acked_bytes);
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&ALL_MARKED, summary, evidence.collect(), 0.85))
}

/// The longest run of round trips in which all data is marked, without those in which windows come down.
fn marked_rounds<'a>(view: &View<'a>) -> Option<Vec<&'a Round>> {
    // ECE that is held says nothing of marks.
    if view.data.receiver.held_without_cwr > 0 && ecn::endless(view).is_some() {
        return None;
    }
    let rounds: Vec<&Round> = view.rounds().filter(|round| round.acked_bytes > 0).collect();
    let is_marked = |round: &Round| {
        round.idle_ns == 0
            && round.retransmitted == 0
            && share(round.ece_bytes, round.acked_bytes) >= ALL
    };
    let runs = rounds.chunk_by(|x, y| is_marked(x) && is_marked(y));
    let count = |run: &[&Round]| run.iter().map(|round| round.round_trips).sum::<u32>();
    let longest = runs.filter(|run| is_marked(run[0])).max_by_key(|run| count(run))?;
    let mut behind = 0;
    let settled = longest.iter().copied().skip_while(|round| {
        behind += round.round_trips;
        behind <= ROUND_TRIPS
    });
    let settled: Vec<&Round> = settled.collect();
    (count(&settled) >= ROUND_TRIPS).then_some(settled)
}

fn marked_share(rounds: &[&Round]) -> f64 {
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(|round| of(round)).sum();
    share(sum(|round| round.ece_bytes), sum(|round| round.acked_bytes))
}

/// Window and rate of a sender during round trips whose data is all marked.
struct MarkedRounds<'a> {
    rounds: Vec<&'a Round>,
    count: u32,
    /// Segments in flight, and the rate, in the median.
    segments: u64,
    bps: f64,
}

fn settled<'a>(view: &View<'a>) -> Option<MarkedRounds<'a>> {
    // Elsewhere what is in flight is not the window.
    if !view.is_near_sender {
        return None;
    }
    let rounds = marked_rounds(view)?;
    Some(MarkedRounds {
        count: rounds.iter().map(|round| round.round_trips).sum(),
        segments: median(rounds.iter().map(|round| round.inflight_bytes))?.div_ceil(view.mss()),
        bps: median(rounds.iter().map(|round| round.rate_bps))?,
        rounds,
    })
}

/// A large window despite consecutive marks, or ECT without ECN negotiation.
pub(super) fn ignored(view: &View<'_>) -> Option<Finding> {
    not_agreed(view).or_else(|| {
        let MarkedRounds { rounds, count, segments, bps } = settled(view)?;
        if segments < LARGE_WINDOW {
            return None;
        }
        let summary = format!(
            "In {count} consecutive round trips {} of the data was marked, but the sender kept {segments} segments in flight, \
             {}: a response to marks leaves at most {LEAST_WINDOW}.",
            per_cent(marked_share(&rounds)),
            rate(bps),
        );
        let evidence = rounds.iter().take(SHOWN).map(|round| {
            let said = format!(
                "a round trip with {} of {} bytes marked and {} in flight",
                round.ece_bytes, round.acked_bytes, round.inflight_bytes
            );
            view.evidence(round.first_number, said)
        });
        Some(view.finding(&IGNORED, summary, evidence.collect(), 0.9))
    })
}

/// ECN-capable data on a connection without ECN: its sender never learns of marks.
fn not_agreed(view: &View<'_>) -> Option<Finding> {
    let is_refused = matches!(view.flow.handshake.ecn, EcnAgreed::NotAsked | EcnAgreed::Refused);
    let ecn = &view.data.ecn;
    let capable = ecn.ect0 + ecn.ect1 + ecn.ce;
    if !is_refused || capable < USUAL_SEGMENTS {
        return None;
    }
    let marked = match ecn.ce {
        0 => String::new(),
        ce => format!(", {} of them marked here", per_cent(share(ce, capable))),
    };
    let summary = format!(
        "{capable} segments are ECN-capable{marked}, but the handshake did not agree on ECN: queues mark them instead of \
         dropping, and the sender never learns of it."
    );
    let rounds = view.data.rounds.iter().filter(|round| round.ect_segments > 0).take(SHOWN);
    let evidence = rounds.map(|round| {
        view.evidence(round.first_number, format!("one of {} segments with ECT", round.segments))
    });
    Some(view.finding(&IGNORED, summary, evidence.collect(), 0.9))
}

/// The least window at marks on end, in a queue that others make.
pub(super) fn starved(view: &View<'_>) -> Option<Finding> {
    let MarkedRounds { rounds, count, segments, bps } = settled(view)?;
    // Of data: a SYN is much sooner on a slow link, which makes no queue of others.
    let base = view.data.rtt.min()?;
    let least = rounds.iter().filter_map(|round| round.rtt_min_ns).min()?;
    if segments > LEAST_WINDOW || least < DOUBLED.saturating_mul(base) {
        return None;
    }
    let summary = format!(
        "In {count} consecutive round trips {} of the data was marked with only {segments} segments in flight, {}: RTTs are at \
         least {}, {:.1} times the smallest ({}), because others fill the queue.",
        per_cent(marked_share(&rounds)),
        rate(bps),
        time(least),
        least as f64 / base.max(1) as f64,
        time(base),
    );
    let evidence = rounds.iter().take(SHOWN).map(|round| {
        let rtt = time(round.rtt_min_ns.unwrap_or_default());
        let said =
            format!("all marked with {} bytes in flight, at an RTT of {rtt}", round.inflight_bytes);
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&STARVED, summary, evidence.collect(), 0.9))
}

//! Losses by a token bucket without a queue.

use super::{Kind, SHOWN, View, per_cent, rate, time};
use crate::model::{Event, EventKind, Finding, Severity};

pub(super) const POLICER: Kind = Kind {
    name: "policer",
    usually_means: "A policer (a rate limit without a queue) drops what exceeds its rate once its burst is used up.",
    try_this: "Shape below that rate at the sender (fq with SO_MAX_PACING_RATE, tbf), or have the limit made by a shaper with a queue \
               that marks.",
    severity: Severity::Costs,
};

/// Fewer losses do not show a pattern; as in Flach et al., "An Internet-wide analysis of traffic policing" (SIGCOMM 2016).
const LOSSES: usize = 15;
/// A queue that overflows has grown before; here RTTs stay within half of the smallest one, but for a few in a hundred.
const NO_QUEUE: f64 = 1.5;
/// At random times the losses' mean rank among all moments is a half. With an empty bucket it is near nothing; a quarter is in the
/// middle.
const RANK: f64 = 0.25;
/// Moments at which the bucket is looked at between the first and the last loss.
const MOMENTS: u64 = 400;

/// Bytes sent up to a moment, by the round trips: begin, end, bytes before and in each.
struct Sent(Vec<(u64, u64, u64, u64)>);

impl Sent {
    fn new(view: &View<'_>) -> Sent {
        let rounds = &view.data.rounds;
        let begins = rounds.iter().skip(1).map(|round| round.begin_ns);
        let last = rounds.last().map(|round| round.begin_ns + round.duration_ns);
        let mut sum = 0;
        let all = rounds.iter().zip(begins.chain(last)).map(|(round, end_ns)| {
            let before = sum;
            sum += round.bytes;
            (round.begin_ns, end_ns, before, round.bytes)
        });
        Sent(all.collect())
    }

    fn until(&self, at_ns: u64) -> f64 {
        let next = self.0.partition_point(|(begin, ..)| *begin <= at_ns);
        let Some((begin, end, before, bytes)) = next.checked_sub(1).map(|at| self.0[at]) else {
            return 0.0;
        };
        let part = (at_ns - begin) as f64 / end.saturating_sub(begin).max(1) as f64;
        before as f64 + bytes as f64 * part.min(1.0)
    }
}

/// Losses when a bucket of one rate is empty, and no queue before them.
pub(super) fn policer(view: &View<'_>) -> Option<Finding> {
    if !view.is_near_sender {
        return None;
    }
    let base = view.base_rtt_ns()?;
    if view.data.rtt.quantile(0.95)? as f64 > NO_QUEUE * base as f64 {
        return None;
    }
    let again = [EventKind::FastRetransmission, EventKind::RetransmissionAfterRto];
    let mut lost: Vec<(u64, &Event)> = view
        .data
        .events
        .iter()
        .filter(|event| again.contains(&event.kind))
        .map(|event| (event.at_ns.saturating_sub(event.lasted_ns), event))
        .collect();
    lost.sort_by_key(|(sent_ns, event)| (*sent_ns, event.number));
    let (first, last) = (lost.first()?.0, lost.last()?.0);
    if lost.len() < LOSSES || last - first < MOMENTS / 40 * base {
        return None;
    }
    let sent = Sent::new(view);
    let passed = |until_ns: u64| {
        let gone = lost.partition_point(|(sent_ns, _)| *sent_ns < until_ns) as u64 * view.mss();
        sent.until(until_ns) - sent.until(first) - gone as f64
    };
    let bytes_per_ns = passed(last) / (last - first) as f64;
    // What is in the bucket, from an empty one at the first loss.
    let tokens = |at_ns: u64| bytes_per_ns * (at_ns - first) as f64 - passed(at_ns);
    let moments = (0..MOMENTS).map(|at| first + (last - first) / MOMENTS * at);
    let mut all: Vec<f64> = moments.map(tokens).collect();
    all.sort_by(f64::total_cmp);
    let rank = |at_ns: u64| {
        let here = tokens(at_ns);
        all.partition_point(|other| *other < here) as f64 / all.len() as f64
    };
    let mean = lost.iter().map(|(sent_ns, _)| rank(*sent_ns)).sum::<f64>() / lost.len() as f64;
    if mean > RANK {
        return None;
    }
    let summary = format!(
        "{} segments were lost without a longer RTT ({} of RTTs are within half of {}), all when more than {} had been sent for a \
         while: what exceeds that rate is dropped.",
        lost.len(),
        per_cent(0.95),
        time(base),
        rate(bytes_per_ns * 8e9),
    );
    let evidence = lost.iter().take(SHOWN).map(|(_, event)| {
        let original =
            event.earlier.map_or_else(String::new, |earlier| format!(" {earlier}, lost,"));
        view.evidence(event.number, format!("sends{original} again"))
    });
    Some(view.finding(&POLICER, summary, evidence.collect(), 1.0 - mean))
}

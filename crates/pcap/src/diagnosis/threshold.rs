//! The marking threshold, told from the RTTs of marked and of unmarked data.

use super::{Kind, View, per_cent, rate, share, time};
use crate::model::{Finding, ReceiverKind, Severity};

pub(super) const THRESHOLD: Kind = Kind {
    name: "marking-threshold",
    usually_means: "The bottleneck marks what finds this much waiting: K, as far as a sender can see it.",
    try_this: "Compare it with what the switch is set to, and with C * RTT / 7, below which DCTCP loses throughput.",
    severity: Severity::Note,
};

/// RTTs of each sort that are needed to see where they part.
const RTTS: u64 = 50;
/// More on the wrong side of the best threshold than this: marks do not follow the queue that this RTT shows (random marking,
/// several bottlenecks, other traffic behind it).
const WRONG: f64 = 0.1;
/// The share of the ACKs' rates that is taken for the bottleneck's: the highest few come from ACKs that waited behind each other.
const RATE_QUANTILE: f64 = 0.9;
/// Headers on Ethernet beside a segment's payload: Ethernet, IPv4, TCP with timestamps.
const HEADER_BYTES: u64 = 66;

/// Where marked RTTs begin, less the smallest RTT: what waits at K.
pub(super) fn threshold(view: &View<'_>) -> Option<Finding> {
    let data = view.data;
    if !view.is_near_sender || data.receiver.kind == ReceiverKind::Classic {
        return None;
    }
    // Where paths or devices change, the smallest RTT is not that of the marked data without a queue.
    if super::path::change(view).is_some() || super::rtt::bimodal(view).is_some() {
        return None;
    }
    let (all, marked) = (&data.rtt, &data.rtt_marked);
    let unmarked = all.count().checked_sub(marked.count())?;
    if marked.count() < RTTS || unmarked < RTTS {
        return None;
    }
    // The threshold with the fewest marked RTTs below it and unmarked ones above.
    let (mut wrong, mut best) = (unmarked, None);
    let mut marked_buckets = marked.buckets().peekable();
    for bucket in all.buckets() {
        let mut of_marked = 0;
        while let Some(other) = marked_buckets.next_if(|other| other.from <= bucket.from) {
            of_marked += other.count;
        }
        // Of what lies in this bucket, now below the threshold behind it.
        wrong = (wrong + of_marked).saturating_sub(bucket.count.saturating_sub(of_marked));
        if best.is_none_or(|(least, _, _)| wrong < least) {
            best = Some((wrong, bucket.to, bucket.to - bucket.from));
        }
    }
    let (wrong, at_ns, width_ns) = best?;
    let wrong = share(wrong, all.count());
    if wrong > WRONG {
        return None;
    }
    let base = view.base_rtt_ns()?;
    let waited = at_ns.checked_sub(base)?;
    let segment = view.mss();
    let payload_bps = data.ack_rate_bps.quantile(RATE_QUANTILE)? as f64;
    let wire_bps = payload_bps * (segment + HEADER_BYTES) as f64 / segment as f64;
    let bytes = |ns: u64| wire_bps / 8.0 * ns as f64 / 1e9;
    let pkts = |ns: u64| bytes(ns) / (segment + HEADER_BYTES) as f64;
    let summary = format!(
        "Marks begin at an RTT of {}, {} above the smallest one: at the {} that ACKs show, K is about {:.0} packets or {:.0} kB, +- {:.0} \
         packets ({} of {} RTTs are on the wrong side).",
        time(at_ns),
        time(waited),
        rate(wire_bps),
        pkts(waited),
        bytes(waited) / 1000.0,
        pkts(width_ns).max(1.0),
        per_cent(wrong),
        all.count(),
    );
    let rounds = data.rounds.iter().filter(|round| round.ece_acks > 0).take(super::SHOWN);
    let evidence = rounds.map(|round| {
        let said = format!("a round trip with {} ACKs with ECE", round.ece_acks);
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&THRESHOLD, summary, evidence.collect(), 1.0 - wrong / WRONG / 2.0))
}

//! The marking threshold, told from the RTTs of marked and of unmarked data.

use super::{HEADER_BYTES, Kind, RATE_QUANTILE, View, per_cent, rate, share, time};
use crate::histogram::Histogram;
use crate::model::{EventKind, Finding, ReceiverKind, Severity};

pub(super) const THRESHOLD: Kind = Kind {
    name: "marking-threshold",
    usually_means: "The bottleneck marks packets that find this backlog: K, as far as a sender can see it.",
    try_this: "Compare it with the switch's setting, and with C * RTT / 7, below which DCTCP loses throughput.",
    severity: Severity::Note,
};

/// RTTs of each sort that are needed to see where they part.
const RTTS: usize = 50;
/// More on the wrong side of the best threshold than this: marks do not follow the queue that this RTT shows (random marking,
/// several bottlenecks, other traffic behind it).
const WRONG: f64 = 0.06;
/// Times that ECE begins or ends, or one rise of a queue is all that is seen: it says where marks began once.
const CHANGES: usize = 6;
/// Additional share of wrong RTTs at which a border counts as good as the best one: the effect of a few late ACKs.
const AS_GOOD: f64 = 0.01;
/// Largest uncertainty of K, as a share: if RTTs jump from an empty queue to a full one, the begin of marking is invisible.
const UNSURE: f64 = 0.25;
/// RTTs differ by a packet or two by the ACK that two segments have together, and marks that change call for one at once: less than
/// this, packets, may be no queue at all.
const LEAST_K: f64 = 3.0;
/// Data that left a link back to back has ACKs at its rate, which so is the highest. Where ACKs wait for each other some are faster than
/// others by more than this, which is beyond what clocks and buckets round.
const TOP_QUANTILE: f64 = 0.99;
const COMPRESSED: f64 = 1.1;
/// A SYN is sooner than a segment by the time that this takes on the host's link, the bottleneck and one more, packets.
const SYN_SOONER: f64 = 3.0;
/// Rates are known to a bucket's width.
const RATE_STEP: f64 = 1.0 / 32.0;

/// Where marked RTTs begin.
struct Border {
    /// Range of borders about as good as the best one, ns.
    low_ns: u64,
    high_ns: u64,
    /// On the wrong side of the best one: of the unmarked RTTs those above it, of the marked ones the others, as shares.
    wrong: [f64; 2],
}

/// Each sort counts as much as the other, however few marks there are.
fn mean(wrong: [f64; 2]) -> f64 {
    f64::midpoint(wrong[0], wrong[1])
}

/// The RTT with the fewest marked RTTs up to it and unmarked ones above, and those about as good beside it.
fn border(unmarked: &[u64], marked: &[u64]) -> Option<Border> {
    let of = |rtts: &[u64], is_marked| -> Vec<(u64, bool)> {
        rtts.iter().map(|rtt| (*rtt, is_marked)).collect()
    };
    let mut all = [of(unmarked, false), of(marked, true)].concat();
    all.sort_unstable();
    let weigh = |of: &[u64]| 1.0 / of.len().max(1) as f64;
    let weights = [weigh(unmarked), weigh(marked)];
    // Which shares are wrong if the border is just above each RTT: no border parts equal ones.
    let mut passed = [0_u32; 2];
    let equal = all.chunk_by(|x, y| x.0 == y.0).map(|equal| {
        equal.iter().for_each(|(_, is_marked)| passed[usize::from(*is_marked)] += 1);
        let below = [0, 1].map(|sort: usize| f64::from(passed[sort]) * weights[sort]);
        (equal[0].0, [1.0 - below[0], below[1]])
    });
    let equal: Vec<(u64, [f64; 2])> = equal.collect();
    let by_mean = |x: &&(u64, [f64; 2]), y: &&(u64, [f64; 2])| mean(x.1).total_cmp(&mean(y.1));
    let least = equal.iter().min_by(by_mean)?;
    let best = equal.iter().position(|other| other.0 == least.0)?;
    let is_worse = |other: &(u64, [f64; 2])| mean(other.1) > mean(least.1) + AS_GOOD;
    let low = equal[..best].iter().rposition(is_worse).map_or(0, |at| at + 1);
    let high = equal[best..].iter().position(is_worse);
    let high = high.map_or(equal.len() - 1, |behind| best + behind);
    let wrong = least.1.map(|share| share.max(0.0));
    Some(Border { low_ns: equal[low].0, high_ns: equal[high].0, wrong })
}

/// The share of the unmarked RTTs that is above one, by buckets: of all, while those that are compared begin at the first mark.
fn unmarked_above(view: &View<'_>, rtt_ns: u64) -> f64 {
    let unmarked = |of: &dyn Fn(&Histogram) -> u64| {
        of(&view.data.rtt).saturating_sub(of(&view.data.rtt_marked))
    };
    let above = |rtts: &Histogram| {
        let above = rtts.buckets().filter(|bucket| bucket.from > rtt_ns);
        above.map(|bucket| bucket.count).sum()
    };
    share(unmarked(&above), unmarked(&Histogram::count))
}

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
    // Of those that are compared; there are others, from before the first mark.
    let [unmarked, marked] = &data.exact_rtts;
    if marked.len() < RTTS || unmarked.len() < RTTS {
        return None;
    }
    let changes = view.events(EventKind::EceBegins).chain(view.events(EventKind::EceEnds));
    if changes.count() < CHANGES {
        return None;
    }
    let border = border(unmarked, marked)?;
    let wrong = [border.wrong[0].max(unmarked_above(view, border.high_ns)), border.wrong[1]];
    if mean(wrong) > WRONG {
        return None;
    }
    // Of data: a SYN is shorter than a segment, and sooner over each link.
    let base = data.rtt.min()?;
    let segment = view.mss();
    let payload_bps = data.ack_rate_bps.quantile(RATE_QUANTILE)? as f64;
    // ACKs that wait for each other in flight tell of no link: of more than the sender's own, or of nothing that they agree on.
    let top_bps = data.ack_rate_bps.quantile(TOP_QUANTILE)? as f64;
    let is_beyond = data.link_rate_bps.is_some_and(|link_bps| payload_bps > COMPRESSED * link_bps);
    if is_beyond || top_bps > COMPRESSED * payload_bps {
        return None;
    }
    let wire_bps = payload_bps * (segment + HEADER_BYTES) as f64 / segment as f64;
    let bytes = |ns: u64| wire_bps / 8.0 * ns as f64 / 1e9;
    let pkts = |ns: u64| bytes(ns) / (segment + HEADER_BYTES) as f64;
    let at_ns = border.low_ns.midpoint(border.high_ns);
    let waited = at_ns.checked_sub(base)?;
    // A flow that never found the queue empty has no RTT to count from, which the handshake's shows.
    let unseen = view.base_rtt_ns().map_or(0, |least| base.saturating_sub(least));
    if pkts(unseen) > SYN_SOONER + UNSURE * pkts(waited) {
        return None;
    }
    let unsure = (pkts(border.high_ns - border.low_ns) / 2.0).max(RATE_STEP * pkts(waited));
    if pkts(waited) < LEAST_K || unsure > (UNSURE * pkts(waited)).max(1.0) {
        return None;
    }
    let summary = format!(
        "Marks begin at an RTT of {}, {} above the smallest: at {} (by ACKs), K is about {:.0} packets or {:.0} kB, +- {:.0} \
         packets ({} of the marked and {} of the unmarked RTTs are on the wrong side).",
        time(at_ns),
        time(waited),
        rate(wire_bps),
        pkts(waited),
        bytes(waited) / 1000.0,
        unsure.ceil().max(1.0),
        per_cent(wrong[1]),
        per_cent(wrong[0]),
    );
    let rounds = data.rounds.iter().filter(|round| round.ece_acks > 0).take(super::SHOWN);
    let evidence = rounds.map(|round| {
        let said = format!("a round trip with {} ACKs with ECE", round.ece_acks);
        view.evidence(round.first_number, said)
    });
    Some(view.finding(&THRESHOLD, summary, evidence.collect(), 1.0 - mean(wrong) / WRONG / 2.0))
}

//! Packets that overtake each other for as long as a flow lasts.

use super::{Kind, SHOWN, View, per_cent, severity, share, time};
use crate::model::{EventKind, Finding, Severity};

pub(super) const REORDERED: Kind = Kind {
    name: "reordering",
    usually_means: "The packets of the flow take paths of different lengths: spraying by packet, a bond in round robin, several receive \
                    queues, or a link that repeats frames. Nothing was lost where a gap closes by itself.",
    try_this: "Hash by flow (bond mode, ECMP), keep RACK, SACK and timestamps on, and check tcp_reordering. Senders that take three \
               duplicate ACKs for a loss slow down for nothing.",
    severity: Severity::Note,
};

/// As [`REORDERED`], where the receiver answered too few of the late segments with duplicate ACKs, or the capture misses packets.
const BY_CAPTURE: Kind = Kind {
    usually_means: "The capture may have the packets of several queues, interfaces or clocks in another order than they passed, or miss some, \
                    retransmissions among them. Late segments of which the receiver sends no duplicate ACKs were in order for it, unless it \
                    merges packets (GRO).",
    try_this: "Capture at the receiver, or with one queue (ethtool -L ... combined 1), and look again. If they are late there, too, hash \
               by flow (bond mode, ECMP).",
    severity: Severity::Note,
    ..REORDERED
};

/// Late segments for each duplicate ACK that the receiver would have sent for most of them.
const ANSWERED: u64 = 2;
/// Fewer late segments may be one change of the path.
const LATE: u64 = 20;
/// And a smaller share does not matter.
const SHARE: f64 = 0.005;

/// Gaps that close by themselves: at the point, or behind it by the receiver's SACKs.
pub(super) fn reordered(view: &View<'_>) -> Option<Finding> {
    let data = view.data;
    // Nothing is behind the receiver's device.
    let behind = if view.is_receivers_device { 0 } else { data.reordered_behind };
    let late = data.out_of_order + behind;
    let of_all = share(late, data.segments);
    if late < LATE || of_all < SHARE {
        return None;
    }
    let behind_ns = if behind > 0 { data.reordered_behind_longest_ns } else { 0 };
    let longest_ns = data.out_of_order_longest_ns.max(behind_ns);
    let again = &data.retransmitted;
    let summary = format!(
        "{late} segments, {} of all, came after later ones and were not lost: by at most {}, with {} duplicate ACKs and {} needless \
         retransmissions.",
        per_cent(of_all),
        time(longest_ns),
        data.duplicate_acks,
        again.spurious,
    );
    let kinds = [EventKind::OutOfOrder, EventKind::ReorderedBehind];
    let events = data.events.iter().filter(|event| kinds.contains(&event.kind)).take(SHOWN);
    let evidence = events.map(|event| match event.kind {
        EventKind::OutOfOrder => {
            view.evidence(event.number, format!("came {} after a later one", time(event.lasted_ns)))
        }
        _ => view.evidence(
            event.number,
            format!(
                "the ACK that closes a gap after {} without a retransmission",
                time(event.lasted_ns)
            ),
        ),
    });
    let is_unanswered = view.back.packets > 0 && data.out_of_order > ANSWERED * data.duplicate_acks;
    // A gap that a retransmission closed which is not in the capture seems to close by itself.
    let missed = data.bytes_not_captured / view.mss().max(1);
    let is_incomplete = behind > data.out_of_order && missed.saturating_mul(ANSWERED) > behind;
    // And a host's own packets are in order before its device.
    let is_own = view.is_near_sender && data.out_of_order > behind;
    let is_by_capture = is_unanswered || is_incomplete || is_own;
    let (kind, confidence) = if is_by_capture {
        (BY_CAPTURE, 0.5)
    } else {
        (Kind { severity: severity(share(again.spurious, data.segments)), ..REORDERED }, 0.9)
    };
    Some(view.finding(&kind, summary, evidence.collect(), confidence))
}

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

/// Fewer late segments may be one change of the path.
const LATE: u64 = 20;
/// And a smaller share does not matter.
const SHARE: f64 = 0.005;

/// Gaps that close by themselves: at the point, or behind it by the receiver's SACKs.
pub(super) fn reordered(view: &View<'_>) -> Option<Finding> {
    let data = view.data;
    let late = data.out_of_order + data.reordered_behind;
    let of_all = share(late, data.segments);
    if late < LATE || of_all < SHARE {
        return None;
    }
    let longest_ns = data.out_of_order_longest_ns.max(data.reordered_behind_longest_ns);
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
    let severity = severity(share(again.spurious, data.segments));
    Some(view.finding(&Kind { severity, ..REORDERED }, summary, evidence.collect(), 0.9))
}

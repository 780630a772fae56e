//! Retransmissions by timers of data that had arrived: its ACK was late, or none came at all.

use std::collections::BTreeMap;

use super::{Kind, SHOWN, View, median, severity, share, silence, sum, time};
use crate::model::{Event, EventKind, Finding, Severity};

pub(super) const SPURIOUS: Kind = Kind {
    name: "spurious-timeout",
    usually_means: "The path's delay rose at once by more than the timer allows: a link that holds or repeats frames (radio, a \
                    flap, a handover), a paused host, or a buffer that filled within a round trip. No data was lost. ACKs that had passed \
                    the capture may have been lost behind it.",
    try_this: "Keep timestamps, SACK and F-RTO on (net.ipv4.tcp_frto=2): they undo such a timeout. Do not lower the minimum RTO. \
               Find what held the packets; bound a deep buffer by an AQM.",
    severity: Severity::Costs,
};

/// What is known of a segment that a timer retransmitted and that had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Its own ACK came, so long after it was sent, ns; 0 where the ACK had passed the point before, so that it was late behind the point,
    /// or lost there.
    AckedLate(u64),
    /// No ACK of it came before that of the retransmission, and how that is known.
    NotAcked(&'static str),
}

/// Segments that timers retransmitted although they had arrived, of all views together: connection, whether `a` sent them, first byte.
pub(super) struct Known(BTreeMap<(u32, bool, u64), Arrival>);

impl Known {
    pub(super) fn new(views: &[View<'_>]) -> Known {
        let mut known = BTreeMap::new();
        for view in views {
            for event in timers(view) {
                let Some(arrival) = arrival(view, event) else { continue };
                let key = (view.flow.connection, view.is_of_a(), event.seq);
                let best = known.entry(key).or_insert(arrival);
                // An ACK that was seen says more than none.
                if matches!((&best, arrival), (Arrival::NotAcked(_), Arrival::AckedLate(_))) {
                    *best = arrival;
                }
            }
        }
        Known(known)
    }

    pub(super) fn of(&self, view: &View<'_>, event: &Event) -> Option<Arrival> {
        self.0.get(&(view.flow.connection, view.is_of_a(), event.seq)).copied()
    }

    /// Whether the ACK of what a timer retransmitted was late.
    pub(super) fn is_late(&self, view: &View<'_>, event: &Event) -> bool {
        matches!(self.of(view, event), Some(Arrival::AckedLate(_)))
    }
}

/// Retransmissions by timers.
pub(super) fn timers<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Event> {
    let by_timer = |event: &&Event| matches!(event.kind, EventKind::Rto | EventKind::TailLossProbe);
    view.data.events.iter().filter(by_timer)
}

/// How it is known that a segment that a timer retransmitted had arrived the first time, if it is.
fn arrival(view: &View<'_>, event: &Event) -> Option<Arrival> {
    let mut proofs = view.events(EventKind::Spurious);
    if let Some(proof) = proofs.find(|proof| proof.earlier == Some(event.number)) {
        // Where its own number is the proof's, the ACK had come before it.
        let has_passed = proof.number == event.number;
        return Some(match (has_passed, proof.lasted_ns) {
            (true, _) => Arrival::AckedLate(0),
            (false, 0) => Arrival::NotAcked("and the receiver reports a duplicate (DSACK)"),
            (false, lasted_ns) => Arrival::AckedLate(lasted_ns),
        });
    }
    // A receiver with SACK would have said so, and one without it mostly says again what it said before: else the packet was lost
    // behind the point, unless that is the receiver's own device.
    let cannot_say = view.flow.handshake.has_sack == Some(false);
    // While one segment alone is in flight, only its arrival makes the receiver repeat an ACK: else those behind it may have done so.
    let is_alone = event.inflight_bytes <= view.mss();
    let was_answered = (is_alone && event.duplicate_acks > 0) || view.is_receivers_device;
    if view.is_near_receiver && event.earlier.is_some() && cannot_say && was_answered {
        return Some(Arrival::NotAcked("which arrived here and was not acknowledged"));
    }
    // With SACKs one segment may be missing and others beyond it cause that.
    let repeats = is_alone && event.duplicate_acks > 0;
    (repeats && view.flow.handshake.has_sack == Some(false)).then_some(Arrival::NotAcked(
        "after an ACK that its arrival caused but that does not cover it",
    ))
}

/// Timers that fired although nothing was lost, since the ACKs were late.
pub(super) fn spurious(views: &[View<'_>], known: &Known) -> Vec<Finding> {
    let mut found = Vec::new();
    for view in views {
        // Where one timeout follows another, the ACKs that had passed here were lost behind it.
        let backed_off = silence::backed_off(view);
        let of_view: Vec<(&Event, u64)> = timers(view)
            .filter(|event| !backed_off.contains(&event.seq))
            .filter_map(|event| match known.of(view, event)? {
                Arrival::AckedLate(ns) => Some((event, ns)),
                Arrival::NotAcked(_) => None,
            })
            .collect();
        let timeouts = of_view.iter().filter(|(event, _)| event.kind == EventKind::Rto).count();
        // A probe alone costs a packet, and is there to come a little early.
        if timeouts == 0 {
            continue;
        }
        let passed = of_view.iter().filter(|(_, ns)| *ns == 0).count();
        let late_ns = median(of_view.iter().map(|(_, ns)| *ns).filter(|ns| *ns > 0));
        let came = late_ns.map_or_else(String::new, |ns| {
            let base = view.base_rtt_ns().map_or_else(String::new, |base| {
                format!(" on a path whose smallest RTT is {}", time(base))
            });
            format!("came after {} in the median{base}", time(ns))
        });
        // What passed here says nothing of the way on.
        let whose = match (passed, of_view.len() - passed) {
            (0, _) => {
                format!("whose ACK was late, not lost: the ACKs were of the originals and {came}")
            }
            (_, 0) => {
                "whose ACK was late or lost behind this point: it had passed here before".to_owned()
            }
            (passed, late) => format!(
                "whose ACK was late, or lost behind this point: {late} of the ACKs {came}, and {passed} had passed here before"
            ),
        };
        let waited = sum(of_view.iter().map(|(event, _)| event.lasted_ns));
        let at_least = view.at_least(&[EventKind::Rto, EventKind::TailLossProbe]);
        let summary = format!(
            "{at_least}{timeouts} timeouts and {} probes retransmitted data that had arrived, and {whose}.",
            of_view.len() - timeouts,
        );
        let evidence = of_view.iter().take(SHOWN).map(|(event, ns)| {
            let original = event.earlier.map_or_else(String::new, |earlier| format!(" {earlier}"));
            let acked = match ns {
                0 => "whose ACK had passed here".to_owned(),
                ns => format!("whose own ACK came {} after it", time(*ns)),
            };
            view.evidence(event.number, format!("retransmits{original}, {acked}"))
        });
        let severity = severity(share(waited, view.lasted_ns()));
        let kind = Kind { severity, ..SPURIOUS };
        found.push(view.finding(&kind, summary, evidence.collect(), 0.9));
    }
    found
}

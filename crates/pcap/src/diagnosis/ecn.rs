//! ECN that both ends negotiated and that does not work.

use std::collections::BTreeMap;

use super::{Kind, SHOWN, View, per_cent, share, time};
use crate::model::{
    Analysis, EcnAgreed, EventKind, Evidence, Family, Finding, ReceiverKind, Severity,
};

pub(super) const ENDLESS: Kind = Kind {
    name: "endless-ece",
    usually_means: "The receiver latches ECE until CWR (RFC 3168), but the sender, a DCTCP, never sends CWR.",
    try_this: "Run DCTCP at both ends, or a one-sided sender that sends CWR (dctcp_snd with peer=auto).",
    severity: Severity::Severe,
};

pub(super) const OVERSTATED: Kind = Kind {
    name: "ece-overstates-marks",
    usually_means: "The receiver latches ECE until CWR (RFC 3168), but the sender takes the share of ECE for the share of marks \
                    (one-sided DCTCP). What the sender runs is a guess: another one that cuts little may look the same.",
    try_this: "Run DCTCP at both ends, or a sender that corrects for a latching receiver (dctcp_snd with peer=auto).",
    severity: Severity::Costs,
};

pub(super) const UNMARKED: Kind = Kind {
    name: "ecn-never-marked",
    usually_means: "The queue drops and does not mark: ECN is off in that switch or class, or the DSCP selects a queue without ECN. It \
                    may also be that no queue lost them: a bad link or a policer.",
    try_this: "Set the marking threshold at the port that drops, and check that the packets' DSCP selects the queue that marks.",
    severity: Severity::Costs,
};

pub(super) const BLEACHED: Kind = Kind {
    name: "ecn-bleached",
    usually_means: "A device on the path clears the ECN field (a tunnel, a firewall, an old router that rewrites the TOS byte).",
    try_this: "Capture at hops on the path to find the device that clears ECT; configure it to copy the field (RFC 6040 for \
               tunnels) or to rewrite the DSCP only.",
    severity: Severity::Costs,
};

/// Fewer segments do not tell what is usual: ten initial windows.
const USUAL_SEGMENTS: u64 = 100;
/// One or two losses may be chance; a queue that overflows loses more.
const LOSSES: u64 = 3;
/// Least share of data without ECT on a connection with ECN: a device clears ECT on all packets or none.
const WITHOUT: f64 = 0.9;
/// Runs of ECE that ended with a CWR: one or two may do so by chance where every mark is echoed by itself.
const RUNS: u64 = 3;
/// ACKs with ECE of nothing marked, of all with ECE: a delayed ACK and a change of state may make a few of ten.
const FALSE_ECE: f64 = 0.5;

fn is_agreed(view: &View<'_>) -> bool {
    matches!(view.flow.handshake.ecn, EcnAgreed::Classic | EcnAgreed::Accurate)
}

/// ECE for round trips on end, and no CWR.
pub(super) fn endless(view: &View<'_>) -> Option<Finding> {
    let receiver = &view.data.receiver;
    if receiver.held_without_cwr == 0 || view.data.ecn.cwr > 0 {
        return None;
    }
    // ECE that is latched ends with a CWR and not before; what stops without one echoes marks.
    let is_latched = receiver.ended_without_cwr == 0;
    if !is_latched || matches!(receiver.kind, ReceiverKind::Dctcp | ReceiverKind::Accurate) {
        return None;
    }
    // A DCTCP receiver whose every packet is marked says ECE all the time, too; here marks are seen, or not all is ECE.
    if receiver.ece_as_marked > 0 && receiver.ece_of_unmarked == 0 {
        return None;
    }
    let ecn = &view.data.ecn;
    let summary = format!(
        "ECE lasts for {} ACKs ({}) and never stops: {} of {} ACKs carry it, and no packet of the sender carries CWR.",
        receiver.longest_run_acks,
        time(receiver.longest_run_ns),
        ecn.ece,
        view.data.acks,
    );
    let begins = view.events(EventKind::EceBegins).take(SHOWN);
    let evidence = begins
        .map(|event| view.evidence(event.number, "the first ACK of a run with ECE".to_owned()));
    Some(view.finding(&ENDLESS, summary, evidence.collect(), 0.9))
}

/// A sender that cuts by marks before a receiver that latches.
pub(super) fn overstated(view: &View<'_>) -> Option<Finding> {
    let (receiver, ecn) = (&view.data.receiver, &view.data.ecn);
    let is_latched = receiver.ended_without_cwr == 0 && receiver.ended_by_cwr >= RUNS;
    if receiver.kind != ReceiverKind::Classic || !is_latched {
        return None;
    }
    let sees_marks = view.is_near_receiver && ecn.ce > 0;
    let false_share = share(receiver.ece_of_unmarked, ecn.ece);
    let is_dctcp = view.data.family.family == Family::Dctcp;
    // A sender that halves once per window does not count ECE, and then nothing is overstated.
    if !is_dctcp || (sees_marks && false_share < FALSE_ECE) {
        return None;
    }
    let by_ece = share(ecn.ece_bytes, ecn.acked_bytes);
    let marks = if sees_marks {
        let all = ecn.ce + ecn.ect0 + ecn.ect1;
        format!(", {} of the data is marked", per_cent(share(ecn.ce, all)))
    } else {
        String::new()
    };
    let summary = format!(
        "The receiver latches ECE until CWR ({} runs end with it), but the sender cuts by the share of ECE: ACKs with ECE \
         acknowledge {} of the data{marks}.",
        receiver.ended_by_cwr,
        per_cent(by_ece),
    );
    let ends = view.events(EventKind::EceEnds).take(SHOWN);
    let evidence = ends.map(|event| {
        view.evidence(event.number, format!("ECE ends after {}", time(event.lasted_ns)))
    });
    Some(view.finding(&OVERSTATED, summary, evidence.collect(), 0.7))
}

/// ECT data that is never marked and lost instead.
pub(super) fn unmarked(view: &View<'_>) -> Option<Finding> {
    let ecn = &view.data.ecn;
    let ect = ecn.ect0 + ecn.ect1;
    if !is_agreed(view) || ect < USUAL_SEGMENTS || ecn.ce + ecn.ece + ecn.ace > 0 {
        return None;
    }
    let losses = view.losses();
    if losses < LOSSES {
        return None;
    }
    let summary =
        format!("{ect} segments were ECN-capable, no ACK reported a mark, and {losses} were lost.");
    let lost = [EventKind::FastRetransmission, EventKind::Rto, EventKind::TailLossProbe];
    let events = view.data.events.iter().filter(|event| lost.contains(&event.kind)).take(SHOWN);
    let evidence = events.map(|event| {
        view.evidence(event.number, "retransmitted, without an earlier mark".to_owned())
    });
    Some(view.finding(&UNMARKED, summary, evidence.collect(), 0.8))
}

/// Data without ECT where it arrives, although ECN was agreed on.
pub(super) fn bleached(view: &View<'_>) -> Option<Finding> {
    let ecn = &view.data.ecn;
    // What is retransmitted is not ECN-capable in classic ECN.
    let not_ect = ecn.not_ect.saturating_sub(view.data.retransmitted.segments);
    let all = not_ect + ecn.ect0 + ecn.ect1 + ecn.ce;
    if !is_agreed(view)
        || !view.is_near_receiver
        || all < USUAL_SEGMENTS
        || share(not_ect, all) < WITHOUT
    {
        return None;
    }
    let summary = format!(
        "The handshake agreed on ECN, but {} of {all} segments arrive without ECT.",
        per_cent(share(not_ect, all))
    );
    let rounds = view.data.rounds.iter().filter(|round| round.ect_segments == 0).take(SHOWN);
    let evidence = rounds.map(|round| {
        view.evidence(round.first_number, format!("one of {} segments without ECT", round.segments))
    });
    Some(view.finding(&BLEACHED, summary, evidence.collect(), 0.8))
}

/// Data that is ECT at one point of its path and not at another.
pub(super) fn bleached_between(analysis: &Analysis) -> Option<Finding> {
    let mut connections: BTreeMap<u32, Vec<[View<'_>; 2]>> = BTreeMap::new();
    for flow in &analysis.flows {
        connections.entry(flow.connection).or_default().push(View::both(flow));
    }
    let mut flows = Vec::new();
    let mut evidence: Vec<Evidence> = Vec::new();
    for views in connections.values().filter(|views| views.len() > 1) {
        for direction in 0..2 {
            let capable = |view: &View<'_>| {
                let ecn = &view.data.ecn;
                let ect = ecn.ect0 + ecn.ect1 + ecn.ce;
                share(ect, ect + ecn.not_ect)
            };
            let enough = |view: &&View<'_>| view.data.segments >= USUAL_SEGMENTS;
            let at = || views.iter().map(|both| &both[direction]).filter(enough);
            let with = at().find(|view| capable(view) >= WITHOUT);
            let without = at().find(|view| capable(view) <= 1.0 - WITHOUT);
            let (Some(with), Some(without)) = (with, without) else { continue };
            flows.extend([with.flow.id, without.flow.id]);
            let first = |view: &View<'_>| view.data.rounds.first().map(|round| round.first_number);
            for (view, says) in [(with, "ECN-capable here"), (without, "not ECN-capable here")] {
                let number = first(view).unwrap_or(view.flow.first_number);
                evidence.push(view.evidence(number, says.to_owned()));
            }
        }
    }
    if flows.is_empty() {
        return None;
    }
    let connections = flows.len() / 2;
    let summary = format!(
        "The data of {connections} connections is ECN-capable at one point of its path and not at another."
    );
    Some(BLEACHED.finding(flows, summary, evidence, 1.0))
}

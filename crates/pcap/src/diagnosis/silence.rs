//! An end that does not answer, and an end whose packets were not captured.

use std::collections::BTreeSet;

use super::{Kind, SHOWN, View, severity, share, time, times};
use crate::model::{Event, EventKind, Finding, Severity};

pub(super) const UNREACHABLE: Kind = Kind {
    name: "peer-unreachable",
    usually_means: "The other host or the path to it was gone: a link or a route failed, a firewall dropped the state, or the host \
                    stopped. It may also be a queue or a policer that drops all that this flow sends. The timer doubles with each \
                    retransmission (exponential backoff).",
    try_this: "Look for link and route changes at that time, and for firewalls that forget idle connections. \
               net.ipv4.tcp_retries2 and TCP_USER_TIMEOUT bound how long a sender tries.",
    severity: Severity::Severe,
};

/// As [`UNREACHABLE`], where nothing as large was ever acknowledged.
const OR_BLACK_HOLE: Kind = Kind {
    usually_means: "The other host or the path to it was gone: a link or a route failed, a firewall dropped the state, or the host \
                    stopped. It may also be a path that drops packets of this size (PMTU black hole): no segment as large was \
                    acknowledged.",
    try_this: "Send packets of that size with ping (-M do -s 1400, -s 1200). If small ones alone are answered, see mtu-black-hole; if \
               none are, look for link and route changes, and for firewalls.",
    ..UNREACHABLE
};

pub(super) const BLACK_HOLE: Kind = Kind {
    name: "mtu-black-hole",
    usually_means: "A link or a tunnel on the path has a smaller MTU, and what says so does not come back (ICMP is filtered): PMTU \
                    discovery fails. It may also be a firewall that drops this data, or loss of a few packets in a row.",
    try_this: "Find the MTU with ping -M do -s SIZE. Clamp the MSS at the tunnel (TCPMSS --clamp-mss-to-pmtu), let ICMP 'too big' \
               through, or set net.ipv4.tcp_mtu_probing=1.",
    severity: Severity::Severe,
};

pub(super) const ONE_SIDED: Kind = Kind {
    name: "one-sided-capture",
    usually_means: "The capture filter, the mirror or the route takes one direction only (asymmetric routing, a mirror of received \
                    packets).",
    try_this: "Capture both directions at one place. RTTs, retransmissions and what is in flight cannot be told from one alone.",
    severity: Severity::Note,
};

/// Retransmissions of the same data by timers, each after a longer silence: two in a row may be a bad tail.
const BACKOFFS: usize = 3;
/// Each silence is this much longer than the one before it; twice as long is exact, and clocks are coarse.
const LONGER: f64 = 1.5;
/// SYNs without an answer.
const SYNS: u32 = 2;
/// Payload of a packet that every path of IPv6 carries: 1280 bytes (RFC 8200, section 5) less 40 of IP, 20 of TCP and 12 of timestamps.
const EVERY_PATH_BYTES: u64 = 1208;
/// Fewer packets of one end may be a scan, or a connection at the capture's edge.
const PACKETS: u64 = 8;

/// Timeouts in a row for the same data.
fn backoffs<'a>(view: &View<'a>) -> Vec<Vec<&'a Event>> {
    let timeouts: Vec<&Event> = view.events(EventKind::Rto).collect();
    let is_next = |x: &&Event, y: &&Event| {
        x.seq == y.seq && y.lasted_ns as f64 >= LONGER * x.lasted_ns as f64
    };
    let runs = timeouts.chunk_by(is_next).filter(|run| run.len() >= BACKOFFS);
    runs.map(<[&Event]>::to_vec).collect()
}

/// First bytes of what was sent again in such a row; a probe for the same data begins it.
pub(super) fn backed_off(view: &View<'_>) -> BTreeSet<u64> {
    backoffs(view).iter().flatten().map(|event| event.seq).collect()
}

/// Data or a SYN that was sent again and again without an answer.
pub(super) fn unreachable(view: &View<'_>) -> Option<Finding> {
    let runs = backoffs(view);
    let Some(longest) = runs.iter().max_by_key(|run| run.len()) else {
        return unanswered_syn(view);
    };
    let (first, last) = (longest.first()?, longest.last()?);
    let begin_ns = first.at_ns.saturating_sub(first.lasted_ns);
    let gone_ns = last.at_ns.saturating_sub(begin_ns);
    let is_heard = view.back.last_packet_ns.is_some_and(|heard_ns| heard_ns > last.at_ns);
    // No smaller one says that the path carries as much.
    let (bytes, largest) = (first.bytes.min(view.mss()), view.data.largest_acked_bytes);
    let is_too_large = bytes > EVERY_PATH_BYTES && bytes > u64::from(largest);
    // Since the first silence the other end has sent something, so that it is there.
    let is_alive = view.back.last_packet_ns.is_some_and(|heard_ns| heard_ns > first.at_ns);
    if is_too_large && is_alive {
        return Some(black_hole(view, longest, [bytes, largest.into()]));
    }
    let ends = if is_heard { "then it answered again" } else { "and the capture has no answer" };
    let more = match runs.len() {
        1 => String::new(),
        several => format!(" This happened {}.", times(several)),
    };
    let summary = format!(
        "{} did not answer for {}: the same data was retransmitted {} times, each time after a longer silence, {ends}.{more}",
        view.ends().1,
        time(gone_ns),
        longest.len(),
    );
    let evidence = longest.iter().take(SHOWN).map(|event| {
        view.evidence(event.number, format!("retransmitted after {}", time(event.lasted_ns)))
    });
    let kind = match is_heard {
        true => Kind { severity: severity(share(gone_ns, view.lasted_ns())), ..UNREACHABLE },
        false if is_too_large => OR_BLACK_HOLE,
        false => UNREACHABLE,
    };
    Some(view.finding(&kind, summary, evidence.collect(), 0.9))
}

/// Segments of a size that never arrive, while smaller ones do.
fn black_hole(view: &View<'_>, run: &[&Event], [bytes, largest]: [u64; 2]) -> Finding {
    let smaller = match largest {
        0 => "no data was acknowledged".to_owned(),
        bytes => format!("the largest acknowledged segment has {bytes} bytes"),
    };
    let summary = format!(
        "A segment of {bytes} bytes was retransmitted {} times, each time after a longer silence, while {} was there: {smaller}.",
        run.len(),
        view.ends().1,
    );
    let evidence = run.iter().take(SHOWN).map(|event| {
        view.evidence(event.number, format!("retransmitted after {}", time(event.lasted_ns)))
    });
    view.finding(&BLACK_HOLE, summary, evidence.collect(), 0.8)
}

fn unanswered_syn(view: &View<'_>) -> Option<Finding> {
    let handshake = &view.flow.handshake;
    let syn = handshake.syn.filter(|_| view.is_of_a() && handshake.syn_ack.is_none())?;
    if handshake.repeats < SYNS || view.back.packets > 0 {
        return None;
    }
    let summary = format!(
        "{} did not answer: {} SYNs within {} have no answer in the capture.",
        view.ends().1,
        handshake.repeats + 1,
        time(view.lasted_ns()),
    );
    let evidence = vec![view.evidence(syn, "a SYN without an answer".to_owned())];
    Some(view.finding(&UNREACHABLE, summary, evidence, 0.9))
}

/// Packets of one end alone.
pub(super) fn one_sided(view: &View<'_>) -> Option<Finding> {
    let (sent, heard) = (view.data.packets, view.back.packets);
    if heard > 0 || sent < PACKETS || unreachable(view).is_some() {
        return None;
    }
    let (from, to) = view.ends();
    let what = match view.data.data_packets {
        0 => "ACKs, without the data that they acknowledge",
        _ => "its data, without the ACKs of it",
    };
    let summary = format!(
        "Of the packets between {from} and {to} only those of {from} are captured: {sent}, {what}."
    );
    let first =
        view.evidence(view.flow.first_number, format!("the first of {sent} packets of {from}"));
    Some(view.finding(&ONE_SIDED, summary, vec![first], 0.95))
}

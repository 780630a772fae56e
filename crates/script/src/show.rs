//! Segments in the notation of scripts.

use crate::parse::FLAGS;
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_wire::Segment;
use std::fmt::Write as _;

/// Flags as tcpdump writes them, in brackets.
pub(crate) fn flags(bits: u16) -> String {
    let letters = FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| letter);
    format!("[{}]", letters.collect::<String>())
}

/// The ECN field as scripts name it.
pub(crate) fn ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not_ect",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::Ce => "ce",
    }
}

/// First and next byte, or only the first where there is no payload.
pub(crate) fn range(seq: u32, len: u32) -> String {
    if len == 0 { seq.to_string() } else { format!("{seq}:{}", u64::from(seq) + u64::from(len)) }
}

/// Ranges in the order given.
pub(crate) fn sacks(ranges: &[(u32, u32)]) -> String {
    if ranges.is_empty() {
        return "none".to_owned();
    }
    ranges.iter().map(|(start, end)| format!("{start}:{end}")).collect::<Vec<_>>().join(" ")
}

/// The whole segment, as a script would write it.
pub(crate) fn segment(segment: &Segment) -> String {
    let mut text = format!("{} seq {}", flags(segment.flags), range(segment.seq, segment.len));
    if segment.has(Segment::ACK) {
        let _ = write!(text, ", ack {}", segment.ack);
    }
    let _ = write!(text, ", win {}, {}", segment.window_bytes, ecn(segment.ecn));
    if !segment.sacks.is_empty() {
        let _ = write!(text, ", sack {}", sacks(&segment.sacks));
    }
    if segment.has(Segment::SYN) {
        if let Some(mss) = segment.mss {
            let _ = write!(text, ", mss {mss}");
        }
        match segment.window_scale {
            Some(scale) => {
                let _ = write!(text, ", wscale {scale}");
            }
            None => text.push_str(", no_wscale"),
        }
        text.push_str(if segment.sack_ok { ", sack_ok" } else { ", no_sack" });
    }
    match segment.timestamps {
        Some((value, echo)) => {
            let _ = write!(text, ", ts {value} {echo}");
        }
        None => text.push_str(", no_ts"),
    }
    text
}

/// A moment since the start.
pub(crate) fn time(at: Time) -> String {
    span(at.since(Time::ZERO))
}

/// A time span in ms, without trailing zeros.
pub(crate) fn span(span: Duration) -> String {
    let ns = span.ns();
    let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

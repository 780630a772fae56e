//! Captures made by hand, of what the simulated hosts do not do; the truth about them is how they were made.

use std::fs;
use std::path::Path;

use knee_sim::endpoint::Segment;

use crate::common::{MS, MSS, Trace};
use crate::record::{Cause, Truth, View};

/// A capture, and why the packets of these numbers were sent that are not new data.
type Made = (Trace, Vec<(usize, Cause)>);
type Make = fn() -> Made;

/// All of them.
pub(crate) fn views(dir: &Path) -> Vec<View> {
    let all: &[(&str, Make)] = &[
        ("keep-alives", keep_alives),
        ("closed window", closed_window),
        ("full window", full_window),
        ("what was not captured", not_captured),
        ("ports used again", ports_used_again),
        ("AccECN", accurate_ecn),
        ("SYN sent again", syn_sent_again),
        ("bare ACK", bare_ack),
    ];
    let view = |&(name, make): &(&str, Make)| {
        let (trace, causes) = make();
        let file = dir.join(format!("{}.pcapng", name.replace(' ', "-")));
        // At 0 ns tshark takes a time for none.
        fs::write(&file, trace.file_with(0, |at_ns| at_ns + 1000 * MS)).unwrap();
        let mut truth = vec![Truth::NEW; trace.packets.len()];
        for (number, cause) in causes {
            truth[number - 1].cause = cause;
        }
        View { name: name.to_owned(), file, truth }
    };
    all.iter().map(view).collect()
}

/// A handshake and a round trip of data: packets 1 to 14.
fn begun() -> Trace {
    let mut trace = Trace::new([u32::MAX - 9000, 77]);
    trace.handshake(0, 10 * MS, [0, 0]);
    trace.data(20 * MS, 0..10);
    trace.ack(30 * MS, 10);
    trace
}

/// One of Linux without data, one of others with a byte.
fn keep_alives() -> Made {
    let mut trace = begun();
    let end = 1 + 10 * u64::from(MSS);
    trace.add(7_000 * MS, 0, Segment::ACK, end - 1, 0, 1);
    trace.ack(7_010 * MS, 10);
    trace.add(14_000 * MS, 0, Segment::ACK, end - 1, 1, 1);
    trace.ack(14_010 * MS, 10);
    trace.data(14_020 * MS, 10..12);
    trace.ack(14_030 * MS, 12);
    (trace, vec![(15, Cause::Probing), (17, Cause::Probing)])
}

/// A closed window, and probes of it: Linux's without data, which looks back by a byte, and one with the next byte.
fn closed_window() -> Made {
    let mut trace = begun();
    trace.data(40 * MS, 10..12);
    trace.ack(50 * MS, 12).window = 0;
    let end = 1 + 12 * u64::from(MSS);
    trace.add(250 * MS, 0, Segment::ACK, end - 1, 0, 1);
    trace.ack(260 * MS, 12).window = 0;
    trace.add(650 * MS, 0, Segment::ACK, end - 1, 0, 1);
    trace.ack(660 * MS, 12).window = 0;
    trace.ack(800 * MS, 12);
    trace.data(801 * MS, 12..14);
    trace.ack(811 * MS, 14);
    (trace, vec![(18, Cause::Probing), (20, Cause::Probing)])
}

/// A window of eight segments, filled.
fn full_window() -> Made {
    let mut trace = Trace::new([1000, 77]);
    trace.handshake(0, 10 * MS, [0, 0]);
    for packet in &mut trace.packets {
        packet.1.window_scale = packet.1.window_scale.map(|_| 3);
    }
    let window = (MSS) as u16;
    trace.data(20 * MS, 0..2);
    trace.ack(30 * MS, 2).window = window;
    trace.data(40 * MS, 2..10);
    trace.ack(50 * MS, 10).window = window;
    trace.data(60 * MS, 10..14);
    trace.ack(70 * MS, 14).window = window;
    (trace, Vec::new())
}

/// Data that was acknowledged and is not in the capture, at the end of a window and in its middle.
fn not_captured() -> Made {
    let mut trace = begun();
    trace.data(40 * MS, 10..12);
    trace.ack(50 * MS, 14);
    trace.data(60 * MS, 14..18);
    trace.ack(70 * MS, 18);
    (trace, Vec::new())
}

/// A connection that was reset, and another one with its ports.
fn ports_used_again() -> Made {
    let mut trace = begun();
    trace.add(50 * MS, 1, Segment::RST | Segment::ACK, 1, 0, 1 + 10 * u64::from(MSS));
    trace.origins = [5_000_000, 9_000_000];
    trace.handshake(1000 * MS, 10 * MS, [0, 0]);
    trace.data(1020 * MS, 0..10);
    trace.ack(1030 * MS, 10);
    (trace, Vec::new())
}

/// Accurate ECN: three flags of the SYN, a counter in all that follows.
fn accurate_ecn() -> Made {
    let mut trace = Trace::new([1000, 77]);
    let all = Segment::AE | Segment::CWR | Segment::ECE;
    trace.handshake(0, 10 * MS, [all, Segment::CWR]);
    trace.data(20 * MS, 0..10);
    trace.ack(30 * MS, 10).flags |= Segment::AE | Segment::ECE;
    trace.data(40 * MS, 10..14);
    trace.ack(50 * MS, 14).flags |= Segment::AE | Segment::CWR;
    (trace, Vec::new())
}

/// The first SYN was lost.
fn syn_sent_again() -> Made {
    let mut trace = Trace::new([1000, 77]);
    let syn = trace.add(0, 0, Segment::SYN, 0, 0, 0);
    (syn.mss, syn.window_scale, syn.sack_ok) = (Some(1460), Some(7), true);
    trace.handshake(1000 * MS, 10 * MS, [0, 0]);
    trace.data(1020 * MS, 0..10);
    trace.ack(1030 * MS, 10);
    (trace, Vec::new())
}

/// An answer that was lost before the point, a bare ACK behind it, and the answer again.
fn bare_ack() -> Made {
    let mut trace = begun();
    trace.add(40 * MS, 1, Segment::ACK, 1001, 0, 1 + 10 * u64::from(MSS));
    trace.add(250 * MS, 1, Segment::ACK, 1, 1000, 1 + 10 * u64::from(MSS));
    trace.add(260 * MS, 0, Segment::ACK, 1 + 10 * u64::from(MSS), 0, 1001);
    (trace, vec![(16, Cause::Timeout)])
}

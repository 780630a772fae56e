//! Causes that look alike, made by hand: each is found by its own name, and not by its neighbour's.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use crate::common::{MS, MSS, Trace};
use knee_pcap::diagnosis::findings;
use knee_pcap::{Analysis, AnalysisOptions, EventKind, Finding, Severity};
use knee_queue::Ecn;
use knee_wire::Segment;

fn found(trace: &Trace) -> Vec<Finding> {
    findings(&trace.analysed())
}

fn names(trace: &Trace) -> Vec<&'static str> {
    found(trace).iter().map(|finding| finding.kind).collect()
}

/// Round trips of 20 ms with ten segments each, up to 200 ms: segments 0 to 89.
fn begun() -> Trace {
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 20 * MS, [0, 0]);
    for round in 1..10 {
        trace.data(20 * round * MS, 10 * (round - 1)..10 * round);
        trace.ack(20 * (round + 1) * MS, 10 * round);
    }
    trace
}

#[test]
fn a_timeout_whose_ack_was_late_is_no_loss() {
    // The ACKs of ten segments come after 600 ms, with the time of the originals; or they never come, and the repetition is answered.
    let with = |is_late: bool| {
        let mut trace = begun();
        trace.data(200 * MS, 90..100);
        trace.segment(440 * MS, 90);
        match is_late {
            true => trace.ack(800 * MS, 100).timestamps = Some((800, 200)),
            false => trace.ack(460 * MS, 91).timestamps = Some((460, 440)),
        }
        trace
    };
    assert_eq!(names(&with(true)), ["spurious-timeout"]);
    let lost = names(&with(false));
    assert!(lost.contains(&"rto-floor") && !lost.contains(&"spurious-timeout"), "{lost:?}");
}

#[test]
fn a_dsack_behind_the_ack_of_the_original_tells_of_a_late_ack() {
    // Without echoes that tell: the ACK of all comes late, and the repetition is reported a round trip behind it.
    let mut trace = begun();
    trace.data(200 * MS, 90..100);
    trace.segment(440 * MS, 90);
    trace.ack(450 * MS, 100).timestamps = None;
    trace.sack(461 * MS, 100, &[(90, 91)]);
    trace.packets.iter_mut().for_each(|packet| packet.1.timestamps = None);
    assert_eq!(names(&trace), ["spurious-timeout"]);
}

#[test]
fn the_window_of_a_reset_means_nothing() {
    let mut trace = begun();
    trace.add(201 * MS, 1, Segment::RST | Segment::ACK, 1, 0, 1 + 90 * u64::from(MSS)).window = 0;
    let analysis = trace.analysed();
    assert_eq!(analysis.flows[0].a_to_b.zero_windows, 0);
    assert_eq!(names(&trace), [""; 0]);
}

#[test]
fn a_peer_that_is_gone_is_neither_a_bad_tail_nor_a_floor() {
    let mut trace = begun();
    trace.segment(200 * MS, 90);
    for at_ms in [430, 900, 1800, 3600, 7200] {
        trace.segment(at_ms * MS, 90);
    }
    assert_eq!(names(&trace), ["peer-unreachable"]);
    // Nothing but the repetitions is there.
    let mut alone = Trace::new([9, 77]);
    for at_ms in [0, 206, 806, 2006, 4406, 9211] {
        alone.segment(at_ms * MS, 0).timestamps = None;
    }
    assert_eq!(names(&alone), ["peer-unreachable"]);
    let of = alone.analysed().flows[0].a_to_b.clone();
    let again = of.retransmitted;
    assert_eq!((again.rto, again.tlp, again.unclear), (5, 0, 0));
    // What nobody acknowledged is no goodput.
    assert_eq!(of.goodput_bps, None);
}

/// What is said of an end that answers nothing for some seconds, after it has acknowledged segments of so many bytes and while others
/// of it come or not.
fn silent(acked_bytes: u32, is_alive: bool, comes_at_last: bool) -> Vec<Finding> {
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 20 * MS, [0, 0]);
    for round in 0..10 {
        let seq = 1 + round * u64::from(acked_bytes);
        trace.add((20 + 20 * round) * MS, 0, Segment::ACK, seq, acked_bytes, 1);
        trace.add((40 + 20 * round) * MS, 1, Segment::ACK, 1, 0, seq + u64::from(acked_bytes));
    }
    let seq = 1 + 10 * u64::from(acked_bytes);
    for at_ms in [220, 450, 900, 1800, 3600] {
        trace.add(at_ms * MS, 0, Segment::ACK, seq, MSS, 1);
    }
    if is_alive {
        trace.add(2000 * MS, 1, Segment::ACK, 1, 100, seq);
        trace.add(2000 * MS, 0, Segment::ACK, seq + u64::from(MSS), 0, 101);
    }
    if comes_at_last {
        trace.add(3620 * MS, 1, Segment::ACK, 101, 0, seq + u64::from(MSS));
    }
    found(&trace)
}

#[test]
fn segments_that_are_too_large_for_the_path_are_no_dead_peer() {
    let is = |found: Vec<Finding>, kind: &str| {
        let kinds: Vec<&str> = found.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [kind]);
        found[0].usually_means.contains("PMTU black hole")
    };
    is(silent(300, true, false), "mtu-black-hole");
    // Of a silent end it may be either; not if it has acknowledged as large ones.
    assert!(is(silent(300, false, false), "peer-unreachable"));
    assert!(!is(silent(MSS, false, false), "peer-unreachable"));
    assert!(!is(silent(MSS, true, false), "peer-unreachable"));
    // At last the path carries it.
    assert!(!is(silent(300, true, true), "peer-unreachable"));
}

#[test]
fn a_clock_that_is_set_back_is_no_lost_tail() {
    let trace = begun();
    let set_back = |from_ns: u64, by_ns: u64| {
        let clock = |at_ns: u64| if at_ns < from_ns { at_ns + by_ns } else { at_ns };
        crate::common::analysed(vec![trace.file_with(0, clock)], &AnalysisOptions::default())
    };
    let plain = set_back(0, 0);
    for by_ns in [150 * MS, 700 * MS, 3_600_000 * MS] {
        let analysis = set_back(100 * MS, by_ns);
        assert_eq!(findings(&analysis), findings(&plain));
        let of = |analysis: &Analysis| analysis.flows[0].a_to_b.clone();
        let (here, there) = (of(&analysis), of(&plain));
        assert_eq!(here.retransmitted, there.retransmitted);
        assert_eq!(
            (here.rounds.len(), here.duration_ns / MS),
            (there.rounds.len(), 160),
            "{by_ns}"
        );
        assert_eq!(analysis.whole.files[0].unread.clock_set_back, 1);
    }
    // Packets that are late for once are no clock.
    let mut late = begun();
    let at = late.packets.len() - 20;
    let packet = late.packets.remove(at);
    late.packets.push(packet);
    late.data(400 * MS, 90..100);
    let file = late.unsorted();
    let late = crate::common::analysed(vec![file], &AnalysisOptions::default());
    assert_eq!(late.whole.files[0].unread.clock_set_back, 0);
    assert_eq!(late.flows[0].end_ns, 400 * MS + 9 * 2000);
}

#[test]
fn a_full_window_without_scaling_is_no_small_buffer() {
    let with = |scale: Option<u8>| {
        let mut trace = Trace::new([9, 77]);
        trace.handshake(0, 20 * MS, [0, 0]);
        for packet in &mut trace.packets {
            packet.1.window_scale = packet.1.window_scale.and(scale);
        }
        for round in 1..40 {
            trace.data(20 * round * MS, 20 * (round - 1)..20 * round);
            trace.ack(20 * (round + 1) * MS, 20 * round);
        }
        trace.packets.iter_mut().for_each(|packet| packet.1.window = 29_000);
        let found = found(&trace);
        found.into_iter().find(|finding| finding.kind == "receiver-limited").unwrap()
    };
    assert!(with(Some(0)).try_this.contains("tcp_rmem"));
    let unscaled = with(None);
    assert!(!unscaled.try_this.contains("tcp_rmem") && unscaled.usually_means.contains("scaling"));
}

#[test]
fn ports_that_are_used_again_are_other_connections() {
    // Closed by FIN, by a reset, or not at all; the next one begins with any number.
    let mut trace = Trace::new([9, 77]);
    for (at, close) in [Segment::FIN, Segment::RST, 0, 0].into_iter().enumerate() {
        let begin_ns = at as u64 * 1000 * MS;
        trace.origins = [[9, 70_000_000, 5, 3_000_000_000][at], 77 + at as u32];
        trace.handshake(begin_ns, 20 * MS, [0, 0]);
        for round in 1..5 {
            trace.data(begin_ns + 20 * round * MS, 10 * (round - 1)..10 * round);
            trace.ack(begin_ns + 20 * (round + 1) * MS, 10 * round);
        }
        if close != 0 {
            let seq = 1 + 40 * u64::from(MSS);
            trace.add(begin_ns + 120 * MS, 0, close | Segment::ACK, seq, 0, 1);
        }
    }
    let analysis = trace.analysed();
    assert_eq!(analysis.whole.connections, 4);
    let again: Vec<u64> =
        analysis.flows.iter().map(|flow| flow.a_to_b.retransmitted.segments).collect();
    assert_eq!(again, [0; 4]);
    assert_eq!(analysis.whole.totals.bytes, 160 * u64::from(MSS));
    assert_eq!(findings(&analysis).iter().map(|finding| finding.kind).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_repetition_after_minutes_is_no_probe() {
    let mut trace = begun();
    trace.segment(200 * MS, 90);
    trace.segment(290_000 * MS, 90);
    trace.ack(290_020 * MS, 91);
    let again = trace.analysed().flows[0].a_to_b.retransmitted;
    assert_eq!((again.tlp, again.rto, again.unclear), (0, 0, 1));
}

/// Segments 90 and on, each tenth of which comes to the receiver behind the four after it.
fn overtaken(retransmits: bool) -> Trace {
    let mut trace = begun();
    for round in 0..30 {
        let (at_ns, first) = ((200 + 20 * round) * MS, 90 + 10 * round);
        trace.data(at_ns, first..first + 10);
        for behind in 1..5 {
            trace.sack(
                at_ns + 20 * MS + 10_000 * behind,
                first,
                &[(first + 1, first + 1 + behind)],
            );
        }
        if retransmits {
            trace.segment(at_ns + 20 * MS + 50_000, first);
        }
        trace.ack(at_ns + 20 * MS + 60_000 + if retransmits { 20 * MS } else { 0 }, first + 10);
    }
    trace
}

#[test]
fn gaps_that_close_by_themselves_are_reordering() {
    let trace = overtaken(false);
    let of = trace.analysed().flows[0].a_to_b.clone();
    assert_eq!((of.reordered_behind, of.retransmitted.segments), (30, 0));
    assert!(of.events.iter().any(|event| event.kind == EventKind::ReorderedBehind));
    // The ACK that closes a gap is for many segments.
    assert_eq!(names(&trace), ["reordering", "stretch-acks"]);
    // Those that were sent again were lost, as far as the sender knows.
    assert!(!names(&overtaken(true)).contains(&"reordering"));
}

#[test]
fn more_gaps_than_are_kept_are_no_reordering() {
    // Every second of 1400 segments is lost and sent again: 700 gaps at once, while new data goes on.
    let mut trace = begun();
    trace.data(200 * MS, 90..1490);
    for gap in 0..700 {
        let first = 91 + 2 * gap;
        trace.sack(221 * MS + 4000 * gap, 90, &[(first, first + 1)]);
    }
    for gap in 0..700 {
        let (at_ns, lost, fresh) = (230 * MS + 20_000 * gap, 90 + 2 * gap, 1490 + gap);
        trace.segment(at_ns, lost);
        trace.segment(at_ns + 1000, fresh);
        trace.sack(at_ns + 20 * MS, lost + 2, &[(1490, fresh + 1)]);
    }
    let of = trace.analysed().flows[0].a_to_b.clone();
    assert_eq!((of.reordered_behind, of.retransmitted.segments), (0, 700));
    // The first window left at once.
    assert_eq!(names(&trace), ["sender-bursts"]);
}

#[test]
fn one_direction_alone_is_said_to_be_one() {
    let only = |from: usize| {
        let mut trace = begun();
        let source = trace.packets[from].1.source;
        trace.packets.retain(|packet| packet.1.source == source);
        trace
    };
    assert_eq!(names(&only(0)), ["one-sided-capture"]);
    let of_acks = found(&only(1));
    let one = of_acks.iter().find(|finding| finding.kind == "one-sided-capture").unwrap();
    assert!(one.summary.contains("ACKs, without the data"), "{}", one.summary);
}

#[test]
fn copies_of_the_capture_count_once() {
    let plain = begun();
    let mut copied = Trace::new(plain.origins);
    for (at_ns, packet) in &plain.packets {
        (0..4).for_each(|_| copied.packets.push((*at_ns, packet.clone())));
    }
    let sums = |analysis: &Analysis| {
        let of = &analysis.flows[0].a_to_b;
        let again = of.retransmitted.segments;
        (of.segments, of.bytes_sent, again, of.duplicate_acks, analysis.whole.totals.bytes)
    };
    let (once, often) = (plain.analysed(), copied.analysed());
    assert_eq!(sums(&often), sums(&once));
    assert_eq!(often.flows[0].a_to_b.duplicates_captured, 3 * 92);
}

#[test]
fn totals_are_the_sum_of_the_rows() {
    let mut trace = begun();
    trace.add(205 * MS, 1, Segment::ACK, 1, 500, 1 + 90 * u64::from(MSS));
    trace.add(206 * MS, 0, Segment::ACK, 1 + 90 * u64::from(MSS), 0, 501);
    // A repetition is in the segments, and not in the bytes.
    trace.segment(207 * MS, 89);
    let analysis = trace.analysed();
    let rows: u64 = analysis.flows.iter().map(|flow| flow.main().bytes).sum();
    let all: u64 = analysis.flows.iter().map(|flow| flow.a_to_b.bytes + flow.b_to_a.bytes).sum();
    let totals = analysis.whole.totals;
    assert_eq!((totals.bytes, totals.bytes + totals.bytes_back), (rows, all));
    assert_eq!((totals.bytes, totals.bytes_back), (90 * u64::from(MSS), 500));
    assert_eq!(totals.segments, 92);
    // At two points of the path each connection still counts once.
    let files = vec![trace.file(), trace.file_with(0, |at_ns| at_ns + 5 * MS)];
    let twice = crate::common::analysed(files, &AnalysisOptions::default());
    assert_eq!((twice.flows.len(), twice.whole.connections), (2, 1));
    assert_eq!(twice.whole.totals, totals);
    // Unless the views of some are gone.
    let few = AnalysisOptions { most_flows: 1, ..AnalysisOptions::default() };
    let files = vec![trace.file(), trace.file_with(0, |at_ns| at_ns + 5 * MS)];
    let few = crate::common::analysed(files, &few).whole.totals;
    assert_eq!((few.is_of_connections, few.bytes), (false, 2 * totals.bytes));
}

#[test]
fn goodput_is_over_a_round_trip_at_least() {
    // At the receiver: 656 bytes, acknowledged after 19 us, on a path of 160 ms.
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 37_000, [0, 0]);
    trace.packets[2].0 = 160 * MS;
    trace.add(160 * MS + 300_000, 0, Segment::ACK, 1, 656, 1);
    trace.add(160 * MS + 319_000, 1, Segment::ACK, 1, 0, 657);
    let of = &trace.analysed().flows[0].a_to_b;
    assert!((32_000.0..33_000.0).contains(&of.goodput_bps.unwrap()), "{:?}", of.goodput_bps);
}

/// AccECN's flags for a counter of packets.
fn ace(count: u64) -> u16 {
    let bit = |at: u64, flag: u16| if (5 + count) >> at & 1 == 1 { flag } else { 0 };
    bit(2, Segment::AE) | bit(1, Segment::CWR) | bit(0, Segment::ECE)
}

/// Rounds of ten segments of which so many are marked, and ACKs of two each; every tenth ACK but one is overtaken by the next.
fn accurate(marked_of_ten: u64, is_reordered: bool) -> Trace {
    let asks = Segment::AE | Segment::CWR | Segment::ECE;
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 20 * MS, [asks, Segment::CWR]);
    let mut count = 0;
    for round in 0..40 {
        let (at_ns, first) = ((20 + 20 * round) * MS, 10 * round);
        for behind in 0..10 {
            trace.segment(at_ns + 2000 * behind, first + behind).ecn = Ecn::Ect1;
        }
        for pair in 1..=5 {
            count += u64::from(2 * pair <= marked_of_ten) * 2;
            let late_ns = if is_reordered && pair == 2 { 25_000 } else { 0 };
            let ack = trace.ack(at_ns + 20 * MS + 10_000 * pair + late_ns, first + 2 * pair);
            ack.flags |= ace(count);
        }
    }
    trace
}

#[test]
fn marks_of_accurate_ecn_are_marks_everywhere() {
    for is_reordered in [false, true] {
        let analysis = accurate(4, is_reordered).analysed();
        let of = &analysis.flows[0].a_to_b;
        assert_eq!(of.ecn.ace, 4 * 40, "{is_reordered}");
        let share = of.ecn.ece_bytes as f64 / of.ecn.acked_bytes as f64;
        assert!((share - 0.4).abs() < 0.05, "{share}");
        assert!(of.rounds.iter().any(|round| round.ece_bytes > 0));
        assert_eq!(analysis.whole.totals.marked, 4 * 40);
    }
    let all = names(&accurate(10, false));
    assert!(all.contains(&"marks-everything") && !all.contains(&"application-limited"), "{all:?}");
}

#[test]
fn a_wait_or_two_of_a_long_flow_is_a_note() {
    let mut trace = begun();
    trace.segment(200 * MS, 90);
    trace.ack(260 * MS, 91);
    trace.data(260 * MS, 91..93);
    for round in 0..400 {
        let at_ns = (280 + 20 * round) * MS;
        trace.ack(at_ns, 93 + 2 * round);
        trace.data(at_ns, 93 + 2 * round..95 + 2 * round);
    }
    let all = found(&trace);
    let delayed = all.iter().find(|finding| finding.kind == "delayed-ack").unwrap();
    assert_eq!(delayed.severity, Severity::Note, "{}", delayed.summary);
    assert!(delayed.summary.contains("waited once"), "{}", delayed.summary);
    assert!(delayed.summary.contains("(0 of the waits follow less"), "{}", delayed.summary);
}

#[test]
fn a_queue_that_makes_all_acks_late_is_no_timer() {
    // Ten segments in flight wait for 100 ms in a queue; now and then one alone does, too.
    let with = |queue_ns: u64| {
        // The handshake alone was sooner.
        let mut trace = Trace::new([9, 77]);
        trace.handshake(0, 20 * MS, [0, 0]);
        let (mut at_ns, mut next) = (20 * MS, 0);
        for round in 0..60 {
            let alone = round % 6 == 5;
            let count = if alone { 1 } else { 10 };
            trace.data(at_ns, next..next + count);
            next += count;
            at_ns += 20 * MS + if alone { 100 * MS } else { queue_ns };
            trace.ack(at_ns, next);
        }
        names(&trace).contains(&"delayed-ack")
    };
    assert!(with(0));
    assert!(!with(100 * MS));
}

#[test]
fn a_window_whose_scale_was_cut_is_unknown() {
    // A window of 30,000 << 7, of which unscaled a flight of 29 kB would leave nothing.
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 20 * MS, [0, 0]);
    for round in 1..40 {
        trace.data(20 * round * MS, 20 * (round - 1)..20 * round);
        trace.ack(20 * (round + 1) * MS, 20 * round);
    }
    assert_eq!(names(&trace), ["stretch-acks"]);
    // 40 bytes of headers, and the first options.
    for snaplen in [44, 52] {
        let cut = crate::common::analysed(
            vec![trace.file_with(snaplen, |at_ns| at_ns)],
            &AnalysisOptions::default(),
        );
        let flow = &cut.flows[0];
        assert_eq!(flow.handshake.has_window_scale, None, "{snaplen}");
        assert_eq!(flow.a_to_b.smallest_window_bytes, None, "{snaplen}");
        let found = findings(&cut);
        assert!(found.iter().all(|finding| finding.kind != "receiver-limited"), "{found:?}");
    }
}

/// Data that is captured 300 us behind the receiver's ACK of it: of two queues, or two clocks.
#[test]
fn data_behind_its_ack_was_not_sent_again() {
    let mut trace = Trace::new([9, 77]);
    trace.handshake(0, 1000, [0, 0]);
    trace.packets[2].0 = 20 * MS;
    for round in 1..20 {
        let (at_ns, first) = (20 * round * MS, 10 * (round - 1));
        for segment in first..first + 10 {
            // The first of a round was lost before the point, and comes again 21 ms later: the ACKs before it are of the gap.
            let late_ns = if segment == first { 21 * MS } else { 0 };
            let came_ns = at_ns + 500_000 * (segment - first) + late_ns;
            trace.segment(came_ns + 300_000, segment);
            match segment == first {
                true => _ = trace.ack(came_ns, first + 10),
                false => trace.sack(came_ns, first, &[(first + 1, segment + 1)]),
            }
        }
    }
    let of = trace.analysed().flows[0].a_to_b.clone();
    assert_eq!((of.retransmitted.spurious, of.bytes_not_captured), (0, 0));
    assert_eq!((of.retransmitted.segments, of.lost_before_point), (19, 19));
    assert_eq!(names(&trace), [""; 0]);
}

#[test]
fn what_the_receiver_had_in_order_may_be_the_captures_order() {
    // The sender's own packets are swapped by some us, and the receiver sends no duplicate ACK.
    let mut trace = begun();
    for round in 0..30 {
        let (at_ns, first) = ((200 + 20 * round) * MS, 90 + 10 * round);
        for pair in 0..5 {
            trace.segment(at_ns + 4000 * pair, first + 2 * pair + 1);
            trace.segment(at_ns + 4000 * pair + 2000, first + 2 * pair);
        }
        trace.ack(at_ns + 20 * MS, first + 10);
    }
    let found = found(&trace);
    let reordering = found.iter().find(|finding| finding.kind == "reordering").unwrap();
    assert!(reordering.usually_means.contains("capture may"), "{}", reordering.usually_means);
}

#[test]
fn a_part_of_a_large_packet_that_is_lost_makes_no_rtt_of_the_rest() {
    // Ten segments as one packet; the third is lost, the others are reported by SACK after 20 ms, and all is acknowledged after 40 ms.
    let mut trace = begun();
    trace.add(200 * MS, 0, Segment::ACK, 1 + 90 * u64::from(MSS), 10 * MSS, 1);
    trace.ack(220 * MS, 92);
    trace.sack(220 * MS, 92, &[(93, 100)]);
    trace.segment(220 * MS + 10_000, 92);
    trace.ack(240 * MS, 100);
    let of = trace.analysed().flows[0].a_to_b.clone();
    assert_eq!(of.retransmitted.segments, 1);
    assert_eq!(of.rtt.max(), Some(20 * MS));
}

#[test]
fn what_is_sent_again_long_after_its_ack_was_not_captured_late() {
    // The capture misses 20 round trips of data, whose ACKs follow each other without a gap. Then segments of the first of them come again.
    let missing = |round_trips_later: u64| {
        let mut trace = begun();
        for round in 0..20 {
            for pair in 1..=5 {
                trace.ack((220 + 20 * round) * MS + 100_000 * pair, 90 + 10 * round + 2 * pair);
            }
        }
        let first = 90 + 10 * (19 - round_trips_later);
        trace.segment(200 * MS + 20 * 20 * MS + 700_000, first + 3);
        trace.analysed().flows[0].a_to_b.clone()
    };
    // Within a round trip it is the capture's order.
    let soon = missing(0);
    assert_eq!((soon.retransmitted.segments, soon.bytes_not_captured), (0, 199 * u64::from(MSS)));
    let late = missing(18);
    assert_eq!((late.retransmitted.segments, late.bytes_not_captured), (1, 200 * u64::from(MSS)));
}

#[test]
fn a_large_packet_behind_several_acks_of_it_was_not_sent_again() {
    let mut trace = begun();
    for pair in 1..=5 {
        // A fortieth of a round trip apart.
        trace.ack(220 * MS + 500_000 * pair, 90 + 2 * pair);
    }
    trace.add(224 * MS, 0, Segment::ACK, 1 + 90 * u64::from(MSS), 10 * MSS, 1);
    let of = trace.analysed().flows[0].a_to_b.clone();
    assert_eq!((of.retransmitted.segments, of.bytes_not_captured), (0, 0));
}

#[test]
fn an_ack_that_passed_here_is_not_said_to_have_come() {
    // A probe repeats what was acknowledged here before, and the ACK of what a timeout repeats comes 600 ms late.
    let mut trace = begun();
    trace.segment(200 * MS, 90);
    trace.ack(220 * MS, 91);
    trace.segment(440 * MS, 90);
    trace.ack(440 * MS + 1000, 91);
    trace.data(700 * MS, 91..101);
    trace.segment(940 * MS, 91);
    trace.ack(1300 * MS, 101).timestamps = Some((1300, 700));
    let all = found(&trace);
    let late = all.iter().find(|finding| finding.kind == "spurious-timeout").unwrap();
    assert!(late.summary.starts_with("1 timeouts and 1 probes"), "{}", late.summary);
    assert!(!late.summary.contains("not lost"), "{}", late.summary);
    assert!(late.summary.contains("1 had passed here before"), "{}", late.summary);
}

//! Captures made by hand: each says one thing, and the analysis says it too.

use crate::common::{MS, MSS, Trace, analysed};
use knee_pcap::model::{EcnAgreed, Ended, PointPosition, ReceiverKind, Retransmitted};
use knee_pcap::{AnalysisOptions, Direction, EventKind};
use knee_queue::Ecn;
use knee_wire::Segment;

/// Two round trips of ten segments each, ten milliseconds long, so that the RTT is known: segments 0 to 19.
fn begun() -> Trace {
    let mut trace = Trace::new([u32::MAX - 5000, 77]);
    trace.handshake(0, 10 * MS, [0, 0]);
    trace.data(20 * MS, 0..10);
    trace.ack(30 * MS, 10);
    trace.data(30 * MS, 10..20);
    trace.ack(40 * MS, 20);
    trace
}

fn a_to_b(trace: &Trace) -> Direction {
    let analysis = trace.analysed();
    assert_eq!(analysis.flows.len(), 1);
    analysis.flows[0].a_to_b.clone()
}

fn event(of: &Direction, kind: EventKind) -> (u64, Option<u64>, u64) {
    let event = of.events.iter().find(|event| event.kind == kind);
    let event = event.unwrap_or_else(|| panic!("no {kind:?}: {:?}", of.events));
    (event.number, event.earlier, event.lasted_ns)
}

#[test]
fn a_quiet_flow_is_told_in_full() {
    let analysis = begun().analysed();
    let flow = &analysis.flows[0];
    assert_eq!((flow.a.port(), flow.b.port(), flow.packets), (1000, 1001, 25));
    assert_eq!(flow.handshake.rtt_to_b_ns, Some(10 * MS));
    assert_eq!(flow.location.place, PointPosition::NearA);
    assert_eq!((flow.handshake.has_sack, flow.handshake.ecn), (Some(true), EcnAgreed::NotAsked));
    let of = &flow.a_to_b;
    assert_eq!((of.mss, of.bytes, of.segments), (Some(MSS), u64::from(20 * MSS), 20));
    assert_eq!(of.initial_window_bytes, Some(u64::from(10 * MSS)));
    assert!(of.is_initial_window_full);
    assert_eq!(of.max_inflight_bytes, u64::from(10 * MSS));
    assert_eq!(of.retransmitted, Retransmitted::default());
    // The newest segment that an ACK covers was sent 18 us behind the first.
    assert_eq!(of.rtt.min(), Some(10 * MS - 18_000));
    let rounds: Vec<(u64, u64, u64)> =
        of.rounds.iter().map(|round| (round.begin_ns, round.duration_ns, round.bytes)).collect();
    let ten = u64::from(10 * MSS);
    assert_eq!(rounds, [(20 * MS, 10 * MS, ten), (30 * MS, 10 * MS, ten)]);
    assert_eq!(of.bursts.max(), Some(10));
    assert_eq!(flow.ended, Ended::Open);
}

#[test]
fn a_timeout_is_silence_of_all_that_was_sent() {
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    // A probe of the last, and the timeout of the first: nothing was heard.
    trace.segment(61 * MS, 23);
    trace.segment(300 * MS, 20);
    trace.ack(310 * MS, 21);
    trace.data(310 * MS, 21..23);
    trace.ack(320 * MS, 24);
    let of = a_to_b(&trace);
    let again = of.retransmitted;
    assert_eq!((again.segments, again.tlp, again.rto, again.after_rto), (4, 1, 1, 2));
    assert_eq!((again.fast, again.unclear, again.spurious), (0, 0, 0));
    assert_eq!(event(&of, EventKind::TailLossProbe), (30, Some(29), 61 * MS - 40 * MS - 6000));
    assert_eq!(event(&of, EventKind::Rto), (31, Some(26), 239 * MS));
    assert_eq!((of.rto_stall_ns, of.longest_rto_stall_ns), (239 * MS, 239 * MS));
}

#[test]
fn sacks_let_go_at_once() {
    let mut trace = begun();
    trace.data(40 * MS, 20..30);
    trace.sack(50 * MS, 20, &[(21, 30)]);
    trace.segment(50 * MS + 1000, 20);
    trace.ack(60 * MS, 30);
    let of = a_to_b(&trace);
    assert_eq!((of.retransmitted.segments, of.retransmitted.fast), (1, 1));
    assert_eq!(event(&of, EventKind::FastRetransmission).1, Some(26));
    assert_eq!(of.duplicate_acks, 1);
    let round = of.rounds.iter().find(|round| round.retransmitted == 1);
    assert_eq!(round.map(|round| round.rtos), Some(0));
}

#[test]
fn what_the_receiver_had_already_was_not_needed() {
    // By DSACK.
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    trace.sack(50 * MS, 20, &[(21, 24)]);
    trace.segment(50 * MS + 1000, 20);
    trace.ack(51 * MS, 24);
    trace.sack(61 * MS, 24, &[(20, 21)]);
    let of = a_to_b(&trace);
    assert_eq!((of.retransmitted.fast, of.retransmitted.spurious), (1, 1));
    assert_eq!(event(&of, EventKind::Spurious).1, Some(31));

    // By the echo of a time before the repetition.
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    trace.segment(300 * MS, 20);
    trace.ack(301 * MS, 24).timestamps = Some((301, 40));
    assert_eq!(a_to_b(&trace).retransmitted.spurious, 1);
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    trace.segment(300 * MS, 20);
    trace.ack(310 * MS, 24).timestamps = Some((310, 300));
    assert_eq!(a_to_b(&trace).retransmitted.spurious, 0);
}

#[test]
fn what_was_not_needed_counts_once_whatever_says_so() {
    // By the echo first, then by DSACK: the network has duplicated nothing.
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    trace.segment(300 * MS, 20);
    trace.ack(301 * MS, 24).timestamps = Some((301, 40));
    trace.sack(310 * MS, 24, &[(20, 21)]);
    let of = a_to_b(&trace);
    assert_eq!((of.retransmitted.spurious, of.duplicates_by_network), (1, 0));

    // Near the receiver, its ACK passed before the repetition comes.
    let mut trace = begun();
    trace.data(40 * MS, 20..24);
    trace.ack(41 * MS, 24);
    trace.segment(300 * MS, 20);
    trace.sack(300 * MS, 24, &[(20, 21)]);
    let of = a_to_b(&trace);
    assert_eq!((of.retransmitted.segments, of.retransmitted.spurious), (1, 1));
    assert_eq!(of.duplicates_by_network, 0);
    assert_eq!(event(&of, EventKind::Spurious).1, Some(31));
}

#[test]
fn a_timeout_of_the_first_window_is_known_by_the_rtt_of_the_handshake() {
    let mut trace = Trace::new([500, 900]);
    trace.handshake(0, 10 * MS, [0, 0]);
    trace.data(10 * MS, 0..10);
    trace.segment(230 * MS, 0);
    trace.ack(240 * MS, 1);
    trace.data(240 * MS, 1..3);
    trace.ack(250 * MS, 3);
    let of = a_to_b(&trace);
    assert_eq!((of.retransmitted.rto, of.retransmitted.after_rto), (1, 2));
}

#[test]
fn data_from_before_a_captures_first_was_not_acknowledged_here() {
    let mut trace = Trace::new([500, 900]);
    trace.segment(0, 5);
    trace.segment(1000, 4);
    trace.ack(10 * MS, 6);
    assert_eq!(a_to_b(&trace).retransmitted.spurious, 0);
}

#[test]
fn late_is_not_sent_again() {
    for has_timestamps in [true, false] {
        let mut trace = begun();
        trace.data(40 * MS, 20..22);
        trace.segment(40 * MS + 4000, 23);
        trace.segment(40 * MS + 90_000, 22);
        trace.ack(50 * MS, 24);
        if !has_timestamps {
            trace.packets.iter_mut().for_each(|(_, packet)| packet.timestamps = None);
        }
        let of = a_to_b(&trace);
        assert_eq!((of.out_of_order, of.retransmitted.segments, of.lost_before_point), (1, 0, 0));
        assert_eq!(event(&of, EventKind::OutOfOrder), (29, Some(28), 86_000));

        // The same gap, filled a round trip later: lost before the point.
        let mut trace = begun();
        trace.data(40 * MS, 20..22);
        trace.segment(40 * MS + 4000, 23);
        trace.sack(50 * MS, 22, &[(23, 24)]);
        trace.segment(51 * MS, 22);
        trace.ack(60 * MS, 24);
        if !has_timestamps {
            trace.packets.iter_mut().for_each(|(_, packet)| packet.timestamps = None);
        }
        let of = a_to_b(&trace);
        assert_eq!((of.out_of_order, of.lost_before_point, of.retransmitted.fast), (0, 1, 1));
    }
}

#[test]
fn a_closed_window_is_measured() {
    let mut trace = begun();
    trace.ack(41 * MS, 20).window = 0;
    trace.ack(91 * MS, 20).window = 400;
    let of = a_to_b(&trace);
    assert_eq!((of.zero_windows, of.zero_window_ns), (1, 50 * MS));
    assert_eq!(event(&of, EventKind::ZeroWindow).2, 50 * MS);
    assert_eq!((of.smallest_window_bytes, of.duplicate_acks), (Some(0), 0));
}

#[test]
fn what_keeps_a_connection_alive_is_not_sent_again() {
    // Linux sends none of the last byte; others send it.
    for len in [0, 1] {
        let mut trace = begun();
        let end = 1 + 20 * u64::from(MSS);
        trace.add(7_000 * MS, 0, Segment::ACK, end - 1, len, 1);
        trace.ack(7_015 * MS, 20);
        trace.data(7_020 * MS, 20..22);
        trace.ack(7_030 * MS, 22);
        let of = a_to_b(&trace);
        assert_eq!((of.bytes, of.retransmitted.segments), (u64::from(22 * MSS), 0), "{len}");
        // Its answer took 15 ms, and is no RTT.
        assert_eq!((of.rtt.max(), of.duplicates_by_network), (Some(10 * MS - 2000), 0), "{len}");
    }
}

#[test]
fn a_window_that_is_filled_to_its_last_byte_has_no_room() {
    let mut trace = begun();
    trace
        .packets
        .iter_mut()
        .for_each(|(_, packet)| packet.window_scale = packet.window_scale.map(|_| 3));
    trace.ack(41 * MS, 20).window = MSS as u16;
    trace.data(50 * MS, 20..28);
    trace.ack(60 * MS, 28).window = MSS as u16;
    trace.data(70 * MS, 28..32);
    trace.ack(80 * MS, 32).window = MSS as u16;
    let room: Vec<_> = a_to_b(&trace).rounds.iter().map(|round| round.room_bytes).collect();
    assert_eq!(room[2..], [Some(0), Some(u64::from(4 * MSS))]);
}

#[test]
fn a_handshake_that_was_repeated_has_no_rtt() {
    let mut trace = Trace::new([1000, 77]);
    let syn = trace.add(0, 0, Segment::SYN, 0, 0, 0);
    (syn.mss, syn.window_scale, syn.sack_ok) = (Some(1460), Some(7), true);
    trace.handshake(1000 * MS, 10 * MS, [0, 0]);
    trace.data(1020 * MS, 0..10);
    trace.ack(1030 * MS, 10);
    let flow = &trace.analysed().flows[0];
    assert_eq!((flow.handshake.repeats, flow.handshake.rtt_to_b_ns), (1, None));
    assert_eq!(flow.a_to_b.retransmitted.segments, 0);
}

#[test]
fn what_the_capture_missed_is_counted() {
    let mut trace = begun();
    trace.data(40 * MS, 20..22);
    trace.data(40 * MS + 8000, 24..26);
    trace.ack(50 * MS, 26);
    trace.ack(51 * MS, 30);
    let of = a_to_b(&trace);
    assert_eq!(of.bytes_not_captured, u64::from(6 * MSS));
    assert_eq!((of.bytes, of.retransmitted.segments), (u64::from(30 * MSS), 0));
}

/// Ten round trips of ten segments, each marked where `is_marked` says, ACKs of each as `is_ece` says; `cwr` sends CWR first.
fn marked(
    is_marked: fn(u64) -> bool,
    is_ece: fn(u64, bool) -> bool,
    cwr: fn(u64) -> bool,
) -> Direction {
    let mut trace = Trace::new([1, 2]);
    let ecn = [Segment::ECE | Segment::CWR, Segment::ECE];
    trace.handshake(0, 10 * MS, ecn);
    for segment in 0..100 {
        let at_ns = (20 + segment / 10 * 10) * MS + segment % 10 * 10_000;
        let packet = trace.segment(at_ns, segment);
        packet.ecn = if is_marked(segment) { Ecn::Ce } else { Ecn::Ect0 };
        packet.flags |= if cwr(segment) { Segment::CWR } else { 0 };
        let ack = trace.ack(at_ns + 9 * MS, segment + 1);
        ack.flags |= if is_ece(segment, is_marked(segment)) { Segment::ECE } else { 0 };
    }
    let analysis = trace.analysed();
    assert_eq!(analysis.flows[0].handshake.ecn, EcnAgreed::Classic);
    analysis.flows[0].a_to_b.clone()
}

#[test]
fn a_receiver_is_known_by_its_ece() {
    let hidden = |_| false;
    let every = |segment: u64| segment % 10 == 0;
    // DCTCP, seen where marks are not: ECE ends without a CWR.
    let of = marked(hidden, |segment, _| segment % 10 < 3, hidden);
    assert_eq!(of.receiver.kind, ReceiverKind::Dctcp);
    assert_eq!((of.ecn.ece, of.ecn.ce, of.ecn.ect0), (30, 0, 100));
    assert_eq!(of.ecn.ece_bytes, u64::from(30 * MSS));
    // Latched until the CWR in the middle of the next round trip.
    let cwr = |segment: u64| segment % 20 == 15;
    let of = marked(hidden, |segment, _| segment % 20 < 15, cwr);
    assert_eq!((of.receiver.kind, of.ecn.cwr), (ReceiverKind::Classic, 5));
    // Where marks are seen they say it alone.
    let of = marked(every, |_, is_marked| is_marked, every);
    assert_eq!(of.receiver.kind, ReceiverKind::Dctcp);
    let of = marked(|segment| segment == 5, |segment, _| segment > 4, hidden);
    assert_eq!((of.receiver.kind, of.ecn.ce), (ReceiverKind::Classic, 1));
    assert!(of.receiver.held_without_cwr == 1, "{:?}", of.receiver);
}

#[test]
fn accurate_ecn_counts_packets() {
    let mut trace = Trace::new([1, 2]);
    let all = Segment::AE | Segment::CWR | Segment::ECE;
    trace.handshake(0, 10 * MS, [all, Segment::CWR]);
    for segment in 0..20 {
        let at_ns = (20 + segment) * MS;
        trace.segment(at_ns, segment).ecn = Ecn::Ect0;
        // Every second one arrives marked.
        let counter = (5 + segment / 2 + 1) % 8;
        let flag = |bit: u64, flag: u16| if counter & bit != 0 { flag } else { 0 };
        trace.ack(at_ns + MS / 2, segment + 1).flags |=
            flag(4, Segment::AE) | flag(2, Segment::CWR) | flag(1, Segment::ECE);
    }
    let analysis = trace.analysed();
    let flow = &analysis.flows[0];
    assert_eq!(flow.handshake.ecn, EcnAgreed::Accurate);
    let of = &flow.a_to_b;
    assert_eq!((of.receiver.kind, of.ecn.ace, of.ecn.ece), (ReceiverKind::Accurate, 10, 10));
}

#[test]
fn large_packets_of_a_host_are_several_segments() {
    let mut trace = Trace::new([1, 2]);
    trace.handshake(0, 10 * MS, [0, 0]);
    trace.add(20 * MS, 0, Segment::ACK, 1, 10 * MSS, 1);
    trace.ack(30 * MS, 10);
    let of = a_to_b(&trace);
    assert_eq!((of.segments, of.data_packets, of.super_packets), (10, 1, 1));
    assert_eq!((of.mss, of.bursts.max()), (Some(MSS), Some(10)));
}

#[test]
fn numbers_may_wrap_as_often_as_they_do() {
    // 9 GB in packets of 60 kB, as a host hands them over: the numbers wrap twice.
    const LEN: u32 = 60_000;
    let mut trace = Trace::new([u32::MAX - 10, 2]);
    trace.handshake(0, MS, [0, 0]);
    for i in 0..150_000_u64 {
        let (at_ns, end) = ((2 + i) * MS, 1 + (i + 1) * u64::from(LEN));
        trace.add(at_ns, 0, Segment::ACK, end - u64::from(LEN), LEN, 1);
        trace.add(at_ns + MS / 2, 1, Segment::ACK, 1, 0, end);
    }
    let analysis = trace.analysed();
    let of = &analysis.flows[0].a_to_b;
    assert_eq!((of.bytes, of.bytes_sent), (150_000 * u64::from(LEN), 150_000 * u64::from(LEN)));
    assert_eq!((of.data_packets, of.retransmitted.segments), (150_000, 0));
    assert_eq!((of.rtt.count(), of.max_inflight_bytes), (150_000, u64::from(LEN)));
}

#[test]
fn ports_that_are_used_again_are_another_flow() {
    let mut trace = begun();
    trace.origins = [5_000_000, 9_000_000];
    trace.handshake(1000 * MS, 10 * MS, [0, 0]);
    trace.data(1010 * MS, 0..2);
    trace.ack(1020 * MS, 2);
    let analysis = trace.analysed();
    assert_eq!(analysis.flows.len(), 2);
    assert_eq!(analysis.flows[0].ended, Ended::Reused);
    assert_eq!(analysis.flows[1].a_to_b.bytes, u64::from(2 * MSS));
    assert_eq!(analysis.flows[1].a_to_b.retransmitted.segments, 0);
}

#[test]
fn packets_are_listed_with_what_acknowledged_them() {
    let mut trace = begun();
    trace.data(40 * MS, 20..22);
    trace.sack(50 * MS, 20, &[(21, 22)]);
    trace.segment(50 * MS + 1000, 20);
    trace.ack(60 * MS, 22);
    let options = AnalysisOptions { flows: vec![1], ..AnalysisOptions::default() };
    let analysis = analysed(vec![trace.file()], &options);
    assert_eq!(analysis.packets.len(), trace.packets.len());
    let at = |number: usize| &analysis.packets[number - 1];
    // Packets 26 and 27 are the two segments, 28 the SACK, 29 the repetition, 30 the ACK.
    assert_eq!((at(26).acked_by, at(26).repeated_by, at(26).rtt_ns), (None, Some(29), None));
    assert_eq!((at(27).acked_by, at(27).rtt_ns), (Some(28), Some(10 * MS - 2000)));
    assert_eq!((at(29).repeats, at(29).acked_by), (Some(26), Some(30)));
    assert_eq!(at(29).why, Some(EventKind::FastRetransmission));
    assert_eq!(at(27).inflight_bytes, Some(u64::from(2 * MSS)));
    assert_eq!((at(1).flags.as_str(), at(28).sacks.len()), ("S", 1));
}

#[test]
fn cut_packets_are_as_long_as_their_headers_say() {
    let trace = begun();
    let whole = trace.analysed();
    let cut = analysed(vec![trace.file_with(96, |at_ns| at_ns)], &AnalysisOptions::default());
    assert_eq!(cut.flows[0].a_to_b.bytes, whole.flows[0].a_to_b.bytes);
    assert_eq!(cut.whole.files[0].unread.cut_options, 0);
    let short = analysed(vec![trace.file_with(42, |at_ns| at_ns)], &AnalysisOptions::default());
    assert_eq!(short.whole.files[0].unread.cut_options, 25);
    assert_eq!(short.flows[0].a_to_b.bytes, whole.flows[0].a_to_b.bytes);
}

#[test]
fn clocks_of_two_files_are_compared() {
    // Seen at `a`, and at `b` 2 ms later one way, by a clock that is 700 ms ahead and 50 ppm fast.
    let mut trace = Trace::new([1, 2]);
    trace.handshake(0, 4 * MS, [0, 0]);
    let mut far = Trace::new([1, 2]);
    for segment in 0..2000_u64 {
        let at_ns = (10 + 5 * segment) * MS;
        trace.segment(at_ns, segment);
        trace.ack(at_ns + 4 * MS, segment + 1);
    }
    for (at_ns, packet) in &trace.packets {
        let is_from_a = packet.source.port() == 1000;
        let there_ns = if is_from_a { at_ns + 2 * MS } else { at_ns - 2 * MS };
        far.packets.push((there_ns, packet.clone()));
    }
    // One is lost between.
    far.packets.remove(1003);
    let clock = |at_ns: u64| at_ns + 700 * MS + at_ns / 20_000;
    let files = vec![trace.file(), far.file_with(0, clock)];
    let analysis = analysed(files, &AnalysisOptions::default());
    assert_eq!(analysis.flows.len(), 2);
    assert_eq!(analysis.flows[0].connection, analysis.flows[1].connection);
    assert!(analysis.flows[0].is_primary && !analysis.flows[1].is_primary);
    let [crossing] = &analysis.whole.crossings[..] else {
        panic!("{:?}", analysis.whole.crossings)
    };
    assert_eq!(crossing.lost[0] + crossing.lost[1], 1);
    let drift = crossing.drift_ppm.unwrap();
    assert!((drift - 50.0).abs() < 1.0, "{drift}");
    // In the middle of 10 s, 50 ppm are 250 us.
    assert!(crossing.offset_ns.abs_diff(700_250_000) < 20_000, "{}", crossing.offset_ns);
    for delay in crossing.delay {
        let delay = delay.unwrap();
        assert!(delay.mean_ns.abs_diff(2 * MS) < 20_000, "{delay:?}");
    }
}

/// Found by the fuzzer: the middle of the last stretch of time that is compared was behind the last time that a file can say.
#[test]
fn clocks_are_compared_up_to_the_end_of_time() {
    let mut trace = Trace::new([1, 2]);
    trace.handshake(0, MS, [0, 0]);
    trace.segment(2 * MS, 0);
    let end = |at_ns: u64| u64::MAX - 3 * MS + at_ns;
    let files = vec![trace.file_with(0, end), trace.file_with(0, |at_ns| end(at_ns) + MS / 2)];
    let analysis = analysed(files, &AnalysisOptions::default());
    assert_eq!(analysis.whole.crossings.len(), 1);
}

#[test]
fn connections_are_counted_once_whether_their_flows_are_kept_or_not() {
    let mut trace = Trace::new([1, 2]);
    for i in 0..20_u16 {
        trace.segment(u64::from(i) * MS, 0).source.set_port(10_000 + i);
    }
    let options = AnalysisOptions { most_flows: 4, ..AnalysisOptions::default() };
    let analysis = analysed(vec![trace.file(), trace.file_with(0, |at_ns| at_ns + MS)], &options);
    assert_eq!((analysis.whole.flows, analysis.whole.connections), (40, 20));
}

//! The rules of the diagnosis against values made by hand. Captures are in `tests/diagnosis.rs`.

use std::net::SocketAddr;

use super::*;
use crate::model::{
    Arrivals, EcnAgreed, Ended, Handshake, Location, LocationEvidence, Receiver, ReceiverKind, Span,
};

const MS: u64 = 1_000_000;
const US: u64 = 1000;
const MSS: u64 = 1448;

/// A flow of one second from host `from` to host 99, captured at its sender, with an RTT of 1 ms.
fn flow(from: u8, data: Direction) -> Flow {
    let address = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    Flow {
        id: u32::from(from),
        connection: u32::from(from),
        is_primary: true,
        point: 0,
        a: address(from, 40_000),
        b: address(99, 10_000),
        handshake: Handshake {
            rtt_to_b_ns: Some(MS),
            ecn: EcnAgreed::Classic,
            ..Handshake::default()
        },
        begin_ns: 0,
        end_ns: 1000 * MS,
        first_number: 1,
        last_number: 1000,
        packets: 1000,
        ended: Ended::Closed,
        location: Location {
            place: PointPosition::NearA,
            rtt_to_a_ns: Some(0),
            rtt_to_b_ns: Some(MS),
            evidence: LocationEvidence::Handshake,
        },
        a_to_b: data,
        b_to_a: Direction::default(),
    }
}

fn data() -> Direction {
    Direction { mss: Some(MSS as u32), ..Direction::default() }
}

fn round(begin_ns: u64, segments: u64, rtt_ns: u64) -> Round {
    Round {
        begin_ns,
        duration_ns: rtt_ns,
        first_number: begin_ns / US,
        bytes: segments * MSS,
        inflight_bytes: segments * MSS,
        segments: segments as u32,
        rate_bps: (segments * MSS * 8) as f64 * 1e9 / rtt_ns as f64,
        rtt_min_ns: Some(rtt_ns),
        rtt_mean_ns: Some(rtt_ns),
        rtt_max_ns: Some(rtt_ns),
        rtt_max_unheld_ns: Some(rtt_ns),
        ..Round::default()
    }
}

fn event(kind: EventKind, at_ns: u64, lasted_ns: u64) -> Event {
    Event {
        kind,
        at_ns,
        number: at_ns / US,
        earlier: Some(at_ns.saturating_sub(lasted_ns) / US),
        seq: 1,
        bytes: MSS,
        lasted_ns,
        inflight_bytes: MSS,
        duplicate_acks: 0,
        is_tail: false,
    }
}

fn names(flow: &Flow) -> Vec<&'static str> {
    of_flow(flow).iter().map(|finding| finding.kind).collect()
}

#[test]
fn names_are_unique_and_words_are_sentences() {
    for (at, kind) in KINDS.iter().enumerate() {
        assert!(KINDS[..at].iter().all(|other| other.name != kind.name), "{}", kind.name);
        for words in [kind.usually_means, kind.try_this] {
            assert!(words.ends_with('.') && !words.contains("  "), "{}: {words}", kind.name);
        }
    }
}

#[test]
fn k_is_what_waits_where_marked_rtts_begin() {
    // 1 ms without a queue, 1 Gbps: a packet of 1514 bytes takes 12.1 us. From 30 packets on, 363 us, ACKs carry ECE.
    let mut made = data();
    made.receiver.kind = ReceiverKind::Dctcp;
    for turn in 0..40_u64 {
        for waiting in 0..40_u64 {
            let rtt = MS + waiting * 12_112;
            made.rtt.add(rtt, turn);
            made.exact_rtts[usize::from(waiting >= 30)].push(rtt);
            if waiting >= 30 {
                made.rtt_marked.add(rtt, turn);
            }
            // Payload alone, 1448 of 1514 bytes.
            made.ack_rate_bps.add(956_400_000, turn);
        }
        made.events.push(event(EventKind::EceBegins, turn * MS, 0));
        made.events.push(event(EventKind::EceEnds, turn * MS, 0));
    }
    let found = of_flow(&flow(1, made.clone()));
    let [threshold] = &found[..] else { panic!("{found:?}") };
    assert_eq!((threshold.kind, threshold.severity), ("marking-threshold", Severity::Note));
    let k: f64 = threshold
        .summary
        .split("K is about ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((29.0..=30.0).contains(&k), "{}", threshold.summary);
    assert!(threshold.summary.contains("+- 1 packets"), "{}", threshold.summary);
    // Marks that come at any RTT tell nothing, nor do those of RTTs far above those of unmarked data.
    let mut at_any = made.clone();
    at_any.exact_rtts[1] = (0..800).map(|at| MS + at % 40 * 12_112).collect();
    assert_eq!(names(&flow(1, at_any)), [""; 0]);
    let mut far = made.clone();
    far.exact_rtts[1] = vec![2 * MS; 400];
    assert_eq!(names(&flow(1, far)), [""; 0]);
    // Of 1200 unmarked RTTs 60 and 120 above K: one in forty and one in twenty is wrong of both sorts alike, and then twice as many.
    let with_above = |above: usize| {
        let mut made = made.clone();
        made.exact_rtts[0][..above].fill(MS + 38 * 12_112);
        made.exact_rtts[1][..above / 3].fill(MS + 2 * 12_112);
        names(&flow(1, made))
    };
    assert_eq!(with_above(60), ["marking-threshold"]);
    assert_eq!(with_above(96), [""; 0]);
    // Both shares are said, not their mean.
    let mut marked_below = made.clone();
    marked_below.exact_rtts[1][..40].fill(MS + 2 * 12_112);
    let found = of_flow(&flow(1, marked_below));
    let said = "(10 % of the marked and 0 % of the unmarked RTTs are on the wrong side)";
    assert!(found[0].summary.contains(said), "{}", found[0].summary);
    // Equal RTTs are on the same side: half of the unmarked ones are as long as all that are marked.
    let mut equal = made.clone();
    equal.exact_rtts = [vec![MS; 400], vec![MS + 30 * 12_112; 400]];
    equal.exact_rtts[0][..200].fill(MS + 30 * 12_112);
    assert_eq!(names(&flow(1, equal)), [""; 0]);
    // Of those that are compared there are enough, however many there were before the first mark.
    let with_fewer = |sort: usize, rtts: usize| {
        let mut made = made.clone();
        let step = made.exact_rtts[sort].len() / rtts;
        made.exact_rtts[sort] =
            made.exact_rtts[sort].iter().copied().step_by(step).take(rtts).collect();
        names(&flow(1, made))
    };
    for sort in 0..2 {
        assert_eq!(with_fewer(sort, 50), ["marking-threshold"]);
        assert_eq!(with_fewer(sort, 49), [""; 0]);
    }
    // Before the first mark many were above K, too.
    let with_before = |above: u64| {
        let mut made = made.clone();
        (0..above).for_each(|at| made.rtt.add(MS + 38 * 12_112, at));
        names(&flow(1, made))
    };
    assert_eq!(with_before(100), ["marking-threshold"]);
    assert_eq!(with_before(200), [""; 0]);
    // A queue that rose twice shows where marks began then.
    let with_changes = |changes: usize| {
        let mut made = made.clone();
        made.events.truncate(changes);
        names(&flow(1, made))
    };
    assert_eq!(with_changes(6), ["marking-threshold"]);
    assert_eq!(with_changes(5), [""; 0]);
    // ACKs of which some come at twice the rate of others, or at more than the sender's link has.
    let mut compressed = made.clone();
    (0..80).for_each(|at| compressed.ack_rate_bps.add(1_912_800_000, at));
    assert_eq!(names(&flow(1, compressed)), [""; 0]);
    let with_link =
        |bps: f64| names(&flow(1, Direction { link_rate_bps: Some(bps), ..made.clone() }));
    assert_eq!(with_link(956e6), ["marking-threshold"]);
    assert_eq!(with_link(500e6), [""; 0]);
    // The handshake was faster than any data: the queue was never empty, and 10 packets are no longer seen.
    let mut late = flow(1, made);
    late.handshake.rtt_to_b_ns = Some(MS - 20 * 12_112);
    assert_eq!(names(&late), [""; 0]);
}

#[test]
fn ece_that_stops_without_a_cwr_is_not_endless() {
    let with = |kind, ended_without_cwr| {
        let mut made = data();
        made.receiver =
            Receiver { kind, held_without_cwr: 1, ended_without_cwr, ..Receiver::default() };
        made.ecn.ece = 300;
        names(&flow(1, made))
    };
    assert_eq!(with(ReceiverKind::Classic, 0), ["endless-ece"]);
    assert_eq!(with(ReceiverKind::Unknown, 1), [""; 0]);
    assert_eq!(with(ReceiverKind::Dctcp, 0), [""; 0]);
    assert_eq!(with(ReceiverKind::Accurate, 0), [""; 0]);
}

#[test]
fn two_modes_are_coalescing_if_the_small_windows_have_the_longer_one() {
    let with = |small_ns: u64, large_ns: u64| {
        let mut made = data();
        for at in 0..100 {
            let (segments, rtt) = if at % 2 == 0 { (8, small_ns) } else { (80, large_ns) };
            made.rounds.push(round(at * 3 * MS, segments, rtt));
            (0..segments).for_each(|_| made.rtt.add(rtt, at));
        }
        names(&flow(1, made))
    };
    assert!(with(1300 * US, 60 * US).contains(&"rtt-bimodal"));
    // The other way round it is a queue that grows with the window.
    assert!(!with(60 * US, 1300 * US).contains(&"rtt-bimodal"));
    // Twice is a queue of a BDP.
    assert!(!with(120 * US, 60 * US).contains(&"rtt-bimodal"));
}

#[test]
fn two_modes_are_a_queues_if_most_small_windows_have_the_shorter_one() {
    let with = |long_of_small: u64, large: u64| {
        let mut made = data();
        for at in 0..120 {
            let (segments, rtt) = match at % 12 {
                turn if turn < long_of_small => (8, 1300 * US),
                0..6 => (8, 60 * US),
                _ => (large, 60 * US),
            };
            made.rounds.push(round(at * 3 * MS, segments, rtt));
            (0..20).for_each(|_| made.rtt.add(rtt, at));
        }
        names(&flow(1, made)).contains(&"rtt-bimodal")
    };
    assert!(with(6, 80) && with(4, 80) && with(4, 11));
    assert!(!with(3, 80) && !with(2, 80));
    // Of about the same size: a queue of other flows came.
    assert!(!with(6, 10) && !with(6, 9));
}

#[test]
fn a_queue_stands_that_never_holds_less_than_a_bdp() {
    let with = |rtts: [u64; 2]| {
        let mut made = data();
        made.rtt.add(MS, 1);
        made.rounds.extend((0..60).map(|at| round(at * 4 * MS, 80, rtts[at as usize % 2])));
        names(&flow(1, made))
    };
    assert_eq!(with([2 * MS, 3 * MS]), ["standing-queue"]);
    assert_eq!(with([2 * MS - 1, 4 * MS]), [""; 0]);
}

#[test]
fn a_queue_that_dctcps_marks_hold_or_that_others_make_is_no_standing_one() {
    let with = |kind, marked_ns: u64, segments| {
        let mut made = data();
        made.receiver.kind = kind;
        made.rtt.add(MS, 1);
        (0..40).for_each(|at| made.rtt_marked.add(marked_ns, at));
        made.rounds.extend((0..60).map(|at| round(at * 4 * MS, segments, 3 * MS)));
        names(&flow(1, made))
    };
    assert_eq!(with(ReceiverKind::Dctcp, 4 * MS, 80), [""; 0]);
    // Marks begin far below what stands, or the sender takes them for losses.
    assert_eq!(with(ReceiverKind::Dctcp, 2 * MS, 80), ["standing-queue"]);
    assert_eq!(with(ReceiverKind::Classic, 4 * MS, 80), ["standing-queue"]);
    // Of three segments in flight two wait: the sender cannot have less.
    assert_eq!(with(ReceiverKind::Unknown, 4 * MS, 3), [""; 0]);
}

#[test]
fn bursts_are_faster_than_what_is_sent_on_average() {
    // 2000 segments in this time, 50 in each round trip of 1 ms, back to back within this.
    let with = |flow_ms: u64, burst_us: u64| {
        let mut made = data();
        (made.segments, made.duration_ns, made.ecn.ece) = (2000, flow_ms * MS, 1);
        for at in 0..40 {
            made.bursts.add(50, at);
            made.rtt.add(MS, at);
            let (largest_burst_segments, largest_burst_ns) = (50, burst_us * US);
            made.rounds.push(Round {
                largest_burst_segments,
                largest_burst_ns,
                ..round(at * flow_ms * MS / 40, 50, MS)
            });
        }
        names(&flow(1, made))
    };
    assert_eq!(with(40, 100), ["sender-bursts"]);
    assert_eq!(with(100, 100), ["sender-bursts"]);
    // The host's link is busy all the time, or for the time of each transfer.
    assert_eq!(with(40, 900), [""; 0]);
    assert_eq!(with(100, 900), [""; 0]);
    // The flow as a whole is faster than the round trips with bursts.
    assert_eq!(with(20, 300), ["sender-bursts"]);
    assert_eq!(with(20, 400), [""; 0]);
}

#[test]
fn a_largest_flight_that_stood_in_a_queue_is_no_room_for_more() {
    // 80 segments in flight once, at most this long; 15 from then on.
    let with = |longest_ns: u64| {
        let mut made = data();
        made.max_inflight_bytes = 80 * MSS;
        made.rounds.push(Round { rtt_max_ns: Some(longest_ns), ..round(0, 80, MS) });
        made.rounds.extend((1..40).map(|at| round(at * 10 * MS, 15, MS)));
        made.rtt.add(MS, 1);
        names(&flow(1, made))
    };
    assert_eq!(with(MS), ["application-limited"]);
    assert_eq!(with(2 * MS), ["application-limited"]);
    assert_eq!(with(4 * MS), [""; 0]);
}

#[test]
fn a_path_changes_where_packets_overtake_and_no_smaller_window_makes_the_rtt_shorter() {
    // What is needlessly retransmitted by this at 100 ms, with RTTs of 2 ms before and 1 ms behind, and so many segments in flight.
    let with_all = |kind, segments: [u64; 2], is_lost: bool, idle_ns: u64| {
        let mut made = data();
        made.events.push(event(kind, 100 * MS, MS));
        let proof = Event { earlier: Some(100_000), ..event(EventKind::Spurious, 101 * MS, 0) };
        made.events.push(proof);
        made.rounds.extend((0..50).map(|at| round(at * 2 * MS, segments[0], 2 * MS)));
        made.rounds.extend((0..50).map(|at| round((100 + at) * MS, segments[1], MS)));
        made.ack_rate_bps.add(1_000_000_000, 1);
        let begin_ns = 95 * MS;
        if is_lost {
            made.losses.push(Span { begin_ns, end_ns: begin_ns, bytes: MSS, segments: 1 });
        }
        made.rounds[51].idle_ns = idle_ns;
        names(&flow(1, made))
    };
    let with = |kind, segments, is_lost| with_all(kind, segments, is_lost, 0);
    let fast = EventKind::FastRetransmission;
    assert!(with(fast, [40, 40], false).contains(&"path-change"));
    // 20 segments take 0.23 ms at 1 Gbps, 80 nearly 1 ms.
    assert!(with(fast, [40, 20], false).contains(&"path-change"));
    assert!(!with(fast, [100, 20], false).contains(&"path-change"));
    // Behind an idle time others may have gone.
    assert!(!with_all(fast, [40, 40], false, MS).contains(&"path-change"));
    // A full queue is shorter behind losses, since others lose too.
    assert!(!with(fast, [40, 40], true).contains(&"path-change"));
    for by_timer in [EventKind::TailLossProbe, EventKind::Rto, EventKind::RetransmissionAfterRto] {
        assert!(!with(by_timer, [40, 40], false).contains(&"path-change"));
    }
}

#[test]
fn paths_may_be_as_long_as_a_capture_says() {
    let mut analysis = together(&[20, 41, 20]);
    for flow in &mut analysis.flows {
        flow.handshake.rtt_to_b_ns = Some(u64::MAX / 4);
        flow.end_ns = u64::MAX;
        let data = &mut flow.a_to_b;
        (0..100).for_each(|turn| data.rtt.add(u64::MAX >> (turn % 3 * 10), turn));
        for turn in 1..3 {
            let at_ns = u64::MAX / 4 * turn;
            let timeout = event(EventKind::Rto, at_ns, at_ns);
            data.events.extend([timeout, Event { kind: EventKind::OutOfOrder, ..timeout }]);
            data.rounds.push(Round { idle_ns: u64::MAX - 1, ..round(at_ns, 10, u64::MAX / 4) });
            data.losses.push(Span { begin_ns: at_ns, end_ns: at_ns, bytes: MSS, segments: 8 });
        }
        data.sending.push(Span { begin_ns: 0, end_ns: u64::MAX, bytes: 900 * MSS, segments: 900 });
    }
    for finding in findings(&analysis) {
        assert!(!finding.summary.is_empty());
    }
}

/// 60 losses at these times of periods of 10 ms, each 5 ms at 50 Mbps and 5 ms at 150 Mbps: a bucket of 100 Mbps and 31 kB is empty at
/// their ends. With this RTT in the round trips of the losses.
fn lossy(loss_us: impl Fn(u64) -> u64, rtt_ns: u64) -> Flow {
    let mut made = data();
    for period in 0..60_u64 {
        let begin_ns = period * 10 * MS;
        for ms in 0..10 {
            let bytes = if ms < 5 { 6250 } else { 18_750 };
            let at_ns = begin_ns + ms * MS;
            made.sending.push(Span { begin_ns: at_ns, end_ns: at_ns + MS, bytes, segments: 1 });
            made.rounds.push(round(at_ns, 1, rtt_ns));
        }
        let at_ns = begin_ns + loss_us(period) * US;
        made.losses.push(Span { begin_ns: at_ns, end_ns: at_ns, bytes: MSS, segments: 1 });
        made.events.push(event(EventKind::FastRetransmission, at_ns + MS, MS));
        made.retransmitted.segments += 1;
        made.retransmitted.fast += 1;
    }
    (0..1000).for_each(|at| made.rtt.add(MS + at % 100 * US, at));
    flow(1, made)
}

#[test]
fn a_policer_drops_when_its_bucket_is_empty() {
    let found = of_flow(&lossy(|_| 9_900, MS));
    let policer = found.iter().find(|finding| finding.kind == "policer").unwrap();
    // 125 kB in 10 ms, less the packet that is lost; 5 ms at 50 Mbps more than that.
    let after = |words: &str| -> f64 {
        let behind = policer.summary.split(words).nth(1).unwrap();
        behind.split(' ').next().unwrap().parse().unwrap()
    };
    let depth = after("nearly all with ");
    let rates: Vec<f64> = policer
        .summary
        .split(" Mbps")
        .filter_map(|before| before.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(rates.iter().any(|rate| (97.0..103.0).contains(rate)), "{}", policer.summary);
    assert!((29.0..35.0).contains(&depth), "{}", policer.summary);
    // At any time, or where those that pass wait for what is before them.
    assert!(!names(&lossy(|period| 1 + period * 5557 % 9_990, MS)).contains(&"policer"));
    assert!(!names(&lossy(|_| 9_900, 3 * MS)).contains(&"policer"));
}

#[test]
fn no_policer_is_where_a_link_sends_each_segment_at_that_rate() {
    // A segment takes 0.12 ms at the bucket's rate.
    let with = |later_ns: u64| {
        let mut made = lossy(|_| 9_900, MS);
        made.handshake.rtt_to_b_ns = Some(MS - later_ns);
        names(&made).contains(&"policer")
    };
    assert!(with(50 * US));
    assert!(!with(115 * US));
}

#[test]
fn a_pair_of_many_lossy_flows_hides_no_policer_elsewhere() {
    // Losses of these know nothing of a level, and there are more of them.
    let mut flows: Vec<Flow> = (0..40_u32)
        .map(|id| {
            let mut made = lossy(|period| 1 + period * 5557 % 9_990, MS);
            made.a_to_b.losses.iter_mut().for_each(|lost| lost.segments = 2);
            Flow { id: 100 + id, connection: 100 + id, ..made }
        })
        .collect();
    let mut policed = lossy(|_| 9_900, MS);
    policed.a.set_ip([10, 0, 0, 2].into());
    flows.push(policed);
    let found = findings(&Analysis { flows, ..Analysis::default() });
    let policer = found.iter().find(|finding| finding.kind == "policer").unwrap();
    assert_eq!(policer.flows, [1]);
}

#[test]
fn losses_where_packets_wait_longer_than_the_path_takes_are_a_full_queues() {
    // Of a path of 0.2 ms. Two packets take 0.24 ms at the bucket's rate, and hosts 0.1 ms.
    let with = |rtt_ns: u64| {
        let mut made = lossy(|_| 9_900, rtt_ns);
        made.handshake.rtt_to_b_ns = Some(200 * US);
        // The soonest segment is as soon as the SYN.
        made.a_to_b.rtt.add(200 * US, 0);
        names(&made).contains(&"policer")
    };
    assert!(with(500 * US));
    assert!(!with(600 * US));
}

#[test]
fn an_ack_is_left_out_if_only_its_packet_could_have_caused_the_one_that_came() {
    let with = |duplicate_acks: u32, inflight_bytes: u64| {
        let mut made = data();
        let rto = Event {
            duplicate_acks,
            inflight_bytes,
            is_tail: true,
            ..event(EventKind::Rto, 300 * MS, 200 * MS)
        };
        made.events.push(rto);
        let mut made = flow(1, made);
        made.handshake.has_sack = Some(false);
        names(&made)
    };
    assert_eq!(with(1, MSS), ["ack-left-out", "rto-floor"]);
    // Nothing arrived, or another packet may have caused the ACK.
    assert_eq!(with(0, MSS), ["rto-floor"]);
    assert_eq!(with(1, 2 * MSS), ["rto-floor"]);
}

#[test]
fn an_ack_that_a_timer_overtakes_is_delayed_or_left_out() {
    // A probe or a timeout for one segment or two retransmitted what the receiver says it had.
    let with = |kind, lasted_ms: u64, duplicate_acks: u32, inflight_bytes: u64| {
        let mut made = data();
        let timer =
            Event { duplicate_acks, inflight_bytes, ..event(kind, 300 * MS, lasted_ms * MS) };
        let earlier = Some(timer.number);
        made.events.push(timer);
        made.events.push(Event { earlier, ..event(EventKind::Spurious, 301 * MS, 0) });
        let found = of_flow(&flow(1, made));
        let left_out = found.into_iter().find(|finding| finding.kind == "ack-left-out").unwrap();
        let is_delayed = left_out
            .summary
            .contains("the receiver delayed its ACK for longer than the sender's timer");
        assert_eq!(is_delayed, left_out.usually_means.contains("delays the ACK"));
        assert_eq!(is_delayed, left_out.try_this.contains("minimum RTO above"));
        (is_delayed, left_out.severity)
    };
    let (rto, probe) = (EventKind::Rto, EventKind::TailLossProbe);
    assert_eq!(with(rto, 11, 0, MSS), (true, Severity::Costs));
    assert_eq!(with(probe, 11, 0, MSS), (true, Severity::Note));
    // An ACK came that leaves it out; two segments do not wait for a delayed ACK, nor does it take so long.
    assert_eq!(with(rto, 11, 1, MSS), (false, Severity::Costs));
    assert_eq!(with(probe, 11, 1, MSS), (false, Severity::Note));
    assert_eq!(with(rto, 11, 0, 2 * MSS), (false, Severity::Costs));
    assert_eq!(with(rto, 300, 0, MSS), (false, Severity::Severe));
}

#[test]
fn a_timeout_of_a_few_round_trips_is_no_floor() {
    let mut made = data();
    made.events.push(event(EventKind::Rto, 300 * MS, 9 * MS));
    assert_eq!(names(&flow(1, made)), [""; 0]);
}

#[test]
fn a_delayed_ack_counts_where_the_sender_waited_for_it() {
    let with = |next_ns: u64, lasted_ns: u64| {
        let mut made = data();
        made.events.push(event(EventKind::DelayedAck, 100 * MS, lasted_ns));
        made.rounds.push(round(next_ns, 1, MS));
        names(&flow(1, made))
    };
    assert_eq!(with(100 * MS + 10 * US, 40 * MS), ["delayed-ack"]);
    assert_eq!(with(100 * MS + 10 * US, 200 * MS), ["delayed-ack"]);
    // The sender had nothing to send; the timer was none of a receiver's.
    assert_eq!(with(150 * MS, 40 * MS), [""; 0]);
    assert_eq!(with(100 * MS + 10 * US, 5 * MS), [""; 0]);
}

#[test]
fn what_is_said_of_more_events_than_are_kept_is_true_of_all() {
    // 600 timeouts of 200 ms in 120 s, of which the first 128 are kept, or as many as are there.
    let with = |kept: u64, timeouts: u64| {
        let mut made = data();
        for turn in 1..=kept {
            let rto = event(EventKind::Rto, turn * 200 * MS, 200 * MS);
            made.events.extend([rto, Event { kind: EventKind::TailLoss, ..rto }]);
        }
        made.retransmitted.rto = timeouts;
        made.rto_stall_ns = timeouts * 200 * MS;
        let mut made = flow(1, made);
        made.end_ns = 120_000 * MS;
        of_flow(&made).into_iter().map(|finding| finding.summary).collect::<Vec<_>>()
    };
    let all = with(127, 127);
    assert!(all[0].starts_with("127 retransmission timeouts of at least 200 ms"), "{all:?}");
    assert!(all[0].contains("in all 25.4 s or 21 % of"), "{all:?}");
    assert!(all[1].starts_with("The tail was lost 127 times"), "{all:?}");
    let some = with(128, 600);
    assert!(
        some[0].contains("600 retransmission timeouts, in all 120.0 s or 100 % of"),
        "{some:?}"
    );
    assert!(some[0].contains("128 of the first 128 took at least 200 ms"), "{some:?}");
    assert!(some[1].starts_with("The tail was lost at least 128 times"), "{some:?}");
    // Others of this many say that there may be more.
    let mut late = data();
    for turn in 0..128 {
        late.events.push(event(EventKind::DelayedAck, turn * 50 * MS + 40 * MS, 40 * MS));
        late.rounds.push(round(turn * 50 * MS + 40 * MS, 1, MS));
    }
    let found = of_flow(&Flow { end_ns: 7000 * MS, ..flow(1, late) });
    assert!(found[0].summary.contains("at least 128 times"), "{found:?}");
    assert!(found[0].summary.contains("at least 5120 ms or 73 %"), "{found:?}");
}

/// Senders 1, 2, ... to one receiver, with these segments per round trip.
fn together(segments: &[u64]) -> Analysis {
    let flows = segments.iter().enumerate().map(|(at, segments)| {
        let mut made = data();
        made.ecn.ece = 1;
        made.bytes_sent = 900 * segments * MSS;
        made.rounds = (0..900).map(|ms| round(ms * MS, *segments, MS)).collect();
        flow(at as u8 + 1, made)
    });
    Analysis { flows: flows.collect(), ..Analysis::default() }
}

#[test]
fn shares_follow_inputs_if_groups_of_other_sizes_get_the_same() {
    let found = |segments: &[u64]| {
        let all = findings(&together(segments));
        all.into_iter().find(|finding| finding.kind == "shares-by-input")
    };
    let three = found(&[20, 41, 20]).unwrap();
    assert!(three.summary.contains("25 % each and 1 get 51 % each"), "{}", three.summary);
    assert!(found(&[20, 20, 20, 31, 29]).is_some());
    // Fair shares, unfair ones that are no groups, and two that may be anything.
    assert_eq!(found(&[20, 20, 20]), None);
    assert_eq!(found(&[10, 20, 40]), None);
    assert_eq!(found(&[20, 40]), None);
}

#[test]
fn an_incast_collapses_if_senders_wait_at_once_while_the_port_is_idle() {
    let found = |begins_ms: [u64; 5], while_waiting: u64| {
        let mut analysis = together(&[1; 5]);
        for (flow, begin_ms) in analysis.flows.iter_mut().zip(begins_ms) {
            flow.a_to_b.events.push(event(EventKind::Rto, (begin_ms + 200) * MS, 200 * MS));
        }
        let mut bytes = vec![100_000; 1000];
        bytes[110..290].fill(while_waiting);
        let to = analysis.flows[0].b.ip();
        analysis.whole.arrivals.push(Arrivals { point: 0, to, begin_ns: 0, bin_ns: MS, bytes });
        findings(&analysis).iter().any(|finding| finding.kind == "incast-collapse")
    };
    assert!(found([100, 101, 102, 100, 101], 0));
    // One after the other, or while others go on: no collapse.
    assert!(!found([0, 210, 420, 630, 799], 0));
    assert!(!found([100, 101, 102, 100, 101], 50_000));
}

#[test]
fn timeouts_of_thousands_of_flows_are_looked_at_in_time() {
    // 2000 flows, each with 128 timeouts of 200 ms, of so many hosts.
    let found = |hosts: u32| {
        let flows = (0..2000_u32).map(|id| {
            let mut made = data();
            made.bytes_sent = 128 * MSS;
            let ends = (1..=128).map(|turn| turn * 210 * MS + u64::from(id) * US);
            made.events = ends.map(|at_ns| event(EventKind::Rto, at_ns, 200 * MS)).collect();
            let mut made = flow(1, made);
            (made.id, made.connection, made.end_ns) = (id, id, 129 * 210 * MS);
            let [high, low] = ((id % hosts) as u16).to_be_bytes();
            made.a.set_ip([10, 1, high, low].into());
            made
        });
        let mut analysis = Analysis { flows: flows.collect(), ..Analysis::default() };
        let mut bytes = vec![100_000; 129 * 210];
        (1..=128).for_each(|turn| bytes[turn * 210 - 195..turn * 210 - 5].fill(0));
        let to = analysis.flows[0].b.ip();
        analysis.whole.arrivals.push(Arrivals { point: 0, to, begin_ns: 0, bin_ns: MS, bytes });
        findings(&analysis).iter().any(|finding| finding.kind == "incast-collapse")
    };
    let (send, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send([1, 2000].map(found)));
    // It takes a second or two; a look at all pairs of timeouts takes hours.
    let done = done.recv_timeout(std::time::Duration::from_secs(60));
    assert_eq!(done, Ok([false, true]));
}

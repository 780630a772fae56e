//! NICs whose interrupts wait, merging of what they bring, the account of CPU time, rate limits of sockets, losses of
//! whole bursts (queues.md sec. 12, experiments.md sec. 5 and 7.2), and when an application is woken.

use crate::common::*;
use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{HostCount, Outcome};
use knee_run::spec::{
    Adaptive, ByRate, Coalesce, CpuCosts, Dim, DimMode, Flow, HostConfig, LinuxVersion, Ping, Run,
    Since,
};
use knee_sim::tap::{Side, TapAt, Tapped};
use knee_wire::Segment;
use std::cell::RefCell;
use std::rc::Rc;

fn waits(frames: Option<u32>, time: Duration) -> Option<Coalesce> {
    Some(Coalesce::fixed(frames, time))
}

/// What the receiver counted.
fn received(outcome: &Outcome, path: &Path) -> HostCount {
    let of_receiver = |count: &&HostCount| count.node == path.receiver_id();
    outcome.host_counts.iter().find(of_receiver).cloned().expect("it counts")
}

#[test]
fn a_lone_packet_waits_for_the_timer_at_each_host_that_coalesces() {
    let rtt = |sender: Option<Coalesce>, receiver: Option<Coalesce>| {
        let mut path = Path::new(us(60));
        (path.sender.coalesce, path.receiver.coalesce) = (sender, receiver);
        let mut run = path.run(Vec::new());
        run.end = at_ms(15);
        run.pings = vec![Ping {
            from: 0,
            to: path.receiver_id(),
            start: Time::ZERO,
            interval: ms(10),
            wire_bytes: 106,
            ecn: Ecn::NotEct,
            dscp: 0,
            one_way_until: None,
        }];
        simulate(&run).pings[0].rtt.expect("it comes back")
    };
    let alone = rtt(None, None);
    assert_eq!(rtt(None, waits(Some(64), ms(1))), alone + ms(1));
    assert_eq!(rtt(waits(Some(64), us(50)), waits(Some(64), ms(1))), alone + us(1050));
    // An interrupt for each frame is none that waits.
    assert_eq!(rtt(None, waits(Some(1), ms(1))), alone);
    // After a pause the interrupt before is long ago, and the first packet is the last one, too.
    let since = |since| Some(Coalesce { since, ..Coalesce::fixed(Some(64), ms(1)) });
    assert_eq!(rtt(None, since(Since::Interrupt)), alone);
    assert_eq!(rtt(None, since(Since::Last)), alone + ms(1));
    // DIM begins with 8 us.
    assert_eq!(rtt(None, Some(Dim::new(DimMode::Eqe).coalesce())), alone);
    assert_eq!(rtt(None, Some(Dim::new(DimMode::Cqe).coalesce())), alone + us(8));
    // Few packets a second are not worth waiting for.
    let adaptive = Some(Adaptive::Rate(ByRate::default()));
    assert_eq!(rtt(None, Some(Coalesce { adaptive, ..Coalesce::fixed(None, ms(1)) })), alone);
}

#[test]
fn a_window_that_fills_the_count_does_not_wait() {
    let fct = |coalesce: Option<Coalesce>| {
        let mut path = Path::new(us(60));
        path.sender.initial_cwnd_pkts = 40;
        path.receiver.coalesce = coalesce;
        fct_ns(&one(&path, path.bulk("reno", 40 * MSS)))
    };
    let at_once = fct(None);
    // The SYN waits alone. The handshake's ACK and 40 segments are 41 frames: the last brings the interrupt.
    assert_eq!(fct(waits(Some(41), ms(1))), at_once + 1_000_000);
    // One frame more and they wait for the timer, which the ACK has started, and with it segment 0; segment 39 comes
    // (39 * 1514 - 20) * 8 ns later.
    let last_ns = (39 * u64::from(FULL) - 20) * 8;
    assert_eq!(fct(waits(Some(42), ms(1))), at_once + 1_000_000 + (1_000_000 - last_ns));
    // Or for as long after the last segment; a time longer than the gap of two packets waits for the count alone.
    let after_last =
        |frames, time| fct(Some(Coalesce { since: Since::Last, ..Coalesce::fixed(frames, time) }));
    assert_eq!(after_last(Some(42), ms(1)), at_once + 2_000_000);
    assert_eq!(after_last(Some(41), ms(1)), at_once + 1_000_000);
}

#[test]
fn applications_run_when_all_packets_of_an_interrupt_are_handled() {
    // What the application has not read takes its room in a small buffer, so each ACK offers less.
    let windows = |coalesce| {
        let mut path = Path::new(us(60)).hosts(|host| {
            (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (65_536, 65_536);
        });
        path.receiver.coalesce = coalesce;
        let run = path.run(vec![path.bulk("reno", 10 * MSS)]);
        let windows = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&windows);
        let each = move |tapped: Tapped| {
            let Segment { ack, window_bytes, .. } = tapped.segment;
            sink.borrow_mut().extend((tapped.is_out && ack > 1).then_some(window_bytes));
        };
        let at = TapAt { flow: 0, side: Side::Listening };
        knee_sim::simulate_tapped(&run, at, each).expect("the run is well-formed");
        windows.take()
    };
    let one_by_one = windows(None);
    assert!(one_by_one.windows(2).all(|pair| pair[0] <= pair[1]), "{one_by_one:?}");
    let at_once = windows(waits(None, ms(1)));
    assert!(at_once.len() > 5, "{at_once:?}");
    assert!(at_once.windows(2).all(|pair| pair[0] > pair[1]), "{at_once:?}");
}

/// Ten segments at once to a host that merges; every cost is another power of ten.
fn ten_segments(gro: bool) -> (Outcome, Path) {
    let mut path = Path::new(us(60));
    path.receiver.coalesce = waits(None, ms(1));
    path.receiver.gro = gro;
    path.receiver.cpu = Some(CpuCosts {
        per_interrupt: Duration::from_ns(100_000_000),
        per_packet: Duration::from_ns(1_000_000),
        per_merged: Duration::from_ns(10_000),
        per_ack: Duration::from_ns(1000),
        per_ack_sent: Duration::from_ns(10),
        per_burst: Duration::from_ns(1),
        per_byte: Duration::ZERO,
    });
    let outcome = simulate(&path.run(vec![path.bulk("reno", 10 * MSS)]));
    (outcome, path)
}

#[test]
fn what_one_interrupt_brings_is_merged_and_acknowledged_once() {
    let (outcome, path) = ten_segments(true);
    let count = received(&outcome, &path).received;
    // SYN; ACK and ten segments, which become one.
    assert_eq!((count.wire_pkts, count.merged_pkts), (Some(12), Some(3)));
    assert_eq!(count.interrupts, Some(2));
    assert_eq!(outcome.flows[0].counters.acks_sent, Some(1));
    assert_eq!(count.cpu_ns, Some(2 * 100_000_000 + 12 * 1_000_000 + 3 * 10_000 + 1000 + 10));

    let (apart, path) = ten_segments(false);
    let count = received(&apart, &path).received;
    assert_eq!((count.wire_pkts, count.merged_pkts), (Some(12), Some(12)));
    assert!(apart.flows[0].counters.acks_sent > Some(1));
}

#[test]
fn marks_keep_packets_apart() {
    // One of the burst is marked: those before it, it, and those behind it are three merges.
    let mut path = Path::new(us(60)).hosts(|host: &mut HostConfig| host.tcp_ecn = 1);
    path.receiver.coalesce = waits(None, ms(1));
    path.receiver.gro = true;
    path.sender.initial_cwnd_pkts = 10;
    // Segment k finds k - 1 or k waiting; from 8 full packets on they are marked.
    path.queue = marking(8, knee_queue::NotEctAbove::Queue);
    let outcome = simulate(&path.run(vec![path.bulk("dctcp", 10 * MSS)]));
    let ce = outcome.flows[0].counters.ce_segs_received;
    let count = received(&outcome, &path).received;
    // A run of marked segments at the end is one merge of its own.
    assert_eq!(ce, Some(1));
    assert_eq!((count.wire_pkts, count.merged_pkts), (Some(12), Some(4)));
}

#[test]
fn windows_of_merging_are_counted_too() {
    let mut path = Path::new(us(60));
    path.receiver.gro_window = us(200);
    let outcome = simulate(&path.run(vec![path.bulk("reno", 10 * MSS)]));
    let count = received(&outcome, &path).received;
    // Segments 0 to 9 come within 109 us: one window. SYN and ACK come alone.
    assert_eq!((count.wire_pkts, count.merged_pkts), (Some(12), Some(3)));
    assert_eq!((count.interrupts, count.cpu_ns), (Some(3), None));
}

/// One second of a flow limited to 48 Mbps.
fn limited(set: impl Fn(&mut HostConfig)) -> Outcome {
    let mut path = Path::new(us(200)).hosts(|host| {
        host.gso_max_segs = 64;
        // Before Linux 5.18 bursts did not grow on short paths.
        host.sysctls.tso_rtt_log = 0;
    });
    set(&mut path.sender);
    let mut flow = path.bulk("cubic", None);
    flow.max_pacing_rate = Some(mbps(48));
    let mut run = path.run(vec![flow]);
    run.end = at_ms(1000);
    simulate(&run)
}

#[test]
fn a_limited_socket_sends_a_millisecond_in_each_burst() {
    // 6e6 / 1024 = 5859 bytes are four segments of 1448. So there are 6e6 / 5792 = 1036 bursts where each is filled from the next skb,
    // and 12 of each skb of 45 segments where the last has what is left: 6e6 / 1448 / 45 * 12 = 1105.
    for (linux, bursts, per_burst) in [
        (LinuxVersion(6, 12), 1025..=1045, 3.95..=4.0),
        (LinuxVersion(6, 1), 1095..=1115, 3.7..=3.77),
    ] {
        let outcome = limited(|host| host.linux = linux);
        let flow = &outcome.flows[0];
        // 48 Mbps are 6 MB of payload a second, less the ends of the run.
        assert!((5_950_000..=6_020_000).contains(&flow.received_bytes), "{}", flow.received_bytes);
        let counters = flow.counters.complete().expect("all are known");
        assert!(bursts.contains(&counters.bursts), "{linux}: {}", counters.bursts);
        let each = counters.data_segs_sent as f64 / counters.bursts as f64;
        assert!(per_burst.contains(&each), "{linux}: {each}");
        // Each but the unpaced first ones waits for the timer.
        let timers = counters.pacing_timers;
        assert!(timers.abs_diff(counters.bursts) <= 10, "{linux}: {timers}");
    }
}

#[test]
fn fq_paces_without_the_sockets_timer_and_may_count_headers() {
    let by_payload = &limited(|host| host.fq = true).flows[0];
    assert_eq!(by_payload.counters.pacing_timers, Some(0));
    assert!((5_950_000..=6_020_000).contains(&by_payload.received_bytes));
    let with_headers = &limited(|host| (host.fq, host.fq_counts_headers) = (true, true)).flows[0];
    let ratio = by_payload.received_bytes as f64 / with_headers.received_bytes as f64;
    assert!((ratio - 1514.0 / 1448.0).abs() < 0.003, "{ratio}");
}

#[test]
fn whole_bursts_are_lost_where_they_are_lost_whole() {
    let mut seen = Vec::new();
    for seed in 0..40 {
        let mut path = Path::new(us(200)).hosts(|host| host.gso_max_segs = 64);
        path.loss = 0.5;
        let mut run = path.run(vec![path.bulk("reno", 10 * MSS)]);
        run.seed = seed;
        // Before an ACK of data is back, and anything is sent again.
        run.end = at_us(390);
        run.network.links.iter_mut().for_each(|link| link.loses_bursts = link.loss > 0.0);
        let outcome = simulate(&run);
        seen.push(outcome.queues.iter().map(|queue| queue.lost_pkts).sum::<u64>());
    }
    // Half of ten segments is a burst; the SYN or the handshake's ACK may be lost beside them.
    assert!(seen.iter().all(|lost| lost % 5 <= 1), "{seen:?}");
    assert!(
        [5, 10].iter().all(|lost| seen.contains(lost) || seen.contains(&(lost + 1))),
        "{seen:?}"
    );
}

#[test]
fn who_waits_for_much_is_woken_where_it_will_not_fit() {
    // A window of 32 KiB closes at 64 KiB wanted. Measured with the real stack: 1612 ms.
    let path = Path::new(ms(10)).hosts(|host| {
        (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (65_536, 65_536);
    });
    let flow = one(&path, Flow { read_at_bytes: 65_536, ..path.bulk("reno", 4_000_000) });
    assert!((1_000_000_000..2_000_000_000).contains(&fct_ns(&flow)), "{flow:?}");
    // 44 segments of the 46 are charged 44 * (1448 + 1216) B, more than 7/8 of 128 KiB.
    let path = Path { rate: mbps(100), ..Path::new(ms(100)) }.hosts(|host| {
        host.skb_overhead_bytes = 1216;
        (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (128 << 10, 6 << 20);
    });
    let flow = Flow { read_at_bytes: 65_536, ..path.bulk("reno", None) };
    let run = Run { end: at_ms(600), ..path.run(vec![flow]) };
    let acks = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&acks);
    let at = TapAt { flow: 0, side: Side::Listening };
    let each = move |tapped: Tapped| {
        let Segment { ack, window_bytes, .. } = tapped.segment;
        sink.borrow_mut().extend(tapped.is_out.then_some((ack, window_bytes)));
    };
    knee_sim::simulate_tapped(&run, at, each).expect("the run is well-formed");
    // Until it reads, the window closes.
    let acks = acks.borrow();
    let mut pairs = acks.windows(2).skip(2);
    let opened = pairs.find(|pair| pair[1].1 > pair[0].1 + 16_384).expect("it reads")[1].0;
    assert_eq!((opened - 1) / MSS as u32, 44);
}

/// From 6.12 on the buffer grows by what was read less what still waits behind the first skb, so it depends on how much
/// joins in one.
#[test]
fn segments_that_wait_join() {
    let mbps_of = |linux, rcvbuf_max_bytes, max_skb_frags| {
        let path = Path::new(ms(5)).hosts(|host| {
            host.linux = linux;
            (host.skb_overhead_bytes, host.max_skb_frags) = (832, max_skb_frags);
            host.max_tcp_header_bytes = 192;
            (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (128 << 10, rcvbuf_max_bytes);
        });
        let flow = Flow { read_at_bytes: 65_536, ..path.bulk("cubic", None) };
        let run = Run { end: at_ms(1000), ..path.run(vec![flow]) };
        simulate(&run).flows[0].received_bytes as f64 * 8.0 / 1e6
    };
    // What guests of these kernels have in virtual time (notebook/vkernel.md).
    for (linux, rcvbuf_max_bytes, guest) in [
        (LinuxVersion(6, 1), 6 << 20, 926.7),
        (LinuxVersion(6, 12), 6 << 20, 922.1),
        (LinuxVersion(7, 3), 6 << 20, 917.0),
        (LinuxVersion(6, 1), 128 << 10, 78.35),
        (LinuxVersion(6, 12), 128 << 10, 99.92),
    ] {
        let got = mbps_of(linux, rcvbuf_max_bytes, 17);
        // Their queue and the way to it are not quite the same.
        assert!((got / guest - 1.0).abs() < 0.01, "{linux}: {got} Mbps, {guest}");
    }
    // One by one, a read of a whole window leaves nothing to grow by.
    assert!(mbps_of(LinuxVersion(6, 12), 6 << 20, 1) < 120.0);
}

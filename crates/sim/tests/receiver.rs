//! The receiving side: when it acknowledges and how much window it gives (tcp_sender_model.md sec. 8, 11).

mod common;

use common::*;
use knee_queue::Limit;
use knee_queue::time::Time;
use knee_run::outcome::FlowOutcome;
use knee_run::spec::{Flow, LinuxVersion, Run};
use knee_sim::tap::{Side, TapAt};
use std::cell::RefCell;
use std::rc::Rc;

/// A receive buffer that never changes.
fn fixed(path: Path, bytes: u32) -> Path {
    path.hosts(|host| {
        host.rcvbuf_initial_bytes = bytes;
        host.rcvbuf_max_bytes = bytes;
    })
}

/// 40 packets of 1460: window and window limit are equal from the start, so that it never grows.
const NEVER_GROWS: u32 = 2 * 40 * 1460;

fn acks(path: &Path, segments: u64) -> u64 {
    let flow = one(path, path.bulk("reno", segments * MSS));
    assert_eq!(flow.counters.complete().expect("all are known").retransmitted_segs, 0);
    flow.counters.complete().expect("all are known").acks_sent
}

#[test]
fn each_segment_that_lets_the_window_grow_is_acknowledged() {
    // 8 MiB: the window limit grows by 2 MSS per segment from 65535 to 4 MiB: 1426 segments. The 16 quick
    // ACKs of the start are left for after that; then every second segment gets one.
    let path = fixed(Path::new(us(200)), 8 << 20);
    // Measured with the real stack: 1442 of 1442.
    assert_eq!(acks(&path, 100), 100);
    assert_eq!(acks(&path, 1442), 1442);
    let more = acks(&path, 1442 + 1000);
    assert!((1442 + 500..=1442 + 502).contains(&more), "{more}");
}

#[test]
fn without_growth_sixteen_segments_are_acknowledged_one_by_one() {
    let path = fixed(Path::new(us(200)), NEVER_GROWS);
    assert_eq!(acks(&path, 16), 16);
    let more = acks(&path, 16 + 100);
    assert!((16 + 50..=16 + 54).contains(&more), "{more}");
}

#[test]
fn a_long_write_is_pushed_after_each_half_of_the_window() {
    // And a full segment with PSH is acknowledged when it is read: measured with the real stack are 69
    // ACKs for 116 segments where 66 would do, and 1943 where 1942 would.
    assert_eq!(acks(&fixed(Path::new(us(200)), NEVER_GROWS), 116), 69);
    let with_large_buffer = acks(&fixed(Path::new(us(200)), 8 << 20), 2442);
    assert!((1942..=1944).contains(&with_large_buffer), "{with_large_buffer}");
}

#[test]
fn an_odd_segment_is_acknowledged_after_40_ms() {
    // 18 segments at once from 100 ms on, of which the last is lost: 16 are acknowledged one by one. The
    // 17th arrives at 100 ms + (16 * 1514 - 20) * 8 ns = 100.19 ms = jiffy 100; its ACK is due in 40
    // jiffies and leaves at 100 + 40 + 1 = 141 ms; it takes 100 ms.
    let mut path = fixed(Path::new(ms(100)), NEVER_GROWS);
    path.queue = droptail(Limit::Pkts(16));
    path.sender.initial_cwnd_pkts = 18;
    let outcome = sampled(path.run(vec![path.bulk("reno", 18 * MSS)]), us(10));
    // The SYN counts as delivered.
    let acked = |segments: u32| {
        let found = outcome.flow_samples.iter().find(|sample| sample.delivered == 1 + segments);
        found.map(|sample| sample.at)
    };
    assert!(acked(16).is_some_and(|at| at < at_us(200_200)));
    assert_eq!(acked(17), Some(at_us(241_000)));
}

#[test]
fn the_end_of_a_write_is_acknowledged_when_it_is_read() {
    // The 17th and last segment, short or full (with PSH), comes when no quick ACKs are left; the
    // application reads it at once.
    let path = fixed(Path::new(us(200)), NEVER_GROWS);
    for last_bytes in [100, MSS] {
        let flow = one(&path, path.bulk("reno", 16 * MSS + last_bytes));
        assert_eq!(
            flow.counters.complete().expect("all are known").acks_sent,
            17,
            "{last_bytes} bytes"
        );
    }
}

#[test]
fn in_request_and_response_the_answers_carry_the_acknowledgements() {
    // Measured with the real stack: 20 exchanges of 1000 bytes each way take 20 round trips, and the
    // server sends one ACK by itself (to the first request, in quick-ACK mode).
    let path = Path::new(us(200));
    let outcome = simulate(&path.run(vec![path.rpc("reno", 1000, 1000, 20)]));
    let flow = &outcome.flows[0];
    assert_eq!(fct_ns(flow), 21 * 200_000);
    assert_eq!(flow.counters.complete().expect("all are known").acks_sent, 1);
    assert_eq!(outcome.rpcs.len(), 20);
    assert!(outcome.rpcs.iter().all(|rpc| rpc.latency == us(200)));
    // Each begins when the one before has ended.
    for pair in outcome.rpcs.windows(2) {
        assert_eq!(pair[0].start + pair[0].latency, pair[1].start);
    }
}

#[test]
fn a_small_receive_buffer_limits_the_rate_to_a_window_per_round_trip() {
    // 65536 bytes, of which half is window: 21 or 22 segments per 10 ms. Measured with the real stack: 4 MB
    // in 1380 ms.
    let path = fixed(Path::new(ms(10)), 65_536);
    let flow = one(&path, path.bulk("reno", 4_000_000));
    let took_ms = fct_ns(&flow) / 1_000_000;
    assert!((1365..=1395).contains(&took_ms), "{took_ms}");
    // More buffer, more rate.
    let path = fixed(Path::new(ms(10)), 4 * 65_536);
    assert!(fct_ns(&one(&path, path.bulk("reno", 4_000_000))) < 500_000_000);
}

#[test]
fn the_receive_buffer_grows_with_the_rate() {
    // From 128 kB, as by default. Measured with the real stack: 10 MB at 1 Gbps and 10 ms in 148.8 ms;
    // without tuning a window of 64 kB would take 1.6 s.
    let path = Path::new(ms(10)).hosts(|host| {
        host.rcvbuf_initial_bytes = 131_072;
        host.rcvbuf_max_bytes = 6 << 20;
    });
    let took_us = fct_ns(&one(&path, path.bulk("reno", 10_000_000))) / 1000;
    assert!((145_000..152_000).contains(&took_us), "{took_us}");
}

fn odd_hole(path: &Path) -> FlowOutcome {
    one(path, path.bulk("reno", 2000 * MSS))
}

#[test]
fn beyond_the_first_duplicates_sacks_are_compressed() {
    // Slow start overflows a buffer of 50; behind the first hole come some hundred segments 121 us apart.
    // 5 % of the RTT of 20 ms is 1 ms: one ACK per 9 or so. Without SACK each has its own.
    let mut path = Path { rate: mbps(100), ..Path::new(ms(20)) };
    path.queue = droptail(Limit::Pkts(50));
    let with_sack = odd_hole(&path);
    assert!(with_sack.counters.complete().expect("all are known").fast_recoveries >= 1);
    assert_eq!(with_sack.counters.complete().expect("all are known").timeouts, 0);
    let path = path.hosts(|host| host.sack = false);
    let without = odd_hole(&path);
    assert!(without.done_at.is_some());
    assert!(
        with_sack.counters.complete().expect("all are known").acks_sent
            < without.counters.complete().expect("all are known").acks_sent,
        "{with_sack:?} {without:?}"
    );
}

#[test]
fn a_held_ack_released_by_a_new_range_is_not_followed_by_another() {
    // Slow start overflows after the window has stopped growing: every second packet lost, hundreds of
    // ranges. In Linux the release of a held ACK pays what is owed, that of the new segment too: one ACK
    // for two segments. Measured with the real stack: 7206 ACKs in 600 ms.
    let mut path = fixed(Path::new(ms(20)), 8 << 20);
    (path.access, path.rate) = (Some(mbps(5000)), mbps(500));
    path.queue = droptail(Limit::Bytes(200 * u64::from(FULL)));
    let run = Run { end: at_ms(600), ..path.run(vec![path.bulk("reno", None)]) };
    let flow = simulate(&run).flows.remove(0);
    assert!(
        flow.counters.complete().expect("all are known").acks_sent.abs_diff(7206) <= 40,
        "{flow:?}"
    );
}

#[test]
fn bursts_of_segmentation_offload_carry_the_same_goodput() {
    let path = Path { rate: mbps(1000), ..Path::new(us(200)) };
    let plain = fct_ns(&one(&path, path.bulk("cubic", 20_000_000)));
    let path = path.hosts(|host| host.gso_max_segs = 44);
    let burst = one(&path, path.bulk("cubic", 20_000_000));
    assert_eq!(burst.received_bytes, 20_000_000);
    assert!(fct_ns(&burst).abs_diff(plain) < plain / 50, "{} {plain}", fct_ns(&burst));
}

#[test]
fn receive_merging_answers_a_burst_with_one_ack() {
    let path = Path { rate: mbps(10_000), ..Path::new(us(200)) };
    let plain = one(&path, path.bulk("cubic", 20_000_000));
    let path = path.hosts(|host| {
        host.gso_max_segs = 44;
        host.gro_window = us(20);
    });
    let merged = one(&path, path.bulk("cubic", 20_000_000));
    assert_eq!(merged.received_bytes, 20_000_000);
    let (few, many) = (
        merged.counters.complete().expect("all are known").acks_sent,
        plain.counters.complete().expect("all are known").acks_sent,
    );
    assert!(few * 3 < many, "{few} {many}");
    assert!(fct_ns(&merged) < 2 * fct_ns(&plain));
}

#[test]
fn newer_kernels_give_a_window_by_the_share_of_payload() {
    // 6.6+: 1448 of 1448 + 768 bytes instead of a half.
    let rate = |linux| {
        let path = fixed(Path::new(ms(10)), 1 << 20).hosts(|host| host.linux = linux);
        1e9 / fct_ns(&one(&path, path.bulk("reno", 20_000_000))) as f64
    };
    let ratio = rate(LinuxVersion::V6_18) / rate(LinuxVersion::V6_1);
    assert!((1.1..1.4).contains(&ratio), "{ratio}");
}

#[test]
fn an_application_that_reads_in_large_pieces_gets_them() {
    let path = Path::new(us(200));
    let flow = Flow { read_at_bytes: 65_536, ..path.bulk("reno", 1_000_000) };
    let late = one(&path, flow);
    let at_once = one(&path, path.bulk("reno", 1_000_000));
    assert_eq!(late.received_bytes, 1_000_000);
    assert!(fct_ns(&late) < fct_ns(&at_once) * 11 / 10);
}

#[test]
fn a_reader_is_woken_when_the_window_closes() {
    // SO_RCVLOWAT of 64 kB with a buffer of 64 kB, whose window is 32 kB: Linux wakes the reader when the
    // window is down to a segment, or enlarges the buffer. Measured with the real stack: 1612 ms.
    let path = fixed(Path::new(ms(10)), 65_536);
    let flow = Flow { read_at_bytes: 65_536, ..path.bulk("reno", 4_000_000) };
    let took_ms = fct_ns(&one(&path, flow)) / 1_000_000;
    assert!((1000..2000).contains(&took_ms), "{took_ms}");
}

#[test]
fn what_is_out_never_passes_the_receivers_window() {
    let path = fixed(Path::new(ms(10)), 65_536);
    let run = Run { end: at_ms(200), ..path.run(vec![path.bulk("reno", None)]) };
    let outcome = sampled(run, us(100));
    let most = outcome.flow_samples.iter().map(|sample| sample.unacked).max();
    assert!(most.is_some_and(|most| u64::from(most) * MSS <= 32_768), "{most:?}");
    assert!(outcome.flow_samples.iter().any(|sample| sample.at > Time::from_us(100_000)));
}

#[test]
fn an_application_that_waits_for_much_is_woken_when_seven_eighths_of_the_buffer_are_taken() {
    // It waits for 64 KiB, 46 segments; 44 of them are charged 44 * (1448 + 1216) B, more than 7/8 of 128 KiB.
    let path = Path { rate: mbps(100), ..Path::new(ms(100)) }.hosts(|host| {
        host.skb_overhead_bytes = 1216;
        host.rcvbuf_initial_bytes = 128 << 10;
        host.rcvbuf_max_bytes = 6 << 20;
    });
    let flow = Flow { read_at_bytes: 65_536, ..path.bulk("reno", None) };
    let run = Run { end: at_ms(600), ..path.run(vec![flow]) };
    let acks = Rc::new(RefCell::new(Vec::new()));
    let at = TapAt { flow: 0, side: Side::Listening };
    let sink = Rc::clone(&acks);
    let tapped = knee_sim::simulate_tapped(&run, at, move |tapped| {
        if tapped.is_out {
            sink.borrow_mut().push((tapped.segment.ack, tapped.segment.window_bytes));
        }
    });
    tapped.expect("the run is well-formed");
    // Until it reads, the window closes.
    let acks = acks.borrow();
    let mut pairs = acks.windows(2).skip(2);
    let opened = pairs.find(|pair| pair[1].1 > pair[0].1 + 16_384).expect("it reads")[1].0;
    assert_eq!((opened - 1) / MSS as u32, 44);
}

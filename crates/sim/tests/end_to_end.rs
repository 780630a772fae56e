//! What no packet script can say: timers at any clock, counters of a run, a host's own queue, sizes beyond all bounds.

use crate::common::*;
use knee_queue::Limit;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::outcome::{Counters, FlowOutcome};
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Run};
use knee_sim::endpoint::EndPoint;
use knee_wire::Segment;

const ACK: u16 = Segment::ACK;

fn end_point(config: HostConfig) -> EndPoint {
    EndPoint::new(config, &Cc::by_name("reno").expect("it is there"), 1).expect("it is no module")
}

fn segment(flags: u16, seq: u32, len: u32, ack: u32) -> Segment {
    let window_bytes = 65_535;
    Segment { flags, seq, len, ack, window_bytes, timestamps: Some((1, 1)), ..Segment::default() }
}

fn play(end: &mut EndPoint, until: Time) {
    while end.next_segment(until).is_some() {}
}

/// A connection that connected at 0, was answered after `rtt`, and has written.
fn connected(config: HostConfig, rtt: Duration, packets: u64) -> EndPoint {
    let mut end = end_point(config);
    end.connect();
    play(&mut end, Time::ZERO + rtt);
    let syn_ack = segment(Segment::SYN | ACK, 0, 0, 1);
    end.receive(&Segment { mss: Some(1460), window_scale: Some(0), sack_ok: true, ..syn_ack });
    end.write(packets * MSS);
    play(&mut end, Time::ZERO + rtt);
    end
}

/// When the next segments leave, ms.
fn next_ms<const N: usize>(mut end: EndPoint) -> [u64; N] {
    [0; N].map(|_| {
        end.next_segment(at_ms(60_000)).expect("a timer runs");
        end.now().us() / 1000
    })
}

#[test]
fn timers_fire_when_the_wheel_says() {
    // RTO: srtt and rttvar, max(2 * RTT, 200 ms) of the first sample, rounded up to a jiffy.
    let rtos = [(300, 201), (10_000, 210), (99_000, 299), (100_000, 300), (150_000, 450)];
    for (rtt_us, rto_ms) in rtos {
        assert_eq!(connected(host(), us(rtt_us), 0).sample().rto_us, rto_ms * 1000, "{rtt_us} us");
    }
    // Armed at jiffy j for n jiffies: g * (floor((j + n) / g) + 1); g is 1 for n < 63, 8 for n < 504, 64 for n < 4032.
    // SYNs: 64 * (floor((10000 + 1000) / 64) + 1) = 11008, then 2000 more, from 6.5 on 1000.
    for (linux, second) in [(LinuxVersion(6, 1), 13_056), (LinuxVersion(6, 12), 12_032)] {
        let mut end = end_point(HostConfig { linux, jiffies_at_start: Some(10_000), ..host() });
        end.connect();
        assert_eq!(next_ms(end).map(|ms| ms + 10_000), [10_000, 11_008, second]);
    }
    // The probe of a tail: ceil(0.2 + 200 ms) for one packet, ceil(0.2 + 2 ms) for two; then the RTO, from there.
    let tail = |config, packets| next_ms(connected(config, us(100), packets));
    assert_eq!(tail(host(), 1), [208, 416]);
    assert_eq!(tail(host(), 2), [4, 208]);
    assert_eq!(tail(HostConfig { hz: 250, ..host() }, 1)[0], 208, "52 jiffies");
    assert_eq!(tail(HostConfig { hz: 100, ..host() }, 1)[0], 220, "22 jiffies");
    assert_eq!(tail(HostConfig { jiffies_at_start: Some(45), ..host() }, 1)[0], 203, "248 - 45");
    assert_eq!(tail(HostConfig { rto_min: ms(10), ..host() }, 1)[0], 12);
    // RACK: the first of two may be late by min_rtt / 4 and 2 ms, 3 jiffies.
    let mut end = connected(host(), us(200), 2);
    play(&mut end, at_us(400));
    end.receive(&Segment { sacks: vec![(1449, 2897)], ..segment(ACK, 1, 0, 1) });
    assert_eq!(next_ms(end), [4]);
    // A delayed ACK: 40 jiffies.
    let mut end = connected(host(), ms(100), 0);
    end.set_quick_ack(false);
    end.receive(&segment(ACK, 1, 100, 1));
    assert_eq!(next_ms(end), [141]);
}

#[test]
fn a_syn_without_mss_reads_of_a_part_and_where_psh_is() {
    let mut end = end_point(host());
    end.listen();
    end.receive(&Segment { timestamps: None, ..segment(Segment::SYN, 0, 0, 0) });
    end.receive(&Segment { timestamps: None, ..segment(ACK, 1, 0, 1) });
    assert_eq!(end.info().snd_mss, 536);
    let mut end = connected(host(), ms(1), 0);
    end.receive(&segment(ACK, 1, 900, 1));
    assert_eq!([end.read_at_most(300), end.read_at_most(1000), end.read()], [300, 600, 0]);
    play(&mut end, at_ms(1));
    end.write(2 * MSS);
    end.close();
    let flags = [0; 3].map(|_| end.next_segment(at_ms(1)).expect("it leaves").flags);
    assert_eq!(flags, [ACK, ACK | Segment::PSH, ACK | Segment::FIN]);
}

fn counters(flow: &FlowOutcome) -> Counters {
    flow.counters.complete().expect("all are known")
}

#[test]
fn a_lost_tail_is_counted_as_what_repaired_it() {
    // 10 kB are 7 segments; the buffer holds 5 or 3 beside the one being sent. The real stack took 208.000 ms.
    let path = |pkts, rtt| Path { queue: droptail(Limit::Pkts(pkts)), ..Path::new(rtt) };
    let no_sack = path(5, us(100)).hosts(|host| host.sack = false);
    let cases = [
        (path(5, us(100)), 208, (0, 1, 1, 0)),
        (no_sack, 208, (1, 0, 1, 0)),
        // The probe's SACK proves the other two lost; PRR sends one at once, one at its ACK.
        (path(3, ms(1)), 10, (0, 1, 3, 1)),
    ];
    for (path, ms, expected) in cases {
        let flow = one(&path, path.bulk("reno", 10_000));
        let all = counters(&flow);
        let counted =
            (all.timeouts, all.tail_loss_probes, all.retransmitted_segs, all.fast_recoveries);
        assert_eq!((fct_ns(&flow), counted), (ms_ns(ms, 0), expected));
    }
}

#[test]
fn a_sender_s_own_link_holds_what_small_queues_allow() {
    // About 1 ms of the pacing rate in true size (2216 bytes a packet), which is twice what is sent as slow start never
    // ends: measured with the real stack is a cwnd of 454.
    let path = Path { access: Some(mbps(1000)), ..Path::new(us(100)) };
    let mut run = Run { end: at_ms(300), ..path.run(vec![path.bulk("reno", None)]) };
    run.sampling.queues = Some(us(100));
    let outcome = simulate(&run);
    let flow = &outcome.flows[0];
    assert_eq!((flow.cwnd_pkts, counters(flow).retransmitted_segs), (454, 0));
    // Measured are 222 packets out, of which none waits at the bottleneck (link 0; the sender's is 2).
    for sample in outcome.queue_samples.iter().filter(|sample| sample.at > at_ms(100)) {
        let allowed = if sample.link == 0 { 0..=1 } else { 200..=235 };
        assert!(allowed.contains(&sample.len_pkts), "{sample:?}");
    }
    // At 10 Mbps two packets; the third finds the limit reached. Measured: 3 out at 11 ms, 4 at 12 ms, 5 at 13 ms.
    let path = Path { access: Some(mbps(10)), rate: mbps(100), ..Path::new(ms(10)) };
    let outcome = sampled(path.run(vec![path.bulk("reno", 100 * MSS)]), ms(1));
    assert_eq!([11, 12, 13].map(|ms| sample_at(&outcome, 0, at_ms(ms)).unacked), [3, 4, 5]);
}

#[test]
fn answers_carry_the_acknowledgements_of_requests_and_merged_bursts_have_one() {
    // Measured with the real stack: 20 exchanges take 20 round trips, and the server sends one ACK by itself. The client
    // sends two: that of the SYN-ACK and that of the last answer.
    let path = Path { rate: mbps(10_000), ..Path::new(us(200)) };
    let outcome = simulate(&path.run(vec![path.rpc("reno", 1000, 1000, 20)]));
    assert_eq!(counters(&outcome.flows[0]).acks_sent, 3);
    assert!(outcome.rpcs.len() == 20 && outcome.rpcs.iter().all(|rpc| rpc.latency == us(200)));
    let acks = |path: &Path| counters(&one(path, path.bulk("cubic", 20_000_000))).acks_sent;
    let bursts = path.clone().hosts(|host| (host.gso_max_segs, host.gro_window) = (44, us(20)));
    assert!(acks(&bursts) * 3 < acks(&path));
}

#[test]
fn transfers_take_what_they_took_with_the_real_stack() {
    let fixed = |path: Path, bytes| {
        path.hosts(|host| (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (bytes, bytes))
    };
    let tuned = Path::new(ms(10)).hosts(|host| {
        (host.rcvbuf_initial_bytes, host.rcvbuf_max_bytes) = (131_072, 6 << 20);
    });
    // Of the first burst of 10 the last is lost, of the second of 18 another.
    let short = Path { queue: droptail(Limit::Pkts(8)), ..Path::new(us(200)) };
    let without_sack = short.clone().hosts(|host| host.sack = false);
    // Payload, the least and the most that it may take, us, and what is sent again, if that is known.
    let cases = [
        // Half of 64 KiB is window, one per 10 ms. Measured: 1380 ms.
        (fixed(Path::new(ms(10)), 65_536), 4_000_000, 1_365_000, 1_395_000, 0),
        // Without tuning a window of 64 kB would take 1.6 s. Measured: 148.8 ms.
        (tuned, 10_000_000, 145_000, 152_000, 0),
        // Measured: 896.3 us with SACK, 872.1 us without.
        (short, 40 * MSS, 896, 896, 2),
        (without_sack, 40 * MSS, 871, 873, 2),
    ];
    for (path, bytes, least_us, most_us, again) in cases {
        let flow = one(&path, path.bulk("reno", bytes));
        let took_us = fct_ns(&flow) / 1000;
        assert!((least_us..=most_us).contains(&took_us), "{bytes} B took {took_us} us");
        let all = counters(&flow);
        assert_eq!((all.retransmitted_segs, all.timeouts, all.tail_loss_probes), (again, 0, 0));
    }
}

#[test]
fn bursts_carry_as_much_and_merging_does_not_hold_up() {
    let fct = |path: &Path| fct_ns(&one(path, path.bulk("cubic", 20_000_000)));
    let path = |rate| Path { rate: mbps(rate), ..Path::new(us(200)) };
    let bursts = path(1000).hosts(|host| host.gso_max_segs = 44);
    let (plain, burst) = (fct(&path(1000)), fct(&bursts));
    assert!(burst.abs_diff(plain) < plain / 50, "{burst} {plain}");
    let merged = path(10_000).hosts(|host| (host.gso_max_segs, host.gro_window) = (44, us(20)));
    assert!(fct(&merged) < 2 * fct(&path(10_000)));
}

#[test]
fn a_window_beyond_all_bounds_is_paced_as_fast_as_can_be() {
    // 1448 B * 80000 * 200 % * 796216509 is just beyond 64 bits.
    for initial_cwnd_pkts in [796_216_508, 796_216_509, u32::MAX / 2] {
        let path = Path::new(us(100)).hosts(|host| host.initial_cwnd_pkts = initial_cwnd_pkts);
        let max_pacing_rate = Rate::from_bps(1_000_000_000_000);
        let flow = Flow { max_pacing_rate, ..path.bulk("reno", None) };
        let run = Run { end: at_ms(100), ..path.run(vec![flow]) };
        let received = simulate(&run).flows[0].received_bytes;
        let full = 100_000_000 / (u64::from(FULL) * 8) * MSS;
        assert!(received > full * 98 / 100, "{initial_cwnd_pkts} packets: {received} B of {full}");
    }
}

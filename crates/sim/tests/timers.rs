//! Timeouts and the wheel they sit on (tcp_sender_model.md sec. 3, 4, 6).
//!
//! Every host's clock starts at jiffy 0 of 1 ms unless a test says otherwise, so that a timer armed for n
//! jiffies at jiffy j fires at ms g * (floor((j + n) / g) + 1), with g = 1 for n < 63, 8 for n < 504, 64
//! for n < 4032.

mod common;

use common::*;
use knee_queue::Limit;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::{Flow, LinuxVersion, Run};

/// The bottleneck holds 10 packets at 100 Mbps (121.12 us each); sender 1 crowds it.
fn crowded(rtt: Duration) -> Path {
    let queue = droptail(Limit::Pkts(10));
    Path { senders: 2, rate: mbps(100), queue, ..Path::new(rtt) }
}

/// Runs one flow that starts at 10 s; at each of these times (us from 10 s) the queue becomes full.
fn run_crowded(path: &Path, flow: Flow, full_at_us: &[u64]) -> Run {
    let mut run = path.run(vec![Flow { start: at_ms(10_000), ..flow }]);
    run.end = at_ms(19_999);
    run.pings =
        full_at_us.iter().flat_map(|us| path.crowd(at_ms(10_000) + common::us(*us), 11)).collect();
    run
}

fn only(outcome: &Outcome) -> &knee_run::outcome::FlowOutcome {
    &outcome.flows[0]
}

#[test]
fn the_handshake_takes_one_round_trip_and_the_first_data_leaves_at_once() {
    let path = Path::new(us(200));
    let flow = one(&path, path.bulk("reno", 1000));
    assert_eq!(flow.established_at, Some(at_us(200)));
    assert_eq!(fct_ns(&flow), 200_000, "an idle token bucket takes no time");
    assert_eq!((flow.srtt, flow.min_rtt), (Some(us(200)), Some(us(200))));
}

#[test]
fn the_timeout_is_srtt_and_200_ms_rounded_up_to_a_jiffy() {
    // First sample: rttvar is max(2 * RTT, 200 ms), which is 300 ms only for 150 ms.
    for (rtt_ms, rto_ms) in [(1, 201), (10, 210), (99, 299), (100, 300), (150, 450)] {
        let path = Path::new(ms(rtt_ms));
        let run = Run { end: at_ms(2 * rtt_ms), ..path.run(vec![path.bulk("reno", None)]) };
        let outcome = sampled(run, us(rtt_ms * 1500));
        assert_eq!(outcome.flow_samples[0].rto_us, rto_ms * 1000, "RTT {rtt_ms} ms");
    }
    let path = Path::new(us(300));
    let run = Run { end: at_us(500), ..path.run(vec![path.bulk("reno", None)]) };
    assert_eq!(sampled(run, us(400)).flow_samples[0].rto_us, 201_000, "200.3 ms");
}

#[test]
fn a_lost_syn_comes_back_when_the_wheel_says() {
    // SYN at 10.0 s = jiffy 10000; 1000 jiffies: 64 * (floor(11000 / 64) + 1) = 64 * 172 = 11008.
    let path = crowded(us(100));
    let run = run_crowded(&path, path.bulk("reno", 1000), &[0]);
    let outcome = simulate(&Run { pings: path.crowd(Time::from_ns(9_999_999_000), 11), ..run });
    let flow = only(&outcome);
    assert_eq!(fct_ns(flow), ms_ns(1008, 100_000));
    let counters = flow.counters.complete().expect("all are known");
    assert_eq!((counters.timeouts, counters.syn_timeouts, counters.retransmitted_segs), (1, 1, 1));
    // By timestamps: the SYN is not timed.
    assert_eq!(flow.srtt, Some(us(1000)));
}

/// `connect()` at 10 s; the first `lost` SYNs find the queue full. Returns when the one that came through
/// left, in ms.
fn syn_after(path: &Path, lost_at_ms: &[u64]) -> (u64, Outcome) {
    let mut run = path.run(vec![Flow { start: at_ms(10_000), ..path.bulk("reno", 3 * MSS) }]);
    run.end = at_ms(19_000);
    run.pings = lost_at_ms
        .iter()
        .flat_map(|ms| path.crowd(Time::from_ns(ms * 1_000_000 - 1000), 11))
        .collect();
    let outcome = sampled(run, us(10));
    let established = outcome.flows[0].established_at.expect("it connects");
    ((established - path.rtt).us() / 1000, outcome)
}

#[test]
fn a_syn_lost_twice_waits_two_seconds_more_and_starts_with_one_packet() {
    // Second timer at jiffy 11008 for 2000: 64 * (floor(13008 / 64) + 1) = 64 * 204 = 13056.
    let path = crowded(us(100));
    let (left_ms, outcome) = syn_after(&path, &[10_000, 11_008]);
    assert_eq!(left_ms, 13_056);
    let counters = outcome.flows[0].counters.complete().expect("all are known");
    assert_eq!((counters.syn_timeouts, counters.timeouts), (2, 2));
    assert_eq!((outcome.flow_samples[0].cwnd, outcome.flow_samples[0].unacked), (1, 1));
    let (left_ms, outcome) = syn_after(&path, &[10_000]);
    assert_eq!(left_ms, 11_008);
    assert_eq!(outcome.flow_samples[0].cwnd, 10, "one lost SYN is forgiven");
}

#[test]
fn newer_kernels_retry_a_syn_every_second_at_first() {
    // tcp_syn_linear_timeouts (6.5): jiffy 11008 for 1000: 64 * (floor(12008 / 64) + 1) = 12032.
    let path = crowded(us(100)).hosts(|host| host.linux = LinuxVersion::V6_12);
    let (left_ms, _) = syn_after(&path, &[10_000, 11_008]);
    assert_eq!(left_ms, 12_032);
}

#[test]
fn a_lost_last_packet_is_repaired_by_a_probe_with_no_timeout_counted() {
    // 10 kB are 7 segments; the buffer holds 5 and one is being sent: the last is lost. Measured with the
    // real stack: 208.000 ms. The last ACK comes at jiffy 0; one packet is out, so the probe is due in
    // ceil(2 srtt + 200 ms) = 201 jiffies, on the wheel of 8: 8 * (floor(201 / 8) + 1) = 208.
    let path = Path { queue: droptail(Limit::Pkts(5)), ..Path::new(us(100)) };
    let flow = one(&path, path.bulk("reno", 10_000));
    assert_eq!(fct_ns(&flow), ms_ns(208, 0));
    let counters = flow.counters.complete().expect("all are known");
    assert_eq!(
        (counters.timeouts, counters.tail_loss_probes, counters.retransmitted_segs),
        (0, 1, 1)
    );
}

#[test]
fn a_probe_of_a_lost_tail_of_two_or_more_comes_after_two_round_trips() {
    // Three segments lost: due in ceil(2 * 1.0x ms + 2 ms) = 5 jiffies. The ACKs of the others come at
    // 2.0x ms = jiffy 2: it fires at 2 + 5 + 1 = 8 ms. Its SACK at 9 ms proves the other two lost (they
    // were sent 6 ms before); PRR sends one at once, the other when that is acknowledged at 10 ms.
    let path = Path { queue: droptail(Limit::Pkts(3)), ..Path::new(ms(1)) };
    let flow = one(&path, path.bulk("reno", 10_000));
    assert_eq!(fct_ns(&flow), ms_ns(10, 0));
    let counters = flow.counters.complete().expect("all are known");
    assert_eq!(
        (counters.timeouts, counters.tail_loss_probes, counters.retransmitted_segs),
        (0, 1, 3)
    );
    assert_eq!(counters.fast_recoveries, 1);
}

#[test]
fn an_answer_to_a_probe_that_is_faster_than_the_minimum_proves_nothing() {
    // As seen in the reference, whose delay of 100 us is 1562 ticks of 64 ns = 99.968 us: samples are 100
    // or 99 whole us, and the probe, which leaves on a jiffy, sees 99 where the minimum says 100. Its SACK
    // may then be the original's (RACK), and the rest waits for the timeout. Measured: 208.100 ms.
    let path = Path { queue: droptail(Limit::Pkts(3)), ..Path::new(Duration::from_ns(99_968)) };
    let start = Time::from_ns(64);
    let flow = one(&path, Flow { start, ..path.bulk("reno", 10_000) });
    // The RTO, restarted by the probe at 4 ms: 8 * (floor((4 + 201) / 8) + 1) = 208; then one round trip
    // until the second hole is filled.
    assert_eq!(fct_ns(&flow) + 64, ms_ns(208, 99_968));
    let counters = flow.counters.complete().expect("all are known");
    assert_eq!((counters.timeouts, counters.tail_loss_probes), (1, 1));
}

#[test]
fn a_whole_window_lost_comes_back_by_timeout_and_slow_start() {
    // The burst of 10 at 10.0001 s is lost. The probe, due in ceil(0.2 + 2 ms) = 3 jiffies, leaves at
    // 10.004 s and is lost too; it restarts the timeout: 8 * (floor((10004 + 201) / 8) + 1) = 10208.
    let path = crowded(us(100));
    let flow = path.bulk("reno", 10 * MSS);
    let outcome = sampled(run_crowded(&path, flow, &[99, 3_999]), us(10));
    let flow = only(&outcome);
    let counters = flow.counters.complete().expect("all are known");
    assert_eq!((counters.timeouts, counters.tail_loss_probes), (1, 1));
    assert_eq!(counters.retransmitted_segs, 11);
    // Windows of 1, 2, 4 and the last 3. A packet takes 121.12 us, longer than the round trip, so the line
    // is never idle: the first arrives at once and leaves 86 bytes of tokens, the tenth 9 packets' time
    // less these later.
    assert_eq!(fct_ns(flow), ms_ns(208, (9 * 1514 - 86) * 80));
    let in_loss = outcome.flow_samples.iter().filter(|sample| sample.ca_state == state::LOSS);
    let cwnds = steps(in_loss.map(|sample| sample.cwnd));
    assert_eq!(cwnds[0], 1);
    assert!(cwnds.is_sorted(), "{cwnds:?}");
    assert_eq!(flow.cwnd_pkts.min(5), 5, "ssthresh is 10 / 2");
}

#[test]
fn each_timeout_in_a_row_doubles_the_next() {
    // As above, but the retransmission of 10.208 s is lost as well: 402 jiffies on the wheel of 8:
    // 8 * (floor(10610 / 8) + 1) = 10616; then 804 on that of 64: 64 * (floor(11420 / 64) + 1) = 11456.
    let path = crowded(us(100));
    let flow = path.bulk("reno", 10 * MSS);
    let run = run_crowded(&path, flow, &[99, 3_999, 207_999, 615_999]);
    let outcome = sampled(run, ms(1));
    let flow = only(&outcome);
    // The last ACK of the handshake was lost too: a fourth is the listening side's, for its SYN-ACK.
    assert_eq!(
        (
            flow.counters.complete().expect("all are known").timeouts,
            flow.counters.complete().expect("all are known").syn_timeouts
        ),
        (4, 1)
    );
    assert_eq!(fct_ns(flow), ms_ns(1456, (9 * 1514 - 86) * 80));
    let rtos = steps(outcome.flow_samples.iter().map(|sample| sample.rto_us));
    assert_eq!(rtos[..4], [201_000, 402_000, 804_000, 1_608_000]);
    // Halved once: nothing was acknowledged in between.
    let ssthreshs = steps(outcome.flow_samples.iter().map(|sample| sample.ssthresh));
    assert_eq!(ssthreshs, [INFINITE, 5]);
}

#[test]
fn without_sack_there_is_no_probe_and_the_timeout_is_counted() {
    // The tail of the first test, by RTO: last ACK at jiffy 0, 201 jiffies: 208 ms as well.
    let path = Path { queue: droptail(Limit::Pkts(5)), ..Path::new(us(100)) };
    let path = path.hosts(|host| host.sack = false);
    let flow = one(&path, path.bulk("reno", 10_000));
    assert_eq!(fct_ns(&flow), ms_ns(208, 0));
    assert_eq!(
        (
            flow.counters.complete().expect("all are known").timeouts,
            flow.counters.complete().expect("all are known").tail_loss_probes
        ),
        (1, 0)
    );
}

#[test]
fn a_coarser_clock_makes_timers_coarser() {
    // HZ 250: ceil(200.3 ms / 4 ms) = 51 jiffies, below 63: at jiffy 0 + 51 + 1 = 208 ms again; and with
    // HZ 100: 21 jiffies + 1 = 220 ms.
    for (hz, expected_ms) in [(250, 208), (100, 220)] {
        let path = Path { queue: droptail(Limit::Pkts(5)), ..Path::new(us(100)) };
        let path = path.hosts(|host| host.hz = hz);
        let flow = one(&path, path.bulk("reno", 10_000));
        assert_eq!(fct_ns(&flow), ms_ns(expected_ms, 0), "HZ {hz}");
    }
}

#[test]
fn the_clock_s_start_moves_the_boundaries_of_the_wheel() {
    // Jiffy 45 at the start: (45 + 201) / 8 = 30.75: fires at jiffy 248, which is 203 ms.
    let path = Path { queue: droptail(Limit::Pkts(5)), ..Path::new(us(100)) };
    let path = path.hosts(|host| host.jiffies_at_start = Some(45));
    assert_eq!(fct_ns(&one(&path, path.bulk("reno", 10_000))), ms_ns(203, 0));
}

#[test]
fn a_smaller_least_timeout_shortens_the_probe_too() {
    // 10 ms instead of 200: ceil(0.2x + 10) = 11 jiffies: fires at 12 ms.
    let path = Path { queue: droptail(Limit::Pkts(5)), ..Path::new(us(100)) };
    let path = path.hosts(|host| host.rto_min = ms(10));
    assert_eq!(fct_ns(&one(&path, path.bulk("reno", 10_000))), ms_ns(12, 0));
}

/// A request over the bottleneck, an answer that takes `idle` on its way: a sender that is idle meanwhile.
/// Returns the client's cwnd when it begins its second request, and just before.
fn cwnd_over_idle(answer_bytes: u64, slow_start_after_idle: bool) -> (u32, u32) {
    let path = Path::new(us(100)).hosts(|host| {
        host.slow_start_after_idle = slow_start_after_idle;
    });
    let mut run = path.run(vec![path.rpc("reno", 400_000, answer_bytes, 2)]);
    // The answer comes over a line of 10 Mbps.
    run.network.links[1].rate = Some(mbps(10));
    let outcome = sampled(run, us(100));
    assert_eq!(outcome.flows[0].counters.complete().expect("all are known").retransmitted_segs, 0);
    let second = outcome.rpcs[1].start;
    let before = sample_at(&outcome, 0, Time::from_ps(second.ps() - 1));
    let after = sample_at(&outcome, 0, second + us(100));
    assert!(after.at > second);
    (before.cwnd, after.cwnd)
}

#[test]
fn an_idle_time_longer_than_the_timeout_halves_the_window_once_for_each() {
    // The answer of 1 MB takes 1 MB / 1448 * 1.2112 ms = 836 ms. RTO 201..203 ms: 836 - 4 * 203 = 24 > 0,
    // so cwnd is halved four times.
    let (before, after) = cwnd_over_idle(1_000_000, true);
    assert!(before >= 160, "slow start got somewhere: {before}");
    assert_eq!(after, (before >> 4).max(10));
}

#[test]
fn a_shorter_idle_time_leaves_the_window_alone() {
    // 200 kB: 167 ms.
    let (before, after) = cwnd_over_idle(200_000, true);
    assert!(before >= 160);
    assert!(after >= before, "{before} {after}");
}

#[test]
fn slow_start_after_idle_can_be_switched_off() {
    let (before, after) = cwnd_over_idle(1_000_000, false);
    assert!(after >= before, "{before} {after}");
}

/// A flow over 100 ms held to `kbps`, one segment at a time, for 60 s.
fn paced_to(kbps: u64) -> Outcome {
    let path = Path::new(ms(100)).hosts(|host| host.gso_max_segs = 1);
    let max_pacing_rate = Rate::from_bps(kbps * 1000);
    let flow = Flow { max_pacing_rate, ..path.bulk("reno", None) };
    sampled(Run { end: at_ms(60_000), ..path.run(vec![flow]) }, ms(100))
}

#[test]
fn the_timer_of_a_stuck_sender_does_not_send_ahead_of_pacing() {
    // Segments are 1448 B * 8 / rate apart, far more than the RTO of 300 ms, and nothing is in flight
    // between them: only the pacing timer may send the next. The first ten are not paced.
    for (kbps, gap_ns) in [(10, 1_158_400_000u64), (20, 579_200_000), (40, 289_600_000)] {
        let outcome = paced_to(kbps);
        let flow = only(&outcome);
        let paced = 60_000_000_000 / gap_ns;
        let segments = flow.received_bytes / MSS;
        assert!((paced + 7..=paced + 11).contains(&segments), "{kbps} kbps: {segments} of {paced}");
        let rtts = outcome.flow_samples.iter().filter(|sample| sample.srtt_us > 0);
        let (least, most) =
            rtts.fold((u32::MAX, 0), |(a, b), s| (a.min(s.srtt_us), b.max(s.srtt_us)));
        assert!(least >= 100_000 && most < 101_000, "{kbps} kbps: srtt of {least} to {most} us");
        assert_eq!(flow.min_rtt, Some(ms(100)), "{kbps} kbps");
        let counters = flow.counters.complete().expect("all are known");
        assert_eq!(counters.retransmitted_segs, 0, "{kbps} kbps");
    }
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

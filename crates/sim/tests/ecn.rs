//! ECN over a whole network: what a marking queue and the ends of a flow make of each other. Rules of one end are in
//! tests/scripts/ecn and tests/scripts/dctcp.

use crate::common::*;
use knee_queue::NotEctAbove;
use knee_queue::time::Time;
use knee_run::spec::{Flow, Run};

fn path(k: u32) -> Path {
    // The access link is ten times as fast, so that the queue is at the switch.
    let access = Some(mbps(10_000));
    Path { access, queue: marking(k, NotEctAbove::Queue), ..Path::new(us(200)) }
}

fn with_ecn(path: Path, tcp_ecn: u8) -> Path {
    path.hosts(|host| host.tcp_ecn = tcp_ecn)
}

#[test]
fn a_plain_syn_is_dropped_by_a_marker_above_k_and_one_of_dctcp_is_marked() {
    // 30 packets fill the queue to more than K = 20 at 10 s; the SYN comes 1 us later. The next is sent by
    // the wheel at 64 * (floor((10000 + 1000) / 64) + 1) = 11.008 s.
    for (cc, expected_ns) in [("reno", ms_ns(1008, 200_000)), ("dctcp", 200_000)] {
        let mut path = with_ecn(path(20), 1);
        path.queue = marking(20, NotEctAbove::Drop);
        path.access = None;
        path.senders = 2;
        let start = at_us(10_000_001);
        let mut run = path.run(vec![Flow { start, ..path.bulk(cc, 1000) }]);
        run.end = at_ms(19_000);
        run.pings = path.crowd(at_ms(10_000), 30);
        for ping in &mut run.pings {
            ping.ecn = knee_queue::Ecn::Ect0;
        }
        let outcome = simulate(&run);
        let established = outcome.flows[0].established_at.expect("it connects");
        let lost = cc == "reno";
        assert_eq!(outcome.queues[0].dropped_not_ect_pkts, u64::from(lost), "{cc}");
        let took_ns = established.since(at_ms(10_000)).ns();
        // DCTCP's SYN waits for the 29 packets before it: below 29 * 12.112 us + its own 0.6.
        let expected = expected_ns..=expected_ns + if lost { 0 } else { 353_000 };
        assert!(expected.contains(&took_ns), "{cc}: {took_ns}");
        assert_eq!(outcome.flows[0].ecn, !lost, "a SYN sent again does not ask for ECN");
    }
}

#[test]
fn a_window_is_reduced_once_at_most() {
    for (cc, tcp_ecn) in [("dctcp", 0), ("reno", 1), ("cubic", 1)] {
        let path = with_ecn(path(10), tcp_ecn);
        let run = Run { end: at_ms(60), ..path.run(vec![path.bulk(cc, None)]) };
        let outcome = sampled(run, us(5));
        let samples = &outcome.flow_samples;
        let changes: Vec<Time> = samples
            .windows(2)
            .filter(|pair| pair[1].ssthresh != pair[0].ssthresh)
            .map(|pair| pair[1].at)
            .collect();
        assert!(changes.len() >= 3, "{cc}");
        for pair in changes.windows(2) {
            // A round trip is 200 us at least (samples are 5 us apart).
            assert!(pair[1].since(pair[0]) >= us(195), "{cc}: {pair:?}");
        }
        assert!(
            outcome.flows[0].counters.complete().expect("all are known").cwr_reductions as usize
                >= changes.len(),
            "{cc}"
        );
    }
}

#[test]
fn with_dctcp_as_much_is_reported_marked_as_was_marked() {
    let path = path(20);
    let outcome = simulate(&path.run(vec![path.bulk("dctcp", 20_000_000)]));
    let (flow, queue) = (&outcome.flows[0], &outcome.queues[0]);
    assert!(queue.marked_pkts > 1000);
    assert_eq!(
        flow.counters.complete().expect("all are known").ce_segs_received,
        queue.marked_pkts
    );
    // The end of the flow is not acknowledged any more: less than a window.
    let (sent, reported) =
        (queue.marked_pkts, flow.counters.complete().expect("all are known").delivered_ce);
    assert!(reported <= sent && sent - reported < 40, "{reported} of {sent}");
    assert_eq!(flow.counters.complete().expect("all are known").retransmitted_segs, 0);
}

#[test]
fn with_classic_ecn_the_echo_lasts_until_the_window_was_reduced() {
    // So more is reported than was marked.
    let path = with_ecn(path(20), 1);
    let outcome = simulate(&path.run(vec![path.bulk("reno", 20_000_000)]));
    let (flow, queue) = (&outcome.flows[0], &outcome.queues[0]);
    assert!(
        flow.counters.complete().expect("all are known").delivered_ce > 3 * queue.marked_pkts / 2,
        "{flow:?} {queue:?}"
    );
}

#[test]
fn a_steady_dctcp_flow_holds_the_queue_at_k_and_the_line_full() {
    // The reference at 1 Gbps, 200 us, K = 20: cwnd 33 to 38, alpha .158, CE share .163.
    let path = path(20);
    let mut run = Run { end: at_ms(300), ..path.run(vec![path.bulk("dctcp", None)]) };
    run.sampling.goodput = Some(ms(1));
    let outcome = sampled(run, us(100));
    let steady = || outcome.flow_samples.iter().filter(|sample| sample.at >= at_ms(100));
    assert!(steady().all(|sample| (33..=38).contains(&sample.cwnd)));
    let mean = steady().map(|s| s.diag[0] as f64 / 1024.0).sum::<f64>() / steady().count() as f64;
    assert!((0.14..0.18).contains(&mean), "alpha {mean}");
    let goodput: u64 = outcome.goodput_samples[100..].iter().map(|sample| sample.bytes).sum();
    let full = 200e-3 * 1e9 / 8.0 * MSS as f64 / f64::from(FULL);
    assert!(goodput as f64 > 0.998 * full, "{goodput} of {full}");
}

#[test]
fn two_dctcp_flows_share_fairly() {
    let path = Path { senders: 2, ..path(20) };
    let flows = (0..2).map(|from| Flow { from, ..path.bulk("dctcp", None) }).collect();
    let mut run = Run { end: at_ms(400), ..path.run(flows) };
    run.sampling.goodput = Some(ms(200));
    let outcome = simulate(&run);
    let late: Vec<u64> = outcome.goodput_samples[2..].iter().map(|sample| sample.bytes).collect();
    assert_eq!(late.len(), 2);
    let (less, more) = (late[0].min(late[1]), late[0].max(late[1]));
    assert!(10 * less > 8 * more, "{late:?}");
}

#[test]
fn a_path_of_nothing_but_marks_still_moves() {
    // K = 0 marks everything: alpha stays 1024 and cwnd falls to the least there is.
    let path = path(0);
    let run = Run { end: at_ms(50), ..path.run(vec![path.bulk("dctcp", None)]) };
    let outcome = sampled(run, us(100));
    let late = outcome.flow_samples.iter().filter(|sample| sample.at > at_ms(25));
    assert!(late.clone().all(|s| s.cwnd <= 4 && s.ssthresh == 2 && s.diag[0] == 1024));
    let received = outcome.flows[0].received_bytes;
    // 1 to 3 packets per 200 us.
    let round_trips = 50_000 / 200;
    assert!((round_trips * MSS..=4 * round_trips * MSS).contains(&received), "{received}");
    let longest_pause = {
        let changes = steps(outcome.flow_samples.iter().map(|s| s.delivered)).len() as u64;
        50_000 / changes
    };
    assert!(longest_pause <= 400, "no stall of a delayed ACK: {longest_pause} us");
    assert_eq!(outcome.flows[0].counters.complete().expect("all are known").timeouts, 0);
}

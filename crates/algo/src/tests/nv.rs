//! TCP-NV, both versions, compared with values calculated from the formulas in
//! docs/algorithms/nv.md.

use super::*;

const MSS: u32 = 1448;

fn nv(name: &str, cwnd: u32, set: &[(&str, u32)]) -> Flow {
    let algorithm = Algorithm::by_name(name).unwrap();
    let mut params = algorithm.default_params();
    for (name, value) in set {
        algorithm.set_param(&mut params, name, &value.to_string()).unwrap();
    }
    with_params(algorithm.instance(params), cwnd)
}

impl Flow {
    /// Plays a round trip of `samples` ACKs with this RTT, which deliver one window.
    fn window_of_acks(&mut self, samples: u32, rtt_us: i32) {
        let Flow { algorithm, host, sock } = self;
        let (end, in_flight) = (sock.snd_nxt, sock.snd_cwnd * MSS);
        sock.snd_nxt = end.wrapping_add(in_flight);
        for i in (0..samples).rev() {
            // The last ACK acknowledges more than was sent when the round trip started.
            sock.snd_una = if i == 0 { end.wrapping_add(1) } else { end.wrapping_sub(i) };
            algorithm.pkts_acked(sock, host, &AckSample { pkts_acked: 1, rtt_us, in_flight });
        }
    }

    /// Delivers a whole window in one ACK.
    fn window_in_one_ack(&mut self, pkts: u32) {
        let Flow { algorithm, host, sock } = self;
        sock.snd_nxt = sock.snd_nxt.wrapping_add(pkts * MSS);
        sock.snd_una = sock.snd_nxt;
        let sample = AckSample { pkts_acked: pkts, rtt_us: 100, in_flight: pkts * MSS };
        algorithm.pkts_acked(sock, host, &sample);
    }

    fn set_states(&mut self, states: &[u8]) {
        for state in states {
            self.algorithm.set_state(&mut self.sock, &mut self.host, *state);
            self.sock.icsk_ca_state = *state;
        }
    }

    fn grow(&mut self, acked: u32) -> u32 {
        self.algorithm.cong_avoid(&mut self.sock, &mut self.host, 0, acked);
        self.sock.snd_cwnd
    }
}

#[test]
fn nv_cuts_three_tenths_of_the_excess_at_least_two_and_never_past_the_limit() {
    // The RTT is twice the base RTT. The rate is that of half the window, and the limit is cwnd / 2
    // + pad.
    for (cwnd, pad, expected, limit) in [
        (100, 10, 100 - 40 * 38 / 128, 60),
        // 4 above the limit: 4 * 38 / 128 is 1, so the cut is 2.
        (43, 18, 41, 39),
        // 2 above the limit: cwnd falls to the limit itself.
        (63, 30, 61, 61),
        // At the limit, cwnd stays.
        (43, 22, 43, 1000),
    ] {
        let mut flow = nv("nv", cwnd, &[("base_rtt_us", 100), ("pad", pad)]);
        flow.sock.snd_ssthresh = 1000;
        flow.window_of_acks(40, 200);
        assert_eq!(flow.sock.snd_cwnd, cwnd, "one round trip is not enough to cut");
        flow.window_of_acks(40, 200);
        assert_eq!((flow.sock.snd_cwnd, flow.sock.snd_ssthresh), (expected, limit), "from {cwnd}");
    }
}

#[test]
fn nv_leaves_slow_start_with_thirty_samples_and_cuts_later_with_sixty() {
    for (ssthresh, each, is_cut) in [
        (INFINITE_SSTHRESH, 14, false),
        (INFINITE_SSTHRESH, 15, true),
        (90, 29, false),
        (90, 30, true),
    ] {
        let mut flow = nv("nv", 100, &[("base_rtt_us", 100)]);
        flow.sock.snd_ssthresh = ssthresh;
        flow.window_of_acks(each, 200);
        flow.window_of_acks(each, 200);
        let (cwnd, limit) = if is_cut { (89, 60) } else { (100, ssthresh) };
        assert_eq!((flow.sock.snd_cwnd, flow.sock.snd_ssthresh), (cwnd, limit), "{each} each");
    }
}

#[test]
fn nv_stops_growing_after_ten_round_trips_above_the_limit_without_samples_enough() {
    let mut flow = nv("nv", 100, &[("base_rtt_us", 100)]);
    flow.sock.snd_ssthresh = 90;
    for _ in 0..10 {
        flow.window_of_acks(2, 200);
    }
    assert_eq!(flow.diag("allow_growth"), 1);
    flow.window_of_acks(2, 200);
    assert_eq!((flow.diag("allow_growth"), flow.sock.snd_cwnd), (0, 100));
    assert_eq!(flow.grow(1000), 100);
}

#[test]
fn nv_grows_as_reno_below_the_limit_and_rests_just_under_it() {
    let mut flow = nv("nv", 20, &[]);
    flow.sock.snd_ssthresh = 20;
    flow.set_states(&[ca_state::CWR, ca_state::OPEN]);
    assert_eq!(flow.grow(20), 20, "after congestion a decision comes first");
    flow.window_of_acks(19, 100);
    assert_eq!(flow.grow(20), 20, "19 samples are too few");
    flow.window_of_acks(1, 100);
    assert_eq!(flow.grow(20), 21);
    // With a pad of 1 the limit is cwnd + 1. The dead band starts 2 packets below it.
    let mut flow = nv("nv", 20, &[("pad", 1)]);
    flow.set_states(&[ca_state::CWR, ca_state::OPEN]);
    for _ in 0..10 {
        flow.window_of_acks(20, 100);
    }
    assert_eq!((flow.diag("allow_growth"), flow.sock.snd_cwnd), (0, 20));
}

#[test]
fn nv_grows_half_as_fast_after_each_timeout_until_nine_clean_decisions() {
    let mut flow = nv("nv", 10, &[]);
    flow.sock.snd_ssthresh = 10;
    flow.set_states(&[ca_state::LOSS, ca_state::OPEN]);
    flow.window_of_acks(20, 100);
    assert_eq!(flow.grow(10), 10);
    assert_eq!(flow.grow(10), 11, "20 packets acked for one more");
    flow.sock.snd_cwnd = 10;
    for _ in 0..8 {
        flow.window_of_acks(20, 100);
    }
    flow.sock.snd_cwnd_cnt = 0;
    assert_eq!(flow.grow(10), 11);
}

#[test]
fn nv_lets_a_window_grow_that_comes_back_in_one_ack() {
    let mut flow = nv("nv", 4, &[]);
    flow.set_states(&[ca_state::RECOVERY, ca_state::OPEN]);
    assert_eq!((flow.diag("sample_cwnd"), flow.diag("allow_growth")), (4, 0));
    flow.window_in_one_ack(2);
    assert_eq!(flow.diag("allow_growth"), 0, "half a window says nothing");
    let mut flow = nv("nv", 4, &[]);
    flow.set_states(&[ca_state::RECOVERY, ca_state::OPEN]);
    flow.window_in_one_ack(3);
    assert_eq!((flow.diag("sample_cwnd"), flow.diag("allow_growth")), (6, 1));
    // The next round trip starts one window later than usual. Then the same repeats, up to 81
    // packets.
    for _ in 0..100 {
        flow.window_in_one_ack(200);
    }
    assert_eq!(flow.diag("sample_cwnd"), 81);
}

#[test]
fn nv_forgets_its_min_rtt_after_two_seconds_and_then_every_five_or_so() {
    let mut flow = nv("nv", 20, &[]);
    let start = flow.host.jiffies;
    flow.window_of_acks(20, 100);
    flow.host.jiffies = start + 1999;
    flow.window_of_acks(20, 150);
    assert_eq!(flow.diag("nv_min_rtt"), 100);
    // The first reset keeps the minimum since the start, which is the same.
    flow.host.jiffies = start + 2000;
    flow.window_of_acks(20, 150);
    assert_eq!(flow.diag("nv_min_rtt"), 100);
    // The interval is drawn from 3750 to 6246 ms.
    flow.host.jiffies = start + 2000 + 3749;
    flow.window_of_acks(20, 150);
    assert_eq!(flow.diag("nv_min_rtt"), 100);
    flow.host.jiffies = start + 2000 + 6247;
    flow.window_of_acks(20, 150);
    assert_eq!(flow.diag("nv_min_rtt"), 149, "averages round down");
}

#[test]
fn nv_bounds_its_min_rtt_by_the_base_rtt_of_a_policy_before_the_parameters() {
    let mut flow = nv("nv", 20, &[("base_rtt_us", 100)]);
    assert_eq!(flow.diag("base_rtt"), 100);
    flow.host.base_rtt_us = 70;
    flow.algorithm.init(&mut flow.sock, &mut flow.host);
    assert_eq!(flow.diag("base_rtt"), 70);
    flow.window_of_acks(20, 300);
    assert_eq!(flow.diag("nv_min_rtt"), 70, "a queue that never empties is not the path");
    flow.window_of_acks(20, 10);
    assert_eq!(flow.diag("nv_min_rtt"), 70 * 205 / 256, "nor is a sample below 80 %");
}

#[test]
fn nv_reduces_to_four_fifths_on_loss_and_measures_anew_after_it() {
    let mut flow = nv("nv", 100, &[]);
    assert_eq!(flow.ssthresh(), 79);
    flow.sock.snd_cwnd = 2;
    assert_eq!(flow.ssthresh(), 2);
    flow.sock.snd_cwnd = 100;
    flow.window_of_acks(20, 100);
    flow.set_states(&[ca_state::RECOVERY]);
    flow.window_of_acks(20, 900);
    assert_eq!(flow.diag("nv_rtt"), 100, "recovery does not count");
    flow.set_states(&[ca_state::OPEN]);
    assert_eq!(flow.diag("nv_rtt"), 0);
}

#[test]
fn nv_does_not_overflow_at_800_gbps() {
    // 6906 packets per 100 us are 800 Gbps. Twice as many at twice the RTT are 6896 too many.
    let mut flow = nv("nv", 13_812, &[("base_rtt_us", 100)]);
    flow.window_of_acks(40, 200);
    flow.window_of_acks(40, 200);
    assert_eq!(flow.sock.snd_cwnd, 13_812 - 6896 * 38 / 128);
    assert_eq!(flow.sock.snd_ssthresh, 6916);
}

#[test]
fn nv2010_holds_bic_back_above_the_limit_and_lets_it_go_below() {
    let mut flow = nv("nv2010", 100, &[("base_rtt_us", 100)]);
    flow.window_of_acks(19, 200);
    assert_eq!(flow.sock.snd_cwnd, 100, "19 samples are too few");
    flow.window_of_acks(1, 200);
    assert_eq!((flow.sock.snd_cwnd, flow.sock.snd_ssthresh), (89, 60));
    assert_eq!(flow.grow(1000), 89);
    flow.window_of_acks(20, 100);
    assert!(flow.grow(1000) > 89);
    // A loss is treated as in BIC: cwnd may grow again at once, from 819 / 1024.
    flow.sock.snd_cwnd = 100;
    assert_eq!(flow.ssthresh(), 79);
}

#[test]
fn nv2010_without_avoidance_is_bic() {
    let mut flows = [nv("bic", 10, &[]), nv("nv2010", 10, &[("avoidance", 0)])];
    let windows = flows.each_mut().map(|flow| {
        let mut windows = Vec::new();
        flow.sock.snd_ssthresh = 10;
        for i in 0..300 {
            flow.window_of_acks(20, 100 + i % 90);
            windows.push(flow.grow(flow.sock.snd_cwnd));
            flow.host.jiffies += 7;
            if i % 40 == 39 {
                flow.sock.snd_ssthresh = flow.ssthresh();
                flow.set_states(&[ca_state::RECOVERY]);
                flow.sock.snd_cwnd = flow.sock.snd_ssthresh;
                flow.set_states(&[ca_state::OPEN]);
            }
        }
        windows
    });
    assert_eq!(windows[0], windows[1]);
}

//! BBR's laws, compared with values calculated by hand.

use super::{Flow, flow};
use crate::{INFINITE_SSTHRESH, RateSample, ca_event, ca_state};

const STARTUP: u64 = 0;
const DRAIN: u64 = 1;
const PROBE_BW: u64 = 2;
const PROBE_RTT: u64 = 3;

/// RTT at which 64 packets per RTT are exactly 2^16 units of bandwidth.
const RTT_US: u64 = 16_384;
/// Pacing rate of 64 * 1448 bytes per 16.384 ms at 99 %, in bytes per second: 2^16 * 1448 * 990000
/// / 2^24.
const BW: u64 = 5_656_250;
const RATE: u64 = 5_599_687;

fn bbr() -> Flow {
    bbr_of(RTT_US)
}

/// Creates a connection whose handshake took `rtt_us`.
fn bbr_of(rtt_us: u64) -> Flow {
    let mut bbr = flow("bbr", 10);
    bbr.sock.srtt_us = (rtt_us as u32) << 3;
    bbr.sock.min_rtt_us = rtt_us as u32;
    bbr.sock.delivered = 1;
    bbr.algorithm.assign(&mut bbr.sock);
    bbr.algorithm.init(&mut bbr.sock, &mut bbr.host);
    bbr
}

impl Flow {
    /// Plays one ACK for `pkts` packets, with a rate sample of as many over one RTT. `new_round`
    /// says that the packets were sent after the round began.
    pub(super) fn ack(&mut self, pkts: u32, new_round: bool, change: impl FnOnce(&mut RateSample)) {
        let sock = &mut self.sock;
        let rtt_us = u64::from(sock.srtt_us >> 3);
        let mut rs = RateSample {
            prior_delivered: if new_round { sock.delivered } else { sock.delivered - 1 },
            delivered: pkts as i32,
            interval_us: rtt_us as i64,
            rtt_us: rtt_us as i64,
            acked_sacked: pkts,
            prior_in_flight: sock.packets_in_flight(),
            ..RateSample::default()
        };
        sock.delivered += pkts;
        sock.tcp_mstamp += rtt_us;
        sock.tcp_clock_cache = sock.tcp_mstamp * 1000;
        sock.delivered_mstamp = sock.tcp_mstamp;
        self.host.jiffies = self.host.jiffies.wrapping_add(rtt_us as u32 / 1000);
        change(&mut rs);
        self.algorithm.cong_control(&mut self.sock, &mut self.host, (0, 0), &rs);
    }

    pub(super) fn round(&mut self, pkts: u32) {
        self.ack(pkts, true, |_| ());
    }

    /// Plays rounds of 64 packets, with 150 in flight, until STARTUP ends.
    fn fill_the_pipe(&mut self) {
        self.sock.packets_out = 150;
        while self.diag("mode") == STARTUP {
            self.round(64);
        }
    }

    /// Fills the pipe and then drains the flight.
    fn reach_probe_bw(&mut self) {
        self.fill_the_pipe();
        self.sock.packets_out = 50;
        self.round(64);
        assert_eq!(self.diag("mode"), PROBE_BW);
    }
}

/// The rate is 2.887 * 10 packets per 20 ms, less 1 %: bw = floor(10 * 2^24 / 20000) = 8388;
/// floor(8388 * 1448 * 739 / 256) = 35061577; * 990000 / 2^24. The reference kernel gives the same
/// number.
#[test]
fn the_first_rate_is_the_initial_window_per_rtt_at_the_gain_of_startup() {
    let mut bbr = bbr_of(20_000);
    assert_eq!(bbr.sock.sk_pacing_rate, 2_068_934);
    assert_eq!(bbr.sock.snd_ssthresh, INFINITE_SSTHRESH);
    assert_eq!(bbr.sock.sk_pacing_status, 1);
    assert_eq!((bbr.diag("pacing_gain"), bbr.diag("cwnd_gain")), (739, 739));
    // 8388 * 1448 * 10^6 / 2^24.
    bbr.round(10);
    assert_eq!(bbr.diag("bw"), 723_947);
    assert_eq!(bbr.sock.snd_cwnd, 20, "every packet acked adds one");
    // A lower sample does not reduce the rate.
    bbr.round(5);
    assert_eq!((bbr.diag("bw"), bbr.sock.sk_pacing_rate), (723_947, 2_068_934));
}

#[test]
fn a_limit_of_the_application_bounds_the_rate() {
    let mut bbr = bbr();
    bbr.sock.sk_max_pacing_rate = 1_000_000;
    bbr.algorithm.init(&mut bbr.sock, &mut bbr.host);
    bbr.round(1000);
    assert_eq!(bbr.sock.sk_pacing_rate, 1_000_000);
}

#[test]
fn startup_ends_after_three_rounds_that_grow_by_less_than_a_quarter() {
    let mut bbr = bbr();
    bbr.sock.packets_out = 1000;
    for pkts in [100, 125, 157, 197] {
        bbr.round(pkts);
        assert_eq!(bbr.diag("mode"), STARTUP);
    }
    // Growth stays below a quarter of 197 three times. ACKs within a round and application-limited
    // samples do not count.
    for _ in 0..2 {
        bbr.round(240);
        bbr.ack(240, false, |_| ());
        bbr.ack(100, true, |rs| rs.is_app_limited = true);
        assert_eq!(bbr.diag("mode"), STARTUP);
    }
    bbr.round(240);
    assert_eq!((bbr.diag("mode"), bbr.diag("pacing_gain")), (DRAIN, 88));
    // The BDP of 240 packets, plus room for three bursts of up to 45 segments.
    assert!((240..=376).contains(&bbr.sock.snd_ssthresh), "{}", bbr.sock.snd_ssthresh);
    bbr.sock.packets_out = 200;
    bbr.round(240);
    assert_eq!((bbr.diag("mode"), bbr.diag("cwnd_gain")), (PROBE_BW, 512));
}

/// The window is twice the BDP of 64, plus 64 packets acknowledged at once where bw predicts none,
/// plus three bursts. A burst of 1/1024 s is 5468 bytes, 3 segments. The sum is 201, rounded to an
/// even number.
#[test]
fn the_window_is_twice_the_bdp_what_comes_together_and_three_bursts() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    for _ in 0..40 {
        bbr.sock.packets_out = if bbr.diag("pacing_gain") == 320 { 300 } else { 50 };
        bbr.round(64);
        if bbr.diag("pacing_gain") == 256 {
            break;
        }
    }
    bbr.round(64);
    assert_eq!((bbr.diag("bw"), bbr.sock.sk_pacing_rate), (BW, RATE));
    assert_eq!(bbr.sock.snd_cwnd, 202);
}

#[test]
fn probing_begins_in_any_phase_but_the_one_that_drains() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut bbr = bbr();
        bbr.host.random_state = seed;
        bbr.reach_probe_bw();
        seen.insert(bbr.diag("pacing_gain"));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [256, 320]);
}

#[test]
fn the_gains_go_round_in_eight_phases() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    let mut gains = Vec::new();
    for _ in 0..17 {
        // The flight is large enough for the phase that probes, and small enough for the one that
        // drains.
        bbr.sock.packets_out = if bbr.diag("pacing_gain") == 320 { 300 } else { 50 };
        // The wait exceeds `min_rtt`.
        bbr.sock.tcp_mstamp += 1;
        bbr.round(64);
        gains.push(bbr.diag("pacing_gain"));
    }
    let first = gains.iter().position(|gain| *gain == 320).unwrap();
    assert_eq!(gains[first..first + 9], [320, 192, 256, 256, 256, 256, 256, 256, 320]);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_gives_the_window_back() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    bbr.round(64);
    let before = bbr.sock.snd_cwnd;
    // On entry the core asks for ssthresh, which must not change, and sets the state.
    let ssthresh = bbr.sock.snd_ssthresh;
    assert_eq!(bbr.ssthresh(), ssthresh);
    bbr.sock.icsk_ca_state = ca_state::RECOVERY;
    (bbr.sock.packets_out, bbr.sock.lost_out, bbr.sock.sacked_out) = (100, 3, 7);
    bbr.ack(2, false, |rs| rs.losses = 3);
    assert_eq!(bbr.sock.snd_cwnd, 90 + 2, "what is in flight and what was delivered");
    bbr.ack(4, false, |_| ());
    assert_eq!(bbr.sock.snd_cwnd, 94);
    // After the round, the window grows by the packets delivered.
    (bbr.sock.packets_out, bbr.sock.lost_out, bbr.sock.sacked_out) = (80, 0, 0);
    bbr.ack(10, true, |_| ());
    assert_eq!(bbr.sock.snd_cwnd, 104);
    bbr.sock.icsk_ca_state = ca_state::OPEN;
    bbr.ack(1, false, |_| ());
    // The window returns to its earlier value if the target still allows it.
    assert!((200..=before).contains(&bbr.sock.snd_cwnd), "{} of {before}", bbr.sock.snd_cwnd);
}

#[test]
fn probe_rtt_holds_four_packets_for_200_ms_and_a_round() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    bbr.round(64);
    let before = bbr.sock.snd_cwnd;
    // No RTT has been as low as `min_rtt` for 10 s.
    bbr.host.jiffies += 10_001;
    bbr.ack(64, true, |rs| rs.rtt_us = RTT_US as i64 + 1);
    assert_eq!((bbr.diag("mode"), bbr.sock.snd_cwnd), (PROBE_RTT, 4));
    assert_eq!(bbr.diag("min_rtt"), RTT_US + 1, "the old one has expired");
    assert_eq!(bbr.sock.app_limited, bbr.sock.delivered + 50);
    bbr.sock.packets_out = 4;
    bbr.ack(1, false, |_| ());
    // The phase lasts 200 ms from here, so the thirteenth round of 16 ms ends it.
    for _ in 0..12 {
        bbr.ack(4, true, |rs| rs.is_app_limited = true);
        assert_eq!((bbr.diag("mode"), bbr.sock.snd_cwnd), (PROBE_RTT, 4));
    }
    bbr.ack(4, true, |rs| rs.is_app_limited = true);
    assert_eq!(bbr.diag("mode"), PROBE_BW);
    // The extra for aggregated ACKs is reset. What remains is twice the BDP, 4 packets, and three
    // bursts.
    assert!((128 + 4 + 9..=before).contains(&bbr.sock.snd_cwnd), "{}", bbr.sock.snd_cwnd);
    assert_eq!(bbr.diag("bw"), BW, "low samples were no samples");
}

/// A policer drops a fifth of the packets in two intervals of four rounds at the same rate. BBR
/// then uses that rate without probing for 48 rounds.
#[test]
fn a_policer_is_recognised_and_given_another_chance_later() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    let police = |bbr: &mut Flow| {
        bbr.sock.lost += 16;
        bbr.sock.packets_out = 50;
        bbr.ack(48, true, |rs| rs.losses = 16);
    };
    // The first loss starts an interval. The fourth round ends it, and the fourth round after that
    // ends the next one.
    let mut rounds = 0;
    while bbr.diag("bw") == BW {
        police(&mut bbr);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(rounds, 8);
    // The rate is 48 packets of 1448 bytes per 16.384 ms, measured by a clock of whole ms.
    let lt = bbr.diag("bw");
    assert!(lt.abs_diff(4_242_187) < 42_000, "{lt}");
    for _ in 0..47 {
        assert_eq!((bbr.diag("bw"), bbr.diag("pacing_gain")), (lt, 256));
        bbr.round(60);
    }
    bbr.round(60);
    assert_eq!(bbr.diag("bw"), BW * 60 / 64, "the windowed maximum again");
}

#[test]
fn after_idling_it_sends_at_bw_and_does_not_probe_for_the_rtt() {
    let mut bbr = bbr();
    bbr.reach_probe_bw();
    bbr.host.jiffies += 11_000;
    bbr.sock.app_limited = bbr.sock.delivered;
    bbr.algorithm.cwnd_event(&mut bbr.sock, &mut bbr.host, ca_event::TX_START);
    assert_eq!(bbr.sock.sk_pacing_rate, RATE);
    bbr.sock.packets_out = 10;
    bbr.round(10);
    assert_eq!(bbr.diag("mode"), PROBE_BW, "the queue was empty while nothing was sent");
}

#[test]
fn a_timeout_forgets_the_plateau_and_its_end_restores_the_window() {
    let mut bbr = bbr();
    bbr.fill_the_pipe();
    let before = bbr.sock.snd_cwnd;
    bbr.ssthresh();
    bbr.algorithm.set_state(&mut bbr.sock, &mut bbr.host, ca_state::LOSS);
    (bbr.sock.icsk_ca_state, bbr.sock.snd_cwnd) = (ca_state::LOSS, 1);
    bbr.sock.packets_out = 1;
    bbr.ack(1, false, |_| ());
    assert_eq!(bbr.sock.snd_cwnd, 4, "never below four");
    bbr.sock.icsk_ca_state = ca_state::OPEN;
    bbr.ack(1, false, |_| ());
    assert!((128..=before).contains(&bbr.sock.snd_cwnd), "{} of {before}", bbr.sock.snd_cwnd);
}

/// At 800 Gbps, over 100 us and over an hour without an ACK, no window or rate overflows.
#[test]
fn nothing_overflows_at_800_gbps_or_after_a_week() {
    let mut bbr = bbr();
    for us in [10, 100, 1_000_000, 3_600_000_000_u64, 7 * 86_400_000_000] {
        // Number of packets of 1448 bytes in that time, limited to the largest count of a sample.
        let pkts = (us * 69).clamp(1, 1 << 28) as u32;
        for _ in 0..50 {
            bbr.sock.tcp_mstamp += us;
            bbr.host.jiffies = bbr.host.jiffies.wrapping_add((us / 1000) as u32);
            bbr.sock.delivered = bbr.sock.delivered.wrapping_add(pkts).max(2);
            bbr.sock.packets_out = pkts.min(1 << 20);
            bbr.ack(1, true, |rs| {
                (rs.delivered, rs.interval_us, rs.acked_sacked) = (pkts as i32, us as i64, pkts);
                rs.rtt_us = us as i64;
            });
            assert!((4..=1 << 29).contains(&bbr.sock.snd_cwnd), "{}", bbr.sock.snd_cwnd);
            assert!(bbr.sock.sk_pacing_rate < 1 << 40, "{}", bbr.sock.sk_pacing_rate);
        }
    }
}

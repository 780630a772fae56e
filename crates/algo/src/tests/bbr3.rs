//! BBR version 3's laws, compared with values calculated by hand.

use super::{Flow, flow, with_params};
use crate::{Algorithm, INFINITE_SSTHRESH, ca_state};

const STARTUP: u64 = 0;
const DRAIN: u64 = 1;
const PROBE_BW: u64 = 2;
const PROBE_RTT: u64 = 3;

const UP: u64 = 0;
const DOWN: u64 = 1;
const CRUISE: u64 = 2;
const REFILL: u64 = 3;

/// Value of a missing bound.
const NONE: u64 = u32::MAX as u64;

/// RTT at which 64 packets per RTT are exactly 2^16 units of bandwidth and the BDP is 64 packets.
const RTT_US: u64 = 16_384;
/// Pacing rate of 64 * 1448 bytes per 16.384 ms at 99 %, in bytes per second.
const BW: u64 = 5_656_250;
const RATE: u64 = 5_599_687;

/// Starts a connection whose handshake took `rtt_us`.
fn begun(mut bbr: Flow, rtt_us: u64) -> Flow {
    bbr.sock.srtt_us = (rtt_us as u32) << 3;
    bbr.sock.min_rtt_us = rtt_us as u32;
    bbr.sock.delivered = 1;
    bbr.algorithm.assign(&mut bbr.sock);
    bbr.algorithm.init(&mut bbr.sock, &mut bbr.host);
    bbr
}

fn bbr3() -> Flow {
    begun(flow("bbr3", 10), RTT_US)
}

/// Creates a connection that responds to marks, on a path short enough for that.
fn bbr3_with_ecn() -> Flow {
    let algorithm = Algorithm::by_name("bbr3").unwrap();
    let mut params = algorithm.default_params();
    algorithm.set_param(&mut params, "ecn", "on").unwrap();
    begun(with_params(algorithm.instance(params), 10), RTT_US / 4)
}

impl Flow {
    fn gains(&mut self) -> (u64, u64) {
        (self.diag("pacing_gain"), self.diag("cwnd_gain"))
    }

    /// Returns the phase of PROBE_BW.
    fn phase(&mut self) -> u64 {
        assert_eq!(self.diag("mode"), PROBE_BW);
        self.diag("phase")
    }

    /// Plays rounds of 64 packets until the pipe is full and the flight has drained to 50.
    fn reach_cruise(&mut self) {
        self.sock.packets_out = 50;
        for _ in 0..7 {
            self.round(64);
        }
        assert_eq!((self.phase(), self.gains()), (CRUISE, (256, 512)));
        assert_eq!(self.sock.snd_cwnd, 192, "twice the BDP, and 64 that come with one ACK");
    }

    /// Moves from CRUISE or DOWN to UP: waits at most 3 s and plays a round of REFILL.
    fn reach_up(&mut self) {
        self.sock.tcp_mstamp += 3_000_000;
        self.round(64);
        assert_eq!((self.phase(), self.gains()), (REFILL, (256, 512)));
        self.round(64);
        assert_eq!((self.phase(), self.gains()), (UP, (320, 576)));
    }

    /// Plays a round that delivers `delivered` packets and loses another `lost`.
    fn round_with_loss(&mut self, delivered: u32, lost: u32) {
        self.sock.lost += lost;
        self.ack(delivered, true, |rs| rs.losses = lost as i32);
    }

    /// Plays a round in which `marked` of the delivered packets are marked.
    fn round_with_marks(&mut self, delivered: u32, marked: u32) {
        self.sock.delivered_ce += marked;
        self.ack(delivered, true, |rs| rs.delivered_ce = marked as i32);
    }

    /// Reaches DOWN after UP has lost 3 packets in addition to 64 delivered, which is too many:
    /// `inflight_hi` is 67.
    fn reach_down_below_67(&mut self) {
        self.reach_cruise();
        self.reach_up();
        // The headroom does not exist yet.
        self.sock.packets_out = 60;
        self.round_with_loss(64, 3);
        assert_eq!((self.phase(), self.diag("inflight_hi")), (DOWN, 67));
        self.sock.packets_out = 50;
    }
}

/// bw = 10 * 2^24 / 16384 = 10240; the rate is 10240 * 1448 * 710 / 256 * 990000 / 2^24. Samples
/// are rounded up: 10 * 2^24 / 20000 = 8388.6 becomes 8389, times 1448 * 10^6 / 2^24.
#[test]
fn the_first_rate_is_the_initial_window_per_rtt_at_the_gain_of_startup() {
    let mut bbr = bbr3();
    assert_eq!((bbr.sock.sk_pacing_rate, bbr.sock.sk_pacing_status), (2_426_622, 1));
    assert_eq!(bbr.sock.snd_ssthresh, INFINITE_SSTHRESH);
    assert_eq!((bbr.diag("mode"), bbr.gains()), (STARTUP, (710, 512)));
    let mut bbr = begun(flow("bbr3", 10), 20_000);
    bbr.round(10);
    assert_eq!((bbr.diag("bw"), bbr.sock.snd_cwnd), (724_033, 20));
}

#[test]
fn startup_ends_after_three_rounds_that_grow_by_less_than_a_quarter() {
    let mut bbr = bbr3();
    bbr.sock.packets_out = 1000;
    // 80 and 100 are each exactly a quarter more. 124 is less. An application-limited round and an
    // ACK within a round do not count.
    for pkts in [64, 80, 100, 124] {
        bbr.round(pkts);
    }
    bbr.ack(124, false, |_| ());
    bbr.ack(50, true, |rs| rs.is_app_limited = true);
    bbr.round(124);
    assert_eq!(bbr.diag("mode"), STARTUP);
    bbr.round(124);
    assert_eq!((bbr.diag("mode"), bbr.gains()), (DRAIN, (88, 512)));
    assert_eq!(bbr.sock.snd_ssthresh, 124, "the BDP, for those who look");
    // The flight is no larger than that.
    bbr.sock.packets_out = 125;
    bbr.round(124);
    assert_eq!(bbr.diag("mode"), DRAIN);
    bbr.sock.packets_out = 124;
    bbr.round(124);
    // DOWN ends at once where no bound is known and no queue is left.
    assert_eq!((bbr.phase(), bbr.gains()), (CRUISE, (256, 512)));
}

/// Delivers `delivered` packets and loses six, in `events` ACKs within one round of recovery.
fn lose_in_startup(delivered: u32, events: u32) -> Flow {
    let mut bbr = bbr3();
    bbr.sock.packets_out = 1000;
    bbr.round(100);
    bbr.sock.icsk_ca_state = ca_state::RECOVERY;
    let begin = bbr.sock.delivered;
    // The last event comes with the ACK that ends the round.
    for event in 1..events {
        bbr.sock.lost += if event == 1 { 7 - events } else { 1 };
        bbr.ack(1, false, |rs| {
            (rs.prior_delivered, rs.delivered) = (begin - 1, 100);
        });
        assert_eq!(bbr.diag("mode"), STARTUP);
    }
    bbr.sock.lost += 1;
    bbr.ack(1, true, |rs| rs.delivered = delivered as i32);
    bbr
}

/// The limit is 5/256 of the flight: 5 packets of 301 + 6, and 6 packets of 302 + 6.
#[test]
fn startup_ends_with_six_losses_in_a_round_if_these_are_more_than_2_percent() {
    let mut bbr = lose_in_startup(301, 6);
    assert_eq!(bbr.diag("mode"), DRAIN);
    assert_eq!(bbr.diag("inflight_hi"), 301, "what was delivered, which is the BDP, too");
    let mut bbr = lose_in_startup(302, 6);
    assert_eq!((bbr.diag("mode"), bbr.diag("inflight_hi")), (STARTUP, NONE));
    let mut bbr = lose_in_startup(301, 5);
    assert_eq!((bbr.diag("mode"), bbr.diag("inflight_hi")), (STARTUP, NONE));
}

/// 180/256 of 2^16 is 46080, or 45 packets per RTT; of a window of 192 it is 135.
#[test]
fn loss_takes_30_percent_off_the_lower_bounds() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    // One round shows the lower rate, and the next has losses.
    bbr.round(40);
    bbr.round_with_loss(40, 2);
    assert_eq!((bbr.diag("bw"), bbr.diag("inflight_lo")), (BW, NONE), "the round is not over");
    bbr.round(40);
    assert_eq!((bbr.diag("bw"), bbr.diag("inflight_lo")), (BW * 45 / 64, 135));
    assert_eq!(bbr.sock.snd_cwnd, 135);
    // Second reduction: 180/256 of 46080 is 32400, but 40 packets were delivered; of 135 it is 94.
    bbr.round_with_loss(40, 2);
    bbr.round(40);
    assert_eq!((bbr.diag("bw"), bbr.diag("inflight_lo")), (BW * 40 / 64, 94));
    // The next probe starts without these bounds.
    bbr.reach_up();
    assert_eq!((bbr.diag("bw"), bbr.diag("inflight_lo")), (BW, NONE));
}

#[test]
fn what_the_round_has_shown_to_get_through_is_not_cut() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.sock.snd_cwnd = 70;
    bbr.round(60);
    bbr.sock.snd_cwnd = 70;
    bbr.round_with_loss(60, 2);
    bbr.sock.snd_cwnd = 70;
    bbr.round(60);
    // 70 % of the window of 70 is 49, and of the rate it is 45.
    assert_eq!((bbr.diag("bw"), bbr.diag("inflight_lo")), (BW * 60 / 64, 60));
}

/// 3 lost of 67 exceed the limit of 67 * 5 / 256 = 1. If fewer were delivered, 180/256 of the
/// target remain. The target is the BDP of 64 plus 2, so 46 remain.
#[test]
fn what_was_in_flight_at_too_much_loss_is_the_upper_bound() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.reach_up();
    bbr.round_with_loss(64, 1);
    assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (UP, NONE), "1 of 65 is not too much");
    bbr.sock.packets_out = 60;
    bbr.round_with_loss(64, 3);
    assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (DOWN, 67));
    assert_eq!(bbr.sock.snd_cwnd, 67);
    // The bound falls only once per probe.
    bbr.round_with_loss(30, 9);
    assert_eq!(bbr.diag("inflight_hi"), 67);

    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.reach_up();
    bbr.round_with_loss(20, 10);
    assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (DOWN, 46));

    // An application-limited sample does not show what the path can carry.
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.reach_up();
    bbr.sock.lost += 10;
    bbr.sock.packets_out = 70;
    bbr.ack(20, true, |rs| rs.is_app_limited = true);
    assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (DOWN, NONE));
}

/// The headroom is 38/256 of 67, which is 9.
#[test]
fn cruise_begins_and_stays_with_headroom_below_the_upper_bound() {
    let mut bbr = bbr3();
    bbr.reach_down_below_67();
    bbr.sock.packets_out = 59;
    bbr.round(64);
    assert_eq!((bbr.phase(), bbr.gains()), (DOWN, (232, 512)));
    assert_eq!(bbr.sock.snd_cwnd, 67);
    bbr.sock.packets_out = 58;
    bbr.round(64);
    assert_eq!((bbr.phase(), bbr.sock.snd_cwnd), (CRUISE, 58));
}

/// The bound grows by one packet per window, then per half, quarter and eighth of it. 64
/// acknowledged packets give none at 67. With the remainders, the next rounds give 128 / 33 = 3, 93
/// / 16 = 5 and 77 / 8 = 9.
#[test]
fn up_raises_the_upper_bound_twice_as_fast_in_each_round() {
    let mut bbr = bbr3();
    bbr.reach_down_below_67();
    bbr.reach_up();
    for inflight_hi in [67, 70, 75, 84] {
        // Application-limited samples do not show that bw has stopped growing, which would end the
        // probe.
        bbr.ack(64, true, |rs| rs.is_app_limited = true);
        assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (UP, inflight_hi));
        assert_eq!(u64::from(bbr.sock.snd_cwnd), inflight_hi);
    }
    // The application leaves cwnd unused, so the bound does not limit the flow and stays.
    bbr.sock.is_cwnd_limited = 0;
    bbr.round(64);
    assert_eq!(bbr.diag("inflight_hi"), 84);
}

#[test]
fn a_probe_that_stopped_out_of_caution_goes_on_if_nothing_came_of_it() {
    let mut bbr = bbr3();
    bbr.reach_down_below_67();
    bbr.reach_up();
    bbr.round(64);
    // The flight reaches the level of the last excessive loss: the bound of 67, plus 3 in this
    // round.
    bbr.sock.packets_out = 70;
    bbr.round(64);
    assert_eq!(bbr.phase(), DOWN);
    bbr.round(64);
    assert_eq!(bbr.phase(), REFILL);
}

#[test]
fn up_ends_when_bw_grows_no_more() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.reach_up();
    for _ in 0..2 {
        bbr.round(64);
        assert_eq!(bbr.phase(), UP);
    }
    bbr.round(64);
    assert_eq!(bbr.phase(), DOWN);
}

/// The flight is half the BDP of 64 for 200 ms, so the thirteenth round of 16 ms ends it.
#[test]
fn probe_rtt_comes_after_5_s_and_holds_half_a_bdp_for_200_ms() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.host.jiffies += 4_800;
    bbr.ack(64, true, |rs| rs.rtt_us += 1);
    assert_eq!(bbr.diag("mode"), PROBE_BW);
    bbr.host.jiffies += 201;
    bbr.ack(64, true, |rs| rs.rtt_us += 1);
    assert_eq!((bbr.diag("mode"), bbr.gains()), (PROBE_RTT, (256, 256)));
    assert_eq!(bbr.sock.snd_cwnd, 32);
    assert_eq!(bbr.diag("min_rtt"), RTT_US, "that of 10 s");
    assert_eq!(bbr.sock.app_limited, bbr.sock.delivered + 50);
    let hold = |bbr: &mut Flow| {
        bbr.ack(32, true, |rs| {
            rs.rtt_us += 1;
            rs.is_app_limited = true;
        });
    };
    // The 200 ms start when the flight is this small.
    bbr.sock.packets_out = 33;
    for _ in 0..20 {
        hold(&mut bbr);
    }
    bbr.sock.packets_out = 32;
    hold(&mut bbr);
    for _ in 0..12 {
        hold(&mut bbr);
        assert_eq!((bbr.diag("mode"), bbr.sock.snd_cwnd), (PROBE_RTT, 32));
    }
    hold(&mut bbr);
    assert_eq!((bbr.phase(), bbr.diag("bw")), (CRUISE, BW));
    assert_eq!(bbr.sock.snd_cwnd, 160, "twice the BDP, and 32 that come with one ACK");
    // The next PROBE_RTT comes 5 s after this one.
    bbr.host.jiffies += 4_980;
    bbr.ack(64, true, |rs| rs.rtt_us += 2);
    assert_eq!(bbr.diag("mode"), PROBE_BW);
}

/// Without marks, alpha falls to 15/16, rounded down. A quarter marked adds 64/16 = 4, all marked
/// adds 16.
#[test]
fn alpha_is_the_average_share_of_marks() {
    let mut bbr = bbr3_with_ecn();
    let mut seen = vec![bbr.diag("ecn_alpha")];
    for marked in [0, 0, 0, 0, 16, 64] {
        bbr.round_with_marks(64, marked);
        seen.push(bbr.diag("ecn_alpha"));
    }
    assert_eq!(seen, [256, 240, 225, 210, 196, 187, 191]);
}

/// alpha is 131 after ten rounds. With a quarter marked, it becomes 15/16 of that plus 4: 126. A
/// third (85/256) of 126 is 41, so 215/256 of the window of 192 remain: 161.
#[test]
fn marks_take_a_third_of_alpha_off_the_window_and_nothing_off_the_rate() {
    let mut bbr = bbr3_with_ecn();
    bbr.reach_cruise();
    for _ in 0..3 {
        bbr.round(64);
    }
    assert_eq!((bbr.diag("ecn_alpha"), bbr.sock.snd_cwnd), (131, 192));
    let bw = bbr.diag("bw");
    bbr.round_with_marks(64, 16);
    assert_eq!((bbr.diag("ecn_alpha"), bbr.diag("inflight_lo")), (126, 161));
    assert_eq!((bbr.diag("bw"), u64::from(bbr.sock.snd_cwnd)), (bw, 161));
}

#[test]
fn marks_are_left_to_others_unless_it_is_told_and_the_path_is_short() {
    let algorithm = Algorithm::by_name("bbr3").unwrap();
    let mut on = algorithm.default_params();
    algorithm.set_param(&mut on, "ecn", "on").unwrap();
    let untold = begun(flow("bbr3", 10), RTT_US / 4);
    let far = begun(with_params(algorithm.instance(on), 10), RTT_US);
    for mut bbr in [untold, far] {
        bbr.reach_cruise();
        for _ in 0..4 {
            bbr.round_with_marks(64, 64);
        }
        assert_eq!((bbr.diag("inflight_lo"), bbr.sock.snd_cwnd), (NONE, 192));
    }
}

#[test]
fn two_rounds_with_half_of_it_marked_end_startup() {
    let mut bbr = bbr3_with_ecn();
    bbr.sock.packets_out = 1000;
    // Half is marked (63 of 126), then less than half, then half twice in a row.
    for (delivered, marked) in [(126, 63), (160, 79), (200, 100)] {
        bbr.round_with_marks(delivered, marked);
        assert_eq!(bbr.diag("mode"), STARTUP);
    }
    bbr.round_with_marks(260, 130);
    assert_eq!((bbr.diag("mode"), bbr.diag("inflight_hi")), (DRAIN, 260));
}

/// More than half marked is too much. Marks without loss then start the next probe at once, with
/// half of `inflight_hi` per round. log2(32) = 5, and 64 acknowledged packets are 32 times a 32nd
/// of the window.
#[test]
fn marks_without_loss_let_the_next_probe_begin_where_it_left_off() {
    let mut bbr = bbr3_with_ecn();
    bbr.reach_cruise();
    bbr.reach_up();
    bbr.round_with_marks(64, 32);
    assert_eq!(bbr.phase(), UP);
    bbr.sock.packets_out = 60;
    bbr.round_with_marks(64, 33);
    assert_eq!((bbr.phase(), bbr.diag("inflight_hi")), (DOWN, 64));
    bbr.round(64);
    assert_eq!(bbr.phase(), REFILL);
    bbr.round(64);
    assert_eq!(bbr.phase(), UP);
    bbr.round(64);
    assert_eq!(bbr.diag("inflight_hi"), 64 + 32);
}

/// One packet per 512 us: 1448 * 990000 / 2^9 / 10^6 bytes per us are 2734 bytes per 1/1024 s. With
/// half of 65536 for the short path, a burst has 24 packets.
#[test]
fn a_window_has_room_for_three_bursts() {
    let mut bbr = begun(flow("bbr3", 10), 512);
    bbr.sock.sk_gso_max_size = 65_536;
    bbr.sock.packets_out = 1;
    for _ in 0..7 {
        bbr.round(1);
    }
    assert_eq!(bbr.phase(), CRUISE);
    bbr.sock.snd_cwnd = 100;
    bbr.round(1);
    assert_eq!((bbr.sock.sk_pacing_rate, bbr.sock.snd_cwnd), (2_799_843, 72));
}

#[test]
fn undo_gives_back_what_a_loss_took_that_was_none() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.ssthresh();
    bbr.sock.icsk_ca_state = ca_state::RECOVERY;
    bbr.round(40);
    bbr.round_with_loss(40, 2);
    bbr.round(40);
    assert_eq!((bbr.diag("inflight_lo"), bbr.diag("bw")), (135, BW * 45 / 64));
    assert_eq!(bbr.algorithm.undo_cwnd(&mut bbr.sock, &mut bbr.host), 192);
    assert_eq!((bbr.diag("inflight_lo"), bbr.diag("bw")), (NONE, BW));
}

#[test]
fn a_timeout_bounds_the_flight_and_its_end_restores_the_window() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    bbr.ssthresh();
    bbr.algorithm.set_state(&mut bbr.sock, &mut bbr.host, ca_state::LOSS);
    assert_eq!(bbr.diag("inflight_lo"), 192);
    (bbr.sock.icsk_ca_state, bbr.sock.snd_cwnd, bbr.sock.packets_out) = (ca_state::LOSS, 1, 1);
    bbr.ack(1, false, |_| ());
    assert_eq!(bbr.sock.snd_cwnd, 4, "never below four");
    bbr.algorithm.set_state(&mut bbr.sock, &mut bbr.host, ca_state::OPEN);
    assert_eq!(bbr.sock.snd_cwnd, 192);
}

#[test]
fn the_rate_is_99_percent_of_bw_and_follows_the_phase() {
    let mut bbr = bbr3();
    bbr.reach_cruise();
    assert_eq!((bbr.diag("bw"), bbr.sock.sk_pacing_rate), (BW, RATE));
    bbr.reach_up();
    assert_eq!(bbr.sock.sk_pacing_rate, 6_999_609);
    // 2.25 times the BDP, plus 64 packets acknowledged together, plus 2.
    assert_eq!(bbr.sock.snd_cwnd, 144 + 64 + 2);
}

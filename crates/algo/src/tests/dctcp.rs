//! Effects of DCTCP's parameters, compared with values calculated by hand.

use super::*;

const MSS: u32 = 1448;

fn dctcp(params: &[(&str, &str)]) -> Flow {
    let algorithm = Algorithm::by_name("dctcp").unwrap();
    let mut values = algorithm.default_params();
    for (name, value) in params {
        algorithm.set_param(&mut values, name, value).unwrap();
    }
    with_params(algorithm.instance(values), 100)
}

impl Flow {
    /// Plays an ACK for all packets up to `una_pkts`, before the packets that it releases are sent.
    fn ack_to(&mut self, una_pkts: u32, ece: bool) {
        let una = una_pkts * MSS;
        let packets = (una - self.sock.snd_una) / MSS;
        self.sock.snd_una = una;
        self.sock.delivered += packets;
        self.sock.delivered_ce += if ece { packets } else { 0 };
        let flags = if ece { 5 } else { 1 };
        self.algorithm.in_ack_event(&mut self.sock, &mut self.host, flags);
    }

    /// Does what the core does on the first ECE.
    fn enter_cwr(&mut self) {
        self.sock.snd_ssthresh = self.ssthresh();
        self.sock.ecn_flags |= ecn_flags::QUEUE_CWR;
        self.algorithm.set_state(&mut self.sock, &mut self.host, ca_state::CWR);
        self.sock.icsk_ca_state = ca_state::CWR;
    }
}

#[test]
fn before_2019_a_loss_was_cut_by_alpha_and_a_timeout_could_clamp_it() {
    for (clamp, alpha) in [("0", 0), ("1", 1024)] {
        let mut dctcp =
            dctcp(&[("loss", "alpha"), ("clamp_alpha_on_loss", clamp), ("alpha_on_init", "0")]);
        assert_eq!(dctcp.ssthresh(), 100, "alpha 0: nothing is cut");
        let Flow { algorithm, host, sock } = &mut dctcp;
        sock.snd_ssthresh = 100;
        algorithm.set_state(sock, host, ca_state::RECOVERY);
        assert_eq!(sock.snd_ssthresh, 100, "nor on loss");
        algorithm.cwnd_event(sock, host, ca_event::LOSS);
        assert_eq!(sock.snd_ssthresh, 100);
        algorithm.set_state(sock, host, ca_state::LOSS);
        assert_eq!(dctcp.diag("alpha"), alpha);
    }
}

#[test]
fn the_first_mark_can_halve_whatever_alpha_is() {
    let mut dctcp = dctcp(&[("halve_first", "1"), ("alpha_on_init", "0")]);
    dctcp.ack_to(1, true);
    assert_eq!(dctcp.ssthresh(), 50);
    assert_eq!(dctcp.diag("alpha"), 1024);
    for _ in 0..200 {
        dctcp.window(10, 0);
    }
    dctcp.ack_to(dctcp.sock.snd_una / MSS + 1, true);
    assert!(dctcp.ssthresh() > 95, "only the first");
}

#[test]
fn a_loss_before_the_first_mark_counts_as_congestion() {
    let mut dctcp = dctcp(&[("halve_first", "1"), ("alpha_on_init", "0")]);
    assert_eq!(dctcp.ssthresh(), 100, "asked for a loss: no ECE");
    dctcp.ack_to(1, true);
    assert!(dctcp.ssthresh() > 95);
}

#[test]
fn after_idle_alpha_can_start_again() {
    for (reset, expected) in [("0", 0), ("1", 700)] {
        let mut dctcp = dctcp(&[("reset_after_idle", reset), ("alpha_on_init", "700")]);
        for _ in 0..200 {
            dctcp.window(10, 0);
        }
        let Flow { algorithm, host, sock } = &mut dctcp;
        algorithm.cwnd_event(sock, host, ca_event::CWND_RESTART);
        assert_eq!(dctcp.diag("alpha"), expected);
    }
}

#[test]
fn freebsd_s_estimate_moves_an_mss_at_each_change() {
    let mut dctcp = dctcp(&[("estimator", "freebsd")]);
    // The first ACK ends the first window: 1024 - 64. The next window ends above 10.
    dctcp.sock.snd_nxt = 10 * MSS;
    dctcp.ack_to(2, false);
    assert_eq!(dctcp.diag("alpha"), 960);
    // Change 0 -> 1: one of two packets counts as marked. Then both count. Change 1 -> 0: one of
    // two.
    dctcp.ack_to(4, true);
    dctcp.ack_to(6, true);
    dctcp.ack_to(8, false);
    dctcp.ack_to(10, false);
    assert_eq!(dctcp.diag("alpha"), 960, "an ACK up to the end does not end it");
    dctcp.sock.snd_nxt = 20 * MSS;
    dctcp.ack_to(12, false);
    // 4 of 10 packets are marked: 960 - 60 + floor(4 * 64 / 10).
    assert_eq!(dctcp.diag("alpha"), 960 - 60 + 25);
    // Without marks, alpha does not fall below 15.
    for end in 2..200 {
        dctcp.sock.snd_nxt = (10 + 10 * end) * MSS;
        dctcp.ack_to(3 + 10 * end, false);
    }
    assert_eq!(dctcp.diag("alpha"), 15);
}

/// Sends ten packets and acknowledges each alone. The fourth ACK brings ECE, and the fourteenth
/// packet carries CWR.
fn one_latched_echo(dctcp: &mut Flow) {
    for packet in 1..=19 {
        dctcp.sock.snd_nxt = (packet + 9) * MSS;
        dctcp.ack_to(packet, (4..14).contains(&packet));
        if packet == 4 {
            dctcp.enter_cwr();
        }
        // The next segment sent carries CWR.
        dctcp.sock.ecn_flags &= !ecn_flags::QUEUE_CWR;
    }
}

#[test]
fn a_latched_echo_counts_from_its_first_mark_to_cwr() {
    let mut dctcp = dctcp(&[("peer", "classic"), ("cwr", "once"), ("alpha_on_init", "0")]);
    one_latched_echo(&mut dctcp);
    // Windows end with packets 1, 10 and 19. In the second window the echo is not over, so both
    // count together. Ten of 18 packets were marked, floor(10 * 64 / 18) = 35, applied twice: 35 -
    // 2 + 35.
    assert_eq!(dctcp.diag("alpha"), 68);
    assert_eq!(dctcp.diag("latched"), 1);
}

#[test]
fn a_receiver_that_latches_is_asked_with_every_ack() {
    for (peer, cwr, asks) in [
        ("classic", "each", true),
        ("classic", "once", false),
        ("dctcp", "each", false),
        ("auto", "each", false),
    ] {
        let mut dctcp = dctcp(&[("peer", peer), ("cwr", cwr)]);
        for packet in 1..=20 {
            dctcp.sock.snd_nxt = (packet + 9) * MSS;
            dctcp.sock.ecn_flags &= !ecn_flags::QUEUE_CWR;
            dctcp.ack_to(packet, packet % 3 == 0);
            assert_eq!(dctcp.sock.ecn_flags & ecn_flags::QUEUE_CWR != 0, asks, "{peer} {cwr}");
        }
    }
}

#[test]
fn what_a_receiver_tells_that_is_asked_is_counted_as_it_is() {
    let mut dctcp = dctcp(&[("peer", "classic"), ("alpha_on_init", "0")]);
    one_latched_echo(&mut dctcp);
    // Windows end with packets 1, 10 and 19: seven of nine marked, then three of nine. floor(7 * 64
    // / 9) = 49; 49 - 3 + floor(3 * 64 / 9) = 67.
    assert_eq!(dctcp.diag("alpha"), 67);
}

#[test]
fn an_ack_without_ece_before_cwr_refutes_a_latch_for_good() {
    let mut dctcp = dctcp(&[("peer", "auto"), ("cwr", "once")]);
    // Each of 32 echoes of 10 packets suggests a latched ECE, and nothing else was seen.
    let mut tested = 0;
    let mut packet = 1;
    for echo in 0..32 {
        let (first, mut cwr) = (packet + 3, None);
        for _ in 0..40 {
            dctcp.sock.snd_nxt = (packet + 9) * MSS;
            let ece = packet >= first && cwr.is_none_or(|cwr| packet <= cwr);
            dctcp.ack_to(packet, ece);
            if packet == first {
                dctcp.enter_cwr();
                tested += u32::from(dctcp.sock.ecn_flags & ecn_flags::QUEUE_CWR == 0);
            }
            if dctcp.sock.ecn_flags & ecn_flags::QUEUE_CWR != 0 {
                dctcp.sock.ecn_flags &= !ecn_flags::QUEUE_CWR;
                cwr = Some(packet + 9);
            }
            packet += 1;
        }
        dctcp.sock.icsk_ca_state = ca_state::OPEN;
        if dctcp.diag("latched") == 1 {
            assert!(echo >= 5, "{echo}");
            break;
        }
    }
    assert_eq!((tested, dctcp.diag("latched")), (2, 1), "two tests, then it is believed");
    // A single ACK disproves it.
    dctcp.sock.snd_nxt = (packet + 9) * MSS;
    dctcp.ack_to(packet, true);
    dctcp.enter_cwr();
    dctcp.sock.ecn_flags &= !ecn_flags::QUEUE_CWR;
    dctcp.ack_to(packet + 1, true);
    dctcp.ack_to(packet + 2, false);
    assert_eq!(dctcp.diag("latched"), 0);
}

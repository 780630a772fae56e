//! BIC's laws, compared with values calculated from the formulas in docs/algorithms/bic.md.

use super::*;

#[test]
fn bic_searches_by_quarters_lingers_and_probes_beyond() {
    // `delayed_ack` starts at 2 packets per ACK, which halves every cnt below.
    let cnt_at = |last_max: u32, cwnd: u32| {
        let mut bic = flow("bic", last_max);
        bic.ssthresh();
        bic.sock.snd_ssthresh = 2;
        bic.sock.snd_cwnd = cwnd;
        let Flow { algorithm, host, sock } = &mut bic;
        algorithm.cong_avoid(sock, host, 0, 1);
        bic.diag("cnt")
    };
    // Far below the `W_max` of 1000: 16 packets per RTT, cwnd / 16 / 2.
    assert_eq!(cnt_at(1000, 819), 819 / 16 * 16 / 32);
    // 40 below `W_max`: a quarter of the distance, cwnd / 10 / 2.
    assert_eq!(cnt_at(1000, 960), 48);
    // 4 below `W_max`: one packet per 20 / 4 RTTs, cwnd * 5 / 2.
    assert_eq!(cnt_at(1000, 996), 996 * 5 / 2);
    // At `W_max`, and 2 above it.
    assert_eq!(cnt_at(1000, 1000), 2500);
    assert_eq!(cnt_at(1000, 1002), 1002 * 5 / 2);
    // 24 above `W_max`: cwnd * 3 / 24 / 2. From 48 on, 16 packets per RTT again.
    assert_eq!(cnt_at(1000, 1024), 64);
    assert_eq!(cnt_at(1000, 1048), 1048 / 16 * 16 / 32);
    // Up to 14 packets BIC follows Reno, without the halving.
    assert_eq!(cnt_at(1000, 14), 14);
}

#[test]
fn bic_keeps_four_fifths_and_half_of_a_small_window() {
    let mut bic = flow("bic", 100);
    assert_eq!(bic.ssthresh(), 79, "819 / 1024 of 100");
    assert_eq!(bic.diag("last_max_cwnd"), 100);
    bic.sock.snd_cwnd = 80;
    assert_eq!(bic.ssthresh(), 63);
    assert_eq!(bic.diag("last_max_cwnd"), 80 * 1843 / 2048, "fast convergence");
    bic.sock.snd_cwnd = 14;
    assert_eq!(bic.ssthresh(), 7);
    let Flow { algorithm, host, sock } = &mut bic;
    algorithm.set_state(sock, host, ca_state::LOSS);
    assert_eq!(bic.diag("last_max_cwnd"), 0, "a timeout forgets");
}

#[test]
fn bic_averages_packets_per_ack_over_sixteen_in_open_only() {
    let mut bic = flow("bic", 100);
    let Flow { algorithm, host, sock } = &mut bic;
    let ack = |pkts_acked| AckSample { pkts_acked, rtt_us: 100, in_flight: 0 };
    algorithm.pkts_acked(sock, host, &ack(4));
    assert_eq!(bic.diag("delayed_ack"), 32 + 4 - 2);
    let Flow { algorithm, host, sock } = &mut bic;
    sock.icsk_ca_state = ca_state::DISORDER;
    algorithm.pkts_acked(sock, host, &ack(40));
    assert_eq!(bic.diag("delayed_ack"), 34);
    // `delayed_ack` never falls below 15, so no division by 0 occurs.
    let Flow { algorithm, host, sock } = &mut bic;
    sock.icsk_ca_state = ca_state::OPEN;
    for _ in 0..100 {
        algorithm.pkts_acked(sock, host, &ack(0));
    }
    assert_eq!(bic.diag("delayed_ack"), 15);
}

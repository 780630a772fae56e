mod bbr;
mod bbr3;
mod bic;
mod dctcp;
mod nv;

use super::*;

#[repr(C)]
struct Layout {
    name: *const c_char,
    value: u64,
}

unsafe extern "C" {
    static cc_layout: Layout;
}

#[test]
fn the_mirrors_have_the_layout_of_the_c_structs() {
    let ours = sock::layout();
    let mut row: *const Layout = &raw const cc_layout;
    let mut rows = 0;
    // SAFETY: the table ends with a row without a name.
    while let Some(layout) = unsafe { row.as_ref() }.filter(|layout| !layout.name.is_null()) {
        let name = text(layout.name);
        let (_, value) = ours.iter().find(|(ours, _)| *ours == name).expect(name);
        assert_eq!(*value, layout.value, "{name}");
        rows += 1;
        // SAFETY: the row just read was not the last.
        row = unsafe { row.add(1) };
    }
    assert_eq!(rows, ours.len(), "a field is missing on the C side");
}

#[test]
fn every_algorithm_has_what_the_kernel_demands() {
    // Reading the tables checks that each parameter's default is one of its allowed values.
    for algorithm in Algorithm::all() {
        for param in algorithm.params() {
            assert!((param.min..=param.max).contains(&param.default), "{}", param.name);
        }
    }
}

/// The check also holds in release builds, because there is no function to call.
#[test]
#[should_panic(expected = "an algorithm with cong_control has no cong_avoid")]
fn an_operation_that_an_algorithm_has_not_is_never_called() {
    let mut flow = flow("bbr", 10);
    flow.algorithm.cong_avoid(&mut flow.sock, &mut flow.host, 0, 1);
}

struct Flow {
    algorithm: Instance,
    host: Host,
    sock: TcpSock,
}

fn flow(name: &str, cwnd: u32) -> Flow {
    let algorithm = Algorithm::by_name(name).unwrap();
    with_params(algorithm.instance(algorithm.default_params()), cwnd)
}

fn with_params(algorithm: Instance, cwnd: u32) -> Flow {
    let mut flow = Flow {
        algorithm,
        host: Host::new(1000, 1),
        sock: TcpSock {
            snd_cwnd: cwnd,
            mss_cache: 1448,
            is_cwnd_limited: 1,
            ecn_flags: ecn_flags::OK,
            ..TcpSock::default()
        },
    };
    flow.host.jiffies = 100_000;
    flow.algorithm.init(&mut flow.sock, &mut flow.host);
    flow
}

impl Flow {
    fn diag(&mut self, name: &str) -> u64 {
        let index =
            self.algorithm.algorithm().diag().iter().position(|diag| diag.name == name).unwrap();
        self.algorithm.read_diag(&mut self.sock, &mut self.host)[index]
    }

    /// Plays one observation window of `delivered` packets, of which `marked` are marked.
    fn window(&mut self, delivered: u32, marked: u32) {
        self.sock.delivered += delivered;
        self.sock.delivered_ce += marked;
        self.sock.snd_una = self.sock.snd_nxt;
        self.sock.snd_nxt += delivered * 1448;
        self.algorithm.in_ack_event(&mut self.sock, &mut self.host, 0);
    }

    fn ssthresh(&mut self) -> u32 {
        self.algorithm.ssthresh(&mut self.sock, &mut self.host)
    }
}

#[test]
fn dctcp_alpha_follows_the_worked_values_of_rfc_8257_arithmetic() {
    // Without marks, alpha goes 1024 -> 960 -> 900 -> 844 -> 792, and below 16 to 0 in one step.
    let mut dctcp = flow("dctcp", 10);
    let mut seen = vec![dctcp.diag("alpha")];
    for _ in 0..4 {
        dctcp.window(10, 0);
        seen.push(dctcp.diag("alpha"));
    }
    assert_eq!(seen, [1024, 960, 900, 844, 792]);
    for _ in 0..200 {
        dctcp.window(10, 0);
    }
    assert_eq!(dctcp.diag("alpha"), 0);
    // With all packets marked, alpha goes from 0 to 64, 124, 181, 234.
    let mut seen = Vec::new();
    for _ in 0..4 {
        dctcp.window(10, 10);
        seen.push(dctcp.diag("alpha"));
    }
    assert_eq!(seen, [64, 124, 181, 234]);
}

#[test]
fn dctcp_cuts_by_half_of_alpha_and_never_below_two() {
    let mut dctcp = flow("dctcp", 100);
    assert_eq!(dctcp.ssthresh(), 50, "alpha 1 halves");
    dctcp.sock.snd_cwnd = 2;
    assert_eq!(dctcp.ssthresh(), 2);
    dctcp.sock.snd_cwnd = 100;
    for _ in 0..200 {
        dctcp.window(10, 0);
    }
    assert_eq!(dctcp.ssthresh(), 100, "alpha 0 leaves the window as it is");
}

#[test]
fn dctcp_halves_on_loss_and_on_timeout_whatever_alpha_is() {
    let mut dctcp = flow("dctcp", 100);
    for _ in 0..200 {
        dctcp.window(10, 0);
    }
    let Flow { algorithm, host, sock } = &mut dctcp;
    algorithm.set_state(sock, host, ca_state::RECOVERY);
    assert_eq!(sock.snd_ssthresh, 50);
    sock.icsk_ca_state = ca_state::RECOVERY;
    sock.snd_cwnd = 60;
    algorithm.set_state(sock, host, ca_state::RECOVERY);
    assert_eq!(sock.snd_ssthresh, 50, "not again in the same episode");
    algorithm.cwnd_event(sock, host, ca_event::LOSS);
    assert_eq!(sock.snd_ssthresh, 30);
    sock.snd_cwnd = 1;
    assert_eq!(algorithm.undo_cwnd(sock, host), 60);
}

#[test]
fn dctcp_receiver_acks_the_old_state_first_when_ce_changes() {
    let mut dctcp = flow("dctcp", 10);
    let Flow { algorithm, host, sock } = &mut dctcp;
    sock.rcv_nxt = 1000;
    algorithm.cwnd_event(sock, host, ca_event::ECN_NO_CE);
    assert_eq!(host.take_asked_acks().count(), 0);
    // A delayed ACK is pending for the previous segment when CE arrives.
    sock.icsk_ack_pending = ack_pending::SCHED | ack_pending::TIMER;
    sock.rcv_nxt = 2448;
    algorithm.cwnd_event(sock, host, ca_event::ECN_IS_CE);
    let asked: Vec<_> = host.take_asked_acks().collect();
    assert_eq!(asked, [AskedAck { rcv_nxt: 1000, ecn_flags: ecn_flags::OK }]);
    assert_eq!(sock.ecn_flags, ecn_flags::OK | ecn_flags::DEMAND_CWR);
    assert_ne!(sock.icsk_ack_pending & ack_pending::NOW, 0);
    // Another marked segment causes no extra ACK.
    sock.icsk_ack_pending = 0;
    algorithm.cwnd_event(sock, host, ca_event::ECN_IS_CE);
    assert_eq!(host.take_asked_acks().count(), 0);
    assert_eq!(sock.icsk_ack_pending, 0);
    // Unmarked again, with no ACK pending: only the immediate ACK is sent.
    algorithm.cwnd_event(sock, host, ca_event::ECN_NO_CE);
    assert_eq!(host.take_asked_acks().count(), 0);
    assert_ne!(sock.icsk_ack_pending & ack_pending::NOW, 0);
    assert_eq!(sock.ecn_flags, ecn_flags::OK);
}

#[test]
fn dctcp_without_ecn_asks_for_its_fallback() {
    for (value, name) in [("reno", "reno"), ("cubic", "cubic")] {
        let dctcp = Algorithm::by_name("dctcp").unwrap();
        let mut params = dctcp.default_params();
        dctcp.set_param(&mut params, "fallback", value).unwrap();
        let mut dctcp = with_params(dctcp.instance(params), 10);
        let Flow { algorithm, host, sock } = &mut dctcp;
        sock.ecn_flags = 0;
        algorithm.init(sock, host);
        assert_eq!(host.take_fallback().as_deref(), Some(name));
        assert_eq!(host.take_fallback(), None);
    }
}

#[test]
fn cubic_reduces_to_seven_tenths_and_remembers_a_lower_plateau() {
    let mut cubic = flow("cubic", 100);
    assert_eq!(cubic.ssthresh(), 70, "717 / 1024 of 100");
    assert_eq!(cubic.diag("last_max_cwnd"), 100);
    cubic.sock.snd_cwnd = 80;
    assert_eq!(cubic.ssthresh(), 56);
    assert_eq!(cubic.diag("last_max_cwnd"), 80 * 1741 / 2048, "fast convergence");
}

#[test]
fn cubic_is_back_at_its_plateau_after_k_seconds() {
    // K = cbrt((W_max - cwnd) / C) = cbrt(300 / 0.4) = 9.09 s for a cut from 1000 to 700.
    let mut cubic = flow("cubic", 1000);
    cubic.sock.snd_ssthresh = cubic.ssthresh();
    cubic.sock.snd_cwnd = cubic.sock.snd_ssthresh;
    let start_ms = cubic.host.jiffies;
    let Flow { algorithm, host, sock } = &mut cubic;
    // Each RTT of 100 ms acknowledges one window of packets, two per ACK.
    while host.jiffies < start_ms + 9_100 {
        for _ in 0..sock.snd_cwnd / 2 {
            algorithm.cong_avoid(sock, host, 0, 2);
        }
        host.jiffies += 100;
    }
    assert!((980..=1005).contains(&sock.snd_cwnd), "{}", sock.snd_cwnd);
}

#[test]
fn cubic_leaves_slow_start_on_an_ack_train_of_half_an_rtt() {
    let mut cubic = flow("cubic", 40);
    let Flow { algorithm, host, sock } = &mut cubic;
    sock.sk_pacing_rate = 1;
    sock.sk_gso_max_size = 65_343;
    sock.snd_una = 1;
    sock.snd_nxt = 100_000;
    let sample = AckSample { pkts_acked: 2, rtt_us: 1000, in_flight: 0 };
    // Without pacing, the threshold is (`delay_min` + 1 ms) / 2 = 1 ms from the start of the round.
    for (now_us, ssthresh) in [(0, INFINITE_SSTHRESH), (1000, INFINITE_SSTHRESH), (1001, 40)] {
        sock.tcp_mstamp = now_us;
        algorithm.pkts_acked(sock, host, &sample);
        assert_eq!(sock.snd_ssthresh, ssthresh, "at {now_us} us");
    }
}

#[test]
fn reno_grows_by_one_per_window_in_avoidance_and_not_when_unlimited() {
    let mut reno = flow("reno", 10);
    reno.sock.snd_ssthresh = 10;
    let Flow { algorithm, host, sock } = &mut reno;
    for _ in 0..5 {
        algorithm.cong_avoid(sock, host, 0, 2);
    }
    assert_eq!(sock.snd_cwnd, 11);
    sock.is_cwnd_limited = 0;
    for _ in 0..50 {
        algorithm.cong_avoid(sock, host, 0, 2);
    }
    assert_eq!(sock.snd_cwnd, 11);
}

#[test]
fn a_large_state_is_each_connections_own_and_starts_at_zero() {
    let large = Algorithm::for_tests("large");
    assert_eq!(large.state_bytes(), 256);
    let mut flows: Vec<_> =
        (0..2).map(|_| with_params(large.instance(large.default_params()), 10)).collect();
    assert_eq!([flows[0].ssthresh(), flows[0].ssthresh(), flows[1].ssthresh()], [1, 2, 1]);
    assert_eq!([flows[0].diag("calls"), flows[1].diag("calls")], [2, 1]);
    let Flow { algorithm, sock, .. } = &mut flows[0];
    algorithm.assign(sock);
    assert_eq!(flows[0].ssthresh(), 1);
}

#[test]
fn the_host_tells_a_base_rtt_to_algorithms_that_ask() {
    let told = Algorithm::for_tests("told");
    let mut flow = with_params(told.instance(told.default_params()), 10);
    let Flow { algorithm, sock, host, .. } = &mut flow;
    algorithm.init(sock, host);
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH, "it is not known");
    host.base_rtt_us = 70;
    algorithm.init(sock, host);
    assert_eq!(sock.snd_ssthresh, 70);
}

#[test]
fn wrong_parameters_are_refused_with_what_is_allowed() {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let mut params = dctcp.default_params();
    let error = dctcp.set_param(&mut params, "shift_g", "11").unwrap_err();
    assert_eq!(error.to_string(), "dctcp: shift_g = \"11\": must be a whole number from 0 to 10");
    let error = dctcp.set_param(&mut params, "g", "1").unwrap_err();
    assert!(error.to_string().contains("shift_g"), "{error}");
    let error = Algorithm::by_name("dctpc").unwrap_err();
    assert!(error.to_string().contains("dctcp"), "{error}");
}

/// Returns an established DCTCP connection with PLB and data in flight.
fn with_plb(settings: &[(&str, &str)]) -> Flow {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let mut params = dctcp.default_params();
    for (name, value) in [("plb", "on")].iter().chain(settings) {
        dctcp.set_param(&mut params, name, value).unwrap();
    }
    let mut flow = with_params(dctcp.instance(params), 10);
    flow.sock.packets_out = 5;
    flow
}

/// Returns the number of path changes requested in each round. In each round, `marked` of 16
/// packets are marked.
fn rehashes(flow: &mut Flow, rounds: u32, marked: u32) -> Vec<u32> {
    (1..=rounds)
        .filter(|_| {
            flow.window(16, marked);
            flow.host.take_asked_rehashes() == 1
        })
        .collect()
}

#[test]
fn plb_changes_path_after_twelve_congested_rounds_and_starts_again() {
    let mut on = with_plb(&[]);
    assert_eq!(rehashes(&mut on, 30, 8), [12, 24], "half of the packets marked is congested");
    // Six more rounds count towards the limit. One round below half resets the count.
    assert_eq!(rehashes(&mut on, 1, 7), []);
    assert_eq!(rehashes(&mut on, 12, 16), [12]);
    let mut off = flow("dctcp", 10);
    off.sock.packets_out = 5;
    assert_eq!(rehashes(&mut off, 100, 16), [], "it is off by default");
}

#[test]
fn plb_changes_the_path_of_an_idle_sender_after_three_rounds() {
    let start = |flow: &mut Flow| {
        let Flow { algorithm, host, sock } = flow;
        algorithm.cwnd_event(sock, host, ca_event::TX_START);
        host.take_asked_rehashes()
    };
    let mut idle = with_plb(&[]);
    assert_eq!(rehashes(&mut idle, 2, 16), []);
    idle.sock.packets_out = 0;
    assert_eq!(start(&mut idle), 0, "two are too few");
    idle.sock.packets_out = 5;
    assert_eq!(rehashes(&mut idle, 1, 16), [], "not while data is in flight");
    assert_eq!(start(&mut idle), 0);
    idle.sock.packets_out = 0;
    assert_eq!(start(&mut idle), 1);
    assert_eq!(start(&mut idle), 0, "the count begins again");

    let mut never = with_plb(&[("plb_idle_rehash_rounds", "0")]);
    never.sock.packets_out = 0;
    assert_eq!(rehashes(&mut never, 12, 16), [12]);
}

#[test]
fn plb_pauses_for_one_to_two_times_the_parameter_after_a_timeout() {
    for seed in 0..20 {
        let mut flow = with_plb(&[("plb_suspend_rto_sec", "2")]);
        flow.host.random_state = seed;
        assert_eq!(rehashes(&mut flow, 11, 16), []);
        let timeout = flow.host.jiffies;
        let Flow { algorithm, host, sock } = &mut flow;
        algorithm.cwnd_event(sock, host, ca_event::LOSS);
        // The count also starts again.
        assert_eq!(rehashes(&mut flow, 1, 16), []);
        flow.host.jiffies = timeout + 1999;
        assert_eq!(rehashes(&mut flow, 20, 16), [], "two seconds at 1000 ticks");
        flow.host.jiffies = timeout + 4000;
        assert_eq!(rehashes(&mut flow, 1, 16), [1]);
    }
}

#[test]
fn plb_takes_a_pause_that_is_too_far_off_for_one_from_before_the_clock_wrapped() {
    let mut flow = with_plb(&[("plb_suspend_rto_sec", "1")]);
    let Flow { algorithm, host, sock } = &mut flow;
    algorithm.cwnd_event(sock, host, ca_event::LOSS);
    // It ends 1 to 2 s after 100,000. Seen 2^31 ticks later, that time lies in the future.
    flow.host.jiffies = 101_500u32.wrapping_add(1 << 31);
    assert_eq!(rehashes(&mut flow, 12, 16), [12]);
}

#[test]
fn plb_without_a_threshold_changes_path_as_often_as_it_may() {
    let mut flow = with_plb(&[("plb_cong_thresh", "0"), ("plb_rehash_rounds", "1")]);
    assert_eq!(rehashes(&mut flow, 4, 0), [1, 2, 3, 4]);
    flow.window(0, 0);
    assert_eq!(flow.host.take_asked_rehashes(), 0, "a round without delivery says nothing");
}

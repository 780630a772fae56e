//! The law of foo against values worked by hand. Say from which source each comes.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use knee_algo::{Algorithm, Host, Instance, TcpSock};

fn algorithm() -> &'static Algorithm {
    Algorithm::by_name("foo").unwrap()
}

/// A connection with this window that uses all of it.
struct Flow {
    algorithm: Instance,
    host: Host,
    sock: TcpSock,
}

fn flow(cwnd: u32, params: &[(&str, &str)]) -> Flow {
    let mut values = algorithm().default_params();
    for (name, value) in params {
        algorithm().set_param(&mut values, name, value).unwrap();
    }
    let sock =
        TcpSock { snd_cwnd: cwnd, mss_cache: 1448, is_cwnd_limited: 1, ..TcpSock::default() };
    let mut flow = Flow { algorithm: algorithm().instance(values), host: Host::new(1000, 1), sock };
    flow.algorithm.init(&mut flow.sock, &mut flow.host);
    flow
}

impl Flow {
    fn acked(&mut self, packets: u32) -> u32 {
        self.algorithm.cong_avoid(&mut self.sock, &mut self.host, 0, packets);
        self.sock.snd_cwnd
    }

    fn ssthresh(&mut self) -> u32 {
        self.algorithm.ssthresh(&mut self.sock, &mut self.host)
    }
}

#[test]
fn foo_doubles_per_round_in_slow_start() {
    assert_eq!(flow(10, &[]).acked(10), 20);
}

#[test]
fn foo_grows_by_its_parameter_per_round_afterwards() {
    for (increase, grown) in [("1", 11), ("2", 12), ("5", 15)] {
        let mut flow = flow(10, &[("increase", increase)]);
        flow.sock.snd_ssthresh = 10;
        assert_eq!(flow.acked(10), grown, "increase {increase}");
    }
}

#[test]
fn foo_does_not_grow_a_window_that_is_not_used() {
    let mut flow = flow(10, &[]);
    (flow.sock.is_cwnd_limited, flow.sock.snd_ssthresh) = (0, 10);
    assert_eq!(flow.acked(10), 10);
}

#[test]
fn foo_keeps_beta_of_the_window_and_never_less_than_two() {
    assert_eq!(flow(100, &[]).ssthresh(), 50);
    assert_eq!(flow(100, &[("beta", "717")]).ssthresh(), 70);
    assert_eq!(flow(2, &[]).ssthresh(), 2);
}

#[test]
fn foo_returns_to_the_window_before_when_a_reduction_was_wrong() {
    let mut flow = flow(100, &[]);
    flow.sock.snd_cwnd = flow.ssthresh();
    assert_eq!(flow.algorithm.undo_cwnd(&mut flow.sock, &mut flow.host), 100);
}

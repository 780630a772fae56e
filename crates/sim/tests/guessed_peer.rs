//! Whom DCTCP's sender takes its peer for (`peer = auto`), and what that is worth.

use crate::common::*;
use knee_queue::NotEctAbove;
use knee_queue::time::Duration;
use knee_run::outcome::{Counters, Outcome};
use knee_run::spec::{Cc, Flow, Run};

const LATCHED: &str = "latched";

/// `peer`: a value of that parameter, and perhaps one of `cwr`, as in `classic once`.
fn cc(name: &str, peer: &str) -> Cc {
    let mut cc = Cc::by_name(name).expect("it is in the folder");
    for (param, value) in ["peer", "cwr"].into_iter().zip(peer.split(' ')) {
        cc.algorithm.set_param(&mut cc.params, param, value).expect("one of its choices");
    }
    cc
}

/// A flow whose receiver is DCTCP's, or Reno's: a classic one.
fn flow(path: &Path, from: u32, peer: &str, is_classic: bool) -> Flow {
    let (name, peer_cc) = if is_classic {
        ("dctcp_snd", Some(Cc::by_name("reno").expect("it is in the folder")))
    } else {
        ("dctcp", None)
    };
    Flow { from, cc: cc(name, peer), peer_cc, ..path.bulk("dctcp", None) }
}

fn path(senders: u32, rtt_us: u64, k: u32) -> Path {
    let queue = marking(k, NotEctAbove::Queue);
    let path = Path { senders, access: Some(mbps(10_000)), queue, ..Path::new(us(rtt_us)) };
    path.hosts(|host| host.tcp_ecn = 1)
}

/// Flows that were ever taken for having a latching peer, and those that are at the end.
fn latched(outcome: &Outcome, flows: u32) -> (usize, usize) {
    let mut ever = vec![false; flows as usize];
    let mut last = ever.clone();
    for sample in &outcome.flow_samples {
        // Of both files it is the last value.
        let is_latched = sample.diag.last() == Some(&1);
        ever[sample.flow as usize] |= is_latched;
        last[sample.flow as usize] = is_latched;
    }
    let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count();
    (count(&ever), count(&last))
}

#[test]
fn peers_are_told_apart_whatever_the_path_does_to_acks_and_data() {
    assert_eq!(Cc::by_name("dctcp").unwrap().algorithm.diag().last().unwrap().name, LATCHED);
    assert_eq!(Cc::by_name("dctcp_snd").unwrap().algorithm.diag().last().unwrap().name, LATCHED);
    type Change = fn(Path) -> Path;
    let trouble: [(&str, Change); 6] = [
        ("nothing", |path| path),
        ("a tenth of ACKs lost", |path| Path { back_loss: 0.1, ..path }),
        ("data lost", |path| Path { loss: 0.001, ..path }),
        ("data reordered", |path| Path { jitter: us(30), ..path }),
        ("ACKs reordered", |path| Path { back_jitter: us(50), ..path }),
        ("offloads", |path| {
            path.hosts(|host| {
                host.gso_max_segs = 16;
                host.gro_window = Duration::from_us(15);
            })
        }),
    ];
    for (what, change) in trouble {
        for flows in [1, 4, 16] {
            for is_classic in [false, true] {
                let (mut ever, mut last, mut all) = (0, 0, 0);
                for seed in 1..=3 {
                    let path = change(path(flows, 300, 15));
                    let start = |from: u32| at_us(u64::from(from) * (17 * seed + 3));
                    let flow =
                        |from| Flow { start: start(from), ..flow(&path, from, "auto", is_classic) };
                    let run = path.run((0..flows).map(flow).collect());
                    let outcome = sampled(Run { seed, end: at_ms(500), ..run }, us(500));
                    let counts = latched(&outcome, flows);
                    (ever, last, all) = (ever + counts.0, last + counts.1, all + flows as usize);
                }
                let counts = format!("{what}: {ever} of {all}, at the end {last}");
                println!("{counts}, classic: {is_classic}");
                if is_classic {
                    assert!(10 * last >= 8 * all, "{counts}");
                    assert_eq!(ever, last, "{counts}: a verdict was taken back");
                } else {
                    assert_eq!(ever, 0, "{counts}");
                }
            }
        }
    }
}

/// Shares of two flows with a classic peer beside two of DCTCP, of what four would share, in 1/1000.
fn share(cc: &str, peer: &str) -> u64 {
    let mut shares = 0;
    let seeds = 4;
    for seed in 1..=seeds {
        let path = path(4, 1000, 12);
        let start = |from: u32| at_us(u64::from(from) * (131 * seed + 29));
        let mut flows: Vec<Flow> = (0..4)
            .map(|from| Flow {
                start: start(from),
                ..flow(&path, from, peer, cc != "dctcp" && from < 2)
            })
            .collect();
        for flow in &mut flows[2..] {
            flow.cc = Cc::by_name("dctcp").expect("it is in the folder");
        }
        let outcome = simulate(&Run { seed, end: at_ms(1500), ..path.run(flows) });
        let received: Vec<u64> = outcome.flows.iter().map(|flow| flow.received_bytes).collect();
        shares += 1000 * (received[0] + received[1]) / received.iter().sum::<u64>();
    }
    shares / seeds
}

/// What ACKs told of marks beside what was marked, in 1/1000 of the packets, of two flows with a classic peer.
fn told_and_true(peer: &str) -> (u64, u64) {
    let path = path(2, 500, 20);
    let start = |from: u32| at_us(u64::from(from) * 131 + 29);
    let flows = (0..2).map(|from| Flow { start: start(from), ..flow(&path, from, peer, true) });
    let outcome = simulate(&Run { end: at_ms(1000), ..path.run(flows.collect()) });
    let sum = |of: fn(&Counters) -> u64| {
        outcome
            .flows
            .iter()
            .map(|flow| of(&flow.counters.complete().expect("all are known")))
            .sum::<u64>()
    };
    let sent = sum(|counters| counters.data_segs_sent);
    (
        1000 * sum(|counters| counters.delivered_ce) / sent,
        1000 * sum(|counters| counters.ce_segs_received) / sent,
    )
}

#[test]
fn a_classic_receiver_tells_of_each_packet_if_cwr_never_ends() {
    let (each, marked_each) = told_and_true("classic each");
    let (once, marked_once) = told_and_true("classic once");
    println!("told and true: each {each} {marked_each}, once {once} {marked_once}");
    assert!(each.abs_diff(marked_each) * 20 <= marked_each, "{each} {marked_each}");
    assert!(once * 4 > marked_once * 5, "{once} {marked_once}");
}

#[test]
fn finding_out_gives_back_most_of_what_not_knowing_costs() {
    let both = share("dctcp", "dctcp");
    let told = share("dctcp_snd", "classic");
    let auto = share("dctcp_snd", "auto");
    let untold = share("dctcp_snd", "dctcp");
    println!("both {both}, told {told}, auto {auto}, untold {untold}");
    assert!(both > 480 && untold < both, "{both} {untold}");
    assert!(told > untold && auto > untold);
    assert!(
        2 * (auto - untold) > both - untold,
        "both {both}, told {told}, auto {auto}, untold {untold}"
    );
}

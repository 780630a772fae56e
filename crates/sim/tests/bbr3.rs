//! BBR version 3 on whole paths: its phases, and its answer to loss and ECN.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use crate::common;

use common::{FULL, Path, at_ms, droptail, marking, mbps, ms, sampled, steps};
use knee_algo::Algorithm;
use knee_queue::{Limit, NotEctAbove};
use knee_run::outcome::{FlowSample, Outcome};
use knee_run::spec::{Cc, Run};

const PROBE_BW: u64 = 2;
const PROBE_RTT: u64 = 3;
const UP: u64 = 0;
const DOWN: u64 = 1;
const CRUISE: u64 = 2;
const REFILL: u64 = 3;

/// One endless flow until `end_ms`.
fn run(path: &Path, cc: &str, end_ms: u64) -> Run {
    let mut run = path.run(vec![path.bulk(cc, None)]);
    run.end = at_ms(end_ms);
    run.until_done = false;
    run
}

fn view(sample: &FlowSample, name: &str) -> u64 {
    let bbr3 = Algorithm::by_name("bbr3").unwrap();
    sample.diag[bbr3.diag().iter().position(|diag| diag.name == name).unwrap()]
}

fn utilisation(outcome: &Outcome, rate_mbps: u64, seconds: u64) -> f64 {
    let bits = outcome.flows[0].received_bytes as f64 * 8.0;
    bits / (rate_mbps * seconds * 1_000_000) as f64 / (1448.0 / f64::from(FULL))
}

fn path() -> Path {
    Path { rate: mbps(50), ..Path::new(ms(40)) }
}

#[test]
fn the_phases_follow_each_other_and_a_probe_comes_every_two_to_three_seconds() {
    let outcome = sampled(run(&path(), "bbr3", 20_000), ms(1));
    let probing: Vec<_> =
        outcome.flow_samples.iter().filter(|s| view(s, "mode") == PROBE_BW).collect();
    let phases = steps(probing.iter().map(|s| view(s, "phase")));
    // DRAIN has left nothing for DOWN to do, which may be shorter than a sample.
    assert!([DOWN, CRUISE].contains(&phases[0]), "{phases:?}");
    for pair in phases.windows(2) {
        let next = match pair[0] {
            // PROBE_RTT may come at any time, and is left for CRUISE.
            UP => [DOWN, CRUISE],
            DOWN => [CRUISE, REFILL],
            CRUISE => [REFILL, REFILL],
            REFILL => [UP, CRUISE],
            other => unreachable!("phase {other}"),
        };
        assert!(next.contains(&pair[1]), "{phases:?}");
    }
    let begun: Vec<_> = outcome
        .flow_samples
        .windows(2)
        .filter(|two| view(&two[0], "phase") == REFILL && view(&two[1], "phase") == UP)
        .map(|two| two[1].at)
        .collect();
    println!("probes at {begun:?}");
    // 63 rounds of 40 ms are 2.5 s, and PROBE_RTT may come between.
    assert!((5..=10).contains(&begun.len()), "{begun:?}");
    let share = utilisation(&outcome, 50, 20);
    assert!(share > 0.93, "{share}");
}

#[test]
fn every_five_seconds_it_keeps_half_a_bdp_in_flight() {
    let outcome = sampled(run(&path(), "bbr3", 16_000), ms(1));
    let low: Vec<_> =
        outcome.flow_samples.iter().filter(|s| view(s, "mode") == PROBE_RTT).collect();
    let lasted_ms = low.len();
    // Three times 200 ms and a round or two.
    assert!((600..1000).contains(&lasted_ms), "{lasted_ms} ms");
    // The BDP is 50 Mbps * 40 ms = 165 packets.
    let least = low.iter().map(|s| s.cwnd).min().unwrap();
    assert!((75..=90).contains(&least), "{least}");
}

/// A buffer of a fifth of a BDP: version 1 overflows it by its gain of 2 for ever, version 3 once per probe.
#[test]
fn loss_bounds_what_is_in_flight() {
    let shallow = Path { queue: droptail(Limit::Bytes(33 * u64::from(FULL))), ..path() };
    let [bbr, bbr3] = ["bbr", "bbr3"].map(|cc| sampled(run(&shallow, cc, 20_000), ms(10)));
    let lost = |outcome: &Outcome| {
        let flow = &outcome.flows[0];
        flow.counters.complete().expect("all are known").retransmitted_segs as f64
            / flow.counters.complete().expect("all are known").data_segs_sent as f64
    };
    println!("sent again: bbr {:.4}, bbr3 {:.4}", lost(&bbr), lost(&bbr3));
    assert!(lost(&bbr3) < 0.02 && lost(&bbr3) < lost(&bbr) / 2.0);
    let late = bbr3.flow_samples.iter().filter(|s| s.at > at_ms(5000));
    assert!(late.clone().all(|s| view(s, "inflight_hi") < 1000), "a bound was found");
}

/// With ecn = on and a receiver that echoes each mark, a step marker keeps the queue short.
#[test]
fn marks_shorten_the_queue_where_it_is_told_to_respond() {
    let marked = Path {
        rate: mbps(1000),
        queue: marking(65, NotEctAbove::Queue),
        ..Path::new(common::us(400))
    };
    let marked = marked.hosts(|host| host.tcp_ecn = 1);
    let bbr3 = Algorithm::by_name("bbr3").unwrap();
    let queue = |ecn: &str| {
        let mut params = bbr3.default_params();
        bbr3.set_param(&mut params, "ecn", ecn).unwrap();
        let mut run = run(&marked, "bbr3", 3000);
        run.flows[0].cc = Cc { params, ..Cc::new(bbr3) };
        run.flows[0].peer_cc = Some(Cc::by_name("dctcp").unwrap());
        run.sampling.queues = Some(common::us(100));
        let outcome = common::simulate(&run);
        assert!(outcome.flows[0].ecn, "ECN is negotiated");
        let late: Vec<f64> = outcome
            .queue_samples
            .iter()
            .filter(|s| s.link == 0 && s.at > at_ms(1000))
            .map(|s| f64::from(s.len_pkts))
            .collect();
        late.iter().sum::<f64>() / late.len() as f64
    };
    let (off, on) = (queue("off"), queue("on"));
    println!("mean queue: {off:.1} without, {on:.1} with a response to ECN");
    assert!(on < off, "{on} and {off}");
}

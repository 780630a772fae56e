//! The approximation held to the full simulation, and to itself.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use knee_approx::{Links, Options, approximate};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::outcome::Outcome;
use knee_run::spec::{
    Cc, Flow, HostConfig, LinkChange, LinuxVersion, Network, NewState, Ping, Run, Sampling,
    Schedule, Serialisation, Traffic,
};
use knee_run::topology::{Cable, LeafSpine, Star};
use knee_run::{BackEnd, RunOptions};
use proptest::prelude::*;

fn cable(gbps: u64, us: u64) -> Cable {
    let step = StepConfig {
        limit: Limit::Pkts(1000),
        threshold: Threshold::Pkts(65),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };
    Cable {
        rate: Rate::from_bps(gbps * 1_000_000_000),
        serialisation: Serialisation::StoreAndForward,
        overhead_bytes: 24,
        delay: Duration::from_us(us),
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue: QueueConfig::Step(step),
        sampled: false,
    }
}

fn host() -> HostConfig {
    HostConfig { rto_min: Duration::from_ms(10), tcp_ecn: 1, ..HostConfig::new(LinuxVersion::V6_1) }
}

fn flow(from: u32, to: u32, start: Time, bytes: u64) -> Flow {
    Flow {
        group: 0,
        from,
        to,
        cc: Cc::by_name("dctcp").unwrap(),
        peer_cc: None,
        start,
        first_write: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: Some(bytes) },
        read_at_bytes: 1,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
        sampled: false,
    }
}

fn run(seed: u64, network: Network, flows: Vec<Flow>) -> Run {
    Run {
        seed,
        end: Time::from_ms(2_000),
        until_done: true,
        network,
        flows,
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    }
}

/// A linear congruential generator, for starts and sizes.
fn draws(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Many senders, each with one transfer over one shared link.
fn one_bottleneck() -> Run {
    const SENDERS: u32 = 600;
    let hosts = (0..=SENDERS).map(|i| (format!("h{i}"), host())).collect();
    let network = Star { hosts, up: cable(10, 5), down: cable(10, 5) }.build();
    let mut draw = draws(11);
    // 600 transfers of 100 kB on average in 75 ms: 64 % of 10 Gbps.
    let flows = (0..SENDERS)
        .map(|i| flow(i, SENDERS, Time::from_us(draw(75_000)), 10_000 + draw(180_000)))
        .collect();
    run(3, network, flows)
}

fn completions(outcome: &Outcome) -> Vec<f64> {
    let mut all: Vec<f64> =
        outcome.flows.iter().map(|flow| flow.completion_time().unwrap().ps() as f64).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn with_one_bottleneck_it_is_the_full_run() {
    let run = one_bottleneck();
    let full = completions(&knee_sim::simulate(&run).unwrap());
    let (outcome, effort) = approximate(&run, Options::default(), &never()).unwrap();
    assert_eq!((effort.links, effort.quiet, effort.simulated), (601, 600, 1));
    let ours = completions(&outcome);
    for q in [0.1, 0.5, 0.9, 0.99] {
        let at = |all: &[f64]| all[(q * all.len() as f64) as usize];
        let error = at(&ours) / at(&full) - 1.0;
        assert!(error.abs() < 0.12, "p{}: {:+.1} %", q * 100.0, error * 100.0);
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let error = mean(&ours) / mean(&full) - 1.0;
    assert!(error.abs() < 0.05, "mean: {:+.1} %", error * 100.0);
    // The bottleneck is what makes them late.
    let alone = approximate(&run_of_one(&run), Options::default(), &never()).unwrap().0;
    assert!(full[300] > 1.2 * completions(&alone)[0]);
}

fn run_of_one(run: &Run) -> Run {
    Run { flows: vec![flow(0, 600, Time::ZERO, 100_000)], ..run.clone() }
}

#[test]
fn a_flow_alone_takes_what_it_takes_in_the_full_run() {
    for (queue, bytes) in [(None, 1), (None, 20_000), (Some(1), 150_000), (Some(2), 3_000_000)] {
        let mut fabric = fabric(2, 2, 2);
        // Drop-tail where there is no marking.
        if queue.is_none() {
            let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(500) });
            fabric.links.iter_mut().for_each(|link| link.queue = droptail.clone());
        }
        let run = run(1, fabric, vec![flow(0, 3, Time::from_us(7), bytes)]);
        let full = knee_sim::simulate(&run).unwrap().flows[0].completion_time().unwrap().ps();
        let (outcome, _) = approximate(&run, Options::default(), &never()).unwrap();
        let ours = outcome.flows[0].completion_time().unwrap().ps();
        assert!((ours as f64 / full as f64 - 1.0).abs() < 0.02, "{bytes} bytes: {ours}, {full}");
    }
}

fn fabric(leaves: u32, spines: u32, hosts_per_leaf: u32) -> Network {
    let host = host();
    let (host_up, host_down, fabric) = (cable(10, 1), cable(10, 1), cable(20, 2));
    LeafSpine { leaves, spines, hosts_per_leaf, host, host_up, host_down, fabric }.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn results_do_not_depend_on_threads(
        seed in 0u64..1000,
        leaves in 1u32..4,
        spines in 1u32..4,
        flows in 2usize..40,
        cluster: bool,
    ) {
        let network = fabric(leaves, spines, 3);
        let (hosts, mut draw) = (u64::from(leaves) * 3, draws(seed));
        let flows: Vec<Flow> = (0..flows)
            .map(|_| {
                let from = draw(hosts);
                let to = (from + 1 + draw(hosts - 1)) % hosts;
                flow(from as u32, to as u32, Time::from_us(draw(300)), 1 + draw(200_000))
            })
            .collect();
        let run = run(seed, network, flows);
        let with = |threads| {
            let options = Options { threads, cluster };
            let (outcome, _) = approximate(&run, options, &never()).unwrap();
            let done: Vec<_> = outcome.flows.iter().map(|flow| flow.done_at).collect();
            (done, outcome.end, outcome.work)
        };
        let one = with(1);
        prop_assert!(one.0.iter().all(Option::is_some));
        prop_assert_eq!(&one, &with(2));
        prop_assert_eq!(&one, &with(5));
    }
}

#[test]
fn what_it_does_not_know_is_refused_in_a_sentence() {
    let stop = never();
    let refused = |change: fn(&mut Run)| {
        let mut run = run(1, fabric(2, 2, 2), vec![flow(0, 3, Time::ZERO, 1000)]);
        change(&mut run);
        let why = Links::default().run(&run, &RunOptions::outcome(&stop)).unwrap_err().to_string();
        assert_eq!(Links::default().check(&run).unwrap_err().to_string(), why);
        assert!(
            why.starts_with("--approximate links knows no ") && why.ends_with(" the file"),
            "{why}"
        );
        why
    };
    assert!(
        refused(|run| run.flows[0].traffic = Traffic::Bulk { bytes: None }).contains("without end")
    );
    assert!(refused(|run| run.flows[0].stop = Some(Time::from_ms(1))).contains("stops"));
    assert!(refused(|run| run.network.links[0].loss = 0.1).contains("random loss"));
    assert!(refused(|run| run.network.links[0].jitter = Duration::from_us(1)).contains("jitter"));
    assert!(
        refused(|run| {
            let (interval, ecn) = (Duration::from_us(10), knee_queue::Ecn::NotEct);
            let (from, to, start) = (0, 1, Time::ZERO);
            run.pings.push(Ping { from, to, start, interval, wire_bytes: 100, ecn, dscp: 0 });
        })
        .contains("pings")
    );
    let change = |run: &mut Run| {
        let change = LinkChange { at: Time::ZERO, link: 0, to: NewState::Down };
        run.network.changes.links.push(change);
    };
    assert!(refused(change).contains("change during a run"));
    let captures =
        RunOptions { captures: Some(std::path::Path::new("x")), ..RunOptions::outcome(&stop) };
    let run = run(1, fabric(2, 2, 2), vec![flow(0, 3, Time::ZERO, 1000)]);
    let why = Links::default().run(&run, &captures).unwrap_err();
    assert_eq!(why.to_string(), "--on sim --approximate links writes no captures: leave them out");
}

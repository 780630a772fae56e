//! The approximation held to the full simulation, and to itself.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knee_approx::{Links, Options, approximate};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, DynamicThresholdConfig, Limit, MarkAt, MarkWhen, NotEctAbove, PortProperties,
    QueueConfig, StepConfig, Threshold,
};
use knee_run::outcome::Outcome;
use knee_run::spec::{
    Cc, Coalesce, CoalescingPort, Flow, FlowControl, HostConfig, LinkChange, LinuxVersion,
    MeasuredWindow, Network, NewState, Ping, Run, Sampling, Schedule, Serialisation, Series,
    SharedBuffer, Stops, Task, Thresholds, Traffic,
};
use knee_run::topology::{Cable, LeafSpine, ParkingLot, Star};
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

/// Completion times of each flow, us: approximated and in full.
fn both(run: &Run) -> (Vec<f64>, Vec<f64>) {
    let us = |outcome: &Outcome| {
        let times = outcome.flows.iter().map(|flow| flow.completion_time().unwrap().ps());
        times.map(|ps| ps as f64 / 1e6).collect()
    };
    let (approximated, _) = approximate(run, Options::default(), &never()).unwrap();
    (us(&approximated), us(&knee_sim::simulate(run).unwrap()))
}

#[test]
fn a_flow_that_three_links_hold_up_waits_for_one() {
    let (access, bottleneck) = (cable(40, 1), cable(10, 2));
    let back = bottleneck.clone();
    let network =
        ParkingLot { hops: 3, through: 1, cross: 1, host: host(), access, bottleneck, back };
    // s1 to r1, and x to y across each hop.
    let pairs = [(0, 1), (2, 3), (4, 5), (6, 7)];
    let flows = pairs.map(|(from, to)| flow(from, to, Time::ZERO, 10_000_000));
    let (ours, full) = both(&run(1, network.build(), flows.to_vec()));
    // Alone it takes 8.5 ms, and at each of the three links twice that. The sum of all would be 34 ms.
    assert!((15_000.0..20_000.0).contains(&full[0]), "{full:?}");
    assert!((ours[0] / full[0] - 1.0).abs() < 0.25, "{ours:?}, {full:?}");
}

#[test]
fn a_syn_ack_waits_behind_data() {
    // Three hosts fill the link from the spine to the first leaf. Its fourth host sends bytes the other way.
    const BYTES: usize = 50;
    let at = |i: u32| Time::from_us(1000 + 97 * u64::from(i));
    let mut flows: Vec<Flow> = (0..BYTES as u32).map(|i| flow(3, 7, at(i), 1)).collect();
    flows.extend((0..3).map(|i| flow(4 + i, i, Time::ZERO, 10_000_000)));
    // Short ones on the full link tell how long it is at any time.
    flows.extend((0..BYTES as u32).map(|i| flow(4 + i % 3, 1, at(i), 1)));
    let mut network = fabric(2, 1, 4);
    let names: Vec<String> = network.link_names().collect();
    let up = network.links.iter_mut().zip(&names).filter(|(_, name)| name.contains("-spine"));
    up.for_each(|(link, _)| link.rate = Rate::from_bps(100_000_000_000));
    let run = run(1, network, flows);
    let alone = both(&Run { flows: run.flows[..1].to_vec(), ..run.clone() }).1[0];
    let (ours, full) = both(&run);
    let mean = |times: &[f64]| times[..BYTES].iter().sum::<f64>() / BYTES as f64;
    let (ours, full) = (mean(&ours), mean(&full));
    assert!(full > 1.5 * alone, "{alone}, {full}");
    assert!((ours / full - 1.0).abs() < 0.3, "{ours}, {full}");
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
            let options = Options { threads };
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

/// A change to a run, and a part of the sentence by which it is refused then.
type Refused = (&'static str, fn(&mut Run));

const REFUSED: [Refused; 18] = [
    ("no transfers without end", |run| run.flows[0].traffic = Traffic::Bulk { bytes: None }),
    ("no requests and answers", |run| {
        let (request_bytes, response_bytes, count) = (1, 1, Some(1));
        run.flows[0].traffic = Traffic::Rpc { request_bytes, response_bytes, count };
    }),
    ("stops in between", |run| run.flows[0].stop = Some(Time::from_ms(1))),
    ("whose application waits", |run| run.flows[0].first_write = Some(Time::from_ms(1))),
    ("wait for others", |run| run.schedule.tasks.push(Task::default())),
    ("wait for others", |run| run.schedule.together.push(vec![0])),
    ("wait for others", |run| run.schedule.series.push(Series::default())),
    ("no measured window", |run| {
        let (from, until, period) = (Time::ZERO, Time::from_ms(1), Duration::from_ms(1));
        run.sampling.window = Some(MeasuredWindow { from, until, period });
    }),
    ("no random loss", |run| run.network.links[0].loss = 0.1),
    ("no jitter", |run| run.network.links[0].jitter = Duration::from_us(1)),
    ("for some inputs", |run| {
        let (frame_bytes, rate) = (1514, Rate::from_bps(1_000_000).unwrap());
        let mut each = QueueConfig::each(PortProperties { frame_bytes, rate, has_burst: false });
        each.retain(|queue| matches!(queue, QueueConfig::TwoBuffers(_)));
        run.network.links[0].queue = each.remove(0);
    }),
    ("no shared buffer", |run| {
        let law = DynamicThresholdConfig { size_bytes: 1 << 20, alpha: 1.0, reserved_bytes: 0 };
        let (name, links, sampled) = ("shared".into(), vec![1], false);
        run.network.buffers.push(SharedBuffer { name, law, links, sampled });
    }),
    ("no flow control", |run| {
        let thresholds = Thresholds { xoff_bytes: 100_000, xon_bytes: 50_000 };
        let (reaction, quanta, lossless) = (Duration::from_us(1), 65_535, false);
        let (switches, stops) = (None, Stops::Links(thresholds));
        run.network.flow_control =
            Some(FlowControl { switches, stops, reaction, quanta, lossless });
    }),
    ("no software routers", |run| {
        run.network.ports.push(CoalescingPort { link: 0, coalesce: COALESCE });
    }),
    ("that change during", |run| {
        let change = LinkChange { at: Time::ZERO, link: 0, to: NewState::Down };
        run.network.changes.links.push(change);
    }),
    ("no coalescing", |run| host_of(run).coalesce = Some(COALESCE)),
    ("no IPv6", |run| host_of(run).ipv6 = true),
    ("no pings", |run| {
        let (interval, ecn) = (Duration::from_us(10), knee_queue::Ecn::NotEct);
        let (from, to, start) = (0, 1, Time::ZERO);
        run.pings.push(Ping { from, to, start, interval, wire_bytes: 100, ecn, dscp: 0 });
    }),
];

const COALESCE: Coalesce = Coalesce { frames: None, time: Duration::from_us(10), adaptive: None };

fn host_of(run: &mut Run) -> &mut HostConfig {
    Arc::make_mut(run.network.nodes[0].host.as_mut().unwrap())
}

#[test]
fn what_it_does_not_know_is_refused_in_a_sentence() {
    let stop = never();
    for (part, change) in REFUSED {
        let mut run = run(1, fabric(2, 2, 2), vec![flow(0, 3, Time::ZERO, 1000)]);
        assert_eq!(Links::default().check(&run), Ok(()));
        change(&mut run);
        let why = Links::default().check(&run).unwrap_err().to_string();
        assert!(why.starts_with("--approximate links knows no "), "{why}");
        assert!(why.contains(part) && why.ends_with(" the file"), "{part}: {why}");
        assert!(Links::default().run(&run, &RunOptions::outcome(&stop)).is_err(), "{part}");
    }
    let captures =
        RunOptions { captures: Some(std::path::Path::new("x")), ..RunOptions::outcome(&stop) };
    let run = run(1, fabric(2, 2, 2), vec![flow(0, 3, Time::ZERO, 1000)]);
    let why = Links::default().run(&run, &captures).unwrap_err();
    assert_eq!(why.to_string(), "--on sim --approximate links writes no captures: leave them out");
}

#[test]
fn a_flow_that_takes_longer_than_the_run_is_unfinished() {
    // 20 Mbps carry 25 kB in 10 ms, below one leaf; the others never end, whether they are alone at their links or not.
    let flows = [(0, 1, 10_000), (1, 4, 1 << 40), (2, 5, 1 << 50), (2, 5, u64::MAX / 2)];
    let flows = flows.map(|(from, to, bytes)| flow(from, to, Time::ZERO, bytes));
    let mut run = Run { end: Time::from_ms(10), ..run(1, fabric(2, 2, 3), flows.to_vec()) };
    run.network.links.iter_mut().for_each(|link| link.rate = Rate::from_bps(20_000_000));
    let (outcome, effort) = approximate(&run, Options::default(), &never()).unwrap();
    let done: Vec<bool> = outcome.flows.iter().map(|flow| flow.done_at.is_some()).collect();
    assert_eq!((done, outcome.end), (vec![true, false, false, false], run.end));
    assert!(effort.simulated > 0);
}

#[test]
fn queues_that_differ_by_their_random_numbers_alone_are_of_one_kind() {
    let alone = |different: bool| {
        let mut network = fabric(2, 2, 3);
        let mut seed = 0;
        for link in &mut network.links {
            let (frame_bytes, rate) = (1514, link.rate.unwrap());
            let each = QueueConfig::each(PortProperties { frame_bytes, rate, has_burst: false });
            link.queue =
                each.into_iter().find(|queue| matches!(queue, QueueConfig::Red(_))).unwrap();
            link.queue.seed(&mut || {
                seed += u64::from(different);
                seed
            });
        }
        let flows = (0..3).map(|i| flow(i, 3 + i, Time::ZERO, 1000)).collect();
        let run = run(1, network, flows);
        approximate(&run, Options::default(), &never()).unwrap().1.alone
    };
    assert_eq!(alone(true), alone(false));
}

//! Runs on kernels that are built. Without one these tests say that they are skipped; `KNEE_REQUIRE_VKERNEL` names versions
//! that must be there.

use std::io::Write as _;
use std::sync::atomic::AtomicBool;

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_sim::outcome::Outcome;
use knee_sim::spec::{
    Cc, Flow, HostConfig, LinuxVersion, Order, Ping, Run, Sampling, Serialisation, Traffic,
};
use knee_sim::topology::{Cable, Star};
use knee_vkernel::kernel::{Built, DEFAULT_HZ, VERSIONS, find};
use knee_vkernel::{Algorithms, Options, run};

/// Every kernel of these ticks that is built of what this knee has.
fn kernels_at(hz: u32) -> Vec<Built> {
    let required = std::env::var("KNEE_REQUIRE_VKERNEL").unwrap_or_default();
    for version in required.split_whitespace() {
        assert!(
            VERSIONS.contains(&version),
            "KNEE_REQUIRE_VKERNEL={required}: names versions, of {VERSIONS:?}"
        );
    }
    let is_required = |version| {
        hz == DEFAULT_HZ && required.split_whitespace().any(|required| required == version)
    };
    let mut found = Vec::new();
    for version in VERSIONS {
        match find(Some(version), Some(hz)) {
            Ok(built) => found.push(built),
            Err(why) if is_required(version) => panic!("{why}"),
            Err(why) => {
                // Not eprintln!, whose text the harness keeps to itself when a test passes.
                let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
            }
        }
    }
    found
}

fn kernels() -> Vec<Built> {
    kernels_at(DEFAULT_HZ)
}

fn linux(kernel: &Built) -> LinuxVersion {
    LinuxVersion::NAMED
        .iter()
        .find(|(name, _)| *name == kernel.version)
        .expect("it was asked for by name")
        .1
}

fn cable(rate_mbps: u64, queue: QueueConfig) -> Cable {
    Cable {
        rate: Rate::from_bps(rate_mbps * 1_000_000),
        serialisation: Serialisation::StoreAndForward,
        delay: Duration::from_us(25),
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue,
        sampled: false,
    }
}

fn flow(from: u32, to: u32, algorithm: &str, traffic: Traffic) -> Flow {
    Flow {
        group: 0,
        from,
        to,
        cc: Cc::by_name(algorithm).expect("it is one of ours"),
        peer_cc: None,
        start: Time::from_us(100 * u64::from(from)),
        first_write: None,
        stop: None,
        traffic,
        read_at_bytes: 65_536,
        sampled: true,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

/// Two hosts send to a third at 1 Gbps, whose port marks at 20 packets and holds 300 kB.
fn two_flows(kernel: &Built, algorithm: &str, end: Time, traffic: Traffic) -> Run {
    let mut host = HostConfig::new(linux(kernel));
    host.rcvbuf_initial_bytes = 8 << 20;
    host.rcvbuf_max_bytes = 512 << 20;
    let hosts = ["a", "b", "c"].map(|name| (name.to_owned(), host.clone())).to_vec();
    let up = cable(1000, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }));
    let step = QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(300_000),
        threshold: Threshold::Bytes(30_280),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    });
    let down = Cable { sampled: true, ..cable(1000, step) };
    Run {
        seed: 5,
        end,
        until_done: true,
        network: Star { hosts, up, down }.build(),
        flows: vec![flow(0, 2, algorithm, traffic), flow(1, 2, algorithm, traffic)],
        pings: Vec::new(),
        sampling: Sampling {
            flows: Some(Duration::from_ms(1)),
            queues: Some(Duration::from_ms(1)),
            goodput: Some(Duration::from_ms(10)),
        },
        order: Order::default(),
    }
}

fn carried_out(wanted: &Run, kernel: &Built, algorithms: Algorithms) -> Outcome {
    let options = Options { algorithms, ..Options::default() };
    run(wanted, kernel, &options, &AtomicBool::new(false)).expect("the guest runs")
}

const ENDLESS: Traffic = Traffic::Bulk { bytes: None };

#[test]
fn two_flows_share_a_link_that_marks() {
    kernels().iter().for_each(share);
}

fn share(kernel: &Built) {
    let wanted = two_flows(kernel, "dctcp", Time::from_ms(300), ENDLESS);
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let received: u64 = outcome.flows.iter().map(|flow| flow.received_bytes).sum();
    // 1448 of 1514 bytes are payload: 35.86 MB in 300 ms.
    assert!((35_000_000..35_900_000).contains(&received), "{received}");
    assert!(outcome.flows.iter().all(|flow| flow.ecn && flow.algorithm == "dctcp"));
    let port = outcome.queues.iter().find(|queue| queue.sent_pkts > 20_000).expect("the busy port");
    assert!(port.marked_pkts > 1000 && port.dropped_pkts() == 0, "{port:?}");
    let goodput: u64 = outcome.goodput_samples.iter().map(|sample| sample.bytes).sum();
    assert!(goodput <= received && goodput + 2_000_000 > received, "{goodput} of {received}");
    assert_eq!(outcome.end, Time::from_ms(300));
    let ce: u64 =
        outcome.host_counts.iter().filter_map(|host| host.counters.ce_segs_received).sum();
    assert!(ce > 1000, "{ce}");
}

#[test]
fn transfers_requests_and_pings_are_seen_as_in_the_simulator() {
    kernels().iter().for_each(see);
}

fn see(kernel: &Built) {
    let mut wanted =
        two_flows(kernel, "cubic", Time::from_ms(500), Traffic::Bulk { bytes: Some(14_480) });
    let rpc = Traffic::Rpc { request_bytes: 100, response_bytes: 1000, count: Some(10) };
    wanted.flows[1] = Flow { start: Time::from_ms(10), ..flow(1, 2, "reno", rpc) };
    wanted.pings.push(Ping {
        from: 0,
        to: 1,
        start: Time::from_ms(20),
        interval: Duration::from_us(500),
        wire_bytes: 98,
        ecn: Default::default(),
        dscp: 0,
    });
    wanted.until_done = false;
    wanted.end = Time::from_ms(40);
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    let near = |name: &str, real: Duration, model: Duration| {
        let apart = real.ps().abs_diff(model.ps());
        assert!(apart < 1_000_000, "{name}: {real:?} and {model:?} are {apart} ps apart");
    };
    let completion = |outcome: &Outcome| outcome.flows[0].completion_time().expect("it completes");
    near("transfer", completion(&real), completion(&model));
    assert_eq!((real.rpcs.len(), model.rpcs.len()), (10, 10));
    for (real, model) in real.rpcs.iter().zip(&model.rpcs) {
        near("request", real.latency, model.latency);
    }
    assert_eq!((real.pings.len(), model.pings.len()), (40, 40));
    for (real, model) in real.pings.iter().zip(&model.pings).take(39) {
        near("ping", real.rtt.expect("an echo"), model.rtt.expect("an echo"));
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    kernels().iter().for_each(repeat);
}

fn repeat(kernel: &Built) {
    let wanted = two_flows(kernel, "bbr", Time::from_ms(200), ENDLESS);
    let text = |wanted: &Run| format!("{:?}", carried_out(wanted, kernel, Algorithms::Ours));
    let first = text(&wanted);
    assert!(first == text(&wanted), "two runs of one seed differ");
    let other = Run { seed: 6, ..wanted };
    assert!(first != text(&other), "the seed counts for nothing");
}

#[test]
fn ours_and_the_kernels_own_are_the_same_in_every_sample() {
    kernels().iter().for_each(compare);
}

fn compare(kernel: &Built) {
    for algorithm in ["reno", "bic", "dctcp"] {
        let wanted = two_flows(kernel, algorithm, Time::from_ms(1000), ENDLESS);
        let [ours, own] = [Algorithms::Ours, Algorithms::Kernels].map(|whose| {
            let mut outcome = carried_out(&wanted, kernel, whose);
            // The kernel's own show other values of their inside.
            outcome.flow_samples.iter_mut().for_each(|sample| sample.diag.clear());
            outcome
        });
        assert!(ours.flow_samples.len() > 1900, "{algorithm}");
        let samples = |outcome: &Outcome| format!("{:?}", outcome.flow_samples);
        assert!(samples(&ours) == samples(&own), "{algorithm}: samples of flows differ");
        let queues =
            |outcome: &Outcome| format!("{:?} {:?}", outcome.queue_samples, outcome.queues);
        assert!(queues(&ours) == queues(&own), "{algorithm}: samples of queues differ");
    }
}

#[test]
fn timers_end_as_in_the_simulator_whatever_the_ticks() {
    [DEFAULT_HZ, 250].into_iter().flat_map(kernels_at).for_each(|kernel| wait(&kernel));
}

/// A transfer whose last packets are lost goes on when the retransmission timer ends, which is set and ends in ticks.
fn wait(kernel: &Built) {
    for rto_min in [200, 20, 5] {
        let transfer = Traffic::Bulk { bytes: Some(14_480) };
        let mut wanted = two_flows(kernel, "cubic", Time::from_ms(3000), transfer);
        wanted.flows.pop();
        for down in wanted.network.links.iter_mut().filter(|link| link.sampled) {
            down.rate = Rate::from_bps(100_000_000);
            down.queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(5) });
        }
        for host in wanted.network.nodes.iter_mut().filter_map(|node| node.host.as_mut()) {
            host.hz = kernel.hz;
            host.rto_min = Duration::from_ms(rto_min);
            // Without a probe of the tail before.
            host.sysctls.early_retrans = 0;
        }
        let real = carried_out(&wanted, kernel, Algorithms::Ours);
        let model = knee_sim::simulate(&wanted).expect("it can be simulated");
        let before = |outcome: &Outcome| {
            let samples = outcome.flow_samples.iter();
            let first = samples.take_while(|sample| sample.total_retrans == 0);
            first.map(|sample| sample.rto_us).collect::<Vec<_>>()
        };
        let (waited, expected) = (before(&real), before(&model));
        let rto_us = *expected.last().expect("a sample before the timer ends");
        let tick_ms = 1000 / u64::from(kernel.hz);
        let least_us = rto_min * 1000;
        assert!((least_us..least_us + 2000 * tick_ms).contains(&u64::from(rto_us)), "{rto_us}");
        assert!(waited.iter().all(|us| *us == rto_us), "{waited:?}, and not {rto_us}");
        // A timer of 64 ticks and more ends at a multiple of eight, and when ticks come is not the same.
        let late_ms = if u64::from(rto_us) / 1000 / tick_ms >= 63 { 8 * tick_ms } else { tick_ms };
        let completion =
            |outcome: &Outcome| outcome.flows[0].completion_time().expect("it is done");
        let (real, model) = (completion(&real), completion(&model));
        assert!(real.ps().abs_diff(model.ps()) < late_ms * 1_000_000_000, "{real:?} and {model:?}");
    }
}

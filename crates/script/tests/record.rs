//! Scripts recorded from the simulator pass on the simulator.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Run, Sampling, Traffic};
use knee_run::topology::{Cable, Star};
use knee_script::record::{of_run, record};
use knee_script::{Limits, Profile, Script, ScriptOutcome, SimStack, play};
use knee_sim::tap::{Side, TapAt};

fn drop_tail(pkts: u32) -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) })
}

fn cable(bps: u64, queue: QueueConfig, loss: f64) -> Cable {
    Cable { delay: Duration::from_us(25), loss, ..Cable::new(Rate::from_bps(bps), queue) }
}

/// One flow of two hosts with a bottleneck on the way down.
fn run(host: &HostConfig, algorithm: &str, traffic: Traffic, down: Cable) -> Run {
    let up = cable(10_000_000_000, drop_tail(1000), 0.0);
    let hosts = ["a", "b"].map(|name| (name.to_owned(), host.clone())).into();
    Run {
        seed: 3,
        end: Time::from_ms(5000),
        until_done: true,
        network: Star { hosts, up, down }.build(),
        flows: vec![Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name(algorithm).unwrap(),
            peer_cc: None,
            start: Time::from_us(12_345),
            first_write: None,
            stop: None,
            traffic,
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: false,
        }],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Default::default(),
    }
}

/// Records a side of the flow, and plays what comes of it.
fn round_trip(run: &Run, side: Side) -> String {
    let (about, segments) = of_run(run, TapAt { flow: 0, side }, "a test").unwrap();
    assert!(!segments.is_empty());
    let text = record(&about, &segments).unwrap();
    let script = Script::parse("recorded.script", &text).unwrap();
    let host = run.network.nodes[0].host.as_ref().unwrap();
    let profile = Profile { linux: host.linux, hz: host.hz };
    let mut stack = SimStack::new(&script.settings, profile).unwrap();
    let played = play(&script, &mut stack, Limits::default()).unwrap();
    if played.outcome != ScriptOutcome::Passed {
        let from = played.account.len().saturating_sub(20);
        panic!("{text}\n{:#?}\n{:?}", &played.account[from..], played.outcome);
    }
    text
}

fn bulk(bytes: u64) -> Traffic {
    Traffic::Bulk { bytes: Some(bytes) }
}

fn host() -> HostConfig {
    HostConfig::new(LinuxVersion(6, 1))
}

#[test]
fn a_short_flow_without_losses_plays() {
    let down = cable(1_000_000_000, drop_tail(1000), 0.0);
    let text = round_trip(&run(&host(), "reno", bulk(100_000), down), Side::Connecting);
    assert!(text.contains("mss 1448\n") && text.contains("algorithm reno\n"), "{text}");
    assert!(text.contains("write 100000\n"), "{text}");
    assert!(text.contains("repeat 10\n  out [.] len mss"), "{text}");
    assert!(!text.contains(" lost") && !text.contains(" sack "), "{text}");
}

#[test]
fn a_flow_with_losses_and_sack_plays() {
    // BBR draws the phase of its first gain cycle, which a script does not tell: it ends before.
    for (algorithm, bytes) in [("reno", 1_000_000), ("cubic", 1_000_000), ("bbr", 180_000)] {
        let down = cable(1_000_000_000, drop_tail(30), 0.0);
        let text = round_trip(&run(&host(), algorithm, bulk(bytes), down), Side::Connecting);
        assert!(text.contains("sack ") && text.contains("lost"), "{text}");
    }
}

#[test]
fn random_losses_with_timeouts_play() {
    for seed in 0..10 {
        let down = cable(100_000_000, drop_tail(1000), 0.08);
        let mut run = run(&host(), "reno", bulk(200_000), down);
        run.seed = seed;
        round_trip(&run, Side::Connecting);
    }
}

#[test]
fn a_flow_with_marks_of_dctcp_plays() {
    let step = StepConfig {
        limit: Limit::Pkts(500),
        threshold: Threshold::Pkts(20),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };
    let down = cable(1_000_000_000, QueueConfig::Step(step), 0.0);
    let text = round_trip(&run(&host(), "dctcp", bulk(1_000_000), down), Side::Connecting);
    assert!(text.contains("out [SEW] seq 0, ect0"), "{text}");
    assert!(text.contains("in [.E]"), "{text}");
}

#[test]
fn a_flow_over_ipv6_plays() {
    let host = HostConfig { ipv6: true, tcp_ecn: 1, hz: 250, ..host() };
    let down = cable(1_000_000_000, drop_tail(40), 0.0);
    let text = round_trip(&run(&host, "cubic", bulk(500_000), down), Side::Connecting);
    assert!(text.contains("ip 6\n") && text.contains("mss 1428\n"), "{text}");
    assert!(text.contains("sysctl tcp_ecn = 1\n") && text.contains("out [SEW]"), "{text}");
}

#[test]
fn requests_and_answers_play() {
    let traffic = Traffic::Rpc { request_bytes: 200, response_bytes: 30_000, count: Some(3) };
    for side in [Side::Connecting, Side::Listening] {
        let down = cable(1_000_000_000, drop_tail(1000), 0.0);
        round_trip(&run(&host(), "reno", traffic, down), side);
    }
}

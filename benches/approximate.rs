//! The approximation by links beside the full simulation, and what it takes on large fabrics.
//!
//! A leaf-spine fabric whose hosts exchange transfers of web-search sizes under DCTCP. Prints slowdown by size class, and
//! time and memory of the parts. `cargo bench -p knee-approx -- hosts=256 full` runs the full simulation too.
//!
//! Keys: `hosts`, `leaf` (hosts per leaf), `spines`, `fabric` (Gbps of fabric links), `load` (per cent of host links), `ms` of
//! arrivals, `incast` (senders that send 20 kB to one host at once, every ms), `threads`, `seed`; word: `full`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod load;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use knee_approx::{Options, approximate};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold};
use knee_run::Ideal;
use knee_run::outcome::Outcome;
use knee_run::spec::{
    Cc, Flow, HostConfig, LinuxVersion, Run, Sampling, Schedule, Serialisation, Traffic,
};
use knee_run::topology::{Cable, LeafSpine};
use load::{Random, Transfer, web_search};

const CLASSES: [(&str, u64, u64); 3] =
    [("small", 0, 100_000), ("medium", 100_000, 1_000_000), ("large", 1_000_000, u64::MAX)];
/// Largest fabric whose least times are found by the paths of each pair.
const MOST_JUDGED: u32 = 2048;

fn cable(gbps: u64, queue_scale: u32) -> Cable {
    let step = StepConfig {
        limit: Limit::Pkts(1000 * queue_scale),
        threshold: Threshold::Pkts(65 * queue_scale),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };
    Cable {
        rate: Rate::from_bps(gbps * 1_000_000_000),
        serialisation: Serialisation::StoreAndForward,
        overhead_bytes: 24,
        delay: Duration::from_us(2),
        jitter: Duration::ZERO,
        loss: 0.0,
        loses_bursts: false,
        queue: QueueConfig::Step(step),
        sampled: false,
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |key: &str, default: u64| {
        let value =
            args.iter().find_map(|arg| arg.strip_prefix(&format!("{key}=")).map(str::to_owned));
        value.map_or(default, |value| value.parse().unwrap())
    };
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let (hosts, leaf) = (number("hosts", 64) as u32, number("leaf", 32) as u32);
    let (spines, fabric) = (number("spines", 8) as u32, number("fabric", 40));
    let (load, ms, incast) =
        (number("load", 50) as f64 / 100.0, number("ms", 5), number("incast", 0));
    let host = HostConfig {
        rto_min: Duration::from_ms(10),
        tcp_ecn: 1,
        ..HostConfig::new(LinuxVersion::V6_1)
    };
    let network = LeafSpine {
        leaves: hosts / leaf,
        spines,
        hosts_per_leaf: leaf,
        host,
        host_up: cable(10, 1),
        host_down: cable(10, 1),
        fabric: cable(fabric, (fabric / 10).max(1) as u32),
    }
    .build();
    let mut random = Random(number("seed", 1));
    let flow = |from, to, start, bytes| Flow {
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
    };
    let transfers = web_search(&mut random, hosts, load, Time::from_ms(ms));
    let mut flows: Vec<Flow> = transfers
        .into_iter()
        .map(|Transfer { from, to, start, bytes }| flow(from, to, start, bytes))
        .collect();
    for round in (0..ms).filter(|_| incast > 0) {
        let to = random.below(hosts);
        for i in 0..incast as u32 {
            let from = (to + 1 + i * ((hosts - 1) / incast as u32).max(1)) % hosts;
            flows.push(flow(from, to, Time::from_ms(round) + Duration::from_us(500), 20_000));
        }
    }
    let run = Run {
        seed: number("seed", 1),
        end: Time::from_ms(3_000),
        until_done: true,
        network,
        flows,
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Schedule::default(),
    };
    println!("{hosts} hosts, {} links, {} flows", run.network.links.len(), run.flows.len());
    let options = Options { threads: number("threads", 0) as usize };
    let started = Instant::now();
    let (approximated, effort) = approximate(&run, options, &AtomicBool::new(false)).unwrap();
    let took = started.elapsed().as_secs_f64();
    println!("approximated in {took:.2} s: {effort:?}");
    println!("  {:?}, {} MB at most", approximated.work, peak_mb());
    let full = has("full").then(|| {
        let started = Instant::now();
        let full = knee_sim::simulate(&run).unwrap();
        println!(
            "full in {:.2} s: {:?}, {} MB at most",
            started.elapsed().as_secs_f64(),
            full.work,
            peak_mb()
        );
        full
    });
    if hosts <= MOST_JUDGED {
        show(&run, &approximated, full.as_ref());
    }
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Prints percentiles of slowdown by size class, and how far the approximation is from the full run.
fn show(run: &Run, approximated: &Outcome, full: Option<&Outcome>) {
    let mut ideal = Ideal::new(&run.network);
    let least: Vec<f64> = run
        .flows
        .iter()
        .map(|flow| match flow.traffic {
            Traffic::Bulk { bytes: Some(bytes) } => {
                ideal.transfer(flow.from, flow.to, bytes).unwrap().ps() as f64
            }
            _ => f64::NAN,
        })
        .collect();
    for (name, from, below) in CLASSES {
        let slowdowns = |outcome: &Outcome| {
            let flows = run.flows.iter().zip(&outcome.flows).zip(&least);
            let mut all: Vec<f64> = flows
                .filter(|((flow, _), _)| matches!(flow.traffic, Traffic::Bulk { bytes: Some(bytes) } if (from..below).contains(&bytes)))
                .filter_map(|((_, got), least)| Some(got.completion_time()?.ps() as f64 / least))
                .collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let ours = slowdowns(approximated);
        let theirs = full.map(slowdowns).unwrap_or_default();
        let at = |all: &[f64], q: f64| {
            all.get(((all.len() as f64 * q) as usize).min(all.len().saturating_sub(1)))
                .copied()
                .unwrap_or(f64::NAN)
        };
        for q in [0.5, 0.9, 0.99] {
            let (a, b) = (at(&ours, q), at(&theirs, q));
            println!(
                "{name:<7} p{:<3} {a:8.2} {b:8.2} {:+7.1} %  ({} flows)",
                q * 100.0,
                (a / b - 1.0) * 100.0,
                ours.len()
            );
        }
    }
}

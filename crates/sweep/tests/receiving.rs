//! What a file says of NICs, CPU time, pacing limits and lost bursts becomes the run and its metrics; errors are one sentence.

use std::path::Path;

use crate::common::*;
use knee_queue::time::Duration;
use knee_run::spec::{Adaptive, ByRate, Coalesce, CpuCosts, Dim, DimMode};
use knee_scenario::metric::Metric;
use knee_scenario::{Experiment, Overrides};

const FILE: &str = r#"question = "?"
cc = ["cubic"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps", loss = "0.1 %", loss_per = "burst" }
bottleneck = { rate = "1 Gbps", delay = "10 us", queue = { kind = "droptail", limit = "500 pkts" } }

[hosts]
gso_max_segs = 4
tso_rtt_log = 0
cpu = { per_ack = "1 us" }

[[host]]
hosts = "r"
coalesce = { frames = 32, time = "50 us" }
receive_queues = 4
gro = true

[[traffic]]
name = "limited"
kind = "bulk"
from = ["s1", "s2"]
to = "r"
max_pacing_rate = "48 Mbps"

[run]
duration = "200 ms"

[sample]
flows = "1 ms"
"#;

fn refusal(text: &str) -> String {
    let parsed = Experiment::parse(Path::new("nic.toml"), text, &Overrides::default());
    parsed.map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}

#[test]
fn the_file_becomes_the_run() {
    let experiment = parsed("nic.toml", FILE, &Overrides::default());
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let host = |name: &str| {
        let node = run.network.nodes.iter().find(|node| node.name == name).unwrap();
        node.host.clone().unwrap()
    };
    let time = Duration::from_us(50);
    let receiver = host("r");
    assert_eq!(receiver.coalesce, Some(Coalesce::fixed(Some(32), time)));
    assert_eq!((receiver.receive_queues, receiver.gro), (4, true));
    let cpu = CpuCosts { per_ack: Duration::from_us(1), ..CpuCosts::default() };
    assert_eq!((receiver.cpu, host("s1").cpu), (Some(cpu), Some(cpu)));
    assert_eq!((host("s1").coalesce, host("s1").sysctls.tso_rtt_log), (None, 0));
    assert!(run.flows.iter().all(|flow| flow.max_pacing_rate.unwrap().bps() == 48_000_000));
    let lossy = run.network.links.iter().filter(|link| link.loses_bursts);
    assert!(lossy.clone().count() == 2 && lossy.into_iter().all(|link| link.loss == 0.001));

    let adaptive = FILE.replace("frames = 32,", "adaptive = true, rate_low = 1000,");
    let experiment = parsed("nic.toml", &adaptive, &Overrides::default());
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let wanted = ByRate { rate_low: 1000, ..ByRate::default() };
    let of_nodes = run.network.nodes.iter().filter_map(|node| node.host.as_ref()?.coalesce);
    assert_eq!(
        of_nodes.collect::<Vec<_>>(),
        [Coalesce { adaptive: Some(Adaptive::Rate(wanted)), ..Coalesce::fixed(None, time) }]
    );
    let dim = FILE.replace("frames = 32, time = \"50 us\"", "dim = \"eqe\"");
    assert_ne!(dim, FILE);
    let experiment = parsed("nic.toml", &dim, &Overrides::default());
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let mut of_nodes = run.network.nodes.iter().filter_map(|node| node.host.as_ref()?.coalesce);
    assert_eq!(of_nodes.next(), Some(Dim::new(DimMode::Eqe).coalesce()));
}

#[test]
fn its_metrics_are_there_and_absent_without_it() {
    let scratch = Scratch::new();
    let metrics = [
        Metric::PktsPerMerge,
        Metric::AcksPerMb,
        Metric::ReceiveCpuPerMb,
        Metric::AckCpuPerMb,
        Metric::ReceiveCpuShare,
        Metric::AckCpuShare,
        Metric::Cwnd,
        Metric::Srtt,
        Metric::RttShown,
        Metric::PacingTimers,
        Metric::Bursts,
        Metric::PktsPerBurst,
        Metric::DataPktsRate,
        Metric::AcksRate,
    ];
    let values = |text: &str| {
        let experiment = parsed("nic.toml", text, &Overrides::default());
        let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
        let subject = &swept.tables[0].subjects[0];
        metrics.map(|metric| subject.metric(metric).and_then(|summary| summary.mean))
    };
    let all = values(FILE);
    assert!(all.iter().all(Option::is_some), "{all:?}");
    // RTTs are far below a tick of 1 ms; bursts are the four segments of a millisecond.
    assert_eq!(all[8], Some(0.001));
    assert!((3.8..=4.0).contains(&all[11].unwrap()), "{all:?}");
    // Of the same CPU time: shares of 0.2 s.
    let (per_mb, share) = (all[2].unwrap(), all[4].unwrap());
    assert!(per_mb > 0.0 && share > 0.0);

    let plain: String = FILE
        .lines()
        .filter(|line| {
            let of_hosts = ["cpu", "coalesce", "receive_queues", "gro =", "max_pacing", "flows ="];
            !of_hosts.iter().any(|key| line.starts_with(key))
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(values(&plain).iter().all(Option::is_none));
}

#[test]
fn what_has_no_effect_or_no_sense_is_refused() {
    for (find, replacement, key, why) in [
        (
            "coalesce = { frames = 32, time = \"50 us\" }",
            "",
            "receive_queues",
            "needs interrupt coalescing",
        ),
        ("gro = true", "gro = true\ngro_window = \"10 us\"", "gro", "leave one out"),
        ("time = \"50 us\"", "", "coalesce.time", "missing, as in time = \"50 us\""),
        ("frames = 32", "frames = 0", "coalesce.frames", "from 1 to 65536"),
        ("frames = 32", "dim = \"cqe\"", "coalesce.time", "has no effect with dim"),
        ("frames = 32", "dim = \"adq\"", "coalesce.dim", "eqe"),
        ("frames = 32", "since = \"first\"", "coalesce.since", "last packet"),
        ("frames = 32", "rate_low = 5", "coalesce.rate_low", "needs adaptive = true"),
        (
            "frames = 32",
            "adaptive = true, rate_low = 500000",
            "coalesce.rate_low",
            "must be below rate_high (450000)",
        ),
        ("loss = \"0.1 %\", ", "", "network.access.loss_per", "needs loss"),
        (
            "tso_rtt_log = 0",
            "fq_counts_headers = true",
            "hosts.fq_counts_headers",
            "needs fq = true",
        ),
        ("per_ack =", "per_akc =", "hosts.cpu.per_akc", "did you mean \"per_ack\""),
    ] {
        let refused = refusal(&FILE.replacen(find, replacement, 1));
        assert!(
            refused.contains(key) && refused.contains(why),
            "{find} -> {replacement}: {refused}"
        );
    }
}

//! Queues of a file: what is written becomes the discipline, defaults are Linux's, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_queue::time::Duration;
use knee_queue::{
    CeThresholdFor, CodelConfig, CodelParams, DualPi2Config, FqCodelConfig, Limit, LowLatency,
    NotEctAbove, QueueConfig, RedConfig, StepThreshold,
};
use knee_scenario::{Experiment, Overrides};

fn parse(cable: &str, queue: &str, scale: Option<f64>) -> Result<QueueConfig, String> {
    let text = format!(
        r#"question = "?"
cc = ["dctcp"]
[network]
topology = "many-to-one"
access = {{ rate = "10 Gbps" }}
bottleneck = {{ rate = "10 Gbps", {cable} queue = {{ {queue} }} }}
[[traffic]]
name = "long"
kind = "bulk"
from = "s1"
to = "r"
[run]
duration = "10 ms"
"#
    );
    let mut overrides = Overrides { seed: Some(1), ..Overrides::default() };
    if let Some(scale) = scale {
        overrides.scale = knee_scenario::scale::Scale::new(scale).unwrap();
    }
    let experiment = Experiment::parse(Path::new("queue.toml"), &text, &overrides)
        .map_err(|error| error.to_string())?;
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let link = run.network.link_named("switch-r").unwrap();
    let mut queue = run.network.links[link as usize].queue.clone();
    match &mut queue {
        QueueConfig::Red(red) => red.seed = 0,
        QueueConfig::FqCodel(fq) => fq.seed = 0,
        QueueConfig::DualPi2(dual) => dual.seed = 0,
        _ => {}
    }
    Ok(queue)
}

#[test]
fn red_counts_full_packets_in_bytes_and_is_not_idle_below_a_token_bucket() {
    let text = r#"kind = "red", limit = "1 MB", min = "20 pkts", max = "90840 B", max_p = "2 %""#;
    let expected = RedConfig {
        limit: Limit::Bytes(1_000_000),
        min_bytes: 20 * 1514,
        max_bytes: 90_840,
        max_p: 0.02,
        wlog: 9,
        // 1514 bytes at 10 Gbps.
        packet_time: Duration::from_ps(1_211_200),
        ecn: true,
        not_ect: NotEctAbove::Drop,
        harddrop: false,
        gentle: false,
        adapt_interval: None,
        seed: 0,
    };
    assert_eq!(parse("", text, None), Ok(QueueConfig::Red(expected.clone())));
    let shaped = RedConfig { packet_time: Duration::ZERO, ..expected.clone() };
    assert_eq!(parse(r#"burst = "1 pkts","#, text, None), Ok(QueueConfig::Red(shaped)));
    let scaled = RedConfig {
        packet_time: Duration::from_ps(12_112_000),
        adapt_interval: Some(Duration::from_ms(5000)),
        ..expected
    };
    let adaptive = format!("{text}, adaptive = true");
    assert_eq!(parse("", &adaptive, Some(0.1)), Ok(QueueConfig::Red(scaled)));
}

#[test]
fn what_is_not_said_is_as_in_linux() {
    for (text, expected) in [
        (r#"kind = "codel""#, QueueConfig::Codel(CodelConfig::default())),
        (r#"kind = "fq-codel""#, QueueConfig::FqCodel(FqCodelConfig::default())),
        (r#"kind = "dualpi2""#, QueueConfig::DualPi2(DualPi2Config::default())),
    ] {
        assert_eq!(parse("", text, None), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_said_becomes_the_queue_and_times_scale() {
    let fq = r#"kind = "fq-codel", limit = "100 pkts", flows = 16, ce_threshold = "50 us", ce_threshold_for = "ect1""#;
    let expected = FqCodelConfig {
        limit_pkts: 100,
        flows: 16,
        codel: CodelParams {
            target: Duration::from_ms(50),
            interval: Duration::from_ms(1000),
            ecn: true,
            ce_threshold: Some(Duration::from_us(500)),
            ce_threshold_for: CeThresholdFor::Ect1,
            mtu_bytes: 1514,
        },
        ..FqCodelConfig::default()
    };
    assert_eq!(parse("", fq, Some(0.1)), Ok(QueueConfig::FqCodel(expected)));
    let dual = r#"kind = "dualpi2", low_latency = "any-ect", step = "5 pkts", c_weight = "50 %", target = "1 ms""#;
    let expected = DualPi2Config {
        low_latency: LowLatency::EctAny,
        step: StepThreshold::Pkts(5),
        c_weight_pct: 50,
        target: Duration::from_ms(10),
        update_interval: Duration::from_ms(160),
        alpha_ppm: 16_000,
        beta_ppm: 320_000,
        ..DualPi2Config::default()
    };
    assert_eq!(parse("", dual, Some(0.1)), Ok(QueueConfig::DualPi2(expected)));
}

#[test]
fn what_cannot_be_is_said_in_one_sentence() {
    let red = r#"kind = "red", limit = "1 MB", min = "20 pkts""#;
    for (text, expected) in [
        (r#"kind = "reed""#.to_owned(), "did you mean \"red\"?"),
        (red.to_owned(), "queue.max: missing, as in max = \"60 pkts\""),
        (
            format!("{red}, max = \"10 pkts\""),
            "queue.max = \"10 pkts\": RED's max must be at least its min",
        ),
        (format!("{red}, max = \"1 ms\""), "must be packets or a size"),
        (format!("{red}, max = \"2 GB\""), "both at most 1 GiB"),
        (
            format!("{red}, max = \"60 pkts\", ecn = false, harddrop = true"),
            "has no meaning without ecn",
        ),
        (format!("{red}, max = \"60 pkts\", wlog = 32"), "must be a whole number from 0 to 31"),
        (
            r#"kind = "codel", target = "100 ms""#.to_owned(),
            "queue.interval: CoDel's interval must be longer",
        ),
        (r#"kind = "codel", flows = 7"#.to_owned(), "unknown key"),
        (
            r#"kind = "codel", ce_threshold_for = "ect1""#.to_owned(),
            "has no meaning without ce_threshold",
        ),
        (r#"kind = "fq-codel", flows = 0"#.to_owned(), "must be a whole number from 1 to 65536"),
        (r#"kind = "fq-codel", quantum = "100 B""#.to_owned(), "must be from 256 B to 1 MiB"),
        (
            r#"kind = "fq-codel", memory_limit = "1 kB""#.to_owned(),
            "must hold one full packet (1514 B)",
        ),
        (r#"kind = "dualpi2", step = "10 kB""#.to_owned(), "must be a waiting time or packets"),
        (r#"kind = "dualpi2", c_weight = "0 %""#.to_owned(), "must be from 1 to 99 %"),
        (r#"kind = "dualpi2", c_weight = "1.5 %""#.to_owned(), "must be a whole number of percent"),
        (r#"kind = "dualpi2", update_interval = "10 ns""#.to_owned(), "must be at least 1 us"),
    ] {
        let said = parse("", &text, None).unwrap_err();
        assert!(said.contains(expected), "{text}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

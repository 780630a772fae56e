//! The same experiment, slower and longer.

use std::path::Path;

use knee_evidence::table;
use knee_queue::time::{Duration, Time};
use knee_queue::{QueueConfig, Threshold};
use knee_scenario::metric::Metric;
use knee_scenario::scale::Scale;
use knee_scenario::{Experiment, Overrides};
use knee_sweep::report;
use knee_sweep::sweep_result::SweepResult;

use crate::common::*;

const TIMES: &str = r#"question = "What scales?"
cc = ["dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "10 Gbps", delay = "3 us", jitter = "1 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "100 pkts", k = "80 us", mark_when = "dequeue" } }
return = { delay = "100 us" }
coalesce = { time = "140 us", adaptive = true, interval = "10 ms", from = "s1" }

[hosts]
rto_min = "10 ms"
base_rtt = "50 us"
gro_window = "20 us"

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"
start = "1 ms"
stop = "50 ms"

[[traffic]]
name = "ping"
kind = "ping"
from = "s2"
to = "r"
interval = "2 ms"
start = "1 ms"

[run]
duration = "60 ms"
measure_from = "20 ms"
measure_until = "50 ms"

[sample]
flows = "1 ms"
queues = "100 us"

[[published]]
subject = "bulk"
metric = "goodput"
case = "dctcp"
value = "940 Mbps"
"#;

fn scaled(text: &str, share: f64) -> Overrides {
    let scale = Scale::new(share).unwrap_or_else(|why| panic!("{text}: {why}"));
    Overrides { scale, ..Overrides::default() }
}

#[test]
fn rates_shrink_times_grow_and_amounts_stay() {
    let experiment = parsed("times.toml", TIMES, &scaled(TIMES, 0.1));
    let run = experiment.run(experiment.run_id(0)).unwrap();
    assert_eq!(run.end, Time::from_ms(600));
    let bottleneck = run.network.links.iter().find(|link| link.sampled).unwrap();
    assert_eq!(bottleneck.rate.unwrap().bps(), 100_000_000);
    let QueueConfig::Step(step) = &bottleneck.queue else { panic!("{:?}", bottleneck.queue) };
    assert_eq!(step.threshold, Threshold::Sojourn(Duration::from_us(800)));
    assert_eq!(step.limit, knee_queue::Limit::Pkts(100));
    let access = &run.network.links[0];
    assert_eq!((access.delay, access.jitter), (Duration::from_us(30), Duration::from_us(10)));
    let host = run.network.nodes[0].host.as_ref().unwrap();
    assert_eq!(host.rto_min, Duration::from_ms(100));
    assert_eq!(host.base_rtt, Some(Duration::from_us(500)));
    assert_eq!(host.gro_window, Duration::from_us(200));
    let [port] = run.network.ports[..] else { panic!("{:?}", run.network.ports) };
    assert_eq!(port.coalesce.time, Duration::from_us(1400));
    let Some(knee_run::spec::Adaptive::Rate(adaptive)) = port.coalesce.adaptive else {
        panic!("{port:?}")
    };
    assert_eq!(adaptive.interval, Duration::from_ms(100));
    assert_eq!((adaptive.rate_low, adaptive.rate_high), (40_000, 45_000));
    assert_eq!(run.flows[0].start, Time::from_ms(10));
    assert_eq!(run.flows[0].stop, Some(Time::from_ms(500)));
    assert_eq!(run.pings[0].interval, Duration::from_ms(20));
    assert_eq!(run.sampling.queues, Some(Duration::from_ms(1)));
    assert_eq!(run.sampling.goodput, None);
    let window = run.sampling.window.unwrap();
    assert_eq!((window.from, window.until), (Time::from_ms(200), Time::from_ms(500)));
    assert_eq!(window.period, Duration::from_ms(100));
}

#[test]
fn a_scaled_run_measures_the_same_in_longer_time_and_says_so() {
    let scratch = Scratch::new();
    let swept = |share: f64| -> (std::sync::Arc<Experiment>, SweepResult) {
        // Nothing random, so that the two differ by the scale alone.
        let text = TIMES.replace(", jitter = \"1 us\"", "");
        let experiment = parsed("times.toml", &text, &scaled(&text, share));
        let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
        (experiment, swept)
    };
    let (written, fast) = swept(1.0);
    let (experiment, slow) = swept(0.1);
    let mean = |swept: &SweepResult, subject: usize, metric: Metric| {
        swept.tables[0].subjects[subject].metric(metric).unwrap().mean.unwrap()
    };
    let ratio = |subject, metric| mean(&slow, subject, metric) / mean(&fast, subject, metric);
    // A lone flow fills the link at either speed, in the window that scales with the run.
    let goodput = ratio(0, Metric::Goodput);
    assert!((0.095..0.105).contains(&goodput), "{goodput}");
    let rtt = ratio(1, Metric::Rtt);
    assert!((9.0..11.0).contains(&rtt), "{rtt}");
    let shown = table::render(&experiment, &slow);
    assert!(shown.contains("SCALE 0.1: every rate is multiplied by 0.1"), "{shown}");
    assert!(shown.contains("published figures are left out"), "{shown}");
    assert!(table::render(&written, &fast).contains("published"));
    assert_eq!(report::json(&experiment, &slow, &[], None)["back_end"]["scale"], 0.1);
}

#[test]
fn a_scale_that_leads_nowhere_is_refused() {
    let refused = |text: &str, share: f64| {
        let parsed = Experiment::parse(Path::new("times.toml"), text, &scaled(text, share));
        parsed.unwrap_err().to_string()
    };
    let slow = TIMES.replace("\"1 Gbps\"", "\"1 Mbps\"");
    assert_eq!(
        refused(&slow, 0.000_1),
        "times.toml: --scale: 0.0001 makes the link switch-r slower than 1 kbps"
    );
    let long = TIMES.replace("\"60 ms\"", "\"10 min\"");
    assert_eq!(
        refused(&long, 0.000_01),
        "times.toml: --scale: 0.00001 makes runs longer than 7 days"
    );
}

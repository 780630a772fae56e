//! Parking lots, open-loop arrivals and shares of marks: what a file says becomes the run, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_queue::{Limit, MarkShare, QueueConfig};
use knee_run::spec::{Run, Traffic};
use knee_scenario::{Experiment, Overrides};

const LOT: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "parking-lot"
hops = 2
through = 2
cross = 3
access = { rate = "10 Gbps", delay = "1 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "share", limit = "100 pkts", mark = "10 %" } }

[[traffic]]
name = "mix"
kind = "poisson"
from = "s1..s2"
to = "r1..r2"
sizes = [["1 kB", "50 %"], ["2 MB", "100 %"]]
load = "40 %"
of = "switch1-switch2"
until = "1 s"

[[traffic]]
name = "cross"
kind = "bulk"
from = "x2.1..x2.3"
to = "y2.1..y2.3"

[run]
duration = "2 s"
"#;

fn run(text: &str, seed: u64) -> Run {
    let overrides = Overrides { seed: Some(seed), ..Overrides::default() };
    let experiment = Experiment::parse(Path::new("lot.toml"), text, &overrides);
    let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
    experiment.run(experiment.run_id(0)).unwrap()
}

#[test]
fn arrivals_offer_the_load_that_was_asked_for() {
    // 0.5 x 1 kB + 0.5 x (1 kB + 2 MB) / 2 = 500.75 kB: 99.85 a second are 400 Mbps.
    let runs: Vec<Run> = (0..40).map(|seed| run(LOT, seed)).collect();
    let sizes: Vec<u64> = runs
        .iter()
        .flat_map(|run| run.flows.iter().filter(|flow| flow.group == 0))
        .map(|flow| match flow.traffic {
            Traffic::Bulk { bytes: Some(bytes) } => bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    // 3994 with a standard deviation of 63; their bytes 2 GB with one of 46 MB.
    assert!((3740..4250).contains(&sizes.len()), "{}", sizes.len());
    let bytes: u64 = sizes.iter().sum();
    assert!((1_800_000_000..2_200_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let show = |seed| format!("{:?}", run(LOT, seed));
    assert_eq!(show(1), show(1));
    assert_ne!(show(1), show(2));
}

#[test]
fn a_hop_has_its_cross_traffic_and_its_queue() {
    let run = run(LOT, 1);
    let name = |id: u32| run.network.nodes[id as usize].name.as_str();
    let cross: Vec<_> = run.flows.iter().filter(|flow| flow.group == 1).collect();
    assert_eq!((name(cross[2].from), name(cross[2].to)), ("x2.3", "y2.3"));
    let link = |name: &str| &run.network.links[run.network.link_named(name).unwrap() as usize];
    let queue = |name: &str| match &link(name).queue {
        QueueConfig::Share(share) => *share,
        other => panic!("{other:?}"),
    };
    let (first, second) = (queue("switch1-switch2"), queue("switch2-switch3"));
    assert_eq!((first.limit, first.mark), (Limit::Pkts(100), MarkShare::Probability(0.1)));
    assert_ne!(first.seed, second.seed);
    assert!(link("switch1-switch2").sampled && !link("switch2-switch1").sampled);
    assert_eq!(name(link("x2.1-switch2").to), "switch2");
    assert_eq!(name(link("switch3-y2.1").from), "switch3");
}

const REQUESTS: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "star"
hosts = 4
up = { rate = "1 Gbps" }
down = { rate = "1 Gbps", queue = { kind = "droptail", limit = "100 pkts" } }

[[traffic]]
name = "asks"
kind = "rpc"
from = "h1"
to = "h2..h4"
response = "10 kB"
load = "40 %"
of = "h1"

[run]
duration = "1 s"
"#;

/// Load is of the direction with more bytes: 10 kB at 400 Mbps are 5,000 requests a second, of 100 B or 20 kB each.
#[test]
fn requests_offer_the_load_that_was_asked_for() {
    let arrivals = |text: &str| -> usize {
        let run = run(text, 1);
        assert_eq!(run.schedule.pools.len(), 3);
        run.schedule.pools.iter().map(|pool| pool.arrivals_ns.len()).sum()
    };
    let count = arrivals(REQUESTS);
    assert!((4700..5300).contains(&count), "{count}");
    let uploads = REQUESTS.replace("response = \"10 kB\"", "request = \"20 kB\"");
    let count = arrivals(&uploads);
    assert!((2280..2720).contains(&count), "{count}");
    // By `rate`, and by a mix with a mean of 20 kB.
    let by_rate = REQUESTS.replace("load = \"40 %\"\nof = \"h1\"", "rate = \"400 Mbps\"").replace(
        "response = \"10 kB\"",
        "sizes = { mix = [[\"10 kB\", \"50 %\"], [\"30 kB\", \"50 %\"]] }",
    );
    let count = arrivals(&by_rate);
    assert!((2280..2720).contains(&count), "{count}");
}

#[test]
fn requests_that_contradict_themselves_are_refused() {
    let of = "load = \"40 %\"\nof = \"h1\"";
    for (find, replacement, expected) in [
        (of, "load = \"40 %\"", "traffic.asks.of: missing"),
        (of, "of = \"h1\"", "needs \"load\""),
        (of, "load = \"40 %\"\nof = \"h1\"\nrate = \"1 Gbps\"", "conflicts with \"load\""),
        (of, "arrivals_per_sec = 9\nrate = \"1 Gbps\"", "conflicts with \"arrivals_per_sec\""),
        (of, "load = \"40 %\"\nof = \"h1\"\ncount = 3", "has no meaning for requests at"),
        (of, "rate = \"1 Gbps\"\nstop_stagger = \"1 ms\"", "has no meaning"),
        (of, "rate = \"1 Gbps\"\nstop = \"0 s\"", "must be later than the start"),
        (of, "rate = \"1 Gbps\"\nsizes = \"1 kB\"", "conflicts with \"response\""),
        (
            "response = \"10 kB\"\nload = \"40 %\"\nof = \"h1\"",
            "sizes = \"1 kB\"",
            "needs \"load\", \"rate\" or",
        ),
        (
            "response = \"10 kB\"",
            "sizes = { mix = [[\"1 kB\", \"70 %\"], [\"1 MB\", \"40 %\"]] }",
            "shares of a mix must add up to 100 %, not 110 %",
        ),
        (of, "arrivals_per_sec = 1000000000", "gives 1000189746 requests, up to"),
    ] {
        assert!(REQUESTS.contains(find), "{find}");
        let text = REQUESTS.replacen(find, replacement, 1);
        let said = match Experiment::parse(Path::new("asks.toml"), &text, &Overrides::default()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected) && !said.contains('\n'), "{replacement}: {said}");
    }
}

#[test]
fn what_does_not_fit_is_said() {
    for (find, replacement, expected) in [
        ("mark = \"10 %\"", "every = 0", "every = 0: must be a whole number from 1 to 4294967295"),
        ("mark = \"10 %\"", "k = \"1 pkt\"", "unknown key; known here: kind, limit, mark, every"),
        ("cross = 3", "cross = 90000", "gives 360004 hosts, but at most 120000 are allowed"),
        ("of = \"switch1-switch2\"", "of = \"no\"", "must name hosts of this network"),
        ("load = \"40 %\"", "load = \"0 %\"", "must be above 0 %"),
        ("load = \"40 %\"\nof = \"switch1-switch2\"", "", "load: missing, as in load = "),
        ("to = \"r1..r2\"", "to = \"s1..s2\"", "accepted"),
        (
            "from = \"s1..s2\"\nto = \"r1..r2\"",
            "from = \"s1\"\nto = \"s1\"",
            "must name a host that",
        ),
        ("[\"2 MB\", \"100 %\"]", "[\"2 MB\", \"99 %\"]", "must end with the largest size and"),
        ("[\"2 MB\", \"100 %\"]", "[\"2 B\", \"100 %\"]", "must increase from pair to pair"),
        ("until = \"1 s\"", "until = \"0 s\"", "must be later than the start"),
        ("until = \"1 s\"", "until = \"1 s\"\nflows = 2", "flows: unknown key"),
        ("until = \"1 s\"", "until = \"20000 s\"", "but at most 1000000 are allowed"),
    ] {
        assert!(LOT.contains(find), "{find}");
        let text = LOT.replacen(find, replacement, 1);
        let said = match Experiment::parse(Path::new("lot.toml"), &text, &Overrides::default()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected), "{replacement}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

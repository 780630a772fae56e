//! Requests at times of their own on connections that stay.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;

use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_scenario::Overrides;

use crate::common::*;

fn experiment(traffic: &str) -> String {
    format!("{STAR}[[traffic]]\nname = \"it\"\nkind = \"rpc\"\nfrom = \"h1\"\n{traffic}")
}

fn run_of(text: &str) -> Run {
    let experiment = parsed("x.toml", text, &Overrides::default());
    experiment.run(experiment.run_id(0)).unwrap()
}

/// The row of the summary with a metric of `it`, by columns.
fn summary(text: &str, metric: &str) -> BTreeMap<String, f64> {
    let scratch = Scratch::new();
    let experiment = parsed("x.toml", text, &Overrides::default());
    let options = knee_sweep::runs::Options::new(std::sync::Arc::new(knee_sim::Simulator));
    run_into(&scratch, &experiment, &options).unwrap();
    let files = scratch.files("x");
    let mut lines = files["summary.csv"].lines().map(|line| line.split(','));
    let header: Vec<&str> = lines.next().unwrap().collect();
    let is_row = |row: &BTreeMap<&str, &str>| row["subject"] == "it" && row["metric"] == metric;
    let rows = lines.map(|cells| header.iter().copied().zip(cells).collect::<BTreeMap<_, _>>());
    let row = rows.into_iter().find(is_row).unwrap();
    let numbers =
        row.into_iter().filter_map(|(key, cell)| Some((key.to_owned(), cell.parse().ok()?)));
    numbers.collect()
}

/// One connection answers one request at a time, each in the same time D: at a load of 60 % of 1/D, requests wait
/// `0.6 D / (2 * 0.4)` in the mean (Pollaczek and Khinchine), so that all takes 1.75 D. What closed-loop requests take is D.
#[test]
fn one_connection_is_a_queue_with_one_server() {
    let closed = summary(
        &experiment("to = \"h2\"\n[run]\nduration = \"200 ms\"\nmeasure_from = \"100 ms\"\n"),
        "latency",
    );
    let d = closed["mean"];
    assert!((closed["min"] - closed["max"]).abs() < 1e-9, "{closed:?}");
    let per_sec = (0.6 / d) as u64;
    let open = |flows: u32| {
        let keys = format!("to = \"h2\"\nflows = {flows}\narrivals_per_sec = {per_sec}\n");
        let text = experiment(&format!("{keys}[run]\nduration = \"5 s\"\n"));
        summary(&text, "latency")
    };
    let (one, two) = (open(1), open(2));
    let ratio = one["mean"] / d;
    // Some 60,000 requests; of their mean the standard deviation is about 1 %.
    assert!((1.68..1.82).contains(&ratio), "{ratio} of {d}, {one:?}");
    // Two share the requests: the wait is a fifth of it (M/D/2 at 30 %: about 0.05 D).
    let ratio = two["mean"] / d;
    assert!((1.02..1.10).contains(&ratio), "{ratio}, {two:?}");
    assert!(one["min"] >= d - 1e-9 && two["min"] >= d - 1e-9);
}

/// A connection that is asked for twice what it can do answers half, and the rest is cut off at its age.
#[test]
fn what_was_not_answered_is_cut_off_at_its_age_since_it_arrived() {
    let d = summary(&experiment("to = \"h2\"\n[run]\nduration = \"100 ms\"\n"), "latency")["min"];
    let per_sec = (2.0 / d) as u64;
    let text = experiment(&format!(
        "to = \"h2\"\narrivals_per_sec = {per_sec}\n[run]\nduration = \"1 s\"\n"
    ));
    let run = run_of(&text);
    let arrived = run.schedule.pools[0].arrivals_ns.len() as f64;
    let (exchanges, unfinished) = (summary(&text, "exchanges"), summary(&text, "unfinished"));
    assert_eq!(exchanges["mean"] + unfinished["mean"], arrived);
    assert!((0.45..0.55).contains(&(exchanges["mean"] / arrived)), "{exchanges:?} of {arrived}");
    let latency = summary(&text, "latency");
    assert_eq!((latency["values"], latency["cut_off"]), (exchanges["mean"], unfinished["mean"]));
    // The last answered had waited for about half of the run. Nobody knows what those take that are not.
    assert!(latency["max_at_least"] > 0.45, "{latency:?}");
    assert!(!latency.contains_key("mean") && latency["mean_at_least"] > 0.2, "{latency:?}");
}

/// With a measured window, requests count where they arrive, even if they are answered after it.
#[test]
fn a_window_has_the_requests_that_arrive_in_it() {
    let keys = "to = \"h2\"\nflows = 4\nresponse = \"20 kB\"\nrate = \"300 Mbps\"\n";
    let text = experiment(&format!(
        "{keys}[run]\nduration = \"300 ms\"\nmeasure_from = \"100 ms\"\nmeasure_until = \"200 ms\"\n"
    ));
    let run = run_of(&text);
    let (from, until) = (Time::from_ms(100).ns(), Time::from_ms(200).ns());
    let arrivals = run.schedule.pools[0].arrivals_ns.iter();
    let in_window = arrivals.filter(|at| **at > from && **at <= until).count() as f64;
    // 1,875 a second.
    assert!((140.0..240.0).contains(&in_window), "{in_window}");
    let latency = summary(&text, "latency");
    assert_eq!((latency["values"], latency["cut_off"]), (in_window, 0.0));
}

/// The stream of arrivals depends on the entry alone: neither the algorithm nor drawn sizes nor other traffic move it.
#[test]
fn arrivals_are_a_stream_of_their_own() {
    let keys = "to = \"h2..h3\"\nflows = 2\narrivals_per_sec = 5000\nstop = \"80 ms\"\n";
    let end = "[run]\nduration = \"100 ms\"\n";
    let beside = "[[traffic]]\nname = \"some\"\nkind = \"poisson\"\nfrom = \"h4\"\nto = \"h5\"\nsizes = \"10 kB\"\n\
                  arrivals_per_sec = 1000\nuntil = \"90 ms\"\n";
    let plain = run_of(&experiment(&format!("{keys}{end}")));
    let drawn = "sizes = { mix = [[\"1 kB\", \"90 %\"], [\"100 kB\", \"10 %\"]] }\n";
    let drawn = run_of(&experiment(&format!("{keys}{drawn}{end}")));
    let more = run_of(&experiment(&format!("{keys}{beside}{end}")));
    let other = run_of(&experiment(&format!("{keys}{end}")).replace("dctcp", "cubic"));
    let arrivals = |run: &Run| -> Vec<Vec<u64>> {
        run.schedule.pools.iter().map(|pool| pool.arrivals_ns.clone()).collect()
    };
    assert_eq!(arrivals(&plain).len(), 2);
    for run in [&drawn, &more, &other] {
        assert_eq!(arrivals(&plain), arrivals(run));
    }
    // 400 in all with a standard deviation of 20, and each pair has about half of them.
    let counts: Vec<usize> = arrivals(&plain).iter().map(Vec::len).collect();
    assert!((320..480).contains(&counts.iter().sum::<usize>()), "{counts:?}");
    assert!(counts.iter().all(|count| *count > 140), "{counts:?}");
    assert!(arrivals(&plain).concat().iter().all(|at| *at < Time::from_ms(80).ns()));
    for pool in &drawn.schedule.pools {
        assert_eq!(pool.response_bytes.len(), pool.arrivals_ns.len());
        assert!(pool.response_bytes.iter().all(|size| [1000, 100_000].contains(size)));
    }
    // Without requests at times of their own the rest is as it was.
    let alone = beside.replace("name = \"some\"", "name = \"it\"");
    let alone = run_of(&format!(
        "{STAR}[[traffic]]\nname = \"before\"\nkind = \"rpc\"\nfrom = \"h1\"\nto = \"h2\"\n{alone}{end}"
    ));
    let of_poisson = |run: &Run| -> Vec<Time> {
        run.flows.iter().filter(|flow| !flow.traffic.is_rpc()).map(|flow| flow.start).collect()
    };
    assert_eq!(of_poisson(&alone), of_poisson(&more));
}

/// Two racks, so that threads can share the run.
const RACKS: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
up = { rate = "1 Gbps", delay = "5 us" }
down = { rate = "1 Gbps", delay = "5 us", queue = { kind = "step", limit = "500 kB", k = "30 kB" } }
fabric = { rate = "1 Gbps", delay = "5 us", queue = { kind = "step", limit = "500 kB", k = "30 kB" } }

[[traffic]]
name = "it"
kind = "rpc"
from = "h0.0"
to = ["h0.1", "h1.0", "h1.1"]
flows = 2
request = "300 B"
sizes = { mix = [["10 kB", "90 %"], ["100 kB", "10 %"]] }
load = "60 %"
of = "h0.0"
stop = "150 ms"

[run]
duration = "400 ms"
"#;

/// Requests of drawn sizes on two connections of each pair: the server of each knows what to answer, and threads change nothing.
#[test]
fn servers_answer_with_the_drawn_sizes_on_any_number_of_threads() {
    let run = run_of(RACKS);
    let outcome = knee_sim::simulate(&run).unwrap();
    let arrived: usize = run.schedule.pools.iter().map(|pool| pool.arrivals_ns.len()).sum();
    // 600 Mbps of 19 kB: 3,947 a second.
    assert!((500..690).contains(&arrived), "{arrived}");
    assert_eq!(outcome.rpcs.len(), arrived);
    let mut done = vec![0_u64; run.flows.len()];
    outcome.rpcs.iter().for_each(|rpc| done[rpc.flow as usize] += 1);
    for pool in &run.schedule.pools {
        let mut answered = 0;
        for (flow, place) in pool.flows.iter().zip(0..) {
            let number = done[*flow as usize];
            let sizes = (0..number).map(|at| pool.response_bytes(place, at).unwrap());
            answered += sizes.sum::<u64>();
            assert_eq!(outcome.flows[*flow as usize].received_bytes, 300 * number);
            assert!(number > 50, "{number}");
        }
        // About what was drawn: the two connections share the list.
        let drawn: u64 = pool.response_bytes.iter().sum();
        assert!(answered.abs_diff(drawn) * 5 < drawn, "{answered} of {drawn}");
    }
    let (divided, loads) = knee_sim::simulate_in_turns(&run, 3).unwrap();
    assert!(loads.is_some());
    assert_eq!(format!("{:?}", divided.rpcs), format!("{:?}", outcome.rpcs));
    assert_eq!(format!("{:?}", divided.flows), format!("{:?}", outcome.flows));
}

#[test]
fn a_scaled_run_has_the_same_requests_later() {
    let text = experiment("to = \"h2\"\narrivals_per_sec = 1000\n[run]\nduration = \"100 ms\"\n");
    let scale = knee_scenario::scale::Scale::new(0.1).unwrap();
    let overrides = Overrides { scale, ..Overrides::default() };
    let slow = parsed("x.toml", &text, &overrides);
    let slow = slow.run(slow.run_id(0)).unwrap();
    let usual = run_of(&text);
    let arrivals = |run: &Run| run.schedule.pools[0].arrivals_ns.clone();
    let tenfold: Vec<u64> = arrivals(&usual).iter().map(|at| at * 10).collect();
    assert_eq!(arrivals(&slow), tenfold);
    assert_eq!(slow.end, Time::ZERO + Duration::from_ms(1000));
}

//! Transfers that wait for others, attempts to connect, and when transfers share fairly: from the file to the measure.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;
use std::sync::Arc;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::Outcome;
use knee_run::spec::{Run, Traffic};
use knee_scenario::{Experiment, Overrides};
use knee_sim::simulate;

use crate::common;
use common::*;

const HOSTS: &str = "\n[hosts]\nrto_min = \"10 ms\"\n\n[run]\nduration = \"4 s\"\n";

fn parse(traffic: &str) -> Result<Experiment, String> {
    let text = format!("{STAR}{HOSTS}\n[[traffic]]\nname = \"it\"\n{traffic}");
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default());
    experiment.map_err(|error| error.to_string())
}

fn simulated(traffic: &str) -> (Run, Outcome) {
    let experiment = parse(traffic).unwrap_or_else(|error| panic!("{error}"));
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = simulate(&run).unwrap();
    (run, outcome)
}

/// Means of `summary.csv`, by subject and metric.
fn means(traffic: &str) -> impl Fn(&str) -> Option<f64> + use<> {
    let scratch = Scratch::new();
    let experiment = Arc::new(parse(traffic).unwrap_or_else(|error| panic!("{error}")));
    run_into(&scratch, &experiment, &common::simulated()).unwrap();
    let summary = scratch.files("x").remove("summary.csv").unwrap();
    let at = |name: &str| {
        let header = summary.lines().next().unwrap();
        header.split(',').position(|column| column == name).unwrap()
    };
    let (metric, mean) = (at("metric"), at("mean"));
    let rows: Vec<(String, f64)> = summary
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter_map(|cells| Some((cells[metric].to_owned(), cells[mean].parse().ok()?)))
        .collect();
    move |name| rows.iter().find(|(metric, _)| metric == name).map(|(_, mean)| *mean)
}

/// Of each flow, from when to when it was under way.
fn spans(outcome: &Outcome) -> Vec<(Time, Time)> {
    let span =
        |flow: &knee_run::outcome::FlowOutcome| (flow.connected_at.unwrap(), flow.done_at.unwrap());
    outcome.flows.iter().map(span).collect()
}

#[test]
fn a_shuffle_keeps_to_its_bound_and_its_rounds_wait_for_all() {
    for (per, parallel) in [("receiver", 2), ("sender", 1)] {
        let (run, outcome) = simulated(&format!(
            "kind = \"shuffle\"\nfrom = \"h1..h6\"\nto = \"h1..h6\"\nsize = \"50 kB\"\nrounds = 2\n\
             parallel = {parallel}\nper = \"{per}\"\nstart = \"5 ms\"\nstart_jitter = \"10 us\"\n"
        ));
        assert_eq!(run.flows.len(), 2 * 6 * 5);
        let spans = spans(&outcome);
        let host = |i: usize| if per == "sender" { run.flows[i].from } else { run.flows[i].to };
        let mut most = 0;
        for (i, (start, _)) in spans.iter().enumerate() {
            assert!(*start >= Time::from_ms(5), "{start:?}");
            let under_way = (0..spans.len())
                .filter(|j| host(*j) == host(i) && spans[*j].0 <= *start && spans[*j].1 > *start);
            most = most.max(under_way.count());
        }
        assert_eq!(most, parallel, "{per}");
        let last_of_first = spans[..30].iter().map(|span| span.1).max().unwrap();
        let first_of_second = spans[30..].iter().map(|span| span.0).min().unwrap();
        assert!(first_of_second >= last_of_first, "{per}");
        assert!(first_of_second.since(last_of_first) <= Duration::from_us(10), "{per}");
    }
}

#[test]
fn every_host_sends_to_every_other_once() {
    let (run, _) = simulated(
        "kind = \"shuffle\"\nfrom = \"h1..h6\"\nto = \"h1..h6\"\nsize = \"1 kB\"\norder = \"random\"\n",
    );
    let mut pairs: Vec<_> = run.flows.iter().map(|flow| (flow.from, flow.to)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 30);
    assert!(pairs.iter().all(|(from, to)| from != to));
    let lanes = &run.schedule.series[0].rounds[0];
    assert_eq!((lanes.len(), lanes[0].flows.len()), (6, 5));
}

#[test]
fn rounds_without_a_time_begin_when_the_last_is_done() {
    let (_, outcome) = simulated(
        "kind = \"incast\"\nfrom = \"h1..h5\"\nto = \"h6\"\nsize = \"100 kB\"\nrounds = 3\nstart = \"1 ms\"\n",
    );
    let spans = spans(&outcome);
    for round in 1..3 {
        let done = spans[5 * (round - 1)..5 * round].iter().map(|span| span.1).max().unwrap();
        assert!(spans[5 * round..5 * (round + 1)].iter().all(|span| span.0 == done), "{round}");
    }
}

#[test]
fn all_to_all_incast_has_a_last_answer_for_each_receiver() {
    let traffic = "kind = \"incast\"\nfrom = \"h1..h6\"\nto = \"h1..h6\"\nall_to_all = true\nsize = \"25 kB\"\n";
    let (run, _) = simulated(traffic);
    assert_eq!(run.flows.len(), 30);
    let means = means(traffic);
    // 5 x 25 kB with headers take 1.06 ms at 1 Gbps; the handshake and ACKs of what goes the other way come to it.
    let last = means("last").unwrap();
    assert!((1.06e-3..2e-3).contains(&last), "{last}");
    assert_eq!(means("timeout_share"), Some(0.0));
}

#[test]
fn a_query_is_asked_of_all_when_all_have_answered() {
    let traffic = "kind = \"query\"\nfrom = \"h6\"\nto = \"h1..h5\"\ntotal = \"500 kB\"\ncount = 20\nstart_jitter = \"1 ms\"\n";
    let (run, outcome) = simulated(traffic);
    assert!(run.flows.iter().all(|flow| matches!(
        flow.traffic,
        Traffic::Rpc { request_bytes: 100, response_bytes: 100_000, count: Some(20) }
    )));
    assert_eq!(outcome.rpcs.len(), 100);
    let mut ready = outcome.flows.iter().map(|flow| flow.established_at.unwrap()).max().unwrap();
    for query in outcome.rpcs.chunks(5) {
        assert!(query.iter().all(|rpc| rpc.start == ready));
        ready = query.iter().map(|rpc| rpc.start + rpc.latency).max().unwrap();
    }
    let means = means(traffic);
    assert_eq!((means("exchanges"), means("timeout_share")), (Some(20.0), Some(0.0)));
    // 500 kB with headers take 4.25 ms.
    let latency = means("latency").unwrap();
    assert!((4.2e-3..6e-3).contains(&latency), "{latency}");
    assert_eq!(means("unfinished"), Some(0.0));
}

#[test]
fn queries_with_timeouts_are_counted_as_such() {
    // 5 x 10 packets at once into a buffer of 5: tails are lost, and so are probes and what is sent again.
    let network = format!("{STAR}{HOSTS}")
        .replace("limit = \"200 kB\", k = \"30 kB\"", "limit = \"5 pkts\", k = \"1 MB\"");
    let text = format!(
        "{network}\n[[traffic]]\nname = \"it\"\nkind = \"query\"\nfrom = \"h6\"\nto = \"h1..h5\"\nresponse = \"60 kB\"\ncount = 30\n"
    );
    let experiment = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let outcome = simulate(&run).unwrap();
    let late =
        |rpcs: &[knee_run::outcome::RpcRecord]| rpcs.iter().any(|rpc| rpc.timeouts > Some(0));
    let queries = outcome.rpcs.chunks(5).filter(|query| late(query)).count();
    let of_exchanges: u64 = outcome.rpcs.iter().filter_map(|rpc| rpc.timeouts).sum();
    // Those of handshakes came before.
    let counters = outcome.flows.iter().map(|flow| flow.counters);
    let of_flows: u64 = counters.map(|all| all.timeouts.unwrap() - all.syn_timeouts.unwrap()).sum();
    assert!(queries > 0 && queries < 30, "{queries}");
    assert_eq!(of_exchanges, of_flows);
}

/// The port is kept above K by the initial windows and then by 4 x 2 packets of 9 kB and more, so nothing gets through that cannot
/// be marked.
#[test]
fn a_syn_without_ect_does_not_pass_a_port_above_its_threshold() {
    let traffic = |syn_ect: bool| {
        format!(
            "kind = \"attempts\"\nfrom = \"h5\"\nto = \"h6\"\ncount = 20\nstart = \"100 ms\"\nuntil = \"1 s\"\ndeadline = \"900 ms\"\n\
             [[host]]\nhosts = \"h5\"\nsyn_ect = {syn_ect}\n\
             [[traffic]]\nname = \"long\"\nkind = \"bulk\"\nfrom = \"h1..h4\"\nto = \"h6\"\nflows = 4\n"
        )
    };
    let with = means(&traffic(true));
    assert_eq!(with("success_share"), Some(1.0));
    let without = means(&traffic(false))("success_share").unwrap();
    assert!(without < 0.3, "{without}");
    // Nothing in the way: all come about.
    let alone = means(&traffic(false).replace("flows = 4", "flows = 0"))("success_share");
    assert_eq!(alone, Some(1.0));
}

#[test]
fn transfers_that_share_at_once_have_converged_at_once_and_others_later_or_never() {
    let traffic = |rule: &str, rest: &str| {
        means(&format!(
            "kind = \"bulk\"\nfrom = \"h1..h2\"\nto = \"h6\"\nconverged = {{ {rule} }}\n{rest}"
        ))
    };
    let rule = "within = \"30 %\", over = \"50 ms\", hold = \"200 ms\"";
    let both = traffic(rule, "");
    let staggered = traffic(rule, "stagger = \"1 s\"\n");
    assert_eq!((both("unfinished"), staggered("unfinished")), (Some(0.0), Some(0.0)));
    let (both, staggered) = (both("convergence").unwrap(), staggered("convergence").unwrap());
    assert!(both < 0.3 && staggered < 0.5, "{both} {staggered}");
    // Nobody is within nothing, and the second is stopped before the time is over.
    let never = traffic("within = \"0 %\", over = \"10 ms\"", "");
    assert_eq!((never("convergence"), never("unfinished")), (None, Some(1.0)));
    let cut = traffic(rule, "stagger = \"1 s\"\nstop = \"1200 ms\"\n");
    assert_eq!((cut("convergence"), cut("unfinished")), (None, Some(1.0)));
}

#[test]
fn what_does_not_fit_is_said() {
    let shuffle = "kind = \"shuffle\"\nfrom = \"h1..h6\"\nto = \"h1..h6\"\nsize = \"1 kB\"\n";
    let query = "kind = \"query\"\nfrom = \"h1\"\nto = \"h2..h6\"\n";
    let attempts = "kind = \"attempts\"\nfrom = \"h1\"\nto = \"h2\"\ncount = 3\nuntil = \"1 s\"\ndeadline = \"1 s\"\n";
    let bulk = "kind = \"bulk\"\nfrom = \"h1\"\nto = \"h2\"\n";
    for (traffic, expected) in [
        (format!("{shuffle}parallel = 0\n"), "must be a whole number from 1 to 1000000"),
        (format!("{shuffle}per = \"pair\"\n"), "must be one of \"sender\", \"receiver\""),
        (
            format!("{shuffle}rounds = 90000\n"),
            "gives 2700000 flows, but at most 1000000 are allowed",
        ),
        (format!("{shuffle}every = \"1 s\"\n"), "every: unknown key"),
        (shuffle.replace("h1..h6", "h1"), "must name a host that is not in \"from\""),
        (query.to_owned(), "response: missing, as in"),
        (
            format!("{query}total = \"4 B\"\n"),
            "must be at least one byte from each of the 5 \
            servers",
        ),
        (
            format!("{query}total = \"1 MB\"\nresponse = \"1 kB\"\n"),
            "conflicts with \"response\": leave one out",
        ),
        (format!("{query}response = \"0 B\"\n"), "must be a size from 1 B"),
        (attempts.replace("count = 3\n", ""), "count: missing, as in count = 20"),
        (attempts.replace("until = \"1 s\"", "until = \"0 s\""), "must be later than the start"),
        (attempts.replace("deadline = \"1 s\"", "deadline = \"0 s\""), "must be above 0 s"),
        (format!("{bulk}converged = {{ within = \"5 %\" }}\n"), "over: missing"),
        (format!("{bulk}converged = {{ within = \"5 %\", over = \"15 ms\" }}\n"), "must divide"),
        (
            format!(
                "{bulk}size = \"1 kB\"\nconverged = {{ within = \"5 %\", over = \"10 ms\" }}\n"
            ),
            "is only for transfers without size",
        ),
    ] {
        let said = parse(&traffic).map(|_| ()).unwrap_err();
        assert!(said.contains(expected), "{traffic}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

/// A link that fails holds up exchanges whether or not the connection has an end, before the first retransmission timeout
/// (1 ms before the end of the run) and after many.
#[test]
fn what_waits_at_a_dead_link_is_unfinished() {
    let (one, all) = ("from = \"h2\"\nto = \"h1\"", "from = \"h2\"\nto = \"h1..h3\"");
    let mesh = "from = \"h1..h3\"\nto = \"h1..h3\"\nsize = \"1 MB\"\nrounds = 1000";
    let ring = "hosts = \"h1..h4\"\noperation = \"ring-all-reduce\"\nsize = \"1 MB\"";
    // The server of the link that fails has not answered; the others wait for it.
    let query = all.replace("h2\"\nto", "h4\"\nto");
    for (kind, keys, expected) in [
        ("rpc", one, Some(1.0)),
        ("rpc", &format!("{one}\nflows = 3\nstop = \"3999500 us\""), Some(3.0)),
        ("rpc", &format!("{one}\ncount = 1000000000"), Some(1.0)),
        ("query", &format!("{query}\nresponse = \"2 kB\""), Some(1.0)),
        ("bulk", &format!("{one}\nsize = \"600 MB\""), Some(1.0)),
        ("incast", &format!("{one}\nsize = \"1 MB\"\nrounds = 1000"), None),
        ("shuffle", mesh, None),
        ("collective", &format!("{ring}\niterations = 2000"), None),
    ] {
        for at in ["100 ms", "3999 ms"] {
            let change =
                format!("[[network.change]]\nlinks = \"switch-h1\"\nat = \"{at}\"\ndown = true");
            let cut_off = means(&format!("kind = \"{kind}\"\n{keys}\n{change}\n"))("unfinished");
            match expected {
                Some(_) => assert_eq!(cut_off, expected, "{kind}, {keys}, {at}"),
                None => {
                    assert!(cut_off.is_some_and(|count| count > 0.0), "{kind}, {at}: {cut_off:?}")
                }
            }
        }
        if expected.is_some() && !keys.contains("count") && !keys.contains("size") {
            assert_eq!(
                means(&format!("kind = \"{kind}\"\n{keys}\n"))("unfinished"),
                Some(0.0),
                "{kind}"
            );
        }
    }
}

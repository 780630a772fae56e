//! `[[network.change]]`: what a file says becomes the run's changes, and errors are one sentence.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_evidence::explain::explain;
use knee_queue::time::{Duration, Rate, Time};
use knee_run::spec::{NewState, Run};
use knee_scenario::scale::Scale;
use knee_scenario::{Error, Experiment, Overrides};

const FABRIC: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 1
up = { delay = "1 us" }
down = { rate = "10 Gbps", delay = "1 us", queue = { kind = "droptail", limit = "100 pkts" } }
fabric = { rate = "10 Gbps", delay = "1 us", loss = "0.5 %", queue = { kind = "droptail", limit = "100 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "h0.0"
to = "h1.0"

[run]
duration = "1 s"
"#;

fn parse(changes: &[&str], overrides: &Overrides) -> Result<Experiment, Error> {
    let changes = changes.iter().map(|keys| format!("[[network.change]]\n{keys}\n"));
    let text = format!("{FABRIC}{}", changes.collect::<String>());
    Experiment::parse(Path::new("f.toml"), &text, overrides)
}

fn run_of(experiment: &Experiment) -> Run {
    experiment.run(experiment.run_id(0)).unwrap()
}

fn read(changes: &[&str]) -> Run {
    run_of(&parse(changes, &Overrides::default()).unwrap_or_else(|error| panic!("{error}")))
}

/// Changes of links: us, name, state.
fn links(run: &Run) -> Vec<(u64, String, NewState)> {
    let changes = run.network.changes.links.iter();
    let name = |link: u32| run.network.link_name(&run.network.links[link as usize]);
    changes.map(|change| (change.at.us(), name(change.link), change.to)).collect()
}

fn rate(mbps: u64) -> NewState {
    NewState::Rate(Rate::from_bps(mbps * 1_000_000).unwrap())
}

#[test]
fn each_change_ends_where_it_says_and_what_ends_comes_first() {
    let run = read(&[
        "links = \"leaf0-spine1\"\nat = \"20 ms\"\nuntil = \"30 ms\"\nrate = \"1 Gbps\"",
        "links = \"leaf0-spine1\"\nat = \"30 ms\"\nrate = \"2 Gbps\"\nloss = \"3 %\"",
        "links = \"h0.0-leaf0\"\nat = \"1 ms\"\ndelay = \"7 us\"\nuntil = \"2 ms\"",
    ]);
    let (link, up) = ("leaf0-spine1", "h0.0-leaf0");
    let all = links(&run);
    let all: Vec<_> = all.iter().map(|(us, name, to)| (*us, name.as_str(), *to)).collect();
    assert_eq!(
        all,
        [
            (1_000, up, NewState::Delay(Duration::from_us(7))),
            (2_000, up, NewState::Delay(Duration::from_us(1))),
            (20_000, link, rate(1000)),
            (30_000, link, rate(10_000)),
            (30_000, link, rate(2000)),
            (30_000, link, NewState::Loss(0.03)),
        ]
    );
    assert!(run.network.changes.routes.is_empty());
}

#[test]
fn links_fail_both_ways_again_and_again_and_routes_follow() {
    let run = read(&[
        "links = \"leaf0-spine0..leaf0-spine1\"\nboth = true\nat = \"5 ms\"\nuntil = \"6 ms\"\n\
         every = \"2 ms\"\ntimes = 3\ndown = true\nreroute = \"500 us\"",
    ]);
    let all = links(&run);
    assert_eq!(all.len(), 4 * 2 * 3);
    let at = |us| -> Vec<(&str, NewState)> {
        all.iter()
            .filter(|change| change.0 == us)
            .map(|(_, name, to)| (name.as_str(), *to))
            .collect()
    };
    for (us, to) in [(5_000, NewState::Down), (8_000, NewState::Up), (10_000, NewState::Up)] {
        let mut at = at(us);
        at.sort_by_key(|change| change.0);
        let names = ["leaf0-spine0", "leaf0-spine1", "spine0-leaf0", "spine1-leaf0"];
        assert_eq!(at, names.map(|name| (name, to)), "{us}");
    }
    let routes = &run.network.changes.routes;
    assert_eq!(routes.len(), all.len());
    assert_eq!((routes[0].at, routes[0].avoids), (Time::from_us(5_500), true));
    assert_eq!(
        routes.last().map(|last| (last.at, last.avoids)),
        Some((Time::from_us(10_500), false))
    );
}

#[test]
fn a_scale_slows_changes_down_too() {
    let scale = Scale::new(0.1).unwrap();
    let overrides = Overrides { scale, ..Overrides::default() };
    let keys = "links = \"leaf0-spine1\"\nat = \"20 ms\"\nrate = \"1 Gbps\"\ndelay = \"3 us\"";
    let run = run_of(&parse(&[keys], &overrides).unwrap());
    let delay = NewState::Delay(Duration::from_us(30));
    assert_eq!(
        links(&run).iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(),
        [(200_000, rate(100)), (200_000, delay)]
    );
}

#[test]
fn explain_says_when_and_what() {
    let keys =
        "links = \"leaf0-spine0..leaf0-spine1\"\nat = \"20 ms\"\nuntil = \"21 ms\"\ndown = true";
    let experiment = parse(&[keys], &Overrides::default()).unwrap();
    let said = explain(&experiment, "knee run", &|_| None).unwrap();
    assert!(said.contains("down at 20 ms: leaf0-spine0, leaf0-spine1"), "{said}");
    assert!(said.contains("up again at 21 ms: leaf0-spine0, leaf0-spine1"), "{said}");
}

#[test]
fn contradictions_are_refused_in_one_sentence() {
    let link = "links = \"leaf0-spine1\"\nat = \"20 ms\"\n";
    for (keys, key, what) in [
        ("at = \"1 ms\"\ndown = true", "links", "missing"),
        ("links = \"x-y\"\nat = \"1 ms\"\ndown = true", "links", "\"x-y\" does not exist"),
        ("links = \"a..b\"\nat = \"1 ms\"\ndown = true", "links", "ranges of links"),
        ("links = \"leaf0-spine1\"\ndown = true", "at", "missing"),
        (&format!("{link}until = \"20 ms\"\ndown = true"), "until", "must be after at"),
        (link, "down", "give down = true, or rate"),
        (&format!("{link}down = true\nloss = \"1 %\""), "down", "conflicts"),
        (&format!("{link}rate = \"1 Gbps\"\nreroute = \"1 ms\""), "reroute", "needs down"),
        (&format!("{link}down = true\nevery = \"1 ms\""), "every", "needs times"),
        (&format!("{link}down = true\ntimes = 3"), "times", "needs every"),
        (&format!("{link}down = true\ntimes = 3\nevery = \"1 ms\""), "every", "needs until"),
        (
            &format!("{link}down = true\ntimes = 3\nevery = \"1 ms\"\nuntil = \"25 ms\""),
            "every",
            "at least the time",
        ),
        (
            &format!(
                "{link}loss = \"1 %\"\ntimes = 99999\nevery = \"1 ms\"\nuntil = \"20.5 ms\"\nrate = \"1 Gbps\""
            ),
            "times",
            "at most 200000 changes",
        ),
        ("links = \"h0.0-leaf0\"\nat = \"1 ms\"\nrate = \"1 Gbps\"", "rate", "h0.0-leaf0 has none"),
        (
            "links = \"leaf0-spine1\"\nat = \"1 s\"\ndown = true",
            "at",
            "before the end of the run, 1 s",
        ),
    ] {
        let said = parse(&[keys], &Overrides::default()).expect_err(keys).to_string();
        assert!(said.contains(&format!("network.change.1.{key}")) && said.contains(what), "{said}");
    }
    let twice =
        [&format!("{link}down = true"), "links = \"leaf0-spine1\"\nat = \"30 ms\"\ndown = true"];
    let said =
        parse(&twice.map(|keys| -> &str { keys }), &Overrides::default()).unwrap_err().to_string();
    assert!(
        said.contains("network.change.2.at") && said.contains("let the other change end"),
        "{said}"
    );
}

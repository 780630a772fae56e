//! What a file says is what the simulator is given.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::{Path, PathBuf};

use knee_queue::time::{Duration, Time};
use knee_queue::{
    DropTailConfig, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::spec::{LinuxVersion, Run, Serialisation, Traffic};
use knee_scenario::{Experiment, Overrides};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn load(file: &str, overrides: &Overrides) -> Experiment {
    Experiment::load(&scenarios().join(file), overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// The first run of a case at the given values.
fn run_of(experiment: &Experiment, case: &str, at: &[&str], repeat: usize) -> Run {
    let index = experiment
        .all_rows()
        .position(|c| experiment.case_name(&c) == case && experiment.point_labels(&c) == at)
        .expect("there is such a configuration");
    let id = experiment.run_id(index * experiment.repeat as usize + repeat);
    experiment.run(id).unwrap()
}

#[test]
fn bulk_mix_is_the_published_set_up() {
    let experiment = load("published/bulk-mix.toml", &Overrides::default());
    let names: Vec<_> = experiment.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["cubic", "reno", "reno-ecn", "dctcp"]);
    assert_eq!(experiment.rows(), 4 * 2 * 4);
    assert!(experiment.repeat >= 5);
    assert_eq!(experiment.published.len(), 4);

    let run = run_of(&experiment, "dctcp", &["757 kB", "50 kB"], 0);
    let hosts: Vec<_> = run.network.nodes.iter().filter(|node| node.host.is_some()).collect();
    assert_eq!(hosts.len(), 4);
    for host in &hosts {
        let config = host.host.as_ref().unwrap();
        assert_eq!((config.linux, config.hz, config.tcp_ecn), (LinuxVersion(6, 1), 1000, 1));
        assert_eq!((config.mtu_bytes, config.gso_max_segs), (1500, 1));
        assert_eq!(config.jiffies_at_start, None);
    }
    let bottleneck = &run.network.links[run.network.link_named("switch-r").unwrap() as usize];
    assert!(bottleneck.sampled);
    assert_eq!(bottleneck.rate.unwrap().bps(), 1_000_000_000);
    assert_eq!(bottleneck.serialisation, Serialisation::TokenBucket { burst_bytes: 1600 });
    assert_eq!(
        bottleneck.queue,
        QueueConfig::Step(StepConfig {
            limit: Limit::Bytes(500 * 1514),
            threshold: Threshold::Bytes(10 * 1514),
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Queue,
        })
    );
    let access = &run.network.links[run.network.link_named("s3-switch").unwrap() as usize];
    let unlimited = QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) });
    assert_eq!((access.rate.unwrap().bps(), &access.queue), (1_000_000_000, &unlimited));
    let back = &run.network.links[run.network.link_named("switch-s1").unwrap() as usize];
    assert_eq!((back.rate, back.delay), (None, Duration::from_us(100)));
    let base_rtt: u64 = run
        .network
        .links
        .iter()
        .filter(|link| {
            let name = run.network.link_name(link);
            ["s1-switch", "switch-r", "r-switch", "switch-s1"].contains(&name.as_str())
        })
        .map(|link| link.delay.us())
        .sum();
    assert_eq!(base_rtt, 100);

    let from = |flow: &knee_run::spec::Flow| run.network.nodes[flow.from as usize].name.clone();
    let (long, short): (Vec<_>, Vec<_>) =
        run.flows.iter().partition(|f| f.traffic == Traffic::Bulk { bytes: Some(40_000_000) });
    assert_eq!(long.iter().map(|f| from(f)).collect::<Vec<_>>(), ["s1", "s2"]);
    assert_eq!(long[0].start, Time::ZERO);
    assert!(long[1].start <= Time::from_ms(1));
    assert_eq!(short.len(), 10);
    for flow in short {
        assert_eq!(
            (from(flow).as_str(), flow.traffic),
            ("s3", Traffic::Bulk { bytes: Some(50_000) })
        );
        assert!(Time::from_ms(500) <= flow.start && flow.start <= Time::from_us(500_100));
        assert_eq!(flow.cc.algorithm.name(), "dctcp");
        assert_eq!(flow.read_at_bytes, 1);
    }

    let cubic = run_of(&experiment, "cubic", &["4200 kB", "10 kB"], 0);
    let port = cubic.network.link_named("switch-r").unwrap();
    // Packets that are not ECN-capable pass its threshold.
    assert!(matches!(
        &cubic.network.links[port as usize].queue,
        QueueConfig::Step(step)
            if step.limit == Limit::Bytes(4_200_000) && step.not_ect == NotEctAbove::Queue
    ));
    assert!(cubic.network.nodes.iter().flat_map(|node| &node.host).all(|host| host.tcp_ecn == 0));
    assert_eq!(
        run_of(&experiment, "reno-ecn", &["757 kB", "10 kB"], 0).flows[0].cc.algorithm.name(),
        "reno"
    );
}

#[test]
fn incast_starts_ten_senders_within_50_us() {
    let experiment = load("published/incast.toml", &Overrides::default());
    let run = run_of(&experiment, "reno", &["757 kB", "800 kB"], 0);
    assert_eq!(run.flows.len(), 10);
    assert!(run.flows.iter().all(|flow| flow.start <= Time::from_us(50)));
    let mut senders: Vec<_> = run.flows.iter().map(|flow| flow.from).collect();
    senders.dedup();
    assert_eq!(senders.len(), 10);
}

#[test]
fn every_scenario_of_the_repository_is_valid_and_asks_something() {
    let mut files = 0;
    for folder in ["published", "examples"] {
        for entry in std::fs::read_dir(scenarios().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // The catalogue is no experiment; crates/catalogue reads it.
            let is_catalogue = path.file_stem().is_some_and(|stem| stem == "catalogue");
            if path.extension().is_some_and(|extension| extension == "toml") && !is_catalogue {
                let experiment = Experiment::load(&path, &Overrides::default())
                    .unwrap_or_else(|error| panic!("{error}"));
                assert!(experiment.question.ends_with('?'), "{}", path.display());
                let line = "#:schema ../../docs/schema/experiment.json\n# ";
                assert!(experiment.text.starts_with(line), "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files >= 7);
}

#[test]
fn the_same_repeat_starts_its_flows_alike_in_every_case_and_no_two_repeats_do() {
    let experiment = load("published/bulk-mix.toml", &Overrides::default());
    let starts = |case: &str, size: &str, repeat: usize| -> Vec<Time> {
        let run = run_of(&experiment, case, &["757 kB", size], repeat);
        run.flows.iter().map(|flow| flow.start).collect()
    };
    assert_eq!(starts("cubic", "10 kB", 0), starts("dctcp", "10 kB", 0));
    assert_eq!(starts("cubic", "10 kB", 3), starts("dctcp", "800 kB", 3));
    assert_ne!(starts("cubic", "10 kB", 0), starts("cubic", "10 kB", 1));
    let other_seed = Overrides { seed: Some(2), ..Overrides::default() };
    let other = load("published/bulk-mix.toml", &other_seed);
    let run = run_of(&other, "cubic", &["757 kB", "10 kB"], 0);
    assert_ne!(run.flows.iter().map(|f| f.start).collect::<Vec<_>>(), starts("cubic", "10 kB", 0));
}

#[test]
fn any_run_can_be_had_again_alone() {
    let experiment = load("published/bulk-mix.toml", &Overrides::default());
    let sixth = experiment.run_id(5);
    assert_eq!(sixth.repeat, 5);
    let alone = Overrides { seed: Some(sixth.seed), repeat: Some(1), ..Overrides::default() };
    let alone = load("published/bulk-mix.toml", &alone);
    let (a, b) = (experiment.run(sixth).unwrap(), alone.run(alone.run_id(0)).unwrap());
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

#[test]
fn the_command_line_has_the_last_word() {
    let overrides = Overrides {
        cc: vec!["dctcp".into(), "reno-ecn".into()],
        set: vec![
            "traffic.short.size=5 kB".into(),
            "network.bottleneck.rate=\"10 Gbps\"".into(),
            "network.bottleneck.queue.limit=[\"1 MB\"]".into(),
            "case.dctcp.params.shift_g=5".into(),
            "run.duration=20 s".into(),
            "hosts.tcp_ecn=2".into(),
        ],
        repeat: Some(3),
        seed: Some(9),
        ..Overrides::default()
    };
    // The case dctcp has no parameters in the file: `set` makes the table.
    let experiment = load("published/bulk-mix.toml", &overrides);
    assert_eq!((experiment.runs(), experiment.seed), (2 * 3, 9));
    let run = run_of(&experiment, "dctcp", &["1 MB", "5 kB"], 2);
    let bottleneck = &run.network.links[run.network.link_named("switch-r").unwrap() as usize];
    assert_eq!(bottleneck.rate.unwrap().bps(), 10_000_000_000);
    let QueueConfig::Step(step) = &bottleneck.queue else { panic!("{:?}", bottleneck.queue) };
    assert_eq!(step.limit, Limit::Bytes(1_000_000));
    assert_eq!(run.end, Time::from_ms(20_000));
    let dctcp = &run.flows[0].cc;
    let shift_g =
        dctcp.algorithm.params().iter().position(|param| param.name == "shift_g").unwrap();
    assert_eq!(dctcp.params.values()[shift_g], 5);
    // After the case's own tcp_ecn = 1.
    assert!(run.network.nodes.iter().flat_map(|node| &node.host).all(|host| host.tcp_ecn == 2));
}

#[test]
fn a_parameter_is_set_for_every_case_that_has_it() {
    let set = |set: &str| Overrides {
        cc: vec!["dctcp".into(), "cubic".into()],
        set: vec![set.into()],
        ..Overrides::default()
    };
    let path = scenarios().join("examples/two-flows.toml");
    let experiment = Experiment::load(&path, &set("params.shift_g=5")).unwrap();
    let cc = &run_of(&experiment, "dctcp", &[], 0).flows[0].cc;
    let shift_g = cc.algorithm.params().iter().position(|param| param.name == "shift_g").unwrap();
    assert_eq!(cc.params.values()[shift_g], 5);
    let error = |what: &str| Experiment::load(&path, &set(what)).unwrap_err().to_string();
    let none = error("params.shift_h=5");
    assert!(
        none.contains(
            "params.shift_h = 5: no case has an algorithm with this parameter; did you mean \
             \"shift_g\"?"
        ),
        "{none}"
    );
    assert!(error("params.shift_g=500").contains("params.shift_g = 500: "));
}

#[test]
fn parameters_and_ranges_can_be_varied() {
    let overrides = Overrides { cc: vec!["dctcp".into()], ..Overrides::default() };
    let path = scenarios().join("examples/threshold.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("[vary]\n", "[vary]\n\"params.shift_g\" = \"3..5\"\n");
    let experiment = Experiment::parse(&path, &text, &overrides).unwrap();
    assert_eq!(experiment.axes[0].labels(), ["3", "4", "5"]);
    assert_eq!(
        experiment.axes[1].labels(),
        ["2 pkts", "4 pkts", "8 pkts", "16 pkts", "32 pkts", "64 pkts"]
    );
    let run = run_of(&experiment, "dctcp", &["4", "32 pkts"], 0);
    assert_eq!(run.flows[0].cc.params.values()[0], 4);
}

#[test]
fn incast_rounds_staggers_stops_and_size_mixes_are_laid_out() {
    let text = r#"
        question = "?"
        cc = ["reno"]
        [network]
        topology = "star"
        hosts = 5
        up = { rate = "1 Gbps", delay = "1 us" }
        down = { rate = "1 Gbps", delay = "1 us", queue = { kind = "droptail", limit = "100 pkts" } }
        [[traffic]]
        name = "rounds"
        kind = "incast"
        from = "h1..h3"
        to = "h4"
        size = "1 kB"
        rounds = 2
        every = "10 ms"
        [[traffic]]
        name = "mixed"
        kind = "rpc"
        from = "h5"
        to = "h1..h4"
        request = "100 B"
        response = ["1 kB", "1 MB"]
        count = 3
        peer_cc = "cubic"
        [[traffic]]
        name = "in-and-out"
        kind = "bulk"
        from = ["h1", "h2"]
        to = ["h3", "h4"]
        start = "1 ms"
        stagger = "2 ms"
        stop = "20 ms"
        stop_stagger = "5 ms"
        base_rtt = "4 us"
        [hosts]
        base_rtt = "8 us"
        [[host]]
        hosts = "h4..h5"
        base_rtt = "6 us"
        tcp_ecn = 0
        initial_cwnd = "3 pkts"
        [run]
        duration = "30 ms"
    "#;
    let experiment = Experiment::parse(Path::new("x.toml"), text, &Overrides::default()).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    let starts = |group: u32| -> Vec<u64> {
        run.flows.iter().filter(|f| f.group == group).map(|f| f.start.us()).collect()
    };
    assert_eq!(starts(0), [0, 0, 0, 10_000, 10_000, 10_000]);
    assert_eq!(starts(2), [1000, 3000]);
    let stops: Vec<_> = run.flows.iter().filter_map(|flow| flow.stop).map(Time::us).collect();
    assert_eq!(stops, [20_000, 25_000]);
    let mixed: Vec<_> = run.flows.iter().filter(|flow| flow.group == 1).collect();
    let answers: Vec<_> = mixed
        .iter()
        .map(|flow| match flow.traffic {
            Traffic::Rpc { response_bytes, count, .. } => (response_bytes, count),
            Traffic::Bulk { .. } => panic!("an rpc entry gives requests"),
        })
        .collect();
    let (small, large) = ((1000, Some(3)), (1_000_000, Some(3)));
    assert_eq!(answers, [small, large, small, large]);
    assert!(mixed.iter().all(|flow| flow.peer_cc.as_ref().unwrap().algorithm.name() == "cubic"));
    let cwnds: Vec<_> =
        run.network.nodes.iter().flat_map(|node| &node.host).map(|h| h.initial_cwnd_pkts).collect();
    assert_eq!(cwnds, [10, 10, 10, 3, 3]);
    let us = |rtt: Option<Duration>| rtt.map(|rtt| rtt.ps() / 1_000_000);
    let of_flows: Vec<_> = run.flows.iter().map(|flow| (flow.group, us(flow.base_rtt))).collect();
    assert!(of_flows.iter().all(|(group, rtt)| *rtt == (*group == 2).then_some(4)));
    let of_hosts: Vec<_> =
        run.network.nodes.iter().flat_map(|node| &node.host).map(|h| us(h.base_rtt)).collect();
    assert_eq!(of_hosts, [Some(8), Some(8), Some(8), Some(6), Some(6)]);
}

#[test]
fn a_shifted_entry_moves_as_one() {
    let experiment = load("published/bulk-mix-phases.toml", &Overrides::default());
    let mut first = Vec::new();
    for repeat in 0..experiment.repeat as usize {
        let run = run_of(&experiment, "dctcp", &["757 kB", "10 kB"], repeat);
        let short: Vec<_> = run.flows.iter().filter(|f| f.group == 0).map(|f| f.start).collect();
        let (min, max) = (short.iter().min().unwrap(), short.iter().max().unwrap());
        assert_eq!(short.len(), 10);
        assert!(max.since(*min) <= Duration::from_us(100));
        assert!(Time::from_ms(400) <= *min && *max <= Time::from_us(600_100));
        first.push(min.us());
    }
    first.sort_unstable();
    assert!(
        first[first.len() - 1] - first[0] > 100_000,
        "the starts spread over 200 ms: {first:?}"
    );
}

#[test]
fn offloads_of_a_stock_host_are_one_word_and_its_parts_may_differ() {
    let set = |words: &[&str]| {
        let set = words.iter().map(|word| (*word).to_owned()).collect();
        let overrides = Overrides { set, ..Overrides::default() };
        let experiment = load("examples/two-flows.toml", &overrides);
        let run = run_of(&experiment, "dctcp", &[], 0);
        run.network.nodes.iter().find_map(|node| node.host.clone()).unwrap()
    };
    let plain = set(&[]);
    assert_eq!((plain.gso_max_segs, plain.gro, plain.coalesce), (1, false, None));
    let stock = set(&["hosts.offloads=\"on\""]);
    assert_eq!((stock.gso_max_segs, stock.gro, stock.receive_queues), (65_535, true, 8));
    let waits = stock.coalesce.unwrap();
    assert_eq!((waits.frames, waits.time, waits.adaptive), (Some(128), Duration::from_us(8), None));
    let mixed =
        set(&["hosts.offloads=\"on\"", "hosts.gso_max_segs=8", "hosts.coalesce={time=\"50 us\"}"]);
    assert_eq!((mixed.gso_max_segs, mixed.gro), (8, true));
    assert_eq!(mixed.coalesce.unwrap().time, Duration::from_us(50));
    assert_eq!(set(&["hosts.offloads=\"off\""]), plain);
}

#[test]
fn hosts_of_another_version_have_its_defaults_but_for_what_the_file_says() {
    let hosts = |more: &str| {
        let text = format!(
            "cc = [\"cubic\"]\n\
             network = {{ topology = \"star\", hosts = 2, up = {{ rate = \"1 Gbps\" }}, \
             down = {{ rate = \"1 Gbps\", queue = {{ kind = \"droptail\", limit = \"50 pkts\" }} }} }}\n\
             hosts = {{ linux = \"6.1\"{more} }}\n\
             host = [{{ hosts = \"h2\", linux = \"7.3\" }}]\n\
             traffic = [{{ name = \"a\", kind = \"bulk\", from = \"h1\", to = \"h2\" }}]\n\
             run = {{ duration = \"10 ms\" }}\n"
        );
        let experiment =
            Experiment::parse(Path::new("x.toml"), &text, &Overrides::default()).unwrap();
        let run = run_of(&experiment, "cubic", &[], 0);
        let hosts = run.network.nodes.iter().filter_map(|node| node.host.clone());
        hosts
            .map(|host| {
                let slack_us = host.sysctls.comp_sack_slack.us();
                (host.rcvbuf_max_bytes >> 20, host.limit_output_bytes >> 20, slack_us)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(hosts(""), [(6, 1, 100), (32, 4, 10)]);
    assert_eq!(hosts(", rcvbuf_max = \"6 MiB\""), [(6, 1, 100), (6, 4, 10)]);
}

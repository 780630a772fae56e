//! What varies: several keys together, groups of hosts, ranges, `--vary`, and what follows for rows.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;

use knee_scenario::{Experiment, Overrides};

const FILE: &str = r#"question = "?"
cc = ["cubic"]

[network]
topology = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 6
up = { rate = "10 Gbps" }
down = { rate = "10 Gbps", queue = { kind = "droptail", limit = "500 pkts" } }
fabric = { rate = "10 Gbps", queue = { kind = "droptail", limit = "500 pkts" } }

[[host]]
name = "slow"
hosts = "h0.0..h0.1"
rto_min = "200 ms"

[[host]]
name = "quick"
hosts = "h0.2"

[[traffic]]
name = "short"
kind = "bulk"
from = "h0.0"
to = "h1.0"
size = "10 kB"

[run]
duration = "10 ms"
"#;

const RACK: &str = r#"[vary]
rack = { "network.up.rate" = ["10 Gbps", "25 Gbps"], "network.fabric.rate" = "40 Gbps..100 Gbps step 60 Gbps" }
"traffic.short.size" = ["10 kB", "1 MB"]
"#;

fn asked(vary: &[&str], set: &[&str]) -> Overrides {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Overrides { vary: owned(vary), set: owned(set), ..Overrides::default() }
}

fn read(text: &str, overrides: &Overrides) -> Result<Experiment, String> {
    let parsed = Experiment::parse(Path::new("x.toml"), text, overrides);
    parsed.and_then(Experiment::whole).map_err(|why| why.to_string())
}

/// The rows, each in words, or what is wrong.
fn rows(more: &str, overrides: &Overrides) -> Vec<String> {
    match read(&format!("{FILE}{more}"), overrides) {
        Ok(experiment) => {
            let rows = experiment.all_rows();
            rows.map(|row| experiment.describe(&row).replace("case cubic, ", "")).collect()
        }
        Err(why) => vec![why],
    }
}

/// Rates of the links of a row, in Gbps: from a host, to a host, to a spine.
fn gbps(experiment: &Experiment, row: usize) -> [f64; 3] {
    let id = experiment.run_id(row * experiment.repeat as usize);
    let network = experiment.run(id).unwrap().network;
    ["h0.0-leaf0", "leaf0-h0.0", "leaf0-spine0"].map(|name| {
        let link = network.link_named(name).unwrap() as usize;
        network.links[link].rate.unwrap().bps() as f64 / 1e9
    })
}

#[test]
fn keys_vary_together_under_a_name() {
    let both = |rack: &str, size: &str| format!("rack = {rack}, traffic.short.size = {size}");
    let [slow, fast] = ["10 Gbps / 40 Gbps", "25 Gbps / 100 Gbps"];
    let all = [both(slow, "10 kB"), both(slow, "1 MB"), both(fast, "10 kB"), both(fast, "1 MB")];
    assert_eq!(rows(RACK, &asked(&[], &[])), all);
    let experiment = read(&format!("{FILE}{RACK}"), &asked(&[], &[])).unwrap();
    assert_eq!(gbps(&experiment, 1), [10.0, 10.0, 40.0]);
    assert_eq!(gbps(&experiment, 2), [25.0, 10.0, 100.0]);
    // The same in the other forms of TOML.
    let lines = RACK.replace("rack = { ", "[vary.rack]\n").replace(" }\n\"traffic", "\n[run]\n#");
    let lines = lines.replace(", \"network", "\n\"network").replace("[run]\n#", "#");
    assert_eq!(
        rows(&lines, &asked(&[], &[])),
        [format!("rack = {slow}"), format!("rack = {fast}")]
    );
    // Labels choose, as values of one key do.
    assert_eq!(rows(RACK, &asked(&[], &["rack=25 Gbps / 100 Gbps"])), all[2..]);
    let one = format!("rack=[\"{fast}\"]");
    assert_eq!(rows(RACK, &asked(&[&one, "traffic.short.size=1 MB"], &[])), all[3..]);
    let quick = format!("{RACK}[quick]\nvary = {{ rack = [\"{slow}\"] }}\n");
    let overrides = Overrides { quick: true, ..Overrides::default() };
    assert_eq!(rows(&quick, &overrides), all[..2]);
    // Claims, figures and charts name them alike.
    let claim = format!(
        "[[claim]]\nname = \"a\"\nsays = \"?\"\nby = \"us\"\n[[claim.check]]\nevery = \"traffic.short.size\"\nat_most = \"1 s\"\n\
         figure = {{ subject = \"short\", metric = \"completion\", at = {{ rack = \"{fast}\" }} }}\n"
    );
    let chart =
        "[[chart]]\ntitle = \"?\"\nsubject = \"short\"\nmetric = \"completion\"\nx = \"rack\"\n";
    assert_eq!(rows(&format!("{RACK}{claim}{chart}"), &asked(&[], &[])), all);
}

#[test]
fn a_group_of_hosts_varies_by_its_name() {
    let vary =
        "[vary]\n\"host.slow.rto_min\" = [\"5 ms\", \"200 ms\"]\n\"host.quick.tcp_ecn\" = [0, 1]\n";
    let experiment = read(&format!("{FILE}{vary}"), &asked(&[], &[])).unwrap();
    let run = experiment.run(experiment.run_id(1)).unwrap();
    let host = |name: &str| {
        let found = run.network.nodes.iter().find(|node| node.name == name);
        found.and_then(|node| node.host.clone()).unwrap()
    };
    assert_eq!(["h0.0", "h0.1", "h0.2"].map(|name| host(name).rto_min.us()), [5000, 5000, 200_000]);
    assert_eq!((host("h0.0").tcp_ecn, host("h0.2").tcp_ecn), (2, 1));
    let set = asked(&[], &["host.slwo.rto_min=5 ms"]);
    let [why] = rows("", &set).try_into().unwrap();
    assert!(
        why.ends_with("no entry is named \"slwo\"; entries have numbers from 1 to 2 (slow, quick, h0.0..h0.1, h0.2); did you mean \"slow\"?"),
        "{why}"
    );
    let [why] = rows("", &asked(&[], &["host.1.name=a b"])).try_into().unwrap();
    assert!(why.contains("must be a name of 1 to 40 letters"), "{why}");
}

#[test]
fn the_command_line_varies_any_key() {
    let sizes = |values: &[&str]| -> Vec<String> {
        values.iter().map(|value| format!("traffic.short.size = {value}")).collect()
    };
    for (list, values) in [
        ("10 kB,1 MB", &["10 kB", "1 MB"][..]),
        ("[\"10 kB\", \"1 MB\"]", &["10 kB", "1 MB"]),
        ("'10 kB'", &["10 kB"]),
        ("10 kB..1 MB log 3", &["10 kB", "100 kB", "1 MB"]),
        ("1 kB, 10..30 step 10 kB,1 MB", &["1 kB", "10 kB", "20 kB", "30 kB", "1 MB"]),
        ("[\"1 kB\", \"10..30 step 20 kB\"]", &["1 kB", "10 kB", "30 kB"]),
    ] {
        let vary = format!("traffic.short.size={list}");
        assert_eq!(rows("", &asked(&[&vary], &[])), sizes(values), "{list}");
        let file = "[vary]\n\"traffic.short.size\" = [\"7 kB\", \"8 kB\", \"9 kB\"]\n";
        assert_eq!(rows(file, &asked(&[&vary], &[])), sizes(values), "{list}");
    }
    // A new key varies fastest, below those of the file.
    let three = rows(RACK, &asked(&["hosts.tcp_ecn=0..2"], &["traffic.short.size=1 MB"]));
    assert_eq!(three.len(), 6);
    assert!(three[1].ends_with("size = 1 MB, hosts.tcp_ecn = 1"), "{three:?}");
    let rack =
        "rack={ \"network.up.rate\" = [\"1 Gbps\", \"2 Gbps\"], \"hosts.tcp_ecn\" = [0, 1] }";
    assert_eq!(rows("", &asked(&[rack], &[])), ["rack = 1 Gbps / 0", "rack = 2 Gbps / 1"]);
    let shift = Overrides { cc: vec!["dctcp".into()], ..asked(&["params.shift_g=3..5"], &[]) };
    assert_eq!(rows("", &shift).len(), 3);
    // What the quick set changes gives way.
    let quick = "[quick]\nset = { \"traffic.short.size\" = \"5 kB\" }\n";
    let overrides = Overrides { quick: true, ..asked(&["traffic.short.size=1 kB,2 kB"], &[]) };
    assert_eq!(rows(quick, &overrides), sizes(&["1 kB", "2 kB"]));
}

#[test]
fn what_cannot_vary_gets_one_sentence() {
    let zip = |keys: &str| format!("[vary]\nrack = {{ {keys} }}\n");
    let up = "\"network.up.rate\" = [\"1 Gbps\", \"2 Gbps\"]";
    for (file, vary, set, why) in [
        (
            zip(&format!("{up}, \"hosts.tcp_ecn\" = [0, 1, 2]")),
            "",
            "",
            "network.up.rate has 2 values and hosts.tcp_ecn has 3: keys that vary together need as many each",
        ),
        (zip(""), "", "", "must have keys, each with its list of values"),
        (zip("\"run.repeat\" = [1, 2]"), "", "", "run.repeat must be a path in quotes"),
        (zip(&format!("{up}, \"hosts.tcp_ecn\" = \"1..\"")), "", "", "hosts.tcp_ecn has no end"),
        (
            zip(up).replace("rack", "case"),
            "",
            "",
            "must be a path in quotes, as in \"traffic.short.size\"",
        ),
        (
            format!("{}{up}\n", zip(up)),
            "",
            "",
            "varies network.up.rate, which also varies in rack: leave one out",
        ),
        (
            RACK.to_owned(),
            "a={ \"traffic.short.size\" = [\"1 kB\"] }",
            "",
            "x.toml: --vary a: varies traffic.short.size, which also varies by itself: leave one out",
        ),
        (
            RACK.to_owned(),
            "network.up.rate=1 Gbps",
            "",
            "varies network.up.rate, which also varies in rack: leave one out",
        ),
        (
            RACK.to_owned(),
            "",
            "network.up.rate=1 Gbps",
            "varies with others in rack: choose among their values, as in --set rack='10 Gbps / 40 Gbps'",
        ),
        (
            String::new(),
            "network.down.queue.limit=100 pkts,200 pkts",
            "network.down.queue={ kind = \"droptail\", limit = \"50 pkts\" }",
            "network.down.queue: holds network.down.queue.limit, which varies, so its values would not act",
        ),
        (RACK.to_owned(), "", "rack=10 Gbps", "must be one of \"10 Gbps / 40 Gbps\", \"25 Gbps"),
        (String::new(), "hosts.tcp_ecn", "", "must be KEY=LIST, as in network.bottleneck.rate="),
        (String::new(), "hosts.tcp_ecn=", "", "hosts.tcp_ecn: must be KEY=LIST, as in"),
        (String::new(), "traffic.short.size=1 kB..", "", "has no end, as in \"1..64\""),
        (String::new(), "traffic.short.size=1..2000 kB", "", "has 2000 values, but at most 1000"),
        (String::new(), "traffic.short.size=1..600 kB,601..1200 kB", "", "has 1200 values, but"),
        (String::new(), "hosts.tcp_ecn=0,1", "hosts.tcp_ecn=1", "is given to --vary and has one"),
        (String::new(), "run.repeat=1,2", "", "must be a path in quotes"),
        (
            zip(&format!("{up}, \"traffic.short.size\" = [\"1 kB\", \"2\"]")),
            "",
            "",
            "([vary] sets traffic.short.size = \"2\")",
        ),
    ] {
        let given = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let (vary, set): (Vec<&str>, Vec<&str>) =
            (given(vary).into_iter().collect(), given(set).into_iter().collect());
        let said = rows(&file, &asked(&vary, &set));
        assert!(said.len() == 1 && said[0].contains(why), "{file}{vary:?}{set:?}: {said:?}");
    }
    let twice = rows("", &asked(&["hosts.tcp_ecn=1", "hosts.tcp_ecn=2"], &[]));
    assert!(twice[0].contains("is given to --vary twice"), "{twice:?}");
    let case = "[[case]]\nname = \"a\"\nset = { \"network.up.rate\" = \"5 Gbps\" }\n";
    let file = format!("{FILE}{case}{}", zip(up)).replace("cc = [\"cubic\"]\n", "");
    let why = read(&file, &asked(&[], &[])).unwrap_err();
    assert!(why.contains("because [vary] has other values of network.up.rate: leave one"), "{why}");
}

#[test]
fn oversubscription_gives_the_links_to_spines_their_rate() {
    let file = FILE.replace("fabric = { rate = \"10 Gbps\", ", "fabric = { ");
    let of = |set: &[&str]| {
        let experiment = read(&file, &asked(&[], set))?;
        Ok::<_, String>(gbps(&experiment, 0)[2])
    };
    // Six hosts of 10 Gbps, and two spines.
    for (ratio, gbps) in [("1", 30.0), ("3", 10.0), ("1.5", 20.0), ("0.5", 60.0)] {
        assert_eq!(of(&[&format!("network.oversubscription={ratio}")]), Ok(gbps), "{ratio}");
    }
    let set = ["network.oversubscription=3", "network.up.rate=25 Gbps", "network.spines=1"];
    assert_eq!(of(&set), Ok(50.0));
    let written = file.replace("leaves = 2\n", "leaves = 2\noversubscription = 1.5\n");
    let experiment = read(&written, &asked(&["network.oversubscription=1,2..4"], &[])).unwrap();
    assert_eq!([0, 1, 2, 3].map(|row| gbps(&experiment, row)[2]), [30.0, 15.0, 10.0, 7.5]);
    assert_eq!(gbps(&read(&written, &asked(&[], &[])).unwrap(), 0)[2], 20.0);
    for (set, why) in [
        (&["network.oversubscription=0"][..], "must be a number from 0.1 to 1000, as in 3 or 1.5"),
        (&["network.oversubscription=3:1"], "must be a number from 0.1 to 1000"),
        (
            &["network.oversubscription=3", "network.fabric.rate=1 Gbps"],
            "conflicts with network.fabric.rate: leave one out",
        ),
        (
            &["network.oversubscription=0.1", "network.up.rate=900 Gbps"],
            "gives network.fabric 27000000000000 bps, but 1 kbps to 1 Tbps are allowed",
        ),
    ] {
        let said = of(set).unwrap_err();
        assert!(said.contains("network.oversubscription") && said.contains(why), "{said}");
    }
    let idle = file.replace("up = { rate = \"10 Gbps\" }", "up = {}");
    let said = read(&idle, &asked(&[], &["network.oversubscription=2"])).unwrap_err();
    assert!(said.contains("needs network.up.rate, the rate of a host"), "{said}");
}

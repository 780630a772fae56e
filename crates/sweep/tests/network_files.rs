//! Networks from CSV files: what the files say becomes the network, and errors are one sentence with file and line.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use knee_run::routes::{Routes, mix};
use knee_run::spec::{Link, Run};
use knee_scenario::{Experiment, Overrides};
use proptest::prelude::*;

use crate::common::*;

const CABLES: &str = r#"topology = "file"
nodes = "nodes.csv"
links = "links.csv"
[[network.cable]]
name = "up"
rate = "10 Gbps"
delay = "1 us"
[[network.cable]]
name = "down"
rate = "10 Gbps"
delay = "1 us"
queue = { kind = "step", k = "65 pkts", limit = "500 pkts" }
[[network.cable]]
name = "fabric"
rate = "40 Gbps"
delay = "2 us"
queue = { kind = "droptail", limit = "1 MB" }
"#;

const LEAF_SPINE: &str = r#"topology = "leaf-spine"
leaves = 3
spines = 2
hosts_per_leaf = 2
up = { rate = "10 Gbps", delay = "1 us" }
down = { rate = "10 Gbps", delay = "1 us", queue = { kind = "step", k = "65 pkts", limit = "500 pkts" } }
fabric = { rate = "40 Gbps", delay = "2 us", queue = { kind = "droptail", limit = "1 MB" } }
"#;

fn text(network: &str) -> String {
    format!(
        r#"question = "?"
cc = ["dctcp"]
[network]
{network}
[[traffic]]
name = "long"
kind = "bulk"
size = "100 kB"
from = "h0.0"
to = "h2.1"
[run]
duration = "1 s"
"#
    )
}

fn load_in(folder: &Path, network: &str) -> Result<Run, String> {
    let path = folder.join("net.toml");
    let experiment = Experiment::parse(&path, &text(network), &Overrides::default());
    let experiment = experiment.map_err(|error| error.to_string())?;
    Ok(experiment.run(experiment.run_id(0)).unwrap())
}

/// The run of a network from these files, or the error without the folder's name.
fn load(nodes: &[u8], links: &[u8], network: &str) -> Result<Run, String> {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("nodes.csv"), nodes).unwrap();
    fs::write(scratch.path().join("links.csv"), links).unwrap();
    let folder = format!("{}/", scratch.path().display());
    load_in(scratch.path(), network).map_err(|why| why.replace(&folder, ""))
}

/// The leaf-spine fabric as files.
fn files() -> (String, String) {
    let (mut nodes, mut links) = ("name,kind\n".to_owned(), "from,to,cable,back\n".to_owned());
    for leaf in 0..3 {
        for host in 0..2 {
            let _ = writeln!(nodes, "h{leaf}.{host},host");
        }
    }
    let switches = ["leaf0", "leaf1", "leaf2", "spine0", "spine1"];
    for name in switches {
        let _ = writeln!(nodes, "{name},switch");
    }
    for leaf in 0..3 {
        for host in 0..2 {
            let _ = writeln!(links, "h{leaf}.{host},leaf{leaf},up,down");
        }
        for spine in 0..2 {
            let _ = writeln!(links, "leaf{leaf},spine{spine},fabric,");
        }
    }
    (nodes, links)
}

static FILES: LazyLock<(String, String)> = LazyLock::new(files);

fn same_network(a: &Run, b: &Run) {
    assert_eq!(format!("{:?}", a.network.nodes), format!("{:?}", b.network.nodes));
    for (a, b) in a.network.links.iter().zip(&b.network.links) {
        let words = |link: &Link| {
            let mut link = link.clone();
            // A cable may be shared by links that are sampled and by others.
            Arc::make_mut(&mut link.cable).sampled = link.sampled;
            format!("{link:?}")
        };
        assert_eq!(words(a), words(b));
    }
    assert_eq!(a.network.links.len(), b.network.links.len());
}

#[test]
fn files_of_a_leaf_spine_fabric_are_the_leaf_spine_fabric() {
    let scratch = Scratch::new();
    let built = load_in(scratch.path(), LEAF_SPINE).unwrap();
    let (nodes, links) = &*FILES;
    same_network(&load(nodes.as_bytes(), links.as_bytes(), CABLES).unwrap(), &built);
    // As other programs write them.
    let marked = |text: &str| {
        let quoted = text.replace(',', "\" , \"").replace('\n', "\"\r\n\"");
        format!("\u{feff}\"{}", quoted.trim_end_matches('"'))
    };
    let run = load(marked(nodes).as_bytes(), marked(links).as_bytes(), CABLES).unwrap();
    same_network(&run, &built);
}

#[test]
fn a_row_changes_its_cable_and_no_other() {
    let (nodes, links) = &*FILES;
    let header = "from,to,cable,back,oneway,rate,delay,jitter,loss,limit\n";
    let mut changed = header.to_owned();
    for line in links.lines().skip(1) {
        changed += line;
        changed += match line {
            "leaf1,spine1,fabric," => ",,1 Gbps,7 us,3 us,2 %,20 pkts\n",
            _ => ",,,,,,\n",
        };
    }
    let run = load(nodes.as_bytes(), changed.as_bytes(), CABLES).unwrap();
    let is_it = |name: &str| matches!(name, "leaf1-spine1" | "spine1-leaf1");
    assert_eq!(run.network.link_names().filter(|name| is_it(name)).count(), 2);
    for link in &run.network.links {
        let limit = link.queue.limit();
        let got = (link.rate.unwrap().bps() / 1_000_000, link.delay.ns(), link.jitter.ns());
        let name = run.network.link_name(link);
        match (is_it(&name), name.contains("spine")) {
            (true, _) => {
                assert_eq!((got, link.loss), ((1_000, 7_000, 3_000), 0.02));
                assert_eq!(format!("{limit:?}"), "Some(Pkts(20))");
            }
            (false, true) => assert_eq!((got, link.loss), ((40_000, 2_000, 0), 0.0)),
            (false, false) => assert_eq!(got, (10_000, 1_000, 0)),
        }
    }
}

#[test]
fn a_cable_of_one_kind_needs_no_name_and_may_be_one_way() {
    let nodes = "name,kind\nh0.0,host\nh2.1,host\nx,switch\ny,switch\n";
    // There by x, back by y.
    let links = "from,to,oneway\nh0.0,x,true\nx,h2.1,true\nh2.1,y,true\ny,h0.0,true\n";
    let network = CABLES.split("[[network.cable]]").take(2).collect::<Vec<_>>();
    let network = network.join("[[network.cable]]")
        + "queue = { kind = \"droptail\", limit = \"100 pkts\" }\n";
    let run = load(nodes.as_bytes(), links.as_bytes(), &network).unwrap();
    let names: Vec<_> = run.network.link_names().collect();
    assert_eq!(names, ["h0.0-x", "x-h2.1", "h2.1-y", "y-h0.0"]);
}

/// A change of both directions of a cable leaves those beside it alone.
#[test]
fn a_change_of_a_parallel_cable_is_of_this_cable() {
    let (nodes, links) = &*FILES;
    let row = "leaf0,spine0,fabric,\n";
    let links = links.replacen(row, &row.repeat(3), 1);
    for number in ["", "#2", "#3"] {
        let change = format!(
            "[[network.change]]\nlinks = \"leaf0-spine0{number}\"\nboth = true\nat = \"1 ms\"\ndown = true\n"
        );
        let run = load(nodes.as_bytes(), links.as_bytes(), &format!("{CABLES}{change}")).unwrap();
        let changed = run.network.changes.links.iter();
        let mut names: Vec<_> =
            changed.map(|it| run.network.link_name(&run.network.links[it.link as usize])).collect();
        names.sort_unstable();
        assert_eq!(names, ["leaf0-spine0", "spine0-leaf0"].map(|name| format!("{name}{number}")));
    }
}

/// ECMP chooses among parallel cables as among others. Names tell them apart.
#[test]
fn cables_may_be_parallel() {
    let (nodes, links) = &*FILES;
    let links =
        links.replacen("leaf0,spine0,fabric,\n", "leaf0,spine0,fabric,\nleaf0,spine0,fabric,\n", 1);
    let run = load(nodes.as_bytes(), links.as_bytes(), CABLES).unwrap();
    let names: Vec<_> = run.network.link_names().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_pair = |name: &str| names.iter().filter(|other| other.starts_with(name)).count();
    assert_eq!(
        (of_pair("leaf0-spine0"), of_pair("leaf0-spine0#2"), of_pair("spine0-leaf0#2")),
        (2, 1, 1)
    );
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    let mut routes = Routes::new(&run.network);
    let mut taken = BTreeMap::new();
    for hash in 0..300 {
        let path = routes.path(0, 5, mix(hash, 1)).unwrap();
        *taken.entry(names[path[1] as usize]).or_insert(0) += 1;
    }
    // Each of the three uplinks has a third.
    assert_eq!(
        taken.keys().copied().collect::<Vec<_>>(),
        ["leaf0-spine0", "leaf0-spine0#2", "leaf0-spine1"]
    );
    assert!(taken.values().all(|count| (70..130).contains(count)), "{taken:?}");
}

#[test]
fn errors_say_file_line_and_what_is_allowed() {
    let (nodes, links) = &*FILES;
    let said = |nodes: &str, links: &str| {
        load(nodes.as_bytes(), links.as_bytes(), CABLES).expect_err("it is wrong")
    };
    let node = |from: &str, to: &str| said(&nodes.replacen(from, to, 1), links);
    let link = |from: &str, to: &str| said(nodes, &links.replacen(from, to, 1));
    for (said, expected) in [
        (
            node("h0.1,host", "h0.1,hots"),
            "nodes.csv:3: kind = \"hots\": must be one of \"host\", \"switch\"; did you mean \"host\"?",
        ),
        (node("h0.1,host", "h0.1"), "nodes.csv:3: must have 2 cells, as the header, not 1"),
        (
            node("h0.1,host", "h0..1,host"),
            "nodes.csv:3: name = \"h0..1\": must be a name of 1 to 40",
        ),
        (
            node("h0.1,host", "h0.0,host"),
            "nodes.csv:3: name = \"h0.0\": is the name of an earlier node",
        ),
        (node("h0.1,host", "h\"0,host"), "nodes.csv:3: has a quote within a cell"),
        (
            node("name,kind", "kind,nane"),
            "nodes.csv:1: the column \"nane\" must be one of \"name\", \"kind\"; did you mean \"name\"?",
        ),
        (node("name,kind", "kind,kind"), "nodes.csv:1: has the column kind twice"),
        (node("name,kind", "name"), "nodes.csv:1: has no column kind"),
        (node("name,kind", &",".repeat(100)), "nodes.csv:1: has more than 64 cells"),
        (node("h0.1,host", &",".repeat(100)), "nodes.csv:3: has more than 64 cells"),
        (said("", links), "nodes.csv: is empty: its first line must be name,kind"),
        (
            said("name,kind\nh0.0,host\n", links),
            "nodes.csv: must have at least two rows of kind host",
        ),
        (
            link("h0.1,leaf0", "h0.1,leaf9"),
            "links.csv:3: to = \"leaf9\": must name a node of the file of nodes",
        ),
        (
            link("h0.1,leaf0", "h0.1,h0.1"),
            "links.csv:3: to = \"h0.1\": must be another node than \"from\"",
        ),
        (
            link("h0.1,leaf0,up", "h0.1,leaf0,upp"),
            "links.csv:3: cable = \"upp\": must be one of \"up\", \"down\", \"fabric\"; did you mean \"up\"?",
        ),
        (link("h0.1,leaf0,up", "h0.1,leaf0,"), "links.csv:3: cable = \"\": must be one of \"up\""),
        (
            link("leaf0,spine0,fabric", "leaf0,spine0,up"),
            "net.toml:7: network.cable.up.queue: missing, as in queue =",
        ),
        (
            link("cable,back", "cable,rate"),
            "links.csv:2: cable up: rate = \"down\": must be a rate",
        ),
        (
            link("leaf2,spine0,fabric,\nleaf2,spine1,fabric,", ""),
            "net.toml:6: network.links = \"links.csv\": there is no path from h0.0 to h2.1: add links",
        ),
    ] {
        assert!(said.starts_with(expected), "{said}\nnot\n{expected}");
    }
    let scratch = Scratch::new();
    let missing = load_in(scratch.path(), CABLES).unwrap_err();
    assert!(
        missing.contains("network.nodes = \"nodes.csv\": ") && missing.contains("cannot read"),
        "{missing}"
    );
    let latin = load(b"name,kind\n\xe4,host\n", b"", CABLES).unwrap_err();
    assert_eq!(latin, "nodes.csv:2: is not text in UTF-8");
}

#[test]
fn the_example_is_the_fabric_that_it_describes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fabrics/row.toml");
    let experiment = Experiment::load(&path, &Overrides::default()).unwrap();
    let run = experiment.run(experiment.run_id(0)).unwrap();
    assert_eq!((run.network.nodes.len(), run.network.links.len()), (22, 48));
    let slow = run.network.links.iter().filter(|link| link.rate.unwrap().bps() == 1_000_000_000);
    assert_eq!(
        slow.map(|link| run.network.link_name(link)).collect::<Vec<_>>(),
        ["tor-a-spine-2", "spine-2-tor-a"]
    );
}

/// Changes bytes of a text: each change replaces some bytes at a place by some others.
fn mutated(text: &str, changes: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (at, length, new) in changes {
        let at = at % (bytes.len() + 1);
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, new.iter().copied());
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    let words = [
        ",", "\n", "\"", "#", "..", "host", "switch", "h0.0", "leaf0", "up", "true", "1 Gbps",
        "rate", "limit", "\u{feff}", "ä", "",
    ];
    let word = prop::sample::select(words.map(|word| word.as_bytes().to_vec()).to_vec());
    let new = prop_oneof![4 => word, 1 => prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec((any::<usize>(), 0usize..12, new), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is done to valid files, they are accepted or refused in one line.
    #[test]
    fn changed_files_are_accepted_or_refused_in_one_line(
        of_nodes in changes(),
        of_links in changes(),
        both in any::<bool>(),
    ) {
        let (nodes, links) = &*FILES;
        let rows = links.lines().skip(1).map(|line| format!("{line},,\n"));
        let links = format!("from,to,cable,back,rate,limit\n{}", rows.collect::<String>());
        let changed = if both { mutated(nodes, &of_nodes) } else { nodes.clone().into_bytes() };
        match load(&changed, &mutated(&links, &of_links), CABLES) {
            Ok(run) => prop_assert!(run.network.links.len() >= 8),
            Err(why) => prop_assert!(!why.contains('\n') && why.len() < 700, "{}", why),
        }
    }
}

#[test]
fn drawn_pairs_need_paths_between_all_places() {
    let (nodes, links) = &*FILES;
    let drawn = |links: &str, to: &str| {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("nodes.csv"), nodes).unwrap();
        fs::write(scratch.path().join("links.csv"), links).unwrap();
        let text = text(CABLES)
            .replace(
                "from = \"h0.0\"",
                "from = \"h0.0..h2.1\"\narrivals_per_sec = 10\nuntil = \"1 s\"",
            )
            .replace("to = \"h2.1\"", &format!("to = \"{to}\""))
            .replace("kind = \"bulk\"\nsize", "kind = \"poisson\"\nsizes");
        let path = scratch.path().join("net.toml");
        Experiment::parse(&path, &text, &Overrides::default()).map_err(|why| why.to_string())
    };
    assert_eq!(drawn(links, "h0.0..h2.1").map(|_| ()), Ok(()));
    let apart = links.replace("leaf2,spine0,fabric,\n", "").replace("leaf2,spine1,fabric,\n", "");
    let why = drawn(&apart, "h0.0..h2.1").unwrap_err();
    assert!(why.ends_with("there is no path from h0.0 to h2.0: add links"), "{why}");
    // The hosts of one leaf reach each other, and h0.0 reaches none of them.
    let alone = links.replace("h0.0,leaf0,up,down", "h0.0,leaf1,up,down");
    let oneway = alone.replace("from,to,cable,back", "from,to,cable,back,oneway");
    let oneway: String = oneway
        .lines()
        .map(|line| match line {
            "h0.1,leaf0,up,down" => "h0.1,leaf0,up,,true\n".to_owned(),
            line if line.starts_with("from") => format!("{line}\n"),
            line => format!("{line},\n"),
        })
        .collect();
    let why = drawn(&oneway, "h2.0").unwrap_err();
    assert!(why.ends_with("there is no path from h2.0 to h0.1: add links"), "{why}");
}

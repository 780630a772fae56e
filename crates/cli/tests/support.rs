//! Each key of an experiment on each back end: what the table of support says is what `--check` says.
#![cfg(feature = "kernel")]

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use knee_file::keys::{Entry, Shape, Table};
use knee_file::schema::all_entries;
use knee_lab::hosts::{Binary, Machine, Machines, OnMachines};
use knee_run::support::{self, Facts, On, Support};
use knee_run::{BackEnd, Run};
use knee_scenario::{Experiment, Overrides};
use serde_json::{Map, Value as Json, json};

/// Hosts `h1` to `h4` around a switch, which transfer without end.
const BASE: &str = r#"
cc = "cubic"
network = { topology = "star", hosts = 4, up = { rate = "10 Gbps" }, down = { rate = "10 Gbps", queue = { kind = "droptail", limit = "500 pkts" } } }
traffic = [{ name = "a", kind = "bulk", from = "h1", to = "h2" }]
run = { duration = "10 ms" }
"#;

/// Words whose keys are of files that this test does not have, or that shape a network and act nowhere else.
const LEFT_OUT: [&str; 9] = [
    "many-to-one",
    "dumbbell",
    "leaf-spine",
    "parking-lot",
    "fat-tree",
    "graph",
    "file",
    "trace",
    "chakra",
];

/// Values of keys whose type does not say enough, by the end of their path.
const VALUES: &[(&str, &str)] = &[
    (".hz", "250"),
    ("gso_max_segs", "2"),
    ("syn_ect", "false"),
    ("receive_queues", "2"),
    ("host.0.hosts", "\"h1\""),
    ("switches", "\"switch\""),
    ("change.0.links", "\"switch-h1\""),
    ("traffic.0.from", "[\"h1\", \"h2\"]"),
    ("traffic.0.to", "\"h3\""),
    ("traffic.0.hosts", "[\"h1\", \"h2\"]"),
    ("queue.second", "[\"h1\"]"),
    ("queue.max", "\"40 pkts\""),
    ("buffer.size", "\"4 MB\""),
    ("buffers.0.size", "\"4 MB\""),
    ("rcvbuf_initial", "\"100 kB\""),
    ("until", "\"5 ms\""),
    ("overhead", "\"24 B\""),
    ("max_tcp_header", "\"256 B\""),
    ("max_skb_frags", "8"),
    ("rate_high", "500000"),
    ("weight.0.from", "\"switch\""),
    ("weight.0.to", "\"h1\""),
    ("queue.interval", "\"200 ms\""),
    ("traffic.0.flows", "2"),
    ("cc", "\"reno\""),
    ("params", "{ beta = 700 }"),
    ("show", "\"timeouts\""),
    ("output.stats", "\"mean\""),
    ("ping.size", "\"100 B\""),
    ("within", "\"5 %\""),
    ("over", "\"50 ms\""),
    ("hold", "\"50 ms\""),
    ("sample.plot", "\"cwnd_pkts\""),
    ("stopped-class.name", "\"all\""),
    ("class.0.name", "\"all\""),
    ("class.name", "\"all\""),
];

/// What a key needs beside it, by the end of its label.
const BESIDE: &[(&str, &str)] = &[
    ("hosts.sndbuf_initial", "sndbuf_max = \"1 MiB\""),
    ("hosts.fq_counts_headers", "fq = true"),
    ("hosts.receive_queues", "coalesce = { time = \"50 us\" }"),
    ("hosts.gro", "coalesce = { time = \"50 us\" }"),
    (".since", "frames = 64"),
    (".rate_low", "adaptive = true"),
    (".rate_high", "adaptive = true"),
    ("coalesce.interval", "adaptive = true"),
    (".loss_per", "loss = \"1 %\""),
    ("=poisson", "arrivals_per_sec = 1000"),
    ("=query", "response = \"20 kB\""),
    ("=share", "every = 10"),
    (".ce_threshold_for", "ce_threshold = \"1 ms\""),
    ("change.0.rate", NO_DOWN),
    ("change.0.delay", NO_DOWN),
    ("change.0.loss", NO_DOWN),
    ("host.0.sndbuf_initial", "sndbuf_max = \"1 MiB\""),
    ("host.0.fq_counts_headers", "fq = true"),
    ("host.0.receive_queues", "coalesce = { time = \"50 us\" }"),
    ("host.0.gro", "coalesce = { time = \"50 us\" }"),
    ("traffic.0.cc", ANOTHER),
    ("traffic.0.params", ANOTHER),
    ("class.0.dscp", OTHERS),
    ("class.0.acks", OTHERS),
    ("class.0.up_to", OTHERS),
    ("=pfc", PFC),
    ("change.0.links", "down = true"),
    ("change.0.both", "down = true"),
    ("change.0.at", "down = true"),
    ("change.0.until", "down = true"),
    ("change.0.reroute", "down = true"),
    ("change.0.every", "down = true\ntimes = 2\nuntil = \"70 us\""),
    ("change.0.times", "down = true\nevery = \"1 ms\"\nuntil = \"70 us\""),
    (
        "network.change",
        "\"/network.change.0\" = { links = \"switch-h1\", at = \"50 us\", down = true }",
    ),
    ("network.balance", "\"/network.balance\" = { kind = \"spray\" }"),
    ("network.balances", "\"/network.balances.0\" = { kind = \"spray\", switches = \"switch\" }"),
    ("balance.weight", "weight = [{ from = \"switch\", to = \"h1\", weight = 2 }]"),
    (".peer_params", "peer_cc = \"reno\""),
    (".params", "cc = \"reno\""),
    (".load", "of = \"h3\""),
    (".of", "load = \"1 %\""),
    ("=ping", ANOTHER),
    ("=cbr", ANOTHER),
    ("run.until_done", "\"/traffic.0.size\" = \"10 kB\""),
    ("sample.plot", "flows = \"1 ms\""),
];

/// A change that is no failure.
const NO_DOWN: &str = r#""/network.change.0" = { links = "switch-h1", at = "50 us" }"#;

/// A transfer with the file's own algorithm.
const ANOTHER: &str = r#""/traffic.1" = { name = "b", kind = "bulk", from = "h1", to = "h2" }"#;

/// A class of all other packets.
const OTHERS: &str = r#"
"/network.down.queue.class.1" = { queue = { kind = "droptail", limit = "20 pkts" } }
"#;

/// Keys that no file can set alone: they must be as in `[hosts]`, or they take the place of a key that must be there.
const NOT_ALONE: [&str; 16] = [
    "coalesce.dim",
    "coalesce-of-switches.dim",
    "host.ipv6",
    "host.mtu",
    "traffic.matrix=poisson",
    "traffic.load=poisson",
    "traffic.of=poisson",
    "traffic.rate=poisson",
    "traffic.sizes=rpc",
    "traffic.total=query",
    "traffic.from=bulk",
    "queue.mark=share",
    "traffic.show=ping",
    "traffic.show=cbr",
    "traffic.size=ping",
    "traffic.size=cbr",
];

/// Queues of classes, as priority flow control needs them.
const PFC: &str = r#"
"/network.up.queue" = { kind = "classes", class = [{ name = "all", queue = { kind = "droptail", limit = "9 MB" } }] }
"/network.down.queue" = { kind = "classes", class = [{ name = "all", queue = { kind = "droptail", limit = "9 MB" } }] }
"#;

#[test]
fn every_key_of_a_run_is_as_the_table_says_on_every_back_end() {
    let mut wrong = String::new();
    let cases = files();
    assert!(cases.len() > 500, "{}", cases.len());
    for Case { key, names, text } in cases {
        let experiment = match Experiment::parse(Path::new("x.toml"), &text, &Overrides::default())
        {
            Ok(experiment) => experiment,
            Err(why) => {
                let _ = writeln!(wrong, "{key}: {why}\n{text}");
                continue;
            }
        };
        let run = experiment.run(experiment.run_id(0)).expect("a run");
        // What contradicts itself is refused everywhere.
        if knee_run::validate(&run).is_err() {
            continue;
        }
        for (on, answer) in On::ALL.into_iter().zip(answers(&run)) {
            let row = support::find(&key);
            let table = row.as_ref().map_or(Support::Yes, |row| row.answer(on));
            let key = row.as_ref().map_or(&*key, |row| row.key);
            let is_so = match (table, &answer) {
                (Support::Refused(why), Err(said)) => said.contains(why),
                (Support::Refused(_), Ok(_)) => false,
                (Support::Inert(why) | Support::Otherwise(why), Ok(said)) => {
                    said.iter().any(|said| said.starts_with(key) && said.contains(why))
                }
                // A row is about some values of a key, or about the table that it is in.
                (_, Err(said)) => names.iter().any(|name| said.contains(name)),
                _ => true,
            };
            if !is_so {
                let _ =
                    writeln!(wrong, "{key} on {}: {table:?}, but {answer:?}\n{text}", on.name());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What `--check` answers on each back end: why it refuses, or differences.
fn answers(run: &Run) -> [Result<Vec<String>, String>; 4] {
    let facts = Facts { hz: Some(1000), offloads: false };
    let sim = knee_sim::Simulator.check(run).map(|()| Vec::new());
    let vkernel = knee_vkernel::plan::Plan::new(run, Default::default(), "6.1");
    let vkernel = vkernel.map(|_| knee_vkernel::plan::differences(run));
    let lab = knee_lab::plan::Plan::new(run);
    let lab = lab.map(|_| support::differences(run, On::Lab, facts));
    let machines = OnMachines::new(machines(run));
    let hosts = machines.check(run).map(|()| machines.differences(run));
    [sim, vkernel, lab, hosts].map(|answer| answer.map_err(|why| why.to_string()))
}

/// A machine for each host of a run.
fn machines(run: &Run) -> Machines {
    let hosts = run.network.nodes.iter().filter(|node| node.host.is_some());
    let ipv6 = hosts.clone().any(|node| node.host.as_ref().is_some_and(|host| host.ipv6));
    let machine = |(node, n): (&knee_run::spec::Node, u16)| Machine {
        name: node.name.clone(),
        ssh: node.name.clone(),
        address: match ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n)),
            false => IpAddr::V4(Ipv4Addr::new(192, 0, (n >> 8) as u8, n as u8)),
        },
        device: "d".to_owned(),
        roles: vec![node.name.clone()],
        knee: Binary::Same,
        options: Vec::new(),
    };
    Machines { file: "machines.toml".into(), machines: hosts.zip(1..).map(machine).collect() }
}

// ---- a file for each key ----

/// A key, and a file that sets it.
struct Case {
    /// With its table in docs/keys.md.
    key: String,
    /// Keys and words that a refusal may name: those on the way to it.
    names: Vec<String>,
    text: String,
}

/// A file for each key.
fn files() -> Vec<Case> {
    let base = toml(BASE);
    let root = all_entries(knee_scenario::experiment::FILE.root);
    let mut all = Files { seen: Vec::new(), all: Vec::new() };
    for key in ["network", "hosts", "host", "traffic", "run", "sample", "output"] {
        let entry = root.iter().find(|entry| entry.key == key).expect("a key");
        let mut path = vec![key.to_owned()];
        path.extend(is_list(entry).then(|| "0".to_owned()));
        let (mut base, table) = (base.clone(), entry.below.expect("a table"));
        if at(&base, &path).is_none() {
            put(&mut base, &path, minimal(&path, table, None));
        }
        all.add(&base, table, &path);
    }
    all.all
}

struct Files {
    /// Tables whose keys are there, and whose cable they are.
    seen: Vec<String>,
    all: Vec<Case>,
}

impl Files {
    /// Adds a file for each key of a table at this path, and of the tables below it.
    fn add(&mut self, base: &Json, table: &'static Table, path: &[String]) {
        // A host's own queue is not a switch's.
        let end = if path.iter().any(|key| key == "up") { " of a host" } else { "" };
        let name = format!("{}{end}", table.name);
        if self.seen.contains(&name) {
            return;
        }
        self.seen.push(name);
        match (table.shape)() {
            Shape::Keys(entries) => self.keys(base, table.name, &entries, path, None),
            Shape::By(key, variants) => {
                for (word, entries) in variants {
                    // Only switches have inputs.
                    let has_inputs = end.is_empty() || !["two-buffers", "classes"].contains(&word);
                    if LEFT_OUT.contains(&word) || !has_inputs {
                        continue;
                    }
                    let mut file = base.clone();
                    let now = at(base, path).and_then(|now| now.get(key));
                    if now != Some(&json!(word)) {
                        put(&mut file, path, minimal(path, table, Some(word)));
                    }
                    beside(&format!("{}={word}", path.join(".")), &mut file, path);
                    self.keys(&file, table.name, &entries, path, Some((key, word)));
                }
            }
            Shape::Any(_) => {}
        }
    }

    fn keys(
        &mut self,
        base: &Json,
        table: &str,
        entries: &[Entry],
        path: &[String],
        by: Option<(&str, &str)>,
    ) {
        for entry in entries {
            let label = match by {
                Some((_, word)) => format!("{table}.{}={word}", entry.key),
                None => format!("{table}.{}", entry.key),
            };
            if NOT_ALONE.contains(&&*label) {
                continue;
            }
            let mut file = base.clone();
            let mut path = path.to_vec();
            beside(&format!("{}.{}", path.join("."), entry.key), &mut file, &path);
            path.push(entry.key.clone());
            let word = by.map(|(_, word)| word.to_owned());
            let names: Vec<String> = path.iter().cloned().chain(word).collect();
            let mut add = |file: &Json| {
                let (key, names) = (format!("{table}.{}", entry.key), names.clone());
                self.all.push(Case { key, names, text: text(file) });
            };
            match entry.below {
                Some(below) => {
                    if is_list(entry) {
                        path.push("0".to_owned());
                    }
                    if at(&file, &path).is_none() {
                        put(&mut file, &path, minimal(&path, below, None));
                    }
                    add(&file);
                    self.add(&file, below, &path);
                }
                None => {
                    if by.is_none_or(|(key, _)| key != entry.key) {
                        put(&mut file, &path, value(&path, entry));
                    }
                    add(&file);
                }
            }
        }
    }
}

fn is_list(entry: &Entry) -> bool {
    entry.schema["type"] == "array"
}

fn beside(label: &str, file: &mut Json, path: &[String]) {
    for (end, values) in BESIDE {
        if label.ends_with(end) {
            let Json::Object(values) = toml(values) else { continue };
            for (key, value) in values {
                let at: Vec<String> = match key.strip_prefix('/') {
                    Some(whole) => whole.split('.').map(str::to_owned).collect(),
                    None => path.iter().cloned().chain([key]).collect(),
                };
                put(file, &at, value);
            }
        }
    }
}

/// A table with its required keys.
fn minimal(path: &[String], table: &Table, word: Option<&str>) -> Json {
    let (entries, by) = match (table.shape)() {
        Shape::Keys(entries) => (entries, None),
        Shape::By(key, variants) => {
            let variant =
                variants.into_iter().find(|(name, _)| word.is_none_or(|word| word == *name));
            let (name, entries) = variant.expect("a variant");
            (entries, Some((key, name)))
        }
        Shape::Any(_) => (Vec::new(), None),
    };
    let mut all = Map::new();
    for entry in entries.iter().filter(|entry| entry.is_needed) {
        let mut path = path.to_vec();
        path.push(entry.key.clone());
        let value = match (by, entry.below) {
            (Some((key, name)), _) if key == entry.key => json!(name),
            (_, Some(below)) => {
                let one = minimal(&path, below, None);
                if is_list(entry) { json!([one]) } else { one }
            }
            _ => value(&path, entry),
        };
        all.insert(entry.key.clone(), value);
    }
    all.into()
}

/// A value that is not the default.
fn value(path: &[String], entry: &Entry) -> Json {
    let path = path.join(".");
    let known = VALUES.iter().find(|(end, _)| path.ends_with(end));
    if let Some((_, value)) = known {
        return toml(&format!("x = {value}"))["x"].clone();
    }
    let schema = match &entry.schema["anyOf"][0] {
        Json::Null => &entry.schema,
        one => one,
    };
    let default = entry.default.trim_matches('`');
    if let Some(words) = schema["enum"].as_array() {
        let other = words.iter().find(|word| *word != default);
        return other.expect("a word").clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(default != "true"),
        Some("integer") => {
            let least = schema["minimum"].as_u64().unwrap_or(0);
            json!(if default == least.to_string() { least + 1 } else { least })
        }
        Some("number") => json!(2),
        _ => json!(match &entry.value {
            words if words.starts_with("time") => "50 us",
            words if words.starts_with("rate") => "1 Gbps",
            words if words.starts_with("size") => "10 kB",
            words if words.starts_with("packets") => "20 pkts",
            words if words.starts_with("share") => "1 %",
            _ => "h2",
        }),
    }
}

// ---- TOML ----

fn toml(text: &str) -> Json {
    knee_file::parse(Path::new("x.toml"), text).expect("TOML").json()
}

fn text(file: &Json) -> String {
    let lines = file.as_object().expect("a table").iter();
    lines.map(|(key, value)| format!("{key} = {}\n", inline(value))).collect()
}

fn inline(value: &Json) -> String {
    match value {
        Json::Object(table) => {
            let keys: Vec<String> =
                table.iter().map(|(key, value)| format!("{key:?} = {}", inline(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn at<'a>(file: &'a Json, path: &[String]) -> Option<&'a Json> {
    path.iter().try_fold(file, |at, key| match key.parse::<usize>() {
        Ok(number) => at.get(number),
        Err(_) => at.get(key),
    })
}

/// Puts a value at a path, whose tables are made.
fn put(file: &mut Json, path: &[String], value: Json) {
    let Some((key, rest)) = path.split_first() else {
        *file = value;
        return;
    };
    if let Ok(number) = key.parse::<usize>() {
        if !file.is_array() {
            *file = json!([]);
        }
        let items = file.as_array_mut().expect("a list");
        items.resize(items.len().max(number + 1), json!({}));
        return put(&mut items[number], rest, value);
    }
    if !file.is_object() {
        *file = json!({});
    }
    put(&mut file[key.as_str()], rest, value);
}

//! Any text as the files that an experiment names, each behind `%%% NAME`: `nodes.csv` and `links.csv` of a network, `flows.csv`,
//! `sizes.csv`, `matrix.csv`, `groups.json`; one that is missing is a good one. Accepted and laid out as runs, or refused in one line.
#![no_main]

use std::fs;

use knee_fuzz::{check_message, empty_dir, parts, reached};
use knee_scenario::{Experiment, Overrides};

const EXPERIMENT: &str = r#"question = "?"
cc = ["cubic"]
[network]
topology = "file"
nodes = "nodes.csv"
links = "links.csv"
[[network.cable]]
name = "wire"
rate = "1 Gbps"
delay = "1 us"
queue = { kind = "droptail", limit = "100 pkts" }
[[network.cable]]
name = "fast"
rate = "10 Gbps"
delay = "1 us"
queue = { kind = "step", k = "65 pkts", limit = "1 MB" }
[run]
duration = "10 ms"
[[traffic]]
"#;

/// The files that may be missing, each with a good one.
const FILES: [(&str, &str); 6] = [
    ("nodes.csv", "name,kind\nh1,host\nh2,host\nh3,host\ns1,switch\ns2,switch\n"),
    (
        "links.csv",
        "from,to,cable,rate\nh1,s1,wire,\nh2,s1,wire,\nh3,s2,wire,\ns1,s2,fast,\ns1,s2,fast,5 Gbps\n",
    ),
    (
        "flows.csv",
        "id,start_us,from,to,bytes,after,gap_us\na,0,h1,h2,1000,,\nb,5,h2,h3,70000,a,2\n",
    ),
    ("sizes.csv", "bytes,share\n100,0\n1000,0.5\n20000,1\n"),
    ("matrix.csv", "from,to,weight\nh1..h2,h3,2\nh3,h1,0.5\n"),
    ("groups.json", "{\"0\": [0, 1]}\n"),
];

/// Traffic by the file that it is made of.
const TRAFFIC: [(&str, &str); 4] = [
    ("flows.csv", "name = \"a\"\nkind = \"trace\"\nfile = \"flows.csv\"\n"),
    (
        "sizes.csv",
        "name = \"a\"\nkind = \"poisson\"\nfrom = \"h1..h3\"\nto = \"h1..h3\"\narrivals_per_sec = 1000\nuntil = \"5 ms\"\nsizes = \"sizes.csv\"\n",
    ),
    (
        "matrix.csv",
        "name = \"a\"\nkind = \"poisson\"\nfrom = \"h1..h3\"\nto = \"h1..h3\"\narrivals_per_sec = 1000\nuntil = \"5 ms\"\nsizes = \"1 kB\"\nmatrix = \"matrix.csv\"\n",
    ),
    (
        "groups.json",
        "name = \"a\"\nkind = \"chakra\"\ntrace = \"t\"\nhosts = \"h1..h2\"\ngroups = \"groups.json\"\n",
    ),
];

/// Two ranks, an all-reduce of 100 bytes in the process group 0.
const TRACE: &[u8] = b"\x07\x0a\x050.0.4\x31\x08\x01\x18\x07\
    \x52\x0d\x0a\x09comm_type\x48\x00\x52\x0d\x0a\x09comm_size\x48\x64\x52\x0d\x0a\x07pg_name\xea\x01\x01\x30";

knee_fuzz::target!(|text: &str| {
    let dir = empty_dir();
    let given: Vec<(&str, &str)> = parts(text).collect();
    for (name, good) in FILES {
        let part = given.iter().find(|(given, _)| *given == name).map_or(good, |(_, part)| part);
        fs::write(dir.join(name), part).expect("a temporary file");
    }
    for rank in 0..2 {
        fs::write(dir.join(format!("t.{rank}.et")), TRACE).expect("a temporary file");
    }
    let meant = |name: &&(&str, &str)| given.iter().any(|(given, _)| *given == name.0);
    let (name, traffic) = TRAFFIC.iter().find(meant).unwrap_or(&TRAFFIC[0]);
    let file = format!("{EXPERIMENT}{traffic}");
    match Experiment::parse(&dir.join("x.toml"), &file, &Overrides::default()) {
        Ok(experiment) => {
            reached(name);
            experiment.run(experiment.run_id(0)).expect("files that were accepted give a run");
        }
        Err(error) => check_message(&error.to_string()),
    }
});

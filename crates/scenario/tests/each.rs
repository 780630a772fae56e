//! `each = true`: an entry that holds for each host of `from` by itself is as many entries.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::path::Path;

use knee_queue::time::Time;
use knee_run::spec::Run;
use knee_scenario::{Error, Experiment, Overrides};

const BEGINNING: &str = r#"question = "?"
cc = ["cubic"]

[network]
topology = "many-to-one"
senders = 4
access = { rate = "1 Gbps" }
bottleneck = { rate = "1 Gbps", queue = { kind = "droptail", limit = "100 pkts" } }
return = { delay = "100 us" }

[run]
duration = "1 s"
"#;

fn read(entries: &str) -> Result<Run, Error> {
    let text = format!("{BEGINNING}{entries}");
    let experiment = Experiment::parse(Path::new("each.toml"), &text, &Overrides::default())?;
    Ok(experiment.run(experiment.run_id(0)).unwrap())
}

fn run(entries: &str) -> Run {
    read(entries).unwrap_or_else(|error| panic!("{error}"))
}

fn entry(from: &str, to: &str, keys: &str) -> String {
    format!("\n[[traffic]]\nname = \"a\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n")
}

#[test]
fn it_is_the_same_run_as_equal_entries_for_each_host() {
    for keys in [
        "kind = \"bulk\"\nflows = 5\nstagger = \"1 ms\"\nstart_jitter = \"300 us\"",
        "kind = \"bulk\"\nflows = 3\nsize = [\"1 kB\", \"2 kB\"]\nstart = \"9 ms\"\nstart_shift = \"4 ms\"",
        "kind = \"bulk\"\nflows = 2\nstop = \"100 ms\"\nstop_stagger = \"10 ms\"",
        "kind = \"rpc\"\nflows = 2\nrequest = [\"1 kB\", \"5 kB\"]\nstagger = \"1 ms\"",
        "kind = \"incast\"\nsize = \"10 kB\"\nrounds = 3\nstart_jitter = \"1 ms\"",
        "kind = \"incast\"\nsize = \"10 kB\"\nrounds = 3\nevery = \"50 ms\"",
    ] {
        let ways = [["r"; 4], ["s2", "s3", "s4", "r"]];
        for (to, targets) in ["r", "s2..s4\", \"r"].into_iter().zip(ways) {
            // What comes behind must draw the same too.
            let behind = "\n[[traffic]]\nname = \"b\"\nkind = \"bulk\"\nfrom = \"s1\"\nto = \"r\"\nstart_jitter = \"1 ms\"\n";
            let list = format!("each = true\n{keys}");
            let one =
                entry("s1..s4", to, &list).replace("\"s2..s4\", \"r\"", "[\"s2..s4\", \"r\"]");
            let senders = ["s1", "s2", "s3", "s4"].into_iter().zip(targets);
            let apart: String = senders.map(|(from, to)| entry(from, to, keys)).collect();
            let (one, apart) = (run(&format!("{one}{behind}")), run(&format!("{apart}{behind}")));
            assert_eq!(format!("{one:?}"), format!("{apart:?}"), "{keys}");
        }
    }
}

#[test]
fn several_hosts_start_together_and_each_goes_on_by_itself() {
    let keys = "kind = \"bulk\"\nflows = 3\nstart = \"10 ms\"\nstagger = \"1 ms\"";
    let starts = |run: &Run, host| -> Vec<Time> {
        run.flows.iter().filter(|flow| flow.from == host).map(|flow| flow.start).collect()
    };
    let wanted = [10, 11, 12].map(Time::from_ms);
    let each = run(&entry("s1..s4", "r", &format!("{keys}\neach = true")));
    (0..4).for_each(|host| assert_eq!(starts(&each, host), wanted));
    assert!(each.flows.iter().all(|flow| flow.group == 0));
    // Without it they take turns.
    let all = run(&entry("s1..s4", "r", keys));
    assert_eq!(starts(&all, 1), [11, 15, 19].map(Time::from_ms));
    // A draw is one for all flows of a host.
    let keys = "kind = \"bulk\"\nflows = 3\nstart = \"10 ms\"\nstart_shift = \"5 ms\"\neach = true";
    let drawn = run(&entry("s1..s4", "r", keys));
    let of_host = |host| {
        let starts = starts(&drawn, host);
        assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
        starts[0]
    };
    let drawn: Vec<Time> = (0..4).map(of_host).collect();
    assert!(drawn.windows(2).all(|two| two[0] != two[1]), "{drawn:?}");
}

#[test]
fn with_one_sender_or_if_it_is_false_nothing_changes() {
    let keys = "kind = \"bulk\"\nflows = 3\nstagger = \"1 ms\"\nstart_jitter = \"1 ms\"";
    let debug = |from: &str, to: &str, more: &str| {
        format!("{:?}", run(&entry(from, to, &format!("{keys}\n{more}"))))
    };
    assert_eq!(debug("s1..s4", "r", ""), debug("s1..s4", "r", "each = false"));
    assert_eq!(debug("r", "s1..s4", ""), debug("r", "s1..s4", "each = true"));
}

#[test]
fn where_it_has_no_meaning_it_is_refused() {
    let error = |keys: &str| read(&entry("s1..s4", "r", keys)).unwrap_err().to_string();
    let both = error("kind = \"incast\"\nsize = \"1 kB\"\nall_to_all = true\neach = true");
    assert!(both.contains("traffic.a.each") && both.contains("all_to_all"), "{both}");
    let ping = error("kind = \"ping\"\ninterval = \"1 ms\"\neach = true");
    assert!(ping.contains("unknown key"), "{ping}");
    let number = error("kind = \"bulk\"\neach = 4");
    assert!(number.contains("traffic.a.each") && number.contains("true or false"), "{number}");
    let many = error("kind = \"bulk\"\neach = true\nflows = 300000");
    assert!(many.contains("at most 1000000 flows in all (4 pairs)"), "{many}");
}

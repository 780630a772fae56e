//! Tables of results: varied quantities are numbers, and a study of many rows stands on a screen.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_evidence::compare::{Options as How, Side, compare};
use knee_evidence::{overview, table};
use knee_scenario::{Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::report;
use knee_sweep::run_name::RunName;

use crate::common::*;

const FILE: &str = r#"question = "?"
cc = ["reno", "dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
bottleneck = { rate = "100 Mbps", queue = { kind = "step", limit = "200 pkts", k = "20 pkts" } }
return = { delay = "1 ms" }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1..s2"
to = "r"

[run]
duration = "20 ms"

[vary]
"#;

fn experiment(vary: &str) -> Arc<Experiment> {
    let text = format!("{FILE}{vary}");
    let parsed = Experiment::parse(Path::new("x.toml"), &text, &Overrides::default());
    Arc::new(parsed.unwrap_or_else(|error| panic!("{error}")))
}

const MIXED: &str = r#""network.return.delay" = ["500 us", "10 ms"]
"network.bottleneck.queue.k" = ["5 pkts", "30 kB"]
"hosts.tcp_ecn" = [1, 2]
"#;

#[test]
fn varied_quantities_are_numbers_with_the_unit_in_the_name_of_their_column() {
    let scratch = Scratch::new();
    let experiment = experiment(MIXED);
    let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
    let files = scratch.files("x");
    // K has values of two kinds, and no unit is theirs.
    let axes = "network.return.delay_s,network.bottleneck.queue.k,hosts.tcp_ecn";
    let starts = |file: &str, wanted: &str| {
        let line = files[file].lines().next().unwrap();
        assert!(line.starts_with(wanted), "{file}: {line}");
    };
    starts("summary.csv", &format!("case,{axes},subject,"));
    starts("runs.csv", &format!("run,case,{axes},repeat,"));
    starts("flows.csv", &format!("run,case,{axes},repeat,"));
    let row = files["summary.csv"].lines().nth(1).unwrap();
    assert!(row.starts_with("reno,0.0005,5 pkts,1,bulk,"), "{row}");
    let json = report::json(&experiment, &swept, &[], None);
    let at = &json["summary"].as_array().unwrap().last().unwrap()["at"];
    assert_eq!(at["network.return.delay_s"], 0.01);
    assert_eq!(at["network.bottleneck.queue.k"], "30 kB");
    assert_eq!(at["hosts.tcp_ecn"], 2);
    let manifest: serde_json::Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    let axis = &manifest["axes"][0];
    assert_eq!(axis["values"], serde_json::json!(["500 us", "10 ms"]));
    assert_eq!(axis["column"], "network.return.delay_s");
    assert_eq!(axis["numbers"], serde_json::json!([0.0005, 0.01]));
}

const TOGETHER: &str = r#"line = { "network.return.delay" = ["500 us", "10 ms"], "hosts.tcp_ecn" = [1, 2] }
"network.bottleneck.queue.k" = ["5 pkts", "30 kB"]
"#;

#[test]
fn keys_that_vary_together_are_one_column_and_their_rows_are_those_of_the_product() {
    let scratch = Scratch::new();
    let (together, product) = (experiment(TOGETHER), experiment(MIXED));
    let swept = run_into(&scratch, &together, &simulated()).unwrap();
    let files = scratch.files("x");
    let summary = &files["summary.csv"];
    assert!(summary.starts_with("case,vary.line,network.bottleneck.queue.k,subject,"), "{summary}");
    let last = summary.lines().last().unwrap();
    assert!(last.starts_with("dctcp,10 ms / 2,30 kB,"), "{last}");
    let json = report::json(&together, &swept, &[], None);
    let at = &json["summary"].as_array().unwrap().last().unwrap()["at"];
    assert_eq!(at["vary.line"], "10 ms / 2");
    let manifest: serde_json::Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    let axis = &manifest["axes"][0];
    assert_eq!(axis["values"], serde_json::json!(["500 us / 1", "10 ms / 2"]));
    assert_eq!(axis["keys"], serde_json::json!(["network.return.delay", "hosts.tcp_ecn"]));
    assert_eq!(manifest["vary"]["hosts.tcp_ecn"], serde_json::json!([1, 2]));
    let shown = overview::render(&together, &swept);
    let heading = shown.lines().find(|line| line.contains("case")).unwrap();
    assert!(heading.contains(" line ") && shown.contains(" 500 us / 1 "), "{shown}");
    // The name of a run knows values, not how the file says them.
    let names = |experiment: &Experiment| -> Vec<String> {
        let name =
            |number| RunName::of_number(experiment, number, &Simulator).unwrap().0.to_string();
        (0..experiment.runs()).map(name).collect()
    };
    let of_product = names(&product);
    let own: Vec<&String> = [0, 1, 4, 5, 10, 11, 14, 15].map(|row| &of_product[row]).into();
    assert_eq!(names(&together).iter().collect::<Vec<_>>(), own);
    // A directory is read back by the same names, and goes on with other rows.
    let side = || Side::read(&scratch.path().join("x")).unwrap();
    let compared = compare(side(), side(), How::default()).unwrap_or_else(|why| panic!("{why}"));
    let row = "case dctcp, line = 10 ms / 2, network.bottleneck.queue.k = 30 kB";
    assert!(compared.lines.iter().any(|line| line.row == row), "{:?}", compared.lines[0].row);
}

#[test]
fn a_directory_from_before_columns_had_units_compares_with_one_of_today() {
    let scratch = Scratch::new();
    let experiment = experiment("\"network.return.delay\" = [\"500 us\", \"10 ms\"]\n");
    run_into(&scratch, &experiment, &simulated()).unwrap();
    run_into(&scratch, &experiment, &simulated()).unwrap();
    let [today, before] = ["x", "x-2"].map(|name| scratch.path().join(name));
    let change = |file: &str, change: &dyn Fn(String) -> String| {
        let path = before.join(file);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    };
    change("runs.csv", &|text| {
        let text = text.replace("delay_s", "delay");
        text.replace(",0.0005,", ",500 us,").replace(",0.01,", ",10 ms,")
    });
    change("manifest.json", &|text| {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        manifest["format"] = 1.into();
        let axis = manifest["axes"][0].as_object_mut().unwrap();
        axis.remove("column");
        axis.remove("numbers");
        manifest.to_string()
    });
    let (a, b) = (Side::read(&today).unwrap(), Side::read(&before).unwrap());
    let compared = compare(a, b, How::default()).unwrap_or_else(|why| panic!("{why}"));
    let mut rows: Vec<&str> = compared.lines.iter().map(|line| line.row.as_str()).collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!(rows[0], "case dctcp, network.return.delay = 10 ms");
}

#[test]
fn a_study_of_64_rows_has_a_line_for_each() {
    let scratch = Scratch::new();
    let vary = "\"network.return.delay\" = [\"100 us\", \"200 us\", \"500 us\", \"1 ms\"]\n\
                \"network.bottleneck.queue.k\" = \"5..40 step 5 pkts\"\n";
    let experiment = experiment(vary);
    let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
    assert_eq!(swept.tables.len(), 64);
    let shown = overview::render(&experiment, &swept);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() <= 64 + 14, "{} lines:\n{shown}", lines.len());
    let head = lines.iter().find(|line| line.trim_start().starts_with("return.delay")).unwrap();
    for column in
        ["queue.k", "case", "bulk: goodput of a flow, Mbps", "switch-r: utilisation", "drops"]
    {
        assert!(head.contains(column), "{head}");
    }
    let of_rows = lines.iter().filter(|line| line.contains(" pkts ") && line.contains("dctcp"));
    assert_eq!(of_rows.count(), 32);
    assert!(lines.iter().all(|line| line.chars().count() <= 160), "{shown}");
    let all = table::render(&experiment, &swept);
    assert!(all.lines().count() > 128, "{all}");
}

#[test]
fn all_tables_have_every_recorded_queue_and_a_screen_says_what_it_leaves_out() {
    let file = FILE.replace(
        "topology = \"many-to-one\"\nsenders = 2\naccess = { rate = \"1 Gbps\" }",
        "topology = \"star\"\nhosts = 20\nup = { rate = \"1 Gbps\" }",
    );
    let file =
        file.replace("return = { delay = \"1 ms\" }\n", "").replace("bottleneck =", "down =");
    let file =
        file.replace("from = \"s1..s2\"\nto = \"r\"", "from = \"h1..h10\"\nto = \"h11..h20\"");
    let file = file.replace("\n[vary]\n", "");
    let scratch = Scratch::new();
    let experiment = parsed("x.toml", &file, &Overrides::default());
    let swept = run_into(&scratch, &experiment, &simulated()).unwrap();
    let count = swept.tables[0].subjects.iter().filter(|of| of.name.starts_with("switch-")).count();
    assert!(count > 8, "{count}");
    let all = table::render(&experiment, &swept);
    let rows = all.lines().filter(|line| line.contains(" switch-h")).count();
    assert_eq!(rows, 2 * count, "{all}");
    let fitting = overview::render(&experiment, &swept);
    let says = format!("\n{count} recorded queues: --tables all prints them; summary.csv\n");
    assert!(fitting.contains(&says) && !fitting.contains(" switch-h"), "{fitting}");
}

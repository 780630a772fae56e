//! Reports of what the simulator has run: a picture shows what the table beside it says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Every kind of traffic whose values have a distribution, at a slow link, so that some wait for a timer. Answers of a query
/// are shorter than the query, and those before the window are many.
const ALL_KINDS: &str = r#"question = "What is drawn?"
cc = ["cubic", "dctcp"]

[network]
topology = "star"
hosts = 12
up = { rate = "1 Gbps", delay = "10 us" }
down = { rate = "1 Gbps", delay = "10 us", queue = { kind = "step", limit = "60 kB", k = "30 kB" } }

[hosts]
rto_min = "10 ms"

[[traffic]]
name = "query"
kind = "query"
from = "h1"
to = "h2..h9"
total = "400 kB"
count = 120
request = "1 kB"

[[traffic]]
name = "rpc"
kind = "rpc"
from = "h10"
to = "h2..h5"
count = 400
response = "20 kB"
start = "95 ms"

[[traffic]]
name = "round"
kind = "incast"
from = "h2..h9"
to = "h11"
size = "30 kB"
rounds = 60
every = "5 ms"

[[traffic]]
name = "web"
kind = "poisson"
from = "h2..h9"
to = "h12"
sizes = [["10 kB", "60 %"], ["300 kB", "100 %"]]
load = "40 %"
of = "switch-h12"
until = "400 ms"

[[traffic]]
name = "recorded"
kind = "trace"
file = "flows.csv"

[[traffic]]
name = "training"
kind = "collective"
operation = "ring-all-reduce"
hosts = "h3..h6"
size = "200 kB"
iterations = 60

[[traffic]]
name = "ping"
kind = "ping"
from = "h10"
to = "h1"
interval = "2 ms"

[[traffic]]
name = "attempt"
kind = "attempts"
from = "h10"
to = "h12"
count = 80
start = "50 ms"
until = "250 ms"
deadline = "500 ms"

[[traffic]]
name = "upload"
kind = "bulk"
from = "h2..h5"
to = "h1"
size = "100 kB"
flows = 20
start_jitter = "300 ms"

[run]
duration = "600 ms"
measure_from = "100 ms"
measure_until = "500 ms"
repeat = 2
"#;

/// A directory with an experiment, its results in `x`, and what is made of them.
struct Scratch(TempDir);

impl Scratch {
    /// Runs an experiment.
    fn of(experiment: &str) -> Scratch {
        let scratch = Scratch(tempfile::tempdir().unwrap());
        fs::write(scratch.at("x.toml"), experiment).unwrap();
        let mut rows = String::from("id,start_us,from,to,bytes,after,gap_us\n");
        for i in 0..80 {
            rows += &format!("t{i},{},h{},h12,{},,\n", 1000 * i, 2 + i % 8, 5_000 + 100 * i);
        }
        fs::write(scratch.at("flows.csv"), rows).unwrap();
        scratch.knee(&["run", "x.toml", "-o", "x"]);
        scratch
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn knee(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        let command = command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "knee {}: {said}", args.join(" "));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Rows of a CSV file as cells by name.
fn rows(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().unwrap().collect();
    let with_names = |cells: std::str::Split<'_, char>| {
        let cells = names.iter().zip(cells);
        cells.map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect()
    };
    lines.map(with_names).collect()
}

fn cell<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    row.iter().find(|(of, _)| of == name).map(|(_, cell)| cell.as_str()).unwrap()
}

#[test]
fn a_drawn_distribution_has_the_percentiles_of_the_table_for_every_kind_of_traffic() {
    let scratch = Scratch::of(ALL_KINDS);
    scratch.knee(&["report", "x", "--figures", "figures"]);
    let summary = rows(&scratch.at("x/summary.csv"));
    let mut drawn = BTreeSet::new();
    for file in fs::read_dir(scratch.at("figures")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(about) = name.strip_prefix("x-cdf-").and_then(|name| name.strip_suffix(".csv"))
        else {
            continue;
        };
        let curve = rows(&path);
        let (at_most, _) = curve[0].iter().find(|(name, _)| name.starts_with("at_most")).unwrap();
        let is_of = |row: &&Vec<(String, String)>| {
            let heading = match cell(row, "metric") {
                "completion" => "completion time",
                "rtt" => "round-trip time",
                "job" => "job completion time",
                "iteration" => "time of an iteration",
                "communication" => "communication time of an iteration",
                "last" => "time until the last of a round is complete",
                other => other,
            };
            let id = format!("{} {heading}", cell(row, "subject")).replace(['/', ' ', '\''], "-");
            id == about
        };
        let of_figure: Vec<_> = summary.iter().filter(is_of).collect();
        assert_eq!(of_figure.len(), 2, "{about}: a row for each algorithm");
        for row in of_figure {
            for (stat, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
                let Ok(wanted) = cell(row, stat).parse::<f64>() else { continue };
                let case = cell(row, "case");
                let of_case = curve.iter().filter(|point| cell(point, "case") == case);
                let mut at =
                    of_case.filter(|point| cell(point, "share").parse::<f64>().unwrap() >= share);
                let shown: f64 = cell(at.next().unwrap(), at_most).parse().unwrap();
                assert!(
                    (shown / wanted - 1.0).abs() < 0.012,
                    "{about}, {case}: {stat} is {wanted} in the table, and {shown} drawn"
                );
                drawn.insert(about.to_owned());
            }
        }
    }
    for wanted in [
        "query-latency",
        "rpc-latency",
        "attempt-latency",
        "round-completion-time",
        "round-time-until-the-last-of-a-round-is-complete",
        "web-completion-time",
        "web-slowdown",
        "web-small-completion-time",
        "recorded-completion-time",
        "training-time-of-an-iteration",
        "ping-round-trip-time",
        "upload-completion-time",
    ] {
        assert!(drawn.contains(wanted), "{wanted}: {drawn:?}");
    }
    // Whatever a figure says, its values are as many as the table's.
    let counts = rows(&scratch.at("x/distributions.csv"));
    for row in &summary {
        let of = |row: &[(String, String)]| {
            ["case", "subject", "metric"].map(|name| cell(row, name).to_owned())
        };
        let of_row = counts.iter().filter(|counted| of(counted) == of(row));
        let sum: u64 = of_row.map(|counted| cell(counted, "count").parse::<u64>().unwrap()).sum();
        assert!(sum == 0 || sum.to_string() == cell(row, "values"), "{:?}: {sum}", of(row));
    }
}

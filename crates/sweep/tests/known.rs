//! What a run does not tell is absent or a bound: what the end of a run cut off, and what a host does not count.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;

use knee_queue::time::Duration;
use knee_run::Run;
use knee_run::outcome::Outcome;
use knee_scenario::Overrides;

use crate::common::*;

/// A column of a table by subject and metric. What is empty is not in it.
struct Table(BTreeMap<(String, String), BTreeMap<String, String>>);

impl Table {
    fn of(files: &BTreeMap<String, String>, name: &str) -> Table {
        let mut lines = files[name].lines().map(|line| line.split(','));
        let header: Vec<&str> = lines.next().unwrap().collect();
        let rows = lines.map(|cells| {
            let cells = header.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
            let row: BTreeMap<String, String> =
                cells.map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect();
            ((row["subject"].clone(), row["metric"].clone()), row)
        });
        Table(rows.collect())
    }

    fn at(&self, metric: &str, column: &str) -> Option<f64> {
        let row = self.0.get(&("it".to_owned(), metric.to_owned()))?;
        Some(row.get(column)?.parse().unwrap())
    }
}

fn files(
    text: &str,
    of_run: fn(&Run) -> Result<Outcome, knee_run::Error>,
) -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let options = knee_sweep::runs::Options::new(std::sync::Arc::new(Fake(of_run)));
    // An algorithm for pings alone would act on nothing.
    let has_connections =
        text.matches("\nkind = ").count() > text.matches("kind = \"ping\"").count();
    let cc = if has_connections { "" } else { "cc = [\"dctcp\"]\n" };
    let text = format!("{STAR}{text}").replacen(cc, "", 1);
    let experiment = parsed("x.toml", &text, &Overrides::default());
    run_into(&scratch, &experiment, &options).unwrap();
    scratch.files("x")
}

fn simulated(run: &Run) -> Result<Outcome, knee_run::Error> {
    knee_sim::simulate(run)
}

/// Summary of a simulated run: keys of the traffic entry `it`, and tables.
fn summary(traffic: &str) -> Table {
    let text = format!("[[traffic]]\nname = \"it\"\n{traffic}");
    Table::of(&files(&text, simulated), "summary.csv")
}

/// A link that is down for a time.
fn down(from: &str, until: &str) -> String {
    format!(
        "[[network.change]]\nlinks = \"switch-h1\"\nat = \"{from}\"\nuntil = \"{until}\"\ndown = true\n"
    )
}

#[test]
fn a_lost_syn_is_no_timeout_of_the_exchange_at_the_end() {
    // The SYN is sent again after 1 s. The end cuts off an exchange like all those before it.
    let more = format!("{}[run]\nduration = \"1100005 us\"\n", down("0 ms", "10 ms"));
    for keys in [
        "kind = \"rpc\"\nresponse = \"20 kB\"\nfrom = \"h2\"\nto = \"h1\"\n",
        "kind = \"query\"\nresponse = \"20 kB\"\nfrom = \"h4\"\nto = \"h1..h3\"\n",
    ] {
        let summary = summary(&format!("{keys}{more}"));
        assert_eq!(summary.at("timeouts", "mean"), Some(1.0), "{keys}");
        assert_eq!(summary.at("unfinished", "mean"), Some(0.0), "{keys}");
        assert_eq!(summary.at("latency", "cut_off"), Some(0.0), "{keys}");
        let share = keys.contains("query").then_some(0.0);
        assert_eq!(summary.at("timeout_share", "mean"), share, "{keys}");
    }
}

#[test]
fn a_round_cut_off_in_a_timeout_counts_in_their_share() {
    let keys = "kind = \"incast\"\nfrom = \"h2..h4\"\nto = \"h1\"\nsize = \"100 kB\"\nrounds = 3\n";
    let more = format!(
        "{}[run]\nduration = \"120 ms\"\n[hosts]\nrto_min = \"10 ms\"\n",
        down("4 ms", "1 s")
    );
    let text = format!("[[traffic]]\nname = \"it\"\n{keys}{more}");
    let of = |of_run| Table::of(&files(&text, of_run), "summary.csv");
    let known = of(simulated);
    assert!(known.at("timeouts", "mean") > Some(0.0));
    assert_eq!((known.at("last", "values"), known.at("last", "cut_off")), (Some(1.0), Some(1.0)));
    assert_eq!(known.at("timeout_share", "mean"), Some(0.5));
    // Hosts that do not tell of one connection that has begun tell of no share.
    let of_one = of(|run| {
        let mut outcome = simulated(run)?;
        outcome.flows[0].counters.timeouts = None;
        Ok(outcome)
    });
    assert_eq!((of_one.at("timeouts", "mean"), of_one.at("timeout_share", "mean")), (None, None));
    let of_later = of(|run| {
        let mut outcome = simulated(run)?;
        outcome.flows.iter_mut().skip(6).for_each(|flow| flow.counters.timeouts = None);
        Ok(outcome)
    });
    assert_eq!(of_later.at("timeout_share", "mean"), Some(0.5));
}

const PING: &str = "kind = \"ping\"\nfrom = \"h2\"\nto = \"h1\"\ninterval = \"1 ms\"\n";

#[test]
fn pings_that_nothing_answers_took_at_least_their_age() {
    let more = format!("{}[run]\nduration = \"100 ms\"\n", down("60500 us", "1 s"));
    let rtt = summary(&format!("{PING}{more}"));
    assert_eq!(rtt.at("rtt", "values"), Some(60.0));
    let lost = rtt.at("unanswered", "mean").unwrap();
    assert!((39.0..=40.0).contains(&lost), "{lost}");
    // The last one was perhaps under way.
    assert!(rtt.at("rtt", "cut_off").is_some_and(|count| (lost - 1.0..=lost).contains(&count)));
    assert!(rtt.at("rtt", "p50").is_some_and(|p50| p50 < 1e-3));
    for figure in ["mean", "p95", "max"] {
        assert_eq!(rtt.at("rtt", figure), None, "{figure}");
        let bound = rtt.at("rtt", &format!("{figure}_at_least"));
        assert!(bound.is_some_and(|bound| bound > 5e-3), "{figure} {bound:?}");
    }
}

#[test]
fn a_ping_under_way_at_the_end_is_no_news_and_one_overtaken_is() {
    let run = format!("{PING}[run]\nduration = \"100010 us\"\n");
    let rtt = summary(&run);
    assert_eq!((rtt.at("unanswered", "mean"), rtt.at("rtt", "cut_off")), (Some(1.0), Some(0.0)));
    assert!(rtt.at("rtt", "max").is_some());
    let text = format!("[[traffic]]\nname = \"it\"\n{run}");
    let overtaken = files(&text, |run| {
        let mut outcome = simulated(run)?;
        // The first took longer than any other is old.
        outcome.pings[0].rtt = Some(Duration::from_ms(99));
        outcome.pings[97].rtt = None;
        Ok(outcome)
    });
    let rtt = Table::of(&overtaken, "summary.csv");
    assert_eq!((rtt.at("unanswered", "mean"), rtt.at("rtt", "cut_off")), (Some(2.0), Some(1.0)));
}

#[test]
fn an_exchange_that_still_waits_for_a_timer_is_late() {
    let again = down("900 ms", "2 s").replace("[[network.change]]", "\n[[network.change]]");
    let more = format!("{}{again}[run]\nduration = \"1500 ms\"\n", down("100 ms", "400 ms"));
    let keys = "kind = \"rpc\"\nresponse = \"20 kB\"\nfrom = \"h2\"\nto = \"h1\"\n";
    let files = files(&format!("[[traffic]]\nname = \"it\"\n{keys}{more}"), simulated);
    let measures = Table::of(&files, "measures.csv");
    assert_eq!(measures.at("latency", "cut_off"), Some(1.0));
    assert_eq!(
        (measures.at("latency", "late"), measures.at("latency", "late_mean")),
        (Some(2.0), None)
    );
}

#[test]
fn nothing_is_faster_than_possible() {
    let keys = "kind = \"poisson\"
from = \"h2..h3\"
to = \"h1\"
sizes = \"web-search\"
load = \"50 %\"
of = \"h2..h3\"
until = \"20 ms\"
";
    let files =
        files(&format!("[[traffic]]\nname = \"it\"\n{keys}[run]\nduration = \"20 ms\"\n"), |run| {
            let mut outcome = simulated(run)?;
            for flow in &mut outcome.flows {
                flow.done_at = None;
                flow.stopped_at = flow.connected_at.map(|at| at + Duration::from_us(1));
            }
            Ok(outcome)
        });
    let slowdown = Table::of(&files, "summary.csv");
    assert!(slowdown.at("slowdown", "cut_off") > Some(0.0));
    assert_eq!(slowdown.at("slowdown", "mean_at_least"), Some(1.0));
}

#[test]
fn nothing_is_counted_in_a_window_without_length() {
    let bulk = |from: &str, start: &str| {
        format!(
            "[[traffic]]\nname = \"{from}\"\nkind = \"bulk\"\nfrom = \"{from}\"\nto = \"h1\"\nsize = \"100 kB\"\nstart = \"{start}\"\n"
        )
    };
    let [first, second] = [bulk("h2", "0 ms"), bulk("h3", "50 ms")];
    let run = "[run]\nduration = \"100 ms\"\nmeasure = \"while all run\"\n";
    for (keys, counts) in [
        (
            "kind = \"rpc\"\nresponse = \"20 kB\"\nfrom = \"h4\"\nto = \"h1\"\n",
            vec!["exchanges", "latency"],
        ),
        (
            "kind = \"query\"\nresponse = \"20 kB\"\nfrom = \"h4\"\nto = \"h1..h2\"\n",
            vec!["exchanges", "latency", "timeout_share"],
        ),
        (&PING.replace("1 ms", "100 us"), vec!["unanswered", "rtt"]),
    ] {
        let of = |others: &str| {
            let files =
                files(&format!("[[traffic]]\nname = \"it\"\n{keys}{others}{run}"), simulated);
            (Table::of(&files, "summary.csv"), runs(&files))
        };
        let (alone, window) = of(&format!("{first}{second}"));
        for metric in &counts {
            assert_eq!(alone.at(metric, "runs"), None, "{keys} {metric}");
        }
        assert_eq!(window["measured_from_s"], window["measured_until_s"]);
        let (both, window) = of(&first);
        for metric in &counts {
            assert_eq!(both.at(metric, "runs"), Some(1.0), "{keys} {metric}");
        }
        assert!(window["measured_from_s"] < window["measured_until_s"], "{window:?}");
    }
}

/// The only row of `runs.csv`.
fn runs(files: &BTreeMap<String, String>) -> BTreeMap<String, f64> {
    let lines: Vec<Vec<&str>> =
        files["runs.csv"].lines().map(|row| row.split(',').collect()).collect();
    let cells = lines[0].iter().zip(&lines[1]);
    cells.filter_map(|(name, cell)| Some(((*name).to_owned(), cell.parse().ok()?))).collect()
}

//! `knee run --on lab` as a user meets it: what it leaves behind, and whether it agrees with the simulator.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use knee_netns::Namespace;
use knee_netns::netlink::{LinkSettings, Netlink, VethEnd, new_veth};
use knee_scenario::metric::Metric;
use knee_testbed::{kernel_is_ready, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Labs take the CPUs from each other: a test that has one waits for those of the others.
static LAB: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    LAB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gone with the test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

fn knee(line: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.current_dir(root).args(line.split(' ')).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Numbers of the threads of a process that are in namespaces of their own.
fn threads_inside(pid: u32) -> Vec<u32> {
    let own = fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.filter(|tid| {
        let theirs = fs::read_link(format!("/proc/{pid}/task/{tid}/ns/net")).ok();
        theirs.is_some() && theirs != own
    })
    .collect()
}

/// Names of congestion controls that a process of knee's lab has in the kernel.
fn registered_by(pid: u32) -> BTreeSet<String> {
    let all = knee_bpf::registered().unwrap();
    let prefix = format!("kl{pid}_");
    all.into_iter().map(|one| one.name).filter(|name| name.starts_with(&prefix)).collect()
}

/// A lab in the middle of its first run, and a cable into each of its namespaces: when the kernel has really taken one down,
/// the near end is gone, too.
struct AtWork {
    child: Child,
    cables: Netlink,
    namespaces: usize,
    _watch: Namespace,
}

impl AtWork {
    fn start(dir: &str) -> AtWork {
        let mut command = knee("run tests/lab/bulk-mix.toml --on lab --cc cubic");
        command.args(["--set", "traffic.long.size=\"400 MB\"", "-o", dir]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        // Four hosts and the switch; the calibration before has two.
        wait_until("the run's hosts are there", || threads_inside(pid).len() >= 5);
        wait_until("its algorithm is loaded", || !registered_by(pid).is_empty());
        let tids = threads_inside(pid);
        let watch = Namespace::new().unwrap();
        let namespaces = tids.len();
        let cables = watch.run(move || {
            let kernel = Netlink::open().unwrap();
            for (number, tid) in tids.into_iter().enumerate() {
                let settings = LinkSettings::default();
                let near = VethEnd { name: &format!("w{number}"), namespace_of: None, settings };
                let far = VethEnd { name: "watched", namespace_of: Some(tid as i32), settings };
                kernel.ask(&new_veth(&near, &far)).unwrap();
            }
            kernel
        });
        thread::sleep(Duration::from_millis(500));
        AtWork { child, cables, namespaces, _watch: watch }
    }

    fn devices(&self) -> usize {
        self.cables.link_stats().unwrap().len()
    }

    /// Ends it by a signal; nothing may be left.
    fn end(mut self, signal: Signal) -> Output {
        let pid = self.child.id();
        assert_eq!(self.devices(), 1 + self.namespaces);
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let output = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut stderr = Vec::new();
                use std::io::Read as _;
                let pipe = self.child.stderr.as_mut().unwrap();
                pipe.read_to_end(&mut stderr).unwrap();
                break Output { status, stdout: Vec::new(), stderr };
            }
            thread::sleep(Duration::from_millis(10));
        };
        wait_until("the kernel has taken down its namespaces", || self.devices() == 1);
        assert_eq!(registered_by(pid), BTreeSet::new());
        output
    }
}

#[test]
fn nothing_is_left_of_a_lab_that_is_killed() {
    if !kernel_is_ready() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    AtWork::start(&scratch.path("out")).end(Signal::KILL);
    // And the next one begins as if it had never been.
    let output = knee(&format!(
        "run tests/lab/incast.toml --on lab --cc cubic --repeat 1 -o {}",
        scratch.path("next")
    ))
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn ctrl_c_ends_a_lab_and_says_what_is_kept() {
    if !kernel_is_ready() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let output = AtWork::start(&scratch.path("out")).end(Signal::INT);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("stopped before a run finished"), "{said}");
}

#[test]
fn two_labs_at_once_do_not_collide() {
    if !kernel_is_ready() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let labs: Vec<Child> = ["a", "b"]
        .map(|name| {
            let dir = scratch.path(name);
            let line = format!("run tests/lab/incast.toml --on lab --repeat 1 -o {dir}");
            knee(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .into();
    for lab in labs {
        let output = lab.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// Figures that simulator and lab must agree on, within 10 % or what chance explains. 10 % and not the 5 % that the simulator is
/// held to by runs without noise: a host's work adds some tens of us to each round trip of 1 ms, and hosts that share a CPU
/// start one after the other. Counts of losses and probes, which a ms decides, are reported and not held.
const HELD: [&str; 6] = ["completion", "last", "goodput", "jain", "queue", "utilisation"];
/// Those of the measured window. Losses there are many, of flows without end, so that no single ms decides.
const HELD_OF_WINDOW: [&str; 5] =
    ["window_drops", "window_marks", "window_retransmits", "window_ce_share", "window_utilisation"];
/// The others of the window, and why they are not held.
const NOT_HELD_OF_WINDOW: [(&str, &str); 2] = [
    ("window_timeouts", "a ms decides about each of the few"),
    ("window_recoveries", "no kernel tells of a connection"),
];

/// Least share of a row's runs that must be valid for the row to be compared: those that a busy machine lets by are not a fair draw,
/// and what spoils some of them is in the others too, as pacing timers that are late by less than is counted.
const VALID_SHARE: f64 = 0.75;

/// Runs of each row in a round of the lab. They take as long as they take, in real time.
const RUNS_OF_ROUND: u32 = 5;

/// What simulator and lab say of the same file, with the verdicts of `knee compare`. A difference counts that three rounds of the lab
/// show: a kernel that leaves out calls of algorithms (docs/kernels.md) spoils runs in ways that no run can see.
/// `look` is shown the directory of one run of each row, valid or not.
fn compare(name: &str, look: fn(&str)) {
    if !kernel_is_ready() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let file = format!("tests/lab/{name}.toml");
    let limited = |dir: &str, repeat: u32| {
        let line = format!("run {file} --on lab --attempts 2 --repeat {repeat} -o {dir} --json");
        let why = host_limited(&run_json(&line))?;
        // A machine that others use as well may never keep time; that is no difference between the two.
        use std::io::Write as _;
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED: {name}: too few of two attempts were valid: {why}").unwrap();
        Some(())
    };
    // A machine that cannot do one run of each need not try more.
    let one = scratch.path("one");
    let is_limited = limited(&one, 1).is_some();
    look(&one);
    if is_limited {
        return;
    }
    let sim = scratch.path("sim");
    run_json(&format!("run {file} --profile running --repeat 30 -o {sim} --json"));
    let mut differ: Option<Vec<serde_json::Value>> = None;
    for round in ["first", "second", "third"] {
        let lab = scratch.path(round);
        if limited(&lab, RUNS_OF_ROUND).is_some() {
            return;
        }
        let found = differences(&sim, &lab);
        let is_again = |figure: &serde_json::Value| {
            let before = differ.as_ref();
            before.is_none_or(|before| before.iter().any(|prior| is_same_figure(prior, figure)))
        };
        let again: Vec<_> = found.into_iter().filter(is_again).collect();
        if again.is_empty() {
            return;
        }
        differ = Some(again);
    }
    panic!("{:#?}", differ.unwrap_or_default());
}

/// What `knee LINE` prints; it must have been done.
fn run_json(line: &str) -> serde_json::Value {
    let output = knee(line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why rows of a run say more of the host than of the algorithms.
fn host_limited(ran: &serde_json::Value) -> Option<String> {
    ran["summary"].as_array().unwrap().iter().find_map(|row| {
        let count = |key: &str| row["verdict"][key].as_f64().unwrap();
        let (valid, limited) = (count("valid_runs"), count("host_limited_runs"));
        (valid < VALID_SHARE * (valid + limited)).then(|| {
            format!(
                "{}: {valid} of {} runs: {}",
                row["case"],
                valid + limited,
                row["verdict"]["reason"]
            )
        })
    })
}

/// Held figures that differ.
fn differences(sim: &str, lab: &str) -> Vec<serde_json::Value> {
    let output = knee(&format!("compare {sim} {lab} --within 10% --json")).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", text(&output));
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut held = compared["figures"].as_array().unwrap().clone();
    held.retain(|figure| {
        let metric = figure["metric"].as_str().unwrap();
        HELD.iter().chain(&HELD_OF_WINDOW).any(|held| metric.starts_with(held))
    });
    assert!(held.iter().any(|figure| figure["verdict"] == "agree"), "{}", text(&output));
    held.retain(|figure| figure["verdict"] == "differ");
    held
}

fn is_same_figure(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    ["row", "subject", "metric"].iter().all(|key| a[key] == b[key])
}

#[test]
fn the_simulator_agrees_with_the_lab_on_bulk_transfers_beside_short_ones() {
    compare("bulk-mix", |_| ());
}

#[test]
fn the_simulator_agrees_with_the_lab_on_what_is_counted_in_the_measured_window() {
    compare("window", counts_of_the_window_are_a_part_of_those_of_the_run);
}

#[test]
fn every_metric_of_the_window_is_held_or_has_a_reason() {
    let listed = NOT_HELD_OF_WINDOW.iter().map(|(metric, _)| *metric).chain(HELD_OF_WINDOW);
    let mut listed: Vec<&str> = listed.collect();
    let mut all: Vec<&str> = Metric::ALL
        .iter()
        .map(|metric| metric.name())
        .filter(|name| name.starts_with("window_"))
        .collect();
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all);
}

/// Whether or not the machine has kept time.
fn counts_of_the_window_are_a_part_of_those_of_the_run(lab: &str) {
    let measures = fs::read_to_string(format!("{lab}/measures.csv")).unwrap();
    // Run 0 is Reno's, run 1 DCTCP's.
    let mean = |run: usize, subject: &str, metric: &str| -> Option<f64> {
        let start = format!("{run},{subject},{metric},");
        let row = measures.lines().find(|line| line.starts_with(&start))?;
        row.split(',').nth(5)?.parse().ok()
    };
    for (run, subject, metric) in [
        (0, "switch-r", "drops"),
        (0, "bulk", "retransmits"),
        (0, "bulk", "timeouts"),
        (1, "switch-r", "marks"),
    ] {
        let of_run = mean(run, subject, metric).unwrap();
        let of_window = mean(run, subject, &format!("window_{metric}")).unwrap();
        // Of the few timeouts of a run all may lie in the window, or none.
        let is_a_part = match metric {
            "timeouts" => of_window <= of_run,
            _ => 0.0 < of_window && of_window < of_run,
        };
        assert!(is_a_part, "{metric}: {of_window} of {of_run}");
    }
    assert_eq!(mean(0, "bulk", "window_recoveries"), None, "no kernel tells of a connection");
    for held in HELD_OF_WINDOW {
        assert!(measures.contains(&format!(",{held},")), "the lab does not measure {held}");
    }
    // What samples say at the same moments.
    let samples = fs::read_to_string(format!("{lab}/series-queues.csv")).unwrap();
    let dropped = |at: &str| -> f64 {
        let start = format!("0,{at},switch-r,");
        let row = samples.lines().find(|line| line.starts_with(&start)).unwrap();
        row.split(',').nth(5).unwrap().parse().unwrap()
    };
    let until_end = mean(0, "switch-r", "window_drops").unwrap();
    let since = dropped("2.995000000") - dropped("1.000000000");
    let rest = mean(0, "switch-r", "drops").unwrap() - dropped("2.995000000");
    assert!((since..=since + rest).contains(&until_end), "{since} + {rest}: {until_end}");
}

#[test]
fn the_simulator_agrees_with_the_lab_on_incast() {
    compare("incast", |_| ());
}

#[test]
fn transfers_that_wait_for_others_have_their_turn_in_the_lab() {
    if !kernel_is_ready() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    for (file, sets, wanted) in [
        ("queries", ["query.count=5", "query.to=\"h2..h6\""], "query,exchanges,,1,5,"),
        // 16 hosts to 15 others each.
        ("fat-tree", ["shuffle.size=\"50 kB\"", "shuffle.parallel=2"], "shuffle,completion,s,240,"),
    ] {
        let dir = scratch.path(file);
        let line = format!("run scenarios/examples/{file}.toml --on lab --repeat 1 --cc dctcp");
        let mut command = knee(&line);
        command.args(sets.iter().flat_map(|set| ["--set".to_owned(), format!("traffic.{set}")]));
        // The rates of a fat tree are more than a busy machine can do.
        let output = command.args(["--scale", "0.05", "-o", &dir]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let measures = fs::read_to_string(format!("{dir}/measures.csv")).unwrap();
        assert!(measures.contains(wanted), "{file}: {measures}");
    }
}

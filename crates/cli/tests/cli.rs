//! The command as people and programs use it: output, exit codes, signals, closed pipes, full disks.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SMALL: &str = r#"question = "Who waits?"
cc = ["cubic", "dctcp"]

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "200 pkts", k = "20 pkts" } }

[[traffic]]
name = "both"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "200 kB"
start_jitter = "100 us"

[run]
duration = "2 s"
until_done = true
repeat = 3
"#;

/// A directory to run in, with the file `small.toml`; it goes away.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("small.toml"), SMALL).unwrap();
        Scratch(dir)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn knee(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn lines_of(&self, file: &str) -> usize {
        fs::read_to_string(self.0.path().join(file)).unwrap().lines().count()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn much_memory_is_said_before_the_run_and_too_much_is_refused() {
    let scratch = Scratch::new();
    let series = |period: &str| format!("{SMALL}[sample]\nflows = \"{period}\"\n");
    fs::write(scratch.0.path().join("much.toml"), series("1 us")).unwrap();
    fs::write(scratch.0.path().join("some.toml"), series("2 us").replace("repeat = 3", ""))
        .unwrap();
    let said = "up to 752 MB of memory per run for samples, mostly for 2000000 samples of flows (sample.flows)";
    let some = ["run", "some.toml", "--cc", "cubic"];
    let output = scratch.knee(&some);
    assert!(
        output.status.success() && err(&output).contains(&format!("knee: some: {said}")),
        "{}",
        err(&output)
    );
    let checked = out(&scratch.knee(&[&some[..], &["--check"]].concat()));
    assert!(checked.contains(&format!("with --on sim, {said}")), "{checked}");
    let much = scratch.knee(&["run", "much.toml", "--set", "run.duration=\"10 s\""]);
    assert_eq!(much.status.code(), Some(2));
    assert!(err(&much).contains("allow more with knee run --memory"), "{}", err(&much));
    let words = out(&scratch.knee(&["explain", "./some.toml"]));
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    // DCTCP's samples have more values.
    assert!(words.contains(&said.replace("752", "784")), "{words}");
    assert!(words.contains("knee run --trace ENTRY records each call of an algorithm"), "{words}");
}

#[test]
fn run_prints_tables_and_keeps_results() {
    let scratch = Scratch::new();
    let output = scratch.knee(&["run", "small.toml"]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let text = out(&output);
    for part in
        ["small: Who waits?", "both: completion time, ms", "  cubic  ", "  dctcp  ", "6 runs in "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with("results in results/small\n"), "{text}");
    assert_eq!(scratch.lines_of("results/small/flows.csv"), 1 + 2 * 3 * 2);

    let again = scratch.knee(&["run", "small.toml"]);
    assert!(out(&again).ends_with("results in results/small-2\n"));
    let same = |file: &str| {
        let read =
            |dir: &str| fs::read(scratch.0.path().join("results").join(dir).join(file)).unwrap();
        read("small") == read("small-2")
    };
    assert!(same("flows.csv") && same("summary.csv") && same("runs.csv"));
}

#[test]
fn json_has_the_summary_and_the_effort() {
    let scratch = Scratch::new();
    let output = scratch.knee(&[
        "run",
        "small.toml",
        "--json",
        "--repeat",
        "2",
        "--seed",
        "5",
        "-o",
        "here",
    ]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let simulator = json["simulator"].as_object().unwrap();
    let keys: Vec<_> = simulator.keys().map(String::as_str).collect();
    assert_eq!(keys, ["cpu_s", "wall_s", "events", "data_pkts", "pkt_hops", "peak_rss_bytes"]);
    assert!(simulator.values().all(|value| value.as_f64().is_some_and(|value| value > 0.0)));
    assert_eq!(
        (&json["seed"], &json["runs_done"], &json["results"]),
        (&5.into(), &4.into(), &"here".into())
    );
    let completion = &json["summary"][1]["subjects"][0]["metrics"]["completion"];
    assert_eq!((&completion["unit"], &completion["values"]), (&"s".into(), &4.into()));
    let mean = completion["mean"].as_f64().unwrap();
    assert!((1e-3..1e-1).contains(&mean), "{mean}");
    assert!(scratch.0.path().join("here/manifest.json").exists());
}

#[test]
fn cases_and_keys_can_be_set() {
    let scratch = Scratch::new();
    let output = scratch.knee(&[
        "run",
        "small.toml",
        "--cc",
        "reno",
        "--set",
        "traffic.both.size=\"10 kB\"",
        "--set",
        "network.bottleneck.rate=10 Gbps",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let cases: Vec<_> =
        json["summary"].as_array().unwrap().iter().map(|row| &row["case"]).collect();
    assert_eq!(cases, ["reno"]);
    let flows = fs::read_to_string(scratch.0.path().join("results/small/flows.csv")).unwrap();
    assert!(flows.lines().skip(1).all(|line| line.contains(",10000,reno,reno,")), "{flows}");
}

#[test]
fn what_cannot_run_is_one_sentence_and_exit_2() {
    let scratch = Scratch::new();
    fs::write(scratch.0.path().join("bad.toml"), SMALL.replace("senders", "sendres")).unwrap();
    for (args, expected) in [
        (
            vec!["run", "bad.toml"],
            "knee: bad.toml:6: network.sendres: unknown key; did you mean \"senders\"?\n",
        ),
        (
            vec!["run", "small.toml", "--on", "ns3"],
            "knee: --on ns3: must be sim, vkernel, lab or hosts=FILE\n",
        ),
        (
            vec!["run", "small.toml", "--scale", "2"],
            "knee: --scale 2: must be above 0 and at most 1, as in 0.1\n",
        ),
        (
            vec!["run", "small.toml", "--profile", "5.4"],
            "knee: --profile 5.4: must be running or one of 6.1, 6.12, 6.18, 7.3\n",
        ),
        (
            vec!["run", "small.toml", "--attempts", "3"],
            "knee: --attempts is for --on lab and --on hosts=FILE: no host limits a simulation\n",
        ),
        (
            vec!["run", "none.toml"],
            "knee: none.toml: cannot read: No such file or directory (os error 2)\n",
        ),
        (vec!["run", "."], "knee: .: is a directory, not an experiment file\n"),
        (
            vec!["run", "small.toml", "-o", "small.toml"],
            "knee: small.toml: cannot make: File exists (os error 17)\n",
        ),
    ] {
        let output = scratch.knee(&args);
        assert_eq!((err(&output).as_str(), output.status.code()), (expected, Some(2)), "{args:?}");
        assert_eq!(out(&output), "");
    }
    // No file runs if one of them is bad.
    assert_eq!(scratch.knee(&["run", "small.toml", "bad.toml"]).status.code(), Some(2));
    assert!(!scratch.0.path().join("results").exists());
    for args in [vec!["run"], vec!["fly"], vec!["run", "small.toml", "--repeat", "0"], vec![]] {
        assert_eq!(scratch.knee(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn results_are_set_side_by_side() {
    let scratch = Scratch::new();
    let run = |dir: &str, more: &[&str]| {
        let output = scratch.knee(&[&["run", "small.toml", "-o", dir], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    };
    run("a", &[]);
    run("b", &["--profile", "6.1"]);
    run("slow", &["--set", "network.bottleneck.rate=100 Mbps"]);
    let same = scratch.knee(&["compare", "a", "b"]);
    assert_eq!((same.status.code(), err(&same).as_str()), (Some(0), ""));
    assert!(out(&same).contains("0 differ, 0 undecided, "), "{}", out(&same));
    let refused = scratch.knee(&["compare", "a", "slow"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(2), ""));
    assert!(err(&refused).starts_with("knee: slow: is not the experiment of a: "));
    let differ = scratch.knee(&["compare", "a", "b", "slow", "--force", "--json"]);
    assert_eq!(differ.status.code(), Some(1));
    let lines: Vec<serde_json::Value> =
        out(&differ).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["differ"], lines.len()), (&0.into(), 2));
    assert_eq!(lines[1]["figures"][0]["verdict"], "differ");
    // As a lab whose host limited every run leaves it.
    let runs = fs::read_to_string(scratch.0.path().join("b/runs.csv")).unwrap();
    let limited = runs.replace(",,\n", ",host-limited,too slow\n");
    assert_ne!(limited, runs);
    fs::write(scratch.0.path().join("b/runs.csv"), limited).unwrap();
    let refused = scratch.knee(&["compare", "a", "b"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(2), ""));
    assert!(err(&refused).contains("host-limited") && err(&refused).contains("with --force"));
    let forced = scratch.knee(&["compare", "a", "b", "--force"]);
    assert_eq!((forced.status.code(), err(&forced).as_str()), (Some(0), ""));
    assert!(out(&forced).contains("\nFORCED: case "), "{}", out(&forced));
    assert!(out(&forced).contains("0 differ, 0 undecided, "), "{}", out(&forced));
    assert_eq!(scratch.knee(&["compare", "a"]).status.code(), Some(2));
    assert_eq!(scratch.knee(&["compare", "a", "none"]).status.code(), Some(2));
}

#[test]
fn keys_vary_from_the_command_line() {
    let scratch = Scratch::new();
    let vary = ["run", "small.toml", "--vary", "network.bottleneck.rate=100 Mbps..1 Gbps log 2"];
    let run = |more: &[&str]| scratch.knee(&[&vary[..], more].concat());
    let checked = run(&["--check"]);
    assert!(
        out(&checked).starts_with("small.toml: 12 runs in 4 rows can run"),
        "{}",
        err(&checked)
    );
    let names = run(&["--hash"]);
    let (same, whole) = (scratch.knee(&["run", "small.toml", "--hash"]), out(&names));
    let row = "small 6: case cubic, network.bottleneck.rate = 1 Gbps, repeat 0";
    let name = |text: &str, row: &str| {
        text.lines().find(|line| line.ends_with(row)).map(|line| line[..32].to_owned())
    };
    assert_eq!(whole.lines().count(), 12);
    assert_eq!(name(&whole, row), name(&out(&same), "small 0: case cubic, repeat 0"), "{whole}");
    // What a directory holds is not run again, and a report repeats the command.
    assert!(run(&["-o", "rates", "--vary", "hosts.tcp_ecn=1"]).status.success());
    let more = run(&["-o", "rates", "--continue", "--vary", "hosts.tcp_ecn=0,1"]);
    assert!(
        out(&more).contains("24 runs (12 of them from before)"),
        "{}{}",
        out(&more),
        err(&more)
    );
    assert!(scratch.knee(&["report", "rates"]).status.success());
    let html = fs::read_to_string(scratch.0.path().join("rates/report.html")).unwrap();
    assert!(html.contains("--vary hosts.tcp_ecn=0,1"));
    let refused = run(&["--vary", "hosts.tcp_ecn=1.."]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("hosts.tcp_ecn: has no end"), "{}", err(&refused));
}

#[test]
fn a_file_of_the_name_of_a_built_in_experiment_is_noted() {
    let scratch = Scratch::new();
    let note = "knee: note: incast is the built-in experiment; write ./incast.toml for the file of this directory\n";
    let said = |args: &[&str]| err(&scratch.knee(args));
    assert_eq!(said(&["run", "incast", "--check"]), "");
    fs::copy(scratch.0.path().join("small.toml"), scratch.0.path().join("incast.toml")).unwrap();
    for args in [&["run", "incast", "--check"][..], &["explain", "incast"]] {
        assert_eq!(said(args), note, "{args:?}");
    }
    for args in [
        &["run", "incast.toml", "--check"][..],
        &["run", "published/incast", "--check"],
        &["scenarios", "incast"],
    ] {
        assert_eq!(said(args), "", "{args:?}");
    }
}

#[test]
fn a_run_becomes_a_report_and_figures() {
    let scratch = Scratch::new();
    let run = ["run", "small.toml", "--cc", "dctcp", "--set", "traffic.both.size=\"100 kB\""];
    assert!(scratch.knee(&[&run[..], &["--repeat", "2", "-o", "res"]].concat()).status.success());
    let said = scratch.knee(&["report", "res"]);
    assert_eq!(out(&said), "report in res/report.html\n", "{}", err(&said));
    let html = fs::read_to_string(scratch.0.path().join("res/report.html")).unwrap();
    for words in [
        "Who waits?",
        "both: completion time",
        "href=\"summary.csv\"",
        // What repeats it, as a shell takes it and as the page writes it.
        "knee run small.toml --cc dctcp --set &#39;traffic.both.size=&quot;100 kB&quot;&#39; --repeat 2 --seed 1",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let said = scratch.knee(&["report", "res", "--figures", "figures"]);
    let names: Vec<String> = fs::read_dir(scratch.0.path().join("figures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(out(&said), format!("{} figures in figures\n", names.len() / 3), "{}", err(&said));
    let read = |ending: &str| {
        fs::read(
            scratch
                .0
                .path()
                .join("figures")
                .join(format!("small-chart-both-completion-time-mean.{ending}")),
        )
        .unwrap()
    };
    assert!(read("svg").starts_with(b"<svg ") && read("png").starts_with(b"\x89PNG"));
    let csv = String::from_utf8(read("csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(
        csv.starts_with(
            "case,subject,metric,mean_s,ci95_s,runs,cut_off,at_least_s\ndctcp,both,completion,"
        ),
        "{csv}"
    );
    let nothing = scratch.knee(&["report", "nowhere"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert_eq!(
        err(&nothing),
        "knee: nowhere: is not a directory: choose one of knee run, knee reproduce or knee pcap \
            --csv\n"
    );
}

/// Names in a directory, hidden ones too.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut all: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn the_report_of_a_run_says_what_its_captures_show() {
    let scratch = Scratch::new();
    // Windows of sixteen senders meet a buffer of sixteen packets, and some of them go as a whole.
    let incast = SMALL
        .replace("senders = 2", "senders = 16")
        .replace("s1..s2", "s1..s16")
        .replace(
            "kind = \"step\", limit = \"200 pkts\", k = \"20 pkts\"",
            "kind = \"droptail\", limit = \"16 pkts\"",
        )
        .replace("200 kB", "30 kB")
        .replace("start_jitter = \"100 us\"\n", "")
        .replace("\"cubic\"", "\"reno\"");
    fs::write(scratch.0.path().join("incast.toml"), incast).unwrap();
    let run = |more: &[&str]| {
        let output = scratch.knee(&[&["run", "incast.toml", "--repeat", "2"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    };
    let report = |dir: &str, html: &str| {
        let said = scratch.knee(&["report", dir, "-o", html]);
        assert_eq!(out(&said), format!("report in {html}\n"), "{}", err(&said));
        fs::read_to_string(scratch.0.path().join(html)).unwrap()
    };
    run(&["--pcap", "-o", "res"]);
    let html = report("res", "all of it.html");
    for words in [
        ">Captures</h3>",
        "href=\"all%20of%20it-captures/run-0/report.html\">0</a>",
        "href=\"all%20of%20it-captures/run-2/report.html\">2</a>",
        "data-label=\"Files\">17</td>",
        "data-label=\"Flows\">16</td>",
        "severe</span> <strong>rto floor</strong>: ",
        "<strong>incast collapse</strong>: ",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let captures = scratch.0.path().join("all of it-captures");
    assert_eq!(names(&captures), ["run-0", "run-2"]);
    let of_run = captures.join("run-0");
    let files = ["events.csv", "findings.json", "flows.csv", "report.html", "rounds.csv"];
    assert_eq!(names(&of_run), files);
    let page = fs::read_to_string(of_run.join("report.html")).unwrap();
    assert!(page.contains("rto floor") && page.contains("Analysis of r-run-0.pcapng"));
    // It is what knee pcap says of the same files.
    let all = names(&scratch.0.path().join("res"));
    let of_run_0: Vec<&str> =
        all.iter().map(String::as_str).filter(|name| name.ends_with("-run-0.pcapng")).collect();
    let mut command = scratch.command(&[&["pcap"], &of_run_0[..], &["--csv", "../pcap"]].concat());
    let pcap = command.current_dir(scratch.0.path().join("res")).output().unwrap();
    assert_eq!(pcap.status.code(), Some(0), "{}", err(&pcap));
    for file in ["events.csv", "flows.csv", "rounds.csv"] {
        let read = |dir: &Path| fs::read_to_string(dir.join(file)).unwrap();
        assert!(read(&scratch.0.path().join("pcap")) == read(&of_run), "{file}");
    }

    // One file more than may be open at once is an error; a limit that may be raised is none.
    let limited = |limit: &str| {
        let script = format!("{limit} && exec \"$0\" report res -o limited.html");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_knee")]).current_dir(scratch.0.path());
        shell.output().unwrap()
    };
    let few = limited("ulimit -n 12");
    let why = "17 captures are too many, because 12 files may be open: raise ulimit -n";
    assert_eq!((few.status.code(), err(&few)), (Some(2), format!("knee: {why}\n")));
    let raised = limited("ulimit -Sn 12");
    assert_eq!(raised.status.code(), Some(0), "{}", err(&raised));
    fs::remove_file(scratch.0.path().join("limited.html")).unwrap();
    fs::remove_dir_all(scratch.0.path().join("limited-captures")).unwrap();

    // What cannot be read is said, and the others are.
    fs::write(scratch.0.path().join("res/s2-run-0.pcapng"), "no capture").unwrap();
    for file in of_run_0.iter().map(|name| name.replace("-0.", "-2.")) {
        fs::remove_file(scratch.0.path().join("res").join(file)).unwrap();
    }
    let pipe = scratch.0.path().join("res/r-run-2.pcapng");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let html = report("res", "all of it.html");
    for words in [
        "<p class=\"warn\">s2-run-0.pcapng: it is neither a pcap nor a pcapng file</p>",
        "<p class=\"warn\">s2-run-2.pcapng: cannot read: ",
        "<p class=\"warn\">r-run-2.pcapng: is a named pipe, not a capture</p>",
        "data-label=\"Files\">16</td>",
        "data-label=\"Run\">2</td>",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert_eq!(names(&captures), ["run-0"]);
    run(&["-o", "without"]);
    assert!(!report("without", "none.html").contains("Captures</h3>"));
    let left = [
        "all of it-captures",
        "all of it.html",
        "incast.toml",
        "none.html",
        "pcap",
        "res",
        "small.toml",
        "without",
    ];
    assert_eq!(names(scratch.0.path()), left);
}

/// So many connections of one SYN each: IPv4 without a link layer, in the older of the formats.
fn connections(count: u16) -> Vec<u8> {
    let head = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101].map(u32::to_be_bytes);
    let mut file = head.concat();
    for i in 0..count {
        file.extend(
            [u32::from(i / 1000), u32::from(i % 1000), 40, 40].map(u32::to_be_bytes).concat(),
        );
        file.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        file.extend((10_000 + i).to_be_bytes());
        file.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    }
    file
}

#[test]
fn captures_that_cannot_be_shown_say_why_and_how() {
    let scratch = Scratch::new();
    fs::write(scratch.0.path().join("many.pcap"), connections(2001)).unwrap();
    let all = scratch.knee(&["pcap", "many.pcap", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&out(&all)).unwrap();
    let kept: Vec<u64> =
        all["flows"].as_array().unwrap().iter().map(|flow| flow["id"].as_u64().unwrap()).collect();
    let gone = (1..=2001).find(|id| !kept.contains(id)).unwrap().to_string();
    let said = scratch.knee(&["pcap", "many.pcap", "--flow", &gone]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).ends_with("kept in full: --csv DIR writes all\n"), "{}", err(&said));
    assert!(scratch.knee(&["pcap", "many.pcap", "--flow", &gone, "--csv", "csv"]).status.success());
    let over = scratch.knee(&["pcap", "many.pcap", "--report", "./many.pcap"]);
    assert!(err(&over).contains("this is one of the captures"), "{}", err(&over));
    assert_eq!(fs::read(scratch.0.path().join("many.pcap")).unwrap(), connections(2001));
    let twice = scratch.knee(&["pcap", "-", "-"]);
    assert_eq!(err(&twice), "knee: standard input can be read only once: give - once\n");
    let help = out(&scratch.knee(&["pcap", "--help"]));
    assert!(help.contains("findings.json"), "{help}");
}

/// Ctrl-C while a command reads the packets of a capture for the second time, and holds what `begun` begins with.
fn stopped(args: &[&str], scratch: &Scratch, capture: &Path, begun: &str) {
    let dir = capture.parent().unwrap();
    // A million packets are not read before the signal.
    let mut packets = connections(50_000);
    let of_each = packets[24..].to_vec();
    (1..20).for_each(|_| packets.extend(&of_each));
    fs::write(capture, packets).unwrap();
    // Where this test does not get the processor while packets are read, the command is done before the signal: then once more.
    for _ in 0..5 {
        let before = names(dir);
        let mut command = scratch.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let is_begun = || names(dir).iter().any(|name| name.starts_with(begun));
        let begin = Instant::now();
        while !is_begun() && child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        let process = rustix::process::Pid::from_child(&child);
        if child.try_wait().unwrap().is_none() {
            rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            continue;
        }
        let said = "knee: stopped: no report was written\n";
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(2), said));
        assert_eq!(names(dir), before);
        return;
    }
    panic!("it was always done before the signal");
}

#[test]
fn a_report_of_captures_that_is_stopped_leaves_nothing() {
    let scratch = Scratch::new();
    let args = ["pcap", "s1.pcap", "--report", "s1.html"];
    stopped(&args, &scratch, &scratch.0.path().join("s1.pcap"), ".s1.html-packets.");
    let run = scratch.knee(&["run", "small.toml", "--pcap", "-o", "res"]);
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    let capture = scratch.0.path().join("res/s1-run-0.pcapng");
    fs::remove_file(scratch.0.path().join("res/s2-run-0.pcapng")).unwrap();
    fs::remove_file(scratch.0.path().join("res/r-run-0.pcapng")).unwrap();
    stopped(&["report", "res"], &scratch, &capture, ".report-captures.");
}

#[test]
fn nothing_that_a_file_says_is_an_order_to_the_terminal() {
    let scratch = Scratch::new();
    let escapes = "question = \"Who \\u001b]0;owned\\u0007 \\u009b2J asks?\"\n";
    let evil = SMALL.replace("question = \"Who waits?\"\n", escapes);
    assert_ne!(evil, SMALL);
    fs::write(scratch.0.path().join("evil.toml"), evil).unwrap();
    fs::write(scratch.0.path().join("e\x1b[2Jvil.pcap"), connections(1)).unwrap();
    let is_order = |c: char| c.is_control() && c != '\n';
    for args in [
        &["run", "evil.toml", "--repeat", "1", "-o", "a"][..],
        &["run", "evil.toml", "--repeat", "1", "--json", "-o", "b"],
        &["explain", "./evil.toml"],
        &["compare", "a", "b"],
        &["pcap", "e\x1b[2Jvil.pcap"],
        &["pcap", "e\x1b[2Jvil.pcap", "--json"],
        &["script", "--record", "e\x1b[2Jvil.pcap"],
    ] {
        let output = scratch.knee(args);
        let said = format!("{}{}", out(&output), err(&output));
        assert!(!said.is_empty() && !said.contains(is_order), "{args:?}: {said:?}");
        if args.contains(&"evil.toml") {
            assert!(output.status.success() && said.contains("]0;owned\\u0007"), "{said}");
        }
        if args.contains(&"--json") {
            let answer: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
            assert!(answer.is_object());
        }
    }
}

#[test]
fn code_that_a_file_names_is_run_by_a_run_alone() {
    let scratch = Scratch::new();
    assert!(scratch.knee(&["new", "algorithm", "swift"]).status.success());
    let code = "\nextern int creat(const char *, unsigned int);\n\
                __attribute__((constructor)) static void begin(void) { creat(\"ran\", 0600); }\n";
    let source = scratch.0.path().join("swift/swift.c");
    fs::write(&source, fs::read_to_string(&source).unwrap() + code).unwrap();
    let ran = scratch.0.path().join("ran");
    for args in [&["explain", "./swift/swift.toml"][..], &["run", "swift/swift.toml", "--check"]] {
        let output = scratch.knee(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            err(&output).contains("swift.c: is code that this command does not load"),
            "{}",
            err(&output)
        );
        assert!(!ran.exists(), "{args:?}");
    }
    // Who names it on the command line, or runs the experiment, has decided; this one is looked at before it is loaded.
    for args in [
        &["run", "small.toml", "--check", "--cc", "./swift/swift.c"][..],
        &["run", "swift/swift.toml"],
    ] {
        let named = scratch.knee(args);
        assert!(err(&named).contains("runs code when it is loaded"), "{}", err(&named));
        assert!(!ran.exists(), "{args:?}");
    }
}

#[test]
fn a_scale_is_said_everywhere() {
    let scratch = Scratch::new();
    let output = scratch.knee(&["run", "small.toml", "--scale", "0.1", "-o", "slow"]);
    assert!(
        out(&output).contains("SCALE 0.1: every rate is multiplied by 0.1"),
        "{}",
        out(&output)
    );
    let manifest = fs::read_to_string(scratch.0.path().join("slow/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["back_end"], serde_json::json!({ "name": "sim", "scale": 0.1 }));
}

#[test]
fn help_teaches_and_the_version_is_known() {
    let scratch = Scratch::new();
    let help = scratch.knee(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(out(&help).contains("knee run bulk-mix\n"));
    assert!(out(&help).contains("Exit codes: 0 done"));
    let run_help = scratch.knee(&["run", "--help"]);
    assert!(out(&run_help).contains("KEY=VALUE"));
    let version = out(&scratch.knee(&["--version"]));
    assert!(version.starts_with(concat!("knee ", env!("CARGO_PKG_VERSION"))), "{version}");
    // With the commit, where it was built of a repository.
    if Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists() {
        let commit = version.trim_end().split(['(', ')']).nth(1).unwrap_or_default();
        assert!(commit.len() >= 12 && commit.as_bytes()[0].is_ascii_hexdigit(), "{version}");
    }
}

#[test]
fn algorithms_are_listed_and_shown() {
    let scratch = Scratch::new();
    let list = out(&scratch.knee(&["algorithms"]));
    for name in ["cubic", "dctcp", "reno"] {
        assert!(list.contains(&format!("\n{name} ")), "{list}");
    }
    let dctcp = out(&scratch.knee(&["algorithms", "dctcp"]));
    for part in ["algorithms/dctcp.c", "ssthresh", "shift_g", "alpha", "required", "the simulator"]
    {
        assert!(dctcp.contains(part), "{part}: {dctcp}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&out(&scratch.knee(&["algorithms", "dctcp", "--json"]))).unwrap();
    assert_eq!(json["needs_ecn"], true);
    assert!(json["parameters"].as_array().unwrap().iter().any(|param| param["name"] == "shift_g"));
    let none = scratch.knee(&["algorithms", "nonesuch"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(err(&none).starts_with("knee: no algorithm \"nonesuch\"; there are "));
}

#[test]
fn doctor_looks_and_changes_nothing() {
    let scratch = Scratch::new();
    let output = scratch.knee(&["doctor"]);
    for part in ["cores", "knee run", "loading algorithms into this kernel", "clang"] {
        assert!(out(&output).contains(part), "{part}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&out(&scratch.knee(&["doctor", "--json"]))).unwrap();
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.len() >= 8);
    // The exit code tells monitoring what a "-" below "loading algorithms" tells a reader.
    let is_lack = |one: &serde_json::Value| one["part"] == "kernel" && one["ok"] == false;
    assert_eq!(output.status.code(), Some(i32::from(findings.iter().any(is_lack))));
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_one_is() {
    let scratch = Scratch::new();
    for args in [&["algorithms"][..], &["run", "small.toml"], &["doctor", "--json"]] {
        // A socket whose other end is gone answers as a pipe does.
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let writer = OwnedFd::from(writer);
        let output = scratch.command(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{args:?}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        scratch.command(&["algorithms"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "knee: standard output: cannot write: No space left on device (os error 28)\n"
    );
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    // A limit of 4 blocks of 1 kB, and no signal at it: the manifest, with the file in it, is longer.
    let long = format!("{SMALL}\n#{}\n", "x".repeat(8000));
    fs::write(scratch.0.path().join("long.toml"), long).unwrap();
    let script =
        format!("trap '' XFSZ; ulimit -f 4; exec {} run long.toml", env!("CARGO_BIN_EXE_knee"));
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(scratch.0.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert!(err(&output).contains("cannot write: File too large"), "{}", err(&output));
    assert!(!scratch.0.path().join("results/long").exists());
}

/// Waits for a child, but not for ever.
fn wait(mut child: Child, dir: &Path) -> (Option<i32>, String) {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            return (status.code(), text);
        }
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("still running in {}", dir.display());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a sweep that goes on has written runs.
fn has_partial_rows(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.map(|entry| entry.unwrap()).any(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(".runs.csv")
            && fs::read_to_string(entry.path()).unwrap().lines().count() > 1
    })
}

#[test]
fn ctrl_c_keeps_what_has_finished_and_says_so() {
    let scratch = Scratch::new();
    // Far more runs than are done before the signal comes.
    let long = SMALL.replace("200 kB", "20 MB").replace("repeat = 3", "repeat = 50000");
    fs::write(scratch.0.path().join("long.toml"), long).unwrap();
    let mut command = scratch.command(&["run", "long.toml"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while !has_partial_rows(&scratch.0.path().join("results/long")) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let (code, text) = wait(child, scratch.0.path());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.starts_with("knee: stopped: "), "{text}");
    assert!(text.ends_with(" of 100000 runs finished and are kept in results/long\n"), "{text}");
    let done: usize = text.split(' ').nth(2).unwrap().parse().unwrap();
    assert!(done > 0);
    assert_eq!(scratch.lines_of("results/long/runs.csv"), 1 + done);
    let manifest = fs::read_to_string(scratch.0.path().join("results/long/manifest.json")).unwrap();
    assert!(manifest.contains("\"interrupted\": true"));
    let leftover = fs::read_dir(scratch.0.path().join("results/long")).unwrap();
    assert!(
        leftover
            .map(|e| e.unwrap().file_name())
            .all(|name| !name.to_str().unwrap().starts_with('.'))
    );
}

/// A recording of a file's algorithm names the file by its content, and that file replays it.
#[test]
fn a_recording_of_a_file_is_replayed_by_that_file_alone() {
    let scratch = Scratch::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/algorithms");
    for name in ["gentle.c", "gentle.h"] {
        fs::copy(here.join(name), scratch.0.path().join(name)).unwrap();
    }
    let arguments = ["small.toml", "--cc", "./gentle.c", "--repeat", "1", "--trace", "both"];
    let ran = scratch.knee(&[&["run", "-o", "out"], &arguments[..]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let entries = fs::read_dir(scratch.0.path().join("out")).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let recording = format!("out/{}", names.find(|name| name.ends_with(".flight")).unwrap());
    let without = scratch.knee(&["replay", &recording]);
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert_eq!(without.status.code(), Some(2));
    assert!(said.contains("the algorithm in gentle.c") && said.contains("--source"), "{said}");
    let with = scratch.knee(&["replay", &recording, "--source", "gentle.c"]);
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    let said = String::from_utf8_lossy(&with.stdout).into_owned();
    assert!(said.contains("(of gentle.c, sha256 ") && said.ends_with("equal\n"), "{said}");
    fs::write(scratch.0.path().join("other.c"), "int x;\n").unwrap();
    // It is not loaded, or it would say that this is no algorithm.
    let other = scratch.knee(&["replay", &recording, "--source", "other.c"]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2));
    assert!(said.contains("that of the one named is"), "{said}");
    let arguments = ["small.toml", "--cc", "dctcp", "--repeat", "1", "--trace", "both"];
    let ran = scratch.knee(&[&["run", "-o", "own"], &arguments[..]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let entries = fs::read_dir(scratch.0.path().join("own")).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let recording = format!("own/{}", names.find(|name| name.ends_with(".flight")).unwrap());
    let needless = scratch.knee(&["replay", &recording, "--source", "gentle.c"]);
    let said = String::from_utf8_lossy(&needless.stderr).into_owned();
    assert_eq!(needless.status.code(), Some(2));
    assert!(said.contains("knee has its algorithm dctcp: leave out --source"), "{said}");
}

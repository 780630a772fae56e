//! The congestion controls of Linux, from the kernel's own files, unmodified: each compiles and runs.
//!
//! The files are not in this tree. scripts/linux-source fetches them into the user's cache; `KNEE_REQUIRE_MODULES` names the kernels whose files
//! must be there ("6.1 6.12 7.3"), and without it those that are there are tried. `scripts/test-modules` does both, and `KNEE_MODULES_TABLE` names a file
//! for the table of docs/modules-linux.md.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// Net/ipv4/tcp_*.c that are congestion controls. Without its twin YeAH does not link: in a kernel that is another module.
const MODULES: [&str; 16] = [
    "tcp_bbr.c",
    "tcp_bic.c",
    "tcp_cdg.c",
    "tcp_cubic.c",
    "tcp_dctcp.c",
    "tcp_highspeed.c",
    "tcp_htcp.c",
    "tcp_hybla.c",
    "tcp_illinois.c",
    "tcp_lp.c",
    "tcp_nv.c",
    "tcp_scalable.c",
    "tcp_vegas.c",
    "tcp_veno.c",
    "tcp_westwood.c",
    "tcp_yeah.c+tcp_vegas.c",
];

/// A path that every algorithm can fill, with a buffer of as much as it holds.
const PATH: &str = r#"question = "Does it run?"

[network]
topology = "many-to-one"
senders = 1
access = { rate = "1 Gbps" }
return = { delay = "20 ms" }
bottleneck = { rate = "50 Mbps", queue = { kind = "step", limit = "100 pkts", k = "20 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[run]
duration = "5 s"
"#;
const RATE_MBPS: f64 = 50.0;
/// Of the rate: those that give way to any queue get less than others.
const LEAST_SHARE: f64 = 0.5;

/// The kernels whose files are in the cache, by name, oldest first.
fn kernels() -> Vec<(String, PathBuf)> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || Some(var("HOME")?.join(".cache"));
    let Some(cache) = var("XDG_CACHE_HOME").or_else(home) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(cache.join("knee/linux-source")) else { return Vec::new() };
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let name = folder.file_name()?.to_str()?.to_owned();
            let files = folder.join("net/ipv4");
            files.join("tcp_cubic.c").is_file().then_some((name, files))
        })
        .collect();
    let number = |name: &str| -> Vec<u32> { name.split('.').flat_map(str::parse).collect() };
    found.sort_by_key(|(name, _)| number(name));
    found
}

/// What became of a module.
struct Tried {
    module: &'static str,
    /// Mbps, or why it does not run.
    goodput: Result<f64, String>,
    /// From the command to its end, of a run that is over after the first packets: compiled, and found compiled.
    first: Duration,
    again: Duration,
}

fn knee(arguments: &[&str], cache: &Path) -> Result<Json, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_knee"))
        .arg("run")
        .args(arguments)
        .args(["--json", "--threads", "1"])
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

fn goodput_mbps(results: &Json) -> Option<f64> {
    let bulk = &results["summary"][0]["subjects"][0];
    Some(bulk["metrics"]["goodput"]["mean"].as_f64()? / 1e6)
}

/// Compiles a module, and runs it.
fn try_module(module: &'static str, files: &Path, scratch: &Path) -> Tried {
    let cc = files.join(module).display().to_string();
    let file = scratch.join("x.toml").display().to_string();
    let out = scratch.join("out");
    let dir = out.display().to_string();
    let cache = scratch.join("cache").join(module);
    fs::create_dir_all(&cache).unwrap();
    let timed = |more: &[&str]| {
        let begin = Instant::now();
        let done = knee(&[&[&*file, "--cc", &*cc, "-o", &*dir], more].concat(), &cache);
        let _ = fs::remove_dir_all(&out);
        (done, begin.elapsed())
    };
    let short = ["--set", "run.duration=1 ms"];
    let (_, first) = timed(&short);
    let (_, again) = timed(&short);
    let (done, _) = timed(&[]);
    let goodput = done.and_then(|results| {
        goodput_mbps(&results).ok_or_else(|| format!("no goodput in {results}"))
    });
    Tried { module, goodput, first, again }
}

fn in_ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

/// The table of docs/modules-linux.md.
fn table(all: &[(String, Vec<Tried>)]) -> String {
    let mut out = String::from("| module |");
    for (kernel, _) in all {
        let _ = write!(out, " {kernel} |");
    }
    let _ = writeln!(out, " compiled | found compiled |\n|{}", " --- |".repeat(all.len() + 3));
    for (at, module) in MODULES.iter().enumerate() {
        let _ = write!(out, "| `{module}` |");
        let of_kernels = all.iter().map(|(_, tried)| &tried[at]);
        for tried in of_kernels.clone() {
            let cell = match &tried.goodput {
                Ok(mbps) => format!("{mbps:.1} Mbps"),
                Err(why) => why.lines().next().unwrap_or_default().to_owned(),
            };
            let _ = write!(out, " {cell} |");
        }
        let longest = |time: fn(&Tried) -> Duration| of_kernels.clone().map(time).max().unwrap();
        let _ = writeln!(
            out,
            " {} | {} |",
            in_ms(longest(|tried| tried.first)),
            in_ms(longest(|tried| tried.again))
        );
    }
    out
}

#[test]
fn every_congestion_control_of_linux_runs_from_the_kernels_own_file() {
    let required = std::env::var("KNEE_REQUIRE_MODULES").unwrap_or_default();
    let kernels = kernels();
    for required in required.split_whitespace() {
        assert!(kernels.iter().any(|(name, _)| name == required), "no files of Linux {required}");
    }
    if kernels.is_empty() {
        eprintln!("SKIPPED: the files of Linux are not in the cache: scripts/linux-source 6.1");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("x.toml"), PATH).unwrap();
    let mut all = Vec::new();
    for (kernel, files) in kernels {
        let tried: Vec<Tried> = MODULES
            .iter()
            .map(|module| try_module(module, &files, &scratch.path().join(".")))
            .collect();
        println!("Linux {kernel}:");
        for Tried { module, goodput, first, again } in &tried {
            let what = match goodput {
                Ok(mbps) => format!("runs, {mbps:.1} Mbps"),
                Err(why) => format!("does not run: {why}"),
            };
            println!("  {module:<24} {:>9} {:>9}  {what}", in_ms(*first), in_ms(*again));
        }
        all.push((kernel, tried));
    }
    if let Some(path) = std::env::var_os("KNEE_MODULES_TABLE") {
        fs::write(path, table(&all)).unwrap();
    }
    let fills = |tried: &Tried| {
        let share = tried.goodput.as_ref().map_or(0.0, |mbps| mbps / RATE_MBPS);
        (LEAST_SHARE..1.0).contains(&share)
    };
    let wrong: Vec<String> = all
        .iter()
        .flat_map(|(kernel, tried)| {
            let wrong = tried.iter().filter(|tried| !fills(tried));
            wrong.map(move |tried| format!("{} of {kernel}: {:?}", tried.module, tried.goodput))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! What each program costs the verifier, against figures that are kept: growth is seen.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use knee_bpf::{KernelApi, Loaded};
use knee_testbed::{outside, own_name};

/// More than this much above its figure is an error, in percent.
const ALLOWED_GROWTH_PCT: u32 = 25;

/// Programs and instructions of the file, and the release of Linux they were counted on.
fn baseline() -> (&'static str, BTreeMap<&'static str, u32>) {
    let file = include_str!("verifier_baseline.toml");
    let lines = file.lines().filter_map(|line| line.split_once(" = "));
    let release = lines.clone().find(|(key, _)| *key == "kernel").unwrap().1.trim_matches('"');
    let counts = lines.filter_map(|(key, value)| Some((key, value.parse().ok()?))).collect();
    (release, counts)
}

#[test]
fn no_program_has_grown_much_for_the_verifier() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let (release, baseline) = baseline();
    let version = KernelApi::running().version.to_string();
    let same_kernel = release == version;
    let mut counted = format!("kernel = \"{version}\"\n");
    let mut grown = Vec::new();
    for (algorithm, embedded) in outside::with_all() {
        let loaded = Loaded::register_for_any_user(
            embedded,
            own_name(algorithm.name()),
            &algorithm.default_params(),
        );
        writeln!(counted, "\n[{}]", algorithm.name()).unwrap();
        for (program, instructions) in loaded.unwrap().verified_instructions().unwrap() {
            writeln!(counted, "{program} = {instructions}").unwrap();
            let Some(before) = baseline.get(program.as_str()) else {
                grown.push(format!("{program} has {instructions} and no figure in the file"));
                continue;
            };
            if instructions * 100 > before * (100 + ALLOWED_GROWTH_PCT) {
                grown.push(format!("{program} has {instructions}, it had {before}"));
            }
        }
    }
    println!("{counted}");
    if same_kernel {
        assert!(
            grown.is_empty(),
            "{}\nif that is meant, put this into verifier_baseline.toml:\n{counted}",
            grown.join("\n")
        );
    } else {
        println!("not compared: the figures are of Linux {release}");
    }
}

//! Any text as an experiment file, and behind `%%% options` any words of the command line: accepted, or refused in one line; never a
//! panic. What was accepted can be shown and laid out as runs.
#![no_main]

use std::path::Path;

use knee_evidence::explain::explain;
use knee_fuzz::{check_message, parts};
use knee_scenario::scale::Scale;
use knee_scenario::{Experiment, Overrides};

/// One option per line, without its dashes.
fn overrides(text: &str) -> Overrides {
    let mut overrides = Overrides { only_reads: true, ..Overrides::default() };
    for line in text.lines() {
        let (option, value) = line.split_once(' ').unwrap_or((line, ""));
        match option {
            "cc" => overrides.cc.push(value.to_owned()),
            "set" => overrides.set.push(value.to_owned()),
            "vary" => overrides.vary.push(value.to_owned()),
            "repeat" => overrides.repeat = value.parse().ok(),
            "seed" => overrides.seed = value.parse().ok(),
            "quick" => overrides.quick = true,
            "scale" => {
                let scale = value.parse().ok().and_then(|share| Scale::new(share).ok());
                overrides.scale = scale.unwrap_or_default();
            }
            _ => {}
        }
    }
    overrides
}

knee_fuzz::target!(|text: &str| {
    let mut parts = parts(text);
    let (_, file) = parts.next().unwrap_or_default();
    let words = parts.find(|(name, _)| *name == "options").map_or("", |(_, words)| words);
    match Experiment::parse(Path::new("x.toml"), file, &overrides(words)) {
        Ok(experiment) => {
            let last = experiment.run_id(experiment.runs() - 1);
            experiment.run(last).expect("a file that was accepted gives runs");
            let last = &experiment.row(last.configuration);
            assert!(!experiment.describe(last).is_empty());
            assert!(!experiment.resolved().expect("as above").is_empty());
            let shown = explain(&experiment, "knee run x.toml", &|_| None);
            assert!(!shown.expect("as above").is_empty());
        }
        Err(error) => check_message(&error.to_string()),
    }
});

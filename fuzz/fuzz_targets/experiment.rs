//! Any bytes as an experiment file: accepted, or refused in one line; never a panic.
#![no_main]

use std::path::Path;

use knee_exp::{Experiment, Overrides};

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Experiment::parse(Path::new("x.toml"), text, &Overrides::default()) {
        Ok(experiment) => {
            let last = experiment.run_id(experiment.runs() - 1);
            experiment.run(last).expect("a file that was accepted gives runs");
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});

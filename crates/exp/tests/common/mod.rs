//! What tests of whole sweeps share.
#![allow(dead_code, reason = "not every test uses all of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_exp::results::Results;
use knee_exp::runner::{Options, sweep};
use knee_exp::swept::Swept;
use knee_exp::{Error, Experiment, Overrides};
use knee_run::outcome::Outcome;
use knee_run::{Ask, BackEnd, Capabilities, Ran, Run};
use knee_sim::Simulator;

/// A directory that goes away.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("knee-sweep-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub(crate) fn files(&self, below: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.0.join(below)).unwrap();
        entries
            .map(|entry| entry.unwrap())
            .map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap()))
            .collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn run_into(
    scratch: &Scratch,
    experiment: &Arc<Experiment>,
    options: &Options,
) -> Result<Swept, Error> {
    let mut results = Results::numbered(&scratch.0, &experiment.name)?;
    let swept = sweep(experiment, options, &mut results, &mut |_| {})?;
    results.finish(experiment, &swept)?;
    Ok(swept)
}

/// All runs once, in the simulator.
pub(crate) fn simulated() -> Options {
    Options::new(Arc::new(Simulator))
}

/// A function in place of the simulator.
#[derive(Debug)]
pub(crate) struct Fake(pub(crate) fn(&Run) -> Result<Outcome, knee_run::Error>);

impl BackEnd for Fake {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_model: true, ..Capabilities::default() }
    }

    fn run(&self, run: &Run, _ask: &Ask<'_>) -> Result<Ran, knee_run::Error> {
        (self.0)(run).map(Ran::from)
    }
}

/// An experiment of this text, with overrides.
pub(crate) fn parsed(name: &str, text: &str, overrides: &Overrides) -> Arc<Experiment> {
    let parsed = Experiment::parse(Path::new(name), text, overrides);
    Arc::new(parsed.unwrap_or_else(|error| panic!("{error}")))
}

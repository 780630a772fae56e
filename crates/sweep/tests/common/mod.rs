//! What tests of whole sweeps share.
#![allow(dead_code, reason = "not every test uses all of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use knee_run::outcome::Outcome;
use knee_run::{BackEnd, Capabilities, Run, RunOptions, RunResult};
use knee_scenario::{Error, Experiment, Overrides};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use knee_sweep::sweep_result::SweepResult;
use tempfile::TempDir;

/// The beginning of an experiment: six hosts at a switch that marks.
pub(crate) const STAR: &str = r#"question = "?"
cc = ["dctcp"]

[network]
topology = "star"
hosts = 6
up = { rate = "1 Gbps", delay = "10 us" }
down = { rate = "1 Gbps", delay = "10 us", queue = { kind = "step", limit = "200 kB", k = "30 kB", not_ect = "drop" } }
"#;

/// A directory that goes away.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The files there, without the journal: its runs are in the order in which they ended.
    pub(crate) fn files(&self, below: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.0.path().join(below)).unwrap();
        entries
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != "runs.journal")
            .map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap()))
            .collect()
    }
}

pub(crate) fn run_into(
    scratch: &Scratch,
    experiment: &Arc<Experiment>,
    options: &Options,
) -> Result<SweepResult, Error> {
    let mut results = Results::numbered(scratch.path(), &experiment.name)?;
    let swept = sweep(experiment, options, &mut results, &mut |_| {})?;
    results.finish(experiment, &swept, &[])?;
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

    fn run(&self, run: &Run, _ask: &RunOptions<'_>) -> Result<RunResult, knee_run::Error> {
        (self.0)(run).map(RunResult::from)
    }
}

/// An experiment of this text, with overrides.
pub(crate) fn parsed(name: &str, text: &str, overrides: &Overrides) -> Arc<Experiment> {
    let parsed = Experiment::parse(Path::new(name), text, overrides);
    Arc::new(parsed.unwrap_or_else(|error| panic!("{error}")))
}

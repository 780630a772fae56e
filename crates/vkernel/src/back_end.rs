//! The back end that runs experiments on a Linux kernel in virtual time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use knee_run::back_end::Linux;
use knee_run::support::On;
use knee_run::{BackEnd, Capabilities, Error, Run, RunOptions, RunResult};
use serde_json::{Map, Value, json};

use crate::boot::wait_until_gone;
use crate::kernel::{self, Built, DEFAULT_HZ};
use crate::plan::{Plan, differences};
use crate::run::{Options, hz, run};

/// The built kernels of one version, one for each number of ticks per second.
#[derive(Debug)]
pub struct Kernels {
    version: String,
    options: Options,
    /// Kernels that runs have used, by ticks per second.
    used: Mutex<BTreeMap<u32, Built>>,
}

impl Kernels {
    /// Finds the kernels of `version`, or of the newest version built if it is `None`.
    ///
    /// # Errors
    /// Fails if no such kernel is built.
    pub fn new(version: Option<&str>, options: Options) -> Result<Kernels, Error> {
        // Most runs use the default ticks per second, so that kernel is looked up first.
        let usual = kernel::find(version, Some(DEFAULT_HZ));
        let built = usual.or_else(|_| kernel::find(version, None))?;
        Ok(Kernels { version: built.version, options, used: Mutex::default() })
    }

    /// Returns the kernel with the ticks per second of the run's hosts. All runs get the same one, even if another is
    /// built meanwhile.
    fn built(&self, wanted: &Run) -> Result<Built, Error> {
        let hz = hz(wanted)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = used.get(&hz) {
            return Ok(built.clone());
        }
        let built = kernel::find(Some(&self.version), Some(hz))?;
        used.insert(hz, built.clone());
        Ok(built)
    }
}

/// Returns the manifest's entries for a kernel.
fn values(built: &Built) -> Map<String, Value> {
    let text = built.values().into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
    text.chain([("hz".to_owned(), json!(built.hz))]).collect()
}

impl BackEnd for Kernels {
    fn name(&self) -> &'static str {
        On::Vkernel.name()
    }

    fn capabilities(&self) -> Capabilities {
        let linux = Linux::Version(self.version.clone());
        Capabilities { captures: true, linux, ..Capabilities::default() }
    }

    fn check(&self, wanted: &Run) -> Result<(), Error> {
        // The plan reports what no kernel can do before a kernel is looked up.
        let plan = Plan::new(wanted, self.options.algorithms, &self.version)?;
        let built = self.built(wanted)?;
        plan.files.iter().try_for_each(|file| file.module(&built).map(drop))
    }

    fn differences(&self, wanted: &Run) -> Vec<String> {
        differences(wanted)
    }

    fn run(&self, wanted: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        ask.check(self)?;
        run(wanted, &self.built(wanted)?, &self.options, ask).map(RunResult::from)
    }

    /// Waits for the guests of a stopped sweep, whose runs nobody waits for, so that they leave nothing behind.
    fn leave(&self) {
        wait_until_gone();
    }

    fn about(&self) -> Map<String, Value> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kernels: Vec<_> = used.values().map(values).collect();
        let mut about = match kernels.len() {
            0 | 1 => kernels.pop().unwrap_or_default(),
            _ => Map::from_iter([("kernels".to_owned(), json!(kernels))]),
        };
        about.insert("version".to_owned(), json!(self.version));
        about.insert("algorithms".to_owned(), json!(self.options.algorithms.name()));
        about
    }
}

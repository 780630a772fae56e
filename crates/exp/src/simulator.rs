//! The simulator as a back end.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use knee_run::spec::Run;

use crate::back_end::{BackEnd, Ran, SIMULATOR};
use crate::captures;

/// The simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl BackEnd for Simulator {
    fn name(&self) -> &'static str {
        SIMULATOR
    }

    fn threads(&self) -> Option<usize> {
        None
    }

    /// Goes on to the end whatever `stop` says: whoever stops a sweep does not wait for it.
    fn run(&self, run: &Run, _stop: &AtomicBool) -> Result<Ran, String> {
        let outcome = knee_sim::simulate(run).map_err(|why| why.to_string())?;
        Ok(Ran { outcome, validity: None })
    }

    fn run_captured(&self, run: &Run, _stop: &AtomicBool, dir: &Path) -> Result<Ran, String> {
        Ok(Ran { outcome: captures::simulate(run, dir)?, validity: None })
    }
}

//! A finished run.

use std::sync::Arc;

use knee_run::spec::Run;
use knee_run::{Budget, RunResult};
use knee_scenario::cases::RunId;
use knee_scenario::metric::Measured;
use knee_scenario::scenario::Scenario;

use crate::measure::measure;

/// A finished run.
#[derive(Debug)]
pub struct Done {
    pub id: RunId,
    pub run: Run,
    pub ran: RunResult,
    /// Number of attempts.
    pub attempts: u32,
    pub(crate) scenario: Arc<Scenario>,
    /// Name of its flight recording.
    pub(crate) recording: Option<String>,
    /// Whether it has captures.
    pub(crate) is_captured: bool,
    /// Whether its thresholds mark nothing, so that runs with other ones are the same.
    pub(crate) has_idle_thresholds: bool,
    /// Memory of the run, including what is made of it.
    pub(crate) budget: Arc<Budget>,
}

impl Done {
    /// Measures each traffic entry and recorded queue.
    pub fn measure(&self) -> Vec<Measured> {
        measure(&self.scenario, &self.run, &self.ran.outcome)
    }
}

//! The approximation as a back end.

use serde_json::{Map, Value};

use knee_run::{BackEnd, Capabilities, Error, Run, RunOptions, RunResult};

use crate::refuse;
use crate::run::{Options, approximate};

/// Error of a percentile of slowdown where nobody measured, as a share: some one and a half times the largest of at least
/// a hundred flows in docs/findings/approximate.md.
pub const ERROR: f64 = 0.45;

/// Runs approximated link by link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    /// Threads of a run.
    pub options: Options,
}

impl BackEnd for Links {
    fn name(&self) -> &'static str {
        "sim --approximate links"
    }

    /// One run at a time: its links are on all cores.
    fn capabilities(&self) -> Capabilities {
        Capabilities { threads: Some(1), ..Capabilities::default() }
    }

    fn check(&self, run: &Run) -> Result<(), Error> {
        refuse::check(run)
    }

    fn differences(&self, _: &Run) -> Vec<String> {
        vec![
            "links are simulated one by one, and what a bottleneck lets through reaches the others at an even pace".to_owned(),
            "only completion times and slowdown are given: other metrics describe one run of a whole network, and \
             there is none"
                .to_owned(),
        ]
    }

    /// States the error, which `knee run` replaces by a measured one.
    fn about(&self) -> Map<String, Value> {
        Map::from_iter([("error".to_owned(), ERROR.into())])
    }

    fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
        ask.check(self)?;
        approximate(run, self.options, ask.stop).map(|(outcome, _)| outcome.into())
    }
}

//! Flight recordings of runs, written beside the other result files.

use std::path::{Path, PathBuf};

use knee_run::spec::Run;
use knee_run::{BackEnd, RunOptions, RunResult, back_end};
use knee_scenario::cases::RunId;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::scenario::Scenario;

/// Selects the calls to record, and the file to write.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// Name of the traffic entry.
    pub(crate) entry: String,
    /// Returns the path of a file while it is incomplete.
    pub(crate) partial: fn(&Path, &str, &str) -> PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) mark: String,
}

impl Recording {
    /// Returns whether this run is recorded: the first of each row. Repeats differ only by their seeds.
    pub(crate) fn has(&self, id: RunId) -> bool {
        id.repeat == 0
    }

    fn name(&self, id: RunId) -> String {
        format!("{}-run-{}.flight", self.entry, id.index)
    }

    /// Returns the path of a run's file while it is incomplete.
    pub(crate) fn path(&self, id: RunId) -> PathBuf {
        (self.partial)(&self.dir, &self.name(id), &self.mark)
    }

    /// Carries out a run and records it. Returns the final name of the file.
    pub(crate) fn carry_out(
        &self,
        experiment: &Experiment,
        scenario: &Scenario,
        id: RunId,
        run: &Run,
        (back_end, ask): (&dyn BackEnd, &RunOptions<'_>),
    ) -> Result<(RunResult, String), Error> {
        let row = experiment.describe(&experiment.row(id.configuration));
        let failed =
            |source| Error::Simulation { file: experiment.path.clone(), run: row.clone(), source };
        let refused = |why| failed(knee_run::Error::Refused(why));
        let group = scenario.groups().iter().position(|(name, _)| *name == self.entry);
        let group = group.ok_or_else(|| {
            let names: Vec<String> = scenario.groups().into_iter().map(|(name, _)| name).collect();
            let there = names.join(", ");
            refused(format!("no traffic \"{}\" to trace; the names are {there}", self.entry))
        })? as u32;
        if !run.flows.iter().any(|flow| flow.group == group) {
            return Err(refused(format!("\"{}\" has no connections to trace", self.entry)));
        }
        let about =
            format!("traffic {} of {}, run {}, {row}", self.entry, experiment.name, id.index);
        let (name, path) = (self.name(id), self.path(id));
        let recording = Some(back_end::Recording { group, path: &path, about: &about });
        let ran =
            back_end.run(run, &RunOptions { recording, ..*ask }).map_err(|why| match why {
                knee_run::Error::File { source, .. } => {
                    let source = std::io::Error::new(source.kind(), source);
                    Error::io(&self.dir.join(&name), "cannot write", source)
                }
                other => failed(other),
            })?;
        Ok((ran, name))
    }
}

//! Carries runs of a store out again.

use std::sync::Arc;

use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use prost::Message as _;

use super::{Store, unlabelled};
use crate::record::stored;
use crate::run_name::RunName;
use crate::run_store::RunStore as _;
use crate::runs::{Done, Options, runs};

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of runs that were carried out again.
    pub runs: usize,
    /// Runs of the experiment that the store has.
    pub stored: usize,
    /// Names and numbers of those that gave other bytes.
    pub others: Vec<(RunName, usize)>,
}

impl Store {
    /// Carries a sample of its runs out again, and compares bytes. `salt` chooses the sample.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be read, [`Error::Simulation`] if a run cannot be carried out.
    pub fn verify(
        &self,
        experiment: &Arc<Experiment>,
        options: &Options,
        sample: usize,
        salt: u64,
    ) -> Result<Verified, Error> {
        let mut names = Vec::new();
        for number in 0..experiment.runs() {
            let run = experiment.run(experiment.run_id(number))?;
            let name = RunName::of(&run, &experiment.modules, &*options.back_end);
            if self.has(name) {
                names.push((name, number));
            }
        }
        let stored_runs = names.len();
        // Names are hashes: so is their order under a salt.
        names.sort_by_key(|(name, _)| name.first_bytes().wrapping_mul(salt | 1));
        names.truncate(sample);
        names.sort_by_key(|(_, number)| *number);
        let only = names.iter().map(|(_, number)| *number).collect();
        let options = Options { only: Some(only), ..options.clone() };
        let of = experiment.clone();
        let back_end = options.back_end.clone();
        let again = move |done: Done| {
            let name = RunName::of(&done.run, &of.modules, &*back_end);
            stored(&of, name, &done).map(|run| unlabelled(run).encode_to_vec())
        };
        let bytes = |made: &std::io::Result<Vec<u8>>| made.as_ref().map_or(0, Vec::len);
        let failed = |why| Error::io(self.path(), "cannot read", why);
        let (mut runs_again, mut others) = (0, Vec::new());
        for (made, (name, number)) in runs(experiment, &options, again, bytes)?.zip(names) {
            let made = made?.map_err(failed)?;
            let before = self.read(name).map_err(failed)?;
            runs_again += 1;
            if before.is_none_or(|before| before.encode_to_vec() != made) {
                others.push((name, number));
            }
        }
        Ok(Verified { runs: runs_again, stored: stored_runs, others })
    }
}

//! Carries runs of a store out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use prost::Message as _;

use super::index::Index;
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
    /// Number of runs of the experiment that the store has.
    pub stored: usize,
    /// Runs that gave other bytes, with the files that have others.
    pub wrong: Vec<Wrong>,
    /// Whether it was stopped before all had finished.
    pub interrupted: bool,
}

/// A run with other results than those that are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its name.
    pub name: RunName,
    /// Its number in the experiment.
    pub number: usize,
    /// The part that has other results.
    pub file: String,
}

impl Store {
    /// Carries a sample of its runs out again, and compares bytes. `salt` chooses the sample. Runs that are there with several results
    /// are always in it.
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
        let failed = |why| Error::io(self.path(), "cannot read", why);
        let mut numbers = BTreeMap::new();
        for number in 0..experiment.runs() {
            let (name, _) = RunName::of_number(experiment, number, &*options.back_end)?;
            if self.has(name) {
                numbers.entry(name).or_insert(number);
            }
        }
        let mut index = Index::of(&self.dir).map_err(failed)?;
        // Names are hashes: so is their order under a salt.
        let mut chosen: Vec<_> = numbers.keys().copied().collect();
        chosen.sort_by_key(|name| name.first_bytes().wrapping_mul(salt | 1));
        chosen.truncate(sample);
        chosen.extend(index.doubtful().filter(|name| numbers.contains_key(name)));
        let only: Vec<_> = chosen.iter().map(|name| numbers[name]).collect();
        let names: BTreeMap<_, _> = numbers.iter().map(|(name, number)| (*number, *name)).collect();
        let options = Options { only: Some(only.into()), ..options.clone() };
        let (of, of_number) = (experiment.clone(), Arc::new(names));
        let again = move |done: Done| {
            let name = of_number[&done.id.index];
            let run = stored(&of, name, &done)?;
            Ok((name, unlabelled(run).encode_to_vec()))
        };
        type Again = std::io::Result<(RunName, Vec<u8>)>;
        let bytes = |made: &Again| made.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let (mut carried_out, mut wrong) = (0, Vec::new());
        let mut again = runs(experiment, &options, again, bytes)?;
        for made in again.by_ref() {
            let (name, made) = made?.map_err(failed)?;
            carried_out += 1;
            let places: Vec<_> = index.all_places(name).collect();
            for place in places {
                if index.message(&self.dir, place).map_err(failed)? != made {
                    let file = index.file_of(place);
                    wrong.push(Wrong { name, number: numbers[&name], file });
                }
            }
        }
        let interrupted = again.is_stopped();
        Ok(Verified { runs: carried_out, stored: numbers.len(), wrong, interrupted })
    }
}

//! Runs that a store lacks, in batches of similar work.

use std::collections::HashSet;

use knee_run::BackEnd;
use knee_run::spec::Run;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;

use crate::run_name::RunName;

/// Most runs of a batch.
const MOST_RUNS: usize = 10_000;

/// Some runs that one process carries out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Their numbers in the experiment.
    pub numbers: Vec<usize>,
    /// Their names, sorted.
    pub names: Vec<RunName>,
}

/// Returns those of the runs with these numbers that are not among the `stored` ones, in batches of about this much work each, by `work` of a run. Repeats
/// come last, so that a sweep that is stopped has seen each row. Of equal runs the first is taken. A run with more work is alone.
///
/// # Errors
/// Those of resolving a row.
pub fn batches(
    experiment: &Experiment,
    back_end: &dyn BackEnd,
    mut numbers: Vec<usize>,
    mut stored: HashSet<RunName>,
    (work, of_batch): (impl Fn(&Run) -> f64, f64),
) -> Result<Vec<Batch>, Error> {
    numbers.sort_by_key(|run| experiment.run_id(*run).repeat);
    let (mut all, mut batch, mut so_far) = (Vec::new(), Batch::default(), 0.0);
    for number in numbers {
        let (name, run) = RunName::of_number(experiment, number, back_end)?;
        if !stored.insert(name) {
            continue;
        }
        let more = work(&run);
        let is_full = so_far + more > of_batch || batch.numbers.len() == MOST_RUNS;
        if is_full && !batch.numbers.is_empty() {
            all.push(std::mem::take(&mut batch));
            so_far = 0.0;
        }
        so_far += more;
        batch.numbers.push(number);
        batch.names.push(name);
    }
    all.push(batch);
    all.retain(|batch| !batch.numbers.is_empty());
    all.iter_mut().for_each(|batch| batch.names.sort_unstable());
    Ok(all)
}

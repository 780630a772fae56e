//! Sweeps with a store.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use knee_evidence::judge;
use knee_evidence::reproduce::packets;
use knee_evidence::until::Until;
use knee_scenario::Experiment;
use knee_sim::Simulator;
use knee_sweep::run_name::RunName;
use knee_sweep::runner::{fill, sweep};
use knee_sweep::runs::Options;
use knee_sweep::store::{Batch, Share, Store, batches, put};
use knee_sweep::sweep_result::Filled;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde_json::json;

use crate::failure::{Failure, apart};
use crate::runs::{Watch, in_python};

/// What shall be carried out into a store.
pub(crate) struct Asked {
    /// Directory of the sweep, with its store.
    pub(crate) dir: PathBuf,
    pub(crate) share: Share,
    /// Numbers of runs, instead of all of the share.
    pub(crate) only: Option<Vec<usize>>,
    /// Whether tables are made of what is stored, and no run is carried out.
    pub(crate) only_tables: bool,
    /// What `until` says, and the most repeats.
    pub(crate) until: Option<(String, u32)>,
    pub(crate) threads: usize,
}

/// Carries runs out into the store of a sweep, and makes tables if they are not a shard. Returns what became of them, as JSON.
/// `progress` is that of [`crate::runs::run`].
pub(crate) fn carry_out(
    one: &Arc<Experiment>,
    asked: Asked,
    progress: Option<Py<PyAny>>,
) -> Result<String, Failure> {
    let Asked { dir, share, only, only_tables, until, threads } = asked;
    let until = until.map(|(text, most)| Ok::<_, Failure>((read_until(one, &text)?, most)));
    let until = until.transpose()?;
    let is_shard = share != Share::Whole || only.is_some();
    let mut options = Options { threads, ..Options::new(Arc::new(Simulator)) };
    let is_batch = only.is_some();
    options.only = match (only, share) {
        (Some(numbers), _) => Some(numbers.into()),
        (None, Share::Whole) => None,
        (None, shard) => Some(shard.numbers(one, &Simulator)?.into()),
    };
    options.stop.store(only_tables, Ordering::Relaxed);
    let open = |path: &Path| {
        let store = Store::open(path, one, &Simulator, share)?;
        Ok(if is_batch { store.in_one_part() } else { store })
    };
    let mut results = Store::results(&dir, open).map_err(in_python)?;
    let all = options.only.as_ref().map_or(one.runs(), |only| only.len());
    let mut watch = Watch::new(progress);
    let mut look = |done: usize| {
        let left_s = options.going.reached().left_s(done, all, watch.elapsed_s());
        if !watch.look(done, left_s, all) {
            options.stop.store(true, Ordering::Relaxed);
        }
    };
    if is_shard {
        let filled = fill(one, &options, &mut results, &mut look);
        watch.raised()?;
        return Ok(told(&filled.map_err(in_python)?, None));
    }
    let swept = sweep(one, &options, &mut results, &mut look);
    let stopped = watch.raised_but_by_hand()?;
    let swept = swept.map_err(in_python)?;
    if let Some(raised) = stopped.filter(|_| swept.runs_done == 0 || !swept.interrupted) {
        return Err(raised.into());
    }
    let wanted = until.map(|(until, most)| until.distance(one, &swept, most).repeat);
    let claims = judge::claims(one, &swept);
    results.finish(one, &swept, &claims).map_err(in_python)?;
    let filled = Filled {
        runs_done: swept.runs_done,
        runs_earlier: swept.runs_earlier,
        runs_same: swept.runs_same,
        interrupted: swept.interrupted,
        failed: swept.failed,
        effort: swept.effort,
    };
    Ok(told(&filled, wanted.filter(|wanted| *wanted > one.repeat)))
}

fn told(filled: &Filled, wanted_repeat: Option<u32>) -> String {
    json!({
        "runs_done": filled.runs_done,
        "runs_earlier": filled.runs_earlier,
        "runs_same": filled.runs_same,
        "interrupted": filled.interrupted,
        "failed": filled.failed,
        "cpu_s": filled.effort.cpu_s,
        "wall_s": filled.effort.wall_s,
        "wanted_repeat": wanted_repeat,
    })
    .to_string()
}

fn read_until(one: &Experiment, text: &str) -> Result<Until, Failure> {
    Until::read(text, one).map_err(|why| Failure::says(format!("knee.sweep: until: {why}")))
}

/// The numbers of a batch's runs, and their names one after another.
pub(crate) type NumbersAndNames = (Vec<usize>, Vec<u8>);

/// Batches of the runs of a share that are not stored, and the number of all runs of the share.
pub(crate) fn missing(
    one: &Experiment,
    share: Share,
    stored: &[u8],
    packets_of_batch: f64,
) -> Result<(Vec<NumbersAndNames>, usize), Failure> {
    let numbers = share.numbers(one, &Simulator)?;
    let runs = numbers.len();
    let stored: HashSet<_> =
        stored.chunks(RunName::BYTES).filter_map(RunName::from_bytes).collect();
    let all = batches(one, &Simulator, numbers, stored, (packets, packets_of_batch))?;
    let of_batch = |Batch { numbers, names }: Batch| {
        (numbers, names.iter().flat_map(|name| name.bytes().to_vec()).collect())
    };
    Ok((all.into_iter().map(of_batch).collect(), runs))
}

/// Puts a file into the folder of a store unless it is there. Returns whether it was not.
#[pyfunction]
pub(crate) fn put_into_store(
    py: Python<'_>,
    path: PathBuf,
    name: String,
    content: Vec<u8>,
) -> PyResult<bool> {
    apart(py, || Ok(put(&path, &name, &content)?))
}

/// Files that the experiment reads, with the algorithm files that it compiles.
pub(crate) fn files(one: &Experiment) -> Vec<PathBuf> {
    let modules = one.modules.iter().filter_map(|algorithm| algorithm.module());
    let modules = modules.flat_map(|module| {
        let others = module.others_read().iter().map(|(path, _)| path.as_path());
        [module.path()].into_iter().chain(others).map(Path::to_owned).collect::<Vec<_>>()
    });
    one.inputs.iter().map(|file| PathBuf::from(&file.path)).chain(modules).collect()
}

//! Experiments.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use knee_algo::module::{Api, LinuxApi, Options};
use knee_catalogue::BUILT_IN;
use knee_results::Manifest;
use knee_results::manifest::Axis;
use knee_scenario::overrides::Words;
use knee_scenario::published::Stat;
use knee_scenario::scale::Scale;
use knee_scenario::{Overrides, memory, refused, remarks};
use knee_sim::Simulator;
use knee_sweep::about;
use knee_sweep::run_name::RunName;
use knee_sweep::store::{Share, Store};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde_json::json;

use crate::failure::{Failure, Said, apart};
use crate::stream::Stream;
use crate::{cost, keys, runs, sweep};

/// A checked experiment.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Experiment {
    pub(crate) inner: Arc<knee_scenario::Experiment>,
    /// The same with all rows checked, once something wants that.
    whole: OnceLock<Arc<knee_scenario::Experiment>>,
}

impl Experiment {
    /// The experiment with all rows checked, for runs of the simulator. A worker carries many batches of it out.
    fn whole(&self, py: Python<'_>) -> PyResult<Arc<knee_scenario::Experiment>> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole.clone());
        }
        let one = self.inner.clone();
        let whole = apart(py, move || {
            let whole = runs::whole(one)?;
            refused::check(&whole, &Simulator)?;
            Ok(whole)
        })?;
        Ok(self.whole.get_or_init(|| whole).clone())
    }
}

/// Changes to an experiment's text, as Python gives them.
#[derive(Debug, FromPyObject)]
struct Changes {
    cc: Vec<String>,
    /// `KEY=VALUE`, the value as in TOML.
    set: Vec<String>,
    /// `KEY=LIST`.
    vary: Vec<String>,
    repeat: Option<u32>,
    seed: Option<u64>,
    scale: f64,
    quick: bool,
    stats: Vec<String>,
    memory: Option<String>,
    define: Vec<String>,
    include: Vec<PathBuf>,
    linux: Option<String>,
    api: Option<String>,
}

/// What changes an experiment, in messages.
static WORDS: Words =
    Words { set: "exp.set", vary: "exp.vary", cc: "exp.cc", scale: "exp.with_(scale)" };

/// The error of an argument of `exp.with_`.
fn wrong(argument: &str, why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("exp.with_: {argument}: {why}");
    let allowed = Some(why.to_string());
    Failure::Says(Said { sentence, key: Some(argument.to_owned()), line: None, allowed })
}

impl Changes {
    fn overrides(self) -> Result<Overrides, Failure> {
        let scale = Scale::new(self.scale).map_err(|why| wrong("scale", &why))?;
        let stats =
            self.stats.iter().map(|stat| Stat::named(stat).map_err(|why| wrong("stats", &why)));
        for define in &self.define {
            Options::check_define(define).map_err(|why| wrong("module.define", &why))?;
        }
        let linux =
            self.linux.map(|of| LinuxApi::named(&of).map_err(|why| wrong("module.linux", &why)));
        let api = self.api.map(|of| Api::named(&of).map_err(|why| wrong("module.api", &why)));
        let memory = self.memory.map(|of| memory::parse(&of).map_err(|why| wrong("memory", &why)));
        Ok(Overrides {
            cc: self.cc,
            set: self.set,
            vary: self.vary,
            repeat: self.repeat,
            seed: self.seed,
            scale,
            quick: self.quick,
            stats: stats.collect::<Result<_, _>>()?,
            memory_bytes: memory.transpose()?,
            modules: Options {
                define: self.define,
                include: self.include,
                linux: linux.transpose()?,
                api: api.transpose()?,
            },
            words: &WORDS,
            ..Overrides::default()
        })
    }
}

#[pymethods]
impl Experiment {
    /// Reads and checks a text with changes. The path gives the name, and the folder of the files that it names.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, text: String, changes: Changes) -> PyResult<Experiment> {
        apart(py, move || {
            let overrides = changes.overrides()?;
            let inner = knee_scenario::Experiment::parse(&path, &text, &overrides)?;
            if overrides.quick && !inner.is_quick {
                let why = format!("{}: has no [quick]: leave quick out", path.display());
                return Err(Failure::says(why));
            }
            Ok(Experiment { inner: Arc::new(inner), whole: OnceLock::new() })
        })
    }

    /// What it is, as JSON.
    fn about(&self, py: Python<'_>) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || {
            let axes = one.axes.iter().map(about::axis).collect::<Vec<Axis>>();
            let about = json!({
                "name": one.name,
                "question": one.question,
                "cases": one.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(),
                "case_words": one.cases.iter().map(|case| case.words()).collect::<Vec<_>>(),
                "axes": axes,
                "rows": one.rows(),
                "repeat": one.repeat,
                "runs": one.runs(),
                "seed": one.seed,
                "remarks": remarks::remarks(&one).iter().map(|of| of.words()).collect::<Vec<_>>(),
                // What they say may change until it runs.
                "reads_files": !one.modules.is_empty() || !one.inputs.is_empty(),
            });
            Ok(about.to_string())
        })
    }

    /// Every key with its value, by case, as JSON.
    fn resolved(&self, py: Python<'_>) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || Ok(serde_json::Value::from(one.resolved()?).to_string()))
    }

    /// The keys below a path, as JSON.
    fn keys(&self, py: Python<'_>, prefix: String) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || keys::below(&one, &prefix))
    }

    /// What its runs take, as JSON, after a trial of at most so many seconds.
    fn cost(&self, py: Python<'_>, trial_s: f64) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || cost::cost(&one, trial_s))
    }

    /// The network of the first run as SVG. None: it is too large to draw.
    fn network(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let one = self.inner.clone();
        apart(py, move || {
            let manifest = Manifest {
                experiment: one.name.clone(),
                network: Some(about::network(&one)?),
                axes: one.axes.iter().map(about::axis).collect(),
                ..Manifest::default()
            };
            Ok(knee_report::network_svg(&manifest))
        })
    }

    /// Names of its runs: equal for runs that compute the same.
    fn run_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let one = self.inner.clone();
        apart(py, move || {
            let name = |number| Ok(RunName::of_number(&one, number, &Simulator)?.0.to_string());
            (0..one.runs()).map(name).collect()
        })
    }

    /// Runs it into a directory. `progress` is called with the number of finished runs and the seconds that are left, or None.
    #[pyo3(signature = (folder, is_temporary, goes_on, threads, trace, captures, progress))]
    #[expect(clippy::too_many_arguments, reason = "Python's caller is one function")]
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        is_temporary: bool,
        goes_on: bool,
        threads: usize,
        trace: Option<String>,
        captures: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let one = self.whole(py)?;
        apart(py, move || {
            runs::run(
                &one,
                &folder,
                runs::Asked { threads, trace, captures, is_temporary, goes_on },
                progress,
            )
        })
    }

    /// Carries runs out into the store of a sweep: a shard, the runs of these numbers, or all, with tables. Returns what became of
    /// them, as JSON.
    #[pyo3(signature = (folder, shard, only, only_tables, until, threads, progress))]
    #[expect(clippy::too_many_arguments, reason = "Python's caller is one function")]
    fn sweep(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        shard: Option<String>,
        only: Option<Vec<usize>>,
        only_tables: bool,
        until: Option<(String, u32)>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let one = self.whole(py)?;
        apart(py, move || {
            let share = share(shard.as_deref())?;
            let dir = folder;
            let asked = sweep::Asked { dir, share, only, only_tables, until, threads };
            sweep::carry_out(&one, asked, progress)
        })
    }

    /// Batches of the runs of a shard, or of all, that are not among the stored names: their numbers and names; and the number of all
    /// runs of the shard.
    fn missing(
        &self,
        py: Python<'_>,
        shard: Option<String>,
        stored: Vec<u8>,
        packets_of_batch: f64,
    ) -> PyResult<(Vec<sweep::NumbersAndNames>, usize)> {
        let one = self.whole(py)?;
        apart(py, move || sweep::missing(&one, share(shard.as_deref())?, &stored, packets_of_batch))
    }

    /// What a store says of the experiment whose runs it has.
    fn store_head(&self, py: Python<'_>) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || Ok(Store::head(&one, &Simulator)?))
    }

    /// Refuses the store of another experiment.
    fn check_store_head(&self, py: Python<'_>, place: PathBuf, head: String) -> PyResult<()> {
        let one = self.inner.clone();
        apart(py, move || Ok(Store::check_head(&place, &head, &one, &Simulator)?))
    }

    /// The files that it reads.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        let one = self.whole(py)?;
        apart(py, move || Ok(sweep::files(&one)))
    }

    /// Runs it, and gives a finished run after the other.
    fn stream(&self, py: Python<'_>, threads: usize) -> PyResult<Stream> {
        let one = self.whole(py)?;
        apart(py, move || Stream::begin(one, threads))
    }
}

/// The share of a shard's words.
fn share(shard: Option<&str>) -> Result<Share, Failure> {
    let parse = |text: &str| text.parse().map_err(|why| Failure::says(format!("shard = {why}")));
    shard.map_or(Ok(Share::Whole), parse)
}

/// The path and the text of an experiment: a file, or a built-in name.
#[pyfunction]
pub(crate) fn built_in(py: Python<'_>, word: PathBuf) -> PyResult<(PathBuf, String)> {
    apart(py, move || Ok(knee_catalogue::resolve(&word)?.read()?))
}

/// Name and group of every built-in experiment.
#[pyfunction]
pub(crate) fn experiments() -> Vec<(&'static str, &'static str)> {
    BUILT_IN.iter().map(|one| (one.name, one.group)).collect()
}

//! Experiments.

use std::path::PathBuf;
use std::sync::Arc;

use knee_algo::module::{Api, LinuxApi, Options};
use knee_catalogue::BUILT_IN;
use knee_results::Manifest;
use knee_results::manifest::Axis;
use knee_scenario::published::Stat;
use knee_scenario::scale::Scale;
use knee_scenario::{Overrides, memory, refused, remarks};
use knee_sim::Simulator;
use knee_sweep::about;
use knee_sweep::run_name::RunName;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde_json::json;

use crate::failure::{Failure, apart};
use crate::{cost, keys, runs};

/// A checked experiment.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Experiment {
    pub(crate) inner: Arc<knee_scenario::Experiment>,
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

impl Changes {
    fn overrides(self) -> Result<Overrides, Failure> {
        let wrong = |option: &str| {
            let option = option.to_owned();
            move |why: String| Failure::says(format!("{option}: {why}"))
        };
        let scale = Scale::new(self.scale);
        let stats = self.stats.iter().map(|stat| Stat::named(stat).map_err(wrong("stats")));
        for define in &self.define {
            Options::check_define(define).map_err(wrong("define"))?;
        }
        let linux = self.linux.map(|linux| LinuxApi::named(&linux).map_err(wrong("linux")));
        let api = self.api.map(|api| Api::named(&api).map_err(wrong("api")));
        let memory = self.memory.map(|size| memory::parse(&size).map_err(wrong("memory")));
        Ok(Overrides {
            cc: self.cc,
            set: self.set,
            vary: self.vary,
            repeat: self.repeat,
            seed: self.seed,
            scale: scale.map_err(|why| wrong("scale")(why.to_string()))?,
            quick: self.quick,
            stats: stats.collect::<Result<_, _>>()?,
            memory_bytes: memory.transpose()?,
            modules: Options {
                define: self.define,
                include: self.include,
                linux: linux.transpose()?,
                api: api.transpose()?,
            },
            only_reads: false,
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
            Ok(Experiment { inner: Arc::new(inner) })
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
                "expect": one.expect,
                "source": one.source,
                "cases": one.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(),
                "case_words": one.cases.iter().map(|case| case.words()).collect::<Vec<_>>(),
                "axes": axes,
                "rows": one.configurations.len(),
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
            let name = |index| {
                let run = one.run(one.run_id(index))?;
                Ok(RunName::of(&run, &one.modules, &Simulator).to_string())
            };
            (0..one.runs()).map(name).collect()
        })
    }

    /// Runs it into a directory. `progress` is called with the number of finished runs and the share of the work that is done.
    /// Returns what happened, as JSON.
    #[pyo3(signature = (dir, threads, trace, captures, progress))]
    fn run(
        &self,
        py: Python<'_>,
        dir: PathBuf,
        threads: usize,
        trace: Option<String>,
        captures: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let one = self.inner.clone();
        apart(py, move || {
            let one = runs::whole(one)?;
            refused::check(&one, &Simulator)?;
            runs::run(&one, &dir, runs::Asked { threads, trace, captures }, progress)
        })
    }
}

/// The path and the text of an experiment: a file, or a built-in name.
#[pyfunction]
pub(crate) fn built_in(py: Python<'_>, word: PathBuf) -> PyResult<(PathBuf, String)> {
    apart(py, move || Ok(knee_catalogue::resolve(&word)?.read()?))
}

/// Name, group and text of every built-in experiment.
#[pyfunction]
pub(crate) fn experiments() -> Vec<(&'static str, &'static str, &'static str)> {
    BUILT_IN.iter().map(|one| (one.name, one.group, one.text)).collect()
}

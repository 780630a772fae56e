//! Carries experiments out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use knee_evidence::judge;
use knee_scenario::Experiment;
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use serde_json::json;

use crate::failure::Failure;

/// Between two calls of a progress function.
const BETWEEN_CALLS: Duration = Duration::from_millis(100);

/// How to carry it out.
pub(crate) struct Asked {
    /// 0: one per core.
    pub(crate) threads: usize,
    pub(crate) trace: Option<String>,
    pub(crate) captures: bool,
    /// Whether the directory goes with the results.
    pub(crate) is_temporary: bool,
}

/// The experiment with all rows checked.
pub(crate) fn whole(one: Arc<Experiment>) -> Result<Arc<Experiment>, Failure> {
    match one.is_whole() {
        true => Ok(one),
        false => Ok(Arc::new(Experiment::clone(&one).whole()?)),
    }
}

/// Carries all runs out, and writes a results directory. Returns what happened, as JSON.
///
/// An exception of `progress` stops it, and is raised. So does Ctrl-C; what has finished is kept then, and the exception is raised
/// only if nothing has.
pub(crate) fn run(
    one: &Arc<Experiment>,
    dir: &Path,
    asked: Asked,
    progress: Option<Py<PyAny>>,
) -> Result<String, Failure> {
    let Asked { threads, trace, captures, is_temporary } = asked;
    let options = Options { threads, trace, captures, ..Options::new(Arc::new(Simulator)) };
    let mut results = Results::at(dir)?;
    if is_temporary {
        results = results.temporary();
    }
    let mut watch = Watch { raised: None, called: Instant::now(), progress };
    let swept = sweep(one, &options, &mut results, &mut |done| {
        let share = options.going.reached().runs;
        if !watch.look(done, share, one.runs()) {
            options.stop.store(true, Ordering::Relaxed);
        }
    });
    let is_stopped_by_hand = match watch.raised {
        Some(raised) if !Python::attach(|py| raised.is_instance_of::<PyKeyboardInterrupt>(py)) => {
            return Err(raised.into());
        }
        Some(raised) => Some(raised),
        None => None,
    };
    let swept = swept?;
    if let Some(raised) = is_stopped_by_hand.filter(|_| swept.runs_done == 0) {
        return Err(raised.into());
    }
    let claims = judge::claims(one, &swept);
    results.finish(one, &swept, &claims)?;
    let happened = json!({
        "interrupted": swept.interrupted,
        "runs_done": swept.runs_done,
        "failed": swept.failed,
        "warnings": swept.warnings,
        "cpu_s": swept.effort.cpu_s,
        "wall_s": swept.effort.wall_s,
    });
    Ok(happened.to_string())
}

/// Looks after Python while runs go on: signals, and the progress function.
struct Watch {
    raised: Option<PyErr>,
    called: Instant,
    progress: Option<Py<PyAny>>,
}

impl Watch {
    /// Returns whether to go on.
    fn look(&mut self, done: usize, share: f64, all: usize) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let is_due = self.called.elapsed() >= BETWEEN_CALLS || done == all;
        let looked = Python::attach(|py| {
            // Python's own handlers run: that of Ctrl-C raises KeyboardInterrupt.
            py.check_signals()?;
            match &self.progress {
                Some(progress) if is_due => progress.call1(py, (done, share)).map(drop),
                _ => Ok(()),
            }
        });
        if is_due {
            self.called = Instant::now();
        }
        self.raised = looked.err();
        self.raised.is_none()
    }
}

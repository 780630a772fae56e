//! Carries experiments out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use knee_evidence::judge;
use knee_scenario::{Error, Experiment};
use knee_sim::Simulator;
use knee_sweep::results::Results;
use knee_sweep::runner::sweep;
use knee_sweep::runs::Options;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyAny;

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
    /// Whether to go on with what a sweep left in the directory.
    pub(crate) goes_on: bool,
}

/// The experiment with all rows checked.
pub(crate) fn whole(one: Arc<Experiment>) -> Result<Arc<Experiment>, Failure> {
    match one.is_whole() {
        true => Ok(one),
        false => Ok(Arc::new(Experiment::clone(&one).whole()?)),
    }
}

/// Carries all runs out, and writes a results directory.
///
/// `progress` is called with the number of finished runs, and with the seconds that are left, if anything tells. An exception of it
/// stops the runs, and is raised. So does Ctrl-C; what has finished is kept then, and the exception is raised if nothing has, or if
/// everything has: results that are whole would not tell of it.
pub(crate) fn run(
    one: &Arc<Experiment>,
    dir: &Path,
    asked: Asked,
    progress: Option<Py<PyAny>>,
) -> Result<(), Failure> {
    let Asked { threads, trace, captures, is_temporary, goes_on } = asked;
    let options = Options { threads, trace, captures, ..Options::new(Arc::new(Simulator)) };
    let mut results =
        if goes_on { Results::continued(dir) } else { Results::at(dir) }.map_err(in_python)?;
    if is_temporary {
        results = results.temporary();
    }
    let mut watch = Watch::new(progress);
    let swept = sweep(one, &options, &mut results, &mut |done| {
        let left_s = options.going.reached().left_s(done, one.runs(), watch.elapsed_s());
        if !watch.look(done, left_s, one.runs()) {
            options.stop.store(true, Ordering::Relaxed);
        }
    });
    let is_stopped_by_hand = watch.raised_but_by_hand()?;
    let swept = swept.map_err(in_python)?;
    if swept.runs_done > 0 || is_stopped_by_hand.is_none() {
        let claims = judge::claims(one, &swept);
        results.finish(one, &swept, &claims).map_err(in_python)?;
    }
    match is_stopped_by_hand.filter(|_| swept.runs_done == 0 || !swept.interrupted) {
        Some(raised) => Err(raised.into()),
        None => Ok(()),
    }
}

/// The error of a directory, with the ways out that Python has. Its path keeps its name.
pub(crate) fn in_python(why: Error) -> Failure {
    let words = |text: &str| {
        let text = text.replace("--continue -o", "go_on=True and out =");
        text.replace("--continue", "go_on=True").replace("with -o", "by out")
    };
    match why {
        Error::Io { path, action, source } => {
            let source = std::io::Error::new(source.kind(), words(&source.to_string()));
            Error::Io { path, action, source }.into()
        }
        Error::Input(input) if input.key.is_empty() => {
            let message = words(&input.message).into();
            Error::Input(knee_file::Error { message, ..input }).into()
        }
        other => other.into(),
    }
}

/// Looks after Python while runs go on: signals, and the progress function.
pub(crate) struct Watch {
    raised: Option<PyErr>,
    begun: Instant,
    called: Instant,
    progress: Option<Py<PyAny>>,
}

impl Watch {
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Watch {
        let begun = Instant::now();
        Watch { raised: None, begun, called: begun, progress }
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Raises what was raised meanwhile.
    pub(crate) fn raised(self) -> Result<(), Failure> {
        self.raised.map_or(Ok(()), |raised| Err(raised.into()))
    }

    /// The same, but returns what Ctrl-C raised: what has finished is worth something.
    pub(crate) fn raised_but_by_hand(self) -> Result<Option<PyErr>, Failure> {
        let is_by_hand =
            |raised: &PyErr| Python::attach(|py| raised.is_instance_of::<PyKeyboardInterrupt>(py));
        match self.raised {
            Some(raised) if !is_by_hand(&raised) => Err(raised.into()),
            other => Ok(other),
        }
    }

    /// Returns whether to go on.
    pub(crate) fn look(&mut self, done: usize, left_s: Option<f64>, all: usize) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let is_due = self.called.elapsed() >= BETWEEN_CALLS || done == all;
        let looked = Python::attach(|py| {
            // Python's own handlers run: that of Ctrl-C raises KeyboardInterrupt.
            py.check_signals()?;
            match &self.progress {
                Some(progress) if is_due => progress.call1(py, (done, left_s)).map(drop),
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

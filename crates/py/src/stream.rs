//! Runs one at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knee_columns::{ArrowSinks, ArrowTable};
use knee_scenario::Experiment;
use knee_scenario::cases::RunId;
use knee_sim::Simulator;
use knee_sweep::rows::{schema, write_rows};
use knee_sweep::runs::{Done, Options, runs};
use pyo3::prelude::*;
use serde_json::json;

use crate::failure::{Failure, apart};
use crate::table::Table;

/// Between two looks at signals.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

type Tables = Vec<(String, ArrowTable)>;

/// Finished runs, in their order.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Stream {
    experiment: Arc<Experiment>,
    finished: Mutex<Receiver<Result<(RunId, Tables), Failure>>>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    /// Starts the runs.
    pub(crate) fn begin(experiment: Arc<Experiment>, threads: usize) -> Result<Stream, Failure> {
        let options = Options { threads, ..Options::new(Arc::new(Simulator)) };
        let stop = options.stop.clone();
        let (of, shared) = (experiment.clone(), experiment.clone());
        // One waits, beside those that the runs keep within bounds.
        let (sender, finished) = sync_channel(1);
        let make = move |done: Done| (done.id, tables(&of, &done));
        // Its iterator stays in one thread: Python's may change.
        std::thread::spawn(move || {
            let begun =
                runs(&shared, &options, make, |(_, tables)| tables.as_ref().map_or(0, bytes));
            match begun {
                Err(why) => drop(sender.send(Err(why.into()))),
                Ok(mut all) => {
                    let sent = |run| match run {
                        Ok((id, Ok(tables))) => sender.send(Ok((id, tables))),
                        Ok((_, Err(why))) => sender.send(Err(Failure::says(why))),
                        Err(why) => sender.send(Err(Failure::from(why))),
                    };
                    // When nobody takes them any more, the iterator goes, and its threads end.
                    let _ = all.try_for_each(sent);
                }
            }
        });
        Ok(Stream { experiment, finished: Mutex::new(finished), stop })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn tables(experiment: &Experiment, done: &Done) -> std::io::Result<Tables> {
    let mut sinks = ArrowSinks::new(|file| schema(file, experiment));
    write_rows(experiment, done, &done.measure(), &mut sinks)?;
    let tables = sinks.tables()?.into_iter();
    Ok(tables.map(|(file, table)| (file.stem().to_owned(), table)).collect())
}

fn bytes(tables: &Tables) -> usize {
    let batches = tables.iter().flat_map(|(_, table)| &table.batches);
    batches.map(|batch| batch.get_array_memory_size()).sum()
}

#[pymethods]
impl Stream {
    fn __iter__(of: PyRef<'_, Self>) -> PyRef<'_, Self> {
        of
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Streamed>> {
        loop {
            let taken = apart(py, || {
                let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
                match finished.recv_timeout(BETWEEN_LOOKS) {
                    Ok(run) => run.map(Some).map(Ok),
                    Err(why) => Ok(Err(why)),
                }
            });
            match taken {
                Ok(Ok(run)) => return Ok(run.map(|run| self.streamed(run))),
                Ok(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
                Ok(Err(RecvTimeoutError::Timeout)) => {}
                Err(why) => return Err(why),
            }
            if let Err(raised) = py.check_signals() {
                self.stop.store(true, Ordering::Relaxed);
                return Err(raised);
            }
        }
    }

    /// Stops it: its threads end at once.
    fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    fn streamed(&self, (id, tables): (RunId, Tables)) -> Streamed {
        let one = &self.experiment;
        let row = one.row(id.configuration);
        let paths = one.axes.iter().map(|axis| axis.path.clone());
        let values = paths.zip(one.point_labels(&row)).collect::<Vec<_>>();
        let about = json!({
            "number": id.index,
            "case": one.case_name(&row),
            "values": values.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "repeat": id.repeat,
            "seed": id.seed,
        });
        Streamed { about: about.to_string(), tables }
    }
}

/// A finished run.
#[pyclass(frozen, module = "knee._knee")]
pub(crate) struct Streamed {
    /// Its number, case, varied values, repeat and seed, as JSON.
    #[pyo3(get)]
    about: String,
    tables: Tables,
}

#[pymethods]
impl Streamed {
    /// A table by the name of its file without extension. None: the run has no rows of it.
    fn table(&self, name: &str) -> Option<Table> {
        let (_, table) = self.tables.iter().find(|(known, _)| known == name)?;
        Some(Table::of(table.schema.clone(), table.batches.clone()))
    }
}

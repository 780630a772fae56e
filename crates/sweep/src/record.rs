//! Finished runs as they are stored, and read again.

use std::io;
use std::path::Path;

use knee_results::{ResultFile, line};
use knee_run::outcome::{Outcome, Validity, Work};
use knee_scenario::cases::RunId;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Measured;
use knee_scenario::stored::StoredMeasured;

use crate::done::Done;
use crate::rows::{self, Rows, TextSinks};
use crate::run_name::RunName;
use crate::stored_run::{StoredLimits, StoredRows, StoredRun};

/// A finished run, read again.
pub(crate) struct Record {
    pub(crate) id: RunId,
    pub(crate) measured: Vec<Measured>,
    pub(crate) validity: Option<Validity>,
    pub(crate) rows: Rows,
    pub(crate) work: Work,
    /// First fault of an algorithm from a file, and the number of connections with faults.
    pub(crate) warning: Option<String>,
}

/// Evaluates a run, to be stored.
pub(crate) fn stored(experiment: &Experiment, name: RunName, run: &Done) -> io::Result<StoredRun> {
    let measured = run.measure();
    let mut text = TextSinks::default();
    rows::write_rows(experiment, run, &measured, &mut text)?;
    let rows = text.rows()?.into_iter();
    let work = run.ran.outcome.work;
    Ok(StoredRun {
        name: name.bytes().to_vec(),
        label: line(&rows::label(experiment, run.id)),
        index: run.id.index.to_string(),
        measured: measured.iter().map(StoredMeasured::of).collect(),
        limits: run.ran.validity.as_ref().map(|of| StoredLimits { limits: of.limits.clone() }),
        rows: rows.map(|(file, text)| StoredRows { file: file.name().to_owned(), text }).collect(),
        events: work.events,
        data_pkts: work.data_pkts,
        pkt_hops: work.pkt_hops,
        warning: warning(&run.ran.outcome),
    })
}

impl Record {
    /// Reads a run again as that with this number, which may be another one of the same name. `None` if it holds something that
    /// is not known here.
    pub(crate) fn of(experiment: &Experiment, id: RunId, stored: StoredRun) -> Option<Record> {
        let (label, index) = (line(&rows::label(experiment, id)), id.index.to_string());
        let rows = stored.rows.into_iter().map(|rows| {
            let file = ResultFile::ALL.into_iter().find(|file| file.name() == rows.file)?;
            let (from, to) = match file.has_case() {
                true => (&stored.label, &label),
                false => (&stored.index, &index),
            };
            Some((
                file,
                if from == to { rows.text } else { rows::relabelled(&rows.text, from, to) },
            ))
        });
        Some(Record {
            id,
            rows: rows.collect::<Option<_>>()?,
            measured: stored
                .measured
                .into_iter()
                .map(StoredMeasured::measured)
                .collect::<Option<_>>()?,
            validity: stored.limits.map(|of| Validity { limits: of.limits, ..Validity::default() }),
            work: Work {
                events: stored.events,
                data_pkts: stored.data_pkts,
                pkt_hops: stored.pkt_hops,
            },
            warning: stored.warning.map(|warning| {
                let row = experiment.describe(&experiment.row(id.configuration));
                format!("run {} ({row}): {}", id.index, with_path(experiment, &warning))
            }),
        })
    }
}

/// Returns a warning with the path of its file, which is stored by its name: where it is, is of no account.
fn with_path(experiment: &Experiment, warning: &str) -> String {
    let modules = experiment.modules.iter().filter_map(|algorithm| algorithm.module());
    let of_file = modules.filter_map(|module| {
        let name = module.path().file_name()?.to_string_lossy();
        let rest = warning.strip_prefix(&*name).filter(|rest| rest.starts_with(':'))?;
        Some(format!("{}{rest}", module.path().display()))
    });
    of_file.into_iter().next().unwrap_or_else(|| warning.to_owned())
}

/// Returns a warning about faults of algorithms from files in a run.
fn warning(outcome: &Outcome) -> Option<String> {
    let flows = outcome.flows.iter().enumerate();
    let all = flows.flat_map(|(flow, got)| got.warnings.iter().map(move |found| (flow, found)));
    let all: Vec<_> = all.collect();
    let (flow, first) = *all.iter().min_by_key(|(_, found)| found.first_at_ns)?;
    let more = match all.len() {
        1 => String::new(),
        several => format!("; {} more in this run", several - 1),
    };
    let file = Path::new(&first.path).file_name().unwrap_or_default().to_string_lossy();
    Some(format!("{file}: at {}, flow {flow}: {first}{more}", first.at()))
}

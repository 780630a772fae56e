//! Finds what a back end cannot carry out, before the first run of a sweep.

use std::collections::BTreeMap;

use knee_run::{BackEnd, validate};

use crate::cases::Configuration;
use crate::error::{Error, Refusal};
use crate::experiment::Experiment;

/// Number of rows to name if no single value describes them.
const NAMED: usize = 3;

/// Validates the first run of each checked row and asks the back end whether it can carry it out. Repeats differ only by
/// their seeds.
///
/// # Errors
/// [`Error::Refused`] with all reasons.
pub fn check(experiment: &Experiment, back_end: &dyn BackEnd) -> Result<(), Error> {
    let mut reasons: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let rows = || (0..experiment.rows()).filter(|row| experiment.is_checked(*row));
    for index in rows() {
        let scenario = experiment.scenario(&experiment.row(index))?;
        if scenario.measures_while_all_run() && back_end.capabilities().has_host {
            let why = "run.measure = \"while all run\" needs a back end that repeats a run to the byte: use measure_from and \
                measure_until";
            reasons.entry(why.to_owned()).or_default().push(index);
        }
        let run = experiment.run(experiment.run_id(index * experiment.repeat as usize))?;
        if let Err(why) = validate(&run).and_then(|()| back_end.check(&run)) {
            reasons.entry(why.to_string()).or_default().push(index);
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let refusals = reasons.into_iter();
    let all: Vec<usize> = rows().collect();
    Err(Error::Refused {
        file: experiment.path.clone(),
        back_end: back_end.name(),
        refusals: refusals
            .map(|(why, rows)| Refusal { why, of: which(experiment, &rows, &all) })
            .collect(),
    })
}

/// Describes rows among others: by their cases, by the values of one key, or by the first of them. Empty means all.
pub(crate) fn which(experiment: &Experiment, rows: &[usize], among: &[usize]) -> String {
    if rows.len() == among.len() {
        return String::new();
    }
    let cases = experiment.cases.iter().map(|case| case.name.clone()).collect();
    let by_case = ("case", cases, Box::new(|row: &Configuration| row.case) as Value<'_>);
    let by_axis = experiment.axes.iter().enumerate().map(|(at, axis)| {
        (
            axis.path.as_str(),
            axis.labels(),
            Box::new(move |row: &Configuration| row.point[at]) as Value<'_>,
        )
    });
    for (key, labels, value) in std::iter::once(by_case).chain(by_axis) {
        let mut is_of = vec![false; labels.len()];
        rows.iter().for_each(|row| is_of[value(&experiment.row(*row))] = true);
        if among.iter().filter(|row| is_of[value(&experiment.row(**row))]).count() == rows.len() {
            let values: Vec<&str> = labels
                .iter()
                .zip(is_of)
                .filter(|(_, is)| *is)
                .map(|(label, _)| label.as_str())
                .collect();
            return format!("{key} = {}", values.join(", "));
        }
    }
    let named: Vec<String> =
        rows.iter().take(NAMED).map(|row| experiment.describe(&experiment.row(*row))).collect();
    match rows.len().saturating_sub(NAMED) {
        0 => named.join("; "),
        more => format!("{}; and {more} more", named.join("; ")),
    }
}

/// Returns the index of a row's value on an axis.
type Value<'a> = Box<dyn Fn(&Configuration) -> usize + 'a>;

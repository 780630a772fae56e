//! A results directory, read back: what was run, and what each run measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use knee_file::Origin;
use knee_file::units::{Quantity as _, Size};
use knee_run::spec::{HostConfig, LinuxVersion};
use serde_json::Value as Json;

use crate::error::Error;

/// Keys that may differ between results of one experiment: which Linux it was.
const KERNEL_KEYS: [&str; 3] = ["linux", "hz", "max_tcp_header"];

/// No manifest that knee writes is longer.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;
/// Tables are read whole.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// A results directory.
#[derive(Clone, Debug)]
pub struct Side {
    /// The directory.
    pub dir: PathBuf,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the back end.
    pub back_end: String,
    /// Share of the rates in the file.
    pub scale: f64,
    /// Version of Linux that simulated hosts behave like.
    pub linux: String,
    /// In what its runs are not what the simulator's are, as its back end says.
    pub apart: Vec<String>,
    /// The resolved experiment, by case.
    resolved: BTreeMap<String, BTreeMap<String, String>>,
    /// Varied values, scale and compiled algorithms.
    whole: BTreeMap<String, String>,
    /// In the order of the runs.
    pub(super) rows: Vec<Row>,
}

/// A case at one point of the varied values.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Case and varied values, in words.
    pub(super) label: String,
    /// Runs in all.
    pub(super) runs: usize,
    /// Those of them that the host limited.
    pub(super) limited: usize,
    /// What valid runs measured, in the order of the file.
    pub(super) figures: Vec<Figure>,
    /// The same of runs that the host limited.
    pub(super) of_host: Vec<Figure>,
}

impl Row {
    /// Whether the host limited every run.
    pub(super) fn is_of_host(&self) -> bool {
        self.runs > 0 && self.limited == self.runs
    }

    /// What it is compared by: valid runs; where there are none and it is forced, those that the host limited.
    pub(super) fn compared(&self, force: bool) -> &[Figure] {
        if force && self.is_of_host() { &self.of_host } else { &self.figures }
    }
}

/// A metric of a traffic entry or queue.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) subject: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// One for each run that has it.
    pub(super) runs: Vec<OfRun>,
}

/// What one run has of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OfRun {
    pub(super) values: f64,
    pub(super) mean: f64,
    /// Values that waited for a retransmission timer, and their mean; `None`: of no time of a transfer.
    pub(super) late: Option<(f64, Option<f64>)>,
}

impl Side {
    /// Reads a directory that `knee run` wrote.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Input`] if it holds no results, or not all that is needed.
    pub fn read(dir: &Path) -> Result<Side, Error> {
        let manifest_path = dir.join("manifest.json");
        let text = text_of(&manifest_path, MAX_MANIFEST_BYTES, "manifest")?;
        let wrong = |why: &str| Error::input(&manifest_path, Origin::Nowhere, "", why);
        let manifest: Json = serde_json::from_str(&text)
            .map_err(|why| wrong(&format!("is no manifest of knee run: {why}")))?;
        let resolved = manifest["resolved"]
            .as_object()
            .ok_or_else(|| wrong("is no manifest of knee run: it has no \"resolved\""))?;
        let back_end = &manifest["back_end"];
        let word = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let scale = back_end["scale"].as_f64().unwrap_or(1.0);
        let mut whole: BTreeMap<String, String> = flat(&manifest["vary"], "vary.");
        whole.insert("scale".into(), scale.to_string());
        for module in manifest["modules"].as_array().into_iter().flatten() {
            whole
                .insert(format!("file of {}", word(&module["algorithm"])), word(&module["sha256"]));
        }
        Ok(Side {
            dir: dir.to_owned(),
            experiment: word(&manifest["experiment"]),
            // Older manifests have the name alone.
            back_end: back_end["name"].as_str().or(back_end.as_str()).unwrap_or("sim").to_owned(),
            scale,
            linux: word(&manifest["linux_profile"]),
            apart: back_end["differences"].as_array().into_iter().flatten().map(word).collect(),
            resolved: resolved.iter().map(|(case, keys)| (case.clone(), flat(keys, ""))).collect(),
            whole,
            rows: read_rows(dir)?,
        })
    }

    /// Keys in which the experiments differ, beyond back end, version of Linux, HZ, seed and repeats; each with
    /// both values.
    pub fn differences(&self, other: &Side) -> Vec<String> {
        let mut all = Vec::new();
        let cases = |side: &Side| side.resolved.keys().cloned().collect::<Vec<_>>().join(", ");
        if cases(self) != cases(other) {
            all.push(format!("cases ({}; {})", cases(self), cases(other)));
        }
        all.extend(differing(&self.whole, &other.whole).map(|(_, words)| words));
        for (case, ours) in &self.resolved {
            let Some(theirs) = other.resolved.get(case) else { continue };
            let not_the_kernel = |key: &&str| !is_of_the_kernel(key, ours, theirs);
            all.extend(
                differing(ours, theirs)
                    .filter(|(key, _)| not_the_kernel(key))
                    .map(|(_, words)| words),
            );
        }
        let mut seen = BTreeSet::new();
        all.retain(|words| seen.insert(words.clone()));
        all
    }
}

/// Keys that differ, with both values in words.
fn differing<'a>(
    ours: &'a BTreeMap<String, String>,
    theirs: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, String)> + 'a {
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.into_iter().filter_map(|key| {
        let (a, b) = (ours.get(key), theirs.get(key));
        let word = |value: Option<&String>| value.map_or("not there", |value| value).to_owned();
        (a != b).then(|| (key.as_str(), format!("{key} ({}; {})", word(a), word(b))))
    })
}

/// Whether a key says which Linux it is, or has the value that this version has by itself.
fn is_of_the_kernel(
    key: &str,
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
) -> bool {
    let Some((first, last)) = key.split_once('.').zip(key.rsplit_once('.')) else { return false };
    let (first, last) = (first.0, last.1);
    let by_itself = |side: &BTreeMap<String, String>| {
        let linux = side.get("hosts.linux")?;
        let (_, version) = LinuxVersion::NAMED.iter().find(|(name, _)| name == linux)?;
        let host = HostConfig::new(*version);
        let bytes = match last {
            "limit_output" => host.limit_output_bytes,
            "rcvbuf_max" => host.rcvbuf_max_bytes,
            _ => return None,
        };
        Some(side.get(key)? == &Size(u64::from(bytes)).show())
    };
    let is_default = |side| by_itself(side).unwrap_or(false);
    matches!(first, "hosts" | "host")
        && (KERNEL_KEYS.contains(&last) || (is_default(ours) && is_default(theirs)))
}

fn flat(json: &Json, prefix: &str) -> BTreeMap<String, String> {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = json.as_object().into_iter().flatten();
    entries.map(|(key, value)| (format!("{prefix}{key}"), text(value))).collect()
}

fn text_of(path: &Path, most_bytes: u64, what: &'static str) -> Result<String, Error> {
    knee_files::read_text(path, most_bytes, what).map_err(|why| Error::unreadable(path, why))
}

/// The rows of `runs.csv` with what `measures.csv` has of their runs.
fn read_rows(dir: &Path) -> Result<Vec<Row>, Error> {
    let runs = Csv::read(&dir.join("runs.csv"))?;
    let measures = Csv::read(&dir.join("measures.csv"))?;
    let (case, repeat) = (runs.column("case")?, runs.column("repeat")?);
    let (number, verdict) = (runs.column("run")?, runs.column("verdict")?);
    let mut rows: Vec<Row> = Vec::new();
    // Of each run: its row, and whether the host limited it.
    let mut row_of: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for run in &runs.rows {
        let mut label = format!("case {}", run[case]);
        let varied = runs.head.iter().zip(run).take(repeat).skip(case + 1);
        for (axis, value) in varied {
            label.push_str(&format!(", {axis} = {value}"));
        }
        let at = rows.iter().position(|row| row.label == label).unwrap_or_else(|| {
            rows.push(Row { label, ..Row::default() });
            rows.len() - 1
        });
        rows[at].runs += 1;
        let is_limited = run[verdict] == "host-limited";
        rows[at].limited += usize::from(is_limited);
        row_of.insert(&run[number], (at, is_limited));
    }
    let columns = ["run", "subject", "metric", "unit", "values", "mean", "late", "late_mean"];
    let mut at = [0; 8];
    for (at, name) in at.iter_mut().zip(columns) {
        *at = measures.column(name)?;
    }
    let [run, subject, metric, unit, values, mean, late, late_mean] = at;
    for (line, cells) in measures.rows.iter().enumerate() {
        let Some((row, is_limited)) = row_of.get(cells[run].as_str()) else { continue };
        let row = &mut rows[*row];
        let figures = if *is_limited { &mut row.of_host } else { &mut row.figures };
        let known =
            |figure: &Figure| figure.subject == cells[subject] && figure.metric == cells[metric];
        let at = figures.iter().position(known).unwrap_or_else(|| {
            let [subject, metric, unit] = [subject, metric, unit].map(|i| cells[i].clone());
            figures.push(Figure { subject, metric, unit, runs: Vec::new() });
            figures.len() - 1
        });
        let number = |column: usize| measures.number(line, column);
        let of_run = OfRun {
            values: number(values)?.unwrap_or(0.0),
            mean: number(mean)?.unwrap_or(0.0),
            late: number(late)?.zip(Some(number(late_mean)?)),
        };
        figures[at].runs.push(of_run);
    }
    Ok(rows)
}

/// A table, its cells as text.
struct Csv {
    path: PathBuf,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    fn read(path: &Path) -> Result<Csv, Error> {
        let mut rows = cells(&text_of(path, MAX_TABLE_BYTES, "table of results")?).into_iter();
        let head = rows.next().unwrap_or_default();
        let csv = Csv { path: path.to_owned(), head, rows: rows.collect() };
        match csv.rows.iter().position(|row| row.len() != csv.head.len()) {
            None => Ok(csv),
            Some(line) => Err(csv.wrong(line, "has more or fewer cells than the first line")),
        }
    }

    fn wrong(&self, row: usize, why: &str) -> Error {
        // The first line is the head's.
        let line = u32::try_from(row + 2).unwrap_or(u32::MAX);
        Error::input(&self.path, Origin::Line(line), "", why)
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        self.head.iter().position(|column| column == name).ok_or_else(|| {
            let why = format!(
                "has no column \"{name}\": an older knee wrote it, run the experiment again"
            );
            Error::input(&self.path, Origin::Nowhere, "", why)
        })
    }

    /// The number in a cell; `None` in an empty one.
    fn number(&self, row: usize, column: usize) -> Result<Option<f64>, Error> {
        let cell = &self.rows[row][column];
        if cell.is_empty() {
            return Ok(None);
        }
        let number: Option<f64> = cell.parse().ok().filter(|number: &f64| number.is_finite());
        match number {
            Some(number) => Ok(Some(number)),
            None => {
                let why = format!("{} is no number: {cell:?}", self.head[column]);
                Err(self.wrong(row, &why))
            }
        }
    }
}

/// Lines and cells; a quoted cell may hold commas, line ends, and quotes twice.
fn cells(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut in_quotes = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if in_quotes && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => row.push(std::mem::take(&mut cell)),
            '\n' if !in_quotes => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted() {
        let rows = cells("a,\"b, \"\"c\"\"\",\n1,\"x\ny\",3\n");
        assert_eq!(rows, [vec!["a", "b, \"c\"", ""], vec!["1", "x\ny", "3"]]);
        assert_eq!(cells("a,b"), [["a", "b"]]);
        assert!(cells("").is_empty());
    }
}

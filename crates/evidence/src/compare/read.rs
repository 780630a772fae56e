//! Reads a results directory: the experiment, and the figures of each run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use knee_file::units::{Quantity as _, Size};
use knee_results::manifest::{Axis, text};
use knee_results::{
    Bucket, CASE, HOST_LIMITED, Manifest, Metric, REPEAT, RUN, ResultFile, Sketch, Sketched, Table,
    rows,
};
use knee_run::spec::HostConfig;
use knee_scenario::error::Error;
use serde_json::{Map, Value as Json};

/// Most runs of a directory that is compared.
const MOST_RUNS: usize = 1_000_000;

/// Keys that may differ between results of one experiment, because they depend on the Linux version.
const KERNEL_KEYS: [&str; 3] = ["linux", "hz", "max_tcp_header"];

/// Memory limit for runs and figures of a directory, bytes. The largest experiment has some 50 figures per run.
const MOST_BYTES: usize = 256 << 20;

/// A results directory.
#[derive(Clone, Debug)]
pub struct Side {
    pub dir: PathBuf,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the back end. Empty if unknown.
    pub back_end: String,
    /// Whether the back end is the simulator.
    pub(super) is_simulated: bool,
    /// Scale of the run: its rates as a share of those in the file.
    pub scale: f64,
    /// Version of Linux that simulated hosts behave like.
    pub linux: String,
    /// Differences of the runs from simulated ones, as the back end describes them.
    pub apart: Vec<String>,
    /// The resolved experiment, by case.
    resolved: BTreeMap<String, BTreeMap<String, String>>,
    /// Varied values, scale and compiled algorithms.
    whole: BTreeMap<String, String>,
    /// Rows in the order of the runs.
    pub(super) rows: Vec<Row>,
}

/// A case with one value per axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Case and varied values, as text.
    pub(super) label: String,
    pub(super) runs: usize,
    /// Number of runs that the host limited.
    pub(super) limited: usize,
    /// Figures of valid runs, in the order of the file.
    pub(super) figures: Vec<Figure>,
    /// Figures of runs that the host limited, in the order of the file.
    pub(super) of_host: Vec<Figure>,
}

impl Row {
    /// Returns whether the host limited every run.
    pub(super) fn is_of_host(&self) -> bool {
        self.runs > 0 && self.limited == self.runs
    }

    /// Returns the figures to compare: those of valid runs. Without valid runs and with `force`, those of
    /// host-limited runs.
    pub(super) fn compared(&self, force: bool) -> &[Figure] {
        if force && self.is_of_host() { &self.of_host } else { &self.figures }
    }
}

/// A metric of a traffic entry or queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) subject: String,
    pub(super) metric: String,
    pub(super) unit: String,
    /// Largest relative error of each value, as of percentiles from sketches.
    pub(super) error: f64,
    /// Values of the runs that have this metric.
    pub(super) runs: Vec<RunMetric>,
}

impl Figure {
    /// Returns the subject and the metric.
    pub(super) fn name(&self) -> (&str, &str) {
        (&self.subject, &self.metric)
    }
}

/// A metric of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunMetric {
    pub(super) values: f64,
    /// The mean, or the least that it can be if values were cut off.
    pub(super) mean: f64,
    /// The most that the mean can be if values were cut off. `None`: it can be any.
    pub(super) at_most: Option<f64>,
    /// Number of values that the end of the run cut off.
    pub(super) cut_off: f64,
    /// Number and mean of values that waited for a retransmission timer. `None` if the metric is no transfer time.
    pub(super) late: Option<(f64, Option<f64>)>,
}

impl Side {
    /// Reads a directory that `knee run` wrote.
    ///
    /// # Errors
    /// [`Error::Results`] if it holds no results, or incomplete ones.
    pub fn read(dir: &Path) -> Result<Side, Error> {
        let manifest = Manifest::read(dir)?;
        if manifest.resolved.is_empty() {
            let why = "has no \"resolved\": give a results directory of knee run";
            return Err(knee_results::Error::input(&dir.join(Manifest::FILE), 0, why).into());
        }
        let mut whole = flat(&manifest.vary, "vary.");
        whole.insert("scale".into(), manifest.back_end.scale.to_string());
        let modules = manifest.modules.into_iter();
        whole
            .extend(modules.map(|module| (format!("file of {}", module.algorithm), module.sha256)));
        let resolved = manifest.resolved.iter().map(|(case, keys)| {
            (case.clone(), keys.as_object().map(|keys| flat(keys, "")).unwrap_or_default())
        });
        Ok(Side {
            dir: dir.to_owned(),
            experiment: manifest.experiment,
            apart: manifest.back_end.differences(),
            is_simulated: manifest.back_end.is_simulated(),
            back_end: manifest.back_end.name,
            scale: manifest.back_end.scale,
            linux: manifest.linux_profile.unwrap_or_default(),
            resolved: resolved.collect(),
            whole,
            rows: read_rows(dir, &manifest.axes, MOST_BYTES)?,
        })
    }

    /// Returns keys in which the experiments differ, with both values. Back end, Linux version, HZ, seed and repeats
    /// may differ.
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

/// Returns keys that differ, with both values as text.
pub(super) fn differing<'a>(
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

/// Returns whether a key names the Linux version, or has that version's default value.
fn is_of_the_kernel(
    key: &str,
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
) -> bool {
    let Some((first, last)) = key.split_once('.').zip(key.rsplit_once('.')) else { return false };
    let (first, last) = (first.0, last.1);
    let by_itself = |side: &BTreeMap<String, String>| {
        let linux = side.get("hosts.linux")?;
        let host = HostConfig::new(linux.parse().ok()?);
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

pub(super) fn flat(keys: &Map<String, Json>, prefix: &str) -> BTreeMap<String, String> {
    keys.iter().map(|(key, value)| (format!("{prefix}{key}"), text(value))).collect()
}

/// Reads the rows of `runs.csv` and `measures.csv`, together at most `most_bytes`.
fn read_rows(dir: &Path, axes: &[Axis], most_bytes: usize) -> Result<Vec<Row>, Error> {
    let mut runs = ResultFile::Run.must_open(dir)?;
    let mut measures = ResultFile::Measure.must_open(dir)?;
    let [run, case, repeat, verdict] = runs.columns([RUN, CASE, REPEAT, rows::Run::verdict])?;
    let mut bytes = 0;
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    // For each run: its row, and whether the host limited it.
    let mut row_of: HashMap<String, (usize, bool)> = HashMap::new();
    while let Some(cells) = runs.next()? {
        let mut label = format!("case {}", cells.text(case));
        for (column, cell) in cells.between(case + 1, repeat) {
            // Uses the column's name as written, so that older directories without units in columns stay comparable.
            let axis = axes.iter().find(|axis| axis.column() == column);
            let (axis, value) =
                axis.map_or((column, cell), |axis| (axis.path.as_str(), axis.value(cell)));
            label.push_str(&format!(", {axis} = {value}"));
        }
        let at = *known.entry(label).or_insert_with_key(|label| {
            bytes += 2 * label.len() + size_of::<Row>();
            rows.push(Row { label: label.clone(), ..Row::default() });
            rows.len() - 1
        });
        rows[at].runs += 1;
        let is_limited = cells.text(verdict) == HOST_LIMITED;
        rows[at].limited += usize::from(is_limited);
        bytes += cells.text(run).len() + size_of::<(String, usize, bool)>();
        row_of.insert(cells.text(run).to_owned(), (at, is_limited));
        if row_of.len() > MOST_RUNS {
            let why = format!(
                "has more than {MOST_RUNS} runs, so it was changed: run the experiment again"
            );
            return Err(runs.wrong(&why).into());
        }
        if bytes > most_bytes {
            return Err(too_much(&runs, most_bytes));
        }
    }
    let [run, subject, metric, unit, values, mean, late, late_mean] = measures.columns([
        RUN,
        rows::Measure::subject,
        rows::Measure::metric,
        rows::Measure::unit,
        rows::Measure::values,
        rows::Measure::mean,
        rows::Measure::late,
        rows::Measure::late_mean,
    ])?;
    // Results of older versions do not have these.
    let [cut_off, at_least] =
        [rows::Measure::cut_off, rows::Measure::mean_at_least].map(|column| measures.find(column));
    let mut known: HashMap<(usize, bool, String, String), usize> = HashMap::new();
    while let Some(cells) = measures.next()? {
        let Some((row, is_limited)) = row_of.get(cells.text(run)) else { continue };
        let [subject, metric, unit] =
            [subject, metric, unit].map(|column| cells.text(column).to_owned());
        let figures = match is_limited {
            true => &mut rows[*row].of_host,
            false => &mut rows[*row].figures,
        };
        let at = *known.entry((*row, *is_limited, subject, metric)).or_insert_with_key(|key| {
            let (_, _, subject, metric) = key.clone();
            bytes += 2 * (subject.len() + metric.len() + size_of::<Figure>()) + unit.len();
            figures.push(Figure { subject, metric, unit, error: 0.0, runs: Vec::new() });
            figures.len() - 1
        });
        let number = |column: Option<usize>| column.map_or(Ok(None), |at| cells.number(at));
        let of_run = RunMetric {
            values: cells.number(values)?.unwrap_or(0.0),
            mean: cells.number(mean)?.or(number(at_least)?).unwrap_or(0.0),
            at_most: None,
            cut_off: number(cut_off)?.unwrap_or(0.0),
            late: cells.number(late)?.zip(Some(cells.number(late_mean)?)),
        };
        bytes += size_of::<RunMetric>();
        figures[at].runs.push(of_run);
        if bytes > most_bytes {
            return Err(too_much(&measures, most_bytes));
        }
    }
    read_sketches(dir, &row_of, &mut rows, (bytes, most_bytes))?;
    Ok(rows)
}

/// Percentiles that are compared where both directories have sketches.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// Metric of a run whose buckets are being read: run, subject, metric and unit.
type OfRun = (String, String, String, String);

/// Adds percentiles of each run from `sketches.csv`, if there is one.
fn read_sketches(
    dir: &Path,
    row_of: &HashMap<String, (usize, bool)>,
    rows: &mut [Row],
    (mut bytes, most_bytes): (usize, usize),
) -> Result<(), Error> {
    let Some(mut table) = ResultFile::Sketch.open(dir)? else { return Ok(()) };
    let [run, subject, metric, unit, bucket, count] = table.columns([
        RUN,
        rows::Sketch::subject,
        rows::Sketch::metric,
        rows::Sketch::unit,
        rows::Sketch::bucket,
        rows::Sketch::count,
    ])?;
    let cut_off = table.find(rows::Sketch::cut_off);
    let mut known: HashMap<(usize, bool, String, String), usize> = HashMap::new();
    let mut current: Option<(OfRun, Sketched)> = None;
    loop {
        let next = match table.next()? {
            None => None,
            Some(cells) => {
                let [run, subject, metric, unit] =
                    [run, subject, metric, unit].map(|column| cells.text(column).to_owned());
                let number = u16::try_from(cells.index(bucket)?).ok();
                let cut_off = cut_off.map_or(Ok(0), |column| cells.index(column))?;
                Some(((run, subject, metric, unit), number, cells.index(count)?, cut_off))
            }
        };
        // The buckets of a metric follow each other.
        let is_next = next.as_ref().map(|(key, ..)| key) != current.as_ref().map(|(key, ..)| key);
        if let Some((key, sketched)) = current.take_if(|_| is_next) {
            bytes += add_percentiles(rows, row_of, &mut known, &key, &sketched);
            if bytes > most_bytes {
                return Err(too_much(&table, most_bytes));
            }
        }
        let Some((key, number, count, cut_off)) = next else { return Ok(()) };
        let Some(bucket) = number.and_then(Bucket::numbered) else {
            let why = "has no such bucket: the file comes from another version, or was changed";
            return Err(table.wrong(why).into());
        };
        let (_, sketched) = current.get_or_insert_with(|| (key, Sketched::default()));
        sketched.finished.add_many(bucket, count);
        sketched.cut_off.add_many(bucket, cut_off);
    }
}

/// Adds the percentiles of a metric of a run. Returns the bytes that they take.
fn add_percentiles(
    rows: &mut [Row],
    row_of: &HashMap<String, (usize, bool)>,
    known: &mut HashMap<(usize, bool, String, String), usize>,
    (run, subject, metric, unit): &OfRun,
    sketched: &Sketched,
) -> usize {
    let (Some((row, is_limited)), Some(about)) = (row_of.get(run), Metric::by_name(metric)) else {
        return 0;
    };
    let figures = match is_limited {
        true => &mut rows[*row].of_host,
        false => &mut rows[*row].figures,
    };
    let mut bytes = 0;
    for (name, share) in PERCENTILES {
        let Some((low, high)) = sketched.percentile(share) else { continue };
        let metric = format!("{metric} {name}");
        let key = (*row, *is_limited, subject.clone(), metric.clone());
        let at = *known.entry(key).or_insert_with(|| {
            bytes += 2 * (subject.len() + metric.len() + size_of::<Figure>()) + unit.len();
            let (subject, unit) = (subject.clone(), unit.clone());
            figures.push(Figure { subject, metric, unit, error: Sketch::ERROR, runs: Vec::new() });
            figures.len() - 1
        });
        bytes += size_of::<RunMetric>();
        let cut_off = if high == Some(low) { 0.0 } else { sketched.cut_off.count() as f64 };
        let (values, mean) = (sketched.finished.count() as f64, low / about.scale());
        let at_most = high.filter(|_| cut_off > 0.0).map(|high| high / about.scale());
        figures[at].runs.push(RunMetric { values, mean, at_most, cut_off, late: None });
    }
    bytes
}

/// Returns an error about the last row read.
fn too_much(table: &Table, most_bytes: usize) -> Error {
    let why = format!(
        "takes more than {} MiB of memory, with the rows before it: use fewer repeats, cases or \
            varied values",
        most_bytes >> 20
    );
    table.wrong(&why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_figures_have_a_bound() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let write = |runs: usize, measures: usize, name: &str| {
            let rows = (0..runs).map(|run| format!("{run},{name}{run},0,valid\n"));
            let rows: String = rows.collect();
            std::fs::write(dir.join("runs.csv"), format!("run,case,repeat,verdict\n{rows}"))
                .unwrap();
            let rows = format!("0,bulk,{name},bps,1,1,,\n").repeat(measures);
            let head = "run,subject,metric,unit,values,mean,late,late_mean";
            std::fs::write(dir.join("measures.csv"), format!("{head}\n{rows}")).unwrap();
            read_rows(dir, &[], 1 << 20).map_err(|why| why.to_string())
        };
        assert_eq!(write(2, 3, "x").unwrap()[0].figures[0].runs.len(), 3);
        let says = "takes more than 1 MiB of memory, with the rows before it: use fewer";
        let long = "x".repeat(60_000);
        let why = write(10, 1, &long).unwrap_err();
        assert!(why.contains("runs.csv:10: ") && why.contains(says), "{why}");
        let why = write(2, 30_000, "x").unwrap_err();
        assert!(why.contains("measures.csv:") && why.contains(says), "{why}");
    }
}

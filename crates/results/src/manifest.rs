//! `manifest.json`: what was run, by what, where and when, and what the experiment says of itself.
//!
//! What a manifest or a part of it leaves out, because an older knee wrote it, is empty or `None`; a verdict is undecided, a `stat` the
//! mean, the `x` of a chart the case.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

use crate::error::Error;
use crate::verdict::{CheckVerdict, ClaimVerdict};

/// No JSON file that knee writes is longer.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Paths of varied keys with a value of each, in the order of the file.
pub type At = Vec<(String, String)>;

/// A results directory, as its manifest describes it. Keys are written in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The directory that it was read from.
    #[serde(skip)]
    pub dir: PathBuf,
    /// [`Manifest::FORMAT`] of the knee that wrote it; 0: it is older than that.
    pub format: u64,
    pub experiment: String,
    pub file: String,
    pub question: String,
    pub knee: String,
    /// Commit, if built from a repository.
    pub commit: Option<String>,
    pub back_end: BackEnd,
    /// Version of Linux that simulated hosts behave like.
    pub linux_profile: Option<String>,
    pub seed: Option<u64>,
    pub repeat: Option<u64>,
    pub runs: Option<u64>,
    pub runs_done: Option<u64>,
    /// Whether it was stopped before all of them had.
    pub interrupted: bool,
    /// Runs in which code of a file crashed or did not return, each in a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Faults of algorithms from files, each kind once per case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub time: String,
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub simulator: Effort,
    /// The format of the tables. `None`: CSV. `ResultFile::name_by` has their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<String>,
    pub files: Vec<String>,
    pub vary: Map<String, Json>,
    /// Changes of the command line to the file.
    pub asked: Asked,
    pub modules: Vec<Module>,
    /// Files that the experiment names: networks, flows, sizes and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
    /// By case, every key with its value, defaults too.
    pub resolved: Map<String, Json>,
    pub text: String,
    pub about: About,
    /// What the figures are for: offloads, ECN, drawn sizes, runs too short for a timeout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
    /// Whether it is the quick set's part of the file.
    pub quick: bool,
    pub published: Vec<Published>,
    pub claims: Vec<Claim>,
    pub charts: Vec<Chart>,
    /// Whether a report has no other charts than these.
    #[serde(skip_serializing_if = "is_false")]
    pub only_these_charts: bool,
    /// Additional plots of connections.
    pub plots: Vec<Plot>,
    /// Varied keys with their values as the tables name them.
    pub axes: Vec<Axis>,
    pub cases: Vec<String>,
    pub network: Option<Network>,
}

/// A back end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackEnd {
    pub name: String,
    /// Share of the file's rates.
    pub scale: f64,
    #[serde(flatten)]
    pub about: Map<String, Json>,
}

impl Default for BackEnd {
    fn default() -> BackEnd {
        BackEnd { name: String::new(), scale: 1.0, about: Map::new() }
    }
}

impl BackEnd {
    /// Whether figures are of the simulator.
    pub fn is_simulated(&self) -> bool {
        self.name == "sim"
    }

    /// A word that it says of itself, as the `version` of its kernel.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.about.get(key)?.as_str().filter(|word| !word.is_empty())
    }

    /// In what its runs are not what the simulator's are, each in a sentence.
    pub fn differences(&self) -> Vec<String> {
        let said = self.about.get("differences").and_then(Json::as_array).into_iter().flatten();
        said.filter_map(|sentence| Some(sentence.as_str()?.to_owned())).collect()
    }
}

/// Time and work of all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    pub cpu_s: Option<f64>,
    pub wall_s: Option<f64>,
    pub events: Option<u64>,
    pub data_pkts: Option<u64>,
    pub pkt_hops: Option<u64>,
    pub peak_rss_bytes: Option<u64>,
}

/// `--cc`, `--set` and `--vary` as they were given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    pub cc: Vec<String>,
    pub set: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<String>,
}

/// A file that an algorithm was compiled from: enough to know it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    pub algorithm: String,
    pub path: String,
    pub sha256: String,
    pub compiler: String,
    /// Other files that it was made of: those named with it, and headers that are none of knee's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ModuleFile>,
    /// Macros, as `NAME=VALUE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub define: Vec<String>,
    /// Folders of headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// The release of Linux whose interface was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<String>,
    /// Whose interface it is, if not that of kernel.org's kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
}

/// One of several files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleFile {
    pub path: String,
    pub sha256: String,
}

/// A file that the experiment names: enough to know it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputFile {
    /// The key that names it.
    pub key: String,
    /// Its path, relative to the experiment's file. With `*`, several files.
    pub path: String,
    /// Of several files, the hash of their hashes, one a line.
    pub sha256: String,
}

/// Description of an experiment, from its file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    pub expect: Option<String>,
    pub source: Option<String>,
    pub notes: Option<String>,
}

/// A sentence on what figures are for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remark {
    /// `offloads`, `ecn`, `sizes`, `measured` or `timeouts`.
    pub about: String,
    pub says: String,
    /// The rows that it applies to, in words; empty: all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
}

impl Remark {
    /// The remark with its rows.
    pub fn words(&self) -> String {
        match self.of.as_str() {
            "" => self.says.clone(),
            of => format!("{of}: {}", self.says),
        }
    }
}

/// A varied key and its values, as written, or keys that vary together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// Path of the key, or the name of several.
    pub path: String,
    pub values: Vec<String>,
    /// The keys, if they are several: `vary` has the values of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The name of its column, where the tables have numbers in the place of quantities: the path and the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The values as numbers, as in tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<f64>,
}

impl Axis {
    /// The name of its column in tables.
    pub fn column(&self) -> &str {
        self.column.as_deref().unwrap_or(&self.path)
    }

    /// The value of a cell of its column, as written.
    pub fn value<'a>(&'a self, cell: &'a str) -> &'a str {
        let found = self.numbers.iter().position(|number| number.to_string() == cell);
        found.and_then(|at| self.values.get(at)).map_or(cell, |value| value)
    }

    /// The cell of tables for a value.
    pub fn cell(&self, value: &str) -> String {
        let found = self.values.iter().position(|known| known == value);
        let number = found.and_then(|at| self.numbers.get(at));
        number.map_or_else(|| value.to_owned(), f64::to_string)
    }
}

/// A figure that was published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    pub subject: String,
    pub metric: String,
    #[serde(default = "mean")]
    pub stat: String,
    pub cases: Vec<String>,
    #[serde(with = "pairs")]
    pub at: At,
    /// The figure, in the metric's unit; NaN: left out.
    #[serde(default = "nan")]
    pub value: f64,
    pub text: String,
    pub unit: String,
    pub note: Option<String>,
}

/// Something that is claimed, with the verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub name: String,
    pub says: String,
    /// `source` or `us`.
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot: Option<String>,
    pub verdict: ClaimVerdict,
    pub checks: Vec<Check>,
}

impl Claim {
    /// Whether one of its figures was measured in one run only.
    pub fn is_of_one_run(&self) -> bool {
        self.checks.iter().flat_map(|check| &check.terms).any(|term| term.runs == Some(1))
    }

    /// The cause of its verdict; that of another verdict is none of one that stands.
    pub fn cause(&self) -> Option<&String> {
        self.because.as_ref().filter(|_| self.verdict != ClaimVerdict::Stands)
    }
}

/// One comparison of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    pub says: String,
    pub verdict: CheckVerdict,
    /// Unit of its values: none of a ratio.
    pub unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// One for each case and value that it goes through and that was run.
    pub rows: Vec<CheckRow>,
    /// Terms of the values of all rows, row by row.
    pub terms: Vec<Term>,
}

impl Check {
    /// The figures that a row is made of.
    pub fn terms_of(&self, row: usize) -> &[Term] {
        let each = self.terms.len() / self.rows.len().max(1);
        self.terms.get(row * each..(row + 1) * each).unwrap_or_default()
    }
}

/// The value of a check at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckRow {
    /// The place in words; empty where the check has no other.
    pub at: String,
    pub verdict: CheckVerdict,
    /// The value; `None`: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end; `None`: a ratio to what may be zero has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A figure that a check's value is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Term {
    /// `figure`, `over` or `minus`.
    pub role: String,
    pub case: String,
    #[serde(with = "pairs")]
    pub at: At,
    pub subject: String,
    pub metric: String,
    #[serde(default = "mean")]
    pub stat: String,
    pub runs: Option<u64>,
    /// The figure; `None`: not measured, or values that the ends of runs cut off could change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The least that such a figure can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The most that it can be; `None`: it can be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
    /// Why there is no figure, where its runs have too few values: `needs 1000 values, has 300`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

/// A chart that the experiment asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// `lines`, `bars`, `cdf`, `time`, `tradeoff` or `heat`.
    #[serde(default = "lines")]
    pub kind: String,
    pub title: String,
    pub subject: String,
    pub metric: String,
    #[serde(default = "mean")]
    pub stat: String,
    /// What is on the x axis of a trade-off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Figure>,
    /// A varied path, or `case`.
    #[serde(default = "case")]
    pub x: String,
    /// The varied path up the side of a heat map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// Whether the y axis is logarithmic.
    pub log: bool,
}

/// A statistic of a metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    pub subject: String,
    pub metric: String,
    #[serde(default = "mean")]
    pub stat: String,
}

/// A value of connections that the experiment wants to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plot {
    pub name: String,
    /// Column of `series-flows.csv`.
    pub column: String,
    pub unit: String,
    /// Names of the values 0, 1, ..., as of the modes of BBR.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Hosts, switches and what is between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    pub topology: String,
    pub nodes: Vec<Node>,
    /// One for each direction of a cable.
    pub links: Vec<Link>,
}

/// A host or a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub name: String,
    pub kind: NodeKind,
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    #[default]
    Host,
    Switch,
}

/// One direction of a cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    pub name: String,
    pub from: String,
    pub to: String,
    /// Bits per second; `None`: it is only a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    pub delay_s: f64,
    /// Bytes beside each frame that take time and no room in the queue.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead_bytes: u32,
    /// Description of its queue; empty: no queue.
    pub queue: String,
    pub recorded: bool,
}

impl Manifest {
    /// The name of its file.
    pub const FILE: &str = "manifest.json";
    /// The form of what a results directory holds. It grows when a knee of before would read it wrongly; what is added leaves it as it is.
    pub const FORMAT: u64 = 2;

    /// Reads the manifest of a results directory.
    ///
    /// # Errors
    /// [`Error`] if it is not there, too long, no JSON, or not of a results directory.
    pub fn read(dir: &Path) -> Result<Manifest, Error> {
        let path = dir.join(Manifest::FILE);
        let mut manifest: Manifest =
            read_json(&path, "manifest of knee run", "run the experiment again")?;
        if manifest.experiment.is_empty() {
            let why = "has no experiment: choose a results directory of knee run";
            return Err(Error::input(&path, 0, why));
        }
        // An older knee wrote cases and axes only here.
        if manifest.cases.is_empty() {
            manifest.cases = manifest.resolved.keys().cloned().collect();
        }
        if manifest.axes.is_empty() {
            let values =
                |values: &Json| values.as_array().into_iter().flatten().map(text).collect();
            let axis = |(path, all)| Axis {
                path: String::clone(path),
                values: values(all),
                ..Axis::default()
            };
            manifest.axes = manifest.vary.iter().map(axis).collect();
        }
        let is_uneven =
            |axis: &&Axis| !axis.numbers.is_empty() && axis.numbers.len() != axis.values.len();
        if let Some(axis) = manifest.axes.iter().find(is_uneven) {
            let why = format!(
                "axes: {:?} has values without numbers: run the experiment again",
                axis.path
            );
            return Err(Error::input(&path, 0, why));
        }
        // Without its value a published figure is none.
        manifest.published.retain(|published| !published.value.is_nan());
        manifest.dir = dir.to_owned();
        Ok(manifest)
    }

    /// The congestion control of a case, where it has one of its own.
    pub fn algorithm(&self, case: &str) -> Option<&str> {
        self.resolved.get(case)?.get("case.cc")?.as_str()
    }
}

/// Reads a JSON file of at most 64 MiB; of a `format` that is not newer than [`Manifest::FORMAT`]. What is said of one that is none names `what` it is to be, and how to have one `again`.
///
/// # Errors
/// [`Error`] if it is not there, too long, no JSON, or something else.
pub fn read_json<T: DeserializeOwned>(
    path: &Path,
    what: &'static str,
    again: &str,
) -> Result<T, Error> {
    let text = knee_files::read_text(path, MAX_JSON_BYTES, what)
        .map_err(|why| Error::unreadable(path, why))?;
    // Whatever else a newer one says may be of other kinds than here.
    let newer = serde_json::from_str::<Head>(&text).ok().map(|head| head.format);
    if let Some(format) = newer.filter(|format| *format > Manifest::FORMAT) {
        let known = Manifest::FORMAT;
        let why = format!(
            "a newer knee wrote it, in results format {format}; this knee reads up to {known}: use \
                the newer knee"
        );
        return Err(Error::input(path, 0, why));
    }
    serde_json::from_str(&text).map_err(|why| {
        let line = u64::try_from(why.line()).unwrap_or(0);
        Error::input(
            path,
            line,
            match why.is_data() {
                true => format!("is not a {what}: {why}"),
                false => format!("is not JSON: the file is cut or was changed; {again}"),
            },
        )
    })
}

/// First keys of every file of a results directory, in any format.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    format: u64,
}

fn lines() -> String {
    "lines".to_owned()
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn mean() -> String {
    "mean".to_owned()
}

fn case() -> String {
    "case".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references down")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn nan() -> f64 {
    f64::NAN
}

/// A value as tables have it, without quotes.
pub fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Pairs that are an object in JSON.
mod pairs {
    use super::*;

    pub(super) fn serialize<S: Serializer>(at: &At, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(at.iter().map(|(path, value)| (path, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<At, D::Error> {
        let map = Map::deserialize(deserializer)?;
        Ok(map.iter().map(|(path, value)| (path.clone(), text(value))).collect())
    }
}

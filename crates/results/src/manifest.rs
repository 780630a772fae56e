//! `manifest.json`: what was run, by what, where and when, and what the experiment says of itself.
//!
//! What a manifest leaves out, because an older knee wrote it, is empty or `None`.

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
    /// Name of the experiment.
    pub experiment: String,
    /// Where the experiment file was.
    pub file: String,
    /// What the experiment asks.
    pub question: String,
    /// Version of knee.
    pub knee: String,
    /// Its commit, where it was built from a repository.
    pub commit: Option<String>,
    /// What carried the runs out.
    pub back_end: BackEnd,
    /// Version of Linux that simulated hosts behave like.
    pub linux_profile: Option<String>,
    /// Seed of the first repeat.
    pub seed: Option<u64>,
    /// Runs of each configuration.
    pub repeat: Option<u64>,
    /// Runs asked for.
    pub runs: Option<u64>,
    /// Runs that finished.
    pub runs_done: Option<u64>,
    /// Whether it was stopped before all of them had.
    pub interrupted: bool,
    /// When, in UTC.
    pub time: String,
    /// The machine's name.
    pub host: Option<String>,
    /// The machine's kernel.
    pub kernel: Option<String>,
    /// What the runs took.
    pub simulator: Effort,
    /// The files beside it.
    pub files: Vec<String>,
    /// Varied keys with their values.
    pub vary: Map<String, Json>,
    /// What was asked for in place of what the file says.
    pub asked: Asked,
    /// Files that algorithms were compiled from.
    pub modules: Vec<Module>,
    /// By case, every key with its value, defaults too.
    pub resolved: Map<String, Json>,
    /// The experiment file.
    pub text: String,
    /// The experiment's own words.
    pub about: About,
    /// Whether it is the quick set's part of the file.
    pub quick: bool,
    /// Figures that others published.
    pub published: Vec<Published>,
    /// What is claimed, with the verdicts.
    pub claims: Vec<Claim>,
    /// What a report draws.
    pub charts: Vec<Chart>,
    /// Varied keys with their values as the tables name them.
    pub axes: Vec<Axis>,
    /// Names of the cases.
    pub cases: Vec<String>,
    /// Of the first configuration.
    pub network: Option<Network>,
}

/// A back end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackEnd {
    /// As `--on` takes it.
    pub name: String,
    /// Share of the file's rates.
    pub scale: f64,
    /// What it says of itself.
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

/// What all runs took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    /// CPU time, all threads together.
    pub cpu_s: Option<f64>,
    /// Wall-clock time.
    pub wall_s: Option<f64>,
    /// Events of the simulator.
    pub events: Option<u64>,
    /// Data packets.
    pub data_pkts: Option<u64>,
    /// Packets times links.
    pub pkt_hops: Option<u64>,
    /// Largest resident memory.
    pub peak_rss_bytes: Option<u64>,
}

/// `--cc` and `--set` as they were given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Algorithms.
    pub cc: Vec<String>,
    /// Keys with their values.
    pub set: Vec<String>,
}

/// A file that an algorithm was compiled from: enough to know it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The algorithm's name.
    pub algorithm: String,
    /// Where the file was.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
    /// What compiled it.
    pub compiler: String,
}

/// What an experiment says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The answer expected.
    pub expect: Option<String>,
    /// Who published it.
    pub source: Option<String>,
    /// What was not stated there, and what was chosen.
    pub notes: Option<String>,
}

/// A varied key and its values, as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The key's path.
    pub path: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A figure that was published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Traffic entry or link.
    pub subject: String,
    /// What was measured of it.
    pub metric: String,
    /// Which statistic of that.
    pub stat: String,
    /// Cases that it stands beside.
    pub cases: Vec<String>,
    /// Varied values that it belongs to.
    #[serde(with = "pairs")]
    pub at: At,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// As it was printed.
    pub text: String,
    /// The metric's unit.
    pub unit: String,
    /// What to know of it.
    pub note: Option<String>,
}

/// Something that is claimed, with the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// What it says.
    pub says: String,
    /// `source` or `us`.
    pub by: String,
    /// The cause where it does not stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The experiment that shows the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    /// Why it cannot be decided here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot: Option<String>,
    /// What became of it.
    pub verdict: ClaimVerdict,
    /// What must hold for it.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// In words.
    pub says: String,
    /// What became of it.
    pub verdict: CheckVerdict,
    /// Unit of its values: none of a ratio.
    pub unit: String,
    /// The least that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The most that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// One for each case and value that it goes through and that was run.
    pub rows: Vec<CheckRow>,
    /// What the values of all rows are made of, one row after the other.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The place in words; empty where the check has no other.
    pub at: String,
    /// What became of it there.
    pub verdict: CheckVerdict,
    /// The value; `None`: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The lower end of its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end; `None`: a ratio to what may be zero has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A figure that a check's value is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// `figure`, `over` or `minus`.
    pub role: String,
    /// The case.
    pub case: String,
    /// Varied values.
    #[serde(with = "pairs")]
    pub at: At,
    /// Traffic entry or link.
    pub subject: String,
    /// What was measured of it.
    pub metric: String,
    /// Which statistic of that.
    pub stat: String,
    /// Runs that have it.
    pub runs: Option<u64>,
    /// The figure; `None`: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Half of its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
}

/// A chart that the experiment asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Traffic entry or link.
    pub subject: String,
    /// What is drawn of it.
    pub metric: String,
    /// Which statistic of that.
    pub stat: String,
    /// A varied path, or `case`.
    pub x: String,
    /// Whether the y axis is logarithmic.
    pub log: bool,
}

/// Hosts, switches and what is between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// As in files.
    pub topology: String,
    /// Hosts and switches.
    pub nodes: Vec<Node>,
    /// One for each direction of a cable.
    pub links: Vec<Link>,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Which of both.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// It has sockets.
    Host,
    /// It forwards.
    Switch,
}

/// One direction of a cable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Bits per second; `None`: it is only a delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    pub delay_s: f64,
    /// Its queue in words; empty: it has none.
    pub queue: String,
    /// Whether its queue is measured.
    pub recorded: bool,
}

impl Manifest {
    /// The name of its file.
    pub const FILE: &str = "manifest.json";

    /// Reads the manifest of a results directory.
    ///
    /// # Errors
    /// [`Error`] if it is not there, too long, no JSON, or not of a results directory.
    pub fn read(dir: &Path) -> Result<Manifest, Error> {
        let path = dir.join(Manifest::FILE);
        let mut manifest: Manifest =
            read_json(&path, "manifest of knee run", "run the experiment again")?;
        if manifest.experiment.is_empty() {
            let why = "names no experiment: it is not of a results directory of knee run";
            return Err(Error::input(&path, 0, why));
        }
        // An older knee wrote cases and axes only here.
        if manifest.cases.is_empty() {
            manifest.cases = manifest.resolved.keys().cloned().collect();
        }
        if manifest.axes.is_empty() {
            let values =
                |values: &Json| values.as_array().into_iter().flatten().map(text).collect();
            let axis = |(path, all)| Axis { path: String::clone(path), values: values(all) };
            manifest.axes = manifest.vary.iter().map(axis).collect();
        }
        manifest.dir = dir.to_owned();
        Ok(manifest)
    }

    /// The congestion control of a case, where it has one of its own.
    pub fn algorithm(&self, case: &str) -> Option<&str> {
        self.resolved.get(case)?.get("case.cc")?.as_str()
    }
}

/// Reads a JSON file of at most 64 MiB. What is said of one that is none names `what` it is to be, and how to have one `again`.
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
    serde_json::from_str(&text).map_err(|why| {
        let line = u64::try_from(why.line()).unwrap_or(0);
        Error::input(
            path,
            line,
            match why.is_data() {
                true => format!("is no {what}: {why}"),
                false => format!("is no JSON: the file is cut or was changed; {again}"),
            },
        )
    })
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

//! Remarks on what the figures of an experiment are for, and the rows that each applies to.

use knee_results::manifest;
use serde_json::{Map, Value as Json};

use crate::experiment::Experiment;
use crate::refused::which;
use crate::scenario::remarks::Remarks;
pub use crate::scenario::remarks::Topic;

/// Largest number of remarks on a topic.
const MOST: usize = 8;

/// A remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Its subject.
    pub topic: Topic,
    /// One or more sentences, without the last full stop.
    pub says: String,
    /// The rows that it applies to, as text. Empty means all.
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

/// Returns the remarks on an experiment: those of all rows first, at most a few of each topic.
pub fn remarks(experiment: &Experiment) -> Vec<Remark> {
    let Remarks { rows, checked } = &experiment.remarks;
    let mut all: Vec<Remark> = Vec::new();
    for topic in [Topic::Offloads, Topic::Ecn, Topic::Sizes, Topic::Measured, Topic::Timeouts] {
        let mut of_topic: Vec<(&str, &[usize])> = rows
            .iter()
            .filter(|((of, _), _)| *of == topic)
            .map(|((_, says), rows)| (says.as_str(), rows.as_slice()))
            .collect();
        of_topic.sort_by_key(|(_, rows)| rows.iter().min().copied());
        let more = of_topic.len().saturating_sub(MOST);
        let shown = of_topic.into_iter().take(MOST).map(|(says, rows)| Remark {
            topic,
            says: says.to_owned(),
            of: which(experiment, rows, checked),
        });
        all.extend(shown);
        if let (1.., Some(last)) = (more, all.last_mut()) {
            last.says.push_str(&format!(". {more} more rows differ"));
        }
    }
    all
}

/// Returns remarks with what a back end does otherwise: `about` is its own description.
pub fn of_back_end(experiment: &Experiment, name: &str, about: &Map<String, Json>) -> Vec<Remark> {
    let mut all = remarks(experiment);
    let instead = match (name, about.get("offloads").and_then(Json::as_bool)) {
        ("lab", Some(false)) => {
            "offloads of hosts: TSO off, GRO off (--offloads on uses those of the file)"
        }
        ("hosts", _) => "offloads of hosts: as the machines have them",
        _ => return all,
    };
    all.retain(|remark| remark.topic != Topic::Offloads);
    let says = instead.to_owned();
    all.insert(0, Remark { topic: Topic::Offloads, says, of: String::new() });
    all
}

/// Returns remarks for a manifest.
pub fn listed(remarks: &[Remark]) -> Vec<manifest::Remark> {
    let one = |remark: &Remark| manifest::Remark {
        about: remark.topic.name().to_owned(),
        says: remark.says.clone(),
        of: remark.of.clone(),
    };
    remarks.iter().map(one).collect()
}

//! Cases and varied values, and the identity of their runs.

use knee_file::keys::{Shape, Table};
use knee_file::{NO_WILDCARD, Node, Origin, Value, did_you_mean, one_of, units};
use knee_run::spec::Cc;

use crate::metric::Metric;
use crate::range::{MAX_VALUES, range};

/// Largest number of runs: configurations times repeats.
pub const MAX_RUNS: usize = 100_000;
/// Tables whose keys a case may change or a sweep may vary.
pub(crate) const VARIED: &[&str] = &["network", "hosts", "host", "traffic", "params", "sample"];

/// Keys that a case changes.
pub(crate) static SET: Table = Table {
    name: "set",
    says: "Other values for keys, by path: `\"hosts.tcp_ecn\" = 1`.",
    shape: || Shape::Any("paths of keys"),
};

/// A case to compare: a congestion control with its settings.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub(crate) cc: Option<Cc>,
    /// Key that names the algorithm, and its place.
    pub(crate) cc_from: (String, Origin),
    /// Reason why the case cannot be run. It only matters if the case is selected, because `--cc` may select others.
    pub(crate) wrong: Option<Box<knee_file::Error>>,
    /// Changed keys: path and value.
    pub(crate) set: Vec<(String, Node)>,
}

/// A varied key with its values.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Path of the key.
    pub path: String,
    pub(crate) origin: Origin,
    pub(crate) values: Vec<Node>,
}

/// A case with one value per axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Index of the case.
    pub case: usize,
    /// Index of the value on each axis.
    pub point: Vec<usize>,
}

/// Identity of one run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Number of the run from 0, sorted by configuration, then by repeat.
    pub index: usize,
    /// Index of the configuration.
    pub configuration: usize,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Seed of the run.
    pub seed: u64,
}

impl Case {
    /// Returns a case for traffic entries that name their own algorithms.
    pub(crate) fn without_cc(name: &str) -> Case {
        Case {
            name: name.to_owned(),
            cc: None,
            cc_from: ("cc".to_owned(), Origin::Nowhere),
            wrong: None,
            set: Vec::new(),
        }
    }

    /// Description: the algorithm and the changed keys.
    pub fn words(&self) -> Vec<String> {
        let cc = self.cc.iter().map(|cc| format!("cc {}", cc.name()));
        let params = self.cc.iter().flat_map(|cc| {
            let defaults = cc.algorithm.default_params();
            let params =
                cc.algorithm.params().iter().zip(cc.params.values()).zip(defaults.values());
            let changed = params.filter(|((_, value), default)| value != default);
            let words = changed
                .map(|((info, value), _)| format!("params.{} = {}", info.name, info.show(*value)));
            words.collect::<Vec<_>>()
        });
        cc.chain(params)
            .chain(self.set.iter().map(|(path, node)| format!("{path} = {}", node.show())))
            .collect()
    }
}

/// A varied key as tables show it.
#[derive(Clone, Debug)]
pub struct Column {
    /// Path of the key, with the unit of its numbers.
    pub name: String,
    /// Values as quantities of one kind in this unit. `None` means that values are shown as written.
    pub numbers: Option<Vec<f64>>,
}

impl Axis {
    /// Returns the column for tables.
    pub fn column(&self) -> Column {
        let texts: Option<Vec<&str>> = self.values.iter().map(Node::text).collect();
        match texts.and_then(|texts| units::as_column(&texts)) {
            Some((unit, numbers)) => {
                Column { name: format!("{}_{unit}", self.path), numbers: Some(numbers) }
            }
            None => Column { name: self.path.clone(), numbers: None },
        }
    }

    /// Returns the values as text.
    pub fn labels(&self) -> Vec<String> {
        self.values.iter().map(Node::label).collect()
    }
}

/// Checks that a case may change a path, or a sweep may vary it.
pub(crate) fn varied_path(path: &str) -> Result<(), String> {
    let first = path.split('.').next().unwrap_or_default();
    let whole_run = ["run.duration", "run.until_done", "run.measure_from", "run.measure_until"];
    if path.split('.').any(|part| part == "*") {
        return Err(NO_WILDCARD.to_owned());
    }
    if whole_run.contains(&path) || (VARIED.contains(&first) && path != first) {
        return Ok(());
    }
    Err(format!(
        "must be a path in quotes, as in \"traffic.short.size\", that begins with {} or run.duration{}",
        VARIED.join(", "),
        did_you_mean(first, VARIED.iter().copied())
    ))
}

/// Returns the values of a list or a range. A single value is a list of one.
pub(crate) fn axis_values(node: &Node) -> Result<Vec<Node>, String> {
    let values = match &node.value {
        Value::List(items) => items.clone(),
        Value::Text(text) => match range(text)? {
            Some(texts) => {
                texts.into_iter().map(|value| Node { origin: node.origin, value }).collect()
            }
            None => vec![node.clone()],
        },
        _ => vec![node.clone()],
    };
    match values.len() {
        0 => Err("must have at least one value".into()),
        1..=MAX_VALUES => Ok(values),
        n => Err(format!("has {n} values, but at most {MAX_VALUES} are allowed")),
    }
}

/// Whether the file's own cases include this name.
pub(crate) fn has_case(cases: &[Case], name: &str) -> bool {
    cases.iter().any(|case| case.name == name)
}

/// Parses a metric's name. The error lists the allowed names.
pub(crate) fn metric_named(name: &str) -> Result<Metric, String> {
    Metric::by_name(name)
        .ok_or_else(|| one_of(name, Metric::ALL.iter().map(|metric| metric.name())))
}

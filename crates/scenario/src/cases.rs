//! Cases and varied values, and the identity of their runs.

use knee_file::keys::{Name, Shape, Table};
use knee_file::{
    Error, NO_WILDCARD, Node, Origin, Reader, Reason, Value, did_you_mean, one_of, units,
};
use knee_run::spec::Cc;
use serde_json::Value as Json;

use crate::metric::Metric;
use crate::range::{MAX_VALUES, range};

/// Largest number of configurations: cases times varied values.
pub(crate) const MAX_CONFIGURATIONS: usize = 1_000_000;
/// Most varied keys, and most keys that vary together.
const MAX_AXES: usize = 100;
const MAX_TOGETHER: usize = 100;
/// Largest number of runs: configurations times repeats.
pub const MAX_RUNS: usize = 10_000_000;
/// Most values in a list: points of a design.
const MAX_LISTED: usize = 100_000;
/// Between the values of keys that vary together.
const TOGETHER: &str = " / ";
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
    pub(crate) wrong: Option<Box<Error>>,
    /// Changed keys: path and value.
    pub(crate) set: Vec<(String, Node)>,
}

/// A varied key with its values, or several keys that take theirs together.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Path of the key, or the name of several.
    pub path: String,
    pub(crate) origin: Origin,
    /// Each key with its values, as many of one as of another.
    pub(crate) keys: Vec<(String, Vec<Node>)>,
}

/// A case with one value per axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Index of the case.
    pub case: usize,
    /// Index of the value on each axis.
    pub point: Vec<usize>,
}

/// Every case at every point, by number. Cases of one point are adjacent, and the first axis varies slowest.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    cases: usize,
    /// Number of values of each axis.
    points: Vec<usize>,
    len: usize,
}

impl Rows {
    pub(crate) fn new(cases: usize, axes: &[Axis]) -> Rows {
        let points: Vec<usize> = axes.iter().map(Axis::points).collect();
        let len = points.iter().fold(cases, |n, points| n.saturating_mul(*points));
        Rows { cases, points, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// # Panics
    /// If there are not so many.
    pub(crate) fn get(&self, row: usize) -> Configuration {
        assert!(row < self.len, "row {row} of {}", self.len);
        let mut rest = row / self.cases;
        let mut point: Vec<usize> = self
            .points
            .iter()
            .rev()
            .map(|points| {
                let value = rest % points;
                rest /= points;
                value
            })
            .collect();
        point.reverse();
        Configuration { case: row % self.cases, point }
    }
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
    /// Reads a varied key with its list or range, or a name with a table of such keys.
    pub(crate) fn read(path: &str, node: &Node) -> Result<Axis, String> {
        let keys = match node.table().filter(|_| is_name(path)) {
            Some(table) if table.len() > MAX_TOGETHER => {
                return Err(format!(
                    "varies {} keys together, but at most {MAX_TOGETHER} are allowed",
                    table.len()
                ));
            }
            Some(table) => {
                let key = |(key, node): &(String, Node)| {
                    let values = varied_path(key).and_then(|()| axis_values(node));
                    Ok((key.clone(), values.map_err(|why| format!("{key} {why}"))?))
                };
                table.iter().map(key).collect::<Result<Vec<_>, String>>()?
            }
            None => {
                varied_path(path)?;
                vec![(path.to_owned(), axis_values(node)?)]
            }
        };
        let Some((first, values)) = keys.first() else {
            return Err("must have keys, each with its list of values".into());
        };
        if let Some((other, others)) = keys.iter().find(|(_, all)| all.len() != values.len()) {
            return Err(format!(
                "{first} has {} values and {other} has {}: keys that vary together need as many each",
                values.len(),
                others.len()
            ));
        }
        Ok(Axis { path: path.to_owned(), origin: node.origin, keys })
    }

    /// Returns the axis with other values: a list or range of its key, or some of the labels of several keys.
    pub(crate) fn with_values(&self, node: &Node) -> Result<Axis, Reason> {
        if !self.is_together() || node.table().is_some() {
            return Ok(Axis::read(&self.path, node)?);
        }
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let labels = self.labels();
        let position = |item: &Node| {
            let label = item.label();
            let known = labels.iter().map(String::as_str);
            labels.iter().position(|known| *known == label).ok_or_else(|| one_of(&label, known))
        };
        let chosen = items.iter().map(position).collect::<Result<Vec<usize>, _>>()?;
        if chosen.is_empty() {
            return Err("must have at least one value".into());
        }
        let mut axis = Axis { origin: node.origin, ..self.clone() };
        for (_, values) in &mut axis.keys {
            *values = chosen.iter().map(|at| values[*at].clone()).collect();
        }
        Ok(axis)
    }

    /// Returns what gives its values, for messages.
    pub(crate) fn set_by(&self) -> &'static str {
        match self.origin {
            Origin::Given(by) => by,
            _ => "[vary]",
        }
    }

    /// Whether it is a name of keys that vary together.
    pub fn is_together(&self) -> bool {
        !self.has(&self.path)
    }

    /// Whether a key is one of its keys.
    pub fn has(&self, key: &str) -> bool {
        self.paths().any(|path| path == key)
    }

    /// Returns the key of it that lies in the table of this path.
    pub(crate) fn key_in(&self, table: &str) -> Option<&str> {
        let is_in = |key: &&str| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        self.paths().find(is_in)
    }

    /// Returns the paths of its keys.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(path, _)| path.as_str())
    }

    /// Returns the keys with the values of a point.
    pub(crate) fn at(&self, point: usize) -> impl Iterator<Item = (&str, &Node)> {
        self.keys.iter().map(move |(path, values)| (path.as_str(), &values[point]))
    }

    /// Returns the number of points.
    pub(crate) fn points(&self) -> usize {
        self.keys.first().map_or(0, |(_, values)| values.len())
    }

    /// Returns the value of a point as text: the values of keys that vary together are one label.
    pub(crate) fn label(&self, point: usize) -> String {
        let labels: Vec<String> = self.at(point).map(|(_, node)| node.label()).collect();
        labels.join(TOGETHER)
    }

    /// Returns the value of a point as JSON, or its label if keys vary together.
    pub(crate) fn json(&self, point: usize) -> Json {
        match self.is_together() {
            true => self.label(point).into(),
            false => self.keys[0].1[point].json(),
        }
    }

    /// Returns the column for tables.
    pub fn column(&self) -> Column {
        if self.is_together() {
            // No other column has a dot.
            return Column { name: format!("vary.{}", self.path), numbers: None };
        }
        let (path, values) = &self.keys[0];
        let texts: Option<Vec<&str>> = values.iter().map(Node::text).collect();
        match texts.and_then(|texts| units::as_column(&texts)) {
            Some((unit, numbers)) => {
                Column { name: format!("{path}_{unit}"), numbers: Some(numbers) }
            }
            None => Column { name: path.clone(), numbers: None },
        }
    }

    /// Returns the values as text.
    pub fn labels(&self) -> Vec<String> {
        (0..self.points()).map(|point| self.label(point)).collect()
    }
}

/// Whether a word may name keys that vary together.
fn is_name(word: &str) -> bool {
    Name::is_fit(word) && !VARIED.contains(&word) && !["run", "case"].contains(&word)
}

/// Reads the varied keys of a table `[vary]`.
pub(crate) fn read_axes(vary: &Reader<'_>) -> Result<Vec<Axis>, Error> {
    let mut axes = Vec::new();
    for (path, node) in vary.entries() {
        let axis = Axis::read(path, node).map_err(|why| vary.error(path, why))?;
        add_axis(&mut axes, axis).map_err(|why| vary.error(path, why))?;
    }
    Ok(axes)
}

/// Adds varied keys, unless one of them varies already.
pub(crate) fn add_axis(axes: &mut Vec<Axis>, axis: Axis) -> Result<(), String> {
    let twice = |other: &Axis| {
        let key = axis.keys.iter().find(|(key, _)| other.has(key));
        key.map(|(key, _)| (key.clone(), other.path.clone()))
    };
    match axes.iter().find_map(twice) {
        Some((key, other)) if key == other => {
            Err(format!("varies {key}, which also varies by itself: leave one out"))
        }
        Some((key, other)) => {
            Err(format!("varies {key}, which also varies in {other}: leave one out"))
        }
        None if axes.len() == MAX_AXES => {
            Err(format!("is one varied key too many: at most {MAX_AXES} are allowed"))
        }
        None => {
            axes.push(axis);
            let points = axes.iter().fold(1_usize, |n, axis| n.saturating_mul(axis.points()));
            if points > MAX_CONFIGURATIONS {
                return Err(format!(
                    "makes {points} combinations of varied values, but at most {MAX_CONFIGURATIONS} are allowed"
                ));
            }
            Ok(())
        }
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

/// Returns the values of a list or a range, or of a list with ranges. A single value is a list of one.
pub(crate) fn axis_values(node: &Node) -> Result<Vec<Node>, String> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let (mut values, mut most) = (Vec::new(), MAX_LISTED);
    for item in items {
        match item.text().map(range).transpose()?.flatten() {
            Some(all) => {
                most = MAX_VALUES;
                values.extend(all.into_iter().map(|value| Node { origin: item.origin, value }));
            }
            None => values.push(item.clone()),
        }
        let count = items.len().max(values.len());
        if count > most {
            return Err(format!("has {count} values, but at most {most} are allowed"));
        }
    }
    match values.is_empty() {
        true => Err("must have at least one value".into()),
        false => Ok(values),
    }
}

/// Whether the file's own cases include this name.
pub(crate) fn has_case(cases: &[Case], name: &str) -> bool {
    cases.iter().any(|case| case.name == name)
}

/// Parses a metric's name. The error lists the allowed names.
pub(crate) fn metric_named(name: &str) -> Result<Metric, Reason> {
    Metric::by_name(name)
        .ok_or_else(|| one_of(name, Metric::ALL.iter().map(|metric| metric.name())))
}

//! `[quick]`: the part of an experiment in the set that runs in two minutes.

use knee_file::keys::{Below, Key, List, Text};
use knee_file::{Error, Node, Reader, Table, keys, one_of};

use crate::cases::{Axis, Case, MAX_RUNS, SET, has_case, varied_path};
use crate::published::AT;

/// The part of an experiment that represents it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quick {
    /// Replaces `run.repeat`.
    pub repeat: Option<u32>,
    /// Cases of the quick set; empty: all.
    pub cases: Vec<String>,
    /// Values of these axes. Other axes keep their own.
    pub(crate) vary: Table,
    /// Keys with another value, which makes it a different experiment.
    pub(crate) set: Table,
}

impl Quick {
    /// Returns the keys whose value differs from the whole experiment.
    pub fn changed_keys(&self) -> impl Iterator<Item = &str> {
        self.set.iter().map(|(path, _)| path.as_str())
    }

    /// Returns its settings as overrides of the command line.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        self.set.iter().chain(&self.vary).cloned()
    }
}

keys! {
    /// The experiment's part in the quick set of `knee reproduce`. Without this table: none.
    pub(crate) static KEYS: QuickKeys = "quick" {
        /// Replaces `run.repeat`.
        repeat: Key<u32> = within(1, MAX_RUNS as u64),
        /// Only these cases.
        case: Key<List<Text>> = usually("all"),
        /// Only these values of `[vary]`.
        vary: Below = table(&AT),
        /// Changed keys. A last resort, since they change the experiment.
        set: Below = table(&SET),
    }
}

pub(crate) fn read_quick(
    root: &Reader<'_>,
    cases: &[Case],
    axes: &[Axis],
    key: &Below,
) -> Result<Option<Quick>, Error> {
    let Some(reader) = root.child(key)? else { return Ok(None) };
    reader.check(&[&KEYS])?;
    let repeat = reader.get(&KEYS.repeat)?;
    let names = reader.texts(&KEYS.case)?.unwrap_or_default();
    if let Some(unknown) = names.iter().find(|name| !has_case(cases, name)) {
        let known = cases.iter().map(|case| case.name.as_str());
        return Err(reader.error(&KEYS.case, one_of(unknown, known)));
    }
    let mut vary = Table::new();
    if let Some(table) = reader.child(&KEYS.vary)? {
        for (path, node) in table.entries() {
            let Some(axis) = axes.iter().find(|axis| axis.path == path) else {
                return Err(table.error(path, "must be a key of [vary]"));
            };
            let labels = axis.labels();
            let of_quick = axis.with_values(node).map_err(|why| table.error(path, why))?.labels();
            if let Some(other) = of_quick.iter().find(|label| !labels.contains(label)) {
                let why = one_of(other, labels.iter().map(String::as_str));
                return Err(table.error(path, format!("each {why}")));
            }
            vary.push((path.to_owned(), node.clone()));
        }
    }
    let mut set = Table::new();
    if let Some(table) = reader.child(&KEYS.set)? {
        for (path, node) in table.entries() {
            varied_path(path).map_err(|why| table.error(path, why))?;
            if axes.iter().any(|axis| axis.has(path)) {
                return Err(table.error(path, "is a varied key: choose its values in quick.vary"));
            }
            set.push((path.to_owned(), node.clone()));
        }
    }
    let cases = names.into_iter().map(str::to_owned).collect();
    Ok(Some(Quick { repeat, cases, vary, set }))
}

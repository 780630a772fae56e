//! The document of a row: the file with its case, varied values and `--set`, and which of these an error comes from.

use knee_file::{Node, Origin};
use knee_run::spec::Cc;

use crate::cases::Configuration;
use crate::cc::set_param;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::paths::set;

/// Something that changes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setter {
    /// `set` of the case.
    Case,
    /// A varied key, by its number.
    Axis(usize),
    /// `--set`, or the quick set's, by its number.
    Set(usize),
}

impl Experiment {
    /// Returns the document of a configuration, with every value in place, and the algorithm of its case.
    pub(crate) fn document(&self, row: &Configuration) -> Result<(Node, Option<Cc>), Error> {
        self.document_without(row, &[])
    }

    /// Works like [`Experiment::document`] without some of the changes.
    fn document_without(
        &self,
        row: &Configuration,
        without: &[Setter],
    ) -> Result<(Node, Option<Cc>), Error> {
        let has = |setter: Setter| !without.contains(&setter);
        let put = |root: &mut Node, path: &str, key: &str, node: &Node| {
            set(root, path, node).map_err(|why| Error::input(&self.path, node.origin, key, why))
        };
        let own = || self.set.iter().enumerate().filter(|(at, _)| has(Setter::Set(*at)));
        let mut root = match without.iter().any(|setter| matches!(setter, Setter::Set(_))) {
            true => {
                let mut root = self.as_written.clone();
                own().try_for_each(|(_, (path, node))| put(&mut root, path, path, node))?;
                root
            }
            false => self.root.clone(),
        };
        let case = &self.cases[row.case];
        let mut cc = case.cc.clone();
        for (path, node) in case.set.iter().filter(|_| has(Setter::Case)) {
            put(&mut root, path, &format!("case.{}.set.{path}", case.name), node)?;
        }
        let values = self.axes.iter().zip(&row.point).enumerate();
        let values = values.flat_map(|(at, (axis, point))| {
            axis.at(*point).map(move |(path, node)| (at, axis, path, node))
        });
        for (at, axis, path, node) in values {
            let key = match (axis.origin, axis.is_together()) {
                (Origin::Given(_), false) => path.to_owned(),
                (Origin::Given(_), true) => format!("{}.{path}", axis.path),
                (_, false) => format!("vary.{path}"),
                (_, true) => format!("vary.{}.{path}", axis.path),
            };
            match (path.strip_prefix("params."), &mut cc) {
                (None, _) if has(Setter::Axis(at)) => put(&mut root, path, &key, node)?,
                (None, _) => {}
                (Some(param), Some(cc)) => set_param(cc, param, node)
                    .map_err(|why| Error::input(&self.path, axis.origin, key, why))?,
                (Some(_), None) => {
                    let why = "needs cases: cc = [\"dctcp\"] or [[case]]";
                    return Err(Error::input(&self.path, axis.origin, key, why));
                }
            }
        }
        own().try_for_each(|(_, (path, node))| put(&mut root, path, path, node))?;
        Ok((root, cc))
    }

    /// Adds to an error of a configuration which of its case, varied values and `--set` it depends on: the error changes
    /// without them. `read` reads a document.
    pub(crate) fn with_setters(
        &self,
        row: &Configuration,
        error: Error,
        read: &dyn Fn(Node, Option<Cc>) -> Option<Error>,
    ) -> Error {
        let mut error = match error {
            Error::Input(error) => error,
            other => return other,
        };
        let case = (!self.cases[row.case].set.is_empty()).then_some(Setter::Case);
        let axes = (0..self.axes.len()).map(Setter::Axis);
        let all: Vec<Setter> =
            case.into_iter().chain(axes).chain((0..self.set.len()).map(Setter::Set)).collect();
        let changes = |without: &[Setter]| {
            let found =
                self.document_without(row, without).map_or_else(Some, |(root, cc)| read(root, cc));
            !matches!(found, Some(Error::Input(other)) if other == error)
        };
        if all.is_empty() || !changes(&all) {
            return Error::Input(error);
        }
        let mut due: Vec<Setter> = all.iter().copied().filter(|one| changes(&[*one])).collect();
        if due.is_empty() {
            // Each alone is enough for the error.
            due = all;
        }
        if let Origin::Given(_) = error.origin {
            // The place of the error says it already.
            due.retain(|setter| match setter {
                Setter::Case => true,
                Setter::Axis(at) => self.axes[*at].origin != error.origin,
                Setter::Set(_) => false,
            });
        }
        let words: Vec<String> =
            due.into_iter().map(|one| self.words(one, row, &error.key)).collect();
        error.more.set_by = words.join("; ");
        Error::Input(error)
    }

    /// Describes a change, for an error about `key`.
    fn words(&self, setter: Setter, row: &Configuration, key: &str) -> String {
        match setter {
            Setter::Case => {
                let case = &self.cases[row.case];
                let related = near(case.set.iter().map(|(path, _)| path.as_str()), key);
                format!("case {:?} sets {}", case.name, related.join(", "))
            }
            Setter::Axis(at) => {
                let axis = &self.axes[at];
                let keys = near(axis.paths(), key);
                let values = axis.at(row.point[at]).filter(|(path, _)| keys.contains(path));
                let values: Vec<String> =
                    values.map(|(path, node)| format!("{path} = {}", node.show())).collect();
                format!("{} sets {}", axis.set_by(), values.join(", "))
            }
            Setter::Set(at) => {
                let (path, node) = &self.set[at];
                let by = match node.origin {
                    Origin::Given(by) => by,
                    _ => "[quick]",
                };
                format!("{by} sets {path} = {}", node.show())
            }
        }
    }
}

/// Returns the paths that are above or below a key, or all if none is.
fn near<'a>(paths: impl Iterator<Item = &'a str>, key: &str) -> Vec<&'a str> {
    let all: Vec<&str> = paths.collect();
    let near: Vec<&str> = all.iter().copied().filter(|path| meets(path, key)).collect();
    if near.is_empty() { all } else { near }
}

/// Returns whether one path begins with the other.
fn meets(one: &str, other: &str) -> bool {
    let begins = |path: &str, with: &str| {
        path.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    begins(one, other) || begins(other, one)
}

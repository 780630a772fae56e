//! `[[claim]]`: statements about an experiment's figures, by its source or by us, as checks that a run decides.
//!
//! A check bounds one figure, a ratio of two, or a difference of two. Loading a file refuses checks of what cannot be
//! measured.

mod read;

pub(crate) use read::{ClaimKeys, check_measured, read_claims};

use knee_file::Origin;

use crate::by_run::ByRun;
use crate::metric::Metric;
use crate::published::Stat;

/// A statement about the experiment, with checks that hold if it is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Name, unique in the file.
    pub name: String,
    /// The statement, in one sentence.
    pub says: String,
    /// Author of the statement.
    pub by: By,
    /// Cause if the claim fails, with the figures that show it.
    pub because: Option<String>,
    /// Experiment that shows the cause.
    pub see: Option<String>,
    /// Reason why the claim cannot be checked. Then it has no checks.
    pub cannot: Option<String>,
    /// Checks of the claim.
    pub checks: Vec<Check>,
    /// Position in the file, for messages.
    pub origin: Origin,
}

/// Author of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Stated by the source.
    Source,
    /// We derive it from the source's figures.
    Us,
}

impl By {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            By::Source => "source",
            By::Us => "us",
        }
    }
}

/// A value and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The bounded figure, or the first of two.
    pub figure: Term,
    /// The second figure, for a ratio or a difference.
    pub other: Option<(Join, Term)>,
    /// Bounds of the value.
    pub bounds: Bounds,
    /// Cases and axes whose values the check covers.
    pub every: Vec<Every>,
    /// Cases of the file, for `every`.
    pub cases: Vec<String>,
    /// Position in the file, for messages.
    pub(crate) origin: Origin,
}

/// Combination of two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The ratio of the first to the second.
    Over,
    /// The difference of the first and the second.
    Minus,
}

impl Join {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Join::Over => "over",
            Join::Minus => "minus",
        }
    }
}

/// One measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Traffic entry or link.
    pub subject: String,
    /// Metric of the subject.
    pub metric: Metric,
    /// Statistic of the metric.
    pub stat: Stat,
    /// The case. `None` means every case that the check covers.
    pub case: Option<String>,
    /// A value for every axis of the file. `None` means every value that the check covers.
    pub at: Vec<(String, Option<String>)>,
}

/// Dimension that a check covers.
#[derive(Clone, Debug, PartialEq)]
pub enum Every {
    Case,
    /// All values of a varied key: its path and these values.
    Value(String, Vec<String>),
}

/// Bounds of a value, in the unit of the metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Lower bound, inclusive.
    pub at_least: Option<f64>,
    /// Upper bound, inclusive.
    pub at_most: Option<f64>,
    /// Text as in the file.
    pub text: String,
}

impl Check {
    /// Returns the unit of the value. A ratio has none.
    pub fn unit(&self) -> &'static str {
        match self.other {
            Some((Join::Over, _)) => "",
            _ => self.figure.metric.unit(),
        }
    }

    /// Describes the check: `completion of short, cubic, size 10 kB, over dctcp: at least 10`.
    pub fn says(&self) -> String {
        let figure = &self.figure;
        let mut words = figure.name();
        let places = |words: &mut String, term: &Term, than: Option<&Term>| {
            let is_new = |part: &dyn Fn(&Term) -> Option<String>| {
                part(term).filter(|this| than.is_none_or(|than| part(than).as_ref() != Some(this)))
            };
            let mut parts: Vec<String> = is_new(&|term| term.case.clone()).into_iter().collect();
            for (path, _) in &term.at {
                let value = |term: &Term| {
                    term.at.iter().find(|(other, _)| other == path).and_then(|(_, v)| v.clone())
                };
                parts.extend(is_new(&value).map(|value| format!("{} {value}", short(path))));
            }
            words.push_str(&parts.join(", "));
        };
        let mut place = String::new();
        places(&mut place, figure, None);
        if !place.is_empty() {
            words.push_str(&format!(" ({place})"));
        }
        if let Some((join, other)) = &self.other {
            words.push_str(&format!(" {} ", join.name()));
            let mut place = String::new();
            places(&mut place, other, Some(figure));
            match (other.name() == figure.name(), place.is_empty()) {
                (true, _) => words.push_str(&place),
                (false, true) => words.push_str(&other.name()),
                (false, false) => words.push_str(&format!("{} ({place})", other.name())),
            }
        }
        for every in &self.every {
            words.push_str(&match every {
                Every::Case => ", every case".to_owned(),
                Every::Value(path, _) => format!(", every {}", short(path)),
            });
        }
        format!("{words}: {}", self.bounds.text)
    }
}

/// Returns the figures that claims compare run by run: subject, metric and statistic.
pub fn compared(claims: &[Claim]) -> Vec<(&str, Metric, Stat)> {
    let mut all = Vec::new();
    for check in claims.iter().flat_map(|claim| &claim.checks) {
        let Some((_, other)) = &check.other else { continue };
        for term in [&check.figure, other] {
            let figure = (term.subject.as_str(), term.metric, term.stat);
            if ByRun::has(term.stat) && !all.contains(&figure) {
                all.push(figure);
            }
        }
    }
    all
}

impl Term {
    /// Returns the name of the figure: `p99 of latency of 10kB`.
    pub fn name(&self) -> String {
        let stat = match self.stat {
            Stat::Mean => String::new(),
            other => format!("{} of ", other.name()),
        };
        format!("{stat}{} of {}", self.metric.name(), self.subject)
    }
}

/// Returns the last part of a path.
pub fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

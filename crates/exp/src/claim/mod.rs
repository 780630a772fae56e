//! `[[claim]]`: what an experiment's source, or we, say follows from its figures, as checks that a run decides.
//!
//! A check bounds one figure, a ratio of two, or a difference of two. Reading it refuses what cannot be measured when the file
//! is loaded; [`Claim::judge`] gives the verdict on a sweep.

mod judge;
mod read;

pub use judge::{Interval, Judged, JudgedCheck, JudgedTerm, Row};
pub use knee_results::{CheckVerdict, ClaimVerdict};
pub(crate) use read::{ClaimKeys, check_measured, read_claims};

use knee_file::Origin;

use crate::metric::Metric;
use crate::published::Stat;

/// Something said of the experiment, and what must hold if it is so.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Unique in the file.
    pub name: String,
    /// In one sentence.
    pub says: String,
    /// Who says it.
    pub by: By,
    /// The cause where it does not stand, with the figures that show it.
    pub because: Option<String>,
    /// The experiment that shows the cause.
    pub see: Option<String>,
    /// Why it cannot be decided here at all; then there are no checks.
    pub cannot: Option<String>,
    /// Checks of the claim.
    pub checks: Vec<Check>,
    /// Where it was written.
    pub(crate) origin: Origin,
}

/// Who says what a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Stated by the source.
    Source,
    /// We derive it from the source's figures.
    Us,
}

impl By {
    /// As in files.
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
    /// The other side.
    pub other: Option<(Join, Term)>,
    /// Bounds of the value.
    pub bounds: Bounds,
    /// Cases and axes whose values the check covers.
    pub every: Vec<Every>,
    /// Cases of the file, for `every`.
    cases: Vec<String>,
    /// Where it was written.
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
    /// As in files.
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
    /// The case; `None`: each of those that the check goes through.
    pub case: Option<String>,
    /// Every axis of the file and the value on it; `None`: each of those that the check goes through.
    pub at: Vec<(String, Option<String>)>,
}

/// Dimension that a check covers.
#[derive(Clone, Debug, PartialEq)]
pub enum Every {
    Case,
    /// All values of a varied path: these.
    Value(String, Vec<String>),
}

/// Where a value must lie, in the unit of the metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Not below.
    pub at_least: Option<f64>,
    /// Not above.
    pub at_most: Option<f64>,
    /// Text as in the file.
    pub text: String,
}

impl Check {
    /// Unit of the value: none of a ratio.
    pub fn unit(&self) -> &'static str {
        match self.other {
            Some((Join::Over, _)) => "",
            _ => self.figure.metric.unit(),
        }
    }

    /// The check in words: `completion of short, cubic, size 10 kB, over dctcp: at least 10`.
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

impl Term {
    /// Name of the figure: `p99 of latency of 10kB`.
    pub fn name(&self) -> String {
        let stat = match self.stat {
            Stat::Mean => String::new(),
            other => format!("{} of ", other.name()),
        };
        format!("{stat}{} of {}", self.metric.name(), self.subject)
    }
}

/// The last part of a path.
pub(crate) fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

//! The verdict on a claim.
//!
//! The interval of a figure is the 95 % interval of its mean or percentile over runs. Another statistic is a point, and so is a
//! figure of identical runs. The share of rounds or queries with a timeout gets at least Wilson's interval for its
//! number of trials: 0 of 55 may be up to 6.5 %.
//!
//! A figure that values cut off could change is an interval without a value, whose upper end may be infinite: a check that
//! this leaves open is undecided.
//!
//! A ratio or difference of two means or percentiles is that of `knee compare`: a figure per run, by pairs of runs of the same seed
//! from five on. A ratio of a figure that is zero in a run, and a ratio or difference of other statistics, spans all values that
//! the two intervals allow. This is conservative: it holds the true value whenever both intervals do.

use knee_inference::{contrast, values_needed};
use knee_results::manifest::{self, CheckRow};
pub use knee_results::{CheckVerdict, ClaimVerdict};
use knee_scenario::claim::{Bounds, Check, Claim, Every, Join, Term, short};
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Metric;
use knee_scenario::published::Stat;
use knee_scenario::stats::{Possible, Summary, rounded};
use knee_sweep::sweep_result::{Subject, Summaries, SweepResult};

/// Returns the verdict on a value. Without a value, the check is undecided.
pub fn verdict(bounds: &Bounds, value: Option<Interval>) -> CheckVerdict {
    let Some(Interval { low, high, .. }) = value else { return CheckVerdict::Undecided };
    let least = bounds.at_least.unwrap_or(f64::NEG_INFINITY);
    let most = bounds.at_most.unwrap_or(f64::INFINITY);
    if high < least || low > most {
        CheckVerdict::Fails
    } else if low >= least && high <= most {
        CheckVerdict::Holds
    } else {
        CheckVerdict::Undecided
    }
}

/// A value and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The value. `None` where only the ends are known.
    pub value: Option<f64>,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Makes an interval from a mean and its half-width, for a quantity that is never negative.
    pub fn around(value: f64, half: f64) -> Interval {
        Interval { value: Some(value), low: (value - half).max(0.0), high: value + half }
    }

    /// Makes an interval of what is known of a figure, with the half-width of its interval over runs.
    fn of(possible: Possible, half: f64) -> Interval {
        let high = possible.high.unwrap_or(f64::INFINITY);
        let value = possible.is_exact().then_some(possible.low);
        Interval { value, low: (possible.low - half).max(0.0), high: high + half }
    }

    /// Widens the interval of a share to at least Wilson's 95 % interval for this number of trials.
    pub fn and_of_share(self, trials: f64) -> Interval {
        const Z: f64 = 1.96;
        let Some(share) = self.value else { return self };
        let per_trial = Z * Z / trials;
        let middle = (share + per_trial / 2.0) / (1.0 + per_trial);
        let spread = share * (1.0 - share) / trials + per_trial / (4.0 * trials);
        let half = Z * spread.max(0.0).sqrt() / (1.0 + per_trial);
        let (low, high) = ((middle - half).max(0.0), (middle + half).min(1.0));
        Interval { value: Some(share), low: self.low.min(low), high: self.high.max(high) }
    }

    /// Returns the part of the interval that the metric can have.
    fn possible(self, metric: Metric) -> Interval {
        let (low, high) = metric.possible(self.low, self.high);
        Interval { low, high: self.value.map_or(high, |value| high.max(value)), ..self }
    }

    /// Returns the ratio to another interval. `None` if that one is zero.
    pub fn over(self, other: Interval) -> Option<Interval> {
        let values = self.value.zip(other.value);
        (other.value.unwrap_or(other.high) > 0.0).then(|| Interval {
            value: values.map(|(value, other)| value / other),
            low: self.low / other.high,
            high: if other.low > 0.0 { self.high / other.low } else { f64::INFINITY },
        })
    }

    /// Returns the difference to another interval.
    pub fn minus(self, other: Interval) -> Interval {
        Interval {
            value: self.value.zip(other.value).map(|(value, other)| value - other),
            low: self.low - other.high,
            high: self.high - other.low,
        }
    }
}

/// The verdict of a sweep on a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub verdict: ClaimVerdict,
    /// Verdicts on its checks, in order.
    pub checks: Vec<JudgedCheck>,
}

/// The verdict of a sweep on a check.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCheck {
    pub verdict: CheckVerdict,
    /// Rows for the covered cases and values that were run.
    pub rows: Vec<Row>,
}

/// The verdict on a check at one case and one set of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Case and values of the row, for a check with `every`; else empty.
    pub at: String,
    pub verdict: CheckVerdict,
    /// The value. `None` if it was not measured in all runs that it needs.
    pub value: Option<Interval>,
    /// The figures of the value: the first, and the second if there is one.
    pub terms: Vec<JudgedTerm>,
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedTerm {
    /// `figure`, `over` or `minus`.
    pub role: &'static str,
    pub case: String,
    /// Varied keys: path and value.
    pub at: Vec<(String, String)>,
    /// What is known of the figure. `None` if it was not measured.
    pub value: Option<Possible>,
    /// Half of its 95 % interval, if it has one.
    pub ci95: Option<f64>,
    /// Number of runs in which it was measured.
    pub runs: u64,
    /// Why there is no value, if the runs have too few values for a percentile: `needs 1000 values, has 300`.
    pub lacks: Option<String>,
}

impl Judged {
    /// Returns whether a figure was measured in only one run. Then its spread is unknown.
    pub fn is_of_one_run(&self) -> bool {
        let rows = self.checks.iter().flat_map(|check| &check.rows);
        rows.flat_map(|row| &row.terms).any(|term| term.runs == 1)
    }

    /// Returns the figures of which the runs have too few values: each with the number that it needs.
    pub fn lacks(&self, claim: &Claim) -> Vec<String> {
        let mut all = Vec::new();
        for (check, judged) in claim.checks.iter().zip(&self.checks) {
            for term in judged.rows.iter().flat_map(|row| &row.terms) {
                let Some(lacks) = &term.lacks else { continue };
                let name = match (term.role, &check.other) {
                    ("figure", _) | (_, None) => check.figure.name(),
                    (_, Some((_, other))) => other.name(),
                };
                let sentence = format!("{name} (case {}) {lacks}", term.case);
                if !all.contains(&sentence) {
                    all.push(sentence);
                }
            }
        }
        all
    }

    /// Describes limits of the verdict. Empty if all checks were run, each more than once.
    pub fn scope(&self) -> String {
        let run = self.checks.iter().filter(|check| check.verdict != CheckVerdict::NotRun).count();
        let checks = (0 < run && run < self.checks.len())
            .then(|| format!("{run} of {} checks", self.checks.len()));
        let runs = self.is_of_one_run().then(|| "one run".to_owned());
        checks.into_iter().chain(runs).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the verdict on what was run.
pub fn judge(claim: &Claim, experiment: &Experiment, swept: &SweepResult) -> Judged {
    if claim.cannot.is_some() {
        return Judged { verdict: ClaimVerdict::Undecided, checks: Vec::new() };
    }
    let of = Evidence { experiment, swept };
    let checks: Vec<JudgedCheck> = claim.checks.iter().map(|check| of.check(check)).collect();
    let verdicts: Vec<_> = checks.iter().map(|check| check.verdict).collect();
    Judged { verdict: ClaimVerdict::of(&verdicts), checks }
}

/// A case and values that a check covers.
#[derive(Clone, Debug, Default)]
struct Place {
    case: Option<String>,
    at: Vec<(String, String)>,
}

impl Place {
    fn words(&self) -> String {
        let values = self.at.iter().map(|(path, value)| format!("{} {value}", short(path)));
        self.case.clone().into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }
}

/// Returns every case and value that the check covers, in the file's order.
fn places(check: &Check) -> Vec<Place> {
    let mut places = vec![Place::default()];
    for every in &check.every {
        places = places
            .into_iter()
            .flat_map(|place| match every {
                Every::Case => {
                    let with = |case: &String| Place { case: Some(case.clone()), ..place.clone() };
                    check.cases.iter().map(with).collect::<Vec<_>>()
                }
                Every::Value(path, values) => {
                    let with = |value: &String| {
                        let mut place = place.clone();
                        place.at.push((path.clone(), value.clone()));
                        place
                    };
                    values.iter().map(with).collect()
                }
            })
            .collect();
    }
    places
}

/// Fills in the case and values that the term leaves open from a place.
fn placed(term: &Term, place: &Place) -> Term {
    let value = |path: &str| {
        place.at.iter().find(|(other, _)| other == path).map(|(_, value)| value.clone())
    };
    let at = term.at.iter().map(|(path, v)| (path.clone(), v.clone().or_else(|| value(path))));
    Term {
        case: term.case.clone().or_else(|| place.case.clone()),
        at: at.collect(),
        ..term.clone()
    }
}

/// What was run, and of which experiment.
#[derive(Clone, Copy)]
struct Evidence<'a> {
    experiment: &'a Experiment,
    swept: &'a SweepResult,
}

impl Evidence<'_> {
    fn check(&self, check: &Check) -> JudgedCheck {
        let places = places(check);
        let several = places.len() > 1;
        let rows = places.iter().filter_map(|place| self.row(check, place, several));
        let rows: Vec<Row> = rows.collect();
        JudgedCheck { verdict: CheckVerdict::all(rows.iter().map(|row| row.verdict)), rows }
    }

    /// Judges one place. `None` if it was not run, or if both figures are the same.
    fn row(&self, check: &Check, place: &Place, several: bool) -> Option<Row> {
        let other = check.other.as_ref().map(|(join, term)| (*join, placed(term, place)));
        let figure = placed(&check.figure, place);
        if other.as_ref().is_some_and(|(_, other)| *other == figure) {
            return None;
        }
        let (first, value) = self.measured(&figure, "figure")?;
        let value = value.map(|value| value.possible(figure.metric));
        let (terms, value) = match other {
            None => (vec![first], value),
            Some((join, other_term)) => {
                let metric = other_term.metric;
                let (second, other) = self.measured(&other_term, join.name())?;
                let other = other.map(|other| other.possible(metric));
                let spanned = value.zip(other).and_then(|(value, other)| match join {
                    Join::Over => value.over(other),
                    Join::Minus => Some(value.minus(other)),
                });
                let compared = spanned.and_then(|_| self.compared(&figure, join, &other_term));
                (vec![first, second], compared.or(spanned))
            }
        };
        let at = if several { place.words() } else { String::new() };
        Some(Row { at, verdict: verdict(&check.bounds, value), value, terms })
    }

    /// Returns the ratio or difference as `knee compare` estimates it, from a figure per run. `None` if there is none, or if it is
    /// one of shares, whose number of trials counts.
    fn compared(&self, figure: &Term, join: Join, other: &Term) -> Option<Interval> {
        let runs = |term: &Term| {
            let row = self.swept.tables.iter().find(|row| self.is_of(term, row))?;
            let subject = row.subjects.iter().find(|subject| subject.name == term.subject)?;
            let of = subject.by_run(term.metric, term.stat)?;
            // Runs with enough values for a percentile are no fair draw of all.
            let is_whole = term.stat == Stat::Mean || of.runs.iter().all(|run| run.known.is_some());
            (is_whole && trials(subject, term.metric).is_none()).then_some(&of.runs)
        };
        let of = contrast(runs(figure)?, runs(other)?);
        let estimate = match join {
            Join::Over => of.ratio?,
            Join::Minus => of.difference,
        };
        let (low, high) = estimate.ends.or(estimate.value.map(|value| (value, value)))?;
        Some(Interval { value: estimate.value, low, high })
    }

    /// Returns the measured figure. `None` if it was not run.
    fn measured(&self, term: &Term, role: &'static str) -> Option<(JudgedTerm, Option<Interval>)> {
        // At another scale, timers and jiffies keep their values, so the figures are not comparable.
        if !self.experiment.scale.is_one() {
            return None;
        }
        let row = self.swept.tables.iter().find(|row| self.is_of(term, row))?;
        // Figures of a host-limited row describe the host.
        let is_limited = row.verdict.as_ref().is_some_and(|verdict| verdict.is_limited());
        let subject = row.subjects.iter().find(|subject| subject.name == term.subject);
        let summary = subject.and_then(|subject| subject.metric(term.metric));
        let summary = summary.filter(|_| !is_limited);
        let value = summary.and_then(|summary| term.stat.possible(summary));
        let ci95 = summary.and_then(|summary| term.stat.half(summary));
        let at = term.at.iter().filter_map(|(path, value)| Some((path.clone(), value.clone()?)));
        let judged = JudgedTerm {
            role,
            case: term.case.clone().unwrap_or_default(),
            at: at.collect(),
            value,
            ci95,
            runs: summary.map_or(0, |summary| summary.runs),
            lacks: summary.filter(|_| value.is_none()).and_then(|of| lacks(term.stat, of)),
        };
        let of_shares = subject.filter(|_| term.stat == Stat::Mean && !is_limited);
        let trials = of_shares.and_then(|subject| trials(subject, term.metric));
        let interval = value.map(|value| {
            let of_runs = Interval::of(value, ci95.unwrap_or(0.0));
            trials.map_or(of_runs, |trials| of_runs.and_of_share(trials))
        });
        Some((judged, interval))
    }

    fn is_of(&self, term: &Term, row: &Summaries) -> bool {
        let labels = self.experiment.point_labels(&row.configuration);
        let mut values = self.experiment.axes.iter().zip(&labels);
        term.case.as_deref() == Some(self.experiment.case_name(&row.configuration))
            && values.all(|(axis, label)| {
                term.at
                    .iter()
                    .any(|(path, value)| *path == axis.path && value.as_ref() == Some(label))
            })
    }
}

/// Says how many values a percentile needs, if there are not so many.
fn lacks(stat: Stat, summary: &Summary) -> Option<String> {
    let needed = values_needed(stat.share()?);
    let has = summary.values + summary.cut_off.values;
    ((has as f64) < needed).then(|| format!("needs {needed} values, has {has}"))
}

/// Returns the number of trials of a share: the queries or rounds of all runs.
fn trials(subject: &Subject, metric: Metric) -> Option<f64> {
    let count = |metric| subject.metric(metric).filter(|summary| summary.values > 0);
    match metric {
        Metric::TimeoutShare => match count(Metric::Exchanges) {
            Some(queries) => queries.mean.map(|mean| mean * queries.runs as f64),
            None => count(Metric::Last).map(|rounds| rounds.values as f64),
        },
        _ => None,
    }
    .filter(|trials| *trials > 0.0)
}

/// Returns every claim of a file with its verdict, for the manifest.
pub fn claims(experiment: &Experiment, swept: &SweepResult) -> Vec<manifest::Claim> {
    let judged = |claim: &Claim| {
        let judged = judge(claim, experiment, swept);
        manifest::Claim {
            name: claim.name.clone(),
            says: claim.says.clone(),
            by: claim.by.name().into(),
            because: claim.because.clone(),
            see: claim.see.clone(),
            cannot: claim.cannot.clone(),
            verdict: judged.verdict,
            checks: claim.checks.iter().zip(&judged.checks).map(listed).collect(),
        }
    };
    experiment.claims.iter().map(judged).collect()
}

fn listed((check, judged): (&Check, &JudgedCheck)) -> manifest::Check {
    let terms = judged.rows.iter().flat_map(|row| &row.terms);
    let terms = terms.map(|judged| match (judged.role, &check.other) {
        ("figure", _) | (_, None) => listed_term(judged, &check.figure),
        (_, Some((_, other))) => listed_term(judged, other),
    });
    manifest::Check {
        says: check.says(),
        verdict: judged.verdict,
        unit: check.unit().into(),
        at_least: check.bounds.at_least,
        at_most: check.bounds.at_most,
        rows: judged.rows.iter().map(listed_row).collect(),
        terms: terms.collect(),
    }
}

fn listed_row(row: &Row) -> CheckRow {
    // A ratio to a value that may be zero has no upper end. JSON has no infinity, so the end is absent.
    let finite = |number: f64| Some(number).filter(|number| number.is_finite()).map(rounded);
    CheckRow {
        at: row.at.clone(),
        verdict: row.verdict,
        value: row.value.and_then(|v| finite(v.value?)),
        low: row.value.and_then(|v| finite(v.low)),
        high: row.value.and_then(|v| finite(v.high)),
    }
}

fn listed_term(judged: &JudgedTerm, term: &Term) -> manifest::Term {
    let low = |bounds: Possible| rounded(bounds.low);
    let open = judged.value.filter(|bounds| !bounds.is_exact());
    manifest::Term {
        role: judged.role.into(),
        case: judged.case.clone(),
        at: judged.at.clone(),
        subject: term.subject.clone(),
        metric: term.metric.name().into(),
        stat: term.stat.name().into(),
        runs: Some(judged.runs),
        value: judged.value.filter(|bounds| bounds.is_exact()).map(low),
        at_least: open.map(low),
        at_most: open.and_then(|bounds| bounds.high).map(rounded),
        ci95: judged.ci95.map(rounded),
        lacks: judged.lacks.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_where_the_metric_does() {
        let of_jain = Interval::around(0.95, 0.26).possible(Metric::Jain);
        assert_eq!((of_jain.value, of_jain.high), (Some(0.95), 1.0));
        assert_eq!(Interval::around(0.9, 0.3).possible(Metric::Utilisation).high, 1.0);
        assert_eq!(Interval::around(5.0, 7.0).possible(Metric::Completion).high, 12.0);
    }
}

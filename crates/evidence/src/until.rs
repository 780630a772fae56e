//! Repeats until a figure's interval is narrow enough: `p99 of short within 5 %`.

use knee_file::units::figure;
use knee_file::{Reason, one_of};
use knee_inference::{runs_to_reach, values_needed};
use knee_scenario::by_run::ByRun;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Metric;
use knee_scenario::published::Stat;
use knee_scenario::scenario::Scenario;
use knee_scenario::stats::Summary;
use knee_sweep::sweep_result::{Summaries, SweepResult};

/// Repeats of the first part: with fewer, the spread that they show is too uncertain to stop by (docs/compare.md).
pub const LEAST_REPEATS: u32 = 5;
/// The most repeats, unless others are asked for.
pub const MOST_REPEATS: u32 = 100;

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    stat: Stat,
    metric: Metric,
    subject: String,
    /// Half the width of the interval, as a share of the figure.
    within: f64,
}

/// How far a sweep is from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// Rows in which it is not reached, each with the reason.
    pub rows: Vec<String>,
    /// Repeats that may reach it. Those that there are if none would.
    pub repeat: u32,
}

/// What is known of a row.
enum Row {
    Reached,
    /// Half the width, as a share.
    Wide(f64),
    /// Further repeats would make an interval.
    TooFew(String),
    /// They would not.
    Never(&'static str),
}

impl Until {
    /// Reads `p99 of short within 5 %`, or with a metric, `mean of goodput of bulk within 1 %`. Without one it is the first distribution in
    /// the tables of the entry.
    ///
    /// # Errors
    /// A sentence with the way out.
    pub fn read(text: &str, experiment: &Experiment) -> Result<Until, Reason> {
        let form =
            "must be as \"p99 of short within 5 %\" or \"mean of goodput of bulk within 2 %\"";
        let (what, within) = text.rsplit_once(" within ").ok_or(form)?;
        let within = match figure(within.trim()) {
            Ok((share, "share")) if share > 0.0 && share < 1.0 => share,
            _ => return Err(format!("{within:?}: must be a share below 100 %, as in 5 %").into()),
        };
        let words: Vec<&str> = what.split(" of ").map(str::trim).collect();
        let scenario = experiment.all_rows().next().map(|first| experiment.scenario(&first));
        let scenario = scenario.and_then(Result::ok).ok_or("the experiment has no row")?;
        let (stat, metric, subject) = match words.as_slice() {
            [stat, metric, subject] => (Stat::named(stat)?, Some(*metric), *subject),
            [stat, subject] => (Stat::named(stat)?, None, *subject),
            _ => return Err(form.into()),
        };
        if !ByRun::has(stat) {
            let name = stat.name();
            let why = format!("{name} has no interval over runs: use mean, p50, p95, p99 or p999");
            return Err(why.into());
        }
        let metric = metric_of(&scenario, subject, metric)?;
        if stat != Stat::Mean && !metric.is_distribution() {
            let name = metric.name();
            let why = format!("{name} has one value in a run, and so no percentile: use mean");
            return Err(why.into());
        }
        Ok(Until { stat, metric, subject: subject.to_owned(), within })
    }

    /// Returns the name of the figure: `p99 of latency of short`.
    pub fn name(&self) -> String {
        format!("{} of {} of {}", self.stat.heading(), self.metric.name(), self.subject)
    }

    /// Returns how far a sweep is from what is wanted, with at most so many repeats.
    pub fn distance(&self, experiment: &Experiment, swept: &SweepResult, most: u32) -> Distance {
        let mut of = Distance { rows: Vec::new(), repeat: experiment.repeat };
        for summaries in &swept.tables {
            let (why, repeat) = match self.row(summaries) {
                Row::Reached => continue,
                Row::Wide(share) => {
                    let runs = runs_to_reach(experiment.repeat.into(), share, self.within);
                    (format!("{:.1} %", 100.0 * share), u32::try_from(runs).unwrap_or(most))
                }
                Row::TooFew(why) => (why, experiment.repeat.saturating_mul(2)),
                Row::Never(why) => (why.to_owned(), experiment.repeat),
            };
            let row = experiment.describe(&summaries.configuration);
            of.rows.push(format!("{row}: {why}"));
            of.repeat = of.repeat.max(repeat.min(most));
        }
        of
    }

    fn row(&self, summaries: &Summaries) -> Row {
        let subject = summaries.subjects.iter().find(|subject| subject.name == self.subject);
        let Some(summary) = subject.and_then(|subject| subject.metric(self.metric)) else {
            return Row::Never("not measured");
        };
        match (self.stat.of(summary), self.stat.half(summary)) {
            (None, _) if self.stat.possible(summary).is_some() => {
                Row::Never("values were cut off, so it has bounds: make runs longer")
            }
            (None, _) | (Some(_), None) if self.is_too_few(summary) => {
                let needed = self.stat.share().map_or(2.0, |share| 2.0 * values_needed(share));
                Row::TooFew(format!("an interval needs two runs, and {needed} values"))
            }
            (None, _) => Row::Never("not measured"),
            // All runs are the same.
            (Some(_), None) => Row::Reached,
            (Some(value), Some(half)) if half <= self.within * value.abs() => Row::Reached,
            (Some(value), Some(half)) if value != 0.0 => Row::Wide(half / value.abs()),
            _ => Row::TooFew("it is zero".to_owned()),
        }
    }

    /// Returns whether there may be too few values for an interval.
    fn is_too_few(&self, summary: &Summary) -> bool {
        let values = (summary.values + summary.cut_off.values) as f64;
        let needed = self.stat.share().map_or(1.0, values_needed);
        // Runs that have too few count together, and what is left of them does not count.
        summary.runs < 2
            || values < 2.0 * needed
            || (values < needed * summary.runs as f64 && values < 4.0 * needed)
    }
}

/// Returns the metric of this name, or the first distribution in an entry's tables.
fn metric_of(scenario: &Scenario, subject: &str, name: Option<&str>) -> Result<Metric, Reason> {
    let Some(measured) = scenario.measured_of(subject) else {
        let known: Vec<String> = scenario.groups().into_iter().map(|(name, _)| name).collect();
        return Err(one_of(subject, known.iter().map(String::as_str)));
    };
    let find = |name: &str| measured.iter().find(|metric| metric.name() == name).copied();
    match name {
        Some(name) => {
            find(name).ok_or_else(|| one_of(name, measured.iter().map(|metric| metric.name())))
        }
        None => {
            let shown = scenario.shown(subject).map_or(&measured[..], |shown| shown);
            let first = shown.iter().find(|metric| metric.is_distribution()).copied();
            first.ok_or_else(|| {
                let example = measured[0].name();
                format!("name a metric, as in mean of {example} of {subject}").into()
            })
        }
    }
}

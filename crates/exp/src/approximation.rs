//! Results that are approximated: their error, and what it does not let anybody conclude.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::published::Stat;
use crate::stats::rounded;
use crate::sweep_result::{Summaries, SweepResult};
use crate::table::{Align, Grid};

/// Key of a back end's description with the share by which its figures may differ from the simulator's.
pub const ERROR: &str = "error";
/// Statistics whose error is measured and whose comparison may be refused.
const STATS: [Stat; 2] = [Stat::P50, Stat::P99];
/// Number of refused comparisons that a note names.
const NAMED: usize = 6;

impl SweepResult {
    /// Returns the share by which figures may differ from those of the full simulation. `None`: they are no
    /// approximation.
    pub fn error(&self) -> Option<f64> {
        self.about.get(ERROR).and_then(Json::as_f64)
    }

    /// Replaces the back end's own statement by a measured error.
    pub fn set_error(&mut self, error: f64) {
        self.about.insert(ERROR.to_owned(), rounded(error).into());
    }
}

/// Formats an error as a percentage.
pub fn percent(error: f64) -> String {
    format!("{:.0} %", (100.0 * error).ceil())
}

/// Returns whether two figures differ by more than the error of either.
pub(crate) fn tells_apart(a: f64, b: f64, error: f64) -> bool {
    (a - b).abs() > error * a.abs().max(b.abs())
}

/// Says which cases the figures do not tell apart. Empty if the figures are no approximation, or all differ enough.
pub(crate) fn note(experiment: &Experiment, swept: &SweepResult) -> String {
    let Some(error) = swept.error() else { return String::new() };
    let mut out = format!(
        "figures are within {} of the full simulation's; metrics other than completion times, slowdown \
         and unfinished are absent, because no run of the whole network was simulated\n",
        percent(error)
    );
    let mut close = Vec::new();
    for (index, a) in swept.tables.iter().enumerate() {
        let others = swept.tables.iter().skip(index + 1);
        for b in others.filter(|b| b.configuration.point == a.configuration.point) {
            for one in too_close(experiment, a, b, error) {
                if !close.contains(&one) {
                    close.push(one);
                }
            }
        }
    }
    if let [first, rest @ ..] = &close[..] {
        let shown = rest.iter().take(NAMED - 1).fold(first.clone(), |all, one| all + "; " + one);
        let more = match close.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let _ = writeln!(
            out,
            "REFUSED: these differ by less than the error, so the cases are not compared: {shown}{more}"
        );
    }
    out
}

/// Returns the figures by which two rows are not told apart.
fn too_close(experiment: &Experiment, a: &Summaries, b: &Summaries, error: f64) -> Vec<String> {
    let mut close = Vec::new();
    for subject in &a.subjects {
        let Some(other) = b.subjects.iter().find(|other| other.name == subject.name) else {
            continue;
        };
        for stat in STATS {
            let of = |summaries: &crate::sweep_result::Subject| {
                let metric =
                    summaries.metric(Metric::Slowdown).or(summaries.metric(Metric::Completion));
                metric.and_then(|summary| stat.of(summary))
            };
            let Some((x, y)) = of(subject).zip(of(other)) else { continue };
            if !tells_apart(x, y, error) {
                let cases = [a, b].map(|row| experiment.case_name(&row.configuration));
                close.push(format!(
                    "{} of {} of {} and {}",
                    stat.name(),
                    subject.name,
                    cases[0],
                    cases[1]
                ));
            }
        }
    }
    close
}

/// Compares an approximation with the full simulation of the same runs. Returns the largest error of a percentile of
/// slowdown (or of completion time, if there is no slowdown), as a share of the full simulation's, and a table of all. `None`
/// if they have no percentile in common.
pub fn compare(
    experiment: &Experiment,
    approximated: &SweepResult,
    full: &SweepResult,
) -> Option<(f64, String)> {
    let mut grid = Grid::default();
    grid.head(["row", "subject", "metric"].map(str::to_owned), Align::Left);
    grid.head(["approximated", "full", "error %"].map(str::to_owned), Align::Right);
    let mut worst: Option<f64> = None;
    for row in &approximated.tables {
        let same = full.tables.iter().find(|other| other.index == row.index);
        for subject in &row.subjects {
            let other =
                same.and_then(|row| row.subjects.iter().find(|other| other.name == subject.name));
            let metric = [Metric::Slowdown, Metric::Completion]
                .into_iter()
                .find(|m| subject.metric(*m).is_some());
            let Some((other, metric)) = other.zip(metric) else { continue };
            for stat in STATS {
                let ours = subject.metric(metric).and_then(|summary| stat.of(summary));
                let theirs = other.metric(metric).and_then(|summary| stat.of(summary));
                let Some((ours, theirs)) = ours.zip(theirs).filter(|(_, theirs)| *theirs > 0.0)
                else {
                    continue;
                };
                let error = ours / theirs - 1.0;
                worst = Some(worst.map_or(error.abs(), |worst: f64| worst.max(error.abs())));
                grid.row(vec![
                    experiment.describe(&row.configuration),
                    subject.name.clone(),
                    format!("{} {}", stat.name(), metric.name()),
                    rounded(ours).to_string(),
                    rounded(theirs).to_string(),
                    format!("{:+.1}", 100.0 * error),
                ]);
            }
        }
    }
    let work = |swept: &SweepResult| {
        format!("{:.1} s, {:.1} s of CPU", swept.effort.wall_s, swept.effort.cpu_s)
    };
    let table = format!(
        "{}\n\napproximated in {}; in full in {}\n",
        grid.render(),
        work(approximated),
        work(full)
    );
    worst.map(|worst| (worst, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_closer_than_the_error_are_not_told_apart() {
        assert!(!tells_apart(10.0, 11.0, 0.2));
        assert!(tells_apart(10.0, 13.0, 0.2));
        assert!(tells_apart(13.0, 10.0, 0.2));
        assert_eq!(percent(0.417), "42 %");
    }
}

//! The error of approximated results, measured.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::published::Stat;
use crate::stats::rounded;
use crate::sweep_result::SweepResult;
use crate::table::{Align, Grid};

/// Statistics whose error is measured.
const STATS: [Stat; 2] = [Stat::P50, Stat::P99];

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

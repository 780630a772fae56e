//! What the error of approximated results does not let anybody conclude.

use std::fmt::Write as _;

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::published::Stat;
use crate::sweep_result::{Subject, Summaries, SweepResult, percent, tells_apart};

/// Statistics whose comparison may be refused.
const STATS: [Stat; 2] = [Stat::P50, Stat::P99];
/// Number of refused comparisons that a note names.
const NAMED: usize = 6;

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
            let of = |summaries: &Subject| {
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

//! Lines about completion times, whether they have one mode or two.

use crate::Error;
use crate::case::{Measured, all};
use crate::compare::{self, Line, Verdict};
use crate::reference::{Row, column};
use crate::stats::Share;

/// Names of the columns of a `runs_*` table, for the mean, least, median and largest completion of a
/// run, how many were slow, and how many there were.
pub(super) struct Columns {
    pub(super) mean: &'static str,
    pub(super) min: &'static str,
    pub(super) p50: &'static str,
    pub(super) max: &'static str,
    pub(super) slow: &'static str,
    pub(super) completed: &'static str,
}

/// Below this many pairs of runs in a mode, all runs of both sides in that mode are held against each
/// other, not pairs.
const PAIRS_MIN: usize = 5;

/// A statistic of the runs that belong to a mode by their number of slow completions.
fn mode_line(
    metric: &str,
    (theirs, ours): (&[f64], &[f64]),
    slow: &[(f64, f64)],
    belongs: fn(f64) -> bool,
) -> Option<Line> {
    let runs = || theirs.iter().copied().zip(ours.iter().copied()).zip(slow);
    let both = runs().filter(|(_, slow)| belongs(slow.0) && belongs(slow.1));
    let (a, b): (Vec<f64>, Vec<f64>) = both.map(|(values, _)| values).unzip();
    if a.len() >= PAIRS_MIN {
        return compare::pairs(metric, &a, &b, 0.0).map(|line| with_equals(line, &a, &b));
    }
    let theirs: Vec<f64> = runs().filter(|run| belongs(run.1.0)).map(|run| run.0.0).collect();
    let ours: Vec<f64> = runs().filter(|run| belongs(run.1.1)).map(|run| run.0.1).collect();
    let mut line = compare::values(metric, &theirs, &ours, 0.0)?;
    if line.half_width.is_none() {
        // One run on each side, and chance in both.
        line.verdict = Verdict::Undecided;
    }
    Some(line)
}

/// How many runs came out the same, to a part in a thousand.
fn with_equals(line: Line, theirs: &[f64], ours: &[f64]) -> Line {
    let equal = theirs.iter().zip(ours).filter(|(a, b)| (*a - *b).abs() <= 1e-3 * *a).count();
    line.with_note(format!("paired, {equal} of {} the same to 0.1 %", theirs.len()))
}

/// Holds run i of ours against run i of theirs.
///
/// With slow completions (> 190 ms: a tail loss probe or a timeout) on either side the modes are taken
/// apart: the share of slow ones, the mean of runs without any, the median of runs where it is a fast
/// one, and the slowest completion of runs that have a slow one. The tables do not tell the single
/// completions of a run; these statistics need none.
pub(super) fn lines(
    theirs: &[Row],
    columns: &Columns,
    ours: &[Measured],
) -> Result<Vec<Line>, Error> {
    let their = |name: &str| column(theirs, name);
    let (their_slow, our_slow) = (their(columns.slow)?, all(ours, "slow"));
    let (their_all, our_all) = (their(columns.completed)?, all(ours, "completed"));
    let mut lines = Vec::new();
    lines.extend(compare::pairs("completed", &their_all, &our_all, 1.0));
    let by_name = [
        ("fct_mean_ms", their(columns.mean)?, all(ours, "fct_mean")),
        ("fct_min_ms", their(columns.min)?, all(ours, "fct_min")),
        ("fct_p50_ms", their(columns.p50)?, all(ours, "fct_p50")),
        ("fct_max_ms", their(columns.max)?, all(ours, "fct_max")),
    ];
    if their_slow.iter().chain(&our_slow).all(|slow| *slow == 0.0) {
        for (name, theirs, ours) in &by_name {
            let line = compare::pairs(name, theirs, ours, 0.0);
            lines.extend(line.map(|line| with_equals(line, theirs, ours)));
        }
        return Ok(lines);
    }
    let share = |slow: &[f64], of: &[f64]| Share {
        runs: slow.iter().copied().zip(of.iter().copied()).collect(),
    };
    let (theirs, ours) = (share(&their_slow, &their_all), share(&our_slow, &our_all));
    lines.push(compare::shares("share_over_190ms", &theirs, &ours));
    let [mean, min, p50, max] = &by_name;
    lines.extend(compare::pairs(min.0, &min.1, &min.2, 0.0));
    let slow: Vec<(f64, f64)> = their_slow.into_iter().zip(our_slow).collect();
    let mut mode = |name: &str, of: &(&str, Vec<f64>, Vec<f64>), belongs: fn(f64) -> bool| {
        lines.extend(mode_line(name, (&of.1, &of.2), &slow, belongs));
    };
    mode("fct_mean_ms of runs without", mean, |slow| slow == 0.0);
    mode("fct_p50_ms of fast", p50, |slow| slow <= 4.0);
    mode("fct_max_ms of runs with", max, |slow| slow > 0.0);
    Ok(lines)
}

/// Counters of `runs_*` tables, run against run.
pub(super) fn counters(
    theirs: &[Row],
    ours: &[Measured],
    names: &[&str],
) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for name in names {
        lines.extend(compare::pairs(name, &column(theirs, name)?, &all(ours, name), 1.0));
    }
    Ok(lines)
}

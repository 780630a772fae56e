//! Lines about completion times, whether they have one mode or two.

use crate::Error;
use crate::case::{Measured, all};
use crate::compare::{self, Line, Verdict};
use crate::reference::{Row, column};
use crate::stats::Share;

/// Below this many pairs of runs in a mode, all runs of both sides in that mode are held against each
/// other, not pairs.
const PAIRS_MIN: usize = 5;

/// A column of theirs and the same values of ours.
type Both = (&'static str, Vec<f64>, Vec<f64>);

/// A statistic of the runs that belong to a mode by their number of slow completions.
fn mode_line(
    metric: &str,
    (_, theirs, ours): &Both,
    slow: &[(f64, f64)],
    belongs: fn(f64) -> bool,
) -> Option<Line> {
    let runs = || theirs.iter().zip(ours).zip(slow);
    let both = runs().filter(|(_, slow)| belongs(slow.0) && belongs(slow.1));
    let (a, b): (Vec<f64>, Vec<f64>) = both.map(|(values, _)| values).unzip();
    if a.len() >= PAIRS_MIN {
        return equals(metric, &a, &b);
    }
    let theirs: Vec<f64> = runs().filter(|run| belongs(run.1.0)).map(|run| *run.0.0).collect();
    let ours: Vec<f64> = runs().filter(|run| belongs(run.1.1)).map(|run| *run.0.1).collect();
    let mut line = compare::values(metric, &theirs, &ours, 0.0)?;
    if line.half_width.is_none() {
        // One run on each side, and chance in both.
        line.verdict = Verdict::Undecided;
    }
    Some(line)
}

/// Pairs, with a note of how many came out the same to a part in a thousand.
fn equals(metric: &str, theirs: &[f64], ours: &[f64]) -> Option<Line> {
    let line = compare::pairs(metric, theirs, ours, 0.0)?;
    let equal = theirs.iter().zip(ours).filter(|(a, b)| (*a - *b).abs() <= 1e-3 * *a).count();
    Some(line.with_note(format!("paired, {equal} of {} the same to 0.1 %", theirs.len())))
}

/// Holds run i of ours against run i of theirs.
///
/// With slow completions (> 190 ms: a tail loss probe or a timeout) on either side the modes are taken
/// apart: the share of slow ones, the mean of runs without any, the median of runs where it is a fast
/// one, and the slowest completion of runs that have a slow one. The tables do not tell the single
/// completions of a run; these statistics need none.
///
/// `prefix` is that of the table's columns.
pub(super) fn lines(theirs: &[Row], prefix: &str, ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let their = |name: &str| column(theirs, &format!("{prefix}{name}"));
    let (their_slow, our_slow) = (their("over_190ms")?, all(ours, "slow"));
    let (their_all, our_all) = (their("completed")?, all(ours, "completed"));
    let mut lines = Vec::new();
    lines.extend(compare::pairs("completed", &their_all, &our_all, 1.0));
    let by_name = |name| -> Result<Both, Error> { Ok((name, their(name)?, all(ours, name))) };
    let (mean, min) = (by_name("fct_mean_ms")?, by_name("fct_min_ms")?);
    let (p50, max) = (by_name("fct_p50_ms")?, by_name("fct_max_ms")?);
    if their_slow.iter().chain(&our_slow).all(|slow| *slow == 0.0) {
        let all = [mean, min, p50, max];
        lines.extend(all.iter().filter_map(|(name, theirs, ours)| equals(name, theirs, ours)));
        return Ok(lines);
    }
    let share = |slow: &[f64], of: Vec<f64>| Share { runs: slow.iter().copied().zip(of).collect() };
    let (theirs, ours) = (share(&their_slow, their_all), share(&our_slow, our_all));
    lines.push(compare::shares("share_over_190ms", &theirs, &ours));
    lines.extend(compare::pairs(min.0, &min.1, &min.2, 0.0));
    let slow: Vec<(f64, f64)> = their_slow.into_iter().zip(our_slow).collect();
    lines.extend(mode_line("fct_mean_ms of runs without", &mean, &slow, |slow| slow == 0.0));
    lines.extend(mode_line("fct_p50_ms of fast", &p50, &slow, |slow| slow <= 4.0));
    lines.extend(mode_line("fct_max_ms of runs with", &max, &slow, |slow| slow > 0.0));
    Ok(lines)
}

/// Counters of `runs_*` tables, run against run.
pub(super) fn counters(theirs: &[Row], ours: &[Measured]) -> Result<Vec<Line>, Error> {
    let line = |name| Ok(compare::pairs(name, &column(theirs, name)?, &all(ours, name), 1.0));
    ["rto", "tlp", "drops"].into_iter().filter_map(|name| line(name).transpose()).collect()
}

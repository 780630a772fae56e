//! Compares two results directories: each figure with its spread in both, and a verdict. `cases` compares cases instead: which is better.

mod cases;
mod figures;
mod read;
mod show;
mod words;

pub use cases::{Answer, Answered, Answers, answers};
pub use figures::Picked;
pub use read::Side;
pub use show::{json, render};
pub use words::{answers_json, render_answers};

use std::collections::HashMap;

use knee_file::Origin;
use knee_results::Metric;
use knee_scenario::error::Error;
use knee_scenario::stats::Spread;

use crate::difference::{
    INDECISIVE, Sample, Share, TOLERANCE, Verdict, difference_half_width, newcombe,
};
use read::{Figure, Row, RunMetric};

/// Number of keys that an error names.
const NAMED: usize = 8;

/// Options of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Differences below this share count as agreement, even if they are significant.
    pub within: f64,
    /// Also compare different experiments by equal names of cases and varied values, and rows whose runs were all
    /// limited by the host.
    pub force: bool,
    /// Also list figures that agree.
    pub show_all: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { within: TOLERANCE, force: false, show_all: false }
    }
}

/// One side of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Mean over runs, or share over all runs.
    pub mean: f64,
    /// Whether this is the least that it can be, because the ends of runs cut values off.
    pub is_bound: bool,
    /// The most that such a mean can be, if that is known.
    pub at_most: Option<f64>,
    /// Half its 95 % interval over runs. `None` if unknown or without spread.
    pub ci95: Option<f64>,
    pub runs: usize,
}

impl Mean {
    /// Returns the most that the mean can be.
    fn most(&self) -> f64 {
        if self.is_bound { self.at_most.unwrap_or(f64::INFINITY) } else { self.mean }
    }
}

/// A figure in both directories.
#[derive(Clone, Debug)]
pub struct Line {
    /// Case and varied values, as text.
    pub row: String,
    /// Traffic entry or link.
    pub subject: String,
    /// Metric, with its mode.
    pub metric: String,
    pub unit: String,
    /// Mean in the first directory.
    pub a: Mean,
    /// Mean in the second directory.
    pub b: Mean,
    /// Half the 95 % interval of the difference. `None` if there are too few runs.
    pub half_width: Option<f64>,
    /// Base of percentages, and of the tolerance.
    pub scale: f64,
    /// Verdict on the difference.
    pub verdict: Verdict,
    /// Reason for an unusual verdict.
    pub note: &'static str,
}

impl Line {
    /// Returns the second mean minus the first. Where values were cut off: the least that lies between the two, or between their
    /// lower bounds if these leave it open.
    pub fn difference(&self) -> f64 {
        let up = self.b.mean - self.a.most();
        let down = self.b.most() - self.a.mean;
        match () {
            () if up > 0.0 => up,
            () if down < 0.0 => down,
            () => self.b.mean - self.a.mean,
        }
    }

    /// Returns whether values that were cut off leave the difference open.
    pub fn is_open(&self) -> bool {
        self.verdict == Verdict::Undecided && self.note == CUT_OFF
    }

    /// Returns a difference as a share of the base. `None` if the first mean is zero: from zero nothing is a percentage.
    pub fn share(&self, difference: f64) -> Option<f64> {
        (self.a.mean != 0.0 && self.scale > 0.0).then(|| difference / self.scale)
    }

    /// Returns whether the difference is significant. `None` if there are too few runs, or if the difference is open.
    pub fn is_significant(&self) -> Option<bool> {
        match self.difference() == 0.0 {
            _ if self.is_open() => None,
            true => Some(false),
            false => self.half_width.map(|half| self.difference().abs() > half),
        }
    }

    /// Returns the sort key: differing lines first, then undecided ones, then the rest.
    fn badness(&self, within: f64) -> (u8, f64) {
        let half = self.half_width.unwrap_or(0.0);
        let allowed = (within * self.scale).max(half).max(f64::MIN_POSITIVE);
        let rank = match self.verdict {
            Verdict::Differs => 2,
            Verdict::Undecided => 1,
            Verdict::Ok => 0,
        };
        (rank, (self.difference().abs() / allowed).min(f64::MAX))
    }
}

/// Result of comparing two directories.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// First directory.
    pub a: Side,
    /// Second directory.
    pub b: Side,
    pub options: Options,
    /// Keys in which the experiments differ. Empty without [`Options::force`].
    pub differences: Vec<String>,
    /// Rows whose runs were all limited by the host, one sentence each. Empty without [`Options::force`].
    pub of_host: Vec<String>,
    /// Every common figure, the largest disagreement first.
    pub lines: Vec<Line>,
    /// Left-out rows and figures, one sentence each.
    pub left_out: Vec<String>,
}

impl Comparison {
    /// Returns the number of lines with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.lines.iter().filter(|line| line.verdict == verdict).count()
    }
}

/// Compares two directories.
///
/// # Errors
/// [`Error::Input`] if the experiments differ, if they have nothing in common, or if the host limited all common
/// runs.
pub fn compare(a: Side, b: Side, options: Options) -> Result<Comparison, Error> {
    let differences = a.differences(&b);
    let refused = |why: String| Err(Error::input(&b.dir, Origin::Nowhere, "", why));
    if !differences.is_empty() && !options.force {
        let more = match differences.len() {
            n if n > NAMED => format!(" and {} more", n - NAMED),
            _ => String::new(),
        };
        let named = differences[..differences.len().min(NAMED)].join(", ");
        return refused(format!(
            "is not the experiment of {}: {named}{more}: --force compares equal names",
            a.dir.display()
        ));
    }
    let (mut lines, mut left_out, mut of_host) = (Vec::new(), Vec::new(), Vec::new());
    let mut theirs: HashMap<&str, &Row> =
        b.rows.iter().map(|row| (row.label.as_str(), row)).collect();
    for row in &a.rows {
        let Some(other) = theirs.remove(row.label.as_str()) else {
            left_out.push((row.label.as_str(), format!("only in {}", a.dir.display())));
            continue;
        };
        for (side, row) in [(&a, row), (&b, other)] {
            let said = if options.force && row.is_of_host() { &mut of_host } else { &mut left_out };
            said.extend(limited(side, row, options.force).map(|why| (row.label.as_str(), why)));
        }
        lines.extend(compare_rows(row, other, options));
        let one_sided =
            [(&a, row, other), (&b, other, row)].map(|sides| one_sided(sides, options.force));
        left_out.extend(one_sided.into_iter().flatten().map(|why| (row.label.as_str(), why)));
    }
    let only_b = b.rows.iter().filter(|row| theirs.contains_key(row.label.as_str()));
    left_out.extend(only_b.map(|row| (row.label.as_str(), format!("only in {}", b.dir.display()))));
    let (mut left_out, of_host) = (by_reason(&left_out), by_reason(&of_host));
    if lines.is_empty() {
        let because = left_out.first().map_or(String::new(), |first| format!(" ({first})"));
        return refused(format!("has no figure in common with {}{because}", a.dir.display()));
    }
    for side in [&a, &b].into_iter().filter(|_| a.back_end != b.back_end) {
        let words = |apart: &String| format!("{}, not as in the simulator: {apart}", side.back_end);
        left_out.extend(side.apart.iter().map(words));
    }
    lines.sort_by(|x, y| {
        let (x, y) = (x.badness(options.within), y.badness(options.within));
        y.0.cmp(&x.0).then(y.1.total_cmp(&x.1))
    });
    Ok(Comparison { a, b, options, differences, of_host, lines, left_out })
}

/// Merges rows left out for the same reason into one sentence, which names the first of them.
fn by_reason(left_out: &[(&str, String)]) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    left_out.iter().for_each(|(_, why)| *count.entry(why).or_default() += 1);
    let first =
        left_out.iter().filter_map(|(label, why)| Some((label, why, count.remove(why.as_str())?)));
    let sentence = |(label, why, rows): (&&str, &String, usize)| match rows {
        1 => format!("{label}: {why}"),
        _ => format!("{label} and {} more: {why}", rows - 1),
    };
    first.map(sentence).collect()
}

/// Describes runs of a row that do not count, or that count only with `force`.
fn limited(side: &Side, row: &Row, force: bool) -> Option<String> {
    let of_all =
        format!("{} of {} runs in {} were host-limited", row.limited, row.runs, side.dir.display());
    match (row.limited, row.is_of_host()) {
        (0, _) => None,
        (_, false) => Some(format!("{of_all} and are left out")),
        (_, true) if force => {
            Some(format!("{of_all}: the comparison shows the host, not the algorithm"))
        }
        (_, true) => Some(format!(
            "{of_all} and are left out: run again with --attempts 5 or a smaller --scale, or \
             compare them with --force"
        )),
    }
}

/// Describes figures that only one directory has.
fn one_sided((side, row, other): (&Side, &Row, &Row), force: bool) -> Option<String> {
    let theirs = other.compared(force);
    // Rows without valid runs have their own message.
    if theirs.is_empty() {
        return None;
    }
    let theirs = by_name(theirs);
    let alone = row.compared(force).iter().filter(|figure| !theirs.contains_key(&figure.name()));
    let names: Vec<_> = alone
        .filter(|figure| is_compared(figure))
        .map(|figure| format!("{} of {}", figure.metric, figure.subject))
        .collect();
    (!names.is_empty()).then(|| format!("only in {}: {}", side.dir.display(), names.join(", ")))
}

/// Returns whether to compare a figure. The share of drops exists only in runs with drops, so it is skipped. Other
/// figures show drops better.
fn is_compared(figure: &Figure) -> bool {
    figure.metric != Metric::DropShare.name()
}

fn by_name(figures: &[Figure]) -> HashMap<(&str, &str), &Figure> {
    figures.iter().map(|figure| (figure.name(), figure)).collect()
}

fn compare_rows(a: &Row, b: &Row, options: Options) -> Vec<Line> {
    let (ours, theirs) = (a.compared(options.force), b.compared(options.force));
    // Bounds alone may be equal, as the age of whatever the run ended before. Runs that are equal in all are the same.
    let is_same = ours == theirs;
    let theirs = by_name(theirs);
    let compared = ours.iter().filter(|figure| is_compared(figure));
    let both = compared.filter_map(|figure| Some((figure, *theirs.get(&figure.name())?)));
    both.flat_map(|(x, y)| compare_figures(x, y, is_same, options.within))
        .map(|line| Line { row: a.label.clone(), ..line })
        .collect()
}

/// Compares a figure. A time with waits for a retransmission timer gives one line for their share and one per mode,
/// because a mean over both modes would mostly show the share. `is_same`: all figures of both rows are equal, run by run.
fn compare_figures(a: &Figure, b: &Figure, is_same: bool, within: f64) -> Vec<Line> {
    let is_late = |run: &RunMetric| run.late.is_some_and(|(late, _)| late > 0.0);
    let is_cut_off = |figure: &Figure| figure.runs.iter().any(|run| run.cut_off > 0.0);
    if is_cut_off(a) || is_cut_off(b) {
        return bounded(a, b, is_same, within).into_iter().collect();
    }
    if !a.runs.iter().chain(&b.runs).any(is_late) {
        let mean = |figure: &Figure| figure.runs.iter().map(|run| run.mean).collect::<Vec<_>>();
        return means(a, "", &mean(a), &mean(b), within).into_iter().collect();
    }
    let prompt =
        |figure: &Figure| figure.runs.iter().filter_map(RunMetric::prompt_mean).collect::<Vec<_>>();
    let late =
        |figure: &Figure| figure.runs.iter().filter_map(|run| run.late?.1).collect::<Vec<_>>();
    let share = late_share(a, b, within);
    let prompt = means(a, " of the prompt", &prompt(a), &prompt(b), within);
    let late = means(a, " of the late", &late(a), &late(b), within);
    [Some(share), prompt, late].into_iter().flatten().collect()
}

/// Compares a figure of which values were cut off. The true mean of such a side is between bounds, so only a difference that
/// these cannot undo is one.
fn bounded(a: &Figure, b: &Figure, is_same: bool, within: f64) -> Option<Line> {
    let least = |figure: &Figure| figure.runs.iter().map(|run| run.mean).collect::<Vec<_>>();
    let most = |figure: &Figure| {
        let each = figure.runs.iter().map(|run| match run.cut_off > 0.0 {
            true => run.at_most,
            false => Some(run.mean),
        });
        each.collect::<Option<Vec<_>>>()
    };
    let side = |figure: &Figure, of_least: Mean| Mean {
        is_bound: figure.runs.iter().any(|run| run.cut_off > 0.0),
        at_most: most(figure).and_then(|most| Some(Sample::of(&most)?.mean)),
        ..of_least
    };
    let of_least = means(a, "", &least(a), &least(b), within)?;
    let (of_a, of_b) = (side(a, of_least.a), side(b, of_least.b));
    // The second is above the first, or below.
    let above = most(a).and_then(|a_most| means(a, "", &a_most, &least(b), within));
    let below = most(b).and_then(|b_most| means(a, "", &least(a), &b_most, within));
    let apart = [(above, 1.0), (below, -1.0)].into_iter().filter_map(|(line, sign)| {
        let line = line?;
        (line.verdict == Verdict::Differs && line.difference() * sign > 0.0).then_some(line)
    });
    let (verdict, half_width, note) = match apart.map(|line| line.half_width).next() {
        _ if is_same => (Verdict::Ok, of_least.half_width, SAME),
        Some(half_width) => (Verdict::Differs, half_width, CUT_OFF),
        None => (Verdict::Undecided, None, CUT_OFF),
    };
    Some(Line { a: of_a, b: of_b, verdict, half_width, note, ..of_least })
}

impl RunMetric {
    /// Returns the mean of values that waited for no timer. `None` without such values.
    fn prompt_mean(&self) -> Option<f64> {
        let (late, late_mean) = self.late?;
        let prompt = self.values - late;
        (prompt > 0.0).then(|| (self.mean * self.values - late_mean.unwrap_or(0.0) * late) / prompt)
    }
}

/// Says that both sides have the same figures, run by run.
const SAME: &str = "the same run by run";
/// Says that the ends of runs cut values off.
const CUT_OFF: &str = "values were cut off";

/// Returns the minimum base of the tolerance, so that tiny figures need not agree to 5 %: what the metric's description
/// says. A percentile, as `completion p99`, is of the metric before it.
fn least_scale(figure: &Figure) -> f64 {
    let name = figure.metric.split(' ').next().unwrap_or_default();
    match (Metric::by_name(name), figure.unit.as_str()) {
        (Some(metric), _) => metric.matters_from(),
        // Of another version.
        (None, "s" | "bps") => 0.0,
        (None, _) => 1.0,
    }
}

/// Compares means over runs. `None` if a side has none.
fn means(figure: &Figure, of: &str, a: &[f64], b: &[f64], within: f64) -> Option<Line> {
    let (x, y) = (Sample::of(a)?, Sample::of(b)?);
    let of_values = figure.error * (x.mean.abs() + y.mean.abs());
    let half_width = difference_half_width(x, y).map(|half| half + of_values);
    let scale = x.mean.abs().max(least_scale(figure));
    let (verdict, note) = match half_width {
        _ if a == b => (Verdict::Ok, SAME),
        None => (Verdict::Undecided, "too few runs"),
        _ => (Verdict::of(y.mean - x.mean, half_width, scale, within), ""),
    };
    let note = match (verdict, half_width) {
        (Verdict::Undecided, Some(half)) if half > INDECISIVE * scale => "spreads too much",
        _ if note.is_empty() && figure.error > 0.0 => "each within 1 % (sketch)",
        _ => note,
    };
    let mean = |values: &[f64], sample: Sample| Mean {
        mean: sample.mean,
        is_bound: false,
        at_most: None,
        ci95: Spread::of(values).ci95,
        runs: sample.n,
    };
    Some(Line {
        row: String::new(),
        subject: figure.subject.clone(),
        metric: format!("{}{of}", figure.metric),
        unit: figure.unit.clone(),
        a: mean(a, x),
        b: mean(b, y),
        half_width,
        scale,
        verdict,
        note,
    })
}

/// Compares the shares of times that waited for a retransmission timer.
fn late_share(a: &Figure, b: &Figure, within: f64) -> Line {
    let share = |figure: &Figure| Share {
        runs: figure.runs.iter().filter_map(|run| Some((run.late?.0, run.values))).collect(),
    };
    let (x, y) = (share(a), share(b));
    let (low, high) = newcombe(&x, &y);
    let (verdict, note) = match x == y {
        true => (Verdict::Ok, SAME),
        false => (Verdict::of_shares(y.value() - x.value(), (low, high), within), ""),
    };
    let mean = |share: &Share| Mean {
        mean: share.value(),
        is_bound: false,
        at_most: None,
        ci95: None,
        runs: share.runs.len(),
    };
    Line {
        row: String::new(),
        subject: a.subject.clone(),
        metric: format!("{}: share of the late", a.metric),
        unit: String::new(),
        a: mean(&x),
        b: mean(&y),
        half_width: Some((high - low) / 2.0),
        scale: 1.0,
        verdict,
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(metric: &str, unit: &str, runs: &[(f64, f64, f64, Option<f64>)]) -> Figure {
        let of_run = |&(values, mean, late, late_mean): &(f64, f64, f64, Option<f64>)| RunMetric {
            values,
            mean,
            at_most: None,
            cut_off: 0.0,
            late: Some((late, late_mean)),
        };
        let (subject, metric, unit) = ("short".into(), metric.into(), unit.into());
        Figure { subject, metric, unit, error: 0.0, runs: runs.iter().map(of_run).collect() }
    }

    fn plain(metric: &str, unit: &str, means: &[f64]) -> Figure {
        let runs: Vec<_> = means.iter().map(|mean| (1.0, *mean, 0.0, None)).collect();
        figure(metric, unit, &runs)
    }

    fn verdict(a: &[f64], b: &[f64], within: f64) -> Verdict {
        let lines = compare_figures(
            &plain("goodput", "bps", a),
            &plain("goodput", "bps", b),
            false,
            within,
        );
        lines[0].verdict
    }

    #[test]
    fn chance_and_tolerance_excuse_differences() {
        let near = |mean: f64| [mean - 1.0, mean, mean + 1.0, mean, mean];
        assert_eq!(verdict(&near(100.0), &near(104.0), 0.05), Verdict::Ok);
        assert_eq!(verdict(&near(100.0), &near(106.0), 0.05), Verdict::Differs);
        assert_eq!(verdict(&near(100.0), &near(106.0), 0.1), Verdict::Ok);
        let wide = |mean: f64| [0.5 * mean, mean, 1.5 * mean];
        assert_eq!(verdict(&wide(100.0), &wide(110.0), 0.05), Verdict::Undecided);
        assert_eq!(verdict(&wide(100.0), &wide(100.0), 0.05), Verdict::Ok, "{SAME}");
        assert_eq!(verdict(&[100.0], &[101.0], 0.05), Verdict::Undecided, "too few runs");
        assert_eq!(verdict(&[100.0; 3], &[107.0; 3], 0.05), Verdict::Differs, "nothing random");
    }

    #[test]
    fn errors_of_sketches_widen_the_interval() {
        let near = |mean: f64| [mean - 1.0, mean, mean + 1.0];
        let line = |error: f64| {
            let (a, b) = (plain("completion p99", "s", &near(100.0)), near(106.0));
            let a = Figure { error, ..a };
            compare_figures(&a, &plain("completion p99", "s", &b), false, 0.05).remove(0)
        };
        let (exact, sketched) = (line(0.0), line(0.01));
        // 1 % of 100 and of 106.
        let wider = sketched.half_width.unwrap() - exact.half_width.unwrap();
        assert!((wider - 2.06).abs() < 1e-9, "{wider}");
        assert_eq!((exact.note, sketched.note), ("", "each within 1 % (sketch)"));
        assert_eq!((exact.is_significant(), sketched.verdict), (Some(true), Verdict::Differs));
        let wide = |error: f64| {
            let a = Figure { error, ..plain("completion p99", "s", &[100.0; 3]) };
            compare_figures(&a, &plain("completion p99", "s", &[101.5; 3]), false, 0.001).remove(0)
        };
        assert_eq!((wide(0.0).verdict, wide(0.01).verdict), (Verdict::Differs, Verdict::Ok));
    }

    #[test]
    fn counts_are_held_against_one_per_run() {
        let of = |values: &[f64]| plain("timeouts", "", values);
        let lines = compare_figures(&of(&[0.0; 5]), &of(&[0.0; 7]), false, 0.05);
        assert_eq!((lines[0].verdict, lines[0].difference()), (Verdict::Ok, 0.0));
        let lines = compare_figures(&of(&[0.0; 5]), &of(&[1.0; 5]), false, 0.05);
        assert_eq!(lines[0].verdict, Verdict::Differs);
    }

    #[test]
    fn a_part_in_the_window_is_held_against_what_the_whole_is() {
        let lines = |metric: &str, a: f64, b: f64| {
            let near = |x: f64| [x * 0.999, x, x * 1.001, x, x];
            let line = compare_figures(
                &plain(metric, "", &near(a)),
                &plain(metric, "", &near(b)),
                false,
                TOLERANCE,
            );
            line[0].verdict
        };
        // 53 % more, of a link that is hardly used.
        for metric in ["utilisation", "window_utilisation"] {
            assert_eq!(lines(metric, 0.03, 0.046), Verdict::Differs, "{metric}");
            assert_eq!(lines(metric, 0.03, 0.031), Verdict::Ok, "{metric}");
        }
        // Half a percentage point more or less, as a tenth has 5 %, and no more.
        for metric in ["ce_share", "window_ce_share", "timeout_share", "paused_share"] {
            assert_eq!(lines(metric, 0.03, 0.034), Verdict::Ok, "{metric}");
            assert_eq!(lines(metric, 0.03, 0.046), Verdict::Differs, "{metric}");
        }
        let of = |metric: &str, unit: &str| least_scale(&plain(metric, unit, &[1.0]));
        assert_eq!((of("completion p99", "s"), of("queue p99", "pkts")), (0.0, 1.0));
    }

    #[test]
    fn equal_runs_are_not_called_runs_without_spread() {
        let same = plain("goodput", "bps", &[50.0, 100.0, 150.0]);
        let line = compare_figures(&same, &same, true, 0.05).remove(0);
        assert_eq!((line.verdict, line.note), (Verdict::Ok, "the same run by run"));
        assert!(line.a.ci95.is_some(), "these runs have a spread");
    }

    #[test]
    fn from_zero_nothing_is_a_share() {
        let line = |a: &[f64], b: &[f64]| {
            compare_figures(&plain("timeouts", "", a), &plain("timeouts", "", b), false, 0.05)
                .remove(0)
        };
        let from_zero = line(&[0.0; 5], &[12.0; 5]);
        assert_eq!((from_zero.verdict, from_zero.share(12.0)), (Verdict::Differs, None));
        let to_zero = line(&[12.0; 5], &[0.0; 5]);
        assert_eq!(
            (to_zero.verdict, to_zero.share(to_zero.difference())),
            (Verdict::Differs, Some(-1.0))
        );
    }

    #[test]
    fn those_that_waited_for_a_timer_are_a_mode_of_their_own() {
        // Ten transfers: nine take 10 ms. One takes 210 ms, in every run on one side and in every second run on the
        // other.
        let with = (10.0, 0.03, 1.0, Some(0.21));
        let without = (10.0, 0.01, 0.0, None);
        let a = figure("completion", "s", &[with; 10]);
        let b: Vec<_> = (0..10).map(|i| if i % 2 == 0 { with } else { without }).collect();
        let lines = compare_figures(&a, &figure("completion", "s", &b), false, 0.05);
        let names: Vec<_> = lines.iter().map(|line| line.metric.as_str()).collect();
        assert_eq!(
            names,
            ["completion: share of the late", "completion of the prompt", "completion of the late"]
        );
        assert!((lines[0].a.mean - 0.1).abs() < 1e-12 && (lines[0].b.mean - 0.05).abs() < 1e-12);
        for line in &lines[1..] {
            assert_eq!(line.verdict, Verdict::Ok, "{line:?}");
        }
        assert!((lines[1].a.mean - 0.01).abs() < 1e-12 && lines[2].b.runs == 5);
    }

    #[test]
    fn bounds_of_what_was_cut_off_agree_only_where_all_is_the_same() {
        let of = |runs: &[(f64, Option<f64>, f64)]| {
            let of_run = |&(mean, at_most, cut_off): &(f64, Option<f64>, f64)| RunMetric {
                values: 4.0 - cut_off,
                mean,
                at_most,
                cut_off,
                late: None,
            };
            Figure { runs: runs.iter().map(of_run).collect(), ..plain("completion p50", "s", &[]) }
        };
        let line = |a: &Figure, b: &Figure, is_same| compare_figures(a, b, is_same, 0.05).remove(0);
        // Nothing finishes: both have the run's duration as their least.
        let none = of(&[(0.02, None, 4.0); 5]);
        let open = line(&none, &none, false);
        assert_eq!((open.verdict, open.note), (Verdict::Undecided, "values were cut off"));
        assert!(open.is_open() && open.is_significant().is_none());
        let same = line(&none, &none, true);
        assert_eq!((same.verdict, same.note, same.difference()), (Verdict::Ok, SAME, 0.0));
        // From 10 to 11 ms, and at least 20 ms: 9 ms are between them.
        let known = of(&[(0.010, Some(0.011), 1.0); 5]);
        let far = line(&known, &none, false);
        assert_eq!((far.verdict, far.is_significant()), (Verdict::Differs, Some(true)));
        assert!((far.difference() - 0.009).abs() < 1e-12 && !far.is_open());
        assert_eq!((far.a.at_most, far.b.at_most), (Some(0.011), None));
        let back = line(&none, &known, false);
        assert!(back.verdict == Verdict::Differs && (back.difference() + 0.009).abs() < 1e-12);
        // Bounds that overlap.
        let wide = of(&[(0.009, Some(0.012), 1.0); 5]);
        assert!(line(&known, &wide, false).is_open());
    }
}

//! One metric of one case: theirs, ours, and the verdict by the rule of the design.
//!
//! The rule: the difference of the means lies within 5 % of theirs, or within its own 95 % interval. If
//! that interval is wider than 15 % of theirs (half its width), the runs cannot tell: undecided. Shares
//! are held against the same limits in percentage points.

use crate::stats::{self, Sample, Share, TOLERANCE};

pub use knee_evidence::difference::Verdict;

/// One line of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// Metric with its unit.
    pub metric: String,
    /// Mean of the reference, or its share.
    pub theirs: f64,
    /// Over how many reference runs.
    pub theirs_runs: usize,
    pub ours: f64,
    /// Over how many runs of ours.
    pub ours_runs: usize,
    /// Half the width of the 95 % interval of the difference; `None`: deterministic.
    pub half_width: Option<f64>,
    /// Reference value of the percentages.
    pub scale: f64,
    /// Verdict by the rule of [`crate::report`].
    pub verdict: Verdict,
    /// How it was compared, if not in the usual way.
    pub note: String,
    /// Cause of a difference that is known.
    pub cause: Option<String>,
}

impl Line {
    /// Ours minus theirs.
    pub fn difference(&self) -> f64 {
        self.ours - self.theirs
    }

    /// Adds a note.
    pub fn with_note(mut self, note: impl Into<String>) -> Line {
        self.note = note.into();
        self
    }
}

fn line(
    metric: &str,
    theirs: Sample,
    ours: Sample,
    half_width: Option<f64>,
    at_least: f64,
) -> Line {
    let scale = theirs.mean.abs().max(at_least);
    Line {
        metric: metric.to_owned(),
        theirs: theirs.mean,
        theirs_runs: theirs.n,
        ours: ours.mean,
        ours_runs: ours.n,
        half_width,
        scale,
        verdict: Verdict::of(ours.mean - theirs.mean, half_width, scale, TOLERANCE),
        note: String::new(),
        cause: None,
    }
}

/// Two means. Percentages are of theirs, or of `at_least` if that is more: one event per run for
/// counters, which would else ask for 5 % of next to nothing.
pub fn means(metric: &str, theirs: Sample, ours: Sample, at_least: f64) -> Line {
    line(metric, theirs, ours, stats::difference_half_width(theirs, ours), at_least)
}

/// Run-level values of both sides; `None` if a side has none.
pub fn values(metric: &str, theirs: &[f64], ours: &[f64], at_least: f64) -> Option<Line> {
    Some(means(metric, Sample::of(theirs)?, Sample::of(ours)?, at_least))
}

/// Run-level values where run i of ours had the inputs of run i of theirs: the interval is that of the
/// paired differences. `None` without pairs.
pub fn pairs(metric: &str, theirs: &[f64], ours: &[f64], at_least: f64) -> Option<Line> {
    let differences: Vec<f64> = theirs.iter().zip(ours).map(|(a, b)| b - a).collect();
    let half_width = stats::paired_half_width(&differences);
    let line = line(metric, Sample::of(theirs)?, Sample::of(ours)?, half_width, at_least);
    Some(line.with_note("paired"))
}

/// A deterministic value, within 5 % or within `unit`, the smallest step that it can take.
pub fn exact(metric: &str, theirs: f64, ours: f64, unit: f64) -> Line {
    let mut line = line(metric, Sample::single(theirs), Sample::single(ours), None, 0.0);
    if (ours - theirs).abs() <= unit {
        line.verdict = Verdict::Ok;
    }
    line
}

/// An RMS difference relative to theirs: at most 5 %.
pub fn rms(metric: &str, rms: f64) -> Line {
    let mut line = line(metric, Sample::single(0.0), Sample::single(rms), None, 1.0);
    line.verdict = if rms <= TOLERANCE { Verdict::Ok } else { Verdict::Differs };
    line
}

/// Two shares: their difference is below 5 percentage points, or its interval holds 0.
pub fn shares(metric: &str, theirs: &Share, ours: &Share) -> Line {
    let interval = stats::newcombe(theirs, ours);
    let of = |share: &Share| Sample { n: share.runs.len(), mean: share.value(), sd: 0.0 };
    let mut line = line(metric, of(theirs), of(ours), Some((interval.1 - interval.0) / 2.0), 1.0);
    line.verdict = Verdict::of_shares(line.difference(), interval, TOLERANCE);
    line.with_note("share")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_means() {
        let sample = |mean, sd| Sample { n: 20, mean, sd };
        let judged = |theirs, ours| means("x", theirs, ours, 0.0).verdict;
        // Half-width for sd 1 and 1 at n = 20: 2.024 * sqrt(0.1) = 0.64.
        assert_eq!(judged(sample(100.0, 1.0), sample(104.9, 1.0)), Verdict::Ok);
        assert_eq!(judged(sample(100.0, 1.0), sample(105.1, 1.0)), Verdict::Differs);
        // sd 20: half-width 12.8: within it is fine, beyond it is not.
        assert_eq!(judged(sample(100.0, 20.0), sample(112.0, 20.0)), Verdict::Ok);
        assert_eq!(judged(sample(100.0, 20.0), sample(114.0, 20.0)), Verdict::Differs);
        // sd 25: half-width 16: too wide to tell.
        assert_eq!(judged(sample(100.0, 25.0), sample(101.0, 25.0)), Verdict::Undecided);
    }

    #[test]
    fn counters_are_held_against_one_event_per_run() {
        let none = [0.0; 20];
        let mut one = none;
        one[3] = 1.0;
        assert_eq!(values("rto", &none, &one, 1.0).unwrap().verdict, Verdict::Ok);
        assert_eq!(values("rto", &none, &[1.0; 20], 1.0).unwrap().verdict, Verdict::Differs);
        assert!(values("rto", &[], &none, 1.0).is_none());
    }

    #[test]
    fn pairs_see_what_means_hide() {
        let theirs: Vec<f64> = (0..20).map(f64::from).collect();
        let ours: Vec<f64> = theirs.iter().map(|x| x + 1.0).collect();
        assert_eq!(values("x", &theirs, &ours, 0.0).unwrap().verdict, Verdict::Undecided);
        assert_eq!(pairs("x", &theirs, &ours, 0.0).unwrap().verdict, Verdict::Differs);
    }

    #[test]
    fn shares_have_their_own_limits() {
        let share = |hits: f64| Share { runs: vec![(hits / 20.0, 10.0); 20] };
        assert_eq!(shares("slow", &share(100.0), &share(104.0)).verdict, Verdict::Ok);
        assert_eq!(shares("slow", &share(100.0), &share(140.0)).verdict, Verdict::Differs);
        let few = Share { runs: vec![(5.0, 10.0)] };
        assert_eq!(shares("slow", &few, &few).verdict, Verdict::Undecided);
    }

    #[test]
    fn a_whole_number_is_known_to_one_unit() {
        assert_eq!(exact("queue_p5", 16.0, 17.0, 1.0).verdict, Verdict::Ok);
        assert_eq!(exact("queue_p5", 16.0, 18.0, 1.0).verdict, Verdict::Differs);
        assert_eq!(rms("cwnd", 0.06).verdict, Verdict::Differs);
    }
}

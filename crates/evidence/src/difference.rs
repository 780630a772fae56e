//! Decides whether two sets of runs differ, from intervals of the difference of means and of shares.
//!
//! The rule: the means agree if their difference is within a tolerance, a share of the first mean, or within its own
//! 95 % interval. If half of that interval exceeds 15 % of the first mean, the runs cannot decide.

use knee_scenario::stats::{Z_95, student_t_95};

/// Default tolerance, as a share. Two correct implementations that draw different random numbers differ by some
/// percent. No conclusion from such figures depends on less.
pub const TOLERANCE: f64 = 0.05;
/// Largest half-width of an interval that decides, as a share.
pub const INDECISIVE: f64 = 0.15;

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The values agree.
    Ok,
    /// The values differ.
    Differs,
    /// The interval is too wide to tell.
    Undecided,
}

impl Verdict {
    /// Returns the verdict on a difference of means. `scale` is the base of shares. `half_width` is half the 95 %
    /// interval of the difference, if known.
    pub fn of(difference: f64, half_width: Option<f64>, scale: f64, tolerance: f64) -> Verdict {
        let half = half_width.unwrap_or(0.0);
        // Equal within the rounding of the tables (six digits).
        let rounding = 2e-6 * scale;
        if difference.abs() > (tolerance * scale).max(half) + rounding {
            Verdict::Differs
        } else if half > INDECISIVE * scale {
            Verdict::Undecided
        } else {
            Verdict::Ok
        }
    }

    /// Returns the verdict on a difference of shares, from its 95 % interval. The shares agree below the tolerance in
    /// percentage points, or if the interval holds 0.
    pub fn of_shares(difference: f64, (low, high): (f64, f64), tolerance: f64) -> Verdict {
        let is_fine = difference.abs() < tolerance || (low <= 0.0 && high >= 0.0);
        match (is_fine, (high - low) / 2.0 > INDECISIVE) {
            (false, _) => Verdict::Differs,
            (true, true) => Verdict::Undecided,
            (true, false) => Verdict::Ok,
        }
    }
}

/// A metric over runs: their number, their mean, and their standard deviation (n - 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Number of runs.
    pub n: usize,
    /// Mean over runs.
    pub mean: f64,
    /// Standard deviation over runs. It is 0 for a single run, whose spread is unknown.
    pub sd: f64,
}

impl Sample {
    /// Makes a sample of one value per run. `None` without values.
    pub fn of(values: &[f64]) -> Option<Sample> {
        let mean = mean(values)?;
        Some(Sample { n: values.len(), mean, sd: sd(values).unwrap_or(0.0) })
    }

    /// Makes a sample with only a mean of `n` runs. It takes the spread of `other`, but at least the square root of
    /// the number of events. Thus zero events do not mean certainty.
    pub fn with_spread_of(n: usize, mean: f64, other: Sample) -> Sample {
        Sample { n, mean, sd: other.sd.max(mean.abs().sqrt()) }
    }

    /// Makes a sample of a single value.
    pub fn single(value: f64) -> Sample {
        Sample { n: 1, mean: value, sd: 0.0 }
    }
}

/// Returns the arithmetic mean. `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the standard deviation (n - 1). `None` below two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    let m = mean(values)?;
    let squares: f64 = values.iter().map(|x| (x - m) * (x - m)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Below this number of reference runs, their spread is too uncertain for Welch's interval.
const FEW: usize = 5;

/// Returns half the 95 % interval of the difference of two means.
///
/// This is Welch's interval if both have at least five runs. Runs that are all the same, as of an event that did not happen in them, do not show that
/// it never happens: they take the spread of the other side. With fewer runs, their own spread is too uncertain,
/// so both sides are assumed to have the same one (Student's interval). With a single reference run, this is the
/// prediction interval of our spread. `None` if neither side has a spread, because both are deterministic.
pub fn difference_half_width(theirs: Sample, ours: Sample) -> Option<f64> {
    let (n, m) = (theirs.n as f64, ours.n as f64);
    if theirs.n + ours.n <= 2 {
        return None;
    }
    if theirs.n >= FEW && ours.n >= FEW {
        let spread = |side: Sample, other: Sample| if side.sd > 0.0 { side.sd } else { other.sd };
        let (a, b) = (spread(theirs, ours).powi(2) / n, spread(ours, theirs).powi(2) / m);
        if a + b == 0.0 {
            return Some(0.0);
        }
        let degrees = (a + b).powi(2) / (a * a / (n - 1.0) + b * b / (m - 1.0));
        return Some(student_t_95(degrees) * (a + b).sqrt());
    }
    let degrees = n + m - 2.0;
    let squares = theirs.sd.powi(2) * (n - 1.0) + ours.sd.powi(2) * (m - 1.0);
    let pooled = (squares / degrees).sqrt();
    Some(student_t_95(degrees) * pooled * (1.0 / n + 1.0 / m).sqrt())
}

/// Returns half the 95 % interval of the mean of paired differences. `None` below two pairs.
pub fn paired_half_width(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    Some(student_t_95(n - 1.0) * sd(differences)? / n.sqrt())
}

/// Hits and trials of several runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Hits and trials per run.
    pub runs: Vec<(f64, f64)>,
}

impl Share {
    /// Returns the hits of all runs.
    pub fn hits(&self) -> f64 {
        self.runs.iter().map(|run| run.0).sum()
    }

    /// Returns the trials of all runs.
    pub fn trials(&self) -> f64 {
        self.runs.iter().map(|run| run.1).sum()
    }

    /// Returns the hits per trial. 0 without trials.
    pub fn value(&self) -> f64 {
        if self.trials() > 0.0 { self.hits() / self.trials() } else { 0.0 }
    }

    /// Returns the design effect: the variance of the runs' shares relative to that of independent trials. It is at
    /// least 1 and at most the trials of a run.
    pub fn design_effect(&self) -> f64 {
        let p = self.value();
        let shares: Vec<f64> =
            self.runs.iter().filter(|run| run.1 > 0.0).map(|run| run.0 / run.1).collect();
        let Some(spread) = sd(&shares) else { return 1.0 };
        let per_run = self.trials() / shares.len() as f64;
        let independent = p * (1.0 - p) / per_run;
        if independent <= 0.0 {
            return 1.0;
        }
        (spread * spread / independent).clamp(1.0, per_run.max(1.0))
    }
}

/// Returns Wilson's 95 % interval of a share. `hits` and `trials` may be effective numbers, which are not whole.
pub fn wilson(hits: f64, trials: f64) -> (f64, f64) {
    if trials <= 0.0 {
        return (0.0, 1.0);
    }
    let (p, z2) = (hits / trials, Z_95 * Z_95);
    let centre = (p + z2 / (2.0 * trials)) / (1.0 + z2 / trials);
    let spread = p * (1.0 - p) / trials + z2 / (4.0 * trials * trials);
    let half = Z_95 * spread.sqrt() / (1.0 + z2 / trials);
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

/// Returns Newcombe's 95 % interval of the difference `ours - theirs` of two shares (method 10, from Wilson's
/// intervals). The trials of each are divided by its design effect.
pub fn newcombe(theirs: &Share, ours: &Share) -> (f64, f64) {
    let effective = |share: &Share| {
        let effect = share.design_effect();
        (share.value(), wilson(share.hits() / effect, share.trials() / effect))
    };
    let (p, (p_low, p_high)) = effective(theirs);
    let (q, (q_low, q_high)) = effective(ours);
    let d = q - p;
    let below = ((q - q_low).powi(2) + (p_high - p).powi(2)).sqrt();
    let above = ((q_high - q).powi(2) + (p - p_low).powi(2)).sqrt();
    (d - below, d + above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() < within, "{value}, not {expected}");
    }

    #[test]
    fn welch_by_hand() {
        // n = 10, mean 20, sd 2 and n = 20, mean 22, sd 3:
        // a = 0.4, b = 0.45, standard error sqrt(0.85) = 0.92195,
        // degrees 0.7225 / (0.16/9 + 0.2025/19) = 0.7225 / 0.0284357 = 25.408, t = 2.0582.
        let theirs = Sample { n: 10, mean: 20.0, sd: 2.0 };
        let ours = Sample { n: 20, mean: 22.0, sd: 3.0 };
        near(difference_half_width(theirs, ours).unwrap(), 1.8975, 2e-3);
    }

    #[test]
    fn few_reference_runs_borrow_our_spread() {
        // n = 2, sd 1 and n = 20, sd 3: pooled variance (1 + 9 * 19) / 20 = 8.6, sd 2.9326,
        // t(20) = 2.086, sqrt(1/2 + 1/20) = 0.74162: 4.5369.
        let theirs = Sample { n: 2, mean: 0.0, sd: 1.0 };
        let ours = Sample { n: 20, mean: 0.0, sd: 3.0 };
        near(difference_half_width(theirs, ours).unwrap(), 4.5369, 1e-3);
        // A single run: t(19) = 2.093, sd 3, sqrt(1 + 1/20) = 1.02470: 6.4341.
        near(difference_half_width(Sample::single(0.0), ours).unwrap(), 6.4341, 1e-3);
        assert_eq!(difference_half_width(Sample::single(0.0), Sample::single(1.0)), None);
    }

    #[test]
    fn an_event_that_no_run_had_is_not_known_never_to_happen() {
        // None in 8 runs beside 0.4 (sd 0.84) in 32: both have 0.84, standard error 0.84 * sqrt(1/8 + 1/32) = 0.33204.
        // a = 0.0882, b = 0.02205, degrees 0.11025^2 / (0.0882^2 / 7 + 0.02205^2 / 31) = 10.78, t = 2.2066.
        let none = Sample { n: 8, mean: 0.0, sd: 0.0 };
        let some = Sample { n: 32, mean: 0.4, sd: 0.84 };
        near(difference_half_width(none, some).unwrap(), 0.7327, 2e-3);
        let all = Sample { n: 32, mean: 1.0, sd: 0.0 };
        assert_eq!(difference_half_width(none, all), Some(0.0));
    }

    #[test]
    fn wilson_by_hand() {
        // 8 of 10: centre (0.8 + 0.19207) / 1.38415 = 0.71674, half 1.95996 * sqrt(0.016 + 0.0096036)
        // / 1.38415 = 0.22658.
        let (low, high) = wilson(8.0, 10.0);
        near(low, 0.4902, 1e-4);
        near(high, 0.9433, 1e-4);
        // None of 20: 0 to z^2 / (n + z^2) = 0.16113.
        let (low, high) = wilson(0.0, 20.0);
        near(low, 0.0, 1e-12);
        near(high, 0.1611, 1e-4);
    }

    #[test]
    fn newcombes_own_example() {
        // Newcombe 1998, table II (a): 56/70 - 48/80 gives 0.0524 to 0.3339.
        let one_run = |hits, trials| Share { runs: vec![(hits, trials)] };
        let (low, high) = newcombe(&one_run(48.0, 80.0), &one_run(56.0, 70.0));
        near(low, 0.0524, 1e-4);
        near(high, 0.3339, 1e-4);
    }

    #[test]
    fn trials_that_hang_together_count_as_fewer() {
        let all_or_nothing = Share { runs: vec![(10.0, 10.0), (0.0, 10.0)] };
        near(all_or_nothing.design_effect(), 10.0, 1e-9);
        let even = Share { runs: vec![(5.0, 10.0), (5.0, 10.0)] };
        near(even.design_effect(), 1.0, 1e-9);
        assert_eq!(Share { runs: vec![(0.0, 10.0), (0.0, 10.0)] }.design_effect(), 1.0);
    }
}

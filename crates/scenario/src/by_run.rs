//! A figure of each run, where runs are compared one by one.

use knee_inference::{Known, Run};
use knee_results::Metric;

use crate::over_runs::KNOWN_WITHIN;
use crate::published::Stat;
use crate::sections::known;
use crate::stats::Samples;

/// A figure of each run of a row: one statistic of a metric.
#[derive(Clone, Debug)]
pub struct ByRun {
    pub metric: Metric,
    pub stat: Stat,
    /// Runs in which it was measured, in base units. Their seeds are the same for all rows.
    pub runs: Vec<Run>,
}

impl ByRun {
    /// Returns whether a run has this statistic as one figure: its mean, or a percentile.
    pub fn has(stat: Stat) -> bool {
        stat == Stat::Mean || stat.share().is_some()
    }

    /// Returns a figure without runs.
    pub fn new(metric: Metric, stat: Stat) -> ByRun {
        ByRun { metric, stat, runs: Vec::new() }
    }

    /// Adds a run.
    pub fn add(&mut self, seed: u64, run: &Samples) {
        let scaled = |known: Known| {
            let scale = self.metric.scale();
            Known { low: known.low / scale, high: known.high / scale }
        };
        let known = figure(run, self.stat).map(scaled);
        self.runs.push(Run { seed, known });
    }
}

/// Returns bounds, or their upper end where they are so close that the figure counts as known, as in summaries.
pub fn if_close(bounds: Known) -> Known {
    match bounds.high <= bounds.low * KNOWN_WITHIN {
        true => Known::exact(bounds.high),
        false => bounds,
    }
}

/// Returns what is known of a figure of a run, in recorded units. `None` for another statistic than the mean or a percentile, and
/// where the values do not have it.
fn figure(run: &Samples, stat: Stat) -> Option<Known> {
    match (stat, stat.share()) {
        (Stat::Mean, _) => {
            let low = run.least_mean()?;
            let high = if run.cut_off().is_none() { low } else { f64::INFINITY };
            Some(Known { low, high })
        }
        (_, Some(share)) => run.percentiles([share])[0].map(known).map(if_close),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_a_run_is_what_is_known_of_it() {
        let mut of_completion = ByRun::new(Metric::Completion, Stat::Mean);
        let mut cut = Samples::default();
        [1_000_000_000, 3_000_000_000].into_iter().for_each(|value| cut.record(value));
        of_completion.add(1, &cut);
        cut.record_cut_off(5_000_000_000);
        of_completion.add(2, &cut);
        of_completion.add(3, &Samples::default());
        let known = |low: f64, high: f64| Some(Known { low, high });
        let found: Vec<_> = of_completion.runs.iter().map(|run| (run.seed, run.known)).collect();
        let expected = [(1, known(2.0, 2.0)), (2, known(3.0, f64::INFINITY)), (3, None)];
        assert_eq!(found, expected);
        let bounds = |low: f64, high: f64| Known { low, high };
        assert_eq!(if_close(bounds(100.0, 100.5)), Known::exact(100.5));
        assert_eq!(if_close(bounds(100.0, 102.0)), bounds(100.0, 102.0));
        assert_eq!((figure(&cut, Stat::P99), figure(&cut, Stat::Max)), (None, None));
    }
}

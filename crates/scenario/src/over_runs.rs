//! A metric of a row over its runs.

use knee_results::{Sketch, Sketched};

use crate::sections::Sections;
use crate::stats::{CutOff, Possible, SHARES, Samples, Spread, Summary};

/// Largest ratio of a percentile's two bounds at which it counts as known: the error of the sketches in results.
pub(crate) const KNOWN_WITHIN: f64 = 1.0 + Sketch::ERROR;

/// A metric of a row while its runs are added one by one. It grows by a mean of 8 bytes per run and four percentiles
/// of 16, and by up to some 250 kB for all values, and as much for what was cut off.
#[derive(Clone, Debug, Default)]
pub struct OverRuns {
    all: Samples,
    /// For each run, the least that its mean can be.
    means: Vec<f64>,
    /// Parts of the values. `None` if percentiles have no intervals.
    sections: Option<Sections>,
}

impl OverRuns {
    /// Returns none yet, with intervals of percentiles for a metric with many values in a run.
    pub fn of(is_distribution: bool) -> OverRuns {
        OverRuns { sections: is_distribution.then(Sections::default), ..OverRuns::default() }
    }

    /// Adds the values of a run.
    pub fn add(&mut self, run: &Samples) {
        self.all.merge(run);
        self.means.extend(run.least_mean());
        if let Some(sections) = &mut self.sections {
            sections.add(run);
        }
    }

    /// Returns the sum of all values.
    pub fn total(&self) -> u128 {
        self.all.total()
    }

    /// Returns the sketches of all values, if any are kept.
    pub fn sketch(&self) -> Option<Sketched> {
        self.all.sketch()
    }

    /// Returns all values by bucket: those of the summary's percentiles.
    pub fn by_bucket(&self) -> Sketched {
        self.all.by_bucket()
    }

    /// Returns the summary. `scale` is the number of recorded units per base unit.
    pub fn summary(&self, scale: f64) -> Summary {
        let all = &self.all;
        let over_runs = Spread::of(&self.means);
        let is_whole = all.cut_off().is_none();
        let scaled = |(low, high): (u64, Option<u64>)| Possible {
            low: low as f64 / scale,
            high: high.map(|high| high as f64 / scale),
        };
        let percentiles = all.percentiles(SHARES);
        let sections = self.sections.as_ref();
        let half_widths = sections.map(|of| of.half_widths(percentiles)).unwrap_or_default();
        let [p50, p95, p99, p999] = percentiles.map(|bounds| known(bounds.map(scaled)));
        let [min, max] = match all.range_bounds() {
            Some(ends) => ends.map(|bounds| known(Some(scaled(bounds)))),
            None => [(None, None); 2],
        };
        let mean = over_runs.mean.map(|mean| mean / scale);
        let ci95 = over_runs.ci95.map(|ci95| ci95 / scale);
        Summary {
            runs: self.means.len() as u64,
            values: all.count(),
            cut_off: CutOff {
                values: all.count_cut_off(),
                mean: mean.filter(|_| !is_whole).map(|low| Possible { low, high: None }),
                mean_ci95: ci95.filter(|_| !is_whole),
                min: min.1,
                p50: p50.1,
                p95: p95.1,
                p99: p99.1,
                p999: p999.1,
                max: max.1,
            },
            mean: mean.filter(|_| is_whole),
            ci95: ci95.filter(|_| is_whole),
            sd: all.sd().map(|sd| sd / scale),
            sd_of_runs: over_runs.sd.map(|sd| sd / scale).filter(|_| is_whole),
            min: min.0,
            p50: p50.0,
            p95: p95.0,
            p99: p99.0,
            p999: p999.0,
            max: max.0,
            percentile_ci95: half_widths.map(|half| half.map(|half| half / scale)),
        }
    }
}

/// Returns the value of a statistic whose bounds are so close that it is known, or else its bounds.
fn known(bounds: Option<Possible>) -> (Option<f64>, Option<Possible>) {
    match bounds {
        Some(Possible { low, high: Some(high) }) if high <= low * KNOWN_WITHIN => {
            (Some(high), None)
        }
        bounds => (None, bounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Stat;

    fn samples(values: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        values.into_iter().for_each(|value| samples.record(value));
        samples
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("there is a value");
        assert!((value - expected).abs() < 1e-3 * expected.abs().max(1.0), "{value} {expected}");
    }

    #[test]
    fn what_was_cut_off_makes_bounds() {
        // 95 values of 1 to 95, and five that were cut off at 40, 95, 200, 200 and 300.
        let mut s = samples(1..=95);
        [40, 95, 200, 200, 300].into_iter().for_each(|bound| s.record_cut_off(bound));
        assert_eq!((s.count(), s.count_cut_off()), (95, 5));
        // Rank 50: the 49th known one with 40 before it, or the 50th. Rank 95: 95 is cut off, or the 95th known one.
        let expected = [Some((49, Some(50))), Some((94, Some(95))), Some((200, None)), None];
        assert_eq!(s.percentiles([0.5, 0.95, 0.99, 0.999]), expected);
        assert_eq!((s.mean(), s.sd()), (None, None));
        near(s.least_mean(), (95.0 * 48.0 + 835.0) / 100.0);
        let mut over_runs = OverRuns::default();
        over_runs.add(&s);
        over_runs.add(&samples([10]));
        let summary = over_runs.summary(1.0);
        let CutOff { values, mean, min, max, p99, .. } = summary.cut_off;
        assert_eq!((summary.runs, summary.values, values), (2, 96, 5));
        // A mean of runs of which one is a bound is a bound.
        assert_eq!(
            (summary.mean, summary.ci95, summary.max, summary.p99),
            (None, None, None, None)
        );
        near(mean.map(|mean| mean.low), ((95.0 * 48.0 + 835.0) / 100.0 + 10.0) / 2.0);
        assert_eq!(
            (summary.min, min, max),
            (Some(1.0), None, Some(Possible { low: 300.0, high: None }))
        );
        assert_eq!(p99, Some(Possible { low: 200.0, high: None }));
    }

    #[test]
    fn values_cut_off_beyond_a_percentile_do_not_change_it() {
        let mut s = samples(1..=99);
        s.record_cut_off(99);
        let mut over_runs = OverRuns::default();
        over_runs.add(&s);
        let summary = over_runs.summary(1.0);
        assert_eq!((summary.p50, summary.p95, summary.p99), (Some(50.0), Some(95.0), Some(99.0)));
        assert_eq!(summary.cut_off.p99, None);
        let mut alone = Samples::default();
        alone.record_cut_off(7);
        let mut over_runs = OverRuns::default();
        over_runs.add(&alone);
        let summary = over_runs.summary(1.0);
        assert_eq!((summary.runs, summary.values, summary.cut_off.values), (1, 0, 1));
        assert_eq!(summary.cut_off.mean, Some(Possible { low: 7.0, high: None }));
    }

    #[test]
    fn the_mean_is_that_of_the_runs() {
        let (a, b) = (samples([10, 20]), samples([40]));
        let over = |runs: &[&Samples]| {
            let mut over_runs = OverRuns::default();
            runs.iter().for_each(|run| over_runs.add(run));
            over_runs.summary(10.0)
        };
        let summary = over(&[&a, &b, &Samples::default()]);
        // (1.5 + 4) / 2. A run without values does not count.
        assert_eq!((summary.runs, summary.values), (2, 3));
        near(summary.mean, 2.75);
        assert_eq!((summary.min, summary.max), (Some(1.0), Some(4.0)));
        assert_eq!(over(&[&Samples::default()]), Summary::default());
    }

    #[test]
    fn percentiles_have_intervals_over_runs_and_runs_of_few_values_count_together() {
        // Medians of 100, 110 and 120 around that of all, 110, by their logarithms: h = 4.303 * sqrt(0.016655 / 2 / 3), 110 * (e^h - 1).
        let mut over_runs = OverRuns::of(true);
        for median in [100, 110, 120] {
            over_runs.add(&samples([median - 1, median, median + 1]));
        }
        let summary = over_runs.summary(1.0);
        near(summary.percentile_ci95[0], 27.99);
        assert_eq!(summary.percentile_ci95[1..], [None; 3]);
        near(Stat::P50.half(&summary), 27.99);
        assert_eq!((Stat::Max.half(&summary), Stat::Mean.half(&summary)), (None, summary.ci95));
        // Of six runs of 50 values, each two have a p99.
        let (mut alone, mut both) = (OverRuns::of(true), OverRuns::of(true));
        for run in 0..6_u64 {
            let values: Vec<u64> = (0..50).map(|i| 100 + (run / 2) * 7 + i).collect();
            alone.add(&samples(values.clone()));
            if run % 2 == 0 {
                both.add(&samples(values.iter().chain(&values).copied()));
            }
        }
        let (alone, both) = (alone.summary(1.0), both.summary(1.0));
        assert!(alone.p99.is_some() && alone.percentile_ci95[2].is_some());
        assert_eq!(alone.percentile_ci95[2], both.percentile_ci95[2]);
        assert_eq!(OverRuns::of(false).summary(1.0).percentile_ci95, [None; 4]);
    }

    #[test]
    fn a_run_adds_no_more_than_its_figures() {
        let mut over_runs = OverRuns::of(true);
        let mut bytes_after = |runs: u64| {
            for run in 0..runs {
                over_runs.add(&samples((0..100).map(|i| (run * 100 + i) % 1_000_000 * 1000)));
            }
            let sections = over_runs.sections.as_ref().map_or(0, Sections::bytes);
            over_runs.all.bytes() + over_runs.means.capacity() * size_of::<u64>() + sections
        };
        let (few, many) = (bytes_after(10_000), bytes_after(10_000));
        // Vectors have room for up to twice as many.
        let figures = 2 * (8 + 4 * 16) * 10_000;
        assert!(few < 500_000 + figures, "{few}");
        assert!(many - few <= figures, "{few} {many}");
        assert_eq!(over_runs.summary(1.0).values, 2_000_000);
    }
}

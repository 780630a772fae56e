//! Lateness of frames at the switch.

use hdrhistogram::Histogram;
use knee_queue::time::Duration;

/// Lateness above this counts as this, ns.
const MAX_NS: u64 = 60_000_000_000;
/// Buckets are this fine: three decimal digits.
const DIGITS: u8 = 3;

/// Lateness of frames at the switch, against the time that the network computes.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// Frames by lateness: place i counts those below 2^i us and not below half of that.
    pub by_power_of_two_us: Vec<u64>,
    /// Finer histogram: upper bound of a bucket, ns, and frames in it. Buckets are 0.1 % wide; empty ones are left out.
    pub by_ns: Vec<(u64, u64)>,
    /// Largest lateness.
    pub max: Duration,
    /// Median of the lateness.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// 99.9th percentile.
    pub p999: Duration,
}

impl Lateness {
    /// The share of frames that left later than this (to 0.1 % of it); 0 if there were none.
    pub fn share_above(&self, limit: Duration) -> f64 {
        let all: u64 = self.by_ns.iter().map(|(_, count)| count).sum();
        let late = self.by_ns.iter().filter(|(ns, _)| *ns > limit.ns());
        late.map(|(_, count)| count).sum::<u64>() as f64 / all.max(1) as f64
    }
}

/// Histogram of the lateness while the switch runs.
pub(super) struct Late(Histogram<u64>);

impl Late {
    pub(super) fn new() -> Late {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, DIGITS);
        Late(histogram.expect("the bounds are constants that it takes"))
    }

    pub(super) fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(super) fn report(&self) -> Lateness {
        let recorded = self.0.iter_recorded();
        let by_ns: Vec<(u64, u64)> = recorded
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()))
            .collect();
        let mut by_power_of_two_us = Vec::new();
        for (ns, count) in &by_ns {
            let us = ns / 1000;
            let place = us.checked_ilog2().map_or(0, |power| power as usize + 1);
            if by_power_of_two_us.len() <= place {
                by_power_of_two_us.resize(place + 1, 0);
            }
            by_power_of_two_us[place] += count;
        }
        let at = |quantile| Duration::from_ns(self.0.value_at_quantile(quantile));
        Lateness {
            by_power_of_two_us,
            by_ns,
            max: Duration::from_ns(self.0.max()),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentiles_are_those_of_what_was_recorded() {
        let mut late = Late::new();
        for us in 0..1000 {
            late.record_ns(us * 1000);
        }
        let report = late.report();
        assert_eq!(report.share_above(Duration::from_ns(899_600)), 0.1);
        assert_eq!(report.share_above(Duration::from_ms(1)), 0.0);
        // 0; 1; 2 and 3; 4 to 7; ...; 512 to 999.
        assert_eq!(report.by_power_of_two_us, [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 488]);
        assert!((report.p99.as_secs_f64() - 990e-6).abs() < 2e-6, "{:?}", report.p99);
        assert!((report.max.as_secs_f64() - 999e-6).abs() < 1e-6, "{:?}", report.max);
    }

    #[test]
    fn nothing_sent_is_nothing_late() {
        assert_eq!(Late::new().report().share_above(Duration::ZERO), 0.0);
    }
}

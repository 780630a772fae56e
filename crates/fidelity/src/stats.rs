//! Statistics of reference tables; those behind a verdict are the experiments' own.

pub use knee_evidence::difference::*;
pub use knee_scenario::stats::jain;

/// The standard deviation with n, as the reference tables use it within a run.
pub fn sd_of_all(values: &[f64]) -> Option<f64> {
    let m = mean(values)?;
    let squares: f64 = values.iter().map(|x| (x - m) * (x - m)).sum();
    Some((squares / values.len() as f64).sqrt())
}

/// A percentile, interpolated between neighbours as the reference tables do; `None` without values.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = last as f64 * percent / 100.0;
    let (below, share) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * share)
}

/// The standard deviation that goes with a range of n values of a normal distribution (the constants
/// d2 of quality control): what can be had from a table that gives smallest and largest.
pub fn sd_from_range(smallest: f64, largest: f64, n: usize) -> f64 {
    const D2: [f64; 9] = [1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078];
    match n {
        0 | 1 => 0.0,
        _ => (largest - smallest) / D2[(n - 2).min(D2.len() - 1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() < within, "{value}, not {expected}");
    }

    #[test]
    fn means_and_percentiles_by_hand() {
        let s = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.n, s.mean), (8, 5.0));
        near(s.sd, (32.0_f64 / 7.0).sqrt(), 1e-12);
        assert_eq!(sd_of_all(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
        assert_eq!(Sample::of(&[]), None);
        assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 50.0), Some(2.5));
        assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 100.0), Some(4.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_range_gives_a_spread() {
        near(sd_from_range(10.0, 12.326, 5), 1.0, 1e-9);
        assert_eq!(sd_from_range(3.0, 3.0, 1), 0.0);
    }
}

//! Holding two series against each other when their phases may differ.
//!
//! A sawtooth that is right in shape but late by a fraction of its period would look wrong sample by
//! sample. So theirs is cut into windows of three periods (of one, if the series has less than six; at
//! least [`WINDOW_MIN`] samples), each is shifted against ours by up to two periods either way, and the
//! shift with the least squared difference counts (between windows of equal power this is the maximum
//! of their cross-correlation; of equals, the smallest shift). The period is that of their cwnd: the
//! first peak of its autocorrelation.

/// Windows have at least this many samples.
pub const WINDOW_MIN: usize = 50;

/// Result of an alignment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aligned {
    /// RMS of the differences after alignment, over the mean of theirs.
    pub rms: f64,
    /// RMS difference without alignment.
    pub unaligned_rms: f64,
    /// The largest shift used, in samples, either way.
    pub largest_shift: usize,
    /// Period of theirs in samples; `None`: not periodic.
    pub period: Option<usize>,
}

/// Aligns `ours` to `theirs`, sample by sample at equal times; `None` for empty series. The period in
/// samples is [`period`] of theirs, or that of another series of the same run.
pub fn align(theirs: &[f64], ours: &[f64], period: Option<usize>) -> Option<Aligned> {
    let n = theirs.len().min(ours.len());
    if n == 0 {
        return None;
    }
    let (theirs, ours) = (&theirs[..n], &ours[..n]);
    let scale = theirs.iter().sum::<f64>() / n as f64;
    let relative = |squares: f64| {
        let rms = (squares / n as f64).sqrt();
        if rms == 0.0 { 0.0 } else { rms / scale.abs() }
    };
    let periods = |p: usize| if n < 6 * p { 1 } else { 3 };
    let window = period.map_or(n, |p| (periods(p) * p).max(WINDOW_MIN)).min(n);
    let reach = period.map_or(0, |p| 2 * p);
    let mut squares = 0.0;
    let mut largest_shift = 0;
    let mut start = 0;
    while start < n {
        // What is left over joins the last window.
        let end = if n - start < 2 * window { n } else { start + window };
        let (best, shift) = best_shift(theirs, ours, (start, end), reach);
        squares += best;
        largest_shift = largest_shift.max(shift);
        start = end;
    }
    Some(Aligned {
        rms: relative(squares),
        unaligned_rms: relative(squared_difference(theirs, ours)),
        largest_shift,
        period,
    })
}

fn squared_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

/// The least squared difference of a window of theirs to ours, and the shift that gives it.
fn best_shift(
    theirs: &[f64],
    ours: &[f64],
    (start, end): (usize, usize),
    reach: usize,
) -> (f64, usize) {
    let window = &theirs[start..end];
    let mut best = (squared_difference(window, &ours[start..end]), 0);
    for shift in 1..=reach {
        if best.0 == 0.0 {
            break;
        }
        let earlier = start.checked_sub(shift);
        let later = (end + shift <= ours.len()).then_some(start + shift);
        for from in [earlier, later].into_iter().flatten() {
            let squares = squared_difference(window, &ours[from..from + window.len()]);
            if squares < best.0 {
                best = (squares, shift);
            }
        }
    }
    best
}

/// The period of a series in samples: the first peak of its autocorrelation above 0.3 after the first
/// crossing of zero; `None` without one in a third of the series.
pub fn period(series: &[f64]) -> Option<usize> {
    let n = series.len();
    let mean = series.iter().sum::<f64>() / n.max(1) as f64;
    let centred: Vec<f64> = series.iter().map(|x| x - mean).collect();
    let power: f64 = centred.iter().map(|x| x * x).sum();
    if power == 0.0 {
        return None;
    }
    let correlation = |lag: usize| {
        let pairs = (n - lag) as f64;
        let sum: f64 = centred[lag..].iter().zip(&centred).map(|(a, b)| a * b).sum();
        sum / pairs / (power / n as f64)
    };
    let lags: Vec<f64> = (0..n / 3).map(correlation).collect();
    let crossing = lags.iter().position(|c| *c < 0.0)?;
    (crossing + 1..lags.len().saturating_sub(1))
        .find(|&i| lags[i] > 0.3 && lags[i] >= lags[i - 1] && lags[i] >= lags[i + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn align_own(theirs: &[f64], ours: &[f64]) -> Option<Aligned> {
        align(theirs, ours, period(theirs))
    }

    fn sawtooth(n: usize, period: usize, phase: usize) -> Vec<f64> {
        (0..n).map(|i| 100.0 + ((i + phase) % period) as f64).collect()
    }

    #[test]
    fn the_period_of_a_sawtooth_is_found() {
        assert_eq!(period(&sawtooth(3000, 70, 0)), Some(70));
        assert_eq!(period(&[5.0; 100]), None);
        assert_eq!(period(&[]), None);
    }

    #[test]
    fn a_late_sawtooth_is_the_same_once_aligned() {
        let aligned = align_own(&sawtooth(3000, 70, 0), &sawtooth(3000, 70, 20)).unwrap();
        assert!(aligned.rms < 1e-12, "{aligned:?}");
        // Shifted by 20 of 70: RMS of the difference is sqrt((20 * 50^2 + 50 * 20^2) / 70) = 31.6.
        assert!((aligned.unaligned_rms - 31.6 / 134.5).abs() < 0.003, "{aligned:?}");
        // 20 back, or 50 on where the first window has nothing before it.
        assert_eq!(aligned.largest_shift, 50);
    }

    #[test]
    fn a_drifting_phase_is_followed() {
        // Periods of 70 and 71 samples: windows of 210 align each for itself.
        let aligned = align_own(&sawtooth(3000, 70, 0), &sawtooth(3000, 71, 0)).unwrap();
        assert!(aligned.rms < 0.08 && aligned.unaligned_rms > 0.15, "{aligned:?}");
    }

    #[test]
    fn another_height_stays_different() {
        let higher: Vec<f64> = sawtooth(3000, 70, 0).iter().map(|x| 1.1 * x).collect();
        let aligned = align_own(&sawtooth(3000, 70, 0), &higher).unwrap();
        assert!(aligned.rms > 0.08, "{aligned:?}");
    }

    #[test]
    fn what_does_not_repeat_is_not_shifted() {
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        let aligned = align_own(&ramp, &ramp).unwrap();
        assert_eq!((aligned.rms, aligned.largest_shift, aligned.period), (0.0, 0, None));
        assert_eq!(align_own(&[], &[]), None);
    }
}

//! A percentile of all values of one case, from the runs that they are of.

use crate::contrast::Known;
use crate::student::student_t_95;

/// Returns half the width of the 95 % interval around a percentile of all values. `sections` has the same percentile of each part of
/// them. Parts do not depend on each other, as runs do not. `None` below two parts, or if all are the same: then nothing is
/// random.
///
/// This is sectioning: the spread of the parts is taken around the percentile of all values, and not around the mean of the parts, since a
/// percentile of few values errs to one side (Asmussen and Glynn, "Stochastic Simulation" (2007), section III.5a; Nakayama, "Confidence
/// intervals for quantiles using sectioning when applying variance-reduction techniques", ACM TOMACS 24 (2014)).
///
/// Percentiles of skewed values are skewed. Where all are positive, the spread is that of their logarithms, and the half width reaches up to the
/// upper end. Downwards it reaches further than the interval of logarithms. Of figures with bounds it is the larger half width around either
/// end, as far as that is finite.
pub fn half_width(of_all: Known, sections: &[Known]) -> Option<f64> {
    let first = sections.first().filter(|_| sections.len() > 1)?;
    if sections.iter().all(|section| section == first) {
        return None;
    }
    let ends: [fn(&Known) -> f64; 2] = [|known| known.low, |known| known.high];
    let around_ends = ends.map(|end| {
        let all: Vec<f64> = sections.iter().map(end).collect();
        around(end(&of_all), &all)
    });
    Some(around_ends.into_iter().flatten().fold(0.0, f64::max))
}

/// Returns half the width around one end. `None` if it is not finite.
fn around(middle: f64, all: &[f64]) -> Option<f64> {
    let is_positive = middle > 0.0 && all.iter().all(|value| *value > 0.0);
    let shown = |value: f64| if is_positive { value.ln() } else { value };
    let distances = all.iter().map(|value| shown(*value) - shown(middle));
    let squares: f64 = distances.map(|distance| distance * distance).sum();
    let n = all.len() as f64;
    let half = student_t_95(n - 1.0) * (squares / (n - 1.0) / n).sqrt();
    let half = if is_positive { middle * half.exp_m1() } else { half };
    half.is_finite().then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(values: &[f64]) -> Vec<Known> {
        values.iter().map(|value| Known::exact(*value)).collect()
    }

    #[test]
    fn the_spread_is_around_the_percentile_of_all_values() {
        // 8, 10 and 12 around 11: squares of their logarithms from it over two degrees and three runs, t of two degrees 4.303,
        // and 11 * (e^h - 1).
        let half = half_width(Known::exact(11.0), &exact(&[8.0, 10.0, 12.0])).unwrap();
        assert!((half - 9.115).abs() < 2e-3, "{half}");
        // With a zero they are taken as they are: squares 121, 1 and 1.
        let half = half_width(Known::exact(11.0), &exact(&[0.0, 10.0, 12.0])).unwrap();
        assert!((half - 4.303 * (123.0_f64 / 6.0).sqrt()).abs() < 1e-6, "{half}");
    }

    #[test]
    fn without_a_spread_there_is_no_interval() {
        assert_eq!(half_width(Known::exact(5.0), &exact(&[5.0])), None);
        assert_eq!(half_width(Known::exact(5.1), &exact(&[5.0, 5.0, 5.0])), None);
        assert_eq!(half_width(Known::exact(5.0), &[]), None);
    }

    #[test]
    fn bounds_have_the_wider_of_both_spreads() {
        let between = |low: f64, high: f64| Known { low, high };
        let open = half_width(
            between(4.0, f64::INFINITY),
            &[between(3.0, 4.0), between(5.0, f64::INFINITY)],
        );
        let low = half_width(Known::exact(4.0), &exact(&[3.0, 5.0]));
        assert_eq!(open, low);
        let wide = half_width(between(4.0, 9.0), &[between(3.0, 6.0), between(5.0, 12.0)]);
        assert!(wide > low, "{wide:?}");
    }
}

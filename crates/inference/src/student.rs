//! Student's t.

use std::f64::consts::FRAC_PI_2;

/// Two-sided 95 % point of the normal distribution.
const Z_95: f64 = 1.959_964;

/// Returns the two-sided 95 % point of Student's t. Degrees of freedom need not be whole.
pub fn student_t_95(degrees: f64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    let v = degrees.max(1.0);
    let below = v.floor() as usize;
    if v == below as f64 && below <= TABLE.len() {
        return TABLE[below - 1];
    }
    if below >= TABLE.len() {
        // First terms of its expansion in 1/v, correct to three decimals from v = 31.
        let z = Z_95;
        return z
            + (z.powi(3) + z) / (4.0 * v)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v);
    }
    // Between whole degrees, t is nearly linear in 1/v.
    let (low, high) = (TABLE[below - 1], TABLE[below]);
    let (x, x_low, x_high) = (1.0 / v, 1.0 / below as f64, 1.0 / (below + 1) as f64);
    high + (low - high) * (x - x_high) / (x_low - x_high)
}

/// Degrees of freedom from which on the normal distribution is near enough.
const MOST_DEGREES: f64 = 1000.0;
/// Steps of each integral. They are even, and short against the spread of the integrand at the most degrees.
const STEPS: u32 = 200;

/// Returns the chance that Student's t is further from zero than `t`.
///
/// With `t = sqrt(v) * tan(x)` the density becomes `cos(x)^(v - 1)`, which needs no gamma function: the chance is the integral from `x` to
/// a quarter turn, over that from 0, by Simpson's rule.
pub fn two_sided_p(t: f64, degrees: f64) -> f64 {
    let v = degrees.clamp(1.0, MOST_DEGREES);
    let density = |x: f64| x.cos().max(0.0).powf(v - 1.0);
    let integral = |from: f64| {
        let step = (FRAC_PI_2 - from) / f64::from(STEPS);
        let inner = (1..STEPS).map(|i| {
            let weight = if i % 2 == 1 { 4.0 } else { 2.0 };
            weight * density(from + step * f64::from(i))
        });
        (density(from) + inner.sum::<f64>() + density(FRAC_PI_2)) * step / 3.0
    };
    (integral((t.abs() / v.sqrt()).atan()) / integral(0.0)).min(1.0)
}

/// Returns the point that Student's t exceeds, to either side, with the chance `p`.
pub fn student_t(p: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided_p(high, degrees) > p && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        match two_sided_p(middle, degrees) > p {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() < within, "{value}, not {expected}");
    }

    #[test]
    fn students_t_between_whole_degrees() {
        near(student_t_95(4.0), 2.776, 1e-9);
        // From tables of fractional degrees: t(4.5) = 2.660, t(9.5) = 2.244.
        near(student_t_95(4.5), 2.660, 0.005);
        near(student_t_95(9.5), 2.244, 0.002);
        near(student_t_95(60.0), 2.000, 1e-3);
        near(student_t_95(30.5), 2.041, 2e-3);
    }

    #[test]
    fn chances_and_points_are_those_of_tables() {
        // The two-sided points of 5 % and of 0.1 %.
        for (degrees, five, tenth) in
            [(1.0, 12.706, 636.619), (4.0, 2.776, 8.610), (30.0, 2.042, 3.646)]
        {
            near(two_sided_p(five, degrees), 0.05, 1e-4);
            near(student_t(0.001, degrees), tenth, 2e-3 * tenth);
        }
        near(two_sided_p(1.96, 1e9), 0.05, 1e-3);
        near(two_sided_p(0.0, 7.0), 1.0, 1e-9);
        for degrees in [1.0, 2.5, 7.0, 25.4, 80.0, 300.0] {
            near(student_t(0.05, degrees), student_t_95(degrees), 0.06);
        }
    }
}

//! Many contrasts at once.

/// Adjusts the p-values of a family by Holm's step-down method. Of all contrasts whose adjusted p-value is below 0.05, the chance
/// that one or more are wrong is at most 5 %, however the figures depend on each other.
///
/// S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979). The false discovery rate of
/// Benjamini and Hochberg assumes figures that do not depend on each other in the wrong way. Figures of the same runs may: what leaves a
/// queue empty costs goodput.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        largest = largest.max((p[at] * (p.len() - rank) as f64).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_by_hand() {
        // 0.01 * 4, 0.02 * 3, max(0.03 * 2, 0.06), max(0.04 * 1, 0.06).
        let adjusted = holm(&[0.04, 0.01, 0.03, 0.02]);
        for (value, expected) in adjusted.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((value - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!((holm(&[]), holm(&[0.6, 0.9])), (Vec::new(), vec![1.0, 1.0]));
    }
}

//! Runs until an interval is narrow enough.

/// Returns how many runs there shall be, so that half the width of an interval from `runs` comes down to `wanted`: as many as they are if it
/// is there, or else one more to twice as many, since the spread that they show is uncertain.
pub fn runs_to_reach(runs: u64, half: f64, wanted: f64) -> u64 {
    if half <= wanted {
        return runs;
    }
    let ratio = half / wanted;
    // A wanted width of zero is never reached.
    let needed = (runs as f64 * ratio * ratio).ceil().min(u64::MAX as f64) as u64;
    needed.clamp(runs + 1, (2 * runs).max(runs + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_with_the_square_of_the_width_and_at_most_twofold() {
        assert_eq!(runs_to_reach(10, 0.05, 0.05), 10);
        assert_eq!(runs_to_reach(10, 0.06, 0.05), 15);
        assert_eq!(runs_to_reach(10, 0.5, 0.05), 20);
        assert_eq!(runs_to_reach(10, 0.0501, 0.05), 11);
        assert_eq!(runs_to_reach(1, 1.0, 0.0), 2);
    }
}

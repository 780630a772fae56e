//! Whether one case is better than another, by how much, and how sure that is: from a figure per run of each.
//!
//! [`contrast`] gives the difference and the ratio of two cases with their 95 % intervals. Runs of the same seed are pairs. From
//! [`PAIRS`] pairs on, the intervals are those of Student's t over the pairs; with fewer, they are Welch's over the runs. A ratio is the
//! typical one of a run: the exponential of the mean difference of logarithms. [`holm`] corrects the p-values of many
//! contrasts; [`Contrast::runs_to_tell`] says how many runs a contrast would need.
//!
//! [`half_width`] is of one case: the interval of a percentile of all values over runs.
//!
//! What was not measured is absent, and what was cut off has bounds. Neither is zero, nor the mean of the rest.
//!
//! `docs/compare.md` names the sources, and has the table of coverage that `tests/coverage.rs` makes.
//!
//! ```
//! use knee_inference::{Known, Run, contrast};
//!
//! let runs = |values: [f64; 6]| -> Vec<Run> {
//!     let known = values.into_iter().zip(1..);
//!     known.map(|(value, seed)| Run { seed, known: Some(Known::exact(value)) }).collect()
//! };
//! let cubic = runs([5.1, 6.3, 5.6, 4.9, 6.0, 5.3]);
//! let dctcp = runs([1.0, 1.2, 1.1, 1.0, 1.2, 1.1]);
//! let of = contrast(&dctcp, &cubic);
//! let ratio = of.ratio.expect("all are positive");
//! let (low, high) = ratio.ends.expect("they have a spread");
//! assert!(of.is_paired && low < 0.20 && 0.20 < high && of.p.expect("it has one") < 1e-6);
//! ```
#![forbid(unsafe_code)]

mod contrast;
mod family;
mod sections;
mod student;
mod until;

pub use contrast::{Contrast, Interval, Known, MOST_RUNS, PAIRS, Run, contrast};
pub use family::holm;
pub use sections::half_width;
pub use student::{student_t, student_t_95, two_sided_p};
pub use until::runs_to_reach;

/// Returns how many values a percentile of this share needs: as many as leave one above it.
pub fn values_needed(share: f64) -> f64 {
    (1.0 / (1.0 - share).max(f64::MIN_POSITIVE)).round()
}

//! What all crates count in and draw from: times and rates, limits and thresholds, versions of Linux, random numbers, buckets of values,
//! rows of text; and how parts of a run say their settings.
#![forbid(unsafe_code)]

mod bucket;
mod limit;
mod linux;
pub mod random;
pub mod settings;
mod text;
pub mod time;

pub use bucket::Bucket;
pub use limit::{Backlog, Limit, Threshold};
pub use linux::LinuxVersion;
pub use random::Random;
pub use text::{aligned, quoted};

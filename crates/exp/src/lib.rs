//! Experiments: files, runs, statistics and results.
#![forbid(unsafe_code)]

pub mod error;
pub mod experiment;
pub mod metrics;
mod network;
pub mod published;
mod random;
mod reader;
mod scenario;
pub mod stats;
mod traffic;
mod tree;
mod units;

pub use error::Error;
pub use experiment::{Experiment, Overrides};

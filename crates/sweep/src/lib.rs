//! Sweeps: the runs of an experiment, what they measure, and their directory of results.
//!
//! [`sweep`](runner::sweep) spreads the runs over the cores. [`Results`](results::Results) writes their rows, and at the end a summary
//! and the manifest, with the claims as [judged](results::Results::finish) by whoever calls.
#![forbid(unsafe_code)]

pub mod about;
mod cgroup;
mod done;
mod flight;
mod gathered;
pub mod going;
mod host_metrics;
mod journal;
pub mod machine;
mod measure;
mod plan;
mod record;
pub mod report;
pub mod results;
pub mod rows;
pub mod run_name;
mod run_store;
pub mod runner;
pub mod runs;
pub mod store;
mod stored_run;
pub mod sweep_result;

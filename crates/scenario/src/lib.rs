//! Experiments as files say them: networks, traffic, cases, claims, and the metrics and statistics of what is measured.
//!
//! An [`Experiment`] is one TOML file: a question, a network, traffic, congestion controls to compare, values to vary,
//! and a number of repeats. [`Experiment::run`] describes one of its runs for a back end.
//!
//! ```
//! use std::path::Path;
//! use knee_scenario::{Experiment, Overrides};
//!
//! let text = r#"
//!     question = "How long do two transfers take that share a link?"
//!     cc = ["cubic", "dctcp"]
//!
//!     [network]
//!     topology = "many-to-one"
//!     senders = 2
//!     access = { rate = "10 Gbps" }
//!     bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "500 pkts", k = "20 pkts" } }
//!     return = { delay = "100 us" }
//!
//!     [[traffic]]
//!     name = "both"
//!     kind = "bulk"
//!     from = "s1..s2"
//!     to = "r"
//!     size = "10 MB"
//!
//!     [run]
//!     duration = "1 s"
//!     repeat = 5
//! "#;
//! let experiment = Experiment::parse(Path::new("two.toml"), text, &Overrides::default())?;
//! assert_eq!(experiment.runs(), 10);
//! let run = experiment.run(experiment.run_id(0))?;
//! assert_eq!(run.flows.len(), 2);
//!
//! let typo = text.replace("delay =", "dealy =");
//! let error = Experiment::parse(Path::new("two.toml"), &typo, &Overrides::default()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "two.toml:10: network.return.dealy: unknown key; did you mean \"delay\"?"
//! );
//! # Ok::<(), knee_scenario::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod balance;
pub mod built_in;
pub mod by_run;
pub mod cases;
mod cc;
mod changes;
pub mod chart;
pub mod claim;
pub mod classes;
pub mod error;
pub mod experiment;
mod inputs;
pub mod inside;
pub mod kind;
mod matrix;
pub mod memory;
pub mod metric;
mod modules;
pub mod names;
mod network;
pub mod output;
pub mod over_runs;
pub mod overrides;
mod paths;
pub mod published;
mod queues;
pub mod quick;
mod random;
mod range;
mod receiving;
pub mod refused;
pub mod remarks;
pub mod scale;
pub mod scenario;
mod scenarios;
mod sections;
mod setters;
mod sizes;
pub mod stats;
pub mod stored;
pub mod stored_samples;
pub mod switches;
mod unused;

pub use error::Error;
pub use experiment::{Experiment, Overrides};

//! Experiments: files, runs, statistics and results.
//!
//! An [`Experiment`] is one TOML file: a question, a network, traffic, congestion controls to compare, values to vary,
//! and a number of repeats. [`sweep`](runner::sweep) spreads its runs over the cores. [`Results`](results::Results)
//! writes the results to a directory, and [`table`] formats them as text.
//!
//! ```
//! use std::path::Path;
//! use knee_exp::{Experiment, Overrides};
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
//! # Ok::<(), knee_exp::Error>(())
//! ```
#![forbid(unsafe_code)]

mod about;
mod balance;
pub mod beside;
pub mod built_in;
pub mod cases;
pub mod catalogue;
mod cc;
mod changes;
pub mod chart;
pub mod claim;
mod classes;
pub mod compare;
mod csv;
pub mod difference;
pub mod error;
pub mod experiment;
pub mod explain;
mod flight;
pub mod golden;
mod host_metrics;
mod inputs;
mod inside;
pub mod judge;
mod kind;
mod last_scenario;
pub mod machine;
mod matrix;
mod measure;
pub mod memory;
pub mod metric;
mod modules;
mod names;
mod network;
mod output;
pub mod overview;
mod paths;
pub mod published;
mod queues;
pub mod quick;
mod random;
mod receiving;
pub mod refused;
pub mod remarks;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod runner;
pub mod runs;
pub mod scale;
mod scenario;
mod setters;
mod settings;
mod sizes;
pub mod stats;
pub mod sweep_result;
mod switches;
pub mod table;
mod unused;

pub use error::Error;
pub use experiment::{Experiment, Overrides};

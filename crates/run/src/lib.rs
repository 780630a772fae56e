//! What a run is, and what came of it, whatever carries it out.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`spec`] | a [`Run`], plain data that says everything |
//! | [`topology`] | networks of the usual shapes |
//! | [`validate`](fn@validate) | refuses runs that contradict themselves |
//! | [`routes`], [`balance`], [`addresses`], [`turns`], [`flow_control`] | what follows from a run: paths and their choice, addresses and ports, who waits for whom, what is stopped |
//! | [`support`] | what each back end does with each field of a run |
//! | [`Ideal`] | the least time that a transfer can take |
//! | [`outcome`] | the records of a run |
//! | [`BackEnd`] | what carries runs out: the simulator, the lab, real machines, a kernel in virtual time |
//! | [`enum@Error`] | why there is no outcome |
//!
//! A back end of one's own, in which each transfer takes the least time that it can:
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use knee_queue::time::{Duration, Rate, Time};
//! use knee_queue::{DropTailConfig, Limit, QueueConfig};
//! use knee_run::outcome::FlowOutcome;
//! use knee_run::spec::{
//!     Cc, Flow, HostConfig, LinuxVersion, Schedule, Sampling, Traffic,
//! };
//! use knee_run::topology::{Cable, Star};
//! use knee_run::{RunOptions, BackEnd, Capabilities, Error, Ideal, Outcome, RunResult, Run};
//!
//! #[derive(Debug)]
//! struct Ideally;
//!
//! impl BackEnd for Ideally {
//!     fn name(&self) -> &'static str {
//!         "ideally"
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::default()
//!     }
//!
//!     fn run(&self, run: &Run, ask: &RunOptions<'_>) -> Result<RunResult, Error> {
//!         ask.check(self)?;
//!         knee_run::validate(run)?;
//!         let mut ideal = Ideal::new(&run.network);
//!         let flows = run.flows.iter().map(|flow| {
//!             let Traffic::Bulk { bytes: Some(bytes) } = flow.traffic else {
//!                 return Err(Error::Refused("--on ideally knows transfers with an end".into()));
//!             };
//!             let done_at = flow.start + ideal.transfer(flow.from, flow.to, bytes)?;
//!             let connected_at = Some(flow.start);
//!             Ok(FlowOutcome { connected_at, done_at: Some(done_at), ..FlowOutcome::default() })
//!         });
//!         let flows = flows.collect::<Result<_, Error>>()?;
//!         Ok(Outcome { end: run.end, flows, ..Outcome::default() }.into())
//!     }
//! }
//!
//! let queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(500) });
//! let cable = Cable::new(Rate::from_bps(1_000_000_000), queue);
//! let cable = Cable { delay: Duration::from_us(25), ..cable };
//! let host = |name: &str| (name.to_owned(), HostConfig::new(LinuxVersion(6, 1)));
//! let flow = Flow {
//!     group: 0,
//!     from: 0,
//!     to: 1,
//!     cc: Cc::by_name("dctcp")?,
//!     peer_cc: None,
//!     start: Time::from_ms(1),
//!     first_write: None,
//!     stop: None,
//!     traffic: Traffic::Bulk { bytes: Some(100_000) },
//!     read_at_bytes: 1,
//!     base_rtt: None,
//!     dscp: 0,
//!     peer_dscp: 0,
//!     max_pacing_rate: None,
//!     sampled: false,
//! };
//! let mut run = Run {
//!     seed: 1,
//!     end: Time::from_ms(100),
//!     until_done: true,
//!     network: Star { hosts: vec![host("a"), host("b")], up: cable.clone(), down: cable }.build(),
//!     flows: vec![flow],
//!     pings: Vec::new(),
//!     sampling: Sampling::default(),
//!     schedule: Schedule::default(),
//! };
//! let stop = AtomicBool::new(false);
//! let ran = Ideally.run(&run, &RunOptions::outcome(&stop))?;
//! let took = ran.outcome.flows[0].completion_time();
//! // 800 us for its bytes, with headers and delays some more.
//! assert!(took.is_some_and(|took| took > Duration::from_us(850) && took < Duration::from_ms(2)));
//!
//! run.flows[0].to = 0;
//! let why = Ideally.run(&run, &RunOptions::outcome(&stop)).unwrap_err();
//! assert_eq!(why.to_string(), "traffic from node 0 to itself crosses no network");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod addresses;
pub mod back_end;
pub mod balance;
mod cable;
mod capacity;
mod changes;
pub mod ecn;
pub mod error;
pub mod flow_control;
mod headroom;
mod host;
mod ideal;
pub mod kernels_own;
pub mod outcome;
mod receiving;
pub mod routes;
pub mod sizes;
pub mod spec;
pub mod support;
mod sysctls;
pub mod topology;
pub mod turns;
mod validate;

pub use back_end::{BackEnd, Capabilities, RunOptions, RunResult};
pub use capacity::Capacity;
pub use error::Error;
pub use ideal::Ideal;
pub use knee_memory::{Budget, Room};
pub use outcome::Outcome;
pub use spec::Run;
pub use validate::run as validate;

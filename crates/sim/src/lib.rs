//! A deterministic packet simulator whose end points behave like Linux TCP.
//!
//! A [`Run`](knee_run::Run) holds the nodes and links (built by [`topology`](knee_run::topology) or
//! by hand), the flows, the pings and the seed. [`simulate`] handles its events and returns an
//! [`Outcome`](knee_run::Outcome). The same run gives the same outcome on any machine.
//!
//! ```
//! use knee_queue::time::{Duration, Rate, Time};
//! use knee_queue::{DropTailConfig, Limit, QueueConfig};
//! use knee_run::spec::{
//!     Cc, Flow, HostConfig, LinuxVersion, Schedule, Run, Sampling, Traffic,
//! };
//! use knee_run::topology::{Cable, Star};
//!
//! let queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(500) });
//! let cable = Cable::new(Rate::from_bps(1_000_000_000), queue);
//! let cable = Cable { delay: Duration::from_us(25), ..cable };
//! let host = |name: &str| (name.to_owned(), HostConfig::new(LinuxVersion(6, 1)));
//! let network =
//!     Star { hosts: vec![host("a"), host("b")], up: cable.clone(), down: cable }.build();
//! let flow = Flow {
//!     group: 0,
//!     from: 0,
//!     to: 1,
//!     cc: Cc::by_name("cubic")?,
//!     peer_cc: None,
//!     start: Time::ZERO,
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
//! let run = Run {
//!     seed: 1,
//!     end: Time::from_ms(1000),
//!     until_done: true,
//!     network,
//!     flows: vec![flow],
//!     pings: Vec::new(),
//!     sampling: Sampling::default(),
//!     schedule: Schedule::default(),
//! };
//! let outcome = knee_sim::simulate(&run)?;
//! let fct = outcome.flows[0].completion_time().expect("it completes");
//! assert!(fct > Duration::from_us(800) && fct < Duration::from_ms(3), "{fct:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod app;
mod applications;
mod assign;
mod back_end;
mod balance;
mod barrier;
mod buffer;
pub mod captures;
mod clock;
mod dim;
mod domains;
pub mod endpoint;
mod events;
mod exchange;
mod expected;
pub mod fabric;
mod gate;
mod hosts;
mod interrupts;
mod link;
mod link_counts;
mod memory;
mod merge;
mod messages;
mod modules;
mod net;
mod nic;
mod numbered;
mod packet;
mod paths;
mod pause;
mod pings;
mod plan;
mod ports;
mod recording;
mod reroute;
mod samples;
mod sim;
mod stop;
pub mod tap;
mod tcp;
mod vary;

/// What the barrier uses of the standard library.
mod sync {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use std::thread::yield_now;

    /// Times that a thread looks at the barrier before it lets others use its core.
    pub(crate) const SPINS: u32 = 200;
}

pub use back_end::{BEHAVIOUR, Simulator};
pub use exchange::{Loads, simulate, simulate_in_turns, simulate_on};
pub use sim::{simulate_captured, simulate_recorded, simulate_tapped};

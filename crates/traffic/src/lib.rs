//! The applications of hosts: one program that holds any number of connections, of one host or of many, on one clock.
//!
//! It is told a [`TrafficPlan`] and answers with a [`TrafficReport`], both of them plain data. Sockets, clocks and algorithms are
//! those of an [`Os`]: of this machine, or of the guest of a kernel in virtual time, which has no C library.
//!
//! What an application does is what the simulator's does (`knee_sim`), with these differences, which a kernel asks for:
//!
//! - A transfer that is stopped is aborted, so that nothing more is sent: one RST leaves.
//! - One that is done stays open and idle until the end: to close it would send packets.
//! - What is written waits in the send buffer, which the kernel makes as large as it likes.
//!
//! In virtual time to read the clock takes time. So the order of calls is part of what a run is, and the same in each of them:
//!
//! ```
//! use knee_traffic::{Lane, Order, Series, Turns};
//!
//! // Three transfers, two at a time, then one more when all are done.
//! let lane = |flows: &[u32], parallel| Lane { flows: flows.to_vec(), parallel };
//! let rounds = vec![vec![lane(&[0, 1, 2], 2)], vec![lane(&[3], 1)]];
//! let mut turns = Turns::new(&Order { series: vec![Series { rounds }], together: vec![] }, 4);
//! assert_eq!(turns.first(), [0, 1]);
//! assert_eq!(turns.on_end(1), [2]);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bytes;
mod due;
mod flow;
mod os;
mod ping;
mod plan;
mod program;
mod report;
mod turns;

pub use os::{AGAIN, Errno, Happened, Moment, Opened, Os, PingSocket, events};
pub use plan::{FlowPlan, Lane, Order, PingPlan, Series, Traffic, TrafficPlan};
pub use program::{Fault, Program, prepare};
pub use report::{Look, SideReport, TrafficReport};
pub use turns::{Ready, Turns};

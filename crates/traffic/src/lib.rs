//! The applications of hosts: one program that holds any number of connections, of one host or of many, on one clock.
//!
//! It takes a [`TrafficPlan`] and returns a [`TrafficReport`], both plain data. Sockets, clocks and algorithms are
//! those of an [`Os`]: of this machine, or of the guest of a kernel in virtual time, which has no C library.
//!
//! Applications behave like those of the simulator (`knee_sim`), with these differences:
//!
//! - A transfer that is stopped is aborted, so that nothing more is sent: one RST leaves.
//! - A transfer that is done stays open and idle until the end: to close it would send packets.
//! - Written data waits in the send buffer, whose size the kernel chooses.
//!
//! In virtual time, reading the clock takes time. So the order of calls is part of a run's definition, the same in each run:
//!
//! ```
//! use knee_traffic::{Sequence, Schedule, Series, ScheduleState};
//!
//! // Three transfers, two at a time, then one more when all are done.
//! let sequence = |flows: &[u32], parallel| Sequence { flows: flows.to_vec(), parallel };
//! let rounds = vec![vec![sequence(&[0, 1, 2], 2)], vec![sequence(&[3], 1)]];
//! let mut schedule = ScheduleState::new(&Schedule { series: vec![Series { rounds }], ..Schedule::default() }, 4);
//! assert_eq!(schedule.first(), [0, 1]);
//! assert_eq!(schedule.on_end(1), [2]);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bytes;
mod event_queue;
mod flow;
mod os;
mod ping;
mod plan;
mod pools;
mod program;
mod report;
mod schedule;
mod tasks;

pub use os::{AGAIN, Errno, Moment, Opened, Os, PingSocket, SocketEvent, events};
pub use plan::{FlowPlan, PingPlan, Pool, Schedule, Sequence, Series, Task, Traffic, TrafficPlan};
pub use pools::{Next, PoolState};
pub use program::{Fault, Program, prepare};
pub use report::{Look, SideReport, TrafficReport};
pub use schedule::{Ready, ScheduleState};
pub use tasks::{Due, TaskState};

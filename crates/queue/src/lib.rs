//! Queue disciplines and a shaper for the port of a switch or host.
//!
//! Everything here is pure: no I/O, no clock, no global state. `now` is always an argument, and what is
//! random comes from a seed in the configuration, so the same calls give the same answers in the
//! simulator (virtual time) and in the lab (wall-clock time).
//!
//! | part | what it is |
//! | --- | --- |
//! | [`QueueConfig`] | the settings of one queue; builds an [`AnyQdisc`] or an [`AnyAdmission`] |
//! | [`Settings`] | the settings of a discipline, described once; a [`Visit`](knee_units::settings::Visit) reads, scales or lists them |
//! | [`Qdisc`] | what a host calls: `enqueue`, `dequeue`, `next_event`, `tick`, lengths, counters |
//! | [`Admission`] | the policy of a FIFO discipline: queue, mark or drop an arriving packet, by the backlog |
//! | [`Fifo`] | a FIFO that asks an [`Admission`] |
//! | [`DropTail`], [`Step`], [`Red`], [`Pie`], [`Share`], [`Policer`] | tail drop, AQMs and a policer for a FIFO |
//! | [`CodelQueue`], [`FqCodel`], [`DualPi2`] | AQMs with queues of their own |
//! | [`Classes`] | several queues in one port: by DSCP, pure ACKs or length, or by input; strict priority or weighted round robin |
//! | [`DynamicThreshold`] | memory that the queues of several ports share |
//! | [`TokenBucket`], [`Shaped`] | Linux's `tbf`: a rate limit over any discipline |
//!
//! # What a host does
//!
//! * It calls `enqueue` for each packet, and `dequeue` whenever the link can take a packet. Under a
//!   [`Shaped`] queue the link can always take one, so `dequeue` is repeated until it returns `None`.
//! * It asks `next_event` after each of these, and at that time calls `tick`, then `dequeue`.
//! * The packet being sent has left the queue: a backlog holds what waits behind it.
//!
//! # Example
//!
//! A port with a buffer of 100 full packets that marks at 20 packets or more:
//!
//! ```
//! use knee_queue::time::Time;
//! use knee_queue::{
//!     Ecn, Limit, MarkAt, MarkWhen, NotEctAbove, Packet, Qdisc, QueueConfig, StepConfig, Threshold,
//!     QueueAction,
//! };
//!
//! struct Frame(Ecn);
//!
//! impl Packet for Frame {
//!     fn len_bytes(&self) -> u32 {
//!         1514
//!     }
//!     fn ecn(&self) -> Ecn {
//!         self.0
//!     }
//!     fn set_ce(&mut self) {
//!         self.0 = Ecn::Ce;
//!     }
//! }
//!
//! let config = QueueConfig::Step(StepConfig {
//!     limit: Limit::Bytes(100 * 1514),
//!     threshold: Threshold::Pkts(20),
//!     mark_at: MarkAt::AtLeast,
//!     when: MarkWhen::Enqueue,
//!     not_ect: NotEctAbove::Queue,
//! });
//! config.validate()?;
//!
//! let mut queue = config.build::<Frame>();
//! for _ in 0..20 {
//!     assert_eq!(queue.enqueue(Frame(Ecn::Ect0), Time::ZERO), QueueAction::Queued);
//! }
//! assert_eq!(queue.enqueue(Frame(Ecn::Ect0), Time::ZERO), QueueAction::Marked);
//! assert_eq!(queue.enqueue(Frame(Ecn::NotEct), Time::ZERO), QueueAction::Queued);
//! assert_eq!(queue.stats().marked_pkts, 1);
//!
//! let first = queue.dequeue(Time::from_us(12)).expect("22 packets wait");
//! assert_eq!(first.ecn(), Ecn::Ect0);
//! assert_eq!(queue.len_pkts(), 21);
//! # Ok::<(), knee_queue::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod any;
mod classes;
mod codel;
mod config;
mod droptail;
mod dualpi2;
mod fifo;
mod fq_codel;
mod packet;
mod pie;
mod policer;
mod qdisc;
mod red;
mod round_robin;
mod settings;
mod shaper;
mod share;
mod shared;
mod step;
#[cfg(test)]
mod testing;
mod trim;
mod two_buffers;

pub use any::{AnyAdmission, AnyQdisc};
pub use classes::{ClassConfig, ClassService, Classes, ClassesConfig, Condition};
pub use codel::{CeThresholdFor, CodelConfig, CodelParams, CodelQueue};
pub use config::QueueConfig;
pub use droptail::{DropTail, DropTailConfig};
pub use dualpi2::{DualPi2, DualPi2Config, LowLatency, StepThreshold};
pub use fifo::Fifo;
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use knee_units::{Backlog, Limit, Threshold, time};
pub use packet::{ETHERNET_BYTES, Ecn, Packet};
pub use pie::{Pie, PieConfig, PieDelay};
pub use policer::{Policer, PolicerConfig};
pub use qdisc::{Admission, Departure, DropReason, Inside, Part, Qdisc, QueueAction, Stats};
pub use red::{Red, RedConfig};
pub use settings::{ConfigError, PortProperties, Settings};
pub use shaper::{Shaped, TokenBucket};
pub use share::{MarkShare, Share, ShareConfig};
pub use shared::{DynamicThreshold, DynamicThresholdConfig};
pub use step::{MarkAt, MarkWhen, NotEctAbove, Step, StepConfig};
pub use trim::{Trim, TrimConfig};
pub use two_buffers::{Alternate, LimitPer, TwoBuffersConfig};

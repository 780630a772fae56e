//! What happened in captures of TCP: flows, round trips, packets, and why segments were sent again.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`model`] | the results, as plain data |
//! | [`mod@histogram`] | bounded counts of values |
#![forbid(unsafe_code)]

pub mod diagnosis;
pub mod histogram;
pub mod model;

pub use histogram::{Bucket, Histogram};
pub use model::{
    Analysis, Diagnose, Direction, Event, EventKind, Evidence, Finding, Flow, PacketRow, Round,
    Severity, Whole,
};

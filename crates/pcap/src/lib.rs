//! What happened in captures of TCP: flows, round trips, packets, and why segments were retransmitted.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`model`] | the results, as plain data |
//! | [`analysis`] | files in, results out |
//! | [`mod@histogram`] | bounded counts of values |
//! | `input` | files, their compression, and which interfaces are one point |
//! | `table`, `live` | connections that are going on, found by their addresses; their handshakes and numbers |
//! | `data`, `rounds`, `bursts`, `spans`, `ranges` | one direction's data: what is in flight, its round trips, its bursts, its rate, its SACKs |
//! | `repeats` | late or retransmitted, and why |
//! | `stamps` | IP identifications and timestamps of a sender |
//! | `echo`, `family` | kinds of receivers and senders |
//! | `crossings` | the same packets at two points |
//! | [`mod@text`], [`csv`] | results to be read, by people and by programs |
//! | `keep`, `rows` | what is kept of flows and packets |
//!
//! Memory is bounded by the connections that are going on: each has the segments that are in flight, and results of bounded size.
#![forbid(unsafe_code)]

pub mod analysis;
mod bursts;
mod crossings;
pub mod csv;
mod data;
pub mod diagnosis;
mod echo;
mod family;
pub mod first_difference;
pub mod histogram;
mod input;
mod keep;
mod live;
pub mod model;
mod ranges;
mod repeats;
mod rounds;
mod rows;
mod spans;
mod stamps;
mod table;
pub mod text;

pub use analysis::{AnalysisOptions, analyse};
pub use csv::Csv;
pub use histogram::{Bucket, Histogram};
pub use input::Input;
pub use knee_wire::Error;
pub use model::{
    Analysis, Direction, Event, EventKind, Evidence, Finding, Flow, PacketRow, Round, Severity,
    Whole,
};
pub use text::{Show, text};

//! Is the simulator true? It reruns the reference cases and says where they differ.
//!
//! The reference (`tests/reference`) is the real TCP stack of Linux 6.1 in virtual time. For each of its
//! cases whose algorithm exists, [`cases`] builds the same network and traffic, [`pool`] simulates it
//! with the reference's own start times and more seeds, and [`compare`] holds run-level values
//! against each other: the difference of means within 5 % or its own 95 % interval, shares per mode
//! where completions have two, series sample by sample once aligned ([`align`]). [`report`] prints it.
#![forbid(unsafe_code)]

pub mod align;
pub mod case;
pub mod cases;
pub mod compare;
mod error;
pub mod exceptions;
pub mod pool;
pub mod random;
pub mod reference;
pub mod report;
pub mod setup;
pub mod stats;

pub use error::Error;

/// The project's copy of the reference data.
pub const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reference");
/// The list of known exceptions.
pub const EXCEPTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/exceptions.toml");

//! Experiments on a Linux kernel in virtual time.
//!
//! A run is one process: a User Mode Linux kernel whose clock stands still while anything computes. Its network
//! namespaces are hosts and switches. Its devices are cables with a rate and a delay. Queues are the kernel's own
//! queue disciplines, and TCP is the kernel's.
//!
//! A run needs no privileges. Nothing else on the machine can disturb it, and the same seed gives the same bytes.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`run`] | one run from beginning to end |
//! | [`plan`] | turns a run into namespaces, devices, routes, queues, applications; reports what the kernel lacks |
//! | [`guest`] | orders to a guest and records from it |
//! | [`kernel`] | builds a kernel for guests from a source tree, in the user's cache |
//! | [`boot`](mod@boot) | starts and ends a guest's process |
#![forbid(unsafe_code)]

extern crate alloc;

mod back_end;
pub mod boot;
mod captures;
mod files;
pub mod guest;
pub mod kernel;
mod outcome;
pub mod plan;
mod records;
mod run;
#[cfg(test)]
mod testing;

pub use back_end::Kernels;
pub use knee_linux::Algorithms;
pub use knee_run::Error;
use knee_run::error;
pub use run::{Options, console, run};

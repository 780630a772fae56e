//! Experiments on a Linux kernel in virtual time.
//!
//! A run is one process: a User Mode Linux kernel whose clock stands still while anything computes. Hosts and switches are network
//! namespaces in it, cables are devices with a rate and a delay, queues are the kernel's own queue disciplines, and TCP is the
//! kernel's. It takes no rights, nothing else on the machine can disturb it, and the same seed gives the same bytes.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`run`] | one run from beginning to end |
//! | [`plan`] | what a run becomes: namespaces, devices, routes, queues, applications; what the kernel cannot do |
//! | [`guest`] | what a guest is told and what it tells |
//! | [`kernel`] | a kernel for guests: from a source tree to the user's cache |
//! | [`boot`](mod@boot) | a guest's process |
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
pub use run::{Options, run};

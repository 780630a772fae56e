//! An approximation of large fabrics: each link is simulated alone, and the delays of a path's links are added.
//!
//! The idea is Parsimon's (Zhao et al., "Scalable Tail Latency Estimation for Data Center Networks", NSDI 2023). Each
//! directed link that carries flows is a small run of [`knee_sim`]: all its flows with their sizes, start times and Linux
//! TCP, each behind its host's own link; the other links of their paths are delays without congestion. How much
//! longer a flow takes there than alone is its delay at this link. The delays of a link are kept by flow size. A flow's
//! completion time over its whole path is its time alone plus one random draw per link.
//!
//! What is lost: congestion at one link does not change what arrives at the next, delays of a flow at its links are
//! independent, and ACKs meet no data.
//!
//! | item | what it has |
//! | --- | --- |
//! | [`Links`] | the approximation as a back end |
//! | [`approximate`] | one run, and what it took |
#![forbid(unsafe_code)]

mod alone;
mod back_end;
mod cluster;
mod delays;
mod link;
mod parallel;
mod paths;
mod random;
mod refuse;
mod run;

pub use back_end::{ERROR, Links};
pub use run::{Effort, Options, approximate};

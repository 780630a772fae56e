//! An approximation of large fabrics: each link is simulated alone, twice, and the times of a path's links are put together.
//!
//! The idea is Parsimon's (Zhao et al., "Scalable Tail Latency Estimation for Data Center Networks", NSDI 2023). Each
//! directed link that carries flows is a small run of [`knee_sim`]: all its flows with their sizes, start times and Linux
//! TCP, each behind its host's own link; the other links of their paths are delays without congestion. Parsimon stops here
//! and adds the delays of a path's links. In a second round a flow that another link holds up is paced accordingly. A flow's
//! completion time is its time alone, what its bottleneck costs, and what the others add to that.
//!
//! What is lost: bursts behind a bottleneck, that equal links in a row have one queue together, and all ACKs but the SYN-ACK.
//!
//! | item | what it has |
//! | --- | --- |
//! | [`Links`] | the approximation as a back end |
//! | [`approximate`] | one run, and what it took |
//! | [`Paths`] | the links of each flow of a run |
#![forbid(unsafe_code)]

mod alone;
mod back_end;
mod known;
mod link;
mod links;
mod parallel;
mod paths;
mod random;
mod refuse;
mod run;
mod said;

pub use back_end::{ERROR, Links};
pub use paths::Paths;
pub use run::{Effort, Options, approximate};

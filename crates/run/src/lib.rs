//! What a run is, and what came of it, whatever carries it out.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`spec`] | a [`Run`], plain data that says everything |
//! | [`topology`] | networks of the usual shapes |
//! | [`validate`](fn@validate) | refuses runs that contradict themselves |
//! | [`routes`], [`addresses`], [`turns`], [`flow_control`] | what follows from a run: paths, addresses and ports, who waits for whom, what is stopped |
//! | [`Ideal`] | the least time that a transfer can take |
//! | [`outcome`] | the records of a run |
//! | [`BackEnd`] | what carries runs out: the simulator, the lab, real machines, a kernel in virtual time |
//! | [`enum@Error`] | why there is no outcome |
#![forbid(unsafe_code)]

pub mod addresses;
pub mod back_end;
pub mod error;
pub mod flow_control;
mod headroom;
mod ideal;
pub mod outcome;
mod receiving;
pub mod routes;
pub mod spec;
mod sysctls;
pub mod topology;
pub mod turns;
mod validate;

pub use back_end::{Ask, BackEnd, Capabilities, Ran};
pub use error::Error;
pub use ideal::Ideal;
pub use outcome::Outcome;
pub use spec::Run;
pub use validate::run as validate;

//! The traffic program ([`knee_traffic`]) on this machine's kernel.
//!
//! [`prepare`] opens everything, [`Program::run`] does it; where sockets and algorithms come from is for [`Surroundings`] to say.
//! Plans and reports also pass between machines ([`agent`]).

pub mod agent;
pub(crate) mod clock;
mod devices;
mod program;
mod sockets;
mod surroundings;
mod sys;

pub use knee_linux::TcpInfo;
pub use knee_traffic::{
    FlowPlan, Lane, Look, Order, PingPlan, Series, SideReport, Traffic, TrafficPlan, TrafficReport,
};
pub use program::{Program, prepare};
pub use surroundings::{Algorithms, Here, InNamespaces, SocketKind, Surroundings};

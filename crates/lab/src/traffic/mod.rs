//! The traffic program ([`knee_traffic`]) on this machine's kernel.
//!
//! [`prepare`] opens everything, [`Program::run`] does it; [`Environment`] supplies sockets and algorithms.
//! Plans and reports also pass between machines ([`agent`]).

pub mod agent;
pub(crate) mod clock;
mod devices;
mod environment;
mod program;
mod sockets;
mod sys;

pub use environment::{Algorithms, Environment, Here, InNamespaces, SocketKind};
pub use knee_linux::TcpInfo;
pub use knee_traffic::{
    FlowPlan, Look, PingPlan, Schedule, Sequence, Series, SideReport, Traffic, TrafficPlan,
    TrafficReport,
};
pub use program::{Program, prepare};

//! Linux hosts as the back ends see them that have real ones: what a host is told of its configuration, and how what it tells becomes
//! records in the simulator's shape.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`algorithms`] | whose the names of algorithms mean, and what each end of a connection has |
//! | [`sysctls`] | settings below `/proc/sys/net` |
//! | [`TcpInfo`] | `struct tcp_info`, as long or short as a kernel has it |
//! | [`applications`] | the applications of a run, as a traffic program is told them and as it tells what came of them |
//! | [`side`] | one side of a connection, and a flow of two of them |
//! | [`counts`] | what a host counts of all its connections |
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod applications;
pub mod counts;
pub mod side;
pub mod sysctls;
mod tcp_info;

pub use algorithms::{Algorithms, Chosen};
use knee_run::Error;
pub use tcp_info::TcpInfo;

//! The lab: a run on the running kernel's TCP.
//!
//! Hosts are network namespaces without names. Each has one veth device, whose far end is in the namespace of the switch: a thread
//! of this process that takes frames from all of them and carries them through the network of the run, with the links and queues
//! of the simulator ([`knee_sim::fabric`]), in real time. Another thread is the hosts' applications.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`run`] | one run from beginning to end |
//! | [`Lab`] | runs one after the other, as a back end of experiments |
//! | [`plan`] | the plan of a run: hosts with addresses and egress shapers, the switch's network |
//! | [`site`] | namespaces, devices, shapers, routes, sysctls, offloads |
//! | [`switch`] | frames in and out, the network in real time, lateness |
//! | [`traffic`] | the applications: transfers, exchanges, pings, samples of `TCP_INFO` |
//! | [`calibrate`] | latency and throughput of the lab on this machine |
//! | [`hosts`] | real machines in the place of namespaces: the file that names them, and a run on them over ssh |
//!
//! Nothing has a name on the host and nothing is pinned: namespaces, devices and algorithms are held by this process and go with
//! it, in whatever way it ends.

mod algorithms;
mod back_end;
mod calibrate;
mod cpus;
pub mod hosts;
mod outcome;
pub mod plan;
mod run;
pub mod site;
pub mod switch;
pub mod traffic;
mod validity;

pub use back_end::Lab;
pub use calibrate::{Calibration, calibrate};
pub use knee_linux::Algorithms;
pub use knee_run::Error;
use knee_run::error;
pub use run::{HostSettings, LabOptions, LabRun, run};

//! Turns a run into a guest: namespaces, devices, routes, queues and applications. It also reports what the kernel
//! cannot do.
//!
//! Every host and every switch is a namespace. Every cable is two devices. Each has the queue, rate and delay of the
//! link that leaves there. Packets wait in the kernel's own queue disciplines, and delays are at the same places as
//! in the simulator.

mod applications;
mod differences;
mod host;
mod network;
mod queues;
mod routes;

use knee_linux::{Algorithms, Chosen};
use knee_queue::ETHERNET_BYTES;
use knee_run::Run;
use knee_run::spec::{LinkId, NodeId};
use knee_run::support::{self, On};

use crate::Error;
use crate::files::OwnFile;
use crate::guest::Orders;

pub use differences::differences;
pub use queues::Discipline;
pub(crate) use queues::{Figures, figures};

/// A run as a guest carries it out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Orders for the guest.
    pub orders: Orders,
    /// Module parameters, for the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Users' files to build as modules first, in the order of `orders.modules`.
    pub files: Vec<OwnFile>,
    /// The hosts' nodes. Their namespaces are numbered from 0 in this order.
    pub hosts: Vec<NodeId>,
    /// Queues to read, in the order of `orders.queues`.
    pub queues: Vec<SampledQueue>,
    /// Algorithms of both ends of each flow.
    pub chosen: Chosen,
}

/// A link whose queue is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledQueue {
    /// Index of the link in the run.
    pub link: LinkId,
    /// Index of the class. `None` means the whole queue.
    pub part: Option<u32>,
    /// The discipline, which gives the figures their meaning.
    pub discipline: Discipline,
    /// Whether the results include this queue. Otherwise it only counts towards its shared memory.
    pub is_reported: bool,
}

impl Plan {
    /// Turns a run into a plan for a kernel of this version.
    ///
    /// # Errors
    /// Names what the kernel cannot do, and the alternative.
    pub fn new(run: &Run, algorithms: Algorithms, version: &str) -> Result<Plan, Error> {
        knee_run::validate(run)?;
        support::check(run, On::Vkernel)?;
        let network = &run.network;
        for node in &network.nodes {
            if let Some(config) = &node.host {
                host::check(config, version)
                    .map_err(|why| Error::Refused(format!("{}: {why}", node.name)))?;
            }
        }
        let mut plan = Plan {
            orders: Orders::default(),
            kernel_arguments: Vec::new(),
            files: Vec::new(),
            hosts: Vec::new(),
            queues: Vec::new(),
            chosen: Chosen::default(),
        };
        let built = network::build(network)?;
        plan.orders.namespaces = network.nodes.len() as u32;
        plan.orders.hosts = built.hosts.len() as u32;
        plan.orders.steps = built.steps;
        plan.orders.queues = built.queue_orders;
        plan.hosts = built.hosts;
        plan.queues = built.queues;
        applications::add(run, algorithms, &built.namespaces, &mut plan)?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;

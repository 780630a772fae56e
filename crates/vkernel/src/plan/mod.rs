//! What a run becomes in a guest: namespaces, devices, routes, queues, applications; and what the kernel cannot do.
//!
//! Every host and every switch is a namespace. Every cable is two devices, each with the queue, the rate and the delay of the link
//! that leaves there: what waits, waits in the kernel's own queue disciplines, and delays are where the simulator has them.

mod applications;
mod differences;
mod host;
mod lack;
mod network;
mod queues;
mod routes;

use knee_linux::{Algorithms, Chosen};
use knee_queue::ETHERNET_BYTES;
use knee_run::Run;
use knee_run::spec::{LinkId, NodeId};

use crate::Error;
use crate::files::OwnFile;
use crate::guest::Orders;

pub use differences::differences;
pub use queues::Discipline;
pub(crate) use queues::{Figures, figures};

/// Namespaces that fit: each takes some hundreds of kilobytes and tens of milliseconds.
const MAX_NODES: usize = 2000;

/// A run, turned into a guest.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the guest is told.
    pub orders: Orders,
    /// Parameters of modules, as on a kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Algorithms that become modules first, in the order of the orders' modules.
    pub files: Vec<OwnFile>,
    /// Nodes of the hosts, which have the namespaces from 0 on.
    pub hosts: Vec<NodeId>,
    /// What is looked at, in the order of the orders' queues.
    pub queues: Vec<SampledQueue>,
    /// The algorithms of both ends of each flow.
    pub chosen: Chosen,
}

/// A link whose queue is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledQueue {
    /// Index of the link in the run.
    pub link: LinkId,
    /// Of which of its classes; `None`: it has none.
    pub part: Option<u32>,
    /// What its figures mean.
    pub discipline: Discipline,
    /// Whether it is in the results, and not only in those of a memory that it is in.
    pub is_reported: bool,
}

impl Plan {
    /// Turns a run into a plan for a kernel of this version.
    ///
    /// # Errors
    /// What the kernel cannot do, with the way out.
    pub fn new(run: &Run, algorithms: Algorithms, version: &str) -> Result<Plan, Error> {
        knee_run::validate(run)?;
        let network = &run.network;
        if network.nodes.len() > MAX_NODES {
            return Err(Error::Refused(format!(
                "{} hosts and switches: a guest has room for {MAX_NODES}; make the network smaller, or use --on sim",
                network.nodes.len()
            )));
        }
        if let Some(memory) = network.buffers.iter().find(|memory| memory.law.size_bytes >> 32 > 0)
        {
            return Err(Error::Refused(format!(
                "{}: a guest's switches have memories below 4 GiB; make network.buffer smaller, or use --on sim",
                memory.name
            )));
        }
        if network.flow_control.is_some() {
            return Err(Error::Refused(
                "network.flow_control: devices of the guest's kernel do not pause; leave it out, or use --on sim".to_owned(),
            ));
        }
        if !network.ports.is_empty() {
            return Err(Error::Refused(
                "network.coalesce: a guest's switches forward each packet as it comes; leave it out, or use --on sim or --on lab"
                    .to_owned(),
            ));
        }
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

//! Turns a run into a guest: namespaces, devices, routes, queues and applications. It also reports what the kernel
//! cannot do.
//!
//! Every host and every switch is a namespace. Every cable is two devices. Each has the queue, rate and delay of the
//! link that leaves there. Packets wait in the kernel's own queue disciplines, and delays are at the same places as
//! in the simulator.

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

/// Largest number of namespaces. Each takes some hundreds of kilobytes and tens of milliseconds.
const MAX_NODES: usize = 2000;

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
        knee_run::without_tasks(run)?;
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
        network.without_changes("a guest's kernel")?;
        if !network.balance.is_empty() {
            return Err(Error::Refused(
                "network.balance: a guest's switches give each flow one path; leave it out, or use --on sim".to_owned(),
            ));
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

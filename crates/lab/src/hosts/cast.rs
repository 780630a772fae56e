//! Which machine has which part of a run, and what it calls the algorithms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_bpf::Embedded;
use knee_linux::algorithms::kernels_own;
use knee_linux::applications::{self, HostAddress};
use knee_run::Run;
use knee_run::spec::{Cc, HostConfig, NodeId};

use super::Machines;
use crate::Error;
use crate::algorithms::base_rtts_us;
use crate::applications::check;
use crate::traffic::agent::{BaseRtt, Order, Preparation, ToLoad, to_hex};
use crate::traffic::clock;

/// What machines are sent of an algorithm that is of a file: they have no compiler, nor the file.
///
/// # Errors
/// Why it cannot be had in a kernel.
fn object(cc: &Cc) -> Result<Option<&'static Embedded>, Error> {
    let of_file = cc.algorithm.module().map(|_| Embedded::of_algorithm(cc.algorithm));
    of_file.transpose().map_err(|why| Error::Refused(why.to_string()))
}

/// A run, dealt out to machines.
pub(super) struct Cast<'a> {
    run: &'a Run,
    machines: &'a Machines,
    /// Machine of each host of the network.
    of_nodes: HashMap<NodeId, usize>,
    /// What flows use; the place of an algorithm here is in its name.
    algorithms: Vec<&'a Cc>,
    /// Begins the names that kernels have for them.
    prefix: String,
}

impl<'a> Cast<'a> {
    /// Deals it out.
    ///
    /// # Errors
    /// Hosts that no machine is, machines that are no host, and traffic that would not leave its machine.
    pub(super) fn new(run: &'a Run, machines: &'a Machines) -> Result<Cast<'a>, Error> {
        let hosts = run.network.nodes.iter().zip(0..).filter(|(node, _)| node.host.is_some());
        let hosts: Vec<(&str, NodeId)> = hosts.map(|(node, id)| (&*node.name, id)).collect();
        machines.check(&hosts.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let by_role = machines.by_role();
        let of_nodes =
            hosts.iter().filter_map(|(name, id)| Some((*id, *by_role.get(name)?))).collect();
        let prefix = prefix();
        let mut cast = Cast { run, machines, of_nodes, algorithms: Vec::new(), prefix };
        cast.check_ways()?;
        check(run)?;
        check_order(run)?;
        check_framing(run)?;
        for cc in
            run.flows.iter().flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()]).flatten()
        {
            let name = cc.algorithm.name();
            // What is wrong with a file is said before a machine is asked for anything.
            object(cc)?;
            if cc.is_kernels_own {
                return Err(Error::Refused(format!(
                    "kernel:{name}: machines get knee's algorithms; leave out \"kernel:\", or use --on lab"
                )));
            }
            if cast.place_of(cc).is_none() {
                cast.algorithms.push(cc);
            }
        }
        Ok(cast)
    }

    fn check_ways(&self) -> Result<(), Error> {
        let flows = self.run.flows.iter().map(|flow| (flow.from, flow.to));
        let pings = self.run.pings.iter().map(|ping| (ping.from, ping.to));
        let within = |(from, to): &(NodeId, NodeId)| {
            let from = self.of_nodes.get(from);
            from.is_some() && from == self.of_nodes.get(to)
        };
        let Some((from, to)) = flows.chain(pings).find(within) else { return Ok(()) };
        let name = |node: NodeId| &self.run.network.nodes[node as usize].name;
        let machine = &self.machines.machines[self.of_nodes[&from]].name;
        Err(Error::Refused(format!(
            "{}: traffic from {} to {} would not leave machine {machine}, which is both: give one of these roles to another \
             machine",
            self.machines.file.display(),
            name(from),
            name(to)
        )))
    }

    fn place_of(&self, cc: &Cc) -> Option<usize> {
        self.algorithms.iter().position(|other| {
            std::ptr::eq(other.algorithm, cc.algorithm) && other.params == cc.params
        })
    }

    /// What one machine prepares.
    ///
    /// # Errors
    /// Traffic that nobody can carry.
    pub(super) fn preparation(&self, machine: usize) -> Result<Order, Error> {
        let at = |node| {
            let of_node = *self.of_nodes.get(&node)?;
            let address = self.machines.machines[of_node].address;
            Some(HostAddress { number: (of_node == machine).then_some(0), address })
        };
        let algorithm = |flow, listens| self.name_on(machine, flow, listens);
        let mut plan = applications::plan(self.run, &at, &algorithm)?;
        // When all is done is known here alone, and all end together.
        plan.until_done = false;
        let sides = plan.flows.iter().flat_map(|flow| {
            let held = [(flow.from, false), (flow.to, true)];
            let held = held.into_iter().filter(|(number, _)| number.is_some());
            held.map(|(_, listens)| (flow.flow, listens))
        });
        let sides: Vec<(u32, bool)> = sides.collect();
        let base_rtts_us = base_rtts_us(self.run);
        let base_rtts = sides.iter().filter_map(|(flow, listens)| {
            let base_rtt_us = *base_rtts_us.get(&(*flow, *listens))?;
            Some(BaseRtt { flow: *flow, listens: *listens, base_rtt_us })
        });
        let wanted = |(place, cc): (usize, &&Cc)| {
            let is_used = sides.iter().any(|(flow, listens)| {
                self.place_of(self.cc(*flow as usize, *listens)) == Some(place)
            });
            is_used.then(|| self.to_load(machine, place, cc))
        };
        Ok(Order::Prepare(Box::new(Preparation {
            algorithms: self
                .algorithms
                .iter()
                .enumerate()
                .filter_map(wanted)
                .collect::<Result<_, Error>>()?,
            base_rtts: base_rtts.collect(),
            plan,
        })))
    }

    fn to_load(&self, machine: usize, place: usize, cc: &Cc) -> Result<ToLoad, Error> {
        let params = cc.algorithm.params().iter().zip(cc.params.values());
        Ok(ToLoad {
            kernel_name: self.kernel_name(machine, place),
            name: cc.algorithm.name().to_owned(),
            object: object(cc)?.map(|embedded| to_hex(embedded.object())),
            params: params
                .map(|(param, value)| format!("{}={}", param.name, param.show(*value)))
                .collect(),
        })
    }

    fn cc(&self, flow: usize, listens: bool) -> &Cc {
        let flow = &self.run.flows[flow];
        flow.peer_cc.as_ref().filter(|_| listens).unwrap_or(&flow.cc)
    }

    fn name_on(&self, machine: usize, flow: usize, listens: bool) -> String {
        let place = self.place_of(self.cc(flow, listens));
        place.map_or_else(String::new, |place| self.kernel_name(machine, place))
    }

    /// Each machine has its own: two may be one kernel.
    fn kernel_name(&self, machine: usize, place: usize) -> String {
        format!("{}{machine}_{place}", self.prefix)
    }

    /// As experiments call what a kernel calls so.
    pub(super) fn own_name(&self, kernel_name: &str) -> &'static str {
        let place = kernel_name.strip_prefix(&self.prefix).and_then(|rest| rest.split_once('_'));
        let place = place.and_then(|(_, place)| place.parse::<usize>().ok());
        match place.and_then(|place| self.algorithms.get(place)) {
            Some(cc) => cc.algorithm.name(),
            None => kernels_own(kernel_name),
        }
    }

    /// Whether a machine will say that all is done which ends by itself and whose end it sees.
    pub(super) fn says_done(&self, machine: usize) -> bool {
        self.run.flows.iter().any(|flow| {
            let seen_by = if flow.traffic.is_rpc() { flow.from } else { flow.to };
            flow.traffic.ends() && self.of_nodes[&seen_by] == machine
        })
    }

    /// What the experiment asks of the hosts that a machine is: name and configuration.
    pub(super) fn configs(&self, machine: usize) -> impl Iterator<Item = &'a HostConfig> {
        let nodes = self.run.network.nodes.iter().zip(0..);
        let of_nodes = &self.of_nodes;
        nodes.filter_map(move |(node, id)| {
            node.host.as_ref().filter(|_| of_nodes.get(&id) == Some(&machine))
        })
    }
}

/// What one machine does when another is done would take a word from one to the other.
fn check_order(run: &Run) -> Result<(), Error> {
    if run.order.series.is_empty() && run.order.together.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(
        "transfers that wait for others (shuffles, queries, rounds without \"every\"): no machine tells another what is done; give \
         rounds times with every, or use --on lab or --on sim"
            .to_owned(),
    ))
}

/// What goes around frames is the machines' own links' affair.
fn check_framing(run: &Run) -> Result<(), Error> {
    let Some(link) = run.network.links.iter().find(|link| link.overhead_bytes > 0) else {
        return Ok(());
    };
    Err(Error::Refused(format!(
        "link {}: overhead is what the simulator's links, the lab's and those in virtual time add to a frame, and those of machines have \
         their own; leave it out, or use --on lab or --on sim",
        link.name
    )))
}

/// One that no other knee uses at this time, short enough for the kernel's 15 bytes with what follows: three digits of a
/// machine, `_`, and two of an algorithm.
fn prefix() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = u64::from(NUMBER.fetch_add(1, Ordering::Relaxed));
    let mixed = (clock::now_ns() / 1000)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(std::process::id()) << 40)
        .wrapping_add(number << 40);
    format!("kh{:06x}m", mixed >> 40)
}

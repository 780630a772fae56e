//! The part of each machine in a run, and the kernel names of its algorithms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_bpf::Embedded;
use knee_linux::algorithms::kernels_own;
use knee_linux::applications::{self, HostAddress};
use knee_run::Run;
use knee_run::spec::{Cc, HostConfig, NodeId};
use knee_run::support::{self, On};

use super::Machines;
use crate::Error;
use crate::algorithms::base_rtts_us;
use crate::traffic::agent::{AgentCommand, BaseRtt, Preparation, ToLoad, to_hex};
use crate::traffic::clock;

/// The compiled object of an algorithm from a file: machines have neither compiler nor file.
///
/// # Errors
/// If it does not compile for the kernel.
fn object(cc: &Cc) -> Result<Option<&'static Embedded>, Error> {
    let of_file = cc.algorithm.module().map(|_| Embedded::of_algorithm(cc.algorithm));
    of_file.transpose().map_err(|why| Error::Refused(why.to_string()))
}

/// Assignment of a run's hosts to machines.
pub(super) struct Roles<'a> {
    run: &'a Run,
    machines: &'a Machines,
    /// Machine of each host of the network.
    of_nodes: HashMap<NodeId, usize>,
    /// Algorithms of the flows; the index here is part of the kernel name.
    algorithms: Vec<&'a Cc>,
    /// Prefix of the kernel names.
    prefix: String,
}

impl<'a> Roles<'a> {
    /// Assigns hosts to machines.
    ///
    /// # Errors
    /// If a host has no machine, a machine no host, or traffic would stay within one machine.
    pub(super) fn new(run: &'a Run, machines: &'a Machines) -> Result<Roles<'a>, Error> {
        let hosts = run.network.nodes.iter().zip(0..).filter(|(node, _)| node.host.is_some());
        let hosts: Vec<(&str, NodeId)> = hosts.map(|(node, id)| (&*node.name, id)).collect();
        machines.check(&hosts.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let by_role = machines.by_role();
        let of_nodes =
            hosts.iter().filter_map(|(name, id)| Some((*id, *by_role.get(name)?))).collect();
        let prefix = prefix();
        let mut roles = Roles { run, machines, of_nodes, algorithms: Vec::new(), prefix };
        roles.check_ways()?;
        support::check(run, On::Hosts)?;
        for (name, id) in &hosts {
            let Some(config) = run.network.nodes[*id as usize].host.as_deref() else { continue };
            let machine = by_role.get(name).map(|machine| &machines.machines[*machine]);
            if let Some(machine) = machine.filter(|it| config.ipv6 && it.address.is_ipv4()) {
                return Err(Error::Refused(format!(
                    "{name}: ipv6 = true, but the address of machine {} is {}: leave ipv6 out, or give the machines IPv6 addresses",
                    machine.name, machine.address
                )));
            }
        }
        for cc in
            run.flows.iter().flat_map(|flow| [Some(&flow.cc), flow.peer_cc.as_ref()]).flatten()
        {
            // Reports a bad file before any machine is contacted.
            object(cc)?;
            if roles.place_of(cc).is_none() {
                roles.algorithms.push(cc);
            }
        }
        Ok(roles)
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
            "{}: traffic from {} to {} would stay within machine {machine}, which has both roles: give one of them to another \
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

    /// The preparation of one machine.
    ///
    /// # Errors
    /// If the traffic is impossible.
    pub(super) fn preparation(&self, machine: usize) -> Result<AgentCommand, Error> {
        let at = |node| {
            let of_node = *self.of_nodes.get(&node)?;
            let address = self.machines.machines[of_node].address;
            Some(HostAddress { number: (of_node == machine).then_some(0), address })
        };
        let algorithm = |flow, listens| self.name_on(machine, flow, listens);
        let mut plan = applications::plan(self.run, &at, &algorithm)?;
        // Only this machine knows when all is done, and stops all together.
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
        Ok(AgentCommand::Prepare(Box::new(Preparation {
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

    /// The name differs per machine, since two machines may share one kernel.
    fn kernel_name(&self, machine: usize, place: usize) -> String {
        format!("{}{machine}_{place}", self.prefix)
    }

    /// The name in experiments of the algorithm with this kernel name.
    pub(super) fn own_name(&self, kernel_name: &str) -> &'static str {
        let place = kernel_name.strip_prefix(&self.prefix).and_then(|rest| rest.split_once('_'));
        let place = place.and_then(|(_, place)| place.parse::<usize>().ok());
        match place.and_then(|place| self.algorithms.get(place)) {
            Some(cc) => cc.algorithm.name(),
            None => kernels_own(kernel_name),
        }
    }

    /// Whether a machine sends [`Answer::Done`](crate::traffic::agent::Answer::Done): it sees the end of a finite transfer.
    pub(super) fn says_done(&self, machine: usize) -> bool {
        self.run.flows.iter().any(|flow| {
            let seen_by = if flow.traffic.is_rpc() { flow.from } else { flow.to };
            flow.traffic.ends() && self.of_nodes[&seen_by] == machine
        })
    }

    /// Configurations of the hosts that a machine plays.
    pub(super) fn configs(&self, machine: usize) -> impl Iterator<Item = &'a HostConfig> {
        let nodes = self.run.network.nodes.iter().zip(0..);
        let of_nodes = &self.of_nodes;
        nodes.filter_map(move |(node, id)| {
            node.host.as_deref().filter(|_| of_nodes.get(&id) == Some(&machine))
        })
    }
}

/// Prefix that no other knee uses at this time. It fits the kernel's 15 bytes together with three digits of a machine,
/// `_`, and two digits of an algorithm.
fn prefix() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = u64::from(NUMBER.fetch_add(1, Ordering::Relaxed));
    let mixed = (clock::now_ns() / 1000)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(std::process::id()) << 40)
        .wrapping_add(number << 40);
    format!("kh{:06x}m", mixed >> 40)
}

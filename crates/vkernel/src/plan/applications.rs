//! What applications do, and under which algorithms.

use std::collections::BTreeMap;

use knee_linux::algorithms::{Kernel, base_rtt, check_not_of_file, check_ports};
use knee_linux::applications::{self, At};
use knee_linux::{Algorithms, Chosen};
use knee_run::Run;
use knee_run::addresses::connecting_port;
use knee_run::kernels_own::OF_LINUX;
use knee_run::spec::{Cc, NodeId};

use super::Plan;
use super::network::host_address;
use crate::Error;

/// Flows whose listening sides can each have a port of their own.
const MAX_FLOWS: usize = 25_000;

/// Adds the applications of a run.
///
/// # Errors
/// What the guest's applications do not do, and algorithms that its kernel does not have.
pub(super) fn add(
    run: &Run,
    algorithms: Algorithms,
    namespaces: &[u32],
    plan: &mut Plan,
) -> Result<(), Error> {
    check_ports(run, MAX_FLOWS)?;
    let mut built_in = BuiltIn::default();
    let chosen = Chosen::new(run, algorithms, &mut built_in)?;
    let at = |node: NodeId| {
        let namespace = namespaces[node as usize];
        let address = host_address(namespace as usize).into();
        Some(At { number: Some(namespace), address })
    };
    let algorithm = |flow, listens| chosen.name(flow, listens).to_owned();
    let mut traffic = applications::plan(run, &at, &algorithm)?;
    traffic.sample_queues_ns = run.sampling.queues.map(|period| period.ns());
    for (index, (flow, told)) in run.flows.iter().zip(&mut traffic.flows).enumerate() {
        told.from_port = connecting_port(index);
        let ports = [(false, told.from_port), (true, told.port)];
        let base_rtts = ports.into_iter().filter_map(|(listens, port)| {
            let base_rtt = base_rtt(run, flow, listens)?;
            Some((port, u32::try_from(base_rtt.us()).unwrap_or(u32::MAX))).filter(|told| told.1 > 0)
        });
        let before = plan.orders.base_rtts_us.len();
        plan.orders.base_rtts_us.extend(base_rtts);
        let is_told = plan.orders.base_rtts_us.len() > before;
        if is_told && (told.algorithm == "nv" || told.peer_algorithm == "nv") {
            return Err(Error::Refused(
                "base_rtt: the kernel's own nv asks BPF for it, which guests have not; use knee's nv, or leave it out".to_owned(),
            ));
        }
    }
    for (ping, told) in run.pings.iter().zip(&traffic.pings) {
        if let Some(why) = told.fault() {
            let bytes = ping.wire_bytes;
            return Err(Error::Refused(format!(
                "pings of {bytes} bytes with Ethernet's header: {why}"
            )));
        }
    }
    plan.orders.traffic = traffic;
    plan.kernel_arguments = built_in.arguments();
    plan.chosen = chosen;
    Ok(())
}

/// What is built into a guest's kernel, of what a run uses. A module's parameters are of all its connections.
#[derive(Default)]
struct BuiltIn(BTreeMap<&'static str, Cc>);

impl Kernel for BuiltIn {
    fn bring(&mut self, cc: &Cc) -> Result<String, Error> {
        let name = cc.algorithm.name();
        check_not_of_file(
            cc,
            "a kernel in virtual time has the algorithms that it was built with: use --on lab, or --on sim, or put it into algorithms/ and \
             run knee vkernel build",
        )?;
        let known = self.0.entry(name).or_insert_with(|| cc.clone());
        if known.params != cc.params {
            return Err(Error::Refused(format!(
                "flows under {name} with different parameters: in a kernel all of them have the same; give one set, or use --on sim"
            )));
        }
        Ok(format!("knee_{name}"))
    }

    fn has_own(&self, name: &str) -> Result<(), Error> {
        if OF_LINUX.contains(&name) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "the guest's kernel has no {name} of its own, only {}: use knee's, which is what experiments mean by default",
            OF_LINUX.join(", ")
        )))
    }
}

impl BuiltIn {
    /// Parameters that are not the default ones, for the kernel's command line.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (name, cc) in &self.0 {
            let default = cc.algorithm.default_params();
            let values = cc.params.values().iter().zip(default.values());
            for (info, (value, default)) in cc.algorithm.params().iter().zip(values) {
                if value != default {
                    arguments.push(format!("knee_{name}.{}={value}", info.name));
                }
            }
        }
        arguments
    }
}

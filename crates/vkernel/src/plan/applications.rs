//! Plans the applications of a run and their algorithms.

use std::collections::BTreeMap;

use knee_linux::algorithms::{Kernel, base_rtt};
use knee_linux::applications::{self, HostAddress};
use knee_linux::{Algorithms, Chosen};
use knee_run::Run;
use knee_run::addresses::connecting_port;
use knee_run::kernels_own::OF_LINUX;
use knee_run::spec::{Cc, NodeId};

use super::Plan;
use super::network::host_address;
use crate::Error;
use crate::files::OwnFile;
use crate::guest::ModuleOrder;

/// Adds the applications of a run to the plan.
///
/// # Errors
/// Fails if the guest's applications cannot do something, or if its kernel lacks an algorithm.
pub(super) fn add(
    run: &Run,
    algorithms: Algorithms,
    namespaces: &[u32],
    plan: &mut Plan,
) -> Result<(), Error> {
    let mut built_in = BuiltIn::default();
    let chosen = Chosen::new(run, algorithms, &mut built_in)?;
    let at = |node: NodeId| {
        let namespace = namespaces[node as usize];
        let address = host_address(namespace as usize).into();
        Some(HostAddress { number: Some(namespace), address })
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
        let is_file = |name: &str| built_in.files.iter().any(|file| file.name == name);
        if is_told && (is_file(&told.algorithm) || is_file(&told.peer_algorithm)) {
            return Err(Error::Refused(
                "base_rtt: a file that is put into a guest's kernel is not told it; use --on sim, or leave it out".to_owned(),
            ));
        }
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
    let order = |(number, file): (usize, &OwnFile)| ModuleOrder {
        path: format!("/module{number}"),
        parameters: file.parameters.clone(),
        what: file.path.display().to_string(),
    };
    plan.orders.modules = built_in.files.iter().enumerate().map(order).collect();
    plan.files = built_in.files;
    plan.chosen = chosen;
    Ok(())
}

/// Algorithms of a run that are built into the guest's kernel. A module's parameters apply to all its connections.
#[derive(Default)]
struct BuiltIn {
    known: BTreeMap<&'static str, Cc>,
    /// Users' files that the guest loads as modules.
    files: Vec<OwnFile>,
}

impl Kernel for BuiltIn {
    fn bring(&mut self, cc: &Cc) -> Result<String, Error> {
        let name = cc.algorithm.name();
        if let Some(module) = cc.algorithm.module() {
            let refused = |why| Error::Refused(format!("{}: {why}", module.path().display()));
            module.check_plain().map_err(refused)?;
        }
        let is_new = !self.known.contains_key(name);
        let known = self.known.entry(name).or_insert_with(|| cc.clone());
        if known.params != cc.params {
            return Err(Error::Refused(format!(
                "flows under {name} with different parameters: in a kernel all of them have the same; give one set, or use --on sim"
            )));
        }
        if is_new {
            self.files.extend(OwnFile::of(cc, self.files.len()));
        }
        let is_it = |file: &&OwnFile| {
            cc.algorithm.module().is_some_and(|module| module.path() == file.path)
        };
        let of_file = self.files.iter().find(is_it).map(|file| file.name.clone());
        Ok(of_file.unwrap_or_else(|| format!("knee_{name}")))
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
    /// Returns parameters that differ from their defaults, for the kernel's command line.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (name, cc) in self.known.iter().filter(|(_, cc)| cc.algorithm.module().is_none()) {
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

//! What applications do, and under which algorithms.

use std::collections::BTreeMap;

use knee_run::Run;
use knee_run::addresses::{connecting_port, listening_port};
use knee_run::spec::{Cc, Flow, Lane, NodeId, Ping, Traffic};

use super::network::host_address;
use super::{Algorithms, ETHERNET_BYTES, Plan};
use crate::Error;
use crate::guest::{self, FlowOrder, LaneOrder, PingOrder};

/// Flows whose listening sides can each have a port of their own.
const MAX_FLOWS: usize = 25_000;
/// The kernel's own that guests' kernels have.
const KERNELS_OWN: [&str; 6] = ["reno", "cubic", "bic", "dctcp", "bbr", "nv"];
/// ICMP's and IP's headers.
const LEAST_PING_BYTES: u32 = 28;

/// What experiments call what the kernel calls otherwise.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, &'static str>);

impl Names {
    /// The experiment's name of an algorithm: a connection may have left for another one.
    pub(crate) fn own_name(&self, kernel_name: &str) -> &'static str {
        if let Some(name) = self.0.get(kernel_name) {
            return name;
        }
        let known = KERNELS_OWN.into_iter().chain(["dctcp-reno"]);
        known.into_iter().find(|known| *known == kernel_name).unwrap_or("other")
    }
}

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
    if run.flows.len() > MAX_FLOWS {
        return Err(Error(format!(
            "{} flows: there are ports for {MAX_FLOWS}; leave some out, or use --on sim",
            run.flows.len()
        )));
    }
    let mut chosen = Chosen { algorithms, parameters: BTreeMap::new(), names: Names::default() };
    for (index, flow) in run.flows.iter().enumerate() {
        let order = flow_order(run, index, flow, namespaces, &mut chosen)?;
        plan.orders.flows.push(order);
    }
    for ping in &run.pings {
        plan.orders.pings.push(ping_order(ping, namespaces)?);
    }
    plan.orders.end_ns = run.end.ns();
    plan.orders.until_done = run.until_done;
    plan.orders.sample_flows_ns = run.sampling.flows.map(|period| period.ns());
    plan.orders.sample_goodput_ns = run.sampling.goodput_or_window().map(|period| period.ns());
    plan.orders.sample_queues_ns = run.sampling.queues.map(|period| period.ns());
    plan.orders.window_ns = run.sampling.window.map(|window| [window.from.ns(), window.until.ns()]);
    plan.orders.sets = run.order.together.len() as u32;
    plan.orders.lanes = lanes(run);
    plan.kernel_arguments = chosen.arguments();
    plan.names = chosen.names;
    Ok(())
}

/// Of all rounds of all series.
fn lanes(run: &Run) -> Vec<LaneOrder> {
    let rounds = run.order.series.iter().zip(0..).flat_map(|(series, number)| {
        series.rounds.iter().zip(0..).map(move |(lanes, round)| (number, round, lanes))
    });
    let of_round = |(series, round, lanes): (u32, u32, &Vec<Lane>)| {
        let order = |lane: &Lane| LaneOrder {
            series,
            round,
            parallel: lane.parallel,
            flows: lane.flows.clone(),
        };
        lanes.iter().map(order).collect::<Vec<_>>()
    };
    rounds.flat_map(of_round).collect()
}

fn flow_order(
    run: &Run,
    index: usize,
    flow: &Flow,
    namespaces: &[u32],
    chosen: &mut Chosen,
) -> Result<FlowOrder, Error> {
    let namespace = |node: NodeId| namespaces[node as usize];
    let address = |node: NodeId| host_address(namespace(node) as usize);
    let base_rtt_us = |node: NodeId| {
        let of_host = run.network.nodes[node as usize].host.as_ref().and_then(|host| host.base_rtt);
        let told = flow.base_rtt.or(of_host);
        told.map(|rtt| u32::try_from(rtt.us()).unwrap_or(u32::MAX))
    };
    let set = run.order.together.iter().position(|set| set.contains(&(index as u32)));
    let algorithm = chosen.choose(&flow.cc)?;
    let peer_algorithm = match &flow.peer_cc {
        Some(cc) => chosen.choose(cc)?,
        None => algorithm.clone(),
    };
    let is_told = base_rtt_us(flow.from).or(base_rtt_us(flow.to)).is_some();
    if is_told && (algorithm == "nv" || peer_algorithm == "nv") {
        return Err(Error(
            "base_rtt: the kernel's own nv asks BPF for it, which guests have not; use knee's nv, or leave it out".to_owned(),
        ));
    }
    Ok(FlowOrder {
        start_ns: flow.start.ns(),
        first_write_ns: flow.first_write.map(|at| at.ns()),
        stop_ns: flow.stop.map(|at| at.ns()),
        traffic: match flow.traffic {
            Traffic::Bulk { bytes } => guest::Traffic::Bulk { bytes },
            Traffic::Rpc { request_bytes, response_bytes, count } => {
                guest::Traffic::Rpc { request_bytes, response_bytes, count }
            }
        },
        max_pacing_rate: flow.max_pacing_rate.map(|rate| rate.bps() / 8),
        from: namespace(flow.from),
        to: namespace(flow.to),
        from_port: connecting_port(index),
        to_port: listening_port(index),
        read_at_bytes: flow.read_at_bytes,
        is_sampled: flow.sampled,
        tos: flow.dscp << 2,
        peer_tos: flow.peer_dscp << 2,
        set: set.map(|set| set as u32),
        base_rtt_us: base_rtt_us(flow.from),
        peer_base_rtt_us: base_rtt_us(flow.to),
        from_address: address(flow.from),
        to_address: address(flow.to),
        algorithm,
        peer_algorithm,
    })
}

fn ping_order(ping: &Ping, namespaces: &[u32]) -> Result<PingOrder, Error> {
    let ip_bytes = ping.wire_bytes.saturating_sub(ETHERNET_BYTES);
    if !(LEAST_PING_BYTES..=65_535).contains(&ip_bytes) {
        return Err(Error(format!(
            "pings of {} bytes: with headers they are from {} to 65549",
            ping.wire_bytes,
            LEAST_PING_BYTES + ETHERNET_BYTES
        )));
    }
    Ok(PingOrder {
        start_ns: ping.start.ns(),
        interval_ns: ping.interval.ns(),
        from: namespaces[ping.from as usize],
        ip_bytes,
        tos: ping.dscp << 2 | ping.ecn as u8,
        to_address: host_address(namespaces[ping.to as usize] as usize),
    })
}

/// The algorithms of a run. A module's parameters are of all its connections.
struct Chosen {
    algorithms: Algorithms,
    parameters: BTreeMap<&'static str, Cc>,
    names: Names,
}

impl Chosen {
    /// What the kernel calls it.
    fn choose(&mut self, cc: &Cc) -> Result<String, Error> {
        let name = cc.algorithm.name();
        if cc.algorithm.module().is_some() {
            return Err(Error(format!(
                "{name} was compiled for the simulator, and the guest's kernel does not have it: use --on sim"
            )));
        }
        if self.algorithms == Algorithms::Kernels || cc.is_kernels_own {
            return self.choose_kernels(cc, name);
        }
        let kernel_name = format!("knee_{name}");
        self.names.0.insert(kernel_name.clone(), name);
        let known = self.parameters.entry(name).or_insert_with(|| cc.clone());
        if known.params != cc.params {
            return Err(Error(format!(
                "flows under {name} with different parameters: in a kernel all of them have the same; give one set, or use --on sim"
            )));
        }
        Ok(kernel_name)
    }

    fn choose_kernels(&mut self, cc: &Cc, name: &'static str) -> Result<String, Error> {
        if cc.params != cc.algorithm.default_params() {
            return Err(Error(format!(
                "the kernel's own {name} takes no parameters from an experiment: leave params out, or use knee's {name}"
            )));
        }
        if !KERNELS_OWN.contains(&name) {
            return Err(Error(format!(
                "the guest's kernel has no {name} of its own, only {}: use knee's, which is what experiments mean by default",
                KERNELS_OWN.join(", ")
            )));
        }
        self.names.0.insert(name.to_owned(), name);
        Ok(name.to_owned())
    }

    /// Parameters that are not the default ones, for the kernel's command line.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (name, cc) in &self.parameters {
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

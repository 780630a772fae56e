//! What applications do, and under which algorithms.

use std::collections::BTreeMap;

use knee_linux::algorithms::{KERNELS_OWN, Kernel, base_rtt, check_not_of_file, check_ports};
use knee_linux::{Algorithms, Chosen};
use knee_run::Run;
use knee_run::addresses::{connecting_port, listening_port};
use knee_run::spec::{Cc, Flow, Lane, NodeId, Ping, Traffic};

use super::network::host_address;
use super::{ETHERNET_BYTES, Plan};
use crate::Error;
use crate::guest::{self, FlowOrder, LaneOrder, PingOrder};

/// Flows whose listening sides can each have a port of their own.
const MAX_FLOWS: usize = 25_000;
/// ICMP's and IP's headers.
const LEAST_PING_BYTES: u32 = 28;

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
    for (index, flow) in run.flows.iter().enumerate() {
        let order = flow_order(run, index, flow, namespaces, &chosen)?;
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
    plan.kernel_arguments = built_in.arguments();
    plan.chosen = chosen;
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
    chosen: &Chosen,
) -> Result<FlowOrder, Error> {
    let namespace = |node: NodeId| namespaces[node as usize];
    let address = |node: NodeId| host_address(namespace(node) as usize);
    let base_rtt_us = |listens| {
        let told = base_rtt(run, flow, listens)?;
        Some(u32::try_from(told.us()).unwrap_or(u32::MAX))
    };
    let set = run.order.together.iter().position(|set| set.contains(&(index as u32)));
    let [algorithm, peer_algorithm] =
        [false, true].map(|listens| chosen.name(index, listens).to_owned());
    let is_told = base_rtt_us(false).or(base_rtt_us(true)).is_some();
    if is_told && (algorithm == "nv" || peer_algorithm == "nv") {
        return Err(Error::Refused(
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
        base_rtt_us: base_rtt_us(false),
        peer_base_rtt_us: base_rtt_us(true),
        from_address: address(flow.from),
        to_address: address(flow.to),
        algorithm,
        peer_algorithm,
    })
}

fn ping_order(ping: &Ping, namespaces: &[u32]) -> Result<PingOrder, Error> {
    let ip_bytes = ping.wire_bytes.saturating_sub(ETHERNET_BYTES);
    if !(LEAST_PING_BYTES..=65_535).contains(&ip_bytes) {
        return Err(Error::Refused(format!(
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
        if KERNELS_OWN.contains(&name) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "the guest's kernel has no {name} of its own, only {}: use knee's, which is what experiments mean by default",
            KERNELS_OWN.join(", ")
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

//! What the applications of a run do, as traffic programs are told it.

use std::net::IpAddr;

use knee_linux::algorithms::check_ports;
use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_run::addresses::listening_port;
use knee_run::spec::{Flow, NodeId, Ping, Traffic};

use crate::Error;
use crate::plan::ETHERNET_BYTES;
use crate::traffic::{FlowPlan, PingPlan, TrafficKind, TrafficPlan};

/// Flows that can each have a port of their own.
const MAX_FLOWS: usize = 30_000;

/// Where a host is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Its number in the program that is told; `None`: it is not one of its hosts.
    pub(crate) number: Option<u32>,
    pub(crate) address: IpAddr,
}

/// What one program does of a run: everything that one of its hosts has a part in. `algorithm` is what the kernel calls that of
/// a flow's connecting or listening side.
///
/// # Errors
/// Traffic of a node that is nowhere, and more flows than there are ports.
pub(crate) fn applications(
    run: &Run,
    at: &dyn Fn(NodeId) -> Option<At>,
    algorithm: &dyn Fn(usize, bool) -> String,
) -> Result<TrafficPlan, Error> {
    check_ports(run, MAX_FLOWS)?;
    if !run.order.series.is_empty() || !run.order.together.is_empty() {
        return Err(Error::Refused(
            "transfers that wait for others (shuffles, queries, rounds without \"every\"): nobody tells one host of the lab what \
             another has done; give rounds times with every, or use --on sim"
                .to_owned(),
        ));
    }
    if run.flows.iter().any(|flow| flow.first_write.is_some_and(|at| at > run.end)) {
        return Err(Error::Refused(
            "attempts to connect: the lab does not measure when connections come about; use --on sim".to_owned(),
        ));
    }
    let host = |node| {
        at(node)
            .ok_or_else(|| Error::Refused("traffic from or to a node that is no host".to_owned()))
    };
    let mut flows = Vec::with_capacity(run.flows.len());
    for (index, flow) in run.flows.iter().enumerate() {
        let (from, to) = (host(flow.from)?, host(flow.to)?);
        if from.number.or(to.number).is_some() {
            flows.push(flow_plan(index, flow, (from, to), algorithm));
        }
    }
    let mut pings = Vec::with_capacity(run.pings.len());
    for (index, ping) in run.pings.iter().enumerate() {
        let (from, to) = (host(ping.from)?, host(ping.to)?);
        pings.extend(from.number.map(|from| ping_plan(index, ping, from, to.address)));
    }
    Ok(TrafficPlan {
        end_ns: run.end.ns(),
        until_done: run.until_done,
        flows,
        pings,
        sample_flows_ns: run.sampling.flows.map(Duration::ns),
        sample_goodput_ns: run.sampling.goodput_or_window().map(Duration::ns),
        window_ns: run.sampling.window.map(|window| [window.from.ns(), window.until.ns()]),
    })
}

fn flow_plan(
    index: usize,
    flow: &Flow,
    (from, to): (At, At),
    algorithm: &dyn Fn(usize, bool) -> String,
) -> FlowPlan {
    FlowPlan {
        flow: index as u32,
        from: from.number,
        to: to.number,
        from_address: from.address,
        to_address: to.address,
        port: listening_port(index),
        algorithm: algorithm(index, false),
        peer_algorithm: algorithm(index, true),
        start_ns: flow.start.ns(),
        first_write_ns: flow.first_write.map(Time::ns),
        stop_ns: flow.stop.map(Time::ns),
        traffic: match flow.traffic {
            Traffic::Bulk { bytes } => TrafficKind::Bulk { bytes },
            Traffic::Rpc { request_bytes, response_bytes, count } => {
                TrafficKind::Rpc { request_bytes, response_bytes, count }
            }
        },
        read_at_bytes: flow.read_at_bytes,
        sampled: flow.sampled,
        dscp: flow.dscp,
        peer_dscp: flow.peer_dscp,
    }
}

fn ping_plan(index: usize, ping: &Ping, from: u32, to_address: IpAddr) -> PingPlan {
    PingPlan {
        ping: index as u32,
        from,
        to_address,
        start_ns: ping.start.ns(),
        interval_ns: ping.interval.ns(),
        ip_bytes: ping.wire_bytes.saturating_sub(ETHERNET_BYTES),
        ecn: ping.ecn as u8,
        dscp: ping.dscp,
    }
}

//! What the approximation cannot carry out, in one sentence each.

use knee_queue::QueueConfig;
use knee_queue::time::Duration;
use knee_run::spec::{
    Cable, Flow, HostConfig, Link, Network, Node, Run, Sampling, Schedule, Traffic,
};
use knee_run::{BackEnd, Error};

/// Refuses a run that links one by one do not make up.
///
/// The fields of a run are all named, without `..`: a new one does not compile before it is supported or refused here.
///
/// # Errors
/// [`Error::Refused`], with the way out.
pub(crate) fn check(run: &Run) -> Result<(), Error> {
    let Run { seed: _, end: _, until_done: _, network, flows, pings, sampling, schedule } = run;
    // Results have no series.
    let Sampling { flows: _, queues: _, goodput: _, links: _, window } = sampling;
    let Schedule { series, together, tasks } = schedule;
    let waits = !series.is_empty() || !together.is_empty() || !tasks.is_empty();
    let of_run = [
        (!pings.is_empty(), "pings, whose packets share queues of all links"),
        (waits, "flows that wait for others, whose start is not known before"),
        (window.is_some(), "measured window: leave measure_from and measure_until out"),
    ];
    let unknown = first(&of_run)
        .or_else(|| of_network(network))
        .or_else(|| flows.iter().find_map(of_flow))
        .or_else(|| network.links.iter().find_map(of_link))
        .or_else(|| network.nodes.iter().find_map(of_node));
    match unknown {
        Some(what) => Err(Error::Refused(format!(
            "--approximate links knows no {what}: leave --approximate out, or change the file"
        ))),
        None => knee_sim::Simulator.check(run),
    }
}

fn first(unknown: &[(bool, &'static str)]) -> Option<&'static str> {
    unknown.iter().find(|(has, _)| *has).map(|(_, what)| *what)
}

fn of_network(network: &Network) -> Option<&'static str> {
    let Network { nodes: _, links: _, buffers, flow_control, ports, changes, balance } = network;
    first(&[
        (!buffers.is_empty(), "shared buffer, which joins the links of a switch"),
        (flow_control.is_some(), "flow control, which stops one link for another"),
        (
            !balance.is_empty(),
            "network.balance, with which the links of a flow are not known before",
        ),
        (!changes.links.is_empty(), "links that change during a run"),
        (!ports.is_empty(), "software routers, whose ports coalesce interrupts"),
    ])
}

fn of_flow(flow: &Flow) -> Option<&'static str> {
    #[rustfmt::skip]
    let Flow {
        group: _, from: _, to: _, cc: _, peer_cc: _, start: _, first_write, stop, traffic,
        // These belong to the flow wherever it is simulated.
        read_at_bytes: _, sampled: _, base_rtt: _, dscp: _, peer_dscp: _, max_pacing_rate: _,
    } = flow;
    let is_rpc = matches!(traffic, Traffic::Rpc { .. });
    first(&[
        (is_rpc, "requests and answers, each of which waits for the one before"),
        (*traffic == Traffic::Bulk { bytes: None }, "transfers without end"),
        (
            first_write.is_some() || stop.is_some(),
            "flow whose application waits or stops in between",
        ),
    ])
}

fn of_link(link: &Link) -> Option<&'static str> {
    let Link { from: _, to: _, parallel: _, sampled: _, cable } = link;
    #[rustfmt::skip]
    let Cable {
        rate: _, serialisation: _, overhead_bytes: _, delay: _, jitter, loss, loses_bursts: _, queue, sampled: _,
    } = &**cable;
    first(&[
        (*loss > 0.0, "random loss, which each of a flow's simulations would repeat"),
        (*jitter > Duration::ZERO, "jitter, which reorders packets across links"),
        (goes_by_input(queue), "queue with a buffer for some inputs: a link alone has no inputs"),
    ])
}

fn goes_by_input(queue: &QueueConfig) -> bool {
    match queue {
        QueueConfig::TwoBuffers(_) => true,
        QueueConfig::Classes(config) => {
            config.classes.iter().any(|class| goes_by_input(&class.queue))
        }
        _ => false,
    }
}

fn of_node(node: &Node) -> Option<&'static str> {
    let Node { name: _, host } = node;
    #[rustfmt::skip]
    let HostConfig {
        coalesce, cpu, ipv6,
        // These act on each connection, or on each host of a flow's own.
        linux: _, hz: _, jiffies_at_start: _, tcp_ecn: _, syn_ect: _, ecn_low: _, tcp_ecn_fallback: _, mtu_bytes: _,
        initial_cwnd_pkts: _, rto_min: _, slow_start_after_idle: _, sack: _, gso_max_segs: _, gro_window: _,
        limit_output_bytes: _, skb_overhead_bytes: _, max_tcp_header_bytes: _, base_rtt: _, fq: _, fq_counts_headers: _,
        rcvbuf_initial_bytes: _, rcvbuf_max_bytes: _, sndbuf_initial_bytes: _, sndbuf_max_bytes: _, defects: _, sysctls: _,
        // Nothing without interrupts that wait.
        receive_queues: _, gro: _,
    } = host.as_deref()?;
    first(&[
        (
            coalesce.is_some() || cpu.is_some(),
            "coalescing and no CPU account, which join all flows of a host",
        ),
        (*ipv6, "IPv6, whose flows change their path at a timeout"),
    ])
}

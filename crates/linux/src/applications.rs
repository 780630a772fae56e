//! The applications of a run: as traffic programs are told them, and what became of them in the simulator's shape.

use std::net::IpAddr;

use knee_queue::ETHERNET_BYTES;
use knee_queue::time::{Duration, Time};
use knee_run::Run;
use knee_run::addresses::listening_port;
use knee_run::outcome::{
    GoodputSample, Outcome, PingRecord, QueueOutcome, RpcRecord, WindowSnapshots,
};
use knee_run::spec::{Flow, NodeId, Ping, Pool, Schedule};
use knee_traffic::{FlowPlan, PingPlan, TrafficPlan, TrafficReport};

use crate::side::{counters_then, flow_outcome};
use crate::{Error, TcpInfo};

/// A host as others reach it.
#[derive(Clone, Copy, Debug)]
pub struct HostAddress {
    /// Number of the host in the program; `None`: it is not one of its hosts.
    pub number: Option<u32>,
    pub address: IpAddr,
}

/// What one program does of a run: everything that one of its hosts has a part in. `algorithm` is what the kernel calls that of
/// a flow's connecting or listening side.
///
/// # Errors
/// Traffic of a node that is nowhere.
pub fn plan(
    run: &Run,
    at: &dyn Fn(NodeId) -> Option<HostAddress>,
    algorithm: &dyn Fn(usize, bool) -> String,
) -> Result<TrafficPlan, Error> {
    let host = |node| {
        at(node).ok_or_else(|| {
            Error::Refused("traffic from or to a node that is not a host".to_owned())
        })
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
    let schedule = Schedule {
        pools: run.schedule.pools.iter().filter_map(|pool| of_program(pool, &flows)).collect(),
        ..run.schedule.clone()
    };
    Ok(TrafficPlan {
        end_ns: run.end.ns(),
        until_done: run.until_done,
        flows,
        pings,
        sample_flows_ns: run.sampling.flows.map(Duration::ns),
        sample_goodput_ns: run.sampling.goodput_or_window().map(Duration::ns),
        sample_queues_ns: None,
        window_ns: run.sampling.window.map(|window| [window.from.ns(), window.until.ns()]),
        schedule,
    })
}

/// A pool as a program knows it that has a side of its flows; `flows` are in the order of the run. The connecting host is one, so the
/// program has all flows of the pool, or none.
fn of_program(pool: &Pool, flows: &[FlowPlan]) -> Option<Pool> {
    let place = |flow: &u32| flows.binary_search_by_key(flow, |plan| plan.flow).ok();
    let places: Vec<u32> = pool.flows.iter().filter_map(place).map(|place| place as u32).collect();
    let connects = flows.get(*places.first()? as usize)?.from.is_some();
    let arrivals_ns = if connects { pool.arrivals_ns.clone() } else { Vec::new() };
    Some(Pool { flows: places, arrivals_ns, response_bytes: pool.response_bytes.clone() })
}

fn flow_plan(
    index: usize,
    flow: &Flow,
    (from, to): (HostAddress, HostAddress),
    algorithm: &dyn Fn(usize, bool) -> String,
) -> FlowPlan {
    FlowPlan {
        flow: index as u32,
        from: from.number,
        to: to.number,
        from_address: from.address,
        to_address: to.address,
        from_port: 0,
        port: listening_port(index),
        algorithm: algorithm(index, false),
        peer_algorithm: algorithm(index, true),
        start_ns: flow.start.ns(),
        first_write_ns: flow.first_write.map(Time::ns),
        stop_ns: flow.stop.map(Time::ns),
        traffic: flow.traffic,
        read_at_bytes: flow.read_at_bytes,
        sampled: flow.sampled,
        dscp: flow.dscp,
        peer_dscp: flow.peer_dscp,
        max_pacing_rate: flow.max_pacing_rate.map(|rate| rate.bps() / 8),
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

/// What applications recorded; `own_name` is what experiments call the algorithm that the kernel calls so, `queues` what queues
/// had counted at the ends of the measured window.
pub fn outcome(
    run: &Run,
    own_name: &dyn Fn(&str) -> &'static str,
    report: &TrafficReport,
    queues: Option<[Vec<QueueOutcome>; 2]>,
) -> Outcome {
    let at = Time::from_ns;
    let mut sides = vec![[None; 2]; run.flows.len()];
    for side in &report.sides {
        if let Some(of_flow) = sides.get_mut(side.flow as usize) {
            of_flow[usize::from(side.listens)] = Some(side);
        }
    }
    let flows = run
        .flows
        .iter()
        .zip(&sides)
        .map(|(flow, [client, server])| flow_outcome(flow.traffic, own_name, *client, *server));
    let rpcs = report.rpcs.iter().map(|(flow, start_ns, latency_ns)| RpcRecord {
        flow: *flow,
        start: at(*start_ns),
        latency: Duration::from_ns(*latency_ns),
        timeouts: None,
    });
    let pings = report.pings.iter().map(|(ping, sent_ns, rtt_ns)| PingRecord {
        ping: *ping,
        sent: at(*sent_ns),
        rtt: rtt_ns.map(Duration::from_ns),
        in_flight: false,
    });
    let flow_samples = report.flow_samples.iter();
    let goodput_samples = report.goodput_samples.iter().map(|(at_ns, flow, bytes)| GoodputSample {
        at: at(*at_ns),
        flow: *flow,
        bytes: *bytes,
    });
    let mut outcome = Outcome {
        end: at(report.end_ns),
        flows: flows.collect(),
        rpcs: rpcs.collect(),
        pings: pings.collect(),
        flow_samples: flow_samples
            .filter_map(|(at_ns, flow, info, diag)| {
                TcpInfo::new(info).flow_sample(at(*at_ns), *flow, diag.clone())
            })
            .collect(),
        goodput_samples: goodput_samples.collect(),
        ..Outcome::default()
    };
    let traffic_of = |flow: u32| run.flows.get(flow as usize).map(|flow| flow.traffic);
    let flows = report.window.as_ref();
    let flows = flows.map(|ends| ends.each_ref().map(|looks| counters_then(looks, traffic_of)));
    outcome.count_window(&run.sampling, run.flows.len(), &WindowSnapshots { flows, queues });
    outcome
}

#[cfg(test)]
mod tests {
    use knee_run::spec::{Cc, HostConfig, LinuxVersion, Network, Run, Sampling, Schedule, Traffic};

    use super::*;

    /// Two clients of one server, on three machines: each has its own flows and pools by its own numbers, and the server does
    /// not know when requests arrive.
    #[test]
    fn each_program_has_the_pools_of_its_flows() {
        let mut network = Network::default();
        for name in ["a", "b", "server"] {
            network.host(name, HostConfig::new(LinuxVersion(6, 1)));
        }
        let flow = |from| Flow {
            group: 0,
            from,
            to: 2,
            cc: Cc::by_name("reno").expect("it is in the folder"),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Rpc { request_bytes: 1, response_bytes: 1, count: None },
            read_at_bytes: 1,
            sampled: false,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
        };
        let pool = |flows: [u32; 2], at_ns| Pool {
            flows: flows.to_vec(),
            arrivals_ns: vec![at_ns],
            response_bytes: vec![7],
        };
        let run = Run {
            seed: 1,
            end: Time::from_ms(1),
            until_done: false,
            network,
            flows: [0, 1, 0, 1].map(flow).to_vec(),
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Schedule {
                pools: vec![pool([0, 2], 5), pool([1, 3], 6)],
                ..Schedule::default()
            },
        };
        let pools_of = |machine: NodeId| {
            let at = |node| {
                let address = [10, 0, 0, node as u8].into();
                Some(HostAddress { number: (node == machine).then_some(0), address })
            };
            let plan = plan(&run, &at, &|_, _| String::new()).expect("all are hosts");
            assert!(plan.flows.is_sorted_by_key(|flow| flow.flow));
            plan.schedule.pools
        };
        assert_eq!(pools_of(0), [pool([0, 1], 5)]);
        assert_eq!(pools_of(1), [pool([0, 1], 6)]);
        let without = |flows| Pool { arrivals_ns: Vec::new(), ..pool(flows, 0) };
        assert_eq!(pools_of(2), [without([0, 2]), without([1, 3])]);
    }
}

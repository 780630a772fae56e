//! Refuses what cannot be simulated, in one sentence each.

use crate::error::refuse;
use crate::spec::{Cable, HostConfig, Link, Network, Run, Sampling, Traffic};
use crate::{Error, balance, changes, headroom};
use knee_queue::ETHERNET_BYTES;
use knee_units::settings::{About, Setting, Visit};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

const DSCP_MAX: u8 = 63;

/// Refuses a run that contradicts itself, as every back end does.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn run(run: &Run) -> Result<(), Error> {
    let nodes = run.network.nodes.len();
    let mut largest_frame = 0;
    // A large network has few kinds of hosts.
    let mut seen = HashSet::new();
    for node in &run.network.nodes {
        let Some(host) = &node.host else { continue };
        if seen.insert(Arc::as_ptr(host)) {
            let mut host = HostConfig::clone(host);
            settings(&node.name, |v| host.fields(v))?;
            if let Some(coalesce) = &mut host.coalesce {
                settings(&node.name, |v| coalesce.fields(v))?;
            }
            largest_frame = largest_frame.max(host.mtu_bytes + ETHERNET_BYTES);
        }
    }
    let mut last: Option<&Link> = None;
    for link in &run.network.links {
        if link.from as usize >= nodes || link.to as usize >= nodes {
            let name = run.network.link_name(link);
            return refuse(format!("link {name} joins nodes that do not exist"));
        }
        if last.is_some_and(|last| Arc::ptr_eq(&last.cable, &link.cable)) {
            continue;
        }
        if link.duplicate > 0.0 && run.network.flow_control.is_some() {
            let name = run.network.link_name(link);
            return refuse(format!(
                "link {name}: duplicate conflicts with flow_control: leave one out"
            ));
        }
        cable(&format!("link {}", run.network.link_name(link)), link, largest_frame)?;
        last = Some(link);
    }
    check_thinning(&run.network)?;
    ports(&run.network)?;
    changes::check(&run.network)?;
    balance::check(&run.network)?;
    check_buffers(&run.network, largest_frame)?;
    headroom::check(run, largest_frame)?;
    let is_host =
        |node: u32| run.network.nodes.get(node as usize).is_some_and(|node| node.host.is_some());
    let ends = run.flows.iter().map(|flow| (flow.from, flow.to));
    for (from, to) in ends.chain(run.pings.iter().map(|ping| (ping.from, ping.to))) {
        if !is_host(from) || !is_host(to) {
            return refuse(format!("traffic from node {from} to node {to}: both must be hosts"));
        }
        let ipv6 = |node: u32| run.network.nodes[node as usize].host.as_ref().map(|host| host.ipv6);
        if ipv6(from) != ipv6(to) {
            return refuse(format!(
                "traffic from node {from} to node {to}: one has IPv4, one IPv6"
            ));
        }
        if from == to {
            return refuse(format!("traffic from node {from} to itself crosses no network"));
        }
    }
    for flow in &run.flows {
        if !flow.traffic.is_possible() {
            return refuse(match flow.traffic {
                Traffic::Rpc { count: Some(0), .. } => "a count of 0 requests: must be at least 1",
                _ => "a transfer of 0 bytes: must be at least 1",
            });
        }
    }
    let of_flows = run.flows.iter().flat_map(|flow| [flow.dscp, flow.peer_dscp]);
    let mut dscps = of_flows.chain(run.pings.iter().map(|ping| ping.dscp));
    if let Some(dscp) = dscps.find(|dscp| *dscp > DSCP_MAX) {
        return refuse(format!("a DSCP of {dscp}: must be 0 to {DSCP_MAX}"));
    }
    check_order(run)?;
    let Sampling { flows, queues, goodput, links, .. } = run.sampling;
    let periods = [flows, queues, goodput, links];
    if run.sampling.window.is_some_and(|window| window.from >= window.until) {
        return refuse("the measured window: must end after its start");
    }
    let intervals = run.pings.iter().map(|ping| ping.interval);
    if periods.into_iter().flatten().chain(intervals).any(|period| period.ps() == 0) {
        return refuse("a sampling period of 0: must be above 0");
    }
    Ok(())
}

/// Refuses settings of a part that are out of their range or contradictory.
fn settings(name: &str, show: impl FnOnce(&mut dyn Visit)) -> Result<(), Error> {
    let mut check = Check(None);
    show(&mut check);
    check.0.map_or(Ok(()), |why| refuse(format!("{name}: {why}")))
}

/// Keeps the first refusal.
struct Check(Option<String>);

impl Visit for Check {
    fn key(&mut self, about: About, setting: Setting<'_>) {
        let is_number = |number: u64| (about.from..=about.to).contains(&number);
        let (fits, value) = match setting {
            Setting::Number(&mut number) => (is_number(number.into()), f64::from(number)),
            Setting::Small(&mut number) => (is_number(number.into()), f64::from(number)),
            Setting::MaybeNumber(&mut Some(number)) => {
                (is_number(number.into()), f64::from(number))
            }
            Setting::Large(&mut number) => (is_number(number), number as f64),
            Setting::Pkts(&mut number) => (number > 0, f64::from(number)),
            Setting::Share(&mut share) => ((0.0..=1.0).contains(&share), share),
            _ => return,
        };
        if !fits {
            let allowed = match setting {
                Setting::Share(_) => "0 to 1".to_owned(),
                Setting::Pkts(_) => "at least 1".to_owned(),
                _ => format!("a {}", about.whole_numbers()),
            };
            self.0.get_or_insert(format!("{} = {value}: must be {allowed}", about.name()));
        }
    }

    fn refused(&mut self, key: &'static str, why: Cow<'static, str>) {
        self.0.get_or_insert_with(|| format!("{key}: {why}"));
    }
}

/// Refuses contradictory settings of a cable.
fn cable(name: &str, cable: &Cable, largest_frame: u32) -> Result<(), Error> {
    settings(name, |v| cable.clone().fields(v))?;
    let burst = cable.serialisation.burst_bytes().filter(|_| cable.rate.is_some());
    match burst {
        Some(burst) if burst < largest_frame => refuse(format!(
            "{name}: a burst of {burst} bytes: must hold a frame of {largest_frame}"
        )),
        _ => cable.queue.validate().or_else(|why| refuse(format!("{name}: {why}"))),
    }
}

/// Refuses to thin out ACKs where a queue decides at departure.
fn check_thinning(network: &Network) -> Result<(), Error> {
    let thins = (0..).zip(&network.links).filter(|(_, link)| link.thins_acks);
    for (index, link) in thins {
        let is_shared = network.buffers.iter().any(|buffer| buffer.links.contains(&index));
        let changes = network.changes.links.iter().any(|change| change.link == index);
        let is_simple = link.queue.admission().is_some() && network.flow_control.is_none();
        if link.rate.is_some() && (!is_simple || is_shared || changes) {
            return refuse(format!(
                "link {}: thin_acks needs a queue that decides at arrival (droptail, share, or step at enqueue), without shared \
                 memory, flow control and changes",
                network.link_name(link)
            ));
        }
    }
    Ok(())
}

/// Refuses contradictory settings of software routers' ports.
fn ports(network: &Network) -> Result<(), Error> {
    let mut seen = vec![false; network.links.len()];
    for port in &network.ports {
        let index = port.link as usize;
        let Some(link) = network.links.get(index) else {
            return refuse(format!("coalescing: the link {index} does not exist"));
        };
        let name = network.link_name(link);
        if network.nodes[link.to as usize].host.is_some() {
            return refuse(format!("link {name}: ends at a host: set the host's own coalesce"));
        }
        if std::mem::replace(&mut seen[index], true) {
            return refuse(format!(
                "link {name}: its port has two coalesce settings: leave one out"
            ));
        }
        let mut coalesce = port.coalesce;
        settings(&name, |v| coalesce.fields(v))?;
    }
    Ok(())
}

/// Refuses shared memory that cannot work.
fn check_buffers(network: &Network, largest_frame: u32) -> Result<(), Error> {
    let mut taken = vec![false; network.links.len()];
    for buffer in &network.buffers {
        let name = &buffer.name;
        let law = &buffer.law;
        if !law.has_sound_alpha() {
            return refuse(format!("{name}: alpha = {}: must be 1/65536 to 65536", law.alpha));
        }
        let Some(shared_bytes) = law.shared_bytes(buffer.links.len()) else {
            return refuse(format!(
                "{name}: {} bytes are less than the {} reserved for each of {} queues",
                law.size_bytes,
                law.reserved_bytes,
                buffer.links.len()
            ));
        };
        if shared_bytes.max(law.reserved_bytes) < u64::from(largest_frame) {
            return refuse(format!(
                "{name}: a frame of {largest_frame} bytes does not fit: {shared_bytes} bytes are \
                    shared"
            ));
        }
        for &link in &buffer.links {
            let Some(taken) = taken.get_mut(link as usize) else {
                return refuse(format!("{name}: there is no link {link}"));
            };
            let link = &network.links[link as usize];
            let link_name = || network.link_name(link);
            if link.rate.is_none() {
                return refuse(format!(
                    "{name}: the link {} has no rate and no queue",
                    link_name()
                ));
            }
            if std::mem::replace(taken, true) {
                return refuse(format!("{name}: the link {} is in two buffers", link_name()));
            }
        }
    }
    Ok(())
}

/// Flows that wait for others must be there, once each, and come to an end.
fn check_order(run: &Run) -> Result<(), Error> {
    let rounds = run.schedule.series.iter().flat_map(|series| &series.rounds);
    for round in rounds.clone() {
        if round.iter().all(|lane| lane.flows.is_empty()) {
            return refuse("a round without flows never completes");
        }
        if round.iter().any(|lane| lane.parallel == 0) {
            return refuse("a schedule with 0 parallel flows never starts");
        }
    }
    let in_series = rounds.flatten().flat_map(|lane| &lane.flows).map(|flow| (flow, true));
    let together = run.schedule.together.iter().flatten().map(|flow| (flow, false));
    let mut is_there = vec![false; run.flows.len()];
    for (&index, is_transfer) in in_series.chain(together) {
        let Some(flow) = run.flows.get(index as usize) else {
            return refuse(format!("flow {index} waits for others, but has none to wait for"));
        };
        if std::mem::replace(&mut is_there[index as usize], true) {
            return refuse(format!("flow {index} is in two schedules"));
        }
        if is_transfer && flow.stop.is_some() {
            return refuse(format!(
                "flow {index} may stop before it starts: give it a size or a count, and no stop"
            ));
        }
        let fits = match flow.traffic {
            Traffic::Bulk { bytes } => is_transfer && bytes.is_some(),
            Traffic::Rpc { count, .. } => !is_transfer || count.is_some(),
        };
        if !fits {
            return refuse(format!("flow {index} never ends, but others wait for it"));
        }
    }
    check_pools(run, &mut is_there)?;
    check_tasks(run, &is_there)
}

/// Requests at times of their own need connections from one host to another that do nothing else.
fn check_pools(run: &Run, is_in_schedule: &mut [bool]) -> Result<(), Error> {
    for (index, pool) in run.schedule.pools.iter().enumerate() {
        if !pool.arrivals_ns.is_sorted() || pool.response_bytes.contains(&0) {
            return refuse(format!("pool {index}: requests must be in order, and answers above 0"));
        }
        let flows: Option<Vec<_>> =
            pool.flows.iter().map(|flow| run.flows.get(*flow as usize)).collect();
        let Some(first) = flows.as_ref().and_then(|flows| flows.first().copied()) else {
            return refuse(format!("pool {index}: has no flows, or flows that do not exist"));
        };
        for (number, flow) in pool.flows.iter().zip(flows.iter().flatten()) {
            let exchanges = matches!(flow.traffic, Traffic::Rpc { count: None, .. });
            if !exchanges || flow.stop.is_some() || (flow.from, flow.to) != (first.from, first.to) {
                return refuse(format!(
                    "flow {number} of pool {index}: must exchange requests without count or stop, between the pool's hosts"
                ));
            }
            if std::mem::replace(&mut is_in_schedule[*number as usize], true) {
                return refuse(format!("flow {number} is in two schedules"));
            }
        }
    }
    Ok(())
}

/// Messages must add up to their transfers, and wait only for tasks before them.
fn check_tasks(run: &Run, is_in_schedule: &[bool]) -> Result<(), Error> {
    let mut of_flows: Vec<Option<u64>> = vec![None; run.flows.len()];
    for (index, task) in run.schedule.tasks.iter().enumerate() {
        if task.after.iter().any(|before| *before as usize >= index) {
            return refuse(format!("task {index} waits for one that is not before it"));
        }
        let Some(carrier) = task.flow else {
            if task.bytes > 0 || task.connects {
                return refuse(format!("task {index} sends, but names no flow"));
            }
            continue;
        };
        let Some(sum) = of_flows.get_mut(carrier as usize) else {
            return refuse(format!("task {index} is of flow {carrier}, which does not exist"));
        };
        if task.bytes == 0 {
            return refuse(format!("task {index}: a message of 0 bytes: must be at least 1"));
        }
        *sum = Some(sum.unwrap_or(0).saturating_add(task.bytes));
    }
    for (index, sum) in of_flows.iter().enumerate() {
        let Some(sum) = *sum else { continue };
        let flow = &run.flows[index];
        if flow.traffic != (Traffic::Bulk { bytes: Some(sum) }) {
            return refuse(format!("flow {index}: its messages have {sum} bytes, but it has not"));
        }
        if is_in_schedule[index] || flow.stop.is_some() || flow.first_write.is_some() {
            return refuse(format!(
                "flow {index} carries messages: it takes no stop, no first write and no other schedule"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Cc, Flow, Sampling, Schedule, Sequence, Series, Task};
    use knee_queue::time::Time;

    #[test]
    fn what_would_wait_for_ever_is_refused() {
        let flow = |traffic| Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name("reno").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic,
            read_at_bytes: 1,
            sampled: false,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
        };
        let rpc = Traffic::Rpc { request_bytes: 1, response_bytes: 1, count: None };
        let (sized, endless) = (Traffic::Bulk { bytes: Some(1) }, Traffic::Bulk { bytes: None });
        let mut flows = [sized, endless, rpc, sized].map(flow);
        flows[3].stop = Some(Time::from_us(1));
        let lane = |flows: &[u32], parallel| vec![Sequence { flows: flows.to_vec(), parallel }];
        let said = |rounds: Vec<Vec<Sequence>>, together: Vec<Vec<u32>>| {
            let schedule =
                Schedule { series: vec![Series { rounds }], together, ..Schedule::default() };
            let run = Run {
                seed: 1,
                end: Time::from_ms(1),
                until_done: false,
                network: Network::default(),
                flows: flows.to_vec(),
                pings: Vec::new(),
                sampling: Sampling::default(),
                schedule,
            };
            check_order(&run).err().map_or_else(String::new, |why| why.to_string())
        };
        assert_eq!(said(vec![lane(&[0], 1)], vec![vec![2]]), "");
        assert!(said(vec![lane(&[], 1)], vec![]).contains("a round without flows"));
        assert!(said(vec![lane(&[0], 0)], vec![]).contains("never starts"));
        assert!(said(vec![lane(&[9], 1)], vec![]).contains("flow 9 waits"));
        assert!(said(vec![lane(&[0], 1), lane(&[0], 1)], vec![]).contains("in two schedules"));
        assert!(said(vec![lane(&[1], 1)], vec![]).contains("never ends"));
        assert!(said(vec![lane(&[2], 1)], vec![]).contains("never ends"));
        assert!(said(vec![], vec![vec![0]]).contains("never ends"));
        assert!(said(vec![lane(&[0], 1), lane(&[3], 1)], vec![]).contains("before it starts"));
    }

    #[test]
    fn messages_add_up_to_their_transfers_and_wait_for_earlier_ones() {
        let flow = Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name("reno").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: Some(30) },
            read_at_bytes: 1,
            sampled: false,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
        };
        let said = |flow: &Flow, tasks: &[Task]| {
            let run = Run {
                seed: 1,
                end: Time::from_ms(1),
                until_done: false,
                network: Network::default(),
                flows: vec![flow.clone()],
                pings: Vec::new(),
                sampling: Sampling::default(),
                schedule: Schedule { tasks: tasks.to_vec(), ..Schedule::default() },
            };
            check_order(&run).err().map_or_else(String::new, |why| why.to_string())
        };
        let message = |bytes, after: &[u32]| Task {
            flow: Some(0),
            bytes,
            after: after.to_vec(),
            ..Task::default()
        };
        let both = [message(10, &[]), message(20, &[0])];
        assert_eq!(said(&flow, &both), "");
        assert!(said(&flow, &both[..1]).contains("its messages have 10 bytes"));
        assert!(said(&flow, &[message(10, &[]), message(20, &[1])]).contains("not before it"));
        assert!(said(&flow, &[message(30, &[]), message(0, &[0])]).contains("of 0 bytes"));
        let other = Task { flow: Some(1), ..message(30, &[]) };
        assert!(said(&flow, &[other]).contains("does not exist"));
        let none = Task { flow: None, ..message(30, &[]) };
        assert!(said(&flow, &[none]).contains("names no flow"));
        let stopped = Flow { stop: Some(Time::from_us(1)), ..flow.clone() };
        assert!(said(&stopped, &both).contains("takes no stop"));
    }
}

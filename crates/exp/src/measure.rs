//! Measures a run, by the kind of its traffic.

mod cut_off;
mod jobs;
mod together;
mod window;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use knee_queue::QueueConfig;
use knee_queue::time::Duration;
use knee_run::Ideal;
use knee_run::outcome::{FlowCounters, FlowOutcome, HostCount, Outcome, QueueOutcome, RpcRecord};
use knee_run::spec::{Flow, Link, NodeId, Run, Traffic};

use crate::classes::queue_name;
use crate::host_metrics::{
    measure_cpu_shares, measure_receiving, measure_samples, measure_sending,
};
use crate::metric::{Kind, Known, Measured, Metric as M, Window};
use crate::scenario::Scenario;
use crate::stats::jain;
use window::{goodput_sum, goodputs, whole_run};
pub(crate) use window::{sent_bits, utilisation};

/// Share of the minimum RTO, in per cent, from which a time counts as a wait for a timer. Timers expire on ticks of
/// the coarse clock, some ms early or late.
const LATE_PCT: u64 = 95;

/// Returns the time from which a transfer has waited for a retransmission timer.
fn late_from(run: &Run) -> Duration {
    let hosts = run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let least = hosts.map(|host| host.rto_min).min().unwrap_or(Duration::ZERO);
    Duration::from_ps(least.ps() / 100 * LATE_PCT)
}

/// Measures everything in a run.
pub(crate) fn measure(scenario: &Scenario, run: &Run, outcome: &Outcome) -> Vec<Measured> {
    let window = window_of(run, outcome);
    let known = RunFacts {
        run,
        outcome,
        goodput: goodputs(run, outcome, window),
        at_end: cut_off::waiting(run, outcome, outcome.end),
    };
    let until = window.map_or(outcome.end, |window| window.until);
    let at_window_end = match until == outcome.end {
        true => Cow::Borrowed(&known.at_end),
        false => Cow::Owned(cut_off::waiting(run, outcome, until)),
    };
    let groups = scenario.groups();
    let late_from = late_from(run);
    let keeps = scenario.output.keeps_sketches(run.flows.len());
    let new = |name: &str, kind| Measured::new(name, kind, late_from).sketched(keeps);
    let mut measured: Vec<_> = groups.iter().map(|(name, kind)| new(name, *kind)).collect();
    let mut classes = Vec::new();
    for (group, measured) in (0u32..).zip(&mut measured) {
        let members: Vec<usize> =
            (0..run.flows.len()).filter(|i| run.flows[*i].group == group).collect();
        if measured.kind != Kind::Ping && !members.is_empty() {
            measure_flows(scenario, measured, &known, &members);
        }
        for class in scenario.size_classes(&measured.subject) {
            let mut of_class = new(&class.subject(&measured.subject), Kind::SizeClass);
            let members: Vec<usize> =
                members.iter().copied().filter(|i| class.holds(run.flows[*i].traffic)).collect();
            if !members.is_empty() {
                measure_flows(scenario, &mut of_class, &known, &members);
            }
            classes.push(of_class);
        }
    }
    for rpc in &outcome.rpcs {
        let holds = window.is_none_or(|window| window.holds(rpc.start + rpc.latency));
        if let (Some(flow), true) = (run.flows.get(rpc.flow as usize), holds) {
            let measured = &mut measured[flow.group as usize];
            // A query is done when all servers have answered.
            if measured.kind != Kind::Query {
                measured.record(M::Latency, rpc.latency.ns());
            }
        }
    }
    let is_empty = window.is_some_and(Window::is_empty);
    for (flow, waits) in run.flows.iter().zip(at_window_end.iter()).filter(|_| !is_empty) {
        let measured = &mut measured[flow.group as usize];
        if let (Some(time), true) = (waits, measured.kind != Kind::Query) {
            measured.record_time(M::Latency, *time);
        }
    }
    if !is_empty {
        together::measure_queries(&mut measured, run, outcome, &at_window_end, window);
        measure_pings(scenario, &mut measured, outcome, window);
    }
    measured.extend(classes);
    measured.extend(measure_queues(run, outcome, window));
    measured
}

/// Returns the measured window of a run. `None` means the whole run.
pub(crate) fn window_of(run: &Run, outcome: &Outcome) -> Option<Window> {
    let window = run.sampling.window?;
    Some(Window { from: window.from, until: window.until.min(outcome.end) })
}

/// A run, and what follows from it for each flow.
struct RunFacts<'a> {
    run: &'a Run,
    outcome: &'a Outcome,
    goodput: Vec<Option<f64>>,
    /// Exchanges that wait when the run ends: see [`cut_off::waiting`].
    at_end: Vec<Option<Known>>,
}

fn measure_flows(
    scenario: &Scenario,
    measured: &mut Measured,
    known: &RunFacts<'_>,
    members: &[usize],
) {
    let RunFacts { run, outcome, goodput, at_end } = known;
    let flows: Vec<&FlowOutcome> = members.iter().filter_map(|i| outcome.flows.get(*i)).collect();
    let messages = jobs::Messages::of(measured.kind, run, outcome, members);
    if let Some(messages) = &messages {
        messages.measure(scenario, measured, run, outcome.end, window_of(run, outcome));
    } else {
        let ending = members.iter().zip(&flows).filter(|(i, _)| scenario.ends(run, **i));
        for time in ending.filter_map(|(_, flow)| cut_off::completion(flow, outcome.end)) {
            measured.record_time(M::Completion, time);
        }
        if measured.kind == Kind::Trace {
            jobs::measure_trace(scenario, measured, &flows, outcome.end);
        }
    }
    let has_slowdown = matches!(measured.kind, Kind::Poisson | Kind::SizeClass | Kind::Trace);
    if has_slowdown && messages.as_ref().is_none_or(jobs::Messages::have_connections) {
        measure_slowdown(measured, run, outcome, members);
    }
    if matches!(measured.kind, Kind::Incast | Kind::Shuffle) {
        together::measure_rounds(scenario, measured, run, outcome, members);
    }
    if measured.kind == Kind::Attempts {
        together::measure_attempts(measured, run, outcome, members);
    }
    let rates: Vec<f64> = members.iter().filter_map(|i| *goodput.get(*i)?).collect();
    rates.iter().for_each(|rate| measured.measure(M::Goodput, *rate));
    let window = window_of(run, outcome);
    if let Some(sum) = goodput_sum(outcome, members, goodput, window) {
        measured.measure(M::GoodputSum, sum);
    }
    if let Some(index) = jain(&rates) {
        measured.measure(M::Jain, index);
    }
    measure_counters(measured, run, outcome, members);
    if let Some(window) = &outcome.window {
        window::measure_counters(measured, window, members);
    }
    measure_samples(measured, run, outcome, members, window);
    measure_sending(measured, run, outcome, members);
    if let Some(receivers) = receivers_of_their_own(run, outcome, members) {
        let senders = hosts_of_their_own(run, outcome, members);
        measure_receiving(measured, &flows, &receivers, senders.as_deref());
        measure_cpu_shares(measured, outcome, &receivers, senders.as_deref());
    }
    let unfinished = |i: &&usize| {
        let is_cut_off = scenario.ends(run, **i) && outcome.flows[**i].done_at.is_none();
        let waits = !scenario.ends(run, **i) && at_end.get(**i).is_some_and(Option::is_some);
        is_cut_off || waits
    };
    let known = members.iter().filter(|i| **i < outcome.flows.len());
    if let Some(messages) = &messages {
        measured.record(M::Unfinished, messages.unfinished());
    } else if measured.kind != Kind::Endless {
        measured.record(M::Unfinished, known.filter(unfinished).count() as u64);
    } else if let Some((rule, period)) = scenario.converged_of(&measured.subject) {
        let time = rule.time(period, run, outcome, members);
        time.iter().for_each(|time| measured.record_time(M::Convergence, *time));
        let has_converged = matches!(time, Some(Known::Took(_)));
        measured.record(M::Unfinished, u64::from(!has_converged));
    }
    if measured.kind == Kind::Rpc && !window.is_some_and(Window::is_empty) {
        let groups = &run.flows;
        let counts = |rpc: &&RpcRecord| {
            let flow = groups.get(rpc.flow as usize);
            flow.is_some_and(|flow| flow.group == groups[members[0]].group)
                && window.is_none_or(|window| window.holds(rpc.start + rpc.latency))
        };
        measured.record(M::Exchanges, outcome.rpcs.iter().filter(counts).count() as u64);
    }
}

/// Reads one counter of a flow.
type Counter = fn(&FlowCounters) -> Option<u64>;

/// Sums counters over all connections of an entry. A counter that is unknown for any of them is absent.
fn measure_counters(measured: &mut Measured, run: &Run, outcome: &Outcome, members: &[usize]) {
    let hosts = hosts_of_their_own(run, outcome, members);
    let total = |counter: Counter| -> Option<u64> {
        let known = members.iter().filter_map(|i| outcome.flows.get(*i));
        let of_flows = known.map(|flow| counter(&flow.counters)).sum::<Option<u64>>();
        of_flows.or_else(|| hosts.as_ref()?.iter().map(|host| counter(&host.counters)).sum())
    };
    let counts: &[(M, Counter)] = &[
        (M::Timeouts, |counters| counters.timeouts),
        (M::TailLossProbes, |counters| counters.tail_loss_probes),
        (M::Retransmits, |counters| counters.retransmitted_segs),
        (M::Recoveries, |counters| counters.fast_recoveries),
        (M::Undos, |counters| counters.undos),
        (M::Reorderings, |counters| counters.reorderings),
        (M::DsackSegs, |counters| counters.dsack_segs),
        (M::EcnReductions, |counters| counters.cwr_reductions),
        (M::PlbRehashes, |counters| counters.plb_rehashes),
    ];
    for (metric, counter) in counts {
        if let Some(count) = total(*counter) {
            measured.record(*metric, count);
        }
    }
    let delivered = total(|counters| counters.delivered).filter(|delivered| *delivered > 0);
    if let Some((all, ce)) = delivered.zip(total(|counters| counters.delivered_ce)) {
        measured.measure(M::CeShare, ce as f64 / all as f64);
    }
}

/// Returns counters of the sending hosts of these connections, if no other traffic sends there.
fn hosts_of_their_own<'a>(
    run: &Run,
    outcome: &'a Outcome,
    members: &[usize],
) -> Option<Vec<&'a HostCount>> {
    let group = run.flows[*members.first()?].group;
    // A size class is part of its entry, whose other connections send from the same hosts.
    if members.len() < run.flows.iter().filter(|flow| flow.group == group).count() {
        return None;
    }
    let hosts: BTreeSet<NodeId> = members.iter().flat_map(|i| run.flows[*i].senders()).collect();
    let others = run.flows.iter().filter(|flow| flow.group != group);
    if others.flat_map(Flow::senders).any(|host| hosts.contains(&host)) {
        return None;
    }
    counts_of(&hosts, outcome)
}

/// Returns the counters of these hosts. `None` if those of one are unknown.
fn counts_of<'a>(hosts: &BTreeSet<NodeId>, outcome: &'a Outcome) -> Option<Vec<&'a HostCount>> {
    let counts = outcome.host_counts.iter().rev();
    let of_node: HashMap<NodeId, &HostCount> = counts.map(|count| (count.node, count)).collect();
    hosts.iter().map(|host| of_node.get(host).copied()).collect()
}

/// Returns counters of the receiving hosts of these transfers, if no other traffic arrives there.
fn receivers_of_their_own<'a>(
    run: &Run,
    outcome: &'a Outcome,
    members: &[usize],
) -> Option<Vec<&'a HostCount>> {
    let group = run.flows[*members.first()?].group;
    let hosts: BTreeSet<NodeId> = members.iter().map(|i| run.flows[*i].to).collect();
    let mut others = run.flows.iter().filter(|flow| flow.group != group);
    if others.any(|flow| hosts.contains(&flow.to) || hosts.contains(&flow.from)) {
        return None;
    }
    counts_of(&hosts, outcome)
}

/// Measures the slowdown of each transfer that has begun: its time, or its age, relative to the shortest possible time.
fn measure_slowdown(measured: &mut Measured, run: &Run, outcome: &Outcome, members: &[usize]) {
    let mut ideal = Ideal::new(&run.network);
    for (flow, got) in members.iter().filter_map(|i| Some((&run.flows[*i], outcome.flows.get(*i)?)))
    {
        let Traffic::Bulk { bytes: Some(bytes) } = flow.traffic else { continue };
        let (Some(took), Ok(least)) =
            (cut_off::completion(got, outcome.end), ideal.transfer(flow.from, flow.to, bytes))
        else {
            continue;
        };
        if least > Duration::ZERO {
            let times = took.least().ps() as f64 / least.ps() as f64;
            match took {
                Known::Took(_) => measured.measure(M::Slowdown, times),
                // Nothing takes less than the least, however young it is.
                Known::AtLeast(_) => measured.measure_cut_off(M::Slowdown, times.max(1.0)),
            }
        }
    }
}

fn measure_pings(
    scenario: &Scenario,
    measured: &mut [Measured],
    outcome: &Outcome,
    window: Option<Window>,
) {
    let groups = scenario.ping_groups();
    let answered = cut_off::answered_pings(outcome, groups.len());
    let mut unanswered = vec![0u64; measured.len()];
    for ping in &outcome.pings {
        let Some(group) = groups.get(ping.ping as usize).map(|group| *group as usize) else {
            continue;
        };
        match ping.rtt {
            _ if window.is_some_and(|window| !window.holds(ping.sent)) => {}
            Some(rtt) => measured[group].record(M::Rtt, rtt.ns()),
            None => {
                unanswered[group] += 1;
                if answered[ping.ping as usize].waits(ping, outcome.end) {
                    let age = Known::between(ping.sent, None, outcome.end);
                    measured[group].record_time(M::Rtt, age);
                }
            }
        }
    }
    for (measured, unanswered) in measured.iter_mut().zip(unanswered) {
        measured.record(M::Unanswered, unanswered);
    }
}

fn measure_queues(run: &Run, outcome: &Outcome, window: Option<Window>) -> Vec<Measured> {
    let mut of_queue = HashMap::new();
    let mut all = Vec::new();
    let late_from = late_from(run);
    let in_window = outcome.window.iter().flat_map(|window| window.queues.iter().rev());
    let in_window: HashMap<_, &QueueOutcome> =
        in_window.map(|queue| ((queue.link, queue.part), queue)).collect();
    for queue in &outcome.queues {
        let Some(name) = queue_name(&run.network, queue.link, queue.part) else { continue };
        let link = run.network.links.get(queue.link as usize);
        let kind = if link.is_some() { Kind::Queue } else { Kind::Buffer };
        let mut measured = Measured::new(&name, kind, late_from);
        measured.record(M::Drops, queue.dropped_pkts());
        if queue.offered_pkts > 0 {
            let share = queue.dropped_pkts() as f64 / queue.offered_pkts as f64;
            measured.measure(M::DropShare, share);
        }
        measured.record(M::Marks, queue.marked_pkts);
        let trims = |link: &Link| link.queue.any(|queue| matches!(queue, QueueConfig::Trim(_)));
        if link.is_some_and(trims) {
            measured.record(M::Trims, queue.trimmed_pkts);
        }
        if let Some(pause) = queue.pause {
            let length = whole_run(outcome).ps().max(1);
            let share = pause.paused.ps() as f64 / length as f64;
            measured.measure(M::PausedShare, share);
            measured.record(M::PauseFrames, pause.frames);
        }
        let whole = run.network.capacity(queue.link);
        let share =
            whole.and_then(|mut whole| utilisation(&mut whole, outcome.end, sent_bits(queue, run)));
        if let Some(share) = share {
            measured.measure(M::Utilisation, share);
        }
        let counted = in_window.get(&(queue.link, queue.part));
        if let Some((counted, window)) = counted.zip(window) {
            window::measure_queue(&mut measured, counted, queue, (run, outcome), window);
        }
        of_queue.insert((queue.link, queue.part), all.len());
        all.push(measured);
    }
    // For each recorded link: the sum and the number of sampled probabilities.
    let mut probabilities = vec![(0.0, 0u64); all.len()];
    for sample in &outcome.queue_samples {
        let index = of_queue.get(&(sample.link, sample.part)).copied();
        let holds = window.is_none_or(|window| window.holds(sample.at));
        let (Some(index), true) = (index, holds) else { continue };
        // Each kind has one of these metrics.
        all[index].record(M::Queue, u64::from(sample.len_pkts));
        all[index].record(M::Occupancy, sample.len_bytes);
        if let Some(probability) = sample.drop_probability {
            probabilities[index].0 += probability;
            probabilities[index].1 += 1;
        }
    }
    for (measured, (sum, count)) in all.iter_mut().zip(probabilities) {
        if count > 0 {
            measured.measure(M::DropProbability, sum / count as f64);
        }
    }
    all
}

//! Measures a run, by the kind of its traffic.

mod window;

use std::collections::{BTreeSet, HashMap};

use knee_queue::QueueConfig;
use knee_queue::time::Duration;
use knee_run::outcome::{FlowCounters, FlowOutcome, HostCount, Outcome, QueueOutcome};
use knee_run::spec::{Flow, Link, NodeId, Run};
use knee_scenario::classes::queue_name;
use knee_scenario::kind::{Facts, Group, TrafficSpec};
use knee_scenario::metric::{Kind, Measured, Metric as M, Window};
use knee_scenario::scenario::Scenario;
use knee_scenario::stats::jain;

use crate::host_metrics::{
    measure_cpu_shares, measure_receiving, measure_samples, measure_sending,
};
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
    let facts = scenario.facts(run, outcome, window);
    let goodput = goodputs(run, outcome, window);
    let late_from = late_from(run);
    let keeps = scenario.output.keeps_sketches(run.flows.len());
    let new = |name: &str, kind| Measured::new(name, kind, late_from).sketched(keeps);
    let (mut measured, mut classes) = (Vec::new(), Vec::new());
    for (number, (name, kind)) in (0u32..).zip(scenario.groups()) {
        let mut of_name = new(&name, kind);
        let members: Vec<usize> =
            (0..run.flows.len()).filter(|i| run.flows[*i].group == number).collect();
        let entries = scenario.entries_of(&name);
        let group = Group { facts: &facts, number, entries, members: members.into() };
        // Entries of a name are of one kind.
        let is_there = |entry: &&TrafficSpec| !group.members.is_empty() || entry.ping_streams() > 0;
        if let Some(entry) = group.entries.iter().map(|(_, entry)| *entry).find(is_there) {
            entry.measure(&mut of_name, &group);
        }
        measure_flows(&mut of_name, &group, &goodput);
        for class in scenario.size_classes(&name) {
            let mut of_class = new(&class.subject(&name), Kind::SizeClass);
            let holds = |i: &usize| class.holds(run.flows[*i].traffic);
            let members = group.members.iter().copied().filter(holds).collect();
            let group = Group { facts: &facts, number, entries: Vec::new(), members };
            if !group.members.is_empty() {
                group.measure_transfers(&mut of_class);
                group.measure_slowdown(&mut of_class);
            }
            measure_flows(&mut of_class, &group, &goodput);
            classes.push(of_class);
        }
        measured.push(of_name);
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

/// Measures what all connections have: goodput, counters and hosts.
fn measure_flows(measured: &mut Measured, group: &Group<'_>, goodput: &[Option<f64>]) {
    let Facts { run, outcome, window, .. } = *group.facts;
    let members = &group.members[..];
    if members.is_empty() {
        return;
    }
    let flows: Vec<&FlowOutcome> = members.iter().filter_map(|i| outcome.flows.get(*i)).collect();
    let rates: Vec<f64> = members.iter().filter_map(|i| *goodput.get(*i)?).collect();
    rates.iter().for_each(|rate| measured.measure(M::Goodput, *rate));
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

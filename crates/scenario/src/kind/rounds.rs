//! Rounds of transfers: those that wait for each other, and what is measured of them.

use std::collections::BTreeMap;

use knee_file::{Error, Reader};
use knee_run::spec::{Flow, NodeId, Run, Sequence, Series};

use super::{Group, MAX_FLOWS, TrafficSpec};
use crate::metric::{Known, Measured, Metric as M};

/// Refuses too many flows of an entry.
pub(super) fn check_flows(reader: &Reader<'_>, key: &str, flows: u64) -> Result<(), Error> {
    let message = || format!("gives {flows} flows, but at most {MAX_FLOWS} are allowed");
    if flows > MAX_FLOWS { Err(reader.error(key, message())) } else { Ok(()) }
}

/// Adds the dependencies between rounds to a run, in which `first` is the number of the entry's first flow.
pub(super) fn arrange(entry: &TrafficSpec, first: usize, run: &mut Run) {
    let Some(rounds) = entry.connections.as_ref().map(|all| all.rounds) else { return };
    let flows = &run.flows[first..];
    if !rounds.wait || flows.is_empty() {
        return;
    }
    let per_round = flows.len() / rounds.count as usize;
    // Each receiver with its own rounds proceeds independently.
    let whose = |flow: &Flow| if rounds.are_per_target { flow.to } else { 0 };
    let mut series: BTreeMap<NodeId, Series> = BTreeMap::new();
    for (round, flows) in flows.chunks(per_round).enumerate() {
        for (host, members) in by_host(flows, whose) {
            let flows = members.into_iter().map(|i| (first + round * per_round + i) as u32);
            let lane = Sequence { flows: flows.collect(), parallel: u32::MAX };
            series.entry(host).or_default().rounds.push(vec![lane]);
        }
    }
    run.schedule.series.extend(series.into_values());
}

/// Groups the indices of flows by one of their hosts.
pub(super) fn by_host(
    flows: &[Flow],
    host: impl Fn(&Flow) -> NodeId,
) -> BTreeMap<NodeId, Vec<usize>> {
    let mut all: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (i, flow) in flows.iter().enumerate() {
        all.entry(host(flow)).or_default().push(i);
    }
    all
}

/// Measures the time of each round. For rounds that wait for each other or go to many hosts, it also measures the
/// share with a timeout. A round that the end of the run cut off counts in the share if it had one, as a query does.
pub(super) fn measure(measured: &mut Measured, group: &Group<'_>) {
    let (run, outcome) = (group.facts.run, group.facts.outcome);
    let entries = || group.entries.iter().map(|(_, entry)| entry);
    let rounds_of = || entries().filter_map(|entry| Some(entry.connections.as_ref()?.rounds));
    let all = rounds_of().map(|rounds| rounds.count).sum::<u64>().max(1);
    let per_round = (group.members.len() / all as usize).max(1);
    let are_per_target = rounds_of().any(|rounds| rounds.are_per_target);
    let is_share_told = are_per_target || rounds_of().any(|rounds| rounds.wait);
    let (mut rounds, mut late, mut known) = (0, 0, true);
    for round in group.members.chunks(per_round) {
        let mut parts: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for i in round {
            let target = if are_per_target { run.flows[*i].to } else { 0 };
            parts.entry(target).or_default().push(*i);
        }
        for part in parts.into_values() {
            let Some(time) = last_completion(&part, group) else { continue };
            measured.record_time(M::Last, time);
            // A host tells nothing of a connection that has not begun.
            let flows = part.iter().map(|i| &outcome.flows[*i]);
            let begun = flows.filter(|flow| flow.connected_at.is_some());
            let timeouts = begun.map(|flow| flow.counters.timeouts).sum::<Option<u64>>();
            let is_late = timeouts > Some(0);
            known &= timeouts.is_some();
            rounds += u64::from(is_late || matches!(time, Known::Took(_)));
            late += u64::from(is_late);
        }
    }
    if is_share_told && known {
        Group::record_share(measured, M::TimeoutShare, late, rounds);
    }
}

/// Returns the time from the first connect to the last byte. `None` if none of them has begun.
fn last_completion(round: &[usize], group: &Group<'_>) -> Option<Known> {
    let outcome = group.facts.outcome;
    let flows = round.iter().map(|i| outcome.flows.get(*i)).collect::<Option<Vec<_>>>()?;
    let first = flows.iter().filter_map(|flow| flow.connected_at).min()?;
    let all = flows.iter().map(|flow| flow.done_at).collect::<Option<Vec<_>>>();
    Some(Known::between(first, all.and_then(|all| all.into_iter().max()), outcome.end))
}

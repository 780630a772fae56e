//! Measures groups of connections: rounds, queries, attempts.

use std::collections::BTreeMap;

use knee_run::outcome::{Outcome, RpcRecord};
use knee_run::spec::{NodeId, Run};

use super::cut_off::timeouts_of_exchanges;
use crate::metric::{Kind, Known, Measured, Metric as M, Window};
use crate::scenario::Scenario;

/// Measures the time of each round. For rounds that wait for each other or go to many hosts, it also measures the
/// share with a timeout. A round that the end of the run cut off counts in the share if it had one, as a query does.
pub(super) fn measure_rounds(
    scenario: &Scenario,
    measured: &mut Measured,
    run: &Run,
    outcome: &Outcome,
    members: &[usize],
) {
    let per_round = (members.len() / scenario.rounds_of(&measured.subject)).max(1);
    let (is_per_target, is_share_told) = scenario.rounds_are(&measured.subject);
    let (mut rounds, mut late, mut known) = (0, 0, true);
    for round in members.chunks(per_round) {
        let mut parts: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for i in round {
            let target = if is_per_target { run.flows[*i].to } else { 0 };
            parts.entry(target).or_default().push(*i);
        }
        for part in parts.into_values() {
            let Some(time) = last_completion(&part, outcome) else { continue };
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
        record_share(measured, M::TimeoutShare, late, rounds);
    }
}

fn record_share(measured: &mut Measured, metric: M, part: u64, all: u64) {
    if all > 0 {
        measured.measure(metric, part as f64 / all as f64);
    }
}

/// Returns the time from the first connect to the last byte. `None` if none of them has begun.
fn last_completion(round: &[usize], outcome: &Outcome) -> Option<Known> {
    let flows = round.iter().map(|i| outcome.flows.get(*i)).collect::<Option<Vec<_>>>()?;
    let first = flows.iter().filter_map(|flow| flow.connected_at).min()?;
    let all = flows.iter().map(|flow| flow.done_at).collect::<Option<Vec<_>>>();
    Some(Known::between(first, all.and_then(|all| all.into_iter().max()), outcome.end))
}

/// Measures queries that all servers have answered: their times, and the share with a timeout. A query whose timeout
/// was cut off by the end of the run counts in the share. `waiting` has the answers that are waited for when the window
/// ends: the time of such a query is what it took in the end, or at least its age.
pub(super) fn measure_queries(
    measured: &mut [Measured],
    run: &Run,
    outcome: &Outcome,
    waiting: &[Option<Known>],
    window: Option<Window>,
) {
    if run.schedule.together.is_empty() {
        return;
    }
    let mut of_flow: Vec<Vec<&RpcRecord>> = vec![Vec::new(); run.flows.len()];
    for rpc in &outcome.rpcs {
        if let Some(records) = of_flow.get_mut(rpc.flow as usize) {
            records.push(rpc);
        }
    }
    // For each entry: the number of queries, those with a timeout, and whether timeouts are known.
    let mut counts = vec![(0_u64, 0_u64, true); measured.len()];
    let mut unanswered = vec![0_u64; measured.len()];
    for set in &run.schedule.together {
        let Some(group) = set.first().map(|flow| run.flows[*flow as usize].group as usize) else {
            continue;
        };
        let records = || set.iter().map(|flow| &of_flow[*flow as usize]);
        let done = records().map(Vec::len).min().unwrap_or(0);
        let waits_for =
            || set.iter().filter_map(|flow| waiting.get(*flow as usize).copied().flatten());
        if waits_for().next().is_some() && measured[group].kind == Kind::Query {
            let is_in = |query: &&Vec<&RpcRecord>, at: usize| {
                query[at].start + query[at].latency <= window.map_or(outcome.end, |w| w.until)
            };
            // The number of the query that waits: the servers have answered those before it.
            let answered = |at: &usize| records().all(|of_server| is_in(&of_server, *at));
            let open = (0..done).take_while(answered).count();
            let time = match open < done {
                true => {
                    let parts = || records().map(|of_server| of_server[open]);
                    let start = parts().map(|rpc| rpc.start).min();
                    let last = parts().map(|rpc| rpc.start + rpc.latency).max();
                    start.map(|start| Known::between(start, last, outcome.end))
                }
                false => waits_for().max_by_key(|known| known.least()),
            };
            time.into_iter().for_each(|time| measured[group].record_time(M::Latency, time));
        }
        for query in 0..done {
            let parts = || records().map(|of_server| of_server[query]);
            let ends = parts().map(|rpc| rpc.start + rpc.latency).max();
            let (Some(start), Some(end)) = (parts().map(|rpc| rpc.start).min(), ends) else {
                continue;
            };
            if window.is_some_and(|window| !window.holds(end)) {
                continue;
            }
            measured[group].record(M::Latency, end.since(start).ns());
            let (queries, late, known) = &mut counts[group];
            *queries += 1;
            *late += u64::from(parts().any(|rpc| rpc.timeouts.is_some_and(|count| count > 0)));
            *known &= parts().all(|rpc| rpc.timeouts.is_some());
        }
        // A query cut off by the end of the run counts if it has waited for a timer, because such queries take
        // longest.
        let waits = set.iter().any(|flow| {
            let of_answered = of_flow[*flow as usize].iter().filter_map(|rpc| rpc.timeouts);
            let got = outcome.flows.get(*flow as usize);
            let timeouts = got.and_then(|got| timeouts_of_exchanges(&got.counters));
            timeouts.is_some_and(|timeouts| timeouts > of_answered.sum())
        });
        if waits && window.is_none_or(|window| window.holds(outcome.end)) {
            let (_, late, _) = &mut counts[group];
            *late += 1;
            unanswered[group] += 1;
        }
    }
    for ((measured, (queries, late, known)), unanswered) in
        measured.iter_mut().zip(counts).zip(unanswered)
    {
        if measured.kind == Kind::Query {
            measured.record(M::Exchanges, queries);
            if known {
                record_share(measured, M::TimeoutShare, late, queries + unanswered);
            }
        }
    }
}

/// Measures the share of connections established before their deadline, and the times of all. Attempts cut off by the end
/// of the run do not count in the share. The time of an attempt that was not established in time is at least its age then.
pub(super) fn measure_attempts(
    measured: &mut Measured,
    run: &Run,
    outcome: &Outcome,
    members: &[usize],
) {
    let (mut attempts, mut successes) = (0, 0);
    for i in members {
        let (Some(got), Some(deadline)) = (outcome.flows.get(*i), run.flows[*i].stop) else {
            continue;
        };
        let Some(connected) = got.connected_at else { continue };
        match got.established_at {
            Some(at) if at <= deadline => {
                successes += 1;
                measured.record(M::Latency, at.since(connected).ns());
            }
            _ => {
                let given_up = deadline.min(outcome.end);
                measured.record_time(M::Latency, Known::between(connected, None, given_up));
                if deadline > outcome.end {
                    continue;
                }
            }
        }
        attempts += 1;
    }
    record_share(measured, M::SuccessShare, successes, attempts);
}

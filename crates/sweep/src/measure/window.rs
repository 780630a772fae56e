//! Measures the window alone, and goodput with and without a window.

use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_run::Capacity;
use knee_run::outcome::{FlowCounters, Outcome, QueueOutcome, Windowed};
use knee_run::spec::Run;
use knee_scenario::metric::{Measured, Metric as M, Window};

/// Returns each flow's goodput in bit/s, in the window, or from connect to the flow's end.
pub(super) fn goodputs(run: &Run, outcome: &Outcome, window: Option<Window>) -> Vec<Option<f64>> {
    let flows = outcome.flows.iter().take(run.flows.len());
    let Some(window) = window else {
        return flows
            .map(|flow| {
                let end = flow.done_at.or(flow.stopped_at).unwrap_or(outcome.end);
                per_second(flow.received_bytes, end.since(flow.connected_at?))
            })
            .collect();
    };
    let counted = outcome.window.as_ref().map_or(&[][..], |window| &window.flows[..]);
    let length = window.until.since(window.from);
    let rate = |index: usize| per_second(counted.get(index)?.received_bytes, length);
    flows.enumerate().map(|(i, flow)| flow.connected_at.and_then(|_| rate(i))).collect()
}

/// Returns the goodput of all these flows over a common time: the window, or from the first connect to the last end.
/// The sum of the flows' own rates would exceed the link's: short-lived flows get more than their share while few
/// compete.
pub(super) fn goodput_sum(
    outcome: &Outcome,
    members: &[usize],
    goodput: &[Option<f64>],
    window: Option<Window>,
) -> Option<f64> {
    if window.is_some() {
        let rates = members.iter().filter_map(|i| *goodput.get(*i)?);
        return rates.map(Some).reduce(|a, b| Some(a? + b?))?;
    }
    let flows = members.iter().filter_map(|i| outcome.flows.get(*i));
    let begun = flows.filter_map(|flow| Some((flow, flow.connected_at?)));
    let begin = begun.clone().map(|(_, at)| at).min()?;
    let ends = begun.clone().map(|(flow, _)| flow.done_at.or(flow.stopped_at));
    let end = ends.map(|end| end.unwrap_or(outcome.end)).max()?;
    per_second(begun.map(|(flow, _)| flow.received_bytes).sum(), end.since(begin))
}

/// Measures counters in the window, if the back end read them at its bounds.
pub(super) fn measure_counters(measured: &mut Measured, window: &Windowed, members: &[usize]) {
    let total = |counter: fn(&FlowCounters) -> Option<u64>| {
        members.iter().map(|i| counter(&window.flows.get(*i)?.counters)).sum::<Option<u64>>()
    };
    for (metric, count) in [
        (M::WindowTimeouts, total(|counters| counters.timeouts)),
        (M::WindowRetransmits, total(|counters| counters.retransmitted_segs)),
        (M::WindowRecoveries, total(|counters| counters.fast_recoveries)),
    ] {
        if let Some(count) = count {
            measured.record(metric, count);
        }
    }
    let delivered = total(|counters| counters.delivered).filter(|delivered| *delivered > 0);
    if let Some((all, ce)) = delivered.zip(total(|counters| counters.delivered_ce)) {
        measured.measure(M::WindowCeShare, ce as f64 / all as f64);
    }
}

/// Measures a queue in the window. `whole` is of the whole run.
pub(super) fn measure_queue(
    measured: &mut Measured,
    queue: &QueueOutcome,
    whole: &QueueOutcome,
    (run, outcome): (&Run, &Outcome),
    window: Window,
) {
    measured.record(M::WindowDrops, queue.dropped_pkts());
    measured.record(M::WindowMarks, queue.marked_pkts);
    let Some(mut capacity) = run.network.capacity(queue.link) else { return };
    // What it sent before the window is known if the window ends with the run. Else its bucket counts as full.
    let before = match window.until == outcome.end {
        true => sent_bits(whole, run) - sent_bits(queue, run),
        false => 0.0,
    };
    capacity.advance(window.from, before);
    if let Some(share) = utilisation(&mut capacity, window.until, sent_bits(queue, run)) {
        measured.measure(M::WindowUtilisation, share);
    }
}

/// Returns what a link sent, in bits, with the overhead of frames.
pub(crate) fn sent_bits(queue: &QueueOutcome, run: &Run) -> f64 {
    let link = run.network.links.get(queue.link as usize);
    let overhead_bytes = link.map_or(0, |link| u64::from(link.overhead_bytes));
    (queue.sent_bytes + queue.sent_pkts * overhead_bytes) as f64 * 8.0
}

/// Goes on to a moment, by which a link sent so many bits more, and returns which share that is of what it could have
/// sent. `None` if it could send nothing.
pub(crate) fn utilisation(capacity: &mut Capacity, until: Time, sent_bits: f64) -> Option<f64> {
    let could = capacity.advance(until, sent_bits);
    (could > 0.0).then(|| sent_bits / could)
}

pub(super) fn per_second(bytes: u64, time: Duration) -> Option<f64> {
    (time > Duration::ZERO).then(|| bytes as f64 * 8.0 * PS_PER_S as f64 / time.ps() as f64)
}

/// Returns the duration of the whole run.
pub(super) fn whole_run(outcome: &Outcome) -> Duration {
    outcome.end.since(Time::ZERO)
}

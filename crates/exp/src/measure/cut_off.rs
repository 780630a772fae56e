//! Exchanges of connections without end that the end of the run cut off.
//!
//! Such a connection is always in an exchange. One that is soon answered is no news. One that waits, as at a link that is
//! down, would be missing everywhere: it has no latency.

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowOutcome, Outcome};
use knee_run::spec::Run;

use crate::scenario::Scenario;

/// The answered exchanges of a connection.
#[derive(Clone, Copy, Default)]
struct Answered {
    count: u64,
    /// Start and end of the last one.
    last: (Time, Time),
    longest: Duration,
    /// Retransmission timeouts; `None`: a host does not tell.
    timeouts: Option<u64>,
}

impl Answered {
    /// Returns whether an exchange that began at `begin` and was not answered waits: it has had a retransmission timeout, or
    /// has taken longer than each before it.
    fn waits(&self, got: &FlowOutcome, begin: Time, end: Time) -> bool {
        let timeouts = got.counters.timeouts.zip(self.timeouts);
        let is_late = timeouts.is_some_and(|(all, answered)| all > answered);
        begin < end && (is_late || end.since(begin) > self.longest)
    }
}

/// Returns for each flow whether it has no end and waits for an answer when the run ends. Empty if no flow is of this kind.
pub(super) fn waiting(scenario: &Scenario, run: &Run, outcome: &Outcome) -> Vec<bool> {
    let is_endless = |flow: usize| run.flows[flow].traffic.is_rpc() && !scenario.ends(run, flow);
    if outcome.flows.len() < run.flows.len() || !(0..run.flows.len()).any(is_endless) {
        return Vec::new();
    }
    let none = Answered { timeouts: Some(0), ..Answered::default() };
    let mut answered = vec![none; run.flows.len()];
    for rpc in &outcome.rpcs {
        let Some(of_flow) = answered.get_mut(rpc.flow as usize) else { continue };
        of_flow.count += 1;
        of_flow.last = (rpc.start, rpc.start + rpc.latency);
        of_flow.longest = of_flow.longest.max(rpc.latency);
        of_flow.timeouts = of_flow.timeouts.zip(rpc.timeouts).map(|(sum, more)| sum + more);
    }
    // The start of what each flow asked last; `None`: it has an answer, and waits for flows that send together with it.
    let mut begins: Vec<Option<Time>> = answered.iter().map(|it| Some(it.last.1)).collect();
    for set in &run.schedule.together {
        let of_set = || set.iter().map(|flow| (*flow as usize, &answered[*flow as usize]));
        let Some(round) = of_set().map(|(_, it)| it.count).min() else { continue };
        let this_round = of_set().find(|(_, it)| it.count > round).map(|(_, it)| it.last.0);
        let begin = this_round.or_else(|| of_set().map(|(_, it)| it.last.1).max());
        for (flow, it) in of_set() {
            begins[flow] = begin.filter(|_| it.count == round);
        }
    }
    let waits = |flow: usize| {
        let got = &outcome.flows[flow];
        let has_ended = got.done_at.is_some() || got.stopped_at.is_some();
        let (Some(connected), Some(begin)) = (got.connected_at, begins[flow]) else { return false };
        let begin = begin.max(connected).max(run.flows[flow].first_write.unwrap_or(Time::ZERO));
        !has_ended && answered[flow].waits(got, begin, outcome.end)
    };
    (0..run.flows.len()).map(|flow| is_endless(flow) && waits(flow)).collect()
}

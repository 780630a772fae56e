//! The flows of a name in a run, and what kinds measure alike of them.

use std::borrow::Cow;

use knee_queue::time::{Duration, Time};
use knee_run::Ideal;
use knee_run::outcome::{FlowOutcome, Outcome, RpcRecord};
use knee_run::spec::{Flow, Run, Traffic};

use super::{TrafficSpec, cut_off};
use crate::metric::{Known, Measured, Metric as M, Window};

/// A run, and what follows from it for each flow.
pub struct Facts<'a> {
    /// The run as it was described.
    pub run: &'a Run,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// The measured window; `None`: the whole run.
    pub window: Option<Window>,
    /// Start of each entry in the run.
    pub(crate) starts: Vec<Time>,
    /// Sampling period of goodput, as in the file.
    pub(crate) goodput_period: Option<Duration>,
    /// Number of the name of each ping stream.
    pub(crate) ping_groups: Vec<u32>,
    /// Exchanges that wait when the run ends: see [`cut_off::waiting`].
    at_end: Vec<Option<Known>>,
    /// The same for the end of the window.
    at_window_end: Option<Vec<Option<Known>>>,
    /// Flows whose requests arrive at times of their own.
    in_pools: Vec<bool>,
    /// The requests of each pool that were not answered when the run ended.
    unanswered: Vec<Vec<Time>>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(
        (run, outcome): (&'a Run, &'a Outcome),
        window: Option<Window>,
        starts: Vec<Time>,
        goodput_period: Option<Duration>,
        ping_groups: Vec<u32>,
    ) -> Facts<'a> {
        let until = window.map_or(outcome.end, |window| window.until);
        Facts {
            run,
            outcome,
            window,
            starts,
            goodput_period,
            ping_groups,
            at_end: cut_off::waiting(run, outcome, outcome.end),
            in_pools: cut_off::in_pools(run),
            unanswered: cut_off::unanswered(run, outcome),
            at_window_end: (until != outcome.end).then(|| cut_off::waiting(run, outcome, until)),
        }
    }

    /// Returns whether nothing is measured in the window.
    pub(super) fn is_window_empty(&self) -> bool {
        self.window.is_some_and(Window::is_empty)
    }

    /// Returns whether a moment counts.
    pub(super) fn holds(&self, at: Time) -> bool {
        self.window.is_none_or(|window| window.holds(at))
    }

    /// Returns whether the requests of any flow arrive at times of their own.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.in_pools.is_empty()
    }

    /// Returns whether the requests of a flow arrive at times of their own.
    pub(super) fn arrives(&self, flow: u32) -> bool {
        self.in_pools.get(flow as usize).is_some_and(|is| *is)
    }

    /// Returns the exchange of a flow that waits for an answer when the window ends.
    pub(super) fn waiting(&self, flow: usize) -> Option<Known> {
        *self.at_window_end.as_ref().unwrap_or(&self.at_end).get(flow)?
    }
}

/// Flows of a run that are measured together: those of a name, or a part of them.
pub struct Group<'a> {
    /// The run that they are of.
    pub facts: &'a Facts<'a>,
    /// Number of the name.
    pub number: u32,
    /// All entries of the name, with their numbers.
    pub entries: Vec<(usize, &'a TrafficSpec)>,
    /// Indices of the flows.
    pub members: Cow<'a, [usize]>,
}

impl Group<'_> {
    /// Returns the flows of which something is known, with what is known.
    pub(super) fn flows(&self) -> impl Iterator<Item = (usize, &Flow, &FlowOutcome)> {
        let Facts { run, outcome, .. } = self.facts;
        let known = |i: &usize| Some((*i, &run.flows[*i], outcome.flows.get(*i)?));
        self.members.iter().filter_map(known)
    }

    /// Returns the exchanges that were answered in the window, in this order.
    pub(super) fn exchanges(&self) -> impl Iterator<Item = &RpcRecord> {
        let is_in = |rpc: &&RpcRecord| self.facts.holds(rpc.start + rpc.latency);
        self.answered().filter(is_in)
    }

    /// Returns the answered exchanges that arrived in the window, of those that arrive at times of their own.
    pub(super) fn arrived(&self) -> impl Iterator<Item = &RpcRecord> {
        let arrived =
            |rpc: &&RpcRecord| self.facts.arrives(rpc.flow) && self.facts.holds(rpc.start);
        self.answered().filter(arrived)
    }

    fn answered(&self) -> impl Iterator<Item = &RpcRecord> {
        let is_of_group = |flow: &Flow| flow.group == self.number;
        let flow = |rpc: &&RpcRecord| self.facts.run.flows.get(rpc.flow as usize);
        let of_group = move |rpc: &&RpcRecord| flow(rpc).is_some_and(is_of_group);
        self.facts.outcome.rpcs.iter().filter(of_group)
    }

    /// Returns the arrivals of requests that the end of the run cut off, of those that arrive at times of their own.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = Time> {
        let run = self.facts.run;
        let pools = run.schedule.pools.iter().zip(&self.facts.unanswered);
        let of_group = pools.filter(|(pool, _)| {
            pool.flows.first().is_some_and(|flow| run.flows[*flow as usize].group == self.number)
        });
        of_group.flat_map(|(_, arrivals)| arrivals).copied()
    }

    /// Measures transfers that have begun, and those that the end of the run cut off.
    pub fn measure_transfers(&self, measured: &mut Measured) {
        let end = self.facts.outcome.end;
        let ending = self.flows().filter(|(_, flow, _)| ends(flow));
        for time in ending.filter_map(|(_, _, got)| cut_off::completion(got, end)) {
            measured.record_time(M::Completion, time);
        }
        self.measure_unfinished(measured);
    }

    /// Counts transfers and exchanges that the end of the run cut off.
    pub(super) fn measure_unfinished(&self, measured: &mut Measured) {
        let waits = |i: usize| self.facts.at_end.get(i).is_some_and(Option::is_some);
        let is_unfinished = |(i, flow, got): &(usize, &Flow, &FlowOutcome)| match ends(flow) {
            true => got.done_at.is_none(),
            false => waits(*i),
        };
        let count = self.flows().filter(is_unfinished).count() + self.unanswered().count();
        measured.record(M::Unfinished, count as u64);
    }

    /// Measures the slowdown of each transfer that has begun: its time, or its age, relative to the shortest possible time.
    pub fn measure_slowdown(&self, measured: &mut Measured) {
        let mut ideal = Ideal::new(&self.facts.run.network);
        for (_, flow, got) in self.flows() {
            let Traffic::Bulk { bytes: Some(bytes) } = flow.traffic else { continue };
            let (Some(took), Ok(least)) = (
                cut_off::completion(got, self.facts.outcome.end),
                ideal.transfer(flow.from, flow.to, bytes),
            ) else {
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

    /// Records a share of so many, if there were any.
    pub(super) fn record_share(measured: &mut Measured, metric: M, part: u64, all: u64) {
        if all > 0 {
            measured.measure(metric, part as f64 / all as f64);
        }
    }
}

/// Returns whether a flow ends by itself.
pub(crate) fn ends(flow: &Flow) -> bool {
    match flow.traffic {
        Traffic::Bulk { bytes } => bytes.is_some(),
        Traffic::Rpc { count, .. } => count.is_some() && flow.stop.is_none(),
    }
}

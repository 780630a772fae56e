//! Measures messages that wait for each other: jobs and their iterations.

use std::collections::BTreeMap;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowOutcome, MessageRecord, Outcome};
use knee_run::spec::{Run, Task};

use crate::metric::{Kind, Known, Measured, Metric as M, Window};
use crate::scenario::Scenario;

/// The messages of a traffic entry in a run.
pub(super) struct Messages<'a> {
    /// Those that arrived.
    done: Vec<&'a MessageRecord>,
    /// Their number by job and iteration, of all that there should be.
    wanted: BTreeMap<(u32, u32), u64>,
    /// Whether each has a connection of its own.
    have_connections: bool,
    /// Whether computations that no message waits for are a part of the job.
    has_computations: bool,
}

/// Messages of an iteration that arrived.
struct Iteration {
    count: u64,
    first: Time,
    last: Time,
    /// The end of its last message or computation.
    end: Time,
}

impl<'a> Messages<'a> {
    /// Returns the messages of these flows. `None` if the flows have none.
    pub(super) fn of(
        kind: Kind,
        run: &'a Run,
        outcome: &'a Outcome,
        members: &[usize],
    ) -> Option<Messages<'a>> {
        if !matches!(kind, Kind::Trace | Kind::Collective | Kind::Chakra) {
            return None;
        }
        let group = run.flows[*members.first()?].group;
        let tasks = &run.schedule.tasks;
        let is_of_group = |task: u32| {
            let flow = tasks.get(task as usize).and_then(|task| task.flow);
            flow.is_some_and(|flow| run.flows[flow as usize].group == group)
        };
        let mut wanted = BTreeMap::new();
        let mut have_connections = true;
        for (_, task) in (0u32..).zip(tasks).filter(|(index, _)| is_of_group(*index)) {
            *wanted.entry((task.job, task.round)).or_insert(0) += 1;
            have_connections &= task.connects;
        }
        let done = outcome.messages.iter().filter(|message| is_of_group(message.task)).collect();
        let has_computations = kind == Kind::Chakra;
        (!wanted.is_empty()).then_some(Messages {
            done,
            wanted,
            have_connections,
            has_computations,
        })
    }

    /// Returns whether each message has a connection of its own.
    pub(super) fn have_connections(&self) -> bool {
        self.have_connections
    }

    /// Returns the number of messages that the end of the run cut off.
    pub(super) fn unfinished(&self) -> u64 {
        self.wanted.values().sum::<u64>() - self.done.len() as u64
    }

    /// Measures messages, iterations and jobs. Iterations count if they end in the window.
    pub(super) fn measure(
        &self,
        scenario: &Scenario,
        measured: &mut Measured,
        run: &Run,
        end: Time,
        window: Option<Window>,
    ) {
        let ends = self.ends(run);
        for begin in self.begun(run, &ends, end) {
            measured.record_time(M::Completion, Known::between(begin, None, end));
        }
        let mut iterations: BTreeMap<(u32, u32), Iteration> = BTreeMap::new();
        for message in &self.done {
            let took = Known::between(message.start, Some(message.done), end);
            measured.record_time(M::Completion, took);
            let task = &run.schedule.tasks[message.task as usize];
            let (first, last) = (Time::MAX, Time::ZERO);
            let none = Iteration { count: 0, first, last, end: Time::ZERO };
            let of_task = iterations.entry((task.job, task.round)).or_insert(none);
            of_task.count += 1;
            of_task.first = of_task.first.min(message.start);
            of_task.last = of_task.last.max(message.done);
            of_task.end = of_task.end.max(message.done);
        }
        if self.has_computations {
            self.add_computations(run, &ends, &mut iterations);
        }
        let mut wanted = self.wanted.iter().peekable();
        let mut begin = Time::ZERO;
        while let Some((place, count)) = wanted.next() {
            let (job, round) = *place;
            if round == 0 {
                begin = scenario.start_of(job);
            }
            let Some(done) = iterations.get(place).filter(|done| done.count == *count) else {
                // The iterations after it are not complete either.
                while wanted.next_if(|((other, _), _)| *other == job).is_some() {}
                let is_empty = window.is_some_and(Window::is_empty);
                if begin < window.map_or(end, |window| window.until) && !is_empty {
                    measured.record_time(M::Iteration, Known::between(begin, None, end));
                    let first = iterations.get(place).map_or(end, |begun| begun.first);
                    measured.record_time(M::Communication, Known::between(first, None, end));
                }
                let start = scenario.start_of(job);
                if start < end {
                    measured.record_time(M::Job, Known::between(start, None, end));
                }
                continue;
            };
            if window.is_none_or(|window| window.holds(done.end)) {
                measured.record(M::Iteration, done.end.since(begin).ns());
                measured.record(M::Communication, done.last.since(done.first).ns());
            }
            begin = begin.max(done.end);
            if wanted.peek().is_none_or(|((other, _), _)| *other != job) {
                measured.record(M::Job, begin.since(scenario.start_of(job)).ns());
            }
        }
    }
}

impl Messages<'_> {
    /// Returns the end of each message that arrived, and of the computations that follow from these.
    fn ends(&self, run: &Run) -> Vec<Option<Time>> {
        let mut ends: Vec<Option<Time>> = vec![None; run.schedule.tasks.len()];
        for message in &self.done {
            ends[message.task as usize] = Some(message.done);
        }
        for (index, task) in run.schedule.tasks.iter().enumerate() {
            if task.flow.is_none() && self.wanted.contains_key(&(task.job, task.round)) {
                ends[index] = begin(task, &ends);
            }
        }
        ends
    }

    /// Returns when each message might begin that was begun, but did not arrive by the end of the run.
    fn begun(&self, run: &Run, ends: &[Option<Time>], end: Time) -> Vec<Time> {
        let tasks = run.schedule.tasks.iter().zip(ends);
        let cut_off = tasks.filter(|(task, done)| {
            let is_of_entry = self.wanted.contains_key(&(task.job, task.round));
            task.flow.is_some() && done.is_none() && is_of_entry
        });
        cut_off.filter_map(|(task, _)| begin(task, ends)).filter(|begin| *begin < end).collect()
    }

    /// Adds the ends of computations. A job may end with them.
    fn add_computations(
        &self,
        run: &Run,
        ends: &[Option<Time>],
        iterations: &mut BTreeMap<(u32, u32), Iteration>,
    ) {
        for (task, end) in run.schedule.tasks.iter().zip(ends) {
            let iteration = iterations.get_mut(&(task.job, task.round));
            if let (None, Some(end), Some(iteration)) = (task.flow, end, iteration) {
                iteration.end = iteration.end.max(*end);
            }
        }
    }
}

/// Returns when a message might begin, or when a computation is done. `None` while what comes before it is not.
fn begin(task: &Task, ends: &[Option<Time>]) -> Option<Time> {
    let before = task.after.iter().map(|before| ends[*before as usize]);
    let last = before.collect::<Option<Vec<Time>>>()?.into_iter().max();
    Some(last.unwrap_or(Time::ZERO) + Duration::from_ns(task.gap_ns))
}

/// Measures the time of a trace whose transfers wait for no others.
pub(super) fn measure_trace(
    scenario: &Scenario,
    measured: &mut Measured,
    flows: &[&FlowOutcome],
    end: Time,
) {
    let all = flows.iter().map(|flow| flow.done_at).collect::<Option<Vec<_>>>();
    let last = all.and_then(|all| all.into_iter().max());
    let start = scenario.first_start(&measured.subject);
    if start < end {
        measured.record_time(M::Job, Known::between(start, last, end));
    }
}

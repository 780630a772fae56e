//! Measures messages that wait for each other: jobs and their iterations.

use std::collections::BTreeMap;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::{FlowOutcome, MessageRecord, Outcome};
use knee_run::spec::Run;

use crate::metric::{Kind, Measured, Metric as M, Window};
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
        window: Option<Window>,
    ) {
        let mut iterations: BTreeMap<(u32, u32), Iteration> = BTreeMap::new();
        for message in &self.done {
            measured.record(M::Completion, message.done.since(message.start).ns());
            let task = &run.schedule.tasks[message.task as usize];
            let (first, last, end) = (Time::MAX, Time::ZERO, Time::ZERO);
            let none = Iteration { count: 0, first, last, end };
            let of_task = iterations.entry((task.job, task.round)).or_insert(none);
            of_task.count += 1;
            of_task.first = of_task.first.min(message.start);
            of_task.last = of_task.last.max(message.done);
            of_task.end = of_task.end.max(message.done);
        }
        if self.has_computations {
            self.add_computations(run, &mut iterations);
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
    /// Adds the ends of computations, which follow from those of messages. A job may end with them.
    fn add_computations(&self, run: &Run, iterations: &mut BTreeMap<(u32, u32), Iteration>) {
        let mut ends: Vec<Option<Time>> = vec![None; run.schedule.tasks.len()];
        for message in &self.done {
            ends[message.task as usize] = Some(message.done);
        }
        for (index, task) in run.schedule.tasks.iter().enumerate() {
            if task.flow.is_some() || !self.wanted.contains_key(&(task.job, task.round)) {
                continue;
            }
            let before = task.after.iter().map(|before| ends[*before as usize]);
            let begin = before.collect::<Option<Vec<Time>>>().map(|all| all.into_iter().max());
            let gap = Duration::from_ns(task.gap_ns);
            ends[index] = begin.map(|begin| begin.unwrap_or(Time::ZERO) + gap);
            let iteration = iterations.get_mut(&(task.job, task.round));
            if let (Some(end), Some(iteration)) = (ends[index], iteration) {
                iteration.end = iteration.end.max(end);
            }
        }
    }
}

/// Measures the time of a trace whose transfers wait for no others, if all of them are complete.
pub(super) fn measure_trace(scenario: &Scenario, measured: &mut Measured, flows: &[&FlowOutcome]) {
    let last = flows.iter().map(|flow| flow.done_at).collect::<Option<Vec<_>>>();
    if let Some(last) = last.and_then(|all| all.into_iter().max()) {
        let time = last.since(scenario.first_start(&measured.subject));
        measured.record(M::Job, time.ns());
    }
}

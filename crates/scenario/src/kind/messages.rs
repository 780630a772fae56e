//! Measures messages that wait for each other: jobs and their iterations.

use std::collections::BTreeMap;

use knee_queue::time::{Duration, Time};
use knee_run::outcome::MessageRecord;
use knee_run::spec::{Run, Task};

use super::{Facts, Group};
use crate::metric::{Known, Measured, Metric as M};

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
    pub(super) fn of(group: &Group<'a>, has_computations: bool) -> Option<Messages<'a>> {
        let Facts { run, outcome, .. } = group.facts;
        let tasks = &run.schedule.tasks;
        let is_of_group = |task: u32| {
            let flow = tasks.get(task as usize).and_then(|task| task.flow);
            flow.is_some_and(|flow| run.flows[flow as usize].group == group.number)
        };
        let mut wanted = BTreeMap::new();
        let mut have_connections = true;
        for (_, task) in (0u32..).zip(tasks).filter(|(index, _)| is_of_group(*index)) {
            *wanted.entry((task.job, task.round)).or_insert(0) += 1;
            have_connections &= task.connects;
        }
        let done = outcome.messages.iter().filter(|message| is_of_group(message.task)).collect();
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

    /// Measures messages, iterations and jobs. Iterations count if they end in the window.
    pub(super) fn measure(&self, measured: &mut Measured, facts: &Facts<'_>) {
        let Facts { run, window, starts, .. } = facts;
        let end = facts.outcome.end;
        let unfinished = self.wanted.values().sum::<u64>() - self.done.len() as u64;
        measured.record(M::Unfinished, unfinished);
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
                begin = starts[job as usize];
            }
            let Some(done) = iterations.get(place).filter(|done| done.count == *count) else {
                // The iterations after it are not complete either.
                while wanted.next_if(|((other, _), _)| *other == job).is_some() {}
                let until = window.map_or(end, |window| window.until);
                if begin < until && !facts.is_window_empty() {
                    measured.record_time(M::Iteration, Known::between(begin, None, end));
                    let first = iterations.get(place).map_or(end, |begun| begun.first);
                    measured.record_time(M::Communication, Known::between(first, None, end));
                }
                let start = starts[job as usize];
                if start < end {
                    measured.record_time(M::Job, Known::between(start, None, end));
                }
                continue;
            };
            if facts.holds(done.end) {
                measured.record(M::Iteration, done.end.since(begin).ns());
                measured.record(M::Communication, done.last.since(done.first).ns());
            }
            begin = begin.max(done.end);
            if wanted.peek().is_none_or(|((other, _), _)| *other != job) {
                measured.record(M::Job, begin.since(starts[job as usize]).ns());
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

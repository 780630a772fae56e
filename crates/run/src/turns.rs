//! Flows that wait for others: when each begins, in a simulation.

pub use knee_traffic::{Due, Next, PoolState, Ready};

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::spec::{Flow, Schedule};
use knee_queue::time::PS_PER_NS;
use knee_queue::time::Time;

/// Whose turn it is, and since when.
pub struct Turns {
    /// When each flow begins; later than any run: its turn has not come.
    begins: Vec<Time>,
    turns: knee_traffic::ScheduleState,
    /// Messages and computations; `None`: there are none.
    tasks: Option<knee_traffic::TaskState>,
    /// Messages of each flow that are not written yet and whose time is known: time in ps, and task.
    due: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
}

impl Turns {
    /// `None` if nobody waits.
    pub fn new(schedule: &Schedule, flows: &[Flow]) -> Option<Box<Turns>> {
        if schedule.is_empty() {
            return None;
        }
        let tasks = (!schedule.tasks.is_empty())
            .then(|| knee_traffic::TaskState::new(&schedule.tasks, flows.len(), PS_PER_NS));
        let opens_later = |flow: usize| tasks.as_ref().is_some_and(|tasks| tasks.opens_later(flow));
        let mut turns = knee_traffic::ScheduleState::new(schedule, flows.len());
        let begin = |(index, flow): (usize, &Flow)| {
            if turns.waits(index) || opens_later(index) { Time::MAX } else { flow.start }
        };
        let mut begins: Vec<Time> = flows.iter().enumerate().map(begin).collect();
        for flow in turns.first() {
            begins[flow as usize] = flows[flow as usize].start;
        }
        let due = vec![BinaryHeap::new(); if tasks.is_some() { flows.len() } else { 0 }];
        Some(Box::new(Turns { begins, turns, tasks, due }))
    }

    /// When a flow begins.
    pub fn begin_of(&self, flow: usize) -> Time {
        self.begins[flow]
    }

    /// A flow begins then.
    pub fn set_begin(&mut self, flow: usize, at: Time) {
        self.begins[flow] = at;
    }

    /// A flow is done: the flows whose turn it is now.
    pub fn on_end(&mut self, flow: usize) -> Vec<u32> {
        self.turns.on_end(flow)
    }

    /// A flow would send its next request.
    pub fn on_ready(&mut self, flow: usize) -> Ready {
        self.turns.on_ready(flow)
    }

    /// The flow at this place of a set.
    pub fn member(&self, set: usize, place: usize) -> Option<u32> {
        self.turns.member(set, place)
    }

    /// Whether a flow carries messages, each written at its own time.
    pub fn carries_messages(&self, flow: usize) -> bool {
        self.tasks.as_ref().is_some_and(|tasks| tasks.carries(flow))
    }

    /// The messages that begin without waiting for another.
    pub fn first_messages(&mut self) -> Vec<Due> {
        let first = self.tasks.as_mut().map(knee_traffic::TaskState::first);
        self.keep(first.unwrap_or_default())
    }

    /// A message is done: the messages that begin by that. Each is kept until [`Turns::next_message`] takes it.
    pub fn on_message(&mut self, task: u32, at: Time) -> Vec<Due> {
        let next = self.tasks.as_mut().map(|tasks| tasks.on_done(task, at.ps()));
        self.keep(next.unwrap_or_default())
    }

    fn keep(&mut self, all: Vec<Due>) -> Vec<Due> {
        for due in &all {
            let flow = due.flow as usize;
            self.due[flow].push(Reverse((due.at, due.task)));
            if self.begins[flow] == Time::MAX {
                self.begins[flow] = Time::from_ps(due.at);
            }
        }
        all
    }

    /// The next message of a flow that may be written now, with its size. Whoever takes it writes it.
    pub fn next_message(&mut self, flow: usize, now: Time) -> Option<(Due, u64)> {
        let due = self.due.get_mut(flow)?;
        let Reverse((at, task)) = *due.peek()?;
        if at > now.ps() {
            return None;
        }
        due.pop();
        let tasks = self.tasks.as_mut()?;
        tasks.on_write(task);
        Some((Due { task, flow: flow as u32, at }, tasks.bytes(task)))
    }

    /// Bytes until the end of the message that a flow's receiver waits for.
    pub fn left_of_message(&self, flow: usize) -> Option<u64> {
        self.tasks.as_ref()?.left_of_message(flow)
    }

    /// The receiver of a flow has read: the messages that are whole by that.
    pub fn on_read(&mut self, flow: usize, bytes: u64) -> Vec<u32> {
        let mut whole = Vec::new();
        if let Some(tasks) = &mut self.tasks {
            tasks.on_read(flow, bytes, &mut whole);
        }
        whole
    }
}

//! Flows that wait for others: when each begins, in a simulation.

pub use knee_traffic::Ready;

use crate::spec::{Flow, Schedule};
use knee_queue::time::Time;

/// Whose turn it is, and since when.
pub struct Turns {
    /// When each flow begins; later than any run: its turn has not come.
    begins: Vec<Time>,
    turns: knee_traffic::ScheduleState,
}

impl Turns {
    /// `None` if nobody waits.
    pub fn new(schedule: &Schedule, flows: &[Flow]) -> Option<Box<Turns>> {
        if schedule.series.is_empty() && schedule.together.is_empty() {
            return None;
        }
        let mut turns = knee_traffic::ScheduleState::new(schedule, flows.len());
        let begin = |(index, flow): (usize, &Flow)| {
            if turns.waits(index) { Time::MAX } else { flow.start }
        };
        let mut begins: Vec<Time> = flows.iter().enumerate().map(begin).collect();
        for flow in turns.first() {
            begins[flow as usize] = flows[flow as usize].start;
        }
        Some(Box::new(Turns { begins, turns }))
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
}

//! Flows that wait for others: who begins, and who sends a request, when somebody is done.

use crate::spec::{Flow, Order, Series};
use knee_queue::time::Time;

/// What became of a flow that is ready for its next request.
pub enum Ready {
    /// It waits for nobody.
    Alone,
    /// It waits for others of its set.
    Waits,
    /// It was the last: all of the set send.
    All(Vec<u32>),
}

/// Whose turn it is.
pub struct Turns {
    /// When each flow begins; later than any run: its turn has not come.
    begins: Vec<Time>,
    /// Of each flow its series and, within the round, its lane.
    places: Vec<Option<(usize, usize)>>,
    series: Vec<Progress>,
    /// Of each flow the set of those that send their requests together.
    sets: Vec<Option<usize>>,
    together: Vec<Vec<u32>>,
    /// Members of each set that are ready.
    ready: Vec<usize>,
}

/// How far a series has come.
struct Progress {
    series: Series,
    /// Rounds that have begun.
    rounds: usize,
    /// Flows of the last of them that are not done.
    left: usize,
    /// Of each lane, how many flows have had their turn.
    taken: Vec<usize>,
}

impl Turns {
    /// `None` if nobody waits.
    pub fn new(order: &Order, flows: &[Flow]) -> Option<Box<Turns>> {
        if order.series.is_empty() && order.together.is_empty() {
            return None;
        }
        let mut turns = Turns {
            begins: flows.iter().map(|flow| flow.start).collect(),
            places: vec![None; flows.len()],
            series: Vec::new(),
            sets: vec![None; flows.len()],
            ready: vec![0; order.together.len()],
            together: order.together.clone(),
        };
        for (index, series) in order.series.iter().enumerate() {
            for (lane, flow) in series.rounds.iter().flat_map(|round| members(round)) {
                turns.places[flow as usize] = Some((index, lane));
                turns.begins[flow as usize] = Time::MAX;
            }
            let mut progress =
                Progress { series: series.clone(), rounds: 0, left: 0, taken: Vec::new() };
            for flow in progress.next_round() {
                turns.begins[flow as usize] = flows[flow as usize].start;
            }
            turns.series.push(progress);
        }
        for (set, members) in order.together.iter().enumerate() {
            for flow in members {
                turns.sets[*flow as usize] = Some(set);
            }
        }
        Some(Box::new(turns))
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
        let Some((series, lane)) = self.places[flow] else { return Vec::new() };
        self.series[series].on_end(lane)
    }

    /// A flow would send its next request.
    pub fn on_ready(&mut self, flow: usize) -> Ready {
        let Some(set) = self.sets[flow] else { return Ready::Alone };
        self.ready[set] += 1;
        if self.ready[set] < self.together[set].len() {
            return Ready::Waits;
        }
        self.ready[set] = 0;
        Ready::All(self.together[set].clone())
    }
}

/// Flows of a round with the number of their lane.
fn members(round: &[crate::spec::Lane]) -> impl Iterator<Item = (usize, u32)> {
    round.iter().enumerate().flat_map(|(lane, all)| all.flows.iter().map(move |flow| (lane, *flow)))
}

impl Progress {
    /// The first flows of each lane of the next round, if there is one.
    fn next_round(&mut self) -> Vec<u32> {
        let Some(round) = self.series.rounds.get(self.rounds) else { return Vec::new() };
        self.rounds += 1;
        self.left = members(round).count();
        self.taken =
            round.iter().map(|lane| lane.flows.len().min(lane.parallel as usize)).collect();
        let first = round.iter().zip(&self.taken).flat_map(|(lane, taken)| &lane.flows[..*taken]);
        first.copied().collect()
    }

    /// A flow of this lane is done.
    fn on_end(&mut self, lane: usize) -> Vec<u32> {
        self.left -= 1;
        if self.left == 0 {
            return self.next_round();
        }
        let flows = &self.series.rounds[self.rounds - 1][lane].flows;
        let next = flows.get(self.taken[lane]).copied();
        self.taken[lane] += usize::from(next.is_some());
        next.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Lane;

    #[test]
    fn lanes_take_turns_and_rounds_wait_for_all() {
        let lane = |flows: &[u32], parallel| Lane { flows: flows.to_vec(), parallel };
        let rounds = vec![vec![lane(&[0, 1, 2], 2), lane(&[3, 4], 1)], vec![lane(&[5, 6], 9)]];
        let mut progress =
            Progress { series: Series { rounds }, rounds: 0, left: 0, taken: Vec::new() };
        assert_eq!(progress.next_round(), [0, 1, 3]);
        assert_eq!(progress.on_end(0), [2]);
        assert_eq!(progress.on_end(0), [0; 0]);
        assert_eq!(progress.on_end(1), [4]);
        assert_eq!(progress.on_end(1), [0; 0]);
        // The last of the five: the next round, all of it.
        assert_eq!(progress.on_end(0), [5, 6]);
        assert_eq!(progress.on_end(0), [0; 0]);
        assert_eq!(progress.on_end(0), [0; 0]);
    }
}

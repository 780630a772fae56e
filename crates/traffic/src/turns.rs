//! Flows that wait for others: who begins, and who sends a request, when somebody is done.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Lane, Order, Series};

/// What became of a flow that is ready for its next request.
pub enum Ready {
    /// It waits for nobody.
    Alone,
    /// It waits for others of its set.
    Waits,
    /// It was the last: all of this set send, each a [`Turns::member`].
    All(usize),
}

/// Whose turn it is.
pub struct Turns {
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
    /// Of so many flows. Those that an order names beyond them wait for ever.
    pub fn new(order: &Order, flows: usize) -> Turns {
        let mut turns = Turns {
            places: vec![None; flows],
            series: Vec::new(),
            sets: vec![None; flows],
            ready: vec![0; order.together.len()],
            together: order.together.clone(),
        };
        for (index, series) in order.series.iter().enumerate() {
            for (lane, flow) in series.rounds.iter().flat_map(|round| members(round)) {
                if let Some(place) = turns.places.get_mut(flow as usize) {
                    *place = Some((index, lane));
                }
            }
            let series = series.clone();
            turns.series.push(Progress { series, rounds: 0, left: 0, taken: Vec::new() });
        }
        for (set, members) in order.together.iter().enumerate() {
            for flow in members {
                if let Some(place) = turns.sets.get_mut(*flow as usize) {
                    *place = Some(set);
                }
            }
        }
        turns
    }

    /// Whether a flow begins when it is its turn.
    pub fn waits(&self, flow: usize) -> bool {
        self.places.get(flow).is_some_and(Option::is_some)
    }

    /// The flows whose turn it is at the beginning.
    pub fn first(&mut self) -> Vec<u32> {
        self.series.iter_mut().flat_map(Progress::next_round).collect()
    }

    /// A flow is done: the flows whose turn it is now.
    pub fn on_end(&mut self, flow: usize) -> Vec<u32> {
        let Some(Some((series, lane))) = self.places.get(flow) else { return Vec::new() };
        self.series[*series].on_end(*lane)
    }

    /// A flow would send its next request.
    pub fn on_ready(&mut self, flow: usize) -> Ready {
        let Some(Some(set)) = self.sets.get(flow).copied() else { return Ready::Alone };
        self.ready[set] += 1;
        if self.ready[set] < self.together[set].len() {
            return Ready::Waits;
        }
        self.ready[set] = 0;
        Ready::All(set)
    }

    /// The flow at this place of a set.
    pub fn member(&self, set: usize, place: usize) -> Option<u32> {
        self.together.get(set)?.get(place).copied()
    }
}

/// Flows of a round with the number of their lane.
fn members(round: &[Lane]) -> impl Iterator<Item = (usize, u32)> {
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

    #[test]
    fn lanes_take_turns_and_rounds_wait_for_all() {
        let lane = |flows: &[u32], parallel| Lane { flows: flows.to_vec(), parallel };
        let rounds = vec![vec![lane(&[0, 1, 2], 2), lane(&[3, 4], 1)], vec![lane(&[5, 6], 9)]];
        let order = Order { series: vec![Series { rounds }], together: Vec::new() };
        let mut turns = Turns::new(&order, 8);
        assert_eq!((turns.waits(6), turns.waits(7), turns.waits(8)), (true, false, false));
        assert_eq!(turns.first(), [0, 1, 3]);
        assert_eq!(turns.on_end(0), [2]);
        assert_eq!(turns.on_end(1), [0; 0]);
        assert_eq!(turns.on_end(3), [4]);
        assert_eq!(turns.on_end(4), [0; 0]);
        // The last of the five: the next round, all of it.
        assert_eq!(turns.on_end(2), [5, 6]);
        assert_eq!(turns.on_end(5), [0; 0]);
        assert_eq!(turns.on_end(6), [0; 0]);
        assert_eq!(turns.on_end(7), [0; 0]);
    }
}

//! Flows that wait for others: the flows that may begin, or send a request, when another completes.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Schedule, Sequence, Series};

/// Result of [`ScheduleState::on_ready`].
pub enum Ready {
    /// The flow is in no set: it sends at once.
    Alone,
    /// Other flows of its set are not ready yet.
    Waits,
    /// All flows of this set are ready and send, each a [`ScheduleState::member`].
    All(usize),
}

/// Progress of a [`Schedule`] during a run.
pub struct ScheduleState {
    /// Series and sequence of each flow.
    places: Vec<Option<(usize, usize)>>,
    series: Vec<Progress>,
    /// Set of each flow, among flows that send their requests together.
    sets: Vec<Option<usize>>,
    together: Vec<Vec<u32>>,
    /// Members of each set that are ready.
    ready: Vec<usize>,
}

/// Progress of one series.
struct Progress {
    series: Series,
    /// Rounds that have begun.
    rounds: usize,
    /// Flows of the current round that have not completed.
    left: usize,
    /// Flows started in each sequence of the current round.
    taken: Vec<usize>,
}

impl ScheduleState {
    /// For this number of flows. The schedule's flows beyond it never begin.
    pub fn new(schedule: &Schedule, flows: usize) -> ScheduleState {
        let mut state = ScheduleState {
            places: vec![None; flows],
            series: Vec::new(),
            sets: vec![None; flows],
            ready: vec![0; schedule.together.len()],
            together: schedule.together.clone(),
        };
        for (index, series) in schedule.series.iter().enumerate() {
            for (sequence, flow) in series.rounds.iter().flat_map(|round| members(round)) {
                if let Some(place) = state.places.get_mut(flow as usize) {
                    *place = Some((index, sequence));
                }
            }
            let series = series.clone();
            state.series.push(Progress { series, rounds: 0, left: 0, taken: Vec::new() });
        }
        for (set, members) in schedule.together.iter().enumerate() {
            for flow in members {
                if let Some(place) = state.sets.get_mut(*flow as usize) {
                    *place = Some(set);
                }
            }
        }
        state
    }

    /// Whether a flow waits for others before it begins.
    pub fn waits(&self, flow: usize) -> bool {
        self.places.get(flow).is_some_and(Option::is_some)
    }

    /// Flows that begin at the start of the run.
    pub fn first(&mut self) -> Vec<u32> {
        self.series.iter_mut().flat_map(Progress::next_round).collect()
    }

    /// A flow completed: returns the flows that may now begin.
    pub fn on_end(&mut self, flow: usize) -> Vec<u32> {
        let Some(Some((series, sequence))) = self.places.get(flow) else { return Vec::new() };
        self.series[*series].on_end(*sequence)
    }

    /// A flow is ready for its next request.
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

/// Flows of a round, with the number of their sequence.
fn members(round: &[Sequence]) -> impl Iterator<Item = (usize, u32)> {
    round
        .iter()
        .enumerate()
        .flat_map(|(sequence, all)| all.flows.iter().map(move |flow| (sequence, *flow)))
}

impl Progress {
    /// The first flows of each sequence of the next round; none after the last round.
    fn next_round(&mut self) -> Vec<u32> {
        let Some(round) = self.series.rounds.get(self.rounds) else { return Vec::new() };
        self.rounds += 1;
        self.left = members(round).count();
        self.taken = round
            .iter()
            .map(|sequence| sequence.flows.len().min(sequence.parallel as usize))
            .collect();
        let first =
            round.iter().zip(&self.taken).flat_map(|(sequence, taken)| &sequence.flows[..*taken]);
        first.copied().collect()
    }

    /// A flow of this sequence completed.
    fn on_end(&mut self, sequence: usize) -> Vec<u32> {
        self.left -= 1;
        if self.left == 0 {
            return self.next_round();
        }
        let flows = &self.series.rounds[self.rounds - 1][sequence].flows;
        let next = flows.get(self.taken[sequence]).copied();
        self.taken[sequence] += usize::from(next.is_some());
        next.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_run_in_parallel_and_rounds_wait_for_all() {
        let sequence = |flows: &[u32], parallel| Sequence { flows: flows.to_vec(), parallel };
        let rounds =
            vec![vec![sequence(&[0, 1, 2], 2), sequence(&[3, 4], 1)], vec![sequence(&[5, 6], 9)]];
        let schedule = Schedule { series: vec![Series { rounds }], ..Schedule::default() };
        let mut state = ScheduleState::new(&schedule, 8);
        assert_eq!((state.waits(6), state.waits(7), state.waits(8)), (true, false, false));
        assert_eq!(state.first(), [0, 1, 3]);
        assert_eq!(state.on_end(0), [2]);
        assert_eq!(state.on_end(1), [0; 0]);
        assert_eq!(state.on_end(3), [4]);
        assert_eq!(state.on_end(4), [0; 0]);
        // The last of the five: the next round, all of it.
        assert_eq!(state.on_end(2), [5, 6]);
        assert_eq!(state.on_end(5), [0; 0]);
        assert_eq!(state.on_end(6), [0; 0]);
        assert_eq!(state.on_end(7), [0; 0]);
    }
}

//! Requests that arrive at times of their own: which connection of a pool takes each, and when.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::Pool;

/// What a pool does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The request that arrived at this time, in ns, leaves on this flow now.
    Begin(u32, u64),
    /// It waits for the next request: [`PoolState::wakes`] is to be asked then, in ns.
    At(u64),
    /// It waits for an answer, or for a time that it has said before, or has no more requests.
    Waits,
}

/// Progress of all pools of a run. Its functions are told these again each time, so that a long list of arrivals is kept once.
#[derive(Debug, Default)]
pub struct PoolState {
    /// Pool of each flow, and its place there; empty if there are no pools.
    places: Vec<Option<(u32, u32)>>,
    pools: Vec<Progress>,
    /// Answers of the listening side of each flow.
    answered: Vec<u64>,
}

/// Progress of one pool.
#[derive(Debug, Default)]
struct Progress {
    /// Requests that have left, in the order of arrival.
    begun: usize,
    /// Connections without a request; the one that has been so longest comes first.
    free: VecDeque<u32>,
    /// When it asked to be woken.
    wakes_ns: Option<u64>,
}

impl PoolState {
    /// For this number of flows.
    pub fn new(pools: &[Pool], flows: usize) -> PoolState {
        if pools.is_empty() {
            return PoolState::default();
        }
        let mut places = vec![None; flows];
        for (pool, number) in pools.iter().zip(0..) {
            for (flow, place) in pool.flows.iter().zip(0..) {
                if let Some(of_flow) = places.get_mut(*flow as usize) {
                    *of_flow = Some((number, place));
                }
            }
        }
        let progress = pools.iter().map(|_| Progress::default()).collect();
        PoolState { places, pools: progress, answered: vec![0; flows] }
    }

    /// The pool of a flow, if it is in one.
    pub fn pool_of(&self, flow: usize) -> Option<usize> {
        Some(self.places.get(flow)?.as_ref()?.0 as usize)
    }

    /// A connection is ready for a request.
    pub fn free(&mut self, flow: usize) {
        if let Some(pool) = self.pool_of(flow) {
            self.pools[pool].free.push_back(flow as u32);
        }
    }

    /// A connection is gone.
    pub fn leave(&mut self, flow: usize) {
        if let Some(pool) = self.pool_of(flow) {
            self.pools[pool].free.retain(|free| *free as usize != flow);
        }
    }

    /// What this pool does at `now_ns`. To be asked again after [`Next::Begin`].
    pub fn next(&mut self, pools: &[Pool], pool: usize, now_ns: u64) -> Next {
        let progress = &mut self.pools[pool];
        let Some(arrival_ns) = pools[pool].arrivals_ns.get(progress.begun).copied() else {
            return Next::Waits;
        };
        if progress.free.is_empty() {
            return Next::Waits;
        }
        if arrival_ns > now_ns {
            let is_said = progress.wakes_ns.replace(arrival_ns) == Some(arrival_ns);
            return if is_said { Next::Waits } else { Next::At(arrival_ns) };
        }
        progress.begun += 1;
        progress.free.pop_front().map_or(Next::Waits, |flow| Next::Begin(flow, arrival_ns))
    }

    /// Whether a pool asked to be woken at or before this time, and has not been.
    pub fn wakes(&mut self, pool: usize, now_ns: u64) -> bool {
        let wakes = &mut self.pools[pool].wakes_ns;
        wakes.take_if(|at_ns| *at_ns <= now_ns).is_some()
    }

    /// Size of the answer to request `number` of a connection, from 0; `None`: as its traffic says.
    pub fn response_bytes(&self, pools: &[Pool], flow: usize, number: u64) -> Option<u64> {
        let (pool, place) = (*self.places.get(flow)?)?;
        pools[pool as usize].response_bytes(place, number)
    }

    /// Size of the next answer of a listening side.
    pub fn next_response_bytes(&mut self, pools: &[Pool], flow: usize) -> Option<u64> {
        let number = self.answered.get_mut(flow)?;
        *number += 1;
        let number = *number - 1;
        self.response_bytes(pools, flow, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(flows: &[u32], arrivals_ns: &[u64], sizes: &[u64]) -> Pool {
        Pool {
            flows: flows.to_vec(),
            arrivals_ns: arrivals_ns.to_vec(),
            response_bytes: sizes.to_vec(),
        }
    }

    #[test]
    fn a_request_takes_the_connection_that_has_been_free_longest_or_waits_for_one() {
        let pools = [pool(&[4, 2], &[10, 10, 20, 70], &[])];
        let mut state = PoolState::new(&pools, 5);
        assert_eq!((state.pool_of(2), state.pool_of(3), state.pool_of(9)), (Some(0), None, None));
        state.free(2);
        assert_eq!(state.next(&pools, 0, 3), Next::At(10));
        state.free(4);
        // It is woken once.
        assert_eq!(state.next(&pools, 0, 4), Next::Waits);
        assert!(!state.wakes(0, 9) && state.wakes(0, 10) && !state.wakes(0, 10));
        assert_eq!(state.next(&pools, 0, 10), Next::Begin(2, 10));
        assert_eq!(state.next(&pools, 0, 10), Next::Begin(4, 10));
        // The third finds both busy, and leaves late.
        assert_eq!(state.next(&pools, 0, 10), Next::Waits);
        state.free(4);
        assert_eq!(state.next(&pools, 0, 50), Next::Begin(4, 20));
        // A connection that is gone takes none.
        state.free(2);
        state.free(4);
        state.leave(2);
        assert_eq!(state.next(&pools, 0, 60), Next::At(70));
        assert!(state.wakes(0, 70));
        assert_eq!(state.next(&pools, 0, 70), Next::Begin(4, 70));
        state.free(4);
        assert_eq!(state.next(&pools, 0, 80), Next::Waits);
    }

    /// Both sides of a connection know each size, and of one connection they are in the order of arrival.
    #[test]
    fn connections_take_turns_in_the_list_of_sizes() {
        let pools = [pool(&[0], &[1], &[7, 8, 9]), pool(&[2, 1], &[1], &[10, 11, 12, 13])];
        let mut state = PoolState::new(&pools, 4);
        let asked = |state: &PoolState, flow, numbers: [u64; 4]| {
            numbers.map(|number| state.response_bytes(&pools, flow, number))
        };
        assert_eq!(asked(&state, 0, [0, 1, 2, 3]), [7, 8, 9, 7].map(Some));
        assert_eq!(asked(&state, 2, [0, 1, 2, 3]), [10, 12, 10, 12].map(Some));
        assert_eq!(asked(&state, 1, [0, 1, 2, 3]), [11, 13, 11, 13].map(Some));
        assert_eq!(asked(&state, 3, [0, 1, 2, 3]), [None; 4]);
        let answers = [(); 4].map(|()| state.next_response_bytes(&pools, 1));
        assert_eq!(answers, [11, 13, 11, 13].map(Some));
    }
}

//! How far the runs have come that go on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use knee_run::spec::Run;

/// The runs that go on, and the number of those that need not be carried out. Threads of runs change it, and whoever shows
/// progress looks at it.
#[derive(Debug, Default)]
pub struct Going {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<Arc<OneRun>>,
    known: usize,
    expected: usize,
}

#[derive(Debug)]
struct OneRun {
    reached_ps: AtomicU64,
    end_ps: u64,
    may_end_early: bool,
}

/// A run while it goes on.
#[derive(Debug)]
pub(crate) struct Begun {
    going: Arc<Going>,
    run: Arc<OneRun>,
}

/// What [`Going`] knows at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Number of runs whose results were known, so that they took no time.
    pub known: usize,
    /// Number of runs whose results are known from before, and that have not been passed yet.
    pub to_pass: usize,
    /// The runs that go on, as a number of whole ones.
    pub runs: f64,
    /// Seconds of simulated time that the run has done, of all, if one alone goes on and its back end tells.
    pub of_one: Option<(f64, f64)>,
    /// Whether a run that goes on may end before its time is over.
    pub may_end_early: bool,
}

impl Going {
    /// Begins a run.
    pub(crate) fn begin(self: &Arc<Going>, run: &Run) -> Begun {
        let run = Arc::new(OneRun {
            reached_ps: AtomicU64::new(0),
            end_ps: run.end.ps(),
            may_end_early: run.until_done,
        });
        self.state().runs.push(run.clone());
        Begun { going: self.clone(), run }
    }

    /// Notes that so many runs are known before a sweep begins.
    pub(crate) fn expect(&self, known: usize) {
        let mut state = self.state();
        (state.known, state.expected) = (0, known);
    }

    /// Notes that a run was known.
    pub(crate) fn pass(&self) {
        self.state().known += 1;
    }

    /// Returns how far the runs are.
    pub fn reached(&self) -> Reached {
        const PS_PER_S: f64 = 1e12;
        let state = self.state();
        let each = state
            .runs
            .iter()
            .map(|run| (run.reached_ps.load(Ordering::Relaxed) as f64, run.end_ps as f64));
        let shares =
            each.clone().map(|(now, end)| if end > 0.0 { (now / end).min(1.0) } else { 0.0 });
        let of_one = each.clone().next().filter(|(now, _)| state.runs.len() == 1 && *now > 0.0);
        Reached {
            known: state.known,
            to_pass: state.expected.saturating_sub(state.known),
            runs: shares.sum(),
            of_one: of_one.map(|(now, end)| (now / PS_PER_S, end / PS_PER_S)),
            may_end_early: state.runs.iter().any(|run| run.may_end_early),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    /// Where the back end notes how far the run has come.
    pub(crate) fn reached(&self) -> &AtomicU64 {
        &self.run.reached_ps
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.going.state().runs.retain(|run| !Arc::ptr_eq(run, &self.run));
    }
}

impl Reached {
    /// Returns the seconds that are left of a sweep of so many runs, of which `done` have finished after these seconds. `None` before
    /// anything tells.
    pub fn left_s(&self, done: usize, all: usize, elapsed_s: f64) -> Option<f64> {
        // Below this share of a run the time that it took to build the network counts for much.
        const LEAST: f64 = 0.02;
        let carried_out = done.saturating_sub(self.known) as f64 + self.runs;
        let left = all.saturating_sub(done + self.to_pass) as f64 - self.runs;
        (carried_out >= LEAST).then(|| elapsed_s / carried_out * left.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: Option<f64>, expected: f64) {
        assert!(value.is_some_and(|value| (value - expected).abs() < 1e-9), "{value:?}");
    }

    #[test]
    fn the_time_left_follows_from_what_was_carried_out() {
        // A quarter of the only run in 8 s.
        let one = Reached { runs: 0.25, ..Reached::default() };
        near(one.left_s(0, 1, 8.0), 24.0);
        // Of 100 runs 40 were known and took no time, and 10 more are: ten carried out in 20 s, 40 are left.
        let again = Reached { known: 40, to_pass: 10, ..Reached::default() };
        near(again.left_s(50, 100, 20.0), 80.0);
        assert_eq!(Reached::default().left_s(0, 9, 3.0), None);
        assert_eq!(Reached { known: 5, ..Reached::default() }.left_s(5, 9, 3.0), None);
        near(Reached { runs: 0.5, ..Reached::default() }.left_s(3, 4, 7.0), 1.0);
    }

    #[test]
    fn expected_runs_are_passed_one_by_one() {
        let going = Arc::new(Going::default());
        going.expect(3);
        going.pass();
        let now = going.reached();
        assert_eq!((now.known, now.to_pass, now.of_one), (1, 2, None));
    }
}

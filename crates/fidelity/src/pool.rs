//! Running the runs of all cases on all cores.

use crate::Error;
use crate::case::{Case, Measured};
use knee_run::spec::Run;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Simulates every run of every case and takes what the case wants of it.
///
/// # Errors
/// If the simulator refuses a run.
pub fn run_all(
    cases: &[Case],
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Vec<Measured>>, Error> {
    let of_case = |case| move |(i, run)| (case, i, run);
    let jobs: Vec<(&Case, usize, &Run)> =
        cases.iter().flat_map(|case| case.runs.iter().enumerate().map(of_case(case))).collect();
    let done = AtomicUsize::new(0);
    let measured = map(&jobs, threads, |job| {
        let measured = measure(*job);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        measured
    });
    let mut measured = measured.into_iter();
    cases.iter().map(|case| measured.by_ref().take(case.runs.len()).collect()).collect()
}

/// Works off jobs on some threads; the results are in their order. The last jobs, by custom the long ones, begin first, so
/// that no core is left with one at the end.
pub fn map<J: Sync, R: Send + Sync>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let results: Vec<OnceLock<R>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let begun = AtomicUsize::new(0);
    let work_off = || {
        while let Some(at) = jobs.len().checked_sub(1 + begun.fetch_add(1, Ordering::Relaxed)) {
            let _ = results[at].set(work(&jobs[at]));
        }
    };
    thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work_off))));
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Simulates on a thread with the run's name, which is in the message of a panic.
fn measure((case, i, run): (&Case, usize, &Run)) -> Result<Measured, Error> {
    let label = format!("{}, run {i}, seed {}", case.name, run.seed);
    let simulate = || knee_sim::simulate(run).map(|outcome| (case.measure)(outcome));
    let measured = thread::scope(|scope| {
        let thread = thread::Builder::new().name(label.clone()).spawn_scoped(scope, simulate);
        thread.map(|thread| thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    });
    measured.map_err(Error::NoThread)?.map_err(|source| Error::Run { label, source })
}

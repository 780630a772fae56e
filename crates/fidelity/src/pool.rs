//! Running the runs of all cases on all cores.

use crate::Error;
use crate::case::{Case, Measured};
use knee_run::spec::Run;
use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The run of this thread, for the message of a panic.
pub fn current_run() -> String {
    CURRENT.with_borrow(Clone::clone)
}

/// Simulates every run of every case and takes what the case wants of it.
///
/// # Errors
/// If the simulator refuses a run.
pub fn run_all(
    cases: &[Case],
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Vec<Measured>>, Error> {
    let mut jobs: Vec<(usize, usize)> = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        jobs.extend((0..case.runs.len()).map(|j| (i, j)));
    }
    // Long ones first, so that no core is left with one at the end.
    jobs.sort_by_key(|&(i, j)| std::cmp::Reverse(effort(&cases[i].runs[j])));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while let Some(&(i, j)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (case, run) = (&cases[i], &cases[i].runs[j]);
            let label = format!("{}, run {j}, seed {}", case.name, run.seed);
            CURRENT.set(label.clone());
            let measured = match knee_sim::simulate(run) {
                Ok(outcome) => Ok((case.measure)(outcome)),
                Err(source) => Err(Error::Run { label, source }),
            };
            results.lock().expect("no thread panics while it holds it").push((i, j, measured));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it holds it");
    results.sort_by_key(|&(i, j, _)| (i, j));
    let mut by_case: Vec<Vec<Measured>> = cases.iter().map(|_| Vec::new()).collect();
    for (i, _, measured) in results {
        by_case[i].push(measured?);
    }
    Ok(by_case)
}

/// About how many packets: the bytes of the transfers, or those of the longest rate over the time.
fn effort(run: &Run) -> u64 {
    use knee_run::spec::Traffic;
    let sizes: Option<u64> = run
        .flows
        .iter()
        .map(|flow| match flow.traffic {
            Traffic::Bulk { bytes } => bytes,
            Traffic::Rpc { .. } => None,
        })
        .sum();
    let rates = run.network.links.iter().filter(|link| link.sampled).filter_map(|link| link.rate);
    let filled = rates.map(|rate| (rate.bps() as f64 / 8.0 * run.end.as_secs_f64()) as u64).max();
    sizes.or(filled).unwrap_or(0)
}

//! The barrier of a run's threads, in every order of its operations that the memory model allows.

#[path = "../src/barrier.rs"]
mod code;

/// What the barrier uses, of loom instead of the standard library.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use loom::thread::yield_now;

    /// Few, since loom tries each.
    pub(crate) const SPINS: u32 = 1;
}

use code::Barrier;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicUsize, Ordering};

/// Explores with a bound on preemptions: without it two rounds take minutes.
fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn what_was_done_before_is_seen_after() {
    explore(|| {
        let shared = Arc::new((Barrier::new(2), [AtomicUsize::new(0), AtomicUsize::new(0)]));
        let work = |me: usize, shared: &(Barrier, [AtomicUsize; 2])| {
            for round in 1..=2 {
                // Relaxed, as the progress of domains: the barrier orders it.
                shared.1[me].store(round, Ordering::Relaxed);
                assert!(shared.0.wait());
                let others = shared.1[1 - me].load(Ordering::Relaxed);
                assert!(others == round || others == round + 1, "{others} in round {round}");
            }
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || work(1, &other));
        work(0, &shared);
        thread.join().unwrap();
    });
}

#[test]
fn nobody_waits_for_a_thread_that_failed() {
    explore(|| {
        let barrier = Arc::new(Barrier::new(2));
        let other = Arc::clone(&barrier);
        let thread = thread::spawn(move || other.fail());
        assert!(!barrier.wait());
        thread.join().unwrap();
    });
}

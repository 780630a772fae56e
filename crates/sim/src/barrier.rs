//! A barrier between the threads of a run.
//!
//! `tests/barrier.rs` compiles this file with the atomics of loom, which tries all orders of their
//! operations.

use super::sync::{self, AtomicBool, AtomicUsize, Ordering};

/// A barrier for a fixed number of threads. It costs about a microsecond where [`std::sync::Barrier`]
/// puts threads to sleep and wakes them.
pub(crate) struct Barrier {
    threads: usize,
    waiting: AtomicUsize,
    /// Number of times that all threads have come.
    rounds: AtomicUsize,
    /// A thread will not come again.
    failed: AtomicBool,
}

impl Barrier {
    pub(crate) fn new(threads: usize) -> Barrier {
        Barrier {
            threads,
            waiting: AtomicUsize::new(0),
            rounds: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Says that this thread will not come again.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Waits until all threads have come. What a thread did before is visible to all afterwards.
    /// Returns false if one will not come.
    pub(crate) fn wait(&self) -> bool {
        let round = self.rounds.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.rounds.store(round.wrapping_add(1), Ordering::Release);
            return !self.failed.load(Ordering::Acquire);
        }
        let mut spins = 0;
        while self.rounds.load(Ordering::Acquire) == round {
            if self.failed.load(Ordering::Acquire) {
                return false;
            }
            spins += 1;
            if spins < sync::SPINS {
                sync::spin_loop();
            } else {
                sync::yield_now();
            }
        }
        true
    }
}

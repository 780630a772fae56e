//! Keeps a script and the timers that it starts on one CPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// Where a thread might be before [`pin`].
pub(super) struct Unpinned {
    thread: Pid,
    before: CpuSet,
}

/// Keeps this thread on one of its CPUs, each time on the next; `None`: the system does not let it.
///
/// A timer of the wheel stays with the CPU that started it. One CPU's ticks may come just before the jiffies advance, so that
/// its timers always end a jiffy later than another's: a repeated play should use another CPU.
pub(super) fn pin() -> Option<Unpinned> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (thread, before) = (gettid(), sched_getaffinity(None).ok()?);
    let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu)).collect();
    let turn = NEXT.fetch_add(1, Ordering::Relaxed).checked_rem(allowed.len())?;
    let mut one = CpuSet::new();
    one.set(allowed[turn]);
    sched_setaffinity(None, &one).ok()?;
    Some(Unpinned { thread, before })
}

impl Drop for Unpinned {
    /// The thread may be gone, or be another than the one that drops this.
    fn drop(&mut self) {
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_change_their_cpu_each_time_and_have_all_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            let _unpinned = pin().unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert_eq!(now.count(), 1);
            seen.push(now);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}

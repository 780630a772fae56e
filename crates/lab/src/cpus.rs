//! Assignment of the switch and the applications to CPUs.

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// The switch has a CPU for itself, the last one; applications and the hosts' TCP are on the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPU of the switch; `None`: there is only one, or the affinity mask allows no choice.
    pub(crate) switch: Option<usize>,
    /// CPU of the applications.
    pub(crate) traffic: Option<usize>,
}

impl Cpus {
    /// Chooses among the CPUs that this thread may use.
    pub(crate) fn choose() -> Cpus {
        let allowed = sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| numbers(&set));
        match allowed.as_slice() {
            [first, .., last] => Cpus { switch: Some(*last), traffic: Some(*first) },
            _ => Cpus { switch: None, traffic: None },
        }
    }

    /// Keeps this thread on the CPU of applications until the answer is dropped.
    pub(crate) fn pin_traffic(self) -> Option<Pinned> {
        let (thread, before) = (gettid(), sched_getaffinity(None).ok()?);
        let mut one = CpuSet::new();
        one.set(self.traffic?);
        sched_setaffinity(None, &one).ok()?;
        Some(Pinned { thread, before })
    }
}

fn numbers(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// A thread that is kept on one CPU.
pub(crate) struct Pinned {
    thread: Pid,
    before: CpuSet,
}

impl Drop for Pinned {
    /// The thread may be gone, or be another than the one that drops this.
    fn drop(&mut self) {
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

//! Priority of the switch's thread over other threads of the host.
//!
//! With autogroups, a nice value counts within the thread's autogroup only: on a busy host a thread of nice -20 waited 60 % of the
//! time. The autogroup's own nice value counts against other groups. It is raised only if this process has called setsid, which
//! makes a new autogroup, so that no other process is affected. Real-time priority is worse: the scheduler throttles such a
//! thread for 50 ms of every second in which others wait.

use std::fs;

use super::sys;

const GROUP: &str = "/proc/self/autogroup";
const GROUPING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Puts this thread and its autogroup first; the autogroup goes back when this is dropped.
pub(super) struct Priority {
    /// The autogroup's nice value before.
    group_nice: Option<String>,
    /// Whether nothing of the host comes before this thread.
    pub(super) is_first: bool,
}

impl Priority {
    pub(super) fn raise() -> Priority {
        let is_first_of_group = sys::hurry();
        let grouping = fs::read_to_string(GROUPING).unwrap_or_default();
        if grouping.trim() != "1" {
            return Priority { group_nice: None, is_first: is_first_of_group };
        }
        let own = sys::has_called_setsid();
        // "/autogroup-25 nice 0"
        let before = fs::read_to_string(GROUP).unwrap_or_default();
        let nice = before.split_whitespace().last().map(str::to_owned).filter(|_| own);
        let raised = nice.is_some() && fs::write(GROUP, "-20").is_ok();
        Priority { group_nice: nice.filter(|_| raised), is_first: is_first_of_group && raised }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        sys::unlock_memory();
        if let Some(nice) = &self.group_nice {
            // It was permitted before.
            let _ = fs::write(GROUP, nice);
        }
    }
}

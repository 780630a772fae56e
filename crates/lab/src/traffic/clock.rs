//! The clocks of a traffic program; no other file of it reads them.

use rustix::time::{ClockId, Timespec, clock_gettime};

fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC, in ns.
pub(crate) fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this thread.
pub(crate) fn cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// By how much CLOCK_REALTIME, of which the kernel's stamps are, is ahead of CLOCK_MONOTONIC now: read in between two readings
/// of the other, of three attempts the one that took least.
pub(crate) fn realtime_ahead_ns() -> i64 {
    let attempt = |_| {
        let (before, real, after) = (now_ns(), ns(clock_gettime(ClockId::Realtime)), now_ns());
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..3).map(attempt).min().map_or(0, |(_, ahead)| ahead)
}

//! Conversion of the kernel's timestamps (CLOCK_REALTIME, which can be set) to the switch's clock (CLOCK_MONOTONIC).

use crate::traffic::clock::realtime_ahead_ns;
pub(super) use crate::traffic::clock::{cpu_ns as thread_cpu_ns, now_ns};

/// Period of measuring the offset, ns. The clocks diverge when one is set: timestamps are then wrong for up to this long.
const REFRESH_NS: u64 = 1_000_000;

/// Offset between the two clocks.
pub(super) struct Offset {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns.
    ahead_ns: i64,
    measured_ns: u64,
}

impl Offset {
    pub(super) fn new() -> Offset {
        let mut offset = Offset { ahead_ns: 0, measured_ns: 0 };
        offset.measure();
        offset
    }

    fn measure(&mut self) {
        self.ahead_ns = realtime_ahead_ns();
        self.measured_ns = now_ns();
    }

    /// Measures again if that is long ago.
    pub(super) fn refresh(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.measured_ns) > REFRESH_NS {
            self.measure();
        }
    }

    /// A stamp on CLOCK_MONOTONIC, ns.
    pub(super) fn monotonic_ns(&self, realtime_ns: u64) -> u64 {
        realtime_ns.saturating_add_signed(-self.ahead_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    fn realtime_ns() -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    #[test]
    fn a_stamp_of_now_is_now() {
        // Somebody may keep this thread from running in between: once in a hundred times it must be right.
        let offset = Offset::new();
        let is_right = |_| {
            let before = now_ns();
            let stamp = offset.monotonic_ns(realtime_ns());
            (before.saturating_sub(2000)..now_ns() + 2000).contains(&stamp)
        };
        assert!((0..100).any(is_right));
    }
}

//! The coarse clock and the timer wheel of a Linux host.

use crate::tap::CoarseClock;
use knee_queue::time::{Duration, PS_PER_S, Time};

/// The jiffies of one host. They started to count before the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jiffies {
    /// Length of a tick, ps.
    tick_ps: u64,
    /// Jiffies at the start of the run, and the part of the next tick that has passed then.
    at_start: u32,
    phase_ps: u64,
    hz: u32,
}

/// Jiffies from `then` to `now`, as Linux compares them.
#[inline]
pub(crate) fn jiffies_since(now: u32, then: u32) -> u32 {
    now.wrapping_sub(then)
}

/// Slots per level of the timer wheel, less one; each level is 8 times coarser than the one below.
const LEVEL_SLOTS: u64 = 63;
const LEVEL_SHIFT: u32 = 3;

impl Jiffies {
    pub(crate) fn new(hz: u32, at_start: u32, phase: Duration) -> Jiffies {
        let tick_ps = PS_PER_S / u64::from(hz);
        Jiffies { tick_ps, at_start, phase_ps: phase.ps() % tick_ps, hz }
    }

    /// The clock at the start of the run.
    pub(crate) fn start(&self) -> CoarseClock {
        CoarseClock { ticks: self.at_start, phase: Duration::from_ps(self.phase_ps) }
    }

    #[inline]
    pub(crate) fn at(&self, now: Time) -> u32 {
        self.at_start.wrapping_add(((now.ps() + self.phase_ps) / self.tick_ps) as u32)
    }

    /// Converts us to jiffies, rounded up.
    #[inline]
    pub(crate) fn of_us(&self, us: u64) -> u32 {
        ((us * u64::from(self.hz)).div_ceil(1_000_000)).min(u64::from(u32::MAX)) as u32
    }

    /// Converts ms to jiffies, rounded up.
    pub(crate) fn of_ms(&self, ms: u64) -> u32 {
        self.of_us(ms * 1000)
    }

    /// Converts jiffies to us.
    #[inline]
    pub(crate) fn in_us(&self, jiffies: u32) -> u64 {
        u64::from(jiffies) * 1_000_000 / u64::from(self.hz)
    }

    /// Returns when a timer of `jiffies` armed now fires. The wheel rounds up to the granularity of
    /// the timer's level, by one granule even on a boundary.
    #[inline]
    pub(crate) fn fires(&self, now: Time, jiffies: u32) -> Time {
        let since_start = (now.ps() + self.phase_ps) / self.tick_ps;
        let clock = u64::from(self.at_start) + since_start;
        let mut shift = 0;
        while u64::from(jiffies) >= LEVEL_SLOTS << shift && shift < 24 {
            shift += LEVEL_SHIFT;
        }
        let expires = (((clock + u64::from(jiffies)) >> shift) + 1) << shift;
        let ticks = expires - u64::from(self.at_start);
        Time::from_ps(ticks * self.tick_ps - self.phase_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_timers_are_late_by_up_to_one_jiffy() {
        let jiffies = Jiffies::new(1000, 0, Duration::ZERO);
        // A delayed ACK of 40 ms armed at 0.5 ms fires at 41 ms.
        assert_eq!(jiffies.fires(Time::from_us(500), 40), Time::from_ms(41));
    }

    #[test]
    fn a_retransmission_timeout_fires_on_a_multiple_of_eight_ms() {
        let jiffies = Jiffies::new(1000, 0, Duration::ZERO);
        assert_eq!(jiffies.fires(Time::from_ms(3), 201), Time::from_ms(208));
        assert_eq!(jiffies.fires(Time::from_ms(7), 201), Time::from_ms(216));
    }

    #[test]
    fn a_lost_syn_comes_back_where_the_reference_saw_it() {
        // Sent at 500.05 ms with a timer of 1 s: every retransmission in the reference came at 1552
        // ms.
        let jiffies = Jiffies::new(1000, 48, Duration::ZERO);
        assert_eq!(jiffies.fires(Time::from_us(500_050), 1000), Time::from_ms(1552));
    }

    #[test]
    fn the_phase_of_the_tick_shifts_everything() {
        let jiffies = Jiffies::new(250, 0, Duration::from_ms(1));
        assert_eq!(jiffies.at(Time::from_ms(2)), 0);
        assert_eq!(jiffies.at(Time::from_ms(3)), 1);
        assert_eq!(jiffies.fires(Time::ZERO, 2), Time::from_ms(11));
        assert_eq!(jiffies.of_us(1), 1);
        assert_eq!(jiffies.in_us(3), 12_000);
    }
}

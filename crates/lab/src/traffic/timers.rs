//! What a traffic program is to do when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// So long before something that must be on time the program stops sleeping: waking up takes a few us, and some tens on a busy
/// machine.
const SPIN_NS: u64 = 50_000;

/// What is due. Of those at the same time the one that stands first here comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// `connect()` of a flow.
    Start(usize),
    FirstWrite(usize),
    /// Its end, as asked.
    Stop(usize),
    /// The next packet of a stream of pings.
    Ping(usize),
    /// An end of the measured window.
    WindowEnd,
    /// `TCP_INFO`.
    SampleFlows,
    SampleGoodput,
    /// The end of the run.
    End,
}

impl Event {
    /// Whether results depend on its being on time; the others note when they were.
    fn is_urgent(self) -> bool {
        matches!(self, Event::Start(_) | Event::FirstWrite(_))
    }
}

/// Events by time, on CLOCK_MONOTONIC in ns, and the kernel's timer that wakes for them: to the ns, where the timeouts of
/// `epoll_wait` have slack.
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Event)>>,
    timer: OwnedFd,
    armed_ns: Option<u64>,
}

impl Timers {
    pub(super) fn new() -> io::Result<Timers> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timers { heap: BinaryHeap::new(), timer, armed_ns: None })
    }

    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.heap.push(Reverse((at_ns, event)));
    }

    /// The next that is due by now, and when it was.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<(u64, Event)> {
        let Reverse((at_ns, _)) = *self.heap.peek()?;
        if at_ns > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due)
    }

    /// Sets the kernel's timer for the next. False: it is so near that there is no time to sleep.
    pub(super) fn arm(&mut self, now_ns: u64) -> bool {
        let Some(Reverse((at_ns, event))) = self.heap.peek() else { return true };
        let wake_ns = if event.is_urgent() { at_ns.saturating_sub(SPIN_NS) } else { *at_ns };
        if wake_ns <= now_ns {
            return false;
        }
        if self.armed_ns != Some(wake_ns) {
            let at = |ns: u64| Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            };
            let when = Itimerspec { it_interval: at(0), it_value: at(wake_ns) };
            // It fails for a bad descriptor or time only; the caller never sleeps for long without it.
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when);
            // A timer that has expired is readable until it is set again, which is when there is another time to wake at.
            self.armed_ns = Some(wake_ns);
        }
        true
    }
}

impl AsFd for Timers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times_and_kinds() {
        let mut timers = Timers::new().unwrap();
        for (at_ns, event) in
            [(20, Event::End), (20, Event::Ping(0)), (10, Event::Stop(1)), (20, Event::Start(3))]
        {
            timers.push(at_ns, event);
        }
        assert_eq!(timers.pop(9), None);
        let all: Vec<_> = std::iter::from_fn(|| timers.pop(20)).collect();
        let wanted =
            [(10, Event::Stop(1)), (20, Event::Start(3)), (20, Event::Ping(0)), (20, Event::End)];
        assert_eq!(all, wanted);
    }

    #[test]
    fn there_is_no_sleep_just_before_a_start() {
        let mut timers = Timers::new().unwrap();
        timers.push(1_000_000, Event::SampleFlows);
        assert!(timers.arm(1_000_000 - 1));
        assert!(!timers.arm(1_000_000));
        timers.push(900_000, Event::Start(0));
        assert!(timers.arm(900_000 - SPIN_NS - 1));
        assert!(!timers.arm(900_000 - SPIN_NS));
    }
}

//! The stack's clock, when packets left, and how late the script has been.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};

use knee_queue::time::{Duration, Time};
use rustix::net::RecvFlags;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::sys;

/// Bytes that identify a packet: its headers, with the sequence number and the IP identification.
const HEAD_BYTES: usize = 80;
/// Marks that wait for their packet at most: packets of others, and those that the device dropped, leave some.
const MARKS: usize = 50_000;

fn ns(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// CLOCK_MONOTONIC since the stack was made.
pub(super) struct Clock {
    started_ns: i64,
    /// When the device was looked at last.
    looked: Time,
    late: Duration,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let started_ns = ns(clock_gettime(ClockId::Monotonic));
        Clock { started_ns, looked: Time::ZERO, late: Duration::ZERO }
    }

    pub(super) fn now(&self) -> Time {
        let ns = ns(clock_gettime(ClockId::Monotonic)) - self.started_ns;
        Time::from_ns(u64::try_from(ns).unwrap_or(0))
    }

    /// The present moment, by this clock and the system's, in ns.
    fn both(&self) -> (Time, i64) {
        (self.now(), ns(clock_gettime(ClockId::Realtime)))
    }

    /// The device is looked at now, to stop at `until` at the latest.
    pub(super) fn look(&mut self, until: Time) -> Time {
        let now = self.now();
        // A moment that had passed by the look before is no deadline: it only asks what there is.
        if until >= self.looked {
            self.late = self.late.max(now.since(until));
        }
        self.looked = now;
        now
    }

    pub(super) fn late(&self) -> Duration {
        self.late
    }
}

/// When packets passed the device, by the kernel's own account.
pub(super) struct Tap {
    socket: OwnedFd,
    /// Beginning of a packet and its time, in the order in which they passed.
    marks: VecDeque<([u8; HEAD_BYTES], Time)>,
}

impl Tap {
    pub(super) fn new(socket: OwnedFd) -> Tap {
        Tap { socket, marks: VecDeque::new() }
    }

    /// Takes in what has passed so far.
    pub(super) fn look(&mut self, clock: &Clock) {
        let mut packet = [0; HEAD_BYTES];
        loop {
            packet.fill(0);
            // What is longer is cut off.
            if rustix::net::recv(&self.socket, &mut packet[..], RecvFlags::empty()).is_err() {
                return;
            }
            let Some(stamp_ns) = sys::stamp_ns(self.socket.as_fd()) else { continue };
            // A step of the system's clock in between would make nonsense.
            let (now, system_ns) = clock.both();
            let age_ns = u64::try_from(system_ns - stamp_ns).unwrap_or(0);
            let at = Time::from_ns(now.ns().saturating_sub(age_ns));
            if self.marks.len() == MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back((packet, at));
        }
    }

    /// When this packet passed; it is one of those that came after the one asked for before.
    pub(super) fn when(&mut self, packet: &[u8]) -> Option<Time> {
        let mut head = [0; HEAD_BYTES];
        let len = packet.len().min(HEAD_BYTES);
        head[..len].copy_from_slice(&packet[..len]);
        let place = self.marks.iter().position(|(mark, _)| *mark == head)?;
        self.marks.drain(..=place).next_back().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_what_there_is_has_no_deadline() {
        let mut clock = Clock::start();
        clock.look(Time::from_ms(1000));
        std::thread::sleep(std::time::Duration::from_millis(5));
        clock.look(Time::ZERO);
        assert_eq!(clock.late(), Duration::ZERO);
        // A moment that was still to come then is one.
        clock.look(clock.looked + Duration::from_ns(1));
        assert!(clock.late() > Duration::ZERO);
    }
}

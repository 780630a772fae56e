//! Interrupts that wait for more packets (coalescing), of hosts and of switches that are software routers.
//!
//! What has come waits in the ring of a receive queue. Its interrupt comes when as many packets wait as `frames` says, or `time`
//! after the first of them, and hands over all that wait, in order.

use crate::events::{Event, Events};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Adaptive, Coalesce};

/// What becomes of a packet that has come to a receive queue.
pub(crate) enum Arrival {
    /// It is not coalesced, and goes on.
    Passes,
    /// It waits for an interrupt.
    Waits,
    /// The interrupt of this queue comes now.
    Interrupt(u32),
}

/// A receive queue: what waits in it, and when its interrupt comes.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    pending: Vec<T>,
    /// When the interrupt comes; [`Time::MAX`]: nothing waits.
    due: Time,
    /// An event is scheduled for then.
    event_at: Time,
    /// How long the first of the packets waits; follows the rate where that is asked for.
    time: Duration,
    /// The period whose rate is being measured.
    since: Time,
    pkts: u64,
    bytes: u64,
}

impl<T> Ring<T> {
    /// An empty one.
    pub(crate) fn new(coalesce: Option<Coalesce>) -> Ring<T> {
        let time = match coalesce {
            // Nothing is known of the rate yet.
            Some(Coalesce { adaptive: Some(_), .. }) | None => Duration::ZERO,
            Some(coalesce) => coalesce.time,
        };
        Ring {
            pending: Vec::new(),
            due: Time::MAX,
            event_at: Time::MAX,
            time,
            since: Time::ZERO,
            pkts: 0,
            bytes: 0,
        }
    }

    /// Takes a packet; whether the interrupt comes now.
    pub(crate) fn add(
        &mut self,
        packet: T,
        wire_bytes: u32,
        coalesce: Coalesce,
        now: Time,
    ) -> bool {
        if let Some(adaptive) = coalesce.adaptive {
            self.adapt(wire_bytes, coalesce.time, adaptive, now);
        }
        if self.pending.is_empty() {
            self.due = now + self.time;
        }
        self.pending.push(packet);
        let is_full = coalesce.frames.is_some_and(|frames| self.pending.len() >= frames as usize);
        is_full || self.due <= now
    }

    /// Schedules the event of its interrupt, unless it is.
    pub(crate) fn schedule(&mut self, event: Event, events: &mut Events) {
        if self.due < self.event_at {
            self.event_at = self.due;
            events.push(self.due, event);
        }
    }

    /// Its event came: whether the interrupt is due.
    pub(crate) fn is_due(&mut self, now: Time, event: Event, events: &mut Events) -> bool {
        if self.event_at != now {
            return false;
        }
        self.event_at = Time::MAX;
        if self.due > now {
            // What it was for has been handed over, and other packets wait meanwhile, or none.
            if self.due != Time::MAX {
                self.schedule(event, events);
            }
            return false;
        }
        true
    }

    /// The interrupt: all that waits.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.due = Time::MAX;
        std::mem::take(&mut self.pending)
    }

    /// Gives back the room of what an interrupt brought, for the next one.
    pub(crate) fn give_back(&mut self, mut packets: Vec<T>) {
        packets.clear();
        self.pending = packets;
    }

    /// Counts a packet, and sets the time if a period of measurement is over.
    fn adapt(&mut self, wire_bytes: u32, most: Duration, adaptive: Adaptive, now: Time) {
        let elapsed = now.since(self.since);
        if elapsed >= adaptive.interval {
            self.time = adaptive.time(most, self.pkts, self.bytes, elapsed);
            (self.since, self.pkts, self.bytes) = (now, 0, 0);
        }
        self.pkts += 1;
        self.bytes += u64::from(wire_bytes);
    }
}

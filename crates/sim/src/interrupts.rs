//! Interrupts that wait for more packets (coalescing), in hosts and in switches that are software
//! routers.
//!
//! Packets wait in the ring of a receive queue. The interrupt comes when `frames` packets wait, or
//! `time` after the first of them. It hands over all waiting packets in order.

use crate::events::{Event, Events};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Adaptive, Coalesce};

/// The effect of a packet's arrival at a receive queue.
pub(crate) enum Arrival {
    /// The queue does not coalesce; the packet continues at once.
    Passes,
    /// The packet waits for an interrupt.
    Waits,
    /// The interrupt of this queue comes now.
    Interrupt(u32),
}

/// A receive queue: its waiting packets and the time of its interrupt.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    pending: Vec<T>,
    /// The time of the interrupt; [`Time::MAX`] if no packet waits.
    due: Time,
    /// The time of the scheduled event.
    event_at: Time,
    /// How long the first packet waits. It follows the rate if the queue is adaptive.
    time: Duration,
    /// Start of the period whose rate is measured.
    since: Time,
    pkts: u64,
    bytes: u64,
}

impl<T> Ring<T> {
    /// Creates an empty ring.
    pub(crate) fn new(coalesce: Option<Coalesce>) -> Ring<T> {
        let time = match coalesce {
            // An adaptive queue does not know the rate yet.
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

    /// Adds a packet. Returns whether the interrupt comes now.
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

    /// Schedules the interrupt's event, unless it is scheduled already.
    pub(crate) fn schedule(&mut self, event: Event, events: &mut Events) {
        if self.due < self.event_at {
            self.event_at = self.due;
            events.push(self.due, event);
        }
    }

    /// Handles an event. Returns whether the interrupt is due.
    pub(crate) fn is_due(&mut self, now: Time, event: Event, events: &mut Events) -> bool {
        if self.event_at != now {
            return false;
        }
        self.event_at = Time::MAX;
        if self.due > now {
            // An earlier interrupt handed over those packets; the ring holds later ones, or none.
            if self.due != Time::MAX {
                self.schedule(event, events);
            }
            return false;
        }
        true
    }

    /// Takes all waiting packets.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.due = Time::MAX;
        std::mem::take(&mut self.pending)
    }

    /// Takes back the vector of an interrupt for reuse.
    pub(crate) fn give_back(&mut self, mut packets: Vec<T>) {
        packets.clear();
        self.pending = packets;
    }

    /// Counts a packet, and sets the waiting time when a period of measurement ends.
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

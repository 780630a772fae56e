//! Interrupts that wait for more packets (coalescing), in hosts and in switches that are software
//! routers.
//!
//! Packets wait in the ring of a receive queue. The interrupt comes when `frames` packets wait, or
//! `time` after the first or the last of them, or after the interrupt before. It hands over all waiting packets in order.

use crate::dim::Moderation;
use crate::events::{Event, Events};
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Adaptive, ByRate, Coalesce, Since};

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
    last_interrupt: Option<Time>,
    /// As it is now: `time` and `frames` change if the queue is adaptive.
    coalesce: Coalesce,
    /// `time` at the highest rate.
    most: Duration,
    moderation: Option<Box<Moderation>>,
    /// Start of the period whose rate is measured.
    measured_from: Time,
    pkts: u64,
    bytes: u64,
}

impl<T> Ring<T> {
    /// Creates an empty ring.
    pub(crate) fn new(mut coalesce: Coalesce) -> Ring<T> {
        let most = coalesce.time;
        let moderation = match coalesce.adaptive {
            Some(Adaptive::Dim(dim)) => Some(Box::new(Moderation::new(dim))),
            Some(Adaptive::Rate(_)) => {
                // It does not know the rate yet.
                coalesce.time = Duration::ZERO;
                None
            }
            None => None,
        };
        Ring {
            pending: Vec::new(),
            due: Time::MAX,
            event_at: Time::MAX,
            last_interrupt: None,
            coalesce,
            most,
            moderation,
            measured_from: Time::ZERO,
            pkts: 0,
            bytes: 0,
        }
    }

    /// Adds a packet. Returns whether the interrupt comes now.
    pub(crate) fn add(&mut self, packet: T, wire_bytes: u32, now: Time) -> bool {
        if let Some(Adaptive::Rate(by_rate)) = self.coalesce.adaptive {
            self.adapt(by_rate, now);
        }
        self.pkts += 1;
        self.bytes += u64::from(wire_bytes);
        let Coalesce { frames, time, since, .. } = self.coalesce;
        match since {
            Since::First if self.pending.is_empty() => self.due = now + time,
            Since::Last => self.due = now + time,
            Since::Interrupt if self.pending.is_empty() => {
                self.due = self.last_interrupt.map_or(now, |last| now.max(last + time));
            }
            Since::First | Since::Interrupt => {}
        }
        self.pending.push(packet);
        let is_full = frames.is_some_and(|frames| self.pending.len() >= frames as usize);
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

    /// Takes all waiting packets, at an interrupt.
    pub(crate) fn take(&mut self, now: Time) -> Vec<T> {
        self.due = Time::MAX;
        self.last_interrupt = Some(now);
        if let Some(moderation) = &mut self.moderation {
            let changed = moderation.interrupt(now, self.pkts, self.bytes);
            (self.pkts, self.bytes) = (0, 0);
            if let Some((time, frames)) = changed {
                (self.coalesce.time, self.coalesce.frames) = (time, Some(frames));
            }
        }
        std::mem::take(&mut self.pending)
    }

    /// Takes back the vector of an interrupt for reuse.
    pub(crate) fn give_back(&mut self, mut packets: Vec<T>) {
        packets.clear();
        self.pending = packets;
    }

    /// Sets the waiting time when a period of measurement ends.
    fn adapt(&mut self, by_rate: ByRate, now: Time) {
        let elapsed = now.since(self.measured_from);
        if elapsed >= by_rate.interval {
            self.coalesce.time = by_rate.time(self.most, self.pkts, self.bytes, elapsed);
            (self.measured_from, self.pkts, self.bytes) = (now, 0, 0);
        }
    }
}

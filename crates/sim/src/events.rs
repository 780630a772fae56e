//! The event list. Departure timers come first among events of equal time; the order of scheduling
//! breaks other ties.
//!
//! A wheel of buckets holds the near future, a heap the rest. Most events are packets in flight, a
//! few packet times ahead, so adding and taking an event has constant cost. The width of a bucket
//! follows the network's rate of events; the order of events does not depend on it.

use knee_queue::time::{PS_PER_S, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Target number of events per bucket: few enough to sort, enough that few buckets are empty.
const EVENTS_PER_BUCKET: u64 = 4;
/// Bounds of a bucket's width, as the exponent of 2 in ps: 4 ns to 17 us.
const BUCKET_SHIFT_MIN: u32 = 12;
const BUCKET_SHIFT_MAX: u32 = 24;
/// Number of buckets: a power of two and a multiple of 64.
const BUCKETS: usize = 8192;
const WORDS: usize = BUCKETS / 64;
const NONE: u32 = u32::MAX;

/// An event in one part of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A packet reaches the end of a link.
    Arrive {
        packet: u32,
    },
    /// A link whose discipline decides at departure may send.
    Port {
        link: u32,
    },
    /// A pause frame takes effect: the link may not send what the frame stops, for this time.
    Pause {
        link: u32,
        quanta: u16,
        priority: u8,
    },
    /// A switch may have to repeat a pause.
    PauseRefresh {
        link: u32,
        priority: u8,
    },
    /// A timer of a socket may be due.
    Timer {
        sock: u32,
        timer: Timer,
    },
    /// A flow's application takes its next step.
    App {
        flow: u32,
    },
    /// A host sends a ping.
    Ping {
        ping: u32,
    },
    /// A NIC's receive queue interrupts.
    Interrupt {
        queue: u32,
    },
    /// A switch's port interrupts.
    PortInterrupt {
        port: u32,
    },
    /// Samples of flows are due.
    SampleFlows,
    SampleQueues,
    SampleGoodput,
    SampleLinks,
    /// The measured window begins or ends.
    Window,
}

/// This bit is set in the order of all events except departure timers.
const NOT_FIRST: u64 = 1 << 63;

/// The timers of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// RTO, tail loss probe or reordering timeout: one timer in Linux.
    Retransmit,
    DelayedAck,
    CompressedAck,
    Pacing,
    /// The host's fq releases a held segment.
    Fq,
    /// A packet of a throttled socket leaves its host.
    TxCompletion,
    /// The host stops merging received packets (GRO).
    Gro,
}

#[derive(Clone, Copy)]
struct Entry {
    at: Time,
    order: u64,
    event: Event,
}

impl Entry {
    fn key(&self) -> (Time, u64) {
        (self.at, self.order)
    }
}

struct Node {
    entry: Entry,
    next: u32,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Far {
    at: Time,
    order: u64,
    event: Event,
}

pub(crate) struct Events {
    /// Index of the first node in each bucket's list.
    heads: Box<[u32]>,
    /// Bit map of the buckets with a list, and bit map of its non-zero words.
    occupied: [u64; WORDS],
    summary: [u64; WORDS.div_ceil(64)],
    nodes: Vec<Node>,
    free: u32,
    /// Events of the current bucket, latest first.
    current: Vec<Entry>,
    current_bucket: u64,
    far: BinaryHeap<Reverse<Far>>,
    /// Width of a bucket, as the exponent of 2 in ps.
    bucket_shift: u32,
    order: u64,
    pub(crate) taken: u64,
}

impl Events {
    /// Creates an event list for a network with at most this many events per second.
    pub(crate) fn new(events_per_sec: u64) -> Events {
        let width_ps = EVENTS_PER_BUCKET * PS_PER_S / events_per_sec.max(1);
        Events {
            bucket_shift: width_ps.max(1).ilog2().clamp(BUCKET_SHIFT_MIN, BUCKET_SHIFT_MAX),
            heads: vec![NONE; BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            summary: [0; WORDS.div_ceil(64)],
            nodes: Vec::new(),
            free: NONE,
            current: Vec::new(),
            current_bucket: 0,
            far: BinaryHeap::new(),
            order: 0,
            taken: 0,
        }
    }

    #[inline]
    fn bucket_of(&self, at: Time) -> u64 {
        at.ps() >> self.bucket_shift
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.push_in_order(at, self.order | NOT_FIRST, event);
    }

    /// Schedules an event ahead of ordinary events of that time, whenever they were scheduled.
    #[inline]
    pub(crate) fn push_first(&mut self, at: Time, event: Event) {
        self.push_in_order(at, self.order, event);
    }

    #[inline]
    fn push_in_order(&mut self, at: Time, order: u64, event: Event) {
        self.order += 1;
        let entry = Entry { at, order, event };
        let bucket = self.bucket_of(at);
        if bucket <= self.current_bucket {
            let place = self.current.partition_point(|other| other.key() > entry.key());
            self.current.insert(place, entry);
        } else if bucket < self.current_bucket + BUCKETS as u64 {
            self.push_near(bucket, entry);
        } else {
            self.far.push(Reverse(Far { at, order, event }));
        }
    }

    #[inline]
    fn push_near(&mut self, bucket: u64, entry: Entry) {
        let slot = bucket as usize % BUCKETS;
        let next = self.heads[slot];
        let node = if self.free == NONE {
            self.nodes.push(Node { entry, next });
            self.nodes.len() as u32 - 1
        } else {
            let node = self.free;
            self.free = self.nodes[node as usize].next;
            self.nodes[node as usize] = Node { entry, next };
            node
        };
        self.heads[slot] = node;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.summary[slot / 4096] |= 1 << (slot / 64 % 64);
    }

    /// Takes the earliest event, if it is not after `until`.
    #[inline]
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        if self.current.is_empty() && !self.advance(until) {
            return None;
        }
        let entry = *self.current.last()?;
        if entry.at > until {
            return None;
        }
        self.current.pop();
        self.taken += 1;
        Some((entry.at, entry.event))
    }

    /// Returns the time of the earliest event, if it is not after `until`.
    pub(crate) fn next_at(&mut self, until: Time) -> Option<Time> {
        if self.current.is_empty() && !self.advance(until) {
            return None;
        }
        self.current.last().map(|entry| entry.at).filter(|at| *at <= until)
    }

    /// Opens the next bucket with an event. Returns false if there is none up to `until`.
    fn advance(&mut self, until: Time) -> bool {
        let near = self.next_near();
        let far = self.far.peek().map(|Reverse(far)| self.bucket_of(far.at));
        let bucket = match (near, far) {
            (Some(near), Some(far)) => near.min(far),
            (Some(bucket), None) | (None, Some(bucket)) => bucket,
            (None, None) => return false,
        };
        if bucket > self.bucket_of(until) {
            return false;
        }
        self.current_bucket = bucket;
        if near == Some(bucket) {
            let slot = bucket as usize % BUCKETS;
            let mut node = std::mem::replace(&mut self.heads[slot], NONE);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            if self.occupied[slot / 64] == 0 {
                self.summary[slot / 4096] &= !(1 << (slot / 64 % 64));
            }
            while node != NONE {
                let taken = &mut self.nodes[node as usize];
                self.current.push(taken.entry);
                let next = std::mem::replace(&mut taken.next, self.free);
                self.free = node;
                node = next;
            }
        }
        while let Some(Reverse(far)) = self.far.peek() {
            if self.bucket_of(far.at) != bucket {
                break;
            }
            let Some(Reverse(Far { at, order, event })) = self.far.pop() else { break };
            self.current.push(Entry { at, order, event });
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|entry| Reverse(entry.key()));
        }
        true
    }

    /// Returns the first bucket after the current one that has a list.
    fn next_near(&self) -> Option<u64> {
        let start = (self.current_bucket + 1) as usize % BUCKETS;
        let slot = self.next_occupied(start)?;
        let ahead = (slot + BUCKETS - start) % BUCKETS;
        Some(self.current_bucket + 1 + ahead as u64)
    }

    /// Returns the first occupied slot from `start` on, wrapping around the wheel.
    fn next_occupied(&self, start: usize) -> Option<usize> {
        let word = start / 64;
        let here = self.occupied[word] & (!0 << (start % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let after = self.next_word(word + 1, WORDS).or_else(|| self.next_word(0, word + 1))?;
        Some(after * 64 + self.occupied[after].trailing_zeros() as usize)
    }

    /// Returns the first non-zero word in `from..to`.
    fn next_word(&self, from: usize, to: usize) -> Option<usize> {
        let mut word = from;
        while word < to {
            let bits = self.summary[word / 64] & (!0 << (word % 64));
            if bits != 0 {
                let found = word / 64 * 64 + bits.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            word = (word / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(events: &mut Events) -> Vec<(Time, Event)> {
        std::iter::from_fn(|| events.pop(Time::MAX)).collect()
    }

    #[test]
    fn equal_times_keep_the_order_of_scheduling() {
        let mut events = Events::new(1_000_000);
        let at = Time::from_us(5);
        for flow in 0..100 {
            events.push(at, Event::App { flow });
        }
        let order: Vec<_> = drain(&mut events).into_iter().map(|(_, event)| event).collect();
        assert_eq!(order, (0..100).map(|flow| Event::App { flow }).collect::<Vec<_>>());
    }

    #[test]
    fn what_goes_first_goes_before_its_equals_however_it_was_scheduled() {
        let mut events = Events::new(1_000_000);
        let (before, at) = (Time::from_us(4), Time::from_us(5));
        events.push(at, Event::App { flow: 2 });
        events.push_first(at, Event::App { flow: 1 });
        events.push(before, Event::App { flow: 0 });
        events.push(at, Event::App { flow: 3 });
        let order: Vec<_> = drain(&mut events).into_iter().map(|(_, event)| event).collect();
        assert_eq!(order, (0..4).map(|flow| Event::App { flow }).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn events_come_in_order_of_time_and_scheduling(
            steps in prop::collection::vec((0u64..3_000_000_000, 0u8..4), 1..300),
            events_per_sec in prop::sample::select(vec![1, 10_000, 10_000_000, 1_000_000_000]),
        ) {
            // Each step takes the next event and schedules some after it.
            let mut events = Events::new(events_per_sec);
            let mut model: Vec<(Time, u32)> = Vec::new();
            let mut now = Time::ZERO;
            let mut flow = 0;
            for (ahead_ps, pushes) in steps {
                for push in 0..u64::from(pushes) {
                    let at = Time::from_ps(now.ps() + ahead_ps / (1 + push * 1000));
                    events.push(at, Event::App { flow });
                    model.push((at, flow));
                    flow += 1;
                }
                let earliest = model.iter().copied().min();
                let got = events.pop(Time::MAX);
                prop_assert_eq!(got, earliest.map(|(at, flow)| (at, Event::App { flow })));
                if let Some(earliest) = earliest {
                    model.retain(|entry| *entry != earliest);
                    now = earliest.0;
                }
            }
        }
    }

    #[test]
    fn nothing_is_taken_beyond_the_end() {
        let mut events = Events::new(1_000_000);
        events.push(Time::from_ms(10), Event::SampleFlows);
        assert_eq!(events.pop(Time::from_ms(9)), None);
        assert_eq!(events.pop(Time::from_ms(10)), Some((Time::from_ms(10), Event::SampleFlows)));
    }
}

//! The event list. Departure timers come first among events of equal time, then events that were
//! scheduled at an earlier time. The kind of event and its numbers break other ties. So the order
//! depends on the simulated network alone, not on the order in which the program schedules
//! (docs/decisions/0018-windows-by-domains.md).
//!
//! A wheel of buckets holds the near future, a second wheel with a bucket per turn of the first one
//! holds the rest, and a heap what is beyond both. Most events are packets in flight, a few packet
//! times ahead, so adding and taking an event has constant cost. The width of a bucket follows the
//! network's rate of events; the order of events does not depend on it.

use crate::packet::Packet;
use crate::paths::{CHOOSE, Paths};
use knee_queue::time::{PS_PER_S, Time};
use knee_run::Error;
use knee_run::routes::PATH_END;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Target number of buckets per event: hardly anything to sort, and not many buckets are empty.
const BUCKETS_PER_EVENT: u64 = 2;
/// Bounds of a bucket's width, as the exponent of 2 in ps: 1 ns to 17 us. At 1 ns the second wheel reaches 69 ms ahead; later
/// timers, of which a socket has one or two, wait in the heap.
const BUCKET_SHIFT_MIN: u32 = 10;
const BUCKET_SHIFT_MAX: u32 = 24;
/// Number of buckets: a power of two and a multiple of 64.
const BUCKETS: usize = 8192;
const WORDS: usize = BUCKETS / 64;
/// A bucket is opened ahead of its time if it is at most this many buckets away.
const OPENED_AHEAD: u64 = 64;
/// So many nodes are 16 kB. More do not stay in the near cache until their bucket is opened.
const NODES_NEAR: usize = 512;
pub(crate) const NONE: u32 = u32::MAX;

/// An event in one part of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet reaches the end of a link.
    Arrive {
        link: u32,
        /// Number of the packet on this link: packets keep their order.
        number: u32,
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
    /// A socket learns that its peer's application is done.
    End {
        sock: u32,
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
    /// A link goes down or up, or its rate, delay or loss changes.
    LinkChange {
        link: u32,
    },
    /// Routes avoid other links from now on.
    Reroute,
}

/// The domain in which a link's packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarEnd {
    Here,
    There(u32),
    /// That of the link by which the packet goes on.
    ByNextLink,
}

/// This bit is set in the time of scheduling of all events except departure timers.
const NOT_FIRST: u64 = 1 << 63;

/// The timers of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

const TIMERS: [Timer; 7] = [
    Timer::Retransmit,
    Timer::DelayedAck,
    Timer::CompressedAck,
    Timer::Pacing,
    Timer::Fq,
    Timer::TxCompletion,
    Timer::Gro,
];

/// An event in 12 bytes, so that a node of the event list has 32. Codes have the order of events at
/// the same time: the kind in the upper 8 bits, then the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Code([u32; 3]);

/// Bits of a code's first number that a link may have beside the kind.
const LINK_BITS: u32 = 24;
/// Most links of a network.
const MAX_LINKS: usize = 1 << LINK_BITS;

/// Refuses a network with more links than codes tell apart.
pub(crate) fn check_links(links: usize) -> Result<(), Error> {
    if links > MAX_LINKS {
        let message =
            format!("a network has at most {MAX_LINKS} links, not {links}: take fewer of them");
        return Err(Error::Refused(message));
    }
    Ok(())
}

impl Code {
    #[inline]
    pub(crate) fn new(event: Event) -> Code {
        let kind = |kind: u32, one: u32, other: u32| Code([kind << LINK_BITS, one, other]);
        match event {
            Event::Arrive { link, number, packet } => Code([link, number, packet]),
            Event::Port { link } => kind(1, link, 0),
            Event::Pause { link, quanta, priority } => {
                kind(2, link, u32::from(quanta) << 8 | u32::from(priority))
            }
            Event::PauseRefresh { link, priority } => kind(3, link, priority.into()),
            Event::Timer { sock, timer } => kind(4, sock, timer as u32),
            Event::App { flow } => kind(5, flow, 0),
            Event::End { sock } => kind(6, sock, 0),
            Event::Ping { ping } => kind(7, ping, 0),
            Event::Interrupt { queue } => kind(8, queue, 0),
            Event::PortInterrupt { port } => kind(9, port, 0),
            Event::SampleFlows => kind(10, 0, 0),
            Event::SampleQueues => kind(11, 0, 0),
            Event::SampleGoodput => kind(12, 0, 0),
            Event::SampleLinks => kind(13, 0, 0),
            Event::Window => kind(14, 0, 0),
            Event::LinkChange { link } => kind(15, link, 0),
            Event::Reroute => kind(16, 0, 0),
        }
    }

    /// Replaces the packet of an arrival.
    pub(crate) fn set_packet(&mut self, packet: u32) {
        self.0[2] = packet;
    }

    #[inline]
    pub(crate) fn event(self) -> Event {
        let Code([first, one, other]) = self;
        match first >> LINK_BITS {
            0 => Event::Arrive { link: first, number: one, packet: other },
            1 => Event::Port { link: one },
            2 => Event::Pause { link: one, quanta: (other >> 8) as u16, priority: other as u8 },
            3 => Event::PauseRefresh { link: one, priority: other as u8 },
            4 => Event::Timer { sock: one, timer: TIMERS[other as usize] },
            5 => Event::App { flow: one },
            6 => Event::End { sock: one },
            7 => Event::Ping { ping: one },
            8 => Event::Interrupt { queue: one },
            9 => Event::PortInterrupt { port: one },
            10 => Event::SampleFlows,
            11 => Event::SampleQueues,
            12 => Event::SampleGoodput,
            13 => Event::SampleLinks,
            14 => Event::Window,
            15 => Event::LinkChange { link: one },
            _ => Event::Reroute,
        }
    }
}

/// A scheduled event, in half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Entry {
    pub(crate) at: Time,
    /// Time of scheduling, ps, with [`NOT_FIRST`].
    scheduled: u64,
    pub(crate) code: Code,
    /// What an arrival leads to: a link, or a socket with [`TO_SOCK`]; [`NONE`] if that is not known.
    leads_to: u32,
}

/// Bits of the number of a socket to which an arrival leads, and of data for it.
const TO_SOCK: u32 = 1 << 31;
const DATA: u32 = 1 << 30;

/// Where a packet's arrival leads: the next link of its path, or the socket at the end of it. [`NONE`] if
/// a switch will choose.
#[inline]
pub(crate) fn leads_to(packet: &Packet, paths: &Paths) -> u32 {
    let data = if packet.sequence_len() > 0 { DATA } else { 0 };
    match paths.link(packet.hop) {
        PATH_END => packet.to | TO_SOCK | data,
        CHOOSE => NONE,
        link => link,
    }
}

/// What is to be read for an event that comes soon.
pub(crate) enum Ahead {
    Link { packet: u32, link: u32 },
    Segment { packet: u32, sock: u32, is_data: bool },
    Timer { sock: u32 },
}

impl Entry {
    #[inline]
    fn new(at: Time, scheduled: u64, event: Event) -> Entry {
        Entry { at, scheduled, code: Code::new(event), leads_to: NONE }
    }

    /// Returns what to read ahead.
    #[inline]
    fn ahead(&self) -> Option<Ahead> {
        let Code([first, one, packet]) = self.code;
        match first >> LINK_BITS {
            0 if self.leads_to == NONE => None,
            0 if self.leads_to & TO_SOCK != 0 => Some(Ahead::Segment {
                packet,
                sock: self.leads_to & !(TO_SOCK | DATA),
                is_data: self.leads_to & DATA != 0,
            }),
            0 => Some(Ahead::Link { packet, link: self.leads_to }),
            4 => Some(Ahead::Timer { sock: one }),
            _ => None,
        }
    }

    /// Times of the event and of scheduling: few events have both in common.
    #[inline]
    fn key(&self) -> (Time, u64) {
        (self.at, self.scheduled)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Entry) -> Ordering {
        self.key().cmp(&other.key()).then_with(|| self.code.cmp(&other.code))
    }
}

pub(crate) struct Events {
    /// Buckets after the current one.
    near: Wheel,
    /// Buckets as long as a turn of `near`.
    coarse: Wheel,
    /// First bucket of the first turn in `coarse`; `u64::MAX` if there is none.
    first_of_turn: u64,
    nodes: Vec<Entry>,
    /// For each node, the next one of its list. Apart from the nodes, so that the processor fetches
    /// all nodes of a list side by side.
    nexts: Vec<u32>,
    free: u32,
    /// Events up to the current bucket, latest first.
    current: Vec<Entry>,
    current_bucket: u64,
    /// Events after the current bucket up to the opened one, in no order. What they need is read
    /// while those of the current bucket are handled.
    opened: Vec<Entry>,
    opened_bucket: u64,
    /// The current bucket changed since the last call of [`Events::has_advanced`].
    has_advanced: bool,
    /// Node of the bucket after the opened one that is fetched when the next event is taken.
    to_fetch: u32,
    far: BinaryHeap<Reverse<Entry>>,
    /// Width of a bucket, as the exponent of 2 in ps.
    bucket_shift: u32,
    /// Time of the last event taken, or the time up to which there was none.
    now: Time,
    /// What the last event taken leads to; see [`Entry`].
    led_to: u32,
    /// Events of other domains, each with its domain, until the end of the window.
    away: Vec<(u32, Entry)>,
    /// Number of this domain, and the domain of each link; `None` if there is one domain.
    domains: Option<(u32, Arc<[u32]>)>,
    pub(crate) taken: u64,
}

impl Events {
    /// Creates an event list for about this many events per second.
    pub(crate) fn new(events_per_sec: u64) -> Events {
        let width_ps = PS_PER_S / events_per_sec.saturating_mul(BUCKETS_PER_EVENT).max(1);
        Events {
            bucket_shift: width_ps.max(1).ilog2().clamp(BUCKET_SHIFT_MIN, BUCKET_SHIFT_MAX),
            near: Wheel::new(),
            coarse: Wheel::new(),
            first_of_turn: u64::MAX,
            nodes: Vec::new(),
            nexts: Vec::new(),
            free: NONE,
            current: Vec::new(),
            current_bucket: 0,
            opened: Vec::new(),
            opened_bucket: 0,
            has_advanced: false,
            to_fetch: NONE,
            far: BinaryHeap::new(),
            now: Time::ZERO,
            led_to: NONE,
            away: Vec::new(),
            domains: None,
            taken: 0,
        }
    }

    /// Sets the number of this domain and the domain of each link.
    pub(crate) fn divide(&mut self, domains: Option<(u32, Arc<[u32]>)>) {
        self.domains = domains;
    }

    #[inline]
    fn bucket_of(&self, at: Time) -> u64 {
        at.ps() >> self.bucket_shift
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.insert(Entry::new(at, self.now.ps() | NOT_FIRST, event));
    }

    /// Schedules an event ahead of ordinary events of that time, whenever they were scheduled.
    #[inline]
    pub(crate) fn push_first(&mut self, at: Time, event: Event) {
        self.insert(Entry::new(at, self.now.ps(), event));
    }

    /// Schedules an arrival. `begun` is the time at which the packet began to leave: it stands for the
    /// time of scheduling, which depends on how a link computes departures.
    #[inline]
    pub(crate) fn push_arrival(&mut self, (begun, at): (Time, Time), event: Event, leads_to: u32) {
        self.insert_here(Entry { leads_to, ..Entry::new(at, begun.ps() | NOT_FIRST, event) });
    }

    /// Like [`Events::push_arrival`], for an event of another domain.
    pub(crate) fn push_away(
        &mut self,
        domain: u32,
        (begun, at): (Time, Time),
        event: Event,
        leads_to: u32,
    ) {
        let entry = Entry { leads_to, ..Entry::new(at, begun.ps() | NOT_FIRST, event) };
        self.away.push((domain, entry));
    }

    /// Returns the domain of a link, if it is another one.
    #[inline(never)]
    pub(crate) fn domain_of(&self, link: u32) -> Option<u32> {
        let (this, of_links) = self.domains.as_ref()?;
        of_links.get(link as usize).copied().filter(|domain| domain != this)
    }

    /// Takes the events of other domains.
    pub(crate) fn take_away(&mut self) -> Vec<(u32, Entry)> {
        std::mem::take(&mut self.away)
    }

    /// Gives back the memory of the events of other domains.
    pub(crate) fn give_back(&mut self, mut away: Vec<(u32, Entry)>) {
        away.clear();
        self.away = away;
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        self.insert_here(entry);
    }

    /// [`Events::insert`], in its caller.
    #[inline(always)]
    fn insert_here(&mut self, entry: Entry) {
        let bucket = self.bucket_of(entry.at);
        if bucket <= self.opened_bucket {
            self.insert_soon(entry, bucket);
        } else if bucket < self.opened_bucket + BUCKETS as u64 {
            let node = self.node(entry);
            self.near.add(bucket as usize % BUCKETS, node, &mut self.nexts);
        } else {
            self.insert_far(entry, bucket);
        }
    }

    #[inline(never)]
    fn insert_soon(&mut self, entry: Entry, bucket: u64) {
        if bucket <= self.current_bucket {
            let place = self.current.partition_point(|other| *other > entry);
            self.current.insert(place, entry);
        } else {
            self.opened.push(entry);
        }
    }

    #[inline(never)]
    fn insert_far(&mut self, entry: Entry, bucket: u64) {
        let turn = bucket / BUCKETS as u64;
        if turn < self.opened_bucket / BUCKETS as u64 + BUCKETS as u64 {
            let node = self.node(entry);
            self.coarse.add(turn as usize % BUCKETS, node, &mut self.nexts);
            self.first_of_turn = self.first_of_turn.min(turn * BUCKETS as u64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Stores an entry in a free node.
    #[inline]
    fn node(&mut self, entry: Entry) -> u32 {
        let node = self.free;
        if node == NONE {
            self.nodes.push(entry);
            self.nexts.push(NONE);
            return self.nodes.len() as u32 - 1;
        }
        self.free = self.nexts[node as usize];
        self.nodes[node as usize] = entry;
        node
    }

    /// Takes the earliest event, if it is not after `until`.
    #[inline]
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        if self.current.is_empty() && !self.advance(until) {
            self.now = self.now.max(until);
            return None;
        }
        let entry = *self.current.last()?;
        if entry.at > until {
            self.now = self.now.max(until);
            return None;
        }
        self.current.pop();
        self.now = entry.at;
        self.led_to = entry.leads_to;
        self.taken += 1;
        if self.to_fetch != NONE {
            knee_prefetch::fetch(&self.nodes[self.to_fetch as usize], 0..1);
            self.to_fetch = self.nexts[self.to_fetch as usize];
        }
        Some((entry.at, entry.code.event()))
    }

    /// Reports whether the last event taken is an arrival at the end of a path; `None` if that is not known.
    #[inline]
    pub(crate) fn is_at_end(&self) -> Option<bool> {
        (self.led_to != NONE).then_some(self.led_to & TO_SOCK != 0)
    }

    /// Returns the time of the earliest event, if it is not after `until`.
    #[inline(never)]
    pub(crate) fn next_at(&mut self, until: Time) -> Option<Time> {
        if self.current.is_empty() && !self.advance(until) {
            return None;
        }
        self.current.last().map(|entry| entry.at).filter(|at| *at <= until)
    }

    /// Reports whether the current bucket was opened since the last call.
    #[inline]
    pub(crate) fn has_advanced(&mut self) -> bool {
        std::mem::take(&mut self.has_advanced)
    }

    /// Returns what the event needs that comes this many events after the last one taken, if the current
    /// bucket has it.
    #[inline]
    pub(crate) fn ahead(&self, events: usize) -> Option<Ahead> {
        self.current.get(self.current.len().checked_sub(events)?)?.ahead()
    }

    /// Returns what the events of the current bucket need.
    pub(crate) fn current(&self) -> impl Iterator<Item = Ahead> + use<'_> {
        self.current.iter().filter_map(Entry::ahead)
    }

    /// Returns what the events of the bucket after the current one need.
    pub(crate) fn opened(&self) -> impl Iterator<Item = Ahead> + use<'_> {
        self.opened.iter().filter_map(Entry::ahead)
    }

    /// Makes the next bucket with an event the current one, and opens the one after it. Returns false
    /// if there is none up to `until`.
    #[inline]
    fn advance(&mut self, until: Time) -> bool {
        if self.opened.is_empty() && !self.open_late(self.bucket_of(until)) {
            return false;
        }
        std::mem::swap(&mut self.current, &mut self.opened);
        self.current_bucket = self.opened_bucket;
        self.open(self.opened_bucket + OPENED_AHEAD);
        self.has_advanced = true;
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|entry| Reverse(entry.key()));
            // Few events have both times in common. Only these are compared whole.
            if self.current.windows(2).any(|pair| pair[0].key() == pair[1].key()) {
                self.current.sort_unstable_by(|one, other| other.cmp(one));
            }
        }
        true
    }

    /// [`Events::open`], when no bucket was opened ahead.
    #[cold]
    fn open_late(&mut self, last: u64) -> bool {
        self.open(last)
    }

    /// Opens the next bucket with an event. Returns false if there is none up to the bucket `last`.
    #[inline(always)]
    fn open(&mut self, last: u64) -> bool {
        let bucket = loop {
            let near = self.near.next(self.opened_bucket + 1);
            let far = self.far.peek().map(|Reverse(far)| self.bucket_of(far.at));
            let bucket = near.unwrap_or(u64::MAX).min(far.unwrap_or(u64::MAX));
            if bucket.min(self.first_of_turn) > last {
                return false;
            }
            if bucket < self.first_of_turn {
                break bucket;
            }
            self.open_turn();
        };
        self.opened_bucket = bucket;
        let mut node = self.near.take(bucket as usize % BUCKETS);
        while node != NONE {
            self.opened.push(self.nodes[node as usize]);
            let next = std::mem::replace(&mut self.nexts[node as usize], self.free);
            self.free = node;
            node = next;
        }
        while let Some(Reverse(far)) = self.far.peek() {
            if self.bucket_of(far.at) != bucket {
                break;
            }
            self.opened.extend(self.far.pop().map(|Reverse(entry)| entry));
        }
        if self.nodes.len() > NODES_NEAR {
            let next = self.near.next(bucket + 1);
            self.to_fetch = next.map_or(NONE, |next| self.near.heads[next as usize % BUCKETS]);
        }
        true
    }

    /// Moves the events of the first coarse bucket to the near wheel. No event is earlier.
    #[cold]
    fn open_turn(&mut self) {
        let turn = self.first_of_turn / BUCKETS as u64;
        // The bucket before is empty, so a whole turn fits behind it.
        self.opened_bucket = self.first_of_turn - 1;
        let mut node = self.coarse.take(turn as usize % BUCKETS);
        let next = self.coarse.next(turn + 1);
        self.first_of_turn = next.map_or(u64::MAX, |turn| turn * BUCKETS as u64);
        while node != NONE {
            let next = self.nexts[node as usize];
            let bucket = self.bucket_of(self.nodes[node as usize].at);
            self.near.add(bucket as usize % BUCKETS, node, &mut self.nexts);
            node = next;
        }
    }
}

/// Lists of nodes, one for each of the buckets of a turn.
struct Wheel {
    /// Index of the first node in each bucket's list.
    heads: Box<[u32]>,
    /// Bit map of the buckets with a list, and bit map of its non-zero words.
    occupied: [u64; WORDS],
    summary: [u64; WORDS.div_ceil(64)],
}

impl Wheel {
    fn new() -> Wheel {
        Wheel {
            heads: vec![NONE; BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            summary: [0; WORDS.div_ceil(64)],
        }
    }

    /// Adds a node to the list of a bucket.
    #[inline]
    fn add(&mut self, slot: usize, node: u32, nexts: &mut [u32]) {
        nexts[node as usize] = self.heads[slot];
        self.heads[slot] = node;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.summary[slot / 4096] |= 1 << (slot / 64 % 64);
    }

    /// Takes the list of a bucket.
    #[inline]
    fn take(&mut self, slot: usize) -> u32 {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.summary[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
        std::mem::replace(&mut self.heads[slot], NONE)
    }

    /// Returns the first bucket with a list, from bucket `first` on for one turn.
    #[inline]
    fn next(&self, first: u64) -> Option<u64> {
        let start = first as usize % BUCKETS;
        let slot = self.next_occupied(start)?;
        let ahead = (slot + BUCKETS - start) % BUCKETS;
        Some(first + ahead as u64)
    }

    /// Returns the first occupied slot from `start` on, wrapping around the wheel.
    #[inline]
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

    #[test]
    fn more_links_than_codes_tell_apart_are_refused() {
        assert_eq!(check_links(1 << 24), Ok(()));
        let last = Event::Arrive { link: (1 << 24) - 1, number: 1, packet: 2 };
        assert_eq!(Code::new(last).event(), last);
        let why = check_links((1 << 24) + 1).unwrap_err().to_string();
        assert!(why.contains("at most 16777216 links, not 16777217"), "{why}");
    }

    #[test]
    fn a_code_is_its_event_and_has_32_bytes_with_its_times() {
        let timer = |timer| Event::Timer { sock: 7, timer };
        let events = [
            Event::Arrive { link: 0xff_ffff, number: u32::MAX, packet: 3 },
            Event::Port { link: 1 },
            Event::Pause { link: 9, quanta: 0xffff, priority: 7 },
            Event::PauseRefresh { link: 2, priority: 1 },
            timer(Timer::Retransmit),
            timer(Timer::Gro),
            Event::App { flow: 8 },
            Event::End { sock: 9 },
            Event::Ping { ping: 1 },
            Event::Interrupt { queue: 1 },
            Event::PortInterrupt { port: 1 },
            Event::SampleFlows,
            Event::SampleQueues,
            Event::SampleGoodput,
            Event::SampleLinks,
            Event::Window,
        ];
        assert!(events.is_sorted_by_key(|event| Code::new(*event)));
        for event in events {
            assert_eq!(Code::new(event).event(), event);
        }
        assert!(TIMERS.iter().zip(0..).all(|(timer, number)| *timer as u32 == number));
        assert_eq!(size_of::<Entry>(), 32);
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
    fn order_does_not_depend_on_how_many_events_wait() {
        // More than are near, each followed by one 1 to 100 us later.
        const EVENTS: u32 = 10 * NODES_NEAR as u32;
        let mut events = Events::new(1_000_000_000);
        let later = |flow: u32| 1_000_000 + u64::from(flow) * 7_919_003 % 99_000_000;
        (0..EVENTS).for_each(|flow| events.push(Time::from_ps(later(flow)), Event::App { flow }));
        let mut expected: Vec<(Time, u32)> =
            (0..EVENTS).map(|flow| (Time::from_ps(later(flow)), flow)).collect();
        let mut got = Vec::new();
        while let Some((at, event)) = events.pop(Time::MAX) {
            let Event::App { flow } = event else { panic!("{event:?}") };
            got.push((at, flow));
            if flow < EVENTS {
                let at = Time::from_ps(at.ps() + later(flow + 1));
                events.push(at, Event::App { flow: flow + EVENTS });
                expected.push((at, flow + EVENTS));
            }
        }
        assert!(got.is_sorted_by_key(|(at, _)| *at));
        expected.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_arrival_says_whether_a_path_ends() {
        let mut events = Events::new(1_000_000);
        let ways = [
            (7, Some(false)),
            (7 | TO_SOCK, Some(true)),
            (7 | TO_SOCK | DATA, Some(true)),
            (NONE, None),
        ];
        for ((leads_to, _), us) in ways.into_iter().zip(1..) {
            let (at, arrive) = (Time::from_us(us), Event::Arrive { link: 1, number: 0, packet: 2 });
            events.push_arrival((at, at), arrive, leads_to);
        }
        for (_, is_at_end) in ways {
            assert!(events.pop(Time::MAX).is_some());
            assert_eq!(events.is_at_end(), is_at_end);
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

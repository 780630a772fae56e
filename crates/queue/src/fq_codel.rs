//! FQ-CoDel: one queue per flow, served by deficit round robin, each with CoDel (RFC 8290).
//!
//! A hash of the packet maps flows to queues, so a few may share one. Newly active flows are served first. When the
//! discipline is full, the flow with most bytes loses packets from its head.
//!
//! Sources: RFC 8290, and Linux 6.12 where the two differ. Deviation: memory is counted in bytes of packets, since a
//! packet here has no buffer of another size.

use std::collections::VecDeque;

use crate::codel::{Codel, CodelParams, Source, TickParams};
use crate::packet::Packet;
use crate::qdisc::{DropReason, Qdisc, QueueAction, Stats};
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, Rate, Time};
use knee_units::Random;
use knee_units::settings::Visit;

/// The most queues: numbers of 16 bits, as in Linux.
const FLOWS_MAX: u32 = 65_536;

/// Range of the quantum in bytes (Linux `fq_codel_change`).
const QUANTUM_MAX_BYTES: u64 = 1 << 20;

knee_units::settings! {
    /// Settings of an FQ-CoDel queue. [`Default`] is Linux's, with seed 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FqCodelConfig as (config, v) check check {
        /// Limit in packets, all flows.
        pub limit_pkts: u32 = 10_240 => "limit": Pkts;
        /// Limit in bytes, all flows.
        pub memory_limit_bytes: u64 = 32 << 20 => "memory_limit": Room;
        /// Number of hash queues.
        pub flows: u32 = 1024 => "flows": Number.within(1, FLOWS_MAX as u64);
        /// DRR quantum.
        pub quantum_bytes: u32 = 1514 => "quantum": Bytes.within(256, QUANTUM_MAX_BYTES);
        /// Packets to drop at once at the limit.
        pub drop_batch_pkts: u32 = 64 => "drop_batch": Pkts;
        /// Parameters of CoDel, for every queue.
        pub codel: CodelParams = CodelParams { ecn: true, ..CodelParams::default() } => { config.codel.fields(v) };
        /// Seed of the hash that maps flows to queues.
        pub seed: u64 = 0 => { v.seed(&mut config.seed) };
    }
}

/// Refuses settings that cannot work.
fn check(config: &mut FqCodelConfig, v: &mut dyn Visit) {
    if !(1..=FLOWS_MAX).contains(&config.flows) {
        v.refuse("flows", "FQ-CoDel needs from 1 to 65536 queues for flows");
    }
    if config.quantum_bytes == 0 || config.drop_batch_pkts == 0 {
        let why = "FQ-CoDel's quantum and drop batch must be above 0 (1514 bytes, 64 packets)";
        v.refuse("quantum", why);
    }
}

impl Settings for FqCodelConfig {
    fn kind(&self) -> &'static str {
        "fq-codel"
    }

    fn at(place: PortProperties) -> FqCodelConfig {
        let linux = FqCodelConfig::default();
        let codel = CodelParams { mtu_bytes: place.frame_bytes, ..linux.codel };
        FqCodelConfig { quantum_bytes: place.frame_bytes, codel, ..linux }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        FqCodelConfig::fields(self, v);
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        Some(self.codel.acts_at())
    }
}

/// An FQ-CoDel queue.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    config: FqCodelConfig,
    params: TickParams,
    flows: Vec<Flow<P>>,
    /// Flows that have just become busy, by number.
    new_flows: VecDeque<u32>,
    /// Flows that have had their first turn.
    old_flows: VecDeque<u32>,
    /// Without the packet released.
    pkts: u32,
    bytes: u64,
    /// The packet that is on its way out, for a shaper that has not taken it yet.
    released: Option<P>,
    stats: Stats,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: VecDeque<(P, Time)>,
    bytes: u64,
    /// Bytes that the queue may still send in this round; negative after a packet longer than the rest.
    deficit_bytes: i64,
    /// Whether it is in one of the two lists.
    is_listed: bool,
    codel: Codel,
}

/// One flow as CoDel sees it; the backlog is that of the whole discipline.
struct Turn<'q, P> {
    flow: &'q mut VecDeque<(P, Time)>,
    flow_bytes: &'q mut u64,
    pkts: &'q mut u32,
    bytes: &'q mut u64,
    stats: &'q mut Stats,
}

impl<P: Packet> Source<P> for Turn<'_, P> {
    fn take(&mut self) -> Option<(P, Time)> {
        let (pkt, enqueued_at) = self.flow.pop_front()?;
        let len_bytes = u64::from(pkt.len_bytes());
        *self.flow_bytes -= len_bytes;
        *self.bytes -= len_bytes;
        *self.pkts -= 1;
        Some((pkt, enqueued_at))
    }
    fn backlog_bytes(&self) -> u64 {
        *self.bytes
    }
    fn stats(&mut self) -> &mut Stats {
        self.stats
    }
}

impl<P: Packet> FqCodel<P> {
    /// An empty queue.
    pub fn new(config: FqCodelConfig) -> FqCodel<P> {
        let count = config.flows.clamp(1, FLOWS_MAX);
        let flow = || Flow {
            queue: VecDeque::new(),
            bytes: 0,
            deficit_bytes: 0,
            is_listed: false,
            codel: Codel::default(),
        };
        FqCodel {
            params: TickParams::new(config.codel),
            config: FqCodelConfig { quantum_bytes: config.quantum_bytes.max(1), ..config },
            flows: (0..count).map(|_| flow()).collect(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            pkts: 0,
            bytes: 0,
            released: None,
            stats: Stats::default(),
        }
    }

    /// The queue that a flow has.
    fn number_of(&self, pkt: &P) -> u32 {
        let hash = Random::new(self.config.seed ^ u64::from(pkt.flow_hash())).u64() >> 32;
        // Below the number of flows: 32 bits times 17.
        ((hash * self.flows.len() as u64) >> 32) as u32
    }

    fn released_bytes(&self) -> u64 {
        self.released.as_ref().map_or(0, |pkt| u64::from(pkt.len_bytes()))
    }

    /// Drops from the head of the flow with most bytes, to one half of them. Says of which.
    fn drop_from_longest(&mut self) -> u32 {
        let longest = |best: usize, number: usize| {
            if self.flows[number].bytes > self.flows[best].bytes { number } else { best }
        };
        let number = (1..self.flows.len()).fold(0, longest);
        let flow = &mut self.flows[number];
        let half_bytes = flow.bytes / 2;
        let (mut dropped_pkts, mut dropped_bytes) = (0, 0);
        while let Some((pkt, _)) = flow.queue.pop_front() {
            let len_bytes = pkt.len_bytes();
            self.stats.count_dropped(DropReason::Full, len_bytes);
            dropped_pkts += 1;
            dropped_bytes += u64::from(len_bytes);
            if dropped_pkts >= self.config.drop_batch_pkts || dropped_bytes >= half_bytes {
                break;
            }
        }
        flow.codel.count_dropped(dropped_pkts);
        flow.bytes -= dropped_bytes;
        self.bytes -= dropped_bytes;
        self.pkts -= dropped_pkts;
        number as u32
    }

    fn release(&mut self, now: Time) -> Option<P> {
        if self.released.is_some() {
            return self.released.take();
        }
        loop {
            let is_new = !self.new_flows.is_empty();
            let list = if is_new { &mut self.new_flows } else { &mut self.old_flows };
            let number = *list.front()?;
            let flow = &mut self.flows[number as usize];
            if flow.deficit_bytes <= 0 {
                flow.deficit_bytes += i64::from(self.config.quantum_bytes);
                list.pop_front();
                self.old_flows.push_back(number);
                continue;
            }
            let mut turn = Turn {
                flow: &mut flow.queue,
                flow_bytes: &mut flow.bytes,
                pkts: &mut self.pkts,
                bytes: &mut self.bytes,
                stats: &mut self.stats,
            };
            if let Some(pkt) = flow.codel.next(&self.params, &mut turn, now) {
                flow.deficit_bytes -= i64::from(pkt.len_bytes());
                return Some(pkt);
            }
            list.pop_front();
            // A new flow that is empty waits for its turn among the old ones, or it could come back as new each time
            // and starve them.
            if is_new && !self.old_flows.is_empty() {
                self.old_flows.push_back(number);
            } else {
                self.flows[number as usize].is_listed = false;
            }
        }
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    fn enqueue(&mut self, pkt: P, now: Time) -> QueueAction {
        let len_bytes = pkt.len_bytes();
        let number = self.number_of(&pkt);
        let flow = &mut self.flows[number as usize];
        flow.queue.push_back((pkt, now));
        flow.bytes += u64::from(len_bytes);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit_bytes = i64::from(self.config.quantum_bytes);
            self.new_flows.push_back(number);
        }
        self.pkts += 1;
        self.bytes += u64::from(len_bytes);
        self.stats.count_enqueued(len_bytes);
        let is_full = self.len_pkts() > self.config.limit_pkts
            || self.len_bytes() > self.config.memory_limit_bytes;
        // The packet itself went if nothing is left of its queue.
        if is_full
            && self.drop_from_longest() == number
            && self.flows[number as usize].queue.is_empty()
        {
            self.stats.uncount_enqueued(len_bytes);
            return QueueAction::Dropped(DropReason::Full);
        }
        QueueAction::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let pkt = self.release(now)?;
        self.stats.count_dequeued(pkt.len_bytes());
        Some(pkt)
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        self.released = self.release(now);
        self.released.as_ref().map(P::len_bytes)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.stats.count_dropped(DropReason::Full, len_bytes);
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, _now: Time) -> Option<Time> {
        None
    }

    fn len_pkts(&self) -> u32 {
        self.pkts + u32::from(self.released.is_some())
    }

    fn len_bytes(&self) -> u64 {
        self.bytes + self.released_bytes()
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::testing::{Pkt, full, of_flow};

    /// Two flows that do not share a queue, and a third.
    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;

    fn queue(config: FqCodelConfig) -> FqCodel<Pkt> {
        let queue = FqCodel::new(config);
        let numbers = [A, B, C].map(|flow| queue.number_of(&of_flow(flow, 0, 1514)));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        queue
    }

    fn enqueue(queue: &mut FqCodel<Pkt>, flow: u32, len_bytes: u32, count: u64) {
        for id in 0..count {
            queue.enqueue(of_flow(flow, id, len_bytes), Time::ZERO);
        }
    }

    fn flows_out(queue: &mut FqCodel<Pkt>, count: usize) -> Vec<u32> {
        (0..count).map(|_| queue.dequeue(Time::ZERO).unwrap().flow).collect()
    }

    #[test]
    fn flows_of_full_packets_alternate() {
        let mut queue = queue(FqCodelConfig::default());
        enqueue(&mut queue, A, 1514, 4);
        enqueue(&mut queue, B, 1514, 4);
        assert_eq!(flows_out(&mut queue, 8), [A, B, A, B, A, B, A, B]);
    }

    /// A quantum of 1514 bytes is two packets of 757: A's third comes after B's turn.
    #[test]
    fn turns_are_of_bytes() {
        let mut queue = queue(FqCodelConfig::default());
        enqueue(&mut queue, A, 757, 4);
        enqueue(&mut queue, B, 1514, 2);
        assert_eq!(flows_out(&mut queue, 6), [A, A, B, A, A, B]);
    }

    #[test]
    fn a_flow_that_has_just_come_goes_first_but_only_once() {
        let mut queue = queue(FqCodelConfig::default());
        enqueue(&mut queue, A, 1514, 5);
        enqueue(&mut queue, B, 1514, 5);
        assert_eq!(flows_out(&mut queue, 2), [A, B]);
        enqueue(&mut queue, C, 66, 1);
        assert_eq!(flows_out(&mut queue, 2), [C, A]);
        // C was found empty and waits behind B, among the old ones: what comes now has no precedence.
        enqueue(&mut queue, C, 66, 1);
        assert_eq!(flows_out(&mut queue, 2), [B, C]);
    }

    /// A has 6 packets, B 3: the tenth does not fit. Half of A's are 3: these go, from its head.
    #[test]
    fn the_longest_queue_loses_half_from_its_head() {
        let mut queue = queue(FqCodelConfig { limit_pkts: 9, ..FqCodelConfig::default() });
        enqueue(&mut queue, A, 1514, 6);
        enqueue(&mut queue, B, 1514, 3);
        assert_eq!(queue.enqueue(of_flow(C, 0, 66), Time::ZERO), QueueAction::Queued);
        assert_eq!(queue.stats().dropped_full_pkts, 3);
        assert_eq!((queue.len_pkts(), queue.len_bytes()), (7, 6 * 1514 + 66));
        assert_eq!(queue.dequeue(Time::ZERO).map(|pkt| (pkt.flow, pkt.id)), Some((A, 3)));
    }

    #[test]
    fn a_batch_bounds_what_one_packet_costs() {
        let config =
            FqCodelConfig { limit_pkts: 20, drop_batch_pkts: 4, ..FqCodelConfig::default() };
        let mut queue = queue(config);
        enqueue(&mut queue, A, 1514, 21);
        assert_eq!(queue.stats().dropped_full_pkts, 4);
    }

    #[test]
    fn a_packet_without_room_beside_a_released_one_goes_itself() {
        let mut queue = queue(FqCodelConfig { limit_pkts: 1, ..FqCodelConfig::default() });
        enqueue(&mut queue, A, 1514, 1);
        assert_eq!(queue.peek(Time::ZERO), Some(1514));
        let refused = QueueAction::Dropped(DropReason::Full);
        assert_eq!(queue.enqueue(of_flow(A, 1, 1514), Time::ZERO), refused);
        assert_eq!(queue.stats().enqueued_pkts, 1);
        assert_eq!(queue.dequeue(Time::ZERO).map(|pkt| pkt.id), Some(0));
    }

    #[test]
    fn memory_is_a_limit_of_its_own() {
        let config = FqCodelConfig { memory_limit_bytes: 4 * 1514, ..FqCodelConfig::default() };
        let mut queue = queue(config);
        enqueue(&mut queue, A, 1514, 4);
        assert_eq!(queue.stats().dropped_pkts(), 0);
        enqueue(&mut queue, B, 60, 1);
        assert_eq!(queue.stats().dropped_full_pkts, 2);
    }

    /// A has waited for an interval above the target, B has not: only A is marked.
    #[test]
    fn each_flow_has_its_own_codel() {
        let mut queue = queue(FqCodelConfig::default());
        for id in 0..10 {
            queue.enqueue(Pkt { flow: A, ..full(id, Ecn::Ect0) }, Time::ZERO);
        }
        assert_eq!(queue.dequeue(Time::from_ms(6)).unwrap().ecn, Ecn::Ect0);
        for id in 0..10 {
            queue.enqueue(Pkt { flow: B, ..full(id, Ecn::Ect0) }, Time::from_ms(100));
        }
        let now = Time::from_ms(107);
        let out: Vec<_> =
            (0..2).filter_map(|_| queue.dequeue(now)).map(|pkt| (pkt.flow, pkt.ecn)).collect();
        assert_eq!(out, [(B, Ecn::Ect0), (A, Ecn::Ce)]);
        assert_eq!(queue.stats().marked_pkts, 1);
    }
}

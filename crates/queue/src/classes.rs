//! Several queues in one port: each packet goes to the first class whose condition it meets, and the classes are served
//! strictly by order, in turns by weight, or first the one kind and then the other.
//!
//! Every class has a queue of its own, of any kind, with its own limit and marks: a backlog of one is none of another's. A class
//! may be held, as priority flow control does; the others then take turns without it.

use crate::any::{AnyAdmission, AnyQdisc};
use crate::config::QueueConfig;
use crate::droptail::DropTailConfig;
use crate::packet::Packet;
use crate::qdisc::{Admission, DropReason, Part, Qdisc, QueueAction, Stats};
use crate::round_robin::RoundRobin;
use crate::settings::{PortProperties, Settings};
use crate::time::{Duration, Rate, Time};
use knee_units::Backlog;
use knee_units::settings::{Setting, Visit, key};

/// DSCPs are below this.
const DSCPS: u8 = 64;
/// With less, a full packet waits for too many empty rounds.
const QUANTUM_MIN_BYTES: u32 = 64;

/// Condition of a class. A packet meets it if it meets every part that is set; the default sets none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// One bit for each DSCP allowed; `None`: any.
    pub dscps: Option<u64>,
    /// Pure ACKs only.
    pub acks: bool,
    /// Largest length, in bytes as the queue counts them.
    pub up_to_bytes: Option<u32>,
}

impl Condition {
    /// The set of these DSCPs, for [`Condition::dscps`]; what is no DSCP is left out.
    pub fn set_of(dscps: impl IntoIterator<Item = u8>) -> u64 {
        dscps.into_iter().filter(|dscp| *dscp < DSCPS).fold(0, |set, dscp| set | 1 << dscp)
    }

    /// Whether it asks for nothing.
    pub fn takes_all(self) -> bool {
        self == Condition::default()
    }

    fn is_met_by(self, pkt: &impl Packet) -> bool {
        self.dscps.is_none_or(|set| set >> (pkt.dscp() % DSCPS) & 1 == 1)
            && (!self.acks || pkt.is_pure_ack())
            && self.up_to_bytes.is_none_or(|most| pkt.len_bytes() <= most)
    }
}

/// When a class is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassService {
    /// Before all classes behind it, and before all that are served in turns.
    Strict,
    /// Round robin when no strict class has a packet: this many quanta of bytes per turn.
    Weighted(u32),
}

/// Settings of one class of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassConfig {
    pub name: String,
    pub condition: Condition,
    /// When it is served.
    pub service: ClassService,
    pub queue: QueueConfig,
}

/// Settings of a port with classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassesConfig {
    /// The first whose condition is met takes the packet; the last has none.
    pub classes: Vec<ClassConfig>,
    /// Bytes that a class of weight 1 may send at a turn.
    pub quantum_bytes: u32,
}

impl Settings for ClassesConfig {
    fn kind(&self) -> &'static str {
        "classes"
    }

    fn at(place: PortProperties) -> ClassesConfig {
        let rest = ClassConfig {
            name: "1".to_owned(),
            condition: Condition::default(),
            service: ClassService::Weighted(1),
            queue: QueueConfig::DropTail(DropTailConfig::at(place)),
        };
        ClassesConfig { classes: vec![rest], quantum_bytes: place.frame_bytes }
    }

    fn fields(&mut self, v: &mut dyn Visit) {
        // Each class has it already.
        let mut all_strict = false;
        v.word(
            key("service", "Scheduler: DRR by weight, or strict priority."),
            &mut all_strict,
            &[("weighted", false), ("strict", true)],
        );
        v.key(
            key("quantum", "DRR quantum of weight 1.").within(1, u32::MAX as u64),
            Setting::Bytes(&mut self.quantum_bytes),
        );
        v.key(
            key("class", "Classes in order; the last has no condition.").needed("{ ... }"),
            Setting::Parts,
        );
        let takes_all = |class: &ClassConfig| class.condition.takes_all();
        match self.classes.split_last() {
            Some((last, before)) if takes_all(last) => {
                if before.iter().any(takes_all) {
                    let why =
                        "a class without a condition takes every packet, so it must be the last";
                    v.refuse("class", why);
                }
            }
            _ => v.refuse(
                "class",
                "the last class must have no condition, so that every packet has a class",
            ),
        }
        let is_never_served = |class: &ClassConfig| class.service == ClassService::Weighted(0);
        if self.quantum_bytes < QUANTUM_MIN_BYTES || self.classes.iter().any(is_never_served) {
            v.refuse(
                "quantum",
                "a weight must be above 0, and the quantum at least 64 B, or no packet ever gets its turn",
            );
        }
    }

    fn acts_at(&self, _rate: Rate) -> Option<Duration> {
        None
    }
}

impl ClassesConfig {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }
}

/// Rule that assigns a packet to a queue.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    /// The first whose condition is met; if none is, the last.
    Conditions(Vec<Condition>),
    /// The second for what came by one of these inputs, the first for all else.
    Inputs(Vec<u32>),
}

impl Selector {
    fn pick(&self, pkt: &impl Packet) -> usize {
        match self {
            Selector::Conditions(conditions) => conditions
                .iter()
                .position(|condition| condition.is_met_by(pkt))
                .unwrap_or(conditions.len().saturating_sub(1)),
            Selector::Inputs(second) => {
                usize::from(pkt.input().is_some_and(|input| second.contains(&input)))
            }
        }
    }
}

/// Unit of a turn of weighted round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    Bytes,
    Packets,
}

#[derive(Clone, Debug)]
struct Class<P> {
    queue: AnyQdisc<P>,
    is_strict: bool,
    /// Held: it sends nothing until released.
    is_held: bool,
    /// Counters of the gate for packets of this class.
    of_gate: Stats,
}

/// A port with several queues.
#[derive(Clone, Debug)]
pub struct Classes<P> {
    classes: Vec<Class<P>>,
    selector: Selector,
    /// Policy that decides by the backlog of all queues together; the queues then have no limit.
    gate: Option<AnyAdmission>,
    row: RoundRobin,
    price: Price,
    /// The class whose packet was peeked at, and that packet's length: it leaves next, whatever comes meanwhile.
    chosen: Option<(usize, u32)>,
    /// Counters of packets that a shaper above refused.
    refused: Stats,
    /// Sum over all classes, gate and shaper.
    stats: Stats,
}

/// Parts to build [`Classes`] from.
pub(crate) struct Parts<'a> {
    pub(crate) queues: Vec<(&'a QueueConfig, ClassService)>,
    pub(crate) selector: Selector,
    pub(crate) gate: Option<AnyAdmission>,
    pub(crate) price: Price,
    pub(crate) quantum: u32,
}

impl<P: Packet> Classes<P> {
    /// Empty queues with these settings.
    pub fn new(config: &ClassesConfig) -> Classes<P> {
        let conditions = config.classes.iter().map(|class| class.condition).collect();
        Classes::of_parts(Parts {
            queues: config.classes.iter().map(|class| (&class.queue, class.service)).collect(),
            selector: Selector::Conditions(conditions),
            gate: None,
            price: Price::Bytes,
            quantum: config.quantum_bytes,
        })
    }

    pub(crate) fn of_parts(parts: Parts<'_>) -> Classes<P> {
        let quanta = parts.queues.iter().map(|(_, service)| match service {
            ClassService::Strict => 1,
            ClassService::Weighted(weight) => u64::from(*weight) * u64::from(parts.quantum),
        });
        let row = RoundRobin::new(quanta);
        let class = |(queue, service): &(&QueueConfig, ClassService)| Class {
            queue: queue.build(),
            is_strict: *service == ClassService::Strict,
            is_held: false,
            of_gate: Stats::default(),
        };
        Classes {
            classes: parts.queues.iter().map(class).collect(),
            selector: parts.selector,
            gate: parts.gate,
            row,
            price: parts.price,
            chosen: None,
            refused: Stats::default(),
            stats: Stats::default(),
        }
    }

    /// The number of the class that takes such a packet.
    pub fn class_of(&self, pkt: &P) -> usize {
        self.selector.pick(pkt)
    }

    /// From now on the class of this number sends nothing, or may send again; nothing if there is none. It takes packets
    /// all the same, and comes back at the end of the row with what it had left of its turn.
    pub fn hold(&mut self, class: usize, is_held: bool) {
        let Some(held) = self.classes.get_mut(class) else { return };
        held.is_held = is_held;
        self.row.hold(class, is_held);
        self.chosen = self.chosen.filter(|(chosen, _)| !(is_held && *chosen == class));
    }

    /// Whether a class that is not held has packets.
    pub fn has_sendable(&self) -> bool {
        self.classes.iter().any(|class| !class.is_held && class.queue.len_pkts() > 0)
    }

    fn backlog(&self) -> Backlog {
        Backlog { pkts: self.len_pkts(), bytes: self.len_bytes() }
    }

    /// Asks the gate, if there is one, and counts its decision for the packet's class.
    fn ask_gate(&mut self, index: usize, pkt: &mut P, now: Time) -> QueueAction {
        let backlog = self.backlog();
        let Some(gate) = &mut self.gate else { return QueueAction::Queued };
        let len_bytes = pkt.len_bytes();
        let prior_hits = gate.threshold_hits();
        let action = gate.admit(backlog, len_bytes, pkt.ecn(), now);
        let stats = &mut self.classes[index].of_gate;
        stats.threshold_hits += gate.threshold_hits() - prior_hits;
        match action {
            QueueAction::Dropped(reason) => stats.count_dropped(reason, len_bytes),
            QueueAction::Marked => {
                pkt.set_ce();
                stats.marked_pkts += 1;
            }
            QueueAction::Queued => {}
        }
        action
    }

    /// The class whose turn it is, and the length of its packet.
    fn choose(&mut self, now: Time) -> Option<(usize, u32)> {
        if self.chosen.is_none() {
            self.chosen = self.strict_head(now).or_else(|| self.weighted_head(now));
            // A discipline may have dropped packets on the way to its head.
            self.count();
        }
        self.chosen
    }

    fn strict_head(&mut self, now: Time) -> Option<(usize, u32)> {
        let may_send = |class: &Class<P>| class.is_strict && !class.is_held;
        let mut strict = self.classes.iter_mut().enumerate().filter(|(_, class)| may_send(class));
        strict.find_map(|(index, class)| Some((index, class.queue.peek(now)?)))
    }

    fn weighted_head(&mut self, now: Time) -> Option<(usize, u32)> {
        loop {
            let index = self.row.head()?;
            match self.classes[index].queue.peek(now) {
                Some(len_bytes) => return Some((index, len_bytes)),
                None => self.row.leave(index),
            }
        }
    }

    fn count(&mut self) {
        let mut all = self.refused;
        for class in &self.classes {
            all.add(class.queue.stats());
            all.add(&class.of_gate);
        }
        self.stats = all;
    }
}

impl<P: Packet> Qdisc<P> for Classes<P> {
    fn enqueue(&mut self, mut pkt: P, now: Time) -> QueueAction {
        let index = self.selector.pick(&pkt);
        let of_gate = self.ask_gate(index, &mut pkt, now);
        if let QueueAction::Dropped(_) = of_gate {
            self.count();
            return of_gate;
        }
        let class = &mut self.classes[index];
        let action = class.queue.enqueue(pkt, now);
        if !class.is_strict && class.queue.len_pkts() > 0 {
            self.row.join(index);
        }
        self.count();
        if action == QueueAction::Queued { of_gate } else { action }
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let (index, len_bytes) = self.choose(now)?;
        self.chosen = None;
        let class = &mut self.classes[index];
        let pkt = class.queue.dequeue(now);
        if !class.is_strict {
            let cost = if self.price == Price::Bytes { len_bytes } else { 1 };
            self.row.pay(index, cost);
            if class.queue.len_pkts() == 0 {
                self.row.leave(index);
            }
        }
        self.count();
        pkt
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        self.choose(now).map(|(_, len_bytes)| len_bytes)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.refused.count_dropped(DropReason::Full, len_bytes);
        self.count();
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        self.classes.iter().filter_map(|class| class.queue.next_event(now)).min()
    }

    fn tick(&mut self, now: Time) {
        self.classes.iter_mut().for_each(|class| class.queue.tick(now));
        self.count();
    }

    fn len_pkts(&self) -> u32 {
        self.classes.iter().map(|class| class.queue.len_pkts()).sum()
    }

    fn len_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.queue.len_bytes()).sum()
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn part(&self, index: usize) -> Option<Part> {
        let class = self.classes.get(index)?;
        let mut stats = *class.queue.stats();
        stats.add(&class.of_gate);
        let backlog = Backlog { pkts: class.queue.len_pkts(), bytes: class.queue.len_bytes() };
        Some(Part { backlog, stats, inside: class.queue.inside() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::pie::PieConfig;
    use crate::step::{MarkAt, MarkWhen, NotEctAbove, StepConfig};
    use crate::testing::{Pkt, full};
    use knee_units::{Limit, Threshold};

    const DSCP_1: Condition = Condition { dscps: Some(2), acks: false, up_to_bytes: None };
    const ALL: Condition = Condition { dscps: None, acks: false, up_to_bytes: None };

    fn droptail(pkts: u32) -> QueueConfig {
        QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) })
    }

    fn class(condition: Condition, service: ClassService, queue: QueueConfig) -> ClassConfig {
        ClassConfig { name: String::new(), condition, service, queue }
    }

    fn classes(all: Vec<ClassConfig>) -> Classes<Pkt> {
        let config = ClassesConfig { classes: all, quantum_bytes: 1514 };
        assert_eq!(QueueConfig::Classes(config.clone()).validate(), Ok(()));
        Classes::new(&config)
    }

    fn with_dscp(id: u64, dscp: u8) -> Pkt {
        Pkt { dscp, ..full(id, Ecn::Ect0) }
    }

    fn ids(queue: &mut Classes<Pkt>, count: usize) -> Vec<u64> {
        (0..count).map_while(|_| queue.dequeue(Time::ZERO)).map(|pkt| pkt.id).collect()
    }

    #[test]
    fn a_class_neither_marks_nor_drops_for_another() {
        let step = QueueConfig::Step(StepConfig {
            limit: Limit::Pkts(100),
            threshold: Threshold::Pkts(2),
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Drop,
        });
        let mut queue = classes(vec![
            class(DSCP_1, ClassService::Weighted(1), step),
            class(ALL, ClassService::Weighted(1), droptail(3)),
        ]);
        let full = QueueAction::Dropped(DropReason::Full);
        let others: Vec<_> = (0..4).map(|id| queue.enqueue(with_dscp(id, 0), Time::ZERO)).collect();
        assert_eq!(others, [QueueAction::Queued, QueueAction::Queued, QueueAction::Queued, full]);
        let ours: Vec<_> = (0..3).map(|id| queue.enqueue(with_dscp(id, 1), Time::ZERO)).collect();
        assert_eq!(ours, [QueueAction::Queued, QueueAction::Queued, QueueAction::Marked]);

        let part = |index| queue.part(index).unwrap();
        assert_eq!((part(0).backlog.pkts, part(0).stats.marked_pkts), (3, 1));
        assert_eq!((part(1).backlog.pkts, part(1).stats.dropped_full_pkts), (3, 1));
        assert_eq!((queue.stats().marked_pkts, queue.stats().dropped_pkts()), (1, 1));
        assert_eq!(queue.part(2), None);
    }

    #[test]
    fn the_class_that_has_something_due_first_is_waited_for() {
        let pie =
            |first_update| QueueConfig::Pie(PieConfig { first_update, ..PieConfig::default() });
        let mut queue = classes(vec![
            class(DSCP_1, ClassService::Strict, pie(Duration::from_ms(7))),
            class(ALL, ClassService::Strict, pie(Duration::from_ms(3))),
        ]);
        assert_eq!([1, 0].map(|dscp| queue.class_of(&with_dscp(0, dscp))), [0, 1]);
        assert_eq!(queue.next_event(Time::ZERO), Some(Time::from_ms(3)));
        queue.tick(Time::from_ms(3));
        assert_eq!(queue.next_event(Time::from_ms(3)), Some(Time::from_ms(7)));
    }

    #[test]
    fn the_first_condition_that_is_met_decides() {
        let short = Condition { up_to_bytes: Some(100), ..ALL };
        let acks = Condition { acks: true, ..ALL };
        let both =
            Condition { dscps: Some(Condition::set_of([1, 2])), acks: true, up_to_bytes: None };
        let selector = Selector::Conditions(vec![both, acks, short, ALL]);
        let pkt = |dscp, is_pure_ack, len_bytes| Pkt {
            dscp,
            is_pure_ack,
            len_bytes,
            ..full(0, Ecn::Ect0)
        };
        assert_eq!(selector.pick(&pkt(2, true, 66)), 0);
        assert_eq!(selector.pick(&pkt(3, true, 66)), 1);
        assert_eq!(selector.pick(&pkt(2, false, 100)), 2);
        assert_eq!(selector.pick(&pkt(2, false, 101)), 3);
        assert_eq!(Condition::set_of([0, 63, 64]), 1 | 1 << 63);
    }

    #[test]
    fn strict_classes_go_by_order() {
        let mut queue = classes(vec![
            class(DSCP_1, ClassService::Strict, droptail(9)),
            class(ALL, ClassService::Strict, droptail(9)),
        ]);
        for (id, dscp) in [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1)] {
            queue.enqueue(with_dscp(id, dscp), Time::ZERO);
        }
        assert_eq!(ids(&mut queue, 9), [2, 4, 0, 1, 3]);
    }

    #[test]
    fn weights_share_a_backlogged_link_and_strict_ones_come_before() {
        let dscp = |dscp: u8| Condition { dscps: Some(1 << dscp), ..ALL };
        let mut queue = classes(vec![
            class(dscp(1), ClassService::Weighted(3), droptail(99)),
            class(dscp(2), ClassService::Strict, droptail(99)),
            class(ALL, ClassService::Weighted(1), droptail(99)),
        ]);
        for id in 0..20 {
            queue.enqueue(with_dscp(100 + id, 1), Time::ZERO);
            queue.enqueue(with_dscp(300 + id, 0), Time::ZERO);
        }
        queue.enqueue(with_dscp(200, 2), Time::ZERO);
        let order = ids(&mut queue, 9);
        assert_eq!(order, [200, 100, 101, 102, 300, 103, 104, 105, 301]);
    }

    #[test]
    fn what_was_peeked_at_leaves_next_whatever_comes() {
        let mut queue = classes(vec![
            class(DSCP_1, ClassService::Strict, droptail(9)),
            class(ALL, ClassService::Weighted(1), droptail(9)),
        ]);
        queue.enqueue(Pkt { len_bytes: 99, ..with_dscp(0, 0) }, Time::ZERO);
        assert_eq!(queue.peek(Time::ZERO), Some(99));
        queue.enqueue(with_dscp(1, 1), Time::ZERO);
        assert_eq!(queue.peek(Time::ZERO), Some(99));
        assert_eq!(ids(&mut queue, 2), [0, 1]);
    }

    #[test]
    fn a_class_that_is_held_is_passed_over() {
        let dscp = |dscp: u8| Condition { dscps: Some(1 << dscp), ..ALL };
        let mut queue = classes(vec![
            class(dscp(1), ClassService::Strict, droptail(9)),
            class(dscp(2), ClassService::Weighted(1), droptail(9)),
            class(ALL, ClassService::Weighted(1), droptail(9)),
        ]);
        for id in 0..4 {
            for dscp in [1, 2, 0] {
                queue.enqueue(with_dscp(100 * u64::from(dscp) + id, dscp), Time::ZERO);
            }
        }
        queue.hold(0, true);
        assert_eq!(ids(&mut queue, 3), [200, 0, 201]);
        queue.hold(1, true);
        assert_eq!(ids(&mut queue, 2), [1, 2]);
        queue.hold(0, false);
        assert_eq!(ids(&mut queue, 1), [100]);
        // All that is left is held, but for one packet.
        queue.hold(0, true);
        assert_eq!(ids(&mut queue, 9), [3]);
        assert!(!queue.has_sendable() && queue.len_pkts() == 5);
        assert_eq!(queue.peek(Time::ZERO), None);
        // It takes packets all the same.
        assert_eq!(queue.enqueue(with_dscp(204, 2), Time::ZERO), QueueAction::Queued);
        queue.hold(1, false);
        assert!(queue.has_sendable());
        assert_eq!(ids(&mut queue, 9), [202, 203, 204]);
        queue.hold(0, false);
        queue.hold(9, true);
        assert_eq!(ids(&mut queue, 9), [101, 102, 103]);
    }

    #[test]
    fn what_was_peeked_at_stays_if_its_class_is_held_meanwhile() {
        let mut queue = classes(vec![
            class(DSCP_1, ClassService::Weighted(1), droptail(9)),
            class(ALL, ClassService::Weighted(1), droptail(9)),
        ]);
        queue.enqueue(Pkt { len_bytes: 99, ..with_dscp(0, 1) }, Time::ZERO);
        queue.enqueue(with_dscp(1, 0), Time::ZERO);
        assert_eq!(queue.peek(Time::ZERO), Some(99));
        queue.hold(0, true);
        assert_eq!(ids(&mut queue, 9), [1]);
        queue.hold(0, false);
        assert_eq!(ids(&mut queue, 9), [0]);
    }

    #[test]
    fn settings_that_leave_packets_without_a_turn_are_refused() {
        let last = || class(ALL, ClassService::Weighted(1), droptail(1));
        let first = || class(DSCP_1, ClassService::Weighted(1), droptail(1));
        let check = |classes, quantum_bytes| {
            let checked = QueueConfig::Classes(ClassesConfig { classes, quantum_bytes }).validate();
            checked.map_err(|error| (error.key, error.to_string()))
        };
        assert_eq!(check(vec![first(), last()], 64), Ok(()));
        let no_last = "the last class must have no condition, so that every packet has a class";
        let not_last = "a class without a condition takes every packet, so it must be the last";
        let no_turn = "a weight must be above 0, and the quantum at least 64 B, or no packet ever gets its turn";
        let refused = |key, why: &str| Err((key, why.to_owned()));
        assert_eq!(check(vec![], 1514), refused("class", no_last));
        assert_eq!(check(vec![last(), first()], 1514), refused("class", no_last));
        assert_eq!(check(vec![last(), last()], 1514), refused("class", not_last));
        assert_eq!(check(vec![last()], 63), refused("quantum", no_turn));
        let unserved = ClassConfig { service: ClassService::Weighted(0), ..last() };
        assert_eq!(check(vec![first(), unserved], 1514), refused("quantum", no_turn));
    }
}

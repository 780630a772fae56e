//! A host that drives any queue discipline and checks it at every step, for the property tests and the fuzzer.

use std::collections::HashMap;

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    AnyQdisc, Backlog, Ecn, Limit, LimitPer, Packet, Part, PortProperties, Qdisc, QueueAction,
    QueueConfig, Shaped, Threshold, TokenBucket,
};
use knee_units::settings::{About, Setting, Visit};

/// A packet with a number, which says all that its length and ECN field do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pkt {
    pub(crate) id: u64,
    pub(crate) len_bytes: u32,
    pub(crate) sent_ecn: Ecn,
    pub(crate) ecn: Ecn,
}

/// Numbers of a packet give it one of these, and one of as many inputs.
pub(crate) const DSCPS: u64 = 3;
/// And one of these flows.
pub(crate) const FLOWS: u64 = 7;

impl Pkt {
    pub(crate) fn new(id: u64, len_bytes: u32, ecn: Ecn) -> Pkt {
        Pkt { id, len_bytes, sent_ecn: ecn, ecn }
    }
}

impl Packet for Pkt {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn flow_hash(&self) -> u32 {
        (self.id % FLOWS) as u32
    }
    fn dscp(&self) -> u8 {
        (self.id % DSCPS) as u8
    }
    fn is_pure_ack(&self) -> bool {
        self.len_bytes < 100
    }
    fn input(&self) -> Option<u32> {
        Some((self.id % DSCPS) as u32)
    }
}

/// One operation of a host on a queue.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Wait { ps: u64 },
    Enqueue { len_bytes: u32, ecn: Ecn },
    Dequeue,
}

/// The most that may wait in it.
pub(crate) fn limit_of(config: &QueueConfig) -> Limit {
    match config {
        QueueConfig::TwoBuffers(config) => match (config.limit_per, limit_of(&config.queue)) {
            (LimitPer::Port, limit) => limit,
            (LimitPer::Buffer, Limit::Pkts(pkts)) => Limit::Pkts(pkts.saturating_mul(2)),
            (LimitPer::Buffer, Limit::Bytes(bytes)) => Limit::Bytes(bytes.saturating_mul(2)),
        },
        // Each class is held to its own by its own queue.
        config => config.limit().unwrap_or(Limit::UNLIMITED),
    }
}

/// Shorter intervals between updates are refused or take a case too long.
const SHORTEST_UPDATE: Duration = Duration::from_us(20);
/// Flow queues have memory of their own.
const MOST_FLOWS: u32 = 300;

/// Draws all settings of a queue from these numbers, whether or not it can work with them.
pub(crate) struct Draw<'a>(pub(crate) &'a mut dyn FnMut() -> u32);

impl Draw<'_> {
    /// A queue that consists of no others.
    pub(crate) fn single(&mut self) -> QueueConfig {
        let (frame_bytes, mbps) = (self.0() % 10_000, self.0() % 1000 + 1);
        let rate = Rate::from_bps(u64::from(mbps) * 1_000_000).expect("above 0");
        let place = PortProperties { frame_bytes, rate, has_burst: self.is_odd() };
        let mut all = QueueConfig::each(place);
        all.retain(|queue| queue.all().len() == 1);
        let mut queue = all.swap_remove(self.0() as usize % all.len());
        queue.settings_mut().fields(self);
        queue
    }

    fn is_odd(&mut self) -> bool {
        self.0() % 2 == 1
    }

    fn us(&mut self) -> Duration {
        Duration::from_us(self.0().into())
    }

    fn bytes(&mut self) -> u64 {
        u64::from(self.0()) * 256
    }

    /// From a little below 0 to a little above 1, or nothing at all.
    fn share(&mut self) -> f64 {
        match self.0() % 256 {
            255 => f64::NAN,
            at => (f64::from(at) - 10.0) / 230.0,
        }
    }
}

impl Visit for Draw<'_> {
    fn key(&mut self, about: About, setting: Setting<'_>) {
        match setting {
            Setting::Limit(limit) if self.is_odd() => *limit = Limit::Pkts(self.0()),
            Setting::Limit(limit) => *limit = Limit::Bytes(self.bytes()),
            Setting::Room(bytes) | Setting::Backlog(bytes) => *bytes = self.bytes(),
            Setting::Number(flows) if about.name() == "flows" => *flows = self.0() % MOST_FLOWS,
            Setting::Pkts(number)
            | Setting::Bytes(number)
            | Setting::Number(number)
            | Setting::Gain(number) => *number = self.0(),
            Setting::MaybeNumber(number) => *number = self.is_odd().then(|| self.0()),
            Setting::Threshold(threshold) => {
                *threshold = match self.0() % 3 {
                    0 => Threshold::Pkts(self.0()),
                    1 => Threshold::Bytes(self.bytes()),
                    _ => Threshold::Sojourn(self.us()),
                }
            }
            Setting::Time(time) if about.name() == "update_interval" => self.time(time),
            Setting::Time(time) => *time = self.us(),
            Setting::MaybeTime(time) => *time = self.is_odd().then(|| self.us()),
            Setting::Share(share) => *share = self.share(),
            Setting::MaybeShare(share) => *share = self.is_odd().then(|| self.share()),
            Setting::Flag(flag) => *flag = self.is_odd(),
            Setting::Word(at, words) => *at = self.0() as usize % words.len(),
            _ => {}
        }
    }

    fn time(&mut self, time: &mut Duration) {
        *time = self.us().max(SHORTEST_UPDATE);
    }

    fn seed(&mut self, seed: &mut u64) {
        *seed = self.0().into();
    }
}

/// Drives a queue as a host does, and checks it at every step.
pub(crate) struct Model<Q> {
    pub(crate) queue: Q,
    limit: Limit,
    now: Time,
    pub(crate) offered: Backlog,
    delivered: Backlog,
    pub(crate) delivered_ids: Vec<u64>,
    /// How many queues it consists of; 0: it is one.
    pub(crate) parts: usize,
    /// Class of a packet: packets of one class keep their order. `None`: this packet may overtake any.
    class: fn(&Pkt) -> Option<u64>,
    /// The last delivered of each class.
    last_ids: HashMap<u64, u64>,
    pub(crate) actions: Vec<QueueAction>,
}

impl<Q: Qdisc<Pkt>> Model<Q> {
    pub(crate) fn new(queue: Q, config: &QueueConfig) -> Model<Q> {
        let parts = config.part_names().len();
        let class: fn(&Pkt) -> Option<u64> = match config {
            // Full packets of one DSCP and input are all in one part, and those of one flow and ECN field in one queue of it.
            _ if parts > 0 => |pkt| {
                let flow = pkt.id % (DSCPS * FLOWS);
                (pkt.len_bytes == 1514).then_some(flow << 2 | pkt.sent_ecn as u64)
            },
            QueueConfig::FqCodel(_) => |pkt| Some(u64::from(pkt.flow_hash())),
            QueueConfig::DualPi2(_) => |pkt| Some(pkt.sent_ecn as u64),
            _ => |_| Some(0),
        };
        Model {
            queue,
            limit: limit_of(config),
            parts,
            class,
            last_ids: HashMap::new(),
            now: Time::ZERO,
            offered: Backlog::default(),
            delivered: Backlog::default(),
            delivered_ids: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, operations: &[Operation]) {
        for operation in operations {
            match operation {
                Operation::Wait { ps } => self.wait(Duration::from_ps(*ps)),
                Operation::Enqueue { len_bytes, ecn } => self.enqueue(*len_bytes, *ecn),
                Operation::Dequeue => _ = self.dequeue(),
            }
            self.check();
        }
    }

    /// Lets time pass, and ticks when asked to. Events of this very moment are left for later.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(event) = self.queue.next_event(self.now) {
            assert!(event >= self.now, "time never runs back");
            if event > until || event == self.now {
                break;
            }
            self.now = event;
            self.queue.tick(event);
            self.check();
        }
        self.now = until;
        self.queue.tick(until);
    }

    fn enqueue(&mut self, len_bytes: u32, ecn: Ecn) {
        let id = u64::from(self.offered.pkts);
        self.offered.pkts += 1;
        self.offered.bytes += u64::from(len_bytes);
        let before = (self.queue.len_pkts(), *self.queue.stats());
        let action = self.queue.enqueue(Pkt::new(id, len_bytes, ecn), self.now);
        self.actions.push(action);

        let after = self.queue.stats();
        match action {
            // FQ-CoDel may drop others of its flow with it.
            QueueAction::Dropped(_) => assert!(self.queue.len_pkts() <= before.0),
            QueueAction::Marked => {
                assert!(ecn.is_capable());
                assert!(after.marked_pkts > before.1.marked_pkts);
            }
            QueueAction::Queued => assert_eq!(after.enqueued_pkts, before.1.enqueued_pkts + 1),
        }
    }

    pub(crate) fn dequeue(&mut self) -> Option<Pkt> {
        let peeked = self.queue.peek(self.now);
        let pkt = self.queue.dequeue(self.now);
        assert_eq!(peeked, pkt.as_ref().map(|pkt| pkt.len_bytes));
        let pkt = pkt?;
        self.delivered.pkts += 1;
        self.delivered.bytes += u64::from(pkt.len_bytes);
        if let Some(class) = (self.class)(&pkt) {
            let before = self.last_ids.insert(class, pkt.id);
            assert!(before < Some(pkt.id), "first in, first out");
        }
        self.delivered_ids.push(pkt.id);
        match pkt.sent_ecn {
            Ecn::NotEct => assert_eq!(pkt.ecn, Ecn::NotEct),
            sent => assert!(pkt.ecn == sent || pkt.ecn == Ecn::Ce),
        }
        Some(pkt)
    }

    pub(crate) fn check(&self) {
        let stats = self.queue.stats();
        let (pkts, bytes) = (self.queue.len_pkts(), self.queue.len_bytes());
        assert_eq!(
            u64::from(self.offered.pkts),
            stats.dequeued_pkts + stats.dropped_pkts() + u64::from(pkts)
        );
        assert_eq!(self.offered.bytes, stats.dequeued_bytes + stats.dropped_bytes + bytes);
        assert_eq!(stats.dequeued_pkts, u64::from(self.delivered.pkts));
        assert_eq!(stats.dequeued_bytes, self.delivered.bytes);
        match self.limit {
            Limit::Pkts(limit) => assert!(pkts <= limit),
            Limit::Bytes(limit) => assert!(bytes <= limit),
        }
        let parts: Vec<_> = (0..).map_while(|part| self.queue.part(part)).collect();
        assert_eq!(parts.len(), self.parts);
        if !parts.is_empty() {
            let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
            assert_eq!(sum(|part| part.backlog.bytes), bytes);
            assert_eq!(sum(|part| part.stats.dequeued_pkts), stats.dequeued_pkts);
            assert_eq!(sum(|part| part.stats.marked_pkts), stats.marked_pkts);
            assert!(sum(|part| part.stats.dropped_pkts()) <= stats.dropped_pkts());
        }
        if let Some(inside) = self.queue.inside() {
            let is_some = |prob: f64| prob >= 0.0 && prob.is_finite();
            assert!(inside.drop_probability.is_none_or(is_some));
        }
    }
}

/// A queue below a token bucket.
pub(crate) fn shaped(config: &QueueConfig, bps: u64) -> Shaped<AnyQdisc<Pkt>, Pkt> {
    let rate = Rate::from_bps(bps).expect("above 0");
    Shaped::new(config.build(), TokenBucket::new(rate, 1600))
}

//! Directed links with their queues.
//!
//! Where the discipline is FIFO and decides at arrival, the time at which a packet leaves is known
//! when it comes: one event carries it to the far end, and the backlog is found by counting those
//! that have not left yet. Other disciplines are asked when the link is free.

use crate::buffer::{self, BufferShare};
use crate::events::{Event, Events};
use crate::net::PATH_END;
use crate::packet::{Packet, Packets, Tos, flags};
use crate::pause::{LeftHost, LinkControl, Ticket};
use crate::random::Random;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    Admission, AnyAdmission, AnyQdisc, Backlog, DropReason, Ecn, Packet as QueuePacket, Part,
    Qdisc, QueueAction, Shaped, TokenBucket,
};
use knee_run::flow_control::pause_time;
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::spec::{Link, Serialisation};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Packets that a discipline dropped after having taken them.
type Dropped = Rc<RefCell<Vec<u32>>>;

/// What a queue of its own time holds of a packet.
pub(crate) struct Queued {
    packet: u32,
    len_bytes: u32,
    tos: Tos,
    flow_hash: u32,
    is_pure_ack: bool,
    /// The link that brought it here.
    input: Option<u32>,
    /// Where it notes its end; nothing once it is on its way.
    dropped: Option<Dropped>,
    /// Under flow control: its place in what the switch holds.
    _ticket: Option<Ticket>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.borrow_mut().push(self.packet);
        }
    }
}

impl Queued {
    /// A packet whose next link after this one is at its place in `paths`.
    fn new(id: u32, packet: &Packet, paths: &[u32], dropped: &Dropped) -> Queued {
        let behind = packet.hop.checked_sub(2).map(|hop| paths[hop as usize]);
        Queued {
            packet: id,
            len_bytes: packet.wire_bytes,
            tos: packet.tos,
            flow_hash: packet.flow_hash(),
            is_pure_ack: packet.is_pure_ack(),
            input: behind.filter(|link| *link != PATH_END),
            dropped: Some(Rc::clone(dropped)),
            _ticket: None,
        }
    }
}

impl QueuePacket for Queued {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }
    fn ecn(&self) -> Ecn {
        self.tos.ecn()
    }
    fn set_ce(&mut self) {
        self.tos.set_ecn(Ecn::Ce);
    }
    fn dscp(&self) -> u8 {
        self.tos.dscp()
    }
    fn is_pure_ack(&self) -> bool {
        self.is_pure_ack
    }
    fn input(&self) -> Option<u32> {
        self.input
    }
    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }
}

enum Queue {
    /// No rate: nothing waits.
    Wire,
    /// Departures known at arrival.
    Fifo(Fifo),
    /// A discipline behind a token bucket.
    Shaped(Box<Shaped<AnyQdisc<Queued>, Queued>>),
    /// A discipline behind a store-and-forward port, which is busy until a time.
    Port(Box<AnyQdisc<Queued>>, Time),
}

impl Queue {
    /// One whose packets leave one after the other, so that it may be asked to wait.
    fn with_departures(link: &Link) -> Queue {
        match (link.rate, link.serialisation) {
            (None, _) => Queue::Wire,
            (Some(rate), Serialisation::TokenBucket { burst_bytes }) => {
                let bucket = TokenBucket::new(rate, burst_bytes).with_overhead(link.overhead_bytes);
                Queue::Shaped(Box::new(Shaped::new(link.queue.build(), bucket)))
            }
            (Some(_), Serialisation::StoreAndForward) => {
                Queue::Port(Box::new(link.queue.build()), Time::ZERO)
            }
        }
    }
}

struct Fifo {
    admission: AnyAdmission,
    pace: Pace,
    /// When each waiting packet leaves, and its length.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
    /// The last packet accepted leaves (token bucket) or has left (store and forward) then.
    last: Time,
}

enum Pace {
    Tokens(TokenBucket),
    /// The serialisation time is the same for packets of one length, as most are.
    Wire {
        rate: Rate,
        overhead_bytes: u32,
        len_bytes: u32,
        time: Duration,
    },
}

impl Fifo {
    #[inline]
    fn forget_departed(&mut self, now: Time) {
        while let Some(&(leaves, len_bytes)) = self.waiting.front() {
            if leaves > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(len_bytes);
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { pkts: self.waiting.len() as u32, bytes: self.waiting_bytes }
    }

    /// When the packet leaves the queue, and when all of it is on its way.
    #[inline]
    fn schedule(&mut self, len_bytes: u32, now: Time) -> (Time, Time) {
        let free = self.last.max(now);
        match &mut self.pace {
            Pace::Tokens(bucket) => {
                let leaves = bucket.ready_at(len_bytes, free);
                bucket.take(len_bytes, leaves);
                self.last = leaves;
                (leaves, leaves)
            }
            Pace::Wire { rate, overhead_bytes, len_bytes: usual, time } => {
                if *usual != len_bytes {
                    (*usual, *time) = (len_bytes, rate.time_of(len_bytes + *overhead_bytes));
                }
                self.last = free + *time;
                (free, self.last)
            }
        }
    }
}

/// A link at work.
pub(crate) struct LinkState {
    queue: Queue,
    rate: Option<Rate>,
    /// Bytes beside each frame that take time.
    overhead_bytes: u32,
    delay: Duration,
    jitter: Duration,
    /// Lost if a 32-bit random number is below this.
    loss: u64,
    /// Whether the last burst of each receiving socket or ping was lost, where bursts are lost whole.
    lost_bursts: Option<HashMap<u32, bool>>,
    pub(crate) sampled: bool,
    counts: QueueOutcome,
    dropped: Dropped,
    /// Whether somebody else wants to know of these, and frees them.
    keeps_dropped: bool,
    /// Packets that a discipline of its own time has let go, if somebody wants to know.
    departed: Option<Vec<u32>>,
    /// An event for this link is scheduled for then.
    next_event: Time,
    /// Its queue's part of memory that others share.
    share: Option<BufferShare>,
    /// Its part in flow control, if it has one.
    control: Option<Box<LinkControl>>,
    /// What has left, if the sockets of its host want to know.
    left: Option<Vec<LeftHost>>,
}

/// What became of a packet offered to a link.
pub(crate) enum Sent {
    /// It leaves the queue then (at the latest: a discipline of its own time cannot say).
    Leaves(Time),
    /// It waits, and its host hears of it when it leaves.
    Waits,
    /// Lost at random: the sender cannot know.
    Lost,
    /// Refused by the queue.
    Dropped,
}

impl LinkState {
    pub(crate) fn new(link: &Link, index: u32) -> LinkState {
        let queue = match (link.rate, link.queue.admission()) {
            (Some(rate), Some(admission)) => Queue::Fifo(Fifo {
                admission,
                pace: match link.serialisation {
                    Serialisation::TokenBucket { burst_bytes } => {
                        let bucket = TokenBucket::new(rate, burst_bytes);
                        Pace::Tokens(bucket.with_overhead(link.overhead_bytes))
                    }
                    Serialisation::StoreAndForward => {
                        let overhead_bytes = link.overhead_bytes;
                        Pace::Wire { rate, overhead_bytes, len_bytes: 0, time: Duration::ZERO }
                    }
                },
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                last: Time::ZERO,
            }),
            _ => Queue::with_departures(link),
        };
        LinkState {
            queue,
            rate: link.rate,
            overhead_bytes: link.overhead_bytes,
            delay: link.delay,
            jitter: link.jitter,
            loss: (link.loss.clamp(0.0, 1.0) * (1u64 << 32) as f64).round() as u64,
            lost_bursts: (link.loses_bursts && link.loss > 0.0).then(HashMap::new),
            sampled: link.sampled,
            counts: QueueOutcome {
                link: index,
                threshold_hits: Some(0),
                ..QueueOutcome::default()
            },
            dropped: Dropped::default(),
            keeps_dropped: false,
            departed: None,
            next_event: Time::MAX,
            share: None,
            control: None,
            left: None,
        }
    }

    /// Before the start: its queue lies in memory that others share, and so must know when packets leave.
    pub(crate) fn put_into(&mut self, share: BufferShare, link: &Link) {
        self.queue = Queue::with_departures(link);
        self.share = Some(share);
    }

    /// Before the start: flow control counts what waits in its queue, perhaps stops it, and perhaps it then tells its host
    /// what leaves.
    pub(crate) fn take_part(&mut self, control: LinkControl, link: &Link, tells_host: bool) {
        self.queue = Queue::with_departures(link);
        self.control = Some(Box::new(control));
        self.left = tells_host.then(Vec::new);
    }

    /// Starts what runs by itself (the periodic update of an AQM).
    pub(crate) fn start(&mut self, index: u32, events: &mut Events) {
        self.schedule_service(index, Time::ZERO, events);
    }

    /// Offers a packet; its arrival at the far end is scheduled when its departure is known.
    #[inline]
    pub(crate) fn send(
        &mut self,
        index: u32,
        id: u32,
        packets: &mut Packets,
        now: Time,
        ((events, random), paths): ((&mut Events, &mut Random), &[u32]),
    ) -> Sent {
        if self.loss != 0 && self.loses(packets.get(id), random) {
            self.counts.lost_pkts += 1;
            packets.free(id);
            return Sent::Lost;
        }
        let packet = packets.get_mut(id);
        let (len_bytes, ecn) = (packet.wire_bytes, packet.tos.ecn());
        match &mut self.queue {
            Queue::Wire => {
                let arrives = now + self.delay + jitter(self.jitter, random);
                events.push(arrives, Event::Arrive { packet: id });
                Sent::Leaves(now)
            }
            Queue::Fifo(fifo) => {
                self.counts.offered_pkts += 1;
                fifo.forget_departed(now);
                match fifo.admission.admit(fifo.backlog(), len_bytes, ecn, now) {
                    QueueAction::Dropped(reason) => {
                        count_drop(&mut self.counts, reason);
                        packets.free(id);
                        return Sent::Dropped;
                    }
                    QueueAction::Marked => {
                        packet.tos.set_ecn(Ecn::Ce);
                        self.counts.marked_pkts += 1;
                    }
                    QueueAction::Queued => {}
                }
                self.counts.sent_pkts += 1;
                self.counts.sent_bytes += u64::from(len_bytes);
                let (leaves, sent) = fifo.schedule(len_bytes, now);
                if leaves > now {
                    fifo.waiting.push_back((leaves, len_bytes));
                    fifo.waiting_bytes += u64::from(len_bytes);
                }
                let arrives = sent + self.delay + jitter(self.jitter, random);
                events.push(arrives, Event::Arrive { packet: id });
                Sent::Leaves(leaves)
            }
            Queue::Shaped(_) | Queue::Port(..) => {
                self.counts.offered_pkts += 1;
                let mut queued = Queued::new(id, packet, paths, &self.dropped);
                if self.share.is_some() || self.control.is_some() {
                    // Who comes at the moment of a departure finds it done.
                    self.service(index, packets, now, (events, random));
                }
                if let (Some(control), Queue::Port(qdisc, _)) = (&self.control, &mut self.queue) {
                    queued._ticket = control.ticket(qdisc, &queued);
                }
                let verdict = match &mut self.queue {
                    Queue::Shaped(shaped) => {
                        buffer::enqueue(&mut self.share, &mut **shaped, queued, now)
                    }
                    Queue::Port(qdisc, _) => {
                        buffer::enqueue(&mut self.share, &mut **qdisc, queued, now)
                    }
                    Queue::Wire | Queue::Fifo(_) => return Sent::Dropped,
                };
                self.after_enqueue(verdict, (index, id), packets, now, (events, random))
            }
        }
    }

    /// Draws for each packet, or for the first of each burst.
    fn loses(&mut self, packet: &Packet, random: &mut Random) -> bool {
        let Some(lost_bursts) = &mut self.lost_bursts else {
            return u64::from(random.u32()) < self.loss;
        };
        if packet.has(flags::IN_BURST) {
            if let Some(was_lost) = lost_bursts.get(&packet.to) {
                return *was_lost;
            }
        }
        let is_lost = u64::from(random.u32()) < self.loss;
        lost_bursts.insert(packet.to, is_lost);
        is_lost
    }

    fn after_enqueue(
        &mut self,
        verdict: QueueAction,
        (index, id): (u32, u32),
        packets: &mut Packets,
        now: Time,
        (events, random): (&mut Events, &mut Random),
    ) -> Sent {
        if let QueueAction::Dropped(_) = verdict {
            self.free_dropped(packets, Some(id));
            self.settle_share();
            return Sent::Dropped;
        }
        self.service(index, packets, now, (events, random));
        match &mut self.left {
            None => Sent::Leaves(now),
            Some(left) if left.last().is_some_and(|last| last.packet == id) => {
                left.pop();
                Sent::Leaves(now)
            }
            Some(_) => Sent::Waits,
        }
    }

    /// Sends what may leave now, and sees to it that this is called again in time.
    pub(crate) fn service(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        (events, random): (&mut Events, &mut Random),
    ) {
        loop {
            let (taken, serialisation) = match &mut self.queue {
                Queue::Shaped(shaped) => {
                    shaped.tick(now);
                    (shaped.dequeue(now), Duration::ZERO)
                }
                Queue::Port(qdisc, busy_until) => {
                    qdisc.tick(now);
                    let is_stopped =
                        self.control.as_mut().is_some_and(|at| at.gates.apply(qdisc, now));
                    if *busy_until > now || is_stopped {
                        break;
                    }
                    let taken = qdisc.dequeue(now);
                    let time = match (&taken, self.rate) {
                        (Some(queued), Some(rate)) => {
                            rate.time_of(queued.len_bytes + self.overhead_bytes)
                        }
                        _ => Duration::ZERO,
                    };
                    *busy_until = now + time;
                    (taken, time)
                }
                Queue::Wire | Queue::Fifo(_) => return,
            };
            let Some(mut queued) = taken else { break };
            queued.dropped = None;
            packets.get_mut(queued.packet).tos = queued.tos;
            if let Some(departed) = &mut self.departed {
                departed.push(queued.packet);
            }
            if let Some(left) = &mut self.left {
                left.extend(LeftHost::of(queued.packet, packets.get(queued.packet)));
            }
            let arrives = now + serialisation + self.delay + jitter(self.jitter, random);
            events.push(arrives, Event::Arrive { packet: queued.packet });
        }
        self.free_dropped(packets, None);
        self.settle_share();
        self.schedule_service(index, now, events);
    }

    /// Tells shared memory how long the queue is now.
    fn settle_share(&mut self) {
        let Some(share) = &mut self.share else { return };
        match &self.queue {
            Queue::Shaped(shaped) => share.settle(shaped.len_pkts(), shaped.len_bytes()),
            Queue::Port(qdisc, _) => share.settle(qdisc.len_pkts(), qdisc.len_bytes()),
            Queue::Wire | Queue::Fifo(_) => {}
        }
    }

    /// What a discipline of its own time drops is left to [`LinkState::take_dropped`].
    pub(crate) fn keep_dropped(&mut self) {
        self.keeps_dropped = true;
    }

    /// Packets that a discipline of its own time has dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<u32> {
        self.dropped.take()
    }

    /// From now on notes what a discipline of its own time lets go, for [`LinkState::take_departed`].
    pub(crate) fn keep_departed(&mut self) {
        self.departed.get_or_insert_default();
    }

    /// Packets that it has let go since the last call.
    pub(crate) fn take_departed(&mut self) -> Vec<u32> {
        self.departed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether it has a queue at all.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Whether a refusal is known at once, and to its caller alone.
    pub(crate) fn decides_at_arrival(&self) -> bool {
        matches!(self.queue, Queue::Wire | Queue::Fifo(_))
    }

    /// `refused` was never taken.
    fn free_dropped(&mut self, packets: &mut Packets, refused: Option<u32>) {
        if self.keeps_dropped {
            return;
        }
        for id in self.dropped.borrow_mut().drain(..) {
            if let Some(left) = self.left.as_mut().filter(|_| refused != Some(id)) {
                left.extend(LeftHost::of(id, packets.get(id)));
            }
            packets.free(id);
        }
    }

    /// Data segments that waited in the queue of a host and do no more, since the last call.
    pub(crate) fn take_left(&mut self) -> Vec<LeftHost> {
        self.left.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A pause frame has come for it.
    pub(crate) fn pause(
        &mut self,
        index: u32,
        (priority, quanta): (u8, u16),
        packets: &mut Packets,
        now: Time,
        parts: (&mut Events, &mut Random),
    ) {
        let (Some(rate), Some(control)) = (self.rate, &mut self.control) else { return };
        control.gates.close(priority, now, pause_time(quanta, rate));
        self.service(index, packets, now, parts);
    }

    /// Sends a control frame, behind the packet that is being sent and before all others; when it arrives.
    pub(crate) fn send_control_frame(&mut self, now: Time, len_bytes: u32) -> Time {
        let (Queue::Port(_, busy_until), Some(rate)) = (&mut self.queue, self.rate) else {
            return now + self.delay;
        };
        *busy_until = (*busy_until).max(now) + rate.time_of(len_bytes + self.overhead_bytes);
        *busy_until + self.delay
    }

    /// A scheduled service is due.
    pub(crate) fn on_event(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        parts: (&mut Events, &mut Random),
    ) {
        if self.next_event == now {
            self.next_event = Time::MAX;
            self.service(index, packets, now, parts);
        }
    }

    fn schedule_service(&mut self, index: u32, now: Time, events: &mut Events) {
        let next = match &self.queue {
            Queue::Shaped(shaped) => shaped.next_event(now),
            Queue::Port(qdisc, busy_until) => {
                let opens = match &self.control {
                    None => (qdisc.len_pkts() > 0).then_some(Time::ZERO),
                    Some(control) => control.gates.opens(qdisc),
                };
                let free = opens.map(|opens| opens.max(*busy_until));
                [qdisc.next_event(now), free].into_iter().flatten().min()
            }
            Queue::Wire | Queue::Fifo(_) => None,
        };
        if let Some(next) = next.filter(|next| *next < self.next_event) {
            self.next_event = next;
            events.push(next, Event::Port { link: index });
        }
    }

    /// The figures of the queue so far. Those of a discipline of its own time come from it.
    pub(crate) fn outcome(&mut self, now: Time) -> QueueOutcome {
        let mut counts = self.counts.clone();
        counts.pause = self.control.as_ref().and_then(|at| at.gates.link_figures(now));
        let stats = match &mut self.queue {
            Queue::Shaped(shaped) => shaped.stats(),
            Queue::Port(qdisc, _) => qdisc.stats(),
            Queue::Fifo(fifo) => {
                counts.threshold_hits = Some(fifo.admission.threshold_hits());
                // Those that wait still were counted when their departure was known.
                fifo.forget_departed(now);
                counts.sent_pkts -= fifo.waiting.len() as u64;
                counts.sent_bytes -= fifo.waiting_bytes;
                return counts;
            }
            Queue::Wire => return counts,
        };
        counts.with(stats)
    }

    /// The figures of the queue so far, then those of its parts.
    pub(crate) fn outcomes(&mut self, now: Time) -> impl Iterator<Item = QueueOutcome> + use<> {
        let link = self.counts.link;
        let parts = self.parts().into_iter().zip(0..).map(|(part, index)| {
            let pause = |at: &LinkControl| at.gates.class_figures(index as usize, now);
            QueueOutcome {
                link,
                part: Some(index),
                offered_pkts: part.stats.dequeued_pkts
                    + part.stats.dropped_pkts()
                    + u64::from(part.backlog.pkts),
                pause: self.control.as_deref().and_then(pause),
                ..QueueOutcome::default()
            }
            .with(&part.stats)
        });
        let parts: Vec<_> = parts.collect();
        std::iter::once(self.outcome(now)).chain(parts)
    }

    /// The queue now, then its parts.
    pub(crate) fn samples(&mut self, now: Time) -> impl Iterator<Item = QueueSample> + use<> {
        let link = self.counts.link;
        let parts = self.parts().into_iter().zip(0..).map(move |(part, index)| QueueSample {
            at: now,
            link,
            part: Some(index),
            len_pkts: part.backlog.pkts,
            len_bytes: part.backlog.bytes,
            dropped_pkts: part.stats.dropped_pkts(),
            threshold_hits: Some(part.stats.threshold_hits),
            drop_probability: part.inside.and_then(|inside| inside.drop_probability),
            qdelay: part.inside.and_then(|inside| inside.qdelay),
        });
        std::iter::once(self.sample(now)).chain(parts)
    }

    fn parts(&self) -> Vec<Part> {
        let part = |index| match &self.queue {
            Queue::Shaped(shaped) => shaped.part(index),
            Queue::Port(qdisc, _) => qdisc.part(index),
            Queue::Wire | Queue::Fifo(_) => None,
        };
        (0..).map_while(part).collect()
    }

    fn sample(&mut self, now: Time) -> QueueSample {
        let (len_pkts, len_bytes, inside) = match &mut self.queue {
            Queue::Wire => (0, 0, None),
            Queue::Fifo(fifo) => {
                fifo.forget_departed(now);
                let backlog = fifo.backlog();
                (backlog.pkts, backlog.bytes, None)
            }
            Queue::Shaped(shaped) => (shaped.len_pkts(), shaped.len_bytes(), shaped.inside()),
            Queue::Port(qdisc, _) => (qdisc.len_pkts(), qdisc.len_bytes(), qdisc.inside()),
        };
        let counts = self.outcome(now);
        QueueSample {
            at: now,
            link: counts.link,
            part: None,
            len_pkts,
            len_bytes,
            dropped_pkts: counts.dropped_pkts(),
            threshold_hits: counts.threshold_hits,
            drop_probability: inside.and_then(|inside| inside.drop_probability),
            qdelay: inside.and_then(|inside| inside.qdelay),
        }
    }
}

fn count_drop(counts: &mut QueueOutcome, reason: DropReason) {
    match reason {
        DropReason::Full => counts.dropped_full_pkts += 1,
        DropReason::NotEct => counts.dropped_not_ect_pkts += 1,
        DropReason::Early => counts.dropped_early_pkts += 1,
    }
}

fn jitter(most: Duration, random: &mut Random) -> Duration {
    if most == Duration::ZERO {
        return Duration::ZERO;
    }
    Duration::from_ps(random.below(most.ps() + 1))
}

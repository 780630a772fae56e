//! Directed links with their queues.
//!
//! A FIFO discipline that decides at arrival knows then when the packet leaves. One event carries
//! the packet to the far end, and the backlog is the number of packets that have not left yet. The
//! link asks other disciplines, which decide at departure, each time it is free.

mod changes;
mod duplicate;
mod rest;
mod thin;

use crate::buffer::{self, BufferShare};
use crate::events::{self, Event, Events, FarEnd};
use crate::packet::{Packet, Packets, Tos, flags};
use crate::paths::Paths;
use crate::pause::{LeftHost, LinkControl, Ticket};
use crate::vary::Sending;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    Admission, AnyAdmission, AnyQdisc, Backlog, DropReason, Ecn, Packet as QueuePacket, Part,
    Qdisc, QueueAction, Shaped, TokenBucket,
};
use knee_run::flow_control::pause_time;
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::spec::{Link, Serialisation};
use knee_units::Random;
use rest::Rest;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::mem::offset_of;
use std::rc::Rc;

/// Packets that a discipline dropped after it had accepted them.
type Dropped = Rc<RefCell<Vec<u32>>>;

/// A packet in a queue that decides at departure.
pub(crate) struct Queued {
    packet: u32,
    len_bytes: u32,
    tos: Tos,
    flow_hash: u32,
    /// Payload that a queue may cut off.
    payload_bytes: u32,
    is_pure_ack: bool,
    is_trimmed: bool,
    /// The link that brought the packet here.
    input: Option<u32>,
    /// Where the packet's arrival leads; see [`events::leads_to`].
    leads_to: u32,
    /// The list that receives the packet if it is dropped; `None` once it is in flight.
    dropped: Option<Dropped>,
    /// With flow control, the packet's share of the bytes that the switch holds.
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
    /// Creates the entry of a packet that comes from the link before position `at` of the paths.
    fn new(id: u32, packet: &Packet, (paths, at): (&Paths, u32), dropped: &Dropped) -> Queued {
        Queued {
            packet: id,
            len_bytes: packet.wire_bytes,
            tos: packet.tos,
            flow_hash: packet.flow_hash(),
            payload_bytes: packet.payload_to_trim(),
            is_pure_ack: packet.is_pure_ack(),
            is_trimmed: packet.has(flags::TRIMMED),
            input: paths.link_before(at),
            leads_to: events::leads_to(packet, paths),
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
    fn trim(&mut self) -> bool {
        let has_payload = self.payload_bytes > 0;
        self.len_bytes -= self.payload_bytes;
        self.payload_bytes = 0;
        self.is_trimmed |= has_payload;
        has_payload
    }
    fn is_trimmed(&self) -> bool {
        self.is_trimmed
    }
}

enum Queue {
    /// The link has no rate, so no packet waits.
    Wire,
    /// The departure is known at arrival.
    Fifo(Fifo),
    /// A discipline behind a token bucket.
    Shaped(Box<Shaped<AnyQdisc<Queued>, Queued>>),
    /// A discipline behind a store-and-forward port, which is busy until this time.
    Port(Box<AnyQdisc<Queued>>, Time),
}

impl Queue {
    /// Creates a queue whose packets leave one after the other, so that flow control can stop it.
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

#[repr(C)]
struct Fifo {
    /// The time at which the last accepted packet leaves (token bucket) or has left (store and
    /// forward).
    last: Time,
    waiting_bytes: u64,
    /// Departure time and length of each waiting packet.
    waiting: VecDeque<(Time, u32)>,
    pace: Pace,
    admission: AnyAdmission,
}

enum Pace {
    Tokens(Box<TokenBucket>),
    /// Caches the serialisation time of the last length, because most packets have the same length.
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
        if self.waiting.is_empty() {
            return;
        }
        while let Some(&(leaves, len_bytes)) = self.waiting.front() {
            if leaves > now {
                return;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(len_bytes);
        }
        // The ring starts again in the lines that a near cache has.
        self.waiting.clear();
    }

    fn backlog(&self) -> Backlog {
        Backlog { pkts: self.waiting.len() as u32, bytes: self.waiting_bytes }
    }

    /// Returns when the packet leaves the queue, and when the link has sent all of it.
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

/// The way from a link's queue to its far end.
#[repr(C)]
struct Wire {
    /// Loss and jitter; `None` if the link has neither.
    chance: Option<Box<Chance>>,
    delay: Duration,
    /// Number of packets that have left for the far end so far.
    left_pkts: u64,
    far_end: FarEnd,
    number: u32,
}

/// What a link does at random.
struct Chance {
    /// The link loses a packet if a 32-bit random number is below this.
    loss: u64,
    /// And sends it twice if one is below this.
    duplicate: u64,
    jitter: Duration,
    /// Generator of this link alone.
    random: Random,
    /// Whether each receiving socket or ping lost its last burst. `None` if the link does not lose
    /// whole bursts.
    lost_bursts: Option<HashMap<u32, bool>>,
    /// If the link thins out ACKs.
    waiting_acks: Option<thin::WaitingAcks>,
}

impl Chance {
    fn new(link: &Link, seed: u64) -> Box<Chance> {
        Box::new(Chance {
            loss: loss_of(link.loss),
            duplicate: loss_of(link.duplicate),
            jitter: link.jitter,
            random: Random::new(seed),
            lost_bursts: link.loses_bursts.then(HashMap::new),
            waiting_acks: link.thins_acks.then(HashMap::new),
        })
    }

    /// Draws a loss for each packet, or for the first packet of each burst.
    fn loses(&mut self, packet: &Packet) -> bool {
        match self.loss {
            0 => return false,
            ALL => return true,
            _ => {}
        }
        let Some(lost_bursts) = &mut self.lost_bursts else {
            return u64::from(self.random.u32()) < self.loss;
        };
        if packet.has(flags::IN_BURST) {
            if let Some(was_lost) = lost_bursts.get(&packet.to) {
                return *was_lost;
            }
        }
        let is_lost = u64::from(self.random.u32()) < self.loss;
        lost_bursts.insert(packet.to, is_lost);
        is_lost
    }

    fn jitter(&mut self) -> Duration {
        if self.jitter == Duration::ZERO {
            return Duration::ZERO;
        }
        Duration::from_ps(self.random.below(self.jitter.ps() + 1))
    }
}

/// The loss of a link that is down: above all that is drawn, and nothing is drawn.
const ALL: u64 = u64::MAX;

/// Returns the bound below which a 32-bit random number means a loss or a copy.
fn loss_of(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * (1u64 << 32) as f64).round() as u64
}

impl Wire {
    /// Schedules the arrival of a packet that begins to leave at `begun`, and whose last bit leaves at
    /// `sent`.
    #[inline(always)]
    fn carry(
        &mut self,
        (begun, sent): (Time, Time),
        (index, packet): (u32, u32),
        leads_to: u32,
        events: &mut Events,
    ) {
        let arrives = self.arrival(sent);
        self.carry_to((begun, arrives), (index, packet), leads_to, events);
    }

    /// Changes the loss of a link that draws; see [`Chance::loss`].
    fn lose(&mut self, loss: u64) {
        if let Some(chance) = &mut self.chance {
            chance.loss = loss;
        }
    }

    /// Draws when a packet arrives whose last bit leaves at `sent`.
    #[inline]
    fn arrival(&mut self, sent: Time) -> Time {
        let mut arrives = sent + self.delay;
        if let Some(chance) = &mut self.chance {
            arrives += chance.jitter();
        }
        arrives
    }

    #[inline(always)]
    fn carry_to(
        &mut self,
        (begun, arrives): (Time, Time),
        (index, packet): (u32, u32),
        leads_to: u32,
        events: &mut Events,
    ) {
        let event = Event::Arrive { link: index, number: self.left_pkts as u32, packet };
        self.left_pkts += 1;
        let domain = match self.far_end {
            FarEnd::Here => None,
            FarEnd::There(domain) => Some(domain),
            FarEnd::ByNextLink => events.domain_of(leads_to),
        };
        match domain {
            None => events.push_arrival((begun, arrives), event, leads_to),
            Some(domain) => events.push_away(domain, (begun, arrives), event, leads_to),
        }
    }
}

/// The state of a link. What every packet touches comes first, in three cache lines. A fourth one is empty: at a distance
/// of 192 bytes a packet of the dumbbell costs 4 % more.
#[repr(C, align(256))]
pub(crate) struct LinkState {
    wire: Wire,
    /// Bytes and marks of the packets that a FIFO accepted. Their number is that of packets on the wire.
    sent_bytes: u64,
    marked_pkts: u64,
    queue: Queue,
    /// `None` until something needs it: packets that a FIFO takes do not.
    rest: Option<Box<Rest>>,
}

// Idle links are most of the memory of a large network.
const _: () = assert!(size_of::<LinkState>() == 256);
// What every packet touches is in the three lines that are fetched.
const _: () = assert!(offset_of!(LinkState, rest) <= 3 * 64);

/// Why a link without [`Rest`] cannot be here: to go on would lose its packet without a count.
const NO_REST: &str = "a link whose queue decides at departure has a rest";

/// The effect of offering a packet to a link.
pub(crate) enum Sent {
    /// The packet leaves the queue at this time, or earlier if the discipline decides at departure.
    Leaves(Time),
    /// The packet waits, and its host learns when it leaves.
    Waits,
    /// The packet was lost at random; the sender cannot know.
    Lost,
    /// The queue refused the packet.
    Dropped,
}

impl LinkState {
    /// Creates an empty link. `seed` drives loss and jitter.
    pub(crate) fn new(link: &Link, index: u32, seed: u64) -> LinkState {
        let queue = match (link.rate, link.queue.admission()) {
            (Some(rate), Some(admission)) => Queue::Fifo(Fifo {
                admission,
                pace: match link.serialisation {
                    Serialisation::TokenBucket { burst_bytes } => {
                        let bucket = TokenBucket::new(rate, burst_bytes);
                        Pace::Tokens(Box::new(bucket.with_overhead(link.overhead_bytes)))
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
        let rest = match queue {
            Queue::Wire | Queue::Fifo(_) => None,
            Queue::Shaped(_) | Queue::Port(..) => Some(Rest::of_departures(link)),
        };
        LinkState {
            queue,
            rest,
            wire: Wire {
                chance: (link.draws() || link.thins_acks).then(|| Chance::new(link, seed)),
                delay: link.delay,
                left_pkts: 0,
                far_end: FarEnd::Here,
                number: index,
            },
            sent_bytes: 0,
            marked_pkts: 0,
        }
    }

    /// Lets packets leave one after the other, before the run starts.
    fn decide_at_departure(&mut self, link: &Link) -> &mut Rest {
        self.queue = Queue::with_departures(link);
        self.rest.get_or_insert_with(|| Rest::of_departures(link))
    }

    /// Moves the queue into shared memory, before the run starts. The memory must know when packets
    /// leave.
    pub(crate) fn put_into(&mut self, share: BufferShare, link: &Link) {
        self.decide_at_departure(link).share = Some(share);
    }

    /// Fetches what a packet needs of the link into the near cache.
    #[inline]
    pub(crate) fn fetch(&self) {
        knee_prefetch::fetch(self, 0..3);
    }

    /// Fetches what the link refers to, which [`LinkState::fetch`] fetched before.
    #[inline]
    pub(crate) fn fetch_behind(&self) {
        if let Queue::Fifo(fifo) = &self.queue {
            if let Some(waiting) = fifo.waiting.front() {
                knee_prefetch::fetch(waiting, 0..1);
            }
        }
    }

    /// Adds the link to flow control, before the run starts. Flow control counts waiting packets
    /// and may stop the queue. With `tells_host`, the link also reports departures to its host.
    pub(crate) fn take_part(&mut self, control: LinkControl, link: &Link, tells_host: bool) {
        let rest = self.decide_at_departure(link);
        rest.control = Some(Box::new(control));
        rest.left = tells_host.then(Vec::new);
    }

    /// Starts events that repeat by themselves (the periodic update of an AQM).
    pub(crate) fn start(&mut self, index: u32, events: &mut Events) {
        let varying = self.rest.iter().filter_map(|rest| rest.varying.as_ref());
        for at in varying.flat_map(|varying| varying.times()) {
            events.push(at, Event::LinkChange { link: index });
        }
        self.schedule_service(index, Time::ZERO, events);
    }

    /// Offers a packet that has come to position `at` of the paths. The link schedules its arrival once the
    /// departure is known. In its caller: every packet of a simulation comes here at every hop.
    #[inline(always)]
    pub(crate) fn send_here(
        &mut self,
        index: u32,
        id: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
        (paths, at): (&Paths, u32),
    ) -> Sent {
        if self.wire.chance.as_mut().is_some_and(|chance| chance.duplicates()) {
            self.send_copy((index, id), packets, now, events, (paths, at));
        }
        if let Some(chance) = &mut self.wire.chance {
            if chance.loses(packets.get(id)) || chance.replaces(id, packets, now) {
                Rest::counts_of(&mut self.rest).lost_pkts += 1;
                packets.free(id);
                return Sent::Lost;
            }
        }
        let packet = packets.get_mut(id);
        let (len_bytes, ecn) = (packet.wire_bytes, packet.tos.ecn());
        let leads_to = events::leads_to(packet, paths);
        match &mut self.queue {
            Queue::Wire => {
                self.wire.carry((now, now), (index, id), leads_to, events);
                Sent::Leaves(now)
            }
            Queue::Fifo(fifo) => {
                fifo.forget_departed(now);
                match fifo.admission.admit(fifo.backlog(), len_bytes, ecn, now) {
                    QueueAction::Dropped(reason) => {
                        count_drop(Rest::counts_of(&mut self.rest), reason);
                        packets.free(id);
                        return Sent::Dropped;
                    }
                    QueueAction::Marked => {
                        packet.tos.set_ecn(Ecn::Ce);
                        self.marked_pkts += 1;
                    }
                    QueueAction::Queued => {}
                }
                self.sent_bytes += u64::from(len_bytes);
                let (leaves, sent) = fifo.schedule(len_bytes, now);
                if leaves > now {
                    fifo.waiting.push_back((leaves, len_bytes));
                    self.wire.chance.iter_mut().for_each(|chance| chance.waits(id, packet, leaves));
                    fifo.waiting_bytes += u64::from(len_bytes);
                }
                self.wire.carry((leaves, sent), (index, id), leads_to, events);
                Sent::Leaves(leaves)
            }
            Queue::Shaped(_) | Queue::Port(..) => {
                let Some(rest) = &mut self.rest else { unreachable!("{NO_REST}") };
                rest.counts.offered_pkts += 1;
                let mut queued = Queued::new(id, packet, (paths, at), &rest.dropped);
                if rest.share.is_some() || rest.control.is_some() || rest.varying.is_some() {
                    // A packet that comes at the time of a departure arrives after that departure.
                    self.service(index, packets, now, events);
                }
                let Some(rest) = &mut self.rest else { unreachable!("{NO_REST}") };
                if let (Some(control), Queue::Port(qdisc, _)) = (&rest.control, &mut self.queue) {
                    queued._ticket = control.ticket(qdisc, &queued);
                }
                let verdict = match &mut self.queue {
                    Queue::Shaped(shaped) => {
                        buffer::enqueue(&mut rest.share, &mut **shaped, queued, now)
                    }
                    Queue::Port(qdisc, _) => {
                        buffer::enqueue(&mut rest.share, &mut **qdisc, queued, now)
                    }
                    Queue::Wire | Queue::Fifo(_) => return Sent::Dropped,
                };
                self.after_enqueue(verdict, (index, id), packets, now, events)
            }
        }
    }

    fn after_enqueue(
        &mut self,
        verdict: QueueAction,
        (index, id): (u32, u32),
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) -> Sent {
        if let QueueAction::Dropped(_) = verdict {
            self.free_dropped(packets, Some(id));
            self.settle_share();
            return Sent::Dropped;
        }
        self.service(index, packets, now, events);
        match self.rest.as_mut().and_then(|rest| rest.left.as_mut()) {
            None => Sent::Leaves(now),
            Some(left) if left.last().is_some_and(|last| last.packet == id) => {
                left.pop();
                Sent::Leaves(now)
            }
            Some(_) => Sent::Waits,
        }
    }

    /// Sends the packets that may leave now, and schedules the next call.
    pub(crate) fn service(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) {
        loop {
            if self.rest.as_ref().is_some_and(|rest| rest.varying.is_some()) {
                self.finish_sending(index, packets, now, events);
            }
            let Some(rest) = &mut self.rest else { return };
            let (taken, serialisation) = match &mut self.queue {
                Queue::Shaped(shaped) => {
                    shaped.tick(now);
                    (shaped.dequeue(now), Duration::ZERO)
                }
                Queue::Port(qdisc, busy_until) => {
                    qdisc.tick(now);
                    let is_stopped =
                        rest.control.as_mut().is_some_and(|at| at.gates.apply(qdisc, now));
                    if *busy_until > now || is_stopped {
                        break;
                    }
                    let taken = qdisc.dequeue(now);
                    let time = match (&taken, rest.rate) {
                        (Some(queued), Some(rate)) => {
                            rate.time_of(queued.len_bytes + rest.overhead_bytes)
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
            let leads_to = queued.leads_to;
            let leaving = packets.get_mut(queued.packet);
            leaving.tos = queued.tos;
            if queued.is_trimmed {
                leaving.wire_bytes = queued.len_bytes;
                leaving.flags |= flags::TRIMMED;
            }
            if let Some(departed) = &mut rest.departed {
                departed.push(queued.packet);
            }
            if let Some(left) = &mut rest.left {
                left.extend(LeftHost::of(queued.packet, packets.get(queued.packet)));
            }
            let times = (now, now + serialisation);
            match &mut rest.varying {
                None => self.wire.carry(times, (index, queued.packet), leads_to, events),
                Some(varying) => {
                    let (packet, (begun, ends)) = (queued.packet, times);
                    varying.sending = Some(Sending { packet, begun, ends, leads_to });
                }
            }
        }
        self.free_dropped(packets, None);
        self.settle_share();
        self.schedule_service(index, now, events);
    }

    /// Hands packets that leave to the domain in which they arrive.
    pub(crate) fn lead_to(&mut self, far_end: FarEnd) {
        self.wire.far_end = far_end;
    }

    /// Reports the queue's length to shared memory.
    fn settle_share(&mut self) {
        let share = self.rest.as_mut().and_then(|rest| rest.share.as_mut());
        let Some(share) = share else { return };
        match &self.queue {
            Queue::Shaped(shaped) => share.settle(shaped.len_pkts(), shaped.len_bytes()),
            Queue::Port(qdisc, _) => share.settle(qdisc.len_pkts(), qdisc.len_bytes()),
            Queue::Wire | Queue::Fifo(_) => {}
        }
    }

    /// Leaves packets that a discipline drops at departure to [`LinkState::take_dropped`].
    pub(crate) fn keep_dropped(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.keeps_dropped = true;
        }
    }

    /// Takes the packets dropped at departure since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<u32> {
        self.rest.as_ref().map(|rest| rest.dropped.take()).unwrap_or_default()
    }

    /// Starts to log departures of a discipline that decides at departure, for
    /// [`LinkState::take_departed`].
    pub(crate) fn keep_departed(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.departed.get_or_insert_default();
        }
    }

    /// Takes the packets that left since the last call.
    pub(crate) fn take_departed(&mut self) -> Vec<u32> {
        let departed = self.rest.as_mut().and_then(|rest| rest.departed.as_mut());
        departed.map(std::mem::take).unwrap_or_default()
    }

    /// Reports whether the link has a queue.
    pub(crate) fn has_rate(&self) -> bool {
        match self.queue {
            Queue::Wire => false,
            Queue::Fifo(_) => true,
            Queue::Shaped(_) | Queue::Port(..) => {
                self.rest.as_ref().is_some_and(|rest| rest.rate.is_some())
            }
        }
    }

    /// Reports whether a refusal is known at once, and only to the caller.
    pub(crate) fn decides_at_arrival(&self) -> bool {
        matches!(self.queue, Queue::Wire | Queue::Fifo(_))
    }

    /// Frees dropped packets. The queue never held `refused`.
    fn free_dropped(&mut self, packets: &mut Packets, refused: Option<u32>) {
        let Some(rest) = self.rest.as_mut().filter(|rest| !rest.keeps_dropped) else { return };
        for id in rest.dropped.borrow_mut().drain(..) {
            if let Some(left) = rest.left.as_mut().filter(|_| refused != Some(id)) {
                left.extend(LeftHost::of(id, packets.get(id)));
            }
            packets.free(id);
        }
    }

    /// Takes the data segments that left a host's queue since the last call.
    pub(crate) fn take_left(&mut self) -> Vec<LeftHost> {
        let left = self.rest.as_mut().and_then(|rest| rest.left.as_mut());
        left.map(std::mem::take).unwrap_or_default()
    }

    /// Applies a pause frame.
    pub(crate) fn pause(
        &mut self,
        index: u32,
        (priority, quanta): (u8, u16),
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) {
        let Some(rest) = &mut self.rest else { return };
        let (Some(rate), Some(control)) = (rest.rate, &mut rest.control) else { return };
        control.gates.close(priority, now, pause_time(quanta, rate));
        self.service(index, packets, now, events);
    }

    /// Returns the domain of the far end if it is another one.
    pub(crate) fn leads_to(&self) -> Option<u32> {
        match self.wire.far_end {
            FarEnd::Here => None,
            FarEnd::There(domain) => Some(domain),
            FarEnd::ByNextLink => unreachable!("a switch that pauses is whole"),
        }
    }

    /// Sends a control frame, after the packet in transmission and before all others. Returns its
    /// arrival time; `None` if the link is down.
    pub(crate) fn send_control_frame(&mut self, now: Time, len_bytes: u32) -> Option<Time> {
        let rest = self.rest.as_deref();
        let varying = rest.and_then(|rest| rest.varying.as_ref());
        if varying.is_some_and(|varying| varying.is_down) {
            return None;
        }
        let sends = rest.and_then(|rest| rest.rate.zip(Some(rest.overhead_bytes)));
        let (Queue::Port(_, busy_until), Some((rate, overhead_bytes))) = (&mut self.queue, sends)
        else {
            return Some(now + self.wire.delay);
        };
        *busy_until = (*busy_until).max(now) + rate.time_of(len_bytes + overhead_bytes);
        Some(*busy_until + self.wire.delay)
    }

    /// Handles a scheduled service.
    pub(crate) fn on_event(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) {
        if let Some(rest) = self.rest.as_mut().filter(|rest| rest.next_event == now) {
            rest.next_event = Time::MAX;
            self.service(index, packets, now, events);
        }
    }

    fn schedule_service(&mut self, index: u32, now: Time, events: &mut Events) {
        let Some(rest) = &mut self.rest else { return };
        let next = match &self.queue {
            Queue::Shaped(shaped) => shaped.next_event(now),
            Queue::Port(qdisc, busy_until) => {
                let opens = match &rest.control {
                    None => (qdisc.len_pkts() > 0).then_some(Time::ZERO),
                    Some(control) => control.gates.opens(qdisc),
                };
                let free = opens.map(|opens| opens.max(*busy_until));
                let sending = rest.varying.as_ref().and_then(|varying| varying.sending);
                let sent = sending.map(|sending| sending.ends);
                [qdisc.next_event(now), free, sent].into_iter().flatten().min()
            }
            Queue::Wire | Queue::Fifo(_) => None,
        };
        if let Some(next) = next.filter(|next| *next < rest.next_event) {
            rest.next_event = next;
            events.push(next, Event::Port { link: index });
        }
    }

    /// Returns the figures of the queue so far. A discipline that decides at departure keeps its
    /// own.
    pub(crate) fn outcome(&mut self, now: Time) -> QueueOutcome {
        let rest = self.rest.as_deref();
        let none = || QueueOutcome { threshold_hits: Some(0), ..QueueOutcome::default() };
        let counts = rest.map_or_else(none, |rest| rest.counts.clone());
        let control = self.control();
        let mut counts = QueueOutcome {
            link: self.wire.number,
            pause: control.and_then(|at| at.gates.link_figures(now)),
            ..counts
        };
        let stats = match &mut self.queue {
            Queue::Shaped(shaped) => shaped.stats(),
            Queue::Port(qdisc, _) => qdisc.stats(),
            Queue::Fifo(fifo) => {
                counts.threshold_hits = Some(fifo.admission.threshold_hits());
                counts.marked_pkts = self.marked_pkts;
                counts.offered_pkts = self.wire.left_pkts + counts.dropped_pkts();
                // Waiting packets were counted when their departure was scheduled.
                fifo.forget_departed(now);
                counts.sent_pkts = self.wire.left_pkts - fifo.waiting.len() as u64;
                counts.sent_bytes = self.sent_bytes - fifo.waiting_bytes;
                return counts;
            }
            Queue::Wire => return counts,
        };
        let counts = counts.with(stats);
        self.without_flushed(0, counts)
    }

    /// Returns the figures of the queue so far, then those of its parts.
    pub(crate) fn outcomes(&mut self, now: Time) -> impl Iterator<Item = QueueOutcome> + use<> {
        let link = self.wire.number;
        let parts = self.parts().into_iter().zip(0..).map(|(part, index)| {
            let pause = |at: &LinkControl| at.gates.class_figures(index as usize, now);
            let outcome = QueueOutcome {
                link,
                part: Some(index),
                offered_pkts: part.stats.dequeued_pkts
                    + part.stats.dropped_pkts()
                    + u64::from(part.backlog.pkts),
                pause: self.control().and_then(pause),
                ..QueueOutcome::default()
            };
            self.without_flushed(index as usize + 1, outcome.with(&part.stats))
        });
        let parts: Vec<_> = parts.collect();
        std::iter::once(self.outcome(now)).chain(parts)
    }

    /// Returns the present state of the queue, then that of its parts.
    pub(crate) fn samples(&mut self, now: Time) -> impl Iterator<Item = QueueSample> + use<> {
        let link = self.wire.number;
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

    /// Returns the link's part in flow control.
    fn control(&self) -> Option<&LinkControl> {
        self.rest.as_ref()?.control.as_deref()
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

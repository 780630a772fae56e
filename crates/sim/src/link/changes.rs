//! Changes of a link during the run.

use super::{ALL, Chance, LinkState, Queue, loss_of};
use crate::events::Events;
use crate::packet::Packets;
use crate::pause::LeftHost;
use crate::vary::{self, Sending, Varying};
use knee_queue::time::{Rate, Time};
use knee_queue::{DropTailConfig, Limit, Qdisc, QueueConfig, Stats};
use knee_run::outcome::QueueOutcome;
use knee_run::spec::{Link, NewState};

impl LinkState {
    /// Makes the link change at times, before the run starts. `seed` drives loss. With `tells_host`, the link
    /// also reports departures to its host, because they are not known in advance.
    pub(crate) fn vary(
        &mut self,
        mut varying: Varying,
        (link, seed): (&Link, u64),
        tells_host: bool,
    ) {
        let chance = self.wire.chance.get_or_insert_with(|| Chance::new(link, seed));
        varying.loss = chance.loss;
        let rest = self.decide_at_departure(link);
        if tells_host {
            rest.left.get_or_insert_default();
        }
        rest.varying = Some(Box::new(varying));
        if link.rate.is_none() {
            let limit = Limit::Bytes(u64::MAX);
            let endless = QueueConfig::DropTail(DropTailConfig { limit });
            self.queue = Queue::Port(Box::new(endless.build()), Time::ZERO);
        }
    }

    /// Puts the packet of a changing link whose last bit has left on the wire, or loses it there.
    #[cold]
    pub(super) fn finish_sending(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) {
        let Some(rest) = &mut self.rest else { return };
        let Some(varying) = &mut rest.varying else { return };
        let Some(Sending { packet, begun, ends, leads_to }) = varying.take_sent(now) else {
            return;
        };
        let arrives = self.wire.arrival(ends);
        if varying.fails_by(arrives) {
            rest.counts.lost_pkts += 1;
            packets.free(packet);
        } else {
            self.wire.carry_to((begun, arrives), (index, packet), leads_to, events);
        }
    }

    /// Carries out the changes that are due.
    #[cold]
    pub(crate) fn change(
        &mut self,
        index: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
    ) {
        self.service(index, packets, now, events);
        loop {
            let Some(rest) = &mut self.rest else { return };
            let Some(varying) = &mut rest.varying else { return };
            let Some(to) = varying.take_due(now) else { break };
            match to {
                NewState::Down => {
                    varying.is_down = true;
                    self.wire.lose(ALL);
                    if let Some(sending) = varying.sending.take() {
                        rest.counts.lost_pkts += 1;
                        packets.free(sending.packet);
                    }
                    self.lose_waiting(packets, now);
                }
                NewState::Up => {
                    varying.is_down = false;
                    self.wire.lose(varying.loss);
                }
                NewState::Loss(share) => {
                    varying.loss = loss_of(share);
                    if !varying.is_down {
                        self.wire.lose(varying.loss);
                    }
                }
                NewState::Delay(delay) => self.wire.delay = delay,
                NewState::Rate(rate) => self.change_rate(rate, now),
            }
        }
        self.service(index, packets, now, events);
    }

    /// The rest of the packet in transmission leaves at the new rate.
    fn change_rate(&mut self, new: Rate, now: Time) {
        let Some(rest) = &mut self.rest else { return };
        let Some(old) = rest.rate.replace(new) else { return };
        match &mut self.queue {
            Queue::Shaped(shaped) => shaped.set_rate(new, now),
            Queue::Port(_, busy_until) => {
                *busy_until = vary::at_rate(*busy_until, now, (old, new));
                if let Some(sending) = rest.varying.as_mut().and_then(|it| it.sending.as_mut()) {
                    sending.ends = vary::at_rate(sending.ends, now, (old, new));
                }
            }
            Queue::Wire | Queue::Fifo(_) => {}
        }
    }

    /// Loses all packets in the queue.
    fn lose_waiting(&mut self, packets: &mut Packets, now: Time) {
        let before = self.stats();
        loop {
            let Some(rest) = &mut self.rest else { return };
            let taken = match &mut self.queue {
                Queue::Shaped(shaped) => shaped.dequeue_free(now),
                Queue::Port(qdisc, busy_until) => {
                    *busy_until = now;
                    if let Some(control) = &mut rest.control {
                        control.gates.let_go(qdisc);
                    }
                    qdisc.dequeue(now)
                }
                Queue::Wire | Queue::Fifo(_) => None,
            };
            let Some(mut queued) = taken else { break };
            queued.dropped = None;
            rest.counts.lost_pkts += 1;
            if let Some(left) = &mut rest.left {
                left.extend(LeftHost::of(queued.packet, packets.get(queued.packet)));
            }
            packets.free(queued.packet);
        }
        self.free_dropped(packets, None);
        let after = self.stats();
        let varying = self.rest.as_mut().and_then(|rest| rest.varying.as_mut());
        if let Some(varying) = varying {
            for (part, (before, after)) in before.iter().zip(&after).enumerate() {
                varying.note_flushed(part, before, after);
            }
        }
    }

    /// Returns the counters of the queue, then those of its parts.
    fn stats(&self) -> Vec<Stats> {
        let whole = match &self.queue {
            Queue::Shaped(shaped) => *shaped.stats(),
            Queue::Port(qdisc, _) => *qdisc.stats(),
            Queue::Wire | Queue::Fifo(_) => return Vec::new(),
        };
        std::iter::once(whole).chain(self.parts().into_iter().map(|part| part.stats)).collect()
    }

    /// Takes back what a queue counted as sent although the link failed.
    pub(super) fn without_flushed(&self, part: usize, mut outcome: QueueOutcome) -> QueueOutcome {
        let varying = self.rest.as_ref().and_then(|rest| rest.varying.as_ref());
        if let Some(varying) = varying {
            let (pkts, bytes) = varying.flushed(part);
            outcome.sent_pkts -= pkts;
            outcome.sent_bytes -= bytes;
        }
        outcome
    }
}

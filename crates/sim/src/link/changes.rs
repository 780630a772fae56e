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
    /// Makes the link change at times, before the run starts. With `tells_host`, the link also reports
    /// departures to its host, because they are not known in advance.
    pub(crate) fn vary(&mut self, mut varying: Varying, link: &Link, tells_host: bool) {
        self.queue = match link.rate {
            Some(_) => Queue::with_departures(link),
            None => {
                let limit = Limit::Bytes(u64::MAX);
                let endless = QueueConfig::DropTail(DropTailConfig { limit });
                Queue::Port(Box::new(endless.build()), Time::ZERO)
            }
        };
        if tells_host {
            self.left.get_or_insert_default();
        }
        let chance = self.wire.chance.get_or_insert_with(|| Chance::new(link, self.seed));
        varying.loss = chance.loss;
        self.varying = Some(Box::new(varying));
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
        let Some(varying) = &mut self.varying else { return };
        let Some(Sending { packet, begun, ends, leads_to }) = varying.take_sent(now) else {
            return;
        };
        let arrives = self.wire.arrival(ends);
        if varying.fails_by(arrives) {
            self.counts.lost_pkts += 1;
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
        while let Some(to) = self.varying.as_mut().and_then(|varying| varying.take_due(now)) {
            let Some(varying) = &mut self.varying else { return };
            match to {
                NewState::Down => {
                    varying.is_down = true;
                    self.wire.lose(ALL);
                    if let Some(sending) = varying.sending.take() {
                        self.counts.lost_pkts += 1;
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
        let Some(old) = self.rate.replace(new) else { return };
        match &mut self.queue {
            Queue::Shaped(shaped) => shaped.set_rate(new, now),
            Queue::Port(_, busy_until) => {
                *busy_until = vary::at_rate(*busy_until, now, (old, new));
                if let Some(sending) = self.varying.as_mut().and_then(|it| it.sending.as_mut()) {
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
            let taken = match &mut self.queue {
                Queue::Shaped(shaped) => shaped.dequeue_free(now),
                Queue::Port(qdisc, busy_until) => {
                    *busy_until = now;
                    if let Some(control) = &mut self.control {
                        control.gates.let_go(qdisc);
                    }
                    qdisc.dequeue(now)
                }
                Queue::Wire | Queue::Fifo(_) => None,
            };
            let Some(mut queued) = taken else { break };
            queued.dropped = None;
            self.counts.lost_pkts += 1;
            if let Some(left) = &mut self.left {
                left.extend(LeftHost::of(queued.packet, packets.get(queued.packet)));
            }
            packets.free(queued.packet);
        }
        self.free_dropped(packets, None);
        let after = self.stats();
        if let Some(varying) = &mut self.varying {
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
        if let Some(varying) = &self.varying {
            let (pkts, bytes) = varying.flushed(part);
            outcome.sent_pkts -= pkts;
            outcome.sent_bytes -= bytes;
        }
        outcome
    }
}

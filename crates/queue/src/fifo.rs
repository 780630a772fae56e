//! A FIFO that asks an [`Admission`] policy what to do with each packet.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::qdisc::{Admission, Departure, DropReason, Inside, Qdisc, QueueAction, Stats};
use crate::time::Time;
use knee_units::Backlog;

/// A FIFO with the admission policy `A`.
#[derive(Clone, Debug)]
pub struct Fifo<A, P> {
    policy: A,
    /// Waiting packets, each with the time of its enqueue.
    queue: VecDeque<(P, Time)>,
    len_bytes: u64,
    /// Whether the policy has already released the head, because a shaper peeked at it.
    head_is_released: bool,
    stats: Stats,
}

impl<A: Admission, P: Packet> Fifo<A, P> {
    /// An empty queue.
    pub fn new(policy: A) -> Fifo<A, P> {
        Fifo {
            policy,
            queue: VecDeque::new(),
            len_bytes: 0,
            head_is_released: false,
            stats: Stats::default(),
        }
    }

    /// The admission policy, for its internal state.
    pub fn policy(&self) -> &A {
        &self.policy
    }

    fn backlog(&self) -> Backlog {
        Backlog { pkts: self.len_pkts(), bytes: self.len_bytes }
    }

    /// Asks the policy about one head after the other until it releases one; `None`: the queue is empty.
    fn release_head(&mut self, now: Time) -> Option<u32> {
        while let Some((pkt, enqueued_at)) = self.queue.front() {
            let len_bytes = pkt.len_bytes();
            if self.head_is_released {
                return Some(len_bytes);
            }
            let behind =
                Backlog { pkts: self.len_pkts() - 1, bytes: self.len_bytes - u64::from(len_bytes) };
            let departure =
                Departure { behind, len_bytes, ecn: pkt.ecn(), enqueued_at: *enqueued_at };
            let action = self.policy.release(departure, now);
            self.stats.threshold_hits = self.policy.threshold_hits();
            if let QueueAction::Dropped(reason) = action {
                self.queue.pop_front();
                self.len_bytes = behind.bytes;
                self.stats.count_dropped(reason, len_bytes);
                continue;
            }
            if action == QueueAction::Marked {
                if let Some((pkt, _)) = self.queue.front_mut() {
                    pkt.set_ce();
                }
                self.stats.marked_pkts += 1;
            }
            self.head_is_released = true;
        }
        None
    }
}

impl<A: Admission, P: Packet> Qdisc<P> for Fifo<A, P> {
    fn enqueue(&mut self, mut pkt: P, now: Time) -> QueueAction {
        let len_bytes = pkt.len_bytes();
        let action = self.policy.admit(self.backlog(), len_bytes, pkt.ecn(), now);
        self.stats.threshold_hits = self.policy.threshold_hits();
        if let QueueAction::Dropped(reason) = action {
            self.stats.count_dropped(reason, len_bytes);
            return action;
        }
        if action == QueueAction::Marked {
            pkt.set_ce();
            self.stats.marked_pkts += 1;
        }
        self.stats.count_enqueued(len_bytes);
        self.len_bytes += u64::from(len_bytes);
        self.queue.push_back((pkt, now));
        action
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let len_bytes = self.release_head(now)?;
        let (pkt, _) = self.queue.pop_front()?;
        self.head_is_released = false;
        self.len_bytes -= u64::from(len_bytes);
        self.stats.count_dequeued(len_bytes);
        Some(pkt)
    }

    fn peek(&mut self, now: Time) -> Option<u32> {
        self.release_head(now)
    }

    fn refuse(&mut self, len_bytes: u32) -> QueueAction {
        self.stats.count_dropped(DropReason::Full, len_bytes);
        QueueAction::Dropped(DropReason::Full)
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        self.policy.next_event(now)
    }

    fn tick(&mut self, now: Time) {
        self.policy.tick(self.backlog(), now);
    }

    fn len_pkts(&self) -> u32 {
        self.queue.len() as u32
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn inside(&self) -> Option<Inside> {
        self.policy.inside()
    }
}

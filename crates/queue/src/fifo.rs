//! A FIFO that asks a law what to do with each packet.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::qdisc::{Admission, Backlog, Departure, DropReason, Inside, Qdisc, Stats, Verdict};
use crate::time::Time;

/// A FIFO ruled by the law `A`.
#[derive(Clone, Debug)]
pub struct Fifo<A, P> {
    law: A,
    /// Waiting packets, each with the time of its enqueue.
    queue: VecDeque<(P, Time)>,
    len_bytes: u64,
    /// Whether the law has already let the head go: it is peeked at, and only waits to be taken.
    head_is_released: bool,
    stats: Stats,
}

impl<A: Admission, P: Packet> Fifo<A, P> {
    /// An empty queue.
    pub fn new(law: A) -> Fifo<A, P> {
        Fifo {
            law,
            queue: VecDeque::new(),
            len_bytes: 0,
            head_is_released: false,
            stats: Stats::default(),
        }
    }

    /// The law.
    pub fn law(&self) -> &A {
        &self.law
    }

    fn backlog(&self) -> Backlog {
        Backlog { pkts: self.len_pkts(), bytes: self.len_bytes }
    }

    /// Asks the law about one head after the other until one may go; none is left if it returns `None`.
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
            let verdict = self.law.release(departure, now);
            self.stats.threshold_hits = self.law.threshold_hits();
            if let Verdict::Dropped(reason) = verdict {
                self.queue.pop_front();
                self.len_bytes = behind.bytes;
                self.stats.count_dropped(reason, len_bytes);
                continue;
            }
            if verdict == Verdict::Marked {
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
    fn enqueue(&mut self, mut pkt: P, now: Time) -> Verdict {
        let len_bytes = pkt.len_bytes();
        let verdict = self.law.admit(self.backlog(), len_bytes, pkt.ecn(), now);
        self.stats.threshold_hits = self.law.threshold_hits();
        if let Verdict::Dropped(reason) = verdict {
            self.stats.count_dropped(reason, len_bytes);
            return verdict;
        }
        if verdict == Verdict::Marked {
            pkt.set_ce();
            self.stats.marked_pkts += 1;
        }
        self.stats.count_enqueued(len_bytes);
        self.len_bytes += u64::from(len_bytes);
        self.queue.push_back((pkt, now));
        verdict
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

    fn refuse(&mut self, len_bytes: u32) -> Verdict {
        self.stats.count_dropped(DropReason::Full, len_bytes);
        Verdict::Dropped(DropReason::Full)
    }

    fn next_event(&self, now: Time) -> Option<Time> {
        self.law.next_event(now)
    }

    fn tick(&mut self, now: Time) {
        self.law.tick(self.backlog(), now);
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
        self.law.inside()
    }
}

//! Memory that the queues of several links share.
//!
//! Packets leave these queues one after the other. Each link reports its queue length to the memory
//! after every change, so the memory is right for every discipline.

use crate::link::LinkState;
use crate::numbered::Numbered;
use knee_queue::time::Time;
use knee_queue::{DynamicThreshold, Packet, Qdisc, QueueAction};
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::spec::Network;
use std::cell::RefCell;
use std::rc::Rc;

/// The shared memory of one switch.
pub(crate) struct Buffer {
    law: DynamicThreshold,
    waiting_pkts: u64,
    waiting_bytes: u64,
    /// The memory's number in results, which follows those of the links.
    number: u32,
    links: Vec<u32>,
    pub(crate) sampled: bool,
}

/// Shared memory, as each of its links refers to it.
pub(crate) type BufferHandle = Rc<RefCell<Buffer>>;

/// The share of one link's queue.
pub(crate) struct BufferShare {
    buffer: BufferHandle,
    pkts: u32,
    bytes: u64,
}

/// Creates the shared memories of a domain and moves the queues of their links into them.
pub(crate) fn build(network: &Network, links: &mut Numbered<LinkState>) -> Vec<BufferHandle> {
    let first = network.links.len() as u32;
    let mut buffers = Vec::with_capacity(network.buffers.len());
    for (index, spec) in (first..).zip(&network.buffers) {
        // All links of a memory are in one domain.
        if !spec.links.iter().all(|link| links.has(*link)) {
            continue;
        }
        let buffer = Rc::new(RefCell::new(Buffer {
            law: DynamicThreshold::new(&spec.law, spec.links.len()),
            waiting_pkts: 0,
            waiting_bytes: 0,
            number: index,
            links: spec.links.clone(),
            sampled: spec.sampled,
        }));
        for &link in &spec.links {
            let share = BufferShare { buffer: Rc::clone(&buffer), pkts: 0, bytes: 0 };
            links[link as usize].put_into(share, &network.links[link as usize]);
        }
        buffers.push(buffer);
    }
    buffers
}

/// Enqueues a packet if there is memory for it. Without a share there is always memory.
#[inline]
pub(crate) fn enqueue<P: Packet>(
    share: &mut Option<BufferShare>,
    qdisc: &mut impl Qdisc<P>,
    packet: P,
    now: Time,
) -> QueueAction {
    let len_bytes = packet.len_bytes();
    if share.as_ref().is_some_and(|share| !share.admits(qdisc.len_bytes(), len_bytes)) {
        return qdisc.refuse(len_bytes);
    }
    qdisc.enqueue(packet, now)
}

impl BufferShare {
    /// Reports whether there is memory for a packet behind `waiting_bytes` in the queue.
    fn admits(&self, waiting_bytes: u64, len_bytes: u32) -> bool {
        self.buffer.borrow().law.admits(waiting_bytes, len_bytes)
    }

    /// Takes over the queue's present length.
    pub(crate) fn settle(&mut self, pkts: u32, bytes: u64) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.law.change(self.bytes, bytes);
        buffer.waiting_pkts = buffer.waiting_pkts - u64::from(self.pkts) + u64::from(pkts);
        buffer.waiting_bytes = buffer.waiting_bytes - self.bytes + bytes;
        (self.pkts, self.bytes) = (pkts, bytes);
    }
}

impl Buffer {
    /// Returns the sum of the figures of the memory's links.
    pub(crate) fn outcome(&self, links: &mut Numbered<LinkState>, now: Time) -> QueueOutcome {
        let (link, threshold_hits) = (self.number, Some(0));
        let mut all = QueueOutcome { link, threshold_hits, ..QueueOutcome::default() };
        for &link in &self.links {
            all.add(&links[link as usize].outcome(now));
        }
        all
    }

    /// Returns the backlog in the memory.
    pub(crate) fn sample(&self, links: &mut Numbered<LinkState>, now: Time) -> QueueSample {
        let counts = self.outcome(links, now);
        QueueSample {
            part: None,
            at: now,
            link: self.number,
            len_pkts: u32::try_from(self.waiting_pkts).unwrap_or(u32::MAX),
            len_bytes: self.waiting_bytes,
            dropped_pkts: counts.dropped_pkts(),
            threshold_hits: counts.threshold_hits,
            drop_probability: None,
            qdelay: None,
        }
    }
}

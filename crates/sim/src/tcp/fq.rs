//! Sends a segment from its host: at once, or through an fq queue discipline at its departure time.

use super::Sock;
use crate::events::Timer;
use crate::link::Sent;
use crate::net::Net;
use crate::packet::Packet;
use knee_queue::time::Time;
use std::collections::VecDeque;

/// `sk_pacing_status` of a socket whose host has fq.
pub(super) const SK_PACING_FQ: u32 = 2;

/// A segment before its departure time.
#[derive(Debug)]
struct Held {
    departs: Time,
    charged_bytes: u32,
    packet: Packet,
}

/// The segments of one socket in fq, in order, because a socket's departure times only grow.
#[derive(Debug, Default)]
pub(super) struct FqFlow {
    /// Apart, since most hosts have no fq.
    held: Option<Box<FqQueue>>,
}

#[derive(Debug, Default)]
struct FqQueue(VecDeque<Held>);

impl FqFlow {
    pub(super) fn forget(&mut self) {
        self.held = None;
    }

    fn first(&self) -> Option<&Held> {
        self.held.as_ref()?.0.front()
    }

    fn push(&mut self, held: Held) {
        self.held.get_or_insert_default().0.push_back(held);
    }

    fn pop(&mut self) -> Option<Held> {
        self.held.as_mut()?.0.pop_front()
    }
}

impl Sock {
    /// Passes a segment to the host's queue. Returns when it leaves the host (with fq, the earliest
    /// time), or `None` if the queue refused it.
    #[inline]
    pub(super) fn leave_host(
        &mut self,
        packet: Packet,
        charged_bytes: u32,
        net: &mut Net,
    ) -> Option<Time> {
        if self.tp.sk_pacing_status == SK_PACING_FQ {
            let departs = Time::from_ns(self.tp.tcp_wstamp_ns);
            let is_first = self.fq.first().is_none();
            if departs > net.now || !is_first {
                if is_first {
                    self.fq_timer.arm(departs, self.id, Timer::Fq, net);
                }
                self.in_host_bytes += u64::from(charged_bytes);
                self.fq.push(Held { departs, charged_bytes, packet });
                return Some(departs);
            }
        }
        let leaves = self.put_on_link(packet, charged_bytes, net)?;
        if leaves > net.now {
            self.in_host_bytes += u64::from(charged_bytes);
        }
        Some(leaves)
    }

    fn put_on_link(&mut self, packet: Packet, charged_bytes: u32, net: &mut Net) -> Option<Time> {
        let leaves = match net.transmit(packet) {
            Sent::Leaves(leaves) => leaves,
            Sent::Waits => Time::MAX,
            Sent::Lost => net.now,
            Sent::Dropped => return None,
        };
        if leaves > net.now {
            self.in_host.push_back((leaves, charged_bytes));
        }
        Some(leaves)
    }

    /// Handles the departure time of fq's first segment.
    pub(super) fn on_fq_timer(&mut self, net: &mut Net) {
        while let Some(first) = self.fq.first() {
            if first.departs > net.now {
                let departs = first.departs;
                self.fq_timer.arm(departs, self.id, Timer::Fq, net);
                break;
            }
            let Some(Held { charged_bytes, packet, .. }) = self.fq.pop() else { break };
            // A refused segment is lost like any other, because TCP has already sent it.
            let leaves = self.put_on_link(packet, charged_bytes, net).unwrap_or(net.now);
            if leaves <= net.now {
                self.in_host_bytes -= u64::from(charged_bytes);
            }
            let frees = charged_bytes > 0;
            if self.throttled && frees && !self.tx_completion.armed() && leaves < Time::MAX {
                self.tx_completion.arm(leaves, self.id, Timer::TxCompletion, net);
            }
        }
    }
}

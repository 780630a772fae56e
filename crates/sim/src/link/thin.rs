//! Links that thin out ACKs: a pure ACK takes the place of an older one of its flow that still waits in the queue, as in cable and
//! radio modems. The older one is gone, and the newer one leaves earlier than it would have.
//!
//! An ACK that says more than that data has arrived stays: one with SACK ranges, one with other flags (ECE, or a count of Accurate
//! ECN), and a duplicate ACK or window update, which acknowledges nothing new.

use super::Chance;
use crate::packet::{Packet, Packets, flags};
use knee_queue::time::Time;
use std::collections::HashMap;

/// The last pure ACK of each receiving socket in a queue, and when it leaves.
pub(super) type WaitingAcks = HashMap<u32, (u32, Time)>;

impl Chance {
    /// Lets a packet take the place of an older ACK, and returns whether it has.
    pub(super) fn replaces(&mut self, id: u32, packets: &mut Packets, now: Time) -> bool {
        let Some(waiting_acks) = &self.waiting_acks else { return false };
        let newer = *packets.get(id);
        let Some((older, _)) = waiting_acks.get(&newer.to).filter(|(_, leaves)| *leaves > now)
        else {
            return false;
        };
        let older = packets.get_mut(*older);
        let flags_of = |packet: &Packet| packet.flags & !flags::IN_BURST;
        let is_plain = |packet: &Packet| packet.is_pure_ack() && packet.sacks_len == 0;
        let replaces = is_plain(&newer)
            && is_plain(older)
            && flags_of(&newer) == flags_of(older)
            && newer.ack_seq.wrapping_sub(older.ack_seq) as i32 > 0;
        if replaces {
            // It is on its way already, and the queue may have marked it.
            *older = Packet { hop: older.hop, tos: older.tos, ..newer };
        }
        replaces
    }

    /// Notes a packet that waits in the queue until it leaves.
    pub(super) fn waits(&mut self, id: u32, packet: &Packet, leaves: Time) {
        if let Some(waiting_acks) = &mut self.waiting_acks {
            match packet.is_pure_ack() {
                true => waiting_acks.insert(packet.to, (id, leaves)),
                // Data of the flow is between them.
                false => waiting_acks.remove(&packet.to),
            };
        }
    }
}

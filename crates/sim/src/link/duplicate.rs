//! Links that duplicate packets, as netem does: before the queue, a copy goes ahead of its packet. It is neither lost at random nor
//! duplicated again.

use super::{ALL, Chance, LinkState, Sent};
use crate::events::Events;
use crate::packet::Packets;
use crate::paths::Paths;
use knee_queue::time::Time;
use std::mem;

impl Chance {
    /// Draws whether a packet is sent twice. A link that is down sends none.
    pub(super) fn duplicates(&mut self) -> bool {
        let can = self.duplicate > 0 && self.loss != ALL;
        can && u64::from(self.random.u32()) < self.duplicate
    }
}

impl LinkState {
    /// [`LinkState::send_here`], out of line: for a copy, and for whoever offers few packets.
    pub(crate) fn send(
        &mut self,
        index: u32,
        id: u32,
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
        place: (&Paths, u32),
    ) -> Sent {
        self.send_here(index, id, packets, now, events, place)
    }

    /// Sends a copy of a packet.
    #[cold]
    pub(super) fn send_copy(
        &mut self,
        (index, id): (u32, u32),
        packets: &mut Packets,
        now: Time,
        events: &mut Events,
        place: (&Paths, u32),
    ) {
        let copy = *packets.get(id);
        let copy = packets.insert(copy);
        let before = self.set_chances((0, 0));
        let _ = self.send(index, copy, packets, now, events, place);
        self.set_chances(before);
    }

    /// Sets the chances of loss and duplication, and returns those before.
    fn set_chances(&mut self, (loss, duplicate): (u64, u64)) -> (u64, u64) {
        let chance = self.wire.chance.as_mut();
        chance.map_or((0, 0), |chance| {
            (mem::replace(&mut chance.loss, loss), mem::replace(&mut chance.duplicate, duplicate))
        })
    }
}

//! What end points share: the clock, the events, the packets and the links.

use crate::events::{Event, Events, Timer};
use crate::link::{LinkState, Sent};
use crate::outcome::Work;
use crate::packet::{Packet, Packets};
use crate::random::Random;
use crate::routes::Routes;
use crate::tap::Tap;
use knee_algo::Host as CcHost;
use knee_queue::time::Time;

/// Ends a path: the packet has reached its host.
pub(crate) const PATH_END: u32 = u32::MAX;

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) events: Events,
    pub(crate) packets: Packets,
    pub(crate) links: Vec<LinkState>,
    /// Links in order, each path ended by [`PATH_END`].
    pub(crate) paths: Vec<u32>,
    pub(crate) routes: Routes,
    pub(crate) random: Random,
    /// What algorithms see of the host they run on.
    pub(crate) cc: CcHost,
    pub(crate) work: Work,
    /// Looks at the packets of one flow, if anybody asked for it.
    pub(crate) tap: Option<Box<Tap>>,
}

impl Net {
    /// Microseconds, the kernel's fine clock.
    #[inline]
    pub(crate) fn now_us(&self) -> u64 {
        self.now.us()
    }

    /// Sends a new packet from its host.
    #[inline]
    pub(crate) fn transmit(&mut self, packet: Packet) -> Sent {
        let id = self.packets.insert(packet);
        let sent = self.forward(id);
        if let Some(tap) = &mut self.tap {
            if !matches!(sent, Sent::Dropped) {
                tap.on_sent(self.now, &packet);
            }
        }
        sent
    }

    /// Where the path begins that packets take after a change of their hash.
    #[cold]
    pub(crate) fn another_path(&mut self, path: u32) -> u32 {
        let hash = self.random.u64();
        self.routes.another(&mut self.paths, path, hash)
    }

    /// Puts a packet on the next link of its path; false at the end of the path.
    #[inline]
    pub(crate) fn at_end(&self, id: u32) -> bool {
        self.paths[self.packets.get(id).hop as usize] == PATH_END
    }

    /// Offers a packet to the next link of its path.
    #[inline]
    pub(crate) fn forward(&mut self, id: u32) -> Sent {
        let packet = self.packets.get_mut(id);
        let link = self.paths[packet.hop as usize];
        packet.hop += 1;
        self.work.pkt_hops += 1;
        self.links[link as usize].send(
            link,
            id,
            &mut self.packets,
            self.now,
            (&mut self.events, &mut self.random),
        )
    }

    /// Timers that let paced segments go come before an ACK of the same instant. What a timer sends leaves
    /// a real host after the timer was due, never before, so one round trip later its ACK is behind the
    /// timer of the segment that follows; without delays in the host both come at one time.
    #[inline]
    pub(crate) fn schedule_timer(&mut self, at: Time, sock: u32, timer: Timer) {
        let event = Event::Timer { sock, timer };
        match timer {
            Timer::Pacing | Timer::Fq => self.events.push_first(at, event),
            _ => self.events.push(at, event),
        }
    }
}

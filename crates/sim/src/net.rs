//! State that all end points share: clock, events, packets and links.

use crate::balance::{self, Balancer};
use crate::events::{Event, Events, Timer};
use crate::interrupts::Arrival;
use crate::link::{LinkState, Sent};
use crate::numbered::Numbered;
use crate::packet::{Packet, Packets};
use crate::paths::{CHOOSE, Paths};
use crate::pause::ControlHandle;
use crate::ports::Ports;
use crate::reroute::Reroutes;
use crate::tap::Tap;
use knee_algo::Host as CcHost;
use knee_queue::time::Time;
use knee_run::outcome::Work;
pub(crate) use knee_run::routes::PATH_END;
use knee_run::routes::Routes;
use knee_units::Random;

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) events: Events,
    pub(crate) packets: Packets,
    pub(crate) links: Numbered<LinkState>,
    pub(crate) paths: Paths,
    /// Finds other paths; `None` if no host asks for them.
    pub(crate) routes: Option<Routes>,
    /// Seed of what sockets draw; see [`Net::seed_of`].
    pub(crate) seed: u64,
    /// The host state that algorithms see.
    pub(crate) cc: CcHost,
    pub(crate) work: Work,
    /// Stops links when a switch holds too many of their packets.
    pub(crate) flow_control: Option<ControlHandle>,
    /// Choices of switches; `None` if all paths are known when the run begins.
    pub(crate) balancer: Option<Box<Balancer>>,
    /// Ports of switches that coalesce interrupts; `None` if there are none.
    pub(crate) ports: Option<Box<Ports>>,
    /// Links change during the run.
    pub(crate) varies: bool,
    /// Routes that change; `None` if they do not.
    pub(crate) reroutes: Option<Box<Reroutes>>,
    /// Observes packets, if the caller asked for it.
    pub(crate) tap: Option<Box<dyn Tap>>,
}

impl Net {
    /// Returns the kernel's fine clock, us.
    #[inline]
    pub(crate) fn now_us(&self) -> u64 {
        self.now.us()
    }

    /// Sends a new packet from its host.
    #[inline]
    pub(crate) fn transmit(&mut self, packet: Packet) -> Sent {
        let id = self.packets.insert(packet);
        let sent = self.forward(id);
        if self.tap.is_some() {
            self.tell_sent(id, &packet, &sent);
        }
        sent
    }

    /// Returns the seed of what a socket draws at the present time.
    #[inline]
    pub(crate) fn seed_of(&self, sock: u32) -> u64 {
        let seed = self.seed ^ u64::from(sock) << 32;
        seed.wrapping_add(self.now.ps().wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Returns the start of the path that packets take after a hash change.
    #[cold]
    pub(crate) fn another_path(&mut self, path: u32, sock: u32) -> u32 {
        let hash = Random::new(self.seed_of(sock)).u64();
        if let Some(balancer) = &mut self.balancer {
            balancer.set_hash(sock, hash);
        }
        let Some(routes) = &mut self.routes else { return path };
        if let Some(balancer) = &self.balancer {
            let first = routes.another_first(self.paths.link(path), balancer.to(sock), hash);
            return first.map_or(path, balance::path_by);
        }
        let links = routes.another(self.paths.links(path), hash);
        let another = links.and_then(|links| self.paths.add(links)).unwrap_or(path);
        if let Some(reroutes) = &mut self.reroutes {
            reroutes.note_hash(sock, hash, another);
        }
        another
    }

    /// Returns the first link of a path.
    #[inline]
    pub(crate) fn first_link(&self, path: u32) -> Option<&LinkState> {
        self.links.get(self.paths.link(path) as usize)
    }

    /// Reports whether the packet, whose arrival is the last event taken, is at the end of its path.
    #[inline]
    pub(crate) fn at_end(&self, id: u32) -> bool {
        let by_path = || self.paths.link(self.packets.get(id).hop) == PATH_END;
        let at_end = self.events.is_at_end().unwrap_or_else(by_path);
        debug_assert_eq!(at_end, by_path());
        at_end
    }

    /// Offers a packet to the next link of its path.
    #[inline]
    pub(crate) fn forward(&mut self, id: u32) -> Sent {
        let packet = self.packets.get_mut(id);
        let at = packet.hop;
        let link = self.paths.link(at);
        packet.hop += 1;
        self.work.pkt_hops += 1;
        if link == CHOOSE {
            return self.forward_by_choice(id, at);
        }
        self.offer(link, id, at)
    }

    /// Offers a packet to the link that the switch at this position of its path chooses.
    #[inline(never)]
    fn forward_by_choice(&mut self, id: u32, at: u32) -> Sent {
        let packet = self.packets.get_mut(id);
        let behind = self.paths.link_before(at);
        let (Some(balancer), Some(behind)) = (&mut self.balancer, behind) else {
            return Sent::Lost;
        };
        let link = balancer.choose(packet, behind, self.now);
        packet.hop = balance::path_by(link) + 1;
        self.offer(link, id, at)
    }

    /// Offers a packet to a link, which has come to position `at` of the paths.
    #[inline]
    fn offer(&mut self, link: u32, id: u32, at: u32) -> Sent {
        let sent = self.links[link as usize].send_here(
            link,
            id,
            &mut self.packets,
            self.now,
            &mut self.events,
            (&self.paths, at),
        );
        if self.flow_control.is_some() {
            self.settle_flow_control();
        }
        sent
    }

    /// Passes a packet to a switch's port. Returns whether the port forwards it at once.
    #[cold]
    pub(crate) fn come_to_port(&mut self, id: u32) -> Arrival {
        let packet = self.packets.get(id);
        let link = self.link_behind(packet);
        let (Some(link), Some(ports)) = (link, &mut self.ports) else { return Arrival::Passes };
        ports.arrive(link, (id, packet.wire_bytes), self.now, &mut self.events)
    }

    /// Tells the tap about a packet that its host has just sent.
    #[cold]
    fn tell_sent(&mut self, id: u32, packet: &Packet, sent: &Sent) {
        let link = self.paths.link(packet.hop);
        if let (Some(tap), Sent::Leaves(_) | Sent::Waits | Sent::Lost) = (&mut self.tap, sent) {
            tap.on_sent(self.now, link, packet);
        }
        self.tell_leaving(id, link, sent);
    }

    /// Tells the tap about a packet that has arrived at a switch.
    #[cold]
    pub(crate) fn tell_passed(&mut self, id: u32) {
        let packet = *self.packets.get(id);
        if let (Some(link), Some(tap)) = (self.link_behind(&packet), &mut self.tap) {
            tap.on_passed(self.now, link, &packet);
        }
    }

    /// Tells the tap about a packet that a switch has just offered to a link.
    #[cold]
    pub(crate) fn tell_forwarded(&mut self, id: u32, sent: &Sent) {
        if let Some(link) = self.link_behind(self.packets.get(id)) {
            self.tell_leaving(id, link, sent);
        }
    }

    fn tell_leaving(&mut self, id: u32, link: u32, sent: &Sent) {
        if let (Sent::Leaves(at), Some(tap)) = (sent, &mut self.tap) {
            if self.links[link as usize].decides_at_arrival() {
                tap.on_leaving(*at, link, self.packets.get(id));
            }
        }
        self.tell_departures(link);
    }

    /// Tells the tap about packets that have just left a discipline that decides at departure.
    #[cold]
    pub(crate) fn tell_departures(&mut self, link: u32) {
        let Some(tap) = &mut self.tap else { return };
        for id in self.links[link as usize].take_departed() {
            tap.on_leaving(self.now, link, self.packets.get(id));
        }
    }

    /// Returns the link that brought a packet to its present place; `None` at its start.
    pub(crate) fn link_behind(&self, packet: &Packet) -> Option<u32> {
        self.paths.link_before(packet.hop)
    }

    /// Schedules a timer. Timers that release paced segments come before an ACK of the same
    /// instant. On a real host such a timer sends slightly late, so the ACK one round trip later
    /// comes after the next segment's timer. The simulated host has no such delay, so both fall on
    /// one instant.
    #[inline]
    pub(crate) fn schedule_timer(&mut self, at: Time, sock: u32, timer: Timer) {
        let event = Event::Timer { sock, timer };
        match timer {
            Timer::Pacing | Timer::Fq => self.events.push_first(at, event),
            _ => self.events.push(at, event),
        }
    }
}

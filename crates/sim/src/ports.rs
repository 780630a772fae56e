//! Ports of switches that coalesce interrupts, like those of a software router. When its interrupt
//! comes, a port forwards all waiting packets at once and in order. The router's CPU takes no time.
//! Waiting packets are neither in a queue nor in shared memory.

use crate::events::{Event, Events};
use crate::interrupts::{Arrival, Ring};
use knee_queue::time::Time;
use knee_run::spec::{CoalescingPort, LinkId, Network, NodeId};

/// The link's packets are forwarded as they come.
const NONE: u32 = u32::MAX;

/// All ports of a network that coalesce interrupts.
#[derive(Debug)]
pub(crate) struct Ports {
    /// The port at the end of each link.
    of_link: Vec<u32>,
    /// Waiting packets of each port.
    rings: Vec<Ring<u32>>,
}

impl Ports {
    /// Creates the ports of the nodes that `has` accepts; `None` if their switches forward packet by
    /// packet.
    pub(crate) fn new(network: &Network, has: impl Fn(NodeId) -> bool) -> Option<Box<Ports>> {
        let is_here = |at: &&CoalescingPort| {
            network.links.get(at.link as usize).is_some_and(|link| has(link.to))
        };
        let here: Vec<_> = network.ports.iter().filter(is_here).collect();
        if here.is_empty() {
            return None;
        }
        let mut of_link = vec![NONE; network.links.len()];
        for (port, number) in here.iter().zip(0..) {
            of_link[port.link as usize] = number;
        }
        let rings = here.iter().map(|port| Ring::new(port.coalesce)).collect();
        Some(Box::new(Ports { of_link, rings }))
    }

    /// Handles a packet that has arrived at a switch by this link.
    pub(crate) fn arrive(
        &mut self,
        link: LinkId,
        (packet, wire_bytes): (u32, u32),
        now: Time,
        events: &mut Events,
    ) -> Arrival {
        let number = self.of_link[link as usize];
        if number == NONE {
            return Arrival::Passes;
        }
        let ring = &mut self.rings[number as usize];
        if ring.add(packet, wire_bytes, now) {
            return Arrival::Interrupt(number);
        }
        ring.schedule(Event::PortInterrupt { port: number }, events);
        Arrival::Waits
    }

    /// Handles an event of a port. Returns whether its interrupt is due.
    pub(crate) fn is_due(&mut self, number: u32, now: Time, events: &mut Events) -> bool {
        let ring = &mut self.rings[number as usize];
        ring.is_due(now, Event::PortInterrupt { port: number }, events)
    }

    /// Takes all waiting packets of a port at its interrupt.
    pub(crate) fn take(&mut self, number: u32, now: Time) -> Vec<u32> {
        self.rings[number as usize].take(now)
    }

    /// Takes back the vector of an interrupt for reuse.
    pub(crate) fn give_back(&mut self, number: u32, packets: Vec<u32>) {
        self.rings[number as usize].give_back(packets);
    }
}

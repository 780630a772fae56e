//! Links and switches without hosts. The caller supplies packets and receives them: the lab's
//! switch uses the simulator's links in real time.
//!
//! Time is an argument. The caller offers packets in the order of their times. [`Fabric::advance`]
//! moves packets up to a given time and reports which arrived and which were dropped.

use crate::events::{Event, Events, check_links};
use crate::interrupts::Arrival;
use crate::link::{LinkState, Sent};
use crate::net::PATH_END;
use crate::packet::{NO_SACKS, Packet, Packets, Tos, flags};
use crate::paths::{Paths, too_long};
use crate::ports::Ports;
use knee_queue::Ecn;
use knee_queue::time::Time;
use knee_run::Error;
use knee_run::outcome::{QueueOutcome, QueueSample};
use knee_run::routes::{Routes, no_path};
use knee_run::spec::{LinkId, Network, NodeId};
use knee_run::support::{On, check_switches};
use knee_units::Random;
use std::collections::HashMap;

/// The most packets per second that a link should have. It sets the resolution of the event list.
const EVENTS_PER_SEC: u64 = 1_000_000;

/// A path through the network; see [`Fabric::path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId {
    start: u32,
    /// Hash of the flow that takes the path.
    hash: u32,
}

/// The parts of a packet that links and queues see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Length as queues count it, bytes.
    pub len_bytes: u32,
    pub ecn: Ecn,
    /// The DSCP: the six bits beside the ECN field.
    pub dscp: u8,
    /// Whether the packet is a TCP segment with an ACK only.
    pub is_pure_ack: bool,
}

/// The end of a packet's way through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet reached the end of its path, with this ECN field.
    Arrived(Ecn),
    /// A queue dropped the packet, or it was lost at random.
    Dropped,
}

/// A queue's decision about one packet. Packets lost at random before the queue have no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The time at which the packet came to the link.
    pub at: Time,
    pub link: LinkId,
    /// The caller's number of the packet.
    pub tag: u32,
    /// Length as queues count it, bytes.
    pub len_bytes: u32,
    /// The ECN field before the queue.
    pub ecn: Ecn,
    /// Whether the queue accepted the packet.
    pub taken: bool,
    /// Whether the queue marked the packet on arrival. This is known only for disciplines that
    /// decide at arrival ([`QueueConfig::admission`](knee_queue::QueueConfig::admission)); others
    /// may mark later.
    pub marked: bool,
}

/// The links of a network and the packets in flight.
pub struct Fabric {
    links: Vec<LinkState>,
    ports: Option<Box<Ports>>,
    events: Events,
    packets: Packets,
    routes: Routes,
    /// Names of nodes, for messages.
    names: Vec<String>,
    paths: Paths,
    known: HashMap<(NodeId, NodeId, u64), PathId>,
    now: Time,
    log: Option<Vec<Offered>>,
}

/// Refuses the features of a network that only [`simulate`](crate::simulate) has.
///
/// # Errors
/// Names the feature, in one sentence.
pub fn supports(network: &Network) -> Result<(), Error> {
    check_links(network.links.len())?;
    check_switches(network, On::Lab)
}

/// The callback of [`Fabric::offer`] and [`Fabric::advance`]: the tag of a packet, the time, and
/// the packet's fate.
pub type Report<'a> = dyn FnMut(u32, Time, Fate) + 'a;

impl Fabric {
    /// Creates the links of `network`, all empty, at time 0. `seed` drives loss, jitter and random
    /// disciplines.
    ///
    /// # Errors
    /// If a queue's settings cannot work.
    pub fn new(network: &Network, seed: u64) -> Result<Fabric, Error> {
        supports(network)?;
        for link in &network.links {
            link.queue.validate().map_err(|why| {
                Error::Refused(format!("link {}: {why}", network.link_name(link)))
            })?;
        }
        let mut random = Random::new(seed);
        let links = network.links.iter().zip(0..);
        let states = links.map(|(link, index)| LinkState::new(link, index, random.u64()));
        let mut fabric = Fabric {
            links: states.collect(),
            ports: Ports::new(network, |_| true),
            events: Events::new(EVENTS_PER_SEC * network.links.len() as u64),
            packets: Packets::default(),
            routes: Routes::new(network),
            names: network.nodes.iter().map(|node| node.name.clone()).collect(),
            paths: Paths::new([].into()),
            known: HashMap::new(),
            now: Time::ZERO,
            log: None,
        };
        for (index, link) in fabric.links.iter_mut().enumerate() {
            link.start(index as u32, &mut fabric.events);
            link.keep_dropped();
        }
        Ok(fabric)
    }

    /// Returns the shortest path from one host to another. Among several equally short paths `hash`
    /// (of addresses, ports and flow label) chooses, as for the simulator's flows.
    ///
    /// # Errors
    /// If there is no path.
    pub fn path(&mut self, from: NodeId, to: NodeId, hash: u64) -> Result<PathId, Error> {
        if let Some(known) = self.known.get(&(from, to, hash)) {
            return Ok(*known);
        }
        let links = self.routes.path(from, to, hash);
        let name = |node: NodeId| &*self.names[node as usize];
        let links = links.ok_or_else(|| no_path(name(from), name(to)))?;
        let start = self.paths.add(links).ok_or_else(too_long)?;
        let path = PathId { start, hash: (hash >> 32 ^ hash) as u32 };
        self.known.insert((from, to, hash), path);
        Ok(path)
    }

    /// Starts to log the decision of each link with a rate about each packet, for
    /// [`Fabric::take_log`].
    pub fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// Takes the log since the last call.
    pub fn take_log(&mut self) -> Vec<Offered> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Offers a packet to the first link of its path at `at`, which is not before the present time.
    /// Packets in flight first move up to `at`.
    pub fn offer(
        &mut self,
        tag: u32,
        path: PathId,
        frame: Frame,
        at: Time,
        report: &mut Report<'_>,
    ) {
        self.advance(at, report);
        let id = self.packets.insert(Packet {
            to: tag,
            hop: path.start,
            wire_bytes: frame.len_bytes,
            seq: path.hash,
            end_seq: path.hash,
            ack_seq: 0,
            window_bytes: 0,
            ts_val: 0,
            ts_ecr: 0,
            flags: flags::FRAME | if frame.is_pure_ack { flags::ACK } else { 0 },
            tos: Tos::new(frame.dscp, frame.ecn),
            sacks_len: 0,
            sacks: NO_SACKS,
        });
        self.forward(id, report);
    }

    /// Moves all packets to their places at `until`.
    pub fn advance(&mut self, until: Time, report: &mut Report<'_>) {
        while let Some((at, event)) = self.events.pop(until) {
            self.now = at;
            match event {
                Event::Arrive { packet, .. } => self.on_arrival(packet, report),
                Event::Port { link } => {
                    self.links[link as usize].on_event(
                        link,
                        &mut self.packets,
                        at,
                        &mut self.events,
                    );
                    self.report_dropped(link, report);
                }
                Event::PortInterrupt { port } => {
                    let is_due = |ports: &mut Box<Ports>| ports.is_due(port, at, &mut self.events);
                    if self.ports.as_mut().is_some_and(is_due) {
                        self.port_interrupt(port, report);
                    }
                }
                // The fabric schedules no other events.
                _ => {}
            }
        }
        self.now = self.now.max(until);
    }

    /// Returns the time of the next event, if it is not after `until`.
    pub fn next_event(&mut self, until: Time) -> Option<Time> {
        self.events.next_at(until)
    }

    /// Returns the counts of a link so far. A link without a rate only counts losses.
    pub fn outcome(&mut self, link: LinkId) -> QueueOutcome {
        self.links[link as usize].outcome(self.now)
    }

    /// Returns the counts of a link so far, then those of each part of its queue.
    pub fn outcomes(&mut self, link: LinkId) -> impl Iterator<Item = QueueOutcome> + use<> {
        self.links[link as usize].outcomes(self.now)
    }

    /// Returns the state of a link's queue at the present time, then that of each part.
    pub fn samples(&mut self, link: LinkId) -> impl Iterator<Item = QueueSample> + use<> {
        self.links[link as usize].samples(self.now)
    }

    fn on_arrival(&mut self, id: u32, report: &mut Report<'_>) {
        let packet = *self.packets.get(id);
        if self.paths.link(packet.hop) == PATH_END {
            self.packets.free(id);
            report(packet.to, self.now, Fate::Arrived(packet.tos.ecn()));
            return;
        }
        let came = match &mut self.ports {
            None => Arrival::Passes,
            Some(ports) => {
                let link = self.paths.link(packet.hop - 1);
                ports.arrive(link, (id, packet.wire_bytes), self.now, &mut self.events)
            }
        };
        match came {
            Arrival::Passes => self.forward(id, report),
            Arrival::Waits => {}
            Arrival::Interrupt(port) => self.port_interrupt(port, report),
        }
    }

    /// A port of a software router hands over its waiting packets.
    fn port_interrupt(&mut self, port: u32, report: &mut Report<'_>) {
        let Some(ports) = &mut self.ports else { return };
        let packets = ports.take(port, self.now);
        packets.iter().for_each(|id| self.forward(*id, report));
        if let Some(ports) = &mut self.ports {
            ports.give_back(port, packets);
        }
    }

    fn forward(&mut self, id: u32, report: &mut Report<'_>) {
        let packet = self.packets.get_mut(id);
        let at = packet.hop;
        let link = self.paths.link(at);
        packet.hop += 1;
        let packet = *packet;
        let sent = self.links[link as usize].send(
            link,
            id,
            &mut self.packets,
            self.now,
            &mut self.events,
            (&self.paths, at),
        );
        let taken = matches!(sent, Sent::Leaves(_));
        let is_offered = !matches!(sent, Sent::Lost) && self.links[link as usize].has_rate();
        if let Some(log) = self.log.as_mut().filter(|_| is_offered) {
            // A refused packet is still readable: its place has not been reused yet.
            let before = packet.tos.ecn();
            let after = self.packets.get(id).tos.ecn();
            log.push(Offered {
                at: self.now,
                link,
                tag: packet.to,
                len_bytes: packet.wire_bytes,
                ecn: before,
                taken,
                marked: taken && after == Ecn::Ce && before != Ecn::Ce,
            });
        }
        let decides_at_arrival = self.links[link as usize].decides_at_arrival();
        if matches!(sent, Sent::Lost) || (decides_at_arrival && !taken) {
            report(packet.to, self.now, Fate::Dropped);
        }
        if !decides_at_arrival {
            self.report_dropped(link, report);
        }
    }

    /// Reports packets that a discipline dropped after it had accepted them.
    fn report_dropped(&mut self, link: LinkId, report: &mut Report<'_>) {
        for id in self.links[link as usize].take_dropped() {
            report(self.packets.get(id).to, self.now, Fate::Dropped);
            self.packets.free(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::time::{Duration, Rate};
    use knee_queue::{
        DropTailConfig, Limit, MarkAt, MarkWhen, NotEctAbove, PieConfig, QueueConfig, StepConfig,
        Threshold,
    };
    use knee_run::spec::{HostConfig, LinuxVersion};
    use knee_run::topology::{Cable, Star};

    fn star(queue: QueueConfig, loss: f64) -> Network {
        let down = Cable {
            delay: Duration::from_us(10),
            loss,
            sampled: true,
            ..Cable::new(Rate::from_bps(1_000_000_000), queue)
        };
        let up = Cable { rate: None, delay: Duration::from_us(5), loss: 0.0, ..down.clone() };
        let host = |name: &str| (name.to_owned(), HostConfig::new(LinuxVersion(6, 1)));
        Star { hosts: vec![host("a"), host("b")], up, down }.build()
    }

    /// Offers 100 packets at once. Returns tag, time and fate of each, and the port's figures.
    fn burst(network: &Network) -> (Vec<(u32, Time, Fate)>, QueueOutcome, Vec<Offered>) {
        let mut fabric = Fabric::new(network, 7).unwrap();
        fabric.keep_log();
        let path = fabric.path(0, 1, 99).unwrap();
        let mut seen = Vec::new();
        let mut report = |tag, at, fate| seen.push((tag, at, fate));
        let frame = Frame { len_bytes: 1514, ecn: Ecn::Ect0, dscp: 0, is_pure_ack: false };
        for tag in 0..100 {
            fabric.offer(tag, path, frame, Time::from_ns(u64::from(tag)), &mut report);
        }
        assert!(fabric.next_event(Time::from_ms(1)).is_some());
        fabric.advance(Time::from_ms(10), &mut report);
        let log = fabric.take_log();
        (seen, fabric.outcome(3), log)
    }

    #[test]
    fn a_burst_leaves_at_the_rate_of_its_port_and_is_marked_from_k_on() {
        let step = StepConfig {
            limit: Limit::Pkts(50),
            threshold: Threshold::Pkts(20),
            mark_at: MarkAt::AtLeast,
            when: MarkWhen::Enqueue,
            not_ect: NotEctAbove::Queue,
        };
        let (seen, counts, log) = burst(&star(QueueConfig::Step(step), 0.0));
        // One packet is being sent, 50 wait.
        let arrived: Vec<_> =
            seen.iter().filter(|(_, _, fate)| matches!(fate, Fate::Arrived(_))).collect();
        assert_eq!((arrived.len(), seen.len()), (51, 100));
        assert_eq!(arrived[0].1, Time::from_ps(5_000_000 + 12_112_000 + 10_000_000));
        assert_eq!(arrived[50].1.since(arrived[0].1), Duration::from_ps(50 * 12_112_000));
        let marked = arrived.iter().filter(|(.., fate)| *fate == Fate::Arrived(Ecn::Ce)).count();
        assert_eq!((marked as u64, counts.marked_pkts, counts.dropped_full_pkts), (30, 30, 49));
        assert_eq!(log.iter().filter(|offered| offered.marked).count(), 30);
        assert_eq!(log.iter().filter(|offered| offered.taken).count(), 51);
    }

    #[test]
    fn every_packet_has_one_fate_whatever_drops_it() {
        let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(10) });
        let pie = QueueConfig::Pie(PieConfig { limit_pkts: 10, ..PieConfig::default() });
        for (queue, loss) in [(droptail, 0.3), (pie, 0.0)] {
            let (mut seen, counts, _) = burst(&star(queue, loss));
            seen.sort_by_key(|(tag, ..)| *tag);
            assert_eq!(
                seen.iter().map(|(tag, ..)| *tag).collect::<Vec<_>>(),
                (0..100).collect::<Vec<_>>()
            );
            let dropped = seen.iter().filter(|(.., fate)| *fate == Fate::Dropped).count() as u64;
            assert_eq!(dropped, counts.dropped_pkts() + counts.lost_pkts);
            assert!(dropped > 0);
        }
    }
}

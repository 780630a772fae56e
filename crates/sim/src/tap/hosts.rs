//! All packets of a run at its hosts, and at the other ends of their links.

use super::{Side, Tap};
use crate::endpoint::Numbers;
use crate::packet::{Packet, flags};
use knee_queue::Ecn;
use knee_queue::time::Time;
use knee_run::spec::{LinkId, NodeId, Run};
use knee_wire::Segment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where a packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At the host: what it sends as its own queue gets it, what it receives as it comes.
    Host,
    /// At the other end of the host's link: what it sends as all of it has come there, what it is to receive as it leaves the
    /// queue there.
    FarEnd,
}

/// A packet seen at a host or at the other end of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub at: Time,
    pub host: NodeId,
    /// On which side of its link.
    pub place: Place,
    /// The host sent it; else it is on its way to it.
    pub is_out: bool,
    pub packet: Seen,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The host that sent it.
    pub from: NodeId,
    /// The host that is to have it.
    pub to: NodeId,
    /// With its Ethernet header, as queues count it.
    pub wire_bytes: u32,
    /// Beside its ECN field, which is in its content.
    pub dscp: u8,
    pub content: Content,
}

/// What is in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A segment of a flow.
    Tcp {
        /// Index into [`Run::flows`].
        flow: usize,
        /// The side that sent it.
        side: Side,
        /// Its numbers count from the initial ones.
        segment: Segment,
        /// Initial sequence number of the side that sent it.
        iss: u32,
        /// Of the other.
        peer_iss: u32,
        /// Shift of its window.
        scale: u8,
    },
    /// A ping or its echo.
    Ping {
        /// Index into [`Run::pings`].
        ping: usize,
        /// Counted from 0.
        number: u32,
        /// It is on its way back.
        is_echo: bool,
        /// ECN field.
        ecn: Ecn,
    },
}

/// The tap inside a simulation.
pub(crate) struct HostsTap {
    /// From and to of each link, where these are hosts.
    links: Vec<(Option<NodeId>, Option<NodeId>)>,
    /// The two hosts of each flow and of each stream of pings.
    flows: Vec<(NodeId, NodeId)>,
    pings: Vec<(NodeId, NodeId)>,
    /// Of the sockets.
    numbers: Vec<Numbers>,
    /// Flows of which a side does not scale windows.
    unscaled: Vec<bool>,
    /// What leaves a queue later, earliest first, those of one time in the order in which they came.
    later: BinaryHeap<Reverse<Later>>,
    came: u64,
    sink: Box<dyn FnMut(Sighting)>,
}

struct Later(u64, Sighting);

impl Later {
    fn key(&self) -> (Time, u64) {
        (self.1.at, self.0)
    }
}

impl PartialEq for Later {
    fn eq(&self, other: &Later) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Later {}

impl PartialOrd for Later {
    fn partial_cmp(&self, other: &Later) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Later {
    fn cmp(&self, other: &Later) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl HostsTap {
    pub(crate) fn new(
        run: &Run,
        numbers: Vec<Numbers>,
        sink: Box<dyn FnMut(Sighting)>,
    ) -> HostsTap {
        let nodes = &run.network.nodes;
        let host = |node: NodeId| nodes[node as usize].host.is_some().then_some(node);
        HostsTap {
            links: run.network.links.iter().map(|link| (host(link.from), host(link.to))).collect(),
            flows: run.flows.iter().map(|flow| (flow.from, flow.to)).collect(),
            pings: run.pings.iter().map(|ping| (ping.from, ping.to)).collect(),
            unscaled: vec![false; run.flows.len()],
            numbers,
            later: BinaryHeap::new(),
            came: 0,
            sink,
        }
    }

    fn see(&mut self, at: Time, host: NodeId, place: Place, is_out: bool, packet: &Packet) {
        self.pass_on(at);
        let packet = self.seen(packet);
        (self.sink)(Sighting { at, host, place, is_out, packet });
    }

    /// Passes on what has left a queue by now.
    fn pass_on(&mut self, until: Time) {
        while self.later.peek().is_some_and(|Reverse(later)| later.1.at <= until) {
            if let Some(Reverse(Later(_, sighting))) = self.later.pop() {
                (self.sink)(sighting);
            }
        }
    }

    fn seen(&self, packet: &Packet) -> Seen {
        let ((from, to), content) =
            if packet.has(flags::PING) { self.ping(packet) } else { self.segment(packet) };
        let (wire_bytes, dscp) = (packet.wire_bytes, packet.tos.dscp());
        Seen { from, to, wire_bytes, dscp, content }
    }

    fn ping(&self, packet: &Packet) -> ((NodeId, NodeId), Content) {
        let ping = packet.to as usize;
        let is_echo = packet.has(flags::ACK);
        let content = Content::Ping { ping, number: packet.seq, is_echo, ecn: packet.tos.ecn() };
        (turned(self.pings[ping], is_echo), content)
    }

    /// The connecting side of a flow has the even socket.
    fn segment(&self, packet: &Packet) -> ((NodeId, NodeId), Content) {
        let (to, from) = (packet.to as usize, packet.to as usize ^ 1);
        let flow = to / 2;
        let side = if from % 2 == 0 { Side::Connecting } else { Side::Listening };
        let (of_sender, of_receiver) = (&self.numbers[from], &self.numbers[to]);
        let content = Content::Tcp {
            flow,
            side,
            segment: of_sender.segment(packet, of_receiver),
            iss: of_sender.iss,
            peer_iss: of_receiver.iss,
            scale: if self.unscaled[flow] { 0 } else { of_sender.window_scale },
        };
        (turned(self.flows[flow], side == Side::Listening), content)
    }

    fn note_scaling(&mut self, packet: &Packet) {
        if packet.has(flags::SYN) && packet.has(flags::NO_SCALE) && !packet.has(flags::PING) {
            self.unscaled[packet.to as usize / 2] = true;
        }
    }
}

fn turned((a, b): (NodeId, NodeId), turn: bool) -> (NodeId, NodeId) {
    if turn { (b, a) } else { (a, b) }
}

impl Tap for HostsTap {
    fn on_sent(&mut self, at: Time, link: LinkId, packet: &Packet) {
        self.note_scaling(packet);
        if let (Some(host), _) = self.links[link as usize] {
            self.see(at, host, Place::Host, true, packet);
        }
    }

    fn on_delivered(&mut self, at: Time, link: LinkId, packet: &Packet, _is_over: bool) {
        self.on_passed(at, link, packet);
        if let (_, Some(host)) = self.links[link as usize] {
            self.see(at, host, Place::Host, false, packet);
        }
    }

    fn on_passed(&mut self, at: Time, link: LinkId, packet: &Packet) {
        if let (Some(host), _) = self.links[link as usize] {
            self.see(at, host, Place::FarEnd, true, packet);
        }
    }

    fn on_leaving(&mut self, at: Time, link: LinkId, packet: &Packet) {
        if let (_, Some(host)) = self.links[link as usize] {
            let packet = self.seen(packet);
            let sighting = Sighting { at, host, place: Place::FarEnd, is_out: false, packet };
            self.later.push(Reverse(Later(self.came, sighting)));
            self.came += 1;
        }
    }

    fn on_end(&mut self, at: Time) {
        self.pass_on(at);
    }
}

//! Observes all packets of a run at its hosts and at the other ends of their links.

use super::{Side, Tap};
use crate::endpoint::Numbers;
use crate::packet::{Packet, flags};
use knee_queue::Ecn;
use knee_queue::time::Time;
use knee_run::spec::{LinkId, NodeId, Run};
use knee_wire::Segment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The place at which a packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At the host: sent packets as the host's own queue gets them, received packets as they
    /// arrive.
    Host,
    /// At the other end of the host's link: sent packets once they have arrived there completely,
    /// packets to the host as they leave the queue there.
    FarEnd,
}

/// A packet seen at a host or at the other end of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub at: Time,
    pub host: NodeId,
    /// The end of the host's link.
    pub place: Place,
    /// Whether the host sent the packet; otherwise the packet goes to the host.
    pub is_out: bool,
    pub packet: Seen,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sending host.
    pub from: NodeId,
    /// The destination host.
    pub to: NodeId,
    /// Length with the Ethernet header, as queues count it, bytes.
    pub wire_bytes: u32,
    /// The DSCP. The ECN field is in the content.
    pub dscp: u8,
    pub content: Content,
}

/// The content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A segment of a flow.
    Tcp {
        /// Index into [`Run::flows`].
        flow: usize,
        side: Side,
        /// The segment; sequence numbers count from the initial ones.
        segment: Segment,
        /// Initial sequence number of the sending side.
        iss: u32,
        /// Initial sequence number of the other side.
        peer_iss: u32,
        /// Window scale of the segment's window.
        scale: u8,
    },
    /// A datagram of a stream that goes one way.
    Datagram {
        /// Index into [`Run::pings`].
        stream: usize,
        /// ECN field.
        ecn: Ecn,
    },
    /// A ping or its echo.
    Ping {
        /// Index into [`Run::pings`].
        ping: usize,
        /// Number of the ping in its stream, from 0.
        number: u32,
        is_echo: bool,
        ecn: Ecn,
    },
}

/// Observes the packets inside a simulation.
pub(crate) struct HostsTap {
    /// Both ends of each link; `None` for a switch.
    links: Vec<(Option<NodeId>, Option<NodeId>)>,
    /// The two hosts of each flow, and those of each ping stream, with whether it goes one way.
    flows: Vec<(NodeId, NodeId)>,
    pings: Vec<((NodeId, NodeId), bool)>,
    /// Sequence numbers and SYN options of each socket.
    numbers: Vec<Numbers>,
    /// Whether a side of each flow does not scale windows.
    unscaled: Vec<bool>,
    /// Packets that leave a queue later, earliest first. Packets of equal time keep their order of
    /// arrival.
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
            pings: run
                .pings
                .iter()
                .map(|ping| ((ping.from, ping.to), ping.one_way_until.is_some()))
                .collect(),
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

    /// Passes on the packets that have left a queue by `until`.
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
        let (is_echo, ecn) = (packet.has(flags::ACK), packet.tos.ecn());
        let (hosts, goes_one_way) = self.pings[ping];
        let content = match goes_one_way {
            true => Content::Datagram { stream: ping, ecn },
            false => Content::Ping { ping, number: packet.seq, is_echo, ecn },
        };
        (turned(hosts, is_echo), content)
    }

    /// Builds the segment; the connecting side of a flow has the even socket.
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

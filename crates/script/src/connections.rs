//! The TCP connections of a capture.

use crate::capture::{self, Captured, Ending};
use crate::record::MAX_SEGMENTS;
use crate::stack::Refusal;
use crate::wire::{Origin, Packet, decode};
use knee_queue::time::Time;
use knee_sim::tap::{Side, Tapped};
use knee_wire::Segment;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::ControlFlow;

/// Most connections that are tracked; later ones are only counted.
pub const MAX_CONNECTIONS: usize = 65_536;
/// Window that never limits, for an unknown window scale, bytes.
const LARGE_WINDOW_BYTES: u32 = 8 << 20;
/// A connection that lasts longer is cut, ns: a month.
const MOST_NS: u64 = 30 * 24 * 3600 * 1_000_000_000;

/// A connection of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The side that connects; the first to send, where the capture has no SYN.
    pub client: SocketAddr,
    /// The side that listens.
    pub server: SocketAddr,
    /// TCP packets of both sides.
    pub packets: u64,
    /// Payload that the client sent, retransmissions included, bytes.
    pub client_bytes: u64,
    /// Payload that the server sent, retransmissions included, bytes.
    pub server_bytes: u64,
    /// Time of the first packet, ns since 1970.
    pub first_ns: u64,
    /// The capture has its SYN.
    pub has_syn: bool,
    /// Initial sequence number of the SYN that began it.
    iss: Option<u32>,
}

/// Connections of a capture.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Connections in the order of their first packets.
    pub connections: Vec<Connection>,
    /// Packets that are no TCP over IP, or only a later part of it.
    pub others: u64,
    /// Packets of link layers that are not known, by the number of the link layer.
    pub unknown_links: BTreeMap<u32, u64>,
    /// Packets of connections beyond [`MAX_CONNECTIONS`].
    pub unlisted: u64,
    /// How the file ended.
    pub ending: Ending,
}

/// Tells which connection a packet belongs to.
#[derive(Default)]
struct Tracker {
    survey: Survey,
    /// The latest connection between two sockets, the smaller first.
    latest: BTreeMap<(SocketAddr, SocketAddr), usize>,
}

impl Tracker {
    /// The packet and the number of its connection.
    fn packet(&mut self, captured: &Captured) -> Option<(usize, Packet)> {
        if !captured.is_link_known() {
            *self.survey.unknown_links.entry(captured.link).or_insert(0) += 1;
            return None;
        }
        let decoded = captured.ip().and_then(|(ip, len)| decode(ip, len));
        let Some(packet) = decoded else {
            self.survey.others += 1;
            return None;
        };
        let number = self.connection(&packet, captured.at_ns)?;
        let connection = &mut self.survey.connections[number];
        connection.packets += 1;
        if packet.source == connection.client {
            connection.client_bytes += u64::from(packet.len);
        } else {
            connection.server_bytes += u64::from(packet.len);
        }
        Some((number, packet))
    }

    fn connection(&mut self, packet: &Packet, at_ns: u64) -> Option<usize> {
        let (a, b) = (packet.source, packet.destination);
        let key = if a <= b { (a, b) } else { (b, a) };
        let begins = packet.has(Segment::SYN) && !packet.has(Segment::ACK);
        let known = self.latest.get(&key).copied();
        let same = known.filter(|known| {
            // Ports are used again: another SYN is another connection.
            !begins || self.survey.connections[*known].iss == Some(packet.seq)
        });
        if same.is_some() {
            return same;
        }
        let number = self.survey.connections.len();
        if number >= MAX_CONNECTIONS {
            self.survey.unlisted += 1;
            return None;
        }
        // A SYN-ACK comes from the side that listens.
        let answers = packet.has(Segment::SYN) && packet.has(Segment::ACK);
        let (client, server) = if answers { (b, a) } else { (a, b) };
        self.latest.insert(key, number);
        self.survey.connections.push(Connection {
            client,
            server,
            packets: 0,
            client_bytes: 0,
            server_bytes: 0,
            first_ns: at_ns,
            has_syn: begins,
            iss: begins.then_some(packet.seq),
        });
        Some(number)
    }
}

/// Lists the connections of a capture.
///
/// # Errors
/// If it is no capture.
pub fn survey(input: impl Read + Send) -> Result<Survey, Refusal> {
    let mut tracker = Tracker::default();
    let ending = capture::read(input, |packet| {
        let _ = tracker.packet(&packet);
        ControlFlow::Continue(())
    })?;
    Ok(Survey { ending, ..tracker.survey })
}

/// The segments of one connection as `side` sent and received them, and whether there were more than are kept.
/// `number` is its place in [`Survey::connections`] of the same capture.
///
/// # Errors
/// If it is no capture.
pub fn segments(
    input: impl Read + Send,
    number: usize,
    side: Side,
) -> Result<(Vec<Tapped>, bool), Refusal> {
    let mut tracker = Tracker::default();
    let mut kept: Vec<(u64, Packet)> = Vec::new();
    let mut is_cut = false;
    capture::read(input, |captured| {
        match tracker.packet(&captured) {
            Some((of, packet)) if of == number => kept.push((captured.at_ns, packet)),
            _ => {}
        }
        is_cut = kept.len() > MAX_SEGMENTS;
        if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    kept.truncate(MAX_SEGMENTS);
    let client = tracker.survey.connections.get(number).map(|connection| connection.client);
    let Some(client) = client else { return Ok((Vec::new(), false)) };
    Ok((relative(&kept, client, side), is_cut))
}

/// State of one side of a connection in the capture.
#[derive(Clone, Copy, Default)]
struct Heard {
    iss: Option<u32>,
    scale: Option<u8>,
    has_syn: bool,
}

fn relative(kept: &[(u64, Packet)], client: SocketAddr, side: Side) -> Vec<Tapped> {
    let of_client = |packet: &Packet| packet.source == client;
    let heard = |is_client: bool| {
        let mut own =
            kept.iter().map(|(_, packet)| packet).filter(|packet| of_client(packet) == is_client);
        let syn = own.clone().find(|packet| packet.has(Segment::SYN));
        match syn {
            Some(syn) => Heard { iss: Some(syn.seq), scale: syn.window_scale, has_syn: true },
            // The first byte that is seen is byte 1.
            None => {
                let iss = own.next().map(|packet| packet.seq.wrapping_sub(1));
                Heard { iss, ..Heard::default() }
            }
        }
    };
    let (of_client_side, of_server_side) = (heard(true), heard(false));
    let both_syns = of_client_side.has_syn && of_server_side.has_syn;
    let first_ns = kept.first().map_or(0, |(at_ns, _)| *at_ns);
    let mut segments = Vec::with_capacity(kept.len());
    for (at_ns, packet) in kept {
        let is_client = of_client(packet);
        let (own, other) = if is_client {
            (of_client_side, of_server_side)
        } else {
            (of_server_side, of_client_side)
        };
        let Some(iss) = own.iss else { continue };
        // A side that is never heard: what it is told to have sent counts from there.
        let peer_iss = other.iss.unwrap_or(packet.ack.wrapping_sub(1));
        let scale = if both_syns && other.scale.is_some() { own.scale } else { None };
        let origin = Origin { iss, peer_iss, scale: scale.unwrap_or(0) };
        let mut segment = packet.relative(origin);
        if !both_syns {
            segment.window_bytes = LARGE_WINDOW_BYTES;
            // What was sent before the capture began is not part of it.
            let is_old = |number: u32| (number as i32) < 1;
            let acks_old = segment.has(Segment::ACK) && !other.has_syn && is_old(segment.ack);
            if acks_old || (!own.has_syn && is_old(segment.seq)) {
                continue;
            }
            segment.sacks.retain(|(start, _)| !is_old(*start));
        }
        segments.push(Tapped {
            at: Time::from_ns(at_ns.saturating_sub(first_ns).min(MOST_NS)),
            is_out: is_client == (side == Side::Connecting),
            segment,
        });
    }
    segments
}

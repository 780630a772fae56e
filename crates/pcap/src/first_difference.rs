//! Where two runs of one experiment part: the captures of a host from both, connection by connection and packet by packet.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use knee_wire::host::AT_HOST;
use knee_wire::packet::{Origin, Packet, decode};
use knee_wire::{Error, Segment, read};

/// Packets before the difference that are shown, at most.
const SHOWN_BEFORE: usize = 6;
/// Packets from the difference on that are shown, at most.
const SHOWN_AFTER: usize = 12;
/// The most packets of a capture that are compared; more are not read.
pub const MOST_PACKETS: usize = 1_000_000;
/// So close to the end of a capture a packet may be missing only because its run ended.
const END_NS: u64 = 1_000_000;

/// A packet of a connection at the host.
#[derive(Clone, Debug)]
pub struct Step {
    /// Time since the capture's first packet, ns.
    pub at_ns: u64,
    /// The host has sent it.
    pub sent: bool,
    /// What it is, its numbers counted from the initial ones.
    pub segment: Segment,
}

/// The packets of a host, by connection.
#[derive(Debug, Default)]
pub struct HostCapture {
    connections: Vec<Connection>,
    /// When the first packet passed, ns.
    start_ns: u64,
    /// When the last one did, since the first, ns.
    end_ns: u64,
    /// There were more packets than are compared.
    pub is_cut: bool,
}

#[derive(Debug)]
struct Connection {
    local: SocketAddr,
    peer: SocketAddr,
    origins: [Option<u32>; 2],
    steps: Vec<Step>,
}

impl Connection {
    fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }
}

impl HostCapture {
    /// Reads what passed the host's own end of its link.
    ///
    /// # Errors
    /// If it is no capture.
    pub fn read(input: impl Read + Send) -> Result<HostCapture, Error> {
        let mut capture = HostCapture::default();
        let mut numbers: HashMap<(SocketAddr, SocketAddr), usize> = HashMap::new();
        let mut first_ns = None;
        let mut left = MOST_PACKETS;
        let mut host = None;
        read(input, |captured| {
            let Some(packet) = captured.ip().and_then(|(ip, len)| decode(ip, len)) else {
                return ControlFlow::Continue(());
            };
            // A packet is first where it comes from: at the host, or at the port that leads there.
            let at_host = captured.interface == AT_HOST;
            let first = if at_host { packet.source } else { packet.destination };
            host.get_or_insert(first.ip());
            if !at_host {
                return ControlFlow::Continue(());
            }
            if left == 0 {
                capture.is_cut = true;
                return ControlFlow::Break(());
            }
            left -= 1;
            let start_ns = *first_ns.get_or_insert(captured.at_ns);
            let at_ns = captured.at_ns.saturating_sub(start_ns);
            capture.end_ns = capture.end_ns.max(at_ns);
            capture.add(&mut numbers, at_ns, &packet);
            ControlFlow::Continue(())
        })?;
        capture.start_ns = first_ns.unwrap_or(0);
        for connection in &mut capture.connections {
            if Some(connection.local.ip()) != host {
                std::mem::swap(&mut connection.local, &mut connection.peer);
                connection.steps.iter_mut().for_each(|step| step.sent = !step.sent);
            }
        }
        Ok(capture)
    }

    fn add(
        &mut self,
        numbers: &mut HashMap<(SocketAddr, SocketAddr), usize>,
        at_ns: u64,
        packet: &Packet,
    ) {
        let (from, to) = (packet.source, packet.destination);
        let at = match numbers.get(&(to, from)) {
            Some(at) => *at,
            None => match numbers.entry((from, to)) {
                Entry::Occupied(at) => *at.get(),
                Entry::Vacant(place) => {
                    let steps = Vec::new();
                    let new = Connection { local: from, peer: to, origins: [None; 2], steps };
                    self.connections.push(new);
                    *place.insert(self.connections.len() - 1)
                }
            },
        };
        let connection = &mut self.connections[at];
        let sent = connection.local == from;
        let own = usize::from(!sent);
        let iss = *connection.origins[own].get_or_insert(packet.seq);
        let peer_iss = match connection.origins[1 - own] {
            None if packet.has(Segment::ACK) => packet.ack.wrapping_sub(1),
            known => known.unwrap_or(0),
        };
        let segment = packet.relative(Origin { iss, peer_iss, scale: 0 });
        connection.steps.push(Step { at_ns, sent, segment });
    }
}

/// The first packet in which two captures of a host differ.
#[derive(Debug)]
pub struct Difference {
    /// Ends of the connection: the host's and the other.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// The packet is one that the host has sent.
    pub sent: bool,
    /// Its number among those of its direction, from 1.
    pub number: usize,
    /// When the earlier of both came, ns since the capture's first packet.
    pub at_ns: u64,
    /// The same by the clock of the first capture, whose hosts are to have one: of differences of several hosts the earliest is the cause.
    pub by_clock_ns: u64,
    sides: [Vec<Step>; 2],
}

/// Whether two packets say the same. Windows and timestamps follow from clocks and buffers, and are no difference by themselves.
fn says_the_same(one: &Segment, other: &Segment) -> bool {
    let said =
        |segment: &Segment| (segment.flags, segment.ecn, segment.seq, segment.len, segment.ack);
    said(one) == said(other) && one.sacks == other.sacks
}

/// Finds the first packet that one capture has otherwise than the other, or not at all, or, with `slack_ns`, more than this earlier or
/// later. Of each connection what the host sends and what it receives are compared on their own: which of two packets at the same time
/// comes first is chance.
pub fn first_difference(
    one: &HostCapture,
    other: &HostCapture,
    slack_ns: Option<u64>,
) -> Option<Difference> {
    let mut first: Option<Difference> = None;
    for pair in pairs(one, other) {
        let Some(ends) = pair.into_iter().flatten().next().map(Connection::ends) else { continue };
        let sides = pair.map(|of| of.map_or(&[][..], |of| &of.steps));
        for sent in [true, false] {
            let [mut ours, mut theirs] =
                sides.map(|steps| steps.iter().filter(move |step| step.sent == sent));
            for number in 1.. {
                let at_ns = match (ours.next(), theirs.next()) {
                    (Some(one), Some(other)) => {
                        let apart = one.at_ns.abs_diff(other.at_ns);
                        let is_same = says_the_same(&one.segment, &other.segment);
                        if is_same && slack_ns.is_none_or(|slack| apart <= slack) {
                            continue;
                        }
                        one.at_ns.min(other.at_ns)
                    }
                    (Some(step), None) if is_missed(step, other) => step.at_ns,
                    (None, Some(step)) if is_missed(step, one) => step.at_ns,
                    _ => break,
                };
                if first.as_ref().is_none_or(|first| at_ns < first.at_ns) {
                    let (local, peer) = ends;
                    let sides = sides.map(|steps| around(steps, at_ns));
                    let by_clock_ns = one.start_ns + at_ns;
                    first =
                        Some(Difference { local, peer, sent, number, at_ns, by_clock_ns, sides });
                }
                break;
            }
        }
    }
    first
}

/// Where one run has ended, the other may just have had more time: whether a capture that lacks a packet goes on behind it.
fn is_missed(step: &Step, lacks: &HostCapture) -> bool {
    step.at_ns + END_NS < lacks.end_ns
}

/// Connections of both captures: those with the same ends, then the others in their order, as of networks with other addresses.
fn pairs<'a>(one: &'a HostCapture, other: &'a HostCapture) -> Vec<[Option<&'a Connection>; 2]> {
    let known: HashMap<_, _> = other.connections.iter().map(|of| (of.ends(), of)).collect();
    let (same, alone): (Vec<_>, Vec<_>) =
        one.connections.iter().partition(|of| known.contains_key(&of.ends()));
    let matched: HashSet<_> = same.iter().map(|of| of.ends()).collect();
    let mut left = other.connections.iter().filter(|of| !matched.contains(&of.ends()));
    let mut pairs: Vec<_> = same.iter().map(|of| [Some(*of), Some(known[&of.ends()])]).collect();
    pairs.extend(alone.into_iter().map(|of| [Some(of), left.next()]));
    pairs.extend(left.map(|of| [None, Some(of)]));
    pairs
}

/// The packets of a connection around a time.
fn around(steps: &[Step], at_ns: u64) -> Vec<Step> {
    let at = steps.partition_point(|step| step.at_ns < at_ns);
    let end = steps.len().min(at + SHOWN_AFTER);
    steps[at.saturating_sub(SHOWN_BEFORE)..end].to_vec()
}

impl Step {
    fn text(&self) -> String {
        let segment = &self.segment;
        let mut text =
            format!("{:>12.3} {}", self.at_ns as f64 / 1e3, if self.sent { '>' } else { '<' });
        if segment.len > 0 {
            let end = segment.seq.wrapping_add(segment.len);
            let _ = write!(text, " {}..{end}", segment.seq);
        }
        let _ = write!(text, " ack {}", segment.ack);
        for (flag, name) in [
            (Segment::SYN, "SYN"),
            (Segment::FIN, "FIN"),
            (Segment::RST, "RST"),
            (Segment::PSH, "P"),
            (Segment::ECE, "ECE"),
            (Segment::CWR, "CWR"),
        ] {
            if segment.has(flag) {
                let _ = write!(text, " {name}");
            }
        }
        if segment.ecn == knee_queue::Ecn::Ce {
            text.push_str(" CE");
        }
        for (begin, end) in &segment.sacks {
            let _ = write!(text, " sack {begin}..{end}");
        }
        text
    }
}

impl Difference {
    /// Both sides, packet beside packet: times in us, `>` sent by the host, `<` received, numbers in bytes.
    pub fn table(&self) -> String {
        let [one, other] = &self.sides;
        let rows = one.len().max(other.len());
        let texts = |steps: &[Step], at: usize| steps.get(at).map(Step::text).unwrap_or_default();
        let width = one.iter().map(|step| step.text().len()).max().unwrap_or(0);
        (0..rows)
            .map(|at| {
                let row = format!("{:<width$} | {}", texts(one, at), texts(other, at));
                format!("  {}\n", row.trim_end())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_wire::{Interface, Record, Writer, link};

    const HOST: &str = "10.0.0.1:40000";
    const PEER: &str = "10.0.0.2:10000";

    /// A capture of packets: time in us, whether the host has sent it, number, length, acknowledgement. Initial numbers are 1000 and 9000.
    fn capture(packets: &[(u64, bool, u32, u32, u32)]) -> HostCapture {
        let interface = Interface { name: "h".to_owned(), link: link::RAW, snaplen: 0 };
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, "h", &[interface]).unwrap();
        for (at_us, sent, seq, len, ack) in packets {
            let (from, to) = if *sent { (HOST, PEER) } else { (PEER, HOST) };
            let (iss, peer_iss) = if *sent { (1000, 9000) } else { (9000, 1000) };
            let is_syn = *seq == 0;
            let syn = if is_syn { Segment::SYN } else { 0 };
            let acks = if is_syn && *sent { 0 } else { Segment::ACK };
            let segment = Segment {
                flags: syn | acks,
                seq: *seq,
                len: *len,
                ack: *ack,
                ..Segment::default()
            };
            let origin = Origin { iss, peer_iss, scale: 0 };
            let [from, to] = [from, to].map(|end| end.parse().unwrap());
            let data = Packet::absolute(&segment, from, to, origin).unwrap().encode().unwrap();
            let original_len = data.len() as u32;
            let record =
                Record { at_ns: at_us * 1000, original_len, data: &data, ..Record::default() };
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        HostCapture::read(&bytes[..]).unwrap()
    }

    const START: [(u64, bool, u32, u32, u32); 5] = [
        (100, true, 0, 0, 0),
        (200, false, 0, 0, 1),
        (201, true, 1, 0, 1),
        (202, true, 1, 1448, 1),
        (203, true, 1449, 1448, 1),
    ];

    fn with(more: &[(u64, bool, u32, u32, u32)]) -> HostCapture {
        capture(&[&START[..], more].concat())
    }

    #[test]
    fn equal_captures_do_not_differ_and_a_longer_one_neither() {
        let later = with(&[(300, false, 1, 0, 2897), (301, true, 2897, 1448, 1)]);
        assert!(first_difference(&with(&[]), &later, Some(0)).is_none());
        // Times count from the first packet, and who is captured later is not late.
        let shifted =
            capture(&START.map(|(at, sent, seq, len, ack)| (at + 50, sent, seq, len, ack)));
        assert!(first_difference(&with(&[]), &shifted, Some(0)).is_none());
    }

    #[test]
    fn the_earliest_packet_that_says_something_else_is_found_with_what_is_around_it() {
        let one = with(&[
            (300, false, 1, 0, 1449),
            (301, true, 2897, 1448, 1),
            (302, true, 4345, 1448, 1),
        ]);
        let other = with(&[
            (300, false, 1, 0, 1449),
            (301, true, 2897, 700, 1),
            (302, true, 3597, 1448, 1),
        ]);
        let found = first_difference(&one, &other, None).unwrap();
        assert_eq!((found.sent, found.number, found.at_ns), (true, 5, 201_000));
        assert_eq!(found.local, HOST.parse().unwrap());
        let table = found.table();
        let row = table.lines().find(|row| row.contains("2897..4345")).unwrap();
        assert_eq!(row.trim(), "201.000 > 2897..4345 ack 1 |      201.000 > 2897..3597 ack 1");
        assert!(table.contains("200.000 < ack 1449 "), "{table}");
    }

    #[test]
    fn a_packet_beyond_the_slack_differs_by_its_time_alone() {
        let [one, other] = [300, 320].map(|at| with(&[(at, false, 1, 0, 2897)]));
        assert!(first_difference(&one, &other, None).is_none());
        assert!(first_difference(&one, &other, Some(20_000)).is_none());
        let found = first_difference(&one, &other, Some(19_999)).unwrap();
        assert_eq!((found.sent, found.at_ns), (false, 200_000));
    }

    #[test]
    fn a_packet_that_one_has_not_differs_unless_its_run_had_ended() {
        let last = (9000, false, 1, 0, 2897);
        let (one, other) = (with(&[(300, true, 2897, 1448, 1), last]), with(&[last]));
        for found in [first_difference(&one, &other, None), first_difference(&other, &one, None)] {
            let found = found.unwrap();
            assert_eq!((found.sent, found.number, found.at_ns), (true, 5, 200_000));
        }
        assert!(first_difference(&one, &with(&[(1200, false, 1, 0, 2897)]), None).is_none());
    }

    #[test]
    fn the_host_is_the_end_that_packets_leave_first_at() {
        // Seen from the other end, the first packet comes in at its port.
        let ports = |number| {
            let data = Packet::absolute(
                &Segment { flags: Segment::SYN, ..Segment::default() },
                HOST.parse().unwrap(),
                PEER.parse().unwrap(),
                Origin::default(),
            );
            let data = data.unwrap().encode().unwrap();
            let interfaces = ["h", "port of h"].map(|name| Interface {
                name: name.to_owned(),
                link: link::RAW,
                snaplen: 0,
            });
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes, "h", &interfaces).unwrap();
            let original_len = data.len() as u32;
            for interface in [number, 1 - number] {
                let record = Record { interface, original_len, data: &data, ..Record::default() };
                writer.write(&record).unwrap();
            }
            writer.finish().unwrap();
            HostCapture::read(&bytes[..]).unwrap().connections[0].local
        };
        assert_eq!(ports(AT_HOST), HOST.parse().unwrap());
        assert_eq!(ports(1), PEER.parse().unwrap());
    }

    #[test]
    fn what_is_no_capture_is_an_error() {
        assert!(
            HostCapture::read(&b"no capture at all, but long enough to be read as one"[..])
                .is_err()
        );
    }
}

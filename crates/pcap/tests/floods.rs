//! Floods of connections: memory is bounded by those that go on at once, not by how many there are.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, SocketAddr};

use knee_pcap::{Analysis, AnalysisOptions, Input, analyse};
use knee_queue::Ecn;
use knee_wire::Segment;
use knee_wire::packet::Packet;
use knee_wire::{Interface, Record, Writer, link};

const US: u64 = 1000;
const MSS: u32 = 1448;
/// Connections at once that are kept here; a million and more in the command.
const MOST_LIVE: usize = 2000;

/// A kind of flood.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// SYNs without an answer.
    Syns,
    /// Connections with a request and an answer, one after the other.
    Short,
    /// All at once, with two segments of each in turn, four times.
    AtOnce,
}

/// Writes the packets of a part of a flood.
fn part(flood: Flood, at: u64, flows: u64, write: &mut impl FnMut(u64, &Packet)) {
    let client = |flow: u64| {
        let address = Ipv4Addr::from(0x0a00_0000 + (flow / 50_000) as u32);
        SocketAddr::new(address.into(), 1024 + (flow % 50_000) as u16)
    };
    let server = SocketAddr::new(Ipv4Addr::new(198, 18, 0, 1).into(), 80);
    let mut send = |at_ns, flow, is_back, flags, seq, len, ack| {
        let (source, destination) =
            if is_back { (server, client(flow)) } else { (client(flow), server) };
        let packet = Packet {
            source,
            destination,
            flags,
            ecn: Ecn::NotEct,
            seq,
            len,
            ack,
            window: 30_000,
            mss: None,
            window_scale: None,
            sack_ok: false,
            timestamps: Some(((at_ns / 1_000_000) as u32, 0)),
            sacks: Vec::new(),
            are_options_cut: false,
        };
        write(at_ns, &packet);
    };
    const ACK: u16 = Segment::ACK;
    match flood {
        Flood::Syns => send(at * 2 * US, at, false, Segment::SYN, 7, 0, 0),
        Flood::Short => {
            let at_ns = at * 2000 * US;
            send(at_ns, at, false, Segment::SYN, 0, 0, 0);
            send(at_ns + 100, at, true, Segment::SYN | ACK, 0, 0, 1);
            send(at_ns + 200, at, false, ACK, 1, 500, 1);
            send(at_ns + 300, at, true, ACK, 1, MSS, 501);
            send(at_ns + 400, at, false, ACK | Segment::FIN, 501, 0, MSS + 1);
            send(at_ns + 500, at, true, ACK | Segment::FIN, MSS + 1, 0, 502);
        }
        Flood::AtOnce => {
            let (turn, flow, at_ns) = ((at / flows) as u32, at % flows, at * 5 * US);
            let seq = 1 + turn * 2 * MSS;
            send(at_ns, flow, false, ACK, seq, MSS, 1);
            send(at_ns + 100, flow, false, ACK, seq + MSS, MSS, 1);
            send(at_ns + 200, flow, true, ACK, 1, 0, seq);
        }
    }
}

/// A file of a flood, made as it is read.
struct Generated {
    flood: Flood,
    flows: u64,
    next: u64,
    now: Cursor<Vec<u8>>,
}

impl Generated {
    fn parts(&self) -> u64 {
        if matches!(self.flood, Flood::AtOnce) { 4 * self.flows } else { self.flows }
    }
}

impl Read for Generated {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let count = self.now.read(to)?;
            if count > 0 || self.next >= self.parts() {
                return Ok(count);
            }
            let begun = || {
                let interface = Interface { name: "x".to_owned(), link: link::RAW, snaplen: 0 };
                Writer::new(Vec::new(), "x", &[interface]).unwrap()
            };
            let mut writer = begun();
            let until = (self.next + 1000).min(self.parts());
            for at in self.next..until {
                part(self.flood, at, self.flows, &mut |at_ns, packet| {
                    let mut data = Vec::new();
                    packet.encode_headers(&mut data).unwrap();
                    let original_len = data.len() as u32 + packet.len;
                    let record = Record { at_ns, original_len, data: &data, ..Record::default() };
                    writer.write(&record).unwrap();
                });
            }
            // Only the first part has the file's head.
            let head = if self.next == 0 { 0 } else { begun().finish().unwrap().len() };
            self.next = until;
            self.now = Cursor::new(writer.finish().unwrap().split_off(head));
        }
    }
}

/// The analysis, and the most memory that the process had meanwhile, bytes.
fn flooded(flood: Flood, flows: u64) -> (Analysis, u64) {
    // Forgets the most of before.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let file = Generated { flood, flows, next: 0, now: Cursor::new(Vec::new()) };
    let input = Input::Reader("flood".to_owned(), Box::new(file));
    let options =
        AnalysisOptions { most_live: MOST_LIVE, most_flows: 100, ..AnalysisOptions::default() };
    let analysis = analyse(vec![input], &options, &mut |_| ()).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let most: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (analysis, most * 1024)
}

#[test]
fn memory_is_bounded_by_the_connections_that_go_on_at_once() {
    for flood in [Flood::Syns, Flood::Short, Flood::AtOnce] {
        let (few, with_few) = flooded(flood, 4 * MOST_LIVE as u64);
        let (many, with_many) = flooded(flood, 20 * MOST_LIVE as u64);
        let flows = |analysis: &Analysis| analysis.whole.flows;
        assert!(flows(&many) >= 20 * MOST_LIVE as u64 && flows(&few) >= 4 * MOST_LIVE as u64);
        let segments = many.whole.totals.segments;
        let of_each = match flood {
            Flood::Syns => 0,
            Flood::Short => 2,
            Flood::AtOnce => 8,
        };
        assert_eq!(segments, of_each * 20 * MOST_LIVE as u64, "{flood:?}");
        println!("{flood:?}: {} kB, {} kB", with_few / 1024, with_many / 1024);
        // Five times as many connections, and 4 MiB more for what depends on the allocator.
        assert!(with_many < with_few + (4 << 20), "{flood:?}: {with_few}, {with_many}");
    }
}

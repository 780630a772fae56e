//! Captures made by hand, packet by packet.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::io::Cursor;
use std::net::SocketAddr;

use knee_pcap::{Analysis, AnalysisOptions, Input, analyse};
use knee_queue::Ecn;
use knee_run::addresses::address;
use knee_wire::Segment;
use knee_wire::packet::Packet;
use knee_wire::{Interface, Record, Writer, link};

/// A millisecond, in ns.
pub const MS: u64 = 1_000_000;
/// Payload of a full segment, with timestamps.
pub const MSS: u32 = 1448;

/// A connection whose packets are written down: `a` is host 0, `b` host 1.
pub struct Trace {
    pub packets: Vec<(u64, Packet)>,
    /// Initial sequence numbers of `a` and `b`.
    pub origins: [u32; 2],
}

impl Trace {
    pub fn new(origins: [u32; 2]) -> Trace {
        Trace { packets: Vec::new(), origins }
    }

    /// A packet of `a` (0) or `b` (1), its numbers counted from the initial ones.
    pub fn add(
        &mut self,
        at_ns: u64,
        from: usize,
        flags: u16,
        seq: u64,
        len: u32,
        ack: u64,
    ) -> &mut Packet {
        let end = |host: usize| SocketAddr::new(address(host, false), 1000 + host as u16);
        let stamp = |at_ns: u64| (at_ns / MS) as u32;
        let heard = self.packets.iter().rev().find(|packet| packet.1.source == end(1 - from));
        let echo = heard.and_then(|packet| packet.1.timestamps).map_or(0, |stamps| stamps.0);
        let packet = Packet {
            source: end(from),
            destination: end(1 - from),
            flags,
            ecn: Ecn::NotEct,
            seq: self.origins[from].wrapping_add(seq as u32),
            len,
            ack: self.origins[1 - from].wrapping_add(ack as u32),
            window: 30_000,
            mss: None,
            window_scale: None,
            sack_ok: false,
            timestamps: Some((stamp(at_ns), echo)),
            sacks: Vec::new(),
            are_options_cut: false,
        };
        self.packets.push((at_ns, packet));
        &mut self.packets.last_mut().unwrap().1
    }

    /// SYN, SYN-ACK and ACK, seen at `a`; with these ECN flags of the SYN and the SYN-ACK.
    pub fn handshake(&mut self, at_ns: u64, rtt_ns: u64, ecn: [u16; 2]) {
        let syn = self.add(at_ns, 0, Segment::SYN | ecn[0], 0, 0, 0);
        (syn.mss, syn.window_scale, syn.sack_ok) = (Some(1460), Some(7), true);
        let answer = self.add(at_ns + rtt_ns, 1, Segment::SYN | Segment::ACK | ecn[1], 0, 0, 1);
        (answer.mss, answer.window_scale, answer.sack_ok) = (Some(1460), Some(7), true);
        self.add(at_ns + rtt_ns, 0, Segment::ACK, 1, 0, 1);
    }

    /// Full segments of `a`, some microseconds apart: numbers counted from 0.
    pub fn data(&mut self, at_ns: u64, which: std::ops::Range<u64>) {
        for (behind, segment) in which.enumerate() {
            self.segment(at_ns + 2000 * behind as u64, segment);
        }
    }

    /// A full segment of `a`.
    pub fn segment(&mut self, at_ns: u64, number: u64) -> &mut Packet {
        self.add(at_ns, 0, Segment::ACK, 1 + number * u64::from(MSS), MSS, 1)
    }

    /// An ACK of `b` of all segments below one.
    pub fn ack(&mut self, at_ns: u64, below: u64) -> &mut Packet {
        self.add(at_ns, 1, Segment::ACK, 1, 0, 1 + below * u64::from(MSS))
    }

    /// A SACK of segments: of `b`, ends counted as segments.
    pub fn sack(&mut self, at_ns: u64, below: u64, ranges: &[(u64, u64)]) {
        let origin = self.origins[0];
        let number = |segment: u64| origin.wrapping_add(1 + (segment * u64::from(MSS)) as u32);
        self.ack(at_ns, below).sacks =
            ranges.iter().map(|(from, to)| (number(*from), number(*to))).collect();
    }

    /// As a file, in the order of times.
    pub fn file(&self) -> Vec<u8> {
        self.file_with(0, |at_ns| at_ns)
    }

    /// As a file of another clock, with cut packets if `snaplen` is not 0.
    pub fn file_with(&self, snaplen: u32, clock: impl Fn(u64) -> u64) -> Vec<u8> {
        let mut packets: Vec<&(u64, Packet)> = self.packets.iter().collect();
        packets.sort_by_key(|packet| packet.0);
        written(&packets, snaplen, clock)
    }

    /// As a file, in the order in which they were added.
    pub fn unsorted(&self) -> Vec<u8> {
        written(&self.packets.iter().collect::<Vec<_>>(), 0, |at_ns| at_ns)
    }

    pub fn analysed(&self) -> Analysis {
        analysed(vec![self.file()], &AnalysisOptions::default())
    }
}

fn written(packets: &[&(u64, Packet)], snaplen: u32, clock: impl Fn(u64) -> u64) -> Vec<u8> {
    let interface = Interface { name: "x".to_owned(), link: link::RAW, snaplen };
    let mut writer = Writer::new(Vec::new(), "x", &[interface]).unwrap();
    for (at_ns, packet) in packets {
        let mut data = Vec::new();
        packet.encode_headers(&mut data).unwrap();
        let original_len = data.len() as u32 + packet.len;
        let record =
            Record { at_ns: clock(*at_ns), original_len, data: &data, ..Record::default() };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap()
}

/// Analyses files that are in memory.
pub fn analysed(files: Vec<Vec<u8>>, options: &AnalysisOptions) -> Analysis {
    let inputs = files.into_iter().enumerate();
    let inputs =
        inputs.map(|(at, file)| Input::Reader(format!("file {at}"), Box::new(Cursor::new(file))));
    analyse(inputs.collect(), options, &mut |_| ()).unwrap()
}

//! Any bytes as a conversation of TCP packets, seen at one place or at both ends: analysed, and all that was found shown.
#![no_main]

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use knee_fuzz::{Numbers, reached};
use knee_pcap::diagnosis::findings;
use knee_pcap::{AnalysisOptions, Input, Show, analyse, text};
use knee_queue::Ecn;
use knee_wire::Segment;
use knee_wire::packet::Packet;
use knee_wire::{Interface, Record, Writer, link};

const MSS: u32 = 1448;
/// So that a case takes milliseconds.
const MOST_PACKETS: usize = 2000;
const US: u64 = 1000;

/// One connection: `a` (0) mostly sends, `b` (1) mostly acknowledges.
#[derive(Clone, Copy, Default)]
struct Flow {
    /// The next byte of each, from its initial number.
    next: [u32; 2],
    /// Up to where each was acknowledged.
    acked: [u32; 2],
}

struct Talk<'a> {
    numbers: Numbers<'a>,
    flows: [Flow; 4],
    now_ns: u64,
    packets: Vec<(u64, usize, Packet)>,
}

impl Talk<'_> {
    fn packet(&self, flow: usize, from: usize) -> Packet {
        let end = |side: usize| {
            let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + side as u8));
            SocketAddr::new(address, [1000 + flow as u16, 80][side])
        };
        let of = &self.flows[flow];
        let tick = (self.now_ns / 1_000_000) as u32;
        Packet {
            source: end(from),
            destination: end(1 - from),
            flags: Segment::ACK,
            ecn: Ecn::NotEct,
            seq: of.next[from],
            len: 0,
            ack: of.acked[1 - from],
            window: 30_000,
            mss: None,
            window_scale: None,
            sack_ok: false,
            timestamps: Some((tick, tick)),
            sacks: Vec::new(),
            are_options_cut: false,
        }
    }

    fn push(&mut self, from: usize, packet: Packet) {
        if self.packets.len() < MOST_PACKETS {
            self.packets.push((self.now_ns, from, packet));
        }
    }

    fn handshake(&mut self, flow: usize) {
        let (rtt_us, ecn) = (u64::from(self.numbers.edgy()), self.numbers.is_odd());
        let of = &mut self.flows[flow];
        of.next = [0, 0];
        of.acked = [0, 0];
        let ecn =
            [Segment::ECE | Segment::CWR, Segment::ECE].map(|bits| if ecn { bits } else { 0 });
        for (from, flags) in [(0, Segment::SYN), (1, Segment::SYN | Segment::ACK)] {
            let mut syn = self.packet(flow, from);
            syn.flags = flags | ecn[from];
            (syn.mss, syn.window_scale, syn.sack_ok) = (Some(1460), Some(7), true);
            self.push(from, syn);
            self.now_ns += rtt_us * US;
            self.flows[flow].next[from] = 1;
            self.flows[flow].acked[from] = 1;
        }
        let ack = self.packet(flow, 0);
        self.push(0, ack);
    }

    /// Segments of one side, evenly spaced, as many as the next byte says.
    fn data(&mut self, flow: usize, from: usize) {
        let (count, gap_us) = (self.numbers.u8(), u64::from(self.numbers.edgy()));
        let ecn = Ecn::from_tos(self.numbers.u8() % 4);
        for _ in 0..count {
            let mut segment = self.packet(flow, from);
            (segment.len, segment.ecn) = (MSS, ecn);
            self.push(from, segment);
            let next = &mut self.flows[flow].next[from];
            *next = next.wrapping_add(MSS);
            self.now_ns += gap_us * US;
        }
    }

    /// One segment from before what was sent last.
    fn again(&mut self, flow: usize, from: usize) {
        let back = u32::from(self.numbers.u8());
        let mut segment = self.packet(flow, from);
        segment.seq = segment.seq.wrapping_sub(back * MSS);
        segment.len = MSS;
        self.push(from, segment);
    }

    /// An ACK of one side: of so many segments more, with a SACK of some beyond.
    fn ack(&mut self, flow: usize, from: usize) {
        let (more, is_ece) = (u32::from(self.numbers.u8()), self.numbers.is_odd());
        let (gap, sacked) = (u32::from(self.numbers.u8() % 8), u32::from(self.numbers.u8() % 64));
        let of = &mut self.flows[flow];
        let outstanding = of.next[1 - from].wrapping_sub(of.acked[1 - from]);
        of.acked[1 - from] = of.acked[1 - from].wrapping_add((more * MSS).min(outstanding));
        let mut ack = self.packet(flow, from);
        ack.flags |= if is_ece { Segment::ECE } else { 0 };
        if sacked > 0 {
            let start = ack.ack.wrapping_add(gap * MSS);
            ack.sacks = vec![(start, start.wrapping_add(sacked * MSS))];
        }
        self.push(from, ack);
    }

    /// A packet with any numbers.
    fn any(&mut self, flow: usize, from: usize) {
        let mut packet = self.packet(flow, from);
        packet.flags = self.numbers.u16() % 512;
        packet.seq = packet.seq.wrapping_add(self.numbers.edgy());
        packet.ack = packet.ack.wrapping_add(self.numbers.edgy());
        packet.len = self.numbers.edgy() % 60_000;
        packet.window = self.numbers.u16();
        packet.ecn = Ecn::from_tos(self.numbers.u8() % 4);
        packet.timestamps = self.numbers.is_odd().then(|| (self.numbers.u32(), self.numbers.u32()));
        self.push(from, packet);
    }

    fn step(&mut self) {
        let what = self.numbers.u8();
        let (flow, from) = (usize::from(what >> 6), usize::from(what >> 5 & 1));
        match what % 16 {
            0 => self.handshake(flow),
            1..=3 => self.data(flow, from),
            4 => self.again(flow, from),
            5..=8 => self.ack(flow, from),
            9 => self.now_ns += u64::from(self.numbers.u8()) * US,
            10 => self.path(flow, from),
            11 | 12 => self.now_ns += u64::from(self.numbers.u8()) * 1000 * US,
            13 => {
                let mut end = self.packet(flow, from);
                end.flags |= self.numbers.one_of(&[Segment::FIN, Segment::RST, Segment::PSH]);
                self.push(from, end);
            }
            14 => self.round(flow, from),
            _ => self.any(flow, from),
        }
    }

    /// Round trips over a bottleneck that marks above so many packets, or drops what comes beyond so many a round trip.
    fn path(&mut self, flow: usize, from: usize) {
        let (rounds, base_us) = (self.numbers.u8() % 64, u64::from(self.numbers.edgy()) + 1);
        let gap_us = u64::from(self.numbers.u8() / 4) + 1;
        let (k, tokens) = (u64::from(self.numbers.u8()), u64::from(self.numbers.u8()));
        let mut window = u64::from(self.numbers.u8() % 64) + 2;
        let mut lost: Vec<u32> = Vec::new();
        for _ in 0..rounds {
            let begin_ns = self.now_ns;
            let again = std::mem::take(&mut lost);
            let mut again = again.into_iter();
            let mut is_marked = false;
            for position in 0..window {
                self.now_ns = begin_ns + position * US;
                let mut segment = self.packet(flow, from);
                segment.len = MSS;
                match again.next() {
                    Some(seq) => segment.seq = seq,
                    None => {
                        let next = &mut self.flows[flow].next[from];
                        *next = next.wrapping_add(MSS);
                    }
                }
                let seq = segment.seq;
                segment.ecn = Ecn::Ect0;
                self.push(from, segment);
                if tokens > 0 && position >= tokens {
                    lost.push(seq);
                    continue;
                }
                self.now_ns = begin_ns + (base_us + position * gap_us) * US;
                let of = &mut self.flows[flow];
                of.acked[from] = lost.first().copied().unwrap_or(of.next[from]);
                let mut ack = self.packet(flow, 1 - from);
                if !lost.is_empty() {
                    ack.sacks = vec![(seq, seq.wrapping_add(MSS))];
                }
                if k > 0 && position > k {
                    (is_marked, ack.flags) = (true, ack.flags | Segment::ECE);
                }
                self.push(1 - from, ack);
            }
            lost.extend(again);
            self.now_ns = begin_ns + (base_us + window * gap_us) * US;
            window = if is_marked || !lost.is_empty() { window / 2 + 1 } else { window + 2 };
        }
    }

    /// Round trips as they are on a path without a queue: each ACK lets more go.
    fn round(&mut self, flow: usize, from: usize) {
        let (rounds, window) = (self.numbers.u8() % 32, u32::from(self.numbers.u8()));
        let rtt_us = u64::from(self.numbers.edgy()).max(1);
        let grows = u32::from(self.numbers.u8() % 4);
        for round in 0..u32::from(rounds) {
            for _ in 0..(window + grows * round).min(200) {
                let mut segment = self.packet(flow, from);
                segment.len = MSS;
                self.push(from, segment);
                let next = &mut self.flows[flow].next[from];
                *next = next.wrapping_add(MSS);
                self.now_ns += US;
            }
            self.now_ns += rtt_us * US;
            self.flows[flow].acked[from] = self.flows[flow].next[from];
            let ack = self.packet(flow, 1 - from);
            self.push(1 - from, ack);
        }
    }
}

/// The packets as they pass a place, of which their sender is so far away.
fn file(packets: &[(u64, usize, Packet)], away_ns: [u64; 2], skips: u8) -> Vec<u8> {
    let interface = Interface { name: "x".to_owned(), link: link::RAW, snaplen: 0 };
    let mut writer = Writer::new(Vec::new(), "x", &[interface]).expect("a Vec takes all");
    let mut order: Vec<_> =
        packets.iter().map(|(at, from, packet)| (at + away_ns[*from], packet)).collect();
    order.sort_by_key(|(at_ns, _)| *at_ns);
    for (number, (at_ns, packet)) in order.into_iter().enumerate() {
        // Lost on the way to this place, or by the capture.
        if skips > 0 && number % (usize::from(skips) + 2) == 3 {
            continue;
        }
        let mut data = Vec::new();
        if packet.encode_headers(&mut data).is_err() {
            continue;
        }
        let original_len = data.len() as u32 + packet.len;
        let record = Record { at_ns, original_len, data: &data, ..Record::default() };
        writer.write(&record).expect("a Vec takes all");
    }
    writer.finish().expect("a Vec takes all")
}

knee_fuzz::target!(|bytes: &[u8]| {
    let mut numbers = Numbers(bytes);
    let (places, away_us, skips) = (numbers.u8(), u64::from(numbers.u16()), numbers.u8());
    let mut talk =
        Talk { numbers, flows: Default::default(), now_ns: 1_000_000_000, packets: Vec::new() };
    while !talk.numbers.is_over() && talk.packets.len() < MOST_PACKETS {
        talk.step();
    }
    let away_ns = away_us * US;
    let mut files = vec![file(&talk.packets, [0, 0], if places & 2 != 0 { skips } else { 0 })];
    if places & 1 != 0 {
        files.push(file(&talk.packets, [away_ns, 0], skips));
    }
    let named = |(at, file)| Input::Reader(format!("file {at}"), Box::new(Cursor::new(file)));
    let inputs = files.into_iter().enumerate().map(named).collect();
    let options = AnalysisOptions { flows: vec![1], ..AnalysisOptions::default() };
    let mut analysis = analyse(inputs, &options, &mut |_| ()).expect("what we have written");
    analysis.findings = findings(&analysis);
    analysis.findings.iter().for_each(|finding| reached(finding.kind));
    if !analysis.whole.crossings.is_empty() {
        reached("crossing");
    }
    for flow in &analysis.flows {
        for way in [&flow.a_to_b, &flow.b_to_a] {
            let of = &way.retransmitted;
            assert_eq!(of.segments, of.fast + of.rto + of.after_rto + of.tlp + of.unclear);
            assert!(way.rounds.iter().all(|round| round.round_trips > 0));
        }
    }
    let show = Show { top: 20, flow: Some(1), rounds: true, packets: true };
    assert!(!text(&analysis, show).is_empty());
});

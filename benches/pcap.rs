//! Speed of the capture analysis.
//!
//! `cargo bench -p knee-pcap` prints packets per second of processor time. It analyses a synthetic
//! capture in memory, with many flows that send, lose and repair. Quote medians of several runs.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::Cursor;
use std::net::{Ipv4Addr, SocketAddr};

use knee_pcap::{AnalysisOptions, Input, analyse};
use knee_queue::Ecn;
use knee_wire::Segment;
use knee_wire::packet::Packet;
use knee_wire::{Interface, Record, Writer, link};

const REPEATS: usize = 5;
const MSS: u32 = 1448;
const US: u64 = 1_000;
/// Segments per round trip, and round trips per flow.
const WINDOW: u64 = 40;
const RTT_NS: u64 = 1000 * US;

fn main() {
    println!("{:<34} {:>12}", "capture", "packets/s");
    for flows in [1_u16, 100, 10_000] {
        let (file, packets) = capture(flows, 1_000_000);
        let mut speeds: Vec<f64> = Vec::new();
        for _ in 0..REPEATS {
            let input = Input::Reader("bench".to_owned(), Box::new(Cursor::new(file.clone())));
            let start = cpu_seconds();
            let analysis = analyse(vec![input], &AnalysisOptions::default(), &mut |_| ()).unwrap();
            speeds.push(packets as f64 / (cpu_seconds() - start));
            assert_eq!(analysis.whole.files[0].tcp_packets, packets);
        }
        speeds.sort_by(f64::total_cmp);
        println!("{:<34} {:>12.0}", format!("{flows} flows"), speeds[REPEATS / 2]);
    }
}

/// Builds a capture of parallel flows: windows of segments with one ACK for two segments. Every
/// tenth window loses one segment, which is retransmitted.
fn capture(flows: u16, least: u64) -> (Vec<u8>, u64) {
    let interface = Interface { name: "x".to_owned(), link: link::RAW, snaplen: 100 };
    let mut writer = Writer::new(Vec::new(), "bench", &[interface]).unwrap();
    let mut packets = 0;
    let mut write = |at_ns: u64, packet: &Packet| {
        let mut data = Vec::new();
        packet.encode_headers(&mut data).unwrap();
        let original_len = data.len() as u32 + packet.len;
        writer.write(&Record { at_ns, original_len, data: &data, ..Record::default() }).unwrap();
        packets += 1;
    };
    let rounds = least / (u64::from(flows) * WINDOW * 3 / 2) + 1;
    for round in 0..rounds {
        for flow in 0..flows {
            let at_ns = (round + 1) * RTT_NS + u64::from(flow) * US / 10;
            let first = round * WINDOW;
            for i in 0..WINDOW {
                write(at_ns + i * US, &segment(flow, at_ns, first + i));
            }
            let loses = round % 10 == 9;
            for i in (2..=WINDOW).step_by(2) {
                let sacked = loses.then_some((first, i));
                write(at_ns + RTT_NS / 2 + i * US, &ack(flow, at_ns, first + i, sacked));
            }
            if loses {
                write(at_ns + RTT_NS / 2 + 50 * US, &segment(flow, at_ns + RTT_NS / 2, first));
                write(at_ns + RTT_NS / 2 + 90 * US, &ack(flow, at_ns, first + WINDOW, None));
            }
        }
    }
    (writer.finish().unwrap(), packets)
}

fn base(flow: u16, at_ns: u64, is_back: bool) -> Packet {
    let end = |host: u8, port| SocketAddr::new(Ipv4Addr::new(198, 18, 0, host).into(), port);
    let mut ends = [end(1, 10_000 + flow), end(2, 80)];
    if is_back {
        ends.reverse();
    }
    Packet {
        source: ends[0],
        destination: ends[1],
        flags: Segment::ACK,
        ecn: Ecn::Ect0,
        seq: 1,
        len: 0,
        ack: 1,
        window: 30_000,
        mss: None,
        window_scale: None,
        sack_ok: false,
        timestamps: Some(((at_ns / 1_000_000) as u32, (at_ns / 1_000_000) as u32)),
        sacks: Vec::new(),
        are_options_cut: false,
    }
}

fn segment(flow: u16, at_ns: u64, number: u64) -> Packet {
    let seq = 1_u32.wrapping_add((number * u64::from(MSS)) as u32);
    Packet { seq, len: MSS, ..base(flow, at_ns, false) }
}

/// An ACK of all data below segment `below`. With `sacked`, the first segment is missing and SACK
/// reports all segments behind it.
fn ack(flow: u16, at_ns: u64, below: u64, sacked: Option<(u64, u64)>) -> Packet {
    let number = |segment: u64| 1_u32.wrapping_add((segment * u64::from(MSS)) as u32);
    let mut packet = base(flow, at_ns, true);
    packet.ack = number(below);
    if let Some((first, count)) = sacked {
        packet.ack = number(first);
        packet.sacks = vec![(number(first + 1), number(first + count))];
    }
    packet
}

/// Processor time of this process, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

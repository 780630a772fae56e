//! Whatever a capture holds, it is analysed to its end or refused in one line, soon and in bounded memory.

use std::io::{self, Cursor, Read, Write};

use crate::common::{MS, MSS, Trace, analysed};
use knee_pcap::diagnosis::findings;
use knee_pcap::model::Ended;
use knee_pcap::{Analysis, AnalysisOptions, Error, Input, Show, analyse, text};
use proptest::prelude::*;

fn try_analysed(file: Vec<u8>) -> Result<Analysis, Error> {
    let input = Input::Reader("x".to_owned(), Box::new(Cursor::new(file)));
    let options = AnalysisOptions {
        flows: vec![1],
        most_live: 64,
        most_flows: 16,
        ..AnalysisOptions::default()
    };
    let mut analysis = analyse(vec![input], &options, &mut |_| ())?;
    analysis.findings = findings(&analysis);
    Ok(analysis)
}

fn trace() -> Trace {
    let mut trace = Trace::new([u32::MAX - 5000, 77]);
    trace.handshake(0, MS, [0xc0, 0x40]);
    for round in 0..20 {
        trace.data((2 + round) * MS, round * 5..round * 5 + 5);
        trace.sack((3 + round) * MS - 1000, round * 5 + 1, &[(round * 5 + 3, round * 5 + 4)]);
    }
    trace
}

/// Numbers that are at the edges of something.
fn edges() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..3000_u32, Just(u32::MAX), Just(1 << 31), (1_u32 << 30)..(1 << 31)]
}

proptest! {
    #[test]
    fn mutated_captures_end_well(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), end in any::<prop::sample::Index>(), is_cut in any::<bool>()) {
        let mut file = trace().file();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if is_cut {
            file.truncate(end.index(file.len()));
        }
        match try_analysed(file) {
            Ok(analysis) => {
                let show = Show { top: 20, flow: Some(1), rounds: true, packets: true };
                prop_assert!(!text(&analysis, show).is_empty());
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn random_packets_end_well(tick_ns in prop_oneof![Just(1000_u64), Just(1 << 31)], packets in prop::collection::vec(
        (edges(), 0..2_usize, 0..512_u16, edges(), edges(), (0..3_u32, 0..40_000_u32), (edges(), edges()), 0..3_usize), 1..300)) {
        let mut trace = Trace::new([7, 9]);
        for (at, from, flags, seq, ack, (kind, len), stamps, sacks) in packets {
            let len = if kind == 0 { 0 } else { len };
            // Times go back as well as ahead.
            let packet = trace.add(u64::from(at) * tick_ns, from, flags, seq.into(), len, ack.into());
            packet.timestamps = Some(stamps);
            packet.sacks = vec![(seq, ack), (stamps.0, stamps.1)][..sacks.min(2)].to_vec();
            packet.source.set_port(1000 + (stamps.1 % 5) as u16);
        }
        let shuffled = Trace { packets: trace.packets.clone(), origins: trace.origins };
        let mut file = Vec::new();
        file.extend(shuffled.unsorted());
        let analysis = try_analysed(file).unwrap();
        for flow in &analysis.flows {
            for way in [&flow.a_to_b, &flow.b_to_a] {
                let of = &way.retransmitted;
                prop_assert_eq!(of.segments, of.fast + of.rto + of.after_rto + of.tlp + of.unclear);
                prop_assert!(way.rounds.iter().all(|round| round.round_trips > 0));
            }
        }
    }
}

#[test]
fn modes_of_rtts_may_be_seconds() {
    let mut trace = Trace::new([1, 2]);
    trace.handshake(0, 1000 * MS, [0xc0, 0x40]);
    let mut at_ns = 2000 * MS;
    for round in 0..240 {
        let rtt_ns = [1, 6, 40][round as usize % 3] * 1000 * MS;
        trace.data(at_ns, round * 4..round * 4 + 4);
        trace.ack(at_ns + rtt_ns, round * 4 + 4);
        at_ns += rtt_ns + MS;
    }
    let analysis = try_analysed(trace.file()).unwrap();
    assert_eq!(analysis.flows[0].a_to_b.rtt.count(), 240);
}

#[test]
fn a_flood_of_connections_is_bounded() {
    let mut trace = Trace::new([1, 2]);
    for i in 0..5000_u16 {
        let at_ns = u64::from(i) * 1000;
        trace.segment(at_ns, 0).source.set_port(10_000 + i);
    }
    let options = AnalysisOptions { most_live: 100, most_flows: 50, ..AnalysisOptions::default() };
    let analysis = analysed(vec![trace.file()], &options);
    assert_eq!(analysis.whole.flows, 5000);
    assert_eq!(analysis.whole.totals.segments, 5000);
    assert!(analysis.flows.len() <= 50, "{}", analysis.flows.len());
    assert_eq!(analysis.whole.flows_not_kept, 5000 - analysis.flows.len() as u64);
    assert!(analysis.flows.iter().any(|flow| flow.ended == Ended::TableFull));
}

#[test]
fn idle_and_closed_connections_are_finished() {
    let mut trace = Trace::new([1, 2]);
    trace.data(0, 0..3);
    for i in 0..6000_u64 {
        trace.segment((400_000 + i) * MS, i % 100).source.set_port(2000);
    }
    let analysis = trace.analysed();
    assert_eq!(analysis.flows[0].ended, Ended::Idle);
    assert_eq!(analysis.flows[0].a_to_b.bytes, u64::from(3 * MSS));
}

#[test]
fn what_is_compressed_is_read_as_it_comes() {
    let plain = trace().file();
    let expected = try_analysed(plain.clone()).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let fast = ruzstd::encoding::CompressionLevel::Fastest;
    // Two frames, with one between that is to be skipped.
    let (first, second) = plain.split_at(plain.len() / 2);
    let mut zstd = ruzstd::encoding::compress_to_vec(first, fast);
    zstd.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    zstd.extend(ruzstd::encoding::compress_to_vec(second, fast));
    let mut xz =
        lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    xz.write_all(&plain).unwrap();
    let xz = xz.finish().unwrap();
    for (name, file) in [("gzip", gzip), ("zstd", zstd), ("xz", xz)] {
        let found = try_analysed(file.clone()).unwrap();
        assert_eq!(found.whole.files[0].packets, expected.whole.files[0].packets, "{name}");
        assert_eq!(found.packets, expected.packets, "{name}");
        // One that breaks off is read as far as it goes: half of it is there, or the first of its frames.
        let cut = try_analysed(file[..file.len() * 3 / 4].to_vec()).unwrap();
        let (cut, all) = (&cut.whole.files[0], expected.whole.files[0].packets);
        assert!((all * 2 / 5..all).contains(&cut.packets), "{name}: {} of {all}", cut.packets);
        let broken = cut.unread.broken.as_deref().unwrap_or_default();
        assert!(broken.starts_with("the rest is unreadable: "), "{name}: {broken}");
    }
}

/// Gives its bytes, then fails.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the disk is gone")),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn packets_before_a_failure_count_and_its_reason_is_said() {
    let file = trace().file();
    let analysed = |bytes: usize| {
        let source = Failing(Cursor::new(file[..bytes].to_vec()));
        let input = Input::Reader("x".to_owned(), Box::new(source));
        analyse(vec![input], &AnalysisOptions::default(), &mut |_| ())
    };
    let all = try_analysed(file.clone()).unwrap().whole.files[0].packets;
    let found = analysed(file.len()).unwrap();
    let broken = found.whole.files[0].unread.broken.as_deref();
    let said = format!("the rest is unreadable: the disk is gone, after {all} packets");
    assert_eq!((found.whole.files[0].packets, broken), (all, Some(said.as_str())));
    let why = analysed(10).unwrap_err().to_string();
    assert_eq!(why, "x: it cannot be read: the disk is gone");
}

#[test]
fn what_is_no_capture_is_refused() {
    let why = try_analysed(b"hello, world, I am a text".to_vec()).unwrap_err();
    assert_eq!(why.to_string(), "x: it is neither a pcap nor a pcapng file");
    let why = try_analysed(Vec::new()).unwrap_err();
    assert!(why.to_string().starts_with("x: "), "{why}");
    let missing = vec![Input::named("/no/such/file".as_ref())];
    let why = analyse(missing, &AnalysisOptions::default(), &mut |_| ()).unwrap_err();
    assert!(why.to_string().starts_with("/no/such/file: cannot read: "), "{why}");
}

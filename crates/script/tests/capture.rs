//! Captures of all kinds become scripts, and broken ones are said to be so.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DropTailConfig, Ecn, Limit, QueueConfig};
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Run, Sampling, Traffic};
use knee_run::topology::{Cable, Star};
use knee_script::capture::{Ending, read, write};
use knee_script::connections::{segments, survey};
use knee_script::record::{About, record};
use knee_script::{Limits, Profile, Script, ScriptOutcome, SimStack, play};
use knee_sim::tap::{Side, TapAt, Tapped};
use knee_wire::Segment;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

const CLIENT_ISS: u32 = 0xffff_f000;
const SERVER_ISS: u32 = 77;

/// A flow of 60 kB through a queue of this many packets, at its sender.
fn tapped(limit_pkts: u32) -> Vec<Tapped> {
    tapped_of(HostConfig::new(LinuxVersion(6, 1)), limit_pkts)
}

fn tapped_of(host: HostConfig, limit_pkts: u32) -> Vec<Tapped> {
    let cable = |bps| Cable {
        delay: Duration::from_us(400),
        ..Cable::new(
            Rate::from_bps(bps),
            QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(limit_pkts) }),
        )
    };
    let host = |name: &str| (name.to_owned(), host.clone());
    let network = Star {
        hosts: vec![host("a"), host("b")],
        up: cable(10_000_000_000),
        down: cable(100_000_000),
    };
    let run = Run {
        seed: 1,
        end: Time::from_ms(1000),
        until_done: true,
        network: network.build(),
        flows: vec![Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name("reno").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: Some(86_880) },
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            sampled: false,
        }],
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Default::default(),
    };
    let kept: Rc<RefCell<Vec<Tapped>>> = Rc::default();
    let sink = Rc::clone(&kept);
    let at = TapAt { flow: 0, side: Side::Connecting };
    knee_sim::simulate_tapped(&run, at, move |tapped| sink.borrow_mut().push(tapped)).unwrap();
    kept.take()
}

/// The IP packet of a segment.
fn ip(tapped: &Tapped, ipv6: bool) -> Vec<u8> {
    let Tapped { is_out, segment, .. } = tapped;
    let (iss, peer_iss) = if *is_out { (CLIENT_ISS, SERVER_ISS) } else { (SERVER_ISS, CLIENT_ISS) };
    let mut options = Vec::new();
    let syn = segment.has(Segment::SYN);
    if let Some(mss) = segment.mss {
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
    }
    if segment.sack_ok {
        options.extend([4, 2]);
    }
    // An unknown option.
    options.extend([254, 4, 1, 2]);
    if let Some((value, echo)) = segment.timestamps {
        options.extend([8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    if let Some(scale) = segment.window_scale {
        options.extend([3, 3, scale]);
    }
    if !segment.sacks.is_empty() {
        options.extend([5, 2 + 8 * segment.sacks.len() as u8]);
        for (start, end) in &segment.sacks {
            options.extend(peer_iss.wrapping_add(*start).to_be_bytes());
            options.extend(peer_iss.wrapping_add(*end).to_be_bytes());
        }
    }
    options.resize(options.len().next_multiple_of(4), 1);
    let (a, b) = ([0x12, 0x34], [0, 80]);
    let (from, to) = if *is_out { (a, b) } else { (b, a) };
    let mut tcp = Vec::new();
    tcp.extend(from);
    tcp.extend(to);
    tcp.extend(iss.wrapping_add(segment.seq).to_be_bytes());
    let ack = if segment.has(Segment::ACK) { peer_iss.wrapping_add(segment.ack) } else { 0 };
    tcp.extend(ack.to_be_bytes());
    let words = (20 + options.len() as u16) / 4;
    tcp.extend((words << 12 | segment.flags).to_be_bytes());
    // Both ends scale by 7.
    let window = segment.window_bytes >> if syn { 0 } else { 7 };
    tcp.extend((window.min(65_535) as u16).to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(&options);
    tcp.resize(tcp.len() + segment.len as usize, 0x55);
    let ecn = match segment.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let (one, two) = if *is_out { (1, 2) } else { (2, 1) };
    let mut packet = Vec::new();
    if ipv6 {
        // With a hop-by-hop header of 8 bytes.
        packet.extend([0x60, ecn << 4, 0, 0]);
        packet.extend((tcp.len() as u16 + 8).to_be_bytes());
        packet.extend([0, 64]);
        for last in [one, two] {
            packet.extend([0xfd; 15]);
            packet.push(last);
        }
        packet.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    } else {
        packet.extend([0x45, ecn]);
        packet.extend((tcp.len() as u16 + 20).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, one, 10, 0, 0, two]);
    }
    packet.extend(tcp);
    packet
}

/// A link layer's number and its header.
fn with_link(link: u16, ip: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let mut frame = match link {
        1 => [&[2; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7], &kind].concat(),
        113 => [&[0; 14][..], &kind].concat(),
        276 => [&kind[..], &[0; 18]].concat(),
        0 => vec![2, 0, 0, 0],
        _ => Vec::new(),
    };
    frame.extend(ip);
    frame
}

#[derive(Clone, Copy)]
struct Format {
    big: bool,
    /// Nanoseconds in classic files; pcapng then has units of 2^-30 s.
    nanoseconds: bool,
    ng: bool,
    link: u16,
    ipv6: bool,
    snaplen: usize,
}

const PLAIN: Format =
    Format { big: false, nanoseconds: true, ng: false, link: 101, ipv6: false, snaplen: 65_535 };

fn file(segments: &[Tapped], format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    let u32s = |out: &mut Vec<u8>, values: &[u32]| {
        for value in values {
            out.extend(if format.big { value.to_be_bytes() } else { value.to_le_bytes() });
        }
    };
    let halves = |a: u16, b: u16| {
        let (a, b) = (u32::from(a), u32::from(b));
        if format.big { a << 16 | b } else { b << 16 | a }
    };
    if format.ng {
        u32s(&mut out, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, halves(1, 0), u32::MAX, u32::MAX, 28]);
        // if_tsresol, then if_tsoffset of 1000 s.
        u32s(&mut out, &[1, 44, halves(format.link, 0), 0, halves(9, 1)]);
        out.extend([if format.nanoseconds { 9 } else { 0x80 | 30 }, 0, 0, 0]);
        u32s(&mut out, &[halves(14, 8)]);
        u32s(&mut out, if format.big { &[0, 1000] } else { &[1000, 0] });
        u32s(&mut out, &[0, 44]);
    } else {
        let magic = if format.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        u32s(&mut out, &[magic, halves(2, 4), 0, 0, 65_535, u32::from(format.link)]);
    }
    for tapped in segments {
        let frame = with_link(format.link, &ip(tapped, format.ipv6));
        let data = &frame[..frame.len().min(format.snaplen)];
        let (cut, all) = (data.len() as u32, frame.len() as u32);
        let ns = 5_000_000_000 + tapped.at.ns();
        if format.ng {
            let ticks = if format.nanoseconds {
                ns
            } else {
                ((u128::from(ns) << 30).div_ceil(1_000_000_000)) as u64
            };
            let total = 32 + cut.next_multiple_of(4);
            u32s(&mut out, &[6, total, 0, (ticks >> 32) as u32, ticks as u32, cut, all]);
            out.extend(data);
            out.resize(out.len().next_multiple_of(4), 0);
            u32s(&mut out, &[total]);
        } else {
            let part = (ns % 1_000_000_000) as u32 / if format.nanoseconds { 1 } else { 1000 };
            u32s(&mut out, &[(ns / 1_000_000_000) as u32, part, cut, all]);
            out.extend(data);
        }
    }
    out
}

fn script_of(file: &[u8], ipv6: bool) -> String {
    let found = survey(file).unwrap();
    assert_eq!(found.ending.broken, None);
    assert_eq!(found.connections.len(), 1, "{found:?}");
    assert!(found.connections[0].has_syn && found.connections[0].client.port() == 0x1234);
    let (segments, is_cut) = segments(file, 0, Side::Connecting).unwrap();
    let mut about = About { title: "a capture".to_owned(), is_cut, ..About::default() };
    about.settings.ipv6 = ipv6;
    record(&about, &segments).unwrap()
}

fn assert_plays(text: &str) -> Vec<Tapped> {
    let script = Script::parse("captured.script", text).unwrap();
    let profile = Profile { linux: LinuxVersion(6, 1), hz: 1000 };
    let mut stack = SimStack::new(&script.settings, profile).unwrap();
    let played = play(&script, &mut stack, Limits::default()).unwrap();
    assert_eq!(played.outcome, ScriptOutcome::Passed, "{text}\n{:#?}", played.account);
    played.segments
}

#[test]
fn a_capture_becomes_a_script_that_plays() {
    let text = script_of(&file(&tapped(1000), PLAIN), false);
    assert!(text.contains("mss 1448\n") && text.contains("write 60*mss\n"), "{text}");
    assert_plays(&text);
}

#[test]
fn a_capture_with_losses_plays() {
    let text = script_of(&file(&tapped(12), PLAIN), false);
    assert!(text.contains("sack ") && text.contains("lost"), "{text}");
    assert_plays(&text);
}

#[test]
fn formats_byte_orders_links_and_cut_packets_are_all_the_same() {
    let segments = tapped(12);
    let expected = script_of(&file(&segments, PLAIN), false);
    for big in [false, true] {
        for ng in [false, true] {
            for link in [1, 113, 276, 101, 0, 12, 228] {
                // The longest link layer, IPv4, TCP and its options.
                let format = Format { big, ng, link, snaplen: 22 + 20 + 60, ..PLAIN };
                assert_eq!(script_of(&file(&segments, format), false), expected);
            }
        }
    }
}

#[test]
fn microseconds_and_binary_fractions_are_times() {
    let segments = tapped(1000);
    let ng = Format { ng: true, nanoseconds: false, ..PLAIN };
    assert_plays(&script_of(&file(&segments, ng), false));
    let times = |format| {
        let mut times = Vec::new();
        let bytes = file(&segments, format);
        let each = |packet: knee_script::capture::Captured| {
            times.push(packet.at_ns);
            ControlFlow::Continue(())
        };
        read(&bytes[..], each).unwrap();
        times
    };
    let plain = times(PLAIN);
    let us = times(Format { nanoseconds: false, ..PLAIN });
    assert!(plain.iter().zip(&us).all(|(ns, us)| ns - us < 1000), "{us:?}");
    for big in [false, true] {
        let ng = times(Format { big, ..ng });
        let close = |(a, b): (&u64, &u64)| a.abs_diff(b + 1_000_000_000_000) <= 1;
        assert!(ng.iter().zip(&plain).all(close), "{ng:?}");
    }
}

#[test]
fn ipv6_with_extension_headers_is_read() {
    let text = script_of(&file(&tapped(1000), Format { ipv6: true, link: 1, ..PLAIN }), true);
    assert!(text.contains("ip 6\n"), "{text}");
}

#[test]
fn a_capture_that_begins_within_a_connection_has_a_handshake_made_up() {
    let all = tapped(1000);
    let bytes = file(&all[20..], PLAIN);
    let found = survey(&bytes[..]).unwrap();
    assert!(!found.connections[0].has_syn);
    let (segments, _) = segments(&bytes[..], 0, Side::Connecting).unwrap();
    let text =
        record(&About { title: "a part".to_owned(), ..About::default() }, &segments).unwrap();
    assert!(text.contains("made up") && text.contains("open active, rtt "), "{text}");
}

#[test]
fn merged_segments_are_taken_apart() {
    let mut merged: Vec<Tapped> = Vec::new();
    let host = HostConfig { gso_max_segs: 8, ..HostConfig::new(LinuxVersion(6, 1)) };
    for tapped in tapped_of(host, 1000) {
        match merged.last_mut() {
            Some(last)
                if last.is_out
                    && tapped.is_out
                    && last.at == tapped.at
                    && last.segment.len > 0
                    && last.segment.len < 8 * 1448 =>
            {
                last.segment.len += tapped.segment.len;
            }
            _ => merged.push(tapped),
        }
    }
    let text = script_of(&file(&merged, PLAIN), false);
    assert!(text.contains("# Offloads merged segments") && text.contains("gso "), "{text}");
    // It need not play: what was merged does not say where skbs ended, and bursts are cut from these.
    Script::parse("captured.script", &text).unwrap();
    assert!(text.contains("repeat 10\n  out [.] len mss\nend"), "{text}");
}

/// Adds the close: the sender after the transfer, the receiver later.
fn with_end(mut segments: Vec<Tapped>, fin_with_data: bool) -> Vec<Tapped> {
    let next = 86_881;
    let is_data = |tapped: &Tapped| tapped.is_out && tapped.segment.len > 0;
    if fin_with_data {
        let last = segments.iter().rposition(is_data).unwrap();
        segments[last].segment.flags |= Segment::FIN;
        for tapped in segments.iter_mut().filter(|tapped| tapped.segment.ack == next) {
            tapped.segment.ack += 1;
        }
    }
    let of = |is_out: bool| segments.iter().rev().find(|tapped| tapped.is_out == is_out).unwrap();
    let (sent, got) = (of(true).clone(), of(false).clone());
    let mut at = segments.last().unwrap().at;
    let mut add = |after_ms, from: &Tapped, flags, seq, ack| {
        at += Duration::from_ms(after_ms);
        let flags = flags | Segment::ACK;
        let segment = Segment { flags, seq, ack, len: 0, ..from.segment.clone() };
        segments.push(Tapped { at, segment, ..from.clone() });
    };
    if !fin_with_data {
        add(5, &sent, Segment::FIN, next, 1);
        add(1, &got, 0, 1, next + 1);
    }
    add(7, &got, Segment::FIN, 1, next + 1);
    add(0, &sent, 0, next + 1, 2);
    segments
}

#[test]
fn the_end_of_a_connection_is_recorded_and_plays() {
    let text = script_of(&file(&with_end(tapped(1000), false), PLAIN), false);
    assert!(text.contains("ms close\nout [F.]"), "{text}");
    assert!(text.contains("in [F.]") && text.ends_with("out [.] ack 2\n"), "{text}");
    assert_plays(&text);
}

#[test]
fn a_fin_that_goes_with_the_last_data_was_asked_for_before() {
    let text = script_of(&file(&with_end(tapped(1000), true), PLAIN), false);
    assert!(text.contains("\nclose\n") && text.contains("out [F.] len mss"), "{text}");
    assert_plays(&text);
}

#[test]
fn a_reset_with_something_unread_is_recorded_and_plays() {
    let script = "title A reset\nopen active, rtt 10ms\n+5ms in [P.] len 100\nout [.] ack 101\n\
                  +10ms close\nout [R.] seq 1, ack 101\n";
    let played = assert_plays(script);
    let text = record(&About::default(), &played).unwrap();
    let reads = text.lines().any(|line| line == "read");
    assert!(text.contains("close\nout [R.]") && !reads, "{text}");
    assert_plays(&text);
}

#[test]
fn what_a_player_saw_is_a_capture_that_says_the_same() {
    for (ip, ipv6) in [("ip 6\n", true), ("", false)] {
        let script = format!(
            "{ip}sysctl tcp_ecn = 1\nopen active, rtt 10ms, ecn\nwrite 3*mss\nrepeat 3\n  out [.] len mss\nend\n\
             +10ms in [.] ack 1, sack 1001:2001 2001:3001\nclose\nout [F.] seq 3001\n"
        );
        let played = assert_plays(&script);
        let bytes = write(&played, ipv6).unwrap();
        let found = survey(&bytes[..]).unwrap();
        assert_eq!((found.connections.len(), found.ending.broken), (1, None));
        let (mut read, _) = segments(&bytes[..], 0, Side::Connecting).unwrap();
        for tapped in &mut read {
            tapped.at += played[0].at.since(Time::ZERO);
        }
        assert_eq!(read, played);
    }
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let all = tapped(1000);
    let mut bytes = file(&all, PLAIN);
    let mut again = all;
    for tapped in &mut again {
        tapped.segment.seq = tapped.segment.seq.wrapping_add(u32::from(tapped.is_out) * 9999);
        tapped.segment.ack = tapped.segment.ack.wrapping_add(u32::from(!tapped.is_out) * 9999);
    }
    bytes.extend(&file(&again, PLAIN)[24..]);
    let found = survey(&bytes[..]).unwrap();
    assert_eq!(found.connections.len(), 2);
    assert_eq!(found.connections[0].packets, found.connections[1].packets);
}

fn ending(bytes: &[u8]) -> Ending {
    read(bytes, |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn what_is_no_capture_is_said_in_a_sentence() {
    let says = |bytes: &[u8]| survey(bytes).unwrap_err().0;
    assert_eq!(says(b""), "it is empty");
    assert_eq!(says(b"title a script\n and more of it"), "it is neither a pcap nor a pcapng file");
    assert_eq!(says(&file(&[], PLAIN)[..10]), "it ends inside its header");
    assert_eq!(survey(&file(&[], PLAIN)[..]).unwrap().connections, []);
}

#[test]
fn a_file_that_breaks_is_read_as_far_as_it_goes() {
    for ng in [false, true] {
        let mut bytes = file(&tapped(1000), Format { ng, ..PLAIN });
        let whole = ending(&bytes);
        assert!(whole.broken.is_none() && whole.packets > 60);
        let cut = ending(&bytes[..bytes.len() - 7]);
        assert_eq!(cut.packets, whole.packets - 1);
        assert!(cut.broken.unwrap().starts_with("it ends inside a packet"));
        // A length that no packet has.
        let at = if ng { 28 + 44 + 4 } else { 24 + 8 };
        bytes[at..at + 4].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
        assert!(ending(&bytes).broken.is_some());
    }
}

#[test]
fn no_change_of_a_byte_breaks_the_reader_or_the_recorder() {
    let segments_of_flow = tapped(12);
    // A generator of its own: the bytes are the same at every run.
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for turn in 0..600 {
        let format = Format {
            ng: turn % 2 == 0,
            big: turn % 3 == 0,
            link: [1, 276, 101][turn % 3],
            ipv6: turn % 5 == 0,
            snaplen: 120,
            ..PLAIN
        };
        let mut bytes = file(&segments_of_flow, format);
        for _ in 0..=random(8) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        if turn % 7 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        let Ok(found) = survey(&bytes[..]) else { continue };
        for number in 0..found.connections.len().min(3) {
            for side in [Side::Connecting, Side::Listening] {
                let (kept, _) = segments(&bytes[..], number, side).unwrap();
                // A sentence is an answer too.
                let _ = record(&About::default(), &kept);
            }
        }
    }
}

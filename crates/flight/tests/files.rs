//! A recording survives the way through a file, and nothing else passes for one.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::cell::RefCell;
use std::rc::Rc;

use knee_algo::{AckSample, Algorithm, Call, Host, TcpSock, ca_event, ca_state, ecn_flags};
use knee_flight::{
    Ending, Error, Header, Origin, OtherWay, Reader, Record, Replay, Report, Writer, observer,
};
use proptest::prelude::*;

const HZ: u32 = 250;

fn header(name: &str) -> Header {
    let algorithm = Algorithm::by_name(name).unwrap();
    Header {
        release: "6.18.0".to_owned(),
        about: "made\nby hand".to_owned(),
        ..Header::new(algorithm, &algorithm.default_params(), Origin::Kernel, HZ)
    }
}

/// A connection's life in calls: slow start, marks, a loss, growth.
fn records(name: &str, calls: u32) -> Vec<Record> {
    let algorithm = Algorithm::by_name(name).unwrap();
    let mut instance = algorithm.instance(algorithm.default_params());
    let taken = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&taken);
    instance.observe(observer(1, move |record| sink.borrow_mut().push(record)));
    let mut host = Host::new(HZ, 7);
    host.jiffies = 100_000;
    let mut sock = TcpSock {
        snd_cwnd: 10,
        mss_cache: 1448,
        is_cwnd_limited: 1,
        ecn_flags: ecn_flags::OK,
        ..TcpSock::default()
    };
    instance.call(&Call::Init, &mut sock, &mut host);
    for i in 0..calls {
        sock.delivered += 2;
        sock.delivered_ce += i % 3;
        sock.snd_una += 2896;
        sock.snd_nxt = sock.snd_una + 20_000;
        sock.tcp_mstamp += 700;
        host.jiffies += u32::from(i % 4 == 0);
        let sample = AckSample { pkts_acked: 2, rtt_us: 900 + i as i32, in_flight: 14_480 };
        let ce = if i % 5 == 0 { ca_event::ECN_IS_CE } else { ca_event::ECN_NO_CE };
        sock.rcv_nxt += 1448;
        sock.icsk_ack_pending = 3;
        for call in [
            Call::CwndEvent { event: ce },
            Call::PktsAcked { sample },
            Call::InAckEvent { flags: 1 },
            Call::CongAvoid { ack: sock.snd_una, acked: 2 },
        ] {
            instance.call(&call, &mut sock, &mut host);
            let _ = host.take_asked_acks();
        }
        if i % 17 == 16 {
            instance.call(&Call::SetState { new_state: ca_state::RECOVERY }, &mut sock, &mut host);
            sock.snd_ssthresh = instance.call(&Call::Ssthresh, &mut sock, &mut host);
            sock.snd_cwnd = sock.snd_ssthresh;
        }
    }
    drop(instance);
    taken.take()
}

fn written(header: &Header, records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish(&Ending { ring_full: 3, ..Ending::default() }).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, Error> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

fn replayed(header: &Header, records: &[Record]) -> Report {
    let (algorithm, params) = header.algorithm().unwrap();
    let mut replay = Replay::new(algorithm, params, header.hz).unwrap();
    records.iter().for_each(|record| replay.step(record));
    replay.finish()
}

#[test]
fn what_was_written_is_read_and_replays_equal() {
    for algorithm in Algorithm::all() {
        let name = algorithm.name();
        let (header, records) = (header(name), records(name, 100));
        let bytes = written(&header, &records);
        let mut reader = Reader::new(bytes.as_slice()).unwrap();
        assert_eq!(reader.header().about, "made by hand");
        assert_eq!(reader.header().algorithm, name);
        assert_eq!(reader.header().params, header.params);
        let mut back = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            back.push(record);
        }
        assert_eq!(reader.ending().unwrap().ring_full, 3);
        assert!(format!("{back:?}") == format!("{records:?}"), "{name}");
        let report = replayed(&header, &back);
        assert!(report.is_equal(), "{report}");
        assert_eq!((report.stretches, report.flows), (1, 1));
        assert!(report.total() > 100, "{report}");
    }
}

/// Found by the fuzzer: a NUL of the file stood in the message.
#[test]
fn a_header_with_control_characters_is_refused_in_one_short_line() {
    let bytes = written(&header("dctcp"), &[]);
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let text = std::str::from_utf8(&bytes[16..16 + len]).unwrap();
    let said = |text: String| {
        let mut file = bytes[..12].to_vec();
        file.extend((text.len() as u32).to_le_bytes());
        file.extend(text.as_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&file);
        file.extend(checksum.finalize().to_le_bytes());
        read(&file).unwrap_err().to_string()
    };
    let foreign = text.replace("layout operations", "layout_operations");
    for written_by in ["written_by k\0nee", "written_by \u{1b}[31mknee", "written_by \tknee"] {
        let said = said(foreign.replace("written_by knee", written_by));
        assert_eq!(said, "its header does not fit this knee: it has control characters in it");
    }
    let long = said(foreign.replace("written_by knee", &"written_by knee".repeat(1000)));
    assert!(long.contains("wrote it") && long.len() < 400, "{long}");
}

#[test]
fn another_algorithm_is_asked_and_not_judged() {
    let records = records("dctcp", 100);
    let cubic = Algorithm::by_name("cubic").unwrap();
    let mut other = OtherWay::new(cubic, cubic.default_params(), HZ);
    let rows: Vec<_> = records.iter().map(|record| other.step(record)).collect();
    let cut = rows.iter().find(|row| row.kind == "ssthresh").unwrap();
    assert_eq!(cut.other.result, Some(cut.cwnd_before * 717 / 1024));
    assert_ne!(cut.recorded.result, cut.other.result);
    assert_eq!(other.tallies()["ssthresh"].calls, 5);
    assert_eq!(other.unheard(Algorithm::by_name("dctcp").unwrap()), ["pkts_acked"]);
}

#[test]
fn a_file_cut_anywhere_is_told_and_what_is_before_can_be_read() {
    let records = records("dctcp", 3);
    let bytes = written(&header("dctcp"), &records);
    for len in 0..bytes.len() {
        let mut said = String::new();
        let mut read = 0;
        match Reader::new(&bytes[..len]) {
            Err(error) => said = error.to_string(),
            Ok(mut reader) => loop {
                match reader.next_record() {
                    Ok(Some(_)) => read += 1,
                    Ok(None) => break,
                    Err(error) => {
                        said = error.to_string();
                        break;
                    }
                }
            },
        }
        let place = format!("at byte {len}");
        assert!(len < 8 || said.contains(&place), "{len}: {said}");
        assert!(len >= 8 || said.contains("no flight recording"), "{len}: {said}");
        assert!(!said.contains('\n') && read <= records.len());
    }
}

#[test]
fn foreign_files_and_other_versions_are_told_apart() {
    let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(refused(b"\x7fELF and so on"), "is no flight recording of knee");
    let mut bytes = written(&header("reno"), &[]);
    bytes[8] = 9;
    assert_eq!(refused(&bytes), "has version 9 of the format; this knee reads version 1");
}

#[test]
fn parameters_that_the_algorithm_would_not_take_are_refused() {
    let mut dctcp = header("dctcp");
    dctcp.params[0].1 = 11;
    assert!(dctcp.algorithm().unwrap_err().to_string().contains("out of range"));
    dctcp.params[0].0 = "shift_h".to_owned();
    assert!(dctcp.algorithm().unwrap_err().to_string().contains("has others"));
    dctcp.algorithm = "vegas".to_owned();
    assert!(dctcp.algorithm().unwrap_err().to_string().contains("no algorithm \"vegas\""));
}

/// Where the records of a file begin, by their lengths.
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + number(12) + 4;
    let mut frames = Vec::new();
    while at < bytes.len() {
        frames.push((at, number(at)));
        at += 8 + number(at);
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_changed_byte_is_noticed(at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut bytes = written(&header("dctcp"), &records("dctcp", 5));
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(read(&bytes).is_err());
    }

    /// The checksum of each record covers the one before.
    #[test]
    fn a_record_changed_with_its_own_checksum_is_noticed(
        frame in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in 1_u8..
    ) {
        let mut bytes = written(&header("dctcp"), &records("dctcp", 5));
        let frames = frames(&bytes);
        let nth = frame.index(frames.len() - 1);
        let (start, len) = frames[nth];
        bytes[start + 8 + at.index(len)] ^= flip;
        let before = match nth {
            0 => u32::from_le_bytes(bytes[start - 4..start].try_into().unwrap()),
            _ => {
                let at = frames[nth - 1].0 + 4;
                u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
            }
        };
        let mut hasher = crc32fast::Hasher::new_with_initial(before);
        hasher.update(&bytes[start..start + 4]);
        hasher.update(&bytes[start + 8..start + 8 + len]);
        bytes[start + 4..start + 8].copy_from_slice(&hasher.finalize().to_le_bytes());
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(tail in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read(&tail);
        let mut bytes = written(&header("cubic"), &[]);
        bytes.truncate(frames(&bytes)[0].0);
        bytes.extend(tail);
        prop_assert!(read(&bytes).is_err());
    }

    /// A forger who knows the format: the whole file is right, one number of one record is another.
    #[test]
    fn a_forged_number_is_noticed_by_replay(
        algorithm in 0_usize..3, record in any::<prop::sample::Index>(),
        field in 0_usize..9, flip in 1_u32..
    ) {
        let name = ["reno", "cubic", "dctcp"][algorithm];
        let (header, mut records) = (header(name), records(name, 40));
        let record = record.index(records.len());
        let forged = &mut records[record];
        match field {
            0 => forged.result ^= flip,
            1 => forged.after.snd_cwnd ^= flip,
            2 => forged.after.snd_ssthresh ^= flip,
            3 => forged.after.icsk_ca_priv[(flip % 13) as usize] ^= 1 << (flip % 64),
            4 => forged.before.snd_una ^= flip,
            5 => forged.before.delivered ^= flip,
            6 => forged.after.sk_pacing_rate ^= u64::from(flip),
            7 => forged.given.count = (forged.given.count + 1).min(16),
            _ => forged.fallback = Some("reno".to_owned()),
        }
        let records = read(&written(&header, &records)).unwrap();
        let report = replayed(&header, &records);
        prop_assert!(!report.is_equal());
        prop_assert_eq!(report.first_difference.unwrap().index, record as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Sockets that no TCP has ever had neither crash an algorithm nor the replay.
    #[test]
    fn hostile_sockets_replay_without_a_panic(
        algorithm in 0_usize..3,
        numbers in prop::collection::vec(any::<u64>(), 24),
        hz in 1_u32..=10_000,
    ) {
        let name = ["reno", "cubic", "dctcp"][algorithm];
        let word = |i: usize| numbers[i] as u32;
        let mut hostile = records(name, 4);
        for (i, record) in hostile.iter_mut().enumerate() {
            record.number = numbers[i % 24];
            record.before.snd_cwnd = word(i % 24).checked_shr(word(3) % 33).unwrap_or(0);
            record.before.snd_ssthresh = word(1);
            record.before.snd_cwnd_clamp = word(2);
            record.before.snd_cwnd_cnt = word(4);
            record.before.sk_pacing_rate = numbers[5];
            record.before.max_packets_out = word(6);
            record.before.delivered = word(7);
            record.before.icsk_ca_priv = std::array::from_fn(|j| numbers[8 + j]);
            record.jiffies = word(22);
        }
        let header = Header { hz, ..header(name) };
        let _ = replayed(&header, &hostile);
        let (algorithm, params) = header.algorithm().unwrap();
        let mut other = OtherWay::new(algorithm, params, hz);
        for record in &hostile {
            let _ = other.step(record);
        }
    }
}

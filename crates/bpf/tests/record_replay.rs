//! One algorithm file, two hosts: what the running kernel's TCP made of it, call by call, is what
//! the native build makes of the same calls.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use knee_algo::{Algorithm, Call, Field, Given, Params};
use knee_bpf::{Embedded, Loaded, TraceFilter, Tracer};
use knee_flight::{Error, Record, Report};
use knee_testbed::net::{self, Pair, Path, SERVER, choose, chosen};
use knee_testbed::trace::{record, replay};
use knee_testbed::{outside, own_name};

/// Bytes of the bulk transfer of a connection.
const BULK_BYTES: usize = 6 << 20;
/// Longer than the retransmission timeout, so that the window restarts after it.
const IDLE: Duration = Duration::from_millis(400);
/// How often late ACKs are tried until a window was restored for them.
const ATTEMPTS: usize = 4;
/// No single read or write may take longer than that.
const PATIENCE: Duration = Duration::from_secs(20);

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(pair: &Pair, port: u16) -> TcpStream {
    patient(pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap()))
}

fn listen(pair: &Pair) -> (TcpListener, u16) {
    let listener = net::listen(pair);
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Bulk from client to server, then requests of odd sizes with answers, the last ones after a rest.
fn transfer(pair: &Pair) {
    let (listener, port) = listen(pair);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = patient(listener.accept().unwrap().0);
            let mut buffer = vec![0; 1 << 16];
            let mut left = BULK_BYTES;
            while left > 0 {
                let count = stream.read(&mut buffer[..left.min(1 << 16)]).unwrap();
                assert_ne!(count, 0, "the client closed early");
                left -= count;
            }
            let mut size = [0; 4];
            while stream.read_exact(&mut size).is_ok() {
                let size = u32::from_ne_bytes(size) as usize;
                stream.read_exact(&mut buffer[..size]).unwrap();
                stream.write_all(&buffer[..size / 2]).unwrap();
            }
        });
        let mut stream = connect(pair, port);
        let buffer = vec![0; 1 << 16];
        for _ in 0..BULK_BYTES >> 16 {
            stream.write_all(&buffer).unwrap();
        }
        let mut answer = vec![0; 1 << 16];
        for round in 0_u32..40 {
            let size = 1000 + 1111 * round;
            stream.write_all(&size.to_ne_bytes()).unwrap();
            stream.write_all(&buffer[..size as usize]).unwrap();
            stream.read_exact(&mut answer[..size as usize / 2]).unwrap();
            if round >= 38 {
                thread::sleep(IDLE);
            }
        }
    });
}

fn load(algorithm: &'static Algorithm, name: &str, params: &Params) -> Loaded {
    Loaded::register_for_any_user(Embedded::of_algorithm(algorithm).unwrap(), name, params).unwrap()
}

/// Marks in bursts and single ones, a loss now and then, and two outages: one of data, which are
/// then lost, and one of ACKs only, after which the sender finds its timeout to have been spurious.
fn record_a_rough_day(algorithm: &'static Algorithm, name: &str, params: &Params) -> Vec<Record> {
    let _loaded = load(algorithm, name, params);
    let mut tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let bursts = Path {
        mark_period: 160,
        mark_burst: 24,
        drop_period: 701,
        outage_at: 2500,
        outage_ms: 300,
        ..Path::default()
    };
    let single = Path { mark_period: 9, mark_burst: 1, drop_period: 1501, ..Path::default() };
    let late_acks = Path { outage_at: 600, outage_ms: 300, count_acks: true, ..Path::default() };
    let mut one_day = |to_server, to_client| {
        let pair = Pair::new(name, to_server, to_client);
        record(&mut tracer, || {
            thread::scope(|scope| {
                scope.spawn(|| transfer(&pair));
                transfer(&pair);
            });
        })
    };
    let mut records = one_day(bursts, single);
    records.extend(one_day(single, Path::default()));
    // Where the machine is busy what was lost by itself may come between the timeout and its ACKs, and nothing is undone.
    for _ in 0..ATTEMPTS {
        let late = one_day(Path::default(), late_acks);
        let has_undone = late.iter().any(|record| record.call == Call::UndoCwnd);
        records.extend(late);
        if has_undone {
            break;
        }
    }
    records
}

fn assert_equal(report: &Report, kinds: &[&str]) {
    println!("{report}");
    if let Some(first) = &report.first_difference {
        panic!("{} differences, the first: {first}\n{}", report.differences, first.record);
    }
    assert_eq!((report.gaps, report.unchecked), (0, 0));
    assert!(report.total() >= 1000);
    for kind in kinds {
        assert!(report.calls.contains_key(*kind), "no {kind} occurred");
    }
}

#[test]
fn dctcp_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let params = dctcp.default_params();
    let mut records = record_a_rough_day(dctcp, own_name("dctcp"), &params);
    let report = replay(dctcp, &params, &records);
    assert_equal(
        &report,
        &[
            "init",
            "in_ack_event",
            "ssthresh",
            "cong_avoid",
            "set_state(Open)",
            "set_state(Disorder)",
            "set_state(CWR)",
            "set_state(Recovery)",
            "set_state(Loss)",
            "cwnd_event(TX_START)",
            "cwnd_event(CWND_RESTART)",
            "cwnd_event(COMPLETE_CWR)",
            "cwnd_event(LOSS)",
            "cwnd_event(ECN_NO_CE)",
            "cwnd_event(ECN_IS_CE)",
            "undo_cwnd",
        ],
    );
    assert!(report.acks_asked > 10);

    // Controls: what is not equal is found, where it is.
    let mut other = dctcp.default_params();
    dctcp.set_param(&mut other, "shift_g", "5").unwrap();
    let report = replay(dctcp, &other, &records);
    assert!(report.differences > 100, "{report}");
    let middle = records.len() / 2;
    records[middle].after.snd_cwnd += 1;
    let first = replay(dctcp, &params, &records).first_difference.unwrap();
    assert_eq!((first.index, first.field.as_str()), (middle as u64, "snd_cwnd"), "{first}");
}

/// PLB as eager as it can be, so that it asks often, and pauses after timeouts for a random time.
#[test]
fn plb_in_the_kernel_asks_for_paths_where_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let mut params = dctcp.default_params();
    let eager = [
        ("plb", "on"),
        ("plb_cong_thresh", "16"),
        ("plb_rehash_rounds", "2"),
        ("plb_idle_rehash_rounds", "1"),
        ("plb_suspend_rto_sec", "1"),
    ];
    for (name, value) in eager {
        dctcp.set_param(&mut params, name, value).unwrap();
    }
    let mut records = record_a_rough_day(dctcp, own_name("plb"), &params);
    let report = replay(dctcp, &params, &records);
    assert_equal(&report, &["in_ack_event", "cwnd_event(TX_START)", "cwnd_event(LOSS)"]);
    assert!(report.rehashes > 10, "{report}");
    let asks = |record: &Record| record.rehashes > 0;
    let first = records.iter().position(asks).unwrap();

    // Controls: one that is not asked for in both is found.
    let report = replay(dctcp, &dctcp.default_params(), &records);
    assert!(report.differences > 10, "{report}");
    records[first].rehashes = 0;
    let found = replay(dctcp, &params, &records).first_difference.unwrap();
    let place = (found.index, found.field.as_str());
    assert_eq!(place, (first as u64, "the rehashes asked for"), "{found}");
}

#[test]
fn dctcp_without_ecn_leaves_for_its_fallback_in_both() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    for fallback in ["reno", "cubic"] {
        let mut params = dctcp.default_params();
        dctcp.set_param(&mut params, "fallback", fallback).unwrap();
        let name = own_name(&format!("f{fallback}")).to_owned();
        let _loaded = load(dctcp, &name, &params);
        let mut tracer = Tracer::attach(&name, &TraceFilter::default()).unwrap();
        let pair = Pair::new(&name, Path::default(), Path::default());
        let records = record(&mut tracer, || {
            // A listener that does not need ECN refuses it to a client whose SYN is ECT.
            let (listener, port) = listen(&pair);
            choose(&listener, "reno");
            let stream = connect(&pair, port);
            assert_eq!(chosen(&stream), fallback);
        });
        assert_eq!(
            records.iter().filter_map(|r| r.fallback.as_deref()).collect::<Vec<_>>(),
            [fallback]
        );
        assert!(replay(dctcp, &params, &records).is_equal());
        let report = replay(dctcp, &dctcp.default_params(), &records);
        assert_eq!(report.differences, u64::from(fallback != "reno"), "{report}");
    }
}

#[test]
fn reno_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let reno = Algorithm::by_name("reno").unwrap();
    let records = record_a_rough_day(reno, own_name("reno"), &reno.default_params());
    let report = replay(reno, &reno.default_params(), &records);
    assert_equal(&report, &["ssthresh", "cong_avoid", "undo_cwnd"]);
}

#[test]
fn cubic_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cubic = Algorithm::by_name("cubic").unwrap();
    let records = record_a_rough_day(cubic, own_name("cubic"), &cubic.default_params());
    let report = replay(cubic, &cubic.default_params(), &records);
    assert_equal(
        &report,
        &["init", "ssthresh", "cong_avoid", "pkts_acked", "set_state(Loss)", "undo_cwnd"],
    );
}

#[test]
fn bbr_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let bbr = Algorithm::by_name("bbr").unwrap();
    let records = record_a_rough_day(bbr, own_name("bbr"), &bbr.default_params());
    let report = replay(bbr, &bbr.default_params(), &records);
    assert_equal(
        &report,
        &[
            "init",
            "cong_control",
            "ssthresh",
            "set_state(Open)",
            "set_state(Disorder)",
            "set_state(Recovery)",
            "set_state(Loss)",
            "cwnd_event(TX_START)",
            "undo_cwnd",
            "min_tso_segs",
            "sndbuf_expand",
        ],
    );
    assert!(report.given > 1000, "it reads the clock on each ACK: {report}");
}

#[test]
fn a_file_of_somebodys_own_does_in_the_kernel_what_its_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    if outside::made_elsewhere().is_some() {
        writeln!(std::io::stderr(), "SKIPPED: no compiler for the native build").unwrap();
        return;
    }
    let gentle = outside::native();
    let mut params = gentle.default_params();
    gentle.set_param(&mut params, "keep", "700").unwrap();
    let records = record_a_rough_day(gentle, own_name("gentle"), &params);
    assert_equal(
        &replay(gentle, &params, &records),
        &["init", "ssthresh", "cong_avoid", "pkts_acked", "set_state(Loss)", "undo_cwnd"],
    );
    // A control.
    let report = replay(gentle, &gentle.default_params(), &records);
    assert!(report.differences > 0, "{report}");
}

/// What BIC, TCP-NV and most others hear: everything but ECN's events.
const HEARS_MUCH: [&str; 9] = [
    "init",
    "ssthresh",
    "cong_avoid",
    "pkts_acked",
    "set_state(Open)",
    "set_state(CWR)",
    "set_state(Recovery)",
    "set_state(Loss)",
    "undo_cwnd",
];

#[test]
fn bic_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let bic = Algorithm::by_name("bic").unwrap();
    let records = record_a_rough_day(bic, own_name("bic"), &bic.default_params());
    assert_equal(&replay(bic, &bic.default_params(), &records), &HEARS_MUCH);
}

fn nv_in_the_kernel_does_what_the_native_build_does(name: &str) {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let nv = Algorithm::by_name(name).unwrap();
    let records = record_a_rough_day(nv, own_name(name), &nv.default_params());
    assert_equal(&replay(nv, &nv.default_params(), &records), &HEARS_MUCH);
    // A control: that another pad decides otherwise shows that decisions were made.
    let mut other = nv.default_params();
    nv.set_param(&mut other, "pad", "1000").unwrap();
    let report = replay(nv, &other, &records);
    assert!(report.differences > 10, "{report}");
}

#[test]
fn nv_of_today_in_the_kernel_does_what_the_native_build_does() {
    nv_in_the_kernel_does_what_the_native_build_does("nv");
}

#[test]
fn nv_of_2010_in_the_kernel_does_what_the_native_build_does() {
    nv_in_the_kernel_does_what_the_native_build_does("nv2010");
}

#[test]
fn bbr3_whose_state_is_in_socket_storage_does_the_same_in_both() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let bbr3 = Algorithm::by_name("bbr3").unwrap();
    let mut records = record_a_rough_day(bbr3, own_name("bbr3"), &bbr3.default_params());
    let report = replay(bbr3, &bbr3.default_params(), &records);
    assert_equal(
        &report,
        &["init", "cong_control", "ssthresh", "set_state(Recovery)", "cwnd_event(TX_START)"],
    );
    // Control: a state that is not equal is found, where it is.
    let middle = records.iter().position(|record| record.large_after.len() > 4).unwrap();
    records[middle].large_after[3] ^= 1;
    let first = replay(bbr3, &bbr3.default_params(), &records).first_difference.unwrap();
    assert_eq!(
        (first.index, first.field.as_str()),
        (middle as u64, "state in storage probe_rtt_min_us")
    );
}

/// A Linux module: clocks in both widths and random numbers come from the record, parameters and the private area's fields from the kernel.
#[test]
fn a_linux_module_in_the_kernel_does_what_the_native_build_does() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let Some(clocks) = module_of_ours("tcp_clocks.c") else { return };
    let mut params = clocks.default_params();
    for (name, value) in [("offset", "-7"), ("share", "700"), ("hurry", "1"), ("bits", "1")] {
        clocks.set_param(&mut params, name, value).unwrap();
    }
    let mut records = record_a_rough_day(clocks, own_name("clocks"), &params);
    let report = replay(clocks, &params, &records);
    assert_equal(&report, &["init", "ssthresh", "cong_avoid", "pkts_acked"]);
    let given =
        |kind| records.iter().flat_map(|r| r.given.values()).any(|given| given.kind == kind);
    for kind in [Given::JIFFIES, Given::RANDOM, Given::CLOCK_US, Given::UPPER_HALF] {
        assert!(given(kind), "{}", Given::KINDS[kind as usize]);
    }

    // Controls: another parameter, and another reading of the clock.
    let report = replay(clocks, &clocks.default_params(), &records);
    assert!(report.differences > 100, "{report}");
    let reads =
        |record: &Record| record.given.values().iter().any(|one| one.kind == Given::CLOCK_US);
    let at = records.iter().position(reads).unwrap();
    let place = records[at].given.values().iter().position(|one| one.kind == Given::CLOCK_US);
    records[at].given.given[place.unwrap()].value += 1;
    let first = replay(clocks, &params, &records).first_difference.unwrap();
    assert_eq!(first.index, at as u64, "{first}");
    assert!(first.field.starts_with("private state now"), "{first}");
}

/// What the recording of a Linux module says of it is enough to replay it.
#[test]
fn a_recording_of_a_linux_module_names_its_parameters_and_fields() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let Some(clocks) = module_of_ours("tcp_clocks.c") else { return };
    let mut params = clocks.default_params();
    for (name, value) in [("offset", "-7"), ("share", "700"), ("hurry", "1"), ("bits", "1")] {
        clocks.set_param(&mut params, name, value).unwrap();
    }
    let name = own_name("cparams");
    let _loaded = load(clocks, name, &params);
    let tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let header = tracer.header();
    let names: Vec<&str> = header.params.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["offset", "share", "hurry", "bits", "leave"]);
    assert_eq!(header.algorithm_of_file(clocks).unwrap().1.values(), params.values());
    let fields: Vec<&str> = header.fields.iter().map(Field::name).collect();
    for field in ["now_us", "ticks32", "drawn", "bytes[5]", "round", "rtt.s[0].v"] {
        assert!(fields.contains(&field), "{field} of {fields:?}");
    }
    let Some(other) = module_of_ours("tcp_delay.c") else { return };
    assert!(matches!(header.algorithm_of_file(other), Err(Error::OfFile { .. })));
}

/// A module puts another table of its own into a connection, one of Reno; the kernel hands it to its own.
#[test]
fn a_linux_module_leaves_for_reno_in_both() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let Some(clocks) = module_of_ours("tcp_clocks.c") else { return };
    let (name, mut params) = (own_name("cleave"), clocks.default_params());
    clocks.set_param(&mut params, "leave", "1").unwrap();
    let _loaded = load(clocks, name, &params);
    let mut tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let pair = Pair::new(name, Path::default(), Path::default());
    let mut records = record(&mut tracer, || {
        let (listener, port) = listen(&pair);
        assert_eq!(chosen(&connect(&pair, port)), "reno");
        drop(listener);
    });
    let leaves = |record: &Record| record.fallback.as_deref() == Some("reno");
    let at = records.iter().position(leaves).unwrap();
    let report = replay(clocks, &params, &records);
    assert!(report.is_equal() && report.unchecked == 0, "{report}");
    // Control.
    records[at].fallback = None;
    let first = replay(clocks, &params, &records).first_difference.unwrap();
    assert_eq!((first.index, first.field.as_str()), (at as u64, "fallback"), "{first}");
}

/// One of `tests/modules`. Returns `None` where another machine compiles for this one, which has no
/// compiler (`scripts/test-kernels`).
fn module_of_ours(file: &str) -> Option<&'static Algorithm> {
    if outside::made_elsewhere().is_some() {
        writeln!(std::io::stderr(), "SKIPPED: no compiler for {file}").unwrap();
        return None;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules");
    Some(knee_algo::module::load(&folder.join(file)).unwrap())
}

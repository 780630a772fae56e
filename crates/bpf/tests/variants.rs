//! What the shipped algorithms do not use yet works in this kernel, whichever variant of its
//! operations it has: `cong_control`, pacing, TX_START, a large state.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use knee_algo::{Algorithm, Call};
use knee_bpf::{Embedded, KernelApi, Loaded, TraceFilter, Tracer};
use knee_testbed::net::{Pair, Path, SERVER};
use knee_testbed::own_name;
use knee_testbed::trace::{record, replay};
use knee_units::LinuxVersion;
use libbpf_rs::{MapCore as _, MapFlags};

/// No single read or write may take longer than that.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests of a connection, and bytes of each.
const ROUNDS: usize = 20;
const REQUEST_BYTES: usize = 50_000;

/// Sends requests one after the other, each when the last is answered, so that each starts a round
/// with nothing in flight; hands over the client's end.
fn requests(pair: &Pair) -> TcpStream {
    let listener = knee_testbed::net::listen(pair);
    let port = listener.local_addr().unwrap().port();
    let patient = |stream: &TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            patient(&stream);
            let mut buffer = vec![0; REQUEST_BYTES];
            for _ in 0..ROUNDS {
                stream.read_exact(&mut buffer).unwrap();
                stream.write_all(&[1]).unwrap();
            }
        });
        let mut stream = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
        patient(&stream);
        let buffer = vec![0; REQUEST_BYTES];
        for _ in 0..ROUNDS {
            stream.write_all(&buffer).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
        stream
    })
}

#[test]
fn cong_control_gets_its_arguments_and_paces() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let paced = Algorithm::for_tests("paced");
    let params = paced.default_params();
    let embedded = Embedded::for_tests("paced").unwrap();
    let _loaded = Loaded::register_for_any_user(embedded, own_name("paced"), &params).unwrap();
    let mut tracer = Tracer::attach(own_name("paced"), &TraceFilter::default()).unwrap();
    let pair = Pair::new(own_name("paced"), Path::default(), Path::default());
    let records = record(&mut tracer, || drop(requests(&pair)));

    let report = replay(paced, &params, &records);
    println!("{report}");
    if let Some(first) = &report.first_difference {
        panic!("{} differences, the first: {first}", report.differences);
    }
    for kind in ["cong_control", "cwnd_event(TX_START)", "min_tso_segs", "init"] {
        assert!(report.calls.contains_key(kind), "no {kind} occurred");
    }
    assert!(report.calls["cwnd_event(TX_START)"] >= ROUNDS as u64, "{report}");
    let mut acked = 0;
    for record in &records {
        if let Call::CongControl { ack, rs, .. } = record.call {
            assert_eq!(ack, record.before.snd_una);
            acked += rs.acked_sacked as usize;
        }
    }
    assert!(acked * 1448 >= ROUNDS * REQUEST_BYTES, "{acked} packets acked");
    assert!(records.iter().any(|record| record.after.sk_pacing_status != 0));
    let rates = records.iter().map(|record| record.after.sk_pacing_rate);
    assert!(rates.filter(|rate| *rate != u64::MAX).max().unwrap() > 0);
}

/// The kernel takes it, or it is said what it `needs` of 6.10.
fn assert_taken(algorithm: &Algorithm, needs: &str, taken: bool) {
    let name = algorithm.name();
    let embedded = Embedded::for_tests(name).unwrap();
    let release = &KernelApi::running().release;
    let params = algorithm.default_params();
    let refused = Loaded::register_for_any_user(embedded, own_name(name), &params).err();
    assert_eq!(
        refused.map(|error| error.to_string()),
        (!taken).then(|| {
            format!("{name} needs {needs}, which takes Linux 6.10 or later; this is {release}")
        })
    );
}

#[test]
fn a_field_that_may_be_written_on_newer_kernels_only_is_named() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let may = KernelApi::running().version >= LinuxVersion(6, 10);
    assert_taken(Algorithm::for_tests("stamped"), "to write snd_cwnd_stamp", may);
}

#[test]
fn the_flag_of_cong_control_is_there_or_the_algorithm_is_refused() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let flagged = Algorithm::for_tests("flagged");
    let embedded = Embedded::for_tests("flagged").unwrap();
    let params = flagged.default_params();
    let api = KernelApi::running();
    assert_taken(flagged, "the flag of cong_control", api.cong_control_args > 2);
    if api.cong_control_args == 2 {
        return;
    }
    let _loaded = Loaded::register_for_any_user(embedded, own_name("flag"), &params).unwrap();
    let mut tracer = Tracer::attach(own_name("flag"), &TraceFilter::default()).unwrap();
    let pair = Pair::new(own_name("flag"), Path::default(), Path::default());
    let records = record(&mut tracer, || drop(requests(&pair)));
    assert!(replay(flagged, &params, &records).is_equal());
    // FLAG_DATA_ACKED of the kernel.
    let of_data = records
        .iter()
        .filter(|record| matches!(record.call, Call::CongControl { flag, .. } if flag & 4 != 0));
    assert!(of_data.count() >= ROUNDS);
}

#[test]
fn a_large_state_is_kept_with_its_socket() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let params = Algorithm::for_tests("large").default_params();
    let embedded = Embedded::for_tests("large").unwrap();
    let loaded = Loaded::register_for_any_user(embedded, own_name("large"), &params).unwrap();
    let pair = Pair::new(own_name("large"), Path::default(), Path::default());
    let streams = [requests(&pair), requests(&pair)];
    let storage = loaded.object().maps().find(|map| map.name() == "cc_storage_large").unwrap();
    for stream in &streams {
        // As a key the kernel takes the number of the socket's file.
        let key = stream.as_raw_fd().to_ne_bytes();
        let state = storage.lookup(&key, MapFlags::ANY).unwrap().expect("it has a state");
        let word =
            |index: usize| u64::from_ne_bytes(state[8 * index..8 * index + 8].try_into().unwrap());
        let (rounds, acked) = (word(0) as usize, word(1) as usize);
        println!("{rounds} rounds, {acked} packets acked");
        assert_eq!(state.len(), 256);
        assert!(rounds >= ROUNDS, "{rounds}");
        // A timeout on a busy machine sends two packets' rest as one, or a packet twice.
        let packets = ROUNDS * (REQUEST_BYTES / 1448);
        assert!((packets..packets + 120).contains(&acked), "{acked} of {packets}");
    }
}

//! Recording the running kernel's calls: for chosen connections, while thousands come and go, and
//! never two at once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Error, Loaded, TraceFilter, Tracer};
use knee_flight::{Ending, Record};
use knee_netns::Namespace;
use knee_testbed::net::{ip, sysctl};
use knee_testbed::own_name;
use knee_testbed::trace::{record, replay};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes there and back on each connection.
const EXCHANGE_BYTES: usize = 20_000;
/// Connections that come and go during each recording under load; two are under way at any time.
const CONNECTIONS: usize = 50;
/// A ring for some dozens of records.
const RING_BYTES: u32 = 1 << 16;

fn load(algorithm: &str, name: &str) -> Loaded {
    let params = Algorithm::by_name(algorithm).unwrap().default_params();
    Loaded::register_for_any_user(Embedded::by_name(algorithm).unwrap(), name, &params).unwrap()
}

/// A namespace with a loopback, whose connections use this algorithm at both ends.
fn loopback(congestion_control: &str) -> Namespace {
    let namespace = Namespace::new().unwrap();
    ip(&namespace, "link set lo up".to_owned());
    sysctl(&namespace, "tcp_ecn", "1");
    sysctl(&namespace, "tcp_congestion_control", congestion_control);
    namespace
}

fn listen(namespace: &Namespace, at: &str) -> TcpListener {
    let at: SocketAddr = at.parse().unwrap();
    namespace.run(move || TcpListener::bind(at).unwrap())
}

/// A connection to `port` of this address that lives for one exchange.
fn exchange(namespace: &Namespace, listener: &TcpListener, to: &str) {
    let port = listener.local_addr().unwrap().port();
    let to: SocketAddr = format!("{to}:{port}").parse().unwrap();
    let patient = |stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut client = patient(namespace.run(move || TcpStream::connect(to).unwrap()));
    let mut server = patient(listener.accept().unwrap().0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            server.write_all(&all).unwrap();
        });
        client.write_all(&vec![1; EXCHANGE_BYTES]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.read_exact(&mut vec![0; EXCHANGE_BYTES]).unwrap();
    });
}

/// Tells the others to end, however the test does.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn sockets(records: &[Record]) -> usize {
    records.iter().map(|record| record.flow).collect::<BTreeSet<_>>().len()
}

#[test]
fn only_the_chosen_connections_are_recorded() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cubic = Algorithm::by_name("cubic").unwrap();
    let loaded = load("cubic", own_name("chosen"));
    let host = loopback(loaded.name());
    let (here, there) = (listen(&host, "127.0.0.1:0"), listen(&host, "127.0.0.1:0"));
    let both = listen(&host, "[::]:0");
    let port = here.local_addr().unwrap().port();
    let everything = || {
        exchange(&host, &here, "127.0.0.1");
        exchange(&host, &there, "127.0.0.1");
        exchange(&host, &both, "[::1]");
        // At the listening end this is an IPv4 connection of an IPv6 socket.
        exchange(&host, &both, "127.0.0.2");
    };
    let remote = |prefix: &str| Some(prefix.parse().unwrap());
    let none = TraceFilter::default();
    for (filter, expected) in [
        (none, 8),
        (TraceFilter { local_port: Some(port), ..none }, 1),
        (TraceFilter { remote_port: Some(port), ..none }, 1),
        (TraceFilter { local_port: Some(port), remote: remote("10.0.0.0/8"), ..none }, 0),
        (TraceFilter { remote: remote("127.0.0.0/8"), ..none }, 6),
        (TraceFilter { remote: remote("127.0.0.2"), ..none }, 1),
        (TraceFilter { remote: remote("::/0"), ..none }, 2),
        (TraceFilter { remote: remote("::1"), ..none }, 2),
        (TraceFilter { remote: remote("fd00::/8"), ..none }, 0),
    ] {
        let mut tracer = Tracer::attach(loaded.name(), &filter).unwrap();
        assert_eq!(tracer.header().about, filter.to_string());
        let records = record(&mut tracer, everything);
        assert_eq!(sockets(&records), expected, "{filter}");
        let report = replay(cubic, &cubic.default_params(), &records);
        assert!(report.is_equal(), "{filter}: {report}");
        assert_eq!((report.gaps, report.flows), (0, expected as u64));
    }
}

/// What the header says comes from the kernel alone: whoever loaded the algorithm.
#[test]
fn the_header_says_what_is_registered() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let mut params = dctcp.default_params();
    dctcp.set_param(&mut params, "shift_g", "6").unwrap();
    let _loaded = Loaded::register_for_any_user(
        Embedded::by_name("dctcp").unwrap(),
        own_name("header"),
        &params,
    )
    .unwrap();
    let tracer = Tracer::attach(own_name("header"), &TraceFilter::default()).unwrap();
    let (algorithm, found) = tracer.header().algorithm().unwrap();
    assert_eq!((algorithm.name(), &found), ("dctcp", &params));
    assert_eq!(tracer.header().name, own_name("header"));
    assert_eq!(tracer.header().about, "all connections");
}

#[test]
fn a_second_tracer_is_refused_and_nothing_of_the_first_stays() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = load("reno", own_name("two"));
    let first = Tracer::attach(loaded.name(), &TraceFilter::default()).unwrap();
    let refused = Tracer::attach(loaded.name(), &TraceFilter::default()).err().unwrap();
    assert_eq!(
        refused.to_string(),
        format!("\"{}\" is being traced already, by process {}", loaded.name(), std::process::id())
    );
    let slot = loaded.object().maps().find(|map| map.name() == "cc_ring_slot").unwrap();
    let ring = || slot.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap();
    assert!(ring().is_some());
    drop(first);
    assert!(ring().is_none(), "the ring stayed in its slot");
    drop(Tracer::attach(loaded.name(), &TraceFilter::default()).unwrap());
    let unknown = Tracer::attach(own_name("nobody"), &TraceFilter::default()).err().unwrap();
    assert!(matches!(unknown, Error::NotLoaded { .. }), "{unknown}");
}

/// Whoever cannot begin does not keep others from it.
#[test]
fn a_tracer_that_fails_to_begin_leaves_no_lease() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = load("reno", own_name("fails"));
    let slot = loaded.object().maps().find(|map| map.name() == "cc_ring_slot").unwrap();
    let slot = MapHandle::try_from(&slot).unwrap();
    // From now on nobody can put a ring there.
    slot.freeze().unwrap();
    for _ in 0..2 {
        let refused = Tracer::attach(loaded.name(), &TraceFilter::default()).err().unwrap();
        assert!(matches!(refused, Error::Inspect { .. }), "{refused}");
    }
}

/// What finds no room in the ring is counted, and seen as a gap.
#[test]
fn a_full_ring_loses_calls_and_says_how_many() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cubic = Algorithm::by_name("cubic").unwrap();
    let loaded = load("cubic", own_name("full"));
    let host = loopback(loaded.name());
    let listener = listen(&host, "127.0.0.1:0");
    let none = TraceFilter::default();
    let mut tracer = Tracer::with_ring(loaded.name(), &none, RING_BYTES).unwrap();
    let at = listener.local_addr().unwrap();
    let mut client = host.run(move || TcpStream::connect(at).unwrap());
    let mut server = listener.accept().unwrap().0;
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut there_and_back = || {
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(&[1; 5000]).unwrap();
        client.read_exact(&mut [0; 5000]).unwrap();
    };
    let mut records = Vec::new();
    let started = Instant::now();
    while tracer.lost().ring_full == 0 {
        there_and_back();
        assert!(started.elapsed() < PATIENCE, "the ring takes all");
    }
    // Once it is read there is room again; each socket has calls afterwards.
    for _ in 0..3 {
        records.extend(tracer.poll(Duration::ZERO).unwrap());
        there_and_back();
    }
    tracer.stop().unwrap();
    records.extend(tracer.rest().unwrap());
    let lost = tracer.lost();
    assert_eq!(lost, Ending { ring_full: lost.ring_full, ..Ending::default() });

    let calls: BTreeMap<u64, u64> =
        records.iter().map(|record| (record.flow, record.number + 1)).collect();
    let calls: u64 = calls.values().sum();
    assert_eq!(calls, records.len() as u64 + lost.ring_full, "all are there or counted");
    let report = replay(cubic, &cubic.default_params(), &records);
    assert!(report.is_equal(), "{report}");
    assert!(report.gaps >= 1, "{report}");
}

/// Connections come and go, and with them the switch: whatever was recorded replays equal, even of
/// calls that were under way when it went on or off.
#[test]
fn recording_goes_on_and_off_under_load() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    for name in ["cubic", "dctcp"] {
        let algorithm = Algorithm::by_name(name).unwrap();
        let loaded = load(name, own_name(&format!("l{name}")));
        let host = loopback(loaded.name());
        let (done, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (mut callbacks, mut stretches, mut lost) = (0, 0, 0);
        thread::scope(|scope| {
            let _done = Done(&done);
            for _ in 0..2 {
                scope.spawn(|| {
                    let listener = listen(&host, "127.0.0.1:0");
                    while !done.load(Ordering::Relaxed) {
                        exchange(&host, &listener, "127.0.0.1");
                        connections.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..30 {
                let mut tracer = Tracer::attach(loaded.name(), &TraceFilter::default()).unwrap();
                let mut records = Vec::new();
                let (started, before) = (Instant::now(), connections.load(Ordering::Relaxed));
                while connections.load(Ordering::Relaxed) < before + CONNECTIONS {
                    records.extend(tracer.poll(Duration::from_millis(5)).unwrap());
                    assert!(started.elapsed() < PATIENCE, "no connections");
                }
                tracer.stop().unwrap();
                loop {
                    let rest = tracer.rest().unwrap();
                    if rest.is_empty() {
                        break;
                    }
                    records.extend(rest);
                }
                let Ending { ring_full, no_memory, .. } = tracer.lost();
                assert_eq!((ring_full, no_memory), (0, 0));
                lost += tracer.lost().lost();
                let report = replay(algorithm, &algorithm.default_params(), &records);
                if let Some(first) = &report.first_difference {
                    panic!("{first}\n{}", first.record);
                }
                // Each has two sockets, and all but those under way lie within.
                assert!(sockets(&records) >= CONNECTIONS, "{} sockets", sockets(&records));
                callbacks += report.total();
                stretches += report.stretches;
            }
        });
        let connections = connections.into_inner();
        println!(
            "{name}: {connections} connections, {callbacks} callbacks in {stretches} stretches, \
             {lost} lost, no difference"
        );
    }
}

/// A tracer that is stopped or waits for a disk is taken for dead, and is not.
#[test]
fn a_tracer_that_stood_still_goes_on_with_new_sockets() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cubic = Algorithm::by_name("cubic").unwrap();
    let loaded = load("cubic", own_name("slow"));
    let host = loopback(loaded.name());
    let listener = listen(&host, "127.0.0.1:0");
    let port = listener.local_addr().unwrap().port();
    let mut client = host.run(move || TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut server = listener.accept().unwrap().0;
    let mut tracer = Tracer::attach(loaded.name(), &TraceFilter::default()).unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    // Either end sends, so that each has calls.
    let mut there_and_back = || {
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(&[1; 5000]).unwrap();
        client.read_exact(&mut [0; 5000]).unwrap();
    };
    let started = Instant::now();
    let mut records = Vec::new();
    while sockets(&records) < 2 {
        there_and_back();
        records.extend(tracer.poll(Duration::from_millis(100)).unwrap());
        assert!(started.elapsed() < PATIENCE, "{} sockets", sockets(&records));
    }
    // On a busy machine this process may have stood still before, too.
    let before: BTreeSet<u64> = records.iter().map(|record| record.flow).collect();
    let has_new = |records: &[Record]| records.iter().any(|one| !before.contains(&one.flow));
    let started = Instant::now();
    while !has_new(&records) {
        thread::sleep(Duration::from_millis(2100));
        // What happens first is not recorded, and nobody may believe that it did not happen. It is the
        // programs that notice, in whatever call comes first.
        there_and_back();
        for _ in 0..5 {
            records.extend(tracer.poll(Duration::from_millis(100)).unwrap());
            there_and_back();
        }
        assert!(started.elapsed() < PATIENCE, "no new socket");
    }
    let report = replay(cubic, &cubic.default_params(), &records);
    assert!(report.is_equal(), "{report}");
}

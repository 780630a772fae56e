//! The algorithms on connections of the running kernel, by what they carry and by their packets.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded};
use knee_testbed::capture::{ACK, CE, CWR, Capture, ECE, ECT0, NOT_ECT, Packet, SYN};
use knee_testbed::net::{Namespace, Pair, Path, SERVER, choose, chosen, ip, sysctl};
use knee_testbed::{outside, own_name};

const PATIENCE: Duration = Duration::from_secs(30);

fn register(algorithm: &Algorithm, name: &str) -> Loaded {
    let embedded = Embedded::by_name(algorithm.name()).unwrap();
    Loaded::register_for_any_user(embedded, name, &algorithm.default_params()).unwrap()
}

/// Both ends of a new connection, and the listener, of which `prepare` may ask something before.
fn connect(pair: &Pair, prepare: impl FnOnce(&TcpListener)) -> (TcpStream, TcpStream) {
    let listener = knee_testbed::net::listen(pair);
    prepare(&listener);
    let port = listener.local_addr().unwrap().port();
    let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (client, server)
}

/// Byte `i` of what is sent.
fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Sends `bytes` and compares what arrives.
fn carry(mut from: &TcpStream, mut to: &TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let data: Vec<u8> = (0..bytes).map(pattern).collect();
            from.write_all(&data).unwrap();
        });
        let mut data = vec![0; bytes];
        to.read_exact(&mut data).unwrap();
        assert!(data.iter().enumerate().all(|(i, byte)| *byte == pattern(i)));
    });
}

#[test]
fn every_algorithm_carries_10_mb_there_and_back() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let path = Path { mark_period: 50, mark_burst: 5, drop_period: 997, ..Path::default() };
    for (algorithm, embedded) in outside::with_all() {
        let name = own_name(algorithm.name()).to_owned();
        let _loaded =
            Loaded::register_for_any_user(embedded, &name, &algorithm.default_params()).unwrap();
        let pair = Pair::new(&name, path, path);
        let (client, server) = connect(&pair, |_| ());
        carry(&client, &server, 10_000_000);
        carry(&server, &client, 10_000_000);
        assert_eq!((chosen(&client), chosen(&server)), (name.clone(), name));
    }
}

/// The receiver of DCTCP tells the sender which packets were marked although it acknowledges two at
/// a time: no ACK covers both marked and unmarked ones, and its ECE says which they are.
#[test]
fn every_ack_says_whether_what_it_covers_was_marked() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("ce");
    let _loaded = register(Algorithm::by_name("dctcp").unwrap(), name);
    for (mark_period, mark_burst) in [(7, 1), (7, 3), (64, 31), (2, 1)] {
        let run = |at_once: bool| {
            let path = Path { mark_period, mark_burst, ..Path::default() };
            let pair = Pair::new(name, path, Path::default());
            if at_once {
                ack_at_once(&pair.server);
            }
            let capture = Capture::start(&pair.server, "knee-s");
            let (client, server) = connect(&pair, |_| ());
            carry(&client, &server, 1_500_000);
            drop(client);
            judge_acks(&capture.take(), |number| number % mark_period < mark_burst)
        };
        let judged = run(true);
        assert_eq!(judged.wrong, None, "{judged:?}");
        assert!(judged.acks > 400 && judged.changes > 20, "{judged:?}");
        // How often two come before the reader does depends on the machine's speed.
        assert!(judged.acks_of_two > 0 || mark_period == 2, "{judged:?}");
        let judged = run(false);
        println!(
            "{mark_burst} of {mark_period} marked: {} of {} packets told wrongly when ACKs are held back",
            judged.told_wrongly, judged.packets
        );
    }
}

/// From 6.7 on Linux holds ACKs back while it works off what arrived during a system call, those that
/// a change of CE asks for, too: one ACK then covers marked and unmarked packets.
fn ack_at_once(host: &Namespace) {
    let file = "/proc/sys/net/ipv4/tcp_backlog_ack_defer";
    host.run(move || {
        if fs::exists(file).unwrap() {
            fs::write(file, "0").unwrap();
        }
    });
}

#[derive(Debug, Default)]
struct Judged {
    packets: u32,
    acks: u32,
    acks_of_two: u32,
    changes: u32,
    told_wrongly: usize,
    wrong: Option<String>,
}

/// At the receiver, whose marker sits behind the capture and counts packets with data from 1.
fn judge_acks(packets: &[Packet], marked: impl Fn(u32) -> bool) -> Judged {
    let mut judged = Judged::default();
    // Data that was received and not acknowledged yet: where it ends, and whether it was marked.
    let mut waiting: Vec<(u32, bool)> = Vec::new();
    let (mut number, mut last) = (0, false);
    for packet in packets {
        if !packet.out && packet.payload > 0 {
            number += 1;
            let ce = marked(number);
            judged.changes += u32::from(ce != last);
            last = ce;
            waiting.push((packet.end(), ce));
        } else if packet.out && packet.has(ACK) && !packet.has(SYN) {
            let is_covered = |end: u32| end.wrapping_sub(packet.ack) as i32 <= 0;
            let covered = waiting.iter().take_while(|(end, _)| is_covered(*end)).count();
            let what: Vec<bool> = waiting.drain(..covered).map(|(_, ce)| ce).collect();
            if what.is_empty() {
                continue;
            }
            judged.acks += 1;
            judged.acks_of_two += u32::from(what.len() >= 2);
            let ece = packet.has(ECE);
            let wrong = what.iter().filter(|ce| **ce != ece).count();
            judged.told_wrongly += wrong;
            if wrong > 0 && judged.wrong.is_none() {
                judged.wrong = Some(format!(
                    "ECE {ece} for {what:?}, data packet {number}, ACK {}: {packet:?}",
                    judged.acks
                ));
            }
        }
    }
    judged.packets = number;
    judged
}

#[test]
fn every_packet_of_a_connection_with_ecn_is_ect() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("ect");
    let _loaded = register(Algorithm::by_name("dctcp").unwrap(), name);
    let lossy = Path { drop_period: 101, ..Path::default() };
    let pair = Pair::new(name, lossy, Path::default());
    let capture = Capture::start(&pair.client, "knee-c");
    let (client, server) = connect(&pair, |_| ());
    carry(&client, &server, 1_000_000);
    let packets = capture.take();
    let syn = packets.iter().find(|packet| packet.has(SYN) && packet.out).unwrap();
    assert!(syn.has(ECE | CWR) && syn.ecn == ECT0, "{syn:?}");
    let syn_ack = packets.iter().find(|packet| packet.has(SYN | ACK)).unwrap();
    assert!(syn_ack.has(ECE) && !syn_ack.has(CWR), "{syn_ack:?}");
    for packet in packets.iter().filter(|packet| !packet.has(SYN)) {
        assert!(matches!(packet.ecn, ECT0 | CE), "{packet:?}");
    }
}

/// A mark on a connection that nobody echoes for would only hide congestion, so there must be no ECT.
#[test]
fn without_ecn_nothing_after_the_syn_is_ect() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("not");
    let _loaded = register(Algorithm::by_name("dctcp").unwrap(), name);
    let lossy = Path { drop_period: 101, ..Path::default() };
    let pair = Pair::new(name, lossy, Path::default());
    let capture = Capture::start(&pair.client, "knee-c");
    let (client, server) = connect(&pair, |listener| choose(listener, "reno"));
    assert_eq!(chosen(&client), "reno", "what dctcp names without a word of the loader's");
    carry(&client, &server, 1_000_000);
    carry(&server, &client, 1_000_000);
    let packets = capture.take();
    let syn = packets.iter().find(|packet| packet.has(SYN) && packet.out).unwrap();
    assert!(syn.has(ECE | CWR) && syn.ecn == ECT0, "{syn:?}");
    let rest: Vec<&Packet> = packets.iter().filter(|packet| !packet.has(SYN)).collect();
    assert!(rest.len() > 1000);
    for packet in rest {
        assert!(packet.ecn == NOT_ECT && !packet.has(ECE) && !packet.has(CWR), "{packet:?}");
    }
}

/// Rate of the router's link, and the time that a full frame takes on it.
const ROUTER_MBPS: u64 = 20;
const FRAME_NS: i64 = 1514 * 8 * 1000 / ROUTER_MBPS as i64;

/// Two hosts and a router between them that sends on at [`ROUTER_MBPS`].
struct Routed {
    client: Namespace,
    router: Namespace,
    server: Namespace,
}

impl Routed {
    fn new(congestion_control: &str) -> Routed {
        let [client, router, server] = [(); 3].map(|()| Namespace::new().unwrap());
        for (host, device, far, net) in
            [(&client, "knee-c", "knee-rc", 1), (&server, "knee-s", "knee-rs", 2)]
        {
            let tid = router.tid();
            ip(
                host,
                format!(
                    "link add {device} gso_max_segs 1 type veth peer name {far} gso_max_segs 1 netns {tid}"
                ),
            );
            ip(host, format!("addr add 10.98.{net}.1/24 dev {device}"));
            ip(&router, format!("addr add 10.98.{net}.2/24 dev {far}"));
            ip(host, format!("link set {device} up"));
            ip(&router, format!("link set {far} up"));
            ip(host, format!("route add default via 10.98.{net}.2"));
            sysctl(host, "tcp_congestion_control", congestion_control);
        }
        sysctl(&router, "ip_forward", "1");
        let shape = format!(
            "qdisc add dev knee-rs root tbf rate {ROUTER_MBPS}mbit burst 1600 limit 300000"
        );
        router.run(move || {
            let output = std::process::Command::new("tc").args(shape.split(' ')).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        Routed { client, router, server }
    }

    /// Gaps between the full segments of a transfer as they reach the router, ns, once it has run for
    /// half its time.
    fn gaps_ns(&self, bytes: usize) -> Vec<i64> {
        let listener = self.server.run(|| TcpListener::bind(("10.98.2.1", 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let capture = Capture::start(&self.router, "knee-rc");
        let client = self.client.run(move || TcpStream::connect(("10.98.2.1", port)).unwrap());
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        carry(&client, &server, bytes);
        let packets = capture.take();
        let full: Vec<&Packet> = packets.iter().filter(|p| !p.out && p.payload >= 1400).collect();
        full[full.len() / 2..].windows(2).map(|two| two[1].at_ns - two[0].at_ns).collect()
    }
}

/// Share of the gaps between segments that are below a quarter of a frame's time, and the median gap, ns.
fn short_gaps_and_median(algorithm: &str, name: &str) -> (f64, i64) {
    let _loaded = register(Algorithm::by_name(algorithm).unwrap(), name);
    let mut gaps = Routed::new(name).gaps_ns(5_000_000);
    gaps.sort_unstable();
    let close = gaps.iter().filter(|gap| **gap < FRAME_NS / 4).count();
    let share = close as f64 / gaps.len() as f64;
    let median = gaps[gaps.len() / 2];
    println!(
        "{algorithm}: {share:.3} of {} gaps below a quarter of a frame's time; median {median} ns of {FRAME_NS}",
        gaps.len()
    );
    (share, median)
}

/// Without a queue discipline that paces TCP does it, where the algorithm asks for it: segments come
/// one by one, at the rate of the bottleneck. An algorithm that does not ask sends by its ACKs, which
/// come for two segments at a time. A machine that stops for a moment lets ACKs come together, and bw
/// is too large for ten rounds: so one of five transfers has to show it.
#[test]
fn bbr_sends_segments_apart_from_each_other() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let (unpaced, _) = short_gaps_and_median("cubic", own_name("unpaced"));
    assert!(unpaced > 0.3, "{unpaced}");
    let is_apart = || {
        let (paced, median) = short_gaps_and_median("bbr", own_name("paced"));
        // The rate is 1 % below the bottleneck's, and a timer may be late.
        let off_pct = (median - FRAME_NS) * 100 / FRAME_NS;
        paced < 0.15 && (-5..=15).contains(&off_pct)
    };
    assert!((0..5).any(|_| is_apart()), "no transfer was paced");
}

//! DCTCP's sender finds out on the running kernel whether its peer latches ECE.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use knee_algo::{Algorithm, Params};
use knee_bpf::{Connections, Embedded, Inside, Loaded, TraceFilter, Tracer};
use knee_testbed::capture::{CWR, Capture, ECE, SYN};
use knee_testbed::net::{Namespace, Pair, Path, SERVER, choose, chosen, connect, cookie, ecn_of};
use knee_testbed::net::{listen, sysctl};
use knee_testbed::trace::{record, replay};
use knee_testbed::{own_name, wait_until_free};

const BYTES: usize = 24 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn with_auto(name: &str) -> (&'static Algorithm, Params) {
    let algorithm = Algorithm::by_name(name).unwrap();
    let mut params = algorithm.default_params();
    algorithm.set_param(&mut params, "peer", "auto").unwrap();
    (algorithm, params)
}

fn load(algorithm: &Algorithm, name: &str, params: &Params) -> Loaded {
    wait_until_free(name);
    Loaded::register_for_any_user(Embedded::by_name(algorithm.name()).unwrap(), name, params)
        .unwrap()
}

/// Runs of marks, some ending in the midst of a window.
fn marked() -> Path {
    Path { mark_period: 400, mark_burst: 7, ..Path::default() }
}

fn send(mut from: &TcpStream, mut to: &TcpStream) {
    for stream in [from, to] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            let mut left = BYTES;
            while left > 0 {
                left -= to.read(&mut buffer[..left.min(1 << 16)]).unwrap();
            }
        });
        from.write_all(&vec![0; BYTES]).unwrap();
    });
}

/// A rate in front of the veth pair, so that packets arrive one by one and windows are acknowledged by more
/// than one or two ACKs; false: the kernel has no token bucket.
fn pace(host: &Namespace, device: &'static str) -> bool {
    host.run(move || {
        let words = "qdisc add dev DEV root tbf rate 300mbit burst 3100 limit 600000";
        let words = words.split(' ').map(|word| if word == "DEV" { device } else { word });
        Command::new("tc").args(words).output().is_ok_and(|output| output.status.success())
    })
}

/// The view `latched` of a connection.
fn is_latched(pair: &Pair, at_server: bool, socket: &TcpStream) -> bool {
    let wanted = cookie(socket, libc::SO_COOKIE);
    let reader = Connections::open().unwrap();
    let host = if at_server { &pair.server } else { &pair.client };
    let all = reader.read_in(&host.run(knee_netns::current).unwrap()).unwrap();
    let connection = all.iter().find(|connection| connection.cookie == wanted).unwrap();
    let values = Inside::new().of(connection).unwrap();
    values.iter().find(|value| value.name == "latched").unwrap().number == 1
}

/// Whether the sender finds its classic peer. On a machine with other load one ACK may cover a whole window, which tells
/// nothing of the peer: then more is sent, five times at most.
fn is_found_by(pair: &Pair, at_server: bool, sender: &TcpStream, receiver: &TcpStream) -> bool {
    (0..5).any(|_| {
        send(sender, receiver);
        is_latched(pair, at_server, sender)
    })
}

#[test]
fn a_classic_peer_is_found_by_whoever_answers_it() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("ne");
    let (dctcp, params) = with_auto("dctcp");
    let _loaded = load(dctcp, name, &params);
    let mut tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    // The client is Reno's and asks for ECN (tcp_ecn = 1); the server sends.
    let pair = Pair::new("reno", Path::default(), marked());
    if !pace(&pair.server, "knee-s") {
        println!("not tried: the kernel has no tbf queue discipline (CONFIG_NET_SCH_TBF)");
        return;
    }
    let records = record(&mut tracer, || {
        let listener = listen(&pair);
        choose(&listener, name);
        let (client, server) = connect(&pair, &listener);
        assert!(ecn_of(&server).negotiated);
        assert_eq!((chosen(&client).as_str(), chosen(&server).as_str()), ("reno", name));
        assert!(is_found_by(&pair, true, &server, &client));
    });
    let report = replay(dctcp, &params, &records);
    println!("{report}");
    assert!(report.is_equal(), "{:?}", report.first_difference);
}

#[test]
fn a_peer_of_dctcp_is_none() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("both");
    let (dctcp, params) = with_auto("dctcp");
    let _loaded = load(dctcp, name, &params);
    let pair = Pair::new(name, marked(), Path::default());
    if !pace(&pair.client, "knee-c") {
        println!("not tried: the kernel has no tbf queue discipline (CONFIG_NET_SCH_TBF)");
        return;
    }
    let (client, server) = connect(&pair, &listen(&pair));
    assert!(ecn_of(&client).negotiated);
    send(&client, &server);
    assert!(!is_latched(&pair, false, &client));
}

#[test]
fn the_sender_alone_negotiates_ecn_with_an_ordinary_listener() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let name = own_name("snd");
    let (sender, params) = with_auto("dctcp_snd");
    let _loaded = load(sender, name, &params);
    let mut tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let pair = Pair::new("reno", marked(), Path::default());
    if !pace(&pair.client, "knee-c") {
        println!("not tried: the kernel has no tbf queue discipline (CONFIG_NET_SCH_TBF)");
        return;
    }
    let records = record(&mut tracer, || {
        let listener = listen(&pair);
        let port = listener.local_addr().unwrap().port();
        sysctl(&pair.client, "tcp_congestion_control", name);
        let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
        let server = listener.accept().unwrap().0;
        assert!(ecn_of(&client).negotiated);
        assert_eq!((chosen(&client).as_str(), chosen(&server).as_str()), (name, "reno"));
        assert!(is_found_by(&pair, false, &client, &server));
    });
    let report = replay(sender, &params, &records);
    println!("{report}");
    assert!(report.is_equal(), "{:?}", report.first_difference);
}

/// Of what a transfer sent: in 1/1000, packets with CWR, and bytes that were acknowledged with ECE.
fn told(cwr: &str, name: &str) -> Option<(u32, u32)> {
    let sender = Algorithm::by_name("dctcp_snd").unwrap();
    let mut params = sender.default_params();
    sender.set_param(&mut params, "peer", "classic").unwrap();
    sender.set_param(&mut params, "cwr", cwr).unwrap();
    let _loaded = load(sender, name, &params);
    let mut tracer = Tracer::attach(name, &TraceFilter::default()).unwrap();
    let pair = Pair::new("reno", marked(), Path::default());
    if !pace(&pair.client, "knee-c") {
        return None;
    }
    let capture = Capture::start(&pair.server, "knee-s");
    let records = record(&mut tracer, || {
        let listener = listen(&pair);
        let port = listener.local_addr().unwrap().port();
        sysctl(&pair.client, "tcp_congestion_control", name);
        let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
        let server = listener.accept().unwrap().0;
        assert_eq!((chosen(&client).as_str(), chosen(&server).as_str()), (name, "reno"));
        send(&client, &server);
    });
    let report = replay(sender, &params, &records);
    assert!(report.is_equal(), "{:?}", report.first_difference);
    let (mut packets, mut asked, mut acks, mut told, mut una) = (0, 0, 0, 0, None);
    for packet in capture.take() {
        if packet.has(SYN) {
            continue;
        }
        if !packet.out && packet.payload > 0 {
            packets += 1;
            asked += u32::from(packet.has(CWR));
        } else if packet.out {
            let bytes = packet.ack.wrapping_sub(una.replace(packet.ack).unwrap_or(packet.ack));
            acks += u32::from(bytes > 0);
            told += if packet.has(ECE) { bytes } else { 0 };
        }
    }
    println!(
        "{cwr}: {packets} packets, {asked} with CWR, {acks} ACKs, {told} bytes told as marked"
    );
    Some((1000 * asked / packets, (1000 * u64::from(told) / BYTES as u64) as u32))
}

/// Seven of 400 packets are marked: a classic receiver of the running kernel says so if CWR asks it all
/// the time, and tells of whole round trips if CWR answers it. A machine with other work brings ACKs in clumps, of which one
/// CWR answers many: one of twelve attempts has to show it.
#[test]
fn cwr_with_each_ack_makes_a_classic_receiver_tell_of_each_packet() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let mut seen = Vec::new();
    for _ in 0..12 {
        let (Some(once), Some(each)) =
            (told("once", own_name("once")), told("each", own_name("each")))
        else {
            println!("not tried: the kernel has no tbf queue discipline (CONFIG_NET_SCH_TBF)");
            return;
        };
        println!("with CWR, told as marked, of 1000: once {once:?}, each {each:?}");
        if each.0 > 10 * once.0 && (9..35).contains(&each.1) && once.1 > 2 * each.1 {
            return;
        }
        seen.push((once, each));
    }
    panic!("{seen:?}");
}

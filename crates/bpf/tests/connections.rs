//! What the reader of connections says is what each connection says of itself.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Connection, Connections, Embedded, Inside, Loaded, State, Value};
use knee_netns::{FoundNamespace, Namespace};
use knee_testbed::net::{Pair, Path, SERVER, choose, cookie};
use knee_testbed::own_name;

/// No single read or write may take longer than that.
const PATIENCE: Duration = Duration::from_secs(20);

/// The beginning of the kernel's `struct tcp_info`.
#[repr(C)]
#[derive(Default)]
struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    bits: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs: [u32; 2],
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs: [u32; 2],
    delivery_rate: u64,
    busy: [u64; 3],
    delivered: u32,
    delivered_ce: u32,
}

fn info(socket: &TcpStream) -> TcpInfo {
    let mut info = TcpInfo::default();
    let mut len = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of the struct, which any bits make.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    assert_eq!((result, len as usize), (0, size_of::<TcpInfo>()));
    info
}

fn register(algorithm: &str, name: &str) -> Loaded {
    let params = Algorithm::by_name(algorithm).unwrap().default_params();
    Loaded::register_for_any_user(Embedded::by_name(algorithm).unwrap(), name, &params).unwrap()
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The two ends of a connection over the pair.
fn connect(pair: &Pair) -> (TcpListener, TcpStream, TcpStream) {
    let listener = knee_testbed::net::listen(pair);
    let port = listener.local_addr().unwrap().port();
    let client = patient(pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap()));
    let server = patient(listener.accept().unwrap().0);
    (listener, client, server)
}

fn send(mut from: &TcpStream, mut to: &TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                left -= to.read(&mut buffer[..left.min(1 << 16)]).unwrap();
            }
        });
        from.write_all(&vec![0; bytes]).unwrap();
    });
    // The last delayed ACK comes within 40 ms.
    thread::sleep(Duration::from_millis(100));
}

fn found(namespace: &Namespace) -> FoundNamespace {
    namespace.run(knee_netns::current).unwrap()
}

fn read_in(reader: &Connections, namespace: &Namespace) -> Vec<Connection> {
    reader.read_in(&found(namespace)).unwrap()
}

fn one(connections: &[Connection], socket: &impl std::os::fd::AsRawFd) -> Connection {
    let cookie = cookie(socket, libc::SO_COOKIE);
    let found: Vec<_> = connections.iter().filter(|one| one.cookie == cookie).collect();
    assert_eq!(found.len(), 1, "in {connections:?}");
    found[0].clone()
}

fn assert_agrees(connection: &Connection, socket: &TcpStream) {
    let (info, sock) = (info(socket), &connection.sock);
    let mut local = socket.local_addr().unwrap();
    let mut remote = socket.peer_addr().unwrap();
    for address in [&mut local, &mut remote] {
        address.set_ip(address.ip().to_canonical());
    }
    assert_eq!(connection.local, SocketAddr::new(local.ip(), local.port()));
    assert_eq!(connection.remote, SocketAddr::new(remote.ip(), remote.port()));
    assert_eq!((info.state, connection.state), (1, State::Established));
    let ours = [
        ("state", u64::from(sock.sk_state), u64::from(info.state)),
        ("ca_state", u64::from(sock.icsk_ca_state), u64::from(info.ca_state)),
        ("retransmits", u64::from(sock.icsk_retransmits), u64::from(info.retransmits)),
        ("mss", sock.mss_cache.into(), info.snd_mss.into()),
        ("packets out", sock.packets_out.into(), info.unacked.into()),
        ("sacked", sock.sacked_out.into(), info.sacked.into()),
        ("lost", sock.lost_out.into(), info.lost.into()),
        ("retrans out", sock.retrans_out.into(), info.retrans.into()),
        ("srtt", connection.srtt_us().unwrap().into(), info.rtt.into()),
        ("min_rtt", connection.min_rtt_us().unwrap().into(), info.min_rtt.into()),
        ("ssthresh", sock.snd_ssthresh.into(), info.snd_ssthresh.into()),
        ("cwnd", sock.snd_cwnd.into(), info.snd_cwnd.into()),
        ("reordering", sock.reordering.into(), info.reordering.into()),
        ("total_retrans", connection.total_retrans.into(), info.total_retrans.into()),
        ("pacing rate", sock.sk_pacing_rate, info.pacing_rate),
        ("max pacing rate", sock.sk_max_pacing_rate, info.max_pacing_rate),
        ("bytes acked", connection.bytes_acked, info.bytes_acked),
        ("delivery rate", connection.delivery_rate_bytes_per_sec.unwrap_or(0), info.delivery_rate),
        ("app-limited", connection.delivery_rate_is_app_limited.into(), (info.bits & 1).into()),
        ("delivered", sock.delivered.into(), info.delivered.into()),
        ("delivered_ce", sock.delivered_ce.into(), info.delivered_ce.into()),
        ("ECN", connection.has_ecn().into(), u64::from(info.options >> 3 & 1)),
    ];
    for (what, ours, theirs) in ours {
        assert_eq!(ours, theirs, "{what}");
    }
}

#[test]
fn it_says_what_tcp_info_says() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let loaded = register("dctcp", own_name("info"));
    let ours = knee_bpf::registered().unwrap();
    let ours = ours.iter().find(|one| one.name == loaded.name()).unwrap();
    let reader = Connections::open().unwrap();
    let marks = Path { mark_period: 20, mark_burst: 2, drop_period: 503, ..Path::default() };
    let pair = Pair::new(own_name("info"), marks, Path::default());
    let (listener, client, server) = connect(&pair);
    send(&client, &server, 3_000_000);
    send(&server, &client, 50_000);

    let clients = read_in(&reader, &pair.client);
    let servers = read_in(&reader, &pair.server);
    assert_eq!((clients.len(), servers.len()), (1, 2), "namespaces are read apart");
    let sender = one(&clients, &client);
    assert_agrees(&sender, &client);
    assert_agrees(&one(&servers, &server), &server);
    assert!(sender.total_retrans > 0 && sender.sock.delivered_ce > 0, "{sender:?}");
    assert!(sender.has_ecn() && sender.needs_ecn);
    assert_eq!(sender.algorithm, own_name("info"));
    assert_eq!(sender.map_id, Some(ours.map_id), "which program it runs");

    let listening = one(&servers, &listener);
    assert!(listening.is_listener());
    assert_eq!(listening.local, listener.local_addr().unwrap());
    assert_eq!(listening.remote.to_string(), "0.0.0.0:0");
    assert_eq!(listening.srtt_us(), None);

    choose(&client, "cubic");
    let moved = one(&read_in(&reader, &pair.client), &client);
    assert_eq!((moved.algorithm.as_str(), moved.map_id), ("cubic", None));
    let all = reader.read_all().unwrap();
    for socket in [&client, &server] {
        assert!(all.iter().any(|one| one.cookie == cookie(socket, libc::SO_COOKIE)));
    }
}

#[test]
fn ipv6_connections_have_their_addresses() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let reader = Connections::open().unwrap();
    let pair = Pair::new("reno", Path::default(), Path::default());
    // One over IPv6, and one over IPv4 by a socket that takes both.
    for host in ["::1", "127.0.0.1"] {
        let listener = pair.client.run(|| TcpListener::bind(("::", 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let client = pair.client.run(move || TcpStream::connect((host, port)).unwrap());
        let (client, server) = (patient(client), patient(listener.accept().unwrap().0));
        send(&client, &server, 100_000);
        let connections = read_in(&reader, &pair.client);
        for socket in [&client, &server] {
            let connection = one(&connections, socket);
            assert_agrees(&connection, socket);
            assert_eq!(connection.local.ip().to_string(), host);
        }
        assert_eq!(one(&connections, &listener).local.to_string(), format!("[::]:{port}"));
    }
}

#[test]
fn thousands_of_connections_that_come_and_go_do_not_disturb_it() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    const STAYING: usize = 1500;
    let reader = Connections::open().unwrap();
    let namespace = Namespace::new().unwrap();
    let (listener, addr) = namespace.run(|| {
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    });
    // 2 x 1500 sockets pass the default limit of files.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is that of the struct.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    let staying: Vec<_> = (0..STAYING)
        .map(|_| {
            let client = namespace.run(move || TcpStream::connect(addr).unwrap());
            (client, listener.accept().unwrap().0)
        })
        .collect();
    let cookies: Vec<u64> = staying
        .iter()
        .flat_map(|(client, server)| {
            [cookie(client, libc::SO_COOKIE), cookie(server, libc::SO_COOKIE)]
        })
        .collect();
    const COMING: usize = 6000;
    let found = found(&namespace);
    let measure = |what: &str, is_over: &dyn Fn() -> bool| {
        let (mut readings, mut read, mut spent) = (0, 0, Duration::ZERO);
        while readings < 20 || !is_over() {
            let begin = Instant::now();
            let connections = reader.read_in(&found).unwrap();
            spent += begin.elapsed();
            readings += 1;
            read += connections.len();
            let found: HashSet<u64> = connections.iter().map(|one| one.cookie).collect();
            assert_eq!(found.len(), connections.len(), "one twice");
            let missed = cookies.iter().filter(|cookie| !found.contains(cookie)).count();
            assert_eq!(missed, 0, "of those that stayed, in reading {readings}");
        }
        let each = spent.as_nanos() / read as u128;
        println!("{what}: {readings} readings, {read} sockets, {each} ns each");
    };
    measure("only those that stay", &|| true);
    listener.set_nonblocking(true).unwrap();
    thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for _ in 0..COMING / 100 {
                let clients: Vec<TcpStream> = namespace
                    .run(move || (0..100).map(|_| TcpStream::connect(addr).unwrap()).collect());
                let servers: Vec<_> = (0..100).map(|_| accept(&listener)).collect();
                drop((clients, servers));
            }
        });
        measure("while 6000 come and go", &|| churn.is_finished());
        churn.join().unwrap();
    });
}

fn value(values: &[Value], name: &str) -> i128 {
    values.iter().find(|value| value.name == name).expect(name).number
}

/// Asks again and again: an accept that slept was once seen to go on sleeping beside a connection that waited for it.
fn accept(listener: &TcpListener) -> TcpStream {
    let begin = Instant::now();
    loop {
        match listener.accept() {
            Ok((accepted, _)) => return accepted,
            Err(why) => assert_eq!(why.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(begin.elapsed() < PATIENCE, "no connection came");
        thread::sleep(Duration::from_millis(1));
    }
}

/// One segment at a time, each acknowledged before the next, so that each ACK ends a window.
#[test]
fn alpha_follows_the_marks_of_the_path_by_the_recurrence() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    const SHIFT_G: u32 = 3;
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let mut params = dctcp.default_params();
    dctcp.set_param(&mut params, "shift_g", "3").unwrap();
    let embedded = Embedded::by_name("dctcp").unwrap();
    let loaded = Loaded::register_for_any_user(embedded, own_name("alpha"), &params).unwrap();
    let reader = Connections::open().unwrap();
    let mut inside = Inside::new();
    let marks = Path { mark_period: 4, mark_burst: 1, ..Path::default() };
    let pair = Pair::new(own_name("alpha"), marks, Path::default());
    let (_listener, client, server) = connect(&pair);
    client.set_nodelay(true).unwrap();
    let read = |inside: &mut Inside| {
        let connection = one(&read_in(&reader, &pair.client), &client);
        let values = inside.of(&connection).unwrap();
        (connection.sock.delivered, connection.sock.delivered_ce, value(&values, "alpha") as u32)
    };
    // The handshake ended the first window.
    let (mut delivered, mut delivered_ce, mut alpha) = read(&mut inside);
    let mut marked = 0;
    for round in 0..80 {
        (&client).write_all(&[0; 1000]).unwrap();
        (&server).read_exact(&mut [0; 1000]).unwrap();
        let begin = Instant::now();
        while info(&client).unacked > 0 {
            assert!(begin.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(1));
        }
        let (delivered_now, delivered_ce_now, alpha_now) = read(&mut inside);
        let ce = delivered_ce_now - delivered_ce;
        assert_eq!((delivered_now - delivered, ce <= 1), (1, true), "round {round}");
        // alpha = (1 - g) * alpha + g * F, as RFC 8257 has it, in 1/1024.
        let decay = alpha >> SHIFT_G;
        let expected = alpha - if decay > 0 { decay } else { alpha } + ce * (1024 >> SHIFT_G);
        assert_eq!(alpha_now, expected.min(1024), "round {round}, before: {alpha}");
        marked += ce;
        (delivered, delivered_ce, alpha) = (delivered_now, delivered_ce_now, alpha_now);
    }
    assert_eq!(marked, 20, "the path marks one of four");
    // The share that it converges to, within the swing of g.
    assert!((150..400).contains(&alpha), "{alpha}");

    // A live program has its own parameters and types, but no map or instruction for the latter.
    let registered = knee_bpf::registered().unwrap();
    let ours = registered.iter().find(|one| one.name == loaded.name()).unwrap();
    assert!(!ours.programs.is_empty());
    let connection = one(&read_in(&reader, &pair.client), &client);
    drop(loaded);
    // It is registered no more; the connection keeps it, and it can still be seen.
    let values = Inside::new().of(&connection).unwrap();
    assert_eq!(value(&values, "alpha") as u32, alpha);
}

#[test]
fn the_kernels_own_algorithms_show_their_fields() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let available =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let reader = Connections::open().unwrap();
    let mut inside = Inside::new();
    let pair = Pair::new("reno", Path::default(), Path::default());
    for name in ["reno", "cubic", "bbr"] {
        if !available.split_whitespace().any(|one| one == name) {
            println!("{name} is not in this kernel");
            continue;
        }
        let (_listener, client, server) = connect(&pair);
        choose(&client, name);
        send(&client, &server, 1_000_000);
        let connection = one(&read_in(&reader, &pair.client), &client);
        let values = inside.of(&connection).unwrap();
        match name {
            "reno" => assert!(values.is_empty()),
            "cubic" => {
                assert!(value(&values, "delay_min") > 0, "{values:?}");
                assert!(value(&values, "sample_cnt") <= 255);
                assert_eq!(values.iter().filter(|value| value.is_main).count(), 4);
            }
            _ => {
                // bbr: what TCP_CC_INFO says.
                let mut answer = [0_u32; 5];
                let mut len = 20;
                // SAFETY: the pointer and the length are those of the array.
                let result = unsafe {
                    libc::getsockopt(
                        client.as_raw_fd(),
                        libc::IPPROTO_TCP,
                        libc::TCP_CC_INFO,
                        answer.as_mut_ptr().cast(),
                        &raw mut len,
                    )
                };
                assert_eq!((result, len), (0, 20));
                let ours = ["min_rtt_us", "pacing_gain", "cwnd_gain"]
                    .map(|name| value(&values, name) as u32);
                assert_eq!(ours, answer[2..5], "{values:?}");
            }
        }
    }
}

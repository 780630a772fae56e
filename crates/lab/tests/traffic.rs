//! The traffic program over the loopback device of a namespace of its own; it needs root.
#![allow(clippy::unwrap_used, reason = "it is a test")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, Loaded};
use knee_lab::Error;
use knee_lab::traffic::{
    Algorithms, Environment, FlowPlan, Here, InNamespaces, PingPlan, Schedule, Sequence, Series,
    SideReport, SocketKind, TcpInfo, Traffic, TrafficPlan, TrafficReport, prepare,
};
use knee_testbed::net::{Namespace, ip};
use rustix::time::{ClockId, clock_gettime};

const MS: u64 = 1_000_000;

/// A namespace whose loopback is up; `None`: not here.
fn namespace() -> Option<Namespace> {
    if !knee_testbed::kernel_is_ready() {
        return None;
    }
    let namespace = Namespace::new().unwrap();
    ip(&namespace, "link set lo up".to_owned());
    Some(namespace)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn flow(flow: u32, traffic: Traffic) -> FlowPlan {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    FlowPlan {
        flow,
        from: Some(0),
        to: Some(0),
        from_address: here,
        to_address: here,
        from_port: 0,
        port: 10_000 + flow as u16,
        algorithm: "cubic".to_owned(),
        peer_algorithm: "reno".to_owned(),
        start_ns: 10 * MS,
        first_write_ns: None,
        stop_ns: None,
        traffic,
        read_at_bytes: 1,
        sampled: false,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

fn bulk(bytes: Option<u64>) -> Traffic {
    Traffic::Bulk { bytes }
}

fn plan(end_ns: u64, flows: Vec<FlowPlan>) -> TrafficPlan {
    TrafficPlan { end_ns, until_done: true, flows, ..TrafficPlan::default() }
}

fn run(namespace: &Namespace, plan: TrafficPlan) -> TrafficReport {
    let environment = InNamespaces::new(vec![namespace], Algorithms::default());
    let mut program = prepare(plan, environment).unwrap();
    program.run(now_ns() + 5 * MS, &AtomicBool::new(false))
}

fn side(report: &TrafficReport, flow: u32, listens: bool) -> &SideReport {
    report.sides.iter().find(|side| side.flow == flow && side.listens == listens).unwrap()
}

#[test]
fn transfers_are_of_their_sizes_to_the_byte() {
    let Some(namespace) = namespace() else { return };
    let sizes = [1, 1448, 100_000, (1 << 20) + 1, 50_000_000];
    let mut flows: Vec<_> = (0..).zip(sizes).map(|(n, size)| flow(n, bulk(Some(size)))).collect();
    for (n, flow) in (0..).zip(&mut flows) {
        flow.start_ns = (10 + n) * MS;
        flow.read_at_bytes = 65_536;
        if n % 2 == 1 {
            let here = IpAddr::V6(Ipv6Addr::LOCALHOST);
            (flow.from_address, flow.to_address) = (here, here);
        }
    }
    let report = run(&namespace, plan(20_000 * MS, flows));
    assert!(report.end_ns < 20_000 * MS, "it ends when all are done");
    for (n, size) in (0..).zip(sizes) {
        let (from, to) = (side(&report, n, false), side(&report, n, true));
        assert_eq!((from.error.as_ref(), to.error.as_ref()), (None, None));
        assert_eq!(to.read_bytes, size);
        let (connected, established) = (from.connected_ns.unwrap(), from.established_ns.unwrap());
        let done = to.done_ns.unwrap();
        assert!(connected <= established && established <= done && done <= report.end_ns);
        assert!(connected >= (10 + u64::from(n)) * MS, "not before its time: {connected}");
        assert_eq!((from.algorithm.as_str(), to.algorithm.as_str()), ("cubic", "reno"));
        let info = TcpInfo::new(&to.info);
        assert_eq!((info.bytes_received(), info.state()), (Some(size), Some(1)), "still open");
        // The SYN counts.
        assert!(TcpInfo::new(&from.info).bytes_acked().unwrap() <= size + 1);
        assert!(TcpInfo::new(&from.info).bytes_sent().unwrap() >= size);
    }
}

#[test]
fn a_transfer_without_end_is_stopped_and_sends_no_more() {
    let Some(namespace) = namespace() else { return };
    let stopped = FlowPlan { stop_ns: Some(60 * MS), ..flow(0, bulk(None)) };
    let late = FlowPlan { first_write_ns: Some(50 * MS), ..flow(1, bulk(Some(10_000))) };
    let mut plan = plan(160 * MS, vec![stopped, late, flow(2, bulk(None))]);
    plan.until_done = false;
    plan.sample_goodput_ns = Some(20 * MS);
    let environment = InNamespaces::new(vec![&namespace], Algorithms::default());
    let mut program = prepare(plan, environment).unwrap();
    let report = program.run(now_ns() + 5 * MS, &AtomicBool::new(false));
    // One end was closed, which resets the other.
    knee_testbed::wait_until("two connections are left", || left_over(&namespace) == 4);
    let (from, to) = (side(&report, 0, false), side(&report, 0, true));
    for side in [from, to] {
        let at = side.stopped_ns.unwrap();
        assert!((60 * MS..65 * MS + report.late_ns).contains(&at), "{at}");
        assert_eq!((side.error.as_ref(), side.done_ns), (None, None));
    }
    assert!(to.read_bytes > 1_000_000, "{}", to.read_bytes);
    let of = |flow| report.goodput_samples.iter().filter(move |sample| sample.1 == flow);
    assert_eq!(of(0).map(|sample| sample.2).sum::<u64>(), to.read_bytes);
    // Ticks are at whole periods, and each flow that has begun has each of them.
    let ticks: Vec<u64> = of(0).map(|sample| sample.0 / MS).collect();
    assert_eq!(ticks, [20, 40, 60, 80, 100, 120, 140, 160]);
    let stopped_ns = to.stopped_ns.unwrap();
    assert!(of(0).filter(|sample| sample.0 > stopped_ns + 20 * MS).all(|sample| sample.2 == 0));
    assert!(of(2).any(|sample| sample.0 > 100 * MS && sample.2 > 0));
    // The one that wrote later was connected before.
    let (from, to) = (side(&report, 1, false), side(&report, 1, true));
    assert!(from.established_ns.unwrap() < 50 * MS && to.done_ns.unwrap() >= 50 * MS);
    assert_eq!(side(&report, 2, true).stopped_ns, None);
    assert_eq!(report.end_ns, 160 * MS);
}

#[test]
fn exchanges_are_counted_and_whole() {
    let Some(namespace) = namespace() else { return };
    let rpc = |count| Traffic::Rpc { request_bytes: 10_000, response_bytes: 3_000_000, count };
    let mut endless = flow(1, rpc(None));
    endless.stop_ns = Some(40 * MS);
    let flows = vec![FlowPlan { read_at_bytes: 4096, ..flow(0, rpc(Some(25))) }, endless];
    let mut plan = plan(20_000 * MS, flows);
    plan.until_done = true;
    let report = run(&namespace, plan);
    let (from, to) = (side(&report, 0, false), side(&report, 0, true));
    assert_eq!((to.read_bytes, from.read_bytes), (25 * 10_000, 25 * 3_000_000));
    let mine: Vec<_> = report.rpcs.iter().filter(|rpc| rpc.0 == 0).collect();
    assert_eq!(mine.len(), 25);
    assert!(mine.windows(2).all(|two| two[0].1 + two[0].2 <= two[1].1), "one after the other");
    assert_eq!(from.done_ns.unwrap(), mine[24].1 + mine[24].2);
    // The one without end stops after an answer, if it came to that before the end.
    if let Some(at) = side(&report, 1, false).stopped_ns {
        assert!(at >= 40 * MS);
        assert_eq!(side(&report, 1, false).read_bytes % 3_000_000, 0);
    }
}

#[test]
fn pings_carry_their_bits_and_come_back() {
    let Some(namespace) = namespace() else { return };
    let seen = namespace.run(|| {
        use rustix::net;
        let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
        let (family, kind) = (net::AddressFamily::INET, net::SocketType::RAW);
        net::socket_with(family, kind, flags, Some(net::ipproto::ICMP)).unwrap()
    });
    let ping = |ping, to_address, ecn, ip_bytes| PingPlan {
        ping,
        from: 0,
        to_address,
        start_ns: 0,
        interval_ns: 10 * MS,
        ip_bytes,
        ecn,
        dscp: 0,
    };
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    let mut plan = plan(205 * MS, Vec::new());
    // 28 and 48 are headers alone.
    plan.pings = vec![ping(0, v4, 2, 100), ping(1, v4, 1, 28), ping(2, v6, 1, 48)];
    let report = run(&namespace, plan);
    for stream in 0..3 {
        let mine: Vec<_> = report.pings.iter().filter(|ping| ping.0 == stream).collect();
        assert_eq!(mine.len(), 20, "{mine:?}");
        for (n, (_, sent_ns, rtt_ns)) in (1..).zip(mine) {
            let due_ns = n * 10 * MS;
            assert!((due_ns..due_ns + 5 * MS + report.late_ns).contains(sent_ns), "{n}: {sent_ns}");
            // Nothing waits for the echo of the last.
            assert!(n == 20 || rtt_ns.is_some_and(|rtt_ns| rtt_ns < 50 * MS), "{n}: {rtt_ns:?}");
        }
    }
    let mut packets = Vec::new();
    let mut buffer = [0_u8; 2000];
    while let Ok((_, len)) = rustix::net::recv(&seen, &mut buffer, rustix::net::RecvFlags::empty())
    {
        // Type, the two bits of the second byte, total length.
        packets.push((buffer[20], buffer[1] & 3, len));
    }
    for (wanted, count) in
        [((8, 2, 100), 20), ((0, 2, 100), 20), ((8, 1, 28), 20), ((0, 1, 28), 20)]
    {
        assert_eq!(packets.iter().filter(|packet| **packet == wanted).count(), count, "{wanted:?}");
    }
}

#[test]
fn a_ping_that_nobody_answers_has_no_time() {
    let Some(namespace) = namespace() else { return };
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1").unwrap());
    let mut plan = plan(35 * MS, Vec::new());
    plan.pings = vec![PingPlan {
        ping: 7,
        from: 0,
        to_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        start_ns: 0,
        interval_ns: 10 * MS,
        ip_bytes: 64,
        ecn: 0,
        dscp: 0,
    }];
    let report = run(&namespace, plan);
    assert_eq!(report.pings.len(), 3);
    assert!(report.pings.iter().all(|(ping, _, rtt)| (*ping, *rtt) == (7, None)));
}

#[test]
fn samples_come_at_their_times_with_what_the_algorithm_holds() {
    let Some(namespace) = namespace() else { return };
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let name = format!("kt{}", std::process::id());
    let embedded = Embedded::by_name("dctcp").unwrap();
    let loaded = Loaded::register_for_any_user(embedded, &name, &dctcp.default_params()).unwrap();
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap());
    let ours = FlowPlan {
        algorithm: name.clone(),
        peer_algorithm: name.clone(),
        sampled: true,
        ..flow(0, bulk(None))
    };
    let kernels = FlowPlan { sampled: true, ..flow(1, bulk(None)) };
    // One that is soon done: it is not looked into for long.
    let short = FlowPlan { flow: 3, port: 10_003, traffic: bulk(Some(1000)), ..ours.clone() };
    let mut plan = plan(205 * MS, vec![ours, kernels, flow(2, bulk(None)), short]);
    plan.until_done = false;
    plan.sample_flows_ns = Some(20 * MS);
    let algorithms = Algorithms::new(vec![&loaded], HashMap::new());
    let mut program = prepare(plan, InNamespaces::new(vec![&namespace], algorithms)).unwrap();
    let report = program.run(now_ns() + MS, &AtomicBool::new(false));
    drop(program);

    assert!(report.flow_samples.iter().all(|sample| sample.1 != 2), "it is not sampled");
    let of = |flow| report.flow_samples.iter().filter(move |sample| sample.1 == flow);
    let done_ns = side(&report, 3, true).done_ns.unwrap();
    assert!(of(3).all(|sample| sample.0 <= done_ns));
    for flow in [0, 1] {
        // A machine that is away for a period misses one.
        let count = of(flow).count();
        assert!((9..=10).contains(&count) || report.late_ns >= 20 * MS, "{count}");
        // Between being told and looking the machine may be away, but not as a rule.
        let mut behind_ns: Vec<u64> = of(flow).map(|sample| sample.0 % (20 * MS)).collect();
        behind_ns.sort_unstable();
        assert!(behind_ns[count / 2] <= report.late_ns + 5 * MS, "{behind_ns:?}");
        for (_, _, info, own) in of(flow) {
            let info = TcpInfo::new(info);
            assert_eq!(info.state(), Some(1));
            assert!(info.snd_cwnd().unwrap() > 0 && info.ecn() == Some(true));
            assert_eq!(own.len(), if flow == 0 { dctcp.diag().len() } else { 0 });
        }
    }
    // Without a mark alpha falls from its 1, by 1/16 each RTT.
    let alpha = dctcp.diag().iter().position(|diag| diag.name == "alpha").unwrap();
    let alphas: Vec<u64> = of(0).map(|sample| sample.3[alpha]).collect();
    assert!(alphas.is_sorted_by(|a, b| a >= b) && *alphas.last().unwrap() < 1024, "{alphas:?}");
    assert_eq!(side(&report, 0, true).algorithm, name);
}

#[test]
fn a_socket_that_is_left_is_looked_into_no_more() {
    let Some(namespace) = namespace() else { return };
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let name = format!("kl{}", std::process::id());
    let embedded = Embedded::by_name("dctcp").unwrap();
    let loaded = Loaded::register_for_any_user(embedded, &name, &dctcp.default_params()).unwrap();
    let algorithms = Algorithms::new(vec![&loaded], HashMap::new());
    let mut environment = InNamespaces::new(vec![&namespace], algorithms);
    let sockets = environment.open(0, &[SocketKind::Tcp { ipv6: false }; 2]).unwrap();
    for (n, socket) in (4..).zip(&sockets) {
        let flow = FlowPlan { algorithm: name.clone(), ..flow(n, bulk(None)) };
        environment.give(&flow, false, socket.as_fd()).unwrap();
        environment.watch(&flow, socket.as_fd()).unwrap();
    }
    assert_eq!(environment.inside().len(), 2);
    environment.leave(sockets[0].as_fd());
    let left = environment.inside();
    assert_eq!((left.len(), left[0].0, left[0].1.len()), (1, 5, dctcp.diag().len()));
}

#[test]
fn three_hundred_flows_at_once_all_complete() {
    let Some(namespace) = namespace() else { return };
    let flows: Vec<_> = (0..300).map(|n| flow(n, bulk(Some(20_000)))).collect();
    let report = run(&namespace, plan(30_000 * MS, flows));
    assert_eq!(report.sides.len(), 600);
    for n in 0..300 {
        assert_eq!(side(&report, n, true).read_bytes, 20_000);
        assert!(side(&report, n, true).done_ns.is_some(), "flow {n}");
    }
    assert!(report.end_ns < 30_000 * MS);
}

#[test]
fn a_refused_connection_fails_alone() {
    let Some(namespace) = namespace() else { return };
    // Its listening side is none of this program's.
    let refused = FlowPlan { to: None, ..flow(0, bulk(Some(1000))) };
    let nobody = FlowPlan {
        to: None,
        ..flow(2, Traffic::Rpc { request_bytes: 1, response_bytes: 1, count: Some(1) })
    };
    let mut plan = plan(300 * MS, vec![refused, flow(1, bulk(Some(1000))), nobody]);
    plan.until_done = false;
    let report = run(&namespace, plan);
    for n in [0, 2] {
        let failed = side(&report, n, false);
        assert!(failed.error.as_ref().unwrap().contains("refused"), "{failed:?}");
        assert_eq!((failed.established_ns, failed.done_ns), (None, None));
    }
    assert_eq!(side(&report, 1, true).read_bytes, 1000);
    assert_eq!(report.end_ns, 300 * MS);
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let Some(namespace) = namespace() else { return };
    let refused = |flow: FlowPlan| {
        let environment = InNamespaces::new(vec![&namespace], Algorithms::default());
        prepare(plan(MS, vec![flow]), environment).err().unwrap().to_string()
    };
    let unknown = FlowPlan { algorithm: "no_such".to_owned(), ..flow(3, bulk(None)) };
    assert!(refused(unknown).contains("flow 3: the kernel does not set the algorithm no_such"));
    assert!(refused(flow(3, bulk(Some(0)))).contains("must not be 0"));
    assert!(refused(FlowPlan { from: Some(5), ..flow(3, bulk(None)) }).contains("no host 5"));
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let foreign = FlowPlan { to_address: elsewhere, ..flow(3, bulk(None)) };
    assert!(refused(foreign).contains("flow 3, 192.0.2.1 port 10003"));
}

#[test]
fn the_flag_stops_it_soon() {
    let Some(namespace) = namespace() else { return };
    let stop = AtomicBool::new(false);
    let environment = InNamespaces::new(vec![&namespace], Algorithms::default());
    let mut program = prepare(plan(60_000 * MS, vec![flow(0, bulk(None))]), environment).unwrap();
    let begun = Instant::now();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| program.run(now_ns(), &stop));
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(report.end_ns > 50 * MS && report.end_ns < 5000 * MS);
    assert!(side(&report, 0, true).read_bytes > 0);
}

/// A host that may open no raw sockets.
struct WithoutRaw<'a>(&'a Namespace);

impl Environment for WithoutRaw<'_> {
    fn open(&mut self, _host: u32, kinds: &[SocketKind]) -> std::io::Result<Vec<OwnedFd>> {
        use rustix::net;
        assert_eq!(kinds, [SocketKind::Ping { ipv6: false }]);
        let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
        let (family, kind) = (net::AddressFamily::INET, net::SocketType::DGRAM);
        let protocol = Some(net::ipproto::ICMP);
        let open = move || net::socket_with(family, kind, flags, protocol);
        Ok(vec![self.0.run(open)?])
    }

    fn give(&mut self, _: &FlowPlan, _: bool, _: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn ping_sockets_stand_in_for_raw_ones() {
    let Some(namespace) = namespace() else { return };
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap());
    let mut plan = plan(105 * MS, Vec::new());
    plan.pings = vec![PingPlan {
        ping: 1,
        from: 0,
        to_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        start_ns: 50 * MS,
        interval_ns: 5 * MS,
        ip_bytes: 64,
        ecn: 3,
        dscp: 0,
    }];
    let mut program = prepare(plan, WithoutRaw(&namespace)).unwrap();
    let report = program.run(now_ns(), &AtomicBool::new(false));
    assert_eq!(report.pings.len(), 11);
    // Nothing waits for the echo of the last.
    assert!(report.pings[..9].iter().all(|ping| ping.2.is_some()), "{:?}", report.pings);
}

/// TCP sockets of the namespace that are still there, of whatever state.
fn left_over(namespace: &Namespace) -> usize {
    namespace
        .run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap().lines().count() - 1)
}

#[test]
fn connections_last_as_long_as_the_program_and_leave_nothing() {
    let Some(namespace) = namespace() else { return };
    let flows = vec![flow(0, bulk(Some(1000))), flow(1, bulk(None))];
    let environment = InNamespaces::new(vec![&namespace], Algorithms::default());
    let mut program = prepare(plan(100 * MS, flows), environment).unwrap();
    assert_eq!(program.ports(), [(0, 10_000), (1, 10_001)]);
    program.run(now_ns(), &AtomicBool::new(false));
    assert_eq!(left_over(&namespace), 4);
    drop(program);
    assert_eq!(left_over(&namespace), 0, "no TIME_WAIT either");
}

/// Not a test by itself: what the next one starts and kills. It runs in the namespace that it is started in.
#[test]
fn child_to_be_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let flows = (0..20).map(|n| flow(n, bulk(None))).collect();
    let mut program = prepare(plan(60_000 * MS, flows), Here::default()).unwrap();
    program.run(now_ns(), &AtomicBool::new(false));
}

const CHILD: &str = "KNEE_TRAFFIC_CHILD";

#[test]
fn a_killed_program_leaves_no_connection() {
    let Some(namespace) = namespace() else { return };
    let mut child = namespace.run(|| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_to_be_killed"])
            .env(CHILD, "1")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    });
    knee_testbed::wait_until("all are connected", || left_over(&namespace) == 40);
    child.kill().unwrap();
    child.wait().unwrap();
    knee_testbed::wait_until("nothing is left", || left_over(&namespace) == 0);
}

#[test]
fn a_thousand_flows_fit_and_idle_ones_cost_next_to_nothing() {
    let Some(namespace) = namespace() else { return };
    let cpu_s = |flows: u32| {
        // They connect and then have nothing to do: their first write is beyond the end.
        let idle = |n| FlowPlan {
            start_ns: u64::from(n) * MS / 10,
            first_write_ns: Some(100_000 * MS),
            ..flow(n, bulk(Some(1)))
        };
        let mut plan = plan(1500 * MS, (0..flows).map(idle).collect());
        plan.sample_goodput_ns = Some(10 * MS);
        let report = run(&namespace, plan);
        assert!(report.sides.iter().all(|side| side.error.is_none()));
        assert_eq!(report.sides.len(), 2 * flows as usize);
        assert!((0..flows).all(|n| side(&report, n, false).established_ns.is_some()));
        report.cpu_s
    };
    let (few, many) = (cpu_s(10), cpu_s(1000));
    // 1000 handshakes with waits of up to 50 us, and 150 ticks over 1000 flows. A look at each socket at each tick alone
    // would be 0.15 s more.
    assert!(many - few < 0.4, "{few} s, {many} s");
}

/// Looks for marks of another algorithm than connections have: where it leaves none, the kernel would have left `init` out.
struct OfAnother<'a>(InNamespaces<'a>, &'a Loaded);

impl Environment for OfAnother<'_> {
    fn open(&mut self, host: u32, kinds: &[SocketKind]) -> std::io::Result<Vec<OwnedFd>> {
        self.0.open(host, kinds)
    }

    fn give(
        &mut self,
        flow: &FlowPlan,
        listens: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        self.0.give(flow, listens, socket)
    }

    fn init_called(&self, _algorithm: &str, socket: BorrowedFd<'_>) -> Option<bool> {
        self.1.init_called(socket).unwrap()
    }
}

/// `init_called` of each side of a plan.
fn known<S: Environment>(plan: &TrafficPlan, environment: S) -> Vec<Option<bool>> {
    let mut program = prepare(plan.clone(), environment).unwrap();
    let report = program.run(now_ns() + 5 * MS, &AtomicBool::new(false));
    report.sides.iter().map(|side| side.init_called).collect()
}

#[test]
fn sides_without_the_mark_of_init_are_told() {
    let Some(namespace) = namespace() else { return };
    let loaded = |name: &str, own: &str| {
        let embedded = Embedded::by_name(name).unwrap();
        let params = Algorithm::by_name(name).unwrap().default_params();
        let own = format!("ki{}{own}", std::process::id());
        Loaded::register_noting_init(embedded, &own, &params).unwrap()
    };
    let (used, other) = (loaded("cubic", "a"), loaded("dctcp", "b"));
    let name = || used.name().to_owned();
    // One that is done and one that is stopped.
    let done = FlowPlan { algorithm: name(), peer_algorithm: name(), ..flow(0, bulk(Some(1000))) };
    let stopped = FlowPlan {
        flow: 1,
        port: 10_001,
        traffic: bulk(None),
        stop_ns: Some(100 * MS),
        ..done.clone()
    };
    let plan = TrafficPlan { until_done: false, ..plan(150 * MS, vec![done, stopped]) };
    let inside =
        || InNamespaces::new(vec![&namespace], Algorithms::new(vec![&used], HashMap::new()));
    // A busy machine may connect too late, and a kernel may leave calls out by itself, but not each time.
    assert!((0..5).any(|_| known(&plan, OfAnother(inside(), &other)) == [Some(false); 4]));
    assert!((0..5).any(|_| known(&plan, inside()) == [Some(true); 4]));
}

#[test]
fn transfers_that_wait_for_others_have_their_turn() {
    let Some(namespace) = namespace() else { return };
    let mut flows: Vec<_> = (0..3).map(|n| flow(n, bulk(Some(200_000)))).collect();
    flows[2].start_ns = MS;
    let lane = |flows: &[u32]| Sequence { flows: flows.to_vec(), parallel: 1 };
    let rounds = vec![vec![lane(&[0, 1])], vec![lane(&[2])]];
    let rpc = Traffic::Rpc { request_bytes: 100, response_bytes: 50_000, count: Some(10) };
    flows.extend([3, 4].map(|n| FlowPlan { start_ns: n * MS, ..flow(n as u32, rpc) }));
    let together = vec![vec![3, 4]];
    let schedule = Schedule { series: vec![Series { rounds }], together, ..Schedule::default() };
    let plan = TrafficPlan { schedule, ..plan(20_000 * MS, flows) };
    let report = run(&namespace, plan.clone());
    assert!(report.end_ns < 20_000 * MS, "it ends when all are done");
    let begin_ns = |flow| side(&report, flow, false).connected_ns.unwrap();
    let done_ns = |flow| side(&report, flow, true).done_ns.unwrap();
    // Start times count from the turn: 10 ms behind the beginning and behind the first, 1 ms behind the second.
    assert!(begin_ns(0) >= 10 * MS && begin_ns(1) >= done_ns(0) + 10 * MS);
    assert!((done_ns(1) + MS..done_ns(1) + 10 * MS + report.late_ns).contains(&begin_ns(2)));
    // The next requests of both leave when both have their answers.
    let of = |flow| report.rpcs.iter().filter(move |rpc| rpc.0 == flow).collect::<Vec<_>>();
    let (one, other) = (of(3), of(4));
    assert_eq!((one.len(), other.len()), (10, 10));
    for (next, before) in (1..10).zip(0..9) {
        let both_ns = (one[before].1 + one[before].2).max(other[before].1 + other[before].2);
        assert!(one[next].1 >= both_ns && other[next].1 >= both_ns, "{next}");
    }
    // A program with one side only cannot know it.
    let mut plan = plan;
    plan.flows[1].to = None;
    let why = prepare(plan, Here::default()).err().unwrap().to_string();
    assert_eq!(why, "flows that wait for others need both their sides in one program");
}

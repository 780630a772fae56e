//! Runs on kernels that are built. Without one these tests say that they are skipped; `KNEE_REQUIRE_VKERNEL` names versions
//! that must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knee_algo::module;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    ClassConfig, ClassService, ClassesConfig, Condition, DropTailConfig, DynamicThresholdConfig,
    Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::RunOptions;
use knee_run::outcome::{FlowOutcome, FlowSample, Outcome, QueueOutcome};
use knee_run::spec::{
    Cc, Coalesce, Dim, DimMode, Flow, HostConfig, Link, LinuxVersion, MeasuredWindow, Network,
    Node, Ping, Run, Sampling, Schedule, Sequence, Series, SharedBuffer, Since, Traffic,
};
use knee_run::topology::{Cable, Star};
use knee_vkernel::kernel::{Built, DEFAULT_HZ, VERSIONS, find};
use knee_vkernel::{Algorithms, Options, run};

/// Every kernel of these ticks that is built of what this knee has.
fn kernels_at(hz: u32) -> Vec<Built> {
    let required = std::env::var("KNEE_REQUIRE_VKERNEL").unwrap_or_default();
    for version in required.split_whitespace() {
        assert!(
            VERSIONS.contains(&version),
            "KNEE_REQUIRE_VKERNEL={required}: names versions, of {VERSIONS:?}"
        );
    }
    let is_required = |version| {
        hz == DEFAULT_HZ && required.split_whitespace().any(|required| required == version)
    };
    let mut found = Vec::new();
    for version in VERSIONS {
        match find(Some(version), Some(hz)) {
            Ok(built) => found.push(built),
            Err(why) if is_required(version) => panic!("{why}"),
            Err(why) => {
                // Not eprintln!, whose text the harness keeps to itself when a test passes.
                let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
            }
        }
    }
    found
}

fn kernels() -> Vec<Built> {
    kernels_at(DEFAULT_HZ)
}

fn linux(kernel: &Built) -> LinuxVersion {
    kernel.version.parse().expect("it was asked for by name")
}

fn cable(rate_mbps: u64, queue: QueueConfig) -> Cable {
    Cable {
        delay: Duration::from_us(25),
        ..Cable::new(Rate::from_bps(rate_mbps * 1_000_000), queue)
    }
}

fn flow(from: u32, to: u32, algorithm: &str, traffic: Traffic) -> Flow {
    Flow {
        group: 0,
        from,
        to,
        cc: Cc::by_name(algorithm).expect("it is one of ours"),
        peer_cc: None,
        start: Time::from_us(100 * u64::from(from)),
        first_write: None,
        stop: None,
        traffic,
        read_at_bytes: 65_536,
        sampled: true,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
    }
}

/// Two hosts send to a third at 1 Gbps, whose port marks at 20 packets and holds 300 kB.
fn two_flows(kernel: &Built, algorithm: &str, end: Time, traffic: Traffic) -> Run {
    let mut host = HostConfig::new(linux(kernel));
    host.rcvbuf_initial_bytes = 8 << 20;
    host.rcvbuf_max_bytes = 512 << 20;
    let hosts = ["a", "b", "c"].map(|name| (name.to_owned(), host.clone())).to_vec();
    let up = cable(1000, QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(u64::MAX) }));
    let step = QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(300_000),
        threshold: Threshold::Bytes(30_280),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    });
    let down = Cable { sampled: true, ..cable(1000, step) };
    Run {
        seed: 5,
        end,
        until_done: true,
        network: Star { hosts, up, down }.build(),
        flows: vec![flow(0, 2, algorithm, traffic), flow(1, 2, algorithm, traffic)],
        pings: Vec::new(),
        sampling: Sampling {
            flows: Some(Duration::from_ms(1)),
            queues: Some(Duration::from_ms(1)),
            goodput: Some(Duration::from_ms(10)),
            ..Sampling::default()
        },
        schedule: Schedule::default(),
    }
}

fn carried_out(wanted: &Run, kernel: &Built, algorithms: Algorithms) -> Outcome {
    let options = Options { algorithms, ..Options::default() };
    run(wanted, kernel, &options, &RunOptions::outcome(&AtomicBool::new(false)))
        .expect("the guest runs")
}

const ENDLESS: Traffic = Traffic::Bulk { bytes: None };

#[test]
fn two_flows_share_a_link_that_marks() {
    kernels().iter().for_each(share);
}

fn share(kernel: &Built) {
    let wanted = two_flows(kernel, "dctcp", Time::from_ms(300), ENDLESS);
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let received: u64 = outcome.flows.iter().map(|flow| flow.received_bytes).sum();
    // 1448 of 1514 bytes are payload: 35.86 MB in 300 ms.
    assert!((35_000_000..35_900_000).contains(&received), "{received}");
    assert!(outcome.flows.iter().all(|flow| flow.ecn && flow.algorithm == "dctcp"));
    let port = outcome.queues.iter().find(|queue| queue.sent_pkts > 20_000).expect("the busy port");
    assert!(port.marked_pkts > 1000 && port.dropped_pkts() == 0, "{port:?}");
    let goodput: u64 = outcome.goodput_samples.iter().map(|sample| sample.bytes).sum();
    assert!(goodput <= received && goodput + 2_000_000 > received, "{goodput} of {received}");
    assert_eq!(outcome.end, Time::from_ms(300));
    let ce: u64 =
        outcome.host_counts.iter().filter_map(|host| host.counters.ce_segs_received).sum();
    assert!(ce > 1000, "{ce}");
}

#[test]
fn transfers_requests_and_pings_are_seen_as_in_the_simulator() {
    kernels().iter().for_each(see);
}

fn see(kernel: &Built) {
    let mut wanted =
        two_flows(kernel, "cubic", Time::from_ms(500), Traffic::Bulk { bytes: Some(14_480) });
    let rpc = Traffic::Rpc { request_bytes: 100, response_bytes: 1000, count: Some(10) };
    wanted.flows[1] = Flow { start: Time::from_ms(10), ..flow(1, 2, "reno", rpc) };
    wanted.pings.push(Ping {
        from: 0,
        to: 1,
        start: Time::from_ms(20),
        interval: Duration::from_us(500),
        wire_bytes: 98,
        ecn: Default::default(),
        dscp: 0,
        one_way_until: None,
    });
    wanted.until_done = false;
    wanted.end = Time::from_ms(40);
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    let near = |name: &str, real: Duration, model: Duration| {
        let apart = real.ps().abs_diff(model.ps());
        assert!(apart < 1_000_000, "{name}: {real:?} and {model:?} are {apart} ps apart");
    };
    let completion = |outcome: &Outcome| outcome.flows[0].completion_time().expect("it completes");
    near("transfer", completion(&real), completion(&model));
    assert_eq!((real.rpcs.len(), model.rpcs.len()), (10, 10));
    for (real, model) in real.rpcs.iter().zip(&model.rpcs) {
        near("request", real.latency, model.latency);
    }
    assert_eq!((real.pings.len(), model.pings.len()), (40, 40));
    for (real, model) in real.pings.iter().zip(&model.pings).take(39) {
        near("ping", real.rtt.expect("an echo"), model.rtt.expect("an echo"));
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    kernels().iter().for_each(repeat);
}

fn repeat(kernel: &Built) {
    let wanted = two_flows(kernel, "bbr", Time::from_ms(200), ENDLESS);
    let text = |wanted: &Run| format!("{:?}", carried_out(wanted, kernel, Algorithms::Ours));
    let first = text(&wanted);
    assert!(first == text(&wanted), "two runs of one seed differ");
    let other = Run { seed: 6, ..wanted };
    assert!(first != text(&other), "the seed counts for nothing");
}

#[test]
fn ours_and_the_kernels_own_are_the_same_in_every_sample() {
    kernels().iter().for_each(compare);
}

fn compare(kernel: &Built) {
    for algorithm in ["reno", "bic", "dctcp"] {
        let wanted = two_flows(kernel, algorithm, Time::from_ms(1000), ENDLESS);
        let [ours, own] = [Algorithms::Ours, Algorithms::Kernels].map(|whose| {
            let mut outcome = carried_out(&wanted, kernel, whose);
            // The kernel's own show other values of their inside.
            outcome.flow_samples.iter_mut().for_each(|sample| sample.diag.clear());
            outcome
        });
        assert!(ours.flow_samples.len() > 1900, "{algorithm}");
        let samples = |outcome: &Outcome| format!("{:?}", outcome.flow_samples);
        assert!(samples(&ours) == samples(&own), "{algorithm}: samples of flows differ");
        let queues =
            |outcome: &Outcome| format!("{:?} {:?}", outcome.queue_samples, outcome.queues);
        assert!(queues(&ours) == queues(&own), "{algorithm}: samples of queues differ");
    }
}

#[test]
fn a_file_is_put_into_the_kernel_and_does_what_it_is_a_copy_of() {
    kernels().iter().for_each(put_in);
}

fn put_in(kernel: &Built) {
    let dir = tempfile::tempdir().expect("there is room");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_tree = kernel.directory.join("tree/net/ipv4/tcp_bic.c");
    for (from, file, algorithm, whose) in [
        (here.join("../../algorithms/dctcp.c"), "mine.c", "dctcp", Algorithms::Ours),
        (of_tree, "tcp_bic.c", "bic", Algorithms::Kernels),
    ] {
        let path = dir.path().join(file);
        fs::copy(from, &path).expect("the file is there");
        let wanted = two_flows(kernel, algorithm, Time::from_ms(500), ENDLESS);
        let built_in = carried_out(&wanted, kernel, whose);
        let mut of_file = wanted;
        let loaded = Cc::new(module::load(&path).expect("it compiles"));
        of_file.flows.iter_mut().for_each(|flow| flow.cc = loaded.clone());
        let of_file = carried_out(&of_file, kernel, Algorithms::Ours);
        assert!(built_in.flow_samples.len() > 900, "{file}");
        let samples =
            |outcome: &Outcome| format!("{:?} {:?}", outcome.flow_samples, outcome.queue_samples);
        assert!(samples(&built_in) == samples(&of_file), "{file}: samples differ");
        let is_it = |flow: &FlowOutcome| flow.algorithm == loaded.algorithm.name();
        assert!(of_file.flows.iter().all(is_it), "{file}");
    }
}

/// As the build for the simulator does, which a file that is another one in a kernel (`__KERNEL__`) passes.
#[test]
fn a_file_is_built_within_bounds_and_takes_no_strange_header() {
    let Some(kernel) = kernels().into_iter().next() else { return };
    let dir = tempfile::tempdir().expect("there is room");
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).expect("there is room");
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reno =
        fs::read_to_string(here.join("../../tests/modules/tcp_reno.c")).expect("it is there");
    write("own.h", "#define KNEE_OWN 1\n");
    write("again.h", "#include \"again.h\"\n#include \"again.h\"\n");
    write("asm.h", "asm(\".incbin \\\"/etc/passwd\\\"\");\n");
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link.h")).expect("there is room");
    let refusal = |name: &str, more: &str| {
        let path = dir.path().join(name);
        write(name, &format!("#ifdef CONFIG_NET\n{more}\n#endif\n{reno}"));
        let mut wanted = two_flows(&kernel, "reno", Time::from_ms(10), ENDLESS);
        let loaded = Cc::new(module::load(&path).expect("it compiles"));
        wanted.flows.iter_mut().for_each(|flow| flow.cc = loaded.clone());
        let ask = AtomicBool::new(false);
        let outcome = run(&wanted, &kernel, &Options::default(), &RunOptions::outcome(&ask));
        outcome.err().map(|why| why.to_string())
    };
    assert_eq!(refusal("tcp_fine.c", "#include \"own.h\"\nint knee_own = KNEE_OWN;"), None);
    for (name, more, expected) in [
        (
            "tcp_passwd.c",
            "#include \"/etc/passwd\"",
            "includes /etc/passwd, which is neither one of",
        ),
        ("tcp_link.c", "#include \"link.h\"", "includes link.h, which is neither one of"),
        (
            "tcp_asm.c",
            "#include \"asm.h\"",
            "includes asm.h, which has .incbin, which reads a file",
        ),
        ("tcp_wrong.c", "int knee_own = nowhere;", "'nowhere' undeclared"),
    ] {
        let why = refusal(name, more).expect("it is refused");
        assert!(why.contains(name) && why.contains(expected), "{why}");
        assert!(!why.contains("root:"), "{why}");
    }
    // It would go on for ever, or need more memory than there is.
    let endless =
        "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint knee_own = 0 B(B(B(+ 1)));";
    let why = refusal("tcp_endless.c", endless).expect("it is refused");
    assert!(why.contains("tcp_endless.c: does not come to an end in the compiler"), "{why}");
}

#[test]
fn timers_end_as_in_the_simulator_whatever_the_ticks() {
    [DEFAULT_HZ, 250].into_iter().flat_map(kernels_at).for_each(|kernel| wait(&kernel));
}

/// A transfer whose last packets are lost goes on when the retransmission timer ends, which is set and ends in ticks.
fn wait(kernel: &Built) {
    for rto_min in [200, 20, 5] {
        let transfer = Traffic::Bulk { bytes: Some(14_480) };
        let mut wanted = two_flows(kernel, "cubic", Time::from_ms(3000), transfer);
        wanted.flows.pop();
        for down in wanted.network.links.iter_mut().filter(|link| link.sampled) {
            down.rate = Rate::from_bps(100_000_000);
            down.queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(5) });
        }
        for host in
            wanted.network.nodes.iter_mut().filter_map(|node| node.host.as_mut()).map(Arc::make_mut)
        {
            host.hz = kernel.hz;
            host.rto_min = Duration::from_ms(rto_min);
            // Without a probe of the tail before.
            host.sysctls.early_retrans = 0;
        }
        let real = carried_out(&wanted, kernel, Algorithms::Ours);
        let model = knee_sim::simulate(&wanted).expect("it can be simulated");
        let before = |outcome: &Outcome| {
            let samples = outcome.flow_samples.iter();
            let first = samples.take_while(|sample| sample.total_retrans == 0);
            first.map(|sample| sample.rto_us).collect::<Vec<_>>()
        };
        let (waited, expected) = (before(&real), before(&model));
        let rto_us = *expected.last().expect("a sample before the timer ends");
        let tick_ms = 1000 / u64::from(kernel.hz);
        let least_us = rto_min * 1000;
        assert!((least_us..least_us + 2000 * tick_ms).contains(&u64::from(rto_us)), "{rto_us}");
        assert!(
            !waited.is_empty() && waited.iter().all(|us| *us == rto_us),
            "{waited:?}, not {rto_us}"
        );
        // As docs/vkernel.md says of the usual floor.
        let usual_us = if kernel.hz == DEFAULT_HZ { 201_000 } else { 204_000 };
        assert!(rto_min != 200 || rto_us == usual_us, "{rto_us}");
        // A timer of 64 ticks and more ends at a multiple of eight, and when ticks come is not the same.
        let late_ms = if u64::from(rto_us) / 1000 / tick_ms >= 63 { 8 * tick_ms } else { tick_ms };
        let completion =
            |outcome: &Outcome| outcome.flows[0].completion_time().expect("it is done");
        let (real, model) = (completion(&real), completion(&model));
        assert!(real.ps().abs_diff(model.ps()) < late_ms * 1_000_000_000, "{real:?} and {model:?}");
    }
}

#[test]
fn packets_are_lost_at_random_before_the_queue() {
    kernels().iter().for_each(lose);
}

fn lose(kernel: &Built) {
    let mut wanted = two_flows(kernel, "bbr", Time::from_ms(500), ENDLESS);
    let port = wanted.network.links.iter_mut().find(|link| link.to == 2).expect("it is the third");
    port.loss = 0.02;
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let port = outcome.queues.iter().max_by_key(|queue| queue.sent_pkts).expect("a queue");
    // Of N packets 2 % are lost, with a standard deviation of 0.14 sqrt(N); four of them.
    let offered = (port.offered_pkts + port.lost_pkts) as f64;
    let apart = (port.lost_pkts as f64 - 0.02 * offered).abs();
    assert!(offered > 20_000.0 && apart < 0.56 * offered.sqrt(), "{port:?}");
    let retransmitted: u64 =
        outcome.flows.iter().filter_map(|flow| flow.counters.retransmitted_segs).sum();
    assert!(retransmitted * 10 > port.lost_pkts * 9, "{retransmitted} of {}", port.lost_pkts);
    let again = carried_out(&wanted, kernel, Algorithms::Ours);
    assert!(format!("{outcome:?}") == format!("{again:?}"), "two runs of one seed differ");
}

#[test]
fn what_is_lost_as_a_burst_is_counted_by_packets() {
    kernels().iter().for_each(lose_bursts);
}

fn lose_bursts(kernel: &Built) {
    let mut wanted = two_flows(kernel, "bbr", Time::from_ms(500), ENDLESS);
    for host in
        wanted.network.nodes.iter_mut().filter_map(|node| node.host.as_mut()).map(Arc::make_mut)
    {
        host.gso_max_segs = 8;
    }
    let up = wanted.network.links.iter_mut().find(|link| link.from == 0).expect("it is the first");
    (up.loss, up.loses_bursts, up.sampled) = (0.02, true, true);
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let lossy = outcome.queues.iter().find(|queue| queue.lost_pkts > 0).expect("it loses");
    // Bursts of up to eight: 2 % of packets, with a deviation of eight times that of single ones' variance; four of them.
    let offered = (lossy.offered_pkts + lossy.lost_pkts) as f64;
    let apart = (lossy.lost_pkts as f64 - 0.02 * offered).abs();
    assert!(offered > 5000.0 && apart < 0.56 * (8.0 * offered).sqrt(), "{lossy:?}");
    let again = outcome.flows[0].counters.retransmitted_segs.expect("it is told");
    assert!(again * 10 > lossy.lost_pkts * 9, "{again} of {}", lossy.lost_pkts);
}

#[test]
fn what_begins_together_begins_together() {
    kernels().iter().for_each(begin);
}

/// A call that fails takes a nanosecond, as connect() of a socket that does not block; flows that never begin keep their name.
fn begin(kernel: &Built) {
    let transfer = Traffic::Bulk { bytes: Some(2896) };
    let mut wanted = two_flows(kernel, "reno", Time::from_ms(50), transfer);
    wanted.until_done = false;
    let one = Flow { start: Time::from_ms(1), ..wanted.flows[0].clone() };
    wanted.flows = vec![one.clone(); 200];
    wanted.flows.push(Flow { start: Time::from_ms(60), ..one });
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let (last, flows) = outcome.flows.split_last().expect("there are some");
    let connected = |flow: &FlowOutcome| flow.connected_at.expect("it began").ps();
    let first_ps = flows.iter().map(connected).min().expect("there are some");
    let last_ps = flows.iter().map(connected).max().expect("there are some");
    assert!(last_ps - first_ps < 200 * 10_000, "{first_ps} to {last_ps}");
    assert_eq!((last.connected_at, last.algorithm), (None, "reno"));
}

#[test]
fn captures_have_what_hosts_sent_and_change_nothing() {
    kernels().iter().for_each(capture);
}

fn capture(kernel: &Built) {
    let mut wanted = two_flows(kernel, "dctcp", Time::from_ms(50), ENDLESS);
    wanted.network.links.iter_mut().for_each(|link| link.jitter = Duration::from_us(3));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (options, stop) = (Options::default(), AtomicBool::new(false));
    let ask = RunOptions { captures: Some(dir.path()), ..RunOptions::outcome(&stop) };
    let seen = run(&wanted, kernel, &options, &ask).expect("the guest runs");
    let unseen = carried_out(&wanted, kernel, Algorithms::Ours);
    assert!(format!("{seen:?}") == format!("{unseen:?}"), "captures change the run");

    // Of each file the frames by interface and direction, with their times.
    let mut times: BTreeMap<(&str, u32, bool), Vec<u64>> = BTreeMap::new();
    let mut marked: BTreeMap<&str, u64> = BTreeMap::new();
    for (host, address) in [("a", 1), ("b", 2), ("c", 3)] {
        let path = dir.path().join(knee_wire::host::file_name(host));
        let file = fs::File::open(path).expect("it was written");
        let ending = knee_wire::read::read(file, |frame| {
            let (ip, len) = frame.ip().expect("it is an IP packet");
            assert!(len >= 52 && frame.at_ns <= 50_000_000);
            let is_out = ip[15] == address;
            times.entry((host, frame.interface, is_out)).or_default().push(frame.at_ns);
            let is_marked = frame.interface == 1 && ip[1] & 3 == 3;
            *marked.entry(host).or_default() += u64::from(is_marked);
            ControlFlow::Continue(())
        })
        .expect("it is a capture");
        assert_eq!(ending.broken, None);
    }
    assert!(times.values().all(|of_one| of_one.is_sorted()));
    let count = |host: &str, interface, out| times[&(host, interface, out)].len();
    let port = seen.queues.iter().max_by_key(|queue| queue.sent_pkts).expect("a queue");
    assert_eq!(count("c", 1, false) as u64, port.sent_pkts);
    // What has left a host comes to the switch after the packet's time and the link's, and some of it not before the end.
    assert!(count("a", 0, true) >= count("a", 1, true));
    let [left, came] = [0, 1].map(|interface| &times[&("a", interface, true)]);
    assert!(left.len() > 1000 && came[0] - left[0] >= 25_000, "{} {}", left[0], came[0]);
    // What was marked as it came to the queue, but for what waits there at the end.
    let ce = marked["c"];
    assert!(ce <= port.marked_pkts && ce + 60 > port.marked_pkts, "{ce} of {}", port.marked_pkts);
    assert!(ce > 100 && marked["a"] + marked["b"] == 0, "{marked:?}");
}

#[test]
fn the_measured_window_is_counted_by_itself() {
    kernels().iter().for_each(count_window);
}

/// Two Reno flows through 40 packets of buffer at 50 Mbps and 10 ms, of which the first second and the last half are not counted.
fn count_window(kernel: &Built) {
    let limit = DropTailConfig { limit: Limit::Pkts(40) };
    let endless = Traffic::Bulk { bytes: None };
    let mut wanted = two_flows(kernel, "reno", Time::from_ms(4000), endless);
    for down in wanted.network.links.iter_mut().filter(|link| link.sampled) {
        down.rate = Rate::from_bps(50_000_000);
        down.delay = Duration::from_ms(10);
        down.queue = QueueConfig::DropTail(limit);
    }
    let (from, until) = (Time::from_ms(1000), Time::from_ms(3500));
    wanted.sampling.window = Some(MeasuredWindow { from, until, period: Duration::from_ms(500) });
    let of_kernel = carried_out(&wanted, kernel, Algorithms::Ours);
    let counted = of_kernel.window.as_ref().expect("it was asked for");
    // What samples say at the same moments, to the packet.
    let queue = |at: Time| {
        let samples = of_kernel.queue_samples.iter();
        samples.filter(|sample| sample.at == at).map(|sample| sample.dropped_pkts).sum::<u64>()
    };
    let all = |queues: &[QueueOutcome]| queues.iter().map(QueueOutcome::dropped_pkts).sum::<u64>();
    let drops = all(&counted.queues);
    assert_eq!(drops, queue(until) - queue(from), "Linux {}", kernel.version);
    assert!(drops > 0 && drops < all(&of_kernel.queues));
    for (index, flow) in counted.flows.iter().enumerate() {
        let nearest = |at: Time| {
            let is_flow = |sample: &&FlowSample| sample.flow == index as u32 && sample.at >= at;
            of_kernel.flow_samples.iter().find(is_flow).expect("a sample").total_retrans
        };
        let retransmitted = flow.counters.retransmitted_segs.expect("a kernel tells it");
        assert_eq!(retransmitted, nearest(until) - nearest(from));
        let of_run = of_kernel.flows[index].counters.retransmitted_segs.expect("it does");
        assert!(retransmitted > 0 && retransmitted < of_run, "{retransmitted} of {of_run}");
        // 6.1 tells of no timeouts, and no kernel of recoveries of a connection: these are absent.
        assert_eq!(flow.counters.timeouts.is_some(), kernel.version != "6.1");
        assert_eq!(flow.counters.fast_recoveries, None);
    }
    // The simulator's saw-tooth is as long: as many losses, but for chance, which for counts is their root.
    let simulated = knee_sim::simulate(&wanted).expect("it is valid");
    let theirs = all(&simulated.window.expect("it was asked for").queues);
    let difference = theirs.abs_diff(drops);
    assert!(
        difference.pow(2) <= 4 * (theirs + drops),
        "Linux {}: {drops}, simulator {theirs}",
        kernel.version
    );
}

#[test]
fn flows_that_wait_for_others_have_their_turn() {
    kernels().iter().for_each(take_turns);
}

fn take_turns(kernel: &Built) {
    let transfer = Traffic::Bulk { bytes: Some(100_000) };
    let mut wanted = two_flows(kernel, "reno", Time::from_ms(500), transfer);
    wanted.flows = [(0, 2), (0, 2), (1, 2), (1, 2), (0, 1)]
        .map(|(from, to)| Flow { start: Time::from_us(10), ..flow(from, to, "reno", transfer) })
        .to_vec();
    let lane = |flows: &[u32], parallel| Sequence { flows: flows.to_vec(), parallel };
    let rounds = vec![vec![lane(&[0, 1], 1), lane(&[2, 3], 2)], vec![lane(&[4], 1)]];
    wanted.schedule.series = vec![Series { rounds }];
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    for (flow, (real, model)) in real.flows.iter().zip(&model.flows).enumerate() {
        let times = |of: &FlowOutcome| {
            [of.connected_at, of.done_at].map(|at| at.expect("it is over").ps() / 1_000_000)
        };
        let apart = times(real).into_iter().zip(times(model)).map(|(a, b)| a.abs_diff(b));
        assert!(apart.max() < Some(20), "{flow}: {:?} and {:?} us", times(real), times(model));
    }
}

#[test]
fn the_inside_of_an_algorithm_is_told_whole() {
    kernels().iter().for_each(look_inside);
}

fn look_inside(kernel: &Built) {
    let wanted = two_flows(kernel, "bbr3", Time::from_ms(300), ENDLESS);
    let names = Cc::by_name("bbr3").expect("it is ours").algorithm.diag();
    let at = |name: &str| names.iter().position(|value| value.name == name).expect("it has it");
    let (bw, phase, high) = (at("bw"), at("phase"), at("inflight_hi"));
    assert!(names.len() > 5, "TCP_CC_INFO would do");
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    let seen = [&real, &model].map(|outcome| {
        let samples = &outcome.flow_samples;
        assert!(samples.iter().all(|sample| sample.diag.len() == names.len()));
        let late = samples.iter().filter(|sample| sample.at > Time::from_ms(100));
        // Two flows share 1 Gbps.
        assert!(late.clone().all(|sample| (20_000_000..130_000_000).contains(&sample.diag[bw])));
        let highs: BTreeSet<u64> = late.clone().map(|sample| sample.diag[high]).collect();
        assert!(highs.len() > 1, "{highs:?}");
        late.map(|sample| sample.diag[phase]).collect::<BTreeSet<u64>>()
    });
    assert!(seen[0] == seen[1] && seen[0].len() > 2, "{seen:?}");
}

#[test]
fn an_algorithm_is_told_the_base_rtt_of_its_connection() {
    kernels().iter().for_each(tell_base_rtt);
}

fn tell_base_rtt(kernel: &Built) {
    let mut wanted = two_flows(kernel, "nv", Time::from_ms(20), ENDLESS);
    wanted.flows[0].base_rtt = Some(Duration::from_us(70));
    let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
    let names = Cc::by_name("nv").expect("it is ours").algorithm.diag();
    let at = names.iter().position(|value| value.name == "base_rtt").expect("it has it");
    let told = |flow: u32| -> BTreeSet<u64> {
        let samples = outcome.flow_samples.iter().filter(|sample| sample.flow == flow);
        samples.map(|sample| sample.diag[at]).collect()
    };
    assert_eq!((told(0), told(1)), (BTreeSet::from([70]), BTreeSet::from([0])));
}

#[test]
fn queues_share_memory_with_dynamic_thresholds() {
    kernels().iter().for_each(share_memory);
}

fn share_memory(kernel: &Built) {
    let mut wanted = two_flows(kernel, "cubic", Time::from_ms(300), ENDLESS);
    let is_host = |node: u32| node < 3;
    let ports = (0..).zip(&wanted.network.links).filter(|(_, link)| !is_host(link.from));
    // Of one hot queue alpha / (1 + alpha) of the memory is the share: 50 kB.
    let memory = SharedBuffer {
        name: "switch".to_owned(),
        law: DynamicThresholdConfig { size_bytes: 150_000, alpha: 0.5, reserved_bytes: 0 },
        links: ports.map(|(id, _)| id).collect(),
        sampled: true,
    };
    wanted.network.buffers = vec![memory];
    let number = wanted.network.links.len() as u32;
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    for outcome in [&real, &model] {
        let most = |link: u32| {
            let samples = outcome.queue_samples.iter().filter(|sample| sample.link == link);
            samples.map(|sample| sample.len_bytes).max().expect("it is sampled")
        };
        let of = |link: u32| outcome.queues.iter().find(|queue| queue.link == link);
        let port = outcome.queues.iter().max_by_key(|queue| queue.sent_pkts).map(|port| port.link);
        assert_eq!(port, Some(number), "all that its ports have sent");
        let port = wanted.network.links.iter().position(|link| link.to == 2).expect("it is there");
        let (port, memory) = (of(port as u32).expect("it is there"), of(number).expect("it, too"));
        assert!((45_000..51_514).contains(&most(port.link)), "{}", most(port.link));
        assert!(most(number) >= most(port.link));
        assert!(port.dropped_full_pkts > 10, "{port:?}");
        assert_eq!(memory.dropped_full_pkts, port.dropped_full_pkts);
    }
    assert_eq!(real.queue_samples.len(), model.queue_samples.len());
}

#[test]
fn interrupts_wait_and_their_frames_merge_as_in_the_simulator() {
    kernels().iter().for_each(merge);
}

fn merge(kernel: &Built) {
    let time = Duration::from_us(100);
    let run_with = |gso_max_segs, gro, coalesce| {
        let mut wanted = two_flows(kernel, "dctcp", Time::from_ms(300), ENDLESS);
        for node in &mut wanted.network.nodes {
            let Some(host) = &mut node.host else { continue };
            let host = Arc::make_mut(host);
            host.coalesce = Some(coalesce);
            (host.gro, host.gso_max_segs) = (gro, gso_max_segs);
        }
        wanted
    };
    let run_of = |segs, gro, frames| run_with(segs, gro, Coalesce::fixed(frames, time));
    // By how much packets on the wire, and merged ones, may differ.
    let merged_within = |wanted: Run, [wire_share, merged_share]: [f64; 2]| {
        let model = knee_sim::simulate(&wanted).expect("it can be simulated");
        let real = carried_out(&wanted, kernel, Algorithms::Ours);
        let packets = |outcome: &Outcome| {
            let counts = outcome.host_counts.iter().find(|host| host.node == wanted.flows[0].to);
            let received = counts.expect("it is told of every host").received;
            [received.wire_pkts, received.merged_pkts].map(|pkts| pkts.expect("it is told") as f64)
        };
        let ([model_wire, model_merged], [wire, merged]) = (packets(&model), packets(&real));
        assert!((wire / model_wire - 1.0).abs() < wire_share, "{wire} and {model_wire}");
        assert!((merged / model_merged - 1.0).abs() < merged_share, "{merged} and {model_merged}");
        let acks =
            real.queues.iter().map(|queue| queue.sent_pkts).min().expect("links have queues");
        (wire / merged, acks)
    };
    let coalesced = |segs, gro, frames| merged_within(run_of(segs, gro, frames), [0.02, 0.1]);
    let (alone, acks) = coalesced(1, false, Some(64));
    assert!((0.99..1.01).contains(&alone), "{alone} frames a packet without merging");
    let (of_bursts, fewer_acks) = coalesced(44, true, Some(64));
    assert!(of_bursts > 1.5 && fewer_acks < acks, "{of_bursts}; {fewer_acks} and {acks} ACKs");
    // Eight frames at a time: no longer run of one connection can merge.
    let (of_few, _) = coalesced(44, true, Some(8));
    assert!((1.2..of_bursts).contains(&of_few), "{of_few} and {of_bursts}");
    // As coalesced above, and by Linux's own DIM.
    let at_most_each = Coalesce { since: Since::Interrupt, ..Coalesce::fixed(None, time) };
    let pauses = Coalesce { since: Since::Last, ..Coalesce::fixed(Some(30), time) };
    let [eqe, cqe] = [DimMode::Eqe, DimMode::Cqe].map(|mode| Dim::new(mode).coalesce());
    for how in [at_most_each, pauses, eqe, cqe] {
        // Where ACKs come in bursts, links are not full all the time, and runs are not as alike.
        let (pkts_per_merge, _) = merged_within(run_with(44, true, how), [0.1, 0.15]);
        assert!(pkts_per_merge > 1.05, "{pkts_per_merge} with {how:?}");
    }
    // An interrupt for each frame is as none that waits, to the packet.
    let plain = two_flows(kernel, "dctcp", Time::from_ms(300), ENDLESS);
    let [each, plain] = [run_of(1, false, Some(1)), plain].map(|wanted| {
        let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
        let samples = outcome.queue_samples.iter();
        samples.map(|sample| (sample.at, sample.link, sample.len_bytes)).collect::<Vec<_>>()
    });
    assert!(!each.is_empty() && each == plain);
}

#[test]
fn frames_merge_on_a_cable_between_hosts_and_losses_are_repaired() {
    kernels().iter().for_each(merge_without_switch);
}

/// No switch copies frames here: what GRO gets is a clone of what the sender keeps.
fn merge_without_switch(kernel: &Built) {
    for gso_max_segs in [1, 65_535] {
        let mut wanted = two_flows(kernel, "cubic", Time::from_ms(1500), ENDLESS);
        let mut host = HostConfig::clone(wanted.network.nodes[0].host.as_deref().expect("a host"));
        host.gso_max_segs = gso_max_segs;
        host.gro = true;
        let time = Duration::from_ms(2);
        host.coalesce = Some(Coalesce::fixed(Some(8), time));
        let node = |name: &str| Node { name: name.to_owned(), host: Some(host.clone().into()) };
        let tail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(300) });
        let lossy = Arc::new(Cable { loss: 0.01, ..cable(100, tail) });
        let link = |from, to| Link { from, to, parallel: 1, sampled: true, cable: lossy.clone() };
        wanted.network = Network {
            nodes: vec![node("a"), node("b")],
            links: vec![link(0, 1), link(1, 0)],
            ..Network::default()
        };
        wanted.flows = vec![flow(0, 1, "cubic", ENDLESS)];
        let outcome = carried_out(&wanted, kernel, Algorithms::Ours);
        assert!(outcome.flows[0].received_bytes > 1_000_000, "{gso_max_segs}");
        assert!(outcome.flows[0].counters.retransmitted_segs > Some(5), "{gso_max_segs}");
    }
}

#[test]
fn classes_of_a_port_have_their_own_queues_and_turns() {
    kernels().iter().for_each(classify);
}

fn classify(kernel: &Built) {
    let mut wanted = two_flows(kernel, "dctcp", Time::from_ms(400), ENDLESS);
    wanted.flows[0].dscp = 10;
    wanted.flows[1].cc = Cc::by_name("cubic").expect("it is ours");
    let port = wanted.network.links.iter().position(|link| link.to == 2).expect("it is there");
    let class = |name: &str, condition, service, queue| ClassConfig {
        name: name.to_owned(),
        condition,
        service,
        queue,
    };
    let (marks, drops) = (wanted.network.links[port].queue.clone(), Limit::Bytes(100_000));
    let tail = QueueConfig::DropTail(DropTailConfig { limit: drops });
    let of_dctcp = Condition { dscps: Some(1 << 10), ..Condition::default() };
    let acks = Condition { acks: true, ..Condition::default() };
    wanted.network.links[port].queue = QueueConfig::Classes(ClassesConfig {
        classes: vec![
            class("dctcp", of_dctcp, ClassService::Weighted(3), marks),
            class("acks", acks, ClassService::Strict, tail.clone()),
            class("others", Condition::default(), ClassService::Weighted(1), tail),
        ],
        quantum_bytes: 1514,
    });
    let model = knee_sim::simulate(&wanted).expect("it can be simulated");
    let real = carried_out(&wanted, kernel, Algorithms::Ours);
    let [real_parts, model_parts] = [&real, &model].map(|outcome| {
        let of_port = outcome.queues.iter().filter(|queue| queue.link == port as u32);
        let of_port: Vec<_> = of_port.collect();
        assert_eq!(
            of_port.iter().map(|queue| queue.part).collect::<Vec<_>>(),
            [None, Some(0), Some(1), Some(2)]
        );
        let sum: u64 = of_port[1..].iter().map(|queue| queue.sent_pkts).sum();
        assert_eq!(of_port[0].sent_pkts, sum);
        // Three of four bytes are of the first class; the second has no data.
        let share = of_port[1].sent_bytes as f64 / of_port[0].sent_bytes as f64;
        assert!((0.73..0.77).contains(&share), "{share}");
        assert!(of_port[2].sent_pkts < 10, "{:?}", of_port[2]);
        assert!(of_port[1].marked_pkts > 500 && of_port[3].marked_pkts == 0, "{of_port:?}");
        of_port[1..].iter().map(|queue| queue.sent_bytes).collect::<Vec<_>>()
    });
    for (real, model) in real_parts.iter().zip(&model_parts) {
        assert!(real.abs_diff(*model) < 500_000, "{real} and {model}");
    }
    assert_eq!(real.queue_samples.len(), model.queue_samples.len());
}

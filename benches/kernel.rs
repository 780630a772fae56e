//! The cost of an algorithm in the kernel: knee's BPF build against the kernel's own algorithm of
//! the same name, over one pair of network namespaces.
//!
//! `cargo bench -p knee-bpf` (as root) prints the processor time per byte, both ends together, and
//! the time of each program per ACK. The two algorithms alternate in one run, and each ratio
//! compares neighbouring transfers, so other load affects both. Medians have 95 % intervals, to
//! tell the algorithm's cost from other load.
//!
//! Processor time is that of this process, including softirqs that run in its context. It excludes
//! them if the kernel accounts for interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING). It never
//! includes ksoftirqd and timers.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::thread;
use std::time::Instant;

use knee_algo::Algorithm;
use knee_bpf::{Embedded, KernelApi, Loaded, registered};
use knee_testbed::median::Median;
use knee_testbed::net::{Pair, Path, SERVER, choose, ip};
use libbpf_rs::query::ProgInfoIter;

/// Ratios spread by tens of percent. This many pairs narrow the median's interval to some percent.
const PAIRS: usize = 40;
const BYTES: usize = 100_000_000;
const CHUNK: usize = 1 << 18;
const BPF_STATS_RUN_TIME: u32 = 0;

fn main() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    println!(
        "Linux {}, {} MB each, {PAIRS} pairs",
        KernelApi::running().release,
        BYTES / 1_000_000
    );
    println!(
        "{:<9} {:<22} {:>8} {:>10} {:>33} {:>20} {:>20}",
        "algorithm",
        "frames",
        "ns/kB",
        "kernel's",
        "ratio (95 %; least..most)",
        "wall times' (95 %)",
        "more per ACK, ns"
    );
    let own = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for algorithm in Algorithm::all() {
        // Compare only if the kernel has its own algorithm of this name.
        if own.split_whitespace().any(|name| name == algorithm.name()) {
            compare(algorithm, "one segment each", 1);
            compare(algorithm, "up to 64 kB (TSO, GRO)", 44);
        }
    }
    println!();
    println!("{:<9} {:<16} {:>12} {:>12}", "algorithm", "program", "ns per call", "calls/ACK");
    for algorithm in Algorithm::all() {
        programs(algorithm);
    }
}

/// The name under which knee registers its algorithm here.
fn ours(algorithm: &Algorithm) -> String {
    format!("knee_b_{}", algorithm.name())
}

fn register(algorithm: &Algorithm) -> Loaded {
    let embedded = Embedded::by_name(algorithm.name()).unwrap();
    let params = algorithm.default_params();
    Loaded::register(embedded, &ours(algorithm), &params).unwrap()
}

fn pair(segments: u32) -> Pair {
    let pair = Pair::new("reno", Path::default(), Path::default());
    ip(&pair.client, format!("link set knee-c gso_max_segs {segments}"));
    ip(&pair.server, format!("link set knee-s gso_max_segs {segments}"));
    pair
}

fn compare(algorithm: &Algorithm, frames: &str, segments: u32) {
    let _loaded = register(algorithm);
    let pair = pair(segments);
    let ours = ours(algorithm);
    transfer(&pair, &ours);
    let (mut cpu, mut wall, mut more) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = [Vec::new(), Vec::new()];
    for number in 0..PAIRS {
        // The order changes from pair to pair, too.
        let (one, other);
        if number % 2 == 0 {
            one = transfer(&pair, &ours);
            other = transfer(&pair, algorithm.name());
        } else {
            other = transfer(&pair, algorithm.name());
            one = transfer(&pair, &ours);
        }
        cpu.push(one.cpu_s / other.cpu_s);
        wall.push(one.wall_s / other.wall_s);
        more.push((one.cpu_s - other.cpu_s) * 1e9 / one.acks as f64);
        costs[0].push(one.cpu_s / BYTES as f64 * 1e12);
        costs[1].push(other.cpu_s / BYTES as f64 * 1e12);
    }
    let [ours, own] = costs.map(|costs| Median::of(&costs).median);
    let (ratio, more) = (Median::of(&cpu), Median::of(&more));
    let (low, high) = ratio.interval.unwrap();
    let (fewest, most) = more.interval.unwrap();
    let all = format!(
        "{:.3} ({low:.3} to {high:.3}; {:.2}..{:.2})",
        ratio.median, ratio.least, ratio.most
    );
    let wall = Median::of(&wall);
    let (sooner, later) = wall.interval.unwrap();
    println!(
        "{:<9} {frames:<22} {ours:>8.0} {own:>10.0} {all:>33} {:>20} {:>20}",
        algorithm.name(),
        format!("{:.2} ({sooner:.2} to {later:.2})", wall.median),
        format!("{:.0} ({fewest:.0} to {most:.0})", more.median),
    );
}

struct Cost {
    cpu_s: f64,
    wall_s: f64,
    acks: u64,
}

/// Runs one bulk transfer. Returns the processor time of both ends, including the kernel's work for
/// them. A packet over a veth pair is received in the context of its sender.
fn transfer(pair: &Pair, name: &str) -> Cost {
    let listener = pair.server.run(|| TcpListener::bind((SERVER, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let mut client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    choose(&client, name);
    let (mut server, _) = listener.accept().unwrap();
    let acks_before = pair.client.run(in_segments);
    let (cpu_before_s, started) = (cpu_s(), Instant::now());
    thread::scope(|scope| {
        scope.spawn(move || {
            let chunk = vec![0; CHUNK];
            for _ in 0..BYTES / CHUNK {
                client.write_all(&chunk).unwrap();
            }
        });
        let mut chunk = vec![0; CHUNK];
        while server.read(&mut chunk).unwrap() > 0 {}
    });
    let (cpu_s, wall_s) = (cpu_s() - cpu_before_s, started.elapsed().as_secs_f64());
    Cost { cpu_s, wall_s, acks: pair.client.run(in_segments) - acks_before }
}

/// User and system time of this process so far, seconds.
fn cpu_s() -> f64 {
    // SAFETY: all zeros is a valid `rusage`, and the pointer points to one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Prints the time of each program by the kernel's own clock, which itself takes some 20 ns.
fn programs(algorithm: &Algorithm) {
    // SAFETY: the call only requests statistics; the kernel counts while the descriptor is open.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(BPF_STATS_RUN_TIME) };
    assert!(fd >= 0, "the kernel does not count");
    // SAFETY: the descriptor was just opened and has no other owner.
    let _counting = unsafe { OwnedFd::from_raw_fd(fd) };
    let _loaded = register(algorithm);
    let pair = pair(1);
    ip(&pair.server, "link set knee-s up".to_owned());
    let acks = transfer(&pair, &ours(algorithm)).acks;
    let one = registered().unwrap().into_iter().find(|one| one.name == ours(algorithm)).unwrap();
    let mut seen = BTreeSet::new();
    for program in ProgInfoIter::default() {
        let member = one.programs.iter().find(|(_, id)| *id == program.id);
        let Some((member, _)) = member.filter(|(member, _)| seen.insert(member.clone())) else {
            continue;
        };
        if program.run_cnt > 0 {
            let per_call_ns = program.run_time_ns as f64 / program.run_cnt as f64;
            let per_ack = program.run_cnt as f64 / acks as f64;
            println!("{:<9} {member:<16} {per_call_ns:>12.0} {per_ack:>12.3}", algorithm.name());
        }
    }
}

/// TCP segments received in the namespace of this thread.
fn in_segments() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(name, _)| *name == "InSegs").unwrap().1.parse().unwrap()
}

//! The cost of a packet in large fabrics and with many flows, compared with a dumbbell of 20 flows.
//!
//! `make bench-scale` runs every case in its own process, with the dumbbell right before it, so
//! that other load slows both. The ratio divides the processor time per data packet by the
//! dumbbell's. Each result is the median of the rounds. The memory of a host counts its links and its
//! share of the fabric, that of a flow its two idle sockets. `line ns` is what a cache line costs that is not near, measured beside each run:
//! where it is dear, large fabrics are slow. `htsim` are the packets a second of csg-htsim, from notebook/scale.md. `-- --large` adds 4,096 and 3,456 hosts, `-- NAME...`
//! selects cases whose names contain one of these, `-- --rounds N` repeats. `-- --threads N NAME...`
//! compares the wall time with that on N threads, `-- --memory NAME...` the memory, and `-- --balance NAME...`
//! prints how evenly domains share the work.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod load;
mod networks;

use knee_queue::time::{Duration, Time};
use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::outcome::Work;
use knee_run::spec::{Cc, Flow, Network, Run, Traffic};
use knee_run::topology::{Cable, Dumbbell, FatTree, LeafSpine};
use load::{Random, web_search};
use networks::{Lines, bulk, cable, cpu_seconds, dumbbell, host, run};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// The allocator of `knee`: tables in huge pages are part of what a user gets.
#[global_allocator]
static ALLOCATOR: knee_memory::Counting = knee_memory::Counting;

const DUMBBELL: &str = "dumbbell, 20 flows";
const CASES: [&str; 12] = [
    DUMBBELL,
    "one link, 1000 flows",
    "one link, 5000 flows",
    "leaf-spine 128 hosts",
    "leaf-spine 256 hosts",
    "leaf-spine 1024 hosts",
    "leaf-spine 4096 hosts",
    "fat tree 128 hosts",
    "fat tree 1024 hosts",
    "fat tree 3456 hosts",
    "leaf-spine 1024 hosts, incast",
    "leaf-spine 1024 hosts, search",
];
const LARGE: [&str; 2] = ["4096", "3456"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--case") {
        return measure(&args[at + 1]);
    }
    if let Some(at) = args.iter().position(|arg| arg == "--peak") {
        return memory_on_threads(&args[at + 1], args[at + 2].parse().unwrap());
    }
    if let Some(at) = args.iter().position(|arg| arg == "--memory") {
        return memory(&args[at + 1..]);
    }
    if let Some(at) = args.iter().position(|arg| arg == "--balance") {
        return balance(&args[at + 1..]);
    }
    if let Some(at) = args.iter().position(|arg| arg == "--threads") {
        return on_threads(args[at + 1].parse().unwrap(), &args[at + 2..]);
    }
    let rounds = args.iter().position(|arg| arg == "--rounds");
    let repeats = rounds.map_or(3, |at| args[at + 1].parse().unwrap());
    let names: Vec<&String> = args
        .iter()
        .enumerate()
        .filter(|(at, arg)| !arg.starts_with('-') && rounds != at.checked_sub(1))
        .map(|(_, arg)| arg)
        .collect();
    let lines = Lines::new();
    let is_large = args.iter().any(|arg| arg == "--large");
    println!(
        "{:<30} {:>6} {:>9} {:>8} {:>9} {:>10} {:>8} {:>6} {:>8} {:>9} {:>10} {:>9}",
        "case",
        "ratio",
        "M pkts/s",
        "line ns",
        "htsim",
        "M hops/s",
        "ev/pkt",
        "MB",
        "setup s",
        "kB/host",
        "kB/flow",
        "kB/flow run"
    );
    for case in CASES {
        let wanted = names.is_empty() || names.iter().any(|name| case.contains(name.as_str()));
        let fits = is_large || !LARGE.iter().any(|hosts| case.contains(hosts));
        if wanted && fits {
            compare(case, repeats, &lines);
        }
    }
}

/// Runs cases on one thread and on `threads` in turn, and prints the wall time of both.
fn on_threads(threads: usize, names: &[String]) {
    println!("{:<30} {:>10} {:>10} {:>8}", "case", "1 thread s", "several s", "speedup");
    for case in CASES.iter().filter(|case| names.iter().any(|name| case.contains(name.as_str()))) {
        let run = run_of(case);
        let empty = Run { end: Time::ZERO, ..run.clone() };
        let wall = |run: &Run, threads| {
            let start = Instant::now();
            let work = knee_sim::simulate_on(run, threads).unwrap().work;
            (start.elapsed().as_secs_f64(), work)
        };
        let mut took: Vec<(f64, f64)> = (0..3)
            .map(|_| {
                let [one, many] = [1, threads].map(|threads| {
                    let setup = wall(&empty, threads).0;
                    let (whole, work) = wall(&run, threads);
                    (whole - setup, work)
                });
                assert_eq!(one.1, many.1);
                (one.0, many.0)
            })
            .collect();
        took.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (one, many) = took[1];
        println!("{case:<30} {one:>10.2} {many:>10.2} {:>8.2}", one / many);
    }
}

/// Runs cases on 1, 2, 4 and 8 threads, each in its own process, and prints the memory of each.
fn memory(names: &[String]) {
    println!("{:<30} {:>8} {:>9} {:>9} {:>9}", "case, MB", "1 thread", "2", "4", "8");
    for case in CASES.iter().filter(|case| names.iter().any(|name| case.contains(name.as_str()))) {
        let [one, two, four, eight] = ["1", "2", "4", "8"].map(|threads| {
            let program = std::env::current_exe().unwrap();
            let output = Command::new(program).args(["--peak", case, threads]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().parse::<f64>().unwrap() / 1e6
        });
        println!("{case:<30} {one:>8.0} {two:>9.0} {four:>9.0} {eight:>9.0}");
    }
}

/// Number of domains for which the balance is printed.
const DOMAINS: [usize; 5] = [2, 4, 8, 16, 64];

/// Prints how evenly events are spread over domains, what a barrier and mailboxes cost, and the
/// speedup that follows for so many cores. It is a computation: a domain's thread needs a core of
/// its own, with the speed that the one thread here has.
fn balance(names: &[String]) {
    let wait_ns = barrier_ns();
    println!("a barrier of two threads: {wait_ns:.0} ns; a mailbox: {:.0} ns", mailbox_ns());
    println!(
        "{:<30} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "case", "domains", "us", "events", "of all", "imbalance", "ns/event", "in turns", "speedup"
    );
    for case in CASES.iter().filter(|case| names.iter().any(|name| case.contains(name.as_str()))) {
        let run = run_of(case);
        let empty = Run { end: Time::ZERO, ..run.clone() };
        let (_, setup_s) = timed(&empty);
        let (work, whole_s) = timed(&run);
        let event_ns = (whole_s - setup_s) * 1e9 / work.events as f64;
        for domains in DOMAINS {
            let start = cpu_seconds();
            let Some(loads) = knee_sim::simulate_in_turns(&run, domains).unwrap().1 else {
                continue;
            };
            // The exchange costs, too; that domains have less memory each gains.
            let in_turns = (cpu_seconds() - start) / whole_s;
            let count = loads.events.len() as f64;
            let windows = loads.events[0].len();
            let of =
                |window: usize| loads.events.iter().map(move |events| f64::from(events[window]));
            let all: f64 = (0..windows).map(|window| of(window).sum::<f64>()).sum();
            let longest: f64 = (0..windows).map(|window| of(window).fold(0.0, f64::max)).sum();
            let totals =
                loads.events.iter().map(|events| events.iter().map(|n| f64::from(*n)).sum());
            let largest = totals.fold(0.0, f64::max);
            // Each thread adds to one counter, and looks into a mailbox of each other.
            let wait = wait_ns * count / 2.0 + mailbox_ns() * count;
            let speedup = all * event_ns / (longest * event_ns * in_turns + wait * windows as f64);
            println!(
                "{case:<30} {:>7} {:>7.2} {:>9.0} {:>9.2} {:>9.2} {event_ns:>9.0} {in_turns:>9.2} {speedup:>8.1}",
                loads.events.len(),
                loads.window.ps() as f64 / 1e6,
                all / windows as f64,
                largest * count / all,
                longest * count / all,
            );
        }
    }
}

/// The part of the standard library that the barrier uses.
mod sync {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use std::thread::yield_now;

    pub(crate) const SPINS: u32 = 200;
}

#[allow(dead_code, reason = "no thread fails here")]
#[path = "../crates/sim/src/barrier.rs"]
mod barrier;

/// Measures a barrier of two threads that do nothing else, ns; the best of many tries, since other
/// work on either core makes it long.
fn barrier_ns() -> f64 {
    const WAITS: u32 = 1000;
    let barrier = barrier::Barrier::new(2);
    let tries = |times: &mut Vec<f64>| {
        for _ in 0..200 {
            let start = Instant::now();
            (0..WAITS).for_each(|_| assert!(barrier.wait()));
            times.push(start.elapsed().as_nanos() as f64 / f64::from(WAITS));
        }
    };
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| tries(&mut Vec::new()));
        tries(&mut times);
    });
    times.into_iter().fold(f64::MAX, f64::min)
}

/// Measures a look into an empty mailbox, ns.
fn mailbox_ns() -> f64 {
    let mailboxes: Vec<Mutex<Vec<u64>>> = (0..64).map(|_| Mutex::default()).collect();
    let start = Instant::now();
    for mailbox in mailboxes.iter().cycle().take(64_000) {
        std::hint::black_box(mailbox.lock().unwrap().drain(..).count());
    }
    start.elapsed().as_nanos() as f64 / 64_000.0
}

/// Prints the bytes that a run takes beyond its specification.
fn memory_on_threads(case: &str, threads: usize) {
    let run = run_of(case);
    let before = peak_bytes();
    let outcome = knee_sim::simulate_on(&run, threads).unwrap();
    println!("{}", peak_bytes() - before);
    drop(outcome);
}

/// Runs the dumbbell and the case in turn.
fn compare(case: &str, rounds: usize, lines: &Lines) {
    let mut ratios = Vec::new();
    let mut prices_ns = Vec::new();
    let mut all = Vec::new();
    for _ in 0..rounds {
        let (beside, it) = (in_a_process(DUMBBELL), in_a_process(case));
        ratios.push(beside.pkts_per_s() / it.pkts_per_s());
        all.push(it);
        prices_ns.push(lines.price_ns());
    }
    prices_ns.sort_by(f64::total_cmp);
    ratios.sort_by(f64::total_cmp);
    all.sort_by(|a, b| a.pkts_per_s().total_cmp(&b.pkts_per_s()));
    let it = all[rounds / 2];
    println!(
        "{case:<30} {:>6.2} {:>9.3} {:>8.0} {:>9} {:>10.3} {:>8.2} {:>6.0} {:>8.2} {:>9.1} {:>10.1} {:>9.1}",
        ratios[rounds / 2],
        it.pkts_per_s() / 1e6,
        prices_ns[rounds / 2],
        of_htsim(case).unwrap_or("-"),
        it.pkts_per_s() * it.hops / it.pkts / 1e6,
        it.events / it.pkts,
        it.peak_bytes / 1e6,
        it.setup_s,
        it.network_bytes / it.hosts / 1e3,
        (it.setup_bytes - it.network_bytes) / it.flows / 1e3,
        (it.peak_bytes - it.setup_bytes) / it.flows / 1e3,
    );
}

/// Returns the million packets a CPU second of csg-htsim for a case, as the notebook's table has them.
fn of_htsim(case: &str) -> Option<&'static str> {
    let table = include_str!("../notebook/scale.md").split_once("## Beside csg-htsim")?.1;
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {case} |")))?;
    row.split('|').next().map(str::trim)
}

#[derive(Clone, Copy)]
struct Measured {
    pkts: f64,
    hops: f64,
    events: f64,
    /// Processor time of the whole run without its setup, seconds.
    cpu_s: f64,
    setup_s: f64,
    /// Memory that the process needs to set the network up without flows, and all of the run, beyond
    /// its own.
    network_bytes: f64,
    setup_bytes: f64,
    peak_bytes: f64,
    hosts: f64,
    flows: f64,
}

impl Measured {
    fn pkts_per_s(&self) -> f64 {
        self.pkts / self.cpu_s
    }
}

fn in_a_process(case: &str) -> Measured {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--case", case]).output().unwrap();
    assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [pkts, hops, events, cpu_s, setup_s, network_bytes, setup_bytes, peak_bytes, hosts, flows] =
        numbers[..]
    else {
        panic!("{case}: {text}");
    };
    Measured {
        pkts,
        hops,
        events,
        cpu_s,
        setup_s,
        network_bytes,
        setup_bytes,
        peak_bytes,
        hosts,
        flows,
    }
}

/// Runs one case and prints its numbers in a line.
fn measure(case: &str) {
    let run = run_of(case);
    let at_first = peak_bytes();
    let empty = Run { end: Time::ZERO, ..run.clone() };
    timed(&Run { flows: Vec::new(), ..empty.clone() });
    let network_bytes = peak_bytes() - at_first;
    let (_, setup_s) = timed(&empty);
    let setup_bytes = peak_bytes() - at_first;
    let (work, whole_s) = timed(&run);
    let hosts = run.network.nodes.iter().filter(|node| node.host.is_some()).count();
    println!(
        "{} {} {} {} {setup_s} {network_bytes} {setup_bytes} {} {hosts} {}",
        work.data_pkts,
        work.pkt_hops,
        work.events,
        whole_s - setup_s,
        peak_bytes() - at_first,
        run.flows.len(),
    );
}

fn timed(run: &Run) -> (Work, f64) {
    let start = cpu_seconds();
    let work = knee_sim::simulate(run).unwrap().work;
    (work, cpu_seconds() - start)
}

/// The largest resident size of this process so far, bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn run_of(case: &str) -> Run {
    match case {
        DUMBBELL => dumbbell(20, "dctcp", 400),
        "one link, 1000 flows" => one_link(1000, 1500),
        "one link, 5000 flows" => one_link(5000, 1500),
        "leaf-spine 128 hosts" => neighbours(leaf_spine(4), 32, 20),
        "leaf-spine 256 hosts" => neighbours(leaf_spine(8), 32, 20),
        "leaf-spine 1024 hosts" => neighbours(leaf_spine(32), 32, 10),
        "leaf-spine 4096 hosts" => neighbours(leaf_spine(128), 32, 10),
        "fat tree 128 hosts" => neighbours(fat_tree(8), 16, 20),
        "fat tree 1024 hosts" => neighbours(fat_tree(16), 64, 10),
        "fat tree 3456 hosts" => neighbours(fat_tree(24), 144, 10),
        "leaf-spine 1024 hosts, incast" => incast(leaf_spine(32), 31, 10),
        "leaf-spine 1024 hosts, search" => search(leaf_spine(32), 0.5, 10),
        _ => panic!("no such case: {case}"),
    }
}

/// Reno between pairs of hosts over one 10 Gbps link, with a round trip of 20 ms and a buffer of
/// one BDP.
fn one_link(flows: u32, ms: u64) -> Run {
    let hosts = |side: &str| (0..flows).map(|i| (format!("{side}{i}"), host())).collect();
    let buffered = |delay_us| Cable {
        delay: Duration::from_us(delay_us),
        queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(25_000_000) }),
        ..cable(10, 0, 65)
    };
    let network = Dumbbell {
        senders: hosts("s"),
        receivers: hosts("r"),
        sender_up: buffered(10),
        sender_down: buffered(10),
        bottleneck: buffered(9_980),
        back: buffered(9_980),
        receiver_down: buffered(10),
        receiver_up: buffered(10),
    }
    .build();
    let cc = Cc::by_name("reno").unwrap();
    let traffic = (0..flows).map(|i| bulk(u64::from(i), i, flows + i, &cc)).collect();
    run(network, traffic, ms)
}

/// Leaves of 32 hosts and 32 spines; all links have 10 Gbps.
fn leaf_spine(leaves: u32) -> Network {
    LeafSpine {
        leaves,
        spines: 32,
        hosts_per_leaf: 32,
        host: host(),
        host_up: cable(10, 1, 65),
        host_down: cable(10, 1, 65),
        fabric: cable(10, 1, 65),
    }
    .build()
}

fn fat_tree(k: u32) -> Network {
    let all = cable(10, 1, 65);
    FatTree {
        k,
        host: host(),
        host_up: all.clone(),
        host_down: all.clone(),
        edge: all.clone(),
        core: all,
    }
    .build()
}

fn hosts_of(network: &Network) -> u32 {
    network.nodes.iter().filter(|node| node.host.is_some()).count() as u32
}

/// One long flow from each host to the host `away` numbers further, in the next leaf or pod.
fn neighbours(network: Network, away: u32, ms: u64) -> Run {
    let hosts = hosts_of(&network);
    let cc = Cc::by_name("dctcp").unwrap();
    let flows = (0..hosts).map(|i| bulk(u64::from(i) % 128, i, (i + away) % hosts, &cc)).collect();
    run(network, flows, ms)
}

/// One of every 32 hosts receives from `senders` hosts of the next leaves.
fn incast(network: Network, senders: u32, ms: u64) -> Run {
    let hosts = hosts_of(&network);
    let groups = (0..hosts).step_by(32);
    let pairs = groups.flat_map(|to| (1..=senders).map(move |i| ((to + 33 * i) % hosts, to)));
    let cc = Cc::by_name("dctcp").unwrap();
    let flows = pairs.map(|(from, to)| bulk(u64::from(from) % 128, from, to, &cc)).collect();
    run(network, flows, ms)
}

/// Transfers of web-search sizes between random hosts, all the time. They take the share `load` of the hosts' links.
fn search(network: Network, load: f64, ms: u64) -> Run {
    let hosts = hosts_of(&network);
    let cc = Cc::by_name("dctcp").unwrap();
    let transfers = web_search(&mut Random::new(1), hosts, load, Time::from_ms(ms));
    let flow = |it: load::Transfer| Flow {
        start: it.start,
        traffic: Traffic::Bulk { bytes: Some(it.bytes) },
        ..bulk(0, it.from, it.to, &cc)
    };
    let flows = transfers.into_iter().map(flow).collect();
    run(network, flows, ms)
}

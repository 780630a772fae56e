//! Speed of the simulator's core and of the queues.
//!
//! `cargo bench -p knee-sim --bench simulator` prints data packets per second of processor time.
//! Processor time is counted, so other load has little effect. Quote medians of several runs. `line ns` is what a cache line costs that
//! is not near, beside each run: the rates of two machines, or of two hours, compare where these do.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod networks;

use knee_queue::time::Time;
use knee_queue::{
    DropTailConfig, Ecn, Limit, MarkShare, Packet, PieConfig, Qdisc, QueueConfig, Shaped,
    ShareConfig, TokenBucket,
};
use knee_run::spec::{Cc, Run};
use knee_run::topology::LeafSpine;
use networks::{Lines, bulk, cable, cpu_seconds, dumbbell, host, rate, run, step_config};

/// The allocator of `knee`: what a user gets has it, too.
#[global_allocator]
static ALLOCATOR: knee_memory::Counting = knee_memory::Counting;

const REPEATS: usize = 5;

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted =
        |name: &str| only.is_empty() || only.iter().any(|only| name.contains(only.as_str()));
    let lines = Lines::new();
    println!(
        "{:<34} {:>12} {:>10} {:>9} {:>8}",
        "simulation", "data pkts/s", "events/pkt", "hops/pkt", "line ns"
    );
    for (name, run) in [
        ("dumbbell 20 flows dctcp 10G", dumbbell(20, "dctcp", 400)),
        ("dumbbell 20 flows cubic 10G", dumbbell(20, "cubic", 400)),
        ("dumbbell 1000 flows dctcp 10G", dumbbell(1000, "dctcp", 1000)),
        ("leaf-spine 128 hosts dctcp 10G", leaf_spine(40)),
    ] {
        if wanted(name) {
            simulation(name, &run, &lines);
        }
    }
    println!("\n{:<34} {:>12}", "queue", "ns per pkt");
    let step = QueueConfig::Step(step_config(65));
    let droptail = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1000) });
    let pie = QueueConfig::Pie(PieConfig::default());
    let share = QueueConfig::Share(ShareConfig {
        limit: Limit::Pkts(1000),
        mark: MarkShare::Probability(0.1),
        seed: 1,
    });
    let queues = [("droptail", &droptail), ("step", &step), ("pie", &pie), ("share", &share)];
    for (name, config) in queues {
        if wanted(name) {
            queue(name, config.build());
            queue(
                &format!("{name} behind a token bucket"),
                Shaped::new(config.build(), TokenBucket::new(rate(10), 1600)),
            );
        }
    }
}

fn simulation(name: &str, run: &Run, lines: &Lines) {
    let (mut speeds, mut prices_ns) = (Vec::new(), Vec::new());
    let mut work = knee_run::outcome::Work::default();
    for _ in 0..REPEATS {
        let start = cpu_seconds();
        work = knee_sim::simulate(run).unwrap().work;
        speeds.push(work.data_pkts as f64 / (cpu_seconds() - start));
        prices_ns.push(lines.price_ns());
    }
    speeds.sort_by(f64::total_cmp);
    prices_ns.sort_by(f64::total_cmp);
    let per_packet = |count: u64| count as f64 / work.data_pkts as f64;
    println!(
        "{name:<34} {:>12.0} {:>10.2} {:>9.2} {:>8.0}   ({} data packets)",
        speeds[REPEATS / 2],
        per_packet(work.events),
        per_packet(work.pkt_hops),
        prices_ns[REPEATS / 2],
        work.data_pkts,
    );
}

struct Frame(Ecn);

impl Packet for Frame {
    fn len_bytes(&self) -> u32 {
        1514
    }
    fn ecn(&self) -> Ecn {
        self.0
    }
    fn set_ce(&mut self) {
        self.0 = Ecn::Ce;
    }
}

/// A standing queue of some 60 packets: one enters, one leaves.
fn queue(name: &str, mut queue: impl Qdisc<Frame>) {
    const PACKETS: u64 = 4_000_000;
    let gap_ns = rate(10).time_of(1514).ns();
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..REPEATS {
        let start = cpu_seconds();
        for i in 0..PACKETS {
            let now = Time::from_ns(i * gap_ns);
            let _ = queue.enqueue(Frame(Ecn::Ect0), now);
            if i > 60 {
                queue.tick(now);
                std::hint::black_box(queue.dequeue(now));
            }
        }
        times.push((cpu_seconds() - start) * 1e9 / PACKETS as f64);
    }
    times.sort_by(f64::total_cmp);
    println!("{name:<34} {:>12.1}", times[REPEATS / 2]);
}

/// 8 leaves of 16 hosts and 4 spines. Each host sends to the host half the network away.
fn leaf_spine(ms: u64) -> Run {
    let network = LeafSpine {
        leaves: 8,
        spines: 4,
        hosts_per_leaf: 16,
        host: host(),
        host_up: cable(10, 1, 65),
        host_down: cable(10, 1, 65),
        fabric: cable(40, 1, 260),
    }
    .build();
    let cc = Cc::by_name("dctcp").unwrap();
    let traffic = (0..128).map(|i| bulk(u64::from(i), i, (i + 64) % 128, &cc)).collect();
    run(network, traffic, ms)
}

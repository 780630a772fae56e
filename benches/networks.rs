//! Networks and traffic of the benchmarks of the simulator.

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold};
use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Network, NodeId, Run, Sampling, Traffic};
use knee_run::topology::{Cable, Dumbbell};

const GBPS: u64 = 1_000_000_000;

/// Processor time of this process so far, seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// A ring of cache lines in 64 MB, more than a processor keeps near: each has the number of the next one, in no order.
pub(crate) struct Lines(Vec<[u32; 16]>);

impl Lines {
    pub(crate) fn new() -> Lines {
        const LINES: u32 = (64 << 20) / 64;
        // One cycle through all of them (Sattolo 1986).
        let mut order: Vec<u32> = (0..LINES).collect();
        let mut random = knee_units::Random::new(1);
        (1..LINES).rev().for_each(|at| order.swap(at as usize, random.below(at.into()) as usize));
        Lines(order.into_iter().map(|next| [next; 16]).collect())
    }

    /// Returns how long a load of a line takes that is not near, ns of processor time.
    pub(crate) fn price_ns(&self) -> f64 {
        const STEPS: u32 = 200_000;
        let start = cpu_seconds();
        // What other work has put into the caches since is not known, so nobody begins where the last chase has been.
        let mut at = (start * 1e9) as usize % self.0.len();
        (0..STEPS).for_each(|_| at = self.0[at][0] as usize);
        std::hint::black_box(at);
        (cpu_seconds() - start) * 1e9 / f64::from(STEPS)
    }
}

pub(crate) fn rate(gbps: u64) -> Rate {
    Rate::from_bps(gbps * GBPS).unwrap()
}

pub(crate) fn step_config(k_pkts: u32) -> StepConfig {
    StepConfig {
        limit: Limit::Pkts(1000),
        threshold: Threshold::Pkts(k_pkts),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    }
}

pub(crate) fn cable(gbps: u64, delay_us: u64, k_pkts: u32) -> Cable {
    Cable {
        delay: Duration::from_us(delay_us),
        ..Cable::new(Some(rate(gbps)), QueueConfig::Step(step_config(k_pkts)))
    }
}

/// A host with a receive window that does not grow. With a growing window Linux acknowledges each
/// of the first segments, and the benchmark would measure the start of connections.
pub(crate) fn host() -> HostConfig {
    HostConfig {
        tcp_ecn: 1,
        rcvbuf_initial_bytes: 512 << 10,
        rcvbuf_max_bytes: 512 << 10,
        ..HostConfig::new(LinuxVersion(6, 1))
    }
}

pub(crate) fn bulk(index: u64, from: NodeId, to: NodeId, cc: &Cc) -> Flow {
    Flow {
        group: 0,
        from,
        to,
        cc: cc.clone(),
        peer_cc: None,
        start: Time::from_us(index * 7),
        first_write: None,
        base_rtt: None,
        dscp: 0,
        peer_dscp: 0,
        max_pacing_rate: None,
        stop: None,
        traffic: Traffic::Bulk { bytes: None },
        read_at_bytes: 65_536,
        sampled: false,
    }
}

pub(crate) fn run(network: Network, flows: Vec<Flow>, ms: u64) -> Run {
    Run {
        seed: 1,
        end: Time::from_ms(ms),
        until_done: false,
        network,
        flows,
        pings: Vec::new(),
        sampling: Sampling::default(),
        schedule: Default::default(),
    }
}

/// Pairs of senders and receivers over one 10 Gbps link; base RTT 100 us.
pub(crate) fn dumbbell(flows: u32, algorithm: &str, ms: u64) -> Run {
    let hosts = |side: &str| (0..flows).map(|i| (format!("{side}{i}"), host())).collect();
    let edge = cable(10, 10, 65);
    let network = Dumbbell {
        senders: hosts("s"),
        receivers: hosts("r"),
        sender_up: edge.clone(),
        sender_down: edge.clone(),
        bottleneck: cable(10, 30, 65),
        back: cable(10, 30, 65),
        receiver_down: edge.clone(),
        receiver_up: edge,
    }
    .build();
    let cc = Cc::by_name(algorithm).unwrap();
    let traffic = (0..flows).map(|i| bulk(u64::from(i), i, flows + i, &cc)).collect();
    run(network, traffic, ms)
}

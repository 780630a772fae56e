//! The network of the reference runs, small: senders, a switch with the queue under test, a receiver.
//!
//! ```text
//! s0..sN --(access)--> switch --(rate, queue, loss)--> r
//! s0..sN <--(delay RTT)-- switch <--(loss)-- r
//! ```
//!
//! The whole RTT is on the way back, ACKs are not serialised, and the bottleneck is a token bucket of 1600
//! bytes: a packet that finds it idle takes no time, each of a burst the serialisation time more. After the
//! last ACK of the handshake (66 bytes) and the first full segment, 20 bytes of tokens are left, so segment k
//! of the first burst (from 0) arrives k * 1514 - 20 bytes' time after segment 0.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Ecn, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::outcome::{FlowOutcome, FlowSample, Outcome};
use knee_run::spec::{
    Cc, Flow, HostConfig, LinuxVersion, Network, NodeId, Ping, Run, Sampling, Serialisation,
    Traffic,
};
use knee_run::topology::Cable;
use knee_units::Random;

/// Payload of a full segment: MTU 1500 less IP, TCP and timestamps.
pub(crate) const MSS: u64 = 1448;
/// A full segment as queues count it, with its Ethernet header.
pub(crate) const FULL: u32 = 1514;
/// No congestion seen yet.
pub(crate) const INFINITE: u32 = 0x7fff_ffff;

/// `tcpi_ca_state`.
pub(crate) mod state {
    pub(crate) const OPEN: u8 = 0;
    pub(crate) const DISORDER: u8 = 1;
    pub(crate) const CWR: u8 = 2;
    pub(crate) const RECOVERY: u8 = 3;
    pub(crate) const LOSS: u8 = 4;
}

/// Largest resident size of this process so far, bytes.
pub(crate) fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it has this line");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number of kB") * 1024
}

pub(crate) const fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

pub(crate) const fn at_us(n: u64) -> Time {
    Time::from_us(n)
}

pub(crate) const fn at_ms(n: u64) -> Time {
    Time::from_ms(n)
}

pub(crate) fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000).expect("above 0")
}

pub(crate) fn droptail(limit: Limit) -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit })
}

/// A queue that never drops.
pub(crate) fn endless() -> QueueConfig {
    droptail(Limit::Bytes(1 << 40))
}

/// Marks what finds `k` packets or more waiting; holds 500.
pub(crate) fn marking(k: u32, not_ect: NotEctAbove) -> QueueConfig {
    QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(500 * u64::from(FULL)),
        threshold: Threshold::Bytes(u64::from(k * FULL)),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect,
    })
}

/// A host like the reference's: 6.1, no offloads, receive buffer 8 MiB, packets that never join; its clock starts at 0.
pub(crate) fn host() -> HostConfig {
    HostConfig {
        jiffies_at_start: Some(0),
        tcp_ecn: 0,
        skb_overhead_bytes: 768,
        max_skb_frags: 1,
        rcvbuf_initial_bytes: 8 << 20,
        rcvbuf_max_bytes: 512 << 20,
        ..HostConfig::new(LinuxVersion(6, 1))
    }
}

/// A cable without queue and serialisation.
pub(crate) fn wire(delay: Duration) -> Cable {
    Cable {
        serialisation: Serialisation::TokenBucket { burst_bytes: FULL },
        delay,
        ..Cable::new(None, endless())
    }
}

/// The network and what is special in it.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) senders: u32,
    pub(crate) sender: HostConfig,
    pub(crate) receiver: HostConfig,
    /// `None`: a sender's packets reach the switch at once.
    pub(crate) access: Option<Rate>,
    pub(crate) rate: Rate,
    pub(crate) burst_bytes: u32,
    pub(crate) queue: QueueConfig,
    pub(crate) rtt: Duration,
    pub(crate) loss: f64,
    pub(crate) back_loss: f64,
    pub(crate) jitter: Duration,
    pub(crate) back_jitter: Duration,
}

impl Path {
    /// 1 Gbps, no loss, one sender.
    pub(crate) fn new(rtt: Duration) -> Path {
        Path {
            senders: 1,
            sender: host(),
            receiver: host(),
            access: None,
            rate: mbps(1000),
            burst_bytes: 1600,
            queue: endless(),
            rtt,
            loss: 0.0,
            back_loss: 0.0,
            jitter: Duration::ZERO,
            back_jitter: Duration::ZERO,
        }
    }

    /// Sets both ends.
    pub(crate) fn hosts(mut self, set: impl Fn(&mut HostConfig)) -> Path {
        set(&mut self.sender);
        set(&mut self.receiver);
        self
    }

    pub(crate) fn receiver_id(&self) -> NodeId {
        self.senders
    }

    /// Senders are nodes 0.., the receiver is next. The access links and the bottleneck are sampled.
    pub(crate) fn network(&self) -> Network {
        let mut network = Network::default();
        for sender in 0..self.senders {
            network.host(format!("s{sender}"), self.sender.clone());
        }
        let receiver = network.host("r", self.receiver.clone());
        let switch = network.switch("switch");
        let queued = |rate, queue: &QueueConfig, burst_bytes| Cable {
            rate,
            serialisation: Serialisation::TokenBucket { burst_bytes },
            queue: queue.clone(),
            sampled: true,
            ..wire(Duration::ZERO)
        };
        let bottleneck = Cable {
            loss: self.loss,
            jitter: self.jitter,
            ..queued(Some(self.rate), &self.queue, self.burst_bytes)
        };
        network.link(switch, receiver, bottleneck);
        network.link(receiver, switch, Cable { loss: self.back_loss, ..wire(Duration::ZERO) });
        for sender in 0..self.senders {
            network.link(sender, switch, queued(self.access, &endless(), self.burst_bytes));
            let back = Cable { jitter: self.back_jitter, ..wire(self.rtt) };
            network.link(switch, sender, back);
        }
        network
    }

    pub(crate) fn run(&self, flows: Vec<Flow>) -> Run {
        Run {
            seed: 1,
            end: at_ms(100_000),
            until_done: true,
            network: self.network(),
            flows,
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Default::default(),
        }
    }

    /// A transfer from sender 0 at time 0, read as it comes.
    pub(crate) fn bulk(&self, cc: &str, bytes: impl Into<Option<u64>>) -> Flow {
        Flow {
            group: 0,
            from: 0,
            to: self.receiver_id(),
            cc: Cc::by_name(cc).expect("it is in the folder"),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            stop: None,
            traffic: Traffic::Bulk { bytes: bytes.into() },
            read_at_bytes: 1,
            sampled: true,
        }
    }

    pub(crate) fn rpc(
        &self,
        cc: &str,
        request_bytes: u64,
        response_bytes: u64,
        count: u64,
    ) -> Flow {
        let traffic = Traffic::Rpc { request_bytes, response_bytes, count: Some(count) };
        Flow { traffic, ..self.bulk(cc, None) }
    }

    /// Full packets of the last sender that all reach the switch at `at` (and again at its multiples):
    /// they fill the queue, so that what comes next is lost.
    pub(crate) fn crowd(&self, at: Time, packets: usize) -> Vec<Ping> {
        let ping = Ping {
            from: self.senders - 1,
            to: self.receiver_id(),
            start: Time::ZERO,
            interval: at.since(Time::ZERO),
            wire_bytes: FULL,
            ecn: Ecn::NotEct,
            dscp: 0,
            one_way_until: None,
        };
        vec![ping; packets]
    }
}

/// Runs; the flows are sampled with this period.
pub(crate) fn sampled(mut run: Run, period: Duration) -> Outcome {
    run.sampling.flows = Some(period);
    simulate(&run)
}

pub(crate) fn simulate(run: &Run) -> Outcome {
    knee_sim::simulate(run).expect("the run is well-formed")
}

/// One flow over this path, to its end.
pub(crate) fn one(path: &Path, flow: Flow) -> FlowOutcome {
    simulate(&path.run(vec![flow])).flows.remove(0)
}

/// From `connect()` to the last byte read, ns.
pub(crate) fn fct_ns(flow: &FlowOutcome) -> u64 {
    flow.completion_time().expect("the flow completes").ns()
}

/// Milliseconds and nanoseconds, in ns.
pub(crate) const fn ms_ns(ms: u64, ns: u64) -> u64 {
    ms * 1_000_000 + ns
}

/// The sample at this time or the last before it.
pub(crate) fn sample_at(outcome: &Outcome, flow: u32, at: Time) -> &FlowSample {
    let mut samples = outcome.flow_samples.iter().filter(|sample| sample.flow == flow);
    let found = samples.by_ref().take_while(|sample| sample.at <= at).last();
    found.expect("a sample that early")
}

/// The different values that something took, in order.
pub(crate) fn steps<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut steps: Vec<T> = Vec::new();
    for value in values {
        if steps.last() != Some(&value) {
            steps.push(value);
        }
    }
    steps
}

/// Random numbers of the tests' own.
pub(crate) struct Chance(Random);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(Random::new(seed))
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.0.u64()
    }

    /// Uniform over 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.u64() % bound
    }
}

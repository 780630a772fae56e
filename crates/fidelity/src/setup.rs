//! The network of the reference runs, and traffic on it.
//!
//! ```text
//! s1..sN --(token bucket, access rate)--> sw --(token bucket, rate, queue under test)--> r
//! s1..sN <-----------(delay: the whole base RTT)------- sw <---------------------------- r
//! ```

use crate::Error;
use crate::reference::Row;
use knee_algo::Algorithm;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Ecn, Limit, MarkAt, MarkWhen, NotEctAbove, QueueConfig, StepConfig, Threshold,
};
use knee_run::spec::{
    Cc, Flow, HostConfig, LinuxVersion, Network, Ping, Run, Sampling, Serialisation, Traffic,
};
use knee_run::topology::Cable;

/// A full packet as a queue counts it: MTU 1500 and the Ethernet header.
pub const PKT_BYTES: u64 = 1514;
/// The receiver reads when this much is there.
const READ_AT_BYTES: u32 = 65_536;
/// 64 bytes of UDP payload, UDP, IP and Ethernet headers.
const PING_WIRE_BYTES: u32 = 106;
/// Bucket depth of every token bucket: one packet and a bit.
const BURST_BYTES: u32 = 1600;
/// What such a bucket of 10 Gbps lets pass that always has something to send: a full packet in 1213.55 ns instead of 1211.2. A timer of
/// the reference that is some 0.4 us late now and then costs it what the bucket has no room for. With
/// 3200 bytes, or at 1 Gbps, there is room for all, and nothing is lost (tests/reference/README.md).
const TEN_GBPS: u64 = 10_000_000_000;
const TEN_GBPS_THAT_PASS: u64 = 9_980_600_000;

/// The congestion control of a row: an algorithm, and whether the hosts ask for ECN.
#[derive(Clone, Debug)]
pub struct Algo {
    /// Name in the table, e.g. `reno-ecn`.
    pub name: String,
    pub cc: Cc,
    /// `tcp_ecn` of all hosts.
    pub tcp_ecn: u8,
}

impl Algo {
    /// The algorithm with this name in a table; `None` if knee has none.
    pub fn by_name(name: &str) -> Option<Algo> {
        let base = name.strip_suffix("-ecn").unwrap_or(name);
        let algorithm = Algorithm::all().iter().find(|algorithm| algorithm.name() == base)?;
        let cc = Cc::new(algorithm);
        let tcp_ecn = u8::from(algorithm.needs_ecn() || base != name);
        Some(Algo { name: name.to_owned(), cc, tcp_ecn })
    }

    /// The ECN field of pings beside such flows.
    pub fn ping_ecn(&self) -> Ecn {
        if self.tcp_ecn == 1 { Ecn::Ect0 } else { Ecn::NotEct }
    }
}

/// A FIFO for this many full packets, with its limit in bytes.
pub fn bfifo(bytes: u64) -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Bytes(bytes) })
}

/// A FIFO with this limit in packets.
pub fn pfifo(pkts: u32) -> QueueConfig {
    QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) })
}

/// Linux RED as a step marker.
pub fn step(threshold_bytes: u64, limit_bytes: u64, not_ect: NotEctAbove) -> QueueConfig {
    QueueConfig::Step(StepConfig {
        limit: Limit::Bytes(limit_bytes),
        threshold: Threshold::Bytes(threshold_bytes),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect,
    })
}

/// The queue of a row with `K_pkts` (empty: none), `buffer_pkts` and perhaps `red_nodrop`.
///
/// # Errors
/// If a cell is no number.
pub fn marking_queue(row: &Row) -> Result<QueueConfig, Error> {
    let buffer_bytes = row.number("buffer_pkts")? as u64 * PKT_BYTES;
    let not_ect =
        if row.text("red_nodrop") == "0" { NotEctAbove::Drop } else { NotEctAbove::Queue };
    Ok(match row.maybe("K_pkts") {
        Some(k) => step(k as u64 * PKT_BYTES, buffer_bytes, not_ect),
        None => bfifo(buffer_bytes),
    })
}

/// The network of one run.
#[derive(Clone, Debug)]
pub struct Path {
    pub senders: u32,
    /// Rate of each sender's own link.
    pub access_bps: u64,
    /// Rate of the bottleneck.
    pub rate_bps: u64,
    /// Base RTT, all of it on the way back.
    pub rtt: Duration,
    /// The queue under test.
    pub queue: QueueConfig,
    /// Share of packets lost before the queue.
    pub loss: f64,
    /// The way back takes up to this much less or more, drawn for each packet. At a full drop-tail queue it keeps flows
    /// from keeping their phase, which the reference does in another way (tests/reference/README.md).
    pub jitter: Duration,
}

impl Path {
    /// The network of a row, without random loss. Senders whose rate is not told have ten times that of the bottleneck.
    ///
    /// # Errors
    /// If a cell is missing or no number.
    pub fn of(row: &Row, senders: u32, queue: QueueConfig) -> Result<Path, Error> {
        let rate_bps = row.rate_bps("bottleneck")?;
        let rtt_s = match (row.maybe("rtt_us"), row.maybe("rtt_ms")) {
            (Some(us), _) => us * 1e-6,
            (None, Some(ms)) => ms * 1e-3,
            (None, None) => row.number("base_rtt_ms")? * 1e-3,
        };
        Ok(Path {
            senders,
            access_bps: match row.text("access") {
                "" => 10 * rate_bps,
                _ => row.rate_bps("access")?,
            },
            rate_bps,
            rtt: span(rtt_s),
            queue,
            loss: 0.0,
            jitter: span(row.maybe("jitter_us").unwrap_or(0.0) * 1e-6),
        })
    }

    fn network(&self, tcp_ecn: u8) -> Network {
        let mut host = HostConfig::new(LinuxVersion(6, 1));
        host.jiffies_at_start = Some(48);
        host.tcp_ecn = tcp_ecn;
        host.skb_overhead_bytes = 768;
        // Its senders hold each packet until the ACK, and so keep it from joining others.
        host.max_skb_frags = 1;
        host.rcvbuf_initial_bytes = 8 << 20;
        host.rcvbuf_max_bytes = 512 << 20;
        let plain = Cable {
            serialisation: Serialisation::TokenBucket { burst_bytes: BURST_BYTES },
            ..Cable::new(None, bfifo(1 << 40))
        };
        let mut network = Network::default();
        for i in 1..=self.senders {
            network.host(format!("s{i}"), host.clone());
        }
        let receiver = network.host("r", host);
        let switch = network.switch("sw");
        let under_test = Cable {
            rate: passed(self.rate_bps),
            loss: self.loss,
            queue: self.queue.clone(),
            sampled: true,
            ..plain.clone()
        };
        network.duplex(switch, receiver, under_test, plain.clone());
        // In front of a slower bottleneck a sender has not always something to send.
        let is_bottleneck_too = self.access_bps <= self.rate_bps;
        let own = if is_bottleneck_too { passed } else { Rate::from_bps };
        let access = Cable { rate: own(self.access_bps), ..plain.clone() };
        let jitter = netem(self.jitter).ps();
        let back = Cable {
            delay: Duration::from_ps(netem(self.rtt).ps() - jitter),
            jitter: Duration::from_ps(2 * jitter),
            ..plain
        };
        for sender in 0..self.senders {
            network.duplex(sender, switch, access.clone(), back.clone());
        }
        network
    }

    /// A run on this network; flows, pings and sampling are added by the caller.
    pub fn run(&self, algo: &Algo, seed: u64, end_s: f64) -> Run {
        Run {
            seed,
            end: at(end_s),
            until_done: false,
            network: self.network(algo.tcp_ecn),
            flows: Vec::new(),
            pings: Vec::new(),
            sampling: Sampling::default(),
            schedule: Default::default(),
        }
    }

    /// A transfer from a sender (counted from 0) to the receiver; `None`: without end.
    pub fn flow(&self, algo: &Algo, sender: u32, start_s: f64, bytes: Option<u64>) -> Flow {
        Flow {
            group: 0,
            from: sender,
            to: self.senders,
            cc: algo.cc.clone(),
            peer_cc: None,
            start: at(start_s),
            first_write: None,
            base_rtt: None,
            dscp: 0,
            peer_dscp: 0,
            max_pacing_rate: None,
            stop: None,
            traffic: Traffic::Bulk { bytes },
            read_at_bytes: READ_AT_BYTES,
            sampled: false,
        }
    }

    /// A ping from a sender to the receiver.
    pub fn ping(&self, algo: &Algo, sender: u32, interval: Duration) -> Ping {
        Ping {
            from: sender,
            to: self.senders,
            start: Time::ZERO,
            interval,
            wire_bytes: PING_WIRE_BYTES,
            ecn: algo.ping_ecn(),
            dscp: 0,
            one_way_until: None,
        }
    }
}

/// A moment from seconds; negative ones are zero.
pub fn at(seconds: f64) -> Time {
    Time::ZERO + span(seconds)
}

fn passed(rate_bps: u64) -> Option<Rate> {
    Rate::from_bps(if rate_bps == TEN_GBPS { TEN_GBPS_THAT_PASS } else { rate_bps })
}

/// A delay as netem makes it: it counts in ticks of 64 ns, so 100 us become 99.968.
fn netem(delay: Duration) -> Duration {
    const TICK_PS: u64 = 64_000;
    Duration::from_ps(delay.ps() / TICK_PS * TICK_PS)
}

/// A span from seconds; negative ones are zero.
pub fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

//! What came of a run.

use std::collections::BTreeMap;

use knee_algo::Warning;
use knee_queue::Stats;
use knee_queue::time::{Duration, Time};

use crate::spec::{NodeId, Sampling, Traffic};

/// Everything recorded in one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// When the run ended.
    pub end: Time,
    /// One per flow, in the order of the specification.
    pub flows: Vec<FlowOutcome>,
    /// Counters per host, for counters that the kernel does not report per connection. From the simulator: receive counters of
    /// hosts with coalescing, GRO or a CPU account.
    pub host_counts: Vec<HostCount>,
    /// Counters of Linux modules (`NET_INC_STATS`), by host and name.
    pub module_counts: Vec<ModuleCount>,
    /// And what they printed (`printk`), by time.
    pub module_lines: Vec<ModuleLine>,
    /// Completed exchanges of request/response flows.
    pub rpcs: Vec<RpcRecord>,
    /// Messages of [`Schedule::tasks`](crate::spec::Schedule) that arrived whole, in this order.
    pub messages: Vec<MessageRecord>,
    /// Pings, in the order of sending.
    pub pings: Vec<PingRecord>,
    /// One per sampled link, then one per sampled buffer.
    pub queues: Vec<QueueOutcome>,
    pub flow_samples: Vec<FlowSample>,
    pub queue_samples: Vec<QueueSample>,
    /// Bytes received by each flow's receiver per period.
    pub goodput_samples: Vec<GoodputSample>,
    /// Counts of every link with a rate per period, by time and link; without those that are zero throughout.
    pub link_samples: Vec<LinkSample>,
    /// Counters of the measured window; `None`: no window, or the run ended before it.
    pub window: Option<Windowed>,
    pub work: Work,
}

impl Outcome {
    /// Counts the window of hosts that look at regular times, and at its ends; drops the series if only the window was asked for.
    /// The flows must be there already.
    pub fn count_window(&mut self, sampling: &Sampling, flows: usize, looks: &WindowSnapshots) {
        let Some(window) = sampling.window else { return };
        let mut all = vec![FlowWindow::default(); flows];
        for sample in &self.goodput_samples {
            let holds = window.from < sample.at && sample.at <= window.until;
            if let (Some(flow), true) = (all.get_mut(sample.flow as usize), holds) {
                flow.received_bytes += sample.bytes;
            }
        }
        if sampling.goodput.is_none() {
            self.goodput_samples = Vec::new();
        }
        let ends = [window.from, window.until.min(self.end)];
        // A run may be over before its window begins.
        let has_begun = self.end > window.from;
        if let Some(looks) = looks.flows.as_ref().filter(|_| has_begun) {
            for ((flow, last), index) in all.iter_mut().zip(&self.flows).zip(0..) {
                flow.counters = counted_between(looks, index, last, ends);
            }
        }
        let queues = looks.queues.clone().filter(|_| has_begun);
        let [before, mut queues] = queues.unwrap_or_default();
        for queue in &mut queues {
            let is_this = |it: &&QueueOutcome| (it.link, it.part) == (queue.link, queue.part);
            if let Some(before) = before.iter().find(is_this) {
                queue.subtract(before);
            }
        }
        self.window = Some(Windowed { flows: all, queues });
    }
}

/// Counters between two snapshots. A connection that a snapshot lacks had not begun, or was over and unchanged.
fn counted_between(
    looks: &[BTreeMap<u32, FlowCounters>; 2],
    flow: u32,
    last: &FlowOutcome,
    ends: [Time; 2],
) -> FlowCounters {
    let counted = |end: usize| {
        let has_begun = last.connected_at.is_some_and(|at| at <= ends[end]);
        looks[end].get(&flow).copied().or_else(|| has_begun.then_some(last.counters))
    };
    match (counted(0), counted(1)) {
        (Some(before), Some(now)) => now.since(&before),
        (None, Some(now)) => now,
        // All of it came after the window.
        (_, None) => last.counters.of_nothing(),
    }
}

/// A counter that modules of one host have raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleCount {
    pub node: NodeId,
    /// As nstat names it: `TcpExtTCPHystartTrainDetect`.
    pub name: &'static str,
    pub count: u64,
}

/// A line that a module printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLine {
    pub at: Time,
    pub node: NodeId,
    /// Index of the flow whose call it was; `None`: of none, as in `module_init`.
    pub flow: Option<u32>,
    /// The kernel's: 0 emergency to 7 debug.
    pub level: u8,
    /// The module's file.
    pub module: String,
    pub text: String,
}

/// Counters of hosts and queues at the start and at the end of the measured window. Unread counters are absent.
#[derive(Clone, Debug, Default)]
pub struct WindowSnapshots {
    /// Connections that there were, by index of the flow.
    pub flows: Option<[BTreeMap<u32, FlowCounters>; 2]>,
    /// As [`Outcome::queues`].
    pub queues: Option<[Vec<QueueOutcome>; 2]>,
}

/// Counters of the measured window. Unread counters are absent.
#[derive(Clone, Debug, Default)]
pub struct Windowed {
    /// One per flow, in the order of the specification.
    pub flows: Vec<FlowWindow>,
    /// As [`Outcome::queues`].
    pub queues: Vec<QueueOutcome>,
}

impl Windowed {
    /// The difference to an earlier count of the same run.
    pub fn since(mut self, before: &Windowed) -> Windowed {
        for (flow, before) in self.flows.iter_mut().zip(&before.flows) {
            flow.received_bytes = flow.received_bytes.saturating_sub(before.received_bytes);
            flow.counters = flow.counters.since(&before.counters);
        }
        for (queue, before) in self.queues.iter_mut().zip(&before.queues) {
            queue.subtract(before);
        }
        self
    }
}

/// Counters of a connection in the measured window.
#[derive(Clone, Debug, Default)]
pub struct FlowWindow {
    /// Payload bytes that arrived in order at the receiver.
    pub received_bytes: u64,
    /// As [`FlowOutcome::counters`].
    pub counters: FlowCounters,
}

/// One connection at its end, or at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct FlowOutcome {
    /// `connect()` was called; `None`: the run ended before.
    pub connected_at: Option<Time>,
    /// The connecting side's handshake was complete.
    pub established_at: Option<Time>,
    /// The last byte was read (or the last answer); `None`: unfinished.
    pub done_at: Option<Time>,
    /// Stopped as asked, for traffic without end.
    pub stopped_at: Option<Time>,
    /// Payload bytes that arrived in order at the receiver.
    pub received_bytes: u64,
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Algorithm in use at the end on the connecting side: another one after a fallback.
    pub algorithm: &'static str,
    /// Counters of the connection: see [`FlowCounters::of_ends`].
    pub counters: FlowCounters,
    /// Smoothed RTT at the end; `None`: never measured.
    pub srtt: Option<Duration>,
    /// Windowed minimum RTT at the end; `None`: never measured.
    pub min_rtt: Option<Duration>,
    /// cwnd at the end, packets.
    pub cwnd_pkts: u32,
    /// Sides of the connection that began without the `init` of their algorithm because the kernel left the call out; `None`:
    /// nobody looked, or nobody can leave one out.
    pub inits_left_out: Option<u64>,
    /// Faults of algorithms from files on this connection. Not checked for knee's own, nor on a real host.
    pub warnings: Vec<Warning>,
}

impl FlowOutcome {
    /// From `connect()` to the last byte read, handshake included.
    pub fn completion_time(&self) -> Option<Duration> {
        Some(self.done_at?.since(self.connected_at?))
    }
}

/// The ends of a connection at which a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedAt {
    /// Ends that send data: of a transfer the connecting one, of an exchange both.
    Senders,
    /// Ends that receive data: of a transfer the listening one, of an exchange both.
    Receivers,
    /// Both ends, whatever they send: a SYN-ACK is sent again, too.
    Both,
}

impl CountedAt {
    /// Combines the counts of both ends. `None` if one that counts is not known.
    fn combine(
        self,
        traffic: Traffic,
        connecting: Option<u64>,
        listening: Option<u64>,
    ) -> Option<u64> {
        match self {
            CountedAt::Senders if !traffic.is_rpc() => connecting,
            CountedAt::Receivers if !traffic.is_rpc() => listening,
            _ => Some(connecting? + listening?),
        }
    }
}

/// Defines [`Counters`] and [`FlowCounters`] from one list.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident: $counted_at:ident,)+) => {
        /// Counters of one connection, in packets or events.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        /// The same where some may not be known: the simulator knows all, a real host does not tell each
        /// of every connection. What is not known is absent, never zero.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FlowCounters {
            $($(#[$doc])+ pub $name: Option<u64>,)+
        }

        impl From<Counters> for FlowCounters {
            fn from(all: Counters) -> FlowCounters {
                FlowCounters { $($name: Some(all.$name),)+ }
            }
        }

        impl FlowCounters {
            /// Counters of a connection from those of its ends, for every back end. An end that sends data has counters of a
            /// sender, one that receives data those of a receiver. Both ends of an exchange do both.
            pub fn of_ends(
                traffic: Traffic,
                connecting: &FlowCounters,
                listening: &FlowCounters,
            ) -> FlowCounters {
                let of = |at: CountedAt, counter: fn(&FlowCounters) -> Option<u64>| {
                    at.combine(traffic, counter(connecting), counter(listening))
                };
                FlowCounters { $($name: of(CountedAt::$counted_at, |end| end.$name),)+ }
            }

            /// All of them; `None` if one is not known.
            pub fn complete(&self) -> Option<Counters> {
                Some(Counters { $($name: self.$name?,)+ })
            }

            /// The sum with the counts of another part of the same connection. A counter that one of them does not know is unknown.
            pub fn plus(&self, other: &FlowCounters) -> FlowCounters {
                let plus = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
                FlowCounters { $($name: plus(self.$name, other.$name),)+ }
            }

            /// The difference to an earlier count.
            fn since(&self, before: &FlowCounters) -> FlowCounters {
                // A counter of the kernel that has wrapped tells nothing.
                let since = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
                FlowCounters { $($name: since(self.$name, before.$name),)+ }
            }
        }
    };
}

impl FlowCounters {
    /// Counters of the same host where nothing has happened: 0 for what it reports, absent otherwise.
    pub fn of_nothing(&self) -> FlowCounters {
        self.since(self)
    }
}

counters! {
    /// Retransmission timeouts (Linux `TCPTimeouts`), SYN included.
    timeouts: Both,
    /// Timeouts of SYNs and SYN-ACKs, a part of `timeouts`.
    syn_timeouts: Both,
    /// Segments retransmitted for any reason (Linux `RetransSegs`).
    retransmitted_segs: Senders,
    /// Tail loss probes sent (Linux `TCPLossProbes`).
    tail_loss_probes: Senders,
    /// Entries into Recovery.
    fast_recoveries: Senders,
    /// Reductions taken back.
    undos: Senders,
    /// Timeouts whose reduction was taken back, a part of `undos`: F-RTO, timestamps or DSACKs showed that they were spurious.
    spurious_timeouts: Senders,
    /// ACKs and SACKs from which the sender saw that packets had overtaken each other (Linux `tcpi_reord_seen`).
    reorderings: Senders,
    /// Segments that the receiver said it had twice (DSACK; Linux `tcpi_dsack_dups`).
    dsack_segs: Senders,
    /// Reductions for ECE.
    cwr_reductions: Senders,
    /// Changes of the transmit hash at timeouts (Linux `TcpTimeoutRehash`).
    timeout_rehashes: Both,
    /// The same for repeated duplicate data (Linux `TcpDuplicateDataRehash`).
    duplicate_rehashes: Both,
    /// The same at the request of algorithms (Linux `TCPPLBRehash`).
    plb_rehashes: Both,
    /// Data segments sent, retransmissions included.
    data_segs_sent: Senders,
    /// Bursts of them handed to the device: with offloads a burst is many.
    bursts: Senders,
    /// Times that TCP's own pacing timer let a socket go on.
    pacing_timers: Senders,
    /// Pure ACKs sent.
    acks_sent: Receivers,
    /// Data segments received with CE.
    ce_segs_received: Receivers,
    /// Packets delivered, as the sender counts them.
    delivered: Senders,
    /// Packets acked with ECE, a part of `delivered`.
    delivered_ce: Senders,
}

/// Counters of a host over all its connections (its MIBs), for the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCount {
    pub node: NodeId,
    /// TCP counters of the host.
    pub counters: FlowCounters,
    /// Receive counters of the host.
    pub received: Received,
}

/// Receive counters and CPU time of a host. Unreported counters are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets as they were on the wire.
    pub wire_pkts: Option<u64>,
    /// Packets that IP saw: merged ones are one.
    pub merged_pkts: Option<u64>,
    pub interrupts: Option<u64>,
    /// CPU time of merging, IP, TCP and the ACKs that they send, ns; applications are not in it.
    pub cpu_ns: Option<u64>,
}

/// One exchange.
#[derive(Clone, Copy, Debug)]
pub struct RpcRecord {
    pub flow: u32,
    /// The request was written.
    pub start: Time,
    /// Until the last byte of the answer was read.
    pub latency: Duration,
    /// Retransmission timeouts of both sides until the next request, also while others that send together with it are waited for;
    /// a kernel does not tell of which exchange they were.
    pub timeouts: Option<u64>,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    pub task: u32,
    /// It might begin: all before it was done. It is written once its connection is there.
    pub start: Time,
    /// Its last byte was read.
    pub done: Time,
}

/// What a link did in a period. The periods of a link add up to its [`QueueOutcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSample {
    /// End of the period: a multiple of it, or the end of the run.
    pub at: Time,
    /// Index of the link.
    pub link: u32,
    /// Packets marked, at most 2^32 - 1.
    pub marked_pkts: u32,
    pub sent_pkts: u64,
    pub sent_bytes: u64,
    /// Packets dropped by the queue, random loss not counted.
    pub dropped_pkts: u64,
}

/// One ping.
#[derive(Clone, Copy, Debug)]
pub struct PingRecord {
    /// Index of the ping stream.
    pub ping: u32,
    /// When it left.
    pub sent: Time,
    /// Until its echo came back, or until it arrived if it goes one way; `None`: lost, or the run ended before.
    pub rtt: Option<Duration>,
    /// Of a packet that goes one way: whether it was on its way when the run ended, so that it was not lost.
    pub in_flight: bool,
}

/// A sampled link at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct QueueOutcome {
    /// Index of the link; of a buffer: its own, counted on after the links.
    pub link: u32,
    /// Index of a part of the link's queue, in the order of [`QueueConfig::part_names`](knee_queue::QueueConfig::part_names);
    /// `None`: the whole.
    pub part: Option<u32>,
    /// Packets offered to the queue.
    pub offered_pkts: u64,
    pub sent_pkts: u64,
    pub sent_bytes: u64,
    /// Packets that the queue marked CE and kept.
    pub marked_pkts: u64,
    /// Arrivals that found the marking threshold reached, whatever became of them; `None`: the discipline does not count them.
    pub threshold_hits: Option<u64>,
    /// Packets dropped for lack of room.
    pub dropped_full_pkts: u64,
    /// Not-ECT packets dropped above a marking threshold.
    pub dropped_not_ect_pkts: u64,
    /// Packets dropped early by an AQM.
    pub dropped_early_pkts: u64,
    /// Packets lost at random before the queue, or by a link that was down, and ACKs that newer ones replaced.
    pub lost_pkts: u64,
    /// Packets that were queued without their payload, for lack of room.
    pub trimmed_pkts: u64,
    /// Pauses, for a link with flow control.
    pub pause: Option<PauseOutcome>,
}

/// How often and how long a link was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseOutcome {
    /// Frames that told its sender to pause, refreshes included.
    pub frames: u64,
    /// Time during which it could not begin to send.
    pub paused: Duration,
}

impl QueueOutcome {
    /// Drops of the queue for whatever reason, random loss not counted.
    pub fn dropped_pkts(&self) -> u64 {
        self.dropped_full_pkts + self.dropped_not_ect_pkts + self.dropped_early_pkts
    }

    /// The same with the counts of a discipline.
    pub fn with(self, stats: &Stats) -> QueueOutcome {
        QueueOutcome {
            sent_pkts: stats.dequeued_pkts,
            sent_bytes: stats.dequeued_bytes,
            marked_pkts: stats.marked_pkts,
            threshold_hits: Some(stats.threshold_hits),
            dropped_full_pkts: stats.dropped_full_pkts,
            dropped_not_ect_pkts: stats.dropped_not_ect_pkts,
            dropped_early_pkts: stats.dropped_early_pkts,
            trimmed_pkts: stats.trimmed_pkts,
            ..self
        }
    }

    /// Adds what another queue counted.
    pub fn add(&mut self, other: &QueueOutcome) {
        self.count(other, |sum, other| sum + other);
    }

    fn count(&mut self, other: &QueueOutcome, of: fn(u64, u64) -> u64) {
        for (count, other) in [
            (&mut self.offered_pkts, other.offered_pkts),
            (&mut self.sent_pkts, other.sent_pkts),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.marked_pkts, other.marked_pkts),
            (&mut self.dropped_full_pkts, other.dropped_full_pkts),
            (&mut self.dropped_not_ect_pkts, other.dropped_not_ect_pkts),
            (&mut self.dropped_early_pkts, other.dropped_early_pkts),
            (&mut self.lost_pkts, other.lost_pkts),
            (&mut self.trimmed_pkts, other.trimmed_pkts),
        ] {
            *count = of(*count, other);
        }
        let hits = self.threshold_hits.zip(other.threshold_hits);
        self.threshold_hits = hits.map(|(count, other)| of(count, other));
    }

    /// Takes away what was counted before.
    fn subtract(&mut self, before: &QueueOutcome) {
        self.count(before, u64::saturating_sub);
        if let (Some(now), Some(before)) = (&mut self.pause, before.pause) {
            now.frames = now.frames.saturating_sub(before.frames);
            now.paused = Duration::from_ps(now.paused.ps().saturating_sub(before.paused.ps()));
        }
    }
}

/// `TCP_INFO` of a sending side, as the kernel's fields of the same names.
#[derive(Clone, Debug)]
pub struct FlowSample {
    pub at: Time,
    pub flow: u32,
    /// 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    pub ca_state: u8,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets; 2147483647: none yet.
    pub ssthresh: u32,
    pub srtt_us: u32,
    /// Mean deviation of the RTT, us (`tcpi_rttvar`).
    pub rttvar_us: u32,
    pub min_rtt_us: u32,
    /// Packets sent and not acked.
    pub unacked: u32,
    /// Packets reported by SACK, a part of `unacked`; without SACK, one per duplicate ACK.
    pub sacked: u32,
    /// Packets marked lost.
    pub lost: u32,
    /// Packets retransmitted and not acked.
    pub retrans_out: u32,
    /// Segments retransmitted so far.
    pub total_retrans: u64,
    /// Packets delivered so far.
    pub delivered: u32,
    /// Packets acked with ECE, a part of `delivered`.
    pub delivered_ce: u32,
    pub bytes_acked: u64,
    /// Bytes per second; all ones: none.
    pub pacing_rate_bytes_per_sec: u64,
    pub rto_us: u32,
    /// Data segments sent so far, retransmissions included; `None`: not known.
    pub data_segs_out: Option<u64>,
    /// Entries into Recovery so far; `None`: not known.
    pub fast_recoveries: Option<u64>,
    /// The algorithm's own values, in the order of its diagnostic list.
    pub diag: Vec<u64>,
}

/// A queue at one moment.
#[derive(Clone, Copy, Debug)]
pub struct QueueSample {
    pub at: Time,
    /// Index of the link; of a buffer: its own, counted on after the links.
    pub link: u32,
    /// As of a [`QueueOutcome`].
    pub part: Option<u32>,
    /// Packets waiting, the one being sent not counted.
    pub len_pkts: u32,
    pub len_bytes: u64,
    /// Drops so far.
    pub dropped_pkts: u64,
    /// Marking-threshold hits so far; `None`: the discipline does not count them.
    pub threshold_hits: Option<u64>,
    /// Drop probability of an AQM that has one.
    pub drop_probability: Option<f64>,
    /// Queueing delay as an AQM that measures it sees it.
    pub qdelay: Option<Duration>,
}

/// Goodput of a flow in one period.
#[derive(Clone, Copy, Debug)]
pub struct GoodputSample {
    /// End of the period.
    pub at: Time,
    pub flow: u32,
    /// Payload bytes in order during the period.
    pub bytes: u64,
}

/// Effort, for benchmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Events taken from the event list.
    pub events: u64,
    /// TCP data segments sent by hosts.
    pub data_pkts: u64,
    /// Packets (of any kind) times links passed.
    pub pkt_hops: u64,
}

/// Whether a run on a real host is what it should be, or the host decided its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validity {
    /// Why the host limited it, each in words with the figure and what was allowed; none: it is valid.
    pub limits: Vec<String>,
    /// Measures of the host: name with its unit at the end, value.
    pub measures: Vec<(&'static str, f64)>,
}

impl Validity {
    /// Whether the results are those of the algorithms and queues.
    pub fn is_valid(&self) -> bool {
        self.limits.is_empty()
    }

    /// `valid`, or `host-limited`.
    pub fn name(&self) -> &'static str {
        if self.is_valid() { "valid" } else { "host-limited" }
    }
}

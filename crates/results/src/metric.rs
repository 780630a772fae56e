//! What is measured: the metrics, and of which kind of traffic each is.

use Kind::{
    Attempts, Buffer, Bulk, Cbr, Chakra, Collective, Endless, Incast, Ping, Poisson, Query, Queue,
    Rpc, Shuffle, SizeClass, Trace,
};

/// A kind of traffic, or a queue: what can be measured of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Transfers of a size.
    Bulk,
    /// Transfers without end.
    Endless,
    /// Transfers of a size at once, in rounds.
    Incast,
    /// Requests and answers.
    Rpc,
    /// Small packets back and forth.
    Ping,
    /// Packets at a constant rate, without answers.
    Cbr,
    /// Requests to several servers at once, the next when all have answered.
    Query,
    /// Transfers from each to each, so many at a time.
    Shuffle,
    /// Connections that nothing is sent on.
    Attempts,
    /// Transfers that begin at random.
    Poisson,
    /// Transfers from a file, which may wait for each other.
    Trace,
    /// Messages of a distributed computation, in iterations.
    Collective,
    /// Messages and computations of a recorded job, in iterations.
    Chakra,
    /// Transfers of one class of size.
    SizeClass,
    /// A recorded queue.
    Queue,
    /// Memory that queues share.
    Buffer,
}

/// How values of a metric are written and recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unit {
    /// As in results; empty: a count, a ratio or a share.
    name: &'static str,
    /// Recorded whole numbers in one of it.
    scale: f64,
    /// Whether it is a part of a whole, which people read in per cent.
    is_share: bool,
    /// See [`Metric::matters_from`].
    matters_from: f64,
    /// The largest value that there can be.
    most: f64,
}

const fn unit(name: &'static str, scale: f64, matters_from: f64) -> Unit {
    Unit { name, scale, is_share: false, matters_from, most: f64::INFINITY }
}

const SECONDS: Unit = unit("s", 1e9, 0.0);
const BPS: Unit = unit("bps", 1.0, 0.0);
const BYTES: Unit = unit("B", 1.0, 1.0);
const PKTS: Unit = unit("pkts", 1.0, 1.0);
const MEAN_PKTS: Unit = unit("pkts", 1e3, 1.0);
const PER_S: Unit = unit("per s", 1e3, 1.0);
const COUNT: Unit = unit("", 1.0, 1.0);
const RATIO: Unit = unit("", 1e3, 1.0);
const INDEX: Unit = Unit { most: 1.0, ..unit("", 1e6, 0.0) };
/// A share of events, or of a time in which something rare happened.
const SHARE: Unit = Unit { is_share: true, matters_from: 0.1, ..INDEX };
const PROBABILITY: Unit = Unit { scale: 1e9, ..SHARE };
/// The used share of what a link can do, which a small value measures as exactly as a large one.
const LOAD: Unit = Unit { is_share: true, ..INDEX };
/// CPU time as a share of one core's; several cores may make it more than 1.
const CORES: Unit = Unit { most: f64::INFINITY, ..LOAD };

/// Which of two values of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The lower one, as of a time or of a loss.
    Lower,
    /// The higher one, as of goodput.
    Higher,
    /// Neither: the metric says how something works, and not how well.
    Neither,
}

/// Kinds that have connections with payload.
const PAYLOAD: &[Kind] =
    &[Bulk, Incast, Endless, Query, Shuffle, Rpc, Poisson, Trace, Collective, Chakra];
/// Those of them whose hosts and windows are looked at.
const STEADY: &[Kind] = &[Bulk, Endless, Rpc];
const TRANSFERS: &[Kind] = &[Bulk, Endless];
const COUNTED_IN_WINDOW: &[Kind] = &[Bulk, Endless, Rpc, Poisson];
const QUEUES: &[Kind] = &[Queue, Buffer];

/// Description of a metric.
struct About {
    doc: &'static str,
    name: &'static str,
    unit: Unit,
    is_distribution: bool,
    kinds: &'static [Kind],
    shown: &'static [Kind],
    heading: &'static str,
    column: &'static str,
}

/// The last item: a given value, or else the default before it.
const fn last<T: Copy>(all: &[T]) -> T {
    all[all.len() - 1]
}

/// Each metric: what it is; its name; its unit; whether a run has many values of it, which have percentiles, or one; of which kinds
/// it is measured; of which a table shows it if the file does not say. Then its heading, if that is not its name, and the one of a narrow
/// column, if that is another. The order is that of results.
macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $metric:ident $name:literal $unit:ident $values:ident $kinds:expr $(, shown $shown:expr)?
        $(, $heading:literal $(, $column:literal)?)?;)+) => {
        /// Something measured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric { $($(#[doc = $doc])+ $metric,)+ }

        impl Metric {
            /// All of them, in the order of results.
            pub const ALL: &[Metric] = &[$(Metric::$metric,)+];

            const fn about(self) -> &'static About {
                match self {
                    $(Metric::$metric => const {
                        &About {
                            doc: concat!($($doc),+), name: $name, unit: $unit, is_distribution: $values,
                            kinds: $kinds, shown: last(&[NOWHERE, $($shown)?]),
                            heading: last(&["", $($heading)?]), column: last(&["", $($heading, $($column)?)?]),
                        }
                    },)+
                }
            }
        }
    };
}

const NOWHERE: &[Kind] = &[];
const MANY: bool = true;
const ONE: bool = false;

metrics! {
    /// From `connect()` to the last byte read, of each transfer that has begun.
    Completion "completion" SECONDS MANY &[Bulk, Incast, Shuffle, Poisson, Trace, SizeClass],
        shown &[Bulk, Incast, Shuffle, Poisson, Trace], "completion time";
    /// Completion time over the least that is possible.
    Slowdown "slowdown" RATIO MANY &[Poisson, Trace, SizeClass], shown &[Poisson, Trace, SizeClass];
    /// From the start of a job until its last message is read.
    Job "job" SECONDS MANY &[Trace, Collective, Chakra], shown &[Trace, Collective, Chakra], "job completion time";
    /// From the end of an iteration, or the start of the job, to the end of the next: its last message is read.
    Iteration "iteration" SECONDS MANY &[Collective, Chakra], shown &[Collective, Chakra], "time of an iteration";
    /// From the first message of an iteration that might begin until its last one is read.
    Communication "communication" SECONDS MANY &[Collective, Chakra], shown &[Collective, Chakra], "communication time of an iteration", "communication";
    /// From the first `connect()` of a round to its last byte read.
    Last "last" SECONDS MANY &[Incast, Shuffle], shown &[Incast, Shuffle], "time until the last of a round is complete";
    /// Share of connection attempts that are established in time.
    SuccessShare "success_share" SHARE ONE &[Attempts], shown &[Attempts];
    /// From a request's write to the last byte of its answer.
    Latency "latency" SECONDS MANY &[Query, Attempts, Rpc], shown &[Query, Attempts, Rpc];
    /// Share of queries or rounds with a retransmission timeout on any connection.
    TimeoutShare "timeout_share" SHARE ONE &[Incast, Query], shown &[Query];
    /// Exchanges completed in the window.
    Exchanges "exchanges" COUNT ONE &[Query, Rpc], shown &[Query, Rpc];
    /// Payload received by a flow, per second.
    Goodput "goodput" BPS MANY &[Bulk, Incast, Endless, Shuffle, Cbr], shown &[Endless, Cbr], "goodput of a flow";
    /// Payload received by all flows of the entry together, per second.
    GoodputSum "goodput_sum" BPS ONE &[Endless, Cbr], shown &[Endless], "goodput, all flows together", "sum";
    /// Jain's index of the flows' goodput.
    Jain "jain" INDEX ONE &[Bulk, Incast, Endless], shown &[Endless], "Jain's index of goodput", "Jain";
    /// From the last start until endless transfers share fairly.
    Convergence "convergence" SECONDS ONE &[Endless];
    /// Retransmission timeouts.
    Timeouts "timeouts" COUNT ONE &[Bulk, Incast, Endless, Query, Shuffle, Attempts, Rpc, Poisson, Trace, Collective, Chakra, SizeClass],
        shown &[Bulk, Incast, Endless, Query, Shuffle, Rpc, Poisson, Trace, Collective, Chakra, SizeClass];
    /// Tail loss probes.
    TailLossProbes "tail_loss_probes" COUNT ONE PAYLOAD, shown &[Bulk, Incast], "tail loss probes", "probes";
    /// Segments retransmitted.
    Retransmits "retransmits" COUNT ONE PAYLOAD, shown &[Bulk, Incast, Endless, Rpc, Shuffle, Poisson, Trace, Collective, Chakra];
    /// Entries into fast recovery.
    Recoveries "recoveries" COUNT ONE PAYLOAD;
    /// Reductions that the sender took back, because its retransmissions were spurious.
    Undos "undos" COUNT ONE PAYLOAD;
    /// Times that senders saw that packets had overtaken each other.
    Reorderings "reorderings" COUNT ONE PAYLOAD;
    /// Segments that receivers reported twice (DSACK): spurious retransmissions.
    DsackSegs "dsack_segs" COUNT ONE PAYLOAD, "segments twice";
    /// Reductions for ECE.
    EcnReductions "ecn_reductions" COUNT ONE PAYLOAD, "reductions for ECN", "ECN cuts";
    /// Changes of path that algorithms asked for (PLB).
    PlbRehashes "plb_rehashes" COUNT ONE PAYLOAD, "PLB rehashes";
    /// Share of delivered packets that were acked with ECE.
    CeShare "ce_share" SHARE ONE PAYLOAD, "share of packets marked", "CE share";
    /// Packets on the wire for one that the receiving hosts' IP saw, where these tell (GRO).
    PktsPerMerge "pkts_per_merge" RATIO ONE TRANSFERS;
    /// ACKs for 1 MB (10^6 bytes) of received payload, where the receiving hosts tell what they merge.
    AcksPerMb "acks_per_mb" RATIO ONE TRANSFERS, "ACKs per MB";
    /// CPU time of the receiving hosts' IP and TCP for 1 MB of payload, where these tell.
    ReceiveCpuPerMb "receive_cpu_per_mb" SECONDS ONE TRANSFERS, "receive CPU per MB";
    /// CPU time of the sending hosts' IP and TCP for 1 MB of payload, where these tell: for ACKs, and for sending what these allow.
    AckCpuPerMb "ack_cpu_per_mb" SECONDS ONE TRANSFERS, "ACK CPU per MB";
    /// The receiving hosts' CPU time in the whole run as a share of one core's, a mean of these hosts.
    ReceiveCpuShare "receive_cpu_share" CORES ONE STEADY, "receive CPU share";
    /// The sending hosts' CPU time in the whole run as a share of one core's, a mean of these hosts.
    AckCpuShare "ack_cpu_share" CORES ONE STEADY, "ACK CPU share";
    /// A flow's cwnd, a mean of its samples.
    Cwnd "cwnd" MEAN_PKTS MANY STEADY;
    /// A flow's smoothed RTT, a mean of its samples.
    Srtt "srtt" SECONDS MANY STEADY;
    /// A flow's smoothed RTT as kernels up to 3.14 showed it, which measured it in ticks.
    RttShown "rtt_shown" SECONDS MANY STEADY, "RTT shown";
    /// Expiries of TCP's own pacing timer a second, all flows together.
    PacingTimers "pacing_timers" PER_S ONE STEADY;
    /// Bursts handed to the device a second, all flows together.
    Bursts "bursts" PER_S ONE STEADY;
    /// Data packets in a burst.
    PktsPerBurst "pkts_per_burst" RATIO ONE STEADY;
    /// Data packets sent a second, all flows together.
    DataPktsRate "data_pkts_rate" PER_S ONE STEADY, "rate of data packets";
    /// ACKs sent a second, all flows together.
    AcksRate "acks_rate" PER_S ONE STEADY, "rate of ACKs";
    /// `timeouts` in the measured window.
    WindowTimeouts "window_timeouts" COUNT ONE COUNTED_IN_WINDOW;
    /// `retransmits` in the measured window.
    WindowRetransmits "window_retransmits" COUNT ONE COUNTED_IN_WINDOW;
    /// `recoveries` in the measured window.
    WindowRecoveries "window_recoveries" COUNT ONE COUNTED_IN_WINDOW;
    /// `ce_share` in the measured window.
    WindowCeShare "window_ce_share" SHARE ONE COUNTED_IN_WINDOW, "window CE share";
    /// Transfers, exchanges or messages that the end of the run cut off.
    Unfinished "unfinished" COUNT ONE &[Bulk, Incast, Endless, Query, Shuffle, Rpc, Poisson, Trace, Collective, Chakra, SizeClass];
    /// From sending a ping until its answer comes.
    Rtt "rtt" SECONDS MANY &[Ping], shown &[Ping], "round-trip time";
    /// Pings without an answer by the end of the run.
    Unanswered "unanswered" COUNT ONE &[Ping], shown &[Ping];
    /// From sending a packet until it arrives.
    Delay "delay" SECONDS MANY &[Cbr], shown &[Cbr], "one-way delay";
    /// Share of the packets sent that were lost.
    LossShare "loss_share" SHARE ONE &[Cbr], shown &[Cbr];
    /// Packets sent, without those in flight at the end of the run.
    SentPkts "sent_pkts" PKTS ONE &[Cbr];
    /// Packets received.
    ReceivedPkts "received_pkts" PKTS ONE &[Cbr];
    /// Packets lost.
    LostPkts "lost_pkts" PKTS ONE &[Cbr];
    /// Packets waiting, at each sample.
    Queue "queue" PKTS MANY &[Queue], shown &[Queue], "packets waiting";
    /// Bytes waiting in shared memory, at each sample.
    Occupancy "occupancy" BYTES MANY &[Buffer], shown &[Buffer];
    /// Bytes sent in the whole run, as a share of what the link could send.
    Utilisation "utilisation" LOAD ONE &[Queue], shown &[Queue];
    /// Packets that a queue dropped in the whole run.
    Drops "drops" PKTS ONE QUEUES, shown QUEUES;
    /// Share of packets that a queue dropped, over the whole run.
    DropShare "drop_share" SHARE ONE QUEUES, shown QUEUES;
    /// Packets that a queue marked in the whole run.
    Marks "marks" PKTS ONE QUEUES, shown QUEUES;
    /// Packets whose payload a queue cut off in the whole run.
    Trims "trims" PKTS ONE &[Queue], shown &[Queue];
    /// Mean over the samples of the probability that an AQM with one holds for its next packet.
    DropProbability "drop_probability" PROBABILITY ONE &[Queue], shown &[Queue];
    /// Share of the run in which flow control did not let a link begin to send.
    PausedShare "paused_share" SHARE ONE &[Queue], shown &[Queue];
    /// Frames that told a link to pause in the whole run.
    PauseFrames "pause_frames" COUNT ONE &[Queue], shown &[Queue];
    /// `utilisation` in the measured window.
    WindowUtilisation "window_utilisation" LOAD ONE &[Queue];
    /// `drops` in the measured window.
    WindowDrops "window_drops" PKTS ONE QUEUES;
    /// `marks` in the measured window.
    WindowMarks "window_marks" PKTS ONE QUEUES;
}

impl Metric {
    /// As in files and results.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Description, in a sentence.
    pub fn doc(self) -> &'static str {
        self.about().doc.trim()
    }

    /// `s`, `bps`, `pkts`, `B`, `per s`; empty: a count, a ratio or a share.
    pub const fn unit(self) -> &'static str {
        self.about().unit.name
    }

    /// Whether a figure with this unit may be one of it; counts, shares and packets go without.
    pub fn takes(self, unit: &str) -> bool {
        let is_plain = matches!(self.unit(), "" | "pkts");
        unit == self.unit() || (is_plain && matches!(unit, "" | "share"))
    }

    /// Recorded whole numbers in one unit.
    pub const fn scale(self) -> f64 {
        self.about().unit.scale
    }

    /// Whether it is a part of a whole, which people read in per cent.
    pub const fn is_share(self) -> bool {
        self.about().unit.is_share
    }

    /// Which of two values is the better one, for who uses the network. What hosts do for it (probes, marks, cwnd) is neither, and so is the
    /// load of a link: with a given load it only repeats it.
    pub const fn better(self) -> Better {
        match self {
            Metric::Completion
            | Metric::Slowdown
            | Metric::Job
            | Metric::Iteration
            | Metric::Communication
            | Metric::Last
            | Metric::Latency
            | Metric::TimeoutShare
            | Metric::Convergence
            | Metric::Timeouts
            | Metric::Retransmits
            | Metric::DsackSegs
            | Metric::ReceiveCpuPerMb
            | Metric::AckCpuPerMb
            | Metric::ReceiveCpuShare
            | Metric::AckCpuShare
            | Metric::Srtt
            | Metric::RttShown
            | Metric::WindowTimeouts
            | Metric::WindowRetransmits
            | Metric::Unfinished
            | Metric::Rtt
            | Metric::Unanswered
            | Metric::Delay
            | Metric::LossShare
            | Metric::LostPkts
            | Metric::Queue
            | Metric::Occupancy
            | Metric::Drops
            | Metric::DropShare
            | Metric::PausedShare
            | Metric::WindowDrops => Better::Lower,
            Metric::SuccessShare
            | Metric::Exchanges
            | Metric::Goodput
            | Metric::GoodputSum
            | Metric::Jain
            | Metric::ReceivedPkts => Better::Higher,
            Metric::TailLossProbes
            | Metric::Recoveries
            | Metric::Undos
            | Metric::Reorderings
            | Metric::EcnReductions
            | Metric::PlbRehashes
            | Metric::CeShare
            | Metric::PktsPerMerge
            | Metric::AcksPerMb
            | Metric::Cwnd
            | Metric::PacingTimers
            | Metric::Bursts
            | Metric::PktsPerBurst
            | Metric::DataPktsRate
            | Metric::AcksRate
            | Metric::WindowRecoveries
            | Metric::WindowCeShare
            | Metric::SentPkts
            | Metric::Utilisation
            | Metric::Marks
            | Metric::Trims
            | Metric::DropProbability
            | Metric::PauseFrames
            | Metric::WindowUtilisation
            | Metric::WindowMarks => Better::Neither,
        }
    }

    /// Whether tables of any kind show it if the file does not say.
    pub const fn is_shown(self) -> bool {
        !self.about().shown.is_empty()
    }

    /// The amount from which on a difference of a few per cent says something: an event or packet per run, a tenth of the
    /// marks. 0: any amount.
    pub const fn matters_from(self) -> f64 {
        self.about().unit.matters_from
    }

    /// From `value - half` to `value + half`, but not beyond the least and the largest value that the metric can have.
    pub fn interval(self, value: f64, half: f64) -> (f64, f64) {
        let (low, high) = self.possible(value - half, value + half);
        (low.min(value), high.max(value))
    }

    /// The part of an interval that the metric can have. None is negative; a share or an index is at most 1.
    pub fn possible(self, low: f64, high: f64) -> (f64, f64) {
        (low.max(0.0), high.min(self.about().unit.most))
    }

    /// Whether a run has many values of it, which have percentiles, and not just one.
    pub const fn is_distribution(self) -> bool {
        self.about().is_distribution
    }

    /// Kinds of traffic, and queues, that it is measured of.
    pub const fn kinds(self) -> &'static [Kind] {
        self.about().kinds
    }

    /// Whether it is the time of a transfer or exchange, which is far longer if a retransmission timer had
    /// to expire for it.
    pub const fn may_wait_for_a_timer(self) -> bool {
        matches!(self, Metric::Completion | Metric::Last | Metric::Latency)
    }

    /// Whether the end of a run can cut a value off: it is the time of something that may not have finished.
    pub const fn may_be_cut_off(self) -> bool {
        matches!(
            self,
            Metric::Completion
                | Metric::Slowdown
                | Metric::Job
                | Metric::Iteration
                | Metric::Communication
                | Metric::Last
                | Metric::Latency
                | Metric::Convergence
                | Metric::Rtt
        )
    }

    /// Heading in tables.
    pub fn heading(self) -> String {
        self.or_name(self.about().heading)
    }

    /// Heading of a narrow column.
    pub fn column(self) -> String {
        self.or_name(self.about().column)
    }

    fn or_name(self, heading: &str) -> String {
        if heading.is_empty() { self.name().replace('_', " ") } else { heading.to_owned() }
    }

    /// The metric of a name.
    pub fn by_name(name: &str) -> Option<Metric> {
        Metric::ALL.iter().copied().find(|metric| metric.name() == name)
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 16] = [
        Bulk, Endless, Incast, Rpc, Ping, Cbr, Query, Shuffle, Attempts, Poisson, Trace,
        Collective, Chakra, SizeClass, Queue, Buffer,
    ];

    /// Metrics of the subject, in the order of results.
    pub fn metrics(self) -> Vec<Metric> {
        let all = Metric::ALL.iter().copied();
        all.filter(|metric| has(metric.kinds(), self)).collect()
    }

    /// Metrics that a table shows by default.
    pub fn shown(self) -> Vec<Metric> {
        let all = Metric::ALL.iter().copied();
        all.filter(|metric| has(metric.about().shown, self)).collect()
    }
}

/// A metric is measured of something, and shown only where it is measured.
const _: () = {
    let mut at = 0;
    while at < Metric::ALL.len() {
        let about = Metric::ALL[at].about();
        assert!(!about.kinds.is_empty(), "a metric needs a kind of traffic");
        let mut of = 0;
        while of < about.shown.len() {
            assert!(
                has(about.kinds, about.shown[of]),
                "a metric is shown where it is not measured"
            );
            of += 1;
        }
        at += 1;
    }
};

/// As `contains`, for the assertion above, too.
const fn has(kinds: &[Kind], kind: Kind) -> bool {
    let mut at = 0;
    while at < kinds.len() {
        if kinds[at] as u8 == kind as u8 {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_metric_in_the_window_is_described_as_the_whole() {
        let mut twins = 0;
        for metric in Metric::ALL {
            let Some(of) = metric.name().strip_prefix("window_") else { continue };
            let whole = Metric::by_name(of).expect("is the window's part of something");
            assert_eq!(metric.about().unit, whole.about().unit, "{}", metric.name());
            twins += 1;
        }
        assert!(twins >= 7, "{twins}");
    }

    #[test]
    fn an_interval_ends_where_the_metric_does() {
        let near = |(low, high): (f64, f64), (a, b): (f64, f64)| {
            assert!((low - a).abs() < 1e-9 && (high - b).abs() < 1e-9, "{low} {high}");
        };
        near(Metric::Jain.interval(0.95, 0.26), (0.69, 1.0));
        near(Metric::WindowUtilisation.interval(0.995, 0.011), (0.984, 1.0));
        near(Metric::Completion.interval(0.005, 0.007), (0.0, 0.012));
        near(Metric::ReceiveCpuShare.interval(0.9, 0.3), (0.6, 1.2));
        // A value that rounding has put outside is still in its interval.
        near(Metric::Utilisation.interval(1.002, 0.001), (1.001, 1.002));
    }
}

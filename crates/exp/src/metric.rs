//! What is measured: the metrics, of which kind of traffic each is, and how values of one are kept.

use knee_queue::time::{Duration, Time};
use knee_run::spec::Traffic;

use crate::stats::Samples;
use Metric as M;

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
    /// Requests to several servers at once, the next when all have answered.
    Query,
    /// Transfers from each to each, so many at a time.
    Shuffle,
    /// Connections that nothing is sent on.
    Attempts,
    /// Transfers that begin at random.
    Poisson,
    /// Those of them of one class of size.
    SizeClass,
    /// A recorded queue.
    Queue,
    /// Memory that queues share.
    Buffer,
}

/// Something measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From `connect()` to the last byte read, of each finished transfer.
    Completion,
    /// Completion time over the least that is possible (see [`knee_run::Ideal`]).
    Slowdown,
    /// From the first start of an incast round to its last byte read.
    Last,
    /// Payload received by a flow, per second.
    Goodput,
    /// All flows of the entry together.
    GoodputSum,
    /// Jain's index of the flows' goodput.
    Jain,
    /// Retransmission timeouts.
    Timeouts,
    /// Tail loss probes.
    TailLossProbes,
    /// Segments sent again.
    Retransmits,
    /// Entries into fast recovery.
    Recoveries,
    /// Reductions for ECE.
    EcnReductions,
    /// Changes of path that algorithms asked for (PLB).
    PlbRehashes,
    /// Share of delivered packets that were acked with ECE.
    CeShare,
    /// Packets on the wire for one that the receiving hosts' IP saw, where these tell (GRO).
    PktsPerMerge,
    /// ACKs for 1 MB (10^6 bytes) of received payload, where the receiving hosts tell what they merge.
    AcksPerMb,
    /// CPU time of the receiving hosts' IP and TCP for 1 MB of payload, where these tell.
    ReceiveCpuPerMb,
    /// The same of the sending hosts: for ACKs, and for sending what these allow.
    AckCpuPerMb,
    /// The receiving hosts' CPU time in the whole run as a share of one core's, a mean of these hosts.
    ReceiveCpuShare,
    /// The same of the sending hosts.
    AckCpuShare,
    /// A flow's cwnd, a mean of its samples.
    Cwnd,
    /// A flow's smoothed RTT, a mean of its samples.
    Srtt,
    /// The same as kernels up to 3.14 showed it, which measured it in ticks.
    RttShown,
    /// Expiries of TCP's own pacing timer a second, all flows together.
    PacingTimers,
    /// Bursts handed to the device a second, all flows together.
    Bursts,
    /// Data packets in a burst.
    PktsPerBurst,
    /// Data packets sent a second, all flows together.
    DataPktsRate,
    /// ACKs sent a second, all flows together.
    AcksRate,
    /// Transfers or exchanges that the end of the run cut off.
    Unfinished,
    /// From a request's write to the last byte of its answer.
    Latency,
    /// Exchanges completed in the window.
    Exchanges,
    /// Of a ping.
    Rtt,
    /// Pings without an answer by the end of the run.
    Unanswered,
    /// Of queries or rounds, the share in which some connection had a retransmission timeout.
    TimeoutShare,
    /// Of attempts to connect, the share that came about in time.
    SuccessShare,
    /// From the last start until endless transfers share fairly.
    Convergence,
    /// Packets waiting, at each sample.
    Queue,
    /// Bytes waiting in shared memory, at each sample.
    Occupancy,
    /// Bytes sent in the whole run, as a share of what the rate allows.
    Utilisation,
    /// Packets that a queue dropped in the whole run.
    Drops,
    /// Of all that came, in the whole run, the share that it dropped.
    DropShare,
    /// Packets that it marked in the whole run.
    Marks,
    /// Share of the run in which flow control did not let a link begin to send.
    PausedShare,
    /// Frames that told it to pause in the whole run.
    PauseFrames,
    /// Mean over the samples of the probability that an AQM with one holds for its next packet.
    DropProbability,
    /// [`Metric::Timeouts`] in the measured window.
    WindowTimeouts,
    /// [`Metric::Retransmits`] in the measured window.
    WindowRetransmits,
    /// [`Metric::Recoveries`] in the measured window.
    WindowRecoveries,
    /// [`Metric::CeShare`] in the measured window.
    WindowCeShare,
    /// [`Metric::Utilisation`] in the measured window.
    WindowUtilisation,
    /// [`Metric::Drops`] in the measured window.
    WindowDrops,
    /// [`Metric::Marks`] in the measured window.
    WindowMarks,
}

pub(crate) const NANOS: f64 = 1e9;

pub(crate) const MILLIONTHS: f64 = 1e6;

pub(crate) const THOUSANDTHS: f64 = 1e3;

impl Metric {
    const ALL: [Metric; 51] = [
        M::Completion,
        M::Slowdown,
        M::Last,
        M::Goodput,
        M::GoodputSum,
        M::Jain,
        M::Timeouts,
        M::TailLossProbes,
        M::Retransmits,
        M::Recoveries,
        M::EcnReductions,
        M::PlbRehashes,
        M::CeShare,
        M::PktsPerMerge,
        M::AcksPerMb,
        M::ReceiveCpuPerMb,
        M::AckCpuPerMb,
        M::ReceiveCpuShare,
        M::AckCpuShare,
        M::Cwnd,
        M::Srtt,
        M::RttShown,
        M::PacingTimers,
        M::Bursts,
        M::PktsPerBurst,
        M::DataPktsRate,
        M::AcksRate,
        M::Unfinished,
        M::Latency,
        M::Exchanges,
        M::Rtt,
        M::Unanswered,
        M::TimeoutShare,
        M::SuccessShare,
        M::Convergence,
        M::Queue,
        M::Occupancy,
        M::Utilisation,
        M::Drops,
        M::DropShare,
        M::Marks,
        M::PausedShare,
        M::PauseFrames,
        M::DropProbability,
        M::WindowTimeouts,
        M::WindowRetransmits,
        M::WindowRecoveries,
        M::WindowCeShare,
        M::WindowUtilisation,
        M::WindowDrops,
        M::WindowMarks,
    ];

    /// Name, unit, recorded units in one unit, and whether a run has many values of it.
    const fn about(self) -> (&'static str, &'static str, f64, bool) {
        match self {
            M::Completion => ("completion", "s", NANOS, true),
            M::Slowdown => ("slowdown", "", THOUSANDTHS, true),
            M::Last => ("last", "s", NANOS, true),
            M::Goodput => ("goodput", "bps", 1.0, true),
            M::GoodputSum => ("goodput_sum", "bps", 1.0, false),
            M::Jain => ("jain", "", MILLIONTHS, false),
            M::Timeouts => ("timeouts", "", 1.0, false),
            M::TailLossProbes => ("tail_loss_probes", "", 1.0, false),
            M::Retransmits => ("retransmits", "", 1.0, false),
            M::Recoveries => ("recoveries", "", 1.0, false),
            M::EcnReductions => ("ecn_reductions", "", 1.0, false),
            M::PlbRehashes => ("plb_rehashes", "", 1.0, false),
            M::CeShare => ("ce_share", "", MILLIONTHS, false),
            M::PktsPerMerge => ("pkts_per_merge", "", THOUSANDTHS, false),
            M::AcksPerMb => ("acks_per_mb", "", THOUSANDTHS, false),
            M::ReceiveCpuPerMb => ("receive_cpu_per_mb", "s", NANOS, false),
            M::AckCpuPerMb => ("ack_cpu_per_mb", "s", NANOS, false),
            M::ReceiveCpuShare => ("receive_cpu_share", "", MILLIONTHS, false),
            M::AckCpuShare => ("ack_cpu_share", "", MILLIONTHS, false),
            M::Cwnd => ("cwnd", "pkts", THOUSANDTHS, true),
            M::Srtt => ("srtt", "s", NANOS, true),
            M::RttShown => ("rtt_shown", "s", NANOS, true),
            M::PacingTimers => ("pacing_timers", "per s", THOUSANDTHS, false),
            M::Bursts => ("bursts", "per s", THOUSANDTHS, false),
            M::PktsPerBurst => ("pkts_per_burst", "", THOUSANDTHS, false),
            M::DataPktsRate => ("data_pkts_rate", "per s", THOUSANDTHS, false),
            M::AcksRate => ("acks_rate", "per s", THOUSANDTHS, false),
            M::Unfinished => ("unfinished", "", 1.0, false),
            M::Latency => ("latency", "s", NANOS, true),
            M::Exchanges => ("exchanges", "", 1.0, false),
            M::Rtt => ("rtt", "s", NANOS, true),
            M::Unanswered => ("unanswered", "", 1.0, false),
            M::TimeoutShare => ("timeout_share", "", MILLIONTHS, false),
            M::SuccessShare => ("success_share", "", MILLIONTHS, false),
            M::Convergence => ("convergence", "s", NANOS, false),
            M::Queue => ("queue", "pkts", 1.0, true),
            M::Occupancy => ("occupancy", "B", 1.0, true),
            M::Utilisation => ("utilisation", "", MILLIONTHS, false),
            M::Drops => ("drops", "pkts", 1.0, false),
            M::DropShare => ("drop_share", "", MILLIONTHS, false),
            M::Marks => ("marks", "pkts", 1.0, false),
            M::PausedShare => ("paused_share", "", MILLIONTHS, false),
            M::PauseFrames => ("pause_frames", "", 1.0, false),
            M::DropProbability => ("drop_probability", "", NANOS, false),
            M::WindowTimeouts => ("window_timeouts", "", 1.0, false),
            M::WindowRetransmits => ("window_retransmits", "", 1.0, false),
            M::WindowRecoveries => ("window_recoveries", "", 1.0, false),
            M::WindowCeShare => ("window_ce_share", "", MILLIONTHS, false),
            M::WindowUtilisation => ("window_utilisation", "", MILLIONTHS, false),
            M::WindowDrops => ("window_drops", "pkts", 1.0, false),
            M::WindowMarks => ("window_marks", "pkts", 1.0, false),
        }
    }

    /// As in files and results.
    pub const fn name(self) -> &'static str {
        self.about().0
    }

    /// Whether a figure with this unit may be one of it; counts, shares and packets go without.
    pub(crate) fn takes(self, unit: &str) -> bool {
        let is_plain = matches!(self.unit(), "" | "pkts");
        unit == self.unit() || (is_plain && matches!(unit, "" | "share"))
    }

    /// `s`, `bps`, `pkts`, `B`, `per s`; empty: a count or a share.
    pub const fn unit(self) -> &'static str {
        self.about().1
    }

    /// Recorded units in one unit.
    pub const fn scale(self) -> f64 {
        self.about().2
    }

    /// Whether a run has many values of it, which have percentiles, and not just one.
    pub const fn is_distribution(self) -> bool {
        self.about().3
    }

    /// Whether it is the time of a transfer or exchange, which is far longer if a retransmission timer had
    /// to expire for it.
    pub(crate) const fn may_wait_for_a_timer(self) -> bool {
        matches!(self, M::Completion | M::Last | M::Latency)
    }

    pub(crate) fn by_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        Metric::ALL.into_iter().map(Metric::name)
    }
}

/// What is measured of a queue, and what a table shows if the file does not say.
const QUEUE_ALL: &[Metric] = &[
    M::Queue,
    M::Utilisation,
    M::Drops,
    M::DropShare,
    M::Marks,
    M::DropProbability,
    M::PausedShare,
    M::PauseFrames,
    M::WindowUtilisation,
    M::WindowDrops,
    M::WindowMarks,
];

const QUEUE: &[Metric] = &[
    M::Queue,
    M::Utilisation,
    M::Drops,
    M::DropShare,
    M::Marks,
    M::DropProbability,
    M::PausedShare,
    M::PauseFrames,
];

impl Kind {
    /// What is measured of it.
    pub const fn metrics(self) -> &'static [Metric] {
        match self {
            Kind::Bulk => &[
                M::Completion,
                M::Goodput,
                M::Jain,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::PktsPerMerge,
                M::AcksPerMb,
                M::ReceiveCpuPerMb,
                M::AckCpuPerMb,
                M::ReceiveCpuShare,
                M::AckCpuShare,
                M::Cwnd,
                M::Srtt,
                M::RttShown,
                M::PacingTimers,
                M::Bursts,
                M::PktsPerBurst,
                M::DataPktsRate,
                M::AcksRate,
                M::WindowTimeouts,
                M::WindowRetransmits,
                M::WindowRecoveries,
                M::WindowCeShare,
                M::Unfinished,
            ],
            Kind::Incast => &[
                M::Completion,
                M::Last,
                M::TimeoutShare,
                M::Goodput,
                M::Jain,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::Unfinished,
            ],
            Kind::Endless => &[
                M::Goodput,
                M::GoodputSum,
                M::Jain,
                M::Convergence,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::PktsPerMerge,
                M::AcksPerMb,
                M::ReceiveCpuPerMb,
                M::AckCpuPerMb,
                M::ReceiveCpuShare,
                M::AckCpuShare,
                M::Cwnd,
                M::Srtt,
                M::RttShown,
                M::PacingTimers,
                M::Bursts,
                M::PktsPerBurst,
                M::DataPktsRate,
                M::AcksRate,
                M::WindowTimeouts,
                M::WindowRetransmits,
                M::WindowRecoveries,
                M::WindowCeShare,
                M::Unfinished,
            ],
            Kind::Query => &[
                M::Latency,
                M::TimeoutShare,
                M::Exchanges,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::Unfinished,
            ],
            Kind::Shuffle => &[
                M::Completion,
                M::Last,
                M::Goodput,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::Unfinished,
            ],
            Kind::Attempts => &[M::SuccessShare, M::Latency, M::Timeouts],
            Kind::Rpc => &[
                M::Latency,
                M::Exchanges,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::ReceiveCpuShare,
                M::AckCpuShare,
                M::Cwnd,
                M::Srtt,
                M::RttShown,
                M::PacingTimers,
                M::Bursts,
                M::PktsPerBurst,
                M::DataPktsRate,
                M::AcksRate,
                M::WindowTimeouts,
                M::WindowRetransmits,
                M::WindowRecoveries,
                M::WindowCeShare,
                M::Unfinished,
            ],
            Kind::Poisson => &[
                M::Completion,
                M::Slowdown,
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
                M::WindowTimeouts,
                M::WindowRetransmits,
                M::WindowRecoveries,
                M::WindowCeShare,
                M::Unfinished,
            ],
            Kind::SizeClass => &[M::Completion, M::Slowdown, M::Timeouts, M::Unfinished],
            Kind::Ping => &[M::Rtt, M::Unanswered],
            Kind::Queue => QUEUE_ALL,
            Kind::Buffer => {
                &[M::Occupancy, M::Drops, M::DropShare, M::Marks, M::WindowDrops, M::WindowMarks]
            }
        }
    }

    /// What a table shows of it if the file does not say.
    pub const fn shown(self) -> &'static [Metric] {
        match self {
            Kind::Bulk => &[M::Completion, M::Timeouts, M::TailLossProbes, M::Retransmits],
            Kind::Incast => {
                &[M::Completion, M::Last, M::Timeouts, M::TailLossProbes, M::Retransmits]
            }
            Kind::Endless => &[M::Goodput, M::GoodputSum, M::Jain, M::Timeouts, M::Retransmits],
            Kind::Rpc => &[M::Latency, M::Exchanges, M::Timeouts, M::Retransmits],
            Kind::Query => &[M::Latency, M::TimeoutShare, M::Exchanges, M::Timeouts],
            Kind::Shuffle => &[M::Completion, M::Last, M::Timeouts, M::Retransmits],
            Kind::Attempts => &[M::SuccessShare, M::Latency],
            Kind::Poisson => &[M::Completion, M::Slowdown, M::Timeouts, M::Retransmits],
            Kind::SizeClass => &[M::Slowdown, M::Timeouts],
            Kind::Ping => &[M::Rtt, M::Unanswered],
            Kind::Queue => QUEUE,
            Kind::Buffer => &[M::Occupancy, M::Drops, M::DropShare, M::Marks],
        }
    }
}

/// Transfers of a size from the first to below the second, bytes: what is measured of an entry `web` whose sizes are drawn
/// is also measured of `web/small` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass {
    name: &'static str,
    from: u64,
    below: u64,
}

impl SizeClass {
    const ALL: [SizeClass; 3] = [
        SizeClass { name: "small", from: 0, below: 100_000 },
        SizeClass { name: "medium", from: 100_000, below: 1_000_000 },
        SizeClass { name: "large", from: 1_000_000, below: u64::MAX },
    ];

    /// Those that sizes from `smallest` to `largest` fall into; none if it is one alone.
    pub(crate) fn of(smallest: u64, largest: u64) -> Vec<SizeClass> {
        let mut classes = SizeClass::ALL.to_vec();
        classes.retain(|class| smallest < class.below && largest >= class.from);
        if classes.len() > 1 { classes } else { Vec::new() }
    }

    /// What it is called as a part of a traffic entry.
    pub(crate) fn subject(self, entry: &str) -> String {
        format!("{entry}/{}", self.name)
    }

    pub(crate) fn holds(self, traffic: Traffic) -> bool {
        matches!(traffic, Traffic::Bulk { bytes: Some(bytes) } if (self.from..self.below).contains(&bytes))
    }
}

/// What one run measured of one traffic entry or queue.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The traffic entry's name, or the link's.
    pub subject: String,
    /// What it is.
    pub kind: Kind,
    /// Values of each metric, in the order of [`Kind::metrics`]; none where it was not measured.
    pub values: Vec<(Metric, Samples)>,
    /// Of the times of transfers and exchanges, those that waited for a retransmission timer: they are a
    /// mode of their own.
    pub late: Vec<(Metric, Samples)>,
    /// From here on a time is late.
    late_from: Duration,
}

impl Measured {
    pub(crate) fn new(subject: &str, kind: Kind, late_from: Duration) -> Measured {
        let none = |metric: &Metric| (*metric, Samples::default());
        let metrics = kind.metrics();
        let waiting = metrics.iter().filter(|metric| metric.may_wait_for_a_timer());
        Measured {
            subject: subject.to_owned(),
            kind,
            values: metrics.iter().map(none).collect(),
            late: waiting.map(none).collect(),
            late_from,
        }
    }

    /// Memory that it takes, bytes, more or less.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.values.iter().chain(&self.late);
        all.map(|pair| size_of_val(pair) + pair.1.bytes()).sum()
    }

    pub(crate) fn record(&mut self, metric: Metric, value: u64) {
        if let Some((_, samples)) = self.values.iter_mut().find(|(m, _)| *m == metric) {
            samples.record(value);
        }
        if value >= self.late_from.ns() {
            if let Some((_, late)) = self.late.iter_mut().find(|(m, _)| *m == metric) {
                late.record(value);
            }
        }
    }
}

/// The part of a run that rates, queue lengths, exchanges and pings are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Time,
    /// Not beyond the run's end.
    pub(crate) until: Time,
}

impl Window {
    pub(crate) fn holds(self, at: Time) -> bool {
        self.from < at && at <= self.until
    }
}

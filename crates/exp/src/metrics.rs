//! What is measured of a run, by the kind of its traffic.

mod together;
mod window;

use std::collections::{BTreeSet, HashMap};

use knee_queue::time::{Duration, Time};
use knee_sim::Ideal;
use knee_sim::outcome::{FlowCounters, FlowOutcome, HostCount, Outcome, QueueOutcome, RpcRecord};
use knee_sim::spec::{Flow, NodeId, Run, Traffic};

use crate::classes::queue_name;
use crate::host_metrics::{
    measure_cpu_shares, measure_receiving, measure_samples, measure_sending,
};
use crate::scenario::Scenario;
use crate::stats::{Samples, jain};
use Metric as M;
use window::{goodput_sum, goodputs, per_second, whole_run};

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
    /// Completion time over the least that is possible (see [`knee_sim::Ideal`]).
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

const NANOS: f64 = 1e9;
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

    pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
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

    fn holds(self, traffic: Traffic) -> bool {
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

/// Share of the least retransmission timeout from which on a time counts as one that waited for a timer:
/// timers expire on ticks of the coarse clock, up to some ms early or late.
const LATE_PCT: u64 = 95;

/// The time from which on a transfer has waited for a retransmission timer.
fn late_from(run: &Run) -> Duration {
    let hosts = run.network.nodes.iter().filter_map(|node| node.host.as_ref());
    let least = hosts.map(|host| host.rto_min).min().unwrap_or(Duration::ZERO);
    Duration::from_ps(least.ps() / 100 * LATE_PCT)
}

impl Measured {
    fn new(subject: &str, kind: Kind, late_from: Duration) -> Measured {
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

/// Everything measured of a run.
pub(crate) fn measure(scenario: &Scenario, run: &Run, outcome: &Outcome) -> Vec<Measured> {
    let window = scenario.window(outcome.end);
    let goodput = goodputs(run, outcome, window);
    let groups = scenario.groups();
    let late_from = late_from(run);
    let mut measured: Vec<_> =
        groups.iter().map(|(name, kind)| Measured::new(name, *kind, late_from)).collect();
    let mut classes = Vec::new();
    for (group, measured) in (0u32..).zip(&mut measured) {
        let members: Vec<usize> =
            (0..run.flows.len()).filter(|i| run.flows[*i].group == group).collect();
        if measured.kind != Kind::Ping && !members.is_empty() {
            measure_flows(scenario, measured, run, outcome, &members, &goodput);
        }
        for class in scenario.size_classes(&measured.subject) {
            let mut of_class =
                Measured::new(&class.subject(&measured.subject), Kind::SizeClass, late_from);
            let members: Vec<usize> =
                members.iter().copied().filter(|i| class.holds(run.flows[*i].traffic)).collect();
            if !members.is_empty() {
                measure_flows(scenario, &mut of_class, run, outcome, &members, &goodput);
            }
            classes.push(of_class);
        }
    }
    for rpc in &outcome.rpcs {
        let holds = window.is_none_or(|window| window.holds(rpc.start + rpc.latency));
        if let (Some(flow), true) = (run.flows.get(rpc.flow as usize), holds) {
            let measured = &mut measured[flow.group as usize];
            // A query is done when all have answered.
            if measured.kind != Kind::Query {
                measured.record(M::Latency, rpc.latency.ns());
            }
        }
    }
    together::measure_queries(&mut measured, run, outcome, window);
    measure_pings(scenario, &mut measured, outcome, window);
    measured.extend(classes);
    measured.extend(measure_queues(run, outcome, window));
    measured
}

fn measure_flows(
    scenario: &Scenario,
    measured: &mut Measured,
    run: &Run,
    outcome: &Outcome,
    members: &[usize],
    goodput: &[Option<f64>],
) {
    let flows: Vec<&FlowOutcome> = members.iter().filter_map(|i| outcome.flows.get(*i)).collect();
    for flow in &flows {
        if let Some(time) = flow.completion_time() {
            measured.record(M::Completion, time.ns());
        }
    }
    if matches!(measured.kind, Kind::Poisson | Kind::SizeClass) {
        measure_slowdown(measured, run, outcome, members);
    }
    if matches!(measured.kind, Kind::Incast | Kind::Shuffle) {
        together::measure_rounds(scenario, measured, run, outcome, members);
    }
    if measured.kind == Kind::Attempts {
        together::measure_attempts(measured, run, outcome, members);
    }
    let rates: Vec<f64> = members.iter().filter_map(|i| *goodput.get(*i)?).collect();
    rates.iter().for_each(|rate| measured.record(M::Goodput, rate.round() as u64));
    let window = scenario.window(outcome.end);
    if let Some(sum) = goodput_sum(outcome, members, goodput, window) {
        measured.record(M::GoodputSum, sum.round() as u64);
    }
    if let Some(index) = jain(&rates) {
        measured.record(M::Jain, (index * MILLIONTHS).round() as u64);
    }
    measure_counters(measured, run, outcome, members);
    if let Some(window) = &outcome.window {
        window::measure_counters(measured, window, members);
    }
    measure_samples(measured, run, outcome, members, window);
    measure_sending(measured, run, outcome, members);
    if let Some(receivers) = receivers_of_their_own(run, outcome, members) {
        let senders = hosts_of_their_own(run, outcome, members);
        measure_receiving(measured, &flows, &receivers, senders.as_deref());
        measure_cpu_shares(measured, outcome, &receivers, senders.as_deref());
    }
    let unfinished = |i: &&usize| scenario.ends(run, **i) && outcome.flows[**i].done_at.is_none();
    let known = members.iter().filter(|i| **i < outcome.flows.len());
    if measured.kind != Kind::Endless {
        measured.record(M::Unfinished, known.filter(unfinished).count() as u64);
    } else if let Some((rule, period)) = scenario.converged_of(&measured.subject) {
        let time = rule.time(period, run, outcome, members);
        time.iter().for_each(|time| measured.record(M::Convergence, time.ns()));
        measured.record(M::Unfinished, u64::from(time.is_none()));
    }
    if measured.kind == Kind::Rpc {
        let groups = &run.flows;
        let counts = |rpc: &&RpcRecord| {
            let flow = groups.get(rpc.flow as usize);
            flow.is_some_and(|flow| flow.group == groups[members[0]].group)
                && window.is_none_or(|window| window.holds(rpc.start + rpc.latency))
        };
        measured.record(M::Exchanges, outcome.rpcs.iter().filter(counts).count() as u64);
    }
}

/// One of the counters.
type Counter = fn(&FlowCounters) -> Option<u64>;

/// Counts of all connections of an entry; one that is not known of all of them is absent.
fn measure_counters(measured: &mut Measured, run: &Run, outcome: &Outcome, members: &[usize]) {
    let hosts = hosts_of_their_own(run, outcome, members);
    let total = |counter: Counter| -> Option<u64> {
        let known = members.iter().filter_map(|i| outcome.flows.get(*i));
        let of_flows = known.map(|flow| counter(&flow.counters)).sum::<Option<u64>>();
        of_flows.or_else(|| hosts.as_ref()?.iter().map(|host| counter(&host.counters)).sum())
    };
    let counts: [(Metric, Counter); 6] = [
        (M::Timeouts, |counters| counters.timeouts),
        (M::TailLossProbes, |counters| counters.tail_loss_probes),
        (M::Retransmits, |counters| counters.retransmitted_segs),
        (M::Recoveries, |counters| counters.fast_recoveries),
        (M::EcnReductions, |counters| counters.cwr_reductions),
        (M::PlbRehashes, |counters| counters.plb_rehashes),
    ];
    for (metric, counter) in counts {
        if let Some(count) = total(counter) {
            measured.record(metric, count);
        }
    }
    let delivered = total(|counters| counters.delivered).filter(|delivered| *delivered > 0);
    if let Some((all, ce)) = delivered.zip(total(|counters| counters.delivered_ce)) {
        measured.record(M::CeShare, (ce as f64 / all as f64 * MILLIONTHS).round() as u64);
    }
}

/// What the sending hosts of these connections counted, if nothing else sends there: then a host's count
/// is theirs. Both ends of an exchange send.
fn hosts_of_their_own<'a>(
    run: &Run,
    outcome: &'a Outcome,
    members: &[usize],
) -> Option<Vec<&'a HostCount>> {
    let senders = |flow: &Flow| {
        let answers = matches!(flow.traffic, Traffic::Rpc { .. });
        [Some(flow.from), answers.then_some(flow.to)].into_iter().flatten()
    };
    let group = run.flows[*members.first()?].group;
    // A class of size is a part of its entry, whose other connections send from the same hosts.
    if members.len() < run.flows.iter().filter(|flow| flow.group == group).count() {
        return None;
    }
    let hosts: BTreeSet<NodeId> = members.iter().flat_map(|i| senders(&run.flows[*i])).collect();
    let others = run.flows.iter().filter(|flow| flow.group != group);
    if others.flat_map(senders).any(|host| hosts.contains(&host)) {
        return None;
    }
    let count = |host: &NodeId| outcome.host_counts.iter().find(|count| count.node == *host);
    hosts.iter().map(count).collect()
}

/// What the receiving hosts of these transfers counted, if nothing else sends there, so that a host's count is theirs.
fn receivers_of_their_own<'a>(
    run: &Run,
    outcome: &'a Outcome,
    members: &[usize],
) -> Option<Vec<&'a HostCount>> {
    let group = run.flows[*members.first()?].group;
    let hosts: BTreeSet<NodeId> = members.iter().map(|i| run.flows[*i].to).collect();
    let mut others = run.flows.iter().filter(|flow| flow.group != group);
    if others.any(|flow| hosts.contains(&flow.to) || hosts.contains(&flow.from)) {
        return None;
    }
    let count = |host: &NodeId| outcome.host_counts.iter().find(|count| count.node == *host);
    hosts.iter().map(count).collect()
}

/// How much longer each finished transfer took than it had to.
fn measure_slowdown(measured: &mut Measured, run: &Run, outcome: &Outcome, members: &[usize]) {
    let mut ideal = Ideal::new(&run.network);
    for (flow, got) in members.iter().filter_map(|i| Some((&run.flows[*i], outcome.flows.get(*i)?)))
    {
        let Traffic::Bulk { bytes: Some(bytes) } = flow.traffic else { continue };
        let (Some(took), Ok(least)) =
            (got.completion_time(), ideal.transfer(flow.from, flow.to, bytes))
        else {
            continue;
        };
        if least > Duration::ZERO {
            let times = took.ps() as f64 / least.ps() as f64;
            measured.record(M::Slowdown, (times * THOUSANDTHS).round() as u64);
        }
    }
}

fn measure_pings(
    scenario: &Scenario,
    measured: &mut [Measured],
    outcome: &Outcome,
    window: Option<Window>,
) {
    let groups = scenario.ping_groups();
    let mut unanswered = vec![0u64; measured.len()];
    for ping in &outcome.pings {
        let Some(group) = groups.get(ping.ping as usize).map(|group| *group as usize) else {
            continue;
        };
        match ping.rtt {
            _ if window.is_some_and(|window| !window.holds(ping.sent)) => {}
            Some(rtt) => measured[group].record(M::Rtt, rtt.ns()),
            None => unanswered[group] += 1,
        }
    }
    for (measured, unanswered) in measured.iter_mut().zip(unanswered) {
        measured.record(M::Unanswered, unanswered);
    }
}

fn measure_queues(run: &Run, outcome: &Outcome, window: Option<Window>) -> Vec<Measured> {
    let mut of_queue = HashMap::new();
    let mut all = Vec::new();
    for queue in &outcome.queues {
        let Some(name) = queue_name(&run.network, queue.link, queue.part) else { continue };
        let link = run.network.links.get(queue.link as usize);
        let kind = if link.is_some() { Kind::Queue } else { Kind::Buffer };
        let mut measured = Measured::new(&name, kind, late_from(run));
        measured.record(M::Drops, queue.dropped_pkts());
        if queue.offered_pkts > 0 {
            let share = queue.dropped_pkts() as f64 / queue.offered_pkts as f64;
            measured.record(M::DropShare, (share * MILLIONTHS).round() as u64);
        }
        measured.record(M::Marks, queue.marked_pkts);
        if let Some(pause) = queue.pause {
            let length = whole_run(outcome).ps().max(1);
            let share = pause.paused.ps() as f64 / length as f64;
            measured.record(M::PausedShare, (share * MILLIONTHS).round() as u64);
            measured.record(M::PauseFrames, pause.frames);
        }
        let rate = per_second(queue.sent_bytes, whole_run(outcome));
        if let (Some(sent), Some(full)) = (rate, link.and_then(|link| link.rate)) {
            let share = sent / full.bps() as f64;
            measured.record(M::Utilisation, (share * MILLIONTHS).round() as u64);
        }
        let is_this = |it: &&QueueOutcome| (it.link, it.part) == (queue.link, queue.part);
        let counted = outcome.window.as_ref().and_then(|all| all.queues.iter().find(is_this));
        if let Some((counted, window)) = counted.zip(window) {
            window::measure_queue(&mut measured, counted, link, window);
        }
        of_queue.insert((queue.link, queue.part), all.len());
        all.push(measured);
    }
    // Of each recorded link: the sum of the probabilities sampled, and how many there were.
    let mut probabilities = vec![(0.0, 0u64); all.len()];
    for sample in &outcome.queue_samples {
        let index = of_queue.get(&(sample.link, sample.part)).copied();
        let holds = window.is_none_or(|window| window.holds(sample.at));
        let (Some(index), true) = (index, holds) else { continue };
        // Each kind has one of them.
        all[index].record(M::Queue, u64::from(sample.len_pkts));
        all[index].record(M::Occupancy, sample.len_bytes);
        if let Some(probability) = sample.drop_probability {
            probabilities[index].0 += probability;
            probabilities[index].1 += 1;
        }
    }
    for (measured, (sum, count)) in all.iter_mut().zip(probabilities) {
        if count > 0 {
            measured.record(M::DropProbability, (sum / count as f64 * NANOS).round() as u64);
        }
    }
    all
}

//! What is measured of a run, by the kind of its traffic.

use knee_queue::time::{Duration, PS_PER_S, Time};
use knee_sim::outcome::{FlowOutcome, Outcome, RpcRecord};
use knee_sim::spec::Run;

use crate::scenario::Scenario;
use crate::stats::{Samples, jain};
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
    /// A recorded queue.
    Queue,
}

/// Something measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From `connect()` to the last byte read, of each finished transfer.
    Completion,
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
    /// Packets waiting, at each sample.
    Queue,
    /// Bytes sent in the whole run, as a share of what the rate allows.
    Utilisation,
    /// Packets that a queue dropped in the whole run.
    Drops,
    /// Of all that came, in the whole run, the share that it dropped.
    DropShare,
    /// Packets that it marked in the whole run.
    Marks,
}

const NANOS: f64 = 1e9;
const MILLIONTHS: f64 = 1e6;

impl Metric {
    const ALL: [Metric; 22] = [
        M::Completion,
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
        M::Unfinished,
        M::Latency,
        M::Exchanges,
        M::Rtt,
        M::Unanswered,
        M::Queue,
        M::Utilisation,
        M::Drops,
        M::DropShare,
        M::Marks,
    ];

    /// Name, unit, recorded units in one unit, and whether a run has many values of it.
    const fn about(self) -> (&'static str, &'static str, f64, bool) {
        match self {
            M::Completion => ("completion", "s", NANOS, true),
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
            M::Unfinished => ("unfinished", "", 1.0, false),
            M::Latency => ("latency", "s", NANOS, true),
            M::Exchanges => ("exchanges", "", 1.0, false),
            M::Rtt => ("rtt", "s", NANOS, true),
            M::Unanswered => ("unanswered", "", 1.0, false),
            M::Queue => ("queue", "pkts", 1.0, true),
            M::Utilisation => ("utilisation", "", MILLIONTHS, false),
            M::Drops => ("drops", "pkts", 1.0, false),
            M::DropShare => ("drop_share", "", MILLIONTHS, false),
            M::Marks => ("marks", "pkts", 1.0, false),
        }
    }

    /// As in files and results.
    pub const fn name(self) -> &'static str {
        self.about().0
    }

    /// `s`, `bps`, `pkts`; empty: a count or a share.
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

    pub(crate) fn by_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
        Metric::ALL.into_iter().map(Metric::name)
    }
}

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
                M::Unfinished,
            ],
            Kind::Incast => &[
                M::Completion,
                M::Last,
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
                M::Timeouts,
                M::TailLossProbes,
                M::Retransmits,
                M::Recoveries,
                M::EcnReductions,
                M::PlbRehashes,
                M::CeShare,
            ],
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
                M::Unfinished,
            ],
            Kind::Ping => &[M::Rtt, M::Unanswered],
            Kind::Queue => &[M::Queue, M::Utilisation, M::Drops, M::DropShare, M::Marks],
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
            Kind::Ping => &[M::Rtt, M::Unanswered],
            Kind::Queue => &[M::Queue, M::Utilisation, M::Drops, M::DropShare, M::Marks],
        }
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
}

impl Measured {
    fn new(subject: &str, kind: Kind) -> Measured {
        let values = kind.metrics().iter().map(|metric| (*metric, Samples::default())).collect();
        Measured { subject: subject.to_owned(), kind, values }
    }

    fn record(&mut self, metric: Metric, value: u64) {
        if let Some((_, samples)) = self.values.iter_mut().find(|(m, _)| *m == metric) {
            samples.record(value);
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
    fn holds(self, at: Time) -> bool {
        self.from < at && at <= self.until
    }
}

/// Everything measured of a run.
pub(crate) fn measure(scenario: &Scenario, run: &Run, outcome: &Outcome) -> Vec<Measured> {
    let window = scenario.window(outcome.end);
    let goodput = goodputs(run, outcome, window);
    let groups = scenario.groups();
    let mut measured: Vec<_> =
        groups.iter().map(|(name, kind)| Measured::new(name, *kind)).collect();
    for (group, measured) in (0u32..).zip(&mut measured) {
        let members: Vec<usize> =
            (0..run.flows.len()).filter(|i| run.flows[*i].group == group).collect();
        if measured.kind != Kind::Ping && !members.is_empty() {
            measure_flows(scenario, measured, run, outcome, &members, &goodput);
        }
    }
    for rpc in &outcome.rpcs {
        let holds = window.is_none_or(|window| window.holds(rpc.start + rpc.latency));
        if let (Some(flow), true) = (run.flows.get(rpc.flow as usize), holds) {
            measured[flow.group as usize].record(M::Latency, rpc.latency.ns());
        }
    }
    measure_pings(scenario, &mut measured, outcome, window);
    measured.extend(measure_queues(run, outcome, window));
    measured
}

/// Bits per second that each flow's receiver got: in the window, or from connect to the flow's end.
fn goodputs(run: &Run, outcome: &Outcome, window: Option<Window>) -> Vec<Option<f64>> {
    let flows = outcome.flows.iter().take(run.flows.len());
    let Some(window) = window else {
        return flows
            .map(|flow| {
                let end = flow.done_at.or(flow.stopped_at).unwrap_or(outcome.end);
                per_second(flow.received_bytes, end.since(flow.connected_at?))
            })
            .collect();
    };
    let mut bytes = vec![0; run.flows.len()];
    for sample in outcome.goodput_samples.iter().filter(|sample| window.holds(sample.at)) {
        if let Some(bytes) = bytes.get_mut(sample.flow as usize) {
            *bytes += sample.bytes;
        }
    }
    let length = window.until.since(window.from);
    flows
        .zip(bytes)
        .map(|(flow, bytes)| flow.connected_at.and_then(|_| per_second(bytes, length)))
        .collect()
}

fn per_second(bytes: u64, time: Duration) -> Option<f64> {
    (time > Duration::ZERO).then(|| bytes as f64 * 8.0 * PS_PER_S as f64 / time.ps() as f64)
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
    if measured.kind == Kind::Incast {
        let per_round = (members.len() / scenario.rounds_of(&measured.subject)).max(1);
        for round in members.chunks(per_round) {
            if let Some(time) = last_completion(round, outcome) {
                measured.record(M::Last, time.ns());
            }
        }
    }
    let rates: Vec<f64> = members.iter().filter_map(|i| *goodput.get(*i)?).collect();
    rates.iter().for_each(|rate| measured.record(M::Goodput, rate.round() as u64));
    if !rates.is_empty() {
        measured.record(M::GoodputSum, rates.iter().sum::<f64>().round() as u64);
    }
    if let Some(index) = jain(&rates) {
        measured.record(M::Jain, (index * MILLIONTHS).round() as u64);
    }
    let total = |counter: fn(&FlowOutcome) -> u64| flows.iter().map(|flow| counter(flow)).sum();
    measured.record(M::Timeouts, total(|flow| flow.counters.timeouts));
    measured.record(M::TailLossProbes, total(|flow| flow.counters.tail_loss_probes));
    measured.record(M::Retransmits, total(|flow| flow.counters.retransmitted_segs));
    measured.record(M::Recoveries, total(|flow| flow.counters.fast_recoveries));
    measured.record(M::EcnReductions, total(|flow| flow.counters.cwr_reductions));
    measured.record(M::PlbRehashes, total(|flow| flow.counters.plb_rehashes));
    let delivered: u64 = total(|flow| flow.counters.delivered);
    let delivered_ce: u64 = total(|flow| flow.counters.delivered_ce);
    if delivered > 0 {
        let share = delivered_ce as f64 / delivered as f64;
        measured.record(M::CeShare, (share * MILLIONTHS).round() as u64);
    }
    let unfinished = |i: &&usize| scenario.ends(run, **i) && outcome.flows[**i].done_at.is_none();
    let known = members.iter().filter(|i| **i < outcome.flows.len());
    measured.record(M::Unfinished, known.filter(unfinished).count() as u64);
    if measured.kind == Kind::Rpc {
        let window = scenario.window(outcome.end);
        let groups = &run.flows;
        let counts = |rpc: &&RpcRecord| {
            let flow = groups.get(rpc.flow as usize);
            flow.is_some_and(|flow| flow.group == groups[members[0]].group)
                && window.is_none_or(|window| window.holds(rpc.start + rpc.latency))
        };
        measured.record(M::Exchanges, outcome.rpcs.iter().filter(counts).count() as u64);
    }
}

/// From the first connect to the last byte, if all of them finished.
fn last_completion(round: &[usize], outcome: &Outcome) -> Option<Duration> {
    let flows = round.iter().map(|i| outcome.flows.get(*i));
    let mut first = Time::MAX;
    let mut last = Time::ZERO;
    for flow in flows {
        let flow = flow?;
        first = first.min(flow.connected_at?);
        last = last.max(flow.done_at?);
    }
    Some(last.since(first))
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
    let mut of_link = vec![None; run.network.links.len()];
    let mut all = Vec::new();
    for queue in &outcome.queues {
        let Some(link) = run.network.links.get(queue.link as usize) else { continue };
        let mut measured = Measured::new(&link.name, Kind::Queue);
        measured.record(M::Drops, queue.dropped_pkts());
        if queue.dropped_pkts() > 0 {
            let share = queue.dropped_pkts() as f64 / queue.offered_pkts as f64;
            measured.record(M::DropShare, (share * MILLIONTHS).round() as u64);
        }
        measured.record(M::Marks, queue.marked_pkts);
        let rate = per_second(queue.sent_bytes, outcome.end.since(Time::ZERO));
        if let (Some(sent), Some(full)) = (rate, link.rate) {
            let share = sent / full.bps() as f64;
            measured.record(M::Utilisation, (share * MILLIONTHS).round() as u64);
        }
        of_link[queue.link as usize] = Some(all.len());
        all.push(measured);
    }
    for sample in &outcome.queue_samples {
        let index = of_link.get(sample.link as usize).copied().flatten();
        let holds = window.is_none_or(|window| window.holds(sample.at));
        if let (Some(index), true) = (index, holds) {
            all[index].record(M::Queue, u64::from(sample.len_pkts));
        }
    }
    all
}

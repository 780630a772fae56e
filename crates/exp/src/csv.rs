//! Rows of the result files. Columns end in their unit; what was not measured is empty.

use std::fmt::Write as _;

use knee_algo::Algorithm;
use knee_queue::time::{Duration, PS_PER_NS, PS_PER_S, Time};
use knee_run::outcome::{Outcome, Validity};
use knee_run::spec::{Run, Traffic};

use crate::cases::RunId;
use crate::classes::queue_name;
use crate::experiment::Experiment;
use crate::metric::{Measured, Metric};
use crate::scenario::Scenario;
use crate::stats::Samples;
use knee_run::Ran;

/// A file with a row for each thing of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFile {
    Runs,
    Flows,
    Rpcs,
    Pings,
    Queues,
    Hosts,
    SeriesFlows,
    SeriesQueues,
    SeriesGoodput,
    Measures,
    Validity,
}

impl RowFile {
    pub(crate) const ALL: [RowFile; 11] = [
        RowFile::Runs,
        RowFile::Flows,
        RowFile::Rpcs,
        RowFile::Pings,
        RowFile::Queues,
        RowFile::Hosts,
        RowFile::SeriesFlows,
        RowFile::SeriesQueues,
        RowFile::SeriesGoodput,
        RowFile::Measures,
        RowFile::Validity,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            RowFile::Runs => "runs.csv",
            RowFile::Flows => "flows.csv",
            RowFile::Rpcs => "rpcs.csv",
            RowFile::Pings => "pings.csv",
            RowFile::Queues => "queues.csv",
            RowFile::Hosts => "hosts.csv",
            RowFile::SeriesFlows => "series-flows.csv",
            RowFile::SeriesQueues => "series-queues.csv",
            RowFile::SeriesGoodput => "series-goodput.csv",
            RowFile::Measures => "measures.csv",
            RowFile::Validity => "validity.csv",
        }
    }

    /// Whether each row repeats the case and the varied values, or names the run alone.
    const fn has_labels(self) -> bool {
        matches!(
            self,
            RowFile::Runs
                | RowFile::Flows
                | RowFile::Rpcs
                | RowFile::Pings
                | RowFile::Queues
                | RowFile::Hosts
        )
    }

    const fn columns(self) -> &'static str {
        match self {
            RowFile::Runs => "seed,end_s,events,data_pkts,pkt_hops,verdict,limits",
            RowFile::Flows => {
                "flow,traffic,from,to,size_bytes,algorithm,algorithm_at_end,ecn,start_s,connected_at_s,\
                 established_at_s,done_at_s,stopped_at_s,completion_s,received_bytes,timeouts,\
                 syn_timeouts,retransmitted_segs,tail_loss_probes,fast_recoveries,undos,\
                 spurious_timeouts,cwr_reductions,timeout_rehashes,duplicate_rehashes,plb_rehashes,\
                 data_segs_sent,acks_sent,ce_segs_received,delivered_pkts,delivered_ce_pkts,srtt_s,min_rtt_s,cwnd_pkts,\
                 inits_left_out"
            }
            RowFile::Rpcs => "flow,traffic,start_s,latency_s",
            RowFile::Pings => "ping,traffic,sent_s,rtt_s",
            RowFile::Queues => {
                "link,offered_pkts,sent_pkts,sent_bytes,marked_pkts,threshold_hits,\
                 dropped_full_pkts,dropped_not_ect_pkts,dropped_early_pkts,lost_pkts"
            }
            RowFile::Hosts => "host,wire_pkts,merged_pkts,interrupts,cpu_s",
            RowFile::SeriesFlows => {
                "at_s,flow,traffic,ca_state,cwnd_pkts,ssthresh_pkts,srtt_us,rttvar_us,min_rtt_us,\
                 unacked_pkts,sacked_pkts,lost_pkts,retrans_out_pkts,total_retrans,delivered_pkts,\
                 delivered_ce_pkts,bytes_acked,pacing_rate_bytes_per_sec,rto_us,\
                 data_segs_out,fast_recoveries"
            }
            RowFile::SeriesQueues => {
                "at_s,link,len_pkts,len_bytes,dropped_pkts,threshold_hits,drop_probability,qdelay_s"
            }
            RowFile::SeriesGoodput => "at_s,flow,traffic,bytes",
            RowFile::Measures => "subject,metric,unit,values,mean,late,late_mean",
            RowFile::Validity => "measure,value",
        }
    }

    /// The first line of the file.
    pub(crate) fn header(self, experiment: &Experiment) -> String {
        let mut line = String::from("run");
        if self.has_labels() {
            line.push_str(",case");
            for axis in &experiment.axes {
                line.push(',');
                line.push_str(&quoted(&axis.path));
            }
            line.push_str(",repeat");
        }
        line.push(',');
        line.push_str(self.columns());
        if self == RowFile::Queues && experiment.has_flow_control {
            line.push_str(",pause_frames,paused_s");
        }
        if self == RowFile::SeriesFlows {
            for (name, unit) in diagnostics(experiment) {
                let unit = if unit.is_empty() { String::new() } else { format!("_{unit}") };
                let name = format!("{name}{unit}");
                let is_taken = line.split(',').any(|column| column == name);
                let _ = write!(line, ",{}{name}", if is_taken { "inside_" } else { "" });
            }
        }
        line.push('\n');
        line
    }
}

/// Diagnostic values of the algorithms in use, each name once.
fn diagnostics(experiment: &Experiment) -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for diag in experiment.algorithms.iter().flat_map(|algorithm| algorithm.diag()) {
        if !all.iter().any(|(name, _)| *name == diag.name) {
            all.push((diag.name, diag.unit));
        }
    }
    all
}

/// A cell, in quotes if it must be.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn seconds(ps: u64) -> String {
    format!("{}.{:09}", ps / PS_PER_S, ps % PS_PER_S / PS_PER_NS)
}

fn moment(time: Time) -> String {
    seconds(time.ps())
}

fn maybe_moment(time: Option<Time>) -> String {
    time.map_or_else(String::new, moment)
}

fn maybe_span(span: Option<Duration>) -> String {
    span.map_or_else(String::new, |span| seconds(span.ps()))
}

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Rounded to twelve significant digits, so that a part can be taken off a whole.
fn precise(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// The rows of one run, by file.
pub(crate) type Rows = [String; RowFile::ALL.len()];

/// A run that is done.
pub(crate) struct Done<'a> {
    pub(crate) ran: &'a Ran,
    /// How often it was tried.
    pub(crate) attempts: u32,
    pub(crate) measured: &'a [Measured],
}

/// Everything that a run leaves in the result files.
pub(crate) fn rows(
    experiment: &Experiment,
    scenario: &Scenario,
    id: RunId,
    run: &Run,
    done: &Done<'_>,
) -> Rows {
    let configuration = &experiment.configurations[id.configuration];
    let mut label = format!("{},{}", id.index, quoted(experiment.case_name(configuration)));
    for value in experiment.point_labels(configuration) {
        label.push(',');
        label.push_str(&quoted(&value));
    }
    let _ = write!(label, ",{}", id.repeat);
    let outcome = &done.ran.outcome;
    let tells_pauses = experiment.has_flow_control;
    let writer = Writer { scenario, run, outcome, done, label, index: id.index, tells_pauses };
    RowFile::ALL.map(|file| match file {
        RowFile::Runs => writer.run_row(id),
        RowFile::Flows => writer.flows(),
        RowFile::Rpcs => writer.rpcs(),
        RowFile::Pings => writer.pings(),
        RowFile::Queues => writer.queues(),
        RowFile::Hosts => writer.hosts(),
        RowFile::SeriesFlows => writer.series_flows(&diagnostics(experiment)),
        RowFile::SeriesQueues => writer.series_queues(),
        RowFile::SeriesGoodput => writer.series_goodput(),
        RowFile::Measures => writer.measures(),
        RowFile::Validity => writer.validity(),
    })
}

struct Writer<'a> {
    scenario: &'a Scenario,
    run: &'a Run,
    outcome: &'a Outcome,
    done: &'a Done<'a>,
    label: String,
    index: usize,
    tells_pauses: bool,
}

/// Writes a line; writing to a `String` cannot fail.
macro_rules! row {
    ($out:expr, $($arg:tt)*) => {{
        let _ = writeln!($out, $($arg)*);
    }};
}

impl Writer<'_> {
    /// The traffic entry of a flow.
    fn traffic(&self, groups: &[(String, crate::metric::Kind)], flow: u32) -> String {
        let group = self.run.flows.get(flow as usize).map(|flow| flow.group as usize);
        group.and_then(|group| groups.get(group)).map_or_else(String::new, |(name, _)| name.clone())
    }

    fn run_row(&self, id: RunId) -> String {
        let validity = self.done.ran.validity.as_ref();
        // What the simulator did; a host does other work.
        let work = validity.is_none().then_some(&self.outcome.work);
        format!(
            "{},{},{},{},{},{},{},{}\n",
            self.label,
            id.seed,
            moment(self.outcome.end),
            maybe(work.map(|work| work.events)),
            maybe(work.map(|work| work.data_pkts)),
            maybe(work.map(|work| work.pkt_hops)),
            validity.map_or("", Validity::name),
            quoted(&validity.map_or_else(String::new, |validity| validity.limits.join("; "))),
        )
    }

    fn flows(&self) -> String {
        let groups = self.scenario.groups();
        let mut out = String::new();
        for (i, (flow, got)) in self.run.flows.iter().zip(&self.outcome.flows).enumerate() {
            let size = match flow.traffic {
                Traffic::Bulk { bytes } => maybe(bytes),
                Traffic::Rpc { request_bytes, response_bytes, .. } => {
                    format!("{request_bytes}/{response_bytes}")
                }
            };
            let c = &got.counters;
            row!(
                out,
                "{},{i},{},{},{},{size},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\
                 {},{},{},{},{},{},{},{},{}",
                self.label,
                groups[flow.group as usize].0,
                self.scenario.host_name(flow.from),
                self.scenario.host_name(flow.to),
                flow.cc.name(),
                got.algorithm,
                u8::from(got.ecn),
                moment(flow.start),
                maybe_moment(got.connected_at),
                maybe_moment(got.established_at),
                maybe_moment(got.done_at),
                maybe_moment(got.stopped_at),
                maybe_span(got.completion_time()),
                got.received_bytes,
                maybe(c.timeouts),
                maybe(c.syn_timeouts),
                maybe(c.retransmitted_segs),
                maybe(c.tail_loss_probes),
                maybe(c.fast_recoveries),
                maybe(c.undos),
                maybe(c.spurious_timeouts),
                maybe(c.cwr_reductions),
                maybe(c.timeout_rehashes),
                maybe(c.duplicate_rehashes),
                maybe(c.plb_rehashes),
                maybe(c.data_segs_sent),
                maybe(c.acks_sent),
                maybe(c.ce_segs_received),
                maybe(c.delivered),
                maybe(c.delivered_ce),
                maybe_span(got.srtt),
                maybe_span(got.min_rtt),
                got.cwnd_pkts,
                maybe(got.inits_left_out),
            );
        }
        out
    }

    fn rpcs(&self) -> String {
        let groups = self.scenario.groups();
        let mut out = String::new();
        for rpc in &self.outcome.rpcs {
            row!(
                out,
                "{},{},{},{},{}",
                self.label,
                rpc.flow,
                self.traffic(&groups, rpc.flow),
                moment(rpc.start),
                seconds(rpc.latency.ps())
            );
        }
        out
    }

    fn pings(&self) -> String {
        let groups = self.scenario.groups();
        let streams = self.scenario.ping_groups();
        let mut out = String::new();
        for ping in &self.outcome.pings {
            let group = streams.get(ping.ping as usize).map(|group| *group as usize);
            let name = group.and_then(|group| groups.get(group)).map_or("", |(name, _)| name);
            let (sent, rtt) = (moment(ping.sent), maybe_span(ping.rtt));
            row!(out, "{},{},{name},{sent},{rtt}", self.label, ping.ping);
        }
        out
    }

    fn queue_name(&self, link: u32, part: Option<u32>) -> String {
        queue_name(&self.run.network, link, part).unwrap_or_default()
    }

    fn queues(&self) -> String {
        let mut out = String::new();
        for queue in &self.outcome.queues {
            let _ = write!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{}",
                self.label,
                self.queue_name(queue.link, queue.part),
                queue.offered_pkts,
                queue.sent_pkts,
                queue.sent_bytes,
                queue.marked_pkts,
                queue.threshold_hits,
                queue.dropped_full_pkts,
                queue.dropped_not_ect_pkts,
                queue.dropped_early_pkts,
                queue.lost_pkts
            );
            if self.tells_pauses {
                let paused = maybe_span(queue.pause.map(|pause| pause.paused));
                let _ = write!(out, ",{},{paused}", maybe(queue.pause.map(|pause| pause.frames)));
            }
            out.push('\n');
        }
        out
    }

    fn hosts(&self) -> String {
        let mut out = String::new();
        for host in &self.outcome.host_counts {
            let got = &host.received;
            let cpu = got.cpu_ns.map(|ns| Duration::from_ps(ns.saturating_mul(PS_PER_NS)));
            row!(
                out,
                "{},{},{},{},{},{}",
                self.label,
                self.scenario.host_name(host.node),
                maybe(got.wire_pkts),
                maybe(got.merged_pkts),
                maybe(got.interrupts),
                maybe_span(cpu)
            );
        }
        out
    }

    fn series_flows(&self, diagnostics: &[(&str, &str)]) -> String {
        let groups = self.scenario.groups();
        let mut out = String::new();
        for s in &self.outcome.flow_samples {
            let pacing = s.pacing_rate_bytes_per_sec;
            let _ = write!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                self.index,
                moment(s.at),
                s.flow,
                self.traffic(&groups, s.flow),
                s.ca_state,
                s.cwnd,
                s.ssthresh,
                s.srtt_us,
                s.rttvar_us,
                s.min_rtt_us,
                s.unacked,
                s.sacked,
                s.lost,
                s.retrans_out,
                s.total_retrans,
                s.delivered,
                s.delivered_ce,
                s.bytes_acked,
                maybe((pacing != u64::MAX).then_some(pacing)),
                s.rto_us,
                maybe(s.data_segs_out),
                maybe(s.fast_recoveries)
            );
            let algorithm: Option<&Algorithm> =
                self.run.flows.get(s.flow as usize).map(|flow| flow.cc.algorithm);
            for (name, _) in diagnostics {
                let at = algorithm.filter(|algorithm| algorithm.diag().len() == s.diag.len());
                let at = at.and_then(|a| a.diag().iter().position(|diag| diag.name == *name));
                // All ones, of a field or of its view: not known.
                let is_known = |value: &u64| *value != u64::MAX && *value != u64::from(u32::MAX);
                let _ = write!(out, ",{}", maybe(at.map(|at| s.diag[at]).filter(is_known)));
            }
            out.push('\n');
        }
        out
    }

    fn series_queues(&self) -> String {
        let mut out = String::new();
        for s in &self.outcome.queue_samples {
            row!(
                out,
                "{},{},{},{},{},{},{},{},{}",
                self.index,
                moment(s.at),
                self.queue_name(s.link, s.part),
                s.len_pkts,
                s.len_bytes,
                s.dropped_pkts,
                s.threshold_hits,
                maybe(s.drop_probability),
                maybe_span(s.qdelay)
            );
        }
        out
    }

    fn series_goodput(&self) -> String {
        let groups = self.scenario.groups();
        let mut out = String::new();
        for s in &self.outcome.goodput_samples {
            let name = self.traffic(&groups, s.flow);
            row!(out, "{},{},{},{name},{}", self.index, moment(s.at), s.flow, s.bytes);
        }
        out
    }

    fn measures(&self) -> String {
        let mut out = String::new();
        for measured in self.done.measured {
            let late = |metric: Metric| measured.late.iter().find(|(m, _)| *m == metric);
            for (metric, samples) in &measured.values {
                let scaled =
                    |samples: &Samples| maybe(samples.mean().map(|x| precise(x / metric.scale())));
                if samples.count() == 0 {
                    continue;
                }
                let late = late(*metric).map(|(_, late)| late);
                row!(
                    out,
                    "{},{},{},{},{},{},{},{}",
                    self.index,
                    quoted(&measured.subject),
                    metric.name(),
                    metric.unit(),
                    samples.count(),
                    scaled(samples),
                    maybe(late.map(Samples::count)),
                    late.map_or_else(String::new, scaled),
                );
            }
        }
        out
    }

    fn validity(&self) -> String {
        let mut out = String::new();
        if let Some(validity) = &self.done.ran.validity {
            row!(out, "{},attempts,{}", self.index, self.done.attempts);
            for (measure, value) in &validity.measures {
                row!(out, "{},{},{value}", self.index, quoted(measure));
            }
        }
        out
    }
}

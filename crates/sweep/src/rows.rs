//! Makes the rows of the result files.

use std::collections::HashMap;
use std::io;

use knee_algo::Algorithm;
use knee_queue::time::{Duration, PS_PER_NS, Time};
use knee_results::{Cell, Column, Csv, ResultFile, Schema, Sink, Sinks, Sketched, Type, rows};
use knee_run::Capacity;
use knee_run::outcome::{Outcome, PingRecord, QueueOutcome, Validity};
use knee_run::spec::{Run, Traffic};
use knee_scenario::cases::{Configuration, RunId};
use knee_scenario::classes::queue_name;
use knee_scenario::experiment::Experiment;
use knee_scenario::inside::{diagnostics, inside_columns, is_same};
use knee_scenario::metric::{Kind, Measured};
use knee_scenario::output::Chosen;
use knee_scenario::published::Stat;
use knee_scenario::scenario::Scenario;
use knee_scenario::stats::{Samples, rounded};

use crate::done::Done;
use crate::measure::{sent_bits, utilisation, window_of};

/// Rows between two checks of memory.
const BETWEEN_CHECKS: u64 = 1024;
/// Names of the kernel's log levels.
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Returns the columns of a table, with those of varied keys and of the insides of algorithms.
pub fn schema(file: ResultFile, experiment: &Experiment) -> Schema {
    let axes = experiment.columns.iter().map(|column| {
        let kind = column.numbers.as_ref().map_or(Type::Word, |_| Type::Number);
        Column::new(column.name.clone(), kind)
    });
    let mut schema = file.schema(axes);
    match file {
        ResultFile::Queue => {
            schema.columns.truncate(schema.columns.len() - unreported_columns(experiment).len());
        }
        ResultFile::FlowSample => {
            let varied = experiment.columns.iter().map(|column| column.name.as_str());
            let inside = diagnostics(&experiment.algorithms);
            let names = inside_columns(&inside, varied);
            schema.columns.extend(names.into_iter().zip(inside).map(|(name, diag)| {
                let kind = if diag.is_signed { Type::Whole } else { Type::Unsigned };
                Column::new(name, kind)
            }));
        }
        _ => {}
    }
    schema
}

/// Returns columns that `queues.csv` omits at the end because no link has flow control.
fn unreported_columns(experiment: &Experiment) -> &'static [&'static str] {
    let columns = ResultFile::Queue.columns();
    let pause = columns.iter().position(|name| *name == rows::Queue::pause_frames);
    let told = pause.filter(|_| !experiment.has_flow_control).unwrap_or(columns.len());
    &columns[told..]
}

/// An algorithm's 32-bit view value that means "none yet".
const ALL_ONES_OF_32: u64 = u32::MAX as u64;

fn moment(time: Time) -> Cell<'static> {
    Cell::Seconds(time.ps())
}

fn span(time: Duration) -> Cell<'static> {
    Cell::Seconds(time.ps())
}

/// Rounds to twelve significant digits, so that a part can be subtracted from a whole.
pub(crate) fn precise(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Rows of one run as CSV, by file.
pub(crate) type Rows = Vec<(ResultFile, String)>;

/// Sinks of [`Rows`].
#[derive(Default)]
pub(crate) struct TextSinks(Vec<(ResultFile, Csv<Vec<u8>>)>);

impl Sinks for TextSinks {
    fn of(&mut self, file: ResultFile) -> io::Result<&mut dyn Sink> {
        let known = self.0.iter().position(|(of, _)| *of == file);
        let at = known.unwrap_or_else(|| {
            self.0.push((file, Csv::new(Vec::new())));
            self.0.len() - 1
        });
        Ok(&mut self.0[at].1)
    }
}

impl TextSinks {
    /// Returns what was written, without first lines.
    pub(crate) fn rows(self) -> io::Result<Rows> {
        let text =
            |csv: Csv<Vec<u8>>| String::from_utf8(csv.into_inner()).map_err(io::Error::other);
        self.0.into_iter().map(|(file, csv)| Ok((file, text(csv)?))).collect()
    }
}

/// Returns the label of a run's rows: its number, case, varied values and repeat.
pub(crate) fn label(experiment: &Experiment, id: RunId) -> Vec<Cell<'_>> {
    let configuration = &experiment.row(id.configuration);
    let mut label = vec![id.index.into()];
    label.extend(point(experiment, configuration));
    label.push(id.repeat.into());
    label
}

/// Returns rows with another label. A row begins behind a line end that is not in quotes.
pub(crate) fn relabelled(rows: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(rows.len());
    let (mut is_quoted, mut start) = (false, 0);
    for (at, byte) in rows.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => {
                let row = &rows[start..=at];
                out.push_str(to);
                out.push_str(row.strip_prefix(from).unwrap_or(row));
                start = at + 1;
            }
            _ => {}
        }
    }
    out
}

/// Writes all rows of a run, with what [`Done::measure`] gave. [`schema`] has the columns of each table.
///
/// # Errors
/// Those of the sinks.
pub fn write_rows(
    experiment: &Experiment,
    done: &Done,
    measured: &[Measured],
    to: &mut dyn Sinks,
) -> io::Result<()> {
    let (id, run, scenario) = (done.id, &done.run, &*done.scenario);
    let writer = Writer {
        experiment,
        scenario,
        groups: scenario.groups(),
        run,
        outcome: &done.ran.outcome,
        done,
        measured,
        label: label(experiment, id),
        chosen: scenario.output.rows(run),
        series: scenario.output.series(run),
    };
    ResultFile::ALL.into_iter().try_for_each(|file| match file {
        ResultFile::Run => writer.run_row(id, to),
        ResultFile::Flow => writer.flows(to),
        ResultFile::Rpc => writer.rpcs(to),
        ResultFile::Ping => writer.pings(to),
        ResultFile::Queue => writer.queues(to),
        ResultFile::Host => writer.hosts(to),
        ResultFile::ModuleCount => writer.module_counts(to),
        ResultFile::ModuleLine => writer.module_lines(to),
        ResultFile::FlowSample => writer.flow_samples(to),
        ResultFile::QueueSample => writer.queue_samples(to),
        ResultFile::GoodputSample => writer.goodput_samples(to),
        ResultFile::LinkSample => writer.link_samples(to),
        ResultFile::Measure => writer.measures(to),
        ResultFile::RunPercentile => writer.percentiles(to),
        ResultFile::Warning => writer.warnings(to),
        ResultFile::Validity => writer.validity(to),
        ResultFile::Sketch => writer.sketches(to),
        // These cover all runs together.
        ResultFile::Summary | ResultFile::Percentile | ResultFile::Distribution => Ok(()),
    })
}

/// Returns case and varied values, a row's labels.
pub(crate) fn point<'a>(
    experiment: &'a Experiment,
    configuration: &Configuration,
) -> Vec<Cell<'a>> {
    let case = Cell::from(experiment.case_name(configuration));
    [case].into_iter().chain(experiment.point_cells(configuration)).collect()
}

struct Writer<'a> {
    experiment: &'a Experiment,
    scenario: &'a Scenario,
    groups: Vec<(String, Kind)>,
    run: &'a Run,
    outcome: &'a Outcome,
    done: &'a Done,
    measured: &'a [Measured],
    /// Labels of a row: the run with its case, varied values and repeat; of some tables the run alone.
    label: Vec<Cell<'a>>,
    /// Connections with a row, and those with a series.
    chosen: Chosen,
    series: Chosen,
}

impl Writer<'_> {
    /// Writes rows of a table. Leaves out the rest once the run takes too much memory: then nobody reads them.
    fn table<'c, R: IntoIterator<Item = Cell<'c>>>(
        &self,
        file: ResultFile,
        to: &mut dyn Sinks,
        rows: impl Iterator<Item = R>,
    ) -> io::Result<()> {
        let mut rows = rows.zip(0u64..).peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let sink = to.of(file)?;
        sink.label(if file.has_case() { &self.label } else { &self.label[..1] })?;
        let mut cells = Vec::new();
        for (row, number) in rows {
            if number % BETWEEN_CHECKS == 0 && !self.done.budget.check(0) {
                break;
            }
            cells.clear();
            cells.extend(row);
            sink.row(&cells)?;
        }
        Ok(())
    }

    /// Returns the traffic entry of a flow.
    fn traffic(&self, flow: u32) -> Cell<'_> {
        let group = self.run.flows.get(flow as usize).map(|flow| flow.group);
        self.group(group).into()
    }

    fn group(&self, group: Option<u32>) -> Option<&str> {
        Some(&self.groups.get(group? as usize)?.0)
    }

    fn run_row(&self, id: RunId, to: &mut dyn Sinks) -> io::Result<()> {
        let validity = self.done.ran.validity.as_ref();
        // Only the simulator counts work. Only hosts report validity.
        let work = validity.is_none().then_some(&self.outcome.work);
        let window = window_of(self.run, self.outcome);
        let row = rows::Run {
            seed: id.seed.into(),
            end_s: moment(self.outcome.end),
            measured_from_s: window.map(|window| moment(window.from)).into(),
            measured_until_s: window.map(|window| moment(window.until.max(window.from))).into(),
            events: work.map(|work| work.events).into(),
            data_pkts: work.map(|work| work.data_pkts).into(),
            pkt_hops: work.map(|work| work.pkt_hops).into(),
            verdict: validity.map(Validity::name).into(),
            limits: validity.map(|validity| validity.limits.join("; ")).into(),
        };
        self.table(ResultFile::Run, to, [row.cells()].into_iter())
    }

    fn flows(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let flows = (0u32..).zip(self.run.flows.iter().zip(&self.outcome.flows));
        let rows = flows.filter(|(i, _)| self.chosen.holds(*i)).map(|(i, (flow, got))| {
            let c = &got.counters;
            let row = rows::Flow {
                flow: i.into(),
                traffic: self.group(Some(flow.group)).into(),
                from: self.scenario.host_name(flow.from).into(),
                to: self.scenario.host_name(flow.to).into(),
                size_bytes: match flow.traffic {
                    Traffic::Bulk { bytes } => bytes.map(|bytes| bytes.to_string()).into(),
                    Traffic::Rpc { request_bytes, response_bytes, .. } => {
                        format!("{request_bytes}/{response_bytes}").into()
                    }
                },
                algorithm: flow.cc.name().into(),
                algorithm_at_end: got.algorithm.into(),
                ecn: got.ecn.into(),
                start_s: moment(flow.start),
                connected_at_s: got.connected_at.map(moment).into(),
                established_at_s: got.established_at.map(moment).into(),
                done_at_s: got.done_at.map(moment).into(),
                stopped_at_s: got.stopped_at.map(moment).into(),
                completion_s: got.completion_time().map(span).into(),
                received_bytes: got.received_bytes.into(),
                timeouts: c.timeouts.into(),
                syn_timeouts: c.syn_timeouts.into(),
                retransmitted_segs: c.retransmitted_segs.into(),
                tail_loss_probes: c.tail_loss_probes.into(),
                fast_recoveries: c.fast_recoveries.into(),
                undos: c.undos.into(),
                spurious_timeouts: c.spurious_timeouts.into(),
                reorderings: c.reorderings.into(),
                dsack_segs: c.dsack_segs.into(),
                cwr_reductions: c.cwr_reductions.into(),
                timeout_rehashes: c.timeout_rehashes.into(),
                duplicate_rehashes: c.duplicate_rehashes.into(),
                plb_rehashes: c.plb_rehashes.into(),
                data_segs_sent: c.data_segs_sent.into(),
                acks_sent: c.acks_sent.into(),
                ce_segs_received: c.ce_segs_received.into(),
                delivered_pkts: c.delivered.into(),
                delivered_ce_pkts: c.delivered_ce.into(),
                srtt_s: got.srtt.map(span).into(),
                min_rtt_s: got.min_rtt.map(span).into(),
                cwnd_pkts: got.cwnd_pkts.into(),
                inits_left_out: got.inits_left_out.into(),
            };
            row.cells()
        });
        self.table(ResultFile::Flow, to, rows)
    }

    fn warnings(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let flows = (0u32..).zip(&self.outcome.flows);
        let all = flows.flat_map(|(i, flow)| flow.warnings.iter().map(move |found| (i, found)));
        let rows = all.map(|(flow, found)| rows::Warning {
            flow: flow.into(),
            traffic: self.traffic(flow),
            warning: found.oddity.name().into(),
            count: found.count.into(),
            first_at_s: Cell::Seconds(found.first_at_ns.saturating_mul(PS_PER_NS)),
            value: found.value.into(),
            operation: found.operation.into(),
            line: found.line.clone().into(),
        });
        self.table(ResultFile::Warning, to, rows.map(rows::Warning::cells))
    }

    fn rpcs(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows = self.outcome.rpcs.iter().filter(|rpc| self.chosen.holds(rpc.flow)).map(|rpc| {
            rows::Rpc {
                flow: rpc.flow.into(),
                traffic: self.traffic(rpc.flow),
                start_s: moment(rpc.start),
                latency_s: span(rpc.latency),
            }
        });
        self.table(ResultFile::Rpc, to, rows.map(rows::Rpc::cells))
    }

    fn pings(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let streams = self.scenario.ping_groups();
        let is_echoed = |ping: &&PingRecord| {
            self.run.pings.get(ping.ping as usize).is_none_or(|of| of.one_way_until.is_none())
        };
        let rows = self.outcome.pings.iter().filter(is_echoed).map(|ping| rows::Ping {
            ping: ping.ping.into(),
            traffic: self.group(streams.get(ping.ping as usize).copied()).into(),
            sent_s: moment(ping.sent),
            rtt_s: ping.rtt.map(span).into(),
        });
        self.table(ResultFile::Ping, to, rows.map(rows::Ping::cells))
    }

    fn queue_name(&self, link: u32, part: Option<u32>) -> Cell<'static> {
        queue_name(&self.run.network, link, part).into()
    }

    fn queues(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let told = ResultFile::Queue.columns().len() - unreported_columns(self.experiment).len();
        let rows = self.outcome.queues.iter().map(|queue| {
            let row = rows::Queue {
                link: self.queue_name(queue.link, queue.part),
                offered_pkts: queue.offered_pkts.into(),
                sent_pkts: queue.sent_pkts.into(),
                sent_bytes: queue.sent_bytes.into(),
                marked_pkts: queue.marked_pkts.into(),
                threshold_hits: queue
                    .threshold_hits
                    .filter(|_| !self.done.has_idle_thresholds)
                    .into(),
                dropped_full_pkts: queue.dropped_full_pkts.into(),
                dropped_not_ect_pkts: queue.dropped_not_ect_pkts.into(),
                dropped_early_pkts: queue.dropped_early_pkts.into(),
                lost_pkts: queue.lost_pkts.into(),
                pause_frames: queue.pause.map(|pause| pause.frames).into(),
                paused_s: queue.pause.map(|pause| span(pause.paused)).into(),
            };
            row.cells().into_iter().take(told)
        });
        self.table(ResultFile::Queue, to, rows)
    }

    fn hosts(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows = self.outcome.host_counts.iter().map(|host| rows::Host {
            host: self.scenario.host_name(host.node).into(),
            wire_pkts: host.received.wire_pkts.into(),
            merged_pkts: host.received.merged_pkts.into(),
            interrupts: host.received.interrupts.into(),
            cpu_s: host
                .received
                .cpu_ns
                .map(|ns| Cell::Seconds(ns.saturating_mul(PS_PER_NS)))
                .into(),
        });
        self.table(ResultFile::Host, to, rows.map(rows::Host::cells))
    }

    fn module_counts(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows = self.outcome.module_counts.iter().map(|counted| rows::ModuleCount {
            host: self.scenario.host_name(counted.node).into(),
            counter: counted.name.into(),
            count: counted.count.into(),
        });
        self.table(ResultFile::ModuleCount, to, rows.map(rows::ModuleCount::cells))
    }

    fn module_lines(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows = self.outcome.module_lines.iter().map(|line| rows::ModuleLine {
            at_s: moment(line.at),
            host: self.scenario.host_name(line.node).into(),
            flow: line.flow.into(),
            level: LEVELS[usize::from(line.level.min(7))].into(),
            module: line.module.as_str().into(),
            text: line.text.as_str().into(),
        });
        self.table(ResultFile::ModuleLine, to, rows.map(rows::ModuleLine::cells))
    }

    fn flow_samples(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let diagnostics = diagnostics(&self.experiment.algorithms);
        let rows = self.outcome.flow_samples.iter().map(|s| {
            let pacing = s.pacing_rate_bytes_per_sec;
            let row = rows::FlowSample {
                at_s: moment(s.at),
                flow: s.flow.into(),
                traffic: self.traffic(s.flow),
                ca_state: s.ca_state.into(),
                cwnd_pkts: s.cwnd.into(),
                ssthresh_pkts: s.ssthresh.into(),
                srtt_us: s.srtt_us.into(),
                rttvar_us: s.rttvar_us.into(),
                min_rtt_us: s.min_rtt_us.into(),
                unacked_pkts: s.unacked.into(),
                sacked_pkts: s.sacked.into(),
                lost_pkts: s.lost.into(),
                retrans_out_pkts: s.retrans_out.into(),
                total_retrans: s.total_retrans.into(),
                delivered_pkts: s.delivered.into(),
                delivered_ce_pkts: s.delivered_ce.into(),
                bytes_acked: s.bytes_acked.into(),
                pacing_rate_bytes_per_sec: (pacing != u64::MAX).then_some(pacing).into(),
                rto_us: s.rto_us.into(),
                data_segs_out: s.data_segs_out.into(),
                fast_recoveries: s.fast_recoveries.into(),
            };
            let algorithm: Option<&Algorithm> =
                self.run.flows.get(s.flow as usize).map(|flow| flow.cc.algorithm);
            let inside = diagnostics.iter().map(move |wanted| {
                let its = algorithm.filter(|algorithm| algorithm.diag().len() == s.diag.len());
                let mut its = its.into_iter().flat_map(|its| its.diag()).zip(&s.diag);
                match its.find(|(diag, _)| is_same(diag, wanted)) {
                    Some((diag, value)) if diag.is_signed => (*value as i64).into(),
                    // A value of all ones, in a field or its view, means unknown.
                    Some((_, &(u64::MAX | ALL_ONES_OF_32))) | None => Cell::Empty,
                    Some((_, value)) => Cell::from(*value),
                }
            });
            row.cells().into_iter().chain(inside)
        });
        self.table(ResultFile::FlowSample, to, rows)
    }

    fn queue_samples(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows = self.outcome.queue_samples.iter().map(|s| rows::QueueSample {
            at_s: moment(s.at),
            link: self.queue_name(s.link, s.part),
            len_pkts: s.len_pkts.into(),
            len_bytes: s.len_bytes.into(),
            dropped_pkts: s.dropped_pkts.into(),
            threshold_hits: s.threshold_hits.filter(|_| !self.done.has_idle_thresholds).into(),
            drop_probability: s.drop_probability.into(),
            qdelay_s: s.qdelay.map(span).into(),
        });
        self.table(ResultFile::QueueSample, to, rows.map(rows::QueueSample::cells))
    }

    fn goodput_samples(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let rows =
            self.outcome.goodput_samples.iter().filter(|s| self.series.holds(s.flow)).map(|s| {
                rows::GoodputSample {
                    at_s: moment(s.at),
                    flow: s.flow.into(),
                    traffic: self.traffic(s.flow),
                    bytes: s.bytes.into(),
                }
            });
        self.table(ResultFile::GoodputSample, to, rows.map(rows::GoodputSample::cells))
    }

    fn link_samples(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let network = &self.run.network;
        let period_ps = self.run.sampling.links.map_or(0, Duration::ps).max(1);
        let mut capacities: HashMap<u32, Option<Capacity>> = HashMap::new();
        let rows = self.outcome.link_samples.iter().map(|s| {
            // The end of the run may cut the last period.
            let length_ps = match s.at.ps() % period_ps {
                0 => period_ps,
                cut => cut,
            };
            let sent = QueueOutcome {
                link: s.link,
                sent_pkts: s.sent_pkts,
                sent_bytes: s.sent_bytes,
                ..QueueOutcome::default()
            };
            let capacity = capacities.entry(s.link).or_insert_with(|| network.capacity(s.link));
            let share = capacity.as_mut().and_then(|capacity| {
                // Periods without rows are those in which it sent nothing.
                capacity.advance(Time::from_ps(s.at.ps().saturating_sub(length_ps)), 0.0);
                utilisation(capacity, s.at, sent_bits(&sent, self.run))
            });
            rows::LinkSample {
                at_s: moment(s.at),
                link: network.links.get(s.link as usize).map(|link| network.link_name(link)).into(),
                sent_pkts: s.sent_pkts.into(),
                sent_bytes: s.sent_bytes.into(),
                marked_pkts: s.marked_pkts.into(),
                dropped_pkts: s.dropped_pkts.into(),
                utilisation: share.map(rounded).into(),
            }
        });
        self.table(ResultFile::LinkSample, to, rows.map(rows::LinkSample::cells))
    }

    fn measures(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let there = self.measured.iter().flat_map(|measured| {
            let values =
                measured.values.iter().map(move |(metric, values)| (measured, metric, values));
            values.filter(|(.., samples)| samples.count() + samples.count_cut_off() > 0)
        });
        let rows = there.map(|(measured, metric, samples)| {
            let mean = |samples: &Samples| Some(precise(samples.mean()? / metric.scale()));
            let late = measured.late.iter().find(|(of, _)| of == metric).map(|(_, late)| late);
            let least_mean = samples.least_mean().filter(|_| samples.cut_off().is_some());
            let least_mean = least_mean.map(|mean| precise(mean / metric.scale()));
            rows::Measure {
                subject: measured.subject.as_str().into(),
                metric: metric.name().into(),
                unit: metric.unit().into(),
                values: samples.count().into(),
                mean: mean(samples).into(),
                late: late.map(|late| late.count() + late.count_cut_off()).into(),
                // Of what was cut off any may be late.
                late_mean: late.filter(|_| samples.cut_off().is_none()).and_then(mean).into(),
                cut_off: metric.may_be_cut_off().then(|| samples.count_cut_off()).into(),
                mean_at_least: least_mean.into(),
            }
        });
        self.table(ResultFile::Measure, to, rows.map(rows::Measure::cells))
    }

    /// Writes the percentiles of each metric that has many values. One that the values cannot support has no row.
    fn percentiles(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let known = Stat::PERCENTILES.map(|(_, share)| share);
        let rows = self.measured.iter().flat_map(|measured| {
            let many = measured.values.iter().filter(|(metric, _)| metric.is_distribution());
            many.flat_map(move |(metric, samples)| {
                let bounds = known.into_iter().zip(samples.percentiles(known));
                bounds.filter_map(move |(share, bounds)| {
                    let (low, high) = bounds?;
                    let in_units = |value: u64| precise(value as f64 / metric.scale());
                    let is_exact = high == Some(low);
                    Some(rows::RunPercentile {
                        subject: measured.subject.as_str().into(),
                        metric: metric.name().into(),
                        unit: metric.unit().into(),
                        share: share.into(),
                        value: is_exact.then(|| in_units(low)).into(),
                        at_least: (!is_exact).then(|| in_units(low)).into(),
                        at_most: high.filter(|_| !is_exact).map(in_units).into(),
                    })
                })
            })
        });
        self.table(ResultFile::RunPercentile, to, rows.map(rows::RunPercentile::cells))
    }

    fn sketches(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let values = self.measured.iter().flat_map(|measured| {
            measured
                .values
                .iter()
                .map(move |(metric, samples)| (measured, metric, samples.sketch()))
        });
        let rows = values.flat_map(|(measured, metric, sketched)| {
            let buckets: Vec<_> = sketched.iter().flat_map(Sketched::buckets).collect();
            buckets.into_iter().map(move |(bucket, count, cut_off)| {
                let in_units = |value: f64| Cell::Number(precise(value / metric.scale()));
                rows::Sketch {
                    subject: measured.subject.as_str().into(),
                    metric: metric.name().into(),
                    unit: metric.unit().into(),
                    bucket: u32::from(bucket.number).into(),
                    from: in_units(bucket.from as f64),
                    below: in_units(bucket.to as f64 + 1.0),
                    count: count.into(),
                    cut_off: cut_off.into(),
                }
            })
        });
        self.table(ResultFile::Sketch, to, rows.map(rows::Sketch::cells))
    }

    fn validity(&self, to: &mut dyn Sinks) -> io::Result<()> {
        let Some(validity) = &self.done.ran.validity else { return Ok(()) };
        let attempts = ("attempts", f64::from(self.done.attempts));
        let rows = [attempts].into_iter().chain(validity.measures.iter().copied());
        let rows = rows.map(|(measure, value)| rows::Validity {
            measure: measure.into(),
            value: value.into(),
        });
        self.table(ResultFile::Validity, to, rows.map(rows::Validity::cells))
    }
}

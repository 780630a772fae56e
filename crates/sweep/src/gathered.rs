//! Runs added up, row by row.

use knee_run::outcome::{Validity, Work};
use knee_scenario::by_run::ByRun;
use knee_scenario::cases::Configuration;
use knee_scenario::claim;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::{Kind, Measured, Metric};
use knee_scenario::over_runs::OverRuns;
use knee_scenario::published::Stat;

use crate::record::Record;
use crate::sweep_result::{MOST_WARNINGS, Subject, Summaries, Verdict};

/// Adds up runs row by row.
pub(crate) struct Gathered<'a> {
    experiment: &'a Experiment,
    /// Figures that claims compare run by run.
    compared: Vec<(&'a str, Metric, Stat)>,
    tables: Vec<Summaries>,
    row: Option<Row>,
    pub(crate) runs_done: usize,
    pub(crate) warnings: Vec<String>,
    pub(crate) runs_warned: usize,
    work: Work,
}

impl Gathered<'_> {
    pub(crate) fn new(experiment: &Experiment) -> Gathered<'_> {
        Gathered {
            experiment,
            compared: claim::compared(&experiment.claims),
            tables: Vec::new(),
            row: None,
            runs_done: 0,
            warnings: Vec::new(),
            runs_warned: 0,
            work: Work::default(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let index = record.id.configuration;
        if self.row.as_ref().is_some_and(|row| row.index != index) {
            self.close();
        }
        let row = self.row.get_or_insert_with(|| Row { index, ..Row::default() });
        row.add(record, &self.compared);
        self.runs_done += 1;
        if let Some(warning) = &record.warning {
            self.runs_warned += 1;
            if self.warnings.len() < MOST_WARNINGS {
                self.warnings.push(warning.clone());
            }
        }
        self.work.events += record.work.events;
        self.work.data_pkts += record.work.data_pkts;
        self.work.pkt_hops += record.work.pkt_hops;
    }

    fn close(&mut self) {
        if let Some(row) = self.row.take() {
            let configuration = self.experiment.row(row.index);
            self.tables.push(row.summaries(configuration));
        }
    }

    pub(crate) fn finish(mut self) -> (Vec<Summaries>, Work) {
        self.close();
        (self.tables, self.work)
    }
}

/// The runs of a row so far.
#[derive(Default)]
struct Row {
    index: usize,
    runs: usize,
    verdict: Option<Verdict>,
    /// Values of valid runs. Values of all runs while none is valid.
    subjects: Vec<SubjectOverRuns>,
}

struct SubjectOverRuns {
    name: String,
    kind: Kind,
    metrics: Vec<(Metric, OverRuns)>,
    by_run: Vec<ByRun>,
}

impl Row {
    /// Adds a run. Figures that are `compared` are kept run by run.
    fn add(&mut self, record: &Record, compared: &[(&str, Metric, Stat)]) {
        let validity = record.validity.as_ref();
        let is_valid = validity.is_none_or(Validity::is_valid);
        let none_was_valid =
            self.verdict.as_ref().map_or(0, |verdict| verdict.limited) == self.runs;
        self.runs += 1;
        if let Some(validity) = validity {
            self.verdict.get_or_insert_default().add(validity);
        }
        if is_valid && none_was_valid {
            self.subjects.clear();
        }
        if is_valid || none_was_valid {
            self.add_values(&record.measured, record.id.seed, compared);
        }
    }

    fn add_values(&mut self, measured: &[Measured], seed: u64, compared: &[(&str, Metric, Stat)]) {
        if self.subjects.is_empty() {
            let new = |first: &Measured| SubjectOverRuns::new(first, compared);
            self.subjects = measured.iter().map(new).collect();
        }
        for (subject, i) in self.subjects.iter_mut().zip(0..) {
            // Runs of a row usually have the same subjects in the same order.
            let is_it = |values: &&Measured| values.subject == subject.name;
            let at_once = measured.get(i).filter(is_it);
            let Some(values) = at_once.or_else(|| measured.iter().find(is_it)) else {
                continue;
            };
            for (metric, over_runs) in &mut subject.metrics {
                let of_run = values.values.iter().filter(|(of, _)| of == metric);
                of_run.for_each(|(_, samples)| over_runs.add(samples));
            }
            for figure in &mut subject.by_run {
                let of_run = values.values.iter().find(|(of, _)| *of == figure.metric);
                if let Some((_, samples)) = of_run {
                    figure.add(seed, samples);
                }
            }
        }
    }

    fn summaries(self, configuration: Configuration) -> Summaries {
        let verdict = self.verdict.map(|verdict| Verdict { runs: self.runs, ..verdict });
        let subjects = self.subjects.into_iter().map(SubjectOverRuns::summary).collect();
        Summaries { configuration, index: self.index, subjects, verdict }
    }
}

impl SubjectOverRuns {
    fn new(first: &Measured, compared: &[(&str, Metric, Stat)]) -> SubjectOverRuns {
        let metrics = first.values.iter();
        let metrics = metrics.map(|(metric, _)| (*metric, OverRuns::of(metric.is_distribution())));
        SubjectOverRuns {
            name: first.subject.clone(),
            kind: first.kind,
            metrics: metrics.collect(),
            by_run: compared
                .iter()
                .filter(|(subject, ..)| *subject == first.subject)
                .map(|(_, metric, stat)| ByRun::new(*metric, *stat))
                .collect(),
        }
    }

    fn summary(self) -> Subject {
        let unfinished = self.metrics.iter().find(|(metric, _)| *metric == Metric::Unfinished);
        let unfinished = unfinished.map_or(0, |(_, over_runs)| over_runs.total()) as u64;
        let metrics = self.metrics.iter();
        let metrics = metrics
            .map(|(metric, over_runs)| (*metric, over_runs.summary(metric.scale())))
            .filter(|(_, summary)| summary.values + summary.cut_off.values > 0)
            .collect();
        let sketches = self.metrics.iter().filter_map(|(metric, over_runs)| {
            let sketched = over_runs.sketch().filter(|sketched| sketched.count() > 0)?;
            Some((*metric, sketched))
        });
        let sketches = sketches.collect();
        let is_traffic = !matches!(self.kind, Kind::Queue | Kind::Buffer);
        let shown = self.kind.shown();
        // Of a size class tables show the slowdown alone, and charts the completion time, too.
        let is_wanted = |metric: &Metric| *metric == Metric::Completion || shown.contains(metric);
        let drawn = |metric: &Metric| is_traffic && metric.is_distribution() && is_wanted(metric);
        let distributions = self.metrics.iter().filter(|(metric, _)| drawn(metric));
        let distributions = distributions.map(|(metric, all)| (*metric, all.by_bucket())).collect();
        Subject {
            name: self.name,
            kind: self.kind,
            metrics,
            unfinished,
            sketches,
            distributions,
            by_run: self.by_run,
        }
    }
}

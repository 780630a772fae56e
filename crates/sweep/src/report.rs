//! A sweep as data: summary rows, the manifest, and the output of `--json`.

use std::io;

use knee_algo::Algorithm;
use knee_algo::module::Api;
use knee_results::format::CSV;
use knee_results::manifest::{self, Asked, BackEnd, Effort, Manifest, Module, ModuleFile};
use knee_results::{Cell, ResultFile, Sinks, Sketch, rows};
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Metric;
use knee_scenario::published::{Published, Stat};
use knee_scenario::remarks;
use knee_scenario::stats::{Possible, Summary, rounded};
use serde_json::{Map, Value as Json, json};

use crate::about;
use crate::machine::{self, Build};
use crate::rows::{point, precise};
use crate::sweep_result::{Subject, Summaries, SweepResult, Verdict};

/// Returns the published figure for a metric of a configuration.
pub fn published_for<'a>(
    experiment: &'a Experiment,
    summaries: &Summaries,
    subject: &str,
    metric: Metric,
) -> Option<&'a Published> {
    // Timers, jiffies and an algorithm's own times do not scale, so the scaled figure is unknown.
    if !experiment.scale.is_one() {
        return None;
    }
    let case = experiment.case_name(&summaries.configuration);
    let labels = experiment.point_labels(&summaries.configuration);
    experiment.published.iter().find(|published| {
        published.subject == subject
            && published.metric == metric
            && published.cases.iter().any(|name| name == case)
            && published.at.iter().all(|(path, value)| {
                let axis = experiment.axes.iter().position(|axis| axis.path == *path);
                axis.is_some_and(|axis| labels[axis] == *value)
            })
    })
}

fn row<'a>(
    subject: &'a Subject,
    (metric, s): &(Metric, Summary),
    published: Option<&Published>,
) -> rows::Summary<'a> {
    let number = |value: Option<f64>| Cell::from(value.map(rounded));
    let least = |bounds: Option<Possible>| number(bounds.map(|bounds| bounds.low));
    let most = |bounds: Option<Possible>| number(bounds.and_then(|bounds| bounds.high));
    // Around bounds there is no interval that one half width would describe.
    let half = |stat: Stat| number(stat.of(s).and_then(|_| stat.half(s)));
    rows::Summary {
        subject: subject.name.as_str().into(),
        metric: metric.name().into(),
        unit: metric.unit().into(),
        runs: s.runs.into(),
        values: s.values.into(),
        mean: number(s.mean),
        ci95: number(s.ci95),
        sd: number(s.sd),
        sd_of_runs: number(s.sd_of_runs),
        min: number(s.min),
        p50: number(s.p50),
        p95: number(s.p95),
        p99: number(s.p99),
        p999: number(s.p999),
        max: number(s.max),
        published: number(published.map(|published| published.value)),
        published_stat: published.map(|published| published.stat.name()).into(),
        cut_off: metric.may_be_cut_off().then_some(s.cut_off.values).into(),
        mean_at_least: least(s.cut_off.mean),
        p50_at_least: least(s.cut_off.p50),
        p50_at_most: most(s.cut_off.p50),
        p95_at_least: least(s.cut_off.p95),
        p95_at_most: most(s.cut_off.p95),
        p99_at_least: least(s.cut_off.p99),
        p99_at_most: most(s.cut_off.p99),
        p999_at_least: least(s.cut_off.p999),
        p999_at_most: most(s.cut_off.p999),
        max_at_least: least(s.cut_off.max),
        p50_ci95: half(Stat::P50),
        p95_ci95: half(Stat::P95),
        p99_ci95: half(Stat::P99),
        p999_ci95: half(Stat::P999),
    }
}

/// Writes the rows that cover all runs together: the summary, and percentiles and distributions where there are any.
///
/// # Errors
/// Those of the sinks.
pub fn write_rows(
    experiment: &Experiment,
    swept: &SweepResult,
    to: &mut dyn Sinks,
) -> io::Result<()> {
    // There is a summary even if nothing was measured.
    to.of(ResultFile::Summary)?;
    for summaries in &swept.tables {
        let label = point(experiment, &summaries.configuration);
        let figures = summaries.subjects.iter().flat_map(|subject| {
            subject.metrics.iter().map(move |figure| {
                let published = published_for(experiment, summaries, &subject.name, figure.0);
                row(subject, figure, published).cells()
            })
        });
        write(ResultFile::Summary, to, &label, figures)?;
        let all = || summaries.subjects.iter();
        let percentiles = all().flat_map(percentile_rows).map(rows::Percentile::cells);
        write(ResultFile::Percentile, to, &label, percentiles)?;
        let distributions = all().flat_map(distribution_rows).map(rows::Distribution::cells);
        write(ResultFile::Distribution, to, &label, distributions)?;
    }
    Ok(())
}

fn write<'c, const N: usize>(
    file: ResultFile,
    to: &mut dyn Sinks,
    label: &[Cell<'_>],
    rows: impl Iterator<Item = [Cell<'c>; N]>,
) -> io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let sink = to.of(file)?;
    sink.label(label)?;
    rows.try_for_each(|cells| sink.row(&cells))
}

/// Shares whose percentiles `percentiles.csv` has.
const SHARES: [f64; 8] = [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Returns the rows of a subject in `percentiles.csv`. Empty if no run kept sketches.
fn percentile_rows(subject: &Subject) -> impl Iterator<Item = rows::Percentile<'_>> {
    subject.sketches.iter().flat_map(move |(metric, sketched)| {
        let shares = SHARES.iter().filter_map(|share| Some((share, sketched.percentile(*share)?)));
        shares.map(move |(share, (low, high))| {
            let in_units = |value: f64| rounded(value / metric.scale());
            let is_known = high == Some(low);
            rows::Percentile {
                subject: subject.name.as_str().into(),
                metric: metric.name().into(),
                unit: metric.unit().into(),
                values: sketched.finished.count().into(),
                share: (*share).into(),
                value: is_known.then(|| in_units(low)).into(),
                relative_error: Sketch::ERROR.into(),
                cut_off: sketched.cut_off.count().into(),
                at_least: (!is_known).then(|| in_units(low)).into(),
                at_most: high.filter(|_| !is_known).map(in_units).into(),
            }
        })
    })
}

/// Returns the rows of a subject in `distributions.csv`: what the summary's percentiles are of, so that a drawing shows no other values.
fn distribution_rows(subject: &Subject) -> impl Iterator<Item = rows::Distribution<'_>> {
    subject.distributions.iter().flat_map(move |(metric, by_bucket)| {
        by_bucket.buckets().map(move |(bucket, count, cut_off)| {
            let in_units = |value: f64| Cell::Number(precise(value / metric.scale()));
            rows::Distribution {
                subject: subject.name.as_str().into(),
                metric: metric.name().into(),
                unit: metric.unit().into(),
                bucket: u32::from(bucket.number).into(),
                from: in_units(bucket.from as f64),
                below: in_units(bucket.to as f64 + 1.0),
                count: count.into(),
                cut_off: cut_off.into(),
            }
        })
    })
}

fn json_of_subject(experiment: &Experiment, summaries: &Summaries, subject: &Subject) -> Json {
    let metrics = subject.metrics.iter().map(|figure| {
        let metric = figure.0;
        let published = published_for(experiment, summaries, &subject.name, metric);
        let row = row(subject, figure, None).cells();
        let columns = ResultFile::Summary.columns().iter().zip(row);
        // Values that were not measured are absent, and so are those that are not numbers.
        let numbers = columns.filter_map(|(name, cell)| match cell {
            Cell::Whole(number) => Some(((*name).to_owned(), number.into())),
            Cell::Number(number) => Some(((*name).to_owned(), number.into())),
            _ => None,
        });
        let mut map: Map<String, Json> = numbers.collect();
        if !metric.unit().is_empty() {
            map.insert("unit".into(), metric.unit().into());
        }
        if let Some(published) = published {
            let figure = json!({ "stat": published.stat.name(), "value": published.value });
            map.insert("published".into(), figure);
        }
        (metric.name().to_owned(), Json::Object(map))
    });
    json!({ "subject": subject.name, "metrics": metrics.collect::<Map<_, _>>() })
}

fn effort(swept: &SweepResult) -> Effort {
    let effort = &swept.effort;
    // What runs of an earlier process took is not known.
    let known = |value: f64| Some(value).filter(|_| swept.runs_earlier == 0);
    Effort {
        cpu_s: known(effort.cpu_s),
        wall_s: known(effort.wall_s),
        events: Some(effort.work.events),
        data_pkts: Some(effort.work.data_pkts),
        pkt_hops: Some(effort.work.pkt_hops),
        peak_rss_bytes: effort.peak_rss_bytes,
    }
}

fn json_of_verdict(verdict: &Verdict) -> Json {
    json!({
        "valid_runs": verdict.runs - verdict.limited,
        "host_limited_runs": verdict.limited,
        "reason": (verdict.limited > 0).then_some(&verdict.reason),
    })
}

fn remarks(experiment: &Experiment, swept: &SweepResult) -> Vec<manifest::Remark> {
    remarks::listed(&remarks::of_back_end(experiment, swept.back_end, &swept.about))
}

/// Describes the back end: its name, the scale, and its own description.
fn back_end(experiment: &Experiment, swept: &SweepResult) -> BackEnd {
    BackEnd {
        name: swept.back_end.into(),
        scale: experiment.scale.share(),
        about: swept.about.clone(),
    }
}

/// Returns the output of `knee run --json`: the settings, the summary, the claims, and the block `simulator`.
pub fn json(
    experiment: &Experiment,
    swept: &SweepResult,
    claims: &[manifest::Claim],
    results_dir: Option<&std::path::Path>,
) -> Json {
    let summary: Vec<Json> = swept
        .tables
        .iter()
        .map(|summaries| {
            let at = experiment.point_json(&summaries.configuration);
            let subjects = summaries.subjects.iter();
            let subjects: Vec<_> =
                subjects.map(|subject| json_of_subject(experiment, summaries, subject)).collect();
            let mut row = Map::new();
            row.insert("case".into(), experiment.case_name(&summaries.configuration).into());
            row.insert("at".into(), at.into());
            row.extend(summaries.verdict.as_ref().map(|v| ("verdict".into(), json_of_verdict(v))));
            row.insert("subjects".into(), subjects.into());
            Json::Object(row)
        })
        .collect();
    json!({
        "experiment": experiment.name,
        "question": experiment.question,
        "back_end": back_end(experiment, swept),
        "seed": experiment.seed,
        "repeat": experiment.repeat,
        "runs": experiment.runs(),
        "runs_done": swept.runs_done,
        "interrupted": swept.interrupted,
        "failed": swept.failed,
        "warnings": swept.warnings,
        "results": results_dir.map(|dir| dir.display().to_string()),
        "remarks": remarks(experiment, swept),
        "summary": summary,
        "claims": claims,
        "simulator": effort(swept),
    })
}

/// Describes the file that an algorithm was compiled from.
fn module(algorithm: &Algorithm) -> Option<Module> {
    let module = algorithm.module()?;
    Some(Module {
        algorithm: algorithm.name().into(),
        path: module.path().display().to_string(),
        sha256: module.sha256().to_owned(),
        compiler: module.compiler().to_owned(),
        others: module
            .others_read()
            .iter()
            .map(|(path, sha256)| ModuleFile {
                path: path.display().to_string(),
                sha256: sha256.clone(),
            })
            .collect(),
        define: module.options().define.clone(),
        include: module.options().include.iter().map(|dir| dir.display().to_string()).collect(),
        linux: module.options().linux.map(|linux| linux.to_string()),
        api: (module.api() != Api::Linux).then(|| module.api().name().to_owned()),
    })
}

/// Builds the manifest of a sweep.
pub(crate) fn manifest(
    experiment: &Experiment,
    swept: &SweepResult,
    claims: &[manifest::Claim],
    files: &[&str],
) -> Result<Manifest, Error> {
    let build = Build::this();
    let resolved = experiment.resolved()?;
    let linux = resolved.values().find_map(|case| case.get("hosts.linux"));
    let owned = |text: &str| text.to_owned();
    Ok(Manifest {
        dir: Default::default(),
        format: Manifest::FORMAT,
        experiment: experiment.name.clone(),
        file: experiment.path.display().to_string(),
        question: experiment.question.clone(),
        knee: build.version.into(),
        commit: build.commit.map(owned),
        back_end: back_end(experiment, swept),
        linux_profile: linux.and_then(Json::as_str).map(owned),
        seed: Some(experiment.seed),
        repeat: Some(experiment.repeat.into()),
        runs: Some(experiment.runs() as u64),
        runs_done: Some(swept.runs_done as u64),
        interrupted: swept.interrupted,
        failed: swept.failed.clone(),
        warnings: swept.warnings.clone(),
        time: machine::utc_now(),
        host: machine::host_name(),
        kernel: machine::kernel(),
        simulator: effort(swept),
        tables: Some(swept.format.name()).filter(|name| *name != CSV.name()).map(owned),
        files: files.iter().copied().map(owned).collect(),
        vary: experiment.varied(),
        asked: Asked {
            cc: experiment.asked.cc.clone(),
            set: experiment.asked.set.clone(),
            vary: experiment.asked.vary.clone(),
        },
        modules: experiment.modules.iter().filter_map(|algorithm| module(algorithm)).collect(),
        inputs: experiment.inputs.clone(),
        resolved,
        text: experiment.text.clone(),
        about: about::about(experiment),
        remarks: remarks(experiment, swept),
        quick: experiment.is_quick,
        published: experiment.published.iter().map(about::published).collect(),
        claims: claims.to_vec(),
        charts: experiment.charts.iter().map(about::chart).collect(),
        only_these_charts: !experiment.has_default_charts,
        plots: experiment.plots()?,
        axes: experiment.axes.iter().map(about::axis).collect(),
        cases: experiment.cases.iter().map(|case| case.name.clone()).collect(),
        network: about::listed_network(experiment)?,
    })
}

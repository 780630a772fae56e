//! The sweep as data: summary rows, the manifest and the answer of `--json`.

use std::fmt::Write as _;

use knee_algo::Algorithm;
use serde_json::{Map, Value as Json, json};

use crate::about::{about, claims};
use crate::csv::quoted;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::machine::{self, Build};
use crate::published::Published;
use crate::stats::{Summary, rounded};
use crate::swept::{Effort, Subject, Summaries, Swept, Verdict};

/// Columns of `summary.csv` after the case and the varied values.
const SUMMARY_COLUMNS: &str = "subject,metric,unit,runs,values,mean,ci95,sd,sd_of_runs,min,p50,p95,p99,p999,max,\
                               published,published_stat";

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| rounded(value).to_string())
}

/// The published figure that belongs beside a metric of a configuration.
pub(crate) fn published_for<'a>(
    experiment: &'a Experiment,
    summaries: &Summaries,
    subject: &str,
    metric: crate::metric::Metric,
) -> Option<&'a Published> {
    // Timers, jiffies and an algorithm's own times do not scale: nothing says how the figure would.
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

pub(crate) fn summary_csv(experiment: &Experiment, swept: &Swept) -> String {
    let mut out = String::from("case");
    for axis in &experiment.axes {
        out.push(',');
        out.push_str(&quoted(&axis.path));
    }
    let _ = writeln!(out, ",{SUMMARY_COLUMNS}");
    for summaries in &swept.tables {
        let mut label = quoted(experiment.case_name(&summaries.configuration));
        for value in experiment.point_labels(&summaries.configuration) {
            label.push(',');
            label.push_str(&quoted(&value));
        }
        for subject in &summaries.subjects {
            for (metric, s) in &subject.metrics {
                let published = published_for(experiment, summaries, &subject.name, *metric);
                let _ = writeln!(
                    out,
                    "{label},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                    quoted(&subject.name),
                    metric.name(),
                    metric.unit(),
                    s.runs,
                    s.values,
                    cell(s.mean),
                    cell(s.ci95),
                    cell(s.sd),
                    cell(s.sd_of_runs),
                    cell(s.min),
                    cell(s.p50),
                    cell(s.p95),
                    cell(s.p99),
                    cell(s.p999),
                    cell(s.max),
                    cell(published.map(|published| published.value)),
                    published.map_or("", |published| published.stat.name()),
                );
            }
        }
    }
    out
}

fn json_of_summary(s: &Summary) -> Map<String, Json> {
    let mut map = Map::new();
    map.insert("runs".into(), s.runs.into());
    map.insert("values".into(), s.values.into());
    let numbers = [
        ("mean", s.mean),
        ("ci95", s.ci95),
        ("sd", s.sd),
        ("sd_of_runs", s.sd_of_runs),
        ("min", s.min),
        ("p50", s.p50),
        ("p95", s.p95),
        ("p99", s.p99),
        ("p999", s.p999),
        ("max", s.max),
    ];
    // What was not measured is absent.
    let known = numbers.into_iter().filter_map(|(name, value)| Some((name, value?)));
    map.extend(known.map(|(name, value)| (name.into(), rounded(value).into())));
    map
}

fn json_of_subject(experiment: &Experiment, summaries: &Summaries, subject: &Subject) -> Json {
    let metrics: Map<String, Json> = subject
        .metrics
        .iter()
        .map(|(metric, summary)| {
            let mut map = json_of_summary(summary);
            if !metric.unit().is_empty() {
                map.insert("unit".into(), metric.unit().into());
            }
            if let Some(published) = published_for(experiment, summaries, &subject.name, *metric) {
                let figure = json!({ "stat": published.stat.name(), "value": published.value });
                map.insert("published".into(), figure);
            }
            (metric.name().to_owned(), Json::Object(map))
        })
        .collect();
    json!({ "subject": subject.name, "metrics": metrics })
}

fn json_of_effort(effort: &Effort) -> Json {
    json!({
        "cpu_s": effort.cpu_s,
        "wall_s": effort.wall_s,
        "events": effort.work.events,
        "data_pkts": effort.work.data_pkts,
        "pkt_hops": effort.work.pkt_hops,
        "peak_rss_bytes": effort.peak_rss_bytes,
    })
}

fn json_of_verdict(verdict: &Verdict) -> Json {
    json!({
        "valid_runs": verdict.runs - verdict.limited,
        "host_limited_runs": verdict.limited,
        "reason": (verdict.limited > 0).then_some(&verdict.reason),
    })
}

/// The back end: its name, the scale, and what it says of itself.
fn json_of_back_end(experiment: &Experiment, swept: &Swept) -> Json {
    let mut map = Map::new();
    map.insert("name".into(), swept.back_end.into());
    map.insert("scale".into(), experiment.scale.share().into());
    map.extend(swept.about.clone());
    Json::Object(map)
}

/// The answer of `knee run --json`: what was asked, the summary, and the block `simulator`.
pub fn json(experiment: &Experiment, swept: &Swept, results_dir: Option<&std::path::Path>) -> Json {
    let summary: Vec<Json> = swept
        .tables
        .iter()
        .map(|summaries| {
            let labels = experiment.point_labels(&summaries.configuration);
            let at = experiment.axes.iter().zip(labels);
            let at: Map<String, Json> =
                at.map(|(axis, label)| (axis.path.clone(), label.into())).collect();
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
        "back_end": json_of_back_end(experiment, swept),
        "seed": experiment.seed,
        "repeat": experiment.repeat,
        "runs": experiment.runs(),
        "runs_done": swept.runs_done,
        "interrupted": swept.interrupted,
        "results": results_dir.map(|dir| dir.display().to_string()),
        "summary": summary,
        "claims": claims(experiment, swept),
        "simulator": json_of_effort(&swept.effort),
    })
}

/// A file that an algorithm was compiled from: enough to know it again.
fn json_of_module(algorithm: &Algorithm) -> Option<Json> {
    let module = algorithm.module()?;
    Some(json!({
        "algorithm": algorithm.name(),
        "path": module.path().display().to_string(),
        "sha256": module.sha256(),
        "compiler": module.compiler(),
    }))
}

/// What was run, by what, where and when.
pub(crate) fn manifest(
    experiment: &Experiment,
    swept: &Swept,
    files: &[&str],
) -> Result<Json, Error> {
    let build = Build::this();
    let resolved = experiment.resolved()?;
    let linux: Vec<_> = resolved.values().filter_map(|case| case.get("hosts.linux")).collect();
    let linux = linux.first().map(|linux| (*linux).clone());
    let mut manifest = json!({
        "experiment": experiment.name,
        "file": experiment.path.display().to_string(),
        "question": experiment.question,
        "knee": build.version,
        "commit": build.commit,
        "back_end": json_of_back_end(experiment, swept),
        "linux_profile": linux,
        "seed": experiment.seed,
        "repeat": experiment.repeat,
        "runs": experiment.runs(),
        "runs_done": swept.runs_done,
        "interrupted": swept.interrupted,
        "time": machine::utc_now(),
        "host": machine::host_name(),
        "kernel": machine::kernel(),
        "simulator": json_of_effort(&swept.effort),
        "files": files,
        "vary": experiment.varied(),
        "asked": { "cc": experiment.asked.cc, "set": experiment.asked.set },
        "modules": experiment.modules.iter().filter_map(|algorithm| json_of_module(algorithm)).collect::<Vec<_>>(),
        "resolved": resolved,
        "text": experiment.text,
    });
    if let Some(map) = manifest.as_object_mut() {
        map.extend(about(experiment, swept)?);
    }
    Ok(manifest)
}

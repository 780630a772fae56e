//! What a manifest says of the experiment itself: its words, published figures, claims with their verdicts, charts, network.

use knee_queue::{Limit, QueueConfig, Threshold};
use knee_run::spec::Link;
use serde_json::{Map, Value as Json, json};

use crate::chart::Chart;
use crate::claim::{Claim, Judged, JudgedCheck, JudgedTerm};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::published::Published;
use crate::stats::rounded;
use crate::swept::Swept;

/// All of it, by key.
pub(crate) fn about(experiment: &Experiment, swept: &Swept) -> Result<Map<String, Json>, Error> {
    let axes = experiment.axes.iter();
    let axes: Vec<Json> =
        axes.map(|axis| json!({ "path": axis.path, "values": axis.labels() })).collect();
    let all = json!({
        "about": {
            "expect": experiment.expect,
            "source": experiment.source,
            "notes": experiment.notes,
        },
        "quick": experiment.is_quick,
        "published": experiment.published.iter().map(json_of_published).collect::<Vec<_>>(),
        "claims": claims(experiment, swept),
        "charts": experiment.charts.iter().map(json_of_chart).collect::<Vec<_>>(),
        "axes": axes,
        "cases": experiment.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(),
        "network": network(experiment)?,
    });
    match all {
        Json::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// Every claim of a file, with the verdict on it.
pub(crate) fn claims(experiment: &Experiment, swept: &Swept) -> Vec<Json> {
    let judged = |claim: &Claim| json_of_claim(claim, &claim.judge(experiment, swept));
    experiment.claims.iter().map(judged).collect()
}

fn json_of_claim(claim: &Claim, judged: &Judged) -> Json {
    let mut map = Map::new();
    map.insert("name".into(), claim.name.as_str().into());
    map.insert("says".into(), claim.says.as_str().into());
    map.insert("by".into(), claim.by.name().into());
    let optional = [("because", &claim.because), ("see", &claim.see), ("cannot", &claim.cannot)];
    for (key, text) in optional {
        map.extend(text.as_ref().map(|text| (key.to_owned(), text.as_str().into())));
    }
    map.insert("verdict".into(), judged.stands.name().into());
    let checks: Vec<Json> = claim
        .checks
        .iter()
        .zip(&judged.checks)
        .map(|(check, judged)| {
            let mut map = Map::new();
            map.insert("says".into(), check.says().into());
            map.insert("verdict".into(), judged.holds.name().into());
            map.insert("unit".into(), check.unit().into());
            let bounds = [("at_least", check.bounds.at_least), ("at_most", check.bounds.at_most)];
            map.extend(bounds.into_iter().filter_map(|(key, v)| Some((key.into(), v?.into()))));
            map.insert("rows".into(), rows(judged).into());
            let terms = judged.rows.iter().flat_map(|row| &row.terms);
            let terms: Vec<Json> = terms
                .map(|term| {
                    let of = match (term.role, &check.other) {
                        ("figure", _) | (_, None) => &check.figure,
                        (_, Some((_, other))) => other,
                    };
                    json_of_term(term, of)
                })
                .collect();
            map.insert("terms".into(), terms.into());
            Json::Object(map)
        })
        .collect();
    map.insert("checks".into(), checks.into());
    Json::Object(map)
}

/// A ratio to what may be zero has no upper end, and JSON no infinity: it is absent then.
fn rows(judged: &JudgedCheck) -> Vec<Json> {
    let of = |row: &crate::claim::Row| {
        let mut map = Map::new();
        map.insert("at".into(), row.at.as_str().into());
        map.insert("verdict".into(), row.holds.name().into());
        let numbers = row.value.map(|v| [("value", v.value), ("low", v.low), ("high", v.high)]);
        let finite = numbers.into_iter().flatten().filter(|(_, number)| number.is_finite());
        map.extend(finite.map(|(key, number)| (key.to_owned(), rounded(number).into())));
        Json::Object(map)
    };
    judged.rows.iter().map(of).collect()
}

fn json_of_term(judged: &JudgedTerm, term: &crate::claim::Term) -> Json {
    let at = judged.at.iter().map(|(path, value)| (path.clone(), Json::from(value.as_str())));
    let mut map = Map::new();
    map.insert("role".into(), judged.role.into());
    map.insert("case".into(), judged.case.as_str().into());
    map.insert("at".into(), at.collect::<Map<_, _>>().into());
    map.insert("subject".into(), term.subject.as_str().into());
    map.insert("metric".into(), term.metric.name().into());
    map.insert("stat".into(), term.stat.name().into());
    map.insert("runs".into(), judged.runs.into());
    let numbers = [("value", judged.value), ("ci95", judged.ci95)];
    map.extend(numbers.into_iter().filter_map(|(key, v)| Some((key.into(), rounded(v?).into()))));
    Json::Object(map)
}

fn json_of_published(published: &Published) -> Json {
    let at = published.at.iter().map(|(path, value)| (path.clone(), Json::from(value.as_str())));
    json!({
        "subject": published.subject,
        "metric": published.metric.name(),
        "stat": published.stat.name(),
        "cases": published.cases,
        "at": at.collect::<Map<_, _>>(),
        "value": published.value,
        "text": published.text,
        "unit": published.metric.unit(),
        "note": published.note,
    })
}

fn json_of_chart(chart: &Chart) -> Json {
    json!({
        "title": chart.title,
        "subject": chart.subject,
        "metric": chart.metric.name(),
        "stat": chart.stat.name(),
        "x": chart.x,
        "log": chart.log,
    })
}

/// The network of the first run.
pub(crate) fn network(experiment: &Experiment) -> Result<Json, Error> {
    let network = experiment.run(experiment.run_id(0))?.network;
    let name = |id: u32| network.nodes.get(id as usize).map_or("", |node| node.name.as_str());
    let nodes = network.nodes.iter().map(|node| {
        json!({ "name": node.name, "kind": if node.host.is_some() { "host" } else { "switch" } })
    });
    let links = network.links.iter().map(|link| {
        let mut map = Map::new();
        map.insert("name".into(), link.name.as_str().into());
        map.insert("from".into(), name(link.from).into());
        map.insert("to".into(), name(link.to).into());
        map.extend(link.rate.map(|rate| ("rate_bps".to_owned(), rate.bps().into())));
        map.insert("delay_s".into(), rounded(link.delay.ps() as f64 / 1e12).into());
        map.insert("queue".into(), queue_words(link).into());
        map.insert("recorded".into(), link.sampled.into());
        Json::Object(map)
    });
    let topology = experiment.topology().unwrap_or_default();
    Ok(json!({
        "topology": topology,
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    }))
}

/// The queue of a link, as `step, 500 pkts, K 20 pkts`; nothing where there is none.
fn queue_words(link: &Link) -> String {
    let limit = |limit: Limit| match limit {
        // As hosts have it of which nothing is said.
        Limit::Pkts(u32::MAX) | Limit::Bytes(u64::MAX) => "no limit".to_owned(),
        Limit::Pkts(pkts) => format!("{pkts} pkts"),
        Limit::Bytes(bytes) => format!("{bytes} B"),
    };
    match (&link.queue, link.rate) {
        (_, None) => String::new(),
        (QueueConfig::DropTail(config), _) => format!("droptail, {}", limit(config.limit)),
        (QueueConfig::Step(config), _) => {
            let k = match config.threshold {
                Threshold::Pkts(pkts) => format!("{pkts} pkts"),
                Threshold::Bytes(bytes) => format!("{bytes} B"),
                Threshold::Sojourn(time) => format!("{} us", time.ps() / 1_000_000),
            };
            format!("step, {}, K {k}", limit(config.limit))
        }
        (other, _) => other.kind().to_owned(),
    }
}

//! Describes an experiment as text: question, network, published figures, claims, and how to run it again.

use std::fmt::Write as _;

use knee_results::manifest::NodeKind;
use knee_scenario::claim::short;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::memory::MOST_BYTES;
use knee_scenario::names::few;
use knee_scenario::remarks::remarks;
use knee_scenario::{balance, switches};
use knee_sweep::about::network;
use serde_json::Value as Json;

use crate::judge::ClaimVerdict;
use crate::settings::settings;
use crate::table::{Align, Grid, Scale, wrapped};

/// Describes the experiment. `blessed` returns the golden verdict of a claim in the quick set, by its name, if there
/// is one.
///
/// # Errors
/// None beyond those of [`Experiment::load`].
pub fn explain<'a>(
    experiment: &Experiment,
    command: &str,
    blessed: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<String, Error> {
    let mut out = format!("{}\n", experiment.name);
    out.push_str(&wrapped(&experiment.question, "  "));
    let texts = [("source", &experiment.source), ("expected", &experiment.expect)];
    for (name, text) in texts {
        if let Some(text) = text {
            let _ = write!(out, "\n{name}\n{}", wrapped(text, "  "));
        }
    }
    let _ = write!(out, "\nset-up\n{}", set_up(experiment)?);
    if let Some(notes) = &experiment.notes {
        let _ =
            write!(out, "\nnot stated in the source, and chosen here\n{}", wrapped(notes, "  "));
    }
    if !experiment.published.is_empty() {
        let _ = write!(out, "\npublished\n{}\n", published(experiment));
    }
    if !experiment.claims.is_empty() {
        out.push_str(match experiment.quick {
            Some(_) => "\nclaims, with verdicts of the quick set, which has fewer runs\n",
            None => "\nclaims\n",
        });
        for claim in &experiment.claims {
            let is_derived =
                claim.by == knee_scenario::claim::By::Us && experiment.source.is_some();
            let by = if is_derived { " (derived by us)" } else { "" };
            let verdict = match (blessed(&claim.name), &claim.cannot) {
                (Some(verdict), _) => verdict,
                (None, Some(_)) => "cannot be decided",
                (None, None) => "no verdict recorded",
            };
            out.push_str(&wrapped(
                &format!("{}: {}{by}", verdict.to_uppercase(), claim.says),
                "  ",
            ));
            for check in &claim.checks {
                out.push_str(&wrapped(&check.says(), "    "));
            }
            // The cause explains only a claim that does not stand.
            let because = claim.because.as_ref().filter(|_| verdict != ClaimVerdict::Stands.name());
            let texts = [("cannot be decided here", claim.cannot.as_ref()), ("because", because)];
            for (name, text) in texts {
                if let Some(text) = text {
                    out.push_str(&wrapped(&format!("{name}: {text}"), "    "));
                }
            }
            if let Some(see) = &claim.see {
                let _ = writeln!(out, "    see {see}");
            }
        }
    }
    let _ = write!(out, "\nrun it\n  {command}\n");
    Ok(out)
}

fn set_up(experiment: &Experiment) -> Result<String, Error> {
    let mut out = String::new();
    let network = network(experiment)?;
    let hosts = network.nodes.into_iter().filter(|node| node.kind == NodeKind::Host);
    let hosts: Vec<String> = hosts.map(|node| node.name).collect();
    let words = format!("network {}: hosts {}", network.topology, few(&hosts));
    out.push_str(&wrapped(&words, "  "));
    // Equal links are listed together.
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for link in network.links {
        let delay = Scale::of_unit("s", link.delay_s);
        let mut words: Vec<String> = Vec::new();
        if let Some(bps) = link.rate_bps.map(|bps| bps as f64) {
            let rate = Scale::of_unit("bps", bps);
            words.push(format!("{} {}", rate.show(Some(bps)), rate.unit()));
            if link.overhead_bytes > 0 {
                words.push(format!("{} B around each frame", link.overhead_bytes));
            }
        }
        words.push(match link.delay_s > 0.0 {
            true => format!("delay {} {}", delay.show(Some(link.delay_s)), delay.unit()),
            false => "no delay".to_owned(),
        });
        words.extend(Some(link.queue).filter(|queue| !queue.is_empty()));
        let words = words.join(", ");
        match kinds.iter_mut().find(|(kind, _)| *kind == words) {
            Some((_, names)) => names.push(link.name),
            None => kinds.push((words, vec![link.name])),
        }
    }
    for (kind, names) in kinds {
        out.push_str(&wrapped(&format!("{}: {kind}", few(&names)), "    "));
    }
    let first = experiment.run(experiment.run_id(0))?.network;
    for words in switches::words(&first).into_iter().chain(balance::words(&first)) {
        out.push_str(&wrapped(&words, "    "));
    }
    let resolved = experiment.resolved()?;
    let first = resolved.values().next().and_then(Json::as_object);
    let linux = first.and_then(|first| first.get("hosts.linux")).map(plain).unwrap_or_default();
    out.push_str(&wrapped(
        &format!("hosts: Linux {linux}, with its defaults except as below"),
        "  ",
    ));
    out.push_str("  every key that differs from its default\n");
    for (path, keys) in settings(&experiment.root) {
        let keys = keys.into_iter().map(|(key, value)| {
            let whole = format!("{path}.{key}");
            let is_varied = experiment.axes.iter().any(|axis| axis.has(&whole));
            if is_varied { format!("{key} varied") } else { format!("{key} {value}") }
        });
        let keys: Vec<String> = keys.collect();
        out.push_str(&wrapped(&format!("{path}: {}", keys.join(", ")), "    "));
    }
    for case in &experiment.cases {
        let words: Vec<String> = case.words();
        out.push_str(&wrapped(&format!("case {}: {}", case.name, words.join(", ")), "  "));
    }
    for axis in &experiment.axes {
        let labels = axis.labels();
        let keys: Vec<&str> = axis.paths().filter(|_| axis.is_together()).collect();
        let keys = if keys.is_empty() { String::new() } else { format!(" ({})", keys.join(" / ")) };
        let words = format!("varied {}{keys}: {}", axis.path, labels.join(", "));
        out.push_str(&wrapped(&words, "  "));
    }
    let words = format!("{} runs of each row, seed {}", experiment.repeat, experiment.seed);
    out.push_str(&wrapped(&words, "  "));
    for remark in remarks(experiment) {
        out.push_str(&wrapped(&remark.words(), "  "));
    }
    let (checked, rows) = (experiment.checked_rows(), experiment.rows());
    if checked < rows {
        let words = format!("{checked} of {rows} rows were checked; knee run --check checks all");
        out.push_str(&wrapped(&words, "  "));
    }
    if experiment.memory.is_large() {
        let is_allowed = experiment.memory.bytes <= MOST_BYTES;
        let way = if is_allowed { "" } else { ": knee run --memory allows it" };
        out.push_str(&wrapped(
            &format!("{}{way}{}", experiment.memory.words(), experiment.memory.other_way()),
            "  ",
        ));
    }
    Ok(out)
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn published(experiment: &Experiment) -> String {
    let mut grid = Grid::default();
    grid.head(["figure", "at", "cases"].map(str::to_owned), Align::Left);
    grid.head(["published".to_owned()], Align::Right);
    grid.head(["note".to_owned()], Align::Left);
    for figure in &experiment.published {
        let at = figure.at.iter().map(|(path, value)| format!("{} {value}", short(path)));
        grid.row(vec![
            format!("{} of {} of {}", figure.stat.name(), figure.metric.name(), figure.subject),
            at.collect::<Vec<_>>().join(", "),
            figure.cases.join(", "),
            figure.text.clone(),
            figure.note.clone().unwrap_or_default(),
        ]);
    }
    grid.render()
}

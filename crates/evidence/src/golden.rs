//! Summarises an experiment's quick set as text, which is kept and compared byte for byte.
//!
//! Figures are whole numbers of their recorded units, and values of checks have four significant digits. No value can
//! be rounded differently on another machine.

use std::fmt::Write as _;

use knee_scenario::claim::Claim;
use knee_scenario::experiment::Experiment;
use knee_scenario::metric::Metric;
use knee_scenario::published::Stat;
use knee_sweep::sweep_result::SweepResult;

use crate::judge::{Interval, judge};

/// Returns the text of an experiment.
pub fn summary(experiment: &Experiment, swept: &SweepResult) -> String {
    let mut out = format!(
        "{}: {} of each row, seed {}\n",
        experiment.name,
        match experiment.repeat {
            1 => "1 run".to_owned(),
            n => format!("{n} runs"),
        },
        experiment.seed
    );
    for claim in &experiment.claims {
        out.push_str(&of_claim(claim, experiment, swept));
    }
    let wanted = wanted(experiment);
    for summaries in &swept.tables {
        let _ = writeln!(out, "\n{}", experiment.describe(&summaries.configuration));
        for subject in &summaries.subjects {
            for (metric, summary) in &subject.metrics {
                let is_wanted = match wanted.is_empty() {
                    true => subject.kind.shown().contains(metric),
                    false => wanted.contains(&(subject.name.as_str(), *metric)),
                };
                if !is_wanted {
                    continue;
                }
                let whole = |stat: Stat| {
                    let in_units = |value: f64| format!("{:.0}", value * metric.scale());
                    stat.possible(summary).map_or("-".to_owned(), |bounds| bounds.show(in_units))
                };
                let cut_off = match summary.cut_off.values {
                    0 => String::new(),
                    count => format!(" cut off {count}"),
                };
                let _ = writeln!(
                    out,
                    "  {} {}{}: mean {} p50 {} p99 {} max {} values {}{cut_off}",
                    subject.name,
                    metric.name(),
                    unit(*metric),
                    whole(Stat::Mean),
                    whole(Stat::P50),
                    whole(Stat::P99),
                    whole(Stat::Max),
                    summary.values
                );
            }
        }
    }
    out
}

fn of_claim(claim: &Claim, experiment: &Experiment, swept: &SweepResult) -> String {
    let judged = judge(claim, experiment, swept);
    let mut out = format!("\nclaim {}: {}\n", claim.name, judged.verdict.name());
    for (check, judged) in claim.checks.iter().zip(&judged.checks) {
        let _ = writeln!(out, "  {}: {}", judged.verdict.name(), check.says());
        for row in &judged.rows {
            let at = if row.at.is_empty() { String::new() } else { format!("{}: ", row.at) };
            let _ = writeln!(out, "    {at}{}", row.value.map_or("-".to_owned(), interval));
        }
    }
    out
}

fn interval(Interval { value, low, high }: Interval) -> String {
    match value {
        Some(value) if low == high => format!("{value:.3e}"),
        Some(value) => format!("{value:.3e} from {low:.3e} to {high:.3e}"),
        None => format!("from {low:.3e} to {high:.3e}"),
    }
}

/// Returns the metrics of claims, published figures and charts. Without any, returns those of tables.
fn wanted(experiment: &Experiment) -> Vec<(&str, Metric)> {
    let of_claims = experiment.claims.iter().flat_map(|claim| &claim.checks).flat_map(|check| {
        let other = check.other.iter().map(|(_, term)| term);
        std::iter::once(&check.figure).chain(other).map(|term| (term.subject.as_str(), term.metric))
    });
    let published = experiment.published.iter().map(|p| (p.subject.as_str(), p.metric));
    let charts = experiment
        .charts
        .iter()
        .flat_map(|chart| std::iter::once(&chart.figure).chain(&chart.against));
    let charts = charts.map(|figure| (figure.subject.as_str(), figure.metric));
    of_claims.chain(published).chain(charts).collect()
}

/// Returns the unit in which a metric is recorded.
fn unit(metric: Metric) -> String {
    match (metric.unit(), metric.scale()) {
        ("s", 1e9) => ", ns".to_owned(),
        ("", 1.0) => String::new(),
        (unit, 1.0) => format!(", {unit}"),
        (unit, scale) => format!(", 1/{scale:.0}{}{unit}", if unit.is_empty() { "" } else { " " }),
    }
}

/// Returns the verdict on a claim, from a text.
pub fn verdict<'a>(text: &'a str, claim: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix("claim ")?.strip_prefix(claim)?.strip_prefix(": "))
}

/// Returns the claims of a text with their verdicts.
pub fn verdicts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix("claim ")?.split_once(": "))
}

/// Describes differences of two texts: changed verdicts, then lines that one text lacks, with their row. Empty
/// without differences.
pub fn difference(before: &str, after: &str) -> String {
    const MOST: usize = 40;
    let mut out = String::new();
    for (claim, was) in verdicts(before) {
        match verdict(after, claim) {
            Some(is) if is == was => {}
            Some(is) => {
                let _ = writeln!(out, "claim {claim}: {was} before, {is} now");
            }
            None => {
                let _ = writeln!(out, "claim {claim}: {was} before, missing now");
            }
        }
    }
    let (old, new) = (places(before), places(after));
    let gone = old.iter().filter(|place| !new.contains(place)).map(|place| ("-", place));
    let come = new.iter().filter(|place| !old.contains(place)).map(|place| ("+", place));
    let mut lines: Vec<(&str, &(String, String))> = gone.chain(come).collect();
    // Puts the old and the new line of a row together.
    lines.sort_by(|a, b| a.1.0.cmp(&b.1.0));
    for (sign, (heading, line)) in lines.iter().take(MOST) {
        let _ = writeln!(out, "{sign} {heading} | {}", line.trim());
    }
    if lines.len() > MOST {
        let _ = writeln!(out, "and {} lines more", lines.len() - MOST);
    }
    out
}

/// Returns each line with its heading.
fn places(text: &str) -> Vec<(String, String)> {
    let mut heading = "";
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            if !line.starts_with(' ') {
                heading = line;
            }
            (heading.to_owned(), line.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "mix: 2 runs of each row, seed 1\n\nclaim sooner: stands\n  holds: a: at least 10\n    1.200e1\n\
                          \nclaim more: not run\n\ncase cubic\n  short completion, ns: mean 5\n";

    #[test]
    fn a_claim_that_no_longer_stands_is_named_first() {
        assert_eq!(verdict(BEFORE, "sooner"), Some("stands"));
        assert_eq!(verdict(BEFORE, "soon"), None);
        assert_eq!(difference(BEFORE, BEFORE), "");
        let after =
            BEFORE.replace("sooner: stands", "sooner: does not stand").replace("mean 5", "mean 6");
        let difference = difference(BEFORE, &after);
        let lines: Vec<_> = difference.lines().collect();
        assert_eq!(lines[0], "claim sooner: stands before, does not stand now");
        assert!(lines.contains(&"- case cubic | short completion, ns: mean 5"), "{difference}");
        assert!(lines.contains(&"+ case cubic | short completion, ns: mean 6"), "{difference}");
    }
}

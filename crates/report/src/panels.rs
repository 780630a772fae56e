//! Panels: rows of the summary by the varied values that tell them apart, and what their charts have in common.

use std::fmt::Write as _;

use knee_results::manifest::{Axis, Chart, Manifest};
use knee_results::quoted as cell;

use crate::summary::Row;
use crate::text::{short_path, slug};

/// Panels of one chart; what is beyond is in the summary.
pub(crate) const MOST_PANELS: usize = 24;
/// The id of a chart with this title.
pub(crate) fn chart_id(manifest: &Manifest, title: &str, what: &str) -> String {
    format!("{}-chart-{}", slug(&manifest.experiment), slug(&format!("{title} {what}")))
}

/// Values that a panel is of, by index of the axis.
pub(crate) type At = [(usize, String)];

/// Combinations of the values of all axes but these that rows have, by index of the axis.
pub(crate) fn facets(axes: &[Axis], but: &[usize], rows: &[&Row]) -> Vec<Vec<(usize, String)>> {
    let mut all: Vec<Vec<(usize, String)>> = Vec::new();
    for row in rows {
        let at = row
            .at
            .iter()
            .enumerate()
            .filter(|(axis, _)| !but.contains(axis) && axes[*axis].values.len() > 1);
        let at: Vec<(usize, String)> = at.map(|(axis, value)| (axis, value.clone())).collect();
        if !all.contains(&at) {
            all.push(at);
        }
    }
    all
}

pub(crate) fn is_at(row: &Row, at: &At) -> bool {
    at.iter().all(|(axis, value)| row.at[*axis] == *value)
}

/// The values of a panel, in words.
pub(crate) fn panel_title(manifest: &Manifest, at: &At) -> String {
    let parts = at
        .iter()
        .map(|(axis, value)| format!("{} {value}", short_path(&manifest.axes[*axis].path)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Values without the unit that all of them have, and it as an axis shows it.
pub(crate) fn without_unit(values: &[String]) -> (Vec<String>, String) {
    let split = |value: &String| {
        let (number, unit) = value.split_once(' ')?;
        number.parse::<f64>().ok()?;
        Some((number.to_owned(), unit.to_owned()))
    };
    let parts: Option<Vec<(String, String)>> = values.iter().map(split).collect();
    match parts {
        Some(parts) if parts.windows(2).all(|pair| pair[0].1 == pair[1].1) => {
            let unit = parts.first().map_or_else(String::new, |(_, unit)| format!(", {unit}"));
            (parts.into_iter().map(|(number, _)| number).collect(), unit)
        }
        _ => (values.to_vec(), String::new()),
    }
}

pub(crate) fn csv(manifest: &Manifest, chart: &Chart, rows: &[&Row], unit: &str) -> String {
    let mut out = String::from("case");
    manifest.axes.iter().for_each(|axis| {
        let _ = write!(out, ",{}", cell(axis.column()));
    });
    let unit = if unit.is_empty() { String::new() } else { format!("_{unit}") };
    let _ = writeln!(
        out,
        ",subject,metric,{}{unit},ci95{unit},runs,cut_off,at_least{unit}",
        chart.stat
    );
    for row in rows {
        out.push_str(&cell(&row.case));
        row.at.iter().zip(&manifest.axes).for_each(|(value, axis)| {
            let _ = write!(out, ",{}", cell(&axis.cell(value)));
        });
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let ci95 = number(row.half(&chart.stat));
        let _ = writeln!(
            out,
            ",{},{},{},{ci95},{},{},{}",
            cell(&row.subject),
            row.metric,
            number(row.stat(&chart.stat)),
            row.runs,
            row.cut_off,
            number(row.at_least(&chart.stat))
        );
    }
    out
}

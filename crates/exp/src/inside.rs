//! What algorithms show of themselves, as columns of the series of connections.

use knee_algo::{Algorithm, DiagInfo};
use knee_file::one_of;
use knee_results::{ResultFile, manifest};

/// The values of these algorithms, each name with a unit once.
pub(crate) fn diagnostics(algorithms: &[&'static Algorithm]) -> Vec<DiagInfo> {
    let mut all: Vec<DiagInfo> = Vec::new();
    for diag in algorithms.iter().flat_map(|algorithm| algorithm.diag()) {
        if !all.iter().any(|known| is_same(known, diag)) {
            all.push(*diag);
        }
    }
    all
}

/// Whether two values stand in one column.
pub(crate) fn is_same(a: &DiagInfo, b: &DiagInfo) -> bool {
    (a.name, a.unit) == (b.name, b.unit)
}

/// The column of a value.
pub(crate) fn inside_column(diag: &DiagInfo) -> String {
    let unit = if diag.unit.is_empty() { String::new() } else { format!("_{}", diag.unit) };
    let name = format!("{}{unit}", diag.name);
    let is_taken = ResultFile::FlowSample.columns().contains(&name.as_str());
    format!("{}{name}", if is_taken { "inside_" } else { "" })
}

/// What a report is to draw under a name. Where two algorithms show it in different units it is two.
///
/// # Errors
/// For a name that is none of a column: what there is.
pub(crate) fn plots(
    name: &str,
    algorithms: &[&'static Algorithm],
) -> Result<Vec<manifest::Plot>, String> {
    let inside = diagnostics(algorithms);
    let own = ResultFile::FlowSample.columns();
    let plot = |column, unit: &str| {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        manifest::Plot { name, column, unit }
    };
    let found = inside.iter().filter(|diag| diag.name == name);
    let mut plots: Vec<_> = found.map(|diag| plot(inside_column(diag), diag.unit)).collect();
    if own.contains(&name) {
        plots.push(plot(name.to_owned(), ""));
    }
    if plots.is_empty() {
        return Err(one_of(name, inside.iter().map(|diag| diag.name).chain(own.iter().copied())));
    }
    Ok(plots)
}

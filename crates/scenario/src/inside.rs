//! Internal values of algorithms, as columns of the connections' series.

use knee_algo::{Algorithm, DiagInfo};
use knee_file::{Reason, one_of};
use knee_results::{ResultFile, manifest};

/// Returns the internal values of these algorithms. Each name with a unit appears once.
pub fn diagnostics(algorithms: &[&'static Algorithm]) -> Vec<DiagInfo> {
    let mut all: Vec<DiagInfo> = Vec::new();
    for diag in algorithms.iter().flat_map(|algorithm| algorithm.diag()) {
        if !all.iter().any(|known| is_same(known, diag)) {
            all.push(*diag);
        }
    }
    all
}

/// Returns whether two values share a column.
pub fn is_same(a: &DiagInfo, b: &DiagInfo) -> bool {
    (a.name, a.unit) == (b.name, b.unit)
}

/// Returns the columns of all values, in their order. All names are unique, and none equals another column of the
/// file, including those of varied keys.
pub fn inside_columns<'a>(all: &[DiagInfo], varied: impl Iterator<Item = &'a str>) -> Vec<String> {
    let own: Vec<&str> = ResultFile::FlowSample.columns().iter().copied().chain(varied).collect();
    let wanted = |diag: &DiagInfo| match diag.unit {
        "" => diag.name.to_owned(),
        unit => format!("{}_{unit}", diag.name),
    };
    let mut columns: Vec<String> = Vec::new();
    for diag in all {
        let mut name = wanted(diag);
        if own.contains(&&*name) {
            name = format!("inside_{name}");
        }
        let is_free = |name: &str| {
            // A name that is another value's own stays with that value.
            let is_others = |other: &&DiagInfo| !is_same(other, diag) && wanted(other) == *name;
            !own.contains(&name)
                && !columns.iter().any(|column| column == name)
                && (name == wanted(diag) || !all.iter().any(|other| is_others(&other)))
        };
        let free = match is_free(&name) {
            true => name,
            false => {
                let mut numbered = (2..).map(|number| format!("{name}_{number}"));
                numbered.find(|name| is_free(name)).unwrap_or(name)
            }
        };
        columns.push(free);
    }
    columns
}

/// Returns the plots for a name. If algorithms show it in different units, there is one plot per unit.
///
/// # Errors
/// Fails for a name that is no column, and lists the columns.
pub(crate) fn plots<'a>(
    name: &str,
    algorithms: &[&'static Algorithm],
    varied: impl Iterator<Item = &'a str>,
) -> Result<Vec<manifest::Plot>, Reason> {
    let inside = diagnostics(algorithms);
    let own = ResultFile::FlowSample.columns();
    let plot = |column, unit: &str, choices: &str| {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        let names = choices.split('|').filter(|name| !name.is_empty()).map(str::to_owned);
        manifest::Plot { name, column, unit, names: names.collect() }
    };
    let found =
        inside.iter().zip(inside_columns(&inside, varied)).filter(|(diag, _)| diag.name == name);
    let mut plots: Vec<_> =
        found.map(|(diag, column)| plot(column, diag.unit, diag.choices)).collect();
    if own.contains(&name) {
        plots.push(plot(name.to_owned(), "", ""));
    }
    if plots.is_empty() {
        return Err(one_of(name, inside.iter().map(|diag| diag.name).chain(own.iter().copied())));
    }
    Ok(plots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_column_of_its_own() {
        let diag = |name, unit| DiagInfo { name, unit, choices: "", is_signed: false };
        let all = [
            diag("cwnd", ""),
            diag("inside_cwnd", ""),
            diag("rtt", "us"),
            diag("rtt_us", ""),
            diag("rtt_us_2", ""),
            diag("alpha", ""),
            diag("params.beta", ""),
        ];
        let own = ResultFile::FlowSample.columns();
        assert!(own.contains(&"cwnd_pkts") || own.contains(&"cwnd"), "{own:?}");
        let columns = inside_columns(&all, ["params.beta"].into_iter());
        for (at, column) in columns.iter().enumerate() {
            assert!(
                !own.contains(&column.as_str()) && !columns[..at].contains(column),
                "{columns:?}"
            );
        }
        assert_eq!(columns[2..], ["rtt_us", "rtt_us_3", "rtt_us_2", "alpha", "inside_params.beta"]);
    }
}

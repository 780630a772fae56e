//! `--set`: values of the command line in place of the file's.

use std::path::Path;

use knee_file::{Node, Origin, Table, did_you_mean, parse_override};

use crate::cases::{Axis, Case, axis_values};
use crate::cc::set_param;
use crate::error::Error;
use crate::paths;

pub(crate) fn parse_set(path: &Path, set: &[String]) -> Result<Vec<(String, Node)>, Error> {
    set.iter()
        .map(|assignment| {
            let (key, value) = assignment.split_once('=').ok_or_else(|| {
                let shown: String = assignment.chars().take(60).collect();
                let message = "must be KEY=VALUE, as in network.bottleneck.rate=\"10 Gbps\"";
                Error::input(path, Origin::CommandLine, shown.escape_debug().to_string(), message)
            })?;
            Ok((key.trim().to_owned(), parse_override(value.trim())))
        })
        .collect()
}

/// Applies settings of the document itself, and returns those that apply after cases and varied values. For a varied
/// key, the value or list replaces the file's.
pub(crate) fn apply_set(
    path: &Path,
    root: &mut Node,
    axes: &mut [Axis],
    set: Vec<(String, Node)>,
) -> Result<Vec<(String, Node)>, Error> {
    let mut later = Vec::new();
    for (key, node) in set {
        let wrong = |why| Error::input(path, Origin::CommandLine, key.clone(), why);
        if let Some(axis) = axes.iter_mut().find(|axis| axis.path == key) {
            axis.values = axis_values(&node).map_err(wrong)?;
            axis.origin = node.origin;
            continue;
        }
        if key.split('.').next() == Some("vary") {
            return Err(wrong(
                "is the path of [vary]: set the varied key itself, as in traffic.short.size='[\"1 \
                    kB\"]'"
                    .into(),
            ));
        }
        paths::set(root, &key, &node).map_err(wrong)?;
        later.push((key, node));
    }
    Ok(later)
}

/// Splits off `params.NAME` of the cases, unless the file varies it.
pub(crate) fn split_params(set: Vec<(String, Node)>, axes: &[Axis]) -> (Table, Table) {
    set.into_iter().partition(|(key, _)| {
        key.starts_with("params.") && !axes.iter().any(|axis| axis.path == *key)
    })
}

/// Sets a parameter in every case whose algorithm has it.
pub(crate) fn set_params(
    path: &Path,
    cases: &mut [Case],
    params: &[(String, Node)],
) -> Result<(), knee_file::Error> {
    for (key, node) in params {
        let wrong = |message: String| {
            knee_file::Error::new(path, node.origin, key.clone(), message).with_value(node.show())
        };
        let name = key.strip_prefix("params.").unwrap_or(key);
        let mut known: Vec<&str> = Vec::new();
        let mut is_known = false;
        for cc in cases.iter_mut().filter_map(|case| case.cc.as_mut()) {
            let names = cc.algorithm.params().iter().map(|info| -> &str { info.name });
            known.extend(names.clone());
            if names.clone().any(|known| known == name) {
                is_known = true;
                set_param(cc, name, node).map_err(wrong)?;
            }
        }
        if !is_known {
            let near = did_you_mean(name, known);
            return Err(wrong(format!("no case has an algorithm with this parameter{near}")));
        }
    }
    Ok(())
}

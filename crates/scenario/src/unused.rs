//! Refuses values that would act on nothing.

use std::path::Path;

use crate::cases::{Axis, Case};
use crate::error::Error;

/// Returns the error about a case's algorithm under which no connection is. `own` are the traffic entries that name one
/// themselves.
pub(crate) fn cc(path: &Path, case: &Case, mut own: Vec<String>) -> Error {
    own.dedup();
    let names: Vec<String> = own.iter().map(|name| format!("\"{name}\"")).collect();
    let why = match names.split_last() {
        None => "no traffic entry has connections: leave it out".to_owned(),
        Some((only, [])) => {
            format!("traffic entry {only} names its own cc: leave that or this out")
        }
        Some((last, others)) => format!(
            "traffic entries {} and {last} name their own cc: leave that out in one of them, or leave this out",
            others.join(", ")
        ),
    };
    let cc = case.cc.as_ref().map(|cc| cc.name()).unwrap_or_default();
    let (key, origin) = &case.cc_from;
    let name = &case.name;
    let of_case = if *name == cc { String::new() } else { format!(" of case \"{name}\"") };
    Error::input(path, *origin, key, format!("\"{cc}\"{of_case} acts on nothing: {why}"))
}

/// Refuses keys of cases that a sweep varies, because the varied value replaces the case's in every row.
pub(crate) fn check_set(path: &Path, cases: &[Case], axes: &[Axis]) -> Result<(), Error> {
    for case in cases {
        for (key, node) in &case.set {
            let replaces = |varied: &&str| {
                key.strip_prefix(*varied)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let replaced_by = |axis: &Axis| {
                let varied = axis.paths().find(replaces)?;
                let by = axis.set_by();
                Some(format!(
                    "acts on nothing, because {by} has other values of {varied}: leave one out"
                ))
            };
            if let Some(why) = axes.iter().find_map(replaced_by) {
                return Err(Error::input(
                    path,
                    node.origin,
                    format!("case.{}.set.{key}", case.name),
                    why,
                ));
            }
        }
    }
    Ok(())
}

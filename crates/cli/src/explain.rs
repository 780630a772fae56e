//! `knee explain`: describes a published experiment or a file.

use std::path::PathBuf;
use std::sync::Arc;

use knee_catalogue::PUBLISHED;
use knee_evidence::explain;
use knee_scenario::Overrides;
use knee_scenario::built_in::Resolved;

use crate::complete;
use crate::library::find;
use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment (knee scenarios).
    #[arg(value_name = "EXPERIMENT", add = complete::experiment())]
    experiment: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let library = knee_catalogue::library()?;
    // The memory limit is lifted, because the description includes the memory that the experiment needs.
    // Algorithm files are only read, because the user may not trust the experiment yet.
    let overrides =
        Overrides { memory_bytes: Some(u64::MAX), only_reads: true, ..Overrides::default() };
    let found = find(&args.experiment)?;
    let (experiment, command, of_library) = match found {
        Resolved::BuiltIn(one) if one.group == PUBLISHED => {
            let (name, experiment) = (one.name, library.load(one.name, &overrides)?);
            let quick = experiment.quick.is_some();
            let quick = if quick { format!("knee reproduce {name}\n  ") } else { String::new() };
            (experiment, format!("{quick}knee reproduce {name} --full"), name)
        }
        _ => {
            let command = format!("knee run {}", args.experiment.display());
            (Arc::new(found.load(&overrides)?), command, "")
        }
    };
    let blessed = |claim: &str| library.blessed(of_library, claim);
    print(&explain::explain(&experiment, &command, &blessed)?)
}

//! `knee explain`: a published experiment, or a file, in words.

use std::path::Path;
use std::sync::Arc;

use knee_exp::{Experiment, Overrides, explain};

use crate::library::library;
use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A published experiment, as knee reproduce --list names it, or an experiment file.
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let library = library()?;
    let name = args.experiment.as_str();
    let is_file = name.contains('/') || name.ends_with(".toml");
    // How much memory it takes is one of the things to be said.
    let overrides = Overrides { memory_bytes: Some(u64::MAX), ..Overrides::default() };
    // It is asked for before anybody trusts the file.
    knee_algo::module::only_read();
    let (experiment, command) = match is_file {
        true => {
            let experiment = Experiment::load(Path::new(name), &overrides)?;
            (Arc::new(experiment), format!("knee run {name}"))
        }
        false => {
            let experiment = library.load(name, &overrides)?;
            let quick = experiment.quick.is_some();
            let quick = if quick { format!("knee reproduce {name}\n  ") } else { String::new() };
            (experiment, format!("{quick}knee reproduce {name} --full"))
        }
    };
    let blessed = |claim: &str| library.blessed(name, claim);
    print(&explain::explain(&experiment, &command, &blessed)?)
}

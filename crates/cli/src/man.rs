//! `knee man`: writes `--help` as manual pages, for packages.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An empty directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes one page for the command and one for each subcommand, such as knee-run.1.
pub(crate) fn run<C: CommandFactory>(args: &Args) -> Result<(), Failure> {
    // Pages from the same source are the same on any day.
    let mut command = C::command().disable_help_subcommand(true);
    command.build();
    write(&args.dir, &command, "knee")
}

fn write(dir: &Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let page = Man::new(command.clone().name(name.to_owned())).date("").source("knee");
    let mut text = Vec::new();
    let path = dir.join(format!("{name}.1"));
    let failed =
        |why: std::io::Error| Failure::Says(format!("{}: cannot write: {why}", path.display()));
    page.render(&mut text).map_err(failed)?;
    knee_files::write_new(&path, &text).map_err(failed)?;
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown
        .map(|sub| (format!("{name}-{}", sub.get_name()), sub))
        .try_for_each(|(name, sub)| write(dir, sub, &name))
}

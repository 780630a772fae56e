//! The commands that work on the running kernel.

mod status;

use clap::Subcommand;

use crate::{DONE, Failure};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what knee has loaded into this kernel, and who uses it.
    Status(status::Args),
}

impl Command {
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        match self {
            Command::Status(args) => status::run(args).map(|()| DONE),
        }
    }
}

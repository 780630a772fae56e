//! Replacements for the kernel commands in a knee that was built without the kernel side.

use clap::Subcommand;

use crate::Failure;

/// Error of every command of the kernel side.
pub(crate) const WHY: &str = "this knee has no kernel side, because libelf, zlib or pkg-config was \
                              missing: run make setup, then make build";

#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(hide = true)]
    Load(Arguments),
    #[command(hide = true)]
    Confirm(Arguments),
    #[command(hide = true)]
    Unload(Arguments),
    #[command(hide = true)]
    Status(Arguments),
    #[command(hide = true)]
    Policy(Arguments),
    #[command(hide = true)]
    Top(Arguments),
    #[command(hide = true)]
    Trace(Arguments),
    #[command(hide = true)]
    Migrate(Arguments),
}

/// Whatever was given.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<String>,
}

impl Command {
    #[allow(clippy::unused_self, reason = "all give the same error")]
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        Err(Failure::Says(WHY.to_owned()))
    }
}

//! Replacements for the kernel commands in a knee that was built without the kernel side.

use clap::Subcommand;

use crate::Failure;
use crate::kernel_commands::kernel_commands;

/// Error of every command of the kernel side.
pub(crate) const WHY: &str = "this knee has no kernel side, because libelf, zlib or pkg-config was \
                              missing: run make setup, then make build";

macro_rules! command {
    ($($(#[$about:meta])* $name:ident($module:ident),)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $(#[command(hide = true)] $name(Arguments),)*
        }
    };
}
kernel_commands!(command);

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

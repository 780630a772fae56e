//! Replacements for the commands that a knee was built without.

use clap::Subcommand;

use crate::Failure;
use crate::kernel_commands::kernel_commands;

/// Error of every command of the kernel side.
pub(crate) const KERNEL: &str = if cfg!(feature = "tools") {
    "this knee has no kernel side, because libelf, zlib or pkg-config was missing: run make setup, then make build"
} else {
    TOOLS
};

/// Error of whatever simulated experiments do not need.
pub(crate) const TOOLS: &str =
    "this knee is the simulator alone, as make run builds it: run make build";

macro_rules! command {
    ($($(#[$about:meta])* $name:ident($module:ident),)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $(#[command(hide = true)] $name(Args),)*
        }
    };
}
kernel_commands!(command);

/// Whatever was given.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<String>,
}

impl Command {
    #[allow(clippy::unused_self, reason = "all give the same error")]
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        Err(Failure::Says(KERNEL.to_owned()))
    }
}

#[cfg(not(feature = "tools"))]
pub(crate) fn run(_: &Args) -> Result<u8, Failure> {
    Err(Failure::Says(TOOLS.to_owned()))
}

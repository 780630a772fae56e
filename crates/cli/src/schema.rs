//! `knee schema`: what the files that people write may say.

use clap::ValueEnum;
use knee_exp::experiment;

use crate::{Failure, print};

const ABOUT: &str = "\
# Keys

Every key of the files that knee reads: experiments, machines (`--on hosts=FILE`) and policies. `knee schema --page` makes this page of the
descriptions that reading itself goes by; `make bless` writes it. [scenarios/README.md](../scenarios/README.md),
[hosts.md](hosts.md) and [policy.md](policy.md) say how keys act together.

A key that is not known is an error. A size is a number and `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`, a rate one and `bps`, `kbps`, `Mbps` or `Gbps`, a
time one and `ps`, `ns`, `us`, `ms`, `s` or `min`, all of them in quotes. In `[network]`, `[hosts]`, `[[traffic]]`, `[run]` and `[sample]` a case or a varied
value may give what must be written.
";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which kind of file.
    #[arg(value_name = "KIND", value_enum, default_value_t)]
    kind: Kind,
    /// All keys of all kinds as a page (Markdown), in place of a schema.
    #[arg(long, conflicts_with = "kind")]
    page: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Kind {
    /// What `knee run` runs.
    #[default]
    Experiment,
    /// The machines of `knee run --on hosts=FILE`.
    #[cfg(feature = "kernel")]
    Hosts,
    /// The rules of `knee policy apply FILE`.
    #[cfg(feature = "kernel")]
    Policy,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.page {
        let parts = Kind::value_variants().iter().map(|kind| kind.file().page());
        return print(&format!("{ABOUT}{}", parts.collect::<String>()));
    }
    print(&format!("{:#}\n", args.kind.file().schema()))
}

impl Kind {
    fn file(self) -> knee_file::schema::File {
        match self {
            Kind::Experiment => experiment::FILE,
            #[cfg(feature = "kernel")]
            Kind::Hosts => knee_lab::hosts::FILE,
            #[cfg(feature = "kernel")]
            Kind::Policy => knee_bpf::policy::FILE,
        }
    }
}

//! `knee schema`: what the files that people write may say.

use clap::ValueEnum;
use knee_exp::experiment;
use knee_file::schema::all_entries;
use knee_file::units::all_in_words;

use crate::{Failure, print};

const ABOUT: &str = "\
# Keys

Every key of the files that knee reads: experiments, machines (`--on hosts=FILE`) and policies. `knee schema --page` makes this page of the
descriptions that reading itself goes by; `make bless` writes it. [scenarios/README.md](../scenarios/README.md),
[hosts.md](hosts.md) and [policy.md](policy.md) say how keys act together.

A key that is not known is an error.
";

/// What holds for many keys.
fn about_values() -> String {
    let [size, rate, time] = all_in_words();
    let entries = all_entries(experiment::FILE.root);
    let is_list =
        |key: &str| entries.iter().any(|entry| entry.key == key && entry.schema["type"] == "array");
    let shown =
        |key: &&str| if is_list(key) { format!("`[[{key}]]`") } else { format!("`[{key}]`") };
    let filled_in: Vec<String> = experiment::FILE.filled_in.iter().map(shown).collect();
    format!(
        "\nA size is a number and {size}, a rate one and {rate}, a time one and {time}, all of them in quotes.\n\n\
         A case or a varied value may give what must be written in {}.\n",
        filled_in.join(", ")
    )
}

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
        return print(&format!("{ABOUT}{}{}", about_values(), parts.collect::<String>()));
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

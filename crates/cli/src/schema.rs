//! `knee schema`: prints the keys of the files that people write.

use clap::ValueEnum;
use knee_file::keys::Name;
use knee_file::schema::all_entries;
use knee_file::units::all_in_words;
use knee_scenario::experiment;

use crate::{Failure, print};

const ABOUT: &str = "\
# Keys

All keys of the files that knee reads: experiments, machines (`--on hosts=FILE`) and policies. `make bless` writes this page from the
descriptions in the code. More: [scenarios/README.md](../scenarios/README.md), [hosts.md](hosts.md), [policy.md](policy.md).

An unknown key is an error.
";

/// Describes units, and tables whose required keys cases may give.
fn about_values() -> String {
    let [size, rate, time] = all_in_words();
    let entries = all_entries(experiment::FILE.root);
    let is_list =
        |key: &str| entries.iter().any(|entry| entry.key == key && entry.schema["type"] == "array");
    let shown =
        |key: &&str| if is_list(key) { format!("`[[{key}]]`") } else { format!("`[{key}]`") };
    let filled_in: Vec<String> = experiment::FILE.filled_in.iter().map(shown).collect();
    format!(
        "\nValues with units are in quotes. Units of a size: {size}. Of a rate: {rate}. Of a time: {time}. A name has {}.\n\n\
         Each case, or `[vary]`, may give a required key of {} instead.\n",
        Name::words('`'),
        filled_in.join(", ")
    )
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kind of file.
    #[arg(value_name = "KIND", value_enum, default_value_t)]
    kind: Kind,
    /// Print all keys of all kinds as a page (Markdown) instead of a schema.
    #[arg(long, conflicts_with = "kind")]
    page: bool,
    /// Print what each back end does with each key as a page (Markdown).
    #[arg(long, conflicts_with_all = ["kind", "page"])]
    support: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Kind {
    /// Files of `knee run`.
    #[default]
    Experiment,
    /// Machines of `knee run --on hosts=FILE`.
    #[cfg(feature = "kernel")]
    Hosts,
    /// Rules of `knee policy apply FILE`.
    #[cfg(feature = "kernel")]
    Policy,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.page {
        let parts = Kind::value_variants().iter().map(|kind| kind.file().page());
        return print(&format!("{ABOUT}{}{}", about_values(), parts.collect::<String>()));
    }
    if args.support {
        return print(&knee_run::support::page());
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

//! `knee new`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Subcommand;
use knee_algo::template;

use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: NewFile,
}

#[derive(Subcommand)]
enum NewFile {
    /// A new algorithm. In a clone of knee: its file, test, experiment, page and row. Elsewhere: a directory NAME
    /// with NAME.c and NAME.toml.
    Algorithm {
        /// Its name: lower-case letters, digits and _, at most 10 characters.
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let NewFile::Algorithm { name } = &args.what;
    let says = |why: knee_algo::Error| Failure::Says(why.to_string());
    let here = Path::new(".");
    let (written, next) = match template::clone_root(here) {
        Some(root) => (template::write_in_clone(&root, name).map_err(says)?, steps_in_clone(name)),
        None => (template::write_here(here, name).map_err(says)?, steps_here(name)),
    };
    let mut out = String::from("written:\n");
    for path in written {
        let _ = writeln!(out, "  {path}");
    }
    print(&format!("{out}\n{next}"))
}

fn steps_in_clone(name: &str) -> String {
    format!(
        "It is Reno with two parameters. Now, from the root of the clone:\n\
         \x20 cargo test -p knee-algo --test {name}           tests its formula: replace it\n\
         \x20 make build && target/release/knee run scenarios/examples/{name}.toml\n\
         \x20 target/release/knee check algorithms/{name}.c   finds what BPF refuses\n\
         \x20 sudo target/release/knee load {name}            into this kernel, as knee_{name}\n\
         \x20 KNEE_REQUIRE_KERNEL=1 cargo test --workspace --test verifier -- --nocapture\n\
         \x20     as root: prints its figures for crates/bpf/tests/verifier_baseline.toml\n\
         Then write its page, its row and a line in CHANGELOG.md.\n"
    )
}

fn steps_here(name: &str) -> String {
    format!(
        "It is Reno with two parameters. Now, in {name}:\n\
         \x20 knee run {name}.toml         compiles it and compares it with reno\n\
         \x20 knee run incast --quick --cc ./{name}.c,cubic\n\
         \x20     in a built-in experiment: knee scenarios lists them\n\
         \x20 knee check {name}.c          finds what BPF refuses\n\
         \x20 sudo knee load ./{name}.c    into this kernel, as knee_{name}\n"
    )
}

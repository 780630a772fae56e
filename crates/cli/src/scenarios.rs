//! `knee scenarios`: lists, prints and writes the built-in experiments.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use knee_catalogue::{BUILT_IN, PUBLISHED, resolve};
use knee_files::Dir;
use knee_scenario::Overrides;
use knee_scenario::built_in::{BuiltIn, Resolved};

use crate::complete;
use crate::{Failure, print};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the file of this experiment [default: list all]
    #[arg(value_name = "NAME", add = complete::built_in())]
    name: Option<PathBuf>,
    /// Write it to this file or into this directory. Without a name, write all into a directory. Existing files stay.
    #[arg(long, value_name = "DIR|FILE")]
    write: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (&args.name, &args.write) {
        (None, None) => print(&list()?),
        (None, Some(dir)) => {
            write_all(dir)?;
            print(&format!("{} experiments in {}\n", BUILT_IN.len(), dir.display()))
        }
        (Some(name), None) => print(built_in(name)?.text),
        (Some(name), Some(path)) => {
            let one = built_in(name)?;
            let is_dir = path.is_dir() || path.to_string_lossy().ends_with('/');
            let path = if is_dir { path.join(file_of(&one)) } else { path.clone() };
            knee_files::write_new(&path, one.text).map_err(|why| cannot(&path, &why))?;
            print(&format!("{}\n", path.display()))
        }
    }
}

/// Finds a built-in experiment by name, whatever files exist.
fn built_in(word: &Path) -> Result<BuiltIn, Failure> {
    match resolve(word)? {
        Resolved::BuiltIn(one) => Ok(one),
        Resolved::File(_) => {
            let named = BUILT_IN.iter().find(|one| word.as_os_str() == one.name).copied();
            let shown = word.display();
            named.ok_or_else(|| {
                Failure::Says(format!(
                    "{shown}: no built-in experiment has this name: knee scenarios lists them"
                ))
            })
        }
    }
}

fn file_of(one: &BuiltIn) -> String {
    format!("{}.toml", one.name)
}

fn list() -> Result<String, Failure> {
    let mut out = String::new();
    let mut group = "";
    let widest = BUILT_IN.iter().map(|one| shown_name(one).len()).max().unwrap_or(0);
    for one in BUILT_IN {
        if one.group != group {
            group = one.group;
            let title = match group {
                PUBLISHED => "published: published experiments; knee reproduce runs them",
                "hosts" => "hosts: for real machines (--on hosts=FILE)",
                _ => "examples: one feature of knee each",
            };
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}{title}");
        }
        let overrides = Overrides { memory_bytes: Some(u64::MAX), ..Overrides::default() };
        let experiment = Resolved::BuiltIn(*one).load(&overrides)?;
        let _ = writeln!(out, "  {:<widest$}  {}", shown_name(one), experiment.question);
    }
    out.push_str(
        "\nknee run NAME runs one, knee explain NAME describes it, knee scenarios NAME --write \
            FILE writes its file.\n",
    );
    Ok(out)
}

/// Returns the shortest name that finds the experiment: without its group, if unique.
fn shown_name(one: &BuiltIn) -> String {
    match BUILT_IN.iter().find(|other| other.name == one.name) {
        Some(first) if first.group == one.group => one.name.to_owned(),
        _ => one.full_name(),
    }
}

/// Writes all experiments, in a folder per group. Writes nothing if one of the files exists.
fn write_all(path: &Path) -> Result<(), Failure> {
    let dir = match knee_files::make_dir(path) {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Dir::open(path),
        made => made,
    };
    let dir = dir.map_err(|why| cannot(path, &why))?;
    for groups in BUILT_IN.chunk_by(|a, b| a.group == b.group) {
        let group = groups[0].group;
        let name = OsStr::new(group);
        let folder = match dir.make(name) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists => dir.open_dir(name),
            other => other,
        };
        let folder = folder.map_err(|why| cannot(&path.join(group), &why))?;
        let names = folder.names().map_err(|why| cannot(&path.join(group), &why))?;
        if let Some(one) = groups.iter().find(|one| names.iter().any(|n| *n == *file_of(one))) {
            return Err(cannot(&path.join(group).join(file_of(one)), &there_already()));
        }
        for one in groups {
            let written = folder
                .create(OsStr::new(&file_of(one)))
                .and_then(|mut file| file.write_all(one.text.as_bytes()));
            written.map_err(|why| cannot(&path.join(group).join(file_of(one)), &why))?;
        }
    }
    Ok(())
}

fn there_already() -> io::Error {
    ErrorKind::AlreadyExists.into()
}

fn cannot(path: &Path, why: &io::Error) -> Failure {
    let path = path.display();
    Failure::Says(match why.kind() {
        ErrorKind::AlreadyExists => {
            format!("{path}: exists, and knee replaces no file: choose another name")
        }
        _ => format!("{path}: cannot write: {why}"),
    })
}

//! What shells complete: names of experiments, algorithms and results, besides options.

use std::ffi::OsStr;
use std::fs;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use knee_algo::Algorithm;
use knee_catalogue::BUILT_IN;

/// Most results that are offered.
const MOST_RESULTS: usize = 1000;

/// A built-in experiment, by its name.
pub(crate) fn built_in() -> ArgValueCompleter {
    ArgValueCompleter::new(built_ins)
}

/// An experiment: a built-in one, or a file.
pub(crate) fn experiment() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let is_one = |path: &std::path::Path| path.extension() == Some(OsStr::new("toml"));
        both(built_ins(begun), PathCompleter::file().filter(is_one).complete(begun))
    })
}

/// An algorithm: a built-in one, or a C file.
pub(crate) fn algorithm() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let is_c = |path: &std::path::Path| path.extension() == Some(OsStr::new("c"));
        let names = Algorithm::all().iter().map(|one| CompletionCandidate::new(one.name()));
        both(like(names, begun), PathCompleter::file().filter(is_c).complete(begun))
    })
}

/// A results directory: one below results, by its name, or another one.
pub(crate) fn results() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let entries = fs::read_dir("results").into_iter().flatten().flatten().take(MOST_RESULTS);
        let names = entries.map(|entry| CompletionCandidate::new(entry.file_name()));
        both(like(names, begun), PathCompleter::dir().complete(begun))
    })
}

fn built_ins(begun: &OsStr) -> Vec<CompletionCandidate> {
    like(BUILT_IN.iter().map(|one| CompletionCandidate::new(one.name)), begun)
}

/// Keeps those that begin with this.
fn like(all: impl Iterator<Item = CompletionCandidate>, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.as_encoded_bytes();
    all.filter(|one| one.get_value().as_encoded_bytes().starts_with(begun)).collect()
}

fn both(
    mut names: Vec<CompletionCandidate>,
    paths: Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    names.extend(paths);
    names
}

//! Commands that work on the running kernel.

mod confirm;
mod load;
mod migrate;
mod plb;
mod policy;
mod select;
mod status;
mod top;
mod trace;
mod unload;

use clap::Subcommand;
use knee_algo::Algorithm;
use knee_bpf::Source;
use knee_bpf::host::{Entry, Host};
use serde_json::{Map, Value as Json, json};

use crate::kernel_commands::kernel_commands;
use crate::{Failure, plain};

/// Digits of a SHA-256 in text output. JSON has all.
const HASH_SHOWN: usize = 16;

macro_rules! command {
    ($($(#[$about:meta])* $name:ident($module:ident),)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($(#[$about])* $name($module::Args),)*
        }

        impl Command {
            pub(crate) fn run(&self) -> Result<u8, Failure> {
                match self {
                    $(Command::$name(args) => $module::run(args),)*
                }
            }
        }
    };
}
kernel_commands!(command);

/// Describes set parameters, as `, shift_g=4 alpha_on_init=1024`.
fn set_to(entry: &Entry) -> String {
    let words: Vec<String> = shown_params(entry).map(|(n, value)| format!("{n}={value}")).collect();
    if words.is_empty() { String::new() } else { format!(", {}", words.join(" ")) }
}

/// Returns a line if this command has mounted a BPF file system.
fn mounted(host: &Host) -> String {
    host.mounted().map_or_else(String::new, |at| {
        format!(
            "  knee mounted a BPF file system at {}; the last unload unmounts it\n",
            at.display()
        )
    })
}

fn mounted_json(host: &Host) -> Json {
    host.mounted().map(|at| at.to_string_lossy().into_owned()).into()
}

fn entry_json(entry: &Entry) -> Json {
    let params: Map<String, Json> =
        shown_params(entry).map(|(name, value)| (name, Json::from(value))).collect();
    let mut object = json!({
        "name": entry.name,
        "algorithm": entry.algorithm,
        "params": params,
        "fallback": entry.fallback,
        "loaded_at_unix_s": entry.loaded_at_unix_s,
        "complete": entry.complete,
        "cgroup": entry.cgroup.as_ref().map(|path| path.to_string_lossy()),
    });
    if let Some(source) = &entry.source {
        object["source"] = source_json(source);
    }
    object
}

fn source_json(source: &Source) -> Json {
    let path = source.path.as_ref().map(|path| path.to_string_lossy());
    json!({ "file": source.file, "sha256": source.sha256, "path": path })
}

/// Describes the source, as `/x/foo.c, sha256 2c26b46b68ffc68f...`, or for an object `/x/foo.bpf.o, made of foo.c,
/// sha256 ...`.
fn made_of(source: &Source) -> String {
    let hash = source.sha256.get(..HASH_SHOWN).unwrap_or_default();
    let file = &source.file;
    let of = match &source.path {
        Some(path) if path.extension().is_some_and(|extension| extension == "o") => {
            format!("{}, made of {file}", path.display())
        }
        Some(path) => path.display().to_string(),
        None => file.clone(),
    };
    format!("{}, sha256 {hash}...", plain(&of))
}

/// Returns parameters in their written form, without the fallback that the host's default overrides.
fn shown_params(entry: &Entry) -> impl Iterator<Item = (String, String)> {
    shown(&entry.algorithm, &entry.params, entry.fallback.is_some())
}

fn shown(
    algorithm: &str,
    params: &[(String, u32)],
    fallback_overridden: bool,
) -> impl Iterator<Item = (String, String)> {
    let algorithm = Algorithm::by_name(algorithm).ok();
    let shown = params.iter().filter(move |(name, _)| !(fallback_overridden && name == "fallback"));
    shown.map(move |(name, value)| {
        let info = algorithm.and_then(|a| a.params().iter().find(|param| param.name == *name));
        (name.clone(), info.map_or_else(|| value.to_string(), |info| info.show(*value)))
    })
}

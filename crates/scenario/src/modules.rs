//! Compiler options for algorithm files, from an experiment and the command line.

use std::path::Path;

use knee_algo::module::{Api, LinuxApi, Modules, Options, is_path};
use knee_file::keys::{Key, List, Text};
use knee_file::{Error, Origin, Reader, keys};

use crate::cc::cc_named;

keys! {
    /// What the files of algorithms are compiled with.
    pub(crate) static MODULE: ModuleKeys = "module" {
        /// Macros: `NAME` or `NAME=VALUE`.
        define: Key<List<Text>>,
        /// Header folders, relative to the experiment's file.
        include: Key<List<Text>>,
        /// Linux release of their API, as `4.19`.
        linux: Key<Text> = usually("6.12, or 6.1 if only that compiles"),
        /// Their API: `linux`, or `v3` (google/bbr v3 and L4S).
        api: Key<Text> = usually("by the names that a file uses"),
    }
}

/// Reads the table `[module]`.
fn read(reader: Option<Reader<'_>>) -> Result<Options, Error> {
    let Some(reader) = reader else { return Ok(Options::default()) };
    let reader = reader.only(&[&MODULE])?;
    let mut options = Options::default();
    for define in reader.texts(&MODULE.define)?.unwrap_or_default() {
        Options::check_define(define).map_err(|why| reader.error(&MODULE.define, why))?;
        options.define.push(define.to_owned());
    }
    let folder = reader.file().parent().unwrap_or(Path::new(""));
    for include in reader.texts(&MODULE.include)?.unwrap_or_default() {
        options.include.push(folder.join(include));
    }
    if let Some(linux) = reader.text(&MODULE.linux)? {
        let linux = LinuxApi::named(linux).map_err(|why| reader.error(&MODULE.linux, why))?;
        options.linux = Some(linux);
    }
    if let Some(api) = reader.text(&MODULE.api)? {
        options.api = Some(Api::named(api).map_err(|why| reader.error(&MODULE.api, why))?);
    }
    Ok(options)
}

/// Returns the algorithm files of an experiment, with the options of the command line. They are still unread, but for
/// those that are `trusted`, if others are refused.
pub(crate) fn files(
    file: &Path,
    table: Option<Reader<'_>>,
    asked: &Options,
    trusted: Option<&[String]>,
) -> Result<Modules, Error> {
    let own = read(table)?;
    let Some(trusted) = trusted else { return Ok(Modules::new(with(own, asked))) };
    if trusted.iter().any(|name| is_path(name)) {
        // What an experiment defines and includes could make another code of a trusted file.
        let untrusted = |key: &str, way_out: &str| {
            let why = format!("could change the code of a file that --cc names: {way_out}");
            Err(Error::new(file, Origin::Nowhere, format!("module.{key}"), why))
        };
        if !own.include.is_empty() {
            return untrusted("include", "name the folders with --cc-include");
        }
        if !own.define.iter().all(|define| Options::is_number(define)) {
            return untrusted("define", "here macros are numbers, or are named with --cc-define");
        }
    }
    let files = Modules::new(with(own, asked));
    for name in trusted.iter().filter(|name| is_path(name)) {
        cc_named(name, Path::new(""), &files).map_err(|why| {
            why.of(|first| {
                let value = format!("{:?}", name.chars().take(40).collect::<String>());
                Error::new(file, Origin::Nowhere, "--cc", first).with_value(value)
            })
        })?;
    }
    Ok(files.only_reading())
}

/// Combines an experiment's options with those of the command line, whose release and API take precedence.
fn with(mut own: Options, asked: &Options) -> Options {
    own.define.extend(asked.define.iter().cloned());
    own.include.extend(asked.include.iter().cloned());
    own.linux = asked.linux.or(own.linux);
    own.api = asked.api.or(own.api);
    own
}

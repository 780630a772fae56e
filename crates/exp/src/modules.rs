//! Compiler options for algorithm files, from an experiment and the command line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use knee_algo::module::{Api, LinuxApi, Options};
use knee_file::keys::{Key, List, Text};
use knee_file::{Error, Reader, keys};

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

/// Options of each experiment file read so far. They are kept because each run reads files again, after other
/// experiments were read.
static OF_FILES: Mutex<Option<HashMap<PathBuf, Options>>> = Mutex::new(None);

/// Reads the table `[module]`.
pub(crate) fn read(reader: Option<Reader<'_>>) -> Result<Options, Error> {
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

/// Combines an experiment's options with those of the command line, whose release and API take precedence.
pub(crate) fn with(mut own: Options, asked: &Options) -> Options {
    own.define.extend(asked.define.iter().cloned());
    own.include.extend(asked.include.iter().cloned());
    own.linux = asked.linux.or(own.linux);
    own.api = asked.api.or(own.api);
    own
}

/// Sets the options for algorithm files of this experiment, combined with those of the command line.
pub(crate) fn set(path: &Path, own: Options, asked: &Options) {
    let own = with(own, asked);
    let mut all = OF_FILES.lock().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert(path.to_owned(), own);
}

/// Returns the options of an experiment's file.
pub(crate) fn of(path: &Path) -> Options {
    let all = OF_FILES.lock().unwrap_or_else(PoisonError::into_inner);
    all.as_ref().and_then(|all| all.get(path).cloned()).unwrap_or_default()
}

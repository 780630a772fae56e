//! What words of the command line mean: experiments, and directories of results.

use std::path::{Path, PathBuf};

use knee_scenario::built_in::Resolved;

use crate::{Failure, complain};

/// Works like [`knee_catalogue::resolve`] for an experiment that is used, and says so if a file `NAME.toml` may have been meant.
pub(crate) fn find(word: &Path) -> Result<Resolved<'_>, Failure> {
    let found = knee_catalogue::resolve(word)?;
    if let Resolved::BuiltIn(one) = found {
        let file = format!("{}.toml", one.name);
        if word.as_os_str() == one.name && Path::new(&file).is_file() {
            complain(&format!(
                "knee: note: {0} is the built-in experiment; write ./{file} for the file of this directory",
                one.name
            ));
        }
    }
    Ok(found)
}

/// Default directory for results.
pub(crate) const RESULTS: &str = "results";

/// Resolves a word of the command line to a results directory: an existing path, or else a name below `results`.
pub(crate) fn results(word: &Path) -> PathBuf {
    let is_name = word.components().count() == 1 && word.file_name().is_some();
    let below = Path::new(RESULTS).join(word);
    match is_name && word.symlink_metadata().is_err() && below.is_dir() {
        true => below,
        false => word.to_owned(),
    }
}

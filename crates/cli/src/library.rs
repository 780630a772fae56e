//! The experiments, as they were when knee was built.

use std::path::{Path, PathBuf};

use knee_evidence::catalogue::Library;
use knee_scenario::built_in::{self, BuiltIn, Resolved};

use crate::{Failure, complain};

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Returns the published experiments, with their catalogue and golden results.
pub(crate) fn library() -> Result<Library, Failure> {
    let published = BUILT_IN.iter().filter(|one| one.group == PUBLISHED);
    let published = published.map(|one| (one.name, one.text)).chain([CATALOGUE]);
    Ok(Library::new(published, GOLDEN.iter().copied())?)
}

/// Name of the group of published experiments.
pub(crate) const PUBLISHED: &str = "published";

/// Resolves a word of the command line: an existing path, or the name of a built-in experiment.
pub(crate) fn resolve(word: &Path) -> Result<Resolved<'_>, Failure> {
    Ok(built_in::find(word, BUILT_IN)?)
}

/// Works like [`resolve`] for an experiment that is used, and says so if a file `NAME.toml` may have been meant.
pub(crate) fn find(word: &Path) -> Result<Resolved<'_>, Failure> {
    let found = resolve(word)?;
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

#[cfg(test)]
mod tests {
    use knee_scenario::Overrides;

    use super::*;

    #[test]
    fn every_published_experiment_loads_whole_and_in_its_quick_part() {
        let library = library().unwrap_or_else(|why| panic!("{why}"));
        let folder = "files of scenarios/published that catalogue.toml does not list";
        assert!(library.unlisted.is_empty(), "{folder}: {:?}", library.unlisted);
        for name in library.names() {
            for quick in [false, true] {
                let overrides = Overrides { quick, ..Overrides::default() };
                let loaded = library.load(name, &overrides);
                loaded.unwrap_or_else(|why| panic!("{why}"));
            }
        }
        // Every golden result belongs to an existing experiment and covers all of its claims.
        for (name, _) in GOLDEN {
            let experiment = library.load(name, &Overrides::default()).unwrap();
            for claim in &experiment.claims {
                assert!(
                    library.blessed(name, &claim.name).is_some(),
                    "{name}: {}: make bless",
                    claim.name
                );
            }
        }
    }
}

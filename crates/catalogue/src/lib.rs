//! The experiments that knee brings, as they were when it was built: published ones with their golden results, examples, and
//! those for servers.
#![forbid(unsafe_code)]

use std::path::Path;

use knee_evidence::catalogue::Library;
use knee_scenario::Error;
use knee_scenario::built_in::{self, BuiltIn, Resolved};

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Name of the group of published experiments.
pub const PUBLISHED: &str = "published";

/// Returns the published experiments, with their catalogue and golden results.
///
/// # Errors
/// None for the files of a release.
pub fn library() -> Result<Library, Error> {
    let published = BUILT_IN.iter().filter(|one| one.group == PUBLISHED);
    let published = published.map(|one| (one.name, one.text)).chain([CATALOGUE]);
    Library::new(published, GOLDEN.iter().copied())
}

/// Resolves a word of a user: an existing path, or the name of a built-in experiment.
///
/// # Errors
/// [`Error::Input`] with the nearest names, if the word is neither and does not look like a path.
pub fn resolve(word: &Path) -> Result<Resolved<'_>, Error> {
    built_in::find(word, BUILT_IN)
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

//! The published experiments, as they were when this was built.

use knee_exp::catalogue::Library;

use crate::Failure;

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// All of them, with their catalogue and what was blessed.
pub(crate) fn library() -> Result<Library, Failure> {
    Ok(Library::new(EXPERIMENTS.iter().copied(), GOLDEN.iter().copied())?)
}

#[cfg(test)]
mod tests {
    use knee_exp::Overrides;

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
        // A result that is kept is of an experiment that there is, and of all of its claims.
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

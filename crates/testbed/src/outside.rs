//! The algorithm of somebody's own file that the tests over all algorithms take along.

use std::path::PathBuf;

use knee_algo::{Algorithm, module};
use knee_bpf::Embedded;

/// Name of the algorithm.
pub const NAME: &str = "gentle";

/// File of the algorithm.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/algorithms/gentle.c")
}

/// As the simulator has it.
///
/// # Panics
/// If it does not compile.
pub fn native() -> &'static Algorithm {
    module::load(&path()).unwrap()
}

/// The object of that file, if this machine has no compiler and another one made it (`scripts/test-kernels`).
pub fn made_elsewhere() -> Option<PathBuf> {
    std::env::var_os("KNEE_OUTSIDE_OBJECT").map(PathBuf::from)
}

/// Argument for `knee load`: the file, or its object.
pub fn loadable() -> PathBuf {
    made_elsewhere().unwrap_or_else(path)
}

/// All algorithms: those of knee, and this one.
///
/// # Panics
/// If an object is missing, or it does not compile.
pub fn with_all() -> Vec<(&'static Algorithm, &'static Embedded)> {
    let own = Algorithm::all().iter().map(|one| (one, Embedded::of_algorithm(one).unwrap()));
    let outside = match made_elsewhere() {
        Some(object) => &*Box::leak(Box::new(Embedded::of_file(&object, None).unwrap())),
        None => Embedded::of_algorithm(native()).unwrap(),
    };
    own.chain([(outside.algorithm(), outside)]).collect()
}

//! The user-file algorithm that every test over all algorithms includes.

use std::path::PathBuf;

use knee_algo::{Algorithm, module};
use knee_bpf::Embedded;

/// Name of the algorithm.
pub const NAME: &str = "gentle";

/// Returns the path of the algorithm's source file.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/algorithms/gentle.c")
}

/// Returns the algorithm compiled for the simulator.
///
/// # Panics
/// If the file does not compile.
pub fn native() -> &'static Algorithm {
    module::load(&path()).unwrap()
}

/// Returns the BPF object of the file if another machine compiled it (`scripts/test-kernels`), for
/// a machine without a compiler.
pub fn made_elsewhere() -> Option<PathBuf> {
    std::env::var_os("KNEE_OUTSIDE_OBJECT").map(PathBuf::from)
}

/// Returns the argument for `knee load`: the file, or its object.
pub fn loadable() -> PathBuf {
    made_elsewhere().unwrap_or_else(path)
}

/// Returns all algorithms: the built-in ones and this one.
///
/// # Panics
/// If an object is missing, or the file does not compile.
pub fn with_all() -> Vec<(&'static Algorithm, &'static Embedded)> {
    let own = Algorithm::all().iter().map(|one| (one, Embedded::of_algorithm(one).unwrap()));
    let outside = match made_elsewhere() {
        Some(object) => &*Box::leak(Box::new(Embedded::of_file(&object, None).unwrap())),
        None => Embedded::of_algorithm(native()).unwrap(),
    };
    own.chain([(outside.algorithm(), outside)]).collect()
}

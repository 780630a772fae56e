//! The algorithm of somebody's own file that the tests over all algorithms take along.

use std::path::PathBuf;

use knee_algo::{Algorithm, module};
use knee_bpf::Embedded;

/// Its name.
pub const NAME: &str = "gentle";

/// Its file.
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

/// All algorithms: those of knee, and this one.
///
/// # Panics
/// If an object is missing, or it does not compile.
pub fn with_all() -> Vec<(&'static Algorithm, &'static Embedded)> {
    let all = Algorithm::all().iter().chain([native()]);
    all.map(|algorithm| (algorithm, Embedded::of_algorithm(algorithm).unwrap())).collect()
}

//! Any bytes as a list of operations on an algorithm: none of them breaks the rules of `conformance`.
#![no_main]

use knee_algo::{Algorithm, conformance};

knee_fuzz::target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let all = Algorithm::all();
    let algorithm = &all[usize::from(*first) % all.len()];
    if let Err(broken) = conformance::check(algorithm, bytes) {
        panic!("{broken}");
    }
});

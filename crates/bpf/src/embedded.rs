//! The objects that the build script made, one per algorithm file, and those that were made of files of others.

use std::fmt;

use knee_algo::Algorithm;

use crate::Error;
use crate::source::{Source, Variable};

/// An algorithm, compiled for BPF: one that the binary carries, or one of somebody's own file.
pub struct Embedded {
    name: &'static str,
    object: &'static [u8],
    looks_at_flag: bool,
    /// Of somebody's own file.
    outside: Option<Outside>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedded({})", self.name)
    }
}

/// What is known of an algorithm that is none of knee's own.
pub(crate) struct Outside {
    pub(crate) algorithm: &'static Algorithm,
    pub(crate) source: Source,
    /// Of a Linux module: what holds each parameter.
    pub(crate) variables: Vec<Variable>,
}

/// Bytes where an ELF header may lie.
pub(crate) struct AlignedCopy {
    words: Vec<u64>,
    len: usize,
}

/// Copies an object to where libelf can read it in place.
pub(crate) fn aligned_copy(bytes: &[u8]) -> AlignedCopy {
    let word = |chunk: &[u8]| {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    AlignedCopy { words: bytes.chunks(size_of::<u64>()).map(word).collect(), len: bytes.len() }
}

impl AlignedCopy {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the words are at least so many bytes, any of which is a u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

/// An object file's bytes where an ELF header may lie: libelf reads them in place.
#[repr(C, align(8))]
#[allow(dead_code, reason = "there is nothing to hold where there was no clang")]
struct Aligned<Bytes: ?Sized>(Bytes);

#[allow(unused_macros, reason = "as above")]
macro_rules! aligned {
    ($path:literal) => {{
        static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &OBJECT.0
    }};
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The object of `programs/NAME.bpf.c`.
///
/// # Errors
/// [`Error::NotBuilt`] if there was no clang when knee was built.
pub fn program(name: &str) -> Result<&'static [u8], Error> {
    let found = PROGRAMS.iter().find(|(found, _)| *found == name);
    found.map(|(_, object)| *object).ok_or_else(|| not_built(name))
}

fn not_built(name: &str) -> Error {
    let known = EMBEDDED.iter().map(|embedded| embedded.name).collect();
    Error::NotBuilt { algorithm: name.to_owned(), known }
}

impl Embedded {
    /// All of them, by name. Empty if there was no clang when knee was built.
    pub fn all() -> &'static [Embedded] {
        EMBEDDED
    }

    /// The one of this name.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], which says why there may be none.
    pub fn by_name(name: &str) -> Result<&'static Embedded, Error> {
        EMBEDDED.iter().find(|embedded| embedded.name == name).ok_or_else(|| not_built(name))
    }

    /// One that exists for the tests of this workspace.
    ///
    /// # Errors
    /// As [`Embedded::by_name`].
    #[doc(hidden)]
    pub fn for_tests(name: &str) -> Result<&'static Embedded, Error> {
        EMBEDDED_FOR_TESTS
            .iter()
            .find(|embedded| embedded.name == name)
            .ok_or_else(|| not_built(name))
    }

    /// One of somebody's own file. Its bytes live as long as the process, as those of knee's own do.
    pub(crate) fn of_outside(bytes: &[u8], looks_at_flag: bool, outside: Outside) -> Embedded {
        let object: &'static AlignedCopy = Box::leak(Box::new(aligned_copy(bytes)));
        let name = outside.algorithm.name();
        Embedded { name, object: object.bytes(), looks_at_flag, outside: Some(outside) }
    }

    /// The algorithm, with its parameters. That of somebody's own file is known by what its object says, and has no code in this process.
    ///
    /// # Panics
    /// For one that exists for tests.
    pub fn algorithm(&self) -> &'static Algorithm {
        match &self.outside {
            Some(outside) => outside.algorithm,
            None => Algorithm::by_name(self.name).expect("both build scripts take the same folder"),
        }
    }

    /// What it was made of, if it is none of knee's own.
    pub fn source(&self) -> Option<&Source> {
        self.outside.as_ref().map(|outside| &outside.source)
    }

    /// The variables with the parameters of a Linux module; others have theirs in one section.
    pub(crate) fn variables(&self) -> &[Variable] {
        self.outside.as_ref().map_or(&[], |outside| &outside.variables)
    }

    /// Its name: the algorithm file's.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The ELF object.
    pub fn object(&self) -> &'static [u8] {
        self.object
    }

    /// Whether the algorithm does something with the flag of `cong_control`.
    pub(crate) fn looks_at_flag(&self) -> bool {
        self.looks_at_flag
    }
}

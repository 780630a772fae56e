//! The BPF objects of the algorithms: those that the build script made, one per algorithm file, and
//! those compiled from files of other people.

use std::fmt;

use knee_algo::{Algorithm, sha256};

use crate::Error;
use crate::source::{Source, Variable};

/// An algorithm compiled for BPF. The binary carries it, or it comes from a user's file.
pub struct Embedded {
    name: &'static str,
    object: &'static [u8],
    looks_at_flag: bool,
    /// Facts about an algorithm from a user's file; `None` for knee's own.
    outside: Option<Outside>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedded({})", self.name)
    }
}

/// Facts about an algorithm that is not one of knee's own.
pub(crate) struct Outside {
    pub(crate) algorithm: &'static Algorithm,
    pub(crate) source: Source,
    /// The variables that hold the parameters of a Linux module.
    pub(crate) variables: Vec<Variable>,
}

/// Bytes with the alignment that an ELF header needs.
pub(crate) struct AlignedCopy {
    words: Vec<u64>,
    len: usize,
}

/// Copies an object to aligned memory, where libelf can read it in place.
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
        // SAFETY: the words hold at least `len` bytes, and any byte is a valid u8.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

/// The bytes of an object file with the alignment that an ELF header needs: libelf reads them in
/// place.
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

/// Returns the object of `programs/NAME.bpf.c`.
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
    /// All algorithms, sorted by name; empty if knee was built without clang.
    pub fn all() -> &'static [Embedded] {
        EMBEDDED
    }

    /// Finds the algorithm of this name.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], which tells why the list may be empty.
    pub fn by_name(name: &str) -> Result<&'static Embedded, Error> {
        EMBEDDED.iter().find(|embedded| embedded.name == name).ok_or_else(|| not_built(name))
    }

    /// Finds an algorithm that exists for the tests of this workspace.
    ///
    /// # Errors
    /// The errors of [`Embedded::by_name`].
    #[doc(hidden)]
    pub fn for_tests(name: &str) -> Result<&'static Embedded, Error> {
        EMBEDDED_FOR_TESTS
            .iter()
            .find(|embedded| embedded.name == name)
            .ok_or_else(|| not_built(name))
    }

    /// Makes the entry of a user's file. Its bytes live as long as the process, like those of
    /// knee's own.
    pub(crate) fn of_outside(bytes: &[u8], looks_at_flag: bool, outside: Outside) -> Embedded {
        let object: &'static AlignedCopy = Box::leak(Box::new(aligned_copy(bytes)));
        let name = outside.algorithm.name();
        Embedded { name, object: object.bytes(), looks_at_flag, outside: Some(outside) }
    }

    /// Returns the algorithm with its parameters. For a user's file the object gives these facts,
    /// and the process holds no code of it.
    ///
    /// # Panics
    /// If the algorithm exists for tests.
    pub fn algorithm(&self) -> &'static Algorithm {
        match &self.outside {
            Some(outside) => outside.algorithm,
            None => Algorithm::by_name(self.name).expect("both build scripts take the same folder"),
        }
    }

    /// The source of an algorithm that is not one of knee's own; `None` for knee's own.
    pub fn source(&self) -> Option<&Source> {
        self.outside.as_ref().map(|outside| &outside.source)
    }

    /// The variables that hold a Linux module's parameters. Other algorithms keep theirs in one
    /// section.
    pub(crate) fn variables(&self) -> &[Variable] {
        self.outside.as_ref().map_or(&[], |outside| &outside.variables)
    }

    /// The algorithm's name, which is that of its file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The ELF object.
    pub fn object(&self) -> &'static [u8] {
        self.object
    }

    /// A number that tells one build of the algorithm from another, in any build of knee: the first
    /// bytes of the object's SHA-256.
    pub(crate) fn build(&self) -> u64 {
        u64::from_str_radix(&sha256::hex(self.object)[..16], 16).expect("it is hexadecimal")
    }

    /// Whether the algorithm uses the flag argument of `cong_control`.
    pub(crate) fn looks_at_flag(&self) -> bool {
        self.looks_at_flag
    }
}

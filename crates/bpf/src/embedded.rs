//! The objects that the build script made, one per algorithm file.

use crate::Error;

/// An algorithm, compiled for BPF.
pub struct Embedded {
    name: &'static str,
    object: &'static [u8],
    looks_at_flag: bool,
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

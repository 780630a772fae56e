//! Algorithms from a user's file: C on the contract or the source of a Linux module, compiled at
//! the load, or an object compiled from one elsewhere.
//!
//! Both become an [`Embedded`], like those in the binary. The object gives the facts about the
//! algorithm (name, parameters, flags). The file's code runs in the kernel only, after the
//! verifier, and never in this process. libbpf reads an object in a child process first.

mod compile;
mod elf;
pub(crate) mod flag;
mod instructions;
mod object;

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use knee_algo::{Algorithm, module, sha256};

use crate::{Embedded, Error};
use compile::Kind;

/// The largest object that is read; knee's own have about 200 kB.
const MOST_OBJECT_BYTES: u64 = 4 << 20;
/// The name of this kind of file in messages.
const OBJECT: &str = "object for BPF";

impl Embedded {
    /// Makes an algorithm of a file. The file is C on the contract, compiled by `clang` if one is
    /// named, or an object that [`Embedded::object`] gave elsewhere.
    ///
    /// # Errors
    /// [`Error::Outside`]; as root also if another user could have written the file.
    pub fn of_file(path: &Path, clang: Option<&str>) -> Result<Embedded, Error> {
        let is_object = path.extension().is_some_and(|extension| extension == "o");
        let (limit, what) = match is_object {
            true => (MOST_OBJECT_BYTES, OBJECT),
            false => (module::MAX_SOURCE_BYTES, module::WHAT),
        };
        let refused = |why: String| outside(path, why);
        // The path must be text, because knee stores it as text.
        if std::fs::canonicalize(path).is_ok_and(|whole| whole.to_str().is_none()) {
            return Err(refused("has a path that is not text in UTF-8: copy it to another".into()));
        }
        let unreadable = |why: knee_files::Unreadable| refused(why.to_string());
        let file = knee_files::open_file(path, what).map_err(unreadable)?;
        check_owner(&file, path)?;
        let bytes = knee_files::read_open(file, limit, what).map_err(unreadable)?;
        if is_object {
            return Embedded::of_object(path, &bytes);
        }
        let text = String::from_utf8(bytes).map_err(|_| refused("is not text in UTF-8".into()))?;
        Embedded::of_source(path, &text, clang)
    }

    /// Makes an algorithm of a C file whose text has been read.
    ///
    /// # Errors
    /// [`Error::Outside`].
    pub fn of_source(path: &Path, text: &str, clang: Option<&str>) -> Result<Embedded, Error> {
        let refused = |why: String| outside(path, why);
        let kind = match module::contract_name(text).map_err(refused)? {
            Some(name) => object::check_name(&name).map(|()| Kind::Contract),
            None => {
                let file = path.file_stem().unwrap_or_default().to_string_lossy();
                let is_taken = |name: &str| Algorithm::by_name(name).is_ok();
                module::for_bpf(text, &file, &is_taken).map(Kind::Module)
            }
        };
        let kind = kind.map_err(refused)?;
        let bytes = compile::compile(path, text, &kind, clang).map_err(refused)?;
        let made = object::read(&bytes).map_err(refused)?;
        Ok(made.into_embedded(&bytes, path))
    }

    /// Makes an algorithm of an object that was compiled from such a file.
    ///
    /// # Errors
    /// [`Error::Outside`].
    pub fn of_object(path: &Path, bytes: &[u8]) -> Result<Embedded, Error> {
        let made = object::read(bytes).map_err(|why| outside(path, why))?;
        Ok(made.into_embedded(bytes, path))
    }

    /// Checks that [`Embedded::of_object`] accepts these bytes.
    ///
    /// # Errors
    /// The reason for refusal, in one line.
    #[doc(hidden)]
    pub fn check_object(bytes: &[u8]) -> Result<(), String> {
        object::read(bytes).map(drop)
    }

    /// Finds the object of an algorithm that an experiment names. It is in the binary, or comes
    /// from a file that is compiled once per process.
    ///
    /// # Errors
    /// [`Error::NotBuilt`] and [`Error::Outside`].
    pub fn of_algorithm(algorithm: &'static Algorithm) -> Result<&'static Embedded, Error> {
        static COMPILED: Mutex<Vec<(&Algorithm, &Embedded)>> = Mutex::new(Vec::new());
        let Some(module) = algorithm.module() else {
            return Embedded::by_name(algorithm.name());
        };
        let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = compiled.iter().find(|(known, _)| std::ptr::eq(*known, algorithm));
        if let Some((_, embedded)) = known {
            return Ok(embedded);
        }
        module.check_plain().map_err(|why| outside(module.path(), why.to_owned()))?;
        let made = Embedded::of_source(module.path(), algorithm.text(), None)?;
        let made: &'static Embedded = Box::leak(Box::new(made));
        compiled.push((algorithm, made));
        Ok(made)
    }
}

fn outside(path: &Path, what: String) -> Error {
    Error::Outside { path: path.to_owned(), what }
}

/// Refuses, as root, a file that another user could have written.
fn check_owner(file: &File, path: &Path) -> Result<(), Error> {
    knee_files::trust::check_file(file, path).map_err(|why| {
        let way_out = "chown root and chmod go-w it, or copy it where nobody else can write";
        outside(
            path,
            format!("root loads no algorithm that others can have written, and {why}: {way_out}"),
        )
    })
}

/// The hash of a text, in the form of [`Source::sha256`].
fn hash(text: &str) -> String {
    sha256::hex(text.as_bytes())
}

#[cfg(test)]
fn say_skipped() {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED: knee was built without clang");
}

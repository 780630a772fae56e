//! Formats of tables: CSV, and one that a crate above adds.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::OnceLock;

use crate::cell::Cell;
use crate::error::Error;
use crate::schema::Schema;
use crate::sink::{Csv, Sink};

/// A format of tables.
pub trait Format: Debug + Send + Sync {
    /// Its name, which is also the end of names of files.
    fn name(&self) -> &'static str;

    /// A sink for a new file.
    fn sink(&self, file: File) -> Box<dyn Sink + Send>;

    /// Opens a file for reading. `None`: it is CSV.
    ///
    /// # Errors
    /// [`Error`] if it is not of this format.
    fn open(&self, path: &Path, file: &File) -> Result<Option<Box<dyn Rows>>, Error>;
}

/// Rows of a table with types.
pub trait Rows: Send {
    /// Its columns; how many are labels is not known.
    fn schema(&self) -> &Schema;

    /// Hands over the next row, with a cell for each column. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error`] if the file is cut or was changed.
    fn next(&mut self, to: &mut dyn FnMut(&[Cell<'_>])) -> Result<bool, Error>;
}

#[derive(Debug)]
struct CsvFormat;

impl Format for CsvFormat {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn sink(&self, file: File) -> Box<dyn Sink + Send> {
        Box::new(Csv::new(BufWriter::new(file)))
    }

    fn open(&self, _: &Path, _: &File) -> Result<Option<Box<dyn Rows>>, Error> {
        Ok(None)
    }
}

/// CSV, which every knee reads and writes.
pub const CSV: &dyn Format = &CsvFormat;
/// The name of the other one.
pub const PARQUET: &str = "parquet";

static ADDED: OnceLock<&'static dyn Format> = OnceLock::new();

/// Adds the format of this name beside CSV for the whole process.
pub fn add(format: &'static dyn Format) {
    let _ = ADDED.set(format);
}

/// What a knee says that was built without a format.
pub const WITHOUT_PARQUET: &str =
    "this knee is built without Parquet, as make run builds it: run make build";

/// The format of this name. `None`: this program has none.
pub fn named(name: &str) -> Option<&'static dyn Format> {
    let added = ADDED.get().copied();
    [Some(CSV), added].into_iter().flatten().find(|format| format.name() == name)
}

/// The format that the end of a file's name tells; CSV if it tells none.
pub(crate) fn of(path: &Path) -> Result<&'static dyn Format, Error> {
    if path.extension() != Some(OsStr::new(PARQUET)) {
        return Ok(CSV);
    }
    let missing = || Error::io(path, "cannot read", io::Error::other(WITHOUT_PARQUET));
    named(PARQUET).ok_or_else(missing)
}

//! Files that an experiment names. Results say what they were made from: each file's hash is noted beside its key.

use std::path::{Path, PathBuf};

use knee_algo::sha256;
use knee_file::{Error, Origin, Reader, Resolved, unmarked};
use knee_results::manifest::InputFile;
use serde_json::Value as Json;

/// Ends the key under which a file's hash is noted, with its name, as `sha256sum` prints them.
const HASH: &str = ".sha256";

/// Most cells of a line.
const MAX_CELLS: usize = 64;

/// A file as text.
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Returns the path of a file whose name is relative to the experiment's file.
pub(crate) fn path(reader: &Reader<'_>, name: &str) -> PathBuf {
    reader.file().parent().unwrap_or(Path::new("")).join(name)
}

/// Notes the hash of the file or files that a key names.
fn note_hash(reader: &Reader<'_>, key: &(impl AsRef<str> + ?Sized), name: &str, bytes: &[u8]) {
    reader.note(&format!("{}{HASH}", key.as_ref()), format!("{}  {name}", sha256::hex(bytes)));
}

/// Reads the file of `limit` bytes at most that a key names, and notes its hash. `what` is its kind.
///
/// # Errors
/// About the key if the file cannot be read, about the line if it is not text.
pub(crate) fn read_text(
    reader: &Reader<'_>,
    key: &(impl AsRef<str> + ?Sized),
    name: &str,
    limit: u64,
    what: &'static str,
) -> Result<Text, Error> {
    let path = path(reader, name);
    match knee_files::read_text(&path, limit, what) {
        Ok(mut text) => {
            note_hash(reader, key, name, text.as_bytes());
            text.drain(..text.len() - unmarked(&text).len());
            Ok(Text { path, text })
        }
        Err(knee_files::Unreadable::NotText { line }) => {
            Err(Error::new(&path, Origin::Line(line), "", "is not text in UTF-8"))
        }
        Err(why) => Err(reader.error(key, format!("{}: {why}", path.display()))),
    }
}

/// Whether a path leads to the experiment's directory or below it. Where a link leads counts.
pub(crate) fn is_beside(experiment: &Path, path: &Path) -> bool {
    let folder = experiment.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (Ok(folder), Ok(path)) =
        (folder.unwrap_or(Path::new(".")).canonicalize(), path.canonicalize())
    else {
        return false;
    };
    path.starts_with(folder)
}

/// Removes what an error quotes of a file that lies outside of the experiment's directory: who writes the experiment may name any
/// file that its reader can read, and an error can end in a log or a report.
pub(crate) fn without_content(experiment: &Path, error: crate::Error) -> crate::Error {
    let crate::Error::Input(why) = error else { return error };
    if why.file == experiment || is_beside(experiment, &why.file) {
        return why.into();
    }
    let message = "is not what the experiment takes it for; nothing of it is shown, because it lies outside of the experiment's \
                   directory: copy it there to see what is wrong";
    Error::new(&why.file, why.origin, "", message).into()
}

/// Splits a line of a CSV file. Quotes around a cell are left out.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn split<'c>(line: &'c str, cells: &mut Vec<&'c str>) -> Result<(), String> {
    cells.clear();
    for cell in line.split(',') {
        if cells.len() == MAX_CELLS {
            return Err(format!("has more than {MAX_CELLS} cells"));
        }
        let cell = cell.trim();
        let inner = cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.unwrap_or(cell);
        if inner.contains('"') {
            let why = "has a quote within a cell: names and values have neither quotes nor commas";
            return Err(why.into());
        }
        cells.push(inner.trim());
    }
    Ok(())
}

/// Returns the beginning of a text, in quotes and on one line.
pub(crate) fn shown(text: &str) -> String {
    format!("\"{}\"", knee_file::shown(text))
}

/// Returns the files that a document named, by what was noted of it.
pub(crate) fn noted(resolved: &Resolved) -> Vec<InputFile> {
    let file = |(key, value): &(String, Json)| {
        let (sha256, path) = value.as_str()?.split_once("  ")?;
        let key = key.strip_suffix(HASH)?.to_owned();
        Some(InputFile { key, path: path.to_owned(), sha256: sha256.to_owned() })
    };
    resolved.iter().filter_map(file).collect()
}

/// Adds files to those of an experiment. All its runs must be made of the same ones.
///
/// # Errors
/// The file that has another hash now.
pub(crate) fn add(all: &mut Vec<InputFile>, more: Vec<InputFile>) -> Result<(), InputFile> {
    for file in more {
        match all.iter().find(|known| known.path == file.path) {
            Some(known) if known.sha256 != file.sha256 => return Err(file),
            Some(_) => {}
            None => all.push(file),
        }
    }
    Ok(())
}

/// The hashes of several files that one key names.
#[derive(Default)]
pub(crate) struct Hashes(String);

impl Hashes {
    /// Adds the next file.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.push_str(&sha256::hex(bytes));
        self.0.push('\n');
    }

    /// Notes the hash of all hashes, one a line. `name` is that of the files, with `*`.
    pub(crate) fn note(self, reader: &Reader<'_>, key: &(impl AsRef<str> + ?Sized), name: &str) {
        note_hash(reader, key, name, self.0.as_bytes());
    }
}

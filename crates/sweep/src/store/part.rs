//! A part of a store: some whole runs, and the list of their names.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};

use knee_files::Dir;
use sha2::{Digest as _, Sha256};

use super::write_new;
use crate::run_name::RunName;

const RUNS: &str = ".part";
const NAMES: &str = ".names";
/// Longest list of names, bytes: of a million runs.
const MOST_NAMES_BYTES: u64 = 16 << 20;

/// Runs that become a part.
#[derive(Debug, Default)]
pub(super) struct Part {
    frames: Vec<(RunName, Vec<u8>)>,
    bytes: usize,
}

impl Part {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Number of its runs.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Size of its runs, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a run as a frame.
    pub(super) fn add(&mut self, name: RunName, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push((name, frame));
    }

    /// Adds the runs of another one.
    pub(super) fn take_back(&mut self, other: Part) {
        self.bytes += other.bytes;
        self.frames.extend(other.frames);
    }

    /// Writes it, sorted by name. A part of the same runs may be there already: it has the same content.
    pub(super) fn write(&mut self, dir: &Dir) -> io::Result<()> {
        self.frames.sort_unstable_by_key(|(name, _)| *name);
        let names: Vec<_> = self.frames.iter().map(|(name, _)| *name).collect();
        let name = PartName::of(&names);
        let mut runs = Vec::with_capacity(self.bytes);
        self.frames.iter().for_each(|(_, frame)| runs.extend_from_slice(frame));
        put(dir, &name.runs(), &runs)?;
        name.list(dir, &names)
    }
}

/// Writes a file unless it is there.
fn put(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    match write_new(dir, name, bytes) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Name of a part: the hash of the names of its runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartName(String);

impl PartName {
    const DIGITS: usize = 32;

    /// Returns the name of the part with these runs, which are sorted.
    pub(super) fn of(names: &[RunName]) -> PartName {
        let mut hash = Sha256::new();
        names.iter().for_each(|name| hash.update(name.bytes()));
        let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        PartName(digits[..PartName::DIGITS].to_owned())
    }

    /// Returns the part whose list of names this is.
    pub(super) fn listed(file: &OsStr) -> Option<PartName> {
        PartName::before(file, NAMES)
    }

    /// Returns the part whose runs this file has.
    pub(super) fn with_runs(file: &OsStr) -> Option<PartName> {
        PartName::before(file, RUNS)
    }

    fn before(file: &OsStr, ending: &str) -> Option<PartName> {
        let digits = file.to_str()?.strip_suffix(ending)?;
        let is_name = digits.len() == PartName::DIGITS
            && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        is_name.then(|| PartName(digits.to_owned()))
    }

    /// Name of the file with its runs.
    pub(super) fn runs(&self) -> OsString {
        format!("{}{RUNS}", self.0).into()
    }

    fn list_of_names(&self) -> OsString {
        format!("{}{NAMES}", self.0).into()
    }

    /// Writes the list of names: now it counts.
    pub(super) fn list(&self, dir: &Dir, names: &[RunName]) -> io::Result<()> {
        let names: Vec<u8> = names.iter().flat_map(|name| name.bytes().iter().copied()).collect();
        put(dir, &self.list_of_names(), &names)
    }

    /// Reads the names of its runs.
    pub(super) fn names(&self, dir: &Dir) -> io::Result<Vec<RunName>> {
        let file = self.list_of_names();
        let mut bytes = Vec::new();
        dir.open_file(&file)?.take(MOST_NAMES_BYTES).read_to_end(&mut bytes)?;
        let names: Vec<_> = bytes.chunks(RunName::BYTES).filter_map(RunName::from_bytes).collect();
        match PartName::of(&names) == *self && bytes.len() % RunName::BYTES == 0 {
            true => Ok(names),
            false => Err(io::Error::other(format!(
                "{} is damaged: remove it, and the same command runs them again",
                file.to_string_lossy()
            ))),
        }
    }

    /// Size of its runs, bytes.
    pub(super) fn bytes(&self, dir: &Dir) -> io::Result<u64> {
        Ok(dir.open_file(&self.runs())?.metadata()?.len())
    }

    /// Removes it, the list of names first: without it the runs do not count.
    pub(super) fn remove(&self, dir: &Dir) -> io::Result<()> {
        for file in [self.list_of_names(), self.runs()] {
            match dir.remove(&file) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }
}

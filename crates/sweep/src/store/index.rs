//! Where the runs of a store are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use knee_files::Dir;
use prost::Message as _;

use super::part::PartName;
use crate::run_name::RunName;
use crate::stored_run::{FRAME_BYTES, StoredRun, damaged, next_frame};

/// Bytes of a frame with the name of its run, which comes first in its message.
const WITH_NAME_BYTES: usize = FRAME_BYTES + 2 + RunName::BYTES;

/// Places of all runs in the parts of a store.
#[derive(Debug)]
pub(super) struct Index {
    files: Vec<(PartName, File)>,
    places: HashMap<RunName, Place>,
}

/// Place of a run's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of its file.
    file: usize,
    offset: u64,
    /// Length and checksum of its message, as they are written.
    head: [u8; FRAME_BYTES],
}

impl Place {
    /// Size of the frame, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let [a, b, c, d, ..] = self.head;
        FRAME_BYTES as u64 + u64::from(u32::from_le_bytes([a, b, c, d]))
    }
}

impl Index {
    /// Finds the runs of all parts, with and without a list of names.
    ///
    /// # Errors
    /// The system's; or if a part is damaged, or a run is there twice with other results.
    pub(super) fn of(dir: &Dir) -> io::Result<Index> {
        let mut parts: Vec<_> =
            dir.names()?.iter().filter_map(|name| PartName::with_runs(name)).collect();
        parts.sort_unstable();
        let mut index = Index { files: Vec::new(), places: HashMap::new() };
        for part in parts {
            let file = dir.open_file(&part.runs())?;
            index.add(&part, &file)?;
            index.files.push((part, file));
        }
        Ok(index)
    }

    fn add(&mut self, part: &PartName, file: &File) -> io::Result<()> {
        let torn = || {
            let why = "is damaged: remove it with its .names, and its runs are carried out again";
            io::Error::other(format!("{} {why}", part.runs().to_string_lossy()))
        };
        let (mut offset, all) = (0, file.metadata()?.len());
        while offset < all {
            let mut bytes = [0; WITH_NAME_BYTES];
            file.read_exact_at(&mut bytes, offset).map_err(|_| torn())?;
            let mut head = [0; FRAME_BYTES];
            head.copy_from_slice(&bytes[..FRAME_BYTES]);
            let name = match &bytes[FRAME_BYTES..] {
                [0x0a, 16, name @ ..] => RunName::from_bytes(name).ok_or_else(torn)?,
                _ => return Err(torn()),
            };
            let place = Place { file: self.files.len(), offset, head };
            offset += place.bytes();
            if offset > all {
                return Err(torn());
            }
            match self.places.entry(name) {
                Entry::Vacant(free) => drop(free.insert(place)),
                Entry::Occupied(same) if same.get().head == head => {}
                Entry::Occupied(_) => {
                    let why = format!(
                        "run {name} is there twice, with other results: knee cache verify tells which of them are wrong"
                    );
                    return Err(io::Error::other(why));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of all runs, sorted.
    pub(super) fn names(&self) -> Vec<RunName> {
        let mut names: Vec<_> = self.places.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Returns the parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = &PartName> {
        self.files.iter().map(|(part, _)| part)
    }

    /// Returns the place of a run.
    pub(super) fn place(&self, name: RunName) -> Option<Place> {
        self.places.get(&name).copied()
    }

    /// Reads the message of a run.
    ///
    /// # Errors
    /// The system's, or that it is damaged.
    pub(super) fn message(&self, place: Place) -> io::Result<Vec<u8>> {
        let (part, file) = &self.files[place.file];
        let (mut bytes, end) = (Vec::new(), place.offset + place.bytes());
        match next_frame(file, place.offset, end, &mut bytes)? {
            Some(_) => Ok(bytes),
            None => {
                let why =
                    "is damaged: remove it with its .names, and its runs are carried out again";
                Err(io::Error::other(format!("{} {why}", part.runs().to_string_lossy())))
            }
        }
    }

    /// Reads a run. `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of [`Index::message`].
    pub(super) fn read(&self, name: RunName) -> io::Result<Option<StoredRun>> {
        let Some(place) = self.place(name) else { return Ok(None) };
        StoredRun::decode(&self.message(place)?[..]).map(Some).map_err(damaged)
    }
}

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
/// Files that are open at once. A sweep may have more parts than a process may have files.
const MOST_OPEN: usize = 64;

/// Places of all runs in the parts of a store.
#[derive(Debug)]
pub(super) struct Index {
    parts: Vec<PartName>,
    places: HashMap<RunName, Place>,
    /// Further places of runs, with other results.
    others: Vec<(RunName, Place)>,
    /// Files by the number of their part.
    open: HashMap<usize, File>,
}

/// Place of a run's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of its part.
    part: usize,
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
    /// The system's, or that a part is damaged.
    pub(super) fn of(dir: &Dir) -> io::Result<Index> {
        let mut parts: Vec<_> =
            dir.names()?.iter().filter_map(|name| PartName::with_runs(name)).collect();
        parts.sort_unstable();
        let (places, others, open) = (HashMap::new(), Vec::new(), HashMap::new());
        let mut index = Index { parts, places, others, open };
        for part in 0..index.parts.len() {
            let name = &index.parts[part];
            let file = dir.open_file(&name.runs())?;
            let runs = places_in(name, part, &file)?;
            for (run, place) in runs {
                match index.places.entry(run) {
                    Entry::Vacant(free) => drop(free.insert(place)),
                    Entry::Occupied(same) if same.get().head == place.head => {}
                    Entry::Occupied(_) => index.others.push((run, place)),
                }
            }
        }
        Ok(index)
    }

    /// Returns the names of all runs, sorted.
    pub(super) fn names(&self) -> Vec<RunName> {
        let mut names: Vec<_> = self.places.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Returns the parts.
    pub(super) fn parts(&self) -> &[PartName] {
        &self.parts
    }

    /// Returns the place of a run.
    pub(super) fn place(&self, name: RunName) -> Option<Place> {
        self.places.get(&name).copied()
    }

    /// Returns all places of a run: several if it is there with several results.
    pub(super) fn all_places(&self, name: RunName) -> impl Iterator<Item = Place> {
        let others = self.others.iter().filter(move |(of, _)| *of == name);
        self.place(name).into_iter().chain(others.map(|(_, place)| *place))
    }

    /// Returns the names of runs that are there with several results.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = RunName> {
        self.others.iter().map(|(name, _)| *name)
    }

    /// Returns the file with the runs of a place's part, for messages.
    pub(super) fn file_of(&self, place: Place) -> String {
        self.parts[place.part].runs().to_string_lossy().into_owned()
    }

    /// Refuses a store in which a run has several results.
    ///
    /// # Errors
    /// With the files, and the way out.
    pub(super) fn check_same(&self) -> io::Result<()> {
        let Some((name, other)) = self.others.first() else { return Ok(()) };
        let first = self.place(*name).map_or_else(String::new, |place| self.file_of(place));
        let why = format!(
            "run {name} has other results in {} than in {first}: knee cache verify tells which of them is wrong",
            self.file_of(*other)
        );
        Err(io::Error::other(why))
    }

    /// Reads the message of a run.
    ///
    /// # Errors
    /// The system's, or that it is damaged.
    pub(super) fn message(&mut self, dir: &Dir, place: Place) -> io::Result<Vec<u8>> {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&place.part) {
            self.open.clear();
        }
        let part = &self.parts[place.part];
        let file = match self.open.entry(place.part) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => free.insert(dir.open_file(&part.runs())?),
        };
        let (mut bytes, end) = (Vec::new(), place.offset + place.bytes());
        match next_frame(file, place.offset, end, &mut bytes)? {
            Some(_) => Ok(bytes),
            None => Err(torn(part)),
        }
    }

    /// Reads a run. `None` if there is none of this name.
    ///
    /// # Errors
    /// Those of [`Index::message`].
    pub(super) fn read(&mut self, dir: &Dir, name: RunName) -> io::Result<Option<StoredRun>> {
        let Some(place) = self.place(name) else { return Ok(None) };
        StoredRun::decode(&self.message(dir, place)?[..]).map(Some).map_err(damaged)
    }
}

/// Returns the runs of a part.
fn places_in(name: &PartName, part: usize, file: &File) -> io::Result<Vec<(RunName, Place)>> {
    let (mut offset, all) = (0, file.metadata()?.len());
    let mut places = Vec::new();
    while offset < all {
        let mut bytes = [0; WITH_NAME_BYTES];
        file.read_exact_at(&mut bytes, offset).map_err(|_| torn(name))?;
        let mut head = [0; FRAME_BYTES];
        head.copy_from_slice(&bytes[..FRAME_BYTES]);
        let run = match &bytes[FRAME_BYTES..] {
            [0x0a, 16, run @ ..] => RunName::from_bytes(run).ok_or_else(|| torn(name))?,
            _ => return Err(torn(name)),
        };
        let place = Place { part, offset, head };
        offset += place.bytes();
        places.push((run, place));
    }
    let names: Vec<_> = places.iter().map(|(run, _)| *run).collect();
    match offset == all && PartName::of(&names) == *name {
        true => Ok(places),
        false => Err(torn(name)),
    }
}

fn torn(part: &PartName) -> io::Error {
    let file = part.runs().to_string_lossy().into_owned();
    io::Error::other(format!(
        "{file} is damaged: remove it with its .names, and the same command runs them again"
    ))
}

//! States that are larger than the private area and lie in socket storage. `programs/storage.bpf.c`
//! is the BPF part.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use libbpf_rs::{MapCore as _, MapType};

use crate::connections::{Iteration, Over};
use crate::registry::Registered;
use crate::{Connection, Error};

/// The section, and so the map, that holds only the settings made before the load.
const SETTINGS_MAP: &str = ".rodata.storage";
/// The prefix of the storage's name in every object; the algorithm's name follows (bpf.h).
const PREFIX: &str = "cc_storage_";
/// Letters of a map's name that the kernel keeps.
const MAP_LETTERS: usize = 15;
/// Bytes of `struct owner` in the program: cookie and clock.
const OWNER_BYTES: usize = 16;

/// The states of all sockets that have one, as of the last read.
pub(super) struct Storage {
    iteration: Iteration,
    state_bytes: usize,
    states: HashMap<u64, Vec<u64>>,
    /// The kernel's coarse clock at the last read; `None` before the first.
    seen_at: Option<u32>,
}

impl Storage {
    /// Opens the storage of an algorithm; `None` if it uses none.
    ///
    /// # Errors
    /// [`Error::Inspect`], and the errors of [`crate::Connections::open`].
    pub(super) fn of(loaded: &Registered) -> Result<Option<Storage>, Error> {
        let mut name = format!("{PREFIX}{}", loaded.algorithm);
        name.truncate(MAP_LETTERS);
        let map = loaded.map(&name)?.filter(|map| map.map_type() == MapType::SkStorage);
        let Some(map) = map else { return Ok(None) };
        let state_bytes = map.value_size();
        let what = "reading socket storage";
        let iteration = Iteration::load_over("storage", what, Over::Map(map.as_fd()), |open| {
            let mut maps = open.maps_mut();
            let mut settings = maps.find(|map| map.name() == SETTINGS_MAP);
            let section = settings.as_mut().and_then(|map| map.initial_value_mut());
            let section = section.filter(|section| section.len() == size_of::<u32>());
            let section =
                section.ok_or_else(|| Error::BadObject { what: format!("{what}: settings") })?;
            section.copy_from_slice(&state_bytes.to_ne_bytes());
            Ok(())
        })?;
        let (states, seen_at) = (HashMap::new(), None);
        Ok(Some(Storage { iteration, state_bytes: state_bytes as usize, states, seen_at }))
    }

    /// The state of this connection, at least as new as the connection's other values; `None` if it
    /// has none.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Inspect`].
    pub(super) fn state(&mut self, connection: &Connection) -> Result<Option<&[u64]>, Error> {
        let is_older =
            |seen_at: u32| (seen_at.wrapping_sub(connection.jiffies) as i32).is_negative();
        // One read of the storage serves all connections of one reading.
        if self.seen_at.is_none_or(is_older) {
            self.look()?;
        }
        Ok(self.states.get(&connection.cookie).map(Vec::as_slice))
    }

    fn look(&mut self) -> Result<(), Error> {
        let bytes = self.iteration.run()?;
        self.states.clear();
        self.seen_at = None;
        for record in bytes.chunks_exact(OWNER_BYTES + self.state_bytes) {
            let mut words = record.chunks(size_of::<u64>()).map(|bytes| {
                let mut word = [0; size_of::<u64>()];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            });
            let (Some(cookie), Some(jiffies)) = (words.next(), words.next()) else { continue };
            self.seen_at.get_or_insert(jiffies as u32);
            self.states.insert(cookie, words.collect());
        }
        Ok(())
    }
}

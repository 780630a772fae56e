//! States that are larger than the private area and lie in socket storage. `programs/storage.h` is the
//! BPF part.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use knee_netns::Id;
use libbpf_rs::{MapCore as _, MapType};

use crate::connections::{Iteration, Over, cannot_read};
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

/// The name of the map in the programs.
const STATES_MAP: &str = "states";

/// The states of all sockets that have one, as of the last read.
pub(super) struct Storage {
    iteration: Iteration,
    over: Over,
    state_bytes: usize,
    /// By network namespace; of the sockets of this process, all in one.
    read: HashMap<Option<Id>, Read>,
}

/// States as of one read.
#[derive(Default)]
struct Read {
    by_cookie: HashMap<u64, Vec<u64>>,
    /// The kernel's coarse clock at that time; `None`: no socket had a state.
    at: Option<u32>,
}

impl Storage {
    /// Opens the storage of an algorithm, of the sockets of a namespace or of this process; `None` if it uses none.
    ///
    /// # Errors
    /// [`Error::Inspect`], and the errors of [`crate::Connections::open`].
    pub(super) fn of(loaded: &Registered, over: Over) -> Result<Option<Storage>, Error> {
        let mut name = format!("{PREFIX}{}", loaded.algorithm);
        name.truncate(MAP_LETTERS);
        let map = loaded.map(&name)?.filter(|map| map.map_type() == MapType::SkStorage);
        let Some(map) = map else { return Ok(None) };
        let state_bytes = map.value_size();
        let what = "reading socket storage";
        let name = match over {
            Over::Namespace => "storage",
            Over::OwnFiles => "own_storage",
        };
        let iteration = Iteration::load_over(name, what, over, |open| {
            let found = open.maps_mut().find(|map| map.name() == STATES_MAP);
            let mut states =
                found.ok_or_else(|| Error::BadObject { what: format!("{what}: states") })?;
            states.reuse_fd(map.as_fd()).map_err(|source| Error::Inspect { what, source })?;
            let mut settings = open.maps_mut().find(|map| map.name() == SETTINGS_MAP);
            let section = settings.as_mut().and_then(|map| map.initial_value_mut());
            let section = section.filter(|section| section.len() == size_of::<u32>());
            let section =
                section.ok_or_else(|| Error::BadObject { what: format!("{what}: settings") })?;
            section.copy_from_slice(&state_bytes.to_ne_bytes());
            Ok(())
        })?;
        let (state_bytes, read) = (state_bytes as usize, HashMap::new());
        Ok(Some(Storage { iteration, over, state_bytes, read }))
    }

    /// The state of this connection, at least as new as the connection's other values; `None` if it
    /// has none.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Inspect`].
    pub(super) fn state(&mut self, connection: &Connection) -> Result<Option<&[u64]>, Error> {
        let netns = Some(connection.netns).filter(|_| self.over == Over::Namespace);
        let is_older = |at: u32| (at.wrapping_sub(connection.jiffies) as i32).is_negative();
        // One read of the storage serves all connections of one reading.
        if self.read.get(&netns).and_then(|read| read.at).is_none_or(is_older) {
            let mut read = self.look(netns)?;
            // It was read after the connection, also where no socket had a state.
            read.at.get_or_insert(connection.jiffies);
            // Those of earlier readings are of no use, and their namespaces may be gone.
            self.read.retain(|_, read| !read.at.is_none_or(is_older));
            self.read.insert(netns, read);
        }
        let states = self.read.get(&netns).map(|read| &read.by_cookie);
        Ok(states.and_then(|states| states.get(&connection.cookie)).map(Vec::as_slice))
    }

    fn look(&self, netns: Option<Id>) -> Result<Read, Error> {
        let bytes = match netns {
            None => self.iteration.run()?,
            Some(id) => {
                let all = knee_netns::all().map_err(cannot_read)?;
                // One that is gone has no connection any more.
                let Some(of) = all.into_iter().find(|namespace| namespace.id() == id) else {
                    return Ok(Read::default());
                };
                of.run(|| self.iteration.run()).map_err(cannot_read)??
            }
        };
        let mut read = Read::default();
        for record in bytes.chunks_exact(OWNER_BYTES + self.state_bytes) {
            let mut words = record.chunks(size_of::<u64>()).map(|bytes| {
                let mut word = [0; size_of::<u64>()];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            });
            let (Some(cookie), Some(jiffies)) = (words.next(), words.next()) else { continue };
            read.at.get_or_insert(jiffies as u32);
            read.by_cookie.insert(cookie, words.collect());
        }
        Ok(read)
    }
}

//! What was changed and how it was before, in a file that outlives a crash.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bpffs::read_file;
use crate::{Error, Source};

/// Of the file; a reader takes no other.
const VERSION: u32 = 1;
/// An entry has some 500, of which a path may add 4000, and a name 15 characters.
const MOST_BYTES: u64 = 4 << 20;

/// The algorithm that every kernel has.
pub(super) const LAST_RESORT: &str = "reno";

/// An algorithm that is loaded for longer than a command runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name it is registered under.
    pub name: String,
    /// The algorithm file it comes from.
    pub algorithm: String,
    /// The file that it was compiled from, if it is none of knee's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Its parameters, by name, all of them.
    pub params: Vec<(String, u32)>,
    /// Whom connections without ECN are handed to, if it says so.
    pub fallback: Option<String>,
    /// When, in seconds since 1970.
    pub loaded_at_unix_s: u64,
    /// Tells one build of the algorithm from another.
    pub object: u64,
    /// Set when all that was asked for is done: an entry without it is what a crash left.
    pub complete: bool,
    /// Defaults of network namespaces that knee has replaced by it.
    pub defaults: Vec<OldDefault>,
    /// The cgroup whose connections are given it.
    pub cgroup: Option<PathBuf>,
}

/// What a namespace's default was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldDefault {
    /// Tells the namespace from all others since the kernel was booted (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    pub algorithm: String,
}

/// All entries, by name.
#[derive(Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// After a reboot nothing is loaded, whatever this file says.
    boot: String,
    /// `tcp_allowed_congestion_control`, while it is changed for a moment.
    pub(super) allowed_before: Option<String>,
    pub(super) entries: Vec<Entry>,
}

impl Journal {
    pub(super) fn read(run_dir: &Path) -> Result<Journal, Error> {
        let path = path(run_dir);
        let empty = || Journal {
            version: VERSION,
            boot: boot(),
            allowed_before: None,
            entries: Vec::new(),
        };
        let text = match read_file(&path, MOST_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty()),
            Err(source) => return Err(Error::File { path, source }),
        };
        match serde_json::from_str::<Journal>(&text) {
            Ok(journal) if journal.version != VERSION => {
                Err(Error::Journal { path, what: format!("version {}", journal.version) })
            }
            Ok(journal) if journal.boot != boot() => Ok(empty()),
            Ok(journal) => Ok(journal),
            Err(error) => Err(Error::Journal { path, what: error.to_string() }),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Puts this entry in the place of one of its name, and writes.
    pub(super) fn put(&mut self, run_dir: &Path, entry: Entry) -> Result<(), Error> {
        self.entries.retain(|old| old.name != entry.name);
        self.entries.push(entry);
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.write(run_dir)
    }

    /// Other entries that remember this one as the default before them remember what was before it.
    pub(super) fn forget_default(&mut self, gone: &Entry) {
        let others = self.entries.iter_mut().flat_map(|entry| &mut entry.defaults);
        for old in others.filter(|old| old.algorithm == gone.name) {
            let before =
                gone.defaults.iter().find(|before| before.netns_cookie == old.netns_cookie);
            old.algorithm =
                before.map_or_else(|| LAST_RESORT.to_owned(), |before| before.algorithm.clone());
        }
    }

    /// Takes the entry of this name out, and writes.
    pub(super) fn remove(&mut self, run_dir: &Path, name: &str) -> Result<(), Error> {
        self.entries.retain(|old| old.name != name);
        self.write(run_dir)
    }

    /// Removes the file if nothing is in it (any more).
    pub(super) fn remove_if_empty(run_dir: &Path) -> bool {
        let empty =
            |journal: Journal| journal.entries.is_empty() && journal.allowed_before.is_none();
        if !Journal::read(run_dir).is_ok_and(empty) {
            return false;
        }
        let _ = fs::remove_file(path(run_dir));
        let _ = fs::remove_file(path(run_dir).with_extension("new"));
        true
    }

    /// Whole or not at all, whenever the process or the machine stops.
    pub(super) fn write(&self, run_dir: &Path) -> Result<(), Error> {
        let path = path(run_dir);
        let failed = |source| Error::File { path: path.clone(), source };
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        // What is there was left by a command that was killed. It is not written into, lest it be a link.
        let _ = fs::remove_file(&new);
        let mut file = File::create_new(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("journal.json")
}

/// Tells one boot from another.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_another_version_is_refused_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::read(dir.path()).unwrap();
        journal.allowed_before = Some("reno".to_owned());
        journal.write(dir.path()).unwrap();
        let text = fs::read_to_string(path(dir.path())).unwrap();
        for (before, now, why) in [
            ("\"version\": 1", "\"version\": 2", "version 2"),
            ("\"entries\"", "\"entry\"", "missing field `entries`"),
        ] {
            let (compact, now_compact) = (before.replace(' ', ""), now.replace(' ', ""));
            let other = text.replace(before, now).replace(&compact, &now_compact);
            assert_ne!(other, text);
            fs::write(path(dir.path()), other).unwrap();
            let said = Journal::read(dir.path()).err().unwrap().to_string();
            let way_out = "use the knee that wrote it to unload, or move it away";
            assert!(said.contains(why) && said.contains(way_out), "{said}");
        }
    }
}

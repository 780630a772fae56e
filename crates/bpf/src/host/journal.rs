//! The journal: every change and the state before it, in a file that survives a crash.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bpffs::read_file;
use crate::{Error, Source};

/// The version of the file's format; a reader accepts no other.
const VERSION: u32 = 1;
/// The largest file that is read. An entry has about 500 bytes; a path may add 4000, and a name has
/// 15 characters.
const MOST_BYTES: u64 = 4 << 20;

/// The algorithm that every kernel has.
pub(super) const LAST_RESORT: &str = "reno";

/// An algorithm that stays loaded after its command ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name under which it is registered.
    pub name: String,
    /// The algorithm file that it comes from.
    pub algorithm: String,
    /// The user's file that it was compiled from; `None` for one of knee's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// All of its parameters, by name.
    pub params: Vec<(String, u32)>,
    /// The algorithm that gets connections without ECN, if it names one.
    pub fallback: Option<String>,
    /// The time of the load, in seconds since 1970.
    pub loaded_at_unix_s: u64,
    /// A hash that tells one build of the algorithm from another.
    pub object: u64,
    /// Whether every requested step is done. An entry without it is the remains of a crash.
    pub complete: bool,
    /// The defaults of network namespaces that knee has replaced by this algorithm.
    pub defaults: Vec<OldDefault>,
    /// The cgroup whose connections get the algorithm.
    pub cgroup: Option<PathBuf>,
}

/// The earlier default of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldDefault {
    /// The namespace's cookie, unique since boot (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    pub algorithm: String,
}

/// All entries, by name.
#[derive(Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The boot that the file belongs to: after a reboot nothing is loaded.
    boot: String,
    /// The earlier value of `tcp_allowed_congestion_control`, while it is changed temporarily.
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

    /// Adds this entry, or replaces the one of the same name, and writes the file.
    pub(super) fn put(&mut self, run_dir: &Path, entry: Entry) -> Result<(), Error> {
        self.entries.retain(|old| old.name != entry.name);
        self.entries.push(entry);
        self.entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.write(run_dir)
    }

    /// Corrects the entries that hold `gone` as their earlier default: they get the default before
    /// it.
    pub(super) fn forget_default(&mut self, gone: &Entry) {
        let others = self.entries.iter_mut().flat_map(|entry| &mut entry.defaults);
        for old in others.filter(|old| old.algorithm == gone.name) {
            let before =
                gone.defaults.iter().find(|before| before.netns_cookie == old.netns_cookie);
            old.algorithm =
                before.map_or_else(|| LAST_RESORT.to_owned(), |before| before.algorithm.clone());
        }
    }

    /// Removes the entry of this name and writes the file.
    pub(super) fn remove(&mut self, run_dir: &Path, name: &str) -> Result<(), Error> {
        self.entries.retain(|old| old.name != name);
        self.write(run_dir)
    }

    /// Removes the file if it has no content left.
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

    /// Writes the file atomically: a crash of the process or the machine leaves the old or the new
    /// one.
    pub(super) fn write(&self, run_dir: &Path) -> Result<(), Error> {
        let path = path(run_dir);
        let failed = |source| Error::File { path: path.clone(), source };
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        // A killed command left this file. It is removed, not overwritten, because it may be a
        // link.
        let _ = fs::remove_file(&new);
        let mut file = File::create_new(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("journal.json")
}

/// The kernel's identifier of this boot.
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

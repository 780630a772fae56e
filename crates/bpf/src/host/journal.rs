//! The journal: every change and the state before it, in a file that survives a crash.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use super::bpffs::read_file;
use crate::{Error, Source};

/// The version of the file's format; a reader accepts no other.
const VERSION: u32 = 1;
/// The largest file that is read. An entry has about 500 bytes; a path may add 4000, and a name has
/// 15 characters.
const MOST_BYTES: u64 = 4 << 20;

/// The extension of a journal that could not be used. It stays until nothing is loaded.
const UNREAD: &str = "json.unread";

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
    /// Whether every user may choose it, by the wish of who loaded it.
    #[serde(default)]
    pub any_user: bool,
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
    /// The name that is on the list `tcp_allowed_congestion_control` for a moment.
    #[serde(default)]
    pub(super) allowed_meanwhile: Option<String>,
    pub(super) entries: Vec<Entry>,
    /// The reason why the file could not be used; `None` if it could. The entries are then unknown,
    /// and the first write moves the file aside.
    #[serde(skip)]
    pub(super) unread: Option<String>,
}

/// The part that the journals of all versions have.
#[derive(Deserialize)]
struct OfAnyVersion {
    version: u32,
}

impl Journal {
    /// Reads the file. A damaged one, or one of another version, blocks no command: the kernel
    /// itself says what is loaded.
    pub(super) fn read(run_dir: &Path) -> Result<Journal, Error> {
        let path = path(run_dir);
        let empty = |unread| Journal {
            version: VERSION,
            boot: boot(),
            allowed_meanwhile: None,
            entries: Vec::new(),
            unread,
        };
        let damaged = |what: String| Ok(empty(Some(format!("{}: {what}", path.display()))));
        let text = match read_file(&path, MOST_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty(None)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return damaged(error.to_string());
            }
            Err(source) => return Err(Error::File { path, source }),
        };
        // Another version may have other fields.
        let version = serde_json::from_str::<OfAnyVersion>(&text).map(|journal| journal.version);
        match serde_json::from_str::<Journal>(&text) {
            _ if version.as_ref().is_ok_and(|version| *version != VERSION) => {
                damaged(format!("version {}", version.unwrap_or_default()))
            }
            Ok(journal) if journal.boot != boot() => Ok(empty(None)),
            Ok(journal) => Ok(journal),
            Err(error) => damaged(error.to_string()),
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
        self.shorten(run_dir)
    }

    /// Writes the file after a removal, also where there is no space.
    pub(super) fn shorten(&mut self, run_dir: &Path) -> Result<(), Error> {
        match self.write(run_dir) {
            Err(Error::File { source, .. }) if is_full(&source) => self.overwrite(run_dir),
            outcome => outcome,
        }
    }

    /// Writes the file over the present one, which takes no space. A crash may damage the file; the
    /// kernel still has all that is loaded.
    fn overwrite(&self, run_dir: &Path) -> Result<(), Error> {
        let path = path(run_dir);
        let failed = |source: io::Error| Error::File { path: path.clone(), source };
        let _ = fs::remove_file(path.with_extension("new"));
        if self.entries.is_empty() && self.allowed_meanwhile.is_none() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        let mut text = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = open(&path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(file);
        let len = file.metadata().map_err(failed)?.len() as usize;
        // White space after the text is no damage.
        text.extend(std::iter::repeat_n(' ', len.saturating_sub(text.len())));
        file.write_all(text.as_bytes()).map_err(failed)
    }

    /// Removes the file if it has no content left.
    pub(super) fn remove_if_empty(run_dir: &Path) -> bool {
        let empty = |journal: Journal| {
            let is_read = journal.unread.is_none();
            is_read && journal.entries.is_empty() && journal.allowed_meanwhile.is_none()
        };
        if !Journal::read(run_dir).is_ok_and(empty) {
            return false;
        }
        for extension in ["json", "new", UNREAD] {
            let _ = fs::remove_file(path(run_dir).with_extension(extension));
        }
        true
    }

    /// Writes the file atomically: a crash of the process or the machine leaves the old or the new
    /// one.
    pub(super) fn write(&mut self, run_dir: &Path) -> Result<(), Error> {
        let path = path(run_dir);
        let failed = |source| Error::File { path: path.clone(), source };
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        // A killed command left this file. It is removed, not overwritten, because it may be a
        // link.
        let _ = fs::remove_file(&new);
        if self.unread.is_some() {
            match fs::rename(&path, path.with_extension(UNREAD)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => self.unread = None,
            }
        }
        let mut file = File::create_new(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }
}

/// Whether a write failed because the file system, or the user's share of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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
    fn a_journal_that_cannot_be_used_blocks_nothing_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::read(dir.path()).unwrap();
        journal.allowed_meanwhile = Some("reno".to_owned());
        journal.write(dir.path()).unwrap();
        let text = fs::read_to_string(path(dir.path())).unwrap();
        for (before, now, why) in [
            ("\"version\": 1", "\"version\": 2", "version 2"),
            ("\"entries\"", "\"entry\"", "missing field `entries`"),
            ("{", "", "expected"),
        ] {
            let other = text.replacen(before, now, 1);
            assert_ne!(other, text);
            fs::write(path(dir.path()), &other).unwrap();
            let mut read = Journal::read(dir.path()).unwrap();
            let said = read.unread.clone().unwrap();
            assert!(said.contains(why), "{said}");
            assert!(!Journal::remove_if_empty(dir.path()));
            read.allowed_meanwhile = Some("reno".to_owned());
            read.write(dir.path()).unwrap();
            assert_eq!(Journal::read(dir.path()).unwrap().unread, None);
            let aside = fs::read_to_string(path(dir.path()).with_extension(UNREAD)).unwrap();
            assert_eq!(aside, other);
        }
    }

    #[test]
    fn an_entry_is_removed_in_place_where_there_is_no_space() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::read(dir.path()).unwrap();
        journal.allowed_meanwhile = Some("reno cubic".to_owned());
        journal.write(dir.path()).unwrap();
        let len = fs::metadata(path(dir.path())).unwrap().len();
        journal.allowed_meanwhile = Some("reno".to_owned());
        journal.overwrite(dir.path()).unwrap();
        let read = Journal::read(dir.path()).unwrap();
        assert_eq!((read.allowed_meanwhile.as_deref(), read.unread), (Some("reno"), None));
        assert_eq!(fs::metadata(path(dir.path())).unwrap().len(), len);
        journal.allowed_meanwhile = None;
        journal.overwrite(dir.path()).unwrap();
        assert!(!path(dir.path()).exists());
    }
}

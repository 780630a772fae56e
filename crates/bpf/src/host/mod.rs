//! The changes that knee makes on a host, and how it undoes them.
//!
//! [`Host`] names two directories. The first holds a lock and a journal; a reboot empties it, as it
//! empties the kernel. The second is in the BPF file system, and its files keep algorithms
//! registered. Every change is written to the journal before it is made.

mod before;
mod bpffs;
pub mod congctl;
mod defaults;
mod journal;
mod load;
pub mod policies;
mod status;
mod trial;
mod unload;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

pub(crate) use bpffs::{USUAL, is_in_private_mounts};
pub(crate) use defaults::cookie_of;
pub use defaults::{available_algorithms, default_algorithm};
pub use journal::{Entry, OldDefault};
pub use load::{Done, Request};
pub(crate) use load::{check_cgroup, proc};
pub use status::{Held, InUse, Origin, Status};
pub use trial::{Ended, Note, Trial, TrialRequest};
pub(crate) use trial::{boot_ns, link_of, pin_link};
pub use unload::{Left, Restored, Unloaded};

use crate::{Error, Rights};
use journal::Journal;

/// The environment variable that replaces [`RUN_DIR`].
const RUN_DIR_VARIABLE: &str = "KNEE_RUN_DIR";
/// The environment variable that names another BPF file system than the host's or knee's own.
const BPFFS_VARIABLE: &str = "KNEE_BPFFS";
/// The directory of the lock, the journal and the trials.
const RUN_DIR: &str = "/run/knee";
/// The longest time that a command waits for another one to finish.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time that a command tolerates a directory that disappears under it, before it
/// reports an error.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// The places where knee records its changes.
pub struct Host {
    run_dir: PathBuf,
    named_bpffs: Option<PathBuf>,
    has_mounted: AtomicBool,
}

/// The lock: while it lives no other command changes the host. The kernel releases it with its
/// process.
pub(crate) struct Lock {
    run_dir: PathBuf,
    _file: File,
}

impl Drop for Lock {
    /// Removes whatever is empty: the journal, and the directory with the lock itself. Commands
    /// that wait for the lock notice that.
    fn drop(&mut self) {
        bpffs::remove_own_if_empty(&self.run_dir);
        trial::remove_dead_notes(&self.run_dir);
        if trial::notes(&self.run_dir).is_empty() && Journal::remove_if_empty(&self.run_dir) {
            let _ = fs::remove_dir(trial::dir(&self.run_dir));
            let _ = fs::remove_file(self.run_dir.join("lock"));
            let _ = fs::remove_dir(&self.run_dir);
        }
    }
}

impl Host {
    /// This host, or the places that `KNEE_RUN_DIR` and `KNEE_BPFFS` name. It creates nothing yet.
    pub fn here() -> Host {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        Host {
            run_dir: named(RUN_DIR_VARIABLE).unwrap_or_else(|| RUN_DIR.into()),
            named_bpffs: named(BPFFS_VARIABLE),
            has_mounted: AtomicBool::new(false),
        }
    }

    /// The journal's entries of the algorithms loaded here, by name.
    ///
    /// # Errors
    /// [`Error::File`] if the journal cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        Ok(Journal::read(&self.run_dir)?.entries)
    }

    /// The names that have pins, whether or not the journal has them.
    fn pinned_names(&self) -> Vec<String> {
        let Ok(pins) = self.pins() else { return Vec::new() };
        let Ok(dirs) = fs::read_dir(pins) else { return Vec::new() };
        let mut names: Vec<String> = dirs
            .filter_map(|dir| dir.ok()?.file_name().into_string().ok())
            .filter(|name| self.link_path(name).is_ok_and(|path| path.exists()))
            .collect();
        names.sort();
        names
    }

    /// The pin of the link whose program gives the algorithm to a cgroup.
    fn cgroup_link_path(&self, name: &str) -> Result<PathBuf, Error> {
        Ok(self.pins()?.join(name).join("cgroup"))
    }

    fn link_path(&self, name: &str) -> Result<PathBuf, Error> {
        Ok(self.pins()?.join(name).join("link"))
    }

    /// Waits for other commands to finish and keeps new ones out.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        self.lock_within(PATIENCE)
    }

    fn lock_within(&self, patience: Duration) -> Result<Lock, Error> {
        let path = self.run_dir.join("lock");
        let failed = |source| Error::File { path: path.clone(), source };
        let started = Instant::now();
        loop {
            bpffs::check_dir(&self.run_dir)?;
            let file = match open_lock(&self.run_dir, &path) {
                Ok(file) => file,
                // The earlier holder of the lock has removed the directory meanwhile.
                Err(error) if is_gone(&error) && started.elapsed() < GONE_WITHIN => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            // Another process may have made it between the check and the open.
            bpffs::check_dir(&self.run_dir)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The earlier holder may have removed the file, and others then lock a new one.
                Ok(()) if is_at(&file, &path) => {
                    return Ok(Lock { run_dir: self.run_dir.clone(), _file: file });
                }
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if started.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path }),
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }
}

fn open_lock(run_dir: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
}

/// Whether the directory disappeared between its lookup and its use.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

fn is_at(file: &File, path: &Path) -> bool {
    let id = |about: fs::Metadata| (about.dev(), about.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(one), Ok(other)) => id(one) == id(other),
        _ => false,
    }
}

/// Refuses early what would fail halfway: knee's changes to a host take all three rights.
pub(crate) fn check_rights(what: &'static str) -> Result<(), Error> {
    let rights = Rights::now();
    if rights.load() && rights.attach() && rights.see() {
        return Ok(());
    }
    Err(Error::NotPermitted {
        what,
        needs: "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN",
    })
}

/// Makes a directory that only its owner can use, and its parents.
pub(crate) fn make_dir(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| Error::File { path: dir.to_owned(), source })
}

/// The first mount point of a file system of this type.
pub(crate) fn mount_point(kind: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").ok()?;
    text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_device, dir, found) = (words.next()?, words.next()?, words.next()?);
        (found == kind).then(|| PathBuf::from(dir.replace("\\040", " ")))
    })
}

//! Chooses the BPF file system that keeps loaded algorithms: the host's, or one of knee's own where
//! the host has none. Knee's own disappears with the last file in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{Mode, OFlags, open, statfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::{Host, Lock, make_dir};
use crate::Error;

/// The usual mount point.
pub(crate) const USUAL: &str = "/sys/fs/bpf";
/// The directory of knee's pins, below the root of the BPF file system.
const PINS_DIR: &str = "knee";
/// The root directory of process 1. `ip netns exec` hides the host's `/sys` from its command.
const FIRST: &str = "/proc/1/root";
/// The magic number that `statfs` gives for a BPF file system (the kernel's magic.h).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
/// The mode bits that let group and others write.
const OTHERS_WRITE: u32 = 0o022;
/// The sticky bit: users who may write can remove only their own files.
const STICKY: u32 = 0o1000;

impl Host {
    /// The directory of all of knee's pins. It may not exist yet.
    ///
    /// # Errors
    /// [`Error::NoBpffs`], [`Error::NotBpffs`]; [`Error::Untrusted`] if other users may be able to
    /// change it.
    pub fn pins(&self) -> Result<PathBuf, Error> {
        let root = self.bpffs()?.ok_or(Error::NoBpffs)?;
        let about = fs::metadata(&root);
        let about = about.map_err(|source| Error::File { path: root.clone(), source })?;
        // Without the sticky bit other users could replace the directory after this check.
        let may_write = about.mode() & STICKY != 0;
        check_owner(&root, &about, if may_write { 0 } else { OTHERS_WRITE })?;
        let pins = root.join(PINS_DIR);
        check_dir(&pins)?;
        Ok(pins)
    }

    /// Returns [`Host::pins`], after mounting a BPF file system if there is none. That one
    /// disappears with `lock` if it is empty by then.
    pub(crate) fn need_pins(&self, _lock: &Lock) -> Result<PathBuf, Error> {
        if self.bpffs()?.is_none() {
            self.mount_own()?;
        }
        self.pins()
    }

    /// Makes this directory and its parents.
    pub(crate) fn make_pin_dir(&self, dir: &Path) -> Result<(), Error> {
        make_dir(dir)?;
        // Another process may have made it first.
        self.pins().map(|_| ())
    }

    /// The mount point of the BPF file system that this value has mounted; `None` if there was one
    /// before.
    pub fn mounted(&self) -> Option<PathBuf> {
        self.has_mounted.load(Ordering::Relaxed).then(|| own(&self.run_dir))
    }

    /// Finds the BPF file system; `None` if none is mounted. Knee's own comes first: it holds what
    /// was loaded while there was no other.
    fn bpffs(&self) -> Result<Option<PathBuf>, Error> {
        if let Some(named) = &self.named_bpffs {
            return match is_bpffs(named) {
                true => Ok(Some(named.clone())),
                false => Err(Error::NotBpffs { path: named.clone() }),
            };
        }
        let own = own(&self.run_dir);
        let mut places = vec![own.clone(), USUAL.into()];
        if is_in_private_mounts() && is_same_as_of_first(&self.run_dir) {
            // This mount namespace may be older than the mount.
            places.insert(1, in_first(&own));
            places.push(in_first(Path::new(USUAL)));
        }
        Ok(places.into_iter().find(|place| is_bpffs(place)))
    }

    fn mount_own(&self) -> Result<(), Error> {
        if is_in_private_mounts() {
            return Err(Error::PrivateMounts);
        }
        let own = own(&self.run_dir);
        let is_new = !own.exists();
        make_dir(&own)?;
        check_dir(&self.run_dir)?;
        check_dir(&own)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        if let Err(errno) = mount("bpf", &own, "bpf", flags, c"mode=0700") {
            if is_new {
                let _ = fs::remove_dir(&own);
            }
            return Err(Error::Host {
                what: format!(
                    "no BPF file system is mounted (mount -t bpf -o mode=0700 bpf {USUAL}), and none \
                     can be at {}",
                    own.display()
                ),
                source: errno.into(),
            });
        }
        self.has_mounted.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The mount point of knee's own BPF file system.
fn own(run_dir: &Path) -> PathBuf {
    run_dir.join("bpf")
}

/// Unmounts knee's own BPF file system if it is empty. The caller holds the lock.
pub(super) fn remove_own_if_empty(run_dir: &Path) {
    let own = own(run_dir);
    if !is_bpffs(&own) {
        // It may be mounted in another mount namespace. Removing its directory there would unmount
        // it with everything that it keeps.
        return;
    }
    let _ = fs::remove_dir(own.join(PINS_DIR));
    // Names with a dot are the kernel's own files; nobody else may use a dot.
    let is_others = |name: &std::ffi::OsStr| !name.to_string_lossy().contains('.');
    let left = fs::read_dir(&own);
    let is_empty =
        left.is_ok_and(|left| !left.flatten().any(|entry| is_others(&entry.file_name())));
    // Another process may be reading it.
    if is_empty && unmount(&own, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {
        // In other mount namespaces it is empty as well.
        let _ = fs::remove_dir(own);
    }
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|about| about.f_type as u64 == BPF_FS_MAGIC)
}

/// Whether mounts made here end with a mount namespace that is not the host's. If that is unknown,
/// the answer is no.
pub(crate) fn is_in_private_mounts() -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    match (namespace("self"), namespace("1")) {
        (Ok(own), Ok(first)) => own != first,
        _ => false,
    }
}

fn in_first(path: &Path) -> PathBuf {
    Path::new(FIRST).join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether process 1 sees the same journal, so that its pins are those of this journal.
fn is_same_as_of_first(run_dir: &Path) -> bool {
    let parent = run_dir.parent().unwrap_or(run_dir);
    let id = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    id(parent).is_some_and(|here| id(&in_first(parent)) == Some(here))
}

/// Checks that the path is no link and that only its owner can change it. A missing directory
/// passes, as root makes it.
pub(super) fn check_dir(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => check_owner(path, &about, OTHERS_WRITE)?,
        Ok(_) => return Err(Error::Untrusted { path: path.to_owned(), owner: None }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::File { path: path.to_owned(), source }),
    }
    // Who can change a directory on the way could put another in its place.
    knee_files::trust::check(path)
        .map_err(|why| Error::File { path: path.to_owned(), source: why.into() })
}

fn check_owner(path: &Path, about: &fs::Metadata, forbidden: u32) -> Result<(), Error> {
    let us = rustix::process::geteuid().as_raw();
    if [0, us].contains(&about.uid()) && about.mode() & forbidden == 0 {
        return Ok(());
    }
    let owner = Some((about.uid(), about.mode() & 0o7777));
    Err(Error::Untrusted { path: path.to_owned(), owner })
}

/// Opens one of knee's own files for reading. It refuses links and anything that would block the
/// reader.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads such a file, up to `most_bytes`.
pub(super) fn read_file(path: &Path, most_bytes: u64) -> io::Result<String> {
    let file = open_file(path)?;
    if file.metadata()?.len() > most_bytes {
        let what = format!("more than {most_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(file, most_bytes), &mut text)?;
    Ok(text)
}

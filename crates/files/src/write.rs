//! Safe creation of files.
//!
//! In a directory that others can write, a predictable name may become a link to any file before it is opened. So a new file has a
//! random name until it is complete, links are never followed, and both names are resolved in one open directory. (The
//! `tempfile` crate guards the name alike, but resolves the directory's path each time.) When root runs this, the directory must be
//! one that only root can change: see [`crate::trust::check`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, linkat, mkdirat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::trust::{HELD, mode_of_new};

/// Ends the name of a file that is not complete.
pub const PARTIAL: &str = ".partial";

/// Mode of new files, before the process's umask.
const MODE: u32 = 0o666;
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Random text for names: 16 digits.
///
/// # Errors
/// If the system has no random numbers.
pub fn mark() -> io::Result<String> {
    let mut bytes = [0; 8];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    match got == bytes.len() {
        true => Ok(format!("{:016x}", u64::from_ne_bytes(bytes))),
        false => Err(io::Error::other("the kernel gives too few random numbers")),
    }
}

/// Creates a new file; a link of this name is an error. The file has its name while it is written.
///
/// # Errors
/// What the system says.
pub fn create_new(path: &Path) -> io::Result<File> {
    let (dir, name) = Dir::of(path)?;
    dir.create(name)
}

/// As [`create_new`], readable by its owner only.
///
/// # Errors
/// What the system says.
pub fn create_private(path: &Path) -> io::Result<File> {
    let (dir, name) = Dir::of(path)?;
    Ok(File::from(openat(&dir.handle, name, NEW, PRIVATE)?))
}

const NEW: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Writes a file, whole or not at all, in the place of one that is there.
///
/// # Errors
/// What the system says; or if there is something else than a file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.keep()
}

/// The same where no file is.
///
/// # Errors
/// What the system says.
pub fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.keep_new()
}

/// A file that gets its name when it is whole. Without that it goes.
#[derive(Debug)]
pub struct NewFile {
    dir: Dir,
    /// Until it has its own; then empty.
    partial: OsString,
    name: OsString,
    file: File,
}

impl NewFile {
    /// Begins one.
    ///
    /// # Errors
    /// What the system says; or if the name is that of something else than a file.
    pub fn create(path: &Path) -> io::Result<NewFile> {
        let (dir, name) = Dir::of(path)?;
        dir.check_replaceable(name)?;
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(format!(".{}{PARTIAL}", mark()?));
        let file = dir.create(&partial)?;
        Ok(NewFile { name: name.to_owned(), dir, partial, file })
    }

    /// Gives it its name, in the place of what has it.
    ///
    /// # Errors
    /// What the system says; then there is no new file.
    pub fn keep(mut self) -> io::Result<()> {
        self.dir.rename(&self.partial, &self.dir, &self.name)?;
        self.partial.clear();
        Ok(())
    }

    /// Sets its mode.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_permissions(&self, permissions: std::fs::Permissions) -> io::Result<()> {
        self.file.set_permissions(permissions)
    }

    /// Gives it its name, which nothing may have.
    ///
    /// # Errors
    /// What the system says; then there is no new file.
    pub fn keep_new(mut self) -> io::Result<()> {
        self.dir.rename_new(&self.partial, &self.name)?;
        self.partial.clear();
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads back the written data before the file gets its name.
impl Read for NewFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            // What cannot be removed is named as partial.
            let _ = self.dir.remove(&self.partial);
        }
    }
}

/// A directory that is held: whatever its name leads to by now, this is the one.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedFd,
}

impl Dir {
    /// Opens it to write into it. Its path may have links; when root runs this, only links and directories that
    /// [`crate::trust::check`] accepts, or a sticky directory such as /tmp.
    ///
    /// # Errors
    /// What the system says, or who else can place links there.
    pub fn open(path: &Path) -> io::Result<Dir> {
        Ok(Dir { handle: crate::trust::open_dir(path)? })
    }

    /// The same, and makes what is missing of it.
    ///
    /// # Errors
    /// As of [`Dir::open`].
    pub fn make_all(path: &Path) -> io::Result<Dir> {
        Ok(Dir { handle: crate::trust::make_dirs(path, 0o777)? })
    }

    /// The same, readable by its owner only.
    ///
    /// # Errors
    /// As of [`Dir::open`].
    pub fn make_all_private(path: &Path) -> io::Result<Dir> {
        Ok(Dir { handle: crate::trust::make_dirs(path, 0o700)? })
    }

    /// That of a file, and the file's name in it.
    ///
    /// # Errors
    /// As of [`Dir::open`], or if the path ends in no name.
    pub fn of(path: &Path) -> io::Result<(Dir, &OsStr)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("it is not a file name"))?;
        let dir = match path.parent() {
            Some(parent) if parent != Path::new("") => Dir::open(parent),
            _ => Dir::open(Path::new(".")),
        };
        Ok((dir?, name))
    }

    /// One in it, which is no link.
    ///
    /// # Errors
    /// What the system says; for root, also if others own it or can write into it.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<Dir> {
        let handle = openat(&self.handle, name, HELD | OFlags::NOFOLLOW, Mode::empty())?;
        crate::trust::check_held(&handle, name)?;
        Ok(Dir { handle })
    }

    /// One in it, which is no link and belongs to this process's user.
    ///
    /// # Errors
    /// What the system says, or that it is another's.
    pub fn open_own(&self, name: &OsStr) -> io::Result<Dir> {
        let dir = self.open_dir(name)?;
        let owner = rustix::fs::fstat(&dir.handle)?.st_uid;
        match owner == rustix::process::geteuid().as_raw() {
            true => Ok(dir),
            false => Err(io::Error::other("another directory has replaced it")),
        }
    }

    /// Makes one in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(&self, name: &OsStr) -> io::Result<Dir> {
        self.make_with(name, 0o777)
    }

    pub(crate) fn make_with(&self, name: &OsStr, mode: u32) -> io::Result<Dir> {
        mkdirat(&self.handle, name, mode_of_new(mode))?;
        self.open_own(name)
    }

    /// A path to it that no other directory can be put in the place of, for as long as this is held.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_fd().as_raw_fd()))
    }

    /// Creates a new file.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        Ok(File::from(openat(&self.handle, name, NEW, mode_of_new(MODE))?))
    }

    /// Opens a file to write at its end; makes it if it is missing. A link is an error.
    ///
    /// # Errors
    /// What the system says; or if there is something else than a file.
    pub fn append(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NONBLOCK;
        let file = File::from(openat(&self.handle, name, flags, mode_of_new(MODE))?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file: name another")),
        }
    }

    /// Opens a file that is no link, for [`File::sync_all`] and the like.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(openat(&self.handle, name, flags, Mode::empty())?))
    }

    /// The names in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether there is a directory of this name, and no link to one.
    pub fn is_dir(&self, name: &OsStr) -> bool {
        self.kind(name).is_ok_and(|kind| kind == FileType::Directory)
    }

    /// Whether there is a regular file of this name, and no link to one.
    pub fn is_file(&self, name: &OsStr) -> bool {
        self.kind(name).is_ok_and(|kind| kind == FileType::RegularFile)
    }

    fn kind(&self, name: &OsStr) -> io::Result<FileType> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    /// Gives what is in it another name, in the place of what has that.
    ///
    /// # Errors
    /// What the system says.
    pub fn rename(&self, from: &OsStr, to: &Dir, name: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &to.handle, name)?)
    }

    /// Gives a file in it a name that nothing has.
    ///
    /// # Errors
    /// What the system says; [`ErrorKind::AlreadyExists`] if something has it.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match linkat(&self.handle, from, &self.handle, to, AtFlags::empty()) {
            Ok(()) => {
                let _ = self.remove(from);
                Ok(())
            }
            Err(why) if why == rustix::io::Errno::EXIST => Err(why.into()),
            // A file system without links: then there is no better way than looking first.
            Err(_) if self.kind(to).is_ok() => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => self.rename(from, self, to),
        }
    }

    /// Removes a file, or a link.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// Refuses to replace anything but a regular file, or a link to one: /dev/stdout stays.
    fn check_replaceable(&self, name: &OsStr) -> io::Result<()> {
        // Whatever this process has there, which may be a file.
        let target = readlinkat(&self.handle, name, Vec::new());
        if target.is_ok_and(|target| target.to_bytes().starts_with(b"/proc/")) {
            return Err(io::Error::other("it is not a regular file: name another"));
        }
        let found = match statat(&self.handle, name, AtFlags::empty()) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            // Nothing, or a link to nothing.
            Err(_) => return Ok(()),
        };
        match found {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(io::Error::other("it is a directory: name a file in it")),
            _ => Err(io::Error::other("it is not a regular file: name another")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    struct Scratch(TempDir);

    impl Scratch {
        fn new() -> Scratch {
            Scratch(tempfile::tempdir().unwrap())
        }

        fn names(&self) -> Vec<OsString> {
            let mut names = Dir::open(self.0.path()).unwrap().names().unwrap();
            names.sort();
            names
        }
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let scratch = Scratch::new();
        let (mine, link) = (scratch.0.path().join("mine"), scratch.0.path().join("report.html"));
        fs::write(&mine, "kept").unwrap();
        symlink(&mine, &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "kept");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(!link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(write_new(&link, "other").unwrap_err().kind(), ErrorKind::AlreadyExists);
        symlink(scratch.0.path().join("nothing"), scratch.0.path().join("dangling")).unwrap();
        for path in ["dangling", "mine"] {
            let again = create_new(&scratch.0.path().join(path)).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(scratch.names(), ["dangling", "mine", "report.html"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing_and_what_is_no_file_stays() {
        let scratch = Scratch::new();
        let path = scratch.0.path().join("x");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        let [partial] = &scratch.names()[..] else { panic!("one file") };
        let partial = partial.to_string_lossy().into_owned();
        assert!(partial.starts_with(".x.") && partial.ends_with(PARTIAL), "{partial}");
        drop(file);
        assert!(scratch.names().is_empty());
        for (path, why) in [
            ("/dev/null", "not a regular file"),
            ("/dev/stdout", "not a regular file"),
            ("/tmp", "a directory"),
        ] {
            let said = write(Path::new(path), "").unwrap_err().to_string();
            assert!(said.contains(why), "{path}: {said}");
        }
    }

    #[test]
    fn a_directory_that_is_held_is_the_one_whatever_its_name_leads_to() {
        let scratch = Scratch::new();
        let (before, other) = (scratch.0.path().join("dir"), scratch.0.path().join("other"));
        fs::create_dir(&before).unwrap();
        fs::create_dir(&other).unwrap();
        let mut file = NewFile::create(&before.join("x")).unwrap();
        let dir = Dir::open(&before).unwrap();
        fs::rename(&before, scratch.0.path().join("moved")).unwrap();
        symlink(&other, &before).unwrap();
        file.write_all(b"all").unwrap();
        file.keep().unwrap();
        assert_eq!(fs::read_to_string(scratch.0.path().join("moved/x")).unwrap(), "all");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        assert!(dir.is_file(OsStr::new("x")) && dir.path().join("x").is_file());
        let outer = Dir::open(scratch.0.path()).unwrap();
        assert!(outer.open_own(OsStr::new("dir")).is_err() && !outer.is_dir(OsStr::new("dir")));
        let made = outer.make(OsStr::new("made")).unwrap();
        assert!(made.path().is_dir() && outer.make(OsStr::new("made")).is_err());
    }
}

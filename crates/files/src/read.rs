//! Files are opened and read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, fcntl_setfl, fstat, open,
    openat, openat2, stat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::trust;

/// Why a file is not read. As text it continues "FILE: ".
#[derive(Debug)]
pub enum Unreadable {
    /// The system says why.
    Io(io::Error),
    /// Not a regular file.
    Kind {
        is: &'static str,
        /// Kind of file, as "policy file".
        what: &'static str,
    },
    /// Longer than the limit for its kind.
    TooLong {
        /// Limit in bytes.
        limit: u64,
        /// Kind of file, as "policy file".
        what: &'static str,
    },
    /// Not UTF-8.
    NotText {
        /// Where it ceases to be, from 1.
        line: u32,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Io(why) => write!(f, "cannot read: {why}"),
            Unreadable::Kind { is, what } => write!(f, "is {is}, not {}", one(what)),
            Unreadable::TooLong { limit, what } => {
                write!(f, "is longer than {}, the limit for {}", Bytes(*limit), one(what))
            }
            Unreadable::NotText { .. } => f.write_str("is not text in UTF-8"),
        }
    }
}

/// The word with its article.
fn one(what: &str) -> String {
    let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {what}")
}

impl std::error::Error for Unreadable {}

impl From<io::Error> for Unreadable {
    fn from(why: io::Error) -> Unreadable {
        Unreadable::Io(why)
    }
}

impl Unreadable {
    /// Whether there is no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self, Unreadable::Io(why) if why.kind() == io::ErrorKind::NotFound)
    }

    /// As an [`io::Error`], for callers whose message begins with "cannot read: ".
    pub fn into_io(self) -> io::Error {
        match self {
            Unreadable::Io(why) => why,
            other => io::Error::new(io::ErrorKind::InvalidData, format!("it {other}")),
        }
    }
}

/// A limit, in the largest unit in which it is whole.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 20 && n % (1 << 20) == 0 => write!(f, "{} MiB", n >> 20),
            n if n >= 1 << 10 && n % (1 << 10) == 0 => write!(f, "{} KiB", n >> 10),
            n => write!(f, "{n} bytes"),
        }
    }
}

/// Opens a regular file, or a pipe that this process was given (`/dev/stdin`, `/dev/fd/N` as of a shell's `<(...)`). Nothing else is
/// waited for, a pipe of the file system least of all. Root's knee follows no link of another user.
///
/// # Errors
/// [`Unreadable`], if it is something else or cannot be opened.
pub fn open_file(path: &Path, what: &'static str) -> Result<File, Unreadable> {
    let check = |mode| match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Fifo if is_given(path) => Ok(()),
        kind => Err(Unreadable::Kind { is: called(kind), what }),
    };
    // Opening alone is an order to some devices, so these are not opened at all; what decides is what has been opened.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    check(stat(path).map_err(io::Error::from)?.st_mode)?;
    let file = if geteuid().is_root() && !is_given(path) {
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // There are links: whose they are is looked at. So it is where the kernel has no such call.
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {
                let (dir, name) = trust::place_of(path)?;
                let found = statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW);
                check(found.map_err(io::Error::from)?.st_mode)?;
                openat(&dir, &name, flags | OFlags::NOFOLLOW, Mode::empty())
            }
            opened => opened,
        }
    } else {
        open(path, flags, Mode::empty())
    };
    let file = file.map_err(io::Error::from)?;
    check(fstat(&file).map_err(io::Error::from)?.st_mode)?;
    // From here on a reader waits for what comes.
    let flags = fcntl_getfl(&file).map_err(io::Error::from)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(io::Error::from)?;
    Ok(File::from(file))
}

/// Reads a file of at most `limit` bytes, of a kind that [`open_file`] opens.
///
/// # Errors
/// [`Unreadable`], if it is longer, no file, or cannot be read.
pub fn read_bounded(path: &Path, limit: u64, what: &'static str) -> Result<Vec<u8>, Unreadable> {
    read_open(open_file(path, what)?, limit, what)
}

/// Reads what [`open_file`] has opened, from where it is.
///
/// # Errors
/// [`Unreadable`], if it is longer than `limit` bytes, or cannot be read.
pub fn read_open(file: File, limit: u64, what: &'static str) -> Result<Vec<u8>, Unreadable> {
    // A file of the file system says its length, and most that are too long need not be read for it.
    if file.metadata()?.len() > limit {
        return Err(Unreadable::TooLong { limit, what });
    }
    let mut bytes = Vec::new();
    // One byte more than may be, so that a longer one is told from one that just fits.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(Unreadable::TooLong { limit, what }),
        false => Ok(bytes),
    }
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// As of [`read_bounded`], and if it is no text.
pub fn read_text(path: &Path, limit: u64, what: &'static str) -> Result<String, Unreadable> {
    String::from_utf8(read_bounded(path, limit, what)?).map_err(|why| {
        let valid = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        Unreadable::NotText { line: u32::try_from(line).unwrap_or(u32::MAX) }
    })
}

/// Whether a path is a name of something that this process has open.
fn is_given(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of = |folder: &str| text.strip_prefix(folder).is_some_and(number);
    text == "/dev/stdin" || of("/dev/fd/") || of("/proc/self/fd/")
}

fn called(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "no regular file",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    struct Scratch(TempDir);

    impl Scratch {
        fn new() -> Scratch {
            Scratch(tempfile::tempdir().unwrap())
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        }
    }

    fn why(path: &Path) -> String {
        read_text(path, 4096, "experiment file").unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_file_is_said_and_not_waited_for() {
        let scratch = Scratch::new();
        let pipe = scratch.0.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = UnixListener::bind(scratch.0.path().join("socket")).unwrap();
        assert_eq!(why(scratch.0.path()), "is a directory, not an experiment file");
        assert_eq!(why(&pipe), "is a named pipe, not an experiment file");
        assert_eq!(why(&scratch.0.path().join("socket")), "is a socket, not an experiment file");
        // The system opens none, not even one that this process was given.
        let given = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket)));
        assert_eq!(why(&given), "is a socket, not an experiment file");
        assert_eq!(why(Path::new("/dev/zero")), "is a device, not an experiment file");
        let none = read_bounded(&scratch.0.path().join("none"), 1, "policy file").unwrap_err();
        assert!(none.is_absent() && none.to_string().starts_with("cannot read: No such file"));
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let scratch = Scratch::new();
        let fits = scratch.file("fits", &[b'x'; 4096]);
        assert_eq!(read_text(&fits, 4096, "policy file").unwrap().len(), 4096);
        let long = scratch.file("long", &[b'x'; 4097]);
        assert_eq!(why(&long), "is longer than 4 KiB, the limit for an experiment file");
        // The files of /proc say that they are empty.
        let grown = read_bounded(Path::new("/proc/self/maps"), 8, "policy file").unwrap_err();
        assert_eq!(grown.to_string(), "is longer than 8 bytes, the limit for a policy file");
        let holes = scratch.file("holes", b"");
        File::options().write(true).open(&holes).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(why(&holes), "is longer than 4 KiB, the limit for an experiment file");
    }

    #[test]
    fn what_is_not_text_is_told_by_its_line() {
        let scratch = Scratch::new();
        let latin = scratch.file("latin", b"# a\nquestion = \"caf\xe9\"\n");
        let Unreadable::NotText { line } = read_text(&latin, 4096, "x").unwrap_err() else {
            panic!("another reason");
        };
        assert_eq!(line, 2);
    }

    #[test]
    fn a_pipe_that_was_given_is_read() {
        let scratch = Scratch::new();
        let path = scratch.0.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // A reader of its own, as a shell gives a command for <(...).
        let held = File::options().read(true).write(true).open(&path).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&held);
        let given = PathBuf::from(format!("/dev/fd/{number}"));
        fs::write(&path, "x").unwrap();
        let mut byte = [0];
        open_file(&given, "policy file").unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(byte, [b'x']);
    }
}

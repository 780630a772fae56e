//! The user's cache directory for headers and compiled objects. The content determines each name.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::sha256;

/// The time for which an object is kept that nobody uses.
const KEPT_UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The time after which a compiler's directory is one that a killed process has left.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The cache of headers and objects: `knee` in the user's cache directory.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens this user's cache and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or if others can write to it.
    pub fn open() -> Result<Cache, String> {
        let var =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = match (var("XDG_CACHE_HOME"), var("HOME")) {
            (Some(cache), _) => cache.join("knee"),
            (None, Some(home)) => home.join(".cache/knee"),
            (None, None) => temporary()?,
        };
        // Nothing is made where others could replace it, and what is there must be out of their reach, too.
        let check = || {
            knee_files::trust::check_own(&dir).map_err(|why| {
                format!(
                    "what is compiled would be kept in {} and run from there, but {why}; XDG_CACHE_HOME names another directory",
                    dir.display()
                )
            })
        };
        check()?;
        make_private_dirs(&dir).and_then(|()| fs::metadata(&dir)).map_or_else(
            |why| Err(cannot_keep(&dir, &why)),
            |metadata| is_private(&dir, &metadata),
        )?;
        check()?;
        Ok(Cache { dir })
    }

    /// Returns a directory that holds these files, given by name and text. Its name consists of
    /// `what` and a hash of the content.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn headers(&self, what: &str, texts: &[(String, String)]) -> Result<PathBuf, String> {
        let mut all = String::new();
        for (name, text) in texts {
            all.push_str(name);
            all.push_str(text);
        }
        let include = self.dir.join(format!("{what}-{}", &sha256::hex(all.as_bytes())[..16]));
        self.write_headers(&include, texts).map_err(|why| self.failed(&why))?;
        Ok(include)
    }

    /// Writes the headers under a temporary name and then renames the directory, so that an
    /// existing one is complete.
    fn write_headers(&self, include: &Path, texts: &[(String, String)]) -> io::Result<()> {
        if include.is_dir() {
            return Ok(());
        }
        let partial = self.unique("include");
        for (name, text) in texts {
            let path = partial.join(name);
            if let Some(folder) = path.parent() {
                make_private_dirs(folder)?;
            }
            knee_files::write(&path, text)?;
        }
        match knee_files::rename(&partial, include) {
            // Another process has created the same directory first.
            Err(_) if include.is_dir() => knee_files::remove_tree(&partial),
            renamed => renamed,
        }
    }

    /// Returns the path of the object with this key, whether or not it exists.
    pub fn object(&self, key: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{key}.{extension}"))
    }

    /// Returns the path of the object with this key if it exists, and marks it as used. One that others can have changed does not
    /// exist: it is compiled again.
    pub fn existing(&self, key: &str, extension: &str) -> Option<PathBuf> {
        let object = self.object(key, extension);
        let file = fs::File::open(&object).ok()?;
        is_private(&object, &file.metadata().ok()?).ok()?;
        // An object that cannot be marked is compiled again some day.
        let _ = file.set_modified(SystemTime::now());
        Some(object)
    }

    /// Removes objects and temporary files that nobody has used for 30 days. Call it after a
    /// compilation: only compilations make the cache grow.
    pub fn remove_unused(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_work = name.to_string_lossy().starts_with(".work-");
            let is_left = |age: Duration| is_work && age > LEFT_AFTER;
            let age = |entry: &fs::DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if age(&entry).is_some_and(is_left) {
                // Another process may have removed it first.
                let _ = knee_files::remove_tree(&entry.path());
                continue;
            }
            let is_unused =
                entry.metadata().ok().filter(fs::Metadata::is_file).is_some_and(|file| {
                    let age = file.modified().ok().and_then(|used| used.elapsed().ok());
                    age.is_some_and(|age| age > KEPT_UNUSED)
                });
            if is_unused && is_object_or_temporary(&entry.file_name()) {
                // Another process may have removed it first.
                let _ = knee_files::remove_file(&entry.path());
            }
        }
    }

    /// Returns a name in the cache that nobody else uses.
    pub fn unique(&self, extension: &str) -> PathBuf {
        unique(&self.dir, extension)
    }

    /// Makes a directory for one compiler to write.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn work(&self) -> Result<Work, String> {
        let made = knee_files::mark().and_then(|mark| {
            let path = self.dir.join(format!(".work-{mark}"));
            knee_files::make_private_dir(&path).map(|_| Work(path))
        });
        made.map_err(|why| self.failed(&why))
    }

    /// Returns the sentence about a failed write to the cache.
    pub fn failed(&self, why: &io::Error) -> String {
        cannot_keep(&self.dir, why)
    }
}

/// A directory that goes when it is dropped.
#[derive(Debug)]
pub struct Work(PathBuf);

impl Work {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed goes as unused some day.
        let _ = knee_files::remove_tree(&self.0);
    }
}

fn cannot_keep(dir: &Path, why: &io::Error) -> String {
    format!(
        "cannot keep what is compiled in {}: {why}; XDG_CACHE_HOME names another directory",
        dir.display()
    )
}

/// Checks that nobody else can write to the directory, or to an object in it, because objects are executed.
fn is_private(dir: &Path, metadata: &fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let others_write = metadata.mode() & 0o022 != 0;
    if metadata.uid() == own && !others_write {
        return Ok(());
    }
    let why = match others_write {
        true => "others may write there (chmod go-w mends that)".to_owned(),
        false => format!("it belongs to user {} and this is user {own}", metadata.uid()),
    };
    Err(format!(
        "what is compiled would be kept in {} and run from there, but {why}; XDG_CACHE_HOME names another directory",
        dir.display()
    ))
}

/// Reports whether a file has a name as [`Cache::object`] or [`Cache::unique`] gives it.
fn is_object_or_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let (first, extension) = name.trim_start_matches('.').split_once('.').unwrap_or_default();
    let is_temporary = name.starts_with('.') && first.contains('-');
    let is_object = first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(extension, "so" | "o" | "c" | "bpf.o") && (is_temporary || is_object)
}

/// Creates a directory for this process, for users without a home directory. It is removed when the
/// process ends.
fn temporary() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<CString, String>> = OnceLock::new();
    extern "C" fn remove() {
        if let Some(Ok(made)) = MADE.get() {
            // A directory that cannot be removed stays; nothing can be done about it.
            let _ = knee_files::remove_tree(Path::new(OsStr::from_bytes(made.as_bytes())));
        }
    }
    let made = MADE.get_or_init(|| {
        let make = |path: &Path| {
            let dir = path.with_file_name(format!("knee-{}", knee_files::mark()?));
            knee_files::make_private_dir(&dir)?;
            Ok(CString::new(dir.into_os_string().into_vec())?)
        };
        let path = std::env::temp_dir().join("knee");
        let made = make(&path).map_err(|why| cannot_keep(&path, &why))?;
        // SAFETY: `remove` is a function of this program, which is never unloaded.
        unsafe { libc::atexit(remove) };
        Ok(made)
    });
    made.clone().map(|made| PathBuf::from(OsString::from_vec(made.into_bytes())))
}

/// Creates directories to which nobody else can write, because objects in them are executed.
fn make_private_dirs(dir: &Path) -> io::Result<()> {
    knee_files::Dir::make_all_private(dir).map(drop)
}

/// Returns a name in a directory that nobody else uses.
pub(super) fn unique(dir: &Path, extension: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    dir.join(format!(".{}-{number}.{extension}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_nobody_has_used_for_long_go_and_all_else_stays() {
        let dir = std::env::temp_dir().join(format!("knee-cache-{}", std::process::id()));
        make_private_dirs(&dir).unwrap();
        let cache = Cache { dir: dir.clone() };
        let key = |digit: &str| digit.repeat(64);
        let long_ago = SystemTime::now() - KEPT_UNUSED - Duration::from_secs(60);
        let old = [
            (cache.object(&key("a"), "so"), false),
            (cache.object(&key("b"), "bpf.o"), false),
            (dir.join(".1-0.so"), false),
            (dir.join("notes.so"), true),
            (cache.object(&key("c"), "txt"), true),
            (cache.object(&key("d"), "o"), true),
        ];
        let new = (cache.object(&key("e"), "so"), true);
        for (path, _) in old.iter().chain([&new]) {
            fs::write(path, "").unwrap();
        }
        for (path, _) in &old {
            fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        assert!(cache.existing(&key("d"), "o").is_some());
        assert!(cache.existing(&key("f"), "o").is_none());
        cache.remove_unused();
        for (path, stays) in old.iter().chain([&new]) {
            assert_eq!(path.exists(), *stays, "{}", path.display());
        }
        fs::remove_dir_all(dir).unwrap();
    }
}

//! Changes of the file system by path: each opens the directory as [`Dir::open`] does, and acts in it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::{Dir, NewFile};

/// Makes a directory; an existing one is an error.
///
/// # Errors
/// As of [`Dir::open`] and [`Dir::make`].
pub fn make_dir(path: &Path) -> io::Result<Dir> {
    if path.file_name().is_none() {
        // "." and "/" are there.
        return Err(ErrorKind::AlreadyExists.into());
    }
    let (dir, name) = Dir::of(path)?;
    dir.make(name)
}

/// As [`make_dir`], readable by its owner only.
///
/// # Errors
/// As of [`make_dir`].
pub fn make_private_dir(path: &Path) -> io::Result<Dir> {
    let (dir, name) = Dir::of(path)?;
    dir.make_with(name, 0o700)
}

/// Removes a file, or a link.
///
/// # Errors
/// As of [`Dir::open`] and [`Dir::remove`].
pub fn remove_file(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::of(path)?;
    dir.remove(name)
}

/// Removes an empty directory.
///
/// # Errors
/// As of [`Dir::open`] and [`Dir::remove_dir`].
pub fn remove_dir(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::of(path)?;
    dir.remove_dir(name)
}

/// Removes a directory and all that is in it; follows no link.
///
/// # Errors
/// As of [`Dir::open`]; or if something cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (dir, name) = Dir::of(path)?;
    dir.remove_tree(name)
}

/// Gives something another name, in the place of what has that.
///
/// # Errors
/// As of [`Dir::open`] and [`Dir::rename`].
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((dir, from), (to_dir, to)) = (Dir::of(from)?, Dir::of(to)?);
    dir.rename(from, &to_dir, to)
}

/// Opens a file to write at its end; makes it if it is missing.
///
/// # Errors
/// As of [`Dir::open`] and [`Dir::append`].
pub fn append(path: &Path) -> io::Result<File> {
    let (dir, name) = Dir::of(path)?;
    dir.append(name)
}

/// Copies a file with its mode, whole or not at all.
///
/// # Errors
/// As of [`NewFile::create`], or if the file cannot be read.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy = NewFile::create(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(source.metadata()?.permissions())?;
    copy.keep()
}

impl Dir {
    /// Removes a directory in it, and all that is in that one; follows no link.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn remove_tree(&self, name: &std::ffi::OsStr) -> io::Result<()> {
        let dir = self.open_dir(name)?;
        for name in dir.names()? {
            let removed = match dir.is_dir(&name) {
                true => dir.remove_tree(&name),
                false => dir.remove(&name),
            };
            match removed {
                // Another process may have removed it first.
                Err(why) if why.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        self.remove_dir(name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_tree_goes_and_what_its_links_lead_to_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        Dir::make_all(&at("tree/a/b")).unwrap();
        fs::write(at("tree/a/b/c"), "").unwrap();
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/file"), "mine").unwrap();
        symlink(at("kept"), at("tree/a/link")).unwrap();
        symlink(at("kept"), at("link")).unwrap();
        assert!(remove_tree(&at("link")).is_err());
        remove_tree(&at("tree")).unwrap();
        assert!(!at("tree").exists() && fs::read_to_string(at("kept/file")).unwrap() == "mine");
        remove_file(&at("link")).unwrap();
        assert!(make_dir(&at("kept")).is_err() && remove_dir(&at("kept")).is_err());
    }

    #[test]
    fn files_are_renamed_copied_and_appended_to_but_not_through_links() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink(at("a"), at("link")).unwrap();
        assert!(append(&at("link")).is_err());
        copy(&at("a"), &at("link")).unwrap();
        assert_eq!(fs::metadata(at("link")).unwrap().mode() & 0o777, 0o755);
        assert!(!at("link").symlink_metadata().unwrap().is_symlink());
        io::Write::write_all(&mut append(&at("link")).unwrap(), b"b").unwrap();
        rename(&at("link"), &at("b")).unwrap();
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "ab");
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "a");
        let held = make_private_dir(&at("private")).unwrap();
        assert_eq!(fs::metadata(at("private")).unwrap().mode() & 0o777, 0o700);
        // The path of a directory that is held leads there whatever its name is by now.
        fs::rename(at("private"), at("moved")).unwrap();
        crate::write(&held.path().join("x"), "").unwrap();
        assert!(at("moved/x").is_file());
    }

    /// Whatever is done by path is refused where another user could have put something else in its place.
    #[test]
    fn root_changes_nothing_where_others_can() {
        if !rustix::process::geteuid().is_root() {
            let mut err = io::stderr();
            io::Write::write_all(&mut err, b"SKIPPED: only root can give directories to others\n")
                .unwrap();
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for dir in ["kept", "theirs/own", "open", "sticky"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        fs::write(at("kept/file"), "mine").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(at("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(at("kept"), at("theirs/link")).unwrap();
        symlink(at("kept"), at("sticky/link")).unwrap();
        for name in ["theirs", "theirs/link", "sticky/link"] {
            std::os::unix::fs::lchown(at(name), Some(65534), Some(65534)).unwrap();
        }
        for dir in ["theirs", "theirs/own", "theirs/link", "open", "sticky/link"] {
            let (dir, file) = (at(dir), at(dir).join("file"));
            let is_refused = |done: io::Result<()>| {
                let why = done.unwrap_err();
                assert_eq!(why.kind(), ErrorKind::PermissionDenied, "{why}");
                assert!(why.to_string().starts_with("as root, knee does not write"), "{why}");
            };
            is_refused(Dir::open(&dir).map(drop));
            is_refused(Dir::make_all(&dir).map(drop));
            is_refused(Dir::make_all(&dir.join("new/below")).map(drop));
            is_refused(make_dir(&dir.join("new")).map(drop));
            is_refused(make_private_dir(&dir.join("new")).map(drop));
            is_refused(crate::write(&file, "x"));
            is_refused(crate::write_new(&dir.join("new"), "x"));
            is_refused(crate::create_new(&dir.join("new")).map(drop));
            is_refused(crate::create_private(&dir.join("new")).map(drop));
            is_refused(append(&file).map(drop));
            is_refused(copy(&at("kept/file"), &file));
            is_refused(rename(&at("kept/file"), &file));
            is_refused(rename(&file, &at("kept/other")));
            is_refused(remove_file(&file));
            is_refused(remove_dir(&dir.join("own")));
            is_refused(remove_tree(&dir.join("own")));
        }
        assert_eq!(fs::read_dir(at("kept")).unwrap().count(), 1);
        crate::write(&at("sticky/file"), "x").unwrap();
        Dir::make_all(&at("sticky/own/below")).unwrap();
        // A directory that root holds may belong to another since.
        let outer = Dir::open(scratch.path()).unwrap();
        assert!(outer.open_dir("theirs".as_ref()).is_err());
        assert!(outer.open_dir("kept".as_ref()).is_ok());
    }
}

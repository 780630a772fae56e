//! Directories and files that no other user can replace.
//!
//! [`crate::Dir`] and all that writes through it open directories here, so that root's knee writes nowhere else.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, mkdirat, openat, readlinkat,
    statat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// Links on the way to a directory.
const MOST_LINKS: u32 = 40;

/// Why a directory is nothing to write into. As text it follows "DIR: ".
#[derive(Debug)]
pub enum Untrusted {
    /// The system does not let it be looked at.
    Io(io::Error),
    /// Somebody else owns it, or can write into it.
    Of {
        /// The file or directory, or a directory on its path.
        path: PathBuf,
        /// The reason in words, such as its owner.
        who: String,
    },
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untrusted::Io(why) => write!(f, "cannot be examined: {why}"),
            Untrusted::Of { path, who } => write!(f, "{} {who}", path.display()),
        }
    }
}

impl std::error::Error for Untrusted {}

/// As the error of a write.
impl From<Untrusted> for io::Error {
    fn from(why: Untrusted) -> io::Error {
        match why {
            Untrusted::Io(why) => why,
            Untrusted::Of { .. } => io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "as root, knee does not write where other users can place links ({why}): choose a directory of root's"
                ),
            ),
        }
    }
}

/// Permitted owners of directories on the path.
struct Owners {
    users: Vec<u32>,
    /// Groups that have no other member.
    groups: Vec<u32>,
}

impl Owners {
    /// Root; the user behind sudo, who can do all that root can; and the owner of this program, who could replace it anyway, such as
    /// the owner of a clone.
    fn of_this_process() -> Owners {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let (user, group) = (number("SUDO_UID"), number("SUDO_GID"));
        // By custom a group of the number of its user is that user's alone.
        let group = group.filter(|group| user == Some(*group));
        let mut owners = Owners {
            users: [0].into_iter().chain(user).collect(),
            groups: [0].into_iter().chain(group).collect(),
        };
        if let Ok(program) = std::env::current_exe() {
            owners.add_those_of(&program);
        }
        owners
    }

    /// Adds who can change a file, or what its path leads to.
    fn add_those_of(&mut self, file: &Path) {
        for path in file.ancestors() {
            let Ok(found) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            self.users.push(found.st_uid);
            let is_by_group = Mode::from_raw_mode(found.st_mode).contains(Mode::WGRP);
            self.groups.extend(is_by_group.then_some(found.st_gid));
        }
    }
}

/// When root runs this: refuses a directory that another user can replace or put links into. Each directory on the path, links
/// included, must belong to root, the user behind sudo, or the owner of this program, and no other user may write to it. In a
/// sticky directory such as /tmp, this applies to the next one. Other users may write wherever they can. A missing directory
/// counts as its parent.
///
/// # Errors
/// [`Untrusted`].
pub fn check(path: &Path) -> Result<(), Untrusted> {
    match geteuid().is_root() {
        true => check_for(path, &Owners::of_this_process()),
        false => Ok(()),
    }
}

/// The same of whatever user, for what only that user and root may have put where it is.
///
/// # Errors
/// [`Untrusted`].
pub fn check_own(path: &Path) -> Result<(), Untrusted> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut owners = Owners::of_this_process();
    owners.users.push(user);
    // By custom a group of the number of its user is that user's alone.
    owners.groups.extend((group == user).then_some(group));
    check_for(path, &owners)
}

/// When root runs this: refuses an open file that another user owns, can write, or could have put there. It must belong to root,
/// the user behind sudo, or the owner of this program, must not be writable by others, and must be in a directory that passes
/// [`check`] or is sticky, such as /tmp.
///
/// # Errors
/// [`Untrusted`].
pub fn check_file(file: &File, path: &Path) -> Result<(), Untrusted> {
    match geteuid().is_root() {
        true => check_file_for(file, path, &Owners::of_this_process()),
        false => Ok(()),
    }
}

/// When root runs this: refuses a file, or a directory with anything in it, that another user owns, can write, or could have put
/// there. Links in it are not followed: they must be root's as all else.
///
/// # Errors
/// [`Untrusted`].
pub fn check_tree(path: &Path) -> Result<(), Untrusted> {
    match geteuid().is_root() {
        true => check_tree_for(path, &Owners::of_this_process()),
        false => Ok(()),
    }
}

fn check_tree_for(path: &Path, owners: &Owners) -> Result<(), Untrusted> {
    let io = |why: Errno| Untrusted::Io(why.into());
    let Walked { folder, rest, shown, is_sticky } = walk(path, owners)?;
    let start = match (rest.front(), is_sticky) {
        (Some(name), _) => (Rc::new(folder), name.clone(), shown),
        (None, false) => (Rc::new(folder), OsString::from("."), shown),
        (None, true) => {
            return Err(Untrusted::Of { path: shown, who: "is everybody's".to_owned() });
        }
    };
    let mut left = vec![start];
    while let Some((folder, name, shown)) = left.pop() {
        let shown = shown.join(&name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = openat(&*folder, &name, flags, Mode::empty()).map_err(io)?;
        let found = statat(&open, "", AtFlags::EMPTY_PATH).map_err(io)?;
        owned(&found, owners, &shown)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind != FileType::Symlink && by_others(&open, &found, owners) {
            return Err(Untrusted::Of { path: shown, who: "can be written by others".to_owned() });
        }
        if kind == FileType::Directory {
            let inside = Rc::new(openat(&open, ".", HELD, Mode::empty()).map_err(io)?);
            for entry in rustix::fs::Dir::read_from(&*inside).map_err(io)? {
                let entry = entry.map_err(io)?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name != "." && name != ".." {
                    left.push((inside.clone(), name.to_owned(), shown.clone()));
                }
            }
        }
    }
    Ok(())
}

fn check_file_for(file: &File, path: &Path, owners: &Owners) -> Result<(), Untrusted> {
    let Walked { folder, rest, .. } = walk(path, owners)?;
    let found = fstat(file).map_err(|why| Untrusted::Io(why.into()))?;
    owned(&found, owners, path)?;
    // Those directories must be the ones that lead to this very file. A pipe that the process was given lies in none.
    let is_it = |named: Stat| (named.st_dev, named.st_ino) == (found.st_dev, found.st_ino);
    let is_there = match (rest.front(), rest.len()) {
        (Some(name), 1) => statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_it),
        _ => false,
    };
    if !is_there && FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
        let who = "was replaced by another file".to_owned();
        return Err(Untrusted::Of { path: path.to_owned(), who });
    }
    match by_others(file, &found, owners) {
        true => {
            let who = "can be written by others".to_owned();
            Err(Untrusted::Of { path: path.to_owned(), who })
        }
        false => Ok(()),
    }
}

fn check_for(path: &Path, owners: &Owners) -> Result<(), Untrusted> {
    let end = walk(path, owners)?;
    // What lies in a sticky directory is its owner's; but names in it are everybody's.
    match end.is_sticky && end.rest.is_empty() {
        true => Err(Untrusted::Of { path: end.shown, who: "is everybody's".to_owned() }),
        false => Ok(()),
    }
}

/// Where root's knee reads a file: its directory and its name in it. It follows no link of other users: an error can quote what is
/// read.
///
/// # Errors
/// What the system says, or whose link it is.
pub(crate) fn place_of(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let end = walk_with(path, &Owners::of_this_process(), |_, _, _| Ok(false)).map_err(|why| {
        match why {
            Untrusted::Io(why) => why,
            Untrusted::Of { .. } => io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "as root, knee follows no links of other users ({why}): name the file itself"
                ),
            ),
        }
    })?;
    let mut rest = end.rest.into_iter();
    let name = rest.next().unwrap_or_else(|| ".".into());
    if rest.next().is_none() {
        return Ok((end.folder, name));
    }
    Err(match statat(&end.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(why) => why.into(),
    })
}

/// Opens a directory to write into it. When root runs this, the path is that of [`check`]; a sticky directory such as /tmp is taken,
/// too: nobody else can rename or remove a file of root's there.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    if !geteuid().is_root() {
        return Ok(openat(CWD, path, HELD, Mode::empty())?);
    }
    let end = walk(path, &Owners::of_this_process())?;
    match end.rest.front() {
        None => Ok(openat(&end.folder, ".", HELD, Mode::empty())?),
        Some(name) => Err(match statat(&end.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(why) => why.into(),
        }),
    }
}

/// The same, and makes what is missing of the path.
pub(crate) fn make_dirs(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    if !geteuid().is_root() {
        std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)?;
        return open_dir(path);
    }
    let owners = Owners::of_this_process();
    let Walked { mut folder, rest, mut shown, .. } = walk(path, &owners)?;
    for name in rest {
        if name == ".." {
            return Err(io::ErrorKind::NotFound.into());
        }
        match mkdirat(&folder, &name, mode_of_new(mode)) {
            Err(why) if why != Errno::EXIST => return Err(why.into()),
            // Another process may have made it; whoever did, it is looked at.
            _ => {}
        }
        let next = openat(&folder, &name, HELD | OFlags::NOFOLLOW, Mode::empty())?;
        shown.push(&name);
        writable(&next, &fstat(&next)?, &owners, &shown)?;
        folder = next;
    }
    Ok(openat(&folder, ".", HELD, Mode::empty())?)
}

/// Mode of a new directory or file: root's can be written by nobody else, whatever the umask.
pub(crate) fn mode_of_new(mode: u32) -> Mode {
    let mode = Mode::from_raw_mode(mode);
    if geteuid().is_root() { mode - (Mode::WGRP | Mode::WOTH) } else { mode }
}

/// When root runs this: refuses an open directory that others own or can write into.
pub(crate) fn check_held(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    if geteuid().is_root() {
        writable(dir, &fstat(dir)?, &Owners::of_this_process(), Path::new(name))?;
    }
    Ok(())
}

/// How a directory is opened that is written into.
pub(crate) const HELD: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Where a path leads.
struct Walked {
    /// The last directory of the way.
    folder: OwnedFd,
    /// Its path.
    shown: PathBuf,
    /// What of the path is no directory.
    rest: VecDeque<OsString>,
    /// Whether everybody may have names in the directory.
    is_sticky: bool,
}

/// Walks a path whose directories are those of [`check`].
fn walk(path: &Path, owners: &Owners) -> Result<Walked, Untrusted> {
    walk_with(path, owners, |dir, found, shown| writable(dir, found, owners, shown))
}

/// Walks a path. Links must belong to the owners; `is_sticky_dir` says of each directory whether it is sticky, or refuses it.
fn walk_with(
    path: &Path,
    owners: &Owners,
    is_sticky_dir: impl Fn(&OwnedFd, &Stat, &Path) -> Result<bool, Untrusted>,
) -> Result<Walked, Untrusted> {
    let io = |why: Errno| Untrusted::Io(why.into());
    let whole = std::path::absolute(path).map_err(Untrusted::Io)?;
    let mut rest: VecDeque<OsString> = parts(&whole);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, "/", flags, Mode::empty()).map_err(io)?;
    // The directories that lead here, for `..`.
    let mut way: Vec<(OwnedFd, PathBuf)> = vec![(root, PathBuf::from("/"))];
    let held = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let mut links = 0;
    let mut is_sticky = false;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let Some((here, shown)) = way.last() else { break };
        let found = match statat(here, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // From here on it will be made.
            Err(Errno::NOENT) => {
                rest.push_front(name);
                break;
            }
            Err(why) => return Err(io(why)),
        };
        // What this process holds is reached by its number, and not by the path that it once had.
        let is_held =
            shown.as_path() == held && FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        let shown = shown.join(&name);
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink && !is_held {
            // Who can write here has been asked; in a sticky directory a link is its owner's.
            owned(&found, owners, &shown)?;
            links += 1;
            if links > MOST_LINKS {
                return Err(io(Errno::LOOP));
            }
            let target = readlinkat(here, &name, Vec::new()).map_err(io)?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                way.truncate(1);
            }
            for part in parts(&target).into_iter().rev() {
                rest.push_front(part);
            }
            continue;
        }
        let flags = if is_held { flags - OFlags::NOFOLLOW } else { flags };
        let next = match openat(here, &name, flags, Mode::empty()) {
            // The caller that needs a directory here reports it.
            Err(Errno::NOTDIR) => {
                rest.push_front(name);
                break;
            }
            next => next.map_err(io)?,
        };
        // Of the one that is opened, not of the one that had the name.
        let found = statat(&next, "", AtFlags::EMPTY_PATH).map_err(io)?;
        is_sticky = is_sticky_dir(&next, &found, &shown)?;
        way.push((next, shown));
    }
    match way.pop() {
        Some((folder, shown)) => Ok(Walked { folder, shown, rest, is_sticky }),
        None => Err(io(Errno::NOENT)),
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

fn owned(found: &Stat, owners: &Owners, path: &Path) -> Result<(), Untrusted> {
    match owners.users.contains(&found.st_uid) {
        true => Ok(()),
        false => {
            let who = format!("belongs to user {}", found.st_uid);
            Err(Untrusted::Of { path: path.to_owned(), who })
        }
    }
}

/// Whether users beside the owners can write to an open file or directory. Where there is an access control list, the bits of the
/// group are the most that any of its users and groups gets.
fn by_others(open: impl AsFd, found: &Stat, owners: &Owners) -> bool {
    let mode = Mode::from_raw_mode(found.st_mode);
    let by_group = mode.contains(Mode::WGRP)
        && (!owners.groups.contains(&found.st_gid) || may_have_list(open));
    by_group || mode.contains(Mode::WOTH)
}

/// Whether a file has an access control list, as far as can be seen.
fn may_have_list(open: impl AsFd) -> bool {
    let path = format!("/proc/self/fd/{}", open.as_fd().as_raw_fd());
    let found = getxattr(path, "system.posix_acl_access", &mut [0; 256][..]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Whether it is sticky; refused if others can write into one that is not.
fn writable(dir: impl AsFd, found: &Stat, owners: &Owners, path: &Path) -> Result<bool, Untrusted> {
    owned(found, owners, path)?;
    match by_others(dir, found, owners) {
        true if Mode::from_raw_mode(found.st_mode).contains(Mode::SVTX) => Ok(true),
        true => {
            let who = "can be written by others".to_owned();
            Err(Untrusted::Of { path: path.to_owned(), who })
        }
        false => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn root_writes_only_where_nobody_else_can() {
        if !geteuid().is_root() {
            let why = "SKIPPED: only root can give directories to others";
            let mut err = io::stderr();
            writeln!(err, "{why}").unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["own/below", "open", "sticky/own", "theirs/own"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("open", 0o777);
        mode("sticky", 0o1777);
        chown(at("theirs"), Some(65534), None).unwrap();
        symlink(at("theirs/own"), at("own/link")).unwrap();
        symlink("../own/below", at("sticky/link")).unwrap();
        std::os::unix::fs::lchown(at("sticky/link"), Some(65534), None).unwrap();
        let owners = Owners { users: vec![0], groups: vec![0] };
        let is = |name: &str| check_for(&at(name), &owners).is_ok();
        for name in ["own/below", "own/new/below", "sticky/own", "sticky/new", "own/../own"] {
            assert!(is(name), "{name}: {:?}", check_for(&at(name), &owners));
        }
        for name in [
            "open",
            "open/new",
            "sticky",
            "theirs",
            "theirs/own",
            "theirs/new",
            "own/link",
            "sticky/link",
        ] {
            assert!(!is(name), "{name}");
        }
        // Who has become root by sudo has what is theirs, and a group of their own.
        mode("theirs", 0o775);
        chown(at("theirs"), None, Some(65534)).unwrap();
        let sudo = Owners { users: vec![0, 65534], groups: vec![0, 65534] };
        assert!(check_for(&at("theirs/own"), &sudo).is_ok());
        let alone = Owners { users: vec![0, 65534], groups: vec![0] };
        assert!(check_for(&at("theirs/own"), &alone).is_err());
        // Who can change the program that root runs needs no links.
        let mut of_program = Owners { users: vec![0], groups: vec![0] };
        of_program.add_those_of(&at("theirs/own/knee"));
        assert!(check_for(&at("theirs/own"), &of_program).is_ok());
        let mut of_another = Owners { users: vec![0], groups: vec![0] };
        of_another.add_those_of(&at("own/below/knee"));
        assert!(check_for(&at("theirs/own"), &of_another).is_err());
    }

    /// Lets a user write to a file by an access control list, whose mask shows as the group's bits.
    fn give(path: &Path, user: u32) {
        let nobody = u32::MAX;
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, nobody), (2, 7, user), (4, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, who) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(who.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags).unwrap();
    }

    #[test]
    fn access_control_lists_and_whole_trees_are_looked_at() {
        if !geteuid().is_root() {
            writeln!(io::stderr(), "SKIPPED: only root can give files to others").unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let owners = Owners { users: vec![0], groups: vec![0] };
        for name in ["by-group", "by-list", "tree/deep", "mode/deep", "list/deep", "link"] {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join("Makefile"), "all:").unwrap();
        }
        fs::set_permissions(at("by-group"), fs::Permissions::from_mode(0o775)).unwrap();
        give(&at("by-list"), 65534);
        assert_eq!(fs::metadata(at("by-list")).unwrap().permissions().mode() & 0o777, 0o775);
        assert!(check_for(&at("by-group"), &owners).is_ok());
        assert!(check_for(&at("by-list"), &owners).is_err());
        let file = |name: &str| {
            let path = at(name);
            check_file_for(&File::open(&path).unwrap(), &path, &owners)
        };
        assert!(file("tree/deep/Makefile").is_ok());
        give(&at("list/deep/Makefile"), 65534);
        assert!(file("list/deep/Makefile").is_err());
        fs::set_permissions(at("mode/deep/Makefile"), fs::Permissions::from_mode(0o666)).unwrap();
        symlink("/nowhere", at("link/own")).unwrap();
        for fine in ["tree", "tree/deep/Makefile", "link"] {
            assert!(check_tree_for(&at(fine), &owners).is_ok(), "{fine}");
        }
        symlink("/nowhere", at("link/theirs")).unwrap();
        std::os::unix::fs::lchown(at("link/theirs"), Some(65534), None).unwrap();
        for wrong in ["mode", "mode/deep/Makefile", "list", "link", "none"] {
            assert!(check_tree_for(&at(wrong), &owners).is_err(), "{wrong}");
        }
    }

    #[test]
    fn root_reads_through_no_link_of_others() {
        if !geteuid().is_root() {
            writeln!(io::stderr(), "SKIPPED: only root can give links to others").unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("own/deep")).unwrap();
        fs::write(at("own/deep/x"), "a secret").unwrap();
        let read =
            |name: &str| crate::read_text(&at(name), 100, "file").map_err(|why| why.to_string());
        for (link, to) in [("file", "own/deep/x"), ("folder", "own/deep")] {
            symlink(at(to), at(link)).unwrap();
        }
        assert_eq!(read("file"), Ok("a secret".to_owned()));
        assert_eq!(read("folder/x"), Ok("a secret".to_owned()));
        assert!(
            read("folder/x/y").is_err_and(
                |why| why.contains("Not a directory") || why.contains("not a directory")
            )
        );
        assert_eq!(read("own"), Err("is a directory, not a file".to_owned()));
        for link in ["file", "folder"] {
            std::os::unix::fs::lchown(at(link), Some(65534), None).unwrap();
        }
        for name in ["file", "folder/x"] {
            let why = read(name).unwrap_err();
            assert!(why.contains("knee follows no links of other users"), "{why}");
        }
    }

    #[test]
    fn root_takes_only_files_that_nobody_else_can_have_changed() {
        if !geteuid().is_root() {
            let mut err = io::stderr();
            writeln!(err, "SKIPPED: only root can give files to others").unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["own", "open", "sticky"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in
            ["own/file", "own/theirs", "own/open", "open/file", "sticky/file", "sticky/theirs"]
        {
            fs::write(at(name), "").unwrap();
        }
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("own/open", 0o666);
        mode("open", 0o777);
        mode("sticky", 0o1777);
        for name in ["own/theirs", "sticky/theirs"] {
            chown(at(name), Some(65534), None).unwrap();
        }
        symlink(at("own/file"), at("own/link")).unwrap();
        symlink(at("own/file"), at("sticky/link")).unwrap();
        std::os::unix::fs::lchown(at("sticky/link"), Some(65534), None).unwrap();
        let owners = Owners { users: vec![0], groups: vec![0] };
        let is = |name: &str| check_file_for(&File::open(at(name)).unwrap(), &at(name), &owners);
        for name in ["own/file", "own/link", "sticky/file"] {
            assert!(is(name).is_ok(), "{name}: {:?}", is(name));
        }
        for name in ["own/theirs", "own/open", "open/file", "sticky/theirs", "sticky/link"] {
            assert!(is(name).is_err(), "{name}");
        }
        // What was opened must be what has the name.
        let opened = File::open(at("sticky/file")).unwrap();
        let why = |name: &str| check_file_for(&opened, &at(name), &owners).unwrap_err().to_string();
        for name in ["own/file", "own", "own/absent", "absent/file"] {
            assert!(why(name).ends_with("was replaced by another file"), "{name}: {}", why(name));
        }
        fs::remove_file(at("sticky/file")).unwrap();
        assert!(why("sticky/file").ends_with("was replaced by another file"));
    }
}

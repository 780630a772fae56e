//! Temporary cgroups for tests.
//!
//! They are threaded cgroups below the cgroup of this process, so that single threads can join
//! them. The thread of a [`Namespace`] joins one so that programs attached to the cgroup see its
//! sockets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_netns::Namespace;

use crate::sandbox;

/// Prefix of cgroup names. The process number of the creator follows.
const PREFIX: &str = "knee_p_";

/// A cgroup that is removed when this value is dropped. Its threads return to the parent. Creating
/// a cgroup also removes those that killed tests left behind.
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Creates a cgroup below that of this process.
    ///
    /// # Panics
    /// If cgroup2 is not mounted, or does not allow a new cgroup.
    pub fn new() -> Cgroup {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let parent = own();
        remove_those_of_the_dead(&parent);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        Cgroup::make(parent.join(format!("{PREFIX}{pid}_{number}")))
    }

    /// Creates a cgroup inside this one.
    pub fn child(&self, name: &str) -> Cgroup {
        Cgroup::make(self.path.join(name))
    }

    fn make(path: PathBuf) -> Cgroup {
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let cgroup = Cgroup { path };
        fs::write(cgroup.path.join("cgroup.type"), "threaded").unwrap();
        cgroup
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes every socket that the namespace opens from now on belong to this cgroup.
    pub fn take(&self, namespace: &Namespace) {
        fs::write(self.path.join("cgroup.threads"), namespace.tid().to_string()).unwrap();
    }
}

impl Default for Cgroup {
    fn default() -> Cgroup {
        Cgroup::new()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Returns the mount point of cgroup2.
pub fn mount() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = text.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// Mounts cgroup2 for the life of this process if nobody has mounted it. Returns whether it is
/// mounted.
pub fn is_mounted() -> bool {
    static MOUNTED: OnceLock<bool> = OnceLock::new();
    *MOUNTED.get_or_init(|| mount().is_some() || mount_own())
}

fn mount_own() -> bool {
    let dir = own_mount_dir();
    sandbox::make_dir(dir.parent().unwrap());
    fs::create_dir(&dir).unwrap();
    let mounted = Command::new("mount").args(["-t", "cgroup2", "none"]).arg(&dir).status();
    // SAFETY: `unmount_own` uses nothing that is gone when the process exits.
    unsafe { libc::atexit(unmount_own) };
    mounted.is_ok_and(|status| status.success())
}

extern "C" fn unmount_own() {
    sandbox::remove(own_mount_dir().parent().unwrap());
}

/// Mount point of cgroup2 for this process. After a killed test, the next sandbox removes it.
fn own_mount_dir() -> PathBuf {
    let (process, digits) = (std::process::id(), crate::own_digits());
    let name = format!("{}{process}-{digits}-cgroup", sandbox::DIR_PREFIX);
    std::env::temp_dir().join(name).join("cgroup")
}

/// Returns the cgroup of this process.
fn own() -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).expect("cgroup2");
    mount().expect("cgroup2 is mounted").join(path)
}

fn remove(path: &Path) {
    let threads = fs::read_to_string(path.join("cgroup.threads")).unwrap_or_default();
    let parent = path.parent().unwrap().join("cgroup.threads");
    for thread in threads.lines() {
        // The thread may have ended.
        let _ = fs::write(&parent, thread);
    }
    let _ = fs::remove_dir(path);
}

fn remove_those_of_the_dead(parent: &Path) {
    for entry in fs::read_dir(parent).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next());
        let is_dead = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_dead {
            for child in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(child.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

//! Cgroups of a test's own.
//!
//! They are threaded ones below the cgroup of this process, so that single threads can be in them:
//! a [`Namespace`]'s, whose sockets are then subject to what is attached there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use knee_netns::Namespace;

use crate::sandbox;

/// Prefix of names; the creator's process number follows.
const PREFIX: &str = "knee_p_";

/// A cgroup that is removed when this is dropped, its threads going back to the parent. What a
/// killed test left is removed when the next one is made.
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// One below the cgroup of this process.
    ///
    /// # Panics
    /// If there is no cgroup2, or it lets none be made.
    pub fn new() -> Cgroup {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let parent = own();
        remove_those_of_the_dead(&parent);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        Cgroup::make(parent.join(format!("{PREFIX}{pid}_{number}")))
    }

    /// One inside this one.
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

    /// The sockets that a namespace opens from now on belong to this cgroup.
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

/// Where cgroup2 is mounted.
pub fn mount() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = text.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// Whether it is mounted; where nobody has mounted it, it is for as long as this process lives.
pub fn is_mounted() -> bool {
    static MOUNTED: OnceLock<bool> = OnceLock::new();
    *MOUNTED.get_or_init(|| mount().is_some() || mount_own())
}

fn mount_own() -> bool {
    let dir = own_mount_dir();
    sandbox::make_dir(dir.parent().unwrap());
    fs::create_dir(&dir).unwrap();
    let mounted = Command::new("mount").args(["-t", "cgroup2", "none"]).arg(&dir).status();
    // SAFETY: the function needs nothing that is gone by then.
    unsafe { libc::atexit(unmount_own) };
    mounted.is_ok_and(|status| status.success())
}

extern "C" fn unmount_own() {
    sandbox::remove(own_mount_dir().parent().unwrap());
}

/// Mount directory of this process. The next sandbox removes it after a killed test.
fn own_mount_dir() -> PathBuf {
    let (process, digits) = (std::process::id(), crate::own_digits());
    let name = format!("{}{process}-{digits}-cgroup", sandbox::DIR_PREFIX);
    std::env::temp_dir().join(name).join("cgroup")
}

/// The cgroup of this process.
fn own() -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).expect("cgroup2");
    mount().expect("cgroup2 is mounted").join(path)
}

fn remove(path: &Path) {
    let threads = fs::read_to_string(path.join("cgroup.threads")).unwrap_or_default();
    let parent = path.parent().unwrap().join("cgroup.threads");
    for thread in threads.lines() {
        // It may have ended.
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

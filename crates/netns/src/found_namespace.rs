//! Existing network namespaces.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The host's namespace is that of the first process.
const HOST: &str = "/proc/1/ns/net";
const KERNEL_THREAD: &str = "/proc/2/ns/net";

/// Identity of a namespace: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub device: u64,
    /// Inode, the number in `net:[4026531840]`.
    pub inode: u64,
}

/// A namespace and a way into it, which keeps it alive.
pub struct FoundNamespace {
    id: Id,
    file: File,
    /// A path to it, which gives its label.
    path: PathBuf,
}

impl FoundNamespace {
    /// Identity of the namespace.
    pub fn id(&self) -> Id {
        self.id
    }

    /// A name for people: "host", that of `ip netns`, or a process that is in it.
    pub fn label(&self) -> String {
        let path = &self.path;
        if is_hosts(path) {
            return "host".to_owned();
        }
        if path.starts_with("/proc") {
            let pid = path.components().nth(2).map(|part| part.as_os_str().to_string_lossy());
            let pid = pid.unwrap_or_default();
            let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            // Its owner may call it anything.
            let command = command.trim().replace(char::is_control, "?");
            match (pid.as_ref(), command.as_str()) {
                (pid, "") => format!("pid {pid}"),
                (pid, command) => format!("pid {pid} ({command})"),
            }
        } else {
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        }
    }

    /// Runs `job` in it, in a thread of its own, and waits.
    ///
    /// # Errors
    /// What the kernel answers to the attempt to enter: it takes CAP_SYS_ADMIN.
    ///
    /// # Panics
    /// If `job` does.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(job())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The namespace of this thread.
///
/// # Errors
/// If /proc cannot be read.
pub fn current() -> io::Result<FoundNamespace> {
    // With the process's number, for its label.
    let thread = fs::read_link("/proc/thread-self")?;
    Ok(named(open(&Path::new("/proc").join(thread).join("ns/net"))?))
}

/// The namespace of a process or thread.
///
/// # Errors
/// If there is no such process, or it is not for this one to see.
pub fn of_process(pid: u32) -> io::Result<FoundNamespace> {
    Ok(named(open(Path::new(&format!("/proc/{pid}/ns/net")))?))
}

/// Labels it by its name if it has one or is the host's, so that the label is the same for all processes in it.
fn named(mut found: FoundNamespace) -> FoundNamespace {
    let names = hosts().chain(mounts_of_namespaces());
    let mut own = names.filter(|path| id_of(path).is_ok_and(|id| id == found.id));
    found.path = own.next().unwrap_or(found.path);
    found
}

/// All namespaces found through threads, names (`ip netns`), mounts and open files. The host's comes first.
///
/// # Errors
/// If /proc cannot be read. What ends meanwhile is left out.
pub fn all() -> io::Result<Vec<FoundNamespace>> {
    let mut found = BTreeMap::new();
    // What is found first gives the label.
    let mut add = |path: &Path| {
        if let Ok(id) = id_of(path) {
            if let std::collections::btree_map::Entry::Vacant(entry) = found.entry(id) {
                if let Ok(one) = open(path) {
                    if one.id == id {
                        entry.insert(one);
                    }
                }
            }
        }
    };
    hosts().for_each(|path| add(&path));
    for mount in mounts_of_namespaces() {
        add(&mount);
    }
    for process in entries(Path::new("/proc")) {
        let is_process = process
            .file_name()
            .is_some_and(|name| name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
        if !is_process {
            continue;
        }
        for thread in entries(&process.join("task")) {
            add(&thread.join("ns/net"));
        }
        for file in entries(&process.join("fd")) {
            let target = fs::read_link(&file).unwrap_or_default();
            if target.to_string_lossy().starts_with("net:[") {
                add(&file);
            }
        }
    }
    let mut all: Vec<FoundNamespace> = found.into_values().collect();
    all.sort_by_key(|one| !is_hosts(&one.path));
    Ok(all)
}

/// Ways to the host's own: the first process's, which is not everybody's to look at, and that of the
/// kernel's threads, which no other process namespace has.
fn hosts() -> impl Iterator<Item = PathBuf> {
    [HOST, KERNEL_THREAD].into_iter().map(PathBuf::from).filter(|path| is_hosts(path))
}

fn is_hosts(path: &Path) -> bool {
    const IS_KERNEL_THREAD: u32 = 0x0020_0000;
    if path != Path::new(KERNEL_THREAD) {
        return path == Path::new(HOST);
    }
    let stat = fs::read_to_string("/proc/2/stat").unwrap_or_default();
    // The command, in brackets, may hold anything; the flags are the seventh word after it.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u32>().ok()).is_some_and(|f| f & IS_KERNEL_THREAD != 0)
}

fn id_of(path: &Path) -> io::Result<Id> {
    let about = fs::metadata(path)?;
    Ok(Id { device: about.dev(), inode: about.ino() })
}

fn open(path: &Path) -> io::Result<FoundNamespace> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    let id = Id { device: about.dev(), inode: about.ino() };
    Ok(FoundNamespace { id, file, path: path.to_owned() })
}

/// Entries of a directory; empty if it is gone.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// `ip netns add` mounts the namespace's file; so may others.
fn mounts_of_namespaces() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_net = words.get(3).is_some_and(|root| root.starts_with("net:["));
        // The kernel writes spaces in paths as \040.
        is_net.then(|| words.get(4).map(|path| PathBuf::from(path.replace("\\040", " "))))?
    };
    text.lines().filter_map(mount).collect()
}

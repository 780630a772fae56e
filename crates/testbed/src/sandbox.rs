//! An isolated host for the `knee` command in tests: its own state, BPF file system and network
//! namespace. Only the kernel's list of algorithms is shared.

use std::fs::{self, DirBuilder};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use knee_netns::Namespace;

/// An isolated host. Dropping it undoes everything. The next sandbox removes what a killed test
/// left behind.
pub struct Sandbox {
    knee: PathBuf,
    dir: PathBuf,
    pub namespace: Namespace,
    number: u32,
}

/// Prefix of test directories. The process number follows.
pub(crate) const DIR_PREFIX: &str = "knee-test-";

impl Sandbox {
    /// Creates a sandbox for the command at this path.
    pub fn new(knee: &str) -> Sandbox {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        remove_left_over();
        let (process, digits) = (std::process::id(), crate::own_digits());
        let dir = std::env::temp_dir().join(format!("{DIR_PREFIX}{process}-{digits}-{number}"));
        make_dir(&dir);
        fs::create_dir(dir.join("bpf")).unwrap();
        let sandbox =
            Sandbox { knee: knee.into(), dir, namespace: Namespace::new().unwrap(), number };
        let bpffs = sandbox.bpffs();
        let mounted = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(&bpffs).status();
        assert!(mounted.unwrap().success(), "mount -t bpf bpf {}", bpffs.display());
        crate::net::ip(&sandbox.namespace, "link set lo up".to_owned());
        sandbox
    }

    /// Returns an algorithm name that no other test uses. It contains one letter that the caller
    /// chooses.
    pub fn name(&self, letter: char) -> String {
        format!("kt{}_{}{letter}", crate::own_digits(), self.number)
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn bpffs(&self) -> PathBuf {
        self.dir.join("bpf")
    }

    /// Builds the command. `line` holds its arguments, separated by spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.knee);
        command.args(line.split(' ')).stdin(Stdio::null());
        command.env("KNEE_RUN_DIR", self.run_dir()).env("KNEE_BPFFS", self.bpffs());
        command
    }

    /// Runs the command to its end in the sandbox's namespace.
    pub fn knee(&self, line: &str) -> Answer {
        self.knee_in(&self.namespace, line)
    }

    /// Runs the command to its end in another namespace.
    pub fn knee_in(&self, namespace: &Namespace, line: &str) -> Answer {
        let mut command = self.command(line);
        Answer::of(&namespace.run(move || command.output().unwrap()))
    }

    /// Starts the command in the sandbox's namespace and waits for its first line of output.
    pub fn start(&self, line: &str) -> Running {
        let mut command = self.command(line);
        let start = move || command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = self.namespace.run(start);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        Running { child, first, out }
    }

    /// Lists all files that knee keeps, by path, for comparison.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.dir, &mut found);
        found.retain(|path| !path.to_string_lossy().ends_with(".debug"));
        found.sort();
        found
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.command("unload --all").output();
        remove(&self.dir);
    }
}

/// Exit status and output of a command.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Answer {
    fn of(output: &Output) -> Answer {
        Answer {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns standard output. Panics if the command failed.
    pub fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns standard output of a command that ran, and whose exit code says that a check failed.
    pub fn failed_check(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(1), ""), "{}", self.out);
        self.out
    }

    /// Returns standard error. Panics if the command succeeded.
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        self.err
    }
}

/// A command that is still running.
pub struct Running {
    child: Child,
    pub first: String,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for the end. Returns the exit code (none after a signal) and the output after the
    /// first line.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that has not been waited for, so its number is still its
        // own.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lists the registered algorithms.
pub fn available() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        }
        found.push(path);
    }
}

/// Creates a directory. An existing one is an error, because another user may have put links in it.
pub(crate) fn make_dir(dir: &Path) {
    let made = DirBuilder::new().mode(0o700).create(dir);
    made.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}

pub(crate) fn remove(dir: &Path) {
    // A file system's pins go away with it.
    for mount in ["bpf", "cgroup"].map(|name| dir.join(name)) {
        if mount.exists() {
            let _ = Command::new("umount").arg(&mount).stderr(Stdio::null()).status();
            // A directory that is still a mount point must not be emptied.
            if fs::remove_dir(&mount).is_err() {
                return;
            }
        }
    }
    let _ = fs::remove_dir_all(dir);
}

fn remove_left_over() {
    for entry in fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(DIR_PREFIX).and_then(|rest| rest.split('-').next());
        let is_dead = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        // A directory of another user may hold links.
        // SAFETY: the call takes no arguments and cannot fail.
        let us = unsafe { libc::geteuid() };
        let is_own = entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == us);
        if is_dead && is_own {
            remove(&entry.path());
        }
    }
}

//! A host for the `knee` command of which a test may do as it likes: its own state, its own BPF file
//! system, its own network namespace. The kernel's list of algorithms is everybody's.

use std::fs::{self, DirBuilder};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use knee_netns::Namespace;

/// Undone when dropped; what a killed test left, the next one removes.
pub struct Sandbox {
    knee: PathBuf,
    dir: PathBuf,
    pub namespace: Namespace,
    number: u32,
}

/// Prefix of test directories; the process number follows.
pub(crate) const DIR_PREFIX: &str = "knee-test-";

impl Sandbox {
    /// For the command at this path.
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

    /// A name for an algorithm that no other test uses, with one letter of the caller's.
    pub fn name(&self, letter: char) -> String {
        format!("kt{}_{}{letter}", crate::own_digits(), self.number)
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn bpffs(&self) -> PathBuf {
        self.dir.join("bpf")
    }

    /// The command with its arguments, separated by spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.knee);
        command.args(line.split(' ')).stdin(Stdio::null());
        command.env("KNEE_RUN_DIR", self.run_dir()).env("KNEE_BPFFS", self.bpffs());
        command
    }

    /// Runs it to its end in the sandbox's namespace.
    pub fn knee(&self, line: &str) -> Answer {
        self.knee_in(&self.namespace, line)
    }

    /// Runs it to its end in another namespace.
    pub fn knee_in(&self, namespace: &Namespace, line: &str) -> Answer {
        let mut command = self.command(line);
        Answer::of(&namespace.run(move || command.output().unwrap()))
    }

    /// Starts it in the sandbox's namespace and waits for the first line it prints.
    pub fn start(&self, line: &str) -> Running {
        let mut command = self.command(line);
        let start = move || command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = self.namespace.run(start);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        Running { child, first, out }
    }

    /// Everything that knee keeps, by path, for comparison.
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

/// Output of a command.
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

    /// Standard output; panics if the command failed.
    pub fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Standard error; panics if the command succeeded.
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        self.err
    }
}

/// A command that goes on.
pub struct Running {
    child: Child,
    pub first: String,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for its end: exit code (none after a signal) and what it printed after the first line.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: it is a child of this process that was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names of algorithms that are registered.
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

/// One that is there already may be somebody else's, with links in it, and is an error.
pub(crate) fn make_dir(dir: &Path) {
    let made = DirBuilder::new().mode(0o700).create(dir);
    made.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}

pub(crate) fn remove(dir: &Path) {
    // Pins go with their file system.
    for mount in ["bpf", "cgroup"].map(|name| dir.join(name)) {
        if mount.exists() {
            let _ = Command::new("umount").arg(&mount).stderr(Stdio::null()).status();
            // What is still mounted is not to be emptied.
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
        // In somebody else's there may be links.
        // SAFETY: it only asks.
        let us = unsafe { libc::geteuid() };
        let is_own = entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == us);
        if is_dead && is_own {
            remove(&entry.path());
        }
    }
}

//! Starts a guest's process with its orders, waits for it, and ends it with all its children.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, StatVfsMountFlags, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use crate::Error;
use crate::error::failed;

/// The guest's memory in bytes. The host provides only the pages that the guest touches.
const MEMORY_BYTES: u64 = 2 << 30;
/// Directory for the file that backs the guest's memory, if it has enough room.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Interval between checks whether the guest has ended: the first one, and the longest one.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];
/// Longest wait for a stopped guest.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of console lines that an error message quotes.
const LAST_LINES: usize = 8;
const BETWEEN_LINES: &str = " | ";
/// Prefix of the names of guest directories, before the process number.
const PREFIX: &str = "knee-guest-";
/// Start of the guest's calendar, in ns since 1970. It is fixed, so results do not depend on the day of the run.
const CALENDAR_NS: &str = "1700000000000000000";

/// A guest to start.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    pub kernel: &'a Path,
    pub program: &'a [u8],
    pub orders: &'a [u8],
    /// Further files for the guest's directory: path in it, and content.
    pub files: &'a [(&'a str, &'a [u8])],
    /// Further arguments for the kernel's command line.
    pub arguments: &'a [String],
    /// Seed of all the guest's randomness.
    pub seed: u64,
    /// Longest run time, on the host's clock.
    pub limit: Duration,
}

/// Output of a guest. Dropping it removes the guest's directory.
#[derive(Debug)]
pub struct Left {
    /// Content of the results file.
    pub result: Vec<u8>,
    folder: Folder,
}

impl Left {
    /// Reads another file that the guest has written.
    ///
    /// # Errors
    /// Fails if the guest has not written it.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        fs::read(self.folder.0.join(name)).map_err(failed(format!("the guest's file {name}")))
    }
}

/// Runs a guest to its end and returns its output.
///
/// # Errors
/// Fails if the host refuses something, if the guest does not finish (with the last lines of its console), or if
/// `stop` is set.
pub fn boot(guest: &Guest<'_>, stop: &AtomicBool) -> Result<Left, Error> {
    let folder = Folder::new()?;
    let dir = folder.0.as_path();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        knee_files::write(&path, bytes)
            .map_err(failed(format!("{}: cannot be written", path.display())))
    };
    write("plan", guest.orders)?;
    for (path, bytes) in guest.files {
        write(path.trim_start_matches('/'), bytes)?;
    }
    let write_program = || {
        let mut file = knee_files::NewFile::create(&dir.join("init"))?;
        file.write_all(guest.program)?;
        file.set_permissions(Permissions::from_mode(0o755))?;
        file.keep()
    };
    write_program().map_err(failed("the guest's program"))?;
    knee_files::make_dir(&dir.join("proc")).map_err(failed("a directory for the guest"))?;
    let console =
        knee_files::create_new(&dir.join("console")).map_err(failed("the guest's console"))?;
    let errors = console.try_clone().map_err(failed("the guest's console"))?;
    let mut process = Process::start(guest, dir, console, errors)?;
    let status = process.wait(guest.limit, stop);
    let console = || last_lines(&fs::read(dir.join("console")).unwrap_or_default());
    match status? {
        Ended::Stopped => Err(Error::Stopped),
        Ended::TooLate => Err(Error::Failed(format!(
            "the guest has not come to its end within {} s; its console ends with: {}",
            guest.limit.as_secs(),
            console()
        ))),
        Ended::With(status) => match fs::read(dir.join("result")) {
            Ok(result) if status.success() => Ok(Left { result, folder }),
            _ => Err(Error::Failed(format!("the guest {}", why(status, &console())))),
        },
    }
}

/// Returns the cause of a guest's failure.
fn why(status: ExitStatus, console: &str) -> String {
    let is_refusal = |line: &str| line.contains("ptrace") && !line.ends_with("OK");
    if console.split(BETWEEN_LINES).any(is_refusal) {
        return format!(
            "cannot run: this system does not let a process trace its children (ptrace), as some containers do not; use --on sim, \
             or allow it (docker run --cap-add SYS_PTRACE); its console ends with: {console}"
        );
    }
    // The kernel prints these lines for a program that it does not find and for one that it may not execute.
    let not_started = [
        (
            "/init failed (error -2)",
            "it finds its directory by /proc/self/cwd, and this system has no /proc: mount it",
        ),
        (
            "/init failed (error -13)",
            "nothing may be executed in the directory for temporary files: set TMPDIR to another",
        ),
    ];
    match not_started.iter().find(|(line, _)| console.contains(line)) {
        Some((_, way_out)) => format!("cannot start its program: {way_out}"),
        None => format!("has failed ({status}); its console ends with: {console}"),
    }
}

/// Joins the console's last lines into one.
fn last_lines(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LAST_LINES)..] {
        [] => "nothing".to_owned(),
        last => last.join(BETWEEN_LINES),
    }
}

/// How a guest's process ended.
enum Ended {
    With(ExitStatus),
    TooLate,
    Stopped,
}

/// A kernel and its processes, as one process group that is killed together.
struct Process(Child);

impl Process {
    fn start(guest: &Guest<'_>, dir: &Path, console: File, errors: File) -> Result<Process, Error> {
        let mut command = Command::new(guest.kernel);
        command
            .arg(format!("mem={}M", MEMORY_BYTES >> 20))
            .args(["root=/dev/root", "rootfstype=hostfs"])
            // The guest sees only its own directory of the host's files. The kernel stirs its command line into its
            // entropy, so the command line must not contain the directory's name. "." does not work: since 6.12
            // hostfs takes only absolute paths.
            .args(["hostfs=/proc/self/cwd", "rootflags=/", "uml_dir=./"])
            .args(["rw", "init=/init", "quiet", "time-travel=inf-cpu"])
            .arg(format!("time-travel-start={CALENDAR_NS}"))
            .args(["con=null", "con0=null,fd:1", "panic=1"])
            .args(guest.arguments)
            .env_clear()
            .env("UML_SEED", guest.seed.to_string())
            .current_dir(dir)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(errors);
        if !can_hold_memory(Path::new(MEMORY_FOLDER)) {
            command.env("TMPDIR", dir);
        }
        let child = command
            .spawn()
            .map_err(failed(format!("{}: does not start", guest.kernel.display())))?;
        Ok(Process(child))
    }

    fn wait(&mut self, limit: Duration, stop: &AtomicBool) -> Result<Ended, Error> {
        let begun = Instant::now();
        let mut pause = LOOK[0];
        loop {
            if let Some(status) = self.0.try_wait().map_err(failed("the guest"))? {
                return Ok(Ended::With(status));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            if begun.elapsed() > limit {
                return Ok(Ended::TooLate);
            }
            sleep(pause);
            pause = (pause * 2).min(LOOK[1]);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If the guest has ended, the group is empty and the call fails harmlessly.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns whether a folder can hold the guest's memory: it has the room, and files in it may be mapped executable.
fn can_hold_memory(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|system| {
        system.f_bavail.saturating_mul(system.f_frsize) >= MEMORY_BYTES
            && !system.f_flag.contains(StatVfsMountFlags::NOEXEC)
    })
}

/// Number of guest directories that this process holds.
static FOLDERS: AtomicUsize = AtomicUsize::new(0);

/// Waits, for a limited time, until the guests that other threads were told to stop are gone with their directories.
pub fn wait_until_gone() {
    let begun = Instant::now();
    while FOLDERS.load(Ordering::Acquire) > 0 && begun.elapsed() < PATIENCE {
        sleep(LOOK[1]);
    }
}

/// A guest's directory, removed when dropped and held by a lock. Process numbers cannot show whether it is in use: a
/// container has its own numbers and may share the parent directory.
#[derive(Debug)]
struct Folder(PathBuf, #[expect(dead_code, reason = "holds the lock until it is dropped")] File);

impl Folder {
    fn new() -> Result<Folder, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let parent = std::env::temp_dir();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            if number == 0 {
                remove_left_behind(&parent);
            }
            let path = parent.join(format!("{PREFIX}{}-{number}", process::id()));
            match knee_files::make_dir(&path) {
                // A process with the same number exists elsewhere, such as in a container.
                Err(why) if why.kind() == ErrorKind::AlreadyExists => continue,
                Err(why) => return Err(failed(format!("{}: cannot be made", path.display()))(why)),
                Ok(_) => {}
            }
            // Before the lock is taken, another process may remove the directory as left behind. Then the next name
            // is tried.
            match lock(&path) {
                Ok(Some(lock)) => {
                    FOLDERS.fetch_add(1, Ordering::AcqRel);
                    return Ok(Folder(path, lock));
                }
                Ok(None) => {}
                Err(why) => {
                    // The directory is empty, and the error reports why it cannot be locked.
                    let _ = knee_files::remove_dir(&path);
                    let what =
                        format!("{}: cannot be locked (set TMPDIR to another)", path.display());
                    return Err(failed(what)(why));
                }
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next process removes what remains.
        let _ = knee_files::remove_tree(&self.0);
        FOLDERS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Locks a directory. `None` means that another process holds the lock or has removed the directory.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let lock = || -> io::Result<Option<File>> {
        let directory = File::open(path)?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        let (ours, there) = (directory.metadata()?, fs::metadata(path)?);
        Ok(((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then_some(directory))
    };
    match lock() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::WouldBlock) => Ok(None),
        tried => tried,
    }
}

/// Returns whether a name is that of a guest's directory: the prefix, then numbers of process and guest.
fn is_guests(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, guest)| is_number(process) && is_number(guest))
}

/// Removes the directories of killed processes, which could not clean up themselves.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_str().is_some_and(is_guests);
        let is_own =
            entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == geteuid().as_raw());
        if !is_named || !is_own {
            continue;
        }
        if let Ok(Some(_lock)) = lock(&entry.path()) {
            // The next process tries again what cannot be removed now.
            let _ = knee_files::remove_tree(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::write_program;

    fn boot_script(script: &str, limit: Duration, stop: bool) -> Result<Vec<u8>, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guest");
        write_program(&path, &format!("#!/bin/sh\n{script}\n"));
        let guest = Guest {
            kernel: &path,
            program: b"",
            orders: b"orders",
            files: &[],
            arguments: &[],
            seed: 7,
            limit,
        };
        boot(&guest, &AtomicBool::new(stop)).map(|left| left.result)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_result_of_a_guest_is_read() {
        let result = boot_script("cat plan > result; echo \" $UML_SEED\" >> result", LONG, false);
        assert_eq!(result, Ok(b"orders 7\n".to_vec()));
    }

    #[test]
    fn a_guest_that_fails_is_told_with_its_console() {
        let why = boot_script("echo one; echo Kernel panic; exit 1", LONG, false).unwrap_err();
        assert!(why.to_string().ends_with("its console ends with: one | Kernel panic"), "{why}");
        let tried = "echo 'Checking that ptrace can change system call numbers...OK'; exit 1";
        let why = boot_script(tried, LONG, false).unwrap_err();
        assert!(why.to_string().starts_with("the guest has failed"), "{why}");
        let tried = "echo 'Kernel panic: Requested init /init failed (error -13).'; exit 1";
        let why = boot_script(tried, LONG, false).unwrap_err();
        assert!(
            why.to_string().contains("set TMPDIR") && !why.to_string().contains("panic"),
            "{why}"
        );
        let why = boot_script("exit 0", LONG, false).unwrap_err();
        assert!(why.to_string().ends_with("its console ends with: nothing"), "{why}");
        let why = boot_script("echo 'ptrace: denied'; exit 1", LONG, false).unwrap_err();
        assert!(why.to_string().contains("does not let a process trace"), "{why}");
    }

    #[test]
    fn a_guest_that_hangs_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("late");
        let script = format!("(sleep 1; touch {}) & sleep 60", marker.display());
        let begun = Instant::now();
        let why = boot_script(&script, Duration::from_millis(100), false).unwrap_err();
        assert!(why.to_string().contains("has not come to its end"), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(1500));
        assert!(!marker.exists(), "its child went on");
    }

    #[test]
    fn what_is_left_behind_is_removed_and_what_is_held_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path();
        let names = ["1-0", "999999999-0", "notes", "1-", "1-0-b"];
        let [held, left, others @ ..] = names.map(|name| parent.join(PREFIX.to_owned() + name));
        for folder in [&held, &left].into_iter().chain(&others) {
            fs::create_dir_all(folder.join("proc")).unwrap();
        }
        let lock_of_held = lock(&held).unwrap().unwrap();
        assert!(lock(&held).unwrap().is_none(), "held twice");
        assert!(lock(&parent.join("none")).unwrap().is_none(), "there is none");
        assert!(lock(Path::new("/dev/null/none")).is_err(), "must not be tried again");
        remove_left_behind(parent);
        assert_eq!([&held, &left].map(|folder| folder.exists()), [true, false]);
        assert!(others.iter().all(|folder| folder.exists()), "they are somebody else's");
        // A directory that nobody locks is removed even if a process with its number runs.
        drop(lock_of_held);
        // A child that another test forks holds a copy of the lock until it executes another program.
        let begun = Instant::now();
        while held.exists() && begun.elapsed() < LONG {
            remove_left_behind(parent);
        }
        assert!(!held.exists());
    }

    #[test]
    fn a_guest_is_ended_when_nobody_wants_it() {
        let why = boot_script("sleep 60", LONG, true).unwrap_err();
        assert_eq!(why.to_string(), "stopped");
    }
}

//! Loading on trial: one process owns everything, pins nothing and writes no sysctl. The kernel
//! undoes the trial when that process ends for any reason.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::bpffs::{open_file, read_file};
use super::defaults::{available_algorithms, cookie_of, restore_allowed};
use super::journal::{Entry, Journal};
use super::load::{Request, need_links, proc};
use super::unload::{return_listeners, wait_until_gone};
use super::{Host, check_rights, make_dir, mount_point};
use crate::load::check_name;
use crate::policy::{Policy, Rule, Scope};
use crate::{Error, Loaded};

/// The interval at which a trial checks for its confirmation or its end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest time that a trial may take to end once it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// The largest note that is read; a note has about 700 bytes.
const NOTE_BYTES: u64 = 1 << 16;

/// A request for a trial.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    pub request: Request,
    /// The time that the user has to confirm the trial.
    pub confirm_within: Duration,
}

/// The public record of a trial: a file that the trial's process keeps locked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The process that owns the trial.
    pub pid: u32,
    /// The journal's entry after a confirmation.
    pub entry: Entry,
    /// Whether it becomes the default of the process's namespace.
    pub default: bool,
    /// The end of the trial on the clock since boot (CLOCK_BOOTTIME), in ns.
    pub deadline_boot_ns: u64,
    link_id: u32,
    /// The kernel's number of the program that gives the algorithm to sockets; `None` without one.
    pub(super) policy_program: Option<u32>,
}

/// An algorithm on trial. Dropping the value undoes the trial.
pub struct Trial {
    // Declared first, so dropped first: no more sockets get the algorithm, then the name goes.
    _policy: Option<Policy>,
    _loaded: Loaded,
    note: Note,
    path: PathBuf,
    /// The locked note.
    _file: File,
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user confirmed it: the algorithm is loaded permanently.
    Confirmed,
    /// Nobody confirmed it in time, and it is undone.
    TimedOut,
    /// It was told to end, and it is undone.
    Stopped,
}

impl Note {
    /// Seconds until the trial ends; 0 if it is over.
    pub fn seconds_left(&self) -> u64 {
        self.deadline_boot_ns.saturating_sub(boot_ns()) / 1_000_000_000
    }
}

impl Trial {
    /// The trial's public record.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Waits until the trial is confirmed, its time is over, or `stop` is set. It undoes the trial
    /// unless it was confirmed.
    ///
    /// # Errors
    /// [`Error::File`]; the trial is undone all the same.
    pub fn wait(self, host: &Host, stop: &AtomicBool) -> Result<Ended, Error> {
        let name = self.note.entry.name.clone();
        loop {
            // A command that confirms or ends the trial removes the note.
            if !is_note_of(&self.path, &self.note) {
                return Ok(match host.is_complete(&name)? {
                    true => Ended::Confirmed,
                    false => Ended::Stopped,
                });
            }
            let stopped = stop.load(Ordering::Relaxed);
            if stopped || boot_ns() >= self.note.deadline_boot_ns {
                // A command that is confirming has the lock and soon releases it. A longer holder
                // does not keep the trial from ending.
                let lock = host.lock_within(ENDS_WITHIN);
                if !is_note_of(&self.path, &self.note) && host.is_complete(&name)? {
                    return Ok(Ended::Confirmed);
                }
                drop(self);
                // A process that walks the kernel's links at this moment keeps this one for a
                // little longer.
                if wait_until_gone(&name).is_ok() {
                    // Returns the listeners opened meanwhile. The trial is over even if they cannot
                    // be moved.
                    return_listeners(&name);
                }
                // The journal has an entry if a confirmation was interrupted.
                if lock.is_ok() && host.entries()?.iter().any(|entry| entry.name == name) {
                    host.unload_locked(&name)?;
                }
                return Ok(if stopped { Ended::Stopped } else { Ended::TimedOut });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if is_note_of(&self.path, &self.note) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Host {
    /// Begins a trial. The same process then has to call [`Trial::wait`].
    ///
    /// # Errors
    /// The errors of [`Host::load`], except that no BPF file system is needed.
    pub fn trial(&self, request: &TrialRequest) -> Result<Trial, Error> {
        check_rights("loading an algorithm")?;
        let TrialRequest { request, confirm_within } = request;
        check_name(&request.name)?;
        let embedded = request.program;
        // Without links the kernel keeps a registration after its process ends.
        need_links(embedded.name(), "a trial that ends with its process")?;
        request.check()?;
        let cgroup = match (&request.cgroup, request.default) {
            (Some(cgroup), _) => Some(cgroup.clone()),
            (None, true) => Some(mount_point("cgroup2").ok_or_else(no_cgroup2)?),
            (None, false) => None,
        };
        let _lock = self.lock()?;
        let journal = Journal::read(&self.run_dir)?;
        self.check_cgroup_is_free(request, &journal)?;
        let name = request.name.clone();
        match journal.entry(&name) {
            Some(entry) if entry.complete => return Err(Error::LoadedAlready { name }),
            Some(_) => return Err(Error::CutShort { name }),
            None if available_algorithms()?.contains(&name) => return Err(self.name_taken(&name)),
            None => {}
        }
        let entry = self.new_entry(request, embedded, &journal)?;
        let mut loaded = self.prepare(request, embedded, &entry)?.register()?;
        let info = loaded.link().info();
        let info = info.map_err(|source| Error::Inspect { what: "a link", source })?;
        let within_ns = u64::try_from(confirm_within.as_nanos()).unwrap_or(u64::MAX);
        let deadline_boot_ns = boot_ns().saturating_add(within_ns);
        // The trial of a namespace's default affects that namespace only. The program checks the
        // deadline itself, so it stops even if this process is delayed.
        let here = knee_netns::current().map_err(proc)?;
        let netns_cookie = if request.default { cookie_of(&here)? } else { 0 };
        let scope = Scope { deadline_boot_ns, netns_cookie };
        let rules = [Rule::everything(&request.name)];
        let policy = cgroup.map(|cgroup| Policy::attach(&rules, &cgroup, scope)).transpose()?;
        let policy_program = policy.as_ref().map(Policy::program_id).transpose()?;
        let note = Note {
            pid: std::process::id(),
            entry,
            default: request.default,
            deadline_boot_ns,
            link_id: info.id,
            policy_program,
        };
        make_dir(&dir(&self.run_dir))?;
        let path = dir(&self.run_dir).join(&request.name);
        let file = write_note(&path, &note)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Trial { _policy: policy, _loaded: loaded, note, path, _file: file })
    }

    /// Makes a trial permanent: the one of this name, or the only one.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; otherwise the errors of [`Host::load`], after which the trial continues.
    pub fn confirm(&self, name: Option<&str>) -> Result<Entry, Error> {
        check_rights("confirming a trial")?;
        let lock = self.lock()?;
        let trials = self.trials();
        let chosen = match name {
            Some(name) => trials.iter().find(|trial| trial.entry.name == name),
            None if trials.len() > 1 => {
                let names = trials.iter().map(|trial| trial.entry.name.clone()).collect();
                return Err(Error::WhichTrial { names });
            }
            None => trials.first(),
        };
        let no_trial = || Error::NoTrial { name: name.map(str::to_owned) };
        let trial = chosen.filter(|trial| trial.seconds_left() > 0).ok_or_else(no_trial)?;
        // From here on the link lives as long as this process, even if the trial's process ends.
        let link = link_of(trial.link_id).map_err(|_| no_trial())?;
        let namespace = knee_netns::of_process(trial.pid).map_err(proc)?;
        self.need_pins(&lock)?;
        let mut journal = Journal::read(&self.run_dir)?;
        restore_allowed(&mut journal, &self.run_dir)?;
        let mut entry = trial.entry.clone();
        journal.put(&self.run_dir, entry.clone())?;
        let path = self.link_path(&entry.name)?;
        // An interrupted confirmation may have left it.
        let _ = fs::remove_file(&path);
        let confirmed = self.pin(&path, |path| pin_link(&link, path)).and_then(|()| {
            self.select(&mut journal, &mut entry, trial.default.then_some(&namespace))
        });
        if let Err(error) = confirmed {
            // The trial keeps the algorithm registered: only the additions of this function are
            // undone.
            let undone = self.undo(&mut journal, &entry.name);
            journal.remove(&self.run_dir, &entry.name)?;
            return undone.and(Err(error));
        }
        // If the note is gone, the trial's process ended meanwhile, too late to undo anything.
        let _ = fs::remove_file(dir(&self.run_dir).join(&entry.name));
        Ok(entry)
    }

    /// The trials whose processes live.
    pub fn trials(&self) -> Vec<Note> {
        notes(&self.run_dir)
    }

    fn is_complete(&self, name: &str) -> Result<bool, Error> {
        Ok(self.entries()?.iter().any(|entry| entry.name == name && entry.complete))
    }

    /// Ends the trial of this name, if there is one, and waits for its process to end. The caller
    /// holds the lock.
    pub(super) fn end_trial(&self, name: &str) -> Result<bool, Error> {
        let trials = self.trials();
        let Some(trial) = trials.iter().find(|trial| trial.entry.name == name) else {
            return Ok(false);
        };
        let path = dir(&self.run_dir).join(name);
        let failed = |source: std::io::Error| Error::File { path: path.clone(), source };
        // The process notices that the note is gone. It keeps the file locked while it lives.
        let note = open_file(&path).map_err(failed)?;
        fs::remove_file(&path).map_err(failed)?;
        let started = Instant::now();
        let mut killed = false;
        while flock(&note, FlockOperation::NonBlockingLockShared).is_err() {
            // A stopped process does not check the note.
            if !killed && started.elapsed() > ENDS_WITHIN / 2 {
                killed = true;
                let pid = i32::try_from(trial.pid).ok().and_then(Pid::from_raw);
                let sent = pid.map_or(Ok(()), |pid| kill_process(pid, Signal::KILL));
                sent.map_err(|errno| failed(errno.into()))?;
            }
            if started.elapsed() > ENDS_WITHIN {
                return Err(Error::StillRegistered { name: name.to_owned() });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(true)
    }
}

pub(super) fn dir(run_dir: &Path) -> PathBuf {
    run_dir.join("trials")
}

/// The notes of processes that live. It removes none, because that takes the lock.
pub(super) fn notes(run_dir: &Path) -> Vec<Note> {
    let mut notes: Vec<Note> =
        files(run_dir).iter().filter(|path| is_locked(path)).filter_map(|p| read_note(p)).collect();
    notes.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
    notes
}

/// Removes the notes of killed processes. The caller holds the lock, so nobody is writing a note.
pub(super) fn remove_dead_notes(run_dir: &Path) {
    for path in files(run_dir).iter().filter(|path| !is_locked(path)) {
        let _ = fs::remove_file(path);
    }
}

/// The files of all notes, except those that are being written.
fn files(run_dir: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(dir(run_dir)) else { return Vec::new() };
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    paths.filter(|path| path.extension().is_none()).collect()
}

fn is_locked(path: &Path) -> bool {
    let file = open_file(path);
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn is_note_of(path: &Path, note: &Note) -> bool {
    read_note(path).is_some_and(|found| {
        (found.pid, found.deadline_boot_ns) == (note.pid, note.deadline_boot_ns)
    })
}

fn write_note(path: &Path, note: &Note) -> std::io::Result<File> {
    let text = serde_json::to_string(note)?;
    // The file is locked before it has a name that other commands look for.
    let new = path.with_extension(format!("{}", note.pid));
    // A killed command left this file. It is removed, not overwritten, because it may be a link.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().create_new(true).write(true).open(&new)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)?;
    Ok(file)
}

fn read_note(path: &Path) -> Option<Note> {
    serde_json::from_str(&read_file(path, NOTE_BYTES).ok()?).ok()
}

pub(crate) fn link_of(id: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: the call only looks up a number.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was just opened, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn pin_link(link: &OwnedFd, path: &Path) -> libbpf_rs::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| libbpf_rs::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the descriptor is open and the path is a C string.
    let result = unsafe { libbpf_sys::bpf_obj_pin(link.as_fd().as_raw_fd(), path.as_ptr()) };
    match result {
        0 => Ok(()),
        error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
    }
}

fn no_cgroup2() -> Error {
    Error::Policy {
        what:
            "a default is tried by a program on the cgroups, but cgroup2 is not mounted: mount -t \
               cgroup2 none /sys/fs/cgroup"
                .to_owned(),
    }
}

/// The present time on the clock that includes suspend (CLOCK_BOOTTIME), which the programs in the
/// kernel read as well.
pub(crate) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

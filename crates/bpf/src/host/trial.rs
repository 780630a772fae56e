//! Loading on trial: nothing pinned, no sysctl written, all of it owned by one process, so that the
//! kernel undoes it when that process ends, in whatever way.

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
use super::load::{Request, need_links, prepare, proc};
use super::unload::{return_listeners, wait_until_gone};
use super::{Host, check_rights, make_dir, mount_point};
use crate::load::check_name;
use crate::policy::{Policy, Rule, Scope};
use crate::{Error, Loaded};

/// How often a trial looks whether it was confirmed or is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a trial that was told to end may take.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// A note has some 700.
const NOTE_BYTES: u64 = 1 << 16;

/// What is tried, and for how long.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    pub request: Request,
    /// How long.
    pub confirm_within: Duration,
}

/// What others see of a trial: a file that its process keeps locked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The process that owns it.
    pub pid: u32,
    /// What will be written down if it is confirmed.
    pub entry: Entry,
    /// Whether it is to become the default of the process's namespace.
    pub default: bool,
    /// When it ends, on the clock that runs since boot.
    pub deadline_boot_ns: u64,
    link_id: u32,
    /// The number of the program that gives it to sockets; `None`: nobody is given it.
    pub(super) policy_program: Option<u32>,
}

/// An algorithm on trial. Dropping it undoes it.
pub struct Trial {
    // Declared first, dropped first: nobody is given it any more, then the name goes.
    _policy: Option<Policy>,
    _loaded: Loaded,
    note: Note,
    path: PathBuf,
    /// Locked.
    _file: File,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is loaded for good.
    Confirmed,
    /// Nobody confirmed it in time: it is undone.
    TimedOut,
    /// It was told to end: it is undone.
    Stopped,
}

impl Note {
    /// Seconds until it ends; 0: it is over.
    pub fn seconds_left(&self) -> u64 {
        self.deadline_boot_ns.saturating_sub(boot_ns()) / 1_000_000_000
    }
}

impl Trial {
    /// What others see of it.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Waits until it is confirmed, over, or `stop` is set, and undoes it unless it was confirmed.
    ///
    /// # Errors
    /// [`Error::Journal`] and [`Error::File`]; it is undone then.
    pub fn wait(self, host: &Host, stop: &AtomicBool) -> Result<Ended, Error> {
        let name = self.note.entry.name.clone();
        loop {
            // Whoever confirms it removes the note, and so does whoever wants it to end.
            if !is_note_of(&self.path, &self.note) {
                return Ok(match host.is_complete(&name)? {
                    true => Ended::Confirmed,
                    false => Ended::Stopped,
                });
            }
            let stopped = stop.load(Ordering::Relaxed);
            if stopped || boot_ns() >= self.note.deadline_boot_ns {
                // Whoever is confirming right now has the lock and will be done soon; who holds it
                // for longer does not keep this from ending.
                let lock = host.lock_within(ENDS_WITHIN);
                if !is_note_of(&self.path, &self.note) && host.is_complete(&name)? {
                    return Ok(Ended::Confirmed);
                }
                drop(self);
                // Whoever looks through the kernel's links at this moment keeps this one a little.
                if wait_until_gone(&name).is_ok() {
                    // Those that were opened meanwhile. The trial is over even where they cannot be moved.
                    return_listeners(&name);
                }
                // A confirmation that was cut short.
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
    /// Begins a trial. [`Trial::wait`] then has to be called, in this process.
    ///
    /// # Errors
    /// As [`Host::load`], but no BPF file system is needed.
    pub fn trial(&self, request: &TrialRequest) -> Result<Trial, Error> {
        check_rights("loading an algorithm")?;
        let TrialRequest { request, confirm_within } = request;
        check_name(&request.name)?;
        let embedded = request.program;
        // Without links the kernel keeps what is registered when its process ends.
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
        let mut loaded = prepare(request, embedded, &entry)?.register()?;
        let info = loaded.link().info();
        let info = info.map_err(|source| Error::Inspect { what: "a link", source })?;
        let within_ns = u64::try_from(confirm_within.as_nanos()).unwrap_or(u64::MAX);
        let deadline_boot_ns = boot_ns().saturating_add(within_ns);
        // What will be a namespace's default is tried in that namespace only. The program looks at
        // the deadline itself, so that it ends even if this process is held up.
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

    /// Makes a trial permanent: of this name, or the only one there is.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; else as [`Host::load`], and the trial goes on.
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
        // From here on the link lives as long as this process, whatever the other one does.
        let link = link_of(trial.link_id).map_err(|_| no_trial())?;
        let namespace = knee_netns::of_process(trial.pid).map_err(proc)?;
        self.need_pins(&lock)?;
        let mut journal = Journal::read(&self.run_dir)?;
        restore_allowed(&mut journal, &self.run_dir)?;
        let mut entry = trial.entry.clone();
        journal.put(&self.run_dir, entry.clone())?;
        let path = self.link_path(&entry.name)?;
        // A confirmation that was cut short may have left it.
        let _ = fs::remove_file(&path);
        let confirmed = self.pin(&path, |path| pin_link(&link, path)).and_then(|()| {
            self.select(&mut journal, &mut entry, trial.default.then_some(&namespace))
        });
        if let Err(error) = confirmed {
            // The trial keeps it registered: only what was added here goes.
            let undone = self.undo(&mut journal, &entry.name);
            journal.remove(&self.run_dir, &entry.name)?;
            return undone.and(Err(error));
        }
        // If it is gone, the trial's process ended meanwhile, too late.
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

    /// Ends the trial of this name, if there is one, and waits until its process is gone. The caller
    /// holds the lock.
    pub(super) fn end_trial(&self, name: &str) -> Result<bool, Error> {
        let trials = self.trials();
        let Some(trial) = trials.iter().find(|trial| trial.entry.name == name) else {
            return Ok(false);
        };
        let path = dir(&self.run_dir).join(name);
        let failed = |source: std::io::Error| Error::File { path: path.clone(), source };
        // The process sees that the note is gone, and keeps the file locked while it lives.
        let note = open_file(&path).map_err(failed)?;
        fs::remove_file(&path).map_err(failed)?;
        let started = Instant::now();
        let mut killed = false;
        while flock(&note, FlockOperation::NonBlockingLockShared).is_err() {
            // One that is stopped does not look.
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

/// The notes of processes that live. Nothing is removed: that takes the lock.
pub(super) fn notes(run_dir: &Path) -> Vec<Note> {
    let mut notes: Vec<Note> =
        files(run_dir).iter().filter(|path| is_locked(path)).filter_map(|p| read_note(p)).collect();
    notes.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
    notes
}

/// Removes the notes of processes that were killed. The caller holds the lock, so nobody is writing
/// one.
pub(super) fn remove_dead_notes(run_dir: &Path) {
    for path in files(run_dir).iter().filter(|path| !is_locked(path)) {
        let _ = fs::remove_file(path);
    }
}

/// Without those that are being written.
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
    // Locked before it has a name that others look at.
    let new = path.with_extension(format!("{}", note.pid));
    // What is there was left by a command that was killed. It is not written into, lest it be a link.
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
    // SAFETY: it only asks.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: it was opened a moment ago and belongs to nobody else.
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

/// Now, on the clock that counts sleep too, as the programs in the kernel read it.
pub(crate) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

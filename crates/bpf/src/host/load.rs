//! Permanent loading: the algorithm is registered, pinned and written to the journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use knee_algo::{Algorithm, Params};
use knee_units::LinuxVersion;
use libbpf_rs::Link;

use super::before::{Before, Owned};
use super::defaults::{
    available_algorithms, cookie_of, default_algorithm, default_of, restore_allowed, set_default,
};
use super::journal::{Entry, Journal, LAST_RESORT, OldDefault};
use super::{Host, check_rights, mount_point, policies};
use crate::load::{Prepared, check_name};
use crate::policy::{Policy, Rule, Scope};
use crate::{Embedded, Error, KernelApi};

/// The parameter with which a user names the algorithm for connections without ECN.
const FALLBACK_PARAM: &str = "fallback";

/// A request to load: the algorithm, its name, and the sockets that get it.
#[derive(Clone, Debug)]
pub struct Request {
    pub program: &'static Embedded,
    /// The name to register.
    pub name: String,
    pub params: Params,
    /// Keeps the parameter `fallback`, because the user set it. Otherwise connections without ECN
    /// get the host's default.
    pub fallback_chosen: bool,
    /// Makes the algorithm the default of the calling thread's namespace.
    pub default: bool,
    /// The cgroup whose connections get the algorithm; `None` leaves it as it is.
    pub cgroup: Option<PathBuf>,
    /// Every user of the host may choose it. Otherwise the algorithm's flags decide, as in Linux.
    pub any_user: bool,
    /// The user accepts that connections which may leave the data center get an algorithm that
    /// needs ECN.
    pub i_know: bool,
}

/// The result of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The algorithm is newly registered.
    Loaded,
    /// It replaces another one of that name, which old connections keep.
    Updated,
    /// It was already loaded with the same parameters.
    Already,
}

impl Host {
    /// Loads permanently. If this fails or is interrupted at any point, [`Host::unload`] undoes the
    /// steps done so far.
    ///
    /// # Errors
    /// All errors of [`crate::Loaded::register`]; [`Error::NameTaken`], [`Error::NoBpffs`],
    /// [`Error::Locked`] and [`Error::File`].
    pub fn load(&self, request: &Request) -> Result<(Done, Entry), Error> {
        check_rights("loading an algorithm")?;
        check_name(&request.name)?;
        let embedded = request.program;
        request.check()?;
        let lock = self.lock()?;
        self.need_pins(&lock)?;
        let mut journal = Journal::read(&self.run_dir)?;
        restore_allowed(&mut journal, &self.run_dir)?;
        let before = journal.entry(&request.name).cloned();
        if let Some(before) = before.iter().find(|one| one.algorithm != request.algorithm().name())
        {
            let (name, algorithm) = (before.name.clone(), before.algorithm.clone());
            return Err(Error::OtherAlgorithm { name, algorithm });
        }
        if let Some(before) = before.iter().find(|before| is_other_file(before, embedded)) {
            let path = before.source.as_ref().and_then(|source| source.path.clone());
            return Err(Error::OtherFile { name: before.name.clone(), path });
        }
        self.check_cgroup_is_free(request, &journal)?;
        let mut entry = self.new_entry(request, embedded, &journal)?;
        let pinned = self.link_path(&request.name)?.exists();
        let registered = available_algorithms()?.contains(&request.name);
        let done = match &before {
            // On kernels without links, registering comes before pinning.
            Some(before) if registered && !pinned => {
                return Err(Error::CutShort { name: before.name.clone() });
            }
            None if registered && !pinned => return Err(self.name_taken(&request.name)),
            // The program of an incomplete entry may or may not be loaded.
            Some(before) if pinned && before.complete && before.is_same_program(&entry) => {
                entry.loaded_at_unix_s = before.loaded_at_unix_s;
                Done::Already
            }
            _ if pinned => Done::Updated,
            _ => Done::Loaded,
        };
        journal.put(&self.run_dir, entry.clone())?;
        let outcome = match done {
            Done::Already => Ok(()),
            Done::Updated => self.update(request, embedded, &entry),
            Done::Loaded => self.register(request, embedded, &entry),
        };
        if outcome.is_err() && (before.is_some() || done == Done::Updated) {
            // Nothing has changed.
            match &before {
                Some(before) => journal.put(&self.run_dir, before.clone())?,
                None => journal.remove(&self.run_dir, &entry.name)?,
            }
            return outcome.map(|()| (done, entry));
        }
        let here = knee_netns::current().map_err(proc)?;
        let outcome = outcome
            .and_then(|()| self.renew_defaults(done, &mut journal, &entry.name))
            .and_then(|()| self.select(&mut journal, &mut entry, request.default.then_some(&here)));
        match (outcome, before) {
            (Ok(()), _) => Ok((done, entry)),
            // The entry stays incomplete: the next load or unload continues from there.
            (Err(error), Some(_)) => Err(error),
            (Err(error), None) => {
                self.undo(&mut journal, &request.name)?;
                journal.remove(&self.run_dir, &request.name)?;
                Err(error)
            }
        }
    }

    /// Sets the defaults again: a default keeps naming the program that was registered when it was
    /// set.
    fn renew_defaults(&self, done: Done, journal: &mut Journal, name: &str) -> Result<(), Error> {
        if done != Done::Updated {
            return Ok(());
        }
        for namespace in knee_netns::all().map_err(proc)? {
            if default_of(&namespace)? == name {
                set_default(&namespace, name, journal, &self.run_dir)?;
            }
        }
        Ok(())
    }

    /// Does the steps after registration: gives the algorithm to the requested sockets and
    /// completes the journal's entry.
    pub(super) fn select(
        &self,
        journal: &mut Journal,
        entry: &mut Entry,
        default_of: Option<&knee_netns::FoundNamespace>,
    ) -> Result<(), Error> {
        if let Some(cgroup) = &entry.cgroup {
            self.give_to_cgroup(&entry.name, cgroup)?;
        }
        if let Some(namespace) = default_of {
            self.make_default(journal, entry, namespace)?;
        }
        entry.complete = true;
        journal.put(&self.run_dir, entry.clone())
    }

    /// Gives the algorithm to the sockets of this cgroup only.
    fn give_to_cgroup(&self, name: &str, cgroup: &Path) -> Result<(), Error> {
        let path = self.cgroup_link_path(name)?;
        let there = self.policy_of(name);
        if there.is_some_and(|there| there.cgroup.as_deref() == Some(cgroup)) {
            return Ok(());
        }
        let policy = Policy::attach(&[Rule::everything(name)], cgroup, Scope::default())?;
        // An existing pin is that of another cgroup, or of a removed one.
        if path.exists() {
            fs::remove_file(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        }
        self.pin(&path, |path| policy.pin(path))
    }

    /// Refuses a second algorithm on a cgroup: only the older one would take effect.
    pub(super) fn check_cgroup_is_free(
        &self,
        request: &Request,
        journal: &Journal,
    ) -> Result<(), Error> {
        let Some(cgroup) = &request.cgroup else { return Ok(()) };
        let mut others = journal.entries.iter().filter(|entry| entry.name != request.name);
        let taken = |by: String| Error::Policy {
            what: format!(
                "{} is given {by} already: of two only the older one acts",
                cgroup.display()
            ),
        };
        if let Some(other) = others.find(|other| other.cgroup.as_ref() == Some(cgroup)) {
            return Err(taken(format!("\"{}\" (knee unload {})", other.name, other.name)));
        }
        let mut policies = policies::show(self)?.into_iter();
        match policies.any(|policy| policy.cgroup.as_ref() == Some(cgroup)) {
            true => Err(taken("its algorithms by a policy (knee policy show)".to_owned())),
            false => Ok(()),
        }
    }

    /// The journal's entry of this request, marked incomplete.
    pub(super) fn new_entry(
        &self,
        request: &Request,
        embedded: &Embedded,
        journal: &Journal,
    ) -> Result<Entry, Error> {
        let names = request.algorithm().params().iter().map(|param| param.name.to_owned());
        let before = journal.entry(&request.name);
        let has_fallback = request.algorithm().params().iter().any(|p| p.name == FALLBACK_PARAM);
        let fallback = match request.fallback_chosen || !has_fallback {
            true => None,
            false => Some(self.hosts_own_default(journal)?),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Entry {
            name: request.name.clone(),
            algorithm: request.algorithm().name().to_owned(),
            source: embedded.source().cloned(),
            params: names.zip(request.params.values().iter().copied()).collect(),
            fallback,
            loaded_at_unix_s: now.map_or(0, |now| now.as_secs()),
            object: embedded.build(),
            any_user: request.any_user,
            complete: false,
            defaults: before.map_or_else(Vec::new, |before| before.defaults.clone()),
            cgroup: request.cgroup.clone().or_else(|| before.and_then(|b| b.cgroup.clone())),
        })
    }

    /// The default of this namespace, or the one that knee replaced.
    fn hosts_own_default(&self, journal: &Journal) -> Result<String, Error> {
        let here = cookie_of(&knee_netns::current().map_err(proc)?)?;
        let mut name = default_algorithm()?;
        let kept = Owned::all(&self.run_dir)?;
        // One step for each of knee's algorithms that replaced another of knee's.
        for _ in 0..=kept.len().max(journal.entries.len()) {
            let entry = journal.entry(&name);
            let kept = kept.iter().find(|one| one.kernel.algorithm.name == name);
            if entry.is_none() && kept.is_none() {
                return Ok(name);
            }
            let olds = entry.iter().flat_map(|entry| &entry.defaults);
            let mut olds = olds.filter(|old| old.netns_cookie == here);
            let known = olds.next().map(|old| old.algorithm.clone());
            match known.or_else(|| kept?.before.default_of(here)) {
                Some(old) => name = old,
                None => {
                    let fallback = entry.and_then(|entry| entry.fallback.clone());
                    return Ok(fallback.unwrap_or_else(|| LAST_RESORT.to_owned()));
                }
            }
        }
        Ok(LAST_RESORT.to_owned())
    }

    /// Loads the programs, with the map of earlier defaults.
    pub(super) fn prepare(
        &self,
        request: &Request,
        embedded: &Embedded,
        entry: &Entry,
    ) -> Result<Prepared, Error> {
        let fallback = entry.fallback.as_deref();
        let (name, params) = (&request.name, &request.params);
        let prepared = Prepared::load(embedded, name, params, fallback, request.any_user)?;
        prepared.keep(Before::for_next(name, &self.run_dir)?.map())?;
        Ok(prepared)
    }

    fn register(&self, request: &Request, embedded: &Embedded, entry: &Entry) -> Result<(), Error> {
        let prepared = self.prepare(request, embedded, entry)?;
        let mut loaded = prepared.register()?;
        let path = self.link_path(&request.name)?;
        self.pin(&path, |path| loaded.pin(path))
    }

    fn update(&self, request: &Request, embedded: &Embedded, entry: &Entry) -> Result<(), Error> {
        need_links(embedded.name(), "a live update under the same name")?;
        let prepared = self.prepare(request, embedded, entry)?;
        let path = self.link_path(&request.name)?;
        let link = Link::open(&path).map_err(|source| Error::Pin { path, source })?;
        prepared.replace(&link)
    }

    /// Pins at `path`. On failure no file is left there.
    pub(super) fn pin(
        &self,
        path: &PathBuf,
        pin: impl FnOnce(&PathBuf) -> libbpf_rs::Result<()>,
    ) -> Result<(), Error> {
        self.make_pin_dir(path.parent().unwrap_or(path))?;
        pin(path).map_err(|source| {
            self.remove_empty_dirs(path);
            Error::Pin { path: path.clone(), source }
        })
    }

    /// Removes the two pin directories above `path` if they are empty.
    pub(super) fn remove_empty_dirs(&self, path: &Path) {
        for dir in path.ancestors().skip(1).take(2) {
            // `rmdir` fails for a directory that is not empty, which then stays.
            let _ = fs::remove_dir(dir);
        }
    }

    /// Writes the current default to the journal, then replaces it.
    pub(super) fn make_default(
        &self,
        journal: &mut Journal,
        entry: &mut Entry,
        namespace: &knee_netns::FoundNamespace,
    ) -> Result<(), Error> {
        let netns_cookie = cookie_of(namespace)?;
        let old = default_of(namespace)?;
        if old == entry.name {
            return Ok(());
        }
        Before::for_next(&entry.name, &self.run_dir)?.put_default(netns_cookie, &old)?;
        entry.defaults.retain(|old| old.netns_cookie != netns_cookie);
        entry.defaults.push(OldDefault { netns_cookie, algorithm: old });
        journal.put(&self.run_dir, entry.clone())?;
        set_default(namespace, &entry.name, journal, &self.run_dir)
    }

    pub(super) fn name_taken(&self, name: &str) -> Error {
        let on_trial = self.trials().iter().any(|trial| trial.entry.name == name);
        Error::NameTaken { name: name.to_owned(), on_trial }
    }
}

impl Request {
    fn algorithm(&self) -> &'static Algorithm {
        self.program.algorithm()
    }

    /// Refuses a request that is invalid in itself.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.cgroup.as_deref().map_or(Ok(()), check_cgroup)?;
        let given = self.default || self.cgroup.is_some();
        if given && self.algorithm().needs_ecn() && !self.i_know {
            return Err(Error::MeetsInternet { algorithm: self.algorithm().name().to_owned() });
        }
        Ok(())
    }
}

impl Entry {
    /// Whether loading this entry would change nothing that the kernel has of `other`.
    fn is_same_program(&self, other: &Entry) -> bool {
        let key = |entry: &Entry| {
            let (params, fallback) = (entry.params.clone(), entry.fallback.clone());
            (entry.object, entry.algorithm.clone(), params, fallback, entry.any_user)
        };
        key(self) == key(other)
    }
}

/// Whether the loaded algorithm comes from another file that has the same name. A changed or moved
/// file counts as the same.
fn is_other_file(before: &Entry, now: &Embedded) -> bool {
    match (&before.source, now.source()) {
        (Some(before), Some(now)) => before.path != now.path && before.sha256 != now.sha256,
        (before, now) => before.is_some() != now.is_some(),
    }
}

/// Refuses `what`, which needs struct_ops links, on kernels without them.
pub(super) fn need_links(algorithm: &str, what: &str) -> Result<(), Error> {
    let api = KernelApi::running();
    if api.links {
        return Ok(());
    }
    let (algorithm, what, release) = (algorithm.to_owned(), what.to_owned(), api.release.clone());
    Err(Error::Lacks { algorithm, what, since: LinuxVersion(6, 4), release })
}

/// Refuses a path that is no cgroup before any change.
pub(crate) fn check_cgroup(cgroup: &Path) -> Result<(), Error> {
    if cgroup.join("cgroup.procs").exists() && cgroup.join("cgroup.type").exists()
        || mount_point("cgroup2").is_some_and(|root| root == cgroup)
    {
        return Ok(());
    }
    let what = match mount_point("cgroup2") {
        Some(root) => format!("not a directory of cgroup2, which is mounted at {}", root.display()),
        None => "cgroup2 is not mounted: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
    };
    Err(Error::Policy { what: format!("{}: {what}", cgroup.display()) })
}

/// Makes the error of a failed read of /proc.
pub(crate) fn proc(source: std::io::Error) -> Error {
    Error::File { path: "/proc/self/ns/net".into(), source }
}

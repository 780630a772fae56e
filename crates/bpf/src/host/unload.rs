//! Unloading: undoes what a load or a trial changed.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use knee_netns::FoundNamespace;
use libbpf_rs::Link;

use super::before::{Before, Owned};
use super::congctl::{forget, routes_naming};
use super::defaults::{available_algorithms, cookie_of, default_of, restore_allowed, set_default};
use super::journal::{Entry, Journal, LAST_RESORT};
use super::load::proc;
use super::{Host, check_rights, policies};
use crate::load::with_log;
use crate::{Connection, Connections, Error, Filter, KernelApi, Migration, Outcome, registered};

/// The longest time that the kernel may take to drop a name after its last link is closed.
const VANISHES_WITHIN: Duration = Duration::from_secs(2);

/// The number of searches for namespaces that name the algorithm. If more turn up after that,
/// something sets it all the time.
const ROUNDS: usize = 10;

/// The changes that were undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unloaded {
    /// The namespaces whose default it was.
    pub defaults: Vec<Restored>,
    /// The routes that named it and now name no algorithm: namespace and destination.
    pub routes: Vec<(String, String)>,
    /// The routes that still name it because they could not be changed: namespace, destination and
    /// reason.
    pub routes_left: Vec<(String, String, String)>,
    /// The listeners that had it and now have the default of their namespace: namespace, address
    /// and that default.
    pub listeners: Vec<(String, SocketAddr, String)>,
    /// Whether a trial was ended.
    pub trial: bool,
    /// The sockets that still have it; `None` if they could not be read.
    pub left: Option<Left>,
    /// The reason why some listeners could not be moved, or the remaining sockets could not be
    /// read.
    pub unread: Option<String>,
}

impl Unloaded {
    /// Whether nothing known or suspected still gives the algorithm to new connections, and every
    /// default is as it was.
    pub fn is_all(&self) -> bool {
        let moved = self.left.as_ref().is_some_and(|left| left.listeners.is_empty());
        moved && self.routes_left.is_empty() && self.defaults.iter().all(|one| one.is_known)
    }
}

/// A default that was set again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The namespace.
    pub namespace: String,
    /// Its present default.
    pub to: String,
    /// Whether that is the earlier default. Otherwise nobody knows that one.
    pub is_known: bool,
}

/// The sockets that still have an algorithm after its registration ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The listeners, whose connections inherit it: namespace and address.
    pub listeners: Vec<(String, SocketAddr)>,
    /// The number of connections, which keep it until they close.
    pub connections: usize,
}

impl Host {
    /// The names that [`Host::unload`] accepts: those in the journal, pinned, on trial, or still
    /// given to new connections after their registration ended.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::File`], and the errors of reading what is loaded.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        check_rights("unloading an algorithm")?;
        let _lock = self.lock()?;
        let mut journal = Journal::read(&self.run_dir)?;
        if journal.unread.is_some() {
            // From here on the kernel alone says what is loaded.
            journal.shorten(&self.run_dir)?;
        }
        let mut names: Vec<String> = journal.entries.into_iter().map(|entry| entry.name).collect();
        names.extend(self.pinned_names());
        names.extend(self.left_behind()?);
        names.extend(self.trials().into_iter().map(|trial| trial.entry.name));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Undoes [`Host::load`] or [`Host::confirm`], also after an interruption. The defaults and
    /// routes of every namespace come first, because the algorithms that they name stay in use;
    /// then the name goes. Listeners get the default of their namespace; connections keep the
    /// algorithm until they close.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]; [`Error::Policy`] if a policy names it; [`Error::StillRegistered`];
    /// [`Error::PinnedElsewhere`]; [`Error::File`], [`Error::Locked`].
    pub fn unload(&self, name: &str) -> Result<Unloaded, Error> {
        check_rights("unloading an algorithm")?;
        let _lock = self.lock()?;
        self.check_policies(name)?;
        let trial = self.end_trial(name)?;
        // An interrupted confirmation leaves more behind than the end of the trial's process
        // undoes.
        let mut undone = match trial && !self.knows(name)? {
            true => {
                wait_until_gone(name)?;
                Unloaded::default()
            }
            false => self.unload_locked(name)?,
        };
        undone.trial = trial;
        let (listeners, failed) = return_listeners(name);
        undone.listeners = listeners;
        undone.unread = failed.map(|error| error.to_string());
        match Left::of(name) {
            Ok(left) => undone.left = Some(left),
            Err(error) => undone.unread = undone.unread.or_else(|| Some(error.to_string())),
        }
        Ok(undone)
    }

    /// Whether a permanent load of this name was done or begun.
    fn knows(&self, name: &str) -> Result<bool, Error> {
        Ok(self.is_pinned(name)
            || self.entries()?.iter().any(|entry| entry.name == name)
            || self.left_behind()?.iter().any(|left| left == name))
    }

    fn is_pinned(&self, name: &str) -> bool {
        self.link_path(name).is_ok_and(|path| path.exists())
    }

    /// The algorithms that were loaded with this journal, are no longer registered, and still come
    /// to new connections by a default, a route or a listener. Their pins or the journal were
    /// removed by something else.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::Read`], [`Error::Load`].
    pub(super) fn left_behind(&self) -> Result<Vec<String>, Error> {
        let (registered, gone): (Vec<_>, Vec<_>) =
            Owned::all(&self.run_dir)?.into_iter().partition(|one| one.kernel.is_registered);
        let name = |one: Owned| one.kernel.algorithm.name;
        let registered: BTreeSet<String> = registered.into_iter().map(name).collect();
        let mut names: BTreeSet<String> = gone.into_iter().map(name).collect();
        names.retain(|name| !registered.contains(name));
        // Without links the kernel keeps a registration whose pin was removed.
        let mut left = registered;
        left.retain(|name| !KernelApi::running().links && !self.is_pinned(name));
        if names.is_empty() {
            return Ok(left.into_iter().collect());
        }
        let (reader, namespaces) = (Connections::open()?, knee_netns::all().map_err(proc)?);
        let gives = |namespace: &FoundNamespace, name: &str| -> Result<bool, Error> {
            let has_it = |one: &Connection| one.is_listener() && one.algorithm == name;
            Ok(default_of(namespace)? == name
                || !routes_naming(namespace, name)?.is_empty()
                || reader.read_in(namespace)?.iter().any(has_it))
        };
        // A namespace that cannot be read does not hide the others.
        names.retain(|name| namespaces.iter().any(|one| gives(one, name).unwrap_or(false)));
        Ok(names.into_iter().chain(left).collect())
    }

    /// Refuses to unload an algorithm that a policy names: the policy would go on giving it to
    /// sockets, without effect.
    fn check_policies(&self, name: &str) -> Result<(), Error> {
        let policies = match policies::show(self) {
            // The policies disappeared with the BPF file system, and so did the algorithm's pins.
            Err(Error::NoBpffs | Error::NotBpffs { .. }) => Vec::new(),
            shown => shown?,
        };
        for policy in policies {
            let mut rules = policy.rules.iter().zip(1..);
            let names_it = rules.find(|((rule, _), _)| rule.algorithm.as_deref() == Some(name));
            if let Some(((rule, _), number)) = names_it {
                let rule = match rule.name.as_str() {
                    "" => format!("rule {number}"),
                    named => format!("rule \"{named}\""),
                };
                return Err(Error::Policy {
                    what: format!(
                        "{rule} of the policy gives \"{name}\" to connections: knee policy apply one \
                         without it, or knee policy clear, before it is unloaded"
                    ),
                });
            }
        }
        Ok(())
    }

    pub(super) fn unload_locked(&self, name: &str) -> Result<Unloaded, Error> {
        let mut journal = Journal::read(&self.run_dir)?;
        restore_allowed(&mut journal, &self.run_dir)?;
        if !self.knows(name)? {
            let registered = available_algorithms()?.iter().any(|known| known == name);
            let tried: Vec<Entry> = self.trials().into_iter().map(|trial| trial.entry).collect();
            if registered && Before::is_kept_of(name)? {
                return Err(Error::PinnedElsewhere { name: name.to_owned() });
            }
            let of_it = journal.entries.iter().chain(&tried).filter(|one| one.algorithm == name);
            let loaded_as = of_it.map(|entry| entry.name.clone()).collect();
            return Err(Error::NotLoaded { name: name.to_owned(), registered, loaded_as });
        }
        // Where the kernel has links, a link without a pin ends with its process.
        if KernelApi::running().links && !self.is_pinned(name) && wait_until_gone(name).is_err() {
            return Err(Error::PinnedElsewhere { name: name.to_owned() });
        }
        let undone = self.undo(&mut journal, name)?;
        wait_until_gone(name)?;
        journal.remove(&self.run_dir, name)?;
        Ok(undone)
    }

    /// Undoes everything except what a trial's process holds. The journal keeps the entry.
    pub(super) fn undo(&self, journal: &mut Journal, name: &str) -> Result<Unloaded, Error> {
        let entry = journal.entry(name).cloned();
        let mut undone = Unloaded::default();
        let (own, others): (Vec<Owned>, Vec<Owned>) = Owned::all(&self.run_dir)?
            .into_iter()
            .partition(|one| one.kernel.algorithm.name == name);
        let kept: Vec<Before> = own.into_iter().map(|one| one.before).collect();
        let earlier = Earlier { name, entry: entry.as_ref(), kept: &kept };
        // The host's namespace comes first: a namespace made meanwhile copies its default.
        for _ in 0..ROUNDS {
            let mut found = false;
            for namespace in knee_netns::all().map_err(proc)? {
                found |= self.restore_default(&namespace, &earlier, journal, &mut undone)?;
            }
            if !found {
                break;
            }
        }
        for namespace in knee_netns::all().map_err(proc)? {
            let routes = routes_naming(&namespace, name)?;
            let done = forget(&namespace, &routes);
            // A route that cannot be written back does not stop the rest.
            for (route, done) in routes.into_iter().zip(done) {
                match done {
                    Ok(()) => undone.routes.push((namespace.label(), route.to)),
                    Err(error) => {
                        undone.routes_left.push((namespace.label(), route.to, error.to_string()));
                    }
                }
            }
        }
        // The link that gives the algorithm to new sockets goes first and is detached at once,
        // because other processes may have it open. The algorithm's own link may belong to a trial,
        // too, and goes with its last holder.
        if let Ok(pin) = self.cgroup_link_path(name) {
            if pin.exists() {
                let (link, _) = with_log(|| Link::open(&pin));
                let _ = link.map(|link| link.detach());
                unpin(&pin)?;
            }
        }
        if let Ok(pin) = self.link_path(name) {
            if pin.exists() {
                unpin(&pin)?;
            }
            // This includes directories made for a pin that never came.
            self.remove_empty_dirs(&pin);
        }
        if !KernelApi::running().links {
            for one in registered()?.into_iter().filter(|one| one.name == name) {
                one.unregister()?;
            }
        }
        for one in &others {
            one.before.forget_default(name, &kept)?;
        }
        kept.iter().try_for_each(Before::clear)?;
        if let Some(entry) = entry {
            journal.forget_default(&entry);
        }
        Ok(undone)
    }

    fn restore_default(
        &self,
        namespace: &FoundNamespace,
        earlier: &Earlier<'_>,
        journal: &mut Journal,
        undone: &mut Unloaded,
    ) -> Result<bool, Error> {
        if default_of(namespace)? != earlier.name {
            return Ok(false);
        }
        let known = earlier.default_of(cookie_of(namespace)?);
        let is_known = known.is_some();
        let known = known.unwrap_or_else(|| LAST_RESORT.to_owned());
        let (to, is_known) = match set_default(namespace, &known, journal, &self.run_dir) {
            // The earlier default is an algorithm that is gone as well.
            Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                set_default(namespace, LAST_RESORT, journal, &self.run_dir)?;
                (LAST_RESORT.to_owned(), false)
            }
            outcome => outcome.map(|()| (known, is_known))?,
        };
        undone.defaults.push(Restored { namespace: namespace.label(), to, is_known });
        Ok(true)
    }
}

/// What is known of the defaults before an algorithm: by the journal, and by the kernel.
struct Earlier<'a> {
    name: &'a str,
    entry: Option<&'a Entry>,
    kept: &'a [Before],
}

impl Earlier<'_> {
    /// The earlier default of the namespace with this cookie. A namespace made meanwhile copied its
    /// default from the host's, whose earlier default is the best choice.
    fn default_of(&self, netns_cookie: u64) -> Option<String> {
        let olds = self.entry.map_or(&[][..], |entry| &entry.defaults);
        let own = olds.iter().find(|old| old.netns_cookie == netns_cookie);
        let own = own.map(|old| old.algorithm.clone());
        let own = own.or_else(|| self.kept.iter().find_map(|kept| kept.default_of(netns_cookie)));
        let any = || Some(olds.first()?.algorithm.clone());
        let any = || any().or_else(|| self.kept.iter().find_map(Before::first_default));
        let fallback = || self.entry.and_then(|entry| entry.fallback.clone());
        own.or_else(any).or_else(fallback).filter(|known| known != self.name)
    }
}

fn unpin(pin: &Path) -> Result<(), Error> {
    fs::remove_file(pin).map_err(|source| Error::File { path: pin.to_owned(), source })
}

/// Gives the default of their namespace to listeners whose algorithm is gone. Otherwise the
/// connections that they accept would have it, too, for the listeners' whole lives. Returns the
/// moved listeners, and the first reason why others may not have been moved.
pub(super) fn return_listeners(name: &str) -> (Vec<Returned>, Option<Error>) {
    let mut returned = Vec::new();
    let opened =
        Connections::open().and_then(|reader| Ok((reader, knee_netns::all().map_err(proc)?)));
    let (reader, namespaces) = match opened {
        Ok(opened) => opened,
        Err(error) => return (returned, Some(error)),
    };
    let mut failed = None;
    for namespace in &namespaces {
        // A namespace that cannot be read does not stop the others.
        match return_listeners_in(namespace, name, &reader) {
            Ok(more) => returned.extend(more),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (returned, failed)
}

/// A listener that was given back: namespace, address and present algorithm.
type Returned = (String, SocketAddr, String);

fn return_listeners_in(
    namespace: &FoundNamespace,
    name: &str,
    reader: &Connections,
) -> Result<Vec<Returned>, Error> {
    let has_it = |one: &Connection| one.is_listener() && one.algorithm == name;
    let listeners: Vec<_> = reader.read_in(namespace)?.into_iter().filter(has_it).collect();
    if listeners.is_empty() {
        return Ok(Vec::new());
    }
    let to = default_of(namespace)?;
    let migration = Migration::new(name, &to, Filter::default(), true)?;
    let moved = migration.run(migration.plan(listeners), std::slice::from_ref(namespace))?;
    let moved = moved.iter().filter(|one| one.outcome == Outcome::Moved);
    Ok(moved.map(|one| (namespace.label(), one.connection.local, to.clone())).collect())
}

impl Left {
    fn of(name: &str) -> Result<Left, Error> {
        let reader = Connections::open()?;
        let mut left = Left::default();
        for namespace in knee_netns::all().map_err(proc)? {
            for user in reader.read_in(&namespace)?.iter().filter(|user| user.algorithm == name) {
                match user.is_listener() {
                    true => left.listeners.push((namespace.label(), user.local)),
                    false => left.connections += 1,
                }
            }
        }
        Ok(left)
    }
}

pub(super) fn wait_until_gone(name: &str) -> Result<(), Error> {
    let started = Instant::now();
    while available_algorithms()?.iter().any(|known| known == name) {
        if started.elapsed() > VANISHES_WITHIN {
            return Err(Error::StillRegistered { name: name.to_owned() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

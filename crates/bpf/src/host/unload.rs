//! Undoing.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use knee_netns::Found;

use super::congctl::{forget, routes_naming};
use super::defaults::{available_algorithms, default_of, restore_allowed, set_default};
use super::journal::{Entry, Journal, LAST_RESORT};
use super::load::proc;
use super::{Host, check_rights};
use crate::{Connections, Error, KernelApi, policy, registered};

/// How long the kernel may take to drop a name whose last link is closed.
const VANISHES_WITHIN: Duration = Duration::from_secs(2);

/// What was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unloaded {
    /// Namespaces whose default it was, with the default that they have now.
    pub defaults: Vec<(String, String)>,
    /// Routes that named it and name no algorithm any more: namespace and destination.
    pub routes: Vec<(String, String)>,
    /// A trial was ended: nothing had been changed.
    pub trial: bool,
    /// Listeners that still have it, which their connections inherit: namespace and address.
    pub listeners: Vec<(String, SocketAddr)>,
    /// Connections that still have it and keep it until they close.
    pub connections: usize,
}

impl Host {
    /// Everything that [`Host::unload`] could undo: what is written down, pinned or on trial.
    ///
    /// # Errors
    /// [`Error::Journal`], [`Error::Locked`] and [`Error::File`].
    pub fn names(&self) -> Result<Vec<String>, Error> {
        check_rights("unloading an algorithm")?;
        let _lock = self.lock()?;
        let mut names: Vec<String> = self.entries()?.into_iter().map(|entry| entry.name).collect();
        names.extend(self.pinned_names());
        names.extend(self.trials().into_iter().map(|trial| trial.entry.name));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Undoes what [`Host::load`] or [`Host::confirm`] did, also if it was cut short: defaults and
    /// routes of every namespace first, since what they name goes on being used, then the name.
    /// Connections that have the algorithm keep it until they close.
    ///
    /// # Errors
    /// [`Error::NotLoaded`]; [`Error::Policy`] if a policy names it; [`Error::StillRegistered`]; [`Error::File`], [`Error::Journal`],
    /// [`Error::Locked`].
    pub fn unload(&self, name: &str) -> Result<Unloaded, Error> {
        check_rights("unloading an algorithm")?;
        let _lock = self.lock()?;
        let mut undone = match self.end_trial(name)? {
            true => Unloaded { trial: true, ..Unloaded::default() },
            false => {
                self.check_policies(name)?;
                self.unload_locked(name)?
            }
        };
        // All is undone by now: not to know who is left is no failure.
        let _ = undone.count_users(name);
        Ok(undone)
    }

    /// A policy would go on giving it to sockets, in vain.
    fn check_policies(&self, name: &str) -> Result<(), Error> {
        let policies = policy::show(self)?;
        let mut rules = policies.iter().flat_map(|attached| &attached.rules);
        match rules.find(|(rule, _)| rule.algorithm.as_deref() == Some(name)) {
            None => Ok(()),
            Some((rule, _)) => Err(Error::Policy {
                what: format!(
                    "the policy's rule \"{}\" gives \"{name}\" to connections: knee policy apply one \
                     without it, or knee policy clear, before it is unloaded",
                    rule.name
                ),
            }),
        }
    }

    pub(super) fn unload_locked(&self, name: &str) -> Result<Unloaded, Error> {
        let mut journal = Journal::read(&self.run_dir)?;
        restore_allowed(&mut journal, &self.run_dir)?;
        let pinned = self.link_path(name).is_ok_and(|path| path.exists());
        if journal.entry(name).is_none() && !pinned {
            let registered = available_algorithms()?.iter().any(|known| known == name);
            return Err(Error::NotLoaded { name: name.to_owned(), registered });
        }
        let undone = self.undo(&mut journal, name)?;
        if !KernelApi::running().links {
            for one in registered()?.into_iter().filter(|one| one.name == name) {
                one.unregister()?;
            }
        }
        wait_until_gone(name)?;
        journal.remove(&self.run_dir, name)?;
        Ok(undone)
    }

    /// Undoes all but what a trial's process holds. The journal keeps its entry.
    pub(super) fn undo(&self, journal: &mut Journal, name: &str) -> Result<Unloaded, Error> {
        let entry = journal.entry(name).cloned();
        let mut undone = Unloaded::default();
        for namespace in knee_netns::all().map_err(proc)? {
            self.restore_default(&namespace, name, entry.as_ref(), journal, &mut undone)?;
            for route in routes_naming(&namespace, name)? {
                forget(&namespace, &route)?;
                undone.routes.push((namespace.label(), route.to));
            }
        }
        // Whoever would give it to new sockets goes before it.
        for pin in [self.cgroup_link_path(name), self.link_path(name)].into_iter().flatten() {
            if !pin.exists() {
                continue;
            }
            fs::remove_file(&pin).map_err(|source| Error::File { path: pin.clone(), source })?;
            self.remove_empty_dirs(&pin);
        }
        if let Some(entry) = entry {
            journal.forget_default(&entry);
        }
        Ok(undone)
    }

    fn restore_default(
        &self,
        namespace: &Found,
        name: &str,
        entry: Option<&Entry>,
        journal: &mut Journal,
        undone: &mut Unloaded,
    ) -> Result<(), Error> {
        if default_of(namespace)? != name {
            return Ok(());
        }
        let old = entry.map_or(&[][..], |entry| &entry.defaults);
        let own = old.iter().find(|old| old.is_of(namespace.id())).or(old.first());
        let fallback = entry.and_then(|entry| entry.fallback.as_deref());
        // A namespace made meanwhile has it from the host's, whose old default is the best there is.
        let known = own.map(|old| old.algorithm.as_str()).or(fallback);
        let available = available_algorithms()?;
        let usable = |algorithm: &&str| {
            *algorithm != name && available.iter().any(|other| other == algorithm)
        };
        let to = known.filter(usable).unwrap_or(LAST_RESORT).to_owned();
        set_default(namespace, &to, journal, &self.run_dir)?;
        undone.defaults.push((namespace.label(), to));
        Ok(())
    }
}

impl Unloaded {
    fn count_users(&mut self, name: &str) -> Result<(), Error> {
        let reader = Connections::open()?;
        for namespace in knee_netns::all().map_err(proc)? {
            for user in reader.read_in(&namespace)?.iter().filter(|user| user.algorithm == name) {
                match user.is_listener() {
                    true => self.listeners.push((namespace.label(), user.local)),
                    false => self.connections += 1,
                }
            }
        }
        Ok(())
    }
}

fn wait_until_gone(name: &str) -> Result<(), Error> {
    let started = Instant::now();
    while available_algorithms()?.iter().any(|known| known == name) {
        if started.elapsed() > VANISHES_WITHIN {
            return Err(Error::StillRegistered { name: name.to_owned() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

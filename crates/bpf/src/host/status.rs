//! What is loaded and who uses it, by the kernel's own account; the journal adds why.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use knee_algo::Algorithm;
use knee_netns::FoundNamespace;
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};

use super::congctl::{Route, routes_with_algorithms};
use super::defaults::default_of;
use super::load::proc;
use super::{Entry, Host, Note, check_rights};
use crate::load::{FALLBACK_MAP, FALLBACKS_MAP, PARAMS_MAP, STOPPED_MAP, with_log};
use crate::{Connection, Connections, Error, Registered, Source, policy, registered};

/// What keeps an algorithm registered.
#[derive(Clone, Debug)]
pub enum Origin {
    /// `knee load`.
    Loaded(Entry),
    /// `knee load --confirm-within`, not confirmed yet.
    Trial(Note),
    /// A link is pinned, but the journal does not know it.
    Pinned,
    /// Some process of knee's, for as long as it runs.
    Process,
}

/// A registered algorithm of knee's.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The name that sockets choose it by.
    pub name: String,
    /// The algorithm file it comes from.
    pub algorithm: String,
    /// The file that it was compiled from, if it is none of knee's own.
    pub source: Option<Source>,
    /// What keeps it registered.
    pub origin: Origin,
    /// Its parameters, as the kernel has them; without names if this knee does not know it.
    pub params: Vec<(String, u32)>,
    /// Whom connections without ECN are handed to in place of the algorithm's own choice.
    pub fallback: Option<String>,
    /// The cgroup that it was given to was removed.
    pub cgroup_is_gone: bool,
    /// Connections that were handed to the fallback, since it was loaded or updated; `None`: it hands
    /// over none.
    pub fallbacks: Option<u64>,
    /// Of a Linux module's source: indices beyond their arrays and loops without end that were stopped; `None`: it has neither.
    pub stopped: Option<(u64, u64)>,
    /// Connections that the program which gives it to a cgroup, or for a trial to its namespace, left at
    /// their default, because they have no ECN; `None`: there is no such program.
    pub without_ecn: Option<u64>,
    /// Namespaces that have it as default.
    pub defaults: Vec<String>,
    /// Routes that name it: namespace and destination.
    pub routes: Vec<(String, String)>,
    /// Sockets that listen under it.
    pub listeners: usize,
    /// Listeners of its name whose program an update has replaced; their connections inherit that.
    pub old_listeners: usize,
    /// Connections under it.
    pub connections: usize,
    /// Connections of its name whose program an update has replaced.
    pub old_connections: usize,
    /// It needs ECN, and is the default of namespaces with these listeners, which refuse ECN to those
    /// that ask with ECT on the SYN: they were opened before, or chose another one.
    pub refusing: Vec<(String, SocketAddr)>,
}

/// What [`Host::status`] found.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What is registered, by name.
    pub registered: Vec<InUse>,
    /// Sockets (connections and listeners), by name, whose algorithm is knee's and not registered any more.
    pub lingering: BTreeMap<String, usize>,
    /// What the journal does not have as done: a command was killed.
    pub interrupted: Vec<Entry>,
    /// What the journal has as loaded and the kernel has not: its pin is gone.
    pub vanished: Vec<Entry>,
    /// Namespaces that could not be looked at, and why: their sockets, routes and defaults are missing.
    pub unknown: Vec<(String, String)>,
}

impl Host {
    /// What knee has loaded into this kernel, and who uses it, in all namespaces.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::Read`], [`Error::Load`]: it takes root.
    pub fn status(&self) -> Result<Status, Error> {
        check_rights("looking into the kernel")?;
        if let Err(error @ Error::Untrusted { .. }) = self.pins() {
            return Err(error);
        }
        let registered = registered()?;
        let entries = self.entries()?;
        let trials = self.trials();
        let pinned = self.pinned_names();
        let namespaces = knee_netns::all().map_err(proc)?;
        let reader = Connections::open()?;
        let mut status = Status::default();
        let mut seen = Vec::new();
        for namespace in &namespaces {
            match Seen::of(namespace, &reader) {
                Ok(one) => seen.push(one),
                Err(error) => status.unknown.push((namespace.label(), error.to_string())),
            }
        }
        for one in &registered {
            let entry = entries.iter().find(|entry| entry.name == one.name);
            let trial = trials.iter().find(|trial| trial.entry.name == one.name);
            let origin = match (entry, trial) {
                (_, Some(trial)) => Origin::Trial(trial.clone()),
                (Some(entry), None) => Origin::Loaded(entry.clone()),
                (None, None) if pinned.contains(&one.name) => Origin::Pinned,
                (None, None) => Origin::Process,
            };
            let mut found = in_use(one, origin, &seen)?;
            if let Some(policy) = self.policy_of(&one.name) {
                found.cgroup_is_gone = policy.cgroup.is_none();
                found.without_ecn = Some(without_ecn(&policy.rules));
            } else if let Origin::Trial(Note { policy_program: Some(program), .. }) = &found.origin
            {
                // It may end at this moment.
                found.without_ecn = policy::rules_of(*program).ok().map(|all| without_ecn(&all));
            }
            status.registered.push(found);
        }
        let known: BTreeSet<&str> = registered.iter().map(|one| one.name.as_str()).collect();
        let ours = |connection: &&Connection| connection.map_id.is_some();
        for connection in seen.iter().flat_map(|one| &one.connections).filter(ours) {
            if !known.contains(connection.algorithm.as_str()) {
                *status.lingering.entry(connection.algorithm.clone()).or_default() += 1;
            }
        }
        let (complete, interrupted): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| entry.complete);
        status.interrupted = interrupted;
        status.vanished =
            complete.into_iter().filter(|entry| !known.contains(entry.name.as_str())).collect();
        Ok(status)
    }

    /// The program that gives it to its cgroup.
    pub(super) fn policy_of(&self, name: &str) -> Option<policy::Attached> {
        let path = self.cgroup_link_path(name).ok()?;
        let (link, _) = with_log(|| Link::open(path));
        policy::read(&link.ok()?).ok()
    }
}

fn without_ecn(rules: &[(policy::Rule, policy::Hits)]) -> u64 {
    rules.iter().map(|(_, hits)| hits.without_ecn).sum()
}

/// What of a namespace matters to algorithms.
struct Seen {
    label: String,
    default: String,
    routes: Vec<(String, Route)>,
    connections: Vec<Connection>,
}

impl Seen {
    fn of(namespace: &FoundNamespace, reader: &Connections) -> Result<Seen, Error> {
        Ok(Seen {
            label: namespace.label(),
            default: default_of(namespace)?,
            routes: routes_with_algorithms(namespace)?,
            connections: reader.read_in(namespace)?,
        })
    }
}

fn in_use(one: &Registered, origin: Origin, seen: &[Seen]) -> Result<InUse, Error> {
    let algorithm = match &origin {
        Origin::Loaded(entry) | Origin::Trial(Note { entry, .. }) => entry.algorithm.clone(),
        Origin::Pinned | Origin::Process => one.algorithm.clone(),
    };
    let entry = match &origin {
        Origin::Loaded(entry) | Origin::Trial(Note { entry, .. }) => Some(entry),
        Origin::Pinned | Origin::Process => None,
    };
    let source = match entry.and_then(|entry| entry.source.clone()) {
        Some(source) => Some(source),
        None => one.source()?,
    };
    let native = Algorithm::by_name(&algorithm).ok().filter(|_| source.is_none());
    let names: Vec<String> = match (native, entry) {
        (Some(native), _) => native.params().iter().map(|param| param.name.to_owned()).collect(),
        (None, Some(entry)) => entry.params.iter().map(|(name, _)| name.clone()).collect(),
        (None, None) => Vec::new(),
    };
    let mut found = InUse {
        name: one.name.clone(),
        // Those of a Linux module lie where only its object says.
        params: params(one, &names, entry.map_or(&[], |entry| &entry.params))?,
        source,
        without_ecn: None,
        cgroup_is_gone: false,
        fallback: one.map(FALLBACK_MAP)?.map(|map| text(&map)).transpose()?.flatten(),
        fallbacks: one.map(FALLBACKS_MAP)?.map(|map| number(&map, 0)).transpose()?,
        stopped: match one.map(STOPPED_MAP)? {
            Some(map) => Some((number(&map, 0)?, number(&map, 1)?)),
            None => None,
        },
        algorithm,
        origin,
        defaults: Vec::new(),
        routes: Vec::new(),
        listeners: 0,
        old_listeners: 0,
        connections: 0,
        old_connections: 0,
        refusing: Vec::new(),
    };
    let needs_ecn = native.map_or(one.needs_ecn, Algorithm::needs_ecn);
    for namespace in seen {
        let is_default = namespace.default == one.name;
        if is_default {
            found.defaults.push(namespace.label.clone());
        }
        for (_, route) in namespace.routes.iter().filter(|(name, _)| *name == one.name) {
            found.routes.push((namespace.label.clone(), route.to.clone()));
        }
        for connection in &namespace.connections {
            if connection.algorithm != one.name {
                if is_default && needs_ecn && connection.is_listener() && !connection.needs_ecn {
                    found.refusing.push((namespace.label.clone(), connection.local));
                }
                continue;
            }
            let is_old = connection.map_id != Some(one.map_id);
            let count = match (connection.is_listener(), is_old) {
                (true, false) => &mut found.listeners,
                (true, true) => &mut found.old_listeners,
                (false, false) => &mut found.connections,
                (false, true) => &mut found.old_connections,
            };
            *count += 1;
        }
    }
    Ok(found)
}

/// The parameters that its programs read.
fn params(
    one: &Registered,
    names: &[String],
    written: &[(String, u32)],
) -> Result<Vec<(String, u32)>, Error> {
    let Some(map) = one.map(PARAMS_MAP)? else { return Ok(written.to_vec()) };
    let value = first_value(&map)?;
    let values = value
        .chunks_exact(4)
        .map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("chunks of four have four")));
    let name = |index: usize| match names.get(index) {
        Some(name) => name.clone(),
        None => format!("parameter {}", index + 1),
    };
    Ok(values.enumerate().map(|(index, value)| (name(index), value)).collect())
}

/// One of the numbers of 64 bits in it.
fn number(map: &MapHandle, index: usize) -> Result<u64, Error> {
    let value = first_value(map)?;
    let bytes = value.chunks_exact(8).nth(index).and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map_or(0, u64::from_ne_bytes))
}

/// A name that ends with zeros; `None`: it is empty.
fn text(map: &MapHandle) -> Result<Option<String>, Error> {
    let value = first_value(map)?;
    let name = String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default());
    Ok(Some(name.into_owned()).filter(|name| !name.is_empty()))
}

/// A section's map has one value.
fn first_value(map: &MapHandle) -> Result<Vec<u8>, Error> {
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::empty());
    let inspect = |source| Error::Inspect { what: "a section of a loaded algorithm", source };
    Ok(value.map_err(inspect)?.unwrap_or_default())
}

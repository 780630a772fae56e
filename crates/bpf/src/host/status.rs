//! The status: the kernel reports what is loaded and who uses it; the journal adds why.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use knee_algo::Algorithm;
use knee_netns::FoundNamespace;
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};

use super::before::{Before, Owned};
use super::congctl::{Route, routes_with_algorithms};
use super::defaults::default_of;
use super::journal::Journal;
use super::load::proc;
use super::{Entry, Host, Note, check_rights, policies};
use crate::load::{FALLBACK_MAP, FALLBACKS_MAP, PARAMS_MAP, STOPPED_MAP, with_log};
use crate::registry::{InKernel, in_kernel};
use crate::{Connection, Connections, Error, Registered, Source, policy};

/// The reason why an algorithm stays registered.
#[derive(Clone, Debug)]
pub enum Origin {
    /// `knee load` loaded it.
    Loaded(Entry),
    /// `knee load --confirm-within` loaded it, and nobody has confirmed it yet.
    Trial(Note),
    /// A link is pinned, but the journal does not have it.
    Pinned,
    /// `knee load` loaded it with another journal, or its pin is in another mount namespace.
    Elsewhere,
    /// A process of knee's keeps it registered while it runs.
    Process,
}

/// One of knee's algorithms that is registered.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The name by which sockets choose it.
    pub name: String,
    /// The algorithm file that it comes from.
    pub algorithm: String,
    /// The user's file that it was compiled from; `None` for one of knee's own.
    pub source: Option<Source>,
    /// The reason why it stays registered.
    pub origin: Origin,
    /// The parameters, as the kernel has them; without names if this knee does not know the
    /// algorithm.
    pub params: Vec<(String, u32)>,
    /// The algorithm that gets connections without ECN, in place of the algorithm's own choice.
    pub fallback: Option<String>,
    /// Whether the cgroup that was given the algorithm has been removed.
    pub cgroup_is_gone: bool,
    /// Connections handed to the fallback since the load or update; `None` if the algorithm hands
    /// over none.
    pub fallbacks: Option<u64>,
    /// For a Linux module's source: stopped accesses beyond an array, and stopped endless loops;
    /// `None` if the source has neither arrays nor loops.
    pub stopped: Option<(u64, u64)>,
    /// Connections without ECN that kept their default. The program that gives the algorithm to a
    /// cgroup, or during a trial to its namespace, counts them; `None` without such a program.
    pub without_ecn: Option<u64>,
    /// The namespaces that have it as default.
    pub defaults: Vec<String>,
    /// The routes that name it: namespace and destination.
    pub routes: Vec<(String, String)>,
    /// The number of listeners that have it.
    pub listeners: usize,
    /// The number of listeners of its name whose program an update has replaced. Their connections
    /// inherit the old program.
    pub old_listeners: usize,
    /// The number of connections that have it.
    pub connections: usize,
    /// The number of connections of its name whose program an update has replaced.
    pub old_connections: usize,
    /// Listeners that refuse ECN to peers that ask with ECT on the SYN, though the default of their
    /// namespace is this algorithm, which needs ECN. They were opened earlier, or chose another
    /// algorithm.
    pub refusing: Vec<(String, SocketAddr)>,
}

/// The result of [`Host::status`].
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The registered algorithms, by name.
    pub registered: Vec<InUse>,
    /// The algorithms of knee's that are no longer registered and that something still has, by name.
    pub held: Vec<Held>,
    /// The rules of cgroups.
    pub policies: Vec<policies::Attached>,
    /// The reason why the journal could not be used; `None` if it could. What the journal adds is
    /// then missing.
    pub journal: Option<String>,
    /// The journal's incomplete entries: a command was killed.
    pub interrupted: Vec<Entry>,
    /// Algorithms that the journal has as loaded but the kernel does not have: their pins are gone.
    pub vanished: Vec<Entry>,
    /// Namespaces that could not be read, and why. Their sockets, routes and defaults are missing
    /// from the status.
    pub unknown: Vec<(String, String)>,
}

/// An algorithm of knee's that is no longer registered, and what still has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The name under which it was registered.
    pub name: String,
    /// Whether it was loaded by `knee load` with this journal's directory.
    pub is_own: bool,
    /// The namespaces that have it as default: new connections get it.
    pub defaults: Vec<String>,
    /// The number of listeners, whose connections inherit it.
    pub listeners: usize,
    /// The number of connections.
    pub connections: usize,
    /// The kernel's further references: sockets without a connection, or defaults of namespaces
    /// that cannot be found. `None` if the kernel does not report the number.
    pub elsewhere: Option<usize>,
}

impl Held {
    /// Whether new connections get it, so that an unload has something to undo.
    pub fn is_given(&self) -> bool {
        !self.defaults.is_empty() || self.listeners > 0
    }
}

impl Status {
    /// Whether everything is as the commands before have left it. Otherwise something was
    /// interrupted, removed by something else, or could not be read.
    pub fn is_as_left(&self) -> bool {
        self.interrupted.is_empty()
            && self.vanished.is_empty()
            && self.journal.is_none()
            && self.unknown.is_empty()
            && self.policies.iter().all(|policy| policy.cgroup.is_some())
            && !self.registered.iter().any(|one| one.cgroup_is_gone)
            && !self.registered.iter().any(|one| matches!(one.origin, Origin::Pinned))
            && !self.held.iter().any(|one| one.is_own && one.is_given())
    }
}

impl Host {
    /// Reports what knee has loaded into this kernel, and who uses it, in all namespaces.
    ///
    /// # Errors
    /// [`Error::Inspect`], [`Error::Read`], [`Error::Load`]: it takes root.
    pub fn status(&self) -> Result<Status, Error> {
        check_rights("looking into the kernel")?;
        if let Err(error @ Error::Untrusted { .. }) = self.pins() {
            return Err(error);
        }
        let (registered, gone): (Vec<InKernel>, Vec<InKernel>) =
            in_kernel()?.into_iter().partition(|one| one.is_registered);
        let registered: Vec<Registered> = registered.into_iter().map(|one| one.algorithm).collect();
        let Journal { entries, unread, .. } = Journal::read(&self.run_dir)?;
        let trials = self.trials();
        let pinned = self.pinned_names();
        let namespaces = knee_netns::all().map_err(proc)?;
        let reader = Connections::open()?;
        let mut status = Status { journal: unread, ..Status::default() };
        let mut seen = Vec::new();
        for namespace in &namespaces {
            match Seen::of(namespace, &reader) {
                Ok(one) => seen.push(one),
                Err(error) => status.unknown.push((namespace.label(), error.to_string())),
            }
        }
        let own: BTreeSet<u32> =
            Owned::all(&self.run_dir)?.into_iter().map(|one| one.kernel.algorithm.map_id).collect();
        for one in &registered {
            let entry = entries.iter().find(|entry| entry.name == one.name);
            let trial = trials.iter().find(|trial| trial.entry.name == one.name);
            let origin = match (entry, trial) {
                (_, Some(trial)) => Origin::Trial(trial.clone()),
                (Some(entry), None) => Origin::Loaded(entry.clone()),
                (None, None) if pinned.contains(&one.name) => Origin::Pinned,
                (None, None) if Before::of(one)?.is_some() => Origin::Elsewhere,
                (None, None) => Origin::Process,
            };
            let mut found = in_use(one, origin, &seen)?;
            if let Some(policy) = self.policy_of(&one.name) {
                found.cgroup_is_gone = policy.cgroup.is_none();
                found.without_ecn = Some(without_ecn(&policy.rules));
            } else if let Origin::Trial(Note { policy_program: Some(program), .. }) = &found.origin
            {
                // The program may end at this moment.
                found.without_ecn = policies::rules_of(*program).ok().map(|all| without_ecn(&all));
            }
            status.registered.push(found);
        }
        let known: BTreeSet<&str> = registered.iter().map(|one| one.name.as_str()).collect();
        status.held = held(gone, &known, &own, &seen);
        status.policies = match policies::show(self) {
            Err(Error::NoBpffs | Error::NotBpffs { .. }) => Vec::new(),
            shown => shown?,
        };
        let (complete, interrupted): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| entry.complete);
        status.interrupted = interrupted;
        status.vanished =
            complete.into_iter().filter(|entry| !known.contains(entry.name.as_str())).collect();
        Ok(status)
    }

    /// The policy whose program gives the algorithm to its cgroup.
    pub(super) fn policy_of(&self, name: &str) -> Option<policies::Attached> {
        let path = self.cgroup_link_path(name).ok()?;
        let (link, _) = with_log(|| Link::open(path));
        policies::read(&link.ok()?).ok()
    }
}

fn without_ecn(rules: &[(policy::Rule, policy::Hits)]) -> u64 {
    rules.iter().map(|(_, hits)| hits.without_ecn).sum()
}

/// What still has algorithms that are no longer registered: `gone` in the kernel, as `seen` in the
/// namespaces. A name that was registered again is not among them, as its sockets are counted with
/// the new program.
fn held(
    gone: Vec<InKernel>,
    known: &BTreeSet<&str>,
    own: &BTreeSet<u32>,
    seen: &[Seen],
) -> Vec<Held> {
    let mut all: BTreeMap<String, Held> = BTreeMap::new();
    let mut references: BTreeMap<String, Option<usize>> = BTreeMap::new();
    for one in gone {
        let (name, map_id) = (one.algorithm.name, one.algorithm.map_id);
        if known.contains(name.as_str()) || one.references == Some(0) {
            continue;
        }
        let held = all.entry(name.clone()).or_default();
        held.is_own |= own.contains(&map_id);
        let sum = references.entry(name).or_insert(Some(0));
        *sum = sum.zip(one.references).map(|(sum, more)| sum + more as usize);
    }
    let ours = |one: &&Connection| one.map_id.is_some() && !known.contains(one.algorithm.as_str());
    for one in seen.iter().flat_map(|one| &one.connections).filter(ours) {
        let held = all.entry(one.algorithm.clone()).or_default();
        match one.is_listener() {
            true => held.listeners += 1,
            false => held.connections += 1,
        }
    }
    for (name, held) in &mut all {
        held.name.clone_from(name);
        let of_it = seen.iter().filter(|one| one.default == *name);
        held.defaults = of_it.map(|one| one.label.clone()).collect();
        let found = held.defaults.len() + held.listeners + held.connections;
        let references = references.get(name).copied().flatten();
        held.elsewhere = references.map(|all| all.saturating_sub(found));
    }
    all.into_values().collect()
}

/// The state of a namespace that concerns algorithms.
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
        Origin::Pinned | Origin::Elsewhere | Origin::Process => one.algorithm.clone(),
    };
    let entry = match &origin {
        Origin::Loaded(entry) | Origin::Trial(Note { entry, .. }) => Some(entry),
        Origin::Pinned | Origin::Elsewhere | Origin::Process => None,
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
        // Only the object tells where a Linux module keeps its parameters.
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

/// Reads the parameters that the algorithm's programs use.
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

/// Reads the 64-bit number at `index` of the map's value.
fn number(map: &MapHandle, index: usize) -> Result<u64, Error> {
    let value = first_value(map)?;
    let bytes = value.chunks_exact(8).nth(index).and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map_or(0, u64::from_ne_bytes))
}

/// Reads a name that is padded with zeros; `None` if it is empty.
fn text(map: &MapHandle) -> Result<Option<String>, Error> {
    let value = first_value(map)?;
    let name = String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default());
    Ok(Some(name.into_owned()).filter(|name| !name.is_empty()))
}

/// Reads the map's value: the map of a section has exactly one.
fn first_value(map: &MapHandle) -> Result<Vec<u8>, Error> {
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::empty());
    let inspect = |source| Error::Inspect { what: "a section of a loaded algorithm", source };
    Ok(value.map_err(inspect)?.unwrap_or_default())
}

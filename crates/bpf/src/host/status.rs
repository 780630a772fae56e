//! The status: the kernel reports what is loaded and who uses it; the journal adds why.

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

/// The reason why an algorithm stays registered.
#[derive(Clone, Debug)]
pub enum Origin {
    /// `knee load` loaded it.
    Loaded(Entry),
    /// `knee load --confirm-within` loaded it, and nobody has confirmed it yet.
    Trial(Note),
    /// A link is pinned, but the journal does not have it.
    Pinned,
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
    /// The number of sockets (connections and listeners) whose algorithm is knee's and no longer
    /// registered, by name.
    pub lingering: BTreeMap<String, usize>,
    /// The journal's incomplete entries: a command was killed.
    pub interrupted: Vec<Entry>,
    /// Algorithms that the journal has as loaded but the kernel does not have: their pins are gone.
    pub vanished: Vec<Entry>,
    /// Namespaces that could not be read, and why. Their sockets, routes and defaults are missing
    /// from the status.
    pub unknown: Vec<(String, String)>,
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
                // The program may end at this moment.
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

    /// The policy whose program gives the algorithm to its cgroup.
    pub(super) fn policy_of(&self, name: &str) -> Option<policy::Attached> {
        let path = self.cgroup_link_path(name).ok()?;
        let (link, _) = with_log(|| Link::open(path));
        policy::read(&link.ok()?).ok()
    }
}

fn without_ecn(rules: &[(policy::Rule, policy::Hits)]) -> u64 {
    rules.iter().map(|(_, hits)| hits.without_ecn).sum()
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

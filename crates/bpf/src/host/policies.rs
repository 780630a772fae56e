//! The policy of this host: pinned links, one per cgroup, that outlive the process.
//!
//! All state is in the kernel. A link's pin is named by the number of its cgroup; [`show`] reads
//! the rules back from the maps of its program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore as _, MapHandle, Object, Program};

use super::{Host, available_algorithms, check_cgroup, check_rights, mount_point};
use crate::Error;
use crate::load::with_log;
use crate::policy::{
    CGROUP_MAP, Ecn, File, FileRule, Hits, Rule, Scope, attach, kept_path, load, needs_ecn,
    read_hits, read_rules,
};

/// The directory of the pins, below knee's. Its name is longer than an algorithm's name can be.
const PINS: &str = "policies_of_cgroups";

/// The options of [`apply`] beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The cgroup directory whose sockets get the policy; `None` for all sockets, by the root of
    /// cgroup2.
    pub cgroup: Option<PathBuf>,
    /// Allows algorithms that need ECN towards the Internet.
    pub i_know: bool,
    /// Checks everything and loads the program, but attaches it to nothing.
    pub dry_run: bool,
}

/// The rules of one cgroup.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The cgroup's directory; `None` if it was removed. The rules then act on nothing, also if a
    /// cgroup of the same path was made again.
    pub cgroup: Option<PathBuf>,
    /// The directory when the rules were applied; `None` if the kernel has no record of it.
    pub applied_to: Option<PathBuf>,
    /// The rules with their counts, in the order of the file.
    pub rules: Vec<(Rule, Hits)>,
}

/// The effect of [`apply`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The cgroups that got rules, with the number of rules.
    pub cgroups: Vec<(PathBuf, usize)>,
    /// The cgroups that lost theirs, because the file has none for them, with the number of rules.
    /// `None` stands for a cgroup that was removed.
    pub removed: Vec<(Option<PathBuf>, usize)>,
}

/// Replaces the present rules by those of the file. All checks come before the first change, and a
/// failed change is undone in all cgroups. A new connection meets either the old or the new rules
/// of its cgroup, never none and never a mixture. The cgroups of the file change one after another.
/// Cgroups that the file does not name lose their rules.
///
/// # Errors
/// [`Error::Policy`] for a file that is wrong or that this host cannot apply, [`Error::NoBpffs`],
/// [`Error::Locked`], and the errors of loading and pinning.
pub fn apply(host: &Host, file: &File, options: &Options) -> Result<Applied, Error> {
    check_rights("applying a policy")?;
    let root = match &options.cgroup {
        // It is shown later, wherever that is asked.
        Some(path) => path.canonicalize().unwrap_or_else(|_| path.clone()),
        None => mount_point("cgroup2").ok_or_else(no_cgroup2)?,
    };
    let lock = if options.dry_run { None } else { Some(host.lock()?) };
    check_algorithms(file)?;
    if !options.i_know {
        check_internet(file)?;
    }
    let mut groups: BTreeMap<PathBuf, Vec<Rule>> = BTreeMap::new();
    for entry in &file.entries {
        let directory = entry.cgroup.as_ref().map_or(root.clone(), |below| root.join(below));
        check_cgroup(&directory).map_err(|why| match entry.cgroup {
            Some(_) => file.error(entry, &why.to_string()),
            None => why,
        })?;
        groups.entry(directory).or_default().push(entry.rule.clone());
    }
    let mut applied = Applied {
        cgroups: groups.iter().map(|(path, rules)| (path.clone(), rules.len())).collect(),
        removed: Vec::new(),
    };
    let ids: Vec<u64> = groups.keys().map(|path| cgroup_id(path)).collect::<Result<_, _>>()?;
    for (id, other) in attached(host)? {
        if id.is_none_or(|id| !ids.contains(&id)) {
            let named = other.cgroup.or(other.applied_to);
            applied.removed.push((named, other.rules.len()));
        }
    }
    let mut loaded = Vec::new();
    for (directory, rules) in groups {
        let object = load(&rules, Scope::default(), &directory)?;
        loaded.push((directory, object));
    }
    if let Some(lock) = &lock {
        let pins = host.need_pins(lock)?.join(PINS);
        host.make_pin_dir(&pins)?;
        replace(&pins, &loaded)?;
    }
    Ok(applied)
}

/// Reads the applied rules.
///
/// # Errors
/// [`Error::File`], [`Error::BadObject`] and [`Error::Inspect`].
pub fn show(host: &Host) -> Result<Vec<Attached>, Error> {
    check_rights("looking at a policy")?;
    Ok(attached(host)?.into_iter().map(|(_, one)| one).collect())
}

/// The applied rules, each with the number of its cgroup if that is still there.
fn attached(host: &Host) -> Result<Vec<(Option<u64>, Attached)>, Error> {
    let Some(pins) = pins_of(host)? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for pin in pins_in(&pins.join(PINS))? {
        // The link may be gone by now.
        let Some(link) = open(&pin) else { continue };
        all.push((attached_to(&link), read(&link)?));
    }
    all.sort_by(|(_, a), (_, b)| (&a.cgroup, &a.applied_to).cmp(&(&b.cgroup, &b.applied_to)));
    Ok(all)
}

/// Removes every rule and returns the number of cgroups that had any. Connections keep what they
/// have.
///
/// # Errors
/// [`Error::File`] and [`Error::Locked`].
pub fn clear(host: &Host) -> Result<usize, Error> {
    check_rights("clearing a policy")?;
    let Some(knees) = pins_of(host)? else { return Ok(0) };
    let directory = knees.join(PINS);
    let _lock = host.lock()?;
    if !directory.exists() {
        return Ok(0);
    }
    let pins = pins_in(&directory)?;
    for pin in &pins {
        detach(pin)?;
    }
    fs::remove_dir(&directory).map_err(|source| Error::File { path: directory, source })?;
    // Knee's other pins, if any, keep this directory.
    let _ = fs::remove_dir(knees);
    Ok(pins.len())
}

/// The directory of knee's pins; `None` if no BPF file system is mounted.
fn pins_of(host: &Host) -> Result<Option<PathBuf>, Error> {
    match host.pins() {
        Ok(pins) => Ok(Some(pins)),
        Err(Error::NoBpffs) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the rules of all cgroups, or of none if one fails.
fn replace(pins: &Path, loaded: &[(PathBuf, Object)]) -> Result<(), Error> {
    let mut changes: Vec<Change> = Vec::new();
    for (directory, object) in loaded {
        match Change::make(pins, directory, object) {
            Ok(change) => changes.push(change),
            Err(why) => {
                changes.iter().rev().for_each(Change::undo);
                // It succeeds only if nothing was applied before.
                let _ = fs::remove_dir(pins);
                return Err(why);
            }
        }
    }
    for pin in pins_in(pins)? {
        if !changes.iter().any(|change| change.pin == pin) {
            detach(&pin)?;
        }
    }
    Ok(())
}

/// A change that was made to a cgroup.
struct Change {
    pin: PathBuf,
    link: Link,
    /// The program that was there; `None` if the link is new.
    old_program: Option<OwnedFd>,
}

impl Change {
    fn make(pins: &Path, directory: &Path, object: &Object) -> Result<Change, Error> {
        let inspect = |source| Error::Inspect { what: "the link of the policy", source };
        let pin = pins.join(cgroup_id(directory)?.to_string());
        if let Some(mut link) = open(&pin).filter(is_attached) {
            let old_program = Program::fd_from_id(link.info().map_err(inspect)?.prog_id);
            let old_program = Some(old_program.map_err(inspect)?);
            let program = object.progs_mut().next().expect("the object has the one it loaded");
            link.update_prog(&program).map_err(inspect)?;
            return Ok(Change { pin, link, old_program });
        }
        let mut link = attach(object, directory)?;
        // This is the pin of a removed cgroup whose number was reused.
        let _ = fs::remove_file(&pin);
        link.pin(&pin).map_err(|source| Error::Pin { path: pin.clone(), source })?;
        Ok(Change { pin, link, old_program: None })
    }

    /// Undoes the change as far as possible: a cgroup that was removed meanwhile has nothing to
    /// restore.
    fn undo(&self) {
        let Some(old_program) = &self.old_program else {
            let _ = detach(&self.pin);
            return;
        };
        let (link, program) = (self.link.as_fd().as_raw_fd(), old_program.as_raw_fd());
        // SAFETY: both descriptors are open, and no options are given.
        unsafe { libbpf_sys::bpf_link_update(link, program, std::ptr::null()) };
    }
}

/// Detaches the link before its pin is removed. If only the pin went, the kernel would detach some
/// time later.
fn detach(pin: &Path) -> Result<(), Error> {
    if let Some(link) = open(pin) {
        // A link whose cgroup was removed has nothing to detach from.
        let _ = link.detach();
    }
    fs::remove_file(pin).map_err(|source| Error::File { path: pin.to_owned(), source })
}

fn pins_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::File { path: directory.to_owned(), source }),
    }
}

/// Opens the link of a pin; `None` if it is gone or is no link.
fn open(pin: &Path) -> Option<Link> {
    with_log(|| Link::open(pin)).0.ok()
}

/// Whether the link is attached: the kernel detaches it when its cgroup is removed.
fn is_attached(link: &Link) -> bool {
    attached_to(link).is_some()
}

fn attached_to(link: &Link) -> Option<u64> {
    match link.info().ok()?.info {
        LinkTypeInfo::Cgroup(about) => Some(about.cgroup_id).filter(|id| *id != 0),
        _ => None,
    }
}

pub(crate) fn read(link: &Link) -> Result<Attached, Error> {
    let program = link.info();
    let program = program.map_err(|source| Error::Inspect { what: "the policy", source })?.prog_id;
    let cgroup = attached_to(link).and_then(cgroup_of);
    let maps = maps_of(program)?;
    let applied_to = maps.iter().find(|map| map.name() == CGROUP_MAP).and_then(kept_path);
    Ok(Attached { cgroup, applied_to, rules: rules_in(&maps)? })
}

/// The rules of a program, with their counts.
pub(crate) fn rules_of(program: u32) -> Result<Vec<(Rule, Hits)>, Error> {
    rules_in(&maps_of(program)?)
}

fn maps_of(program: u32) -> Result<Vec<MapHandle>, Error> {
    let inspect = |source| Error::Inspect { what: "the policy", source };
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == program);
    let mut maps: Vec<MapHandle> = Vec::new();
    for id in info.map_or_else(Vec::new, |info| info.map_ids) {
        maps.push(MapHandle::from_map_id(id).map_err(inspect)?);
    }
    Ok(maps)
}

fn rules_in(maps: &[MapHandle]) -> Result<Vec<(Rule, Hits)>, Error> {
    let named = |name: &str| maps.iter().find(|map| map.name() == name);
    let (Some(rules), Some(peers), Some(listeners), Some(hits)) =
        (named("rules"), named("peers"), named("listeners"), named("rule_hits"))
    else {
        return Err(Error::BadObject { what: "a pinned policy is not one of this knee".into() });
    };
    let rules = read_rules(rules, peers, listeners)?;
    Ok(rules.into_iter().zip(read_hits(hits)?).collect())
}

/// Checks the file's algorithms against those that the kernel has.
fn check_algorithms(file: &File) -> Result<(), Error> {
    let names = available_algorithms()?;
    let unknown =
        |entry: &&FileRule| entry.rule.algorithm.as_ref().is_some_and(|name| !names.contains(name));
    let Some(entry) = file.entries.iter().find(unknown) else { return Ok(()) };
    let name = entry.rule.algorithm.as_deref().unwrap_or("");
    let message = format!(
        "algorithm = \"{name}\": the kernel has {}; load it first (knee load)",
        names.join(", ")
    );
    Err(file.error(entry, &message))
}

/// Checks RFC 8257 section 5: DCTCP is for networks under one administration.
fn check_internet(file: &File) -> Result<(), Error> {
    const WHY: &str = "an algorithm that needs ECN is not for the Internet (RFC 8257 section 5)";
    const WAY_OUT: &str = "or give --i-know";
    let rules: Vec<Rule> = file.entries.iter().map(|entry| entry.rule.clone()).collect();
    for (entry, needs_ecn) in file.entries.iter().zip(needs_ecn(&rules)?) {
        let rule = &entry.rule;
        if let Some(wide) = rule.to.iter().find(|prefix| prefix.must_reach_the_internet()) {
            let why = match (needs_ecn, rule.ecn) {
                (true, _) => WHY,
                (false, Ecn::PeersRunKnee) => "not all peers run knee there",
                (false, _) => continue,
            };
            let message = format!(
                "{wide} reaches the Internet, and {why}; name prefixes of at least /8 (IPv6: /7), \
                 {WAY_OUT}"
            );
            return Err(file.error(entry, &message));
        }
        let others = rule.to.iter().find(|prefix| !prefix.is_own(&file.ours));
        if let (Some(others), true) = (others, needs_ecn || rule.ecn == Ecn::PeersRunKnee) {
            let why = if needs_ecn { WHY } else { "not all peers run knee there" };
            let message = format!(
                "{others} is not a private prefix, and {why}; if it is yours, add ours = \
                 [\"{others}\"] at the top of the file, {WAY_OUT}"
            );
            return Err(file.error(entry, &message));
        }
        if needs_ecn && !rule.listen.is_empty() {
            let message = format!(
                "listeners may be reached from anywhere, and {WHY}; name the peers in `to` \
                 instead of `listen`, {WAY_OUT}"
            );
            return Err(file.error(entry, &message));
        }
    }
    Ok(())
}

/// The kernel's number of a cgroup, which is the inode of its directory.
fn cgroup_id(directory: &Path) -> Result<u64, Error> {
    let about = fs::metadata(directory);
    let about = about.map_err(|source| Error::File { path: directory.to_owned(), source })?;
    Ok(about.ino())
}

fn cgroup_of(id: u64) -> Option<PathBuf> {
    let mut todo = vec![mount_point("cgroup2")?];
    while let Some(directory) = todo.pop() {
        if fs::metadata(&directory).is_ok_and(|about| about.ino() == id) {
            return Some(directory);
        }
        let below = fs::read_dir(&directory).into_iter().flatten().flatten();
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        todo.extend(below.filter(is_dir).map(|entry| entry.path()));
    }
    None
}

fn no_cgroup2() -> Error {
    let what = "a policy acts on cgroups, but cgroup2 is not mounted: \
                mount -t cgroup2 none /sys/fs/cgroup";
    Error::Policy { what: what.to_owned() }
}

//! The policy of this host: pinned links, one per cgroup, that outlive the process.
//!
//! All state is in the kernel. A link's pin is named by the number of its cgroup; the rules are read
//! back from the maps of its program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore as _, MapHandle, Object};
use rustix::fs::{FlockOperation, flock};

use super::attach::{Hits, Scope, attach, load, needs_ecn, read_hits, read_rules};
use super::file::{Entry, File};
use super::rule::{Ecn, Rule};
use crate::Error;

/// Below the bpf file system.
const PINS: &str = "knee/policy";
/// Who changes what knee has on this host holds it.
const LOCK_DIR: &str = "/run/knee";
const LOCK: &str = "lock";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// What [`apply`] is asked for beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The cgroup directory whose sockets the policy is for; None: all, by the root of cgroup2.
    pub cgroup: Option<PathBuf>,
    /// Allows algorithms that need ECN towards the Internet.
    pub i_know: bool,
    /// Checks everything and loads the program, but attaches it to nothing.
    pub dry_run: bool,
}

/// The rules of one cgroup.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Its directory; None: it was removed.
    pub cgroup: Option<PathBuf>,
    /// Rules with what they did, in the order of the file.
    pub rules: Vec<(Rule, Hits)>,
}

/// Puts the file's rules in the place of those that are there. Every check comes before the first
/// change. New connections see the old or the new rules of their cgroup, never none and never a
/// mixture. Returns the cgroups and how many rules each got.
///
/// # Errors
/// [`Error::Policy`] for a file that is wrong or that this host cannot carry out, [`Error::Host`] for
/// a host that lacks something, and those of loading.
pub fn apply(file: &File, options: &Options) -> Result<Vec<(PathBuf, usize)>, Error> {
    let root = match &options.cgroup {
        Some(path) => path.clone(),
        None => cgroup2()?,
    };
    let pins = bpffs()?.join(PINS);
    let _lock = if options.dry_run { None } else { Some(lock()?) };
    check_algorithms(file)?;
    if !options.i_know {
        check_internet(file)?;
    }
    let mut groups: BTreeMap<PathBuf, Vec<Rule>> = BTreeMap::new();
    for entry in &file.entries {
        let directory = entry.cgroup.as_ref().map_or(root.clone(), |below| root.join(below));
        check_cgroup(&directory).map_err(|why| match entry.cgroup {
            Some(_) => file.error(entry, &why),
            None => Error::Policy { what: why },
        })?;
        groups.entry(directory).or_default().push(entry.rule.clone());
    }
    let applied = groups.iter().map(|(path, rules)| (path.clone(), rules.len())).collect();
    let mut loaded = Vec::new();
    for (directory, rules) in groups {
        loaded.push((directory, load(&rules, Scope::default())?));
    }
    if !options.dry_run {
        replace(&pins, &loaded)?;
    }
    Ok(applied)
}

/// What is applied.
///
/// # Errors
/// [`Error::Host`] and [`Error::Inspect`].
pub fn show() -> Result<Vec<Attached>, Error> {
    let Ok(bpffs) = bpffs() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for pin in pins_in(&bpffs.join(PINS))? {
        // It may be gone by now.
        let Ok(link) = Link::open(&pin) else { continue };
        all.push(read(&link)?);
    }
    all.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
    Ok(all)
}

/// Takes every rule away and returns from how many cgroups. Connections keep what they have.
///
/// # Errors
/// [`Error::Host`].
pub fn clear() -> Result<usize, Error> {
    let Ok(bpffs) = bpffs() else { return Ok(0) };
    let directory = bpffs.join(PINS);
    if !directory.exists() {
        return Ok(0);
    }
    let _lock = lock()?;
    let pins = pins_in(&directory)?;
    for pin in &pins {
        detach(pin)?;
    }
    remove_empty(&directory)?;
    // What else knee has pinned keeps this one.
    let _ = directory.parent().map(fs::remove_dir);
    Ok(pins.len())
}

/// First what may fail and can be undone by doing nothing more, then the rest.
fn replace(pins: &Path, loaded: &[(PathBuf, Object)]) -> Result<(), Error> {
    let inspect = |source| Error::Inspect { what: "the link of the policy", source };
    let (mut fresh, mut keep) = (Vec::new(), Vec::new());
    for (directory, object) in loaded {
        let pin = pins.join(cgroup_id(directory)?.to_string());
        match Link::open(&pin).ok().filter(is_attached) {
            Some(link) => keep.push((pin, link, object)),
            None => fresh.push((pin, attach(object, directory)?)),
        }
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(pins).map_err(|source| Error::Host {
        what: format!("cannot make {}", pins.display()),
        source,
    })?;
    let mut current = Vec::new();
    for (pin, mut link, object) in keep {
        let program = object.progs_mut().next().expect("the object was attached or will be");
        link.update_prog(&program).map_err(inspect)?;
        current.push(pin);
    }
    for (pin, mut link) in fresh {
        // Of a cgroup that was removed, whose number came back.
        let _ = fs::remove_file(&pin);
        link.pin(&pin).map_err(inspect)?;
        current.push(pin);
    }
    for pin in pins_in(pins)? {
        if !current.contains(&pin) {
            detach(&pin)?;
        }
    }
    Ok(())
}

/// Not only removes the pin, after which the kernel detaches some time later.
fn detach(pin: &Path) -> Result<(), Error> {
    if let Ok(link) = Link::open(pin) {
        // It has nothing to detach from if its cgroup was removed.
        let _ = link.detach();
    }
    fs::remove_file(pin)
        .map_err(|source| Error::Host { what: format!("cannot remove {}", pin.display()), source })
}

fn remove_empty(directory: &Path) -> Result<(), Error> {
    fs::remove_dir(directory).map_err(|source| Error::Host {
        what: format!("cannot remove {}", directory.display()),
        source,
    })
}

fn pins_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => {
            Err(Error::Host { what: format!("cannot read {}", directory.display()), source })
        }
    }
}

/// The kernel detaches a link when its cgroup is removed.
fn is_attached(link: &Link) -> bool {
    attached_to(link).is_some()
}

fn attached_to(link: &Link) -> Option<u64> {
    match link.info().ok()?.info {
        LinkTypeInfo::Cgroup(about) => Some(about.cgroup_id).filter(|id| *id != 0),
        _ => None,
    }
}

fn read(link: &Link) -> Result<Attached, Error> {
    let inspect = |source| Error::Inspect { what: "the policy", source };
    let program = link.info().map_err(inspect)?.prog_id;
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == program);
    let mut maps: Vec<MapHandle> = Vec::new();
    for id in info.map_or_else(Vec::new, |info| info.map_ids) {
        maps.push(MapHandle::from_map_id(id).map_err(inspect)?);
    }
    let named = |name: &str| maps.iter().find(|map| map.name() == name);
    let (Some(rules), Some(peers), Some(listeners), Some(hits)) =
        (named("rules"), named("peers"), named("listeners"), named("rule_hits"))
    else {
        return Err(Error::BadObject { what: "a pinned policy is not one of this knee".into() });
    };
    let rules = read_rules(rules, peers, listeners)?;
    let rules = rules.into_iter().zip(read_hits(hits)?).collect();
    Ok(Attached { cgroup: attached_to(link).and_then(cgroup_of), rules })
}

/// The file's algorithms, as far as the kernel has to know them.
fn check_algorithms(file: &File) -> Result<(), Error> {
    let available = fs::read_to_string(AVAILABLE)
        .map_err(|source| Error::Host { what: format!("cannot read {AVAILABLE}"), source })?;
    let names: Vec<&str> = available.split_whitespace().collect();
    let unknown = |entry: &&Entry| {
        entry.rule.algorithm.as_ref().is_some_and(|name| !names.contains(&name.as_str()))
    };
    let Some(entry) = file.entries.iter().find(unknown) else { return Ok(()) };
    let name = entry.rule.algorithm.as_deref().unwrap_or("");
    let message = format!(
        "algorithm = \"{name}\": the kernel has {}; load it first (knee load)",
        names.join(", ")
    );
    Err(file.error(entry, &message))
}

/// RFC 8257 section 5: DCTCP is for networks under one hand.
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

/// Why a directory is no cgroup to attach to.
fn check_cgroup(directory: &Path) -> Result<(), String> {
    const CGROUP2: i64 = 0x6367_7270;
    let shown = directory.display();
    match rustix::fs::statfs(directory) {
        Err(error) => Err(format!("there is no cgroup {shown}: {}", io::Error::from(error))),
        #[allow(clippy::unnecessary_cast, reason = "the type is the platform's")]
        Ok(about) if about.f_type as i64 != CGROUP2 || !directory.is_dir() => {
            Err(format!("{shown} is no directory of a cgroup2 file system"))
        }
        Ok(_) => Ok(()),
    }
}

/// The kernel's number of a cgroup is the inode of its directory.
fn cgroup_id(directory: &Path) -> Result<u64, Error> {
    let about = fs::metadata(directory).map_err(|source| Error::Host {
        what: format!("cannot open the cgroup {}", directory.display()),
        source,
    })?;
    Ok(about.ino())
}

fn cgroup_of(id: u64) -> Option<PathBuf> {
    let mut todo = vec![cgroup2().ok()?];
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

fn cgroup2() -> Result<PathBuf, Error> {
    mounted("cgroup2").into_iter().next().ok_or_else(|| Error::Policy {
        what: "no cgroup2 file system is mounted; mount -t cgroup2 none /sys/fs/cgroup/unified, \
               or boot with systemd.unified_cgroup_hierarchy=1"
            .to_owned(),
    })
}

fn bpffs() -> Result<PathBuf, Error> {
    let mounts = mounted("bpf");
    let usual = mounts.iter().find(|path| *path == Path::new("/sys/fs/bpf"));
    usual.or(mounts.first()).cloned().ok_or_else(|| Error::Policy {
        what: "no bpf file system is mounted, which has to keep the policy; \
               mount -t bpf bpf /sys/fs/bpf"
            .to_owned(),
    })
}

/// Where file systems of this type are mounted, for this thread.
fn mounted(kind: &str) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let path = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let is_of_kind = after.split(' ').next() == Some(kind);
        // The kernel writes spaces in paths as \040.
        is_of_kind.then(|| Some(before.split(' ').nth(4)?.replace("\\040", " ").into()))?
    };
    text.lines().filter_map(path).collect()
}

/// Waits for its turn.
fn lock() -> Result<fs::File, Error> {
    let failed = |source| Error::Host { what: format!("cannot lock {LOCK_DIR}/{LOCK}"), source };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(LOCK_DIR).map_err(failed)?;
    let path = Path::new(LOCK_DIR).join(LOCK);
    let file = fs::File::options().create(true).append(true).open(path).map_err(failed)?;
    flock(file.as_fd(), FlockOperation::LockExclusive)
        .map_err(|error| failed(io::Error::from(error)))?;
    Ok(file)
}

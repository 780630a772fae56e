//! Encodes rules for the program of `programs/policy.bpf.c`, and attaches the program to a cgroup.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};
use rustix::fs::{Mode, OFlags};

use super::rule::{Ecn, Ports, Prefix, Rule};
use crate::load::{bind, open_object, with_log};
use crate::table::NAME_BYTES;
use crate::{Error, program, registry, shared_maps};

/// Bytes of a rule's name, including the final zero.
pub(super) const RULE_NAME_BYTES: usize = 32;
/// Bits of a peer's key before its address: family and port.
const BITS_BEFORE_ADDRESS: u32 = 32;
/// The largest number of prefixes times ports; they take a few megabytes of kernel memory.
const MOST_ENTRIES: usize = 1 << 16;

/// The map with the path of the policy's cgroup, and its bytes.
pub(crate) const CGROUP_MAP: &str = "knee_cgroup";
const PATH_BYTES: usize = 4096;

const ECN_CONNECT: u32 = 1;
const ECN_ACCEPT: u32 = 2;
const NEEDS_ECN: u32 = 4;
const YIELDS: u32 = 8;

/// The time and place where a policy acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The end of the policy on CLOCK_BOOTTIME, in ns; 0 for no end.
    pub deadline_boot_ns: u64,
    /// The cookie (SO_NETNS_COOKIE) of the only network namespace where it acts; 0 for all.
    pub netns_cookie: u64,
}

/// The number of times that a rule decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Connections opened from here that got the algorithm.
    pub connected: u64,
    /// Accepted connections that got the algorithm.
    pub accepted: u64,
    /// Listeners that got the algorithm.
    pub listened: u64,
    /// Connections left as they were: the algorithm needs ECN and they have none.
    pub without_ecn: u64,
    /// Sockets whose program has chosen an algorithm, which the rule left to that choice.
    pub yielded: u64,
    /// Sockets for which the kernel refused the algorithm: it is not registered, or a route locks
    /// another.
    pub failed: u64,
}

/// Rules for the sockets of one cgroup and the cgroups below it. They act until this value is
/// dropped or its process ends. Connections keep what they were given.
pub struct Policy {
    // Declared first, so dropped first.
    link: Link,
    object: Object,
}

impl Policy {
    /// Loads `rules` and attaches them to `cgroup`, a directory of the cgroup2 file system.
    ///
    /// In nested cgroups the rules of the innermost decide. Of several policies on one cgroup, the
    /// oldest decides. A socket that none of its rules names is left to the next policy.
    ///
    /// # Errors
    /// [`Error::Policy`] for rules that contradict each other or are too many, [`Error::Host`] for
    /// the cgroup, [`Error::Load`], and [`Error::Inspect`] if the kernel refuses to attach.
    pub fn attach(rules: &[Rule], cgroup: &Path, scope: Scope) -> Result<Policy, Error> {
        let object = load(rules, scope, cgroup)?;
        let link = attach(&object, cgroup)?;
        Ok(Policy { link, object })
    }

    /// Keeps the rules attached beyond the end of this process, until the file at `path` is
    /// removed.
    pub(crate) fn pin(mut self, path: &Path) -> libbpf_rs::Result<()> {
        self.link.pin(path)
    }

    /// The kernel's number of the policy's program.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub(crate) fn program_id(&self) -> Result<u32, Error> {
        let info = self.link.info();
        Ok(info
            .map_err(|source| Error::Inspect { what: "the link of the policy", source })?
            .prog_id)
    }

    /// The decisions of each rule, in the order given.
    ///
    /// # Errors
    /// [`Error::Inspect`].
    pub fn hits(&self) -> Result<Vec<Hits>, Error> {
        let map = self.object.maps().find(|map| map.name() == "rule_hits");
        map.map_or_else(|| Ok(Vec::new()), |map| read_hits(&map))
    }
}

/// Attaches the program of a loaded object.
pub(crate) fn attach(object: &Object, cgroup: &Path) -> Result<Link, Error> {
    // With these flags the open fails, and does not block, if the path is no directory.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let cgroup = rustix::fs::open(cgroup, flags, Mode::empty()).map_err(|why| Error::Host {
        what: format!("cannot open the cgroup {}", cgroup.display()),
        source: why.into(),
    })?;
    let program = object.progs_mut().next().ok_or_else(not_ours)?;
    let (link, _) = with_log(|| program.attach_cgroup(cgroup.as_raw_fd()));
    link.map_err(|source| Error::Inspect { what: "the cgroup to attach the policy to", source })
}

/// Loads rules into the kernel, attached to nothing. The program keeps the path of the cgroup that
/// it is for, which the kernel forgets with the cgroup.
pub(crate) fn load(rules: &[Rule], scope: Scope, cgroup: &Path) -> Result<Object, Error> {
    let tables = Tables::new(rules)?;
    let refused = |source, log| Error::Load { algorithm: "the policy".to_owned(), source, log };
    let bytes = program("policy")?;
    let size = |count: usize| count.max(1) as u32;
    let open = || {
        let (opened, log) = with_log(|| open_object(bytes));
        let mut open = opened.map_err(|source| refused(source, log))?;
        set_size(&mut open, "peers", size(tables.peers.len()))?;
        set_size(&mut open, "listeners", size(tables.listeners.len()))?;
        set_size(&mut open, "rules", size(rules.len()))?;
        set_size(&mut open, "rule_hits", size(rules.len()))?;
        let mut map = open.maps_mut().find(|map| map.name() == ".rodata.policy");
        let settings = map.as_mut().and_then(|map| map.initial_value_mut()).unwrap_or(&mut []);
        let bytes =
            [scope.deadline_boot_ns.to_ne_bytes(), scope.netns_cookie.to_ne_bytes()].concat();
        if settings.len() != bytes.len() {
            return Err(not_ours());
        }
        settings.copy_from_slice(&bytes);
        Ok(open)
    };
    let load = |open: OpenObject| {
        let (loaded, log) = with_log(|| open.load());
        loaded.map_err(|source| refused(source, log))
    };
    let object = shared_maps::load(open, load)?;
    tables.fill(&object)?;
    keep_path(&object, cgroup)?;
    Ok(object)
}

fn keep_path(object: &Object, cgroup: &Path) -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt as _;
    let inspect = |source| Error::Inspect { what: "the policy's cgroup", source };
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let (key, value) = (size_of::<u32>() as u32, PATH_BYTES as u32);
    let map = MapHandle::create(MapType::Array, Some(CGROUP_MAP), key, value, 1, &options);
    let map = map.map_err(inspect)?;
    // A longer path is not kept: nothing but a message needs it.
    let mut bytes = cgroup.as_os_str().as_bytes().to_vec();
    bytes.truncate(if bytes.len() < PATH_BYTES { bytes.len() } else { 0 });
    bytes.resize(PATH_BYTES, 0);
    map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(inspect)?;
    let program = object.progs().next().ok_or_else(not_ours)?;
    bind(program.as_fd(), &map).map_err(inspect)
}

/// The path that `keep_path` has kept.
pub(crate) fn kept_path(map: &MapHandle) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    let bytes: Vec<u8> = bytes.into_iter().take_while(|byte| *byte != 0).collect();
    (!bytes.is_empty()).then(|| OsString::from_vec(bytes).into())
}

fn not_ours() -> Error {
    Error::BadObject { what: "the policy's object is not the one this library was made for".into() }
}

fn set_size(open: &mut OpenObject, name: &str, entries: u32) -> Result<(), Error> {
    let mut map = open.maps_mut().find(|map| map.name() == name).ok_or_else(not_ours)?;
    map.set_max_entries(entries)
        .map_err(|source| Error::Inspect { what: "the policy's maps", source })
}

/// Keys and values of the program's maps.
struct Tables {
    rules: Vec<Vec<u8>>,
    peers: BTreeMap<Vec<u8>, Vec<u8>>,
    listeners: BTreeMap<u32, u32>,
}

impl Tables {
    fn new(rules: &[Rule]) -> Result<Tables, Error> {
        let mut tables =
            Tables { rules: Vec::new(), peers: BTreeMap::new(), listeners: BTreeMap::new() };
        let needs_ecn = needs_ecn(rules)?;
        for (index, rule) in rules.iter().enumerate() {
            let index_u32 = index as u32;
            tables.rules.push(rule_bytes(rule, needs_ecn[index])?);
            for prefix in &rule.to {
                for port in one_by_one(&rule.ports) {
                    let value = [index_u32.to_ne_bytes(), u32::from(prefix.bits()).to_ne_bytes()];
                    let taken = tables.peers.insert(peer_bytes(*prefix, port), value.concat());
                    if let Some(taken) = taken {
                        let other = u32::from_ne_bytes(taken[..4].try_into().expect("as above"));
                        return Err(twice(rules, other, index_u32, &peer_text(*prefix, port)));
                    }
                    check_room(tables.peers.len())?;
                }
            }
            for port in listened(&rule.listen) {
                if let Some(other) = tables.listeners.insert(u32::from(port), index_u32) {
                    let what = match port {
                        0 => "listeners on all ports".to_owned(),
                        port => format!("listeners on port {port}"),
                    };
                    return Err(twice(rules, other, index_u32, &what));
                }
            }
        }
        Ok(tables)
    }

    fn fill(&self, object: &Object) -> Result<(), Error> {
        let update = |name: &str, key: &[u8], value: &[u8]| {
            let map = object.maps().find(|map| map.name() == name).ok_or_else(not_ours)?;
            map.update(key, value, MapFlags::ANY)
                .map_err(|source| Error::Inspect { what: "the policy's maps", source })
        };
        for (index, rule) in self.rules.iter().enumerate() {
            update("rules", &(index as u32).to_ne_bytes(), rule)?;
        }
        for (key, value) in &self.peers {
            update("peers", key, value)?;
        }
        for (port, rule) in &self.listeners {
            update("listeners", &port.to_ne_bytes(), &rule.to_ne_bytes())?;
        }
        Ok(())
    }
}

fn check_room(entries: usize) -> Result<(), Error> {
    if entries <= MOST_ENTRIES {
        return Ok(());
    }
    let what = format!(
        "the rules name more than {MOST_ENTRIES} pairs of a prefix and a port; use wider prefixes \
         or leave `ports` away"
    );
    Err(Error::Policy { what })
}

fn twice(rules: &[Rule], first: u32, second: u32, what: &str) -> Error {
    let name = |index: u32| match rules.get(index as usize).map(|rule| rule.name.as_str()) {
        Some("") | None => format!("rule {}", index + 1),
        Some(name) => format!("rule {} ({name})", index + 1),
    };
    let who = match first == second {
        true => format!("{} names", name(first)),
        false => format!("{} and {} both name", name(first), name(second)),
    };
    Error::Policy { what: format!("{who} {what}: keep it once") }
}

/// Whether each rule's algorithm serves connections with ECN only.
pub(crate) fn needs_ecn(rules: &[Rule]) -> Result<Vec<bool>, Error> {
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for name in rules.iter().filter_map(|rule| rule.algorithm.as_deref()) {
        if !known.contains_key(name) {
            known.insert(name, registry::needs_ecn(name)?);
        }
    }
    Ok(rules.iter().map(|rule| rule.algorithm.as_deref().is_some_and(|name| known[name])).collect())
}

/// Lists the ports one by one; 0 stands for all.
fn one_by_one(ports: &[Ports]) -> Vec<u16> {
    if ports.is_empty() { vec![0] } else { ports.iter().cloned().flatten().collect() }
}

fn listened(ports: &[Ports]) -> Vec<u16> {
    let each = |ports: &Ports| match *ports == (0..=u16::MAX) {
        true => 0..=0,
        false => ports.clone(),
    };
    ports.iter().flat_map(each).collect()
}

fn peer_text(prefix: Prefix, port: u16) -> String {
    match port {
        0 => prefix.to_string(),
        port => format!("{prefix} port {port}"),
    }
}

/// Encodes `struct peer` of the program.
fn peer_bytes(prefix: Prefix, port: u16) -> Vec<u8> {
    let (family_number, mut address) = match prefix.address() {
        IpAddr::V4(address) => (family(false), address.octets().to_vec()),
        IpAddr::V6(address) => (family(true), address.octets().to_vec()),
    };
    address.resize(16, 0);
    let mut bytes = (BITS_BEFORE_ADDRESS + u32::from(prefix.bits())).to_ne_bytes().to_vec();
    bytes.extend(family_number.to_ne_bytes());
    bytes.extend(port.to_ne_bytes());
    bytes.extend(address);
    bytes
}

/// Linux's AF_INET and AF_INET6, which are equal on all machines.
fn family(is_ipv6: bool) -> u16 {
    if is_ipv6 { 10 } else { 2 }
}

/// Encodes `struct rule` of the program.
fn rule_bytes(rule: &Rule, needs_ecn: bool) -> Result<Vec<u8>, Error> {
    // A default asks for ECN, or grants it, only for an algorithm that needs it.
    let ecn = if rule.yields && !needs_ecn { Ecn::Host } else { rule.ecn };
    let flags = match ecn {
        Ecn::Host => 0,
        Ecn::Accept => ECN_ACCEPT,
        Ecn::PeersRunKnee => ECN_ACCEPT | ECN_CONNECT,
    } | if needs_ecn { NEEDS_ECN } else { 0 }
        | if rule.yields { YIELDS } else { 0 };
    let mut bytes = padded(rule.algorithm.as_deref().unwrap_or(""), NAME_BYTES)?;
    bytes.extend(padded(&rule.name, RULE_NAME_BYTES)?);
    bytes.extend(rule.base_rtt_us.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    Ok(bytes)
}

fn padded(text: &str, len: usize) -> Result<Vec<u8>, Error> {
    if text.len() >= len || text.contains('\0') {
        let what = format!("\"{}\" is too long: at most {} bytes", text.escape_debug(), len - 1);
        return Err(Error::Policy { what });
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Reads the counts and sums them over the CPUs.
pub(crate) fn read_hits(map: &impl MapCore) -> Result<Vec<Hits>, Error> {
    let inspect = |source| Error::Inspect { what: "the policy's counters", source };
    let mut all = Vec::new();
    for index in 0..map.max_entries() {
        let per_cpu =
            map.lookup_percpu(&index.to_ne_bytes(), MapFlags::empty()).map_err(inspect)?;
        let sum = |field: usize| {
            let of_cpu = |value: &Vec<u8>| {
                let bytes = value.get(8 * field..8 * field + 8).and_then(|b| b.try_into().ok());
                bytes.map_or(0, u64::from_ne_bytes)
            };
            per_cpu.iter().flatten().map(of_cpu).fold(0, u64::wrapping_add)
        };
        all.push(Hits {
            connected: sum(0),
            accepted: sum(1),
            listened: sum(2),
            without_ecn: sum(3),
            yielded: sum(4),
            failed: sum(5),
        });
    }
    Ok(all)
}

/// Reads the rules back from the kernel, in their order.
pub(crate) fn read_rules(
    rules: &impl MapCore,
    peers: &impl MapCore,
    listeners: &impl MapCore,
) -> Result<Vec<Rule>, Error> {
    let mut all = Vec::new();
    for index in 0..rules.max_entries() {
        all.push(read_rule(&value_of(rules, &index.to_ne_bytes())?)?);
    }
    let (mut named, mut listened) = (vec![Vec::new(); all.len()], vec![Vec::new(); all.len()]);
    for key in peers.keys() {
        let (prefix, port) = read_peer(&key)?;
        let index = u32_at(&value_of(peers, &key)?, 0)? as usize;
        let rule: &mut Rule = all.get_mut(index).ok_or_else(not_ours)?;
        rule.to.push(prefix);
        named[index].push(port);
    }
    for key in listeners.keys() {
        let index = u32_at(&value_of(listeners, &key)?, 0)? as usize;
        listened.get_mut(index).ok_or_else(not_ours)?.push(u32_at(&key, 0)? as u16);
    }
    for (index, rule) in all.iter_mut().enumerate() {
        rule.to.sort_unstable();
        rule.to.dedup();
        // Each prefix has every port of its rule.
        rule.ports =
            ranges(&mut named[index]).into_iter().filter(|ports| *ports != (0..=0)).collect();
        let all_or = |ports: Ports| if ports == (0..=0) { 0..=u16::MAX } else { ports };
        rule.listen = ranges(&mut listened[index]).into_iter().map(all_or).collect();
    }
    Ok(all)
}

fn value_of(map: &impl MapCore, key: &[u8]) -> Result<Vec<u8>, Error> {
    let value = map.lookup(key, MapFlags::ANY);
    value
        .map_err(|source| Error::Inspect { what: "the policy's maps", source })?
        .ok_or_else(not_ours)
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, Error> {
    let word = bytes.get(offset..offset + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_ne_bytes).ok_or_else(not_ours)
}

fn read_rule(bytes: &[u8]) -> Result<Rule, Error> {
    let text = |from: usize, len: usize| {
        let field = bytes.get(from..from + len).unwrap_or(&[]);
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    let flags = u32_at(bytes, NAME_BYTES + RULE_NAME_BYTES + 4)?;
    Ok(Rule {
        name: text(NAME_BYTES, RULE_NAME_BYTES),
        algorithm: Some(text(0, NAME_BYTES)).filter(|name| !name.is_empty()),
        ecn: match flags & (ECN_ACCEPT | ECN_CONNECT) {
            0 => Ecn::Host,
            ECN_ACCEPT => Ecn::Accept,
            _ => Ecn::PeersRunKnee,
        },
        base_rtt_us: u32_at(bytes, NAME_BYTES + RULE_NAME_BYTES)?,
        yields: flags & YIELDS != 0,
        ..Rule::default()
    })
}

/// Decodes what `peer_bytes` encodes.
fn read_peer(key: &[u8]) -> Result<(Prefix, u16), Error> {
    let bits = u32_at(key, 0)?.checked_sub(BITS_BEFORE_ADDRESS).ok_or_else(not_ours)?;
    let short = |offset: usize| {
        let bytes = key.get(offset..offset + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_ne_bytes).ok_or_else(not_ours)
    };
    let (is_ipv6, port) = (short(4)? == family(true), short(6)?);
    let address: IpAddr = if is_ipv6 {
        <[u8; 16]>::try_from(key.get(8..24).unwrap_or(&[])).map_err(|_| not_ours())?.into()
    } else {
        <[u8; 4]>::try_from(key.get(8..12).unwrap_or(&[])).map_err(|_| not_ours())?.into()
    };
    Ok((Prefix::new(address, bits as u8), port))
}

/// Joins adjacent ports into ranges.
fn ranges(ports: &mut Vec<u16>) -> Vec<Ports> {
    ports.sort_unstable();
    ports.dedup();
    let mut ranges: Vec<Ports> = Vec::new();
    for port in ports {
        match ranges.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(*port) && *last.start() > 0 => {
                *last = *last.start()..=*port;
            }
            _ => ranges.push(*port..=*port),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    /// The members of a struct of the program with their offsets, and its size at the end.
    fn layout(name: &str) -> Option<Vec<(String, usize)>> {
        let object = program("policy").ok()?;
        let btf = Btf::from_raw("policy", object).unwrap().unwrap();
        let found: Struct<'_> = btf.type_by_name(name).unwrap();
        let member = found.iter().map(|member| {
            let MemberAttr::Normal { offset } = member.attr else { panic!("a bit-field") };
            (member.name.unwrap().to_string_lossy().into_owned(), offset as usize / 8)
        });
        Some(member.chain([("end".to_owned(), found.size())]).collect())
    }

    fn check(name: &str, expected: &[(&str, usize)]) {
        let Some(layout) = layout(name) else { return };
        let expected: Vec<_> =
            expected.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        assert_eq!(layout, expected, "struct {name}");
    }

    #[test]
    fn bytes_have_the_layout_that_the_program_reads() {
        let rule = rule_bytes(&Rule::everything("cubic"), true).unwrap();
        let base_rtt = NAME_BYTES + RULE_NAME_BYTES;
        check(
            "rule",
            &[
                ("algorithm", 0),
                ("name", NAME_BYTES),
                ("base_rtt_us", base_rtt),
                ("flags", base_rtt + 4),
                ("end", rule.len()),
            ],
        );
        let peer = peer_bytes(Prefix::ALL_IPV6, 80);
        let address = 4 + BITS_BEFORE_ADDRESS as usize / 8;
        check(
            "peer",
            &[
                ("prefixlen", 0),
                ("family", 4),
                ("port", 6),
                ("address", address),
                ("end", peer.len()),
            ],
        );
        check("target", &[("rule", 0), ("prefixlen", 4), ("end", 8)]);
    }

    #[test]
    fn counters_have_the_layout_that_the_program_writes() {
        // `read_hits` takes the fields in this order.
        let fields =
            ["connected", "accepted", "listened", "without_ecn", "yielded", "failed", "end"];
        let expected: Vec<_> =
            fields.iter().enumerate().map(|(at, name)| (*name, 8 * at)).collect();
        check("hits", &expected);
        assert_eq!(8 * (fields.len() - 1), size_of::<Hits>());
    }
}

//! The policy file that users write; `docs/policy.md` describes it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use knee_file::keys::{Below, Choice, Key, List, Special, Text};
use knee_file::{Node, Origin, Reader, Value, keys, schema};
use serde_json::{Value as Json, json};

use super::rule::{Ecn, Ports, Prefix, Rule};
use crate::Error;

/// The largest policy file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
const ECN: &[(&str, Ecn)] =
    &[("host", Ecn::Host), ("grant", Ecn::Accept), ("peers run knee", Ecn::PeersRunKnee)];
/// The algorithm's name that stands for the host's own choice.
const HOSTS_OWN: &str = "default";
/// The longest base RTT, in us: one minute.
const LONGEST_RTT_US: f64 = 60e6;

keys! {
    /// Algorithms per connection: docs/policy.md.
    static TOP: TopKeys = "policy" {
        /// Rules; the longest prefix decides.
        rule: Below = list(&RuleKeys::TABLE).needed(),
        /// Your own prefixes that are not private.
        ours: Key<List<Text>> = usually("none"),
    }
}

keys! {
    /// A rule: it has `to` or `listen`.
    static RULE: RuleKeys = "rule" {
        /// Label in `show`, at most 31 bytes.
        name: Key<Text>,
        /// Prefixes of peers, or `"everything"`.
        to: Key<List<Text>>,
        /// Limits `to` to these remote ports; ranges in quotes.
        ports: Special = takes(ports_taken).usually("all"),
        /// Local ports of listeners, or `"all"`.
        listen: Special = takes(ports_taken),
        /// Registered algorithm (`net.ipv4.tcp_available_congestion_control`); `"default"` keeps the host's.
        algorithm: Key<Text> = needed("knee_dctcp"),
        /// ECN: as the host is set, accepted from peers, or also requested.
        ecn: Choice<Ecn> = of(ECN).or("host"),
        /// RTT without queues, in us or ms up to `60000 ms`, for algorithms that use it.
        base_rtt: Special = takes(rtt_taken).usually("none"),
        /// Only sockets of this cgroup, below that of `--cgroup`.
        cgroup: Key<Text> = usually("that of `--cgroup`"),
    }
}

fn ports_taken() -> (String, Json) {
    let number = json!({ "type": "integer", "minimum": 1, "maximum": 65535 });
    let range = json!({ "type": "string", "pattern": "^([0-9]+-[0-9]+|all)$" });
    keys::list_of(("port, or range".to_owned(), json!({ "anyOf": [number, range] })))
}

fn rtt_taken() -> (String, Json) {
    let schema = json!({ "type": "string", "pattern": "^[0-9][0-9.eE+-]* (us|ms)$" });
    ("time in us or ms".to_owned(), schema)
}

/// The file's description for the schema and the documentation page.
pub const FILE: schema::File = schema::File {
    name: "policy",
    root: &TopKeys::TABLE,
    filled_in: &[],
    only_on: |_, _| String::new(),
};

/// One `[[rule]]`.
#[derive(Clone, Debug)]
pub struct FileRule {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// The rule.
    pub rule: Rule,
    /// The rule's cgroup, below the one that the policy is applied to.
    pub cgroup: Option<PathBuf>,
}

/// A file of well-formed rules. This host may still be unable to apply them.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    /// Prefixes that are not private but under one administration, for algorithms that need ECN.
    pub ours: Vec<Prefix>,
    /// The rules in the order of the file.
    pub entries: Vec<FileRule>,
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read; [`Error::Policy`] with file, line, key, value and the
    /// allowed values.
    pub fn read(path: &Path) -> Result<File, Error> {
        let text = knee_files::read_text(path, MAX_BYTES, "policy file").map_err(|why| {
            let source = why.into_io();
            Error::File { path: path.to_owned(), source }
        })?;
        File::parse(path, &text)
    }

    /// Reads a text. Messages name `path`.
    ///
    /// # Errors
    /// The errors of [`File::read`].
    pub fn parse(path: &Path, text: &str) -> Result<File, Error> {
        read(path, text).map_err(|why| Error::Policy { what: why.to_string() })
    }

    /// Makes an error about an entry as a whole.
    pub(crate) fn error(&self, entry: &FileRule, message: &str) -> Error {
        let rule = self.entries.iter().position(|one| one.line == entry.line).unwrap_or(0) + 1;
        Error::Policy {
            what: format!("{}:{}: rule {rule}: {message}", self.path.display(), entry.line),
        }
    }
}

type Read<T> = Result<T, knee_file::Error>;

fn read(path: &Path, text: &str) -> Read<File> {
    let root = knee_file::parse(path, text)?;
    let notes = RefCell::default();
    let top = Reader::root(path, &root, &notes).only(&[&TOP])?;
    let ours = ours(&top)?;
    let rules = top.children_called(&TOP.rule, |number, _| format!("rule {number}"))?;
    if rules.is_empty() {
        let why = "no rules: write [[rule]] and what it is for";
        return Err(knee_file::Error::new(path, Origin::Line(1), "", why));
    }
    let entries = rules.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(File { path: path.to_owned(), ours, entries })
}

fn entry(rule: &Reader<'_>) -> Read<FileRule> {
    rule.check(&[&RULE])?;
    let read = Rule {
        name: name(rule)?,
        to: prefixes(rule)?,
        ports: ports(rule, &RULE.ports, false)?,
        listen: ports(rule, &RULE.listen, true)?,
        algorithm: algorithm(rule)?,
        ecn: rule.choose(&RULE.ecn)?,
        base_rtt_us: base_rtt_us(rule)?,
        yields: false,
    };
    if read.to.is_empty() && read.listen.is_empty() {
        let example = "as to = [\"10.0.0.0/8\"], to = \"everything\" or listen = [5201]";
        return Err(rule.about(format!("says nothing about whom it is for, {example}")));
    }
    if read.to.is_empty() && !read.ports.is_empty() {
        let way_out = "`ports` narrows `to`; the ports of listeners go into `listen`";
        return Err(rule.error(&RULE.ports, way_out));
    }
    if read.to.is_empty() && read.ecn != Ecn::Host {
        return Err(
            rule.error(&RULE.ecn, "ECN is granted and asked for by the peer: it needs `to`")
        );
    }
    let line = match rule.origin() {
        Origin::Line(line) => line as usize,
        Origin::Nowhere | Origin::Given(_) => 1,
    };
    Ok(FileRule { line, rule: read, cgroup: cgroup(rule)? })
}

fn name(rule: &Reader<'_>) -> Read<String> {
    let name = rule.text(&RULE.name)?.unwrap_or_default();
    match name.len() < super::attach::RULE_NAME_BYTES && !name.chars().any(char::is_control) {
        true => Ok(name.to_owned()),
        false => Err(rule.error(&RULE.name, "must be at most 31 bytes on one line")),
    }
}

/// Reads each text of a key, or gives the reason why one is invalid.
fn each<T>(
    reader: &Reader<'_>,
    key: &Key<List<Text>>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Read<Vec<T>> {
    let items = reader.items(key)?.unwrap_or_default().iter();
    let value = |node: &Node| {
        let text = node.text().ok_or_else(|| "must be text in quotes".to_owned());
        text.and_then(&read).map_err(|why| reader.error_in(key, node, why))
    };
    items.map(value).collect()
}

/// Public IPv4 addresses that one owner has at most.
const MOST_OURS: u64 = 4 << 24;

fn ours(top: &Reader<'_>) -> Read<Vec<Prefix>> {
    let ours = each(top, &TOP.ours, |text| {
        let prefix: Prefix = text.parse()?;
        match prefix.is_more_than_anybodys() {
            true => {
                Err("is more than anybody has: name prefixes of at least /8 (IPv6: /16)".into())
            }
            false => Ok(prefix),
        }
    })?;
    let public = ours.iter().filter(|prefix| prefix.address().is_ipv4() && !prefix.is_own(&[]));
    let addresses: u64 = public.map(|prefix| 1 << (32 - prefix.bits())).sum();
    match addresses > MOST_OURS {
        true => {
            Err(top.error(&TOP.ours, "are more public addresses than anybody has: four /8 at most"))
        }
        false => Ok(ours),
    }
}

fn prefixes(rule: &Reader<'_>) -> Read<Vec<Prefix>> {
    let prefixes = each(rule, &RULE.to, |text| match text {
        "everything" => Ok(vec![Prefix::ALL_IPV4, Prefix::ALL_IPV6]),
        text => Ok(vec![text.parse()?]),
    })?;
    Ok(prefixes.concat())
}

/// Reads numbers, ranges in quotes, and "all" if `all` is set.
fn ports(rule: &Reader<'_>, key: &Special, all: bool) -> Read<Vec<Ports>> {
    let range = |node: &Node| match &node.value {
        Value::Text(text) if all && text == "all" => Ok(0..=u16::MAX),
        value => port_range(value).ok_or_else(|| {
            let or_all = if all { ", or \"all\"" } else { "" };
            let allowed =
                format!("must be a port from 1 to 65535, a range as \"8000-8099\"{or_all}");
            rule.error_in(key, node, allowed)
        }),
    };
    rule.items(key)?.unwrap_or_default().iter().map(range).collect()
}

fn algorithm(rule: &Reader<'_>) -> Read<Option<String>> {
    let Some(name) = rule.text(&RULE.algorithm)? else {
        let example =
            "missing, as in algorithm = \"knee_dctcp\"; \"default\" keeps what the host has";
        return Err(rule.error(&RULE.algorithm, example));
    };
    if name == HOSTS_OWN {
        return Ok(None);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let fits = !name.is_empty() && name.len() < crate::table::NAME_BYTES;
    match fits && name.bytes().all(allowed) {
        true => Ok(Some(name.to_owned())),
        false => Err(rule
            .error(&RULE.algorithm, "cannot name an algorithm: 1 to 15 of a-z, A-Z, 0-9, _ and -")),
    }
}

fn base_rtt_us(rule: &Reader<'_>) -> Read<u32> {
    let Some(text) = rule.text_of(&RULE.base_rtt)? else { return Ok(0) };
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let us_per_unit = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        _ => f64::NAN,
    };
    let us = number.parse::<f64>().map_or(f64::NAN, |number| (number * us_per_unit).round());
    match (1.0..=LONGEST_RTT_US).contains(&us) {
        true => Ok(us as u32),
        false => {
            Err(rule
                .error(&RULE.base_rtt, "must be a time from \"1 us\" to \"60000 ms\", in us or ms"))
        }
    }
}

fn cgroup(rule: &Reader<'_>) -> Read<Option<PathBuf>> {
    let Some(text) = rule.text(&RULE.cgroup)? else { return Ok(None) };
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    match is_plain && !text.is_empty() {
        true => Ok(Some(path.to_owned())),
        false => Err(rule.error(
            &RULE.cgroup,
            "must be a path below the policy's cgroup, as \"system.slice/nginx.service\"",
        )),
    }
}

fn port_range(value: &Value) -> Option<Ports> {
    let range = match value {
        Value::Integer(number) => {
            let port = u16::try_from(*number).ok()?;
            port..=port
        }
        Value::Text(text) => {
            let (first, last) = text.split_once('-')?;
            first.parse().ok()?..=last.parse().ok()?
        }
        _ => return None,
    };
    (*range.start() > 0 && !range.is_empty()).then_some(range)
}

//! The file that people write: `docs/policy.md`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::rule::{Ecn, Ports, Prefix, Rule};
use crate::Error;

/// No policy file is longer.
const MAX_BYTES: u64 = 1 << 20;
/// Keys of a rule.
const KEYS: [&str; 8] = ["name", "to", "ports", "listen", "algorithm", "ecn", "base_rtt", "cgroup"];
const ECN: [(&str, Ecn); 3] =
    [("host", Ecn::Host), ("grant", Ecn::Accept), ("peers run knee", Ecn::PeersRunKnee)];
/// The algorithm's name that means: whatever the host has.
const HOSTS_OWN: &str = "default";
/// Longest base RTT, us: a minute.
const LONGEST_RTT_US: f64 = 60e6;

type Node<'a> = Spanned<DeValue<'a>>;

/// One `[[rule]]`.
#[derive(Clone, Debug)]
pub struct FileRule {
    /// Line on which it begins, from 1.
    pub line: usize,
    /// What it says.
    pub rule: Rule,
    /// The cgroup it is for, below the one that the policy is applied to.
    pub cgroup: Option<PathBuf>,
}

/// A file of rules that are well-formed. Whether this host can carry them out is another question.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    /// Prefixes that are under one hand though they are not private, for algorithms that need ECN.
    pub ours: Vec<Prefix>,
    /// In the order of the file.
    pub entries: Vec<FileRule>,
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read; [`Error::Policy`] with file, line, key, value and what
    /// is allowed there.
    pub fn read(path: &Path) -> Result<File, Error> {
        let text = knee_files::read_text(path, MAX_BYTES, "policy file").map_err(|why| {
            let source = why.into_io();
            Error::File { path: path.to_owned(), source }
        })?;
        File::parse(path, &text)
    }

    /// Reads a text; `path` is for the messages.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn parse(path: &Path, text: &str) -> Result<File, Error> {
        let source = Source { path, text };
        let root = DeTable::parse(text).map_err(|error| {
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            let offset = error.span().map_or(0, |span| span.start);
            source.error(offset, "", "", &format!("not TOML: {why}"))
        })?;
        let root = root.into_inner();
        let top = Table { source, path: String::new(), span: 0..0, table: &root };
        top.only(&["rule", "ours"])?;
        let ours = top.ours()?;
        let Some(rules) = root.get("rule") else {
            return Err(source.error(0, "", "", "no rules: write [[rule]] and what it is for"));
        };
        let tables = rules.get_ref().as_array().filter(|list| !list.is_empty());
        let Some(tables) = tables else {
            return Err(top.error("rule", "must be a list of tables, each begun by [[rule]]"));
        };
        let mut entries = Vec::new();
        for (index, node) in tables.iter().enumerate() {
            let Some(table) = node.get_ref().as_table() else {
                return Err(top.error("rule", "must be a list of tables, each begun by [[rule]]"));
            };
            let path = format!("rule {}", index + 1);
            entries.push(Table { source, path, span: node.span(), table }.entry()?);
        }
        Ok(File { path: path.to_owned(), ours, entries })
    }

    /// An error about an entry as a whole.
    pub(super) fn error(&self, entry: &FileRule, message: &str) -> Error {
        let rule = self.entries.iter().position(|one| one.line == entry.line).unwrap_or(0) + 1;
        Error::Policy {
            what: format!("{}:{}: rule {rule}: {message}", self.path.display(), entry.line),
        }
    }
}

#[derive(Clone, Copy)]
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn line(self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    fn error(self, offset: usize, key: &str, value: &str, message: &str) -> Error {
        let at = match (key, value) {
            ("", _) => String::new(),
            (key, "") => format!("{key}: "),
            (key, value) => format!("{key} = {value}: "),
        };
        let line = self.line(offset);
        Error::Policy { what: format!("{}:{line}: {at}{message}", self.path.display()) }
    }
}

/// One table of the file.
struct Table<'a> {
    source: Source<'a>,
    /// For messages; empty: the document.
    path: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    fn entry(&self) -> Result<FileRule, Error> {
        self.only(&KEYS)?;
        let to = match self.texts("to")? {
            None => Vec::new(),
            Some(texts) => self.prefixes(&texts)?,
        };
        let rule = Rule {
            name: self.name()?,
            to,
            ports: self.ports("ports", false)?,
            listen: self.ports("listen", true)?,
            algorithm: self.algorithm()?,
            ecn: self.ecn()?,
            base_rtt_us: self.base_rtt_us()?,
            yields: false,
        };
        if rule.to.is_empty() && rule.listen.is_empty() {
            let example = "as to = [\"10.0.0.0/8\"], to = \"everything\" or listen = [5201]";
            return Err(self.about(&format!("says nothing about whom it is for, {example}")));
        }
        if rule.to.is_empty() && !rule.ports.is_empty() {
            let way_out = "`ports` narrows `to`; the ports of listeners go into `listen`";
            return Err(self.error("ports", way_out));
        }
        if rule.to.is_empty() && rule.ecn != Ecn::Host {
            return Err(
                self.error("ecn", "ECN is granted and asked for by the peer: it needs `to`")
            );
        }
        Ok(FileRule { line: self.source.line(self.span.start), rule, cgroup: self.cgroup()? })
    }

    fn only(&self, known: &[&str]) -> Result<(), Error> {
        let unknown =
            |key: &&Spanned<std::borrow::Cow<'_, str>>| !known.contains(&&**key.get_ref());
        // The first of the file: the table is sorted otherwise.
        let first = self.table.keys().filter(unknown).min_by_key(|key| key.span().start);
        let Some(key) = first else { return Ok(()) };
        let shown: String = key.get_ref().chars().take(40).flat_map(char::escape_debug).collect();
        let near = known
            .iter()
            .map(|known| (strsim::damerau_levenshtein(&shown, known), known))
            .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
            .min_by_key(|(distance, _)| *distance);
        let message = match near {
            Some((_, near)) => format!("unknown key; did you mean \"{near}\"?"),
            None => format!("unknown key; known here: {}", known.join(", ")),
        };
        Err(self.source.error(key.span().start, &self.key(&shown), "", &message))
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn about(&self, message: &str) -> Error {
        self.source.error(self.span.start, &self.path, "", message)
    }

    /// An error about the value of a key.
    fn error(&self, key: &str, message: &str) -> Error {
        let Some(node) = self.table.get(key) else {
            return self.source.error(self.span.start, &self.key(key), "", message);
        };
        self.error_at(key, node, message)
    }

    fn error_at(&self, key: &str, node: &Node<'_>, message: &str) -> Error {
        const LONGEST: usize = 60;
        let written = self.source.text.get(node.span()).unwrap_or("");
        let mut value: String =
            written.chars().take(LONGEST).flat_map(char::escape_debug).collect();
        value = value.replace("\\\"", "\"");
        if written.chars().count() > LONGEST {
            value.push_str("...");
        }
        self.source.error(node.span().start, &self.key(key), &value, message)
    }

    fn text(&self, key: &str) -> Result<Option<(&'a str, &'a Node<'a>)>, Error> {
        let Some(node) = self.table.get(key) else { return Ok(None) };
        match node.get_ref().as_str() {
            Some(text) => Ok(Some((text, node))),
            None => Err(self.error_at(key, node, "must be text in quotes")),
        }
    }

    /// A value, or each of a list; at least one.
    fn items(&self, key: &str) -> Result<Option<Vec<&'a Node<'a>>>, Error> {
        let Some(node) = self.table.get(key) else { return Ok(None) };
        let items: Vec<&Node<'_>> = match node.get_ref() {
            DeValue::Array(array) => {
                let array: &DeArray<'_> = array;
                array.iter().collect()
            }
            _ => vec![node],
        };
        match items.is_empty() {
            true => Err(self.error_at(key, node, "must have at least one value")),
            false => Ok(Some(items)),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<(&'a str, &'a Node<'a>)>>, Error> {
        let Some(items) = self.items(key)? else { return Ok(None) };
        let text = |node: &'a Node<'a>| {
            let text = node.get_ref().as_str();
            text.map(|text| (text, node))
                .ok_or_else(|| self.error_at(key, node, "must be text in quotes"))
        };
        items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    fn name(&self) -> Result<String, Error> {
        let Some((name, node)) = self.text("name")? else { return Ok(String::new()) };
        match name.len() < super::attach::RULE_NAME_BYTES && !name.chars().any(char::is_control) {
            true => Ok(name.to_owned()),
            false => Err(self.error_at("name", node, "must be at most 31 bytes on one line")),
        }
    }

    fn ours(&self) -> Result<Vec<Prefix>, Error> {
        let mut ours = Vec::new();
        for (text, node) in self.texts("ours")?.unwrap_or_default() {
            let prefix: Result<Prefix, String> = text.parse();
            let prefix = prefix.map_err(|why| self.error_at("ours", node, &why))?;
            if prefix.must_reach_the_internet() {
                let why = "is more than anybody has: name prefixes of at least /8 (IPv6: /7)";
                return Err(self.error_at("ours", node, why));
            }
            ours.push(prefix);
        }
        Ok(ours)
    }

    fn prefixes(&self, texts: &[(&str, &Node<'_>)]) -> Result<Vec<Prefix>, Error> {
        let mut prefixes = Vec::new();
        for (text, node) in texts {
            if *text == "everything" {
                prefixes.extend([Prefix::ALL_IPV4, Prefix::ALL_IPV6]);
            } else {
                let parsed = text.parse();
                prefixes.push(parsed.map_err(|why: String| self.error_at("to", node, &why))?);
            }
        }
        Ok(prefixes)
    }

    /// Numbers, ranges in quotes, and "all" where `all` is allowed.
    fn ports(&self, key: &str, all: bool) -> Result<Vec<Ports>, Error> {
        let mut ports = Vec::new();
        for node in self.items(key)?.unwrap_or_default() {
            ports.push(match node.get_ref() {
                DeValue::String(text) if all && text == "all" => 0..=u16::MAX,
                value => port_range(value).ok_or_else(|| {
                    let or_all = if all { ", or \"all\"" } else { "" };
                    let allowed =
                        format!("must be a port from 1 to 65535, a range as \"8000-8099\"{or_all}");
                    self.error_at(key, node, &allowed)
                })?,
            });
        }
        Ok(ports)
    }

    fn algorithm(&self) -> Result<Option<String>, Error> {
        let Some((name, node)) = self.text("algorithm")? else {
            let example =
                "missing, as in algorithm = \"knee_dctcp\"; \"default\" keeps what the host has";
            return Err(self.error("algorithm", example));
        };
        if name == HOSTS_OWN {
            return Ok(None);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = !name.is_empty() && name.len() < crate::table::NAME_BYTES;
        match fits && name.bytes().all(allowed) {
            true => Ok(Some(name.to_owned())),
            false => Err(self.error_at(
                "algorithm",
                node,
                "cannot name an algorithm: 1 to 15 of a-z, A-Z, 0-9, _ and -",
            )),
        }
    }

    fn ecn(&self) -> Result<Ecn, Error> {
        let Some((word, node)) = self.text("ecn")? else { return Ok(Ecn::default()) };
        let found = ECN.iter().find(|(name, _)| *name == word);
        found.map(|(_, ecn)| *ecn).ok_or_else(|| {
            let names = ECN.map(|(name, _)| format!("\"{name}\"")).join(", ");
            self.error_at("ecn", node, &format!("must be one of {names}"))
        })
    }

    fn base_rtt_us(&self) -> Result<u32, Error> {
        let Some((text, node)) = self.text("base_rtt")? else { return Ok(0) };
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        let us_per_unit = match unit {
            "us" => 1.0,
            "ms" => 1e3,
            _ => f64::NAN,
        };
        let us = number.parse::<f64>().map_or(f64::NAN, |number| (number * us_per_unit).round());
        match (1.0..=LONGEST_RTT_US).contains(&us) {
            true => Ok(us as u32),
            false => Err(self.error_at(
                "base_rtt",
                node,
                "must be a time from \"1 us\" to \"60000 ms\", in us or ms",
            )),
        }
    }

    fn cgroup(&self) -> Result<Option<PathBuf>, Error> {
        let Some((text, node)) = self.text("cgroup")? else { return Ok(None) };
        let path = Path::new(text);
        let is_plain =
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        match is_plain && !text.is_empty() {
            true => Ok(Some(path.to_owned())),
            false => Err(self.error_at(
                "cgroup",
                node,
                "must be a path below the policy's cgroup, as \"system.slice/nginx.service\"",
            )),
        }
    }
}

fn port_range(value: &DeValue<'_>) -> Option<Ports> {
    let range = match value {
        DeValue::Integer(number) => {
            let port = u16::from_str_radix(number.as_str(), number.radix()).ok()?;
            port..=port
        }
        DeValue::String(text) => {
            let (first, last) = text.split_once('-')?;
            first.parse().ok()?..=last.parse().ok()?
        }
        _ => return None,
    };
    (*range.start() > 0 && !range.is_empty()).then_some(range)
}

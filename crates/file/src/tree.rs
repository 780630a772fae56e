//! A TOML document as a tree in which every value knows where it was written.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Origin};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it was written.
    pub origin: Origin,
    pub value: Value,
}

/// Keys and values in the order of the file.
pub type Table = Vec<(String, Node)>;

/// Value of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// True or false.
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
    /// Nothing that any key takes: a float, a date, a number that does not fit.
    Other(String),
}

impl Node {
    /// A table that says nothing.
    pub fn nothing() -> Node {
        Node { origin: Origin::Nowhere, value: Value::Table(Table::new()) }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a key, if it is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        find(self.table()?, key)
    }

    /// The value as TOML, on one line and not too long for a message.
    pub fn show(&self) -> String {
        const LONGEST: usize = 60;
        let mut text = String::new();
        self.write(&mut text);
        if text.chars().count() > LONGEST {
            text = text.chars().take(LONGEST).chain("...".chars()).collect();
        }
        text
    }

    fn write(&self, out: &mut String) {
        match &self.value {
            Value::Text(text) => {
                let _ = write!(out, "{text:?}");
            }
            Value::Integer(value) => {
                let _ = write!(out, "{value}");
            }
            Value::Flag(value) => {
                let _ = write!(out, "{value}");
            }
            Value::Other(text) => {
                let _ = write!(out, "{}", text.escape_debug());
            }
            Value::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    item.write(out);
                }
                out.push(']');
            }
            Value::Table(table) => {
                out.push_str("{ ");
                for (i, (key, node)) in table.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    let _ = write!(out, "{key} = ");
                    node.write(out);
                }
                out.push_str(" }");
            }
        }
    }

    /// The value for a manifest.
    pub fn json(&self) -> Json {
        match &self.value {
            Value::Text(text) | Value::Other(text) => Json::from(text.as_str()),
            Value::Integer(value) => Json::from(*value),
            Value::Flag(value) => Json::from(*value),
            Value::List(items) => items.iter().map(Node::json).collect(),
            Value::Table(table) => {
                table.iter().map(|(key, node)| (key.clone(), node.json())).collect()
            }
        }
    }

    /// The value as one cell of a table or CSV file.
    pub fn label(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            _ => self.show(),
        }
    }

    /// Puts `value` at a dotted path, making tables on the way. In a list of tables, a part of the path is the name or the number of
    /// an entry, from 1, as in messages. Every entry of a name is changed. `called` adds names, by the path of the list, the
    /// entry's number and the entry.
    ///
    /// # Errors
    /// Why there is no such place.
    pub fn set(&mut self, path: &str, value: &Node, called: &Called<'_>) -> Result<(), String> {
        let parts: Vec<&str> = path.split('.').collect();
        if parts.contains(&"*") {
            return Err(NO_WILDCARD.into());
        }
        self.set_parts("", &parts, value, called)
    }

    fn set_parts(
        &mut self,
        here: &str,
        parts: &[&str],
        new: &Node,
        called: &Called<'_>,
    ) -> Result<(), String> {
        let [first, rest @ ..] = parts else {
            *self = new.clone();
            return Ok(());
        };
        let below =
            |part: &str| if here.is_empty() { part.into() } else { format!("{here}.{part}") };
        match &mut self.value {
            Value::Table(_) if first.is_empty() => {
                Err("must be a path of keys joined by dots, as network.bottleneck.rate".into())
            }
            Value::Table(table) => {
                if let Some(at) = table.iter().position(|(key, _)| key == first) {
                    return table[at].1.set_parts(&below(first), rest, new, called);
                }
                let mut node = Node { origin: new.origin, value: Value::Table(Vec::new()) };
                node.set_parts(&below(first), rest, new, called)?;
                table.push(((*first).to_owned(), node));
                Ok(())
            }
            Value::List(items) => {
                let (entries, used) = entries_of(items, here, parts, called)?;
                let (name, rest) = (parts[..used].join("."), &parts[used..]);
                entries
                    .into_iter()
                    .try_for_each(|at| items[at].set_parts(&below(&name), rest, new, called))
            }
            _ => Err(format!("it has no keys below it: it is {}", self.show())),
        }
    }
}

/// Other names of an entry of a list: by the path of the list, the entry's number from 1, and the entry.
pub type Called<'a> = dyn Fn(&str, usize, &Node) -> Vec<(String, Names)> + 'a;

/// What a name of an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// The whole entry.
    Entry,
    /// A part that cannot be set alone: what it is, and the way out.
    Part(String),
}

/// Refusal of a path with `*`.
pub const NO_WILDCARD: &str = "must name one key, because \"*\" is no wildcard: a case sets several keys together, as in set = { \
     \"network.up.queue.k\" = \"100 kB\", \"network.down.queue.k\" = \"100 kB\" }";

/// Finds the entries of a list that the first parts of a path stand for, and the number of these parts. A name may contain dots.
fn entries_of(
    items: &[Node],
    list: &str,
    parts: &[&str],
    called: &Called<'_>,
) -> Result<(Vec<usize>, usize), String> {
    let own = |item: &Node| Some(item.get("name")?.text()?.to_owned());
    let heads = || (1..=parts.len()).map(|used| (parts[..used].join("."), used));
    for (head, used) in heads() {
        let named = |(_, item): &(usize, &Node)| own(item).is_some_and(|name| name == head);
        let found: Vec<usize> = items.iter().enumerate().filter(named).map(|(at, _)| at).collect();
        if !found.is_empty() {
            return Ok((found, used));
        }
    }
    if let Some(number) = parts[0].parse().ok().filter(|number| (1..=items.len()).contains(number))
    {
        return Ok((vec![number - 1], 1));
    }
    let others: Vec<Vec<(String, Names)>> =
        items.iter().zip(1..).map(|(item, number)| called(list, number, item)).collect();
    let mut part = None;
    for (head, used) in heads() {
        let is = |(name, _): &&(String, Names)| *name == head;
        let found =
            others.iter().enumerate().filter_map(|(at, names)| Some((at, names.iter().find(is)?)));
        let (whole, parts): (Vec<_>, Vec<_>) =
            found.partition(|(_, (_, names))| *names == Names::Entry);
        if !whole.is_empty() {
            return Ok((whole.into_iter().map(|(at, _)| at).collect(), used));
        }
        if let Some((_, (name, Names::Part(what)))) = parts.first() {
            part = part.or_else(|| Some(format!("\"{name}\" is {what}")));
        }
    }
    if let Some(part) = part {
        return Err(part);
    }
    let entries = others.into_iter().flatten().filter(|(_, names)| *names == Names::Entry);
    let mut names: Vec<String> =
        items.iter().filter_map(own).chain(entries.map(|(name, _)| name)).collect();
    names.dedup();
    let near = did_you_mean(parts[0], names.iter().map(String::as_str));
    let few: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
    let few = match (few.is_empty(), names.len() > few.len()) {
        (true, _) => String::new(),
        (false, false) => format!(" ({})", few.join(", ")),
        (false, true) => format!(" ({}, ...)", few.join(", ")),
    };
    let numbers = match items.len() {
        0 => "the list is empty".to_owned(),
        1 => "the only entry is number 1".to_owned(),
        last => format!("entries have numbers from 1 to {last}"),
    };
    Err(format!("no entry is named \"{}\"; {numbers}{few}{near}", parts[0]))
}

/// The most names in the message of a name that no entry has.
const MOST_NAMES: usize = 8;

pub(crate) fn find<'a>(table: &'a Table, key: &str) -> Option<&'a Node> {
    table.iter().find(|(name, _)| name == key).map(|(_, node)| node)
}

/// What a TOML text says; `file` is for the message.
///
/// # Errors
/// Where it stops being TOML, and why.
pub fn parse(file: &Path, text: &str) -> Result<Node, Error> {
    let lines = Lines::new(text);
    match DeTable::parse(text) {
        Ok(table) => {
            let start = table.span().start;
            Ok(lines.table(table.into_inner(), start))
        }
        Err(error) => {
            let origin = error.span().map_or(Origin::Nowhere, |span| lines.origin(span.start));
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            Err(Error::new(file, origin, "", format!("not TOML: {message}")))
        }
    }
}

/// The right-hand side of an option: a TOML value, or else the text itself.
pub fn parse_override(text: &str, by: &'static &'static str) -> Node {
    fn place(node: &mut Node, origin: Origin) {
        node.origin = origin;
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|node| place(node, origin)),
            Value::Table(table) => table.iter_mut().for_each(|(_, node)| place(node, origin)),
            _ => {}
        }
    }
    let as_toml =
        parse(Path::new(""), &format!("x = {text}\n")).ok().and_then(|node| match node.value {
            Value::Table(mut table) if table.len() == 1 => table.pop().map(|(_, node)| node),
            _ => None,
        });
    // A bare date or float is taken as the text that it is.
    let mut node = match as_toml {
        Some(node) if !matches!(node.value, Value::Other(_)) => node,
        _ => Node { origin: Origin::Nowhere, value: Value::Text(text.to_owned()) },
    };
    place(&mut node, Origin::Given(by));
    node
}

/// Line numbers of byte offsets.
struct Lines {
    /// Offset of the first byte of each line.
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Lines {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { starts: std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect() }
    }

    fn origin(&self, offset: usize) -> Origin {
        let line = self.starts.partition_point(|start| *start <= offset);
        Origin::Line(u32::try_from(line).unwrap_or(u32::MAX))
    }

    fn table(&self, table: DeTable<'_>, start: usize) -> Node {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let table = entries
            .into_iter()
            .map(|(key, value)| {
                let key_start = key.span().start;
                let mut node = self.node(value);
                node.origin = self.origin(key_start);
                (key.into_inner().into_owned(), node)
            })
            .collect();
        Node { origin: self.origin(start), value: Value::Table(table) }
    }

    fn node(&self, value: Spanned<DeValue<'_>>) -> Node {
        let start = value.span().start;
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(integer) => {
                match i64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(integer) => Value::Integer(integer),
                    Err(_) => Value::Other(integer.as_str().to_owned()),
                }
            }
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Float(float) => Value::Other(float.as_str().to_owned()),
            DeValue::Datetime(date) => Value::Other(date.to_string()),
            DeValue::Array(array) => {
                Value::List(array.into_iter().map(|item| self.node(item)).collect())
            }
            DeValue::Table(table) => return self.table(table, start),
        };
        Node { origin: self.origin(start), value }
    }
}

/// `; did you mean "x"?`, or nothing if nothing is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map_or_else(String::new, |(_, candidate)| format!("; did you mean \"{candidate}\"?"))
}

/// Edits between two words: insert, delete, replace, or swap two neighbours, each counts 1. Long
/// words are compared by their first characters only.
fn distance(a: &str, b: &str) -> usize {
    const COMPARED: usize = 48;
    let a: Vec<char> = a.chars().take(COMPARED).collect();
    let b: Vec<char> = b.chars().take(COMPARED).collect();
    let width = b.len() + 1;
    let mut cost = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            cost[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (cost[(i - 1) * width + j] + 1)
                    .min(cost[i * width + j - 1] + 1)
                    .min(cost[(i - 1) * width + j - 1] + replaced);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(cost[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    cost[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node, Error> {
        super::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn every_value_knows_its_line_and_tables_keep_their_order() {
        let root = parse("b = 1\na = \"x\"\n[t]\nz = true\n\n[[list]]\nname = \"n\"\n").unwrap();
        let keys: Vec<_> = root.table().unwrap().iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "t", "list"]);
        assert_eq!(root.get("a").unwrap().origin, Origin::Line(2));
        assert_eq!(root.get("t").unwrap().get("z").unwrap().origin, Origin::Line(4));
    }

    #[test]
    fn what_is_not_toml_has_a_line() {
        let error = parse("a = 1\nb = = 2\n").unwrap_err();
        assert!(error.to_string().starts_with("x.toml:2: not TOML: "), "{error}");
    }

    #[test]
    fn set_reaches_every_entry_of_a_name() {
        let mut root = parse(
            "[[traffic]]\nname = \"a\"\n[[traffic]]\nname = \"b\"\n[[traffic]]\nname = \"a\"\n",
        )
        .unwrap();
        let set = |root: &mut Node, path: &str, value: &str| {
            root.set(path, &parse_override(value, &"--set"), &|_, _, _| Vec::new())
        };
        set(&mut root, "traffic.a.size", "10 kB").unwrap();
        let Value::List(entries) = &root.get("traffic").unwrap().value else { panic!() };
        let sizes: Vec<_> =
            entries.iter().map(|entry| entry.get("size").map(Node::label)).collect();
        assert_eq!(sizes, [Some("10 kB".into()), None, Some("10 kB".into())]);
        assert_eq!(
            set(&mut root, "traffic.c.size", "1"),
            Err("no entry is named \"c\"; entries have numbers from 1 to 3 (a, b, a); did you mean \"a\"?".into())
        );
        assert!(set(&mut root, "traffic..size", "1").is_err());
        assert!(set(&mut root, "run..size", "1").is_err());
    }

    #[test]
    fn set_reaches_an_entry_by_number_or_by_a_name_of_the_caller() {
        let text = "[[link]]\nfrom = \"a\"\n[[link]]\nfrom = \"b.1\"\nqueue = { k = 1 }\n[[link]]\nname = \"1\"\n";
        let mut root = parse(text).unwrap();
        let called =
            |list: &str, number: usize, item: &Node| match item.get("from").and_then(Node::text) {
                Some(from) => vec![
                    (from.to_owned(), Names::Entry),
                    (format!("{from}+"), Names::Part(format!("a part of {list}.{number}"))),
                ],
                None => Vec::new(),
            };
        let mut set = |path: &str| {
            root.set(path, &parse_override("7", &"--set"), &called)?;
            let Value::List(entries) = &root.get("link").unwrap().value else { panic!() };
            Ok::<_, String>(entries.iter().map(Node::show).collect::<Vec<_>>().join(" "))
        };
        // A name is closer than a number.
        assert!(set("link.1.rate").unwrap().ends_with("{ name = \"1\", rate = 7 }"));
        assert!(set("link.2.queue.k").unwrap().contains("queue = { k = 7 }"));
        assert!(
            set("link.b.1.rate")
                .unwrap()
                .contains("{ from = \"b.1\", queue = { k = 7 }, rate = 7 }")
        );
        assert_eq!(set("link.a+.rate"), Err("\"a+\" is a part of link.1".into()));
        assert_eq!(
            set("link.4.rate"),
            Err("no entry is named \"4\"; entries have numbers from 1 to 3 (1, a, b.1); did you mean \"1\"?".into())
        );
        assert!(set("link.*.rate").unwrap_err().contains("no wildcard"));
    }

    #[test]
    fn overrides_are_toml_or_text() {
        assert_eq!(parse_override("10", &"--set").value, Value::Integer(10));
        assert_eq!(parse_override("10 Gbps", &"--set").value, Value::Text("10 Gbps".into()));
        assert_eq!(parse_override("\"10 Gbps\"", &"--set").value, Value::Text("10 Gbps".into()));
        assert_eq!(parse_override("true", &"--set").value, Value::Flag(true));
        assert!(matches!(parse_override("[1, 2]", &"--set").value, Value::List(_)));
        assert_eq!(parse_override("1\ny = 2", &"--set").value, Value::Text("1\ny = 2".into()));
    }

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let known = ["rate", "delay", "queue", "burst"];
        assert_eq!(did_you_mean("rat", known), "; did you mean \"rate\"?");
        assert_eq!(did_you_mean("dealy", known), "; did you mean \"delay\"?");
        assert_eq!(did_you_mean("congestion", known), "");
    }
}

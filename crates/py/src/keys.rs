//! The keys of an experiment, as the schema describes them.

use knee_file::keys::{Entry, Shape, Table};
use knee_file::{Node, Value, did_you_mean};
use knee_scenario::Experiment;
use knee_scenario::experiment::FILE;
use serde_json::{Map, Value as Json, json};

use crate::failure::Failure;

/// No table of the format lies deeper.
const DEEPEST: usize = 12;

/// The key of this path, or the keys below it, as JSON.
pub(crate) fn below(one: &Experiment, prefix: &str) -> Result<String, Failure> {
    let resolved = one.resolved()?;
    let first = resolved.values().next().and_then(Json::as_object).cloned().unwrap_or_default();
    let mut found = Found { prefix, values: first, paths: Vec::new(), keys: Vec::new() };
    found.table(FILE.root, Some(&one.root), "", 0);
    if found.keys.is_empty() {
        let near = did_you_mean(prefix, found.paths.iter().map(String::as_str));
        let shown: String = prefix.chars().take(80).collect();
        let why = format!("keys: no key begins with {shown:?}{near}");
        return Err(Failure::says(why));
    }
    Ok(Json::from(found.keys).to_string())
}

struct Found<'a> {
    prefix: &'a str,
    /// Values of the first case, by path.
    values: Map<String, Json>,
    /// Paths that were seen, for a better word.
    paths: Vec<String>,
    keys: Vec<Json>,
}

impl Found<'_> {
    /// Whether a path is the prefix or below it.
    fn is_wanted(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.prefix);
        self.prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Whether keys below a path can be wanted.
    fn leads_on(&self, path: &str) -> bool {
        let rest = self.prefix.strip_prefix(path);
        self.is_wanted(path) || rest.is_some_and(|rest| rest.starts_with('.'))
    }

    fn table(&mut self, table: &Table, node: Option<&Node>, path: &str, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        for entry in self.entries(table, node, path) {
            let path = match path {
                "" => entry.key.clone(),
                _ => format!("{path}.{}", entry.key),
            };
            self.paths.push(path.clone());
            let node = node.and_then(|node| node.get(&entry.key));
            let Some(below) = entry.below.filter(|below| !matches!((below.shape)(), Shape::Any(_)))
            else {
                self.key(&path, &entry);
                continue;
            };
            if !self.leads_on(&path) {
                continue;
            }
            let before = self.keys.len();
            match node.map(|node| &node.value) {
                // Tables of a list go by their names.
                Some(Value::List(items)) => {
                    for item in items {
                        let name = item.get("name").and_then(Node::text).unwrap_or("*");
                        self.table(below, Some(item), &format!("{path}.{name}"), depth + 1);
                    }
                }
                _ => self.table(below, node, &path, depth + 1),
            }
            if self.keys.len() == before {
                self.key(&path, &entry);
            }
        }
    }

    /// The keys of a table; where a word decides which, those of the word that is there.
    fn entries(&self, table: &Table, node: Option<&Node>, path: &str) -> Vec<Entry> {
        match (table.shape)() {
            Shape::Keys(entries) => entries,
            Shape::Any(_) => Vec::new(),
            Shape::By(key, variants) => {
                let value = self.values.get(&format!("{path}.{key}"));
                let written = node.and_then(|node| node.get(key)).and_then(Node::text);
                let word = value.and_then(Json::as_str).or(written);
                let is_it = |of: &&(&str, Vec<Entry>)| Some(of.0) == word;
                if let Some((_, entries)) = variants.iter().find(is_it) {
                    return entries.clone();
                }
                let mut all: Vec<Entry> = Vec::new();
                for entry in variants.into_iter().flat_map(|(_, entries)| entries) {
                    if !all.iter().any(|known| known.key == entry.key) {
                        all.push(entry);
                    }
                }
                all
            }
        }
    }

    fn key(&mut self, path: &str, entry: &Entry) {
        if !self.is_wanted(path) {
            return;
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.keys.push(json!({
            "name": path,
            "type": entry.value,
            "default": some(entry.default.trim_matches('`')),
            "is_needed": entry.is_needed,
            "says": entry.says,
            "value": self.values.get(path),
        }));
    }
}

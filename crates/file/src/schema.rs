//! Descriptions of keys as a JSON Schema (draft 2020-12), and as a page.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::keys::{Entry, Name, Shape, Table};

/// A table of fewer keys is written out wherever its keys are.
const FEWEST_LINKED: usize = 4;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Name of the file for `knee schema`.
    pub name: &'static str,
    pub root: &'static Table,
    /// Keys at the top below which other parts of the file may put values, so that none must be written there.
    pub filled_in: &'static [&'static str],
    /// The back ends on which a key of a table acts, where not all are.
    pub only_on: fn(&str, &str) -> String,
}

impl File {
    /// JSON Schema of the file.
    pub fn schema(&self) -> Json {
        let tables = self.tables();
        let root = table_schema(self, self.root, true);
        let mut all = Map::new();
        all.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        all.insert("title".into(), format!("knee: {}", self.root.name).into());
        all.extend(root);
        let below = tables.iter().skip(1);
        let defs: Map<String, Json> = below
            .map(|(table, is_whole)| {
                (table.name.to_owned(), Json::Object(table_schema(self, table, *is_whole)))
            })
            .collect();
        all.insert("$defs".into(), defs.into());
        Json::Object(all)
    }

    /// The tables of the file, each once, from the top down, and whether what must be written must be in the table itself.
    pub fn tables(&self) -> Vec<(&'static Table, bool)> {
        let mut found = vec![(self.root, true)];
        let mut next = 0;
        while let Some(&(table, is_whole)) = found.get(next) {
            next += 1;
            for entry in all_entries(table) {
                let is_filled_in = next == 1 && self.filled_in.contains(&entry.key.as_str());
                let Some(below) = entry.below else { continue };
                if !found.iter().any(|(known, _)| known.name == below.name) {
                    found.push((below, is_whole && !is_filled_in));
                }
            }
        }
        found
    }

    /// Section of docs/keys.md.
    pub fn page(&self) -> String {
        let tables: Vec<&Table> = self.tables().into_iter().map(|(table, _)| table).collect();
        tables.iter().map(|table| part(self, table, &tables)).collect()
    }
}

/// The keys of a table, whatever its variants.
pub fn all_entries(table: &Table) -> Vec<Entry> {
    match (table.shape)() {
        Shape::Keys(entries) => entries,
        Shape::By(_, variants) => variants.into_iter().flat_map(|(_, entries)| entries).collect(),
        Shape::Any(_) => Vec::new(),
    }
}

fn table_schema(file: &File, table: &Table, is_whole: bool) -> Map<String, Json> {
    let mut all = Map::new();
    all.insert("description".into(), table.says.trim().into());
    all.insert("type".into(), "object".into());
    let describe = |entry: &Entry| description(entry, &(file.only_on)(table.name, &entry.key));
    match (table.shape)() {
        Shape::Keys(entries) => all.extend(object(&entries, None, is_whole, &describe)),
        Shape::By(key, variants) => {
            let variants = variants.iter().map(|(word, entries)| {
                Json::Object(object(entries, Some((key, word)), is_whole, &describe))
            });
            all.insert("anyOf".into(), variants.collect());
        }
        Shape::Any(_) => {}
    }
    all
}

/// `by` is the key whose word decides, and the word.
fn object(
    entries: &[Entry],
    by: Option<(&str, &str)>,
    is_whole: bool,
    describe: &dyn Fn(&Entry) -> String,
) -> Map<String, Json> {
    let property = |entry: &Entry| {
        let mut schema = match (&entry.schema, by) {
            (_, Some((key, word))) if key == entry.key => {
                Map::from_iter([("const".into(), word.into())])
            }
            (Json::Object(schema), _) => schema.clone(),
            _ => Map::new(),
        };
        schema.insert("description".into(), describe(entry).into());
        (entry.key.clone(), Json::Object(schema))
    };
    let mut all = Map::new();
    if let Some((_, word)) = by {
        all.insert("title".into(), word.into());
    }
    all.insert("properties".into(), entries.iter().map(property).collect());
    let needed: Vec<&str> =
        entries.iter().filter(|entry| entry.is_needed).map(|entry| entry.key.as_str()).collect();
    if is_whole && !needed.is_empty() {
        all.insert("required".into(), json!(needed));
    }
    all.insert("additionalProperties".into(), false.into());
    all
}

fn description(entry: &Entry, only_on: &str) -> String {
    let mut words = entry.says.clone();
    if !entry.default.is_empty() {
        let _ = write!(words, " Default: {}.", entry.default.replace('`', ""));
    }
    if !only_on.is_empty() {
        let _ = write!(words, " Only on: {only_on}.");
    }
    words
}

/// A table of the page. `tables` are all of the page: keys that another table describes are a link to it.
fn part(file: &File, table: &Table, tables: &[&Table]) -> String {
    let mut out = format!("\n## {}\n\n{}\n", table.name, table.says.trim());
    let rows = match (table.shape)() {
        Shape::Any(what) => {
            let _ = writeln!(out, "Keys are {what}.");
            return out;
        }
        Shape::Keys(entries) => {
            let (own, links) = without_linked(entries, tables);
            out.push_str(&links);
            own.into_iter().map(|entry| (entry, String::new())).collect()
        }
        Shape::By(key, variants) => {
            let _ = writeln!(out, "Its keys depend on `{key}`.");
            by_word(variants)
        }
    };
    out.push_str("\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for (entry, whose) in rows {
        let default = if entry.is_needed { "required" } else { &entry.default };
        let only_on = match (file.only_on)(table.name, &entry.key) {
            all if all.is_empty() => all,
            back_ends => format!(" Only on {back_ends}."),
        };
        let Entry { key, says, .. } = &entry;
        let value = entry.value.replace("whole number from", "integer");
        let value = value.replace(&Name::words('`'), "name");
        let _ = writeln!(out, "| `{key}` | {value} | {default} | {whose}{says}{only_on} |");
    }
    out
}

/// Entries without those that a smaller table describes in the same words, and a sentence that links to each such table.
fn without_linked(mut entries: Vec<Entry>, tables: &[&Table]) -> (Vec<Entry>, String) {
    let mut links = String::new();
    for other in tables {
        let Shape::Keys(others) = (other.shape)() else { continue };
        let is_in = |entry: &Entry, all: &[Entry]| {
            all.iter().any(|it| (&it.key, &it.says) == (&entry.key, &entry.says))
        };
        let is_part = others.iter().all(|entry| is_in(entry, &entries));
        if others.len() < FEWEST_LINKED || others.len() >= entries.len() || !is_part {
            continue;
        }
        let (linked, own): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| is_in(entry, &others));
        entries = own;
        let default = &linked[0].default;
        let differ = others.iter().any(|entry| entry.default != *default);
        let defaults = match differ && linked.iter().all(|entry| entry.default == *default) {
            true => format!(", by default {default}"),
            false => String::new(),
        };
        let _ = writeln!(links, "It has all keys of [{0}](#{0}){defaults}, and:", other.name);
    }
    (entries, links)
}

/// Keys of variants, those of all first, the others with whose they are.
fn by_word(variants: Vec<(&'static str, Vec<Entry>)>) -> Vec<(Entry, String)> {
    let all: Vec<&str> = variants.iter().map(|(word, _)| *word).collect();
    let mut found: Vec<(Entry, Vec<&str>)> = Vec::new();
    for (word, entries) in variants {
        for entry in entries {
            let is_same = |(other, _): &&mut (Entry, Vec<&str>)| {
                (&other.key, &other.says, &other.default)
                    == (&entry.key, &entry.says, &entry.default)
            };
            match found.iter_mut().find(is_same) {
                Some((_, words)) => words.push(word),
                None => found.push((entry, vec![word])),
            }
        }
    }
    let whose = |of: &[&str]| {
        let not: Vec<&str> = all.iter().copied().filter(|word| !of.contains(word)).collect();
        match not.len() {
            0 => String::new(),
            few if few < of.len() => format!("not {}: ", not.join(", ")),
            _ => format!("{}: ", of.join(", ")),
        }
    };
    let mut rows: Vec<_> =
        found.into_iter().map(|(entry, of)| (entry, whose(of.as_slice()))).collect();
    rows.sort_by_key(|(_, whose)| !whose.is_empty());
    rows
}

//! Settings of a file that differ from their defaults, as the list of keys has them.

use knee_file::keys::{Entry, Shape, Table};
use knee_file::{Node, Value, units};
use knee_scenario::experiment::FILE;

/// Tables and keys that are no settings: `knee explain` describes them elsewhere.
const ELSEWHERE: [&str; 11] = [
    "question",
    "expect",
    "source",
    "notes",
    "published",
    "claim",
    "quick",
    "chart",
    "case",
    "cc",
    "vary",
];

/// Keys with their values, by the path of their table or entry of a list.
pub(crate) type Groups = Vec<(String, Vec<(String, String)>)>;

/// Returns every key whose value is not its default.
pub(crate) fn settings(root: &Node) -> Groups {
    let mut groups = Groups::new();
    let entries = entries_of(FILE.root, root);
    let tables = root.table().into_iter().flatten();
    for (key, node) in tables.filter(|(key, _)| !ELSEWHERE.contains(&key.as_str())) {
        let below = entries.iter().find(|entry| entry.key == *key).and_then(|entry| entry.below);
        each_table(key, node, &mut |path, node| table(path, node, below, &mut groups));
    }
    groups
}

/// Calls `with` for a table, or for each of a list of tables, with its path.
fn each_table<'a>(path: &str, node: &'a Node, with: &mut dyn FnMut(&str, &'a Node)) {
    match &node.value {
        Value::List(items) => {
            for (item, number) in items.iter().zip(1..) {
                let name = item.get("name").and_then(Node::text);
                let name = name.map_or_else(|| number.to_string(), str::to_owned);
                with(&format!("{path}.{name}"), item);
            }
        }
        _ => with(path, node),
    }
}

/// Adds the keys of a table at the top, or of an entry of a list, to the groups. Tables of a network are groups of their own.
fn table(path: &str, node: &Node, of: Option<&'static Table>, groups: &mut Groups) {
    let entries = of.map(|of| entries_of(of, node)).unwrap_or_default();
    let mut keys = Vec::new();
    let at = groups.len();
    for (key, node) in node.table().into_iter().flatten() {
        let entry = entries.iter().find(|entry| entry.key == *key);
        let below = entry.and_then(|entry| entry.below);
        match path == "network" && has_tables(node) {
            true => each_table(&format!("{path}.{key}"), node, &mut |path, node| {
                table(path, node, below, groups);
            }),
            false => leaves(key, node, entry, &mut keys),
        }
    }
    keys.retain(|(key, _)| key != "name");
    if !keys.is_empty() {
        groups.insert(at, (path.to_owned(), keys));
    }
}

/// Adds a key, or the keys below it, if they differ from their defaults.
fn leaves(path: &str, node: &Node, entry: Option<&Entry>, keys: &mut Vec<(String, String)>) {
    if !has_tables(node) {
        if !entry.is_some_and(|entry| is_default(entry, node)) {
            keys.push((path.to_owned(), node.label()));
        }
        return;
    }
    let below = entry.and_then(|entry| entry.below);
    each_table(path, node, &mut |path, node| {
        let entries = below.map(|below| entries_of(below, node)).unwrap_or_default();
        for (key, node) in node.table().into_iter().flatten() {
            let entry = entries.iter().find(|entry| entry.key == *key);
            leaves(&format!("{path}.{key}"), node, entry, keys);
        }
    });
}

fn has_tables(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::List(items) => items.iter().any(|item| item.table().is_some()),
        _ => false,
    }
}

/// Returns the keys of a table, those of its word if they depend on one.
fn entries_of(table: &Table, node: &Node) -> Vec<Entry> {
    match (table.shape)() {
        Shape::Keys(entries) => entries,
        Shape::By(key, variants) => {
            let word = node.get(key).and_then(Node::text);
            let of_word = variants.iter().position(|(name, _)| word == Some(name));
            match of_word {
                Some(at) => {
                    variants.into_iter().nth(at).map(|(_, entries)| entries).unwrap_or_default()
                }
                None => variants.into_iter().flat_map(|(_, entries)| entries).collect(),
            }
        }
        Shape::Any(_) => Vec::new(),
    }
}

/// Returns whether a value is the default. Quantities are equal in any unit.
fn is_default(entry: &Entry, node: &Node) -> bool {
    let Some(default) = entry.default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'))
    else {
        return false;
    };
    let label = node.label();
    let number = |text: &str| units::as_column(&[text]);
    label == default || number(default).is_some_and(|of_default| number(&label) == Some(of_default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_differs_is_there_wherever_it_is_set() {
        let text = r#"
            question = "?"
            cc = ["cubic"]
            [network]
            topology = "leaf-spine"
            leaves = 2
            hosts_per_leaf = 3
            up = { rate = "1 Gbps", delay = "0 us" }
            down = { rate = "1 Gbps", queue = { kind = "step", limit = "9 pkts", k = "2 pkts" } }
            [[network.change]]
            links = "leaf0-spine0"
            at = "1 ms"
            down = true
            [hosts]
            rto_min = "0.2 s"
            tcp_ecn = 1
            [[host]]
            hosts = "h0.0..h0.1"
            rto_min = "5 ms"
            [[traffic]]
            name = "a"
            kind = "bulk"
            start = "0 ms"
            params = { x = 3 }
            flows = 2
            [module]
            define = ["A=1"]
            [run]
            duration = "1 s"
            until_done = false
        "#;
        let root = knee_file::parse(std::path::Path::new("x.toml"), text).unwrap();
        let lines: Vec<String> = settings(&root)
            .into_iter()
            .map(|(path, keys)| {
                let keys: Vec<String> =
                    keys.into_iter().map(|(key, value)| format!("{key} {value}")).collect();
                format!("{path}: {}", keys.join(", "))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "network: topology leaf-spine, hosts_per_leaf 3",
                "network.up: rate 1 Gbps",
                "network.down: rate 1 Gbps, queue.kind step, queue.limit 9 pkts, queue.k 2 pkts",
                "network.change.1: links leaf0-spine0, at 1 ms, down true",
                "hosts: tcp_ecn 1",
                "host.1: hosts h0.0..h0.1, rto_min 5 ms",
                "traffic.a: kind bulk, params.x 3, flows 2",
                "module: define [\"A=1\"]",
                "run: duration 1 s",
            ]
        );
    }
}

//! Paths of keys that cases, `[vary]` and `--set` change.

use knee_file::{Names, Node, Value};

use crate::names::expand_all;

/// Puts a value at a path. An entry of a list has its `name`, its number, and the name of its host, switch or link in
/// results.
pub(crate) fn set(root: &mut Node, path: &str, value: &Node) -> Result<(), String> {
    root.set(path, value, &called)
}

/// Returns the names of what an entry is about.
fn called(list: &str, number: usize, entry: &Node) -> Vec<(String, Names)> {
    let place = format!("{list}.{number}");
    if list == "network.link" {
        return links(&place, entry);
    }
    let Some(texts) = ["hosts", "links", "switches"].iter().find_map(|key| texts(entry.get(key)?))
    else {
        return Vec::new();
    };
    let all = expand_all(&texts).unwrap_or_default();
    let part = |name: String| {
        let count = all.len();
        (
            name,
            Names::Part(format!(
                "one of {count} of {place}: set {place}, or give it an entry of its own"
            )),
        )
    };
    let mut names = match texts.as_slice() {
        [text] => vec![((*text).to_owned(), Names::Entry)],
        _ => Vec::new(),
    };
    if all.len() > 1 {
        names.extend(all.iter().cloned().map(part));
    }
    names
}

/// Returns the names of the links of a graph's entry.
fn links(place: &str, entry: &Node) -> Vec<(String, Names)> {
    let ends = |key: &str| {
        let texts = texts(entry.get(key)?)?;
        Some((texts.join(","), expand_all(&texts).ok()?))
    };
    let Some(((from, all_from), (to, all_to))) = ends("from").zip(ends("to")) else {
        return Vec::new();
    };
    let flag =
        |key: &str| matches!(entry.get(key).map(|node| &node.value), Some(Value::Flag(true)));
    let mut names = vec![(format!("{from}-{to}"), Names::Entry)];
    let is_product = flag("mesh") || all_from.len() == 1 || all_to.len() == 1;
    let pairs: Vec<(&String, &String)> = match is_product {
        true => all_from
            .iter()
            .flat_map(|a| all_to.iter().map(move |b| (a, b)))
            .take(MOST_NAMED)
            .collect(),
        false => all_from.iter().zip(&all_to).collect(),
    };
    let own = "give it an entry of its own";
    for (a, b) in &pairs {
        if pairs.len() > 1 {
            let what = format!("one of several links of {place}: set {place}, or {own}");
            names.push((format!("{a}-{b}"), Names::Part(what)));
        }
        if !flag("oneway") {
            let what =
                format!("the way back of {place}: set {place}.back, or {place} for both ways");
            names.push((format!("{b}-{a}"), Names::Part(what)));
        }
    }
    names
}

/// Bound on the links of one entry that have names here. A larger mesh is reached by its number.
const MOST_NAMED: usize = 100_000;

/// Returns a text, or the texts of a list.
fn texts(node: &Node) -> Option<Vec<&str>> {
    match &node.value {
        Value::Text(text) => Some(vec![text]),
        Value::List(items) => items.iter().map(Node::text).collect(),
        _ => None,
    }
}

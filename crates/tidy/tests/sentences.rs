//! What a user reads of the command itself: help, descriptions of keys, messages, and questions and claims of experiments are short
//! sentences in the field's words.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of this is test code")]

mod plain;

use std::fs;
use std::path::{Path, PathBuf};

use plain::breaches;
use serde_json::Value as Json;

/// Crates whose literals are messages for users.
const MESSAGES: &[&str] = &[
    "cli", "evidence", "lab", "linux", "pcap", "report", "results", "run", "scenario", "script",
    "sweep",
];

/// Words that messages and descriptions avoid besides those of pages, and the plain ones.
const WORDS: &[(&str, &str)] = &[
    ("stands beside", "conflicts with"),
    ("has no meaning beside", "conflicts with"),
    ("has no effect without", "needs"),
    ("are told", "pass, or leave it out"),
    ("is told", "passes, or leave it out"),
    ("in place of", "instead of"),
    ("carried out", "run"),
    ("built in", "built-in"),
    ("of whoever", "name the actor"),
    ("it was just", "say what is wrong"),
    ("cables", "links"),
    ("left alone", "say what happens"),
    ("from elsewhere", "in another terminal"),
    ("for want of", "because ... is missing"),
    ("may be given often", "repeat it for more"),
    ("no way from", "no path from"),
    ("under way", "in flight, or open"),
    ("come about", "is established"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder whose names end so, with their text, in order.
fn files(dir: &Path, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no *.{extension} in {}", dir.display());
    found.sort();
    found
}

/// What is wrong with a text.
fn wrong(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let ours = WORDS.iter().filter(|(ours, _)| lower.contains(ours));
    let mut wrong: Vec<_> = ours.map(|(ours, plain)| format!("\"{ours}\": {plain}")).collect();
    wrong.extend(breaches(text));
    wrong
}

fn assert_plain(texts: impl Iterator<Item = (String, String)>, fewest: usize) {
    let mut count = 0;
    let mut all = Vec::new();
    for (place, text) in texts {
        count += 1;
        all.extend(wrong(&text).into_iter().map(|why| format!("{place}: {why}\n    {text}")));
    }
    assert!(count >= fewest, "only {count} texts: are they still found?");
    assert!(all.is_empty(), "say it in plainer words:\n  {}", all.join("\n  "));
}

/// The comments that clap shows as help: those in types that derive one of its traits.
fn helps(source: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let (mut is_clap, mut depth) = (false, 0_usize);
    for line in source.lines() {
        let line = line.trim();
        if let Some(derived) = line.strip_prefix("#[derive(") {
            let traits = ["Args", "Parser", "Subcommand", "ValueEnum"];
            is_clap = traits.iter().any(|it| derived.contains(it));
        }
        match line.strip_prefix("/// ") {
            Some(words) if is_clap && depth > 0 => {
                let last = found.last_mut().unwrap();
                last.push_str(words);
                last.push(' ');
            }
            _ => {
                depth += line.matches('{').count();
                depth = depth.saturating_sub(line.matches('}').count());
                is_clap &= depth > 0 || !line.ends_with('}');
                found.push(String::new());
            }
        }
    }
    found.retain(|text| !text.is_empty());
    found
}

/// String literals of a source, without tests and comments.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(inside) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let ends = |c: char| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            };
            let end = inside.find(ends).unwrap_or(inside.len());
            found.push(shown(&inside[..end]));
            rest = inside.get(end + 1..).unwrap_or_default();
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest = &rest[3..];
        } else {
            rest = &rest[1..];
        }
    }
    found
}

/// A literal as a reader sees it: continued lines joined, no tags of HTML, a value as one word; each line is a sentence.
fn shown(literal: &str) -> String {
    let mut joined = String::new();
    for (at, line) in literal.split("\\\n").enumerate() {
        joined.push_str(if at == 0 { line } else { line.trim_start() });
    }
    let lines = joined.replace("\\n", ". ").replace('\n', ". ").replace("\\\"", "\"");
    let (mut text, mut until) = (String::new(), None);
    let mut chars = lines.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, until) {
            (_, Some(end)) if c == end => until = None,
            (_, Some(_)) => {}
            ('<', None) if chars.peek().is_some_and(|c| c.is_alphabetic() || "/!".contains(*c)) => {
                text.push_str(". ");
                until = Some('>');
            }
            ('{', None) => {
                text.push('x');
                until = Some('}');
            }
            (_, None) => text.push(c),
        }
    }
    text
}

/// What an experiment asks and claims: values of these keys, on one line or on several.
fn said_by_experiment(toml: &str) -> Vec<String> {
    let keys = ["question", "expect", "says", "because", "cannot"];
    let mut found = Vec::new();
    let mut rest = toml;
    while let Some((line, after)) = rest.split_once('\n') {
        let value = keys.iter().find_map(|key| line.strip_prefix(key)?.strip_prefix(" = "));
        rest = after;
        let Some(value) = value else { continue };
        match value.strip_prefix("\"\"\"") {
            Some(first) => {
                let (more, after) = match first.split_once("\"\"\"") {
                    Some(_) => ("", rest),
                    None => rest.split_once("\"\"\"").expect("a text ends"),
                };
                found.push(format!("{first} {more}").replace(" \\\n", " ").replace('\n', " "));
                rest = after;
            }
            None => found.push(value.trim_matches('"').replace("\\\"", "\"")),
        }
    }
    found
}

#[test]
fn questions_and_claims_are_read_once() {
    let experiments = files(&root().join("scenarios"), "toml").into_iter();
    let texts = experiments.flat_map(|(name, text)| {
        said_by_experiment(&text)
            .into_iter()
            .map(move |said| (name.clone(), said))
            .collect::<Vec<_>>()
    });
    assert_plain(texts, 400);
}

#[test]
fn help_is_read_once() {
    let sources = files(&root().join("crates/cli/src"), "rs").into_iter();
    let texts = sources.flat_map(|(name, source)| {
        helps(&source).into_iter().map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    });
    assert_plain(texts, 150);
}

#[test]
fn messages_are_read_once() {
    let crates = MESSAGES.iter().map(|name| root().join("crates").join(name).join("src"));
    let sources = crates.flat_map(|dir| files(&dir, "rs"));
    let sources = sources.filter(|(name, _)| !name.ends_with("/tests.rs"));
    let texts = sources.flat_map(|(name, source)| {
        let messages = literals(&source).into_iter().filter(|text| text.contains(' '));
        messages.map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    });
    assert_plain(texts, 1000);
}

/// The schemas hold what the code says of its keys: a test of `knee schema` keeps them so.
#[test]
fn descriptions_of_keys_are_read_once() {
    fn descriptions(json: &Json, found: &mut Vec<String>) {
        match json {
            Json::Object(all) => {
                found.extend(all.get("description").and_then(Json::as_str).map(str::to_owned));
                all.values().for_each(|value| descriptions(value, found));
            }
            Json::Array(all) => all.iter().for_each(|value| descriptions(value, found)),
            _ => {}
        }
    }
    let schemas = files(&root().join("docs/schema"), "json").into_iter();
    let texts = schemas.flat_map(|(name, text)| {
        let mut found = Vec::new();
        descriptions(&serde_json::from_str(&text).unwrap(), &mut found);
        found.into_iter().map(move |text| (name.clone(), text)).collect::<Vec<_>>()
    });
    assert_plain(texts, 300);
}

#[test]
fn hard_sentences_are_found() {
    let help = "#[derive(clap::Args)]\nstruct Args {\n    /// In place of\n    /// the file's.\n    seed: u64,\n}\n/// Not help, beside.\nfn f() {}\n";
    assert_eq!(helps(help), ["In place of the file's. "]);
    assert_eq!(wrong(&helps(help)[0]).len(), 1);
    let source = "// \"not this\"\nlet c = '\"'; f(\"<b>one</b> \\\"two\\\" \\\n   three {x}\");";
    assert_eq!(literals(source), [". one.  \"two\" three x"]);
    let toml = "question = \"Why?\"\nsays = \"\"\"\nIn \\\nplace of.\"\"\"\nname = \"x\"\n";
    assert_eq!(said_by_experiment(toml), ["Why?", " In place of."]);
    let long = format!("{} end.", "word ".repeat(30));
    assert_eq!(wrong(&long).len(), 1);
    assert!(wrong("Runs per row, each with its own seed.").is_empty());
}

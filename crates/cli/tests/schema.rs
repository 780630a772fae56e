//! `knee schema` knows every key, and no other: it is held to the files that are here, to the reader, and to what messages name.
#![cfg(feature = "kernel")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use knee_file::schema::{File, all_entries};
use knee_file::units::{Quantity as _, Size};
use knee_scenario::{Experiment, Overrides};
use serde_json::Value as Json;

const KINDS: [File; 3] =
    [knee_scenario::experiment::FILE, knee_lab::hosts::FILE, knee_bpf::policy::FILE];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn said(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_knee")).arg("schema").args(args).output();
    let out = out.expect("knee starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("it is text")
}

/// TOML files below a folder.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => all.push(path),
            }
        }
    }
    all.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    all.retain(|path| !path.ends_with("catalogue.toml"));
    all.sort();
    all
}

/// Every experiment of the repository.
fn experiments() -> Vec<(PathBuf, String)> {
    let folders = ["scenarios", "tests/lab", "tests/kernel-modules", "tests/pcap"];
    let paths = folders.into_iter().flat_map(files);
    paths.map(|path| (path.clone(), fs::read_to_string(path).expect("a file"))).collect()
}

fn as_json(text: &str) -> Json {
    knee_file::parse(Path::new("x.toml"), text).expect("TOML").json()
}

// ---- a validator of what the schemas use ----

fn refused(schema: &Json, whole: &Json, value: &Json, at: &str) -> Option<String> {
    let schema = match schema["$ref"].as_str() {
        Some(path) => whole.pointer(path.trim_start_matches('#')).expect("it is defined"),
        None => schema,
    };
    let no = |why: &str| Some(format!("{at}: {why}: {value}"));
    let types: Vec<&str> = match &schema["type"] {
        Json::Array(types) => types.iter().filter_map(Json::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("{other} is not known to this test"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return no(&format!("is no {types:?}"));
    }
    let bound = |key: &str| schema[key].as_i64().zip(value.as_i64());
    if bound("minimum").is_some_and(|(least, value)| value < least)
        || bound("maximum").is_some_and(|(most, value)| value > most)
    {
        return no("is out of bounds");
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return no("is none of the words");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return no("is another word");
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str()) {
        if !matches(pattern, text) {
            return no(&format!("is not like {pattern}"));
        }
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let why: Option<Vec<String>> =
            any.iter().map(|schema| refused(schema, whole, value, at)).collect();
        if let Some(why) = why {
            return Some(why.join("\n"));
        }
    }
    if let Some(items) = value.as_array() {
        if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
            return no("is empty");
        }
        let schema = schema.get("items")?;
        return items.iter().find_map(|item| refused(schema, whole, item, at));
    }
    let (Some(table), Some(known)) = (value.as_object(), schema["properties"].as_object()) else {
        return None;
    };
    let needed = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let missing = needed.into_iter().find(|key| !table.contains_key(*key));
    if let Some(missing) = missing {
        return no(&format!("has no {missing}"));
    }
    table.iter().find_map(|(key, value)| match known.get(key) {
        Some(schema) => refused(schema, whole, value, &format!("{at}.{key}")),
        None if schema["additionalProperties"] == false => {
            Some(format!("{at}.{key}: is no property"))
        }
        None => None,
    })
}

/// Whether a text is like a pattern of the kinds that there are: alternatives at the top, anchored, of pieces that are classes, groups of
/// words or letters, each with `?`, `*`, `+` or a count.
fn matches(pattern: &str, text: &str) -> bool {
    alternatives(pattern).iter().any(|one| {
        let one = one.strip_prefix('^').and_then(|one| one.strip_suffix('$'));
        let one = one.unwrap_or_else(|| panic!("{pattern} is not anchored"));
        match one.strip_prefix('(').and_then(|group| group.strip_suffix(')')) {
            Some(group) if !group.contains(['(', ')']) => {
                alternatives(group).iter().any(|one| ends(one, text).contains(&""))
            }
            _ => ends(one, text).contains(&""),
        }
    })
}

/// Splits at `|` outside of brackets.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all) = (0, 0, Vec::new());
    for (at, c) in pattern.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' if depth == 0 => {
                all.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&pattern[from..]);
    all
}

/// What may be left of a text behind a sequence of pieces.
fn ends<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
    let Some(first) = pattern.chars().next() else { return vec![text] };
    let length = match first {
        '[' => pattern.find(']').expect("a class ends") + 1,
        '(' => closing(pattern) + 1,
        _ => first.len_utf8(),
    };
    let (piece, rest) = pattern.split_at(length);
    let (least, most, rest) = match rest.chars().next() {
        Some('?') => (0, 1, &rest[1..]),
        Some('*') => (0, usize::MAX, &rest[1..]),
        Some('+') => (1, usize::MAX, &rest[1..]),
        Some('{') => {
            let end = rest.find('}').expect("a count ends");
            let (least, most) = rest[1..end].split_once(',').expect("two numbers");
            (least.parse().expect("a number"), most.parse().expect("a number"), &rest[end + 1..])
        }
        _ => (1, 1, rest),
    };
    let once = |text: &'t str| -> Vec<&'t str> {
        let mut chars = text.chars();
        let c = chars.next();
        match piece.strip_prefix('[').and_then(|class| class.strip_suffix(']')) {
            Some(class) => {
                c.filter(|c| is_in(class, *c)).map(|_| chars.as_str()).into_iter().collect()
            }
            None if piece.starts_with('(') => {
                let inner = &piece[1..piece.len() - 1];
                alternatives(inner).iter().flat_map(|one| ends(one, text)).collect()
            }
            None if piece == "." => c.map(|_| chars.as_str()).into_iter().collect(),
            None => text.strip_prefix(piece).into_iter().collect(),
        }
    };
    let mut reached = vec![text];
    let mut all: Vec<&str> = Vec::new();
    let mut times = 0;
    while !reached.is_empty() && times <= most {
        if times >= least {
            all.extend(reached.iter().flat_map(|text| ends(rest, text)));
        }
        reached = reached.iter().flat_map(|text| once(text)).collect();
        times += 1;
    }
    all
}

fn closing(pattern: &str) -> usize {
    let mut depth = 0;
    for (at, c) in pattern.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return at;
        }
    }
    panic!("{pattern} does not end")
}

fn is_in(class: &str, c: char) -> bool {
    let chars: Vec<char> = class.chars().collect();
    let ranges = chars.windows(3).filter(|three| three[1] == '-');
    chars.contains(&c) || ranges.into_iter().any(|three| (three[0]..=three[2]).contains(&c))
}

// ---- what is held ----

#[test]
fn page_and_schemas_are_those_that_are_here() {
    let mut pages = vec![
        ("docs/keys.md".to_owned(), said(&["--page"])),
        ("docs/support.md".to_owned(), said(&["--support"])),
    ];
    for kind in KINDS {
        pages.push((format!("docs/schema/{}.json", kind.name), said(&[kind.name])));
    }
    for (path, now) in pages {
        let here = fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(here == now, "{path} is not what knee schema says: make bless");
    }
}

#[test]
fn every_experiment_here_is_as_its_schema_says() {
    let schema = KINDS[0].schema();
    for (path, text) in experiments() {
        let why = refused(&schema, &schema, &as_json(&text), "");
        assert_eq!(why, None, "{}", path.display());
    }
}

#[test]
fn machines_and_policies_of_the_documentation_are_as_their_schemas_say() {
    for (kind, page) in [(&KINDS[1], "docs/hosts.md"), (&KINDS[2], "docs/policy.md")] {
        let page = fs::read_to_string(root().join(page)).expect("a page");
        let schema = kind.schema();
        let examples: Vec<&str> = page.split("```toml\n").skip(1).collect();
        assert!(!examples.is_empty());
        for example in examples {
            let text = example.split("```").next().expect("it ends");
            assert_eq!(refused(&schema, &schema, &as_json(text), ""), None);
            let unknown = text.replacen("\n[[", "\nzz = 1\n[[", 2);
            let why = refused(&schema, &schema, &as_json(&unknown), "");
            assert!(why.is_some_and(|why| why.contains("zz: is no property")), "{unknown}");
        }
    }
}

/// A key that is none, put into each table of each file: the reader refuses it where the schema does, and the other way round.
#[test]
fn no_table_takes_a_key_that_it_has_not() {
    let schema = KINDS[0].schema();
    let mut refusals = 0;
    for (path, text) in experiments() {
        let mut places: Vec<(usize, &str)> =
            text.match_indices("{ ").map(|(at, _)| (at + 2, "zz = 1, ")).collect();
        places.push((0, "zz = 1\n"));
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            at += line.len();
            if line.starts_with('[') {
                places.push((at, "zz = 1\n"));
            }
        }
        for (at, key) in places {
            let with = format!("{}{key}{}", &text[..at], &text[at..]);
            let Ok(tree) = knee_file::parse(&path, &with) else { continue };
            let read = Experiment::parse(&path, &with, &Overrides::default());
            let is_unknown = read.as_ref().err().is_some_and(|why| {
                let why = why.to_string();
                why.contains("zz: unknown key")
            });
            let tree = tree.json();
            let way = way_to("zz", &tree).unwrap_or_default();
            // What takes the place of a value elsewhere has any keys for the schema, and the reader never sees what it replaces.
            if way.iter().any(|key| ["set", "vary"].contains(key)) || is_replaced(&way, &tree) {
                continue;
            }
            let why = refused(&schema, &schema, &tree, "");
            assert_eq!(
                is_unknown,
                why.is_some(),
                "{} at {at}: {:?}, {why:?}",
                path.display(),
                read.err().map(|why| why.to_string())
            );
            refusals += usize::from(is_unknown);
        }
    }
    assert!(refusals > 500, "{refusals}");
}

/// The keys on the way to one of this name.
fn way_to<'a>(key: &str, value: &'a Json) -> Option<Vec<&'a str>> {
    match value {
        Json::Object(table) => table.iter().find_map(|(name, below)| {
            let way = if name == key { Some(Vec::new()) } else { way_to(key, below) };
            way.map(|way| [&[name.as_str()], way.as_slice()].concat())
        }),
        Json::Array(items) => items.iter().find_map(|item| way_to(key, item)),
        _ => None,
    }
}

/// Whether a case or a varied value puts something in the place of what is on this way.
fn is_replaced(way: &[&str], file: &Json) -> bool {
    let cases = file["case"].as_array().into_iter().flatten().map(|case| &case["set"]);
    let tables = cases.chain([&file["vary"], &file["quick"]["set"]]).filter_map(Json::as_object);
    let way = way.join(".");
    tables.flat_map(|table| table.keys()).any(|path| way.starts_with(&format!("{path}.")))
}

#[test]
fn no_table_describes_a_key_twice() {
    for kind in KINDS {
        for (table, _) in kind.tables() {
            let variants: Vec<Vec<_>> = match (table.shape)() {
                knee_file::keys::Shape::Keys(entries) => vec![entries],
                knee_file::keys::Shape::By(_, variants) => {
                    variants.into_iter().map(|(_, entries)| entries).collect()
                }
                knee_file::keys::Shape::Any(_) => Vec::new(),
            };
            for entries in variants {
                let names: BTreeSet<&str> =
                    entries.iter().map(|entry| entry.key.as_str()).collect();
                assert_eq!(names.len(), entries.len(), "{}", table.name);
                for entry in &entries {
                    assert!(!entry.says.is_empty(), "{}.{}", table.name, entry.key);
                }
            }
        }
    }
}

/// Keys that string literals of the sources name, as `key = value` and as paths.
#[test]
fn every_key_that_a_message_names_exists() {
    let known: BTreeSet<String> = KINDS
        .iter()
        .flat_map(|kind| kind.tables())
        .flat_map(|(table, _)| all_entries(table))
        .map(|entry| entry.key)
        .collect();
    let (mut named, mut unknown) = (0, Vec::new());
    for folder in [
        "scenario",
        "sweep",
        "evidence",
        "run",
        "sim",
        "linux",
        "lab",
        "vkernel",
        "queue",
        "file",
        "bpf/src/policy",
    ] {
        let folder = if folder.contains('/') { folder.to_owned() } else { format!("{folder}/src") };
        for (path, text) in sources(&root().join("crates").join(folder)) {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let literals = literals(text);
            let in_words = literals.iter().flat_map(|literal| keys_in(literal));
            for key in in_words.chain(keys_asked_for(text)) {
                named += 1;
                if !known.contains(key) {
                    unknown.push(format!("{}: {key}", path.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "no keys, but named as such: {unknown:#?}");
    assert!(named > 60, "{named}");
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            all.push((path, text));
        }
    }
    all
}

/// String literals of a source, without those of comments.
fn literals(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut literal: Option<String> = None;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, &mut literal) {
                // Of a line's end a space is left.
                ('\\', Some(literal)) => {
                    literal.extend(chars.next().map(|c| if c == 'n' { ' ' } else { c }))
                }
                ('"', Some(_)) => all.extend(literal.take()),
                ('"', None) => literal = Some(String::new()),
                ('\'', None) if chars.peek() == Some(&'"') => drop(chars.next()),
                (c, Some(literal)) => literal.push(c),
                _ => {}
            }
        }
        all.extend(literal);
    }
    all
}

/// Keys that are asked of a reader by a name in quotes.
fn keys_asked_for(text: &str) -> impl Iterator<Item = &str> {
    let calls = [".error(\"", ".has(\"", ".child(\"", ".children(\"", ".need_child(\""];
    let names = calls.into_iter().flat_map(|call| text.split(call).skip(1));
    let names = names.map(|rest| rest.split('"').next().unwrap_or_default());
    names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

fn keys_in(literal: &str) -> Vec<&str> {
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut all = Vec::new();
    for (at, _) in literal.match_indices(" = ") {
        let value = &literal[at + 3..];
        let is_value = value.starts_with(['"', '[', '{']) && !value.starts_with("{}")
            || value.starts_with(|c: char| c.is_ascii_digit())
            || value.starts_with("true")
            || value.starts_with("false");
        let key = literal[..at].rsplit(|c| !is_key(c)).next().unwrap_or_default();
        if is_value && !key.is_empty() {
            all.push(key);
        }
    }
    for table in ["network.", "hosts.", "traffic.", "run.", "sample."] {
        for (at, _) in literal.match_indices(table) {
            let before = literal[..at].chars().next_back();
            let path = &literal[at + table.len()..];
            let path = &path[..path
                .find(|c: char| !is_key(c) && !c.is_ascii_digit() && c != '.')
                .unwrap_or(path.len())];
            if !before.is_some_and(|c| is_key(c) || c == '.' || c == '/') {
                // The name of an entry comes first.
                let names = usize::from(table == "traffic.");
                let keys = path.split('.').skip(names).filter(|key| !key.is_empty());
                // Files of results are called so, too.
                all.extend(keys.filter(|key| *key != "csv"));
            }
        }
    }
    all
}

#[test]
fn refusals_are_of_each_kind() {
    let schema = KINDS[0].schema();
    let good = r#"
[network]
topology = "star"
up = { rate = "1 Gbps" }
down = { rate = "1 Gbps", queue = { kind = "step", limit = "500 pkts", k = "20 pkts" } }
[[traffic]]
name = "a"
kind = "bulk"
from = "h1"
to = "h2"
[run]
duration = "1 s"
"#;
    let why = |text: &str| refused(&schema, &schema, &as_json(text), "");
    assert_eq!(why(good), None);
    for (find, put, expected) in [
        ("\"1 Gbps\" }", "\"1 gbps\" }", "is not like"),
        ("topology = \"star\"", "topology = \"ring\"", "is another word"),
        ("name = \"a\"", "name = 7", "is no [\"string\"]"),
        ("from = \"h1\"", "from = []", "is empty"),
        ("duration = \"1 s\"", "duration = \"1 s\"\nrepeat = 0", "is out of bounds"),
        ("[run]", "[runs]", "runs"),
        ("k = \"20 pkts\"", "k = \"20 pkts\", mark_at = \"=\"", "is none of the words"),
        ("kind = \"bulk\"", "kind = \"bulk\"\nrounds = 3", "rounds: is no property"),
    ] {
        assert!(good.contains(find), "{find}");
        let refusal = why(&good.replacen(find, put, 1));
        assert!(refusal.as_ref().is_some_and(|why| why.contains(expected)), "{put}: {refusal:?}");
    }
}

#[test]
fn quantities_that_are_read_are_like_their_patterns() {
    let (_, pattern) = Size::written();
    for text in ["10 kB", "+.5 kB", " 1e3B\t", "\t1_000 KiB", "1 TB"] {
        assert!(Size::parse(text).is_ok() && matches(&pattern, text), "{text:?}: {pattern}");
    }
    for text in [".5 kB", "kB", "10", "10 kB x"] {
        assert!(Size::parse(text).is_err() && !matches(&pattern, text), "{text:?}: {pattern}");
    }
}

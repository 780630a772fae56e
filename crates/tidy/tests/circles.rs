//! Files of a crate use one another in one direction: no circle of imports but within a topic, so that each can be read, tested and
//! moved with what is below it. A module and all files below it are one: a parent uses its children, and they belong to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules that are one topic.
const ONE_TOPIC: &[(&str, &[&str])] = &[
    // A host as an algorithm's C sees it: a socket, the calls on it, and what it gives.
    ("algo", &["call", "given", "sock"]),
    // What was sent again and what its echoes say is found together, packet by packet.
    ("pcap", &["bursts", "data", "echo", "repeats"]),
    // Queues of classes hold queues of any kind.
    ("queue", &["any", "classes", "config", "two_buffers"]),
    // A run at work: hosts, links and what stops them share the events, the packets and the clock.
    (
        "sim",
        &[
            "buffer", "clock", "endpoint", "gate", "link", "net", "nic", "pause", "ports", "tap",
            "tcp",
        ],
    ),
];

/// Names of a file, as in `tcp::ack`, or of a module of the crate, and those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_use_one_another_in_one_direction() {
    let (mut found, mut files) = (Vec::new(), 0);
    let mut is_used = vec![false; ONE_TOPIC.len()];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("it is there").flatten() {
        let name = entry.file_name().into_string().expect("paths here are UTF-8");
        let mut codes = BTreeMap::new();
        read(&entry.path().join("src"), &[], &mut codes);
        files += codes.len();
        for circle in circles(&of_modules(&uses(&codes))) {
            let is_within = |(of, topic): &(&str, &[&str])| {
                *of == name && circle.iter().all(|file| topic.contains(&&file[..]))
            };
            let within = ONE_TOPIC.iter().position(is_within);
            within.into_iter().for_each(|at| is_used[at] = true);
            if within.is_none() {
                found.push(format!("{name}: {}", circle.join(", ")));
            }
        }
    }
    assert!(files > 300, "{files} files");
    assert!(is_used.iter().all(|is| *is), "of ONE_TOPIC there is no circle any more: {is_used:?}");
    assert!(found.is_empty(), "files that use one another in a circle:\n{}", found.join("\n"));
}

/// The code of each file below a folder, by its name, without comments and tests; that of the crate itself has none.
fn read(folder: &Path, above: &[String], codes: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut name = above.to_vec();
        if path.is_dir() {
            name.push(stem);
            read(&path, &name, codes);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            if !["lib", "main", "mod"].contains(&&stem[..]) {
                name.push(stem);
            }
            let text = fs::read_to_string(&path).expect("it can be read");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
            codes.insert(name.join("::"), code.collect::<Vec<_>>().join("\n"));
        }
    }
}

fn uses(codes: &BTreeMap<String, String>) -> Uses {
    // `pub use error::Error;`: whoever names crate::Error uses error.
    let mut shown = BTreeMap::new();
    for (file, code) in codes {
        let shows = ["pub use ", "pub(crate) use ", "pub(super) use "];
        for statement in shows.iter().flat_map(|show| code.split(show).skip(1)) {
            let statement = statement.split(';').next().unwrap_or_default();
            for path in paths(statement) {
                let at = resolve(file, &path, codes, &BTreeMap::new());
                if let (Some(at), Some(name)) = (at, path.last()) {
                    shown.insert(join(file, name), at);
                }
            }
        }
    }
    let used = |(file, code): (&String, &String)| {
        let starts = ["crate::", "super::"].iter().flat_map(|start| {
            code.match_indices(start).map(|(at, _)| &code[at..]).filter(|rest| {
                let before = code.len() - rest.len();
                !code[..before].ends_with("::")
            })
        });
        let found = starts.flat_map(paths).filter_map(|path| resolve(file, &path, codes, &shown));
        let others = found.filter(|other| other != file && !other.is_empty());
        (file.clone(), others.collect::<BTreeSet<String>>())
    };
    codes.iter().filter(|(file, _)| !file.is_empty()).map(used).collect()
}

/// The uses of each module of the crate with all files below it.
fn of_modules(uses: &Uses) -> Uses {
    let module = |file: &String| file.split("::").next().unwrap_or_default().to_owned();
    let mut all = Uses::new();
    for (file, used) in uses {
        let others = used.iter().map(module).filter(|other| *other != module(file));
        all.entry(module(file)).or_default().extend(others);
    }
    all
}

fn join(file: &str, name: &str) -> String {
    if file.is_empty() { name.to_owned() } else { format!("{file}::{name}") }
}

/// The file that a path in a file leads to.
fn resolve(
    file: &str,
    path: &[String],
    codes: &BTreeMap<String, String>,
    shown: &BTreeMap<String, String>,
) -> Option<String> {
    let mut at: Vec<&str> = file.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest = path;
    while let [first, more @ ..] = rest {
        match &first[..] {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = more;
    }
    for name in rest {
        let next = join(&at.join("::"), name);
        if let Some(there) = shown.get(&next) {
            return Some(there.clone());
        }
        if !codes.contains_key(&next) {
            break;
        }
        at.push(name);
    }
    Some(at.join("::"))
}

/// `[a, b]`, `[a, c, d]` of the tree of paths `a::{b, c::d}` at the beginning of some code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let (mut all, mut path, mut depths) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = code;
    loop {
        rest = rest.trim_start();
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !word.is_empty() {
            rest = &rest[word.len()..];
            path.push(word);
        }
        if let Some(after) = rest.strip_prefix("::") {
            rest = after;
            if let Some(inside) = rest.strip_prefix('{') {
                depths.push(path.len());
                rest = inside;
            } else if !rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                rest = "";
            }
            if !rest.is_empty() {
                continue;
            }
        }
        let Some(depth) = depths.last().copied() else {
            all.push(path);
            return all;
        };
        if path.len() > depth {
            all.push(path.clone());
        }
        path.truncate(depth);
        // A name given by `as` does not matter.
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        match rest.get(end..) {
            Some(more) if more.starts_with(',') => rest = &more[1..],
            Some(more) if more.starts_with('}') => {
                depths.pop();
                rest = &more[1..];
                if depths.is_empty() {
                    return all;
                }
            }
            _ => return all,
        }
    }
}

/// The files that reach one another, of each circle all.
fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(file) = left.pop() {
            for next in uses.get(file).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    left.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, _> = uses.keys().map(|file| (file, reached(file))).collect();
    let mut all: Vec<Vec<String>> = Vec::new();
    for (file, others) in &reached {
        if !others.contains(*file) || all.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        all.push(others.iter().filter(|other| reached[*other].contains(*file)).cloned().collect());
    }
    all
}

#[test]
fn circles_are_found_whole_and_paths_to_their_files() {
    let code = |text: &str| text.to_owned();
    let codes = BTreeMap::from([
        (String::new(), code("mod error;\npub use error::Error;\n")),
        (code("error"), code("use crate::one::A;\n")),
        (code("one"), code("pub(crate) use two::{B, C as D};\nmod two;\n")),
        (code("one::two"), code("fn f() -> super::super::Error {}\n")),
        (code("three"), code("use crate::{Error, one::{self, B}};\n")),
    ]);
    let found = uses(&codes);
    let of = |file: &str| found[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("error"), ["one"]);
    assert_eq!(of("one::two"), ["error"]);
    assert_eq!(of("three"), ["error", "one", "one::two"]);
    assert!(circles(&found).is_empty());
    // A file below `one` uses what uses `one`.
    assert_eq!(circles(&of_modules(&found)), [["error", "one"]]);

    let pairs = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["a", "d"]), ("d", vec![])];
    let set = |names: &[&str]| names.iter().map(|&name| code(name)).collect();
    let found: Uses = pairs.iter().map(|(file, used)| (code(file), set(used))).collect();
    assert_eq!(circles(&found), [["a", "b", "c"]]);
}

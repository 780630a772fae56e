//! The small rules of the source tree, so that nobody has to remember them: `CONTRIBUTING.md` says
//! why each is there. Files are those that git knows or would take.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longer files have grown to hold more than one thing.
const MAX_LINES: usize = 900;
const ALGORITHM_LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause";

/// A file of the tree; what is no text has no lines.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }

    fn is_algorithm(&self) -> bool {
        self.algorithm().is_some()
    }

    /// `dctcp` of `algorithms/dctcp.c`.
    fn algorithm(&self) -> Option<&str> {
        let name = self.path.strip_prefix("algorithms/")?.strip_suffix(".c")?;
        (!name.contains('/')).then_some(name)
    }

    /// Lines and their numbers from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file that belongs to the project; none, and it is said, where there is no git.
fn sources() -> Vec<Source> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let listed = match listed {
        Ok(output) if output.status.success() => output.stdout,
        _ => {
            // Not eprintln!, whose text the harness keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "SKIPPED: the rules need git and a clone");
            return Vec::new();
        }
    };
    let paths = String::from_utf8(listed).expect("paths here are UTF-8");
    // A file that is listed and gone has been removed and not committed yet.
    let read = |path: &str| {
        let text = fs::read_to_string(root().join(path)).ok()?;
        Some(Source { path: path.to_owned(), text })
    };
    paths.lines().filter_map(read).collect()
}

/// Headers of the contract and its hosts; every other one in `algorithms/include` is a law.
const HOSTS_OWN: [&str; 9] = [
    "tcp.h",
    "fields.h",
    "native.h",
    "native_types.h",
    "bpf.h",
    "bpf_types.h",
    "linux.h",
    "base_rtt.h",
    "label.h",
];

/// Fails with every place where a rule is broken.
fn hold(rule: &str, breaches: impl IntoIterator<Item = String>) {
    let all: Vec<String> = breaches.into_iter().collect();
    assert!(all.is_empty(), "{rule}:\n  {}", all.join("\n  "));
}

/// Places whose line breaks a rule, as `path:line: text`.
fn lines_where<'a>(
    sources: &'a [Source],
    files: impl Fn(&Source) -> bool + 'a,
    breaks: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    sources.iter().filter(move |source| files(source)).flat_map(move |source| {
        let bad = source.lines().filter(|(_, line)| breaks(line));
        bad.map(|(n, line)| format!("{}:{n}: {}", source.path, line.trim())).collect::<Vec<_>>()
    })
}

#[test]
fn an_algorithm_does_not_know_its_host() {
    let sources = sources();
    let conditional = |line: &str| {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        directive
            .is_some_and(|directive| directive.starts_with("if") || directive.starts_with("el"))
    };
    hold(
        "an algorithm file holds no #if: what differs between hosts belongs into include/",
        lines_where(&sources, Source::is_algorithm, conditional),
    );
    let is_law = |source: &Source| {
        let name = source.path.strip_prefix("algorithms/include/");
        name.is_some_and(|name| !HOSTS_OWN.contains(&name))
    };
    let laws: Vec<String> = sources
        .iter()
        .filter(|source| is_law(source))
        .map(|law| format!("#include \"{}\"", law.path.trim_start_matches("algorithms/include/")))
        .collect();
    let foreign = |line: &str| {
        let include = line.trim();
        include.starts_with("#include")
            && include != "#include \"tcp.h\""
            && !laws.iter().any(|law| law == include)
    };
    hold(
        "an algorithm file includes \"tcp.h\" and laws that it shares with others only",
        lines_where(&sources, Source::is_algorithm, foreign),
    );
    // Its guard is the one condition of a law.
    let unguarded = |line: &str| conditional(line) && !line.starts_with("#ifndef KNEE_");
    hold(
        "a law that algorithms share holds no #if and includes \"tcp.h\" and other laws only",
        lines_where(&sources, is_law, |line| unguarded(line) || foreign(line)),
    );
}

#[test]
fn every_c_file_names_its_licence_first() {
    let sources = sources();
    let unnamed = sources.iter().filter(|source| source.is(&["c", "h"])).filter(|source| {
        !source.text.lines().next().is_some_and(|line| line.contains(ALGORITHM_LICENCE))
    });
    hold(
        &format!("the first line of a C file is its licence: {ALGORITHM_LICENCE}"),
        unnamed.map(|source| source.path.clone()),
    );
}

#[test]
fn every_algorithm_has_its_row_and_its_page() {
    let sources = sources();
    let table = sources.iter().find(|source| source.path == "algorithms/README.md");
    let rows: Vec<&str> = table
        .into_iter()
        .flat_map(|table| table.text.lines())
        .filter(|line| line.starts_with('|'))
        .collect();
    let mut missing = Vec::new();
    for name in sources.iter().filter_map(Source::algorithm) {
        let file = format!("{name}.c");
        if !rows.iter().any(|row| row.contains(&file)) {
            missing.push(format!("algorithms/README.md has no row for {file}"));
        }
        let page = format!("docs/algorithms/{name}.md");
        if !sources.iter().any(|source| source.path == page) {
            missing.push(format!("there is no {page}"));
        }
    }
    hold("every algorithm is documented", missing);
}

/// In a crate whose tests are one program.
#[test]
fn no_file_of_tests_is_left_out() {
    let sources = sources();
    let left_out = |source: &Source| {
        let (dir, name) = source.path.strip_suffix(".rs")?.rsplit_once('/')?;
        let named = |path: String, line: String| {
            sources.iter().find(|other| other.path == path).map(|other| other.text.contains(&line))
        };
        let is_module = named(format!("{dir}/all.rs"), format!("\nmod {name};\n"))?;
        let own = format!("path = \"tests/{name}.rs\"");
        let is_program = named(dir.replace("/tests", "/Cargo.toml"), own).unwrap_or(false);
        (!is_module && !is_program).then(|| source.path.clone())
    };
    let left_out =
        sources.iter().filter(|source| source.path.contains("/tests/")).filter_map(left_out);
    hold("a file of tests is a module of all.rs, or a [[test]] of its crate", left_out);
}

#[test]
fn no_file_holds_too_much() {
    let sources = sources();
    let code = sources.iter().filter(|source| source.is(&["rs", "c", "h"]));
    let long = code.map(|source| (source, source.text.lines().count()));
    let long = long.filter(|(_, lines)| *lines > MAX_LINES);
    hold(
        &format!("no source file has more than {MAX_LINES} lines"),
        long.map(|(source, lines)| format!("{}: {lines}", source.path)),
    );
}

#[test]
fn c_is_indented_by_tabs_and_rust_is_not() {
    let sources = sources();
    hold("Rust has no tabs", lines_where(&sources, |s| s.is(&["rs"]), |line| line.contains('\t')));
    // Single spaces are the stars of a comment; more may follow the tabs, to align.
    let spaces = |line: &str| line.starts_with("  ");
    hold("C is indented by tabs", lines_where(&sources, |s| s.is(&["c", "h"]), spaces));
    let trailing = |line: &str| line.ends_with([' ', '\t']);
    hold(
        "no line ends in blanks",
        lines_where(&sources, |s| s.is(&["rs", "c", "h", "toml"]), trailing),
    );
}

/// Fields and variants go without where their names say it, which is why this is no lint of the compiler's.
#[test]
fn what_is_public_says_what_it_is() {
    let is_public = |line: &str| {
        let item = line.trim_start().strip_prefix("pub ")?.split([' ', '(', '<']).next()?;
        ["fn", "unsafe", "struct", "enum", "trait", "type", "const", "static"]
            .contains(&item)
            .then_some(())
    };
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| source.is(&["rs"])) {
        let is_library =
            source.path.contains("/src/") && !source.path.starts_with("crates/testbed");
        if !is_library {
            continue;
        }
        // Whether the lines since the last empty one, or one that ends something, have a doc comment.
        let mut is_documented = false;
        for (number, line) in source.lines() {
            let line = line.trim_start();
            // In a macro the meaning comes from its caller.
            if is_public(line).is_some() && !line.contains('$') && !is_documented {
                breaches.push(format!("{}:{number}: {line}", source.path));
            }
            is_documented |= line.starts_with("///") || line.starts_with("$(#[doc");
            if line.is_empty() || line.ends_with(['{', '}', ';']) {
                is_documented = false;
            }
        }
    }
    hold("a public item has a doc comment", breaches);
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    let sources = sources();
    let word = ["TO", "DO"].concat();
    let code = |source: &Source| source.is(&["rs", "c", "h", "toml", "md"]);
    let unnumbered = |line: &str| {
        line.match_indices(&word).any(|(at, _)| {
            let after = line[at + word.len()..].strip_prefix("(#").unwrap_or_default();
            !after.starts_with(|c: char| c.is_ascii_digit())
        })
    };
    hold(
        &format!("a {word} names its issue, as in {word}(#12)"),
        lines_where(&sources, code, unnumbered),
    );
}

#[test]
fn the_project_stands_alone() {
    let sources = sources();
    // Written in pieces, or this file would break its own rule.
    let places = [["/wo", "rk/"], ["/ro", "ot/"], ["../sha", "red"]].map(|place| place.concat());
    let words = [["ses", "sion"], ["ses", "sions"]].map(|word| word.concat());
    let is_text = |source: &Source| !source.path.starts_with("LICENSE-");
    let named = |line: &str| {
        let mut in_line = line.split(|c: char| !c.is_alphabetic());
        places.iter().any(|place| line.contains(place))
            || in_line.any(|word| words.contains(&word.to_lowercase()))
    };
    hold(
        "nothing names a place on one machine, or how the work was done",
        lines_where(&sources, is_text, named),
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let sources = sources();
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| source.is(&["md"])) {
        let folder = root().join(&source.path).with_file_name("");
        for (n, line) in source.lines() {
            for target in links(line) {
                let path = target.split('#').next().unwrap_or_default();
                if !path.is_empty() && !target.contains("://") && !folder.join(path).exists() {
                    broken.push(format!("{}:{n}: {target}", source.path));
                }
            }
        }
    }
    hold("a link leads to a file that is there", broken);
}

/// Targets of the Markdown links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

#[test]
fn links_are_found_in_a_line() {
    let line = "see [one](a.md), [two](b/c.md#part) and [three](https://example.org/)";
    let found: Vec<_> = links(line).collect();
    assert_eq!(found, ["a.md", "b/c.md#part", "https://example.org/"]);
}

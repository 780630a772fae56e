//! `knee new algorithm`: writes an algorithm file with its test, experiment and page.
//!
//! The template is the algorithm `newcc` of `src/testing`, with its test in `tests/newcc.rs`. It is
//! compiled, checked, tested and loaded into the kernel like every other algorithm. The command
//! writes it under another name.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::{Algorithm, Error, check};

const ALGORITHM: &str = include_str!("testing/newcc.c");
const TEST: &str = include_str!("../tests/newcc.rs");
const SCENARIO: &str = include_str!("../template/scenario.toml");
const README: &str = include_str!("../template/readme.md.in");
/// Line that tells editors where a clone keeps the schema of experiment keys.
const SCHEMA: &str = "#:schema ../../docs/schema/experiment.json\n";
const PAGE: &str = include_str!("../template/page.md.in");
/// Name of the algorithm in the template texts.
const TEMPLATE_NAME: &str = "newcc";
/// Longest name: with the prefix `knee_` it must fit the kernel's limit of 15 characters.
const MAX_NAME: usize = 10;
/// File with the table that gets the new algorithm's row.
const TABLE: &str = "algorithms/README.md";
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// Returns the root of the clone that contains a directory, if any.
pub fn clone_root(from: &Path) -> Option<PathBuf> {
    let from = fs::canonicalize(from).ok()?;
    let is_root = |dir: &&Path| {
        dir.join("algorithms/include/tcp.h").is_file()
            && dir.join("crates/algo/src/lib.rs").is_file()
    };
    from.ancestors().find(is_root).map(Path::to_owned)
}

/// Writes the files of a new algorithm into a clone. Returns their paths, relative to its root.
///
/// # Errors
/// [`Error::File`] if the name is not allowed, or if one of the files exists. Then nothing is
/// written.
pub fn write_in_clone(root: &Path, name: &str) -> Result<Vec<String>, Error> {
    check_name(name)?;
    let test = named(TEST, name).replace(
        &format!("Algorithm::for_tests(\"{name}\")"),
        &format!("Algorithm::by_name(\"{name}\").unwrap()"),
    );
    let files = [
        (format!("algorithms/{name}.c"), named(ALGORITHM, name)),
        (format!("crates/algo/tests/{name}.rs"), test),
        (format!("scenarios/examples/{name}.toml"), format!("{SCHEMA}{}", named(SCENARIO, name))),
        (format!("docs/algorithms/{name}.md"), named(PAGE, name)),
    ];
    let table = root.join(TABLE);
    let rows = knee_files::read_text(&table, MAX_TABLE_BYTES, "list of algorithms")
        .map_err(|why| cannot("read", &table, &why.into_io()))?;
    let row = format!(
        "| [{name}.c]({name}.c) · [page](../docs/algorithms/{name}.md) | none yet | init, ssthresh, \
         cong_avoid, undo_cwnd | 8 |\n"
    );
    let rows = with_row(&rows, &row).ok_or_else(|| {
        Error::File(format!("{}: has no table of algorithms to add a row to", table.display()))
    })?;
    write_all(root, &files, &table, &rows)?;
    Ok(files.into_iter().map(|(path, _)| path).chain([TABLE.to_owned()]).collect())
}

/// Creates a directory named after the algorithm, outside a clone, with all files that it needs.
/// Returns their paths.
///
/// # Errors
/// Like [`write_in_clone`], and if a file or directory of that name exists.
pub fn write_here(dir: &Path, name: &str) -> Result<Vec<String>, Error> {
    check_name(name)?;
    let scenario =
        named(SCENARIO, name).replace(&format!("cc = \"{name}\""), &format!("cc = \"./{name}.c\""));
    let files = [
        (format!("{name}/{name}.c"), named(ALGORITHM, name)),
        (format!("{name}/{name}.toml"), scenario),
        (format!("{name}/README.md"), named(README, name)),
    ];
    let own = dir.join(name);
    knee_files::make_dir(&own).map(drop).map_err(|why| match why.kind() {
        ErrorKind::AlreadyExists => {
            Error::File(format!("{name} is there already: nothing was written"))
        }
        _ => cannot("make", &own, &why),
    })?;
    write_new(dir, &files).inspect_err(|_| drop(knee_files::remove_dir(&own)))?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::File(format!("\"{}\" {why}", name.escape_debug())));
    let is_word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_word || name.len() > MAX_NAME {
        return wrong(format!(
            "cannot be an algorithm's name: at most {MAX_NAME} characters, small letters, digits and _, \
             a letter first, because the kernel is to know it as knee_NAME"
        ));
    }
    if Algorithm::by_name(name).is_ok() {
        return wrong("is an algorithm of knee's own: another name will do".to_owned());
    }
    if name == TEMPLATE_NAME || check::is_taken(name) {
        return wrong("means something to C or to the contract: another name will do".to_owned());
    }
    Ok(())
}

fn named(text: &str, name: &str) -> String {
    text.replace(TEMPLATE_NAME, name).replace(&TEMPLATE_NAME.to_uppercase(), &name.to_uppercase())
}

/// Returns the text with a row added at the end of its first table.
fn with_row(text: &str, row: &str) -> Option<String> {
    let begin = text.find("\n| ")? + 1;
    let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 1);
    Some(format!("{}{row}{}", &text[..end], &text[end..]))
}

/// Writes files that must not exist yet. On any error it removes those it has written.
fn write_new(root: &Path, files: &[(String, String)]) -> Result<(), Error> {
    if let Some((path, _)) = files.iter().find(|(path, _)| root.join(path).exists()) {
        return Err(Error::File(format!("{path} is there already: nothing was written")));
    }
    for (index, (path, text)) in files.iter().enumerate() {
        let place = root.join(path);
        let mut file = match knee_files::create_new(&place) {
            Ok(file) => file,
            Err(why) => {
                remove(root, &files[..index]);
                return Err(cannot("write", &place, &why));
            }
        };
        if let Err(why) = file.write_all(text.as_bytes()) {
            // The last file may be written in part, so it is removed too.
            remove(root, &files[..=index]);
            return Err(cannot("write", &place, &why));
        }
    }
    Ok(())
}

/// Like [`write_new`], and replaces the text of the table.
fn write_all(
    root: &Path,
    files: &[(String, String)],
    table: &Path,
    rows: &str,
) -> Result<(), Error> {
    write_new(root, files)?;
    knee_files::write(table, rows).map_err(|why| {
        remove(root, files);
        cannot("write", table, &why)
    })
}

fn remove(root: &Path, files: &[(String, String)]) {
    for (path, _) in files {
        // A file that cannot be removed stays; nothing can be done about it.
        let _ = knee_files::remove_file(&root.join(path));
    }
}

fn cannot(what: &str, path: &Path, why: &std::io::Error) -> Error {
    Error::File(format!("{}: cannot {what}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    struct Scratch(TempDir);

    impl Scratch {
        fn new() -> Scratch {
            Scratch(tempfile::tempdir().unwrap())
        }

        /// Creates the parts of a clone that these functions read.
        fn clone_of() -> Scratch {
            let scratch = Scratch::new();
            for dir in [
                "algorithms/include",
                "crates/algo/src",
                "crates/algo/tests",
                "scenarios/examples",
                "docs/algorithms",
            ] {
                fs::create_dir_all(scratch.0.path().join(dir)).unwrap();
            }
            for file in ["algorithms/include/tcp.h", "crates/algo/src/lib.rs"] {
                fs::write(scratch.0.path().join(file), "").unwrap();
            }
            let table = include_str!("../../../algorithms/README.md");
            fs::write(scratch.0.path().join(TABLE), table).unwrap();
            scratch
        }
    }

    #[test]
    fn what_is_written_in_a_clone_is_the_tested_template_under_its_name() {
        let scratch = Scratch::clone_of();
        let root = clone_root(&scratch.0.path().join("crates/algo")).unwrap();
        let written = write_in_clone(&root, "swift").unwrap();
        assert_eq!(written.len(), 5);
        let c = fs::read_to_string(root.join("algorithms/swift.c")).unwrap();
        assert_eq!(c.replace("swift", "newcc").replace("SWIFT", "NEWCC"), ALGORITHM);
        let test = fs::read_to_string(root.join("crates/algo/tests/swift.rs")).unwrap();
        assert!(
            test.contains("Algorithm::by_name(\"swift\").unwrap()") && !test.contains("for_tests")
        );
        let table = fs::read_to_string(root.join(TABLE)).unwrap();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| [")).collect();
        let last = rows.iter().position(|row| row.contains("include/") || row.contains("tcp.h"));
        assert!(rows[last.unwrap() - 1].starts_with("| [swift.c](swift.c)"), "{rows:?}");
        let again = write_in_clone(&root, "swift").unwrap_err().to_string();
        assert_eq!(again, "algorithms/swift.c is there already: nothing was written");
    }

    #[test]
    fn when_the_table_cannot_be_written_nothing_stays() {
        let scratch = Scratch::clone_of();
        let files = ["algorithms/swift.c", "crates/algo/tests/swift.rs"]
            .map(|path| (path.to_owned(), "text".to_owned()));
        // A directory in place of the table makes reading it fail.
        let table = scratch.0.path().join("algorithms");
        let why = write_all(scratch.0.path(), &files, &table, "rows").unwrap_err().to_string();
        assert!(why.contains("algorithms: cannot write: it is a directory"), "{why}");
        for (path, _) in &files {
            assert!(!scratch.0.path().join(path).exists(), "{path}");
        }
    }

    #[test]
    fn what_is_written_anywhere_compiles_is_clean_and_keeps_its_law() {
        let scratch = Scratch::new();
        let written = write_here(scratch.0.path(), "swift").unwrap();
        assert_eq!(written, ["swift/swift.c", "swift/swift.toml", "swift/README.md"]);
        let path = scratch.0.path().join("swift/swift.c");
        assert_eq!(check::file(&path).unwrap().findings, []);
        let swift = crate::module::load(&path).unwrap();
        assert_eq!(swift.name(), "swift");
        let mut flow = swift.instance(swift.default_params());
        let mut sock = crate::TcpSock { snd_cwnd: 100, ..crate::TcpSock::default() };
        assert_eq!(flow.ssthresh(&mut sock, &mut crate::Host::new(1000, 1)), 50);
        let toml = fs::read_to_string(scratch.0.path().join("swift/swift.toml")).unwrap();
        assert!(toml.contains("cc = \"./swift.c\""));
        assert!(write_here(scratch.0.path(), "swift").is_err());
    }

    #[test]
    fn names_that_cannot_be_are_refused_with_the_way_out() {
        let dir = Path::new("/nonexistent");
        for name in
            ["", "Swift", "9lives", "a-b", "../x", "elevenchars", "int", "sock", "newcc", "reno"]
        {
            let why = write_here(dir, name).unwrap_err().to_string();
            assert!(!why.contains("nonexistent") && !why.contains('\n'), "{name}: {why}");
        }
        assert!(write_here(dir, "swift").unwrap_err().to_string().contains("cannot make"));
    }
}

//! Programs that a kernel build needs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;
use crate::error::failed;

/// Needed programs, with the Debian and Ubuntu packages that provide them.
const NEEDED: [(&str, &str); 9] = [
    ("bash", "bash"),
    ("bc", "bc"),
    ("bison", "bison"),
    ("cc", "gcc libc6-dev"),
    ("flex", "flex"),
    ("make", "make"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Checks before the build that all needed programs exist.
///
/// # Errors
/// Names what is missing, and how to install it.
pub(super) fn check() -> Result<(), Error> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(Error::Failed(format!(
        "to build a kernel takes {}: apt-get install {}",
        programs.join(", "),
        packages.join(" ")
    )))
}

/// Returns whether a program is on the search path.
pub(super) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a program in a directory and appends its output to a log.
///
/// # Errors
/// Fails if the program does not start, or if it fails. The message quotes the line that gives the cause.
pub(super) fn run<S: AsRef<OsStr>>(
    what: &str,
    directory: &Path,
    program: &str,
    arguments: &[S],
    log: &Path,
) -> Result<(), Error> {
    let output = knee_files::append(log);
    let output = output.map_err(failed(log.display()))?;
    let before = output.metadata().map_or(0, |data| data.len());
    let errors = output.try_clone().map_err(failed(log.display()))?;
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .map_err(failed(format!("{what}: {program} does not start")))?;
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read(log).unwrap_or_default();
    let text =
        String::from_utf8_lossy(text.get(before as usize..).unwrap_or_default()).into_owned();
    Err(Error::Failed(format!(
        "{what}: {} ({status}; all of it is in {})",
        reason(&text),
        log.display()
    )))
}

/// Returns the line that gives the cause: the first with an error, or else the last.
pub(super) fn reason(text: &str) -> &str {
    let is_error = |line: &&str| {
        ["error:", "ERROR:", "No space left", "FAILED"].iter().any(|word| line.contains(word))
    };
    // The last line of tar does not give the cause.
    let says = |line: &&str| !line.is_empty() && !line.starts_with("tar: Exiting");
    let lines = || text.lines().map(str::trim).filter(says);
    lines().find(is_error).or_else(|| lines().next_back()).unwrap_or("it says nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_first_error() {
        let text = "CC a.o\nb.c:1: error: no such thing\nmake: *** [b.o] Error 1\n";
        assert_eq!(reason(text), "b.c:1: error: no such thing");
        assert_eq!(reason("one\ntwo\n\n"), "two");
        assert_eq!(
            reason("tar: x: Cannot write: No space left on device\ntar: Exiting"),
            "tar: x: Cannot write: No space left on device"
        );
        let text = "tar: This does not look like a tar archive\ntar: Exiting with failure status\n";
        assert_eq!(reason(text), "tar: This does not look like a tar archive");
        assert_eq!(reason(""), "it says nothing");
    }

    #[test]
    fn what_fails_is_told_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let say = |words: &str| run("a test", Path::new("/"), "sh", &["-c", words], &log);
        assert_eq!(say("echo well"), Ok(()));
        let why = say("echo bad; exit 3").unwrap_err().to_string();
        assert!(why.starts_with("a test: bad (exit status: 3;"), "{why}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "well\nbad\n");
        std::fs::remove_file(&log).unwrap();
        let why =
            run("a test", Path::new("/"), "no-such-program", &["x"], &log).unwrap_err().to_string();
        assert!(why.contains("no-such-program does not start"), "{why}");
    }
}

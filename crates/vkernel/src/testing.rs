//! Functions that several tests use.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program by another process. If this process wrote it, a child that another test forks meanwhile would
/// hold the file open for writing. The kernel does not run such a file ("Text file busy").
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success(), "{} is not written", path.display());
}

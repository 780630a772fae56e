//! The default of a network namespace, `net.ipv4.tcp_congestion_control`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use knee_netns::Found;

use super::journal::Journal;
use crate::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The default of the namespace that this thread is in.
///
/// # Errors
/// [`Error::File`].
pub fn default_algorithm() -> Result<String, Error> {
    read(DEFAULT)
}

/// Names of all algorithms that are registered, the kernel's own and others.
///
/// # Errors
/// [`Error::File`].
pub fn available_algorithms() -> Result<Vec<String>, Error> {
    Ok(read(AVAILABLE)?.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn default_of(namespace: &Found) -> Result<String, Error> {
    namespace.run(|| read(DEFAULT)).unwrap_or_else(entering_failed)
}

/// Sets it. An algorithm that is not for everybody may be the default of the host's own namespace
/// only, so it is made everybody's for a moment; the journal knows until that is undone.
pub(super) fn set_default(
    namespace: &Found,
    algorithm: &str,
    journal: &mut Journal,
    run_dir: &Path,
) -> Result<(), Error> {
    let set = || namespace.run(|| write(DEFAULT, algorithm)).unwrap_or_else(entering_failed);
    match set() {
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            let before = read(ALLOWED)?;
            journal.allowed_before = Some(before.clone());
            journal.write(run_dir)?;
            let allowed = write_allowed(&format!("{before} {algorithm}"));
            let outcome = allowed.and_then(|()| set());
            restore_allowed(journal, run_dir)?;
            outcome
        }
        outcome => outcome,
    }
}

/// Undoes what [`set_default`] did for a moment, also after a crash in that moment.
pub(super) fn restore_allowed(journal: &mut Journal, run_dir: &Path) -> Result<(), Error> {
    if let Some(before) = &journal.allowed_before {
        let available = read(AVAILABLE)?;
        let there = |name: &&str| available.split_whitespace().any(|other| other == *name);
        let before: Vec<&str> = before.split_whitespace().filter(there).collect();
        write_allowed(&before.join(" "))?;
        journal.allowed_before = None;
        journal.write(run_dir)?;
    }
    Ok(())
}

/// The list is one for all namespaces and can be written in the host's own only.
fn write_allowed(list: &str) -> Result<(), Error> {
    let host = knee_netns::of_process(1);
    host.and_then(|host| host.run(|| write(ALLOWED, list))).unwrap_or_else(entering_failed)
}

fn entering_failed<T>(source: io::Error) -> Result<T, Error> {
    Err(Error::File { path: "a network namespace".into(), source })
}

fn read(file: &str) -> Result<String, Error> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|source| Error::File { path: file.into(), source })?;
    Ok(text.trim().to_owned())
}

fn write(file: &str, value: &str) -> Result<(), Error> {
    fs::write(Path::new(file), value).map_err(|source| Error::File { path: file.into(), source })
}

//! The default of a network namespace, `net.ipv4.tcp_congestion_control`.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use knee_netns::FoundNamespace;
use rustix::net::{AddressFamily, SocketType};

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

pub(super) fn default_of(namespace: &FoundNamespace) -> Result<String, Error> {
    namespace.run(|| read(DEFAULT)).unwrap_or_else(entering_failed)
}

/// Sets it, and nothing else. What becomes a default the kernel puts on the list of algorithms that
/// everybody may choose; and only what is on that list may be the default of a namespace that is not
/// the host's own. So what was not on it is put there, and taken off again; the journal knows meanwhile.
pub(super) fn set_default(
    namespace: &FoundNamespace,
    algorithm: &str,
    journal: &mut Journal,
    run_dir: &Path,
) -> Result<(), Error> {
    let set = || namespace.run(|| write(DEFAULT, algorithm)).unwrap_or_else(entering_failed);
    let before = read(ALLOWED)?;
    if before.split_whitespace().any(|allowed| allowed == algorithm) {
        return set();
    }
    journal.allowed_before = Some(before.clone());
    journal.write(run_dir)?;
    let outcome = match set() {
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            write_allowed(&format!("{before} {algorithm}")).and_then(|()| set())
        }
        outcome => outcome,
    };
    restore_allowed(journal, run_dir)?;
    outcome
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

/// Tells a namespace from all others since the kernel was booted, also to programs.
pub(crate) fn cookie_of(namespace: &FoundNamespace) -> Result<u64, Error> {
    namespace.run(netns_cookie).unwrap_or_else(entering_failed)
}

fn netns_cookie() -> Result<u64, Error> {
    let failed = |source| Error::Read { what: "the network namespace's cookie", source };
    // It takes a socket, and no address.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    let (mut cookie, mut len) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: the pointers are to a number and to its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// The list is one for all namespaces and can be written in the host's own only: that is mostly this
/// one, and the first process's, which not everybody may look at.
fn write_allowed(list: &str) -> Result<(), Error> {
    write(ALLOWED, list).or_else(|_| {
        let host = knee_netns::of_process(1);
        host.and_then(|host| host.run(|| write(ALLOWED, list))).unwrap_or_else(entering_failed)
    })
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

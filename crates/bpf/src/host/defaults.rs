//! The default algorithm of a network namespace, `net.ipv4.tcp_congestion_control`.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use knee_netns::FoundNamespace;
use rustix::net::{AddressFamily, SocketType};

use super::journal::{Journal, is_full};
use crate::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The default of the calling thread's namespace.
///
/// # Errors
/// [`Error::File`].
pub fn default_algorithm() -> Result<String, Error> {
    read(DEFAULT)
}

/// The names of all registered algorithms, the kernel's own and others.
///
/// # Errors
/// [`Error::File`].
pub fn available_algorithms() -> Result<Vec<String>, Error> {
    Ok(read(AVAILABLE)?.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn default_of(namespace: &FoundNamespace) -> Result<String, Error> {
    namespace.run(|| read(DEFAULT)).unwrap_or_else(entering_failed)
}

/// Sets the default of `namespace`, and nothing else. The kernel adds a new default to the list of
/// algorithms that every user may choose. A namespace other than the host's accepts only a default
/// on that list. So this function adds a missing name and removes it again; the journal records the
/// change meanwhile.
pub(super) fn set_default(
    namespace: &FoundNamespace,
    algorithm: &str,
    journal: &mut Journal,
    run_dir: &Path,
) -> Result<(), Error> {
    let set = || namespace.run(|| write(DEFAULT, algorithm)).unwrap_or_else(entering_failed);
    if read(ALLOWED)?.split_whitespace().any(|allowed| allowed == algorithm) {
        return set();
    }
    journal.allowed_meanwhile = Some(algorithm.to_owned());
    match journal.write(run_dir) {
        // Without space the list is only restored if nothing kills this process meanwhile.
        Err(Error::File { source, .. }) if is_full(&source) => {}
        outcome => outcome?,
    }
    let allow = || change_allowed(|now| format!("{now} {algorithm}"));
    let outcome = match available_algorithms()?.iter().any(|known| known == algorithm) {
        // The list comes first: the kernel keeps a reference to each algorithm that it refuses to a
        // namespace, until the next boot (tcp_set_default_congestion_control of Linux 6.18).
        true => allow().and_then(|()| set()),
        // The kernel may load a module for it.
        false => match set() {
            Err(Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                allow().and_then(|()| set())
            }
            outcome => outcome,
        },
    };
    restore_allowed(journal, run_dir)?;
    outcome
}

/// Undoes the temporary change of [`set_default`], also after a crash in between.
pub(super) fn restore_allowed(journal: &mut Journal, run_dir: &Path) -> Result<(), Error> {
    if let Some(name) = &journal.allowed_meanwhile {
        change_allowed(|now| {
            let others = now.split_whitespace().filter(|allowed| *allowed != name);
            others.collect::<Vec<_>>().join(" ")
        })?;
        journal.allowed_meanwhile = None;
        journal.shorten(run_dir)?;
    }
    Ok(())
}

/// Changes the list of allowed algorithms. Others register algorithms meanwhile, and a list read earlier would take their names away: the
/// kernel then refuses these as defaults, and keeps a reference to each. So the list is read just before it is written. If a
/// name on it is gone by then, the kernel refuses the list, and it is read again.
fn change_allowed(change: impl Fn(&str) -> String) -> Result<(), Error> {
    let once = || write_allowed(&change(&read(ALLOWED)?));
    once().or_else(|_| once())
}

/// The cookie of a namespace (`SO_NETNS_COOKIE`): no other namespace has it since boot. Programs
/// see the same cookie.
pub(crate) fn cookie_of(namespace: &FoundNamespace) -> Result<u64, Error> {
    namespace.run(netns_cookie).unwrap_or_else(entering_failed)
}

fn netns_cookie() -> Result<u64, Error> {
    let failed = |source| Error::Read { what: "the network namespace's cookie", source };
    // Reading the cookie takes a socket, but no address.
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

/// Writes the list of allowed algorithms. All namespaces share it, and only the host's own can
/// write it. That is usually this one and that of process 1, which not every user may inspect. Then
/// another process of the host's namespace leads there.
fn write_allowed(list: &str) -> Result<(), Error> {
    let Err(here) = write(ALLOWED, list) else { return Ok(()) };
    let host = knee_netns::of_process(1).and_then(|host| host.run(|| write(ALLOWED, list)));
    if matches!(host, Ok(Ok(()))) {
        return Ok(());
    }
    let others = knee_netns::all().or_else(entering_failed)?;
    let written = |one: &FoundNamespace| matches!(one.run(|| write(ALLOWED, list)), Ok(Ok(())));
    if others.iter().any(written) { Ok(()) } else { Err(here) }
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

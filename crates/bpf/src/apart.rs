//! Tries work on an untrusted object in a child process.
//!
//! libbpf trusts the numbers of an object in places: one byte may make it divide by zero, read
//! beyond the end or ask for gigabytes. The child has the same memory as this process and does the
//! same work, so what it survives this process survives, too.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use knee_algo::module::bounded;

/// The most memory that the work may add, in bytes. Objects of knee's take about 10 MB, and the
/// verifier's messages up to 32 MB.
const MOST_BYTES: u64 = 100 << 20;
/// The most CPU time, in seconds. The verifier takes less than one for knee's algorithms.
const MOST_CPU_S: u64 = 20;
/// The longest time, also on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Exit codes of the child.
const SURVIVED: i32 = 0;
const NO_MEMORY: i32 = 1;
const PANICKED: i32 = 2;

/// Runs `work` in a child process. Its error only matters if it says that memory ran out: this
/// process does the work again and gets the same answer.
///
/// # Errors
/// The reason why this process must not do the work, in words that follow the object's name.
pub(crate) fn survives<E: ToString>(work: impl FnOnce() -> Result<(), E>) -> Result<(), String> {
    let refused = |what: &str| Err(format!("is a broken object: {what}"));
    let failed = |source: io::Error| format!("cannot be tried in a process of its own: {source}");
    // Read before the fork, because the child must wait for no other thread.
    let bytes = used_bytes().map_err(failed)?.saturating_add(MOST_BYTES);
    // SAFETY: the child calls nothing that waits for a lock of another thread, except for memory,
    // which the C library sees to. It ends without running anything of this process.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(failed(io::Error::last_os_error())),
        0 => {
            confine(bytes);
            let ran = catch_unwind(AssertUnwindSafe(work));
            let out_of_memory = io::Error::from_raw_os_error(libc::ENOMEM).to_string();
            let code = match ran {
                Ok(Err(why)) if why.to_string().contains(&out_of_memory) => NO_MEMORY,
                Ok(_) => SURVIVED,
                Err(_) => PANICKED,
            };
            // SAFETY: the call does not return.
            unsafe { libc::_exit(code) }
        }
        child => match wait_for(child).map_err(failed)? {
            Some(status) if libc::WIFEXITED(status) => match libc::WEXITSTATUS(status) {
                SURVIVED => Ok(()),
                NO_MEMORY => refused("it takes more than 100 MB of memory to read"),
                _ => refused("libbpf cannot read it"),
            },
            Some(status) if libc::WTERMSIG(status) == libc::SIGXCPU => {
                refused("it takes too long to read")
            }
            Some(status) => {
                let signal = libc::WTERMSIG(status);
                refused(&format!("libbpf would end by signal {signal} while it reads it"))
            }
            None => refused("it takes too long to read"),
        },
    }
}

/// Bytes of address space that this process uses.
fn used_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has another form"))?;
    // SAFETY: the call takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages.saturating_mul(u64::try_from(page).unwrap_or(0)))
}

/// Limits this process, and keeps it quiet. What fails here is a limit less.
fn confine(bytes: u64) {
    let _ = bounded::limit_process(bytes, MOST_CPU_S, MOST_BYTES);
    // SAFETY: the calls take numbers and a C string. The signals are those of broken objects.
    unsafe {
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGABRT, libc::SIGILL] {
            libc::signal(signal, libc::SIG_DFL);
        }
        // It ends with its parent, and its words are no use.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::dup2(nowhere, libc::STDOUT_FILENO);
        libc::dup2(nowhere, libc::STDERR_FILENO);
    }
}

/// Waits for the child; `None` if it had to be killed because it took too long.
fn wait_for(child: libc::pid_t) -> io::Result<Option<i32>> {
    let started = Instant::now();
    let mut is_late = false;
    loop {
        let mut status = 0;
        let flags = if is_late { 0 } else { libc::WNOHANG };
        // SAFETY: the call writes the number; the child is this process's own.
        match unsafe { libc::waitpid(child, &raw mut status, flags) } {
            0 if started.elapsed() > WITHIN => {
                is_late = true;
                // SAFETY: the child was not waited for, so the number is still its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            0 => std::thread::sleep(LOOK_EVERY),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => return Ok((!is_late).then_some(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_the_child_is_an_error_and_what_fails_is_not() {
        let fine: Result<(), String> = Ok(());
        assert_eq!(survives(|| fine), Ok(()));
        assert_eq!(survives(|| Err("not an object")), Ok(()));
        let memory = survives(|| Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        assert!(memory.unwrap_err().contains("more than 100 MB"));
        let signal = survives(|| -> Result<(), String> {
            // SAFETY: the call ends the child.
            unsafe { libc::raise(libc::SIGFPE) };
            Ok(())
        });
        assert!(signal.unwrap_err().contains("signal 8"));
        let much = survives(|| Vec::<u8>::new().try_reserve_exact(1 << 30).map_err(|_| "no"));
        // An allocation that may fail does not end the child, and it gets no memory.
        assert_eq!(much, Ok(()));
        let panicked = survives(|| -> Result<(), String> { panic!("a bug") });
        assert!(panicked.unwrap_err().contains("cannot read it"));
    }
}

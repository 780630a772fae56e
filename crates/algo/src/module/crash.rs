//! A last word when the process crashes while files run in it: without it the shell's "Segmentation
//! fault" is all that there is.

use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once};

use super::lock;

/// What ends a process that computes or looks where it must not.
const SIGNALS: [(c_int, &str); 4] = [
    (libc::SIGSEGV, "SIGSEGV: it read or wrote where no memory is"),
    (libc::SIGBUS, "SIGBUS: it read or wrote where no memory is"),
    (libc::SIGFPE, "SIGFPE: it divided by zero"),
    (libc::SIGILL, "SIGILL: it ran what is no instruction"),
];

/// The sentence for each signal. It is written beforehand, because a handler may not allocate, and never
/// freed, because a handler may be reading it.
static SENTENCES: [AtomicPtr<String>; 4] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SIGNALS.len()];

/// From now on a crash names this file, and those named before.
pub(super) fn name_in_crashes(path: &Path) {
    static FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static INSTALLED: Once = Once::new();
    let mut files = lock(&FILES);
    files.push(path.display().to_string());
    for ((_, why), sentence) in SIGNALS.iter().zip(&SENTENCES) {
        let text = format!(
            "knee: crashed ({why}) while it ran code of {}: look there first, for a file runs as part of knee\n",
            files.join(", ")
        );
        sentence.store(Box::into_raw(Box::new(text)), Ordering::Release);
    }
    INSTALLED.call_once(|| {
        for (signal, _) in SIGNALS {
            // SAFETY: the handler keeps to what is safe in a signal; all zeros is an empty mask. On the
            // alternative stack, as a stack that has overflowed has no room for it.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = crashed as extern "C" fn(c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// Says the sentence, and lets the signal do what it does by default.
extern "C" fn crashed(signal: c_int) {
    let mut which = SIGNALS.iter().zip(&SENTENCES).filter(|((known, _), _)| *known == signal);
    if let Some((_, sentence)) = which.next() {
        // SAFETY: null, or a text that is never freed; write(2), signal(2) and raise(3) are safe in a
        // handler. The signal is blocked until the handler returns, and then ends the process.
        unsafe {
            if let Some(text) = sentence.load(Ordering::Acquire).as_ref() {
                libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

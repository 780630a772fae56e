//! Signal handlers that are there while code of files runs, and put back behind it: the process may be somebody else's, as an
//! interpreter with handlers of its own.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signal that only the watchdog sends.
pub(super) const LOOPS: c_int = libc::SIGVTALRM;
const SIGNALS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, LOOPS];

pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// What the handlers replaced, for signals from other code. A handler may read one at any time, so none is ever freed: there is a new one
/// only if somebody has changed the action.
static BEFORE: [AtomicPtr<libc::sigaction>; SIGNALS.len()] =
    [const { AtomicPtr::new(null_mut()) }; SIGNALS.len()];

/// The thread that is in a handler from before, to which a signal was passed on.
static PASSES_ON: AtomicI32 = AtomicI32::new(0);

static STATE: Mutex<State> = Mutex::new(State { held: 0, is_watched: false, process: 0 });

struct State {
    /// Number of [`Held`].
    held: usize,
    /// Whether the watchdog runs.
    is_watched: bool,
    /// The process of both: a fork has neither.
    process: u32,
}

/// The handlers stay while one of these is there.
pub(super) struct Held {
    handler: Handler,
}

impl Held {
    /// Installs `handler`, and starts `watchdog` on a thread of its own, unless others did.
    pub(super) fn new(handler: Handler, watchdog: fn()) -> Held {
        let mut state = state();
        let process = std::process::id();
        if state.process != process {
            *state = State { held: 0, is_watched: false, process };
        }
        if state.held == 0 {
            install(handler);
        }
        state.held += 1;
        if !state.is_watched {
            // Without a watchdog, an endless loop is not detected.
            let begun = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watchdog);
            state.is_watched = begun.is_ok();
        }
        Held { handler }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = state();
        // The watchdog sends its signal under the lock. One that came late must not meet the action from before, which may end
        // the process.
        discard_pending();
        state.held = state.held.saturating_sub(1);
        if state.held == 0 {
            put_back(self.handler);
        }
    }
}

/// Lets the watchdog look while handlers are there. Returns false if it is to end.
pub(super) fn while_held(look: impl FnOnce()) -> bool {
    let mut state = state();
    if state.held == 0 {
        state.is_watched = false;
        return false;
    }
    look();
    true
}

/// Passes on a signal from outside the code of files to the action from before, as far as that can be called.
///
/// # Safety
/// The pointers must be those that the kernel passes to a handler.
pub(super) unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the caller guarantees it, and the calls have no arguments and cannot fail.
    let (is_sent, sender, process, thread) =
        unsafe { ((*info).si_code <= 0, (*info).si_pid(), libc::getpid(), libc::gettid()) };
    if signal == LOOPS && is_sent && sender == process {
        // The watchdog's, for a call that is over.
        return;
    }
    let before = before(signal);
    match before.map_or(libc::SIG_DFL, |action| action.sa_sigaction) {
        libc::SIG_IGN if is_sent => {}
        // The failed instruction runs again, and nobody is there.
        libc::SIG_DFL | libc::SIG_IGN => {
            give_back(signal);
            if is_sent {
                // SAFETY: the call is safe in a handler.
                unsafe { libc::raise(signal) };
            }
        }
        // It was installed over ours, and has put ours back to raise the signal once more.
        _ if PASSES_ON.load(Ordering::Relaxed) == thread => {
            // SAFETY: the calls are safe in a handler.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        handler => {
            let has_info = before.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0);
            PASSES_ON.store(thread, Ordering::Relaxed);
            // SAFETY: the address is a handler that somebody has installed for this signal, in the form that its flags say.
            unsafe {
                match has_info {
                    true => std::mem::transmute::<usize, Handler>(handler)(signal, info, context),
                    false => {
                        std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
                    }
                }
            }
            PASSES_ON.store(0, Ordering::Relaxed);
        }
    }
}

fn before(signal: c_int) -> Option<libc::sigaction> {
    let before = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal)?.1;
    // SAFETY: the pointer is null, or to an action that is never freed nor changed.
    unsafe { before.load(Ordering::Acquire).as_ref().copied() }
}

/// Gives a signal the action that it had before.
fn give_back(signal: c_int) {
    if let Some(action) = before(signal) {
        // SAFETY: the call is safe in a signal handler.
        unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn install(handler: Handler) {
    for (signal, before) in SIGNALS.iter().zip(&BEFORE) {
        // SAFETY: all zeros is a valid struct with an empty mask, and the handler makes only calls that are safe in a signal
        // handler. It runs on the alternative stack, because an overflowed stack has no room. Its signals stay unmasked, because
        // it may not return.
        unsafe {
            let mut old: libc::sigaction = zeroed();
            libc::sigaction(*signal, null(), &raw mut old);
            let known = before.load(Ordering::Relaxed).as_ref();
            let is_known = known.is_some_and(|known| {
                (known.sa_sigaction, known.sa_flags) == (old.sa_sigaction, old.sa_flags)
            });
            // Ours is there if somebody replaced it for a time, and gave it back.
            if old.sa_sigaction != handler as libc::sighandler_t && !is_known {
                before.store(Box::into_raw(Box::new(old)), Ordering::Release);
            }
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags =
                libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
            libc::sigaction(*signal, &raw const action, null_mut());
        }
    }
}

fn put_back(handler: Handler) {
    for signal in SIGNALS {
        // SAFETY: all zeros is a valid struct, which the call fills in.
        let now = unsafe {
            let mut now: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &raw mut now);
            now
        };
        // Whoever has installed another one since then may call ours from it.
        if now.sa_sigaction == handler as libc::sighandler_t {
            give_back(signal);
        }
    }
}

/// Takes a signal of the watchdog off this thread, if one waits.
fn discard_pending() {
    // SAFETY: all zeros is a valid set, and the pointers are to values of this frame.
    unsafe {
        let (mut loops, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigemptyset(&raw mut loops);
        libc::sigaddset(&raw mut loops, LOOPS);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const loops, &raw mut before);
        libc::sigtimedwait(&raw const loops, null_mut(), &zeroed());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
    }
}

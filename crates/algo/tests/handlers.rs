//! What a program finds of its signal handlers and its panic hook behind runs with code of files.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::mem::zeroed;
use std::panic::{catch_unwind, set_hook};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use knee_algo::{Host, TcpSock, module};

const SIGNALS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGVTALRM,
];

fn handlers() -> [usize; 7] {
    SIGNALS.map(|signal| {
        // SAFETY: all zeros is a valid struct, which the call fills in.
        unsafe {
            let mut now: libc::sigaction = zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            now.sa_sigaction
        }
    })
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn own_handler(_: i32) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn they_are_put_back() {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the handler counts.
    unsafe { libc::signal(libc::SIGSEGV, own_handler as extern "C" fn(i32) as usize) };
    set_hook(Box::new(|_| {
        SAID.fetch_add(1, Ordering::Relaxed);
    }));
    let before = handlers();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/tcp_reno.c");
    let reno = module::load(&path).unwrap();
    assert_eq!(handlers(), before, "a file was read");
    let call = || {
        let mut instance = reno.instance(reno.default_params());
        let mut sock = TcpSock { snd_cwnd: 10, ..TcpSock::default() };
        instance.ssthresh(&mut sock, &mut Host::new(1000, 1));
        assert_ne!(handlers(), before, "code of a file is guarded");
        let called = CALLED.load(Ordering::Relaxed);
        // SAFETY: the call is sound, and the handler returns.
        unsafe { libc::raise(libc::SIGSEGV) };
        assert_eq!(
            CALLED.load(Ordering::Relaxed),
            called + 1,
            "a signal from elsewhere is passed on"
        );
        assert_ne!(handlers(), before, "and the guard stays");
    };
    for _ in 0..3 {
        assert!(module::carry_out(call).is_ok());
        assert_eq!(handlers(), before);
        assert!(
            module::carry_out::<()>(|| {
                call();
                panic!("cannot go on")
            })
            .is_err()
        );
        assert_eq!(handlers(), before);
    }
    let said = SAID.load(Ordering::Relaxed);
    assert_eq!(said, 0, "panics behind calls of a file are sentences");
    assert!(catch_unwind(|| panic!("somebody else's")).is_err());
    assert_eq!(SAID.load(Ordering::Relaxed), 1);
    // Panics of others while runs begin and end hold up nobody. Between two hooks there is for a moment the usual one, which prints.
    const TURNS: usize = 300;
    std::thread::scope(|scope| {
        scope.spawn(|| (0..TURNS).for_each(|_| drop(module::carry_out(|| ()))));
        scope.spawn(|| (0..TURNS).for_each(|_| drop(catch_unwind(|| panic!("others'")))));
    });
    assert!((2..=1 + TURNS).contains(&SAID.load(Ordering::Relaxed)));
}

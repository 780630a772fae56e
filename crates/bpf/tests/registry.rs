//! What is said to be registered, while other things are loaded and unloaded all the time.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::host::Host;
use knee_bpf::{Connections, Embedded, Inside, Loaded, TraceFilter, Tracer, registered};
use knee_testbed::{own_name, wait_until_free};

fn stays() -> &'static str {
    own_name("stays")
}
/// At least so long, and so many rounds of the others.
const TIME: Duration = Duration::from_secs(3);
const ROUNDS: usize = 10;

fn load(name: &str) -> Loaded {
    wait_until_free(name);
    let params = Algorithm::by_name("reno").unwrap().default_params();
    Loaded::register_for_any_user(Embedded::by_name("reno").unwrap(), name, &params).unwrap()
}

/// Tells the others to end, however the test does.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `look` while an algorithm (programs, maps, a link) and a reader of connections (a link of
/// another kind) come and go.
fn under_churn(name: &str, mut look: impl FnMut()) {
    let (done, loads, readers) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let until_done = |count: &AtomicUsize, action: &dyn Fn()| {
        while !done.load(Ordering::Relaxed) {
            action();
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let _done = Done(&done);
        let others = [
            scope.spawn(|| until_done(&loads, &|| drop(load(name)))),
            scope.spawn(|| until_done(&readers, &|| drop(Connections::open().unwrap()))),
        ];
        let started = Instant::now();
        let rounds = || [&loads, &readers].map(|count| count.load(Ordering::Relaxed));
        while started.elapsed() < TIME || rounds().iter().any(|count| *count < ROUNDS) {
            assert!(!others.iter().any(|other| other.is_finished()), "one of them failed");
            look();
        }
    });
}

#[test]
fn what_stays_is_never_missed() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _stays = load(stays());
    let whole = registered().unwrap().into_iter().find(|one| one.name == stays()).unwrap();
    assert_eq!(whole.programs.len(), 3);
    let (mut looks, mut missed) = (0, 0);
    under_churn(own_name("comes"), || {
        looks += 1;
        missed += usize::from(!registered().unwrap().contains(&whole));
    });
    assert_eq!(missed, 0, "of {looks} looks");
}

/// What goes away between two look-ups is not known, and that is all.
#[test]
fn what_goes_is_no_error() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let stays = load(own_name("stays2"));
    let reader = Connections::open().unwrap();
    under_churn(own_name("goes"), || {
        Host::here().status().unwrap();
        let mut inside = Inside::new();
        for connection in reader.read_all().unwrap() {
            inside.of(&connection).unwrap();
        }
        drop(Tracer::attach(stays.name(), &TraceFilter::default()).unwrap());
    });
}

//! Commands that look, while algorithms and their connections come and go.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use knee_algo::Algorithm;
use knee_bpf::{Embedded, KernelApi, Loaded};
use knee_testbed::net::choose;
use knee_testbed::sandbox::Sandbox;
use knee_testbed::wait_until_free;

const TIME: Duration = Duration::from_secs(4);
const LOOKS: usize = 5;

/// Tells the others to end, however the test does.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A live update puts another map into the place of the old one; the name is there throughout.
#[test]
fn an_update_hides_nothing() {
    // Kernels before 6.4 have no live updates.
    if !knee_testbed::kernel_is_ready() || !KernelApi::running().links {
        return;
    }
    let host = Sandbox::new(env!("CARGO_BIN_EXE_knee"));
    let name = host.name('u');
    let load = |beta| host.knee(&format!("load cubic --set beta={beta} --as {name}")).done();
    load(700);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        let updates = scope.spawn(|| {
            for beta in (600..800).cycle() {
                load(beta);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let (started, mut looks, mut missed) = (Instant::now(), 0, 0);
        while started.elapsed() < TIME {
            assert!(!updates.is_finished(), "an update failed");
            looks += 1;
            let all = knee_bpf::registered().unwrap();
            missed += usize::from(!all.iter().any(|one| one.name == name));
        }
        assert_eq!(missed, 0, "of {looks} looks");
    });
}

#[test]
fn top_and_status_hold_while_algorithms_come_and_go() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let host = Sandbox::new(env!("CARGO_BIN_EXE_knee"));
    let netns = host.namespace.tid();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        let others = ['a', 'b'].map(|letter| {
            let (name, host, done) = (host.name(letter), &host, &done);
            scope.spawn(move || {
                let listener = host.namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
                let at = listener.local_addr().unwrap();
                let reno = Algorithm::by_name("reno").unwrap();
                while !done.load(Ordering::Relaxed) {
                    wait_until_free(&name);
                    let embedded = Embedded::by_name("reno").unwrap();
                    let loaded =
                        Loaded::register_for_any_user(embedded, &name, &reno.default_params())
                            .unwrap();
                    let client = host.namespace.run(move || TcpStream::connect(at).unwrap());
                    let server = listener.accept().unwrap().0;
                    choose(&server, &name);
                    // Not registered any more, it goes with its last connection.
                    drop(loaded);
                    drop((server, client));
                }
            })
        });
        let (started, mut looks) = (Instant::now(), 0);
        while started.elapsed() < TIME || looks < LOOKS {
            assert!(!others.iter().any(|other| other.is_finished()), "one of them failed");
            host.knee(&format!("top --once --all --netns {netns}")).done();
            host.knee("top --once --json").done();
            host.knee("status --json").done();
            looks += 1;
        }
    });
}

//! A host on which something other than knee has removed what knee keeps: the journal, the pins, or
//! the process of an algorithm. `status` says so, and `unload` restores what was there before.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use knee_bpf::{Embedded, Loaded};
use knee_netns::Namespace;
use knee_testbed::net::{choose, chosen, set_default};
use knee_testbed::sandbox::{Sandbox, available};
use knee_testbed::{own_name, wait_until, wait_until_free};

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// A host whose default is not the one that every kernel has, where there is another.
fn sandbox() -> Option<Sandbox> {
    let host = knee_testbed::kernel_is_ready().then(|| Sandbox::new(env!("CARGO_BIN_EXE_knee")))?;
    let usual = |name: &&str| ["cubic", "bbr"].contains(name);
    let allowed = fs::read_to_string(ALLOWED).unwrap();
    if let Some(name) = allowed.split_whitespace().find(usual) {
        set_default(&host.namespace, name);
    }
    Some(host)
}

fn default_of(namespace: &Namespace) -> String {
    namespace.run(|| fs::read_to_string(DEFAULT).unwrap().trim().to_owned())
}

/// The algorithm of a new connection.
fn of_a_new_one(namespace: &Namespace) -> String {
    namespace.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        chosen(&TcpStream::connect(listener.local_addr().unwrap()).unwrap())
    })
}

fn unregistered(status: &str, name: &str) -> Option<serde_json::Value> {
    let status: serde_json::Value = serde_json::from_str(status).unwrap();
    let all = status["unregistered"].as_array().unwrap();
    all.iter().find(|one| one["name"] == *name).cloned()
}

#[test]
fn a_lost_journal_is_told_and_the_earlier_default_comes_back() {
    let Some(host) = sandbox() else { return };
    let (first, second) = (host.name('a'), host.name('b'));
    let before = default_of(&host.namespace);
    // The earlier default of the second is the first.
    for name in [&first, &second] {
        host.knee(&format!("load reno --default --as {name}")).done();
    }
    fs::remove_dir_all(host.run_dir()).unwrap();
    let status = host.knee("status").failed_check();
    assert!(status.contains("pinned, but not in the journal"), "{status}");
    let said = host.knee(&format!("unload {first}")).done();
    assert!(!said.contains("default in"), "{said}");
    assert_eq!(default_of(&host.namespace), second);
    let said = host.knee("unload --all").done();
    assert!(said.contains(&format!(": {before} again")), "{said}");
    assert_eq!(
        (default_of(&host.namespace), of_a_new_one(&host.namespace)),
        (before.clone(), before)
    );
    assert!(!host.run_dir().exists());
    host.knee("status").done();
}

#[test]
fn lost_pins_are_told_and_the_earlier_default_comes_back() {
    let Some(host) = sandbox() else { return };
    let name = host.name('a');
    let before = default_of(&host.namespace);
    host.knee(&format!("load reno --default --as {name}")).done();
    let meanwhile = Namespace::new().unwrap();
    set_default(&meanwhile, &name);
    fs::remove_dir_all(host.run_dir()).unwrap();
    fs::remove_dir_all(host.bpffs().join("knee")).unwrap();
    if knee_bpf::KernelApi::running().links {
        wait_until_free(&name);
        // The kernel runs it for every new connection all the same.
        assert_eq!(of_a_new_one(&host.namespace), name);
        let status = host.knee("status").failed_check();
        let words = format!("{name}: no longer registered, but kept by ");
        assert!(status.contains(&words) && status.contains("knee unload"), "{status}");
        let json = host.knee("status --json").failed_check();
        let held = unregistered(&json, &name).unwrap();
        assert_eq!(
            (held["is_own"] == true, held["default_of"].as_array().unwrap().len()),
            (true, 2)
        );
        let doctor = host.knee("doctor");
        assert_eq!(doctor.code, Some(1));
        assert!(doctor.out.contains("left behind") && doctor.out.contains(&name), "{}", doctor.out);
    }
    let said = host.knee("unload --all").done();
    assert_eq!(said.matches(&format!(": {before} again")).count(), 2, "{said}");
    assert_eq!(
        (default_of(&host.namespace), of_a_new_one(&host.namespace)),
        (before.clone(), before)
    );
    assert!(unregistered(&host.knee("status --json").done(), &name).is_none());
    assert_eq!(host.knee("unload --all").done(), "nothing is loaded\n");
}

#[test]
fn a_journal_that_cannot_be_used_blocks_no_command() {
    let Some(host) = sandbox() else { return };
    let (name, other) = (host.name('a'), host.name('b'));
    let before = default_of(&host.namespace);
    let journal = host.run_dir().join("journal.json");
    for damage in ["{\"version\": 1, \"boot", "{\"version\": 2, \"more\": 1}"] {
        host.knee(&format!("load reno --default --as {name}")).done();
        fs::write(&journal, damage).unwrap();
        let status = host.knee("status").failed_check();
        assert!(
            status.contains("the journal cannot be used") && status.contains(&name),
            "{status}"
        );
        host.knee(&format!("load reno --as {other}")).done();
        let kept = fs::read_to_string(journal.with_extension("json.unread")).unwrap();
        assert_eq!(kept, damage);
        host.knee("unload --all").done();
        assert_eq!(default_of(&host.namespace), before);
        assert!(!available().contains(&name) && !host.run_dir().exists());
    }
    // Damaged, and nothing is loaded.
    fs::create_dir(host.run_dir()).unwrap();
    fs::write(&journal, "?").unwrap();
    host.knee("status").failed_check();
    assert_eq!(host.knee("unload --all").done(), "nothing is loaded\n");
    assert!(!host.run_dir().exists());
}

/// A load that was killed, and one whose pin something else has removed.
#[test]
fn monitoring_sees_an_interrupted_and_a_vanished_load_by_the_exit_code() {
    let Some(host) = sandbox() else { return };
    let name = host.name('a');
    host.knee(&format!("load reno --as {name}")).done();
    host.knee("status").done();
    let journal = host.run_dir().join("journal.json");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("\"complete\": true", "\"complete\": false")).unwrap();
    let status = host.knee("status").failed_check();
    assert!(status.contains("a command was interrupted"), "{status}");
    fs::write(&journal, text).unwrap();
    if knee_bpf::KernelApi::running().links {
        fs::remove_dir_all(host.bpffs().join("knee")).unwrap();
        wait_until_free(&name);
        let status = host.knee("status").failed_check();
        assert!(status.contains("no longer registered: its pin is gone"), "{status}");
    }
    host.knee("unload --all").done();
    host.knee("status").done();
}

/// As a lab that was killed leaves it in a namespace.
#[test]
fn what_a_process_has_left_as_a_default_is_found() {
    let Some(host) = sandbox() else { return };
    let name = own_name("held");
    let reno = Embedded::by_name("reno").unwrap();
    let params = reno.algorithm().default_params();
    let loaded = Loaded::register_for_any_user(reno, name, &params).unwrap();
    set_default(&host.namespace, name);
    drop(loaded);
    wait_until_free(name);
    let held = unregistered(&host.knee("status --json").out, name).unwrap();
    assert_eq!((&held["is_own"], held["default_of"].as_array().unwrap().len()), (&false.into(), 1));
    assert!(host.knee("doctor").out.contains(name));
    // A socket without a connection keeps the algorithm, too, and no list has it.
    let closed = host.namespace.run(|| {
        // SAFETY: the call makes a descriptor, which nobody else owns.
        unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)) }
    });
    set_default(&host.namespace, "reno");
    let held = unregistered(&host.knee("status --json").out, name).unwrap();
    assert_eq!(
        (held["references_elsewhere"].as_u64(), &held["default_of"]),
        (Some(1), &serde_json::json!([]))
    );
    drop(closed);
    wait_until("nothing keeps it", || {
        unregistered(&host.knee("status --json").out, name).is_none()
    });
}

/// The effective user of one thread is not root, and its capabilities are gone with that.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let nobody: libc::c_long = 65534;
            // SAFETY: the call changes the users of this thread alone.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
            assert_eq!(changed, 0);
            work()
        });
        thread.join().unwrap()
    })
}

#[test]
fn users_without_rights_choose_only_what_linux_lets_them_or_what_root_has_opened() {
    let Some(host) = sandbox() else { return };
    let open = |name: &str, line: &str| {
        let said = host.knee(&format!("load {line} --as {name}")).done();
        let (_listener, socket) = host.namespace.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (listener, socket)
        });
        let chosen = as_nobody(|| {
            // SAFETY: the pointer and the length are those of the name.
            unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::IPPROTO_TCP,
                    libc::TCP_CONGESTION,
                    name.as_ptr().cast(),
                    name.len() as libc::socklen_t,
                )
            }
        });
        choose(&socket, name);
        assert_eq!(said.contains("every user of this host may choose it"), chosen == 0, "{said}");
        host.knee(&format!("unload {name}")).done();
        chosen == 0
    };
    for (letter, algorithm, is_open) in [
        ('a', "dctcp", false),
        ('b', "bic", false),
        ('c', "nv", false),
        ('d', "nv2010", false),
        ('e', "dctcp_snd", false),
        ('f', "reno", true),
        ('g', "cubic", true),
        ('h', "bbr", true),
    ] {
        assert_eq!(open(&host.name(letter), algorithm), is_open, "{algorithm}");
    }
    assert!(open(&host.name('i'), "dctcp --any-user"));
    // As the default it serves everybody, and is still not theirs to choose elsewhere.
    let name = host.name('j');
    host.knee(&format!("load dctcp --default --i-know --as {name}")).done();
    assert_eq!(default_of(&host.namespace), name);
    assert!(!fs::read_to_string(ALLOWED).unwrap().contains(&name));
    host.knee(&format!("unload {name}")).done();
    // Linux keeps a reference to what it refuses to a namespace, and with it the algorithm until the next boot.
    wait_until("the kernel forgets it", || !host.knee("status").out.contains(&name));
}

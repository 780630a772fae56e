//! `knee load`, `confirm`, `unload` and `status` on the running kernel, and what they leave behind:
//! nothing.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use knee_netns::Namespace;
use knee_testbed::cgroup::Cgroup;
use knee_testbed::net::{choose, chosen, ecn_of, ip, set_default};
use knee_testbed::sandbox::{Running, Sandbox, available};
use knee_testbed::{outside, wait_until};

fn sandbox() -> Option<Sandbox> {
    knee_testbed::kernel_is_ready().then(|| Sandbox::new(env!("CARGO_BIN_EXE_knee")))
}

/// For what takes links: trials and live updates. Kernels before 6.4 have neither, and
/// `what_links_are_for_is_refused_without_them` holds.
fn sandbox_with_links() -> Option<Sandbox> {
    sandbox().filter(|_| knee_bpf::KernelApi::running().links)
}

fn default_of(namespace: &Namespace) -> String {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    namespace.run(move || fs::read_to_string(file).unwrap().trim().to_owned())
}

/// A connection over loopback: listener, connecting and accepting side.
fn connection(namespace: &Namespace) -> (TcpListener, TcpStream, TcpStream) {
    namespace.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (listener, client, server)
    })
}

#[test]
fn load_registers_and_unload_leaves_nothing() {
    let Some(host) = sandbox() else { return };
    let before = host.files();
    let name = host.name('d');
    let said = host.knee(&format!("load dctcp --as {name}")).done();
    assert!(said.starts_with(&format!("{name}: registered, shift_g=4")), "{said}");
    assert!(available().contains(&name));
    assert!(host.knee("status").done().contains(&name));
    host.knee(&format!("unload {name}")).done();
    assert!(!available().contains(&name));
    assert_eq!(host.files(), before);
    let refused = host.knee(&format!("unload {name}")).refused();
    assert_eq!(refused, format!("knee: nothing named \"{name}\" is loaded: see knee status\n"));
}

#[test]
fn loading_again_changes_nothing_or_updates() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    host.knee(&format!("load cubic --as {name}")).done();
    let again = host.knee(&format!("load cubic --as {name}")).done();
    assert!(again.contains("already loaded"), "{again}");
    let (_listener, old, _) = connection(&host.namespace);
    choose(&old, &name);
    let updated = host.knee(&format!("load cubic --as {name} --set beta=600")).done();
    assert!(
        updated.contains("updated")
            && updated.contains("beta=600")
            && updated.contains("keep the old program")
    );
    let refused = host.knee(&format!("load cubic --as {name} --confirm-within 1s")).refused();
    assert!(refused.contains("is loaded for good"), "{refused}");
    // The old connection goes on, with the old program; a new one takes the new.
    assert_eq!(chosen(&old), name);
    let (_listener, new, _) = connection(&host.namespace);
    choose(&new, &name);
    assert_eq!(chosen(&new), name);
}

#[test]
fn several_variants_at_once() {
    let Some(host) = sandbox() else { return };
    let (one, other) = (host.name('a'), host.name('b'));
    host.knee(&format!("load dctcp --as {one}")).done();
    host.knee(&format!("load dctcp=g6 --set shift_g=6 --as {other}")).done();
    let status = host.knee("status").done();
    assert!(status.contains(&one) && status.contains(&other), "{status}");
    host.knee("unload --all").done();
    assert!(!available().contains(&one) && !available().contains(&other));
}

#[test]
fn the_default_is_restored_in_every_namespace_before_the_name_goes() {
    let Some(host) = sandbox() else { return };
    let name = host.name('c');
    let before = default_of(&host.namespace);
    let other = Namespace::new().unwrap();
    host.knee(&format!("load cubic --default --as {name}")).done();
    assert_eq!(default_of(&host.namespace), name);
    let meanwhile = Namespace::new().unwrap();
    set_default(&other, &name);
    set_default(&meanwhile, &name);
    ip(&meanwhile, "link set lo up".to_owned());
    ip(&meanwhile, format!("route add 198.51.100.0/24 dev lo congctl {name} mtu 1400"));
    let (listener, mut client, mut server) = connection(&meanwhile);
    assert_eq!(chosen(&client), name);

    let said = host.knee(&format!("unload {name}")).done();
    assert_eq!(said.matches("again").count(), 4, "{said}");
    assert!(said.contains("2 connections keep it") && said.contains("listener 127.0.0.1:"));
    assert_eq!(chosen(&listener), before);
    assert!(said.contains("route 198.51.100.0/24"), "{said}");
    for namespace in [&host.namespace, &other, &meanwhile] {
        assert_eq!(default_of(namespace), before);
    }
    let route = meanwhile.run(|| {
        let output = Command::new("ip").args(["route", "show"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    assert!(route.contains("198.51.100.0/24 dev lo") && route.contains("mtu 1400"), "{route}");
    assert!(!route.contains("congctl"), "{route}");
    // Live connections go on under it until they close; new ones have the default.
    assert!(!available().contains(&name));
    client.write_all(&[7; 1000]).unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();
    assert_eq!(chosen(&client), name);
    let (_listener, new, _) = connection(&meanwhile);
    assert_eq!(chosen(&new), before);
}

#[test]
fn an_algorithm_that_needs_ecn_is_no_default_without_being_asked_twice() {
    let Some(host) = sandbox() else { return };
    let name = host.name('d');
    let refused = host.knee(&format!("load dctcp --default --as {name}")).refused();
    assert!(refused.contains("--i-know") && refused.contains("RFC 8257"), "{refused}");
    let cgroup = Cgroup::new();
    let path = cgroup.path().display();
    let refused = host.knee(&format!("load dctcp --cgroup {path} --as {name}")).refused();
    assert!(refused.contains("--i-know"), "{refused}");
    host.knee(&format!("load dctcp --default --i-know --as {name}")).done();
    assert_eq!(default_of(&host.namespace), name);
    // Nor by taking the name of one that is the default.
    let other = host.name('c');
    host.knee(&format!("load cubic --default --as {other}")).done();
    let refused = host.knee(&format!("load dctcp --as {other}")).refused();
    assert!(refused.contains(&format!("\"{other}\" is cubic: choose another name")), "{refused}");
}

fn status_of(host: &Sandbox, name: &str) -> serde_json::Value {
    let status: serde_json::Value =
        serde_json::from_str(&host.knee("status --json").done()).unwrap();
    let mut all = status["registered"].as_array().unwrap().iter();
    all.find(|one| one["name"] == *name).unwrap_or_else(|| panic!("no {name}: {status}")).clone()
}

/// The kernel keeps the program with the name in a default and in a listener, not the name.
#[test]
fn an_update_reaches_new_connections_of_namespaces_whose_default_it_is() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    host.knee(&format!("load cubic --default --as {name}")).done();
    let (_old_listener, _client, _server) = connection(&host.namespace);
    host.knee(&format!("load cubic --as {name} --set beta=600")).done();
    let status = status_of(&host, &name);
    assert_eq!(status["connections_of_replaced_program"], 2, "{status}");
    assert_eq!(status["listeners_of_replaced_program"], 1, "{status}");
    let (_new_listener, _new_client, _new_server) = connection(&host.namespace);
    let status = status_of(&host, &name);
    assert_eq!((&status["connections"], &status["listeners"]), (&2.into(), &1.into()), "{status}");
    assert_eq!(status["params"]["beta"], "600");
}

/// What one that is killed leaves may say more than what is in the kernel.
#[test]
fn an_update_killed_at_any_moment_is_completed_by_the_next_one() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    let line = format!("load cubic --as {name} --set beta=600");
    kill_at_any_moment(
        &host,
        &line,
        || {
            host.knee(&format!("load cubic --as {name} --set beta=700")).done();
            None
        },
        |_, delay| {
            host.knee(&line).done();
            let status = status_of(&host, &name);
            assert_eq!(status["params"]["beta"], "600", "after {delay:?}: {status}");
        },
    );
}

#[test]
fn a_trial_that_nobody_confirms_leaves_nothing() {
    let Some(host) = sandbox_with_links() else { return };
    let before = host.files();
    let name = host.name('d');
    let trial = host.start(&format!("load dctcp --as {name} --confirm-within 3s"));
    assert!(trial.first.contains("on trial for 3 s"), "{}", trial.first);
    assert!(available().contains(&name));
    let (code, said) = trial.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("as before"), "{said}");
    assert!(!available().contains(&name));
    assert_eq!(host.files(), before);
}

#[test]
fn a_trial_that_is_killed_leaves_nothing() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('d');
    for signal in [libc::SIGKILL, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        let trial = host.start(&format!("load dctcp --as {name} --confirm-within 60s"));
        assert!(available().contains(&name), "{}", trial.first);
        trial.signal(signal);
        drop(trial);
        wait_until("the name is gone", || !available().contains(&name));
        let refused = host.knee(&format!("confirm {name}")).refused();
        assert!(refused.contains("there is no trial"), "{refused}");
    }
    // The note of the killed one is gone as well, with the first command that saw it.
    assert!(!host.run_dir().join("trials").join(&name).exists());
}

#[test]
fn confirm_makes_a_trial_permanent() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    let before = default_of(&host.namespace);
    let cgroup = Cgroup::new();
    let path = cgroup.path().display();
    let trial = host
        .start(&format!("load cubic --default --cgroup {path} --as {name} --confirm-within 60s"));
    assert_eq!(default_of(&host.namespace), before, "no sysctl is written before it is confirmed");
    let elsewhere = Namespace::new().unwrap();
    host.knee_in(&elsewhere, "confirm").done();
    let (code, said) = trial.end();
    assert_eq!((code, said.ends_with("confirmed\n")), (Some(0), true), "{said}");
    assert!(available().contains(&name));
    assert_eq!(default_of(&host.namespace), name, "that of the trial's namespace");
    assert_eq!(default_of(&elsewhere), before);
    host.knee(&format!("unload {name}")).done();
    assert_eq!(default_of(&host.namespace), before);
}

/// Both ends of a new connection of `host`'s namespace.
fn chosen_by_new(host: &Sandbox) -> (String, String) {
    let (_listener, client, server) = connection(&host.namespace);
    (chosen(&client), chosen(&server))
}

#[test]
fn a_trial_gives_it_to_a_cgroup_until_it_ends() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('d');
    let cgroup = Cgroup::new();
    cgroup.take(&host.namespace);
    let path = cgroup.path().display().to_string();
    let before = chosen_by_new(&host);
    let outside = Namespace::new().unwrap();
    ip(&outside, "link set lo up".to_owned());
    cgroup.take(&outside);

    let trial = host.start(&format!(
        "load dctcp --default --i-know --cgroup {path} --as {name} --confirm-within 4s"
    ));
    let (listener, client, server) = connection(&host.namespace);
    assert_eq!((chosen(&client), chosen(&server)), (name.clone(), name.clone()));
    assert!(ecn_of(&client).negotiated && ecn_of(&server).negotiated);
    let (_other_listener, other, _) = connection(&outside);
    assert_eq!(chosen(&other), before.0, "a default is tried in its namespace only");
    // A process that is held up does not make it last longer.
    trial.signal(libc::SIGSTOP);
    thread::sleep(Duration::from_millis(4100));
    assert!(available().contains(&name));
    assert_eq!(chosen_by_new(&host), before, "the program looks at the deadline itself");
    trial.signal(libc::SIGCONT);
    assert_eq!(trial.end().0, Some(1));
    assert!(!available().contains(&name));
    let status = host.knee("status").done();
    let kept = format!("{name}: no longer registered, but kept by 2 connections");
    assert!(status.contains(&kept), "{status}");
    assert_eq!(chosen(&listener), before.0, "what it accepts from now on has the default, too");
}

#[test]
fn a_cgroup_has_it_until_it_is_unloaded() {
    let Some(host) = sandbox() else { return };
    let files = host.files();
    let name = host.name('c');
    let (cgroup, other) = (Cgroup::new(), Cgroup::new());
    cgroup.take(&host.namespace);
    let before = chosen_by_new(&host);
    host.knee(&format!("load cubic --cgroup {} --as {name}", cgroup.path().display())).done();
    assert_eq!(chosen_by_new(&host), (name.clone(), name.clone()));
    // Loading again for another cgroup moves it there.
    host.knee(&format!("load cubic --cgroup {} --as {name}", other.path().display())).done();
    assert_eq!(chosen_by_new(&host), before);
    other.take(&host.namespace);
    assert_eq!(chosen_by_new(&host), (name.clone(), name.clone()));
    // A cgroup that goes away takes nothing with it.
    cgroup.take(&host.namespace);
    drop(other);
    host.knee(&format!("unload {name}")).done();
    assert_eq!(host.files(), files);
    let refused = host.knee(&format!("load cubic --cgroup /tmp --as {name}")).refused();
    assert!(refused.contains("/tmp: not a directory of cgroup2"), "{refused}");
}

#[test]
fn status_shows_who_uses_it_and_who_fell_back() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('d');
    let old_listener = host.namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = old_listener.local_addr().unwrap();
    let default = default_of(&host.namespace);
    host.knee(&format!("load dctcp --default --i-know --as {name} --set shift_g=5")).done();
    let (_listener, client, server) = connection(&host.namespace);
    assert!(ecn_of(&client).negotiated && ecn_of(&server).negotiated);
    // The one that was there before refuses ECN, so the client is handed to the old default.
    let refused = host.namespace.run(move || TcpStream::connect(address).unwrap());
    let (accepted, _) = old_listener.accept().unwrap();
    assert!(!ecn_of(&refused).negotiated && !ecn_of(&accepted).negotiated);
    assert_eq!((chosen(&refused), chosen(&accepted)), (default.clone(), default.clone()));

    let status = host.knee("status").done();
    let part = &status[status.find(&name).unwrap()..];
    for words in [
        format!("{name}: dctcp shift_g=5 alpha_on_init=1024 "),
        "\n  loaded ".to_owned(),
        "2 connections, 1 listener\n".to_owned(),
        format!("connections without ECN moved to {default}\n"),
        format!("listener {address} in namespace "),
    ] {
        assert!(part.contains(&words), "{words}: {status}");
    }
    let json: serde_json::Value = serde_json::from_str(&host.knee("status --json").done()).unwrap();
    let all = json["registered"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == *name).unwrap();
    assert_eq!(one["handed_to_fallback"], 2, "{one}");
    assert_eq!(one["params"]["shift_g"], "5");
    assert_eq!(one["connections"], 2);

    host.knee(&format!("load dctcp --as {name} --set shift_g=6")).done();
    let status = host.knee("status").done();
    assert!(status.contains("2 with the old program"), "{status}");
    assert!(status.contains(&format!("{name}: dctcp shift_g=6")), "{status}");
}

#[test]
fn a_confirm_that_fails_leaves_the_trial_going() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    let cgroup = Cgroup::new();
    let path = cgroup.path().display().to_string();
    let trial = host.start(&format!("load cubic --cgroup {path} --as {name} --confirm-within 60s"));
    drop(cgroup);
    let refused = host.knee(&format!("confirm {name}")).refused();
    assert!(refused.contains(&path), "{refused}");
    assert!(available().contains(&name));
    assert!(host.knee("status").done().contains(&format!("knee confirm {name}")));
    assert!(!host.bpffs().join("knee").exists());
    host.knee(&format!("unload {name}")).done();
    assert_eq!(trial.end().0, Some(1));
}

#[test]
fn unload_ends_a_trial() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('d');
    let trial = host.start(&format!("load dctcp --as {name} --confirm-within 60s"));
    let refused = host.knee("unload dctcp").refused();
    assert!(refused.contains(&format!("is loaded as {name}: knee unload {name}")), "{refused}");
    // One that is stopped cannot end by itself.
    let stopped = host.name('s');
    let other = host.start(&format!("load reno --as {stopped} --confirm-within 60s"));
    other.signal(libc::SIGSTOP);
    let said = host.knee(&format!("unload {stopped}")).done();
    assert_eq!(said, format!("{stopped}: trial ended\n"));
    let again = host.knee(&format!("load cubic --as {name}")).refused();
    assert!(again.contains("is on trial"), "{again}");
    let said = host.knee(&format!("unload {name}")).done();
    assert_eq!(said, format!("{name}: trial ended\n"), "and nobody uses it");
    assert_eq!(trial.end().0, Some(1));
}

/// Runs a command and kills it after ever longer times, up to more than it takes, with `before` and
/// `after` around it.
fn kill_at_any_moment(
    host: &Sandbox,
    line: &str,
    mut before: impl FnMut() -> Option<Running>,
    mut after: impl FnMut(Option<Running>, Duration),
) {
    let start = || {
        let mut command = host.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        host.namespace.run(move || command.spawn().unwrap())
    };
    let trial = before();
    let started = Instant::now();
    assert!(start().wait().unwrap().success());
    let takes = started.elapsed();
    after(trial, takes);
    let steps = 24;
    let mut ended_by_itself = false;
    // On a machine that is busier than a moment ago, up to delays longer than the run takes now.
    for step in 0_u32.. {
        if step > steps && ended_by_itself {
            break;
        }
        let trial = before();
        let mut child = start();
        let delay = takes * step / (steps - 4);
        thread::sleep(delay);
        ended_by_itself = child.try_wait().unwrap().is_some();
        let _ = child.kill();
        child.wait().unwrap();
        after(trial, delay);
    }
}

/// Whenever a command is killed, `unload` restores.
#[test]
fn a_load_killed_at_any_moment_can_be_undone() {
    let Some(host) = sandbox() else { return };
    for what in ["cubic", outside::loadable().to_str().unwrap()] {
        kill_loads_of(what, &host);
    }
}

fn kill_loads_of(what: &str, host: &Sandbox) {
    let before = host.files();
    let old_default = default_of(&host.namespace);
    let name = host.name('c');
    let line = format!("load {what} --default --as {name}");
    let mut left_over = 0;
    kill_at_any_moment(
        host,
        &line,
        || None,
        |_, delay| {
            wait_until("links of the killed one are closed", || {
                let undone = host.knee("unload --all");
                left_over += usize::from(undone.out.contains("unloaded"));
                undone.code == Some(0) && !available().contains(&name)
            });
            assert_eq!(default_of(&host.namespace), old_default, "after {delay:?}");
            assert_eq!(host.files(), before, "after {delay:?}");
        },
    );
    assert!(left_over > 0, "none left anything");
}

#[test]
fn a_confirm_killed_at_any_moment_can_be_undone() {
    let Some(host) = sandbox_with_links() else { return };
    let before = host.files();
    let old_default = default_of(&host.namespace);
    let name = host.name('c');
    kill_at_any_moment(
        &host,
        "confirm",
        || Some(host.start(&format!("load cubic --default --as {name} --confirm-within 60s"))),
        |trial, delay| {
            // The trial's process lives on, unless it was confirmed.
            host.knee("unload --all").done();
            assert!(!available().contains(&name), "after {delay:?}");
            drop(trial);
            assert_eq!(default_of(&host.namespace), old_default, "after {delay:?}");
            assert_eq!(host.files(), before, "after {delay:?}");
        },
    );
}

#[test]
fn commands_at_the_same_time_do_not_disturb_each_other() {
    let Some(host) = sandbox() else { return };
    let before = host.files();
    let names: Vec<String> = "abcdef".chars().map(|letter| host.name(letter)).collect();
    thread::scope(|scope| {
        for name in &names {
            let host = &host;
            scope.spawn(move || {
                for _ in 0..3 {
                    host.command(&format!("load reno --as {name}")).output().unwrap();
                    let out = host.command(&format!("unload {name}")).output().unwrap();
                    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                }
            });
        }
    });
    assert_eq!(host.files(), before);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| host.command(&format!("load reno --as {}", names[0])).output().unwrap());
        }
    });
    assert!(available().contains(&names[0]));
    host.knee("unload --all").done();
    assert_eq!(host.files(), before);
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let Some(host) = sandbox() else { return };
    let name = host.name('d');
    let before = host.files();
    for (line, expected) in [
        ("load dctcp --as sixteen_letters_".to_owned(), "cannot name an algorithm"),
        ("load dctp".to_owned(), "dctp"),
        (format!("load dctcp --as {name} --set shift_g=11"), "from 0 to 10"),
        (format!("load dctcp --as {name} --set gain=5"), "gain"),
        (format!("load dctcp --as {name} --set shift_g"), "must be PARAM=VALUE"),
        ("load dctcp --as reno".to_owned(), "registered already, and not by knee load"),
        ("unload reno".to_owned(), "was not loaded by knee load"),
        ("confirm".to_owned(), "there is no trial to confirm"),
    ] {
        let said = host.knee(&line).refused();
        assert!(said.contains(expected), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        assert_eq!(host.files(), before, "{line}");
    }
}

#[test]
fn who_may_not_is_told_what_it_takes() {
    let Some(host) = sandbox() else { return };
    // Nobody may not look into the directories of a build: a copy that anybody may run.
    let copy = host.run_dir().with_file_name("knee");
    fs::copy(env!("CARGO_BIN_EXE_knee"), &copy).unwrap();
    let passable = Permissions::from_mode(0o711);
    fs::set_permissions(copy.parent().unwrap(), passable).unwrap();
    for line in [
        "load dctcp",
        "load dctcp --confirm-within 1s",
        "unload knee_x",
        "confirm",
        "status",
        "policy show",
    ] {
        let output =
            Command::new(&copy).args(line.split(' ')).uid(65534).gid(65534).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("CAP_BPF") && said.contains("sudo"), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
    }
}

#[test]
fn without_a_bpf_file_system_the_way_to_one_is_told() {
    let Some(host) = sandbox() else { return };
    let name = host.name('c');
    let mut command = host.command(&format!("load cubic --as {name}"));
    command.env("KNEE_BPFFS", "/proc/knee");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/proc/knee is not a BPF file system"), "{said}");
    assert!(!available().contains(&name));
    assert!(!host.run_dir().exists());
}

#[test]
fn one_that_cannot_be_unloaded_does_not_keep_the_others() {
    let Some(host) = sandbox() else { return };
    let (one, other) = (host.name('a'), host.name('b'));
    host.knee(&format!("load cubic --as {one}")).done();
    host.knee(&format!("load cubic --as {other}")).done();
    let answer = host.knee(&format!("unload {one} knee_nothing {other}"));
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("nothing named \"knee_nothing\""), "{answer:?}");
    assert!(!available().contains(&one) && !available().contains(&other));
}

#[test]
fn loading_again_leaves_its_cgroup_alone() {
    let Some(host) = sandbox_with_links() else { return };
    let (name, other) = (host.name('a'), host.name('b'));
    let cgroup = Cgroup::new();
    cgroup.take(&host.namespace);
    let path = cgroup.path().display().to_string();
    host.knee(&format!("load cubic --cgroup {path} --as {name}")).done();
    let link = host.bpffs().join("knee").join(&name).join("cgroup");
    let pinned = |link: &std::path::Path| fs::metadata(link).unwrap().ino();
    let before = pinned(&link);
    host.knee(&format!("load cubic --cgroup {path} --as {name}")).done();
    host.knee(&format!("load cubic --as {name} --set beta=600")).done();
    assert_eq!(pinned(&link), before);
    assert_eq!(chosen_by_new(&host), (name.clone(), name.clone()));
    let refused = host.knee(&format!("load reno --cgroup {path} --as {other}")).refused();
    assert!(
        refused.contains(&format!("is given \"{name}\" (knee unload {name}) already")),
        "{refused}"
    );
    drop(cgroup);
    let status = host.knee("status").failed_check();
    assert!(status.contains("a removed cgroup"), "{status}");
}

#[test]
fn an_unconfirmed_trial_says_so_by_its_exit_code_though_nobody_reads() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('c');
    let mut command = host.command(&format!("load cubic --as {name} --confirm-within 1s"));
    command.stdout(Stdio::piped());
    let mut child = host.namespace.run(move || command.spawn().unwrap());
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!available().contains(&name));
}

#[test]
fn what_a_policy_names_is_not_unloaded_under_it() {
    let Some(host) = sandbox() else { return };
    let name = host.name('c');
    let cgroup = Cgroup::new();
    let file = host.bpffs().with_file_name("policy.toml");
    fs::write(&file, format!("[[rule]]\nto = [\"10.0.0.0/8\"]\nalgorithm = \"{name}\"\n")).unwrap();
    host.knee(&format!("load cubic --as {name}")).done();
    let (file, path) = (file.display(), cgroup.path().display());
    host.knee(&format!("policy apply {file} --cgroup {path}")).done();
    let refused = host.knee(&format!("unload {name}")).refused();
    assert!(refused.contains("knee policy clear"), "{refused}");
    assert!(available().contains(&name));
    host.knee("policy clear").done();
    host.knee(&format!("unload {name}")).done();
}

#[test]
fn what_links_are_for_is_refused_without_them() {
    let Some(host) = sandbox().filter(|_| !knee_bpf::KernelApi::running().links) else { return };
    let name = host.name('c');
    let trial = host.knee(&format!("load cubic --as {name} --confirm-within 60s")).refused();
    assert!(trial.contains("a trial that ends with its process, which takes Linux 6.4"), "{trial}");
    host.knee(&format!("load cubic --as {name}")).done();
    let update = host.knee(&format!("load cubic --as {name} --set beta=800")).refused();
    assert!(
        update.contains("a live update under the same name, which takes Linux 6.4"),
        "{update}"
    );
    host.knee(&format!("unload {name}")).done();
}

#[test]
fn status_counts_connections_that_a_trial_left_without_it() {
    let Some(host) = sandbox_with_links() else { return };
    let name = host.name('d');
    set_default(&host.namespace, "reno");
    // Ordinary, it refuses the ECN of a SYN with ECT.
    let other = Namespace::new().unwrap();
    set_default(&other, "reno");
    let tid = other.tid();
    ip(&host.namespace, format!("link add kv0 type veth peer name kv1 netns {tid}"));
    for (namespace, device, last) in [(&host.namespace, "kv0", 1), (&other, "kv1", 2)] {
        ip(namespace, format!("addr add 10.99.7.{last}/24 dev {device}"));
        ip(namespace, format!("link set {device} up"));
    }
    let listener = other.run(|| TcpListener::bind("10.99.7.2:0").unwrap());
    let at = listener.local_addr().unwrap();
    let trial =
        host.start(&format!("load dctcp --default --i-know --as {name} --confirm-within 60s"));
    let clients = [(); 2].map(|()| host.namespace.run(move || TcpStream::connect(at).unwrap()));
    assert_eq!(clients.each_ref().map(chosen), ["reno", "reno"]);
    let status = host.knee("status").done();
    // Others of this kernel may be listed beside it.
    let own = status.lines().skip_while(|line| !line.starts_with(&name)).skip(1);
    let own: Vec<&str> = own.take_while(|line| line.starts_with("  ")).collect();
    assert!(own.contains(&"  2 connections without ECN left at the default"), "{status}");
    assert!(!own.iter().any(|line| line.contains("without ECN moved")), "{status}");
    let status: serde_json::Value =
        serde_json::from_str(&host.knee("status --json").done()).unwrap();
    let ours = status["registered"].as_array().unwrap().iter().find(|one| one["name"] == name);
    assert_eq!(ours.unwrap()["left_without_ecn"], 2, "{status}");
    drop(trial);
}

#[test]
fn unload_gives_listeners_the_default_again() {
    let Some(host) = sandbox() else { return };
    let name = host.name('d');
    set_default(&host.namespace, "reno");
    let (moved, client, server) = connection(&host.namespace);
    host.knee(&format!("load cubic --default --as {name}")).done();
    host.knee(&format!("migrate --from reno --to {name} --listeners")).done();
    let opened = host.namespace.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    assert_eq!([chosen(&moved), chosen(&opened)], [name.as_str(), name.as_str()]);
    let said = host.knee("unload --all").done();
    assert_eq!([chosen(&moved), chosen(&opened)], ["reno", "reno"], "{said}");
    let line = format!("  listener {} in namespace", moved.local_addr().unwrap());
    assert!(said.contains(&line) && said.contains(": reno again"), "{said}");
    assert!(!said.contains("still has it"), "{said}");
    assert!(host.knee("status").done().lines().all(|line| !line.starts_with(&name)));
    drop((client, server));
}

#[test]
fn unloading_what_is_not_loaded_is_no_failure_if_asked_for_so() {
    let Some(host) = sandbox() else { return };
    let name = host.name('d');
    host.knee(&format!("unload {name}")).refused();
    let said = host.knee(&format!("unload --if-loaded {name}")).done();
    assert_eq!(said, format!("{name}: not loaded\n"));
    let said = host.knee(&format!("unload --if-loaded --json {name}")).done();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["not_loaded"], serde_json::json!([name]));
    // What somebody else has registered is loaded, and not knee's to undo.
    let refused = host.knee("unload --if-loaded reno").refused();
    assert!(refused.contains("was not loaded by knee load"), "{refused}");
    host.knee(&format!("load dctcp --as {name}")).done();
    for line in ["unload dctcp", "unload --if-loaded dctcp"] {
        let refused = host.knee(line).refused();
        let expected = format!("the algorithm dctcp is loaded as {name}: knee unload {name}");
        assert!(refused.contains(&expected), "{refused}");
    }
    host.knee(&format!("unload --if-loaded {name}")).done();
    assert!(!available().contains(&name));
}

#[test]
fn a_variant_whose_name_is_too_long_is_told_of_the_way_to_name_it() {
    let Some(host) = sandbox() else { return };
    for (what, way_out) in [
        ("dctcp=plain", "choose a word of at most 4 characters, or a name with --as"),
        ("dctcp_snd=x", "choose a name with --as"),
    ] {
        let refused = host.knee(&format!("load {what}")).refused();
        assert!(refused.contains(way_out), "{refused}");
    }
}

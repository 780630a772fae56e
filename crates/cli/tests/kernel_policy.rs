//! `knee policy` on the running kernel: what is applied acts on real connections, and goes.

#![cfg(feature = "kernel")]
#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use knee_testbed::cgroup::Cgroup;
use knee_testbed::net::{self, Pair, SERVER, SERVER_IPV6, chosen};
use knee_testbed::sandbox::Sandbox;

/// A host for `knee policy`, and a cgroup to apply it to.
struct Place {
    sandbox: Sandbox,
    cgroup: Cgroup,
}

impl Place {
    fn new() -> Place {
        Place { sandbox: Sandbox::new(env!("CARGO_BIN_EXE_knee")), cgroup: Cgroup::new() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        // Beside the BPF file system, and gone with it.
        let path = self.sandbox.bpffs().parent().unwrap().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The line that applies a file to the cgroup.
    fn line(&self, file: &Path) -> String {
        format!("policy apply {} --cgroup {}", file.display(), self.cgroup.path().display())
    }

    fn apply(&self, file: &Path) -> String {
        self.sandbox.knee(&self.line(file)).done()
    }

    fn show(&self) -> String {
        self.sandbox.knee("policy show").done()
    }

    /// The rules in the kernel, as JSON.
    fn shown(&self) -> serde_json::Value {
        serde_json::from_str(&self.sandbox.knee("policy show --json").done()).unwrap()
    }

    fn clear(&self) -> String {
        self.sandbox.knee("policy clear").done()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.sandbox.command("policy clear").output();
    }
}

fn hosts(cgroup: &Cgroup) -> Pair {
    let pair = Pair::new("reno", net::Path::default(), net::Path::default());
    cgroup.take(&pair.client);
    cgroup.take(&pair.server);
    pair
}

/// The algorithms of both ends of a connection: who opens and who accepts.
fn algorithms(pair: &Pair, address: &'static str) -> (String, String) {
    let listener = pair.server.run(move || TcpListener::bind((address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let client = pair.client.run(move || TcpStream::connect((address, port)).unwrap());
    (chosen(&client), chosen(&listener.accept().unwrap().0))
}

fn pair_of(client: &str, server: &str) -> (String, String) {
    (client.to_owned(), server.to_owned())
}

const BY_FAMILY: &str = "\
[[rule]]
name = \"rack\"
to = \"10.99.0.0/24\"
algorithm = \"cubic\"

[[rule]]
to = [\"fd99::2\", \"fd98::/16\"]
ports = [\"1024-1026\", 1027, 9]
algorithm = \"bbr\"
base_rtt = \"1.5 ms\"
ecn = \"grant\"

[[rule]]
name = \"the rest\"
to = \"everything\"
listen = [7, 80]
algorithm = \"default\"
";

#[test]
fn what_is_applied_acts_is_shown_and_goes() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let pair = hosts(&place.cgroup);
    assert_eq!(place.show(), "no policy is applied\n");
    let file = place.write("policy.toml", BY_FAMILY);
    let path = place.cgroup.path().display().to_string();

    let said = place.sandbox.knee(&(place.line(&file) + " --dry-run")).done();
    assert_eq!(said, format!("would apply 3 rules to {path}\n"));
    assert_eq!(place.show(), "no policy is applied\n");
    assert!(!place.sandbox.bpffs().join("knee").exists());

    for _ in 0..2 {
        assert_eq!(place.apply(&file), format!("applied 3 rules to {path}\n"));
        assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
        assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("reno", "reno"));
    }
    assert_eq!(
        place.show(),
        format!(
            "{path}
  rule 1 rack: to 10.99.0.0/24; cubic
    1 connected, 1 accepted, 0 listening
  rule 2: to fd98::/16, fd99::2/128; ports 9, 1024-1027; bbr; ecn grant; base RTT 1500 us
    0 connected, 0 accepted, 0 listening
  rule 3 the rest: to 0.0.0.0/0, ::/0; listen 7, 80; default
    1 connected, 1 accepted, 0 listening
"
        )
    );
    let rule = &place.shown()["policies"][0]["rules"][1];
    assert_eq!(rule["base_rtt_us"], 1500);
    assert_eq!(rule["ports"], serde_json::json!(["9", "1024-1027"]));

    // Another file replaces it all.
    let text = "[[rule]]\nto = \"fd99::/64\"\nalgorithm = \"bbr\"\n";
    place.apply(&place.write("other.toml", text));
    assert_eq!(algorithms(&pair, SERVER), pair_of("reno", "reno"));
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("bbr", "bbr"));

    assert_eq!(place.clear(), "cleared 1 cgroup\n");
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("reno", "reno"));
    assert!(!place.sandbox.bpffs().join("knee").exists());
    assert_eq!(place.clear(), "cleared 0 cgroups\n");
}

#[test]
fn the_innermost_cgroup_decides_and_its_removal_is_survived() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let outer = &place.cgroup;
    let inner = outer.child("inner");
    let pair = hosts(outer);
    inner.take(&pair.server);
    let text = "\
[[rule]]
to = \"everything\"
algorithm = \"cubic\"

[[rule]]
to = \"10.99.0.1\"
algorithm = \"bbr\"
cgroup = \"inner\"
";
    let file = place.write("policy.toml", text);
    place.apply(&file);
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "bbr"));
    // The inner one has no rule for this peer, so the outer one's applies.
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("cubic", "cubic"));

    outer.take(&pair.server);
    drop(inner);
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
    let error = place.sandbox.knee(&place.line(&file)).refused();
    assert!(error.contains("policy.toml:5: rule 2: /"), "{error}");
    assert!(error.contains("/inner: not a directory of cgroup2"), "{error}");
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"), "a refusal changes nothing");

    let gone =
        || place.shown()["policies"].as_array().unwrap().iter().any(|one| one["cgroup"].is_null());
    // The kernel detaches once the last socket that was in it is gone.
    let mut patience = 100;
    while !gone() && patience > 0 {
        thread::sleep(Duration::from_millis(20));
        patience -= 1;
    }
    assert!(gone(), "{}", place.shown());
    let outer_only = place.write("outer.toml", text.split("\n\n").next().unwrap());
    place.apply(&outer_only);
    assert!(!gone());
    assert_eq!(place.clear(), "cleared 1 cgroup\n");
}

#[test]
fn no_connection_falls_between_the_old_rules_and_the_new() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let pair = hosts(&place.cgroup);
    let rules =
        |algorithm: &str| format!("[[rule]]\nto = \"everything\"\nalgorithm = \"{algorithm}\"\n");
    let both = [place.write("cubic.toml", &rules("cubic")), place.write("bbr.toml", &rules("bbr"))];
    place.apply(&both[0]);
    let done = AtomicBool::new(false);
    let connections = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut connections = 0;
            while !done.load(Ordering::Relaxed) {
                let (client, server) = algorithms(&pair, SERVER);
                assert!(["cubic", "bbr"].contains(&client.as_str()), "{client}");
                assert!(["cubic", "bbr"].contains(&server.as_str()), "{server}");
                connections += 1;
            }
            connections
        });
        // Two at a time, which take turns.
        for _ in 0..10 {
            let start = |file: &PathBuf| {
                let mut command = place.sandbox.command(&place.line(file));
                command.stdout(Stdio::null()).spawn().unwrap()
            };
            for mut child in both.each_ref().map(start) {
                assert!(child.wait().unwrap().success());
            }
            assert_eq!(place.shown()["policies"].as_array().unwrap().len(), 1);
        }
        done.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    assert!(connections > 0);

    // Several at once: one of them has something to clear.
    let clear = |_| {
        let mut command = place.sandbox.command("policy clear");
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    for mut child in [0, 1, 2].map(clear) {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.show(), "no policy is applied\n");
}

#[test]
fn an_apply_that_fails_half_way_changes_nothing() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let pair = hosts(&place.cgroup);
    let inner = [place.cgroup.child("a"), place.cgroup.child("b")];
    let text = |algorithm: &str| {
        let rule = format!("[[rule]]\nto = \"everything\"\nalgorithm = \"{algorithm}\"\n");
        format!("{rule}{rule}cgroup = \"a\"\n{rule}cgroup = \"b\"\n")
    };
    let old = "[[rule]]\nto = \"everything\"\nalgorithm = \"cubic\"\n";
    place.apply(&place.write("old.toml", old));
    // The first is exchanged, the second new, and the third's place is taken.
    let taken = fs::metadata(inner[1].path()).unwrap().ino().to_string();
    let taken = place.sandbox.bpffs().join("knee/policies_of_cgroups").join(taken);
    fs::create_dir(&taken).unwrap();
    let new = place.write("new.toml", &text("bbr"));
    let error = place.sandbox.knee(&place.line(&new)).refused();
    assert!(error.contains(taken.to_str().unwrap()), "{error}");
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
    inner[0].take(&pair.server);
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
    assert_eq!(place.shown()["policies"].as_array().unwrap().len(), 1);

    fs::remove_dir(&taken).unwrap();
    place.apply(&new);
    assert_eq!(algorithms(&pair, SERVER), pair_of("bbr", "bbr"));
    assert_eq!(place.clear(), "cleared 3 cgroups\n");
    place.cgroup.take(&pair.server);
}

#[test]
fn an_apply_killed_at_any_moment_can_be_repeated_and_cleared() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let inner = place.cgroup.child("inner");
    let pair = hosts(&place.cgroup);
    let text = "\
[[rule]]
to = \"everything\"
algorithm = \"cubic\"

[[rule]]
to = \"everything\"
algorithm = \"bbr\"
cgroup = \"inner\"
";
    let file = place.write("policy.toml", text);
    let start = || {
        let mut command = place.sandbox.command(&place.line(&file));
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let started = Instant::now();
    assert!(start().wait().unwrap().success());
    let takes = started.elapsed();
    let steps = 24;
    let mut left_over = 0;
    let mut ended_by_itself = false;
    // On a machine that is busier than a moment ago, up to delays longer than the run takes now.
    for step in 0_u32.. {
        if step > steps && ended_by_itself {
            break;
        }
        place.clear();
        assert_eq!(algorithms(&pair, SERVER), pair_of("reno", "reno"));
        assert!(!place.sandbox.bpffs().join("knee").exists());
        let mut child = start();
        thread::sleep(takes * step / (steps - 4));
        ended_by_itself = child.try_wait().unwrap().is_some();
        let _ = child.kill();
        child.wait().unwrap();
        left_over += usize::from(place.show() != "no policy is applied\n");
        if step % 2 == 0 {
            place.apply(&file);
            assert_eq!(place.shown()["policies"].as_array().unwrap().len(), 2);
            assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
        }
    }
    assert!(left_over > 0, "none left anything");
    place.clear();
    assert_eq!(place.show(), "no policy is applied\n");
    drop(inner);
}

#[test]
fn files_that_cannot_be_carried_out_are_refused_in_a_sentence() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let at = |text: &str| {
        let file = place.write("p.toml", text);
        let error = place.sandbox.knee(&place.line(&file)).refused();
        assert_eq!(error.lines().count(), 1, "{error}");
        error.trim_end().rsplit_once("p.toml:").map_or(error.clone(), |(_, rest)| rest.to_owned())
    };
    for (text, expected) in [
        ("", "1: no rules: write [[rule]] and what it is for"),
        ("rule = 1\n", "1: rule = 1: must be a list of tables: [[rule]]"),
        ("[[rules]]\n", "1: rules: unknown key; did you mean \"rule\"?"),
        (
            "[[rule]]\nto = \"10.0.0.0/8\"\nalgoritm = \"cubic\"\n",
            "3: rule 1.algoritm: unknown key; did you mean \"algorithm\"?",
        ),
        (
            "[[rule]]\nalgorithm = \"cubic\"\n",
            "1: rule 1: says nothing about whom it is for, as to = [\"10.0.0.0/8\"], to = \
             \"everything\" or listen = [5201]",
        ),
        (
            "[[rule]]\nto = [\"::/0\", \"10.0.0.1/8\"]\nalgorithm = \"cubic\"\n",
            "2: rule 1.to = \"10.0.0.1/8\": has bits set beyond its length; the prefix is \
             10.0.0.0/8",
        ),
        (
            "[[rule]]\nto = \"::ffff:10.0.0.0/104\"\nalgorithm = \"cubic\"\n",
            "2: rule 1.to = \"::ffff:10.0.0.0/104\": is an IPv4 prefix: write \"10.0.0.0/8\"",
        ),
        (
            "[[rule]]\nto = \"10.0.0.0/33\"\nalgorithm = \"cubic\"\n",
            "2: rule 1.to = \"10.0.0.0/33\": must have a length from /0 to /32",
        ),
        (
            "[[rule]]\nto = \"::/0\"\nports = [0]\nalgorithm = \"cubic\"\n",
            "3: rule 1.ports = 0: must be a port from 1 to 65535, a range as \"8000-8099\"",
        ),
        (
            "[[rule]]\nto = \"::/0\"\nports = [\"90-80\"]\nalgorithm = \"cubic\"\n",
            "3: rule 1.ports = \"90-80\": must be a port from 1 to 65535, a range as \"8000-8099\"",
        ),
        (
            "[[rule]]\nto = \"::/0\"\nalgorithm = \"cubic\"\nbase_rtt = \"50\"\n",
            "4: rule 1.base_rtt = \"50\": must be a time from \"1 us\" to \"60000 ms\", in us or ms",
        ),
        (
            "[[rule]]\nto = \"::/0\"\nalgorithm = \"cubic\"\necn = \"on\"\n",
            "4: rule 1.ecn = \"on\": must be one of \"host\", \"grant\", \"peers run knee\"",
        ),
        (
            "[[rule]]\nlisten = 80\nalgorithm = \"cubic\"\necn = \"grant\"\n",
            "4: rule 1.ecn = \"grant\": ECN is granted and asked for by the peer: it needs `to`",
        ),
        (
            "[[rule]]\nto = \"::/0\"\nalgorithm = \"cubic\"\ncgroup = \"../x\"\n",
            "4: rule 1.cgroup = \"../x\": must be a path below the policy's cgroup, as \
             \"system.slice/nginx.service\"",
        ),
        (
            "[[rule]]\nto = \"0.0.0.0/0\"\nalgorithm = \"cubic\"\necn = \"peers run knee\"\n",
            "1: rule 1: 0.0.0.0/0 reaches the Internet, and not all peers run knee there; name \
             prefixes of at least /8 (IPv6: /7), or give --i-know",
        ),
    ] {
        assert_eq!(at(text), expected, "{text}");
    }
    let unknown = at("\n[[rule]]\nto = \"::/0\"\nalgorithm = \"knee_p_none\"\n");
    assert!(
        unknown.starts_with("2: rule 1: algorithm = \"knee_p_none\": the kernel has reno"),
        "{unknown}"
    );
    let twice = "[[rule]]\nname = \"a\"\nto = \"::/0\"\nalgorithm = \"cubic\"\n\
                 [[rule]]\nto = \"everything\"\nalgorithm = \"reno\"\n";
    assert_eq!(at(twice), "knee: rule 1 (a) and rule 2 both name ::/0: keep it once\n");
    let many = "[[rule]]\nto = \"everything\"\nports = \"1-65535\"\nalgorithm = \"cubic\"\n";
    assert!(at(many).contains("more than 65536 pairs of a prefix and a port"), "{}", at(many));
    assert!(at("[[rule]\n").starts_with("1: not TOML: "), "{}", at("[[rule]\n"));
    assert_eq!(place.show(), "no policy is applied\n");

    let file = place.write("p.toml", "[[rule]]\nto = \"::/0\"\nalgorithm = \"cubic\"\n");
    let no_cgroup = format!("policy apply {} --cgroup /tmp", file.display());
    let error = place.sandbox.knee(&no_cgroup).refused();
    assert!(error.starts_with("knee: /tmp: not a directory of cgroup2"), "{error}");
}

#[test]
fn dctcp_is_kept_off_the_internet_unless_somebody_knows() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let pair = hosts(&place.cgroup);
    let name = place.sandbox.name('p');
    place.sandbox.knee(&format!("load dctcp --as {name}")).done();
    let because = "an algorithm that needs ECN is not for the Internet (RFC 8257 section 5)";
    for (whom, reaches) in [
        ("to = \"everything\"", "0.0.0.0/0 reaches the Internet"),
        ("to = [\"10.99.0.0/24\", \"8.0.0.0/7\"]", "8.0.0.0/7 reaches the Internet"),
        ("to = \"2000::/3\"", "2000::/3 reaches the Internet"),
        ("to = [\"10.99.0.0/24\", \"8.8.8.0/24\"]", "8.8.8.0/24 is not a private prefix"),
        ("to = \"2001:db8::/32\"", "2001:db8::/32 is not a private prefix"),
        ("listen = 80", "listeners may be reached from anywhere"),
    ] {
        let file = place.write("p.toml", &format!("[[rule]]\n{whom}\nalgorithm = \"{name}\"\n"));
        let error = place.sandbox.knee(&place.line(&file)).refused();
        assert!(error.contains(&format!("p.toml:1: rule 1: {reaches}, and {because}")), "{error}");
        place.sandbox.knee(&(place.line(&file) + " --i-know --dry-run")).done();
    }
    // "Peers run knee" is a word about them, whatever the algorithm; and who has public addresses says so.
    let rule = "[[rule]]\nto = \"192.0.2.0/24\"\nalgorithm = \"cubic\"\necn = \"peers run knee\"\n";
    let error = place.sandbox.knee(&place.line(&place.write("p.toml", rule))).refused();
    assert!(error.contains("192.0.2.0/24 is not a private prefix, and not all peers"), "{error}");
    assert!(
        error.contains("ours = [\"192.0.2.0/24\"] at the top of the file, or give --i-know"),
        "{error}"
    );
    let own = place.write("p.toml", &format!("ours = \"192.0.0.0/16\"\n{rule}"));
    place.sandbox.knee(&(place.line(&own) + " --dry-run")).done();
    assert_eq!(place.show(), "no policy is applied\n");

    let text = format!(
        "[[rule]]\nto = [\"10.99.0.0/24\", \"fc00::/7\"]\nalgorithm = \"{name}\"\n\
         ecn = \"peers run knee\"\n"
    );
    place.apply(&place.write("p.toml", &text));
    for address in [SERVER, SERVER_IPV6] {
        assert_eq!(algorithms(&pair, address), pair_of(&name, &name));
    }
    assert_eq!(place.clear(), "cleared 1 cgroup\n");
    place.sandbox.knee(&format!("unload {name}")).done();
}

#[test]
fn nv_gets_its_base_rtt_from_a_rule_before_its_own_parameter() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let pair = hosts(&place.cgroup);
    let name = place.sandbox.name('n');
    place.sandbox.knee(&format!("load nv --set base_rtt_us=900 --as {name}")).done();
    let text = format!(
        "[[rule]]\nto = \"10.99.0.0/24\"\nalgorithm = \"{name}\"\nbase_rtt = \"70 us\"\n\n\
         [[rule]]\nto = \"fd99::/64\"\nalgorithm = \"{name}\"\n"
    );
    place.apply(&place.write("p.toml", &text));
    let base_rtt = |address: &'static str| {
        let listener = pair.server.run(move || TcpListener::bind((address, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let client = pair.client.run(move || TcpStream::connect((address, port)).unwrap());
        let _server = listener.accept().unwrap();
        assert_eq!(chosen(&client), name);
        let look = format!("top --once --json --netns {} --local-port", pair.client.tid());
        let look = format!("{look} {}", client.local_addr().unwrap().port());
        let shown: serde_json::Value =
            serde_json::from_str(&place.sandbox.knee(&look).done()).unwrap();
        let inside = shown["connections"][0]["inside"].as_array().unwrap().clone();
        inside.iter().find(|value| value["name"] == "base_rtt").unwrap()["value"].clone()
    };
    for (address, base_rtt_us) in [(SERVER, 70), (SERVER_IPV6, 900)] {
        // A kernel that leaves out calls (docs/kernels.md) leaves out one of init, too: its connection has zeros.
        let mut seen = (0..3).map(|_| base_rtt(address));
        let told =
            seen.find(|value| *value != 0).expect("one of three connections begins with init");
        assert_eq!(told, base_rtt_us, "{address}");
    }
    place.clear();
    place.sandbox.knee(&format!("unload {name}")).done();
}

#[test]
fn rules_that_an_apply_removes_are_named_before_and_after() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let file = place.write("a.toml", "[[rule]]\nto = \"10.0.0.0/8\"\nalgorithm = \"reno\"\n");
    place.apply(&file);
    let other = Cgroup::new();
    let (first, second) = (place.cgroup.path().display(), other.path().display());
    let line = format!("policy apply {} --cgroup {second}", file.display());
    let said = place.sandbox.knee(&format!("{line} --dry-run")).done();
    assert_eq!(said, format!("would apply 1 rule to {second}\nwould remove 1 rule from {first}\n"));
    assert_eq!(place.shown()["policies"].as_array().unwrap().len(), 1);
    let said = place.sandbox.knee(&line).done();
    assert_eq!(said, format!("applied 1 rule to {second}\nremoved 1 rule from {first}\n"));
}

#[test]
fn unloading_all_clears_the_policy_first() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let (name, other) = (place.sandbox.name('p'), place.sandbox.name('q'));
    place.sandbox.knee(&format!("load reno --as {name}")).done();
    place.sandbox.knee(&format!("load reno --default --as {other}")).done();
    let rule = format!("[[rule]]\nto = \"10.0.0.0/8\"\nalgorithm = \"{name}\"\n");
    place.apply(&place.write("a.toml", &rule));
    place.sandbox.knee(&format!("unload {name}")).refused();
    let said = place.sandbox.knee("unload --all").done();
    assert!(said.starts_with("policy: cleared the rules of 1 cgroup\n"), "{said}");
    assert!(said.contains(&format!("{name}: unloaded")), "{said}");
    assert_eq!(place.show(), "no policy is applied\n");
    assert!(!place.sandbox.run_dir().exists());
}

/// A restarted service has a new cgroup at the same path.
#[test]
fn a_policy_whose_cgroup_was_made_again_is_told_with_its_path() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let place = Place::new();
    let service = place.cgroup.child("service");
    let path = service.path().to_owned();
    let file = place.write("a.toml", "[[rule]]\nto = \"10.0.0.0/8\"\nalgorithm = \"reno\"\n");
    let line = format!("policy apply {} --cgroup {}", file.display(), path.display());
    place.sandbox.knee(&line).done();
    let status = place.sandbox.knee("status").done();
    assert!(status.contains(&format!("policy: 1 rule on {} (", path.display())), "{status}");
    drop(service);
    let again = place.cgroup.child("service");
    let status = place.sandbox.knee("status").failed_check();
    let words = format!("1 rule on {} act on nothing: the cgroup was removed, and", path.display());
    assert!(status.contains(&words), "{status}");
    let json = place.sandbox.knee("status --json").failed_check();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["policies"][0]["cgroup"], serde_json::Value::Null);
    assert_eq!(json["policies"][0]["applied_to"], again.path().to_str().unwrap());
    assert!(place.show().contains(&format!("{}: removed", path.display())));
    place.sandbox.knee(&line).done();
    place.sandbox.knee("status").done();
}

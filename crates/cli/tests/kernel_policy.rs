//! `knee policy` on the running kernel: what is applied acts on real connections, and goes.

#![cfg(feature = "kernel")]
#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use knee_testbed::cgroup::{Cgroup, with_private_mounts};
use knee_testbed::net::{self, Pair, SERVER, SERVER_IPV6, chosen};

/// A directory for policy files, removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let path = std::env::temp_dir().join(format!("knee_p_{name}_{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn knee(arguments: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_knee");
    Command::new(binary).arg("policy").args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = knee(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = knee(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn apply(file: &Path, cgroup: &Cgroup) -> String {
    let (file, cgroup) = (file.to_str().unwrap(), cgroup.path().to_str().unwrap());
    succeeds(&["apply", file, "--cgroup", cgroup])
}

/// The rules in the kernel, as JSON.
fn shown() -> serde_json::Value {
    serde_json::from_str(&succeeds(&["show", "--json"])).unwrap()
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
    with_private_mounts();
    let files = Files::new("acts");
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    assert_eq!(succeeds(&["show"]), "no policy is applied\n");
    let file = files.write("policy.toml", BY_FAMILY);
    let path = cgroup.path().display().to_string();

    let said = succeeds(&["apply", file.to_str().unwrap(), "--cgroup", &path, "--dry-run"]);
    assert_eq!(said, format!("would apply 3 rules to {path}\n"));
    assert_eq!(succeeds(&["show"]), "no policy is applied\n");
    assert!(!Path::new("/sys/fs/bpf/knee").exists());

    for _ in 0..2 {
        assert_eq!(apply(&file, &cgroup), format!("applied 3 rules to {path}\n"));
        assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
        assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("reno", "reno"));
    }
    assert_eq!(
        succeeds(&["show"]),
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
    let rule = &shown()["policies"][0]["rules"][1];
    assert_eq!(rule["base_rtt_us"], 1500);
    assert_eq!(rule["ports"], serde_json::json!(["9", "1024-1027"]));

    // Another file replaces it all.
    let text = "[[rule]]\nto = \"fd99::/64\"\nalgorithm = \"bbr\"\n";
    apply(&files.write("other.toml", text), &cgroup);
    assert_eq!(algorithms(&pair, SERVER), pair_of("reno", "reno"));
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("bbr", "bbr"));

    assert_eq!(succeeds(&["clear"]), "cleared 1 cgroup\n");
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("reno", "reno"));
    assert!(!Path::new("/sys/fs/bpf/knee").exists());
    assert_eq!(succeeds(&["clear"]), "cleared 0 cgroups\n");
}

#[test]
fn the_innermost_cgroup_decides_and_its_removal_is_survived() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    with_private_mounts();
    let files = Files::new("nested");
    let outer = Cgroup::new();
    let inner = outer.child("inner");
    let pair = hosts(&outer);
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
    let file = files.write("policy.toml", text);
    apply(&file, &outer);
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "bbr"));
    // The inner one has no rule for this peer, so the outer one's applies.
    assert_eq!(algorithms(&pair, SERVER_IPV6), pair_of("cubic", "cubic"));

    outer.take(&pair.server);
    drop(inner);
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"));
    let arguments = ["apply", file.to_str().unwrap(), "--cgroup", outer.path().to_str().unwrap()];
    let error = refusal(&arguments);
    assert!(error.contains("policy.toml:5: rule 2: there is no cgroup "), "{error}");
    assert_eq!(algorithms(&pair, SERVER), pair_of("cubic", "cubic"), "a refusal changes nothing");

    let gone = || shown()["policies"].as_array().unwrap().iter().any(|one| one["cgroup"].is_null());
    // The kernel detaches once the last socket that was in it is gone.
    let mut patience = 100;
    while !gone() && patience > 0 {
        thread::sleep(std::time::Duration::from_millis(20));
        patience -= 1;
    }
    assert!(gone(), "{}", shown());
    let outer_only = files.write("outer.toml", text.split("\n\n").next().unwrap());
    apply(&outer_only, &outer);
    assert!(!gone());
    assert_eq!(succeeds(&["clear"]), "cleared 1 cgroup\n");
}

#[test]
fn no_connection_falls_between_the_old_rules_and_the_new() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    with_private_mounts();
    let files = Files::new("replace");
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules =
        |algorithm: &str| format!("[[rule]]\nto = \"everything\"\nalgorithm = \"{algorithm}\"\n");
    let both = [files.write("cubic.toml", &rules("cubic")), files.write("bbr.toml", &rules("bbr"))];
    apply(&both[0], &cgroup);
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
            let path = cgroup.path().to_str().unwrap();
            let start = |file: &PathBuf| {
                let arguments = ["policy", "apply", file.to_str().unwrap(), "--cgroup", path];
                Command::new(env!("CARGO_BIN_EXE_knee"))
                    .args(arguments)
                    .stdout(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            };
            for mut child in both.each_ref().map(start) {
                assert!(child.wait().unwrap().success());
            }
            assert_eq!(shown()["policies"].as_array().unwrap().len(), 1);
        }
        done.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    assert!(connections > 20, "{connections}");
    succeeds(&["clear"]);
}

#[test]
fn files_that_cannot_be_carried_out_are_refused_in_a_sentence() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    with_private_mounts();
    let files = Files::new("refused");
    let cgroup = Cgroup::new();
    let at = |text: &str| {
        let file = files.write("p.toml", text);
        let (file, path) = (file.to_str().unwrap(), cgroup.path().to_str().unwrap());
        let error = refusal(&["apply", file, "--cgroup", path]);
        assert_eq!(error.lines().count(), 1, "{error}");
        error.trim_end().rsplit_once("p.toml:").map_or(error.clone(), |(_, rest)| rest.to_owned())
    };
    for (text, expected) in [
        ("", "1: no rules: write [[rule]] and what it is for"),
        ("rule = 1\n", "1: rule = 1: must be a list of tables, each begun by [[rule]]"),
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
    assert!(at("[[rule]\n").starts_with("1: not TOML: "), "{}", at("[[rule]\n"));
    assert_eq!(succeeds(&["show"]), "no policy is applied\n");

    let file = files.write("p.toml", "[[rule]]\nto = \"::/0\"\nalgorithm = \"cubic\"\n");
    let no_cgroup = refusal(&["apply", file.to_str().unwrap(), "--cgroup", "/tmp"]);
    assert_eq!(no_cgroup, "knee: /tmp is no directory of a cgroup2 file system\n");
}

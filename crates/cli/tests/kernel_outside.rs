//! Algorithms of somebody's own files in the running kernel: `knee load ./foo.c`, and what all that `load` promises comes to for these.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use knee_run::spec::LinuxVersion;
use knee_testbed::net::{choose, chosen, ssthresh_of};
use knee_testbed::outside;
use knee_testbed::sandbox::{Sandbox, available};
use tempfile::TempDir;

fn sandbox() -> Option<Sandbox> {
    knee_testbed::kernel_is_ready().then(|| Sandbox::new(env!("CARGO_BIN_EXE_knee")))
}

/// A directory with the file and its header, under names of its own.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let dir = tempfile::tempdir().unwrap();
        let own = outside::path();
        fs::copy(&own, dir.path().join("gentle.c")).unwrap();
        fs::copy(own.with_extension("h"), dir.path().join("gentle.h")).unwrap();
        Files(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn line(&self, command: &str, name: &str, more: &str) -> String {
        format!("{command} {}{more}", self.at(name).display())
    }

    fn text(&self) -> String {
        fs::read_to_string(self.at("gentle.c")).unwrap()
    }
}

fn knee(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
    command.args(arguments);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn connection(host: &Sandbox, name: &str) -> String {
    let name = name.to_owned();
    host.namespace.run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        choose(&client, &name);
        chosen(&client)
    })
}

fn sha256_of(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

#[test]
fn a_file_is_compiled_and_loaded_and_unload_leaves_nothing() {
    let Some(host) = sandbox() else { return };
    let (files, before, name) = (Files::new(), host.files(), host.name('g'));
    let said = host.knee(&files.line("load", "gentle.c", &format!(" --as {name}"))).done();
    assert!(said.starts_with(&format!("{name}: registered, keep=820")), "{said}");
    assert_eq!(connection(&host, &name), name);
    let (path, hash) = (files.at("gentle.c"), sha256_of(&files.at("gentle.c")));
    let status = host.knee("status").done();
    assert!(
        status.contains(&format!("of {}, sha256 {}...", path.display(), &hash[..16])),
        "{status}"
    );
    let status: serde_json::Value =
        serde_json::from_str(&host.knee("status --json").done()).unwrap();
    let all = status["registered"].as_array().unwrap();
    let ours = all.iter().find(|one| one["name"] == name.as_str()).unwrap();
    assert_eq!(ours["algorithm"], "gentle");
    assert_eq!(ours["params"]["keep"], "820");
    assert_eq!(ours["source"]["sha256"], hash.as_str());
    assert_eq!(ours["source"]["path"], path.to_str().unwrap());
    let again = host.knee(&files.line("load", "gentle.c", &format!(" --as {name}"))).done();
    assert!(again.contains("already loaded"), "{again}");
    let refused = host.knee("unload gentle").refused();
    assert!(refused.contains(&format!("knee unload {name}")), "{refused}");
    host.knee(&format!("unload {name}")).done();
    assert!(!available().contains(&name));
    assert_eq!(host.files(), before);
}

#[test]
fn a_changed_file_is_an_update_and_another_file_is_not() {
    let Some(host) = sandbox().filter(|_| knee_bpf::KernelApi::running().links) else { return };
    let (files, name) = (Files::new(), host.name('u'));
    let line = files.line("load", "gentle.c", &format!(" --as {name}"));
    host.knee(&line).done();
    fs::write(files.at("gentle.c"), files.text().replace("keep, 820", "keep, 821")).unwrap();
    let updated = host.knee(&line).done();
    assert!(updated.contains("updated, keep=821"), "{updated}");
    // The same name in another file is another algorithm.
    fs::write(files.at("other.c"), files.text().replace("keep, 821", "keep, 822")).unwrap();
    let refused = host.knee(&files.line("load", "other.c", &format!(" --as {name}"))).refused();
    let shown = files.at("gentle.c").display().to_string();
    assert!(refused.contains(&shown) && refused.contains("--as"), "{refused}");
    let refused = host.knee(&format!("load reno --as {name}")).refused();
    assert!(refused.contains("is gentle"), "{refused}");
}

#[test]
fn variants_and_trials_are_those_of_any_algorithm() {
    let Some(host) = sandbox().filter(|_| knee_bpf::KernelApi::running().links) else { return };
    let (files, before) = (Files::new(), host.files());
    let (one, other) = (host.name('v'), host.name('w'));
    host.knee(&files.line("load", "gentle.c", &format!("=k6 --set keep=600 --as {one}"))).done();
    let said = host
        .knee(&files.line("load", "gentle.c", &format!("=k9 --set waits=no --as {other}")))
        .done();
    assert!(said.contains("waits=0") || said.contains("waits=no"), "{said}");
    let refused = host.knee(&files.line("load", "gentle.c", " --set keep=2000")).refused();
    assert!(
        refused.contains("keep = \"2000\": must be a whole number from 512 to 1023"),
        "{refused}"
    );
    host.knee("unload --all").done();
    let trial =
        host.start(&files.line("load", "gentle.c", &format!(" --as {one} --confirm-within 60s")));
    assert!(trial.first.contains("on trial"), "{}", trial.first);
    // It is in the kernel: the file is needed no more.
    fs::remove_file(files.at("gentle.c")).unwrap();
    host.knee(&format!("confirm {one}")).done();
    assert!(host.knee("status").done().contains("gentle.c, sha256"));
    host.knee("unload --all").done();
    assert_eq!(host.files(), before);
}

/// What runs on the machines that have no compiler.
#[test]
fn an_object_made_elsewhere_needs_no_compiler() {
    let Some(host) = sandbox() else { return };
    let (files, name) = (Files::new(), host.name('o'));
    let object = files.at("gentle.bpf.o");
    let made = knee(&["check", files.at("gentle.c").to_str().unwrap(), "--object"])
        .arg(&object)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let run = |line: &str| {
        let mut command = host.command(line);
        let none = files.at("none");
        fs::create_dir_all(&none).unwrap();
        command.env("PATH", &none).env_remove("KNEE_CLANG");
        host.namespace.run(move || command.output().unwrap())
    };
    let without = run(&files.line("load", "gentle.c", ""));
    assert_eq!(without.status.code(), Some(2));
    let why = said(&without);
    assert!(why.contains("there is no clang") && why.contains("--object"), "{why}");
    let loaded = run(&files.line("load", "gentle.bpf.o", &format!(" --as {name} --set keep=700")));
    assert!(loaded.status.success(), "{}", said(&loaded));
    assert!(said(&loaded).contains("gentle.bpf.o, made of gentle.c, sha256"), "{}", said(&loaded));
    assert_eq!(connection(&host, &name), name);
    // The C file that it was made of is the same algorithm.
    let again =
        host.knee(&files.line("load", "gentle.c", &format!(" --as {name} --set keep=700"))).done();
    assert!(again.contains("already loaded"), "{again}");
}

#[test]
fn what_cannot_be_loaded_is_refused_in_a_sentence() {
    let Some(host) = sandbox() else { return };
    let (files, before) = (Files::new(), host.files());
    let write = |name: &str, text: &str| fs::write(files.at(name), text).unwrap();
    let text = files.text();
    write("reno.c", &text.replace("CC_ALGORITHM(gentle)", "CC_ALGORITHM(reno)"));
    write("named.c", &text.replace(".name = \"gentle\"", ".name = \"gentler\""));
    write("wrong.c", &text.replace("ca->reductions++", "ca->reductoins++"));
    write("module.c", "int tcp_register_congestion_control(void);\n");
    write("none.c", "int x;\n");
    write(
        "global.c",
        &text.replace(
            "CC_STATE(gentle",
            "static u32 mine = 3;\nu32 *all(void) { return &mine; }\nCC_STATE(gentle",
        ),
    );
    write("noise.o", "\x7fELF no object");
    write("undone.c", &text.replace("\t.undo_cwnd = CC_FN(gentle_undo_cwnd),\n", ""));
    for (name, expected) in [
        ("reno.c", "which knee has an algorithm of its own of"),
        ("named.c", "its .name is \"gentler\" and its CC_ALGORITHM \"gentle\""),
        ("wrong.c", "wrong.c:53: no member named 'reductoins'"),
        ("module.c", "has no module_init"),
        ("none.c", "is no congestion control"),
        ("global.c", "has a map \""),
        ("noise.o", "is no object for BPF"),
        ("undone.c", "CC_ALGORITHM needs .ssthresh, .undo_cwnd"),
        ("absent.c", "cannot read"),
    ] {
        let why = host.knee(&files.line("load", name, "")).refused();
        assert!(why.contains(expected), "{name}: {why}");
    }
    assert_eq!(host.files(), before);
    // What the kernel refuses by the verifier: it would go on for ever.
    let endless =
        text.replace("\tca->reductions++;", "\twhile (tp->snd_cwnd)\n\t\tca->reductions++;");
    write("endless.c", &endless);
    let why = host.knee(&files.line("load", "endless.c", "")).refused();
    assert!(why.contains("the kernel does not take gentle"), "{why}");
    assert_eq!(host.files(), before);
}

#[test]
fn root_loads_no_file_that_others_can_have_written() {
    let Some(host) = sandbox() else { return };
    let files = Files::new();
    let refused = |name: &str| {
        let mut command = host.command(&files.line("load", name, ""));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        let output = host.namespace.run(move || command.output().unwrap());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    fs::copy(files.at("gentle.c"), files.at("theirs.c")).unwrap();
    chown(files.at("theirs.c"), Some(65534), Some(65534)).unwrap();
    assert!(refused("theirs.c").contains("belongs to user 65534"));
    fs::copy(files.at("gentle.c"), files.at("open.c")).unwrap();
    fs::set_permissions(files.at("open.c"), Permissions::from_mode(0o666)).unwrap();
    assert!(refused("open.c").contains("can be written by others"));
    // Headers as well, wherever they come from.
    fs::rename(files.at("gentle.h"), files.at("mine.h")).unwrap();
    fs::copy(files.at("mine.h"), files.at("gentle.h")).unwrap();
    chown(files.at("gentle.h"), Some(65534), Some(65534)).unwrap();
    let why = refused("gentle.c");
    assert!(why.contains("root takes no header") && why.contains("belongs to user 65534"), "{why}");
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    fs::rename(files.at("gentle.h"), dir.path().join("gentle.h")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("gentle.h"), files.at("gentle.h")).unwrap();
    assert!(refused("gentle.c").contains("neither one of knee's headers"));
    // From where everybody can put one, none is taken, and that is said.
    fs::copy(files.at("gentle.c"), dir.path().join("gentle.c")).unwrap();
    let why = refused(dir.path().join("gentle.c").to_str().unwrap());
    assert!(why.contains("uses `<gentle.h>` (line 12)"), "{why}");
    assert!(why.contains("headers beside the file are not taken"), "{why}");
    fs::rename(files.at("mine.h"), files.at("gentle.h")).unwrap();
    fs::set_permissions(files.0.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(refused("gentle.c").contains("can be written by others"));
}

#[test]
fn a_file_in_the_folder_that_is_not_built_in_is_told_of() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let files = Files::new();
    fs::create_dir(files.at("algorithms")).unwrap();
    fs::copy(files.at("gentle.c"), files.at("algorithms/gentle.c")).unwrap();
    let output = knee(&["load", "gentle"]).current_dir(files.0.path()).output().unwrap();
    assert_eq!(
        said(&output),
        "knee: this knee has no gentle, but its file is here: knee load ./algorithms/gentle.c\n"
    );
    let output = knee(&["load", "gentler"]).current_dir(files.0.path()).output().unwrap();
    assert!(said(&output).contains("no algorithm \"gentler\"; there are bbr"), "{}", said(&output));
}

/// Whether the machine is quiet enough for a result is another question.
#[test]
fn the_lab_loads_a_file_for_its_run() {
    let Some(_host) = sandbox() else { return };
    let files = Files::new();
    let experiment = "question = \"Does it run?\"\ncc = [\"cubic\"]\n[network]\ntopology = \"many-to-one\"\nsenders = 1\n\
        access = { rate = \"20 Mbps\" }\nreturn = { delay = \"2 ms\" }\n\
        bottleneck = { rate = \"10 Mbps\", queue = { kind = \"droptail\", limit = \"100 pkts\" } }\n\
        [[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\nfrom = \"s1\"\nto = \"r\"\n[run]\nduration = \"300 ms\"\nrepeat = 1\n";
    fs::write(files.at("x.toml"), experiment).unwrap();
    let mut command = knee(&["run", "x.toml", "--on", "lab", "--cc", "./gentle.c", "-o", "out"]);
    let output = command.current_dir(files.0.path()).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("\n  gentle "), "{}", said(&output));
    let flows = fs::read_to_string(files.at("out/flows.csv")).unwrap();
    assert!(flows.contains("gentle"), "{flows}");
}

/// A recording names the file by its content, and only that file replays it.
#[test]
fn a_recording_of_a_file_is_replayed_by_that_file() {
    let Some(host) = sandbox() else { return };
    let (files, name) = (Files::new(), host.name('t'));
    host.knee(&files.line("load", "gentle.c", &format!(" --as {name}"))).done();
    let recording = files.at("gentle.flight");
    let trace =
        host.start(&format!("trace {name} -o {} --max-records 20 --for 20s", recording.display()));
    for _ in 0..10 {
        assert_eq!(connection(&host, &name), name);
    }
    assert_eq!(trace.end().0, Some(0));
    let recording = recording.to_str().unwrap();
    let without = knee(&["replay", recording]).output().unwrap();
    let hash = sha256_of(&files.at("gentle.c"));
    assert_eq!(without.status.code(), Some(2));
    assert!(
        said(&without).contains(&hash) && said(&without).contains("--source"),
        "{}",
        said(&without)
    );
    let source = files.at("gentle.c");
    let with = knee(&["replay", recording, "--source"]).arg(&source).output().unwrap();
    assert!(with.status.success() && said(&with).ends_with("equal\n"), "{}", said(&with));
    fs::write(&source, files.text() + "\n").unwrap();
    let other = knee(&["replay", recording, "--source"]).arg(&source).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other).contains("that of the one named is"), "{}", said(&other));
}

/// Modules of `tests/modules`, in the kernel's own style, as they are.
#[test]
fn the_source_of_a_linux_module_is_loaded_as_it_is() {
    let Some(host) = sandbox() else { return };
    let (files, before) = (Files::new(), host.files());
    for file in ["tcp_reno.c", "tcp_reno_m.c", "tcp_delay.c", "tcp_delay.h", "tcp_model.c"] {
        let from = outside::path().with_file_name(format!("../modules/{file}"));
        fs::copy(from, files.at(file)).unwrap();
    }
    for (number, file) in ["tcp_reno", "tcp_reno_m", "tcp_delay", "tcp_model"].iter().enumerate() {
        let name = host.name(char::from(b'a' + number as u8));
        host.knee(&files.line("load", &format!("{file}.c"), &format!(" --as {name}"))).done();
        assert_eq!(connection(&host, &name), name);
        let status = host.knee("status").done();
        assert!(status.contains(&format!("{file}.c, sha256")), "{status}");
    }
    let name = host.name('p');
    let answer = host
        .knee(&files.line("load", "tcp_reno_m.c", &format!("=b --set beta=600 --as {name}")))
        .done();
    assert!(answer.contains("beta=600") && answer.contains("slow_start=1"), "{answer}");
    let refused = host.knee(&files.line("load", "tcp_reno_m.c", " --set gamma=1")).refused();
    assert!(refused.contains("it has beta, increase, slow_start"), "{refused}");
    let check = |file: &str| knee(&["check"]).arg(files.at(file)).output().unwrap();
    assert!(said(&check("tcp_delay.c")).contains("compiles for BPF"));
    fs::write(
        files.at("tcp_wide.c"),
        fs::read_to_string(files.at("tcp_delay.c")).unwrap() + "\nstatic int x = y;\n",
    )
    .unwrap();
    let wrong = check("tcp_wide.c");
    assert_eq!(wrong.status.code(), Some(1));
    // Without a compiler nothing was looked at.
    let mut command = knee(&["check"]);
    command.arg(files.at("tcp_delay.c")).env("PATH", "/nonexistent").env_remove("KNEE_CLANG");
    let without = command.output().unwrap();
    assert_eq!(without.status.code(), Some(2), "{}", said(&without));
    assert!(said(&without).contains("no clang"), "{}", said(&without));
    // Both compilers' words, in place of which it is said what is missing.
    let missing = "tcp_wide.c uses `y` (line";
    assert_eq!(said(&wrong).matches(missing).count(), 2, "{}", said(&wrong));
    let refused = host.knee(&files.line("load", "tcp_wide.c", "")).refused();
    assert!(refused.contains(missing) && refused.contains("docs/modules.md#"), "{refused}");
    host.knee("unload --all").done();
    assert_eq!(host.files(), before);
}

/// What `module_init` computes is there, and what the verifier must be shown changes nothing but what was wrong.
#[test]
fn a_module_is_shown_to_the_verifier_and_its_init_is_run() {
    let Some(host) = sandbox() else { return };
    // Its loop takes may_goto.
    if knee_bpf::KernelApi::running().version < LinuxVersion(6, 9) {
        return;
    }
    let files = Files::new();
    let from = outside::path().with_file_name("../modules/tcp_shown.c");
    fs::copy(from, files.at("tcp_shown.c")).unwrap();
    let ssthresh = |letter: char, set: &str| {
        let name = host.name(letter);
        let line = files.line("load", "tcp_shown.c", &format!("{set} --as {name}"));
        host.knee(&line).done();
        let of_it = name.clone();
        let found = host.namespace.run(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            choose(&client, &of_it);
            assert_eq!(chosen(&client), of_it);
            ssthresh_of(&client)
        });
        let status = host.knee("status").done();
        host.knee(&format!("unload {name}")).done();
        (found, status)
    };
    // 3 * 100, a step of 11, and 29 turns from 300 to 10.
    let (found, status) = ssthresh('a', "");
    assert_eq!(found, 340, "{status}");
    assert!(!status.contains("a fault of its source"), "{status}");
    // 5 * 100, a step of 7, 49 turns.
    assert_eq!(ssthresh('b', "=b --set factor=5 --set step=1").0, 556);
    // Beyond the steps the first is taken.
    let (found, status) = ssthresh('c', "=c --set step=9");
    assert_eq!(found, 300 + 5 + 29, "{status}");
    assert!(status.contains("1 index out of bounds, 0 loops stopped"), "{status}");
    let (_, status) = ssthresh('d', "=d --set endless=1");
    assert!(status.contains("0 indices out of bounds, 1 loop stopped"), "{status}");
    let refused = host.knee(&files.line("load", "tcp_shown.c", "=e --set factor=0")).refused();
    assert!(refused.contains("its module_init returns -22"), "{refused}");
    assert!(!host.knee("status").done().contains("tcp_shown.c"));
}

/// What a Linux module keeps of a connection has the names of its file, and its recording is replayed by that file.
#[test]
fn a_linux_module_is_looked_into_recorded_and_replayed() {
    let Some(host) = sandbox() else { return };
    let files = Files::new();
    let from = outside::path().with_file_name("../modules/tcp_clocks.c");
    fs::copy(from, files.at("tcp_clocks.c")).unwrap();
    let name = host.name('k');
    let set = format!("=k --set offset=-7 --set hurry=1 --as {name}");
    host.knee(&files.line("load", "tcp_clocks.c", &set)).done();
    let of_it = name.clone();
    let open = host.namespace.run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        choose(&client, &of_it);
        (listener, client)
    });
    let top = host.knee(&format!("top --once --algorithm {name}")).done();
    for field in ["now_us ", "ticks32 ", "drawn ", "rtt.s[0].v "] {
        assert!(top.contains(field), "{top}");
    }
    drop(open);
    let recording = files.at("clocks.flight");
    let line = format!("trace {name} -o {} --max-records 20 --for 20s", recording.display());
    let trace = host.start(&line);
    for _ in 0..20 {
        assert_eq!(connection(&host, &name), name);
    }
    assert_eq!(trace.end().0, Some(0));
    let show = knee(&["flight", "show"]).arg(&recording).output().unwrap();
    assert!(said(&show).contains("ca.drawn "), "{}", said(&show));
    let replay = || {
        let source = files.at("tcp_clocks.c");
        knee(&["replay"]).arg(&recording).arg("--source").arg(source).output().unwrap()
    };
    let equal = replay();
    assert!(equal.status.success() && said(&equal).ends_with("equal\n"), "{}", said(&equal));
    assert!(!said(&equal).contains(", 0 values given"), "{}", said(&equal));
}

//! Beside other users: what they put into directories of theirs is not followed, and root keeps out of these.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The user `nobody`.
const OTHER: u32 = 65534;

const SMALL: &str = r#"question = "Who waits?"
cc = "dctcp"

[network]
topology = "many-to-one"
senders = 2
access = { rate = "1 Gbps" }
return = { delay = "100 us" }
bottleneck = { rate = "1 Gbps", queue = { kind = "step", limit = "200 pkts", k = "20 pkts" } }

[[traffic]]
name = "both"
kind = "bulk"
from = "s1..s2"
to = "r"
size = "200 kB"

[run]
duration = "2 s"
until_done = true
"#;

/// A directory of root's that goes away, in one where everybody can make some.
struct Scratch(TempDir);

impl Scratch {
    /// `None`: only root can be beside others.
    fn new() -> Option<Scratch> {
        if !rustix::process::geteuid().is_root() {
            let why = "SKIPPED: this is about what root does, and this is not root";
            let mut err = std::io::stderr();
            writeln!(err, "{why}").unwrap();
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("small.toml"), SMALL).unwrap();
        Some(Scratch(dir))
    }

    fn knee(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        command.output().unwrap()
    }

    fn run(&self, into: &str, more: &[&str]) -> Output {
        self.knee(&[&["run", "small.toml", "--repeat", "1", "-o", into], more].concat())
    }

    /// What a link of somebody else's leads to.
    fn victim(&self) -> PathBuf {
        let path = self.0.path().join("victim");
        fs::write(&path, "mine").unwrap();
        path
    }
}

/// Gives a directory and all that is in it to the other user.
fn give(path: &Path) {
    lchown(path, Some(OTHER), Some(OTHER)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// What the other user does.
fn other(script: &str, dir: &Path) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script]);
    assert!(command.current_dir(dir).status().unwrap().success(), "{script}");
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn root_leaves_no_results_where_others_can_put_links() {
    let Some(scratch) = Scratch::new() else { return };
    for name in ["theirs", "open", "mine"] {
        fs::create_dir(scratch.0.path().join(name)).unwrap();
    }
    give(&scratch.0.path().join("theirs"));
    fs::set_permissions(scratch.0.path().join("open"), Permissions::from_mode(0o777)).unwrap();
    other("mkdir out; ln -s ../mine link", &scratch.0.path().join("theirs"));
    for into in ["theirs/new", "theirs/out", "theirs", "theirs/link", "open", "open/new"] {
        for more in [&[][..], &["--pcap"]] {
            let refused = scratch.run(into, more);
            let said = err(&refused);
            assert_eq!(refused.status.code(), Some(2), "{into}: {said}");
            let words = "as root, knee does not write where other users can place links (";
            assert!(said.contains(words) && said.lines().count() == 1, "{into}: {said}");
        }
    }
    let reproduce = scratch.knee(&["reproduce", "incast", "-o", "theirs/new"]);
    assert!(
        reproduce.status.code() == Some(2)
            && err(&reproduce).contains("as root, knee does not write")
    );
    assert_eq!(fs::read_dir(scratch.0.path().join("theirs")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(scratch.0.path().join("mine")).unwrap().count(), 0);
    assert!(scratch.run("mine/new", &["--pcap"]).status.success());
}

#[test]
fn captures_are_for_who_made_them() {
    let Some(scratch) = Scratch::new() else { return };
    let output = scratch.run("out", &["--pcap"]);
    assert!(output.status.success(), "{}", err(&output));
    let mode =
        |name: &str| fs::metadata(scratch.0.path().join("out").join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("r-run-0.pcapng"), mode("runs.csv") & 0o044), (0o600, 0o044));
}

#[test]
fn a_report_of_the_results_of_others_goes_where_they_cannot_write() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(scratch.run("theirs", &["--pcap"]).status.success());
    let (theirs, victim) = (scratch.0.path().join("theirs"), scratch.victim());
    symlink(&victim, theirs.join("report.html")).unwrap();
    give(&theirs);
    let refused = scratch.knee(&["report", "theirs"]);
    is_refused(&refused, "report theirs");
    assert!(theirs.join("report.html").symlink_metadata().unwrap().is_symlink());
    let output = scratch.knee(&["report", "theirs", "-o", "mine.html"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(fs::read_to_string(scratch.0.path().join("mine.html")).unwrap().starts_with("<!"));
    let found = scratch.0.path().join("mine-captures/run-0/findings.json");
    assert!(found.is_file(), "{}", found.display());
}

/// Refused as a place for root's files, in one sentence.
fn is_refused(output: &Output, what: &str) {
    let said = err(output);
    let words = "as root, knee does not write where other users can place links (";
    assert!(said.contains(words) && said.lines().count() == 1, "{what}: {said}");
    assert_eq!(output.status.code(), Some(2), "{what}: {said}");
}

/// All that is below a directory, with the texts of files.
fn tree(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_dir = path.symlink_metadata().unwrap().is_dir();
        if is_dir {
            all.extend(tree(&path));
        }
        all.push((path.clone(), (!is_dir).then(|| fs::read(&path).unwrap_or_default())));
    }
    all.sort();
    all
}

#[test]
fn no_command_of_roots_writes_through_a_link_or_into_a_directory_of_others() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(scratch.run("mine", &["--pcap"]).status.success());
    let at = |name: &str| scratch.0.path().join(name);
    fs::create_dir(at("kept")).unwrap();
    for name in ["packets.csv", "flows.csv", "findings.json", "x.html", "knee.1"] {
        fs::write(at("kept").join(name), "mine").unwrap();
    }
    fs::create_dir(at("theirs")).unwrap();
    give(&at("theirs"));
    other("ln -s ../kept link; mkdir own", &at("theirs"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/scripts/receiver/delayed-ack-adapts.script");
    let script = script.display().to_string();
    let newcc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/algorithms/gentle.c");
    let newcc = newcc.display().to_string();
    let capture = "mine/s1-run-0.pcapng";
    let before = tree(scratch.0.path());
    for dir in ["theirs/link", "theirs/own", "theirs", "theirs/link/new"] {
        let into = |name: &str| format!("{dir}/{name}");
        let [html, pcap, object, made] = ["x.html", "x.pcap", "x.bpf.o", "new"].map(into);
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["pcap", capture, "--csv", dir],
            vec!["report", "mine", "--figures", dir],
            vec!["scenarios", "--write", dir],
            vec!["scenarios", "--write", &made],
            vec!["reproduce", "incast", "--bless", dir],
            vec!["run", "small.toml", "-o", &made],
        ];
        if dir != "theirs/link/new" {
            commands.extend([
                vec!["pcap", capture, "--report", &html],
                vec!["report", "mine", "-o", &html],
                vec!["scenarios", "incast", "--write", &made],
                vec!["script", &script, "--pcap", &pcap],
                vec!["script", "--record", capture, "-o", &made],
                vec!["man", dir],
            ]);
            #[cfg(feature = "kernel")]
            if knee_algo::module::find_clang(None).is_ok() {
                commands.push(vec!["check", &newcc, "--object", &object]);
            }
        }
        let _ = (&object, &newcc);
        for command in commands {
            is_refused(&scratch.knee(&command), &command.join(" "));
            assert!(tree(scratch.0.path()) == before, "{}", command.join(" "));
        }
        // It writes where it runs, and who runs it behind the link is in root's own directory.
        if ["theirs/own", "theirs"].contains(&dir) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(["new", "algorithm", "mycc"]).current_dir(at(dir));
            command.env_remove("SUDO_UID").env_remove("SUDO_GID");
            is_refused(&command.output().unwrap(), "new algorithm");
            assert!(tree(scratch.0.path()) == before, "new algorithm");
        }
    }
    // The same beside them.
    for command in [
        vec!["pcap", capture, "--csv", "csv"],
        vec!["pcap", capture, "--report", "x.html"],
        vec!["report", "mine", "-o", "y.html"],
        vec!["report", "mine", "--figures", "figures"],
        vec!["scenarios", "--write", "all"],
        vec!["script", &script, "--pcap", "x.pcap"],
        vec!["man", "all"],
    ] {
        let output = scratch.knee(&command);
        assert!(output.status.success(), "{}: {}", command.join(" "), err(&output));
    }
}

/// In a sticky directory nobody else can rename or remove what root has made.
#[test]
fn root_writes_files_into_a_sticky_directory_and_replaces_what_others_left() {
    let Some(scratch) = Scratch::new() else { return };
    assert!(scratch.run("mine", &[]).status.success());
    let (sticky, victim) = (scratch.0.path().join("sticky"), scratch.victim());
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
    other("ln -s ../victim x.html; mkdir theirs; ln -s theirs link", &sticky);
    let output = scratch.knee(&["report", "mine", "-o", "sticky/x.html"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(sticky.join("x.html").symlink_metadata().unwrap().is_file());
    for into in ["sticky/theirs/x.html", "sticky/link/x.html"] {
        is_refused(&scratch.knee(&["report", "mine", "-o", into]), into);
    }
}

#[test]
fn an_error_shows_nothing_of_files_outside_of_the_experiments_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("own")).unwrap();
    let secret = "root:$y$j9T$Hash";
    fs::write(at("shadow.csv"), format!("{secret}:19000:0:99999:7:::\ndaemon,1,2\n")).unwrap();
    symlink(at("shadow.csv"), at("own/link.csv")).unwrap();
    fs::copy(at("shadow.csv"), at("own/copy.csv")).unwrap();
    let network = "[network]\ntopology = \"many-to-one\"\nsenders = 2\naccess = { rate = \"1 Gbps\" }\n\
                   bottleneck = { rate = \"1 Gbps\", queue = { kind = \"droptail\", limit = \"200 pkts\" } }\n";
    let file = "[network]\ntopology = \"file\"\nnodes = \"FILE\"\nlinks = \"FILE\"\n[[network.cable]]\nname = \"any\"\nrate = \"1 Gbps\"\n";
    let both = "from = \"s1\"\nto = \"r\"\n";
    let traffic = [
        (network, "kind = \"trace\"\nfile = \"FILE\"\n".to_owned()),
        (
            network,
            format!(
                "kind = \"poisson\"\n{both}load = \"50 %\"\nof = \"r\"\nsizes = \"FILE\"\nuntil = \"1 s\"\n"
            ),
        ),
        (
            network,
            format!(
                "kind = \"poisson\"\n{both}load = \"50 %\"\nof = \"r\"\nsizes = \"web-search\"\nmatrix = \"FILE\"\nuntil = \"1 s\"\n"
            ),
        ),
        (file, format!("kind = \"bulk\"\n{both}")),
    ];
    for (network, traffic) in traffic {
        let text = format!(
            "question = \"Who?\"\ncc = \"dctcp\"\n{network}[[traffic]]\nname = \"t\"\n{traffic}[run]\nduration = \"1 s\"\n"
        );
        for (name, is_shown) in [("../shadow.csv", false), ("link.csv", false), ("copy.csv", true)]
        {
            fs::write(at("own/x.toml"), text.replace("FILE", name)).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(["explain", "own/x.toml"]).current_dir(dir.path());
            let output = command.output().unwrap();
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{name}: {said}");
            let hides = "nothing of it is shown, because it lies outside";
            assert_eq!(said.contains(hides), !is_shown, "{name} in {traffic}: {said}");
            assert!(is_shown || !said.contains("root") && !said.contains("Hash"), "{name}: {said}");
        }
    }
}

#[test]
fn a_compiler_quotes_no_file_outside_of_the_experiments_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("own")).unwrap();
    let secret = "aGVsbG8gd29ybGQ";
    let source = format!("{secret} is;\nint x = tcp_register_congestion_control;\n");
    fs::write(at("secret.c"), &source).unwrap();
    fs::write(at("own/copy.c"), &source).unwrap();
    let by = "#include \"secret.c\"\nint f(void) { return tcp_register_congestion_control(0); }\n";
    fs::write(at("own/by.c"), by).unwrap();
    symlink(at("secret.c"), at("own/link.c")).unwrap();
    let cases = [
        ("../secret.c", "", false),
        ("./link.c", "", false),
        ("./by.c", "[module]\ninclude = [\"..\"]\n", false),
        ("./copy.c", "", true),
    ];
    for (name, module, is_shown) in cases {
        let cc = format!("cc = [\"{name}\"]\n");
        let other = format!("cc = \"{name}\"\n");
        for (top, own) in [(&cc[..], ""), ("", &other[..])] {
            let text = format!(
                "question = \"Who?\"\n{top}[network]\ntopology = \"many-to-one\"\nsenders = 1\naccess = {{ rate = \"1 Gbps\" }}\n\
                 bottleneck = {{ rate = \"1 Gbps\", queue = {{ kind = \"droptail\", limit = \"200 pkts\" }} }}\n\
                 [[traffic]]\nname = \"t\"\nkind = \"bulk\"\nfrom = \"s1\"\nto = \"r\"\n{own}[run]\nduration = \"1 ms\"\n{module}"
            );
            fs::write(at("own/x.toml"), text).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(["run", "own/x.toml", "-o"]).arg(at("out")).current_dir(dir.path());
            let output = command.output().unwrap();
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{name}: {said}");
            assert_eq!(said.contains(secret), is_shown, "{name}: {said}");
            assert_eq!(said.contains("is not shown"), !is_shown, "{name}: {said}");
        }
    }
}

#[test]
fn a_file_named_as_options_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let good = "#include \"tcp.h\"\n";
    fs::write(at("@renox.c"), good).unwrap();
    // What a compiler would read its options from.
    fs::write(at("renox.c"), "-fplugin=./p.so -x c real.c").unwrap();
    fs::write(at("-fplugin=p.so.c"), good).unwrap();
    fs::write(at("plain.c"), good).unwrap();
    let said = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        let output = command.args(["check", "--", name]).current_dir(dir.path()).output().unwrap();
        assert!(!err(&output).contains("p.so"), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap().replace(name, "FILE").replace("./FILE", "FILE")
    };
    let plain = said("plain.c");
    assert_eq!(said("@renox.c"), plain);
    assert_eq!(said("-fplugin=p.so.c"), plain);
}

#[test]
fn root_installs_only_where_root_alone_can_write() {
    let Some(scratch) = Scratch::new() else { return };
    let at = |name: &str| scratch.0.path().join(name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/install.sh");
    fs::create_dir(at("package")).unwrap();
    fs::copy(script, at("package/install.sh")).unwrap();
    for file in [
        "bin/knee",
        "bash-completion/completions/knee",
        "zsh/vendor-completions/_knee",
        "fish/vendor_completions.d/knee.fish",
        "man/man1/knee.1",
        "doc/a.md",
        "README.md",
    ] {
        let path = at("package").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\necho knee\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    for dir in ["good", "theirs", "group", "links/share/doc", "kept"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::create_dir(at("theirs/inner")).unwrap();
    lchown(at("theirs"), Some(OTHER), Some(OTHER)).unwrap();
    lchown(at("group"), None, Some(OTHER)).unwrap();
    fs::set_permissions(at("group"), Permissions::from_mode(0o775)).unwrap();
    symlink(at("kept"), at("links/share/doc/knee")).unwrap();
    other("ln -s ../kept link", &at("theirs"));
    let install = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.arg("package/install.sh").args(arguments).current_dir(scratch.0.path());
        command.output().unwrap()
    };
    for prefix in
        ["theirs", "theirs/inner", "theirs/new", "theirs/link", "group", "group/new", "links"]
    {
        for arguments in [vec![prefix], vec!["--uninstall", prefix]] {
            let output = install(&arguments);
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains("root installs only"), "{arguments:?}: {said}");
        }
    }
    assert_eq!(fs::read_dir(at("kept")).unwrap().count(), 0);
    assert!(install(&["good"]).status.success() && at("good/bin/knee").is_file());
    // Nothing of this host is undone: the command of this package does nothing.
    assert!(install(&["--uninstall", "good"]).status.success() && !at("good/bin").exists());
}

/// The words of a secret, in whatever way a C file asks for them.
#[test]
fn a_c_file_carries_no_other_file_away() {
    if knee_algo::module::find_compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("own/.ssh")).unwrap();
    let secret = "SECRET_OF_ANOTHER_FILE";
    for name in ["secret", "own/.ssh/id", "own/notes"] {
        fs::write(at(name), format!("\"{secret}\"\n")).unwrap();
    }
    symlink(at("secret"), at("own/link.h")).unwrap();
    let reno = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/algorithms/gentle.c");
    let reno =
        fs::read_to_string(reno).unwrap().replace("CC_ALGORITHM(reno)", "CC_ALGORITHM(mine)");
    let outside = at("secret").display().to_string();
    let mut attacks = Vec::new();
    for file in [outside.as_str(), "../secret", ".ssh/id", "notes", "link.h"] {
        attacks.extend([
            format!("asm(\".incbin \\\"{file}\\\"\");"),
            format!("asm(\".inc\" \"bin \\\"{file}\\\"\");"),
            format!("asm(\".pushsection .data\\n\\x2eincbin \\\"{file}\\\"\\n.popsection\");"),
            format!("asm(\".macro m n b\\n.\\\\n\\\\b \\\"{file}\\\"\\n.endm\\nm inc bin\");"),
            format!("asm(\".inc\" \"lude \\\"{file}\\\"\");"),
            format!("int x __attribute__((section(\".data\\n.incbin \\\"{file}\\\"\\n#\"))) = 1;"),
            format!("const char mine[] = {{\n#embed \"{file}\"\n}};"),
            format!("const char mine[] = {{\n%:/**/em\\\nbed \"{file}\"\n}};"),
        ]);
        if file != "notes" {
            attacks.push(format!("const char mine[] =\n#include \"{file}\"\n;"));
        }
    }
    for attack in attacks {
        fs::write(at("own/mine.c"), format!("{reno}\n{attack}\n")).unwrap();
        fs::write(at("small.toml"), SMALL).unwrap();
        let knee = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
            command.args(arguments).current_dir(dir.path()).stdin(Stdio::null());
            command.env("XDG_CACHE_HOME", at("cache")).output().unwrap()
        };
        for arguments in [
            &["check", "own/mine.c", "--object", "mine.bpf.o"][..],
            &["run", "small.toml", "--check", "--cc", "own/mine.c"],
        ] {
            let output = knee(arguments);
            let all = [&output.stdout[..], &output.stderr].concat();
            let said = String::from_utf8_lossy(&all).into_owned();
            let has =
                |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!has(&all), "{attack}: {said}");
            let kept = tree(dir.path()).into_iter();
            for (path, bytes) in kept.filter(|(path, _)| !path.starts_with(at("own"))) {
                let is_it = path == at("secret");
                assert!(is_it || !has(&bytes.unwrap_or_default()), "{attack}: {}", path.display());
            }
        }
    }
}

/// In /tmp anybody can leave a file of a built-in experiment's name.
#[test]
fn a_word_of_roots_names_no_file_of_others() {
    let Some(scratch) = Scratch::new() else { return };
    let planted = scratch.0.path().join("incast");
    fs::write(&planted, SMALL).unwrap();
    let names_mine = |word: &str| scratch.knee(&["explain", word]);
    let own = names_mine("incast");
    assert!(own.status.success(), "{}", err(&own));
    assert!(String::from_utf8_lossy(&own.stdout).contains("Who waits?"));
    give(&planted);
    let theirs = names_mine("incast");
    assert_eq!(theirs.status.code(), Some(2));
    let why = err(&theirs);
    assert!(why.contains("a file here that other users may have written"), "{why}");
    assert!(why.contains("belongs to user 65534") && why.contains("./incast"), "{why}");
    assert!(names_mine("./incast").status.success());
    assert!(names_mine("published/incast").status.success());
}

//! Where `knee` keeps what is loaded: on hosts without a BPF file system, in private mount namespaces,
//! and beside others who may write there.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use knee_testbed::own_name;

/// Ends what a command said.
const END: &str = "ends with";

/// A shell that is the first process of a host of its own, as far as mounts and processes go: `/run` is
/// empty and no BPF file system is mounted.
struct Alone {
    shell: Child,
    said: BufReader<ChildStdout>,
}

impl Alone {
    /// `None`: not here.
    fn new() -> Option<Alone> {
        if !knee_testbed::kernel_is_ready() {
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh"]);
        // A command that does not end is a failure, not a test that does not end.
        command.env("KNEE", concat!("timeout 60 ", env!("CARGO_BIN_EXE_knee")));
        command.env_remove("KNEE_RUN_DIR").env_remove("KNEE_BPFFS");
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(shell.stdout.take().unwrap());
        let mut alone = Alone { shell, said };
        // Whatever is mounted there is out of sight.
        alone.done("mount -t tmpfs none /run && mount -t tmpfs none /sys/fs/bpf");
        Some(alone)
    }

    /// What a line said, and its exit code.
    fn run(&mut self, line: &str) -> (String, i32) {
        let input = self.shell.stdin.as_mut().unwrap();
        writeln!(input, "{{ {line}\n}} 2>&1 </dev/null; echo \"{END} $?\"").unwrap();
        let mut all = String::new();
        loop {
            let mut one = String::new();
            assert!(self.said.read_line(&mut one).unwrap() > 0, "the shell is gone: {line}");
            match one.strip_prefix(END) {
                Some(code) => return (all, code.trim().parse().unwrap()),
                None => all.push_str(&one),
            }
        }
    }

    fn done(&mut self, line: &str) -> String {
        let (said, code) = self.run(line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }

    /// One sentence.
    fn refused(&mut self, line: &str) -> String {
        let (said, code) = self.run(line);
        assert_eq!((code, said.lines().count()), (2, 1), "{line}: {said}");
        said
    }

    fn is_empty(&mut self) {
        self.done("test ! -e /run/knee");
        assert_eq!(self.done("grep -c /run/knee /proc/mounts || true"), "0\n");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

#[test]
fn where_no_bpf_file_system_is_mounted_knee_mounts_its_own_until_nothing_is_in_it() {
    let Some(mut host) = Alone::new() else { return };
    let (name, other, tried) = (own_name("own"), own_name("second"), own_name("tried"));
    let said = host.done(&format!("$KNEE load reno --as {name}"));
    assert!(said.contains("knee mounted a BPF file system at /run/knee/bpf;"), "{said}");
    assert_eq!(host.done("stat -c '%a %u' /run/knee/bpf /run/knee/bpf/knee"), "1700 0\n700 0\n");
    assert!(host.done("grep ' /run/knee/bpf bpf ' /proc/mounts").contains("nosuid,nodev,noexec"));
    // Another one that comes later changes nothing: all of them find the first.
    host.done("mount -t bpf -o mode=0700 bpf /sys/fs/bpf");
    let said = host.done(&format!("$KNEE load cubic --as {other}"));
    assert!(!said.contains("mounted"), "{said}");
    let status = host.done("$KNEE status");
    for name in [name, other] {
        let is_loaded = |line: &str| line.starts_with("  loaded ") && line.ends_with(" ago");
        let mut lines = status.lines().skip_while(|line| !line.starts_with(&format!("{name}: ")));
        assert!(lines.nth(1).is_some_and(is_loaded), "{name}: {status}");
    }
    host.done(&format!(
        "$KNEE load reno --as {tried} --confirm-within 60s >/run/trial & \
         for i in $(seq 200); do $KNEE confirm {tried} >/run/confirmed 2>&1 && break; sleep 0.1; \
         done; wait $!"
    ));
    host.done("rm /run/trial /run/confirmed");
    assert!(!host.done("ls /sys/fs/bpf").contains("knee"));
    for line in ["policy show", "policy clear", "plb show", "top --once --json", "status --json"] {
        host.done(&format!("$KNEE {line}"));
    }
    host.done(&format!("$KNEE unload {name} {tried}"));
    assert!(host.done("ls /run/knee/bpf/knee").contains(other));
    host.done("$KNEE unload --all");
    host.is_empty();
}

#[test]
fn what_a_private_mount_namespace_would_take_along_is_refused_and_the_hosts_is_found_there() {
    let Some(mut host) = Alone::new() else { return };
    let name = own_name("private");
    let said = host.refused(&format!("unshare -m $KNEE load reno --as {name}"));
    assert!(said.contains("private mount namespace"), "{said}");
    assert!(said.contains("nsenter --net="), "{said}");
    host.is_empty();
    // Knee's own, which is there, too.
    host.done(&format!("$KNEE load reno --as {name}"));
    let status = host.done("unshare -m $KNEE status");
    assert!(status.contains(&format!("{name}: reno")) && status.contains("  loaded "), "{status}");
    host.done(&format!("unshare -m $KNEE unload {name}"));
    host.is_empty();
    // The host's, which `ip netns exec` hides.
    host.done("umount /sys/fs/bpf && mount -t bpf -o mode=0700 bpf /sys/fs/bpf");
    // The machine's may be below.
    let hidden =
        "unshare -m sh -c 'while umount /sys/fs/bpf 2>/dev/null; do :; done; $KNEE \"$@\"' sh";
    host.done(&format!("{hidden} load reno --as {name}"));
    assert_eq!(host.done("ls /sys/fs/bpf/knee"), format!("{name}\n"));
    assert!(host.done("$KNEE status").contains("  loaded "));
    host.done(&format!("{hidden} unload {name}"));
    assert!(!host.done("ls /sys/fs/bpf").contains("knee"));
    host.is_empty();
}

#[test]
fn what_is_loaded_stays_loaded_under_commands_of_a_mount_namespace_that_is_older() {
    let Some(mut host) = Alone::new() else { return };
    let (name, other) = (own_name("older"), own_name("another"));
    // It has the same /run, and sees nothing of what is mounted from now on.
    host.done("unshare -m sleep 600 >/dev/null & echo $! >/run/older");
    host.done(
        "for i in $(seq 600); do test $(readlink /proc/$(cat /run/older)/ns/mnt) \
         != $(readlink /proc/self/ns/mnt) && break; sleep 0.1; done",
    );
    let older = "nsenter -m -t $(cat /run/older)";
    let said = host.refused(&format!("{older} $KNEE load reno --as {name}"));
    assert!(said.contains("private mount namespace"), "{said}");
    host.is_empty();
    host.done(&format!("$KNEE load reno --as {name}"));
    assert_eq!(host.done(&format!("{older} ls /run/knee/bpf")), "");

    let is_loaded = |host: &mut Alone| {
        assert_eq!(host.done("ls /run/knee/bpf/knee"), format!("{name}\n"));
        for line in ["$KNEE status", &format!("{older} $KNEE status")] {
            let status = host.done(line);
            assert!(status.contains(&format!("{name}: reno\n  loaded ")), "{line}: {status}");
        }
        assert!(knee_testbed::sandbox::available().contains(&name.to_owned()));
    };
    is_loaded(&mut host);
    host.refused(&format!("{older} $KNEE load cubic --as {name}"));
    is_loaded(&mut host);
    host.refused(&format!("{older} $KNEE unload {other}"));
    is_loaded(&mut host);
    // What is not refused goes where the host's is, and undoes it.
    host.done(&format!("{older} $KNEE load reno --as {other}"));
    assert_eq!(host.done("ls /run/knee/bpf/knee | wc -l"), "2\n");
    host.done(&format!("{older} $KNEE unload {other}"));
    is_loaded(&mut host);
    host.done(&format!("{older} $KNEE unload {name}"));
    assert!(!knee_testbed::sandbox::available().contains(&name.to_owned()));
    // The mount itself is not for that namespace to undo.
    host.done("$KNEE unload --all");
    host.done("rm /run/older && kill $!");
    host.is_empty();
}

#[test]
fn pins_where_others_may_write_are_refused() {
    let Some(mut host) = Alone::new() else { return };
    let name = own_name("others");
    host.done("umount /sys/fs/bpf && mount -t bpf -o mode=1777 bpf /sys/fs/bpf");
    for (make, why) in [
        (
            "mkdir -m 755 /sys/fs/bpf/knee && chown 65534 /sys/fs/bpf/knee",
            "belongs to user 65534 (mode 0755)",
        ),
        ("mkdir -m 777 /sys/fs/bpf/knee", "belongs to user 0 (mode 0777)"),
        ("mkdir /sys/fs/bpf/else && ln -s /sys/fs/bpf/else /sys/fs/bpf/knee", "is not a directory"),
    ] {
        host.done(make);
        let load = format!("load reno --as {name}");
        for line in [load.as_str(), "status", "policy show", "plb show", "unload --all"] {
            let (said, code) = host.run(&format!("$KNEE {line}"));
            assert_eq!(code, 2, "{make}: {line}: {said}");
            assert!(said.contains(&format!("/sys/fs/bpf/knee {why}")), "{make}: {line}: {said}");
        }
        host.done("rm -rf /sys/fs/bpf/knee /sys/fs/bpf/else");
    }
    // Where others may take away what is not theirs, what is checked may be another thing a moment later.
    host.done("umount /sys/fs/bpf && mount -t bpf bpf /sys/fs/bpf && chmod 0777 /sys/fs/bpf");
    let said = host.refused(&format!("$KNEE load reno --as {name}"));
    assert!(said.contains("/sys/fs/bpf belongs to user 0 (mode 0777)"), "{said}");
    host.done("chown 65534 /sys/fs/bpf && chmod 1777 /sys/fs/bpf");
    let said = host.refused(&format!("$KNEE load reno --as {name}"));
    assert!(said.contains("/sys/fs/bpf belongs to user 65534 (mode 1777)"), "{said}");
    host.done("umount /sys/fs/bpf && mount -t bpf -o mode=0700 bpf /sys/fs/bpf");
    host.done("mkdir /run/else && ln -s /run/else /run/knee");
    let said = host.refused(&format!("$KNEE load reno --as {name}"));
    assert!(said.contains("/run/knee is not a directory"), "{said}");
}

#[test]
fn what_is_no_file_among_the_notes_keeps_nobody_waiting() {
    let Some(mut host) = Alone::new() else { return };
    host.done("mkdir -p -m 700 /run/knee/trials && mkfifo /run/knee/trials/pipe");
    host.done("ln -s /dev/zero /run/knee/trials/link");
    host.done("timeout 20 $KNEE status");
    host.done("rm -r /run/knee/trials && mkfifo /run/knee/journal.json");
    let said = host.refused("timeout 20 $KNEE status");
    assert!(said.contains("/run/knee/journal.json: not a regular file"), "{said}");
    host.done("rm /run/knee/journal.json && truncate -s 1G /run/knee/journal.json");
    let (said, code) = host.run("timeout 20 $KNEE status");
    assert!(code == 1 && said.contains("more than 4194304 bytes"), "{code}: {said}");
}

#[test]
fn an_unload_elsewhere_changes_nothing_and_says_where_to_run_it() {
    let (Some(mut host), Some(mut other)) = (Alone::new(), Alone::new()) else { return };
    let name = own_name("there");
    host.done(&format!("$KNEE load reno --as {name}"));
    let said = other.refused(&format!("$KNEE unload {name}"));
    assert!(said.contains("nsenter --mount") && said.contains("another mount"), "{said}");
    let status = other.done("$KNEE status");
    assert!(status.contains("loaded in another mount namespace"), "{status}");
    // The same journal, without the file system of the pins.
    let hidden = "unshare -m sh -c 'umount /run/knee/bpf && $KNEE \"$@\"' sh";
    let (said, code) = host.run(&format!("{hidden} unload {name}"));
    if code != 0 {
        assert!(code == 2 && said.contains("nsenter --mount"), "{code}: {said}");
        assert!(host.done("$KNEE status").contains("  loaded "));
        host.done(&format!("$KNEE unload {name}"));
    }
    // The pins are found through the first process, and the mount itself is not for that namespace to undo.
    assert!(!host.done("ls /sys/fs/bpf /run/knee/bpf 2>/dev/null || true").contains(name));
    host.done("$KNEE unload --all");
    host.is_empty();
    other.is_empty();
}

#[test]
fn a_full_run_directory_keeps_nothing_loaded() {
    let Some(mut host) = Alone::new() else { return };
    let (name, stays) = (own_name("full"), own_name("stays"));
    host.done("umount /run && mount -t tmpfs -o size=64k none /run");
    host.done("umount /sys/fs/bpf && mount -t bpf -o mode=0700 bpf /sys/fs/bpf");
    for name in [name, stays] {
        host.done(&format!("$KNEE load reno --default --as {name}"));
    }
    host.run("dd if=/dev/zero of=/run/full bs=4k 2>/dev/null");
    let said = host.refused(&format!("$KNEE load reno --as {name}_"));
    assert!(said.contains("No space left"), "{said}");
    host.done(&format!("$KNEE unload {stays}"));
    let status = host.done("$KNEE status");
    assert!(status.contains(name) && !status.contains(stays), "{status}");
    host.done("$KNEE unload --all");
    host.done("rm /run/full");
    host.is_empty();
}

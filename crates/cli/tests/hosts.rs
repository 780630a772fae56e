//! `knee run --on hosts=FILE`: network namespaces that run sshd are the machines. It needs root and sshd.
#![cfg(feature = "kernel")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use knee_testbed::net::{Namespace, ip};
use knee_testbed::wait_until;
use tempfile::TempDir;

const KNEE: &str = env!("CARGO_BIN_EXE_knee");
const SSHD: &str = "/usr/sbin/sshd";
const PATIENCE: Duration = Duration::from_secs(60);
/// So much goes to the receiver at most: ten times less than machines can do here.
const RATE_MBPS: u64 = 100;

/// Two senders and a receiver.
const EXPERIMENT: &str = r#"question = "Is it all there?"

[network]
topology = "many-to-one"
senders = 2
access = { rate = "100 Mbps" }
bottleneck = { rate = "100 Mbps", queue = { kind = "step", limit = "200 pkts", k = "20 pkts" } }

[[traffic]]
name = "bulk"
kind = "bulk"
from = "s1"
to = "r"

[[traffic]]
name = "rpc"
kind = "rpc"
from = "s2"
to = "r"
request = "10 kB"
response = "100 B"

[[case]]
name = "cubic"
cc = "cubic"

[[case]]
name = "dctcp"
cc = "dctcp"

[run]
duration = "2 s"
measure_from = "500 ms"
measure_until = "2 s"

[sample]
goodput = "100 ms"
flows = "50 ms"
queues = "50 ms"
"#;

fn skipped() -> bool {
    if !knee_testbed::kernel_is_ready() {
        return true;
    }
    let lacks = ["ssh", "ssh-keygen", "unshare", "setpriv", SSHD].into_iter().find(|program| {
        let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !there.is_ok_and(|output| output.status.success())
    });
    let Some(program) = lacks else { return false };
    // Not eprintln!, whose text the harness keeps to itself when a test passes.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: there is no {program} (package openssh-server)").unwrap();
    let required = std::env::var_os("KNEE_REQUIRE_KERNEL").is_some_and(|value| value == "1");
    assert!(!required, "KNEE_REQUIRE_KERNEL=1, but there is no {program}");
    true
}

/// Machines with an address and an sshd each, and a network that joins them: a router, which is also where `knee run` is.
struct Rack {
    dir: TempDir,
    router: Namespace,
    machines: Vec<(Namespace, Child)>,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Rack {
    fn new(machines: u32) -> Option<Rack> {
        if skipped() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let router = Namespace::new().unwrap();
        ip(&router, "link set lo up".to_owned());
        router.run(|| {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        let mut rack = Rack { dir, router, machines: Vec::new() };
        rack.make_keys();
        for number in 1..=machines {
            let machine = rack.machine(number);
            rack.machines.push(machine);
        }
        fs::write(rack.dir.path().join("two.toml"), EXPERIMENT).unwrap();
        rack.write_hosts(&format!("knee = {KNEE:?}"));
        Some(rack)
    }

    fn make_keys(&self) {
        for key in ["host", "user"] {
            let file = self.dir.path().join(key);
            let file = file.to_str().unwrap();
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "knee-test", "-f", file]);
        }
        fs::copy(self.dir.path().join("user.pub"), self.dir.path().join("authorized")).unwrap();
        let host = fs::read_to_string(self.dir.path().join("host.pub")).unwrap();
        let known = (1..=9).map(|number| format!("10.98.{number}.1 {host}"));
        fs::write(self.dir.path().join("known"), known.collect::<String>()).unwrap();
    }

    fn machine(&self, number: u32) -> (Namespace, Child) {
        let machine = Namespace::new().unwrap();
        for namespace in [&self.router, &machine] {
            // A router asks for a neighbour from its link-local address only, which otherwise is tentative for two seconds.
            namespace.run(|| fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap());
        }
        let (near, far) = (format!("km{number}"), format!("kr{number}"));
        let tid = machine.tid();
        ip(&self.router, format!("link add {far} type veth peer name {near} netns {tid}"));
        ip(&self.router, format!("addr add 10.98.{number}.254/24 dev {far}"));
        ip(&self.router, format!("link set {far} up"));
        ip(&machine, "link set lo up".to_owned());
        ip(&machine, format!("addr add 10.98.{number}.1/24 dev {near}"));
        ip(&machine, format!("link set {near} up"));
        ip(&machine, format!("route add default via 10.98.{number}.254"));
        ip(&self.router, format!("addr add fd98:{number}::fe/64 dev kr{number} nodad"));
        ip(&machine, format!("addr add fd98:{number}::1/64 dev km{number} nodad"));
        ip(&machine, format!("route add default via fd98:{number}::fe"));
        self.router.run(move || {
            let queue =
                format!("qdisc add dev {far} root tbf rate {RATE_MBPS}mbit burst 16kb limit 150kb");
            run("tc", &queue.split(' ').collect::<Vec<_>>());
        });
        let dir = self.dir.path().display();
        // An empty home: root's start-up of a shell may wait for a stale lock.
        let config = format!(
            "Port 22\nListenAddress 10.98.{number}.1\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/authorized\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nLogLevel ERROR\nSetEnv HOME={dir}\n"
        );
        let file = self.dir.path().join(format!("sshd-{number}"));
        fs::write(&file, config).unwrap();
        // With a /run and a /sys of its own, and gone with this process in whatever way that ends.
        let script = format!(
            "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && mount -t sysfs sysfs /sys && \
             exec setpriv --pdeathsig KILL {SSHD} -D -e -f {}",
            file.display()
        );
        let sshd = machine.run(move || {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        });
        wait_until("sshd listens", || {
            let sockets = fs::read_to_string(format!("/proc/{tid}/net/tcp")).unwrap();
            // Port 22, and 0A is LISTEN.
            sockets.lines().any(|line| line.contains(":0016 ") && line.contains(" 0A "))
        });
        (machine, sshd)
    }

    /// The last machine is the receiver. `knee` is a line of the file.
    fn write_hosts(&self, knee: &str) {
        let dir = self.dir.path().display();
        let count = self.machines.len();
        let table = |number: usize| {
            let role = if number == count { "r".to_owned() } else { format!("s{number}") };
            format!(
                "[[host]]\nname = \"machine-{number}\"\nssh = \"root@10.98.{number}.1\"\naddress = \"10.98.{number}.1\"\n\
                 device = \"km{number}\"\nroles = \"{role}\"\n{knee}\noptions = [\"IdentityFile={dir}/user\", \
                 \"IdentitiesOnly=yes\", \"GlobalKnownHostsFile={dir}/known\", \
                 \"StrictHostKeyChecking=yes\", \"ConnectTimeout=5\"]\n\n"
            )
        };
        let text: String = (1..=count).map(table).collect();
        fs::write(self.dir.path().join("hosts.toml"), text).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(KNEE);
        command.args(["run", "two.toml", "--on", "hosts=hosts.toml", "-o", "results"]);
        command.args(more).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn knee(&self, more: &[&str]) -> Output {
        let mut command = self.command(more);
        self.router.run(move || command.output().unwrap())
    }

    fn start(&self, more: &[&str]) -> Child {
        let mut command = self.command(more);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        self.router.run(move || command.spawn().unwrap())
    }

    /// Machine's processes but its sshd.
    fn on_machine(&self, number: usize) -> Vec<i32> {
        let (machine, sshd) = &self.machines[number - 1];
        let mut all = processes_in(machine);
        all.retain(|pid| *pid != sshd.id() as i32);
        all
    }

    /// No ssh here, and nothing but sshd there.
    fn is_empty(&self) -> bool {
        let machines = 1..=self.machines.len();
        processes_in(&self.router).is_empty()
            && machines.into_iter().all(|number| self.on_machine(number).is_empty())
    }

    fn agents(&self) -> usize {
        let machines = 1..=self.machines.len();
        let is_agent = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.ends_with(b"\0agent\0")
        };
        machines
            .map(|number| self.on_machine(number).iter().filter(|pid| is_agent(pid)).count())
            .sum()
    }

    fn rows(&self, file: &str) -> Vec<std::collections::HashMap<String, String>> {
        let text = fs::read_to_string(self.dir.path().join("results").join(file)).unwrap();
        let mut lines = text.lines();
        let names: Vec<_> = lines.next().unwrap().split(',').map(str::to_owned).collect();
        let row =
            |line: &str| names.iter().cloned().zip(line.split(',').map(str::to_owned)).collect();
        lines.map(row).collect()
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for (machine, sshd) in &mut self.machines {
            let _ = sshd.kill();
            let _ = sshd.wait();
            kill_all(machine);
        }
        kill_all(&self.router);
    }
}

/// Processes whose first thread is in it.
fn processes_in(namespace: &Namespace) -> Vec<i32> {
    let inode = |path: String| fs::metadata(path).map(|about| about.ino()).ok();
    let own = inode(format!("/proc/{}/ns/net", namespace.tid())).unwrap();
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| inode(format!("/proc/{pid}/ns/net")) == Some(own)).collect()
}

fn kill_all(namespace: &Namespace) {
    for pid in processes_in(namespace) {
        signal(pid, libc::SIGKILL);
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: it sends a signal to a process of this test.
    unsafe { libc::kill(pid, signal) };
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits for a child, but not for ever.
fn wait(mut child: Child) -> (Option<i32>, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("still running");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

fn programs_in_tmp() -> Vec<PathBuf> {
    let entries = fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().path());
    let is_copy = |path: &Path| path.to_str().is_some_and(|path| path.contains("/knee-agent."));
    entries.filter(|path| is_copy(path)).collect()
}

#[test]
fn three_machines_carry_out_an_experiment() {
    let Some(rack) = Rack::new(3) else { return };
    let output = rack.knee(&["--json"]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    wait_until("all have left", || rack.is_empty());

    let flows = rack.rows("flows.csv");
    let of =
        |entry: &str| -> Vec<_> { flows.iter().filter(|row| row["traffic"] == entry).collect() };
    assert_eq!((of("bulk").len(), of("rpc").len()), (2, 2), "{flows:?}");
    for row in of("bulk") {
        assert_eq!((row["from"].as_str(), row["to"].as_str()), ("s1", "r"));
        // Two seconds at the rate are some 17000 segments; exchanges have a part of them.
        let sent: u64 = row["delivered_pkts"].parse().unwrap();
        assert!((1000..=20_000).contains(&sent), "{row:?}");
        assert!(row["srtt_s"].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
    let names: Vec<_> = of("bulk").iter().map(|row| row["algorithm_at_end"].as_str()).collect();
    assert_eq!(names, ["cubic", "dctcp"]);
    let rpcs = rack.rows("rpcs.csv");
    assert!(rpcs.len() > 20, "{} exchanges", rpcs.len());
    // Nobody knows them.
    let there = |file: &str| rack.dir.path().join("results").join(file).exists();
    assert!(!there("queues.csv") && !there("series-queues.csv"));
    assert!(rack.rows("series-flows.csv").len() > 20);

    let manifest = fs::read_to_string(rack.dir.path().join("results/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let back_end = &manifest["back_end"];
    assert_eq!(back_end["name"], "hosts");
    let machines = back_end["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 3);
    assert_eq!(machines[0]["roles"], serde_json::json!(["s1"]));
    for (machine, number) in machines.iter().zip(1..) {
        assert_eq!(machine["device"]["name"], format!("km{number}"));
        assert_eq!(machine["device"]["settings"]["mtu"], 1500);
        assert!(machine["device"]["offloads"]["tso"].is_boolean(), "{machine}");
        assert!(machine["kernel"].is_string() && machine["cores"].as_u64() > Some(0));
    }
    let measures = rack.rows("validity.csv");
    let clock = measures.iter().find(|row| row["measure"] == "clock_error_us").unwrap();
    assert!(clock["value"].parse::<f64>().unwrap() > 0.0, "{clock:?}");
}

#[test]
fn a_run_ends_when_all_is_done() {
    let Some(rack) = Rack::new(3) else { return };
    let ends = EXPERIMENT
        .replace("to = \"r\"\n\n[[traffic]]", "to = \"r\"\nsize = \"1 MB\"\n\n[[traffic]]")
        .replace("response = \"100 B\"", "response = \"100 B\"\ncount = 20")
        .replace("duration = \"2 s\"", "duration = \"60 s\"\nuntil_done = true")
        .replace("measure_from = \"500 ms\"\nmeasure_until = \"2 s\"\n", "");
    fs::write(rack.dir.path().join("two.toml"), ends).unwrap();
    let output = rack.knee(&[]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let flows = rack.rows("flows.csv");
    let last_of_run = |run: &str| {
        let done = flows.iter().filter(|row| row["run"] == run);
        done.map(|row| row["done_at_s"].parse::<f64>().unwrap()).fold(0.0, f64::max)
    };
    for row in rack.rows("runs.csv") {
        let end_s: f64 = row["end_s"].parse().unwrap();
        // 1 MB takes 80 ms at the rate; how much longer is for the machine to say.
        assert!((0.08..30.0).contains(&end_s), "{row:?}");
        assert!((last_of_run(&row["run"]) - end_s).abs() < 1e-6, "{row:?}: {flows:?}");
    }
    assert_eq!(rack.rows("rpcs.csv").len(), 40);
}

/// What machines get of it is what knee made of it here: there may be no compiler.
#[test]
fn an_algorithm_of_a_file_is_sent_to_the_machines() {
    let Some(rack) = Rack::new(3) else { return };
    for name in ["gentle.c", "gentle.h"] {
        let from = knee_testbed::outside::path().with_file_name(name);
        fs::copy(from, rack.dir.path().join(name)).unwrap();
    }
    let experiment =
        EXPERIMENT.replace("cc = \"cubic\"", "cc = \"./gentle.c\"\nparams = { keep = 700 }");
    fs::write(rack.dir.path().join("two.toml"), experiment).unwrap();
    let output = rack.knee(&[]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let flows = rack.rows("flows.csv");
    assert!(flows.iter().any(|row| row["algorithm_at_end"] == "gentle"), "{flows:?}");
    fs::write(rack.dir.path().join("gentle.h"), "#error none\n").unwrap();
    let output = rack.knee(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("gentle.c"), "{}", err(&output));
}

#[test]
fn a_machine_may_be_several_hosts_and_have_ipv6() {
    let Some(rack) = Rack::new(2) else { return };
    let hosts = fs::read_to_string(rack.dir.path().join("hosts.toml")).unwrap();
    let hosts = hosts.replace("roles = \"s1\"", "roles = \"s1..s2\"");
    let hosts =
        hosts.replace("address = \"10.98.", "address = \"fd98:").replace(".1\"\ndev", "::1\"\ndev");
    assert!(hosts.contains("address = \"fd98:2::1\""), "{hosts}");
    fs::write(rack.dir.path().join("hosts.toml"), &hosts).unwrap();
    // An algorithm with a parameter of its own, and told a base RTT.
    let told = EXPERIMENT
        .replace("cc = \"dctcp\"", "cc = \"dctcp\"\nparams = { shift_g = 3 }")
        .replace("kind = \"bulk\"", "kind = \"bulk\"\nbase_rtt = \"100 us\"");
    fs::write(rack.dir.path().join("two.toml"), told).unwrap();
    let output = rack.knee(&[]);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
    let flows = rack.rows("flows.csv");
    let from: Vec<_> = flows.iter().map(|row| row["from"].as_str()).collect();
    assert_eq!(from, ["s1", "s2", "s1", "s2"]);
    assert!(
        flows.iter().all(|row| row["received_bytes"].parse::<u64>().unwrap() > 100_000),
        "{flows:?}"
    );

    // One that is sender and receiver has no network in between.
    fs::remove_dir_all(rack.dir.path().join("results")).unwrap();
    let both =
        hosts.replace("\"s1..s2\"", "[\"s1\", \"r\"]").replace("\"r\"\nknee", "\"s2\"\nknee");
    fs::write(rack.dir.path().join("hosts.toml"), both).unwrap();
    let text = err(&rack.knee(&[]));
    assert!(text.contains("traffic from s1 to r would stay within machine machine-1"), "{text}");
}

#[test]
fn a_program_that_is_copied_leaves_nothing() {
    let Some(rack) = Rack::new(2) else { return };
    let copy = rack.dir.path().join("copied");
    // What a release has: without what debuggers read it is a tenth of the size.
    let stripped = Command::new("strip").arg("-o").arg(&copy).arg(KNEE).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(KNEE, &copy).unwrap();
    }
    rack.write_hosts("copy = \"copied\"");
    let short = EXPERIMENT.replace("senders = 2", "senders = 1").replace("\"s2\"", "\"s1\"");
    fs::write(rack.dir.path().join("two.toml"), short).unwrap();
    let before = programs_in_tmp();
    let running = rack.start(&["--cc", "cubic"]);
    wait_until("agents run", || rack.agents() == 2);
    // While they run the program has no name any more.
    wait_until("its name is gone", || programs_in_tmp() == before);
    let (code, text) = wait(running);
    assert_eq!((code, text.as_str()), (Some(0), ""));
    assert_eq!(rack.rows("flows.csv").len(), 2);
    wait_until("all have left", || rack.is_empty());
    assert_eq!(programs_in_tmp(), before);
}

/// A run that would take long; it has begun when this returns.
fn begun(rack: &Rack) -> Child {
    let long = EXPERIMENT.replace("duration = \"2 s\"", "duration = \"50 s\"");
    fs::write(rack.dir.path().join("two.toml"), long).unwrap();
    let running = rack.start(&[]);
    wait_until("data is sent", || {
        let counts = rack.machines[0].0.run(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let line = counts.unwrap();
        let line = line.lines().find(|line| line.contains("km1:")).unwrap().to_owned();
        line.split_whitespace().nth(9).unwrap().parse::<u64>().unwrap() > 2_000_000
    });
    running
}

#[test]
fn a_machine_that_dies_is_named_and_the_others_are_stopped() {
    let Some(rack) = Rack::new(3) else { return };
    let running = begun(&rack);
    let died = Instant::now();
    for pid in rack.on_machine(2) {
        signal(pid, libc::SIGKILL);
    }
    let (code, text) = wait(running);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("machine machine-2 is gone during a run"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(died.elapsed() < Duration::from_secs(10), "{:?}", died.elapsed());
    wait_until("all have left", || rack.is_empty());
}

#[test]
fn a_machine_that_does_not_answer_is_named() {
    let Some(rack) = Rack::new(3) else { return };
    let running = begun(&rack);
    ip(&rack.router, "link set kr2 down".to_owned());
    let silent = Instant::now();
    let (code, text) = wait(running);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("machine machine-2 is gone"), "{text}");
    assert!(text.contains("not answered for 10 s"), "{text}");
    assert!(silent.elapsed() < Duration::from_secs(20), "{:?}", silent.elapsed());
    // Those that can be reached have left.
    wait_until("the others have left", || {
        processes_in(&rack.router).is_empty()
            && rack.on_machine(1).is_empty()
            && rack.on_machine(3).is_empty()
    });
}

#[test]
fn ctrl_c_stops_all_agents() {
    let Some(rack) = Rack::new(3) else { return };
    let running = begun(&rack);
    assert_eq!(rack.agents(), 3);
    signal(running.id() as i32, libc::SIGINT);
    let (code, text) = wait(running);
    assert_eq!(code, Some(2), "{text}");
    assert_eq!(text, "knee: stopped before a run finished: nothing is kept\n");
    // Agents have left before knee has; what is left of sshd's side follows.
    assert_eq!(rack.agents(), 0);
    wait_until("all have left", || rack.is_empty());
}

#[test]
fn what_kills_knee_ends_its_agents() {
    let Some(rack) = Rack::new(3) else { return };
    let running = begun(&rack);
    signal(running.id() as i32, libc::SIGKILL);
    let (code, _) = wait(running);
    assert_eq!(code, None);
    wait_until("all have left", || rack.is_empty());
}

#[test]
fn what_cannot_be_is_one_sentence() {
    let Some(rack) = Rack::new(3) else { return };
    let hosts = fs::read_to_string(rack.dir.path().join("hosts.toml")).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(hosts.contains(from), "{from}");
        fs::write(rack.dir.path().join("hosts.toml"), hosts.replacen(from, to, 1)).unwrap();
        let output = rack.knee(&[]);
        let text = err(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(
            rack.is_empty() || {
                thread::sleep(Duration::from_secs(1));
                rack.is_empty()
            }
        );
        text
    };
    let text = refused("device", "devise");
    assert!(text.starts_with("knee: hosts.toml:5: host.machine-1.devise: unknown key"), "{text}");
    let text = refused("roles = \"s2\"", "roles = \"s3\"");
    assert!(text.contains("no machine has the role s2 of the experiment's network"), "{text}");
    let text = refused(
        "roles = \"r\"",
        "roles = \"r\"\n[[host]]\nname = \"x\"\nssh = \"x\"\naddress = \"10.98.9.1\"\ndevice = \"x\"\nroles = \"q\"",
    );
    assert!(text.contains("the experiment's network has no host q"), "{text}");
    let text = refused("device = \"km2\"", "device = \"eth9\"");
    assert!(text.contains("machine machine-2: it has no device eth9; it has km2"), "{text}");
    let text = refused("\naddress = \"10.98.2.1\"", "\naddress = \"10.98.2.7\"");
    assert!(text.contains("machine machine-2: ") && text.contains("10.98.2.7"), "{text}");
    // Nobody is there; nobody may come in; nothing is to be started.
    let text = refused("root@10.98.2.1", "root@10.98.2.9");
    assert!(
        text.contains("machine machine-2: \"ssh root@10.98.2.9\" started no knee agent"),
        "{text}"
    );
    assert!(text.contains("No route to host") || text.contains("timed out"), "{text}");
    let text = refused("IdentityFile=", "IdentityFile=/nowhere");
    assert!(text.contains("machine-1") && text.contains("Permission denied"), "{text}");
    let text = refused(&format!("knee = {KNEE:?}"), "knee = \"/nowhere/knee\"");
    assert!(text.contains("machine-1") && text.contains("/nowhere/knee"), "{text}");

    fs::write(rack.dir.path().join("hosts.toml"), &hosts).unwrap();
    for (flag, value) in [("--offloads", "on"), ("--algorithms", "kernel"), ("--scale", "0.1")] {
        let output = rack.knee(&[flag, value]);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).starts_with(&format!("knee: {flag} is ")), "{}", err(&output));
    }
    let rpc =
        "kind = \"rpc\"\nfrom = \"s2\"\nto = \"r\"\nrequest = \"10 kB\"\nresponse = \"100 B\"";
    let query = "kind = \"query\"\nfrom = \"r\"\nto = \"s1..s2\"\nresponse = \"1 kB\"\ncount = 3";
    assert!(EXPERIMENT.contains(rpc));
    fs::write(rack.dir.path().join("two.toml"), EXPERIMENT.replace(rpc, query)).unwrap();
    let text = err(&rack.knee(&[]));
    assert!(text.contains("machines do not signal each other"), "{text}");
    let framed = EXPERIMENT.replace("bottleneck = { ", "bottleneck = { overhead = \"24 B\", ");
    assert_ne!(framed, EXPERIMENT);
    fs::write(rack.dir.path().join("two.toml"), framed).unwrap();
    let text = err(&rack.knee(&[]));
    assert!(
        text.contains("link switch-r: overhead: real links") && text.contains("--on lab"),
        "{text}"
    );
    assert!(!rack.dir.path().join("results").exists());
}

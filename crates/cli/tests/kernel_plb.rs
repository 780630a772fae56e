//! `knee plb` on the running kernel: connections change their IPv6 label when their algorithm asks for
//! it, only then, and the device is left as it was.

#![cfg(feature = "kernel")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use knee_bpf::KernelApi;
use knee_testbed::capture::{Capture, SYN};
use knee_testbed::net::{Namespace, Pair, Path, SERVER, SERVER_IPV6, choose, ip};
use knee_testbed::sandbox::Sandbox;
use knee_testbed::wait_until;

const BYTES: usize = 1_500_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the kernel cannot write labels the command says since when one can.
fn sandbox() -> Option<Sandbox> {
    if !knee_testbed::kernel_is_ready() {
        return None;
    }
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_knee"));
    if !KernelApi::running().tcx {
        let refused = sandbox.knee("plb on lo").refused();
        assert!(refused.contains("takes Linux 6.6 or later"), "{refused}");
        return None;
    }
    Some(sandbox)
}

/// Every data packet is marked: congested in every round.
const MARKED: Path = Path {
    mark_period: 1,
    mark_burst: 1,
    drop_period: 0,
    outage_at: 0,
    outage_ms: 0,
    count_acks: false,
};

fn congested() -> Pair {
    Pair::new("reno", MARKED, Path::default())
}

/// Byte `i` of what is sent.
fn pattern(i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Labels of the packets that the client sends over a connection under `algorithm`, without the SYN,
/// whose connection does not exist yet; what arrives is what was sent.
fn labels(pair: &Pair, algorithm: &str, server: &'static str) -> BTreeSet<u32> {
    let listener = pair.server.run(move || TcpListener::bind((server, 0)).unwrap());
    choose(&listener, algorithm);
    let port = listener.local_addr().unwrap().port();
    let capture = Capture::start(&pair.server, "knee-s");
    let name = algorithm.to_owned();
    let mut client = pair.client.run(move || {
        let family = if server.contains(':') { libc::AF_INET6 } else { libc::AF_INET };
        connect_under(&name, family, server, port)
    });
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&(0..BYTES).map(pattern).collect::<Vec<_>>()).unwrap();
        });
        let mut data = vec![0; BYTES];
        accepted.read_exact(&mut data).unwrap();
        assert!(data.iter().enumerate().all(|(i, byte)| *byte == pattern(i)));
    });
    let packets = capture.take();
    let sent = packets.iter().filter(|p| !p.out && p.destination_port == port && !p.has(SYN));
    sent.map(|packet| packet.label).collect()
}

/// The algorithm is chosen before, so that ECN is asked for.
fn connect_under(name: &str, family: i32, server: &str, port: u16) -> TcpStream {
    use std::os::fd::FromRawFd as _;
    // SAFETY: it only makes a socket, which belongs to nobody else.
    let stream = unsafe {
        let fd = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        TcpStream::from_raw_fd(fd)
    };
    choose(&stream, name);
    let address: std::net::SocketAddr = format!(
        "{}:{port}",
        if family == libc::AF_INET6 { format!("[{server}]") } else { server.to_owned() }
    )
    .parse()
    .unwrap();
    connect(&stream, address);
    stream
}

fn connect(stream: &TcpStream, address: std::net::SocketAddr) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: all zeros are addresses; pointers and lengths are theirs.
    let result = unsafe {
        match address {
            std::net::SocketAddr::V4(v4) => {
                let mut to: libc::sockaddr_in = std::mem::zeroed();
                to.sin_family = libc::AF_INET as u16;
                to.sin_port = v4.port().to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                let len = size_of::<libc::sockaddr_in>() as u32;
                libc::connect(stream.as_raw_fd(), (&raw const to).cast(), len)
            }
            std::net::SocketAddr::V6(v6) => {
                let mut to: libc::sockaddr_in6 = std::mem::zeroed();
                to.sin6_family = libc::AF_INET6 as u16;
                to.sin6_port = v6.port().to_be();
                to.sin6_addr.s6_addr = v6.ip().octets();
                let len = size_of::<libc::sockaddr_in6>() as u32;
                libc::connect(stream.as_raw_fd(), (&raw const to).cast(), len)
            }
        }
    };
    assert_eq!(result, 0, "{address}: {}", std::io::Error::last_os_error());
}

/// What the host has at a device: disciplines and filters.
fn traffic_control(namespace: &Namespace, device: &'static str) -> String {
    let tc = |line: String| {
        let output = Command::new("tc").args(line.split(' ')).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    namespace.run(move || {
        ["qdisc show dev {}", "filter show dev {} egress", "filter show dev {} ingress"]
            .map(|line| tc(line.replace("{}", device)))
            .join("--\n")
    })
}

#[test]
fn a_congested_connection_goes_through_several_labels_and_arrives_intact() {
    let Some(sandbox) = sandbox() else { return };
    let (moving, still) = (sandbox.name('m'), sandbox.name('s'));
    let told = sandbox.knee(&format!("load dctcp --as {moving} --set plb=on")).done();
    assert!(told.contains("knee plb on DEVICE"), "{told}");
    let told = sandbox.knee(&format!("load dctcp --as {still}")).done();
    assert!(!told.contains("knee plb"), "{told}");
    // What marks is a filter of the host's own at the same place, which goes on doing so.
    let pair = Pair::new("reno", Path::default(), Path::default());
    MARKED.attach_at_egress(&pair.client, "knee-c");
    let before = traffic_control(&pair.client, "knee-c");
    assert!(before.contains("path"), "{before}");
    assert_eq!(labels(&pair, &moving, SERVER_IPV6).len(), 1, "nobody writes labels yet");

    sandbox.knee_in(&pair.client, "plb on knee-c").done();
    let seen = labels(&pair, &moving, SERVER_IPV6);
    println!("{} labels", seen.len());
    assert!(seen.len() >= 6, "{seen:?}");
    assert_eq!(labels(&pair, &still, SERVER_IPV6).len(), 1, "it does not ask for other paths");
    assert_eq!(labels(&pair, "reno", SERVER_IPV6).len(), 1, "it cannot ask");
    assert_eq!(labels(&pair, &moving, SERVER), BTreeSet::from([0]), "IPv4 has none");
    assert_eq!(traffic_control(&pair.client, "knee-c"), before, "the host's own is untouched");

    let off = sandbox.knee_in(&pair.client, "plb off knee-c").done();
    assert!(off.contains("labels are no longer written"), "{off}");
    assert_eq!(labels(&pair, &moving, SERVER_IPV6).len(), 1);
    assert_eq!(traffic_control(&pair.client, "knee-c"), before);
}

#[test]
fn it_does_not_matter_which_comes_first() {
    let Some(sandbox) = sandbox() else { return };
    let pair = congested();
    sandbox.knee_in(&pair.client, "plb on knee-c").done();
    let name = sandbox.name('l');
    sandbox.knee(&format!("load dctcp --as {name} --set plb=on --set plb_rehash_rounds=3")).done();
    assert!(labels(&pair, &name, SERVER_IPV6).len() >= 6);
    // Both go, and nothing is left.
    let told = sandbox.knee("unload --all").done();
    assert!(told.contains("knee-c") && told.contains("labels are no longer written"), "{told}");

    assert_eq!(sandbox.files(), [sandbox.bpffs()]);
}

#[test]
fn what_is_kept_is_shown_and_taken_away_without_a_trace() {
    let Some(sandbox) = sandbox() else { return };
    let pair = Pair::new("reno", Path::default(), Path::default());
    let before = (traffic_control(&pair.client, "knee-c"), sandbox.files());
    sandbox.knee_in(&pair.client, "plb on knee-c").done();
    let again = sandbox.knee_in(&pair.client, "plb on knee-c").done();
    assert!(again.contains("already"), "{again}");
    sandbox.knee_in(&pair.client, "plb on lo").done();
    let shown: serde_json::Value =
        serde_json::from_str(&sandbox.knee("plb show --json").done()).unwrap();
    let devices: Vec<_> = shown["labels"].as_array().unwrap().iter().collect();
    let here = |device: &str| devices.iter().any(|at| at["device"] == device && at["kept"] == true);
    assert!(here("knee-c") && here("lo"), "{shown}");
    let status = sandbox.knee("status").done();
    assert!(status.contains("IPv6 labels follow PLB"), "{status}");

    let refused = sandbox.knee("plb off knee-c").refused();
    // Another namespace's device is not this one's.
    assert_eq!(refused, "knee: no labels are written at knee-c: see knee plb show\n");
    sandbox.knee_in(&pair.client, "plb off lo").done();
    sandbox.knee("plb off --all").done();
    assert_eq!((traffic_control(&pair.client, "knee-c"), sandbox.files()), before);
    // What others hold meanwhile may follow.
    assert!(sandbox.knee("plb off --all").done().starts_with("no device writes labels\n"));
}

#[test]
fn a_killed_holder_leaves_nothing() {
    let Some(sandbox) = sandbox() else { return };
    ip(&sandbox.namespace, "link add knee-h type veth peer name knee-i".to_owned());
    let before = (traffic_control(&sandbox.namespace, "knee-h"), sandbox.files());
    let holder = sandbox.start("plb on knee-h --for 60s");
    assert!(holder.first.starts_with("knee-h: labels are written here for 60 s"));
    let shown = sandbox.knee("plb show").done();
    let line = shown.lines().find(|line| line.starts_with("knee-h")).unwrap();
    let held = format!("labels are written as long as process {} (knee) holds it", holder.pid());
    assert!(line.ends_with(&held), "{shown}");
    // It is not kept, and all the same it is there.
    for command in ["plb off --all", "unload --all"] {
        let told = sandbox.knee(command).done();
        let line = told.lines().find(|line| line.starts_with("knee-h")).unwrap();
        assert!(line.contains(&held), "{told}");
    }
    let status = sandbox.knee("status").done();
    assert!(status.contains(&format!("process {} (knee) holds it", holder.pid())), "{status}");
    let refused = sandbox.knee("plb on knee-h --for 1s").refused();
    assert!(refused.contains("labels are written at knee-h already"), "{refused}");
    holder.signal(libc::SIGKILL);
    holder.end();
    wait_until("the kernel drops it", || !sandbox.knee("plb show").done().contains("knee-h"));
    assert_eq!((traffic_control(&sandbox.namespace, "knee-h"), sandbox.files()), before);

    // One that is over, and one that is told to end.
    let holder = sandbox.start("plb on knee-h --for 200ms");
    assert!(holder.end().1.contains("labels are no longer written"));
    let holder = sandbox.start("plb on knee-h --for 60s");
    holder.signal(libc::SIGTERM);
    assert!(holder.end().1.contains("labels are no longer written"));
    assert_eq!((traffic_control(&sandbox.namespace, "knee-h"), sandbox.files()), before);
}

#[test]
fn what_a_process_holds_can_be_kept() {
    let Some(sandbox) = sandbox() else { return };
    let pair = congested();
    let name = sandbox.name('k');
    sandbox.knee(&format!("load dctcp --as {name} --set plb=on")).done();
    let mut line = sandbox.command("plb on knee-c --for 1s");
    let mut holder = pair.client.run(move || line.stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    let mut said = BufReader::new(holder.stdout.take().unwrap());
    said.read_line(&mut first).unwrap();
    assert!(first.contains("for 1 s"), "{first}");
    let told = sandbox.knee_in(&pair.client, "plb on knee-c").done();
    assert!(told.contains("kept permanently; so far a process held it"), "{told}");
    assert!(holder.wait().unwrap().success());
    let again = sandbox.knee_in(&pair.client, "plb on knee-c").done();
    assert!(again.contains("already"), "{again}");
    // Its time is over, and it goes on.
    thread::sleep(Duration::from_millis(1100));
    assert!(labels(&pair, &name, SERVER_IPV6).len() >= 6);
}

#[test]
fn a_holder_that_is_stopped_does_not_prolong_its_time() {
    let Some(sandbox) = sandbox() else { return };
    let pair = congested();
    let name = sandbox.name('t');
    sandbox.knee(&format!("load dctcp --as {name} --set plb=on")).done();
    let mut line = sandbox.command("plb on knee-c --for 3s");
    let mut holder = pair.client.run(move || line.stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let started = Instant::now();
    // SAFETY: it is a child of this process that was not waited for.
    assert_eq!(unsafe { libc::kill(holder.id() as i32, libc::SIGSTOP) }, 0);
    let within = labels(&pair, &name, SERVER_IPV6).len();
    assert!(within >= 6 || started.elapsed() > Duration::from_secs(2), "{within}");
    thread::sleep(Duration::from_millis(3100).saturating_sub(started.elapsed()));
    let shown = sandbox.knee("plb show").done();
    let after = labels(&pair, &name, SERVER_IPV6).len();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(after, 1, "{shown}");
}

#[test]
fn a_device_that_goes_takes_it_along_and_its_pin_goes_with_the_next_command() {
    let Some(sandbox) = sandbox() else { return };
    let before = sandbox.files();
    ip(&sandbox.namespace, "link add knee-a type veth peer name knee-b".to_owned());
    sandbox.knee("plb on knee-a").done();
    ip(&sandbox.namespace, "link del knee-a".to_owned());
    assert!(!sandbox.knee("plb show").done().contains("knee-a"));
    sandbox.knee("plb off --all").done();
    assert_eq!(sandbox.files(), before);
}

#[test]
fn what_a_process_holds_keeps_its_end_where_it_cannot_be_kept() {
    let Some(sandbox) = sandbox() else { return };
    let pair = congested();
    let name = sandbox.name('e');
    sandbox.knee(&format!("load dctcp --as {name} --set plb=on")).done();
    let mut line = sandbox.command("plb on knee-c --for 3s");
    let mut holder = pair.client.run(move || line.stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let started = Instant::now();
    // SAFETY: it is a child of this process that was not waited for.
    assert_eq!(unsafe { libc::kill(holder.id() as i32, libc::SIGSTOP) }, 0);
    // A directory is where the pin would be, so that it cannot be made.
    let pins = sandbox.bpffs().join("knee/labels_at_devices");
    let shown: serde_json::Value =
        serde_json::from_str(&sandbox.knee("plb show --json").done()).unwrap();
    let by_it = |at: &serde_json::Value| at["holders"][0]["pid"] == holder.id();
    let held = shown["labels"].as_array().unwrap().iter().filter(|at| by_it(at)).count();
    assert_eq!(held, 1, "{shown}");
    let links = link_numbers(holder.id());
    assert_eq!(links.len(), 1, "{links:?}");
    std::fs::create_dir_all(pins.join(format!("{}-unfinished", links[0]))).unwrap();
    let refused = sandbox.knee_in(&pair.client, "plb on knee-c").refused();
    assert!(refused.contains("-unfinished"), "{refused}");
    thread::sleep(Duration::from_millis(3100).saturating_sub(started.elapsed()));
    let after = labels(&pair, &name, SERVER_IPV6).len();
    holder.kill().unwrap();
    holder.wait().unwrap();
    std::fs::remove_dir(pins.join(format!("{}-unfinished", links[0]))).unwrap();
    assert_eq!(after, 1);
}

/// The kernel's numbers of the links that a process has open.
fn link_numbers(process: u32) -> Vec<u32> {
    let infos = std::fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap();
    let texts = infos.filter_map(|info| std::fs::read_to_string(info.unwrap().path()).ok());
    let number = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("link_id:")?.trim().parse().ok())
    };
    texts.filter_map(number).collect()
}

#[test]
fn a_device_that_moves_to_another_namespace_stays_kept_until_it_is_taken_away() {
    let Some(sandbox) = sandbox() else { return };
    let other = Namespace::new().unwrap();
    let before = sandbox.files();
    for (on, off) in [("knee-d", "plb off --all"), ("knee-e", "unload --all"), ("knee-f", "")] {
        ip(&sandbox.namespace, format!("link add {on} type veth peer name {on}p"));
        sandbox.knee(&format!("plb on {on}")).done();
        ip(&sandbox.namespace, format!("link set {on} netns {}", other.tid()));
        let shown: serde_json::Value =
            serde_json::from_str(&sandbox.knee("plb show --json").done()).unwrap();
        let labels = shown["labels"].as_array().unwrap();
        let it = labels.iter().find(|at| at["device"] == on);
        let Some(it) = it else {
            println!("this kernel takes links away when a device moves");
            sandbox.knee("plb off --all").done();
            continue;
        };
        assert_eq!(it["kept"], true, "{shown}");
        let told = match off {
            "" => sandbox.knee_in(&other, &format!("plb off {on}")).done(),
            all => sandbox.knee(all).done(),
        };
        assert!(told.contains(on) && told.contains("labels are no longer written"), "{told}");
        let shown = sandbox.knee("plb show").done();
        assert!(!shown.contains(on), "{shown}");
        assert_eq!(sandbox.files(), before);
    }
}

#[test]
fn a_file_system_of_pins_that_goes_is_named_with_the_way_out() {
    let Some(sandbox) = sandbox() else { return };
    let name = sandbox.name('g');
    sandbox.knee(&format!("load cubic --as {name}")).done();
    let umount = Command::new("umount").arg(sandbox.bpffs()).status().unwrap();
    assert!(umount.success());
    wait_until("the kernel drops it", || {
        let gone = format!("{name}: loaded, but no longer registered");
        let answer = sandbox.knee("status");
        answer.out.contains(&gone)
    });
    let status = sandbox.knee("status").failed_check();
    assert!(status.contains("its pin is gone"), "{status}");
    assert!(!status.contains("a command was interrupted"), "{status}");
    let told = sandbox.knee(&format!("unload {name}")).done();
    assert!(told.contains(&format!("{name}: unloaded")), "{told}");
    assert!(!sandbox.knee("status").done().contains(&name));
    assert!(!sandbox.run_dir().exists());
}

#[test]
fn labels_that_cannot_be_looked_at_hide_nothing_else() {
    let Some(sandbox) = sandbox() else { return };
    let name = sandbox.name('u');
    sandbox.knee(&format!("load cubic --as {name}")).done();
    // Something where only links are.
    let wrong = sandbox.bpffs().join("knee/labels_at_devices/wrong");
    std::fs::create_dir_all(&wrong).unwrap();
    let status = sandbox.knee("status").failed_check();
    assert!(status.contains(&format!("{name}: cubic")), "{status}");
    assert!(status.contains("does not know the devices with labels there"), "{status}");
    assert!(status.contains("labels_at_devices/wrong"), "{status}");
    let answer = sandbox.knee("unload --all --json");
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let told: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(told["unloaded"][0]["name"], name.as_str(), "{told}");
    let why = told["failed"][0]["why"].as_str().unwrap();
    assert!(why.contains("labels_at_devices/wrong") && answer.err.contains(why), "{answer:?}");
    std::fs::remove_dir(wrong).unwrap();
    sandbox.knee("unload --all").done();
    assert_eq!(sandbox.files(), [sandbox.bpffs()]);
}

#[test]
fn what_is_no_device_is_refused_in_a_sentence() {
    let Some(sandbox) = sandbox() else { return };
    let refused = sandbox.knee("plb on eth77").refused();
    let expected = "knee: there is no device \"eth77\" in this network namespace: see ip link\n";
    assert_eq!(refused, expected);
    for line in ["plb on a-name-longer-than-the-kernel-takes", "plb on eth77 --for 1s"] {
        assert!(sandbox.knee(line).refused().contains("there is no device"));
    }
    assert_eq!(sandbox.files(), [sandbox.bpffs()]);
}

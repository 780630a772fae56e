//! The switch between two namespaces of the running kernel.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration as Wall, Instant};

use knee_lab::switch::{Port, Switch, SwitchConfig, SwitchReport};
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{
    DropTailConfig, Ecn, Limit, MarkAt, MarkWhen, NotEctAbove, Packet, Qdisc as _, QueueAction,
    QueueConfig, StepConfig, Threshold,
};
use knee_run::spec::{HostConfig, LinkId, LinuxVersion, Network};
use knee_run::topology::{Cable, Star};
use knee_sim::fabric::Offered;
use knee_testbed::kernel_is_ready;
use knee_testbed::net::{Namespace, ip, sysctl};
use rustix::thread::{CpuSet, sched_setaffinity};

/// From the switch to the second host, as [`Star`] numbers links.
const DOWN_TO_B: LinkId = 3;
/// The switch has one CPU, traffic another.
const SWITCH_CPU: usize = 1;
const TRAFFIC_CPU: usize = 0;

/// One at a time: they need all CPUs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two hosts, each joined to the namespace of the switch by a veth pair.
struct Hosts {
    hosts: [Namespace; 2],
    switch: Namespace,
    ports: Vec<Port>,
}

#[derive(Clone, Copy, Default)]
struct Settings {
    /// Segmentation by the switch.
    large: bool,
    /// `rate 1gbit burst 1514`, ...
    tbf: Option<&'static str>,
}

fn run(namespace: &Namespace, line: String) {
    namespace.run(move || {
        let mut words = line.split(' ');
        let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
    });
}

fn mac(number: usize) -> [u8; 6] {
    [0x02, 0x6b, 0x73, 0x77, 0, number as u8 + 1]
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl Hosts {
    fn new(settings: Settings) -> Hosts {
        let switch = Namespace::new().unwrap();
        let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let mut ports = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            host.run(|| {
                // What comes for hosts is worked on where traffic is, not by the thread that sends it.
                let mask = format!("{:x}", 1 << TRAFFIC_CPU);
                fs::write("/proc/sys/net/core/rps_default_mask", mask).unwrap();
            });
            let one = if settings.large { "" } else { " gso_max_segs 1" };
            ip(
                host,
                format!(
                    "link add knee-h{one} address {} type veth peer name knee-p{number} netns {}",
                    text(mac(number)),
                    switch.tid()
                ),
            );
            let device = format!("knee-p{number}");
            let file = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
            switch.run(move || fs::write(file, "1").unwrap());
            ip(&switch, format!("link set {device} up"));
            let device = device_number(&switch, &device);
            ports.push(Port { device, node: number as u32, mac: mac(number) });
            ip(host, format!("addr add 10.97.0.{}/24 dev knee-h", number + 1));
            ip(host, format!("addr add fd97::{}/64 dev knee-h nodad", number + 1));
            ip(host, "link set knee-h up".to_owned());
            let other = text(mac(1 - number));
            for address in [format!("10.97.0.{}", 2 - number), format!("fd97::{}", 2 - number)] {
                ip(host, format!("neigh add {address} lladdr {other} dev knee-h nud permanent"));
            }
            sysctl(host, "tcp_ecn", "1");
            sysctl(host, "tcp_congestion_control", "reno");
            if let Some(tbf) = settings.tbf {
                run(host, format!("tc qdisc add dev knee-h root tbf {tbf} limit 300000"));
            }
        }
        Hosts { hosts, switch, ports }
    }

    fn start(&self, network: &Network, log: bool) -> Switch {
        let config = SwitchConfig {
            seed: 1,
            sampled: vec![DOWN_TO_B],
            sample: Some(Duration::from_ms(1)),
            window: None,
            cpu: Some(SWITCH_CPU),
            log,
            captures: None,
            large_frames: network
                .nodes
                .iter()
                .filter_map(|node| node.host.as_ref())
                .any(|host| host.gso_max_segs > 1),
        };
        Switch::start_on(network, &self.ports, &self.switch, config, now_ns()).unwrap()
    }
}

fn device_number(namespace: &Namespace, device: &str) -> u32 {
    let arguments = ["-o".to_owned(), "link".into(), "show".into(), device.to_owned()];
    let line = namespace.run(move || {
        String::from_utf8(Command::new("ip").args(arguments).output().unwrap().stdout).unwrap()
    });
    line.split(':').next().unwrap().parse().unwrap()
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A star of two hosts; the switch's ports have this rate and mark at `k_pkts`.
fn star(rate: Option<Rate>, k_pkts: u32, delay: Duration, large: bool) -> Network {
    let step = StepConfig {
        limit: Limit::Pkts(500),
        threshold: Threshold::Pkts(k_pkts),
        mark_at: MarkAt::AtLeast,
        when: MarkWhen::Enqueue,
        not_ect: NotEctAbove::Queue,
    };
    let down = Cable { delay, sampled: true, ..Cable::new(rate, QueueConfig::Step(step)) };
    let queue = QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(500) });
    let up = Cable { rate: None, queue, sampled: false, ..down.clone() };
    let mut config = HostConfig::new(LinuxVersion(6, 18));
    config.gso_max_segs = if large { 44 } else { 1 };
    let host = |name: &str| (name.to_owned(), config.clone());
    Star { hosts: vec![host("a"), host("b")], up, down }.build()
}

fn keep_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

/// Host a sends to b for `time`: bytes that arrived in the later nine tenths, and the time that those took. Checks the data.
fn send_for(hosts: &Hosts, address: &str, time: Wall) -> (u64, f64) {
    let address: IpAddr = address.parse().unwrap();
    let listener = hosts.hosts[1].run(move || TcpListener::bind((address, 0)).unwrap());
    let to = SocketAddr::new(address, listener.local_addr().unwrap().port());
    let mut sender = hosts.hosts[0].run(move || TcpStream::connect(to).unwrap());
    let mut receiver = listener.accept().unwrap().0;
    let pattern: Vec<u8> = (0..251 * 1024).map(|at| (at % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(move || {
            keep_to(TRAFFIC_CPU);
            let (start, mut sent) = (Instant::now(), 0);
            while start.elapsed() < time {
                sent += sender.write(&pattern[sent % 251..]).unwrap();
            }
        });
        let reading = scope.spawn(move || {
            keep_to(TRAFFIC_CPU);
            let mut bytes = vec![0; 1 << 18];
            let (start, mut all, mut counted) = (Instant::now(), 0, None);
            loop {
                let read = receiver.read(&mut bytes).unwrap();
                for at in (0..read).step_by(97) {
                    assert_eq!(usize::from(bytes[at]), (all + at) % 251, "byte {}", all + at);
                }
                all += read;
                if counted.is_none() && start.elapsed() > time / 10 {
                    counted = Some((Instant::now(), all));
                }
                if read == 0 || start.elapsed() > time {
                    let (since, before) = counted.unwrap();
                    let taken = ((all - before) as u64, since.elapsed().as_secs_f64());
                    // The rest, so that nothing is on its way at the end.
                    while receiver.read(&mut bytes).unwrap() > 0 {}
                    return taken;
                }
            }
        });
        reading.join().unwrap()
    })
}

/// A byte goes from a to b and back, again and again.
fn exchange_bytes(hosts: &Hosts, count: usize, pause: Wall) {
    let listener = hosts.hosts[1].run(|| TcpListener::bind("10.97.0.2:0").unwrap());
    let to = listener.local_addr().unwrap();
    let mut asking = hosts.hosts[0].run(move || TcpStream::connect(to).unwrap());
    let mut answering = listener.accept().unwrap().0;
    let mut byte = [7];
    for _ in 0..count {
        asking.write_all(&byte).unwrap();
        answering.read_exact(&mut byte).unwrap();
        answering.write_all(&byte).unwrap();
        asking.read_exact(&mut byte).unwrap();
        thread::sleep(pause);
    }
}

/// Packets with CE that a host has received, of both IPs.
fn ce_pkts(host: &Namespace) -> u64 {
    let read = |file: &'static str| host.run(move || fs::read_to_string(file).unwrap());
    let text = read("/proc/thread-self/net/netstat");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let all: HashMap<&str, &str> = names.split(' ').zip(values.split(' ')).collect();
    let text = read("/proc/thread-self/net/snmp6");
    let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6InCEPkts")).unwrap();
    all["InCEPkts"].parse::<u64>().unwrap() + v6.trim().parse::<u64>().unwrap()
}

struct Offer {
    len_bytes: u32,
    ecn: Ecn,
}

impl Packet for Offer {
    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// Decisions of a plain queue at a port of this rate, at the times of the log: per packet, whether it is queued and marked.
fn recomputed(queue: &QueueConfig, rate: Rate, log: &[Offered]) -> Vec<(bool, bool)> {
    let mut qdisc = queue.build::<Offer>();
    let mut free_at = Time::ZERO;
    let serve = |qdisc: &mut knee_queue::AnyQdisc<Offer>, free_at: &mut Time, now: Time| {
        while *free_at <= now {
            let Some(sent) = qdisc.dequeue(*free_at) else { return };
            *free_at += rate.time_of(sent.len_bytes);
        }
    };
    let mut verdicts = Vec::new();
    for offered in log {
        serve(&mut qdisc, &mut free_at, offered.at);
        free_at = free_at.max(offered.at);
        let verdict =
            qdisc.enqueue(Offer { len_bytes: offered.len_bytes, ecn: offered.ecn }, offered.at);
        serve(&mut qdisc, &mut free_at, offered.at);
        let marked = verdict == QueueAction::Marked && offered.ecn != Ecn::Ce;
        verdicts.push((!matches!(verdict, QueueAction::Dropped(_)), marked));
    }
    verdicts
}

fn marks_are_those_of_the_queue(address: &str, large: bool) {
    let hosts = Hosts::new(Settings { large, ..Settings::default() });
    let network = star(Rate::from_bps(100_000_000), 10, Duration::from_us(200), large);
    let switch = hosts.start(&network, true);
    send_for(&hosts, address, Wall::from_millis(1500));
    // The last ACKs.
    thread::sleep(Wall::from_millis(100));
    let report = switch.stop().unwrap();
    let link = &network.links[DOWN_TO_B as usize];
    let log: Vec<Offered> =
        report.log.iter().filter(|offered| offered.link == DOWN_TO_B).copied().collect();
    let seen: Vec<_> = log.iter().map(|offered| (offered.taken, offered.marked)).collect();
    assert_eq!(seen, recomputed(&link.queue, link.rate.unwrap(), &log));
    let marked = seen.iter().filter(|(_, marked)| *marked).count() as u64;
    let longest = log.iter().map(|offered| offered.len_bytes).max();
    let outcome = &report.queues[0];
    println!("{} packets, {marked} marked, {:?}", log.len(), report.lateness.p99);
    assert!(log.len() > 200 && marked > 3, "{} packets, {marked} marked", log.len());
    assert_eq!((outcome.offered_pkts, outcome.marked_pkts), (log.len() as u64, marked));
    assert_eq!((longest, report.ring_dropped, report.send_failed), (Some(1514), 0, 0));
    // And they are in the frames.
    assert_eq!(ce_pkts(&hosts.hosts[1]), marked);
}

#[test]
fn marks_are_exactly_those_that_the_queue_makes_at_the_times_that_occurred() {
    let _alone = alone();
    if kernel_is_ready() {
        marks_are_those_of_the_queue("10.97.0.2", false);
        marks_are_those_of_the_queue("fd97::2", false);
    }
}

#[test]
fn large_frames_are_packets_in_its_queues() {
    let _alone = alone();
    if kernel_is_ready() {
        marks_are_those_of_the_queue("10.97.0.2", true);
        marks_are_those_of_the_queue("fd97::2", true);
    }
}

fn show(what: &str, (bytes, s): (u64, f64), report: &SwitchReport) {
    let goodput = bytes as f64 * 8.0 / s / 1e9;
    let late = &report.lateness;
    let empty = report.queue_samples.iter().filter(|sample| sample.len_pkts == 0).count();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{what}: {goodput:.3} Gbps of payload ({:.3} with headers), {:.0} frames/s, CPU {:.0} ns/frame ({:.0} %), busy {:.0} ns/frame, late p50 {:.1} \
         p99 {:.1} p99.9 {:.1} max {:.0} us, {:.4} above 20 us, ring dropped {}, send failed {}, marked {}, first of \
         the host: {}, nothing waiting in {empty} of {} samples",
        goodput * 1514.0 / 1448.0,
        report.frames as f64 / report.wall_s,
        report.cpu_s * 1e9 / report.frames as f64,
        report.cpu_s / report.wall_s * 100.0,
        report.busy_s * 1e9 / report.frames as f64,
        us(late.p50),
        us(late.p99),
        us(late.p999),
        us(late.max),
        late.share_above(Duration::from_us(20)),
        report.ring_dropped,
        report.send_failed,
        report.queues[0].marked_pkts,
        report.hurried,
        report.queue_samples.len(),
    );
}

/// Its figures on this machine: build with `cargo test -p knee-lab --test switch --no-run`, then `setsid -w` the program that it
/// names with `--ignored --nocapture`: on a busy host only a process with an autogroup of its own comes before others. The best of
/// several runs (KNEE_REPEATS) counts there.
#[test]
#[ignore = "measures"]
fn figures() {
    let _alone = alone();
    if !kernel_is_ready() {
        return;
    }
    let repeats = std::env::var("KNEE_REPEATS").map_or(1, |repeats| repeats.parse().unwrap());
    for _ in 0..repeats {
        let delay = Duration::from_us(50);
        let gbps = Rate::from_bps(1_000_000_000);
        for (what, rate, settings) in [
            ("port of 1 Gbps", gbps, Settings::default()),
            ("no rate limit", None, Settings::default()),
            ("no rate limit, large frames", None, Settings { large: true, tbf: None }),
            ("tbf burst 1514", None, Settings { large: false, tbf: Some("rate 1gbit burst 1514") }),
            (
                "tbf burst 15140",
                None,
                Settings { large: false, tbf: Some("rate 1gbit burst 15140") },
            ),
            (
                "tbf burst 60560",
                None,
                Settings { large: false, tbf: Some("rate 1gbit burst 60560") },
            ),
        ] {
            let hosts = Hosts::new(settings);
            let switch = hosts.start(&star(rate, 100, delay, settings.large), false);
            let taken = send_for(&hosts, "10.97.0.2", Wall::from_secs(2));
            show(what, taken, &switch.stop().unwrap());
        }
        let hosts = Hosts::new(Settings::default());
        let switch = hosts.start(&star(Rate::from_bps(1_000_000_000), 100, delay, false), false);
        exchange_bytes(&hosts, 100, Wall::from_millis(10));
        show("100 bytes back and forth, each alone", (0, 1.0), &switch.stop().unwrap());
    }
}

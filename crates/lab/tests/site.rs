//! Sites on the running kernel: what hosts are set to, what their queues do, and that nothing is left of them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, also outside of the functions marked so"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration as Wall, Instant};

use knee_lab::plan::{Egress, Host, Plan};
use knee_lab::site::{Offloads, Site, SiteConfig};
use knee_netns::netlink::{LinkSettings, Netlink, VethEnd, new_veth};
use knee_netns::{Id, Namespace};
use knee_queue::Limit;
use knee_queue::time::{Duration, Rate};
use knee_run::spec::{HostConfig, LinuxVersion, Network};
use knee_testbed::{kernel_is_ready, wait_until};

const PORT: u16 = 5001;
/// With headers of UDP, IP and Ethernet it is a frame of 1514 bytes.
const FULL_DATAGRAM_BYTES: usize = 1472;

fn config() -> HostConfig {
    HostConfig::new(LinuxVersion(6, 18))
}

fn host(number: u8, config: &HostConfig) -> Host {
    let address = if config.ipv6 {
        IpAddr::from([0xfd6b, 0, 0, 0, 0, 0, 0, u16::from(number) + 1])
    } else {
        IpAddr::from([198, 18, 0, number + 1])
    };
    Host {
        node: number.into(),
        name: format!("h{number}"),
        address,
        mac: [2, 0x6b, 0x6e, 0x65, 0, number],
        config: config.clone(),
        egress: None,
    }
}

/// This many hosts with the same settings.
fn plan(hosts: u8, config: &HostConfig) -> Plan {
    let hosts = (0..hosts).map(|number| host(number, config)).collect();
    Plan { hosts, network: Network::default() }
}

fn mbps(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000).unwrap()
}

fn run(namespace: &Namespace, line: &str) -> String {
    let line = line.to_owned();
    let output = namespace.run(move || {
        let words: Vec<&str> = line.split(' ').collect();
        Command::new(words[0]).args(&words[1..]).output().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn build(plan: &Plan, offloads: Offloads) -> Site {
    Site::build(plan, &SiteConfig::new(offloads)).unwrap()
}

/// The kernel's bridge in place of the switch.
fn bridge(site: &Site) {
    run(site.switch(), "ip link add name bridge0 type bridge");
    for port in 0..site.ports().len() {
        run(site.switch(), &format!("ip link set p{port} master bridge0"));
    }
    run(site.switch(), "ip link set bridge0 up");
}

fn bridged(plan: &Plan, offloads: Offloads) -> Site {
    let site = build(plan, offloads);
    bridge(&site);
    site
}

/// A connection from the first host to the second; both ends are gone at once when they are dropped.
fn connection(site: &Site, plan: &Plan) -> (TcpStream, TcpStream) {
    let to = SocketAddr::new(plan.hosts[1].address, PORT);
    let listener = site.host(1).run(move || TcpListener::bind(to)).unwrap();
    let client = site.host(0).run(move || TcpStream::connect_timeout(&to, Wall::from_secs(5)));
    let ends = (client.unwrap(), listener.accept().unwrap().0);
    for end in [&ends.0, &ends.1] {
        rustix::net::sockopt::set_socket_linger(end, Some(Wall::ZERO)).unwrap();
    }
    ends
}

/// Sends for `seconds`; bytes per second that arrived in the last three quarters of it.
fn goodput(ends: (TcpStream, TcpStream), seconds: f64) -> f64 {
    let (mut from, mut to) = ends;
    let sender = thread::spawn(move || {
        let zeros = vec![0; 1 << 16];
        while from.write_all(&zeros).is_ok() {}
    });
    let mut buffer = vec![0; 1 << 18];
    let begun = Instant::now();
    let (mut skipped, mut bytes) = (None, 0);
    while begun.elapsed().as_secs_f64() < seconds {
        bytes += to.read(&mut buffer).unwrap();
        if skipped.is_none() && begun.elapsed().as_secs_f64() > seconds / 4.0 {
            skipped = Some((bytes, Instant::now()));
        }
    }
    let (before, since) = skipped.unwrap();
    let rate = (bytes - before) as f64 / since.elapsed().as_secs_f64();
    drop(to);
    sender.join().unwrap();
    rate
}

#[test]
fn hosts_reach_each_other_and_say_nothing_else() {
    if !kernel_is_ready() {
        return;
    }
    for ipv6 in [false, true] {
        let plan = plan(3, &HostConfig { ipv6, ..config() });
        let site = build(&plan, Offloads::Off);
        thread::sleep(Wall::from_secs(3));
        let stats = site.switch().run(|| Netlink::open().unwrap().link_stats().unwrap());
        for (index, stats) in stats {
            if site.ports().contains(&index) {
                assert_eq!((stats.rx_pkts, stats.tx_pkts), (0, 0), "IPv6: {ipv6}");
            }
        }
        bridge(&site);
        let (mut client, mut server) = connection(&site, &plan);
        client.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        let counts = site.counts().unwrap();
        assert_eq!(counts.hosts[0].mib["ActiveOpens"], 1);
        assert_eq!(counts.hosts[1].mib["PassiveOpens"], 1);
        assert_eq!(counts.hosts[2].mib.get("ActiveOpens"), None);
        assert_eq!(counts.dropped_outside_queues, 0);
    }
}

#[test]
fn sysctls_are_as_the_configuration_says() {
    if !kernel_is_ready() {
        return;
    }
    let mut wanted = HostConfig {
        tcp_ecn: 1,
        tcp_ecn_fallback: false,
        sack: false,
        slow_start_after_idle: false,
        rto_min: Duration::from_ms(5),
        limit_output_bytes: 123_456,
        sndbuf_initial_bytes: 20_000,
        sndbuf_max_bytes: Some(1 << 20),
        ..config()
    };
    wanted.sysctls.comp_sack_nr = 3;
    wanted.sysctls.timestamps = false;
    let mut plan = plan(2, &config());
    plan.hosts[1].config = wanted;
    let site = build(&plan, Offloads::Off);
    let is = |port: usize, name: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let text = site.host(port).run(move || std::fs::read_to_string(path).unwrap());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, first, second) in [
        ("tcp_ecn", "2", "1"),
        ("tcp_ecn_fallback", "1", "0"),
        ("tcp_sack", "1", "0"),
        ("tcp_slow_start_after_idle", "1", "0"),
        ("tcp_rto_min_us", "200000", "5000"),
        ("tcp_limit_output_bytes", "4194304", "123456"),
        ("tcp_rmem", "4096 131072 33554432", "4096 131072 33554432"),
        ("tcp_wmem", "4096 262144 536870912", "4096 20000 1048576"),
        ("tcp_comp_sack_nr", "44", "3"),
        ("tcp_timestamps", "1", "0"),
        ("tcp_no_metrics_save", "1", "1"),
    ] {
        assert_eq!((&*is(0, name), &*is(1, name)), (first, second), "{name}");
        let told = (format!("net.ipv4.{name}"), second.to_owned());
        assert!(site.sysctls(1).contains(&told), "{told:?}");
    }
}

#[test]
fn the_initial_window_is_the_routes() {
    if !kernel_is_ready() {
        return;
    }
    for (ipv6, pkts) in [(false, 10), (false, 4), (true, 33)] {
        let plan = plan(2, &HostConfig { ipv6, initial_cwnd_pkts: pkts, ..config() });
        let site = bridged(&plan, Offloads::Off);
        let _ends = connection(&site, &plan);
        let said = run(site.host(0), "ss -tin");
        assert!(said.contains(&format!("cwnd:{pkts} ")), "{said}");
    }
}

#[test]
fn what_the_kernel_lacks_is_refused() {
    if !kernel_is_ready() {
        return;
    }
    let refusal = |change: &dyn Fn(&mut HostConfig)| {
        let mut wanted = config();
        change(&mut wanted);
        let built = Site::build(&plan(2, &wanted), &SiteConfig::new(Offloads::Off));
        built.err().map(|error| error.to_string())
    };
    // A kernel with fq takes it.
    if let Some(why) = refusal(&|config| config.fq = true) {
        assert!(why.contains("h0: fq = true: the kernel has no fq"), "{why}");
    }
    let why = refusal(&|config| config.tcp_ecn = 77).unwrap();
    assert!(why.starts_with("h0: sysctl net.ipv4.tcp_ecn = \"77\": the kernel does not"), "{why}");
    let why = refusal(&|config| config.sysctls.min_rtt_wlen = Duration::from_ms(1500)).unwrap();
    assert!(why.contains("min_rtt_wlen of 1500 ms: Linux accepts whole seconds only"), "{why}");
    // Other versions and clocks are not the site's to judge.
    assert_eq!(refusal(&|config| config.hz = 100), None);
    assert_eq!(refusal(&|config| config.linux = LinuxVersion(6, 1)), None);
}

#[test]
fn offloads_are_as_asked() {
    if !kernel_is_ready() {
        return;
    }
    let wanted = HostConfig { gso_max_segs: 40, gro_window: Duration::from_us(10), ..config() };
    let on = |site: &Site, name: &str| {
        let found = site.offloads(0).iter().find(|(found, _)| *found == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    };
    let site = build(&plan(2, &wanted), Offloads::Off);
    for name in ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"] {
        assert!(!on(&site, name), "{name}");
    }
    assert!(on(&site, "tx-checksum-ip-generic"));
    assert!(run(site.host(0), "ip -d link show knee").contains("gso_max_segs 1 "));
    let site = build(&plan(2, &wanted), Offloads::On);
    for name in ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"] {
        assert!(on(&site, name), "{name}");
    }
    assert!(run(site.host(0), "ip -d link show knee").contains("gso_max_segs 40 "));
    let without = SiteConfig { tx_checksum: false, ..SiteConfig::new(Offloads::Off) };
    let site = Site::build(&plan(2, &wanted), &without).unwrap();
    assert!(!on(&site, "tx-checksum-ip-generic"));
    bridge(&site);
    drop(connection(&site, &plan(2, &wanted)));
}

#[test]
fn a_cpu_receives() {
    if !kernel_is_ready() {
        return;
    }
    let config_0 = SiteConfig { receive_cpu: Some(0), ..SiteConfig::new(Offloads::Off) };
    let site = Site::build(&plan(2, &config()), &config_0).unwrap();
    // The device's files are seen where sysfs is mounted in its namespace.
    let tid = site.host(0).tid();
    let line = "mount -t sysfs sysfs /sys && cat /sys/class/net/knee/queues/rx-0/rps_cpus";
    let mut shell = Command::new("nsenter");
    shell.arg(format!("--net=/proc/{tid}/ns/net")).args(["unshare", "--mount", "sh", "-c", line]);
    let said = shell.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let mask = String::from_utf8(said.stdout).unwrap();
    assert_eq!(mask.trim().trim_start_matches(['0', ',']), "1");
    let site = Site::build(
        &plan(2, &config()),
        &SiteConfig { receive_cpu: Some(100_000), ..SiteConfig::new(Offloads::Off) },
    );
    let why = site.err().unwrap().to_string();
    assert!(why.contains("the kernel does not receive on CPU 100000"), "{why}");
}

fn shaped(rate: Rate, burst_bytes: u32, limit: Limit) -> Plan {
    let mut plan = plan(2, &HostConfig { tcp_ecn: 0, ..config() });
    plan.hosts[0].egress = Some(Egress { rate, burst_bytes, overhead_bytes: 0, limit });
    plan
}

/// Floods full frames from the first host for `seconds`; bytes per second that left it in the last three quarters of that, at the
/// least.
fn flooded(site: &Site, plan: &Plan, seconds: f64) -> f64 {
    let to = SocketAddr::new(plan.hosts[1].address, PORT);
    // Buffers of so many sockets last for some 200 ms at 100 Mbps, if a busy machine lets the sender wait.
    let bound = || site.host(0).run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let sockets: Vec<UdpSocket> = (0..20).map(|_| bound()).collect();
    let end = Instant::now() + Wall::from_secs_f64(seconds);
    let sender = thread::spawn(move || {
        while Instant::now() < end {
            for socket in &sockets {
                // It waits for room in the socket's buffer.
                for _ in 0..16 {
                    socket.send_to(&[0; FULL_DATAGRAM_BYTES], to).unwrap();
                }
            }
        }
    });
    let sent_bytes = || {
        let queues = site.host(0).run(|| Netlink::open().unwrap().queue_stats().unwrap());
        queues.iter().find(|queue| queue.kind == "tbf").unwrap().sent_bytes
    };
    thread::sleep(Wall::from_secs_f64(seconds / 4.0));
    // The bytes are read after the first time and before the last, whenever that may be.
    let since = Instant::now();
    let before = sent_bytes();
    thread::sleep(end.saturating_duration_since(Instant::now()));
    let after = sent_bytes();
    let until = Instant::now();
    sender.join().unwrap();
    (after - before) as f64 / (until - since).as_secs_f64()
}

#[test]
fn a_shaper_holds_its_rate() {
    if !kernel_is_ready() {
        return;
    }
    let plan = shaped(mbps(100), 1514, Limit::Bytes(u64::MAX));
    let through = |site: &Site| {
        let rate_mbps = flooded(site, &plan, 1.0) * 8e-6;
        println!("{rate_mbps:.2} Mbps through a shaper of 100 Mbps");
        assert!(rate_mbps < 101.0, "{rate_mbps} Mbps");
        assert_eq!(site.counts().unwrap().hosts[0].egress_dropped_pkts, 0);
        rate_mbps
    };
    let site = build(&plan, Offloads::Off);
    // A busy machine lets the kernel's timers wait for longer than any bucket is deep.
    assert!((0..20).any(|_| through(&site) > 99.0));
    // This one has no time to lose.
    let config = SiteConfig { shaper_slack: Duration::ZERO, ..SiteConfig::new(Offloads::Off) };
    let site = Site::build(&plan, &config).unwrap();
    // A frame that is as long as its bucket is deep passes.
    assert!(through(&site) > 20.0);
}

#[test]
fn a_shaper_drops_what_its_limit_does_not_take() {
    if !kernel_is_ready() {
        return;
    }
    for limit in [Limit::Pkts(8), Limit::Bytes(8 * 1514)] {
        let plan = shaped(mbps(10), 1514, limit);
        let site = build(&plan, Offloads::Off);
        let to = SocketAddr::new(plan.hosts[1].address, PORT);
        let socket = site.host(0).run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        let begun = Instant::now();
        for _ in 0..100 {
            socket.send_to(&[0; FULL_DATAGRAM_BYTES], to).unwrap();
        }
        let sent_meanwhile = begun.elapsed().as_micros() as u64 / 1211 + 1;
        let dropped = site.counts().unwrap().hosts[0].egress_dropped_pkts;
        assert!((92 - sent_meanwhile..=92).contains(&dropped), "{limit:?} {dropped}");
    }
}

#[test]
fn tcp_small_queues_hold_tcp_back() {
    if !kernel_is_ready() {
        return;
    }
    let most = |limit_output_bytes: u32| {
        let mut plan = shaped(mbps(20), 1514, Limit::Bytes(u64::MAX));
        plan.hosts[0].config.limit_output_bytes = limit_output_bytes;
        let site = bridged(&plan, Offloads::Off);
        let (mut from, mut to) = connection(&site, &plan);
        let sender = thread::spawn(move || {
            let zeros = vec![0; 1 << 16];
            while from.write_all(&zeros).is_ok() {}
        });
        let reader = thread::spawn({
            let mut to = to.try_clone().unwrap();
            move || while to.read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {}
        });
        let mut most = 0;
        for _ in 0..20 {
            thread::sleep(Wall::from_millis(50));
            let queues = site.host(0).run(|| Netlink::open().unwrap().queue_stats().unwrap());
            most = queues.iter().map(|queue| queue.backlog_bytes).max().unwrap_or(0).max(most);
        }
        to.flush().unwrap();
        to.shutdown(std::net::Shutdown::Both).unwrap();
        drop(to);
        reader.join().unwrap();
        drop(site);
        sender.join().unwrap();
        most
    };
    let (few, many) = (most(20_000), most(8 << 20));
    println!("backlog at most {few} bytes with a limit of 20000, {many} with 8 MiB");
    assert!(few <= 20_000 && few > 1514, "{few}");
    assert!(many > 2 * few, "{many} {few}");
}

#[test]
fn many_hosts_are_made_in_a_moment() {
    if !kernel_is_ready() {
        return;
    }
    let plan = plan(38, &config());
    let begun = Instant::now();
    let site = build(&plan, Offloads::Off);
    let built = begun.elapsed();
    let begun = Instant::now();
    site.counts().unwrap();
    let counted = begun.elapsed();
    let begun = Instant::now();
    drop(site);
    println!(
        "38 hosts: made in {built:?}, counted in {counted:?}, dropped in {:?}",
        begun.elapsed()
    );
    // On a busy machine it takes longer than the fraction of a second that it should.
    assert!(built < Wall::from_secs(10), "{built:?}");
}

#[test]
fn hosts_know_those_that_they_talk_to() {
    if !kernel_is_ready() {
        return;
    }
    let config_0_2 = SiteConfig { pairs: Some(vec![(0, 2)]), ..SiteConfig::new(Offloads::Off) };
    let some = Site::build(&plan(3, &config()), &config_0_2).unwrap();
    let all = build(&plan(3, &config()), Offloads::Off);
    let neighbours = |site: &Site, port| run(site.host(port), "ip neigh show nud permanent");
    for (port, others) in [(0, 1), (1, 0), (2, 1)] {
        assert_eq!(neighbours(&some, port).lines().count(), others);
        assert_eq!(neighbours(&all, port).lines().count(), 2);
    }
    assert!(neighbours(&some, 2).starts_with("198.18.0.1 dev knee lladdr 02:6b:6e:65:00:00"));
}

fn ids(site: &Site, hosts: usize) -> BTreeSet<Id> {
    let id = |namespace: &Namespace| namespace.run(|| knee_netns::current().unwrap().id());
    (0..hosts).map(|port| id(site.host(port))).chain([id(site.switch())]).collect()
}

fn are_there(ids: &BTreeSet<Id>) -> bool {
    knee_netns::all().unwrap().iter().any(|found| ids.contains(&found.id()))
}

#[test]
fn two_sites_do_not_see_each_other_and_leave_nothing() {
    if !kernel_is_ready() {
        return;
    }
    let plan = plan(2, &config());
    let sites = [bridged(&plan, Offloads::Off), bridged(&plan, Offloads::Off)];
    let mut all = BTreeSet::new();
    for site in &sites {
        drop(connection(site, &plan));
        all.extend(ids(site, 2));
    }
    assert_eq!(all.len(), 6);
    for site in &sites {
        assert_eq!(site.counts().unwrap().hosts[0].mib["ActiveOpens"], 1);
    }
    assert!(are_there(&all));
    drop(sites);
    assert!(!are_there(&all));
}

const TO_CHILD: &str = "KNEE_TEST_SITE_CHILD";

#[test]
fn nothing_is_left_of_a_process_that_is_killed() {
    if !kernel_is_ready() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_process_with_a_transfer", "--exact", "--ignored", "--nocapture"])
        .env(TO_CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = lines.skip_while(|line| !line.contains("tids "));
    let line = lines.next().unwrap();
    let tids = line.split("tids ").nth(1).unwrap().split(' ');
    let tids: Vec<i32> = tids.map(|tid| tid.parse().unwrap()).collect();
    let id = |tid: &i32| knee_netns::of_process(*tid as u32).unwrap().id();
    let ids: BTreeSet<Id> = tids.iter().map(id).collect();
    assert_eq!(ids.len(), 3);
    // A veth pair into each: once the kernel has removed a namespace, the near end is gone as well.
    let watch = Namespace::new().unwrap();
    let cables = watch.run(move || {
        let kernel = Netlink::open().unwrap();
        for (number, tid) in tids.into_iter().enumerate() {
            let settings = LinkSettings::default();
            let near = VethEnd { name: &format!("w{number}"), namespace_of: None, settings };
            let far = VethEnd { name: "watched", namespace_of: Some(tid), settings };
            kernel.ask(&new_veth(&near, &far)).unwrap();
        }
        kernel
    });
    let devices = || cables.link_stats().unwrap().len();
    assert_eq!(devices(), 4);
    thread::sleep(Wall::from_millis(300));
    assert!(are_there(&ids));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!are_there(&ids));
    wait_until("the kernel has taken down the namespaces", || devices() == 1);
}

#[test]
#[ignore = "the process that another test kills"]
fn a_process_with_a_transfer() {
    if std::env::var_os(TO_CHILD).is_none() {
        return;
    }
    let plan = shaped(mbps(50), 1514, Limit::Bytes(u64::MAX));
    let site = bridged(&plan, Offloads::Off);
    let ends = connection(&site, &plan);
    println!("tids {} {} {}", site.host(0).tid(), site.host(1).tid(), site.switch().tid());
    goodput(ends, 60.0);
}

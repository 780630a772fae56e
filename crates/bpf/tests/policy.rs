//! Who gets which algorithm and ECN, on real connections between two namespaces whose threads are
//! in cgroups of the test's own.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use knee_algo::Algorithm;
use knee_bpf::policy::{Ecn, Hits, Policy, Rule, Scope};
use knee_bpf::{Embedded, Loaded};
use knee_testbed::cgroup::Cgroup;
use knee_testbed::net::{
    Namespace, Pair, Path, SERVER, SERVER_IPV6, choose, chosen, cookie, ecn_of, ip, listen, sysctl,
};
use knee_testbed::{own_name, wait_until, wait_until_free};
use libbpf_rs::MapCore as _;

fn load(algorithm: &str, name: &str) -> Loaded {
    let params = Algorithm::by_name(algorithm).unwrap().default_params();
    let embedded = Embedded::by_name(algorithm).unwrap();
    Loaded::register_for_any_user(embedded, name, &params).unwrap()
}

/// Both ends of a connection.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

fn connect_to(pair: &Pair, listener: &TcpListener, address: &'static str) -> Ends {
    let port = listener.local_addr().unwrap().port();
    let client = pair.client.run(move || TcpStream::connect((address, port)).unwrap());
    Ends { client, server: listener.accept().unwrap().0 }
}

fn connect(pair: &Pair, address: &'static str) -> Ends {
    let listener = pair.server.run(move || TcpListener::bind((address, 0)).unwrap());
    connect_to(pair, &listener, address)
}

impl Ends {
    fn algorithms(&self) -> (String, String) {
        (chosen(&self.client), chosen(&self.server))
    }

    fn has_ecn(&self) -> bool {
        let (client, server) = (ecn_of(&self.client), ecn_of(&self.server));
        assert_eq!(client.negotiated, server.negotiated);
        client.negotiated
    }
}

/// The hosts with their threads in `cgroup`, both with Linux's default of ECN: grant, do not ask.
fn hosts(cgroup: &Cgroup) -> Pair {
    let pair = Pair::new("reno", Path::default(), Path::default());
    for host in [&pair.client, &pair.server] {
        sysctl(host, "tcp_ecn", "2");
        cgroup.take(host);
    }
    pair
}

fn boot_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn netns_cookie(host: &Namespace) -> u64 {
    let socket = host.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    cookie(&socket, libc::SO_NETNS_COOKIE)
}

fn both(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}

#[test]
fn everything_does_what_a_default_would_do() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let dctcp = load("dctcp", own_name("all"));
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let older = listen(&pair);
    let rules = [Rule::everything(own_name("all"))];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    for address in [SERVER, SERVER_IPV6] {
        let ends = connect(&pair, address);
        assert_eq!(ends.algorithms(), both(own_name("all")), "{address}");
        assert!(ends.has_ecn(), "{address}");
    }

    // A listener from before grants ECN as well, because the policy answers for it.
    let ends = connect_to(&pair, &older, SERVER);
    assert_eq!(ends.algorithms(), both(own_name("all")));
    assert!(ends.has_ecn());

    // What a program chose for its socket stays.
    let chooser = listen(&pair);
    choose(&chooser, "cubic");
    assert_eq!(connect_to(&pair, &chooser, SERVER).algorithms().1, "cubic");
    let expected = Hits { connected: 4, accepted: 3, listened: 3, yielded: 1, ..Hits::default() };
    assert_eq!(policy.hits().unwrap(), [expected]);

    // Connections of before keep what they have; new ones are as if nothing had been. Whoever looks
    // through the kernel's links at that moment keeps this one a little longer.
    drop(policy);
    assert_eq!(ends.algorithms(), both(own_name("all")));
    wait_until("the policy is gone", || connect(&pair, SERVER).algorithms() == both("reno"));
    drop(dctcp);
}

#[test]
fn everything_leaves_ecn_alone_where_the_algorithm_does_not_need_it() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let (cgroup, elsewhere) = (Cgroup::new(), Cgroup::new());
    let pair = hosts(&cgroup);
    let _policy =
        Policy::attach(&[Rule::everything("cubic")], cgroup.path(), Scope::default()).unwrap();
    let ends = connect(&pair, SERVER);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (both("cubic"), false));
    // Who asks of its own goes on being granted it, by listeners with the policy and by ordinary
    // ones, which refuse it to a SYN with ECT.
    sysctl(&pair.client, "tcp_ecn", "1");
    let ends = connect(&pair, SERVER);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (both("cubic"), true));
    elsewhere.take(&pair.server);
    let ends = connect(&pair, SERVER);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (pair_of("cubic", "reno"), true));
}

#[test]
fn a_policy_stops_at_its_deadline_by_itself() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [Rule::everything("cubic")];
    let deadline_boot_ns = boot_ns() + 2_000_000_000;
    let scope = Scope { deadline_boot_ns, ..Scope::default() };
    let _policy = Policy::attach(&rules, cgroup.path(), scope).unwrap();
    assert_eq!(connect(&pair, SERVER).algorithms(), both("cubic"));
    std::thread::sleep(Duration::from_nanos(deadline_boot_ns.saturating_sub(boot_ns())));
    assert_eq!(connect(&pair, SERVER).algorithms(), both("reno"));
}

#[test]
fn a_policy_of_one_network_namespace_leaves_the_others_alone() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let scope = Scope { netns_cookie: netns_cookie(&pair.client), ..Scope::default() };
    let _policy = Policy::attach(&[Rule::everything("cubic")], cgroup.path(), scope).unwrap();
    let (client, server) = connect(&pair, SERVER).algorithms();
    assert_eq!((client.as_str(), server.as_str()), ("cubic", "reno"));
}

#[test]
fn an_algorithm_for_ecn_leaves_connections_without_it_to_the_default() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _dctcp = load("dctcp", own_name("noecn"));
    let (cgroup, elsewhere) = (Cgroup::new(), Cgroup::new());
    let pair = hosts(&cgroup);
    elsewhere.take(&pair.server);
    let rules = [Rule::everything(own_name("noecn"))];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    // The server's ordinary listener refuses ECN to a SYN with ECT.
    let ends = connect(&pair, SERVER);
    assert_eq!(ends.algorithms(), both("reno"));
    assert!(!ends.has_ecn());
    assert_eq!(policy.hits().unwrap()[0].without_ecn, 1);
}

/// Two loads at the same instant could each make a map of base RTTs. Commands keep each other out by a
/// lock, tests by this one.
static BASE_RTTS: Mutex<()> = Mutex::new(());

/// The object of DCTCP as if it came from somebody else: nothing in it says knee.
fn foreign_dctcp(name: &str) -> libbpf_rs::Object {
    let mut bytes = Embedded::by_name("dctcp").unwrap().object().to_vec();
    let (ours, theirs) = (b"cc_ops_dctcp", b"an_own_dctcp");
    for at in 0..bytes.len() - ours.len() {
        if bytes[at..].starts_with(ours) {
            bytes[at..at + ours.len()].copy_from_slice(theirs);
        }
    }
    let mut open = libbpf_rs::ObjectBuilder::default().open_memory(&bytes).unwrap();
    let mut table = open.maps_mut().find(|map| map.name() == "an_own_dctcp").unwrap();
    let table = table.initial_value_mut().unwrap();
    let at = table.windows(6).position(|window| window == b"dctcp\0").unwrap();
    table[at..at + name.len()].copy_from_slice(name.as_bytes());
    open.load().unwrap()
}

#[test]
fn algorithms_of_others_that_need_ecn_are_known() {
    // It is made to be registered by a link.
    if !knee_testbed::kernel_is_ready() || !knee_bpf::KernelApi::running().links {
        return;
    }
    let mut foreign = foreign_dctcp(own_name("foreign"));
    let _link = foreign
        .maps_mut()
        .find(|map| map.name() == "an_own_dctcp")
        .unwrap()
        .attach_struct_ops()
        .unwrap();
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    // Linux with L4S has the one of IPv6 here; that it is not registered does not matter, since no
    // connection without ECN is given it.
    let rules = [rule(&["0.0.0.0/0"], own_name("foreign")), rule(&["::/0"], "prague")];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    for address in [SERVER, SERVER_IPV6] {
        assert_eq!(connect(&pair, address).algorithms(), both("reno"), "{address}");
    }
    let expected = Hits { without_ecn: 2, ..Hits::default() };
    assert_eq!(policy.hits().unwrap(), [expected; 2]);
}

fn rule(to: &[&str], algorithm: &str) -> Rule {
    Rule {
        to: to.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        algorithm: Some(algorithm.to_owned()),
        ..Rule::default()
    }
}

fn pair_of(client: &str, server: &str) -> (String, String) {
    (client.to_owned(), server.to_owned())
}

#[test]
fn the_longest_prefix_of_the_peer_decides_and_then_the_port() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _reno = load("reno", own_name("reno"));
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let named = listen(&pair);
    let port = named.local_addr().unwrap().port();
    let rules = [
        rule(&["0.0.0.0/0", "fd99::/64"], own_name("reno")),
        // The client's peer.
        rule(&["10.99.0.2", "fd99::2"], "cubic"),
        Rule { ports: vec![port..=port], ..rule(&["10.99.0.2"], "bbr") },
        // Shorter than the client's address would be, so it does not count against it.
        Rule { ports: vec![port..=port], ..rule(&["10.99.0.0/31"], "bbr") },
    ];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    assert_eq!(connect(&pair, SERVER).algorithms(), pair_of("cubic", own_name("reno")));
    assert_eq!(connect(&pair, SERVER_IPV6).algorithms(), pair_of("cubic", own_name("reno")));
    // The port names the service on both sides: the server's own port, the client's peer's.
    assert_eq!(connect_to(&pair, &named, SERVER).algorithms(), pair_of("bbr", "bbr"));
    let hits = policy.hits().unwrap();
    assert_eq!((hits[0].accepted, hits[1].connected), (2, 2), "{hits:?}");
    assert_eq!((hits[2].connected, hits[3].accepted), (1, 1), "{hits:?}");
}

#[test]
fn an_ipv4_peer_of_an_ipv6_listener_is_met_by_ipv4_rules() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _dctcp = load("dctcp", own_name("map"));
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [
        Rule { ecn: Ecn::PeersRunKnee, ..rule(&["10.99.0.0/24"], own_name("map")) },
        rule(&["::/0"], "bbr"),
    ];
    let _policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    let listener = pair.server.run(|| TcpListener::bind("[::]:0").unwrap());
    let ends = connect_to(&pair, &listener, SERVER);
    assert_eq!(ends.algorithms(), both(own_name("map")));
    assert!(ends.has_ecn(), "the answer for the request goes by the IPv4 rule, too");
    assert_eq!(connect_to(&pair, &listener, SERVER_IPV6).algorithms(), both("bbr"));
}

#[test]
fn prefixes_decide_who_negotiates_ecn() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _dctcp = load("dctcp", own_name("pfx"));
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [
        Rule { ecn: Ecn::PeersRunKnee, ..rule(&["10.99.0.0/24"], own_name("pfx")) },
        Rule { ecn: Ecn::Accept, ..rule(&["fd99::/64"], own_name("pfx")) },
    ];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    let ends = connect(&pair, SERVER);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (both(own_name("pfx")), true));
    // Over IPv6 it would be granted, but nobody asks.
    let ends = connect(&pair, SERVER_IPV6);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (both("reno"), false));
    // A peer that asks, by its sysctl, is granted it, and then both ends have what DCTCP needs.
    sysctl(&pair.client, "tcp_ecn", "1");
    let ends = connect(&pair, SERVER_IPV6);
    assert_eq!((ends.algorithms(), ends.has_ecn()), (both(own_name("pfx")), true));
    let hits = policy.hits().unwrap();
    assert_eq!((hits[1].connected, hits[1].accepted, hits[1].without_ecn), (1, 1, 2), "{hits:?}");
}

#[test]
fn listeners_get_the_algorithm_of_their_port() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [
        Rule { listen: vec![7001..=7002], ..rule(&[], "cubic") },
        Rule { listen: vec![0..=u16::MAX], ..rule(&[], "bbr") },
    ];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    for (port, expected) in [(7001, "cubic"), (7002, "cubic"), (7003, "bbr")] {
        let listener = pair.server.run(move || TcpListener::bind((SERVER, port)).unwrap());
        assert_eq!(chosen(&listener), expected);
        // What it accepts has it, too; the client has no rule.
        assert_eq!(connect_to(&pair, &listener, SERVER).algorithms(), pair_of("reno", expected));
    }
    let hits = policy.hits().unwrap();
    assert_eq!((hits[0].listened, hits[1].listened), (2, 1));
}

#[test]
fn a_policy_is_stronger_than_a_programs_choice_and_weaker_than_a_locked_route() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let policy =
        Policy::attach(&[rule(&["10.99.0.0/24"], "bbr")], cgroup.path(), Scope::default()).unwrap();
    let chooser = listen(&pair);
    choose(&chooser, "cubic");
    let ends = connect_to(&pair, &chooser, SERVER);
    assert_eq!(ends.algorithms(), both("bbr"));
    choose(&ends.client, "cubic");
    assert_eq!(chosen(&ends.client), "cubic", "afterwards the program decides");

    let route = "route change 10.99.0.0/24 dev knee-c src 10.99.0.1 congctl lock cubic";
    ip(&pair.client, route.to_owned());
    assert_eq!(connect(&pair, SERVER).algorithms(), pair_of("cubic", "bbr"));
    assert_eq!(policy.hits().unwrap()[0].failed, 1);
}

#[test]
fn an_algorithm_that_is_gone_is_counted_and_the_connection_lives() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let gone = load("reno", own_name("gone"));
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [rule(&["10.99.0.0/24"], own_name("gone"))];
    let policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    assert_eq!(connect(&pair, SERVER).algorithms(), both(own_name("gone")));
    drop(gone);
    wait_until_free(own_name("gone"));
    assert_eq!(connect(&pair, SERVER).algorithms(), both("reno"));
    assert_eq!(policy.hits().unwrap()[0].failed, 2);
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "holds a policy until it is killed"]
fn holder() {
    let Some(cgroup) = std::env::var_os("KNEE_P_CGROUP") else { return };
    let rules = [Rule::everything("cubic")];
    let _policy = Policy::attach(&rules, std::path::Path::new(&cgroup), Scope::default()).unwrap();
    std::fs::write(std::path::Path::new(&cgroup).join("cgroup.max.descendants"), "7").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn the_kernel_takes_the_policy_away_when_its_process_is_killed() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let mut holder = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--ignored"])
        .env("KNEE_P_CGROUP", cgroup.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // The holder says that it is ready by a setting of the cgroup that does nothing else.
    let ready = || std::fs::read_to_string(cgroup.path().join("cgroup.max.descendants")).unwrap();
    while ready().trim() != "7" {
        assert!(holder.try_wait().unwrap().is_none(), "the holder ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(connect(&pair, SERVER).algorithms(), both("cubic"));
    holder.kill().unwrap();
    holder.wait().unwrap();
    // As with a name, whoever looks through the kernel's links at this moment keeps it a little longer.
    wait_until("the policy is gone", || connect(&pair, SERVER).algorithms() == both("reno"));
}

fn load_told(name: &str) -> Loaded {
    let params = Algorithm::for_tests("told").default_params();
    let embedded = Embedded::for_tests("told").unwrap();
    Loaded::register_for_any_user(embedded, name, &params).unwrap()
}

/// Where `told` shows the base RTT.
fn ssthresh(socket: &TcpStream) -> u32 {
    // SAFETY: all of it are numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the pointer and the length are those of the struct.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0);
    info.tcpi_snd_ssthresh
}

#[test]
fn an_algorithm_is_told_the_base_rtt_whichever_was_loaded_first() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _alone = BASE_RTTS.lock().unwrap_or_else(PoisonError::into_inner);
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let rules = [
        Rule { base_rtt_us: 70, ..rule(&["10.99.0.2"], own_name("told")) },
        Rule { base_rtt_us: 90, ..rule(&["10.99.0.1"], own_name("told")) },
        rule(&["::/0"], own_name("told")),
    ];
    let attach = || Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    let check = || {
        let ends = connect(&pair, SERVER);
        assert_eq!(ends.algorithms(), both(own_name("told")));
        assert_eq!((ssthresh(&ends.client), ssthresh(&ends.server)), (70, 90));
        // Where nothing is said it is unknown.
        let unknown = connect(&pair, SERVER_IPV6);
        assert_eq!(unknown.algorithms(), both(own_name("told")));
        assert!(ssthresh(&unknown.client) > 1000 && ssthresh(&unknown.server) > 1000);
    };
    let first = load_told(own_name("told"));
    let policy = attach();
    check();
    // The map lives on with the policy, and the next algorithm finds it.
    drop(first);
    let second = load_told(own_name("told"));
    check();
    // And the other way about.
    drop(policy);
    let _policy = attach();
    check();
    drop(second);
}

#[test]
fn what_a_listener_accepts_has_its_base_rtt() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _alone = BASE_RTTS.lock().unwrap_or_else(PoisonError::into_inner);
    let cgroup = Cgroup::new();
    let pair = hosts(&cgroup);
    let _algorithm = load_told(own_name("clone"));
    let rules =
        [Rule { base_rtt_us: 50, listen: vec![7010..=7010], ..rule(&[], own_name("clone")) }];
    let _policy = Policy::attach(&rules, cgroup.path(), Scope::default()).unwrap();
    let listener = pair.server.run(|| TcpListener::bind((SERVER, 7010)).unwrap());
    let ends = connect_to(&pair, &listener, SERVER);
    assert_eq!(ends.algorithms(), pair_of("reno", own_name("clone")));
    assert_eq!(ssthresh(&ends.server), 50);
}

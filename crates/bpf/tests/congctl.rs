//! Routes that name an algorithm are written back without it, and nothing else changes. On real
//! routes, as `ip route` shows them, in namespaces of the tests' own; reno stands for the algorithm.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knee_bpf::host::congctl::{forget, routes_naming};
use knee_netns::FoundNamespace;
use knee_testbed::net::{Namespace, ip};

/// Has the networks 10.1.0.0/24 and 2001:db8:1::/64 on va, and those with a 2 on vb.
struct Host {
    namespace: Namespace,
    found: FoundNamespace,
}

/// `None`: this kernel's tests are skipped.
fn host() -> Option<Host> {
    if !knee_testbed::kernel_is_ready() {
        return None;
    }
    let namespace = Namespace::new().unwrap();
    let found = knee_netns::of_process(namespace.tid() as u32).unwrap();
    let host = Host { namespace, found };
    host.ip("link set lo up");
    for (device, number) in [("va", 1), ("vb", 2)] {
        host.ip(&format!("link add {device} type veth peer name peer-{device}"));
        host.ip(&format!("link set {device} up"));
        host.ip(&format!("link set peer-{device} up"));
        host.ip(&format!("address add 10.{number}.0.1/24 dev {device}"));
        host.ip(&format!("address add 2001:db8:{number}::1/64 dev {device} nodad"));
    }
    Some(host)
}

impl Host {
    fn ip(&self, arguments: &str) {
        ip(&self.namespace, arguments.to_owned());
    }

    /// As `ip route` shows them, in its order, without those that come by themselves and without the
    /// seconds that are left.
    fn routes(&self) -> Vec<String> {
        let text = self.namespace.run(|| {
            let list = |family| {
                let list = ["-d", family, "route", "show", "table", "all"];
                let output = Command::new("ip").args(list).output().unwrap();
                assert!(output.status.success());
                String::from_utf8(output.stdout).unwrap()
            };
            list("-4") + &list("-6")
        });
        let tidy = |line: &str| {
            let words = line.split_whitespace();
            words.filter(|word| !word.ends_with("sec")).collect::<Vec<_>>().join(" ")
        };
        text.lines().filter(|line| !line.contains("proto kernel")).map(tidy).collect()
    }

    /// The lines of one destination.
    fn to(&self, destination: &str) -> Vec<String> {
        let is_to = |line: &String| line.split(' ').any(|word| word == destination);
        self.routes().into_iter().filter(is_to).collect()
    }

    /// What became of each route that names the algorithm.
    fn forget(&self) -> Vec<Result<(), String>> {
        let routes = routes_naming(&self.found, "reno").unwrap();
        let done = forget(&self.found, &routes).into_iter();
        done.map(|done| done.map_err(|error| error.to_string())).collect()
    }

    /// Forgets all, of which there are as many, and holds it to the order of the routes, too.
    fn forgets_in_place(&self, count: usize) {
        let before = self.routes();
        assert_eq!(self.forget(), vec![Ok(()); count], "{before:#?}");
        let clean =
            |line: &String| line.replace(" congctl lock reno", "").replace(" congctl reno", "");
        assert_eq!(self.routes(), before.iter().map(clean).collect::<Vec<_>>());
    }
}

#[test]
fn more_routes_than_one_dump_serves_are_written_back() {
    let Some(host) = host() else { return };
    let one = |n: u32| {
        let to = format!("10.77.{}.{}/32", n >> 8, n & 255);
        let metric = |metric: u32| format!("route add {to} dev va metric {metric} congctl reno\n");
        // Some destinations have several.
        if n % 100 == 0 { metric(5) + &metric(6) } else { metric(5) }
    };
    let mut lines: String = (0..2500).map(one).collect();
    lines += "route add 198.51.100.0/24 dev va mtu 1400 congctl reno\n";
    lines += "route append 198.51.100.0/24 dev va mtu 1300 congctl reno\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    host.ip(&format!("-batch {}", file.path().display()));
    host.forgets_in_place(2527);
}

#[test]
fn all_but_the_algorithm_is_kept() {
    let Some(host) = host() else { return };
    host.ip("route add 198.51.100.0/24 dev va congctl reno");
    host.ip("route add 198.51.100.0/24 via 10.2.0.9 metric 50 congctl reno mtu 1400 hoplimit 9");
    host.ip("route add 198.51.100.0/24 tos 0x10 dev vb congctl reno");
    host.ip("route add 192.0.2.0/24 dev va table 77 congctl lock reno mtu lock 1300 rto_min 20ms");
    host.ip("route add 192.0.2.7 via 203.0.113.1 dev vb onlink src 10.2.0.1 congctl lock reno");
    host.ip("route add default via 10.1.0.9 proto static congctl reno initcwnd 20 features ecn");
    host.ip("route add 192.0.2.64/26 dev va congctl cubic");
    host.forgets_in_place(6);
    assert_eq!(host.forget(), []);
}

#[test]
fn ipv6_routes_keep_all_else_too() {
    let Some(host) = host() else { return };
    host.ip("-6 route add 2001:db8:9::/48 dev va congctl reno");
    host.ip("-6 route add 2001:db8:9::/48 via 2001:db8:2::9 metric 50 congctl reno mtu 1400");
    host.ip(
        "-6 route add 2001:db8:a::/48 dev va table 77 congctl lock reno mtu lock 1300 pref high",
    );
    host.ip("-6 route add default via 2001:db8:1::9 proto static congctl reno");
    host.ip("-6 route add 2001:db8:b::/48 dev va expires 1000 congctl reno");
    host.ip("-6 route add 2001:db8:c::/48 dev va congctl cubic");
    host.forgets_in_place(5);
    let left = host.namespace.run(|| {
        let show = ["-6", "route", "show", "2001:db8:b::/48"];
        String::from_utf8(Command::new("ip").args(show).output().unwrap().stdout).unwrap()
    });
    let seconds = left.split_whitespace().find_map(|word| word.strip_suffix("sec"));
    let seconds: u32 = seconds.expect(&left).parse().unwrap();
    assert!((900..=1000).contains(&seconds), "{left}");
}

#[test]
fn another_route_of_the_same_destination_is_left_alone() {
    let Some(host) = host() else { return };
    // Before and behind, with and without the algorithm.
    host.ip("route add 198.51.100.0/24 dev va mtu 1300");
    host.ip("route append 198.51.100.0/24 dev lo congctl reno");
    host.ip("route add 192.0.2.0/24 dev lo congctl reno");
    host.ip("route append 192.0.2.0/24 dev va mtu 1300");
    host.ip("route add 203.0.113.0/24 via 10.1.0.9 congctl reno");
    host.ip("route append 203.0.113.0/24 dev va congctl reno mtu 1300");
    host.ip("route append 203.0.113.0/24 dev va congctl reno");
    host.forgets_in_place(5);
}

#[test]
fn another_ipv6_route_of_the_same_destination_is_left_alone() {
    let Some(host) = host() else { return };
    host.ip("-6 route add 2001:db8:9::/48 dev va");
    host.ip("-6 route append 2001:db8:9::/48 dev lo congctl reno mtu 1300");
    host.ip("-6 route add 2001:db8:a::/48 dev lo congctl reno");
    host.ip("-6 route append 2001:db8:a::/48 dev va");
    // These are of two kinds for the kernel, which does not make them one route.
    host.ip("-6 route add 2001:db8:b::/48 dev va");
    host.ip("-6 route append 2001:db8:b::/48 via 2001:db8:1::9 dev va congctl reno");
    host.forgets_in_place(3);
}

#[test]
fn a_route_like_it_without_the_algorithm_is_enough() {
    let Some(host) = host() else { return };
    host.ip("route add 198.51.100.0/24 dev va");
    host.ip("route append 198.51.100.0/24 dev va congctl reno");
    assert_eq!(host.forget(), [Ok(())]);
    assert_eq!(
        host.to("198.51.100.0/24"),
        ["unicast 198.51.100.0/24 dev va table main proto boot scope link"]
    );
}

#[test]
fn routes_keep_their_nexthop_objects() {
    let Some(host) = host() else { return };
    host.ip("nexthop add id 5 via 10.1.0.9 dev va");
    host.ip("nexthop add id 6 via 10.2.0.9 dev vb onlink");
    host.ip("nexthop add id 7 group 5/6");
    host.ip("nexthop add id 8 via 2001:db8:1::9 dev va");
    host.ip("route add 198.51.100.0/24 nhid 5 congctl reno");
    host.ip("route add 192.0.2.0/24 nhid 6 congctl reno");
    host.ip("route add 203.0.113.0/24 nhid 7 congctl reno mtu 1400");
    host.ip("-6 route add 2001:db8:9::/48 nhid 8 congctl reno");
    host.forgets_in_place(4);
}

#[test]
fn routes_keep_all_their_next_hops() {
    let Some(host) = host() else { return };
    let hops = "nexthop via 10.1.0.9 weight 3 nexthop via 203.0.113.1 dev vb onlink";
    host.ip(&format!("route add 198.51.100.0/24 congctl reno mtu 1400 {hops}"));
    let hops = "nexthop via 2001:db8:1::9 dev va nexthop via 2001:db8:2::9 dev vb weight 2";
    host.ip(&format!("-6 route add 2001:db8:9::/48 congctl reno {hops}"));
    host.ip("-6 route add 2001:db8:a::/48 dev lo");
    host.ip(&format!("-6 route append 2001:db8:a::/48 congctl reno {hops}"));
    host.forgets_in_place(3);
}

#[test]
fn a_next_hop_without_a_link_is_kept() {
    let Some(host) = host() else { return };
    let hops = "nexthop via 10.1.0.9 dev va nexthop via 10.2.0.9 dev vb";
    host.ip(&format!("route add 198.51.100.0/24 congctl reno {hops}"));
    let hops = "nexthop via 2001:db8:1::9 dev va nexthop via 2001:db8:2::9 dev vb";
    host.ip(&format!("-6 route add 2001:db8:9::/48 congctl reno {hops}"));
    host.ip("link set peer-vb down");
    let shows_it = || host.routes().iter().any(|line| line.contains("vb weight 1 linkdown"));
    let started = std::time::Instant::now();
    while !shows_it() {
        assert!(started.elapsed().as_secs() < 10, "{:#?}", host.routes());
    }
    host.forgets_in_place(2);
}

#[test]
fn a_route_that_the_kernel_does_not_take_any_more_is_told_and_stays() {
    let Some(host) = host() else { return };
    let hops = "nexthop via 10.1.0.9 dev va nexthop via 10.2.0.9 dev vb";
    host.ip(&format!("route add 198.51.100.0/24 congctl reno {hops}"));
    host.ip("link set vb down");
    host.ip("route add 192.0.2.0/24 dev va congctl reno");
    let before = host.routes();
    let told = host.forget();
    let failed: Vec<&String> = told.iter().filter_map(|one| one.as_ref().err()).collect();
    assert_eq!((told.len(), failed.len()), (2, 1), "{told:#?}");
    assert!(failed[0].starts_with("the route 198.51.100.0/24 ("), "{failed:?}");
    let other = |line: &String| match line.contains("192.0.2.0/24") {
        true => line.replace(" congctl reno", ""),
        false => line.clone(),
    };
    assert_eq!(host.routes(), before.iter().map(other).collect::<Vec<_>>());
}

#[test]
fn a_route_that_a_deletion_would_hit_instead_is_left_alone() {
    let Some(host) = host() else { return };
    host.ip("nexthop add id 8 via 2001:db8:1::9 dev va");
    host.ip("-6 route add 2001:db8:9::/48 nhid 8");
    host.ip("-6 route append 2001:db8:9::/48 dev lo congctl reno");
    let before = host.routes();
    let told = host.forget();
    assert!(matches!(&told[..], [Err(why)] if why.contains("stands before it")), "{told:?}");
    assert_eq!(host.routes(), before);
}

#[test]
fn the_destination_is_never_without_a_route() {
    let Some(host) = host() else { return };
    host.ip("-4 route add 198.51.100.0/24 dev va");
    host.ip("-6 route add 2001:db8:9::/48 dev va");
    let over = Arc::new(AtomicBool::new(false));
    let reader = {
        let over = Arc::clone(&over);
        let found = knee_netns::of_process(host.namespace.tid() as u32).unwrap();
        let look = move || {
            let v4 = UdpSocket::bind("0.0.0.0:0").unwrap();
            let v6 = UdpSocket::bind("[::]:0").unwrap();
            let mut looks = 0;
            while !over.load(Ordering::Relaxed) {
                v4.connect("198.51.100.1:9").unwrap();
                v6.connect("[2001:db8:9::1]:9").unwrap();
                looks += 1;
            }
            looks
        };
        std::thread::spawn(move || found.run(look).unwrap())
    };
    for _ in 0..20 {
        host.ip("-4 route change 198.51.100.0/24 dev va congctl reno");
        host.ip("-6 route change 2001:db8:9::/48 dev va congctl reno");
        host.forgets_in_place(2);
    }
    over.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 20);
}

//! Who negotiates ECN with whom: an algorithm that needs it (NE: knee's DCTCP) and an ordinary one (O:
//! Reno) on either side, for the kernel's settings of tcp_ecn, and what a policy or a route adds.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use knee_algo::Algorithm;
use knee_bpf::policy::{Ecn, Policy, Prefix, Rule, Scope};
use knee_bpf::{Build, Embedded, Loaded};
use knee_testbed::cgroup::Cgroup;
use knee_testbed::net::{Pair, Path, SERVER, choose, chosen, ecn_of, ip, sysctl};

const NE: &str = "knee_p_ne";
const O: &str = "reno";
/// What knee's DCTCP leaves for where there is no ECN.
const FALLBACK: &str = "reno";

/// What one connection came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    negotiated: bool,
    /// Whether data carried ECT: to the server, to the client.
    ect: (bool, bool),
}

const ECN: Outcome = Outcome { negotiated: true, ect: (true, true) };
const NONE: Outcome = Outcome { negotiated: false, ect: (false, false) };

fn load() -> Loaded {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let embedded = Embedded::by_name("dctcp").unwrap();
    Loaded::register(embedded, Build::Plain, NE, &dctcp.default_params()).unwrap()
}

/// Each host's choice of algorithm comes by its default, as for programs that choose nothing.
fn connection(pair: &Pair) -> (TcpStream, TcpStream) {
    let listener = pair.server.run(|| TcpListener::bind((SERVER, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    (client, listener.accept().unwrap().0)
}

fn outcome(mut client: TcpStream, mut server: TcpStream) -> Outcome {
    client.write_all(&[1; 4000]).unwrap();
    server.read_exact(&mut [0; 4000]).unwrap();
    server.write_all(&[2; 4000]).unwrap();
    client.read_exact(&mut [0; 4000]).unwrap();
    let (at_client, at_server) = (ecn_of(&client), ecn_of(&server));
    assert_eq!(at_client.negotiated, at_server.negotiated);
    Outcome { negotiated: at_client.negotiated, ect: (at_server.seen, at_client.seen) }
}

fn set(pair: &Pair, tcp_ecn: &str) {
    for host in [&pair.client, &pair.server] {
        sysctl(host, "tcp_ecn", tcp_ecn);
    }
}

#[test]
fn ecn_is_negotiated_as_the_algorithms_and_tcp_ecn_say() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _algorithm = load();
    let pair = Pair::new(O, Path::default(), Path::default());
    for (tcp_ecn, listener, client, expected) in [
        ("0", NE, NE, ECN),
        ("0", O, NE, NONE),
        ("0", NE, O, NONE),
        ("0", O, O, NONE),
        ("1", NE, NE, ECN),
        // The ECT on the SYN makes an ordinary listener refuse.
        ("1", O, NE, NONE),
        ("1", NE, O, ECN),
        ("1", O, O, ECN),
        ("2", NE, NE, ECN),
        ("2", O, NE, NONE),
        ("2", NE, O, NONE),
        ("2", O, O, NONE),
    ] {
        set(&pair, tcp_ecn);
        sysctl(&pair.client, "tcp_congestion_control", client);
        sysctl(&pair.server, "tcp_congestion_control", listener);
        let row = format!("tcp_ecn {tcp_ecn}, L={listener}, C={client}");
        let (opened, accepted) = connection(&pair);
        let after = |name| if expected == NONE && name == NE { FALLBACK } else { name };
        assert_eq!(chosen(&opened), after(client), "{row}");
        assert_eq!(chosen(&accepted), after(listener), "{row}");
        assert_eq!(outcome(opened, accepted), expected, "{row}");
    }
}

/// A rule that leaves the algorithm as it is.
fn only_ecn(ecn: Ecn) -> [Rule; 1] {
    let to = vec![Prefix::ALL_IPV4, Prefix::ALL_IPV6];
    [Rule { to, ecn, ..Rule::default() }]
}

#[test]
fn a_policy_on_both_sides_negotiates_ecn_for_ordinary_algorithms_and_on_one_side_it_does_not() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let pair = Pair::new(O, Path::default(), Path::default());
    let (of_client, of_server) = (Cgroup::new(), Cgroup::new());
    of_client.take(&pair.client);
    of_server.take(&pair.server);
    for (tcp_ecn, client, server, expected) in [
        ("0", Some(Ecn::PeersRunKnee), Some(Ecn::Accept), ECN),
        ("2", Some(Ecn::PeersRunKnee), Some(Ecn::Accept), ECN),
        ("1", Some(Ecn::PeersRunKnee), Some(Ecn::Accept), ECN),
        // An ordinary listener refuses the SYN with ECT even where it would have granted.
        ("1", Some(Ecn::PeersRunKnee), None, NONE),
        ("2", Some(Ecn::PeersRunKnee), None, NONE),
        // Nobody asks.
        ("2", None, Some(Ecn::Accept), NONE),
        ("2", Some(Ecn::Accept), Some(Ecn::Accept), NONE),
        ("1", None, Some(Ecn::Accept), ECN),
        // "Host" changes nothing.
        ("1", Some(Ecn::Host), Some(Ecn::Host), ECN),
    ] {
        set(&pair, tcp_ecn);
        let attach = |ecn: Option<Ecn>, cgroup: &Cgroup| {
            ecn.map(|ecn| Policy::attach(&only_ecn(ecn), cgroup.path(), Scope::default()).unwrap())
        };
        let _policies = (attach(client, &of_client), attach(server, &of_server));
        let (opened, accepted) = connection(&pair);
        let row = format!("tcp_ecn {tcp_ecn}, C={client:?}, L={server:?}");
        assert_eq!(outcome(opened, accepted), expected, "{row}");
    }
}

#[test]
fn a_route_asks_for_ecn_without_ect_on_the_syn() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let _algorithm = load();
    let pair = Pair::new(O, Path::default(), Path::default());
    set(&pair, "2");
    let route = "route change 10.99.0.0/24 dev knee-c src 10.99.0.1 features ecn";
    ip(&pair.client, route.to_owned());
    // The server is ordinary: it grants but would not ask.
    let (opened, accepted) = connection(&pair);
    assert_eq!(outcome(opened, accepted), ECN);

    // Then DCTCP comes onto a connection that has ECN, the way a policy with `ecn = "host"` does it.
    let cgroup = Cgroup::new();
    cgroup.take(&pair.client);
    let to = vec![Prefix::ALL_IPV4];
    let rule = Rule { to, algorithm: Some(NE.to_owned()), ..Rule::default() };
    let policy = Policy::attach(&[rule], cgroup.path(), Scope::default()).unwrap();
    let (opened, accepted) = connection(&pair);
    assert_eq!((chosen(&opened).as_str(), chosen(&accepted).as_str()), (NE, O));
    assert_eq!(outcome(opened, accepted), ECN);
    assert_eq!(policy.hits().unwrap()[0].connected, 1);

    // Set before connect() it puts ECT on the SYN all the same, and is refused.
    drop(policy);
    let listener = pair.server.run(|| TcpListener::bind((SERVER, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    sysctl(&pair.client, "tcp_congestion_control", NE);
    let client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    assert_eq!(outcome(client, listener.accept().unwrap().0), NONE);
    choose(&listener, O);
}

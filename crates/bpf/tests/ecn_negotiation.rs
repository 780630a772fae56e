//! Who negotiates ECN with whom: an algorithm that needs it (ne: knee's DCTCP) and an ordinary one (O:
//! Reno) on either side, for the kernel's settings of tcp_ecn, and what a policy or a route adds.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also outside of marked functions"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use knee_algo::Algorithm;
use knee_bpf::policy::{Ecn, Policy, Prefix, Rule, Scope};
use knee_bpf::{Embedded, Loaded};
use knee_testbed::cgroup::Cgroup;
use knee_testbed::net::{Pair, Path, SERVER, chosen, ecn_of, ip, sysctl};
use knee_testbed::own_name;

const O: &str = "reno";
/// What knee's DCTCP leaves for where there is no ECN.
const FALLBACK: &str = "reno";

/// What one connection came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// As both ends see it.
    negotiated: bool,
    /// Whether the SYN carried ECT, on the wire.
    ect_on_syn: bool,
    /// Whether data did: to the server, to the client.
    ect_on_data: (bool, bool),
}

/// Negotiated as RFC 3168 has it.
const PLAIN_ECN: Outcome =
    Outcome { negotiated: true, ect_on_syn: false, ect_on_data: (true, true) };
/// Negotiated although the SYN carried ECT.
const ECN: Outcome = Outcome { ect_on_syn: true, ..PLAIN_ECN };
const NONE: Outcome = Outcome { negotiated: false, ect_on_syn: false, ect_on_data: (false, false) };
/// Asked for with ECT on the SYN, and refused: from then on no ECT.
const REFUSED: Outcome = Outcome { ect_on_syn: true, ..NONE };

fn load(name: &str) -> Loaded {
    let dctcp = Algorithm::by_name("dctcp").unwrap();
    let embedded = Embedded::by_name("dctcp").unwrap();
    Loaded::register_for_any_user(embedded, name, &dctcp.default_params()).unwrap()
}

/// What passes the server's device: packets from the IP header on, as far as they are looked at.
struct Wire(OwnedFd);

impl Wire {
    fn of(pair: &Pair) -> Wire {
        let socket = pair.server.run(|| {
            let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
            // SAFETY: it makes a socket of numbers.
            unsafe {
                libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, protocol)
            }
        });
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: nobody else owns it.
        Wire(unsafe { OwnedFd::from_raw_fd(socket) })
    }

    /// All packets of TCP over IPv4 so far.
    fn packets(&self) -> Vec<[u8; 60]> {
        let mut packets = Vec::new();
        loop {
            let mut packet = [0_u8; 60];
            // SAFETY: the pointer and the length are those of the array.
            let got = unsafe {
                libc::recv(self.0.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0)
            };
            if got < 0 {
                return packets;
            }
            if packet[0] >> 4 == 4 && packet[9] == libc::IPPROTO_TCP as u8 {
                packets.push(packet);
            }
        }
    }
}

/// Connects by way of the hosts' defaults, as programs do that choose nothing, and sends data both ways.
fn connection(pair: &Pair) -> (TcpStream, TcpStream, Outcome) {
    let wire = Wire::of(pair);
    let listener = knee_testbed::net::listen(pair);
    let port = listener.local_addr().unwrap().port();
    let mut client = pair.client.run(move || TcpStream::connect((SERVER, port)).unwrap());
    let mut server = listener.accept().unwrap().0;
    client.write_all(&[1; 4000]).unwrap();
    server.read_exact(&mut [0; 4000]).unwrap();
    server.write_all(&[2; 4000]).unwrap();
    client.read_exact(&mut [0; 4000]).unwrap();

    let (at_client, at_server) = (ecn_of(&client), ecn_of(&server));
    assert_eq!(at_client.negotiated, at_server.negotiated);
    let mut outcome = Outcome { negotiated: at_client.negotiated, ..NONE };
    let mut seen = (0, 0);
    for packet in wire.packets() {
        let header = usize::from(packet[0] & 15) * 4;
        let tcp = &packet[header..];
        let (from, to) =
            (u16::from_be_bytes([tcp[0], tcp[1]]), u16::from_be_bytes([tcp[2], tcp[3]]));
        let is_data = usize::from(u16::from_be_bytes([packet[2], packet[3]]))
            > header + usize::from(tcp[12] >> 4) * 4;
        let (is_syn, is_ack, has_ect) = (tcp[13] & 2 != 0, tcp[13] & 16 != 0, packet[1] & 3 != 0);
        if to == port && is_syn && !is_ack {
            outcome.ect_on_syn = has_ect;
        } else if to == port && is_data {
            seen.0 += 1;
            outcome.ect_on_data.0 |= has_ect;
        } else if from == port && is_data {
            seen.1 += 1;
            outcome.ect_on_data.1 |= has_ect;
        }
    }
    assert!(seen.0 >= 3 && seen.1 >= 3, "{seen:?} data packets");
    assert_eq!(outcome.ect_on_data, (at_server.seen, at_client.seen), "TCP_INFO agrees");
    (client, server, outcome)
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
    let ne = own_name("ne");
    let _algorithm = load(ne);
    let pair = Pair::new(O, Path::default(), Path::default());
    for (tcp_ecn, listener, client, expected) in [
        ("0", ne, ne, ECN),
        ("0", O, ne, REFUSED),
        ("0", ne, O, NONE),
        ("0", O, O, NONE),
        ("1", ne, ne, ECN),
        // The ECT on the SYN makes an ordinary listener refuse.
        ("1", O, ne, REFUSED),
        ("1", ne, O, PLAIN_ECN),
        ("1", O, O, PLAIN_ECN),
        ("2", ne, ne, ECN),
        ("2", O, ne, REFUSED),
        ("2", ne, O, NONE),
        ("2", O, O, NONE),
    ] {
        set(&pair, tcp_ecn);
        sysctl(&pair.client, "tcp_congestion_control", client);
        sysctl(&pair.server, "tcp_congestion_control", listener);
        let row = format!("tcp_ecn {tcp_ecn}, L={listener}, C={client}");
        let (opened, accepted, outcome) = connection(&pair);
        let after = |name| if !expected.negotiated && name == ne { FALLBACK } else { name };
        assert_eq!(chosen(&opened), after(client), "{row}");
        assert_eq!(chosen(&accepted), after(listener), "{row}");
        assert_eq!(outcome, expected, "{row}");
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
        ("1", Some(Ecn::PeersRunKnee), None, REFUSED),
        ("2", Some(Ecn::PeersRunKnee), None, REFUSED),
        ("0", Some(Ecn::PeersRunKnee), None, REFUSED),
        // Nobody asks.
        ("0", None, Some(Ecn::Accept), NONE),
        ("2", None, Some(Ecn::Accept), NONE),
        ("2", Some(Ecn::Accept), Some(Ecn::Accept), NONE),
        ("1", None, Some(Ecn::Accept), PLAIN_ECN),
        // "Host" changes nothing.
        ("1", Some(Ecn::Host), Some(Ecn::Host), PLAIN_ECN),
    ] {
        set(&pair, tcp_ecn);
        let attach = |ecn: Option<Ecn>, cgroup: &Cgroup| {
            ecn.map(|ecn| Policy::attach(&only_ecn(ecn), cgroup.path(), Scope::default()).unwrap())
        };
        let _policies = (attach(client, &of_client), attach(server, &of_server));
        let (_, _, outcome) = connection(&pair);
        let row = format!("tcp_ecn {tcp_ecn}, C={client:?}, L={server:?}");
        assert_eq!(outcome, expected, "{row}");
    }
}

#[test]
fn a_route_asks_for_ecn_without_ect_on_the_syn() {
    if !knee_testbed::kernel_is_ready() {
        return;
    }
    let ne = own_name("route");
    let _algorithm = load(ne);
    let pair = Pair::new(O, Path::default(), Path::default());
    set(&pair, "2");
    let route = "route change 10.99.0.0/24 dev knee-c src 10.99.0.1 features ecn";
    ip(&pair.client, route.to_owned());
    // The server is ordinary: it grants, but does not ask with 2, and refuses with 0.
    for (tcp_ecn, expected) in [("0", NONE), ("1", PLAIN_ECN), ("2", PLAIN_ECN)] {
        set(&pair, tcp_ecn);
        assert_eq!(connection(&pair).2, expected, "tcp_ecn {tcp_ecn}");
    }

    // Then DCTCP comes onto a connection that has ECN, the way a policy with `ecn = "host"` does it.
    let cgroup = Cgroup::new();
    cgroup.take(&pair.client);
    let to = vec![Prefix::ALL_IPV4];
    let rule = Rule { to, algorithm: Some(ne.to_owned()), ..Rule::default() };
    let policy = Policy::attach(&[rule], cgroup.path(), Scope::default()).unwrap();
    let (opened, accepted, outcome) = connection(&pair);
    assert_eq!((chosen(&opened).as_str(), chosen(&accepted).as_str()), (ne, O));
    assert_eq!(outcome, PLAIN_ECN);
    assert_eq!(policy.hits().unwrap()[0].connected, 1);

    // As the host's default it puts ECT on the SYN all the same, and is refused.
    drop(policy);
    sysctl(&pair.client, "tcp_congestion_control", ne);
    assert_eq!(connection(&pair).2, REFUSED);
}

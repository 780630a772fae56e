//! TCP packets as bytes, between the two sides of a script.

pub(crate) use knee_wire::packet::MAX_SCALE;
pub use knee_wire::packet::{Origin, Packet, decode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports of the two sides of a script.
const STACK_PORT: u16 = 8080;
const PEER_PORT: u16 = 40_000;

/// Where a script's stack and peer are: addresses of documentation (RFC 5737, RFC 3849).
pub(crate) fn sides(ipv6: bool) -> [SocketAddr; 2] {
    [(1, STACK_PORT), (2, PEER_PORT)].map(|(last, port)| {
        let ip = if ipv6 {
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)))
        } else {
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
        };
        SocketAddr::new(ip, port)
    })
}

//! The filter that chooses the connections to record.

use std::fmt;
use std::net::IpAddr;

use crate::policy::Prefix;

/// Chooses the connections to record: those that match every field that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// The port on this host.
    pub local_port: Option<u16>,
    /// The peer's port.
    pub remote_port: Option<u16>,
    /// The peer's addresses. IPv4 connections of IPv6 sockets count as IPv4.
    pub remote: Option<Prefix>,
}

impl TraceFilter {
    /// The peer's family as the programs have it (`AF_INET`, `AF_INET6`; 0 for either), its prefix
    /// and the prefix's mask. Both are IPv6 addresses, IPv4 mapped, in network order.
    pub(super) fn remote_words(&self) -> (u32, [u32; 4], [u32; 4]) {
        let Some(prefix) = self.remote else { return (0, [0; 4], [0; 4]) };
        let (family, address, rest) = match prefix.address() {
            IpAddr::V4(address) => (libc::AF_INET, address.to_ipv6_mapped(), 32 - prefix.bits()),
            IpAddr::V6(address) => (libc::AF_INET6, address, 128 - prefix.bits()),
        };
        let mask = u128::MAX.checked_shl(rest.into()).unwrap_or(0);
        (family as u32, words(address.to_bits()), words(mask))
    }
}

/// Splits the number into four words that lie in memory in network order.
fn words(number: u128) -> [u32; 4] {
    let bytes = number.to_be_bytes();
    std::array::from_fn(|i| {
        u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
    })
}

impl fmt::Display for TraceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.local_port.map(|port| format!("local port {port}")),
            self.remote_port.map(|port| format!("remote port {port}")),
            self.remote.map(|prefix| format!("remote {prefix}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => f.write_str("all connections"),
            false => write!(f, "connections with {}", parts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_four_words_in_network_order() {
        let of = |prefix: &str| {
            TraceFilter { remote: Some(prefix.parse().unwrap()), ..TraceFilter::default() }
                .remote_words()
        };
        let be = |words: [u32; 4]| words.map(u32::from_be);
        let (family, address, mask) = of("10.99.0.0/16");
        assert_eq!(family, 2);
        assert_eq!(be(address), [0, 0, 0xffff, 0x0a63_0000]);
        assert_eq!(be(mask), [u32::MAX, u32::MAX, u32::MAX, 0xffff_0000]);
        let (family, address, mask) = of("fd00:1::/33");
        assert_eq!(family, 10);
        assert_eq!(be(address), [0xfd00_0001, 0, 0, 0]);
        assert_eq!(be(mask), [u32::MAX, 0x8000_0000, 0, 0]);
        assert_eq!(of("0.0.0.0/0").2.map(u32::from_be), [u32::MAX, u32::MAX, u32::MAX, 0]);
        assert_eq!(of("::/0").2, [0; 4]);
    }
}

//! The content of a rule.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A range of ports, both ends included.
pub type Ports = RangeInclusive<u16>;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Every IPv4 address.
    pub const ALL_IPV4: Prefix = Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };
    /// Every IPv6 address.
    pub const ALL_IPV6: Prefix = Prefix { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), bits: 0 };

    pub(super) fn new(address: IpAddr, bits: u8) -> Prefix {
        Prefix { address, bits }
    }

    /// The first address of the prefix.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The number of common bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether the prefix contains the address. IPv4 addresses mapped into IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (u128::from(ours.to_bits()), u128::from(theirs.to_bits()), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (ours.to_bits(), theirs.to_bits(), 128),
            _ => return false,
        };
        (ours ^ theirs).checked_shr(width - u32::from(self.bits)).unwrap_or(0) == 0
    }

    /// Whether the prefix is so wide that it must contain Internet addresses. That is shorter than
    /// /8 for IPv4, where 10.0.0.0/8 is the widest private prefix, and shorter than /7 for IPv6,
    /// where it is fc00::/7.
    pub fn must_reach_the_internet(&self) -> bool {
        self.bits < if self.address.is_ipv4() { 8 } else { 7 }
    }

    /// Whether nobody has all its addresses: beside private ones, an IPv4 prefix shorter than /8 or an IPv6 prefix shorter than /16.
    pub fn is_more_than_anybodys(&self) -> bool {
        let shortest = if self.address.is_ipv4() { 8 } else { 16 };
        self.bits < shortest && !self.is_own(&[])
    }

    /// Whether `other` contains all addresses of this prefix.
    pub fn is_within(&self, other: &Prefix) -> bool {
        self.bits >= other.bits && other.contains(self.address)
    }

    /// Whether all its addresses are private or link-local, or within one prefix of `ours`.
    pub fn is_own(&self, ours: &[Prefix]) -> bool {
        OWN.iter().chain(ours).any(|own| self.is_within(own))
    }
}

/// Prefixes that no part of the Internet answers from: private addresses (RFC 1918, RFC 4193), this
/// host's own, and link-local ones.
const OWN: [Prefix; 8] = {
    const fn ipv4(a: u8, b: u8, bits: u8) -> Prefix {
        Prefix { address: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), bits }
    }
    const fn ipv6(first: u16, last: u16, bits: u8) -> Prefix {
        Prefix { address: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)), bits }
    }
    [
        ipv4(10, 0, 8),
        ipv4(172, 16, 12),
        ipv4(192, 168, 16),
        ipv4(127, 0, 8),
        ipv4(169, 254, 16),
        ipv6(0xfc00, 0, 7),
        ipv6(0, 1, 128),
        ipv6(0xfe80, 0, 10),
    ]
};

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address
            .parse()
            .map_err(|_| "must be a prefix, as \"10.0.0.0/8\" or \"fd00::/8\"".to_owned())?;
        let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => longest,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= longest)
                .ok_or_else(|| format!("must have a length from /0 to /{longest}"))?,
        };
        let (number, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let rest = (width - u32::from(bits)).min(128);
        let network = number.checked_shr(rest).unwrap_or(0).checked_shl(rest).unwrap_or(0);
        let first = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(network as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(network)),
        };
        if let IpAddr::V6(mapped) = address {
            if let (Some(ipv4), true) = (mapped.to_ipv4_mapped(), bits >= 96) {
                return Err(format!("is an IPv4 prefix: write \"{ipv4}/{}\"", bits - 96));
            }
        }
        if first != address {
            return Err(format!("has bits set beyond its length; the prefix is {first}/{bits}"));
        }
        Ok(Prefix { address, bits })
    }
}

/// The effect of a rule on ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// No effect: ECN is negotiated as the host is configured.
    #[default]
    Host,
    /// ECN is granted to peers that ask for it.
    Accept,
    /// Like `Accept`, and connections opened from here ask for ECN, too, with ECT on the SYN. A
    /// listener under an ordinary algorithm refuses ECN to such a SYN; one under knee's policy
    /// grants it.
    PeersRunKnee,
}

/// A rule: the sockets that it covers and what they get. Of several matching rules the one with the
/// longest prefix decides. Of equal prefixes, the one that names the port decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The display name, at most 31 bytes.
    pub name: String,
    /// Prefixes of the peers, for connections opened or accepted.
    pub to: Vec<Prefix>,
    /// Ports of the service: the peer's for opened connections, the local one for accepted
    /// connections. Empty means all.
    pub ports: Vec<Ports>,
    /// Ports whose listeners get the algorithm. 0 to 65535 covers every port that no other rule
    /// names.
    pub listen: Vec<Ports>,
    /// The algorithm, by the name that sockets use; `None` keeps the host's choice.
    pub algorithm: Option<String>,
    /// The effect on ECN.
    pub ecn: Ecn,
    /// RTT without queues, in us, for algorithms that ask for it; 0 if it is not known.
    pub base_rtt_us: u32,
    /// Makes the rule act like a default. It skips sockets whose program has chosen an algorithm,
    /// and does not touch ECN where the algorithm does not need it.
    pub yields: bool,
}

impl Rule {
    /// Makes the rule with the effect of `algorithm` as the default: it covers every listener and
    /// connection unless the program has chosen. If the algorithm needs ECN, opened connections ask
    /// for it and accepted ones are granted it. Otherwise ECN follows the host's configuration.
    pub fn everything(algorithm: &str) -> Rule {
        Rule {
            name: "everything".to_owned(),
            to: vec![Prefix::ALL_IPV4, Prefix::ALL_IPV6],
            listen: vec![0..=u16::MAX],
            algorithm: Some(algorithm.to_owned()),
            ecn: Ecn::PeersRunKnee,
            yields: true,
            ..Rule::default()
        }
    }
}

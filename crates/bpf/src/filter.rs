//! Which connections somebody wants to see, or to move.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::{Connection, Error};

/// A network prefix: `10.1.0.0/16`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// With zeros beyond the prefix.
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Whether it holds this address. IPv4 addresses that are mapped into IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.bits) == Some(self.address)
    }
}

/// The address with all after the first bits zeroed; `None` if it has fewer.
fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let bits = u32::from(bits);
    Some(match address {
        IpAddr::V4(address) => {
            let rest = 32_u32.checked_sub(bits)?;
            let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let rest = 128_u32.checked_sub(bits)?;
            let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    })
}

impl FromStr for Prefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Prefix, Error> {
        let parse = || {
            let (address, bits) = match text.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().ok()?;
            let bits = match bits {
                Some(bits) => bits.parse().ok()?,
                None if address.is_ipv4() => 32,
                None => 128,
            };
            Some(Prefix { address: masked(address, bits)?, bits })
        };
        parse().ok_or_else(|| Error::BadPrefix { text: text.to_owned() })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Which connections are meant: those that fit all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The name of the congestion control.
    pub algorithm: Option<String>,
    /// Port on this side.
    pub local_port: Option<u16>,
    /// Port on the other side; no listener has one.
    pub remote_port: Option<u16>,
    /// Where the other side is; no listener has one.
    pub remote: Option<Prefix>,
}

impl Filter {
    /// Whether this connection fits.
    pub fn fits(&self, connection: &Connection) -> bool {
        let remote = Some(connection.remote).filter(|_| !connection.is_listener());
        self.algorithm.as_ref().is_none_or(|name| *name == connection.algorithm)
            && self.local_port.is_none_or(|port| port == connection.local.port())
            && self.remote_port.is_none_or(|port| remote.is_some_and(|it| it.port() == port))
            && self.remote.is_none_or(|prefix| remote.is_some_and(|it| prefix.contains(it.ip())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_the_addresses_that_begin_with_it() {
        let holds = |prefix: &str, address: &str| {
            prefix.parse::<Prefix>().unwrap().contains(address.parse().unwrap())
        };
        assert!(holds("10.1.0.0/16", "10.1.255.3"));
        assert!(holds("10.1.2.3/16", "10.1.0.1"), "bits beyond the prefix do not matter");
        assert!(!holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "255.1.2.3") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.1.1"), "mapped");
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::"));
        assert!(holds("::/0", "fe80::1") && holds("::1", "::1"));
        for bad in ["", "/", "10.0.0.0/33", "::/129", "10.0.0/8", "::/-1", "1.1.1.1/x", "a/8"] {
            let error = bad.parse::<Prefix>().unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("10.1.0.0/16"), "{error}");
        }
        assert_eq!("10.1.2.3/9".parse::<Prefix>().unwrap().to_string(), "10.0.0.0/9");
    }
}

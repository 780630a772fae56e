//! The filter that chooses connections to show or to move.

use crate::Connection;
use crate::policy::Prefix;

/// Chooses connections: those that match every given field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The name of the congestion control.
    pub algorithm: Option<String>,
    /// The local port.
    pub local_port: Option<u16>,
    /// The peer's port; no listener matches.
    pub remote_port: Option<u16>,
    /// The peer's addresses; no listener matches.
    pub remote: Option<Prefix>,
}

impl Filter {
    /// Whether this connection matches.
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
        assert!(!holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "255.1.2.3") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.1.1"), "mapped");
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::"));
        assert!(holds("::/0", "fe80::1") && holds("::1", "::1") && !holds("::1", "::2"));
    }
}

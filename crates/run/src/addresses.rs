//! Addresses and ports of hosts, wherever they are needed: in the lab, and in captures of simulated packets.
//!
//! Hosts are numbered in the order of their nodes; switches do not count.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::spec::Network;

/// Prefix length of the subnet that all hosts are in.
pub const PREFIX_LEN_V4: u8 = 16;
/// The same of IPv6.
pub const PREFIX_LEN_V6: u8 = 64;
/// Port at which the first flow's listening side listens.
const FIRST_LISTENING_PORT: u16 = 10_000;
/// Port of the first flow's connecting side.
const FIRST_CONNECTING_PORT: u16 = 40_000;

/// Address of a host.
pub fn address(number: usize, ipv6: bool) -> IpAddr {
    let (high, low) = ((number / 250) as u8, (number % 250 + 1) as u8);
    if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd6b, 0x6e65, 0x65, 0, 0, 0, 0, number as u16 + 1))
    } else {
        // 198.18.0.0/15 is for measurements of network devices (RFC 2544).
        IpAddr::V4(Ipv4Addr::new(198, 18, high, low))
    }
}

/// MAC of a host's device.
pub fn mac(number: usize) -> [u8; 6] {
    [0x02, 0x6b, 0x6e, 0x65, (number >> 8) as u8, number as u8]
}

/// Port at which a flow's listening side listens, by the flow's index in its run.
pub fn listening_port(flow: usize) -> u16 {
    numbered(FIRST_LISTENING_PORT, FIRST_CONNECTING_PORT - FIRST_LISTENING_PORT, flow)
}

/// Port of a flow's connecting side. With the other it tells flows apart, up to some millions of them.
pub fn connecting_port(flow: usize) -> u16 {
    numbered(FIRST_CONNECTING_PORT, u16::MAX - FIRST_CONNECTING_PORT + 1, flow)
}

fn numbered(first: u16, ports: u16, flow: usize) -> u16 {
    first + (flow % usize::from(ports)) as u16
}

/// The number of each node's host; `None`: it is a switch.
pub fn host_numbers(network: &Network) -> Vec<Option<usize>> {
    let mut numbers = 0..;
    let number = |is_host: bool| if is_host { numbers.next() } else { None };
    network.nodes.iter().map(|node| node.host.is_some()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn many_flows_and_hosts_have_their_own() {
        let flows = 0..200_000;
        let ports: HashSet<_> =
            flows.clone().map(|i| (listening_port(i), connecting_port(i))).collect();
        assert_eq!(ports.len(), flows.len());
        assert_eq!((listening_port(0), connecting_port(25_536)), (10_000, 40_000));
        for ipv6 in [false, true] {
            let hosts: HashSet<_> = (0..1000).map(|i| (address(i, ipv6), mac(i))).collect();
            assert_eq!(hosts.len(), 1000);
        }
        assert_eq!(address(250, false), IpAddr::from([198, 18, 1, 1]));
    }
}

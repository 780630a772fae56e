//! Ethernet frames of the simulator's packets, with the addresses and ports that the lab has.

use crate::Error;
use crate::packet::{Origin, Packet, ipv4_header, ipv6_header, with_zeros};
use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber};
use knee_queue::Ecn;
use knee_sim::addresses::{address, connecting_port, host_numbers, listening_port, mac};
use knee_sim::spec::{Network, NodeId};
use knee_sim::tap::Side;
use knee_sim::tap::hosts::{Content, Seen};
use std::net::{IpAddr, SocketAddr};

const ETHERNET_BYTES: u32 = 14;
/// Of ICMP's echoes.
const ECHO_BYTES: u32 = 8;

/// Makes frames of the packets of a network.
#[derive(Clone, Debug)]
pub struct Frames {
    /// By node; nothing for switches.
    hosts: Vec<Option<Host>>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    mac: [u8; 6],
    address: IpAddr,
}

impl Frames {
    /// For the hosts of a network.
    pub fn new(network: &Network) -> Frames {
        let numbers = host_numbers(network);
        let nodes = network.nodes.iter().zip(numbers);
        let host = |ipv6: bool, number| Host { mac: mac(number), address: address(number, ipv6) };
        let hosts = nodes.map(|(node, number)| Some(host(node.host.as_ref()?.ipv6, number?)));
        Frames { hosts: hosts.collect() }
    }

    /// Writes the headers of a packet's frame into `bytes`, and zeros for its payload up to `most` bytes of the frame. Gives the
    /// frame's length.
    ///
    /// # Errors
    /// What has no bytes: a window that the header cannot say, hosts of two families.
    pub fn encode(&self, packet: &Seen, most: u32, bytes: &mut Vec<u8>) -> Result<u32, Error> {
        let (from, to) = (self.host(packet.from)?, self.host(packet.to)?);
        bytes.clear();
        bytes.extend_from_slice(&to.mac);
        bytes.extend_from_slice(&from.mac);
        let kind: u16 = if from.address.is_ipv6() { 0x86dd } else { 0x0800 };
        bytes.extend_from_slice(&kind.to_be_bytes());
        let payload_bytes = match &packet.content {
            Content::Tcp { flow, side, segment, iss, peer_iss, scale } => {
                let [source, destination] = ends(*flow, *side, from, to);
                let origin = Origin { iss: *iss, peer_iss: *peer_iss, scale: *scale };
                let packet = Packet::absolute(segment, source, destination, origin)?;
                packet.encode_headers(bytes)?;
                packet.len
            }
            Content::Ping { ping, number, is_echo, ecn } => {
                let echo = IcmpEchoHeader { id: *ping as u16, seq: *number as u16 };
                let addresses = (from.address, to.address);
                encode_echo(echo, *is_echo, addresses, *ecn, packet.wire_bytes, bytes)?
            }
        };
        set_dscp(&mut bytes[ETHERNET_BYTES as usize..], packet.dscp);
        let len = bytes.len() as u32 + payload_bytes;
        bytes.resize(bytes.len().max(len.min(most) as usize), 0);
        Ok(len)
    }

    fn host(&self, node: NodeId) -> Result<Host, Error> {
        let host = self.hosts.get(node as usize).copied().flatten();
        host.ok_or_else(|| Error(format!("node {node} is no host and has no address")))
    }
}

/// Puts a DSCP where an IP packet has none yet, and says so to its checksum (RFC 1624).
fn set_dscp(ip: &mut [u8], dscp: u8) {
    if ip[0] >> 4 == 6 {
        ip[0] |= dscp >> 2;
        ip[1] |= dscp << 6;
        return;
    }
    ip[1] |= dscp << 2;
    let sum = !u16::from_be_bytes([ip[10], ip[11]]);
    let (sum, carry) = sum.overflowing_add(u16::from(dscp) << 2);
    ip[10..12].copy_from_slice(&(!(sum + u16::from(carry))).to_be_bytes());
}

/// Source and destination of what one side of a flow sends.
fn ends(flow: usize, side: Side, from: Host, to: Host) -> [SocketAddr; 2] {
    let ports = match side {
        Side::Connecting => [connecting_port(flow), listening_port(flow)],
        Side::Listening => [listening_port(flow), connecting_port(flow)],
    };
    [SocketAddr::new(from.address, ports[0]), SocketAddr::new(to.address, ports[1])]
}

/// Appends the headers of an ICMP echo request or reply; gives the length of the zeros that follow them.
fn encode_echo(
    echo: IcmpEchoHeader,
    is_reply: bool,
    addresses: (IpAddr, IpAddr),
    ecn: Ecn,
    wire_bytes: u32,
    bytes: &mut Vec<u8>,
) -> Result<u32, Error> {
    let too_long = || Error(format!("a ping of {wire_bytes} bytes does not fit one packet"));
    let ip_bytes = if addresses.0.is_ipv6() { 40 } else { 20 };
    let zeros = wire_bytes.saturating_sub(ETHERNET_BYTES + ip_bytes + ECHO_BYTES);
    let len = u16::try_from(ECHO_BYTES + zeros).map_err(|_| too_long())?;
    match addresses {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let kind = match is_reply {
                true => Icmpv4Type::EchoReply(echo),
                false => Icmpv4Type::EchoRequest(echo),
            };
            let ip = ipv4_header(from, to, len, IpNumber::ICMP, ecn).ok_or_else(too_long)?;
            bytes.extend_from_slice(&ip.to_bytes());
            bytes.extend_from_slice(&Icmpv4Header::with_checksum(kind, &[]).to_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kind = match is_reply {
                true => Icmpv6Type::EchoReply(echo),
                false => Icmpv6Type::EchoRequest(echo),
            };
            let ip = ipv6_header(from, to, len, IpNumber::IPV6_ICMP, ecn);
            let icmp = Icmpv6Header::with_checksum(kind, from.octets(), to.octets(), &[]);
            let mut icmp = icmp.map_err(|_| too_long())?;
            icmp.checksum = with_zeros(icmp.checksum, zeros as u16);
            bytes.extend_from_slice(&ip.to_bytes());
            bytes.extend_from_slice(&icmp.to_bytes());
        }
        (from, to) => return Err(Error(format!("{from} and {to} are of two families"))),
    }
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_queue::time::{Duration, Rate, Time};
    use knee_queue::{DropTailConfig, Limit, QueueConfig};
    use knee_sim::simulate_captured;
    use knee_sim::spec::{
        Cc, Flow, HostConfig, LinuxVersion, Ping, Run, Sampling, Serialisation, Traffic,
    };
    use knee_sim::topology::{Cable, Star};
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::rc::Rc;

    /// Two hosts with a shallow queue between them, so that there are losses and SACKs.
    fn run(config: &HostConfig) -> Run {
        let cable = |bps, pkts| Cable {
            rate: Rate::from_bps(bps),
            serialisation: Serialisation::StoreAndForward,
            delay: Duration::from_us(100),
            jitter: Duration::ZERO,
            loss: 0.0,
            loses_bursts: false,
            queue: QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) }),
            sampled: false,
        };
        let host = |name: &str| (name.to_owned(), config.clone());
        let hosts = vec![host("a"), host("b")];
        let network = Star { hosts, up: cable(1_000_000_000, 1000), down: cable(100_000_000, 20) };
        let flow = Flow {
            group: 0,
            from: 0,
            to: 1,
            cc: Cc::by_name("cubic").unwrap(),
            peer_cc: None,
            start: Time::ZERO,
            first_write: None,
            stop: None,
            traffic: Traffic::Rpc { request_bytes: 700_001, response_bytes: 33, count: Some(2) },
            read_at_bytes: 1,
            base_rtt: None,
            dscp: 1,
            peer_dscp: 2,
            max_pacing_rate: None,
            sampled: false,
        };
        let ping = Ping {
            from: 1,
            to: 0,
            start: Time::ZERO,
            interval: Duration::from_ms(5),
            wire_bytes: 98,
            ecn: Ecn::Ect0,
            dscp: 46,
        };
        Run {
            seed: 1,
            end: Time::from_ms(500),
            until_done: false,
            network: network.build(),
            flows: vec![flow],
            pings: vec![ping],
            sampling: Sampling::default(),
            order: Default::default(),
        }
    }

    #[test]
    fn frames_are_as_long_as_the_simulator_counts_them() {
        for ipv6 in [false, true] {
            for (sack, linux) in [(true, LinuxVersion::V6_1), (false, LinuxVersion::V6_18)] {
                let config = HostConfig { ipv6, sack, ..HostConfig::new(linux) };
                let run = run(&config);
                let frames = Frames::new(&run.network);
                let seen: Rc<RefCell<Vec<Seen>>> = Rc::default();
                let sink = Rc::clone(&seen);
                simulate_captured(&run, move |sighting| sink.borrow_mut().push(sighting.packet))
                    .unwrap();
                let mut bytes = Vec::new();
                let mut lengths = HashSet::new();
                for packet in seen.take() {
                    let len = frames.encode(&packet, u32::MAX, &mut bytes).unwrap();
                    assert_eq!(len, packet.wire_bytes, "{packet:?}");
                    assert_eq!(len as usize, bytes.len());
                    lengths.insert(len);
                }
                // ACKs with and without SACK, SYNs, pings, full segments and the last of a request.
                assert!(lengths.len() >= if sack { 6 } else { 5 }, "{lengths:?}");
            }
        }
    }
}

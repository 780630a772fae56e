//! Ethernet frames of the simulator's packets, with the lab's addresses and ports.

use super::Side;
use super::hosts::{Content, Seen};
use knee_run::addresses::{address, connecting_port, host_numbers, listening_port, mac};
use knee_run::spec::{Network, NodeId};
use knee_wire::Error;
use knee_wire::frame::{self, Frame};
use knee_wire::packet::{Origin, Packet};
use std::net::{IpAddr, SocketAddr};

/// Builds the frames of a network's packets.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The host of each node; `None` for switches.
    hosts: Vec<Option<Host>>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    mac: [u8; 6],
    address: IpAddr,
}

impl Frames {
    /// Creates the frame builder for the hosts of a network.
    pub fn new(network: &Network) -> Frames {
        let numbers = host_numbers(network);
        let nodes = network.nodes.iter().zip(numbers);
        let host = |ipv6: bool, number| Host { mac: mac(number), address: address(number, ipv6) };
        let hosts = nodes.map(|(node, number)| Some(host(node.host.as_ref()?.ipv6, number?)));
        Frames { hosts: hosts.collect() }
    }

    /// Writes the headers of a packet's frame into `bytes`, and zeros for its payload, up to `most`
    /// bytes of the frame. Returns the frame's length.
    ///
    /// # Errors
    /// If a packet has no encoding: its window does not fit the header, or its hosts are of two
    /// address families.
    pub fn encode(&self, packet: &Seen, most: u32, bytes: &mut Vec<u8>) -> Result<u32, Error> {
        let (from, to) = (self.host(packet.from)?, self.host(packet.to)?);
        let content = match &packet.content {
            Content::Tcp { flow, side, segment, iss, peer_iss, scale } => {
                let [source, destination] = ends(*flow, *side, from, to);
                let origin = Origin { iss: *iss, peer_iss: *peer_iss, scale: *scale };
                frame::Content::Tcp(Packet::absolute(segment, source, destination, origin)?)
            }
            Content::Datagram { stream, ecn } => frame::Content::Udp {
                ends: ends(*stream, Side::Connecting, from, to),
                ecn: *ecn,
                wire_bytes: packet.wire_bytes,
            },
            Content::Ping { ping, number, is_echo, ecn } => frame::Content::Echo {
                addresses: (from.address, to.address),
                id: *ping as u16,
                number: *number as u16,
                is_reply: *is_echo,
                ecn: *ecn,
                wire_bytes: packet.wire_bytes,
            },
        };
        Frame { macs: [from.mac, to.mac], dscp: packet.dscp, content }.encode(most, bytes)
    }

    fn host(&self, node: NodeId) -> Result<Host, Error> {
        let host = self.hosts.get(node as usize).copied().flatten();
        host.ok_or(Error::NoHost(node))
    }
}

/// Returns source and destination of the packets that one side of a flow sends.
fn ends(flow: usize, side: Side, from: Host, to: Host) -> [SocketAddr; 2] {
    let ports = match side {
        Side::Connecting => [connecting_port(flow), listening_port(flow)],
        Side::Listening => [listening_port(flow), connecting_port(flow)],
    };
    [SocketAddr::new(from.address, ports[0]), SocketAddr::new(to.address, ports[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_captured;
    use knee_queue::time::{Duration, Rate, Time};
    use knee_queue::{DropTailConfig, Ecn, Limit, QueueConfig};
    use knee_run::spec::{Cc, Flow, HostConfig, LinuxVersion, Ping, Run, Sampling, Traffic};
    use knee_run::topology::{Cable, Star};
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::rc::Rc;

    /// Two hosts with a shallow queue between them, to cause losses and SACKs.
    fn run(config: &HostConfig) -> Run {
        let cable = |bps, pkts| Cable {
            delay: Duration::from_us(100),
            ..Cable::new(
                Rate::from_bps(bps),
                QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(pkts) }),
            )
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
            one_way_until: None,
        };
        Run {
            seed: 1,
            end: Time::from_ms(500),
            until_done: false,
            network: network.build(),
            flows: vec![flow],
            pings: vec![ping],
            sampling: Sampling::default(),
            schedule: Default::default(),
        }
    }

    #[test]
    fn frames_are_as_long_as_the_simulator_counts_them() {
        for ipv6 in [false, true] {
            for (sack, linux) in [(true, LinuxVersion(6, 1)), (false, LinuxVersion(6, 18))] {
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
                // Frame lengths: ACKs with and without SACK, SYNs, pings, full segments and the
                // last of a request.
                assert!(lengths.len() >= if sack { 6 } else { 5 }, "{lengths:?}");
            }
        }
    }
}

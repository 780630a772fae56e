//! The receive side of a host: the NIC's queues, interrupt coalescing, merging of the packets of
//! one interrupt (GRO), and the CPU time of all three.
//!
//! An arriving packet enters the receive queue that its flow's hash selects. The queue's interrupt
//! hands it over ([`interrupts`](crate::interrupts)). Hosts without any of these features are not
//! listed here; TCP gets their packets directly.

use crate::events::{Event, Events};
use crate::interrupts::{Arrival, Ring};
use crate::numbered::{Numbered, Numbering};
use crate::packet::{Packet, flags};
use crate::tcp::{HostState, Sock};
use knee_queue::time::{Duration, Time};
use knee_run::outcome::{HostCount, Received};
use knee_run::routes::mix;
use knee_run::spec::{CpuCosts, HostConfig, NodeId, Run};
use std::rc::Rc;

/// The socket or ping has no queue.
const NONE: u32 = u32::MAX;

/// A receive queue of a NIC.
#[derive(Debug)]
struct RxQueue {
    /// Index of its host in [`Nics::hosts`].
    host: u32,
    /// `None`: each packet is an interrupt.
    ring: Option<Ring<Packet>>,
}

/// A host that does not receive packet by packet, or whose CPU time is counted.
#[derive(Debug)]
struct NicHost {
    node: NodeId,
    merges: bool,
    cpu: Option<CpuCosts>,
    wire_pkts: u64,
    acks: u64,
    payload_bytes: u64,
    interrupts: u64,
    /// Packets merged into others at an interrupt.
    merged_away: u64,
}

/// All NICs of a run.
#[derive(Debug)]
pub(crate) struct Nics {
    hosts: Vec<NicHost>,
    queues: Vec<RxQueue>,
    /// The queue of each socket, and the queues of each ping stream's requests and echoes.
    of_sock: Numbered<u32>,
    of_ping: Vec<(u32, u32)>,
    /// For each socket, the last interrupt with a packet for it, and that packet's position among
    /// the interrupt's packets.
    last: Numbered<(u64, u32)>,
    interrupt: u64,
}

fn is_counted(config: &HostConfig) -> bool {
    config.coalesce.is_some() || config.cpu.is_some() || config.gro_window > Duration::ZERO
}

impl Nics {
    /// Creates the NICs of the nodes that `has` accepts; `None` if all its hosts receive packet by packet and none counts.
    /// `hashes` has one hash per flow of the run.
    pub(crate) fn new(
        run: &Run,
        hashes: &[u64],
        (socks, has): (&Numbering, &dyn Fn(NodeId) -> bool),
    ) -> Option<Box<Nics>> {
        let mut first_queue = vec![NONE; run.network.nodes.len()];
        let mut receive_queues = vec![1; run.network.nodes.len()];
        let (mut hosts, mut queues) = (Vec::new(), Vec::new());
        for (node, config) in (0..).zip(run.network.nodes.iter().map(|node| node.host.as_ref())) {
            let config = config.filter(|config| is_counted(config) && has(node));
            let Some(config) = config else { continue };
            first_queue[node as usize] = queues.len() as u32;
            receive_queues[node as usize] = config.receive_queues;
            queues.extend((0..config.receive_queues).map(|_| RxQueue {
                host: hosts.len() as u32,
                ring: config.coalesce.map(Ring::new),
            }));
            hosts.push(NicHost {
                node,
                merges: config.gro,
                cpu: config.cpu,
                wire_pkts: 0,
                acks: 0,
                payload_bytes: 0,
                interrupts: 0,
                merged_away: 0,
            });
        }
        if hosts.is_empty() {
            return None;
        }
        let queue_of = |node: NodeId, hash: u64| match first_queue[node as usize] {
            NONE => NONE,
            first => first + (mix(hash, node) % u64::from(receive_queues[node as usize])) as u32,
        };
        let of_flow = |(flow, hash): (&knee_run::spec::Flow, &u64)| {
            let ends = [flow.from, flow.to].into_iter().filter(|node| has(*node));
            ends.map(|node| queue_of(node, *hash)).collect::<Vec<_>>()
        };
        let of_sock: Vec<u32> = run.flows.iter().zip(hashes).flat_map(of_flow).collect();
        let pings = run.pings.iter().zip(0u64..);
        let of_ping = pings
            .map(|(ping, number)| (queue_of(ping.to, number), queue_of(ping.from, number)))
            .collect();
        let last = Numbered::new(vec![(0, 0); of_sock.len()], socks);
        let of_sock = Numbered::new(of_sock, socks);
        Some(Box::new(Nics { hosts, queues, of_sock, of_ping, last, interrupt: 0 }))
    }

    /// Handles the arrival of a packet at its host.
    pub(crate) fn arrive(&mut self, packet: &Packet, now: Time, events: &mut Events) -> Arrival {
        let index = packet.to as usize;
        let is_ping = packet.has(flags::PING);
        let of_ping = |(request, echo)| if packet.has(flags::ACK) { echo } else { request };
        let number = if is_ping { of_ping(self.of_ping[index]) } else { self.of_sock[index] };
        if number == NONE {
            return Arrival::Passes;
        }
        let queue = &mut self.queues[number as usize];
        let host = &mut self.hosts[queue.host as usize];
        host.wire_pkts += 1;
        if !is_ping && !packet.has(flags::TRIMMED) {
            let payload_bytes = packet.payload_bytes();
            host.payload_bytes += u64::from(payload_bytes);
            let is_ack = payload_bytes == 0 && !packet.has(flags::SYN);
            host.acks += u64::from(is_ack);
        }
        let Some(ring) = &mut queue.ring else {
            host.interrupts += 1;
            return Arrival::Passes;
        };
        if ring.add(*packet, packet.wire_bytes, now) {
            return Arrival::Interrupt(number);
        }
        ring.schedule(Event::Interrupt { queue: number }, events);
        Arrival::Waits
    }

    /// Handles an event of a queue. Returns whether its interrupt is due.
    pub(crate) fn is_due(&mut self, number: u32, now: Time, events: &mut Events) -> bool {
        let ring = self.queues[number as usize].ring.as_mut();
        ring.is_some_and(|ring| ring.is_due(now, Event::Interrupt { queue: number }, events))
    }

    /// Takes all packets of a queue at its interrupt. Returns whether they are to be merged.
    pub(crate) fn take(&mut self, number: u32, now: Time) -> (Vec<Packet>, bool) {
        let queue = &mut self.queues[number as usize];
        let host = &mut self.hosts[queue.host as usize];
        host.interrupts += 1;
        (queue.ring.as_mut().map(|ring| ring.take(now)).unwrap_or_default(), host.merges)
    }

    /// Merges consecutive packets of the same socket if GRO allows it.
    pub(crate) fn merge(&mut self, number: u32, packets: &mut Vec<Packet>, socks: &Numbered<Sock>) {
        self.interrupt += 1;
        let mut kept: usize = 0;
        for at in 0..packets.len() {
            let packet = packets[at];
            if !packet.has(flags::PING | flags::TRIMMED) {
                let (interrupt, last) = &mut self.last[packet.to as usize];
                if *interrupt == self.interrupt
                    && socks[packet.to as usize].joins(&mut packets[*last as usize], &packet)
                {
                    continue;
                }
                (*interrupt, *last) = (self.interrupt, kept as u32);
            }
            packets[kept] = packet;
            kept += 1;
        }
        let host = self.queues[number as usize].host;
        self.hosts[host as usize].merged_away += (packets.len() - kept) as u64;
        packets.truncate(kept);
    }

    /// Takes back the vector of an interrupt for reuse.
    pub(crate) fn give_back(&mut self, number: u32, packets: Vec<Packet>) {
        if let Some(ring) = &mut self.queues[number as usize].ring {
            ring.give_back(packets);
        }
    }

    /// Returns the counts of each host.
    pub(crate) fn counts(
        &self,
        hosts: &[Option<Rc<HostState>>],
        socks: &Numbered<Sock>,
        run: &Run,
    ) -> Vec<HostCount> {
        let mut sent = vec![(0u64, 0u64); hosts.len()];
        for (place, sock) in socks.iter().enumerate() {
            let number = socks.number(place);
            let flow = &run.flows[number as usize / 2];
            let node = if number % 2 == 0 { flow.from } else { flow.to };
            let (acks, bursts) = &mut sent[node as usize];
            *acks += sock.counters.acks_sent;
            *bursts += sock.counters.bursts;
        }
        let of_host = |nic: &NicHost| {
            let node = nic.node as usize;
            let windows = hosts[node].as_ref().map(|host| host.gro.get()).unwrap_or_default();
            let merged_pkts = nic.wire_pkts - nic.merged_away - windows.merged_away;
            let interrupts = nic.interrupts - windows.held + windows.ended;
            let (acks_sent, bursts) = sent[node];
            let cpu_ps = nic.cpu.map(|cpu| {
                let ps = |cost: Duration, count: u64| u128::from(cost.ps()) * u128::from(count);
                ps(cpu.per_interrupt, interrupts)
                    + ps(cpu.per_packet, nic.wire_pkts)
                    + ps(cpu.per_merged, merged_pkts)
                    + ps(cpu.per_ack, nic.acks)
                    + ps(cpu.per_ack_sent, acks_sent)
                    + ps(cpu.per_burst, bursts)
                    + ps(cpu.per_byte, nic.payload_bytes)
            });
            HostCount {
                node: nic.node,
                received: Received {
                    wire_pkts: Some(nic.wire_pkts),
                    merged_pkts: Some(merged_pkts),
                    interrupts: Some(interrupts),
                    cpu_ns: cpu_ps.map(|ps| (ps / 1000) as u64),
                },
                ..HostCount::default()
            }
        };
        self.hosts.iter().map(of_host).collect()
    }
}

/// Counts of GRO with a time window, over all sockets of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowMerges {
    /// Packets that entered a window.
    pub(crate) held: u64,
    /// Packets of these that were merged into others.
    pub(crate) merged_away: u64,
    pub(crate) ended: u64,
}

//! How a host receives: its NIC's queues, interrupts that wait for more packets (coalescing), merging of what one
//! interrupt brings (GRO), and an account of the CPU time of it all.
//!
//! A packet that has reached its host goes into the receive queue that its flow's hash picks. The interrupt of a queue comes
//! when as many packets wait as `frames` says, or `time` after the first of them, and hands over all that wait, in order.
//! A host without any of it is not known here, and its packets reach TCP as they come.

use crate::events::{Event, Events};
use crate::outcome::{HostCount, Received};
use crate::packet::{Packet, flags};
use crate::routes::mix;
use crate::spec::{HostConfig, NodeId, Run};
use crate::tcp::{HostState, Sock};
use knee_queue::time::{Duration, PS_PER_S, Time};
use std::rc::Rc;

/// A socket or ping without a queue.
const NONE: u32 = u32::MAX;
/// Packets no longer than this on average are not worth waiting for (mlx4's `AVG_PKT_SMALL`).
const SMALL_PACKET_BYTES: u64 = 256;

/// When a NIC's receive queue raises its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// As soon as so many packets wait (`rx-frames`); `None`: time alone decides.
    pub frames: Option<u32>,
    /// So long after the first of them (`rx-usecs`).
    pub time: Duration,
    /// The time follows the packet rate.
    pub adaptive: Option<Adaptive>,
}

/// Adaptive coalescing by packet rate, as `ethtool -C` has it (`pkt-rate-low`, `pkt-rate-high`) and Linux's mlx4 fills it in:
/// up to the low rate the interrupt comes at once, from the high rate on after [`Coalesce::time`], between them after a
/// time that grows in proportion. Packets that are short on average count as a low rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Packets per second of a queue.
    pub rate_low: u64,
    /// Packets per second of a queue.
    pub rate_high: u64,
    /// The rate is that of a period of at least this length; the packet that comes after it ends it.
    pub interval: Duration,
}

impl Default for Adaptive {
    /// mlx4's: 400,000 and 450,000 packets per second, looked at four times a second.
    fn default() -> Adaptive {
        Adaptive { rate_low: 400_000, rate_high: 450_000, interval: Duration::from_ms(250) }
    }
}

impl Adaptive {
    /// The time at a rate.
    fn time(&self, most: Duration, pkts: u64, bytes: u64, elapsed: Duration) -> Duration {
        if bytes <= pkts * SMALL_PACKET_BYTES {
            return Duration::ZERO;
        }
        let rate = u128::from(pkts) * u128::from(PS_PER_S) / u128::from(elapsed.ps().max(1));
        let (low, high) = (u128::from(self.rate_low), u128::from(self.rate_high));
        if rate <= low {
            Duration::ZERO
        } else if rate >= high {
            most
        } else {
            Duration::from_ps((u128::from(most.ps()) * (rate - low) / (high - low)) as u64)
        }
    }
}

/// CPU time that a host's networking takes, by what it does; applications are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCosts {
    /// Each interrupt of a receive queue, with the poll that it begins.
    pub per_interrupt: Duration,
    /// Each packet taken from the wire.
    pub per_packet: Duration,
    /// Each packet that reaches IP and TCP: merged ones are one.
    pub per_merged: Duration,
    /// Each pure ACK received, with what TCP then sends.
    pub per_ack: Duration,
    /// Each pure ACK sent.
    pub per_ack_sent: Duration,
    /// Each burst handed to the device.
    pub per_burst: Duration,
    /// Each byte of payload received.
    pub per_byte: Duration,
}

impl Default for CpuCosts {
    /// Fitted to the measurements in docs/ce-price.md, as docs/receiving.md says.
    fn default() -> CpuCosts {
        CpuCosts {
            per_interrupt: Duration::from_ns(10_600),
            per_packet: Duration::from_ns(760),
            per_merged: Duration::ZERO,
            per_ack: Duration::from_ns(2900),
            per_ack_sent: Duration::from_ns(2100),
            per_burst: Duration::ZERO,
            per_byte: Duration::ZERO,
        }
    }
}

/// What of receiving depends on time.
#[derive(Debug)]
struct RxQueue {
    /// Index of its host in [`Nics::hosts`].
    host: u32,
    pending: Vec<Packet>,
    /// When the interrupt comes; [`Time::MAX`]: nothing waits.
    due: Time,
    /// An event is scheduled for then.
    event_at: Time,
    /// How long the first of the packets waits; follows the rate where that is asked for.
    time: Duration,
    /// The period whose rate is being measured.
    since: Time,
    pkts: u64,
    bytes: u64,
}

/// A host that receives otherwise than packet by packet, or whose receiving is counted.
#[derive(Debug)]
struct NicHost {
    node: NodeId,
    coalesce: Option<Coalesce>,
    merges: bool,
    cpu: Option<CpuCosts>,
    wire_pkts: u64,
    acks: u64,
    payload_bytes: u64,
    interrupts: u64,
    /// Packets that were merged into others at an interrupt.
    merged_away: u64,
}

/// All NICs of a run.
#[derive(Debug)]
pub(crate) struct Nics {
    hosts: Vec<NicHost>,
    queues: Vec<RxQueue>,
    /// The queue of each socket, and of the requests and echoes of each ping stream.
    of_sock: Vec<u32>,
    of_ping: Vec<(u32, u32)>,
    /// Where the last packet of each socket is in what an interrupt brings, and of which interrupt that was said.
    last: Vec<(u64, u32)>,
    interrupt: u64,
}

/// What becomes of a packet that has reached its host.
pub(crate) enum Arrival {
    /// It goes on to TCP.
    Passes,
    /// It waits for an interrupt.
    Waits,
    /// The interrupt of this queue comes now.
    Interrupt(u32),
}

fn is_counted(config: &HostConfig) -> bool {
    config.coalesce.is_some() || config.cpu.is_some() || config.gro_window > Duration::ZERO
}

impl Nics {
    /// `None` if all hosts receive packet by packet and nobody counts. `hashes` has one hash for each flow.
    pub(crate) fn new(run: &Run, hashes: &[u64]) -> Option<Box<Nics>> {
        let mut first_queue = vec![NONE; run.network.nodes.len()];
        let mut receive_queues = vec![1; run.network.nodes.len()];
        let (mut hosts, mut queues) = (Vec::new(), Vec::new());
        for (node, config) in (0..).zip(run.network.nodes.iter().map(|node| node.host.as_ref())) {
            let Some(config) = config.filter(|config| is_counted(config)) else { continue };
            first_queue[node as usize] = queues.len() as u32;
            receive_queues[node as usize] = config.receive_queues;
            let time = match config.coalesce {
                // Nothing is known of the rate yet.
                Some(Coalesce { adaptive: Some(_), .. }) | None => Duration::ZERO,
                Some(coalesce) => coalesce.time,
            };
            queues.extend((0..config.receive_queues).map(|_| RxQueue {
                host: hosts.len() as u32,
                pending: Vec::new(),
                due: Time::MAX,
                event_at: Time::MAX,
                time,
                since: Time::ZERO,
                pkts: 0,
                bytes: 0,
            }));
            hosts.push(NicHost {
                node,
                coalesce: config.coalesce,
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
        let of_flow = |(flow, hash): (&crate::spec::Flow, &u64)| {
            [queue_of(flow.from, *hash), queue_of(flow.to, *hash)]
        };
        let of_sock: Vec<u32> = run.flows.iter().zip(hashes).flat_map(of_flow).collect();
        let pings = run.pings.iter().zip(0u64..);
        let of_ping = pings
            .map(|(ping, number)| (queue_of(ping.to, number), queue_of(ping.from, number)))
            .collect();
        let last = vec![(0, 0); of_sock.len()];
        Some(Box::new(Nics { hosts, queues, of_sock, of_ping, last, interrupt: 0 }))
    }

    /// A packet has reached its host.
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
        if !is_ping {
            let payload_bytes = packet.payload_bytes();
            host.payload_bytes += u64::from(payload_bytes);
            let is_ack = payload_bytes == 0 && !packet.has(flags::SYN);
            host.acks += u64::from(is_ack);
        }
        let Some(coalesce) = host.coalesce else {
            host.interrupts += 1;
            return Arrival::Passes;
        };
        if let Some(adaptive) = coalesce.adaptive {
            queue.adapt(packet.wire_bytes, coalesce.time, adaptive, now);
        }
        if queue.pending.is_empty() {
            queue.due = now + queue.time;
        }
        queue.pending.push(*packet);
        let is_full = coalesce.frames.is_some_and(|frames| queue.pending.len() >= frames as usize);
        if is_full || queue.due <= now {
            return Arrival::Interrupt(number);
        }
        queue.schedule(number, events);
        Arrival::Waits
    }

    /// An event of a queue came: whether its interrupt is due.
    pub(crate) fn is_due(&mut self, number: u32, now: Time, events: &mut Events) -> bool {
        let queue = &mut self.queues[number as usize];
        if queue.event_at != now {
            return false;
        }
        queue.event_at = Time::MAX;
        if queue.due > now {
            // What it was for has been handed over, and other packets wait meanwhile, or none.
            if queue.due != Time::MAX {
                queue.schedule(number, events);
            }
            return false;
        }
        true
    }

    /// The interrupt of a queue: all that waits, and whether what belongs together is merged.
    pub(crate) fn take(&mut self, number: u32) -> (Vec<Packet>, bool) {
        let queue = &mut self.queues[number as usize];
        queue.due = Time::MAX;
        let host = &mut self.hosts[queue.host as usize];
        host.interrupts += 1;
        (std::mem::take(&mut queue.pending), host.merges)
    }

    /// Merges packets of the same socket that follow each other, where these may be (GRO).
    pub(crate) fn merge(&mut self, number: u32, packets: &mut Vec<Packet>, socks: &[Sock]) {
        self.interrupt += 1;
        let mut kept: usize = 0;
        for at in 0..packets.len() {
            let packet = packets[at];
            if !packet.has(flags::PING) {
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

    /// Gives back the room of what an interrupt brought, for the next one.
    pub(crate) fn give_back(&mut self, number: u32, mut packets: Vec<Packet>) {
        packets.clear();
        self.queues[number as usize].pending = packets;
    }

    /// What each host counted. `nodes` has the host of each socket.
    pub(crate) fn counts(
        &self,
        hosts: &[Option<Rc<HostState>>],
        socks: &[Sock],
        run: &Run,
    ) -> Vec<HostCount> {
        let nodes: Vec<NodeId> = run.flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
        let mut sent = vec![(0u64, 0u64); hosts.len()];
        for (sock, node) in socks.iter().zip(nodes) {
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

impl RxQueue {
    fn schedule(&mut self, number: u32, events: &mut Events) {
        if self.due < self.event_at {
            self.event_at = self.due;
            events.push(self.due, Event::Interrupt { queue: number });
        }
    }

    /// Counts a packet, and sets the time if a period of measurement is over.
    fn adapt(&mut self, wire_bytes: u32, most: Duration, adaptive: Adaptive, now: Time) {
        let elapsed = now.since(self.since);
        if elapsed >= adaptive.interval {
            self.time = adaptive.time(most, self.pkts, self.bytes, elapsed);
            (self.since, self.pkts, self.bytes) = (now, 0, 0);
        }
        self.pkts += 1;
        self.bytes += u64::from(wire_bytes);
    }
}

/// Merging by a window of time, of all sockets of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowMerges {
    /// Packets that a window took.
    pub(crate) held: u64,
    /// Of these, merged into others.
    pub(crate) merged_away: u64,
    /// Windows that ended.
    pub(crate) ended: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_time_grows_between_the_rates() {
        let adaptive = Adaptive::default();
        let most = Duration::from_us(128);
        let time = |pkts| adaptive.time(most, pkts, pkts * 1500, Duration::from_ms(250));
        // 100,000 packets in 250 ms are 400,000 a second, 112,500 are 450,000.
        assert_eq!(time(100_000), Duration::ZERO);
        assert_eq!(time(106_250), Duration::from_us(64));
        assert_eq!(time(112_500), most);
        assert_eq!(time(250_000), most);
        let of_acks = adaptive.time(most, 250_000, 250_000 * 66, Duration::from_ms(250));
        assert_eq!(of_acks, Duration::ZERO);
    }
}

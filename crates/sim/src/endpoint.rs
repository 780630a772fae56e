//! One TCP end point without a network. The caller is its peer and sees each segment when it
//! leaves.

use crate::clock::Jiffies;
use crate::events::{Event, Events};
use crate::link::LinkState;
use crate::modules;
use crate::net::{Net, PATH_END};
use crate::numbered::Numbered;
use crate::packet::{HEADER_BYTES, NO_SACKS, Packet, Packets, Tos, flags};
use crate::paths::Paths;
use crate::tcp::{HostState, Place, Sock, State};
use knee_queue::time::{Duration, Time};
use knee_queue::{DropTailConfig, Limit, QueueConfig};
use knee_run::Error;
use knee_run::outcome::{FlowSample, Work};
use knee_run::routes::Routes;
use knee_run::spec::{Cable, Cc, HostConfig, Link, Network, Node};
use knee_units::Random;
use knee_wire::Segment;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Flags that the simulator's packets have, with their bit in the header.
const FLAGS: [(u16, u16); 9] = [
    (flags::SYN, Segment::SYN),
    (flags::ACK, Segment::ACK),
    (flags::PSH, Segment::PSH),
    (flags::ECE, Segment::ECE),
    (flags::CWR, Segment::CWR),
    (flags::FIN, Segment::FIN),
    (flags::RST, Segment::RST),
    (flags::AE, Segment::AE),
    (flags::SACK_OK, 0),
];

/// The values of `TCP_INFO` that [`FlowSample`] does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Consecutive timeouts.
    pub retransmits: u32,
    /// Doublings of the retransmission timeout.
    pub backoff: u32,
    /// Unanswered window probes.
    pub probes: u32,
    /// Delayed-ACK time, us.
    pub ato_us: u32,
    /// Reordering degree, packets.
    pub reordering: u32,
    /// Bytes of the peer's stream received in order; the FIN counts as one.
    pub bytes_received: u64,
    /// Bytes written and not sent; the FIN counts as one.
    pub notsent_bytes: u32,
    /// Payload of a full segment, bytes.
    pub snd_mss: u32,
    /// Estimated payload of the peer's full segments, bytes.
    pub rcv_mss: u32,
    /// The largest window that the receiver offers, bytes.
    pub rcv_ssthresh: u32,
    /// The most bytes that the application read in a round trip.
    pub rcv_space: u32,
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Time since the last data arrived, us.
    pub last_data_recv_us: u64,
    /// Bytes in order that the application has not read.
    pub unread_bytes: u32,
}

/// The values that turn a socket's packets into segments: its initial sequence number and its SYN's
/// options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) iss: u32,
    pub(crate) mss_option: u16,
    pub(crate) window_scale: u8,
}

impl Numbers {
    /// Converts a packet that this socket sent to the other into a segment.
    pub(crate) fn segment(&self, packet: &Packet, to: &Numbers) -> Segment {
        let syn = packet.has(flags::SYN);
        let bits = FLAGS
            .iter()
            .filter(|(of_packet, _)| packet.has(*of_packet))
            .fold(0, |bits, (_, of_header)| bits | of_header);
        let relative = |number: u32, start: u32| number.wrapping_sub(start);
        Segment {
            flags: bits,
            ecn: packet.tos.ecn(),
            seq: relative(packet.seq, self.iss),
            len: packet.payload_bytes(),
            ack: if packet.has(flags::ACK) { relative(packet.ack_seq, to.iss) } else { 0 },
            window_bytes: packet.window_bytes,
            mss: syn.then_some(self.mss_option),
            window_scale: (syn && !packet.has(flags::NO_SCALE)).then_some(self.window_scale),
            sack_ok: packet.has(flags::SACK_OK),
            timestamps: (!packet.has(flags::NO_TS)).then_some((packet.ts_val, packet.ts_ecr)),
            sacks: packet
                .sacks()
                .iter()
                .map(|(start, end)| (relative(*start, to.iss), relative(*end, to.iss)))
                .collect(),
        }
    }
}

/// A socket of a host, with its own clock.
pub struct EndPoint {
    net: Net,
    sock: Sock,
    /// Initial sequence number of the socket, then the one given to its peer.
    iss: u32,
    peer_iss: u32,
}

impl EndPoint {
    /// Creates a closed socket. `seed` determines its initial sequence number and all other random
    /// values.
    ///
    /// # Errors
    /// If the algorithm is a module that cannot be loaded.
    pub fn new(config: HostConfig, cc: &Cc, seed: u64) -> Result<EndPoint, Error> {
        let mut random = Random::new(seed);
        let numbers = random.u64();
        let (iss, peer_iss) = (numbers as u32, (numbers >> 32) as u32);
        let jiffies = Jiffies::new(config.hz, config.jiffies_at_start.unwrap_or(0), Duration::ZERO);
        let modules = modules::of_host(&config);
        modules.load(cc.algorithm, &cc.params).map_err(|why| Error::Refused(why.to_string()))?;
        let config = Arc::new(config);
        let network = Network {
            nodes: ["host", "peer"]
                .map(|name| Node { name: name.to_owned(), host: Some(Arc::clone(&config)) })
                .into(),
            links: vec![wire()],
            ..Network::default()
        };
        let net = Net {
            now: Time::ZERO,
            events: Events::new(1_000_000),
            packets: Packets::default(),
            links: Numbered::whole(vec![LinkState::new(&network.links[0], 0, 0)]),
            paths: Paths::new([0, PATH_END].into()),
            routes: Some(Routes::new(&network)),
            cc: knee_algo::Host::new(1000, 0),
            seed: random.u64(),
            work: Work::default(),
            flow_control: None,
            balancer: None,
            ports: None,
            varies: false,
            reroutes: None,
            tap: None,
        };
        let host = Rc::new(HostState { config, jiffies, modules, gro: Cell::default() });
        let place = Place { id: 0, peer: 1, path: 0, base_rtt: None, dscp: 0 };
        let sock = Sock::new(&place, cc, host, iss);
        Ok(EndPoint { net, sock, iss, peer_iss })
    }

    /// Returns the clock. It only advances in [`EndPoint::next_segment`].
    pub fn now(&self) -> Time {
        self.net.now
    }

    /// Connects: a SYN leaves.
    pub fn connect(&mut self) {
        self.sock.connect(&mut self.net);
    }

    /// Waits for a SYN.
    pub fn listen(&mut self) {
        self.sock.listen();
    }

    /// Reports whether the connection is established and neither end has closed it.
    pub fn is_established(&self) -> bool {
        self.sock.state == State::Established
    }

    /// Reports whether a connection exists. It still exists if only one end has closed it.
    pub fn is_open(&self) -> bool {
        self.sock.state.is_synchronised()
    }

    /// Reports whether the application has read all data and the peer has closed.
    pub fn is_at_end(&self) -> bool {
        self.sock.has_read_all()
    }

    /// Closes the connection. All written data is sent first; unread data makes the close a reset.
    /// The socket answers what arrives after the end with RST.
    pub fn close(&mut self) {
        self.sock.close(&mut self.net);
    }

    /// Ends the writing half (`SHUT_WR`): all written data is sent first, and reading goes on.
    pub fn shut_down_writing(&mut self) {
        self.sock.shut_down_writing(&mut self.net);
    }

    /// Sets the payload of the segments of which longer ones of the peer are merged, bytes.
    pub fn set_merged_mss(&mut self, bytes: u16) {
        self.sock.receiver.merged_mss = bytes;
    }

    /// Sets `TCP_NODELAY`.
    pub fn set_no_delay(&mut self, on: bool) {
        self.sock.set_no_delay(on, &mut self.net);
    }

    /// Sets `TCP_CORK`.
    pub fn set_cork(&mut self, on: bool) {
        self.sock.set_cork(on, &mut self.net);
    }

    /// Sets `TCP_QUICKACK`.
    pub fn set_quick_ack(&mut self, on: bool) {
        self.sock.set_quick_ack(on, &mut self.net);
    }

    /// Sets `SO_RCVLOWAT`, bytes.
    pub fn set_receive_low_water(&mut self, bytes: u32) {
        self.sock.receiver.set_read_at(bytes);
    }

    /// Sets `SO_RCVBUF`, bytes as the application passes them; Linux doubles them.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.sock.set_rcvbuf(bytes);
    }

    /// Sets `SO_SNDBUF`, bytes as the application passes them; Linux doubles them.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        self.sock.set_sndbuf(bytes, &mut self.net);
    }

    /// Sets `SO_MAX_PACING_RATE`, bytes per second; all ones mean no limit.
    pub fn set_max_pacing_rate(&mut self, bytes_per_sec: u64) {
        self.sock.set_max_pacing_rate(bytes_per_sec);
    }

    /// Sets `TCP_CONGESTION`.
    ///
    /// # Errors
    /// If the algorithm is a module that cannot be loaded.
    pub fn set_congestion_control(&mut self, cc: &Cc) -> Result<(), Error> {
        let modules = &self.sock.host.modules;
        modules.load(cc.algorithm, &cc.params).map_err(|why| Error::Refused(why.to_string()))?;
        self.sock.set_congestion_control(cc, &mut self.net);
        Ok(())
    }

    /// Writes `bytes` more. Bytes for which there is no room wait.
    pub fn write(&mut self, bytes: u64) {
        self.sock.write(bytes, &mut self.net);
    }

    /// Writes `bytes` with `MSG_MORE`.
    pub fn write_before_more(&mut self, bytes: u64) {
        self.sock.write_before_more(bytes, &mut self.net);
    }

    /// Reads all available data. Returns the number of bytes.
    pub fn read(&mut self) -> u32 {
        self.read_at_most(u64::MAX)
    }

    /// Reads at most `bytes`. Returns the number of bytes.
    pub fn read_at_most(&mut self, bytes: u64) -> u32 {
        self.sock.read(bytes, &mut self.net)
    }

    /// Returns whether the application has read all that the peer sent, and its FIN came.
    pub fn has_read_all(&self) -> bool {
        self.sock.has_read_all()
    }

    /// Receives a segment of the peer.
    pub fn receive(&mut self, segment: &Segment) {
        let syn = segment.has(Segment::SYN);
        let fin = segment.has(Segment::FIN);
        let mut bits = if segment.sack_ok { flags::SACK_OK } else { 0 };
        if segment.timestamps.is_none() {
            bits |= flags::NO_TS;
        }
        if syn {
            if segment.window_scale.is_none() {
                bits |= flags::NO_SCALE;
            }
            if self.sock.is_connecting() {
                self.sock.set_peer_mss(segment.mss);
            }
        }
        for (of_packet, of_header) in FLAGS {
            if segment.has(of_header) {
                bits |= of_packet;
            }
        }
        let absolute = |(start, end): &(u32, u32)| {
            (self.iss.wrapping_add(*start), self.iss.wrapping_add(*end))
        };
        let sacks: Vec<_> = segment.sacks.iter().map(absolute).collect();
        let seq = self.peer_iss.wrapping_add(segment.seq);
        let (ts_val, ts_ecr) = segment.timestamps.unwrap_or_default();
        let mut packet = Packet {
            to: 0,
            hop: 1,
            wire_bytes: HEADER_BYTES + segment.len,
            seq,
            end_seq: seq.wrapping_add(segment.len + u32::from(syn) + u32::from(fin)),
            ack_seq: if segment.has(Segment::ACK) { self.iss.wrapping_add(segment.ack) } else { 0 },
            window_bytes: segment.window_bytes,
            ts_val,
            ts_ecr,
            flags: bits,
            tos: Tos::new(0, segment.ecn),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        packet.set_sacks(&sacks);
        self.sock.on_packet(&packet, &mut self.net);
    }

    /// Advances the clock until a segment leaves, or to `until`. The clock then stands at that
    /// time.
    pub fn next_segment(&mut self, until: Time) -> Option<Segment> {
        while let Some((at, event)) = self.net.events.pop(until) {
            self.net.now = at;
            match event {
                Event::Arrive { packet, .. } => {
                    let left = *self.net.packets.get(packet);
                    self.net.packets.free(packet);
                    return Some(self.segment(&left));
                }
                Event::Timer { timer, .. } => self.sock.on_timer(timer, &mut self.net),
                _ => {}
            }
        }
        self.net.now = self.net.now.max(until);
        None
    }

    /// Returns the number of events handled so far, which measures the work of a caller.
    pub fn events(&self) -> u64 {
        self.net.events.taken
    }

    /// Returns the values of `TCP_INFO` and of the algorithm.
    pub fn sample(&mut self) -> FlowSample {
        self.sock.sample(0, &mut self.net)
    }

    /// Returns the values of `TCP_INFO` that [`EndPoint::sample`] does not have.
    pub fn info(&self) -> Info {
        self.sock.info(&self.net)
    }

    /// Returns the name of the algorithm in use, which differs from the requested one after a
    /// fallback.
    pub fn algorithm(&self) -> &'static str {
        self.sock.algorithm_name()
    }

    fn segment(&self, packet: &Packet) -> Segment {
        let peer = Numbers { iss: self.peer_iss, mss_option: 0, window_scale: 0 };
        self.sock.numbers().segment(packet, &peer)
    }
}

/// A link without rate and delay, so that the caller sees segments at once.
fn wire() -> Link {
    let cable = Cable::new(None, QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(1) }));
    Link { from: 0, to: 1, parallel: 1, sampled: false, cable: cable.into() }
}

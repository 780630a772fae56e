//! Packets that a well-behaved peer never sends. Nothing panics, and the counts stay consistent.

use super::{HostState, Place, Sock, State};
use crate::clock::Jiffies;
use crate::events::{Event, Events};
use crate::link::LinkState;
use crate::net::{Net, PATH_END};
use crate::numbered::Numbered;
use crate::packet::{MAX_SACKS, NO_SACKS, Packet, Packets, Tos, flags};
use crate::paths::Paths;
use knee_algo::module::LoadedModules;
use knee_queue::time::{Duration, Rate, Time};
use knee_queue::{DropTailConfig, Ecn, Limit, QueueConfig};
use knee_run::outcome::Work;
use knee_run::routes::Routes;
use knee_run::spec::{Cable, Cc, HostConfig, Link, LinuxVersion, Network, Node};
use proptest::prelude::*;
use std::rc::Rc;

/// The next event of the socket. The numbers become sequence numbers close to those that it has
/// sent.
#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    Read(u64),
    Close,
    Option(u8, u32),
    Wait(u64),
    Segment {
        seq_offset: i32,
        len: u32,
        ack_offset: i32,
        flags: u16,
        ecn: u8,
        window: u32,
        sacks: Vec<(i32, i32)>,
        ts_offset: i32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let near = prop_oneof![
        4 => (-5i32..60).prop_map(|segments| segments * 1448),
        2 => -3_000i32..90_000,
        1 => any::<i32>(),
    ];
    let block = (near.clone(), near.clone());
    let segment = (
        prop_oneof![3 => Just(0i32), 1 => -3_000i32..20_000, 1 => any::<i32>()],
        prop_oneof![2 => Just(0u32), 2 => Just(1448), 1 => 1u32..1448],
        near,
        any::<u16>(),
        0u8..4,
        prop_oneof![4 => Just(1u32 << 20), 1 => 0u32..5_000, 1 => any::<u32>()],
        prop::collection::vec(block, 0..=MAX_SACKS),
        prop_oneof![4 => Just(0i32), 1 => any::<i32>()],
    );
    prop_oneof![
        2 => (1u32..300_000).prop_map(Step::Write),
        1 => prop_oneof![Just(u64::MAX), 1u64..5000].prop_map(Step::Read),
        1 => prop_oneof![
            1 => Just(Step::Close),
            6 => (any::<u8>(), any::<u32>()).prop_map(|(which, value)| Step::Option(which, value)),
        ],
        3 => (0u64..2_000_000).prop_map(Step::Wait),
        1 => (0u64..3_000_000_000).prop_map(Step::Wait),
        8 => segment.prop_map(
            |(seq_offset, len, ack_offset, flags, ecn, window, sacks, ts_offset)| Step::Segment {
                seq_offset, len, ack_offset, flags, ecn, window, sacks, ts_offset
            }
        ),
    ]
}

fn net() -> Net {
    let cable = Cable {
        delay: Duration::from_us(50),
        ..Cable::new(
            Rate::from_bps(1_000_000_000),
            QueueConfig::DropTail(DropTailConfig { limit: Limit::Pkts(30) }),
        )
    };
    let link = Link { from: 0, to: 1, parallel: 1, sampled: false, cable: cable.into() };
    let node = |name: &str| Node {
        name: name.to_owned(),
        host: Some(HostConfig::new(LinuxVersion(6, 1)).into()),
    };
    let network =
        Network { nodes: vec![node("a"), node("b")], links: vec![link], ..Network::default() };
    Net {
        now: Time::ZERO,
        events: Events::new(1_000_000),
        packets: Packets::default(),
        links: Numbered::whole(vec![LinkState::new(&network.links[0], 0, 0)]),
        paths: Paths::new([0, PATH_END].into()),
        routes: Some(Routes::new(&network)),
        seed: 1,
        cc: knee_algo::Host::new(1000, 0),
        work: Work::default(),
        flow_control: None,
        balancer: None,
        ports: None,
        varies: false,
        reroutes: None,
        tap: None,
    }
}

struct Bench {
    net: Net,
    sock: Sock,
    peer_seq: u32,
}

impl Bench {
    fn new(algorithm: &str, config: HostConfig, iss: u32) -> Bench {
        let no_timestamps = iss % 8 == 0;
        let mut net = net();
        let jiffies = Jiffies::new(config.hz, 7, Duration::ZERO);
        let host = Rc::new(HostState {
            config: config.into(),
            jiffies,
            modules: LoadedModules::default(),
            gro: Default::default(),
        });
        let place = Place { id: 0, peer: 1, path: 0, base_rtt: None, dscp: 0 };
        let cc = Cc::by_name(algorithm).unwrap();
        let mut sock = Sock::new(&place, &cc, host, iss);
        sock.connect(&mut net);
        let mut bench = Bench { net, sock, peer_seq: iss.wrapping_mul(3) };
        bench.run_until(Time::from_us(200));
        let syn_ack = Packet {
            seq: bench.peer_seq,
            end_seq: bench.peer_seq.wrapping_add(1),
            ack_seq: iss.wrapping_add(1),
            flags: flags::SYN
                | flags::ACK
                | flags::SACK_OK
                | flags::ECE
                | if no_timestamps { flags::NO_TS } else { 0 },
            ..bench.packet()
        };
        bench.sock.on_packet(&syn_ack, &mut bench.net);
        assert_eq!(bench.sock.state, State::Established);
        bench.peer_seq = bench.peer_seq.wrapping_add(1);
        bench
    }

    fn packet(&self) -> Packet {
        Packet {
            to: 0,
            hop: 0,
            wire_bytes: 66,
            seq: self.peer_seq,
            end_seq: self.peer_seq,
            ack_seq: self.sock.tp.snd_una,
            window_bytes: 1 << 20,
            ts_val: self.sock.ts_now(),
            ts_ecr: self.sock.ts_now(),
            flags: flags::ACK,
            tos: Tos::new(0, Ecn::Ect0),
            sacks_len: 0,
            sacks: NO_SACKS,
        }
    }

    /// Lets timers fire and discards the packets that leave.
    fn run_until(&mut self, until: Time) {
        let mut events = 0;
        while let Some((at, event)) = self.net.events.pop(until) {
            self.net.now = at;
            events += 1;
            assert!(events < 200_000, "a timer fires for ever");
            match event {
                Event::Arrive { packet, .. } => self.net.packets.free(packet),
                Event::Timer { timer, .. } => self.sock.on_timer(timer, &mut self.net),
                _ => {}
            }
        }
        self.net.now = until;
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Write(bytes) => self.sock.write(u64::from(*bytes), &mut self.net),
            Step::Read(most) => {
                self.sock.read(*most, &mut self.net);
            }
            Step::Close => self.sock.close(&mut self.net),
            Step::Option(which, value) => self.set_option(*which, *value),
            Step::Wait(ns) => self.run_until(self.net.now + Duration::from_ns(*ns)),
            Step::Segment {
                seq_offset,
                len,
                ack_offset,
                flags: bits,
                ecn,
                window,
                sacks,
                ts_offset,
            } => {
                let una = self.sock.tp.snd_una;
                let seq = self.sock.tp.rcv_nxt.wrapping_add_signed(*seq_offset);
                let mut packet = self.packet();
                packet.seq = seq;
                let bits = *bits;
                let fin = bits & 0x0700 == 0x0700;
                packet.end_seq = seq.wrapping_add(*len + u32::from(fin));
                packet.wire_bytes = 66 + len;
                packet.ack_seq = una.wrapping_add_signed(*ack_offset);
                packet.window_bytes = *window;
                packet.flags = (bits & (flags::PSH | flags::ECE | flags::CWR)) | flags::ACK;
                if fin {
                    packet.flags |= flags::FIN;
                } else if bits & 0xe0 == 0xe0 {
                    packet.flags |= flags::SYN;
                    packet.end_seq = seq.wrapping_add(1);
                } else if bits & 0xf800 == 0xf800 {
                    packet.flags |= flags::RST;
                }
                if bits & 0x7000 == 0x7000 {
                    packet.flags |= flags::NO_TS;
                }
                if bits & 0x3800 == 0x3800 {
                    packet.flags &= !flags::ACK;
                }
                packet.tos.set_ecn([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(*ecn)]);
                packet.ts_ecr = packet.ts_ecr.wrapping_add_signed(*ts_offset);
                let ranges: Vec<_> = sacks
                    .iter()
                    .map(|(start, end)| {
                        (una.wrapping_add_signed(*start), una.wrapping_add_signed(*end))
                    })
                    .collect();
                packet.set_sacks(&ranges);
                self.sock.on_packet(&packet, &mut self.net);
            }
        }
        self.check();
    }

    fn set_option(&mut self, which: u8, value: u32) {
        let (sock, net) = (&mut self.sock, &mut self.net);
        match which % 8 {
            0 => sock.set_no_delay(value % 2 == 0, net),
            1 => sock.set_cork(value % 2 == 0, net),
            2 => sock.set_quick_ack(value % 2 == 0, net),
            3 => sock.set_rcvbuf(value),
            4 => sock.set_sndbuf(value, net),
            5 => sock.set_max_pacing_rate(u64::from(value) + 1000),
            6 => sock.receiver.set_read_at(value),
            _ => {
                let names = ["reno", "cubic", "dctcp", "bbr"];
                let cc = Cc::by_name(names[value as usize % names.len()]).unwrap();
                sock.set_congestion_control(&cc, net);
            }
        }
    }

    fn check(&self) {
        let tp = &self.sock.tp;
        assert_eq!(tp.packets_out as usize, self.sock.rtx.len());
        assert!(tp.snd_cwnd >= 1 && tp.snd_cwnd < 1 << 30, "cwnd {}", tp.snd_cwnd);
        let (mut sacked, mut lost, mut retrans) = (0, 0, 0);
        for offset in 0..self.sock.rtx.len() as u32 {
            let segment = self.sock.rtx.get(self.sock.rtx.first_id().wrapping_add(offset));
            sacked += u32::from(segment.has(super::rtx_queue::mark::SACKED));
            lost += u32::from(segment.has(super::rtx_queue::mark::LOST));
            retrans += u32::from(segment.has(super::rtx_queue::mark::RETRANS));
        }
        assert_eq!((lost, retrans), (tp.lost_out, tp.retrans_out));
        // Without SACK, `sacked_out` counts duplicate ACKs.
        assert!(!self.sock.receiver.peer_sack || sacked == tp.sacked_out);
        assert!(tp.sacked_out + tp.lost_out <= tp.packets_out);
    }
}

proptest! {
    #[test]
    fn no_sequence_of_packets_and_timers_breaks_a_socket(
        steps in prop::collection::vec(step(), 1..80),
        algorithm in prop::sample::select(vec!["reno", "cubic", "dctcp"]),
        iss in any::<u32>(),
        gso in any::<bool>(),
        newer in any::<bool>(),
        sack in any::<bool>(),
    ) {
        let version = if newer { LinuxVersion(6, 18) } else { LinuxVersion(6, 1) };
        let config = HostConfig {
            tcp_ecn: 1,
            sack,
            ipv6: iss % 2 == 0,
            gso_max_segs: if gso { 44 } else { 1 },
            gro_window: Duration::from_us(if gso { 20 } else { 0 }),
            ..HostConfig::new(version)
        };
        let mut bench = Bench::new(algorithm, config, iss);
        bench.check();
        for step in &steps {
            bench.apply(step);
        }
        bench.run_until(bench.net.now + Duration::from_ms(5_000));
        bench.check();
    }
}

//! Any bytes as what happens to a TCP end point: segments with any numbers, its application's calls, time. It never panics, never spins,
//! and sends no byte that nobody has written.
#![no_main]

use knee_algo::Algorithm;
use knee_fuzz::Numbers;
use knee_queue::Ecn;
use knee_queue::time::Duration;
use knee_run::spec::{Cc, Coalesce, HostConfig, LinuxVersion};
use knee_sim::endpoint::EndPoint;
use knee_wire::Segment;

/// Segments that leave in one step at most: more would be sent for ever.
const MOST_SEGMENTS: usize = 20_000;
/// In all, so that a case takes milliseconds.
const MOST_EVENTS: u64 = 100_000;

fn config(numbers: &mut Numbers<'_>) -> HostConfig {
    let linux = numbers.one_of(&[LinuxVersion(6, 1), LinuxVersion(6, 12), LinuxVersion(6, 18)]);
    let (bits, more) = (numbers.u8(), numbers.u8());
    let is = |bit: u8| bits >> bit & 1 == 1;
    let mut config = HostConfig {
        hz: numbers.one_of(&[1000, 100, 250, 300]),
        jiffies_at_start: Some(numbers.edgy()),
        tcp_ecn: bits & 3,
        syn_ect: is(2),
        ipv6: is(3),
        sack: !is(4),
        fq: is(5),
        slow_start_after_idle: is(6),
        mtu_bytes: numbers.one_of(&[1500, 1052, 160, 9000]),
        gso_max_segs: numbers.one_of(&[1, 2, 44]),
        gro_window: Duration::from_us(numbers.one_of(&[0, 20, 1000])),
        initial_cwnd_pkts: numbers.one_of(&[10, 1, 2, 100]),
        rto_min: Duration::from_ms(numbers.one_of(&[200, 5, 1000])),
        rcvbuf_initial_bytes: numbers.one_of(&[131_072, 4096, 20_000]),
        sndbuf_max_bytes: numbers.one_of(&[None, None, Some(20_000), Some(4 << 20)]),
        base_rtt: is(7).then(|| Duration::from_us(u64::from(numbers.edgy()) + 1)),
        coalesce: None::<Coalesce>,
        ..HostConfig::new(linux)
    };
    config.defects.stale_special_ack = more & 1 != 0;
    config.defects.special_ack_cancels_delack = more & 2 != 0;
    config.defects.no_ack_on_cwr = more & 4 != 0;
    config.defects.no_immediate_ack_on_ce_change = more & 8 != 0;
    config.sysctls.timestamps = more & 16 == 0;
    config.sysctls.frto = if more & 32 == 0 { 2 } else { 0 };
    config.sysctls.moderate_rcvbuf = more & 64 == 0;
    config.sysctls.thin_linear_timeouts = more & 128 != 0;
    config
}

struct Bench<'a> {
    numbers: Numbers<'a>,
    end: EndPoint,
    /// Bytes that the application wrote.
    written: u64,
    /// Behind the last byte that has left, and the last that was acknowledged.
    sent: u32,
    acked: u32,
}

impl Bench<'_> {
    fn cc(numbers: &mut Numbers<'_>) -> Cc {
        Cc::new(&Algorithm::all()[usize::from(numbers.u8()) % Algorithm::all().len()])
    }

    /// Lets so much time pass.
    fn wait(&mut self, time: Duration) {
        let until = self.end.now() + time;
        for _ in 0..MOST_SEGMENTS {
            let before = self.end.now();
            let Some(segment) = self.end.next_segment(until) else { return };
            assert!(self.end.now() >= before, "time runs back");
            self.look_at(&segment);
            if self.end.events() > MOST_EVENTS {
                return;
            }
        }
        panic!("{MOST_SEGMENTS} segments left within {time:?}");
    }

    fn look_at(&mut self, segment: &Segment) {
        if segment.has(Segment::RST) {
            return;
        }
        let end = segment.seq.wrapping_add(segment.len);
        // The SYN is byte 0.
        let is_data = segment.len > 0 && !segment.has(Segment::SYN);
        if is_data {
            assert!(u64::from(end) <= self.written + 1, "{segment:?} of {} bytes", self.written);
            self.sent = self.sent.max(end);
        }
        if segment.has(Segment::FIN) {
            self.sent = self.sent.max(end.wrapping_add(1));
        }
        for (start, end) in &segment.sacks {
            assert!(end.wrapping_sub(*start) as i32 > 0, "{segment:?}");
        }
    }

    fn segment(&mut self) {
        let what = self.numbers.u8();
        let tick = (self.end.now().us() / 1000) as u32;
        let mut segment = Segment {
            flags: Segment::ACK,
            ecn: Ecn::from_tos(what >> 6),
            seq: self.acked,
            window_bytes: 1 << 20,
            timestamps: Some((tick, tick)),
            ..Segment::default()
        };
        match what % 16 {
            // Of what was sent: all, some, a duplicate.
            0..=2 => segment.ack = self.sent,
            3 => segment.ack = self.sent.wrapping_sub(self.numbers.u32() % 100_000),
            4 => {
                segment.ack = self.sent / 2;
                let start = segment.ack.wrapping_add(self.numbers.edgy().wrapping_mul(100));
                segment.sacks =
                    vec![(start, start.wrapping_add(self.numbers.edgy().wrapping_mul(100)))];
            }
            // Data in order, or behind a gap.
            5 | 6 => segment.len = u32::from(self.numbers.u16()) % 9000,
            7 => {
                segment.seq = segment.seq.wrapping_add(self.numbers.edgy().wrapping_mul(100));
                segment.len = 1000;
            }
            8 => {
                segment.flags = self.numbers.one_of(&[Segment::SYN, Segment::SYN | Segment::ACK])
                    | if self.numbers.is_odd() { Segment::ECE | Segment::CWR } else { 0 };
                (segment.seq, segment.ack) = (0, 1);
                segment.mss = Some(self.numbers.one_of(&[1460, 1012, 536, 88, 65_535]));
                segment.window_scale = self.numbers.one_of(&[None, Some(0), Some(7), Some(14)]);
                segment.sack_ok = self.numbers.is_odd();
            }
            9 => segment.flags |= Segment::FIN,
            10 => segment.flags |= self.numbers.one_of(&[Segment::ECE, Segment::CWR, Segment::PSH]),
            11 => segment.window_bytes = self.numbers.edgy(),
            12 => segment.flags |= Segment::RST,
            _ => {
                segment.flags = self.numbers.u16() % 512;
                segment.seq = segment.seq.wrapping_add(self.numbers.edgy());
                segment.ack = self.sent.wrapping_sub(self.numbers.edgy());
                segment.len = self.numbers.edgy() % 65_000;
                segment.window_bytes = self.numbers.edgy();
                segment.timestamps = self
                    .numbers
                    .is_odd()
                    .then(|| (tick.wrapping_add(self.numbers.edgy()), self.numbers.edgy()));
                for _ in 0..self.numbers.u8() % 5 {
                    segment.sacks.push((self.numbers.edgy(), self.numbers.edgy()));
                }
            }
        }
        // What was not yet received in order is told by its own ACKs; near enough for what comes next.
        if segment.seq == self.acked && segment.len < 10_000 {
            let fin_or_syn = u32::from(segment.flags & (Segment::FIN | Segment::SYN) != 0);
            self.acked = self.acked.wrapping_add(segment.len + fin_or_syn);
        }
        self.end.receive(&segment);
    }

    fn option(&mut self) {
        let value = self.numbers.edgy();
        match self.numbers.u8() % 8 {
            0 => self.end.set_no_delay(value % 2 == 0),
            1 => self.end.set_cork(value % 2 == 0),
            2 => self.end.set_quick_ack(value % 2 == 0),
            3 => self.end.set_receive_buffer(value),
            4 => self.end.set_send_buffer(value),
            5 => self.end.set_max_pacing_rate(u64::from(value) + 1000),
            6 => self.end.set_receive_low_water(value),
            _ => {
                let cc = Bench::cc(&mut self.numbers);
                self.end.set_congestion_control(&cc).expect("it is no module");
            }
        }
    }

    fn step(&mut self) {
        match self.numbers.u8() % 16 {
            0..=7 => self.segment(),
            8 | 9 => {
                let bytes = u64::from(self.numbers.edgy() % 300_000);
                if self.written + bytes < 4_000_000 {
                    self.written += bytes;
                    self.end.write(bytes);
                }
            }
            10 => _ = self.end.read_at_most(u64::from(self.numbers.edgy())),
            11 => {
                let us = self.numbers.u16();
                self.wait(Duration::from_us(u64::from(us)));
            }
            12 => {
                let ms = self.numbers.u16();
                self.wait(Duration::from_ms(u64::from(ms)));
            }
            13 => self.option(),
            14 if self.numbers.u8() % 8 == 0 => self.end.close(),
            _ => {
                let diag = self.end.sample().diag;
                let info = self.end.info();
                assert!(diag.len() < 64 && info.snd_mss > 0);
            }
        }
    }
}

knee_fuzz::target!(|bytes: &[u8]| {
    let mut numbers = Numbers(bytes);
    let (config, cc) = (config(&mut numbers), Bench::cc(&mut numbers));
    let connects = numbers.is_odd();
    let mut end = EndPoint::new(config, &cc, u64::from(numbers.u8())).expect("it is no module");
    if connects {
        end.connect()
    } else {
        end.listen()
    }
    let mut bench = Bench { numbers, end, written: 0, sent: 1, acked: 0 };
    bench.wait(Duration::from_ms(1));
    // Mostly an established connection is more interesting than none.
    if bench.numbers.u8() % 8 != 0 {
        let flags = if connects { Segment::SYN | Segment::ACK } else { Segment::SYN };
        let (mss, window_scale) = (Some(1460), Some(7));
        let ack = u32::from(connects);
        let opening = Segment {
            flags,
            ack,
            mss,
            window_scale,
            sack_ok: true,
            window_bytes: 65_535,
            timestamps: Some((1, 1)),
            ..Segment::default()
        };
        bench.end.receive(&opening);
        bench.wait(Duration::from_us(100));
        if !connects {
            let last = Segment {
                flags: Segment::ACK,
                seq: 1,
                ack: 1,
                window_bytes: 1 << 20,
                timestamps: Some((1, 1)),
                ..Segment::default()
            };
            bench.end.receive(&last);
        }
        bench.acked = 1;
    }
    while !bench.numbers.is_over() && bench.end.events() < MOST_EVENTS {
        bench.step();
    }
    bench.wait(Duration::from_ms(5000));
});

//! One end point by hand: what leaves for what arrives. Where a test says "seen", a running kernel (6.18, HZ 250)
//! answered such packets so; the others follow from docs/tcp.md alone.

use knee_queue::Ecn;
use knee_queue::time::{Duration, Time};
use knee_run::spec::{Cc, HostConfig, LinuxVersion};
use knee_sim::endpoint::EndPoint;
use knee_wire::Segment;

const ACK: u16 = Segment::ACK;
const FIN: u16 = Segment::FIN;
const RST: u16 = Segment::RST;
const SYN: u16 = Segment::SYN;
const PSH: u16 = Segment::PSH;

/// Payload of a full segment.
const MSS: u32 = 1000;

fn config(linux: LinuxVersion) -> HostConfig {
    HostConfig { hz: 250, jiffies_at_start: Some(0), mtu_bytes: MSS + 52, ..HostConfig::new(linux) }
}

struct Bench {
    end: EndPoint,
    window_bytes: u32,
    timestamps: bool,
}

impl Bench {
    /// A listener that nobody has called yet.
    fn listening(config: HostConfig) -> Bench {
        let cc = Cc::by_name("reno").expect("it is in the folder");
        let mut end = EndPoint::new(config, &cc, 1).expect("it is no module");
        end.listen();
        Bench { end, window_bytes: 65_535, timestamps: true }
    }

    /// A connection from the peer; the first byte of either side is 1.
    fn passive(config: HostConfig) -> Bench {
        let mut bench = Bench::listening(config);
        bench.handshake();
        bench
    }

    fn handshake(&mut self) {
        self.syn(SYN);
        assert_eq!(self.sent(), [(SYN | ACK, 0, 0, 1)]);
        self.wait_ms(1);
        self.receive(ACK, 1, 0, 1);
        assert!(self.end.is_established());
    }

    fn segment(&self, flags: u16, seq: u32, len: u32, ack: u32) -> Segment {
        let tick = (self.end.now().us() / 1000) as u32 + 1;
        Segment {
            flags,
            seq,
            len,
            ack,
            window_bytes: self.window_bytes,
            timestamps: self.timestamps.then_some((tick, 1)),
            ..Segment::default()
        }
    }

    fn syn(&mut self, flags: u16) {
        let mss = Some(MSS as u16 + 12);
        let plain = self.segment(flags, 0, 0, 0);
        self.end.receive(&Segment { mss, window_scale: Some(0), sack_ok: true, ..plain });
    }

    fn receive(&mut self, flags: u16, seq: u32, len: u32, ack: u32) {
        let segment = self.segment(flags, seq, len, ack);
        self.end.receive(&segment);
    }

    fn segments_until(&mut self, until: Time) -> Vec<(Time, Segment)> {
        let mut left = Vec::new();
        while let Some(segment) = self.end.next_segment(until) {
            left.push((self.end.now(), segment));
        }
        left
    }

    /// What has left by now: flags, first byte, length, ACK.
    fn sent(&mut self) -> Vec<(u16, u32, u32, u32)> {
        let segments = self.segments_until(self.end.now());
        segments.iter().map(|(_, s)| (s.flags, s.seq, s.len, s.ack)).collect()
    }

    /// What leaves within so many ms.
    fn wait_ms(&mut self, ms: u64) -> Vec<(u16, u32, u32, u32)> {
        let segments = self.segments_until(self.end.now() + Duration::from_ms(ms));
        segments.iter().map(|(_, s)| (s.flags, s.seq, s.len, s.ack)).collect()
    }
}

fn newest() -> HostConfig {
    config(LinuxVersion::V6_18)
}

/// Seen.
#[test]
fn the_fin_goes_with_the_short_segment_that_waits() {
    let mut bench = Bench::passive(newest());
    bench.end.write(500);
    assert_eq!(bench.sent(), [(ACK | PSH, 1, 500, 1)]);
    bench.end.write(300);
    assert_eq!(bench.sent(), [], "Nagle");
    bench.end.close();
    assert_eq!(bench.sent(), [(ACK | PSH | FIN, 501, 300, 1)]);
    assert_eq!(bench.end.sample().unacked, 2, "the FIN is no packet of its own");
    bench.receive(ACK, 1, 0, 802);
    assert_eq!(bench.end.sample().unacked, 0);
    bench.receive(ACK, 1, 100, 802);
    assert_eq!(bench.sent(), [(RST, 802, 0, 0)], "data for nobody");
}

/// Seen for 6.18.
#[test]
fn a_lone_fin_obeys_cwnd_now_and_did_not_in_6_1() {
    for linux in [LinuxVersion::V6_1, LinuxVersion::V6_18] {
        let mut bench = Bench::passive(config(linux));
        bench.end.write(10_000);
        bench.end.close();
        let sent = bench.sent();
        let fin = (ACK | FIN, 10_001, 0, 1);
        assert_eq!(sent.len(), 10 + usize::from(linux == LinuxVersion::V6_1));
        assert_eq!(sent.contains(&fin), linux == LinuxVersion::V6_1);
        bench.receive(ACK, 1, 0, 2001);
        assert_eq!(bench.sent().contains(&fin), linux == LinuxVersion::V6_18);
    }
}

#[test]
fn a_fin_is_sent_again_like_data() {
    let mut bench = Bench::passive(newest());
    bench.end.close();
    assert_eq!(bench.sent(), [(ACK | FIN, 1, 0, 1)]);
    let again = bench.wait_ms(400);
    assert_eq!(again, [(ACK | FIN, 1, 0, 1)], "a probe, after srtt and 200 ms");
    let again = bench.wait_ms(300);
    assert_eq!(again, [(ACK | FIN, 1, 0, 1)], "the timeout");
    assert_eq!(bench.end.info().retransmits, 1);
}

/// Seen, but for data written in CLOSE_WAIT.
#[test]
fn both_ends_close_in_either_order_and_at_once() {
    let mut bench = Bench::passive(newest());
    bench.end.close();
    bench.sent();
    bench.receive(ACK, 1, 0, 2);
    bench.receive(FIN | ACK, 1, 0, 2);
    assert_eq!(bench.sent(), [(ACK, 2, 0, 2)]);
    assert!(!bench.end.is_open());
    bench.receive(FIN | ACK, 1, 0, 2);
    assert_eq!(bench.sent(), [(ACK, 2, 0, 2)], "TIME_WAIT answers a FIN again");
    bench.receive(ACK, 2, 0, 2);
    assert_eq!(bench.sent(), []);

    let mut bench = Bench::passive(newest());
    bench.end.close();
    bench.sent();
    bench.receive(FIN | ACK, 1, 0, 1);
    assert_eq!(bench.sent(), [(ACK, 2, 0, 2)], "CLOSING");
    bench.receive(ACK, 2, 0, 2);
    bench.receive(FIN | ACK, 1, 0, 2);
    assert_eq!(bench.sent(), [(ACK, 2, 0, 2)]);

    let mut bench = Bench::passive(newest());
    bench.receive(FIN | ACK, 1, 0, 1);
    assert!(bench.end.is_at_end() && bench.end.is_open());
    assert_eq!(bench.wait_ms(8), [(ACK, 1, 0, 2)], "at the next tick");
    bench.receive(FIN | ACK, 1, 0, 1);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 2)]);
    bench.end.write(10);
    assert_eq!(bench.sent(), [(ACK | PSH, 1, 10, 2)], "CLOSE_WAIT still sends");
    bench.end.close();
    assert_eq!(bench.sent(), [(ACK | FIN, 11, 0, 2)]);
    bench.receive(ACK, 2, 0, 12);
    bench.receive(ACK, 2, 0, 12);
    assert_eq!(bench.sent(), [(RST, 12, 0, 0)], "nobody is there");
}

/// Seen: the packets.
#[test]
fn a_fin_beyond_a_gap_waits_for_it() {
    let mut bench = Bench::passive(newest());
    bench.receive(FIN | ACK, 101, 0, 1);
    let segments = bench.segments_until(bench.end.now());
    assert_eq!((segments[0].1.ack, &segments[0].1.sacks[..]), (1, &[(101, 102)][..]));
    assert!(!bench.end.is_at_end());
    bench.receive(ACK, 1, 100, 1);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 102)]);
    assert_eq!(bench.end.read(), 100, "the FIN is no byte to read");
    assert!(bench.end.is_at_end());
    assert_eq!(bench.end.info().bytes_received, 101);
}

/// Seen.
#[test]
fn what_was_not_read_makes_a_reset_of_the_end() {
    let mut bench = Bench::passive(newest());
    bench.receive(PSH | ACK, 1, 100, 1);
    bench.sent();
    bench.end.close();
    assert_eq!(bench.sent(), [(RST | ACK, 1, 0, 101)]);
    bench.receive(ACK, 101, 0, 1);
    assert_eq!(bench.sent(), [(RST, 1, 0, 0)]);
}

/// Seen.
#[test]
fn data_for_an_application_that_has_closed_ends_the_connection() {
    let mut bench = Bench::passive(newest());
    bench.end.close();
    bench.sent();
    bench.receive(FIN | ACK, 1, 100, 2);
    assert_eq!(bench.sent(), [(RST, 2, 0, 0)]);
    assert!(!bench.end.is_open());
}

/// Seen.
#[test]
fn a_reset_counts_in_its_place_and_is_challenged_elsewhere() {
    let mut bench = Bench::passive(newest());
    bench.receive(RST, 500, 0, 0);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 1)]);
    bench.receive(SYN, 1, 0, 0);
    assert_eq!(bench.sent(), [], "not twice in half a second");
    bench.wait_ms(600);
    bench.receive(ACK, 1, 100, 5000);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 1)], "it acknowledges what was never sent");
    bench.receive(ACK, 200_000, 0, 1);
    bench.receive(0, 1, 100, 0);
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.end.read(), 0);
    bench.receive(RST, 1, 0, 0);
    assert!(!bench.end.is_open());
    bench.receive(ACK, 1, 0, 1);
    assert_eq!(bench.sent(), [(RST, 1, 0, 0)]);
}

/// Seen: the packets.
#[test]
fn probes_of_a_closed_window_double_and_a_window_opens_again() {
    let mut bench = Bench::passive(newest());
    bench.end.write(1000);
    bench.sent();
    bench.window_bytes = 0;
    bench.receive(ACK, 1, 0, 1001);
    bench.end.write(500);
    let start = bench.end.now();
    let probes = bench.segments_until(start + Duration::from_ms(2000));
    let at: Vec<u64> = probes.iter().map(|(at, _)| at.since(start).us() / 1000).collect();
    assert!(probes.iter().all(|(_, s)| (s.flags, s.seq, s.len) == (ACK, 1000, 0)));
    assert!(at.len() == 3 && at[0] >= 200 && at[1] > 2 * at[0], "{at:?}");
    assert_eq!((bench.end.info().probes, bench.end.info().backoff), (3, 3));
    bench.receive(ACK, 1, 0, 1001);
    assert_eq!((bench.end.info().probes, bench.end.info().backoff), (0, 3));
    bench.window_bytes = 200;
    bench.receive(ACK, 1, 0, 1001);
    assert_eq!(bench.wait_ms(400), [], "silly window");
    bench.window_bytes = 2000;
    bench.receive(ACK, 1, 0, 1001);
    assert_eq!(bench.sent(), [(ACK | PSH, 1001, 500, 1)]);
}

/// Seen.
#[test]
fn of_a_peer_that_shrinks_its_window_the_first_segment_is_the_probe() {
    let mut bench = Bench::passive(newest());
    bench.end.write(3000);
    assert_eq!(bench.sent().len(), 3);
    bench.window_bytes = 0;
    bench.receive(ACK, 1, 0, 1001);
    let again = bench.wait_ms(900);
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(again.iter().all(|(_, seq, len, _)| (*seq, *len) == (1001, 1000)));
}

/// Seen: the probe.
#[test]
fn a_fin_needs_a_byte_of_the_window() {
    let mut bench = Bench::passive(newest());
    bench.end.write(500);
    bench.sent();
    bench.window_bytes = 0;
    bench.receive(ACK, 1, 0, 501);
    bench.end.close();
    assert_eq!(bench.wait_ms(300), [(ACK, 500, 0, 1)], "a probe");
    bench.window_bytes = 1;
    bench.receive(ACK, 1, 0, 501);
    assert_eq!(bench.sent(), [(ACK | FIN, 501, 0, 1)]);
}

/// Seen.
#[test]
fn a_small_window_halves_the_segments() {
    let mut bench = Bench::listening(newest());
    bench.window_bytes = 1000;
    bench.handshake();
    bench.end.write(3000);
    assert_eq!(bench.sent(), [(ACK, 1, 500, 1), (ACK | PSH, 501, 500, 1)]);
    assert_eq!(bench.end.info().snd_mss, 500);
}

/// Seen.
#[test]
fn without_timestamps_segments_are_longer_and_four_ranges_fit() {
    let mut bench = Bench::listening(newest());
    bench.timestamps = false;
    bench.handshake();
    bench.end.write(3000);
    let lens: Vec<u32> = bench.sent().iter().map(|(_, _, len, _)| *len).collect();
    assert_eq!(lens, [1012, 1012, 976]);
    for seq in [2001, 3001, 4001, 5001] {
        bench.receive(ACK, seq, 1, 1);
    }
    let segments = bench.segments_until(bench.end.now() + Duration::from_ms(2));
    let (_, last) = segments.last().unwrap();
    assert_eq!(last.sacks, [(5001, 5002), (4001, 4002), (3001, 3002), (2001, 2002)]);
    assert_eq!(last.timestamps, None);
}

#[test]
fn options_that_the_peer_lacks_are_not_used() {
    let mut bench = Bench::listening(newest());
    let plain = bench.segment(SYN, 0, 0, 0);
    bench.end.receive(&Segment { timestamps: None, ..plain });
    let (_, answer) = bench.segments_until(bench.end.now()).remove(0);
    assert_eq!((answer.window_scale, answer.sack_ok, answer.timestamps), (None, false, None));
    bench.timestamps = false;
    bench.receive(ACK, 1, 0, 1);
    assert_eq!(bench.end.info().snd_mss, 536, "no MSS option");
    bench.receive(ACK, 101, 100, 1);
    let (_, answer) = bench.segments_until(bench.end.now()).remove(0);
    assert_eq!(answer.sacks, []);
    assert!(answer.window_bytes <= 65_535);
}

/// Seen.
#[test]
fn a_syn_ack_comes_again_by_its_timer_and_for_the_syn_but_not_too_often() {
    let mut bench = Bench::listening(HostConfig { tcp_ecn: 1, ..newest() });
    let syn = SYN | Segment::ECE | Segment::CWR;
    let answer = (SYN | ACK | Segment::ECE, 0, 0, 1);
    bench.syn(syn);
    assert_eq!(bench.sent(), [answer]);
    assert_eq!(bench.wait_ms(1200), [answer]);
    bench.syn(syn);
    assert_eq!(bench.sent(), [answer]);
    bench.syn(syn);
    assert_eq!(bench.sent(), []);
    bench.receive(ACK, 1, 0, 5);
    assert_eq!(bench.sent(), [(RST, 5, 0, 0)]);
    bench.receive(ACK, 1, 100, 1);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 101)]);
    assert!(bench.end.info().ecn);
}

/// Seen.
#[test]
fn an_ect_syn_is_a_fault_but_for_accurate_ecn() {
    let grants = |flags: u16, ecn| {
        let mut bench = Bench::listening(newest());
        let plain = bench.segment(SYN | Segment::ECE | Segment::CWR | flags, 0, 0, 0);
        bench.end.receive(&Segment { mss: Some(1012), window_scale: Some(0), ecn, ..plain });
        bench.segments_until(bench.end.now())[0].1.has(Segment::ECE)
    };
    assert!(grants(0, Ecn::NotEct));
    assert!(!grants(0, Ecn::Ect0));
    assert!(grants(Segment::AE, Ecn::NotEct));
    assert!(grants(Segment::AE, Ecn::Ect0));
}

/// Seen, but for the MSS.
#[test]
fn a_wrong_answer_to_a_syn_is_reset_and_the_syn_ack_again_is_challenged() {
    let cc = Cc::by_name("reno").expect("it is in the folder");
    let end = EndPoint::new(newest(), &cc, 1).unwrap();
    let mut bench = Bench { end, window_bytes: 65_535, timestamps: true };
    bench.end.connect();
    assert_eq!(bench.sent(), [(SYN, 0, 0, 0)]);
    bench.receive(ACK, 1, 0, 77);
    assert_eq!(bench.sent(), [(RST, 77, 0, 0)]);
    let syn_ack = Segment { mss: Some(600), sack_ok: true, ..bench.segment(SYN | ACK, 0, 0, 1) };
    for answers in [1, 1, 0] {
        bench.end.receive(&syn_ack);
        assert_eq!(bench.sent(), vec![(ACK, 1, 0, 1); answers]);
    }
    assert_eq!(bench.end.info().snd_mss, 588);
}

/// Seen.
#[test]
fn cork_holds_a_short_segment_for_a_probe_time_and_uncorking_sends_it() {
    let mut bench = Bench::passive(newest());
    bench.end.set_cork(true);
    bench.end.write(300);
    assert_eq!(bench.wait_ms(199), []);
    assert_eq!(bench.wait_ms(60), [(ACK | PSH, 1, 300, 1)]);
    bench.receive(ACK, 1, 0, 301);
    bench.end.write(1200);
    assert_eq!(bench.sent(), [(ACK, 301, 1000, 1)]);
    bench.end.set_cork(false);
    assert_eq!(bench.sent(), [(ACK | PSH, 1301, 200, 1)]);
}

#[test]
fn no_delay_lets_short_segments_go() {
    let mut bench = Bench::passive(newest());
    bench.end.write(100);
    bench.end.write(100);
    assert_eq!(bench.sent().len(), 1);
    bench.end.set_no_delay(true);
    assert_eq!(bench.sent(), [(ACK | PSH, 101, 100, 1)]);
    bench.end.write(100);
    assert_eq!(bench.sent(), [(ACK | PSH, 201, 100, 1)]);
}

/// Seen: the first two ACKs.
#[test]
fn quick_ack_off_delays_the_first_ack_by_40_ms() {
    let mut bench = Bench::passive(newest());
    bench.end.set_quick_ack(false);
    bench.receive(ACK, 1, 100, 1);
    assert_eq!(bench.wait_ms(39), []);
    assert_eq!(bench.wait_ms(9), [(ACK, 1, 0, 101)]);
    bench.receive(ACK, 101, 100, 1);
    assert_eq!(bench.sent(), [(ACK, 1, 0, 201)], "the mode has ended");
    bench.end.set_quick_ack(false);
    bench.receive(ACK, 201, 100, 1);
    assert_eq!(bench.sent(), []);
    bench.end.set_quick_ack(true);
    assert_eq!(bench.sent(), [], "what was not read is acknowledged when it is");
    bench.end.read();
    assert_eq!(bench.sent(), [(ACK, 1, 0, 301)]);
}

#[test]
fn reads_of_a_part_leave_the_rest() {
    let mut bench = Bench::passive(newest());
    bench.receive(PSH | ACK, 1, 900, 1);
    assert_eq!((bench.end.read_at_most(300), bench.end.read_at_most(1000)), (300, 600));
    assert_eq!(bench.end.read(), 0);
}

/// Seen, but for `tcp_dsack`.
#[test]
fn data_that_begins_below_is_taken_and_its_double_reported() {
    let mut bench = Bench::passive(newest());
    bench.receive(ACK, 1, 600, 1);
    bench.sent();
    bench.receive(ACK, 301, 600, 1);
    let (_, answer) = bench.segments_until(bench.end.now()).remove(0);
    assert_eq!((answer.ack, &answer.sacks[..]), (901, &[(301, 601)][..]));
    let mut silent = newest();
    silent.sysctls.dsack = false;
    let mut bench = Bench::passive(silent);
    bench.receive(ACK, 1, 600, 1);
    bench.sent();
    bench.receive(ACK, 1, 600, 1);
    assert_eq!(bench.segments_until(bench.end.now())[0].1.sacks, [], "tcp_dsack = 0");
}

#[test]
fn a_closed_receive_window_takes_no_data_but_a_bare_fin() {
    let mut bench = Bench::listening(newest());
    bench.end.set_receive_buffer(4000);
    bench.end.listen();
    bench.handshake();
    let mut seq = 1;
    while bench.end.info().bytes_received == u64::from(seq - 1) && seq < 100_000 {
        bench.receive(ACK, seq, 500, 1);
        bench.sent();
        seq += 500;
    }
    let received = bench.end.info().bytes_received;
    assert!(received > 0 && received < 8000, "{received}");
    bench.receive(FIN | ACK, received as u32 + 1, 0, 1);
    assert_eq!(bench.end.info().bytes_received, received + 1);
}

#[test]
fn a_send_buffer_limits_what_is_in_the_socket() {
    let mut bench = Bench::passive(newest());
    bench.end.set_send_buffer(4000);
    bench.end.write(100_000);
    let sent = bench.sent().len();
    assert_eq!(sent, 4, "8000 bytes at 2216 each, and one segment more than fits");
    assert_eq!(bench.end.info().notsent_bytes, 0);
}

#[test]
fn a_pacing_limit_paces() {
    let mut bench = Bench::passive(newest());
    bench.end.set_max_pacing_rate(100_000);
    bench.end.write(40_000);
    let mut ack = 1;
    for _ in 0..6 {
        let sent = bench.wait_ms(1);
        ack += sent.iter().map(|(_, _, len, _)| len).sum::<u32>();
        bench.receive(ACK, 1, 0, ack);
    }
    let sent = bench.wait_ms(100);
    assert!((8..=11).contains(&sent.len()), "10 ms each: {}", sent.len());
}

#[test]
fn another_algorithm_takes_over_an_open_connection() {
    let mut bench = Bench::passive(newest());
    bench.end.write(5000);
    bench.sent();
    bench.end.set_congestion_control(&Cc::by_name("cubic").unwrap()).unwrap();
    assert_eq!(bench.end.algorithm(), "cubic");
    bench.receive(ACK, 1, 0, 5001);
    assert!(bench.end.sample().cwnd >= 10);
}

#[test]
fn without_loss_probes_the_timeout_comes_alone() {
    let mut config = newest();
    config.sysctls.early_retrans = 0;
    let mut bench = Bench::passive(config);
    bench.end.write(2000);
    bench.sent();
    assert_eq!(bench.wait_ms(150), []);
    assert_eq!(bench.wait_ms(150), [(ACK, 1, 1000, 1)]);
    assert_eq!((bench.end.info().retransmits, bench.end.info().backoff), (1, 1));
}

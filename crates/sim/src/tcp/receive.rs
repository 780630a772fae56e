//! Data arrives, the application reads, ACKs leave.

use super::out_of_order::OutOfOrder;
use super::seq::{after, before};
use super::timers::LazyTimer;
use super::{HostState, Sock, State};
use crate::clock::jiffies_since;
use crate::events::Timer;
use crate::net::Net;
use crate::packet::{Packet, flags};
use crate::spec::{HostConfig, LinuxVersion};
use knee_algo::{AskedAck, ack_pending, ecn_flags};
use knee_queue::Ecn;
use knee_queue::time::Duration;

/// Delayed-ACK time at the start, and its least value.
const ATO_MIN_MS: u64 = 40;
const DELACK_MIN_MS: u64 = 40;
const DELACK_MAX_MS: u64 = 200;
/// Segments acknowledged one by one at the start and after trouble.
const MAX_QUICKACKS: u32 = 16;
/// Least MSS assumed of a peer before it has sent full segments.
const MSS_DEFAULT: u32 = 536;
const MSS_MIN: u32 = 88;
/// Ranges from this one on release a held ACK when they change.
const SACKS_EXPECTED: usize = 2;
/// SACK compression: ACKs held at most, and duplicate ACKs that go at once.
const COMPRESSED_MAX: u32 = 44;
const DUP_ACKS_AT_ONCE: u32 = 3;
const COMPRESSED_DELAY_MAX_NS: u64 = 1_000_000;
const COMPRESSED_SLACK_NS: u64 = 100_000;
/// Time between answers to unacceptable segments without data.
const OUT_OF_WINDOW_ACK_MS: u64 = 500;
/// Window that a new connection offers at most.
const FIRST_WINDOW_BYTES: u32 = 65_535;

/// Share of the receive buffer that is offered as window, in 1/256: half up to 6.5; later the share of
/// payload in what a segment is charged, and this until the first full segment has shown that.
const WINDOW_RATIO_6_1: u32 = 128;
const WINDOW_RATIO_6_6: u32 = 65;

fn share(bytes: u32, ratio: u32) -> u32 {
    ((u64::from(bytes) * u64::from(ratio)) >> 8) as u32
}

/// The receiving half of a socket.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The peer takes SACK.
    pub(super) peer_sack: bool,
    /// What arrived beyond a gap.
    pub(super) out_of_order: OutOfOrder,

    /// Bytes in order that the application has not read, and how many it waits for.
    pub(crate) unread_bytes: u32,
    read_at_bytes: u32,
    pub(super) received_bytes: u64,

    // Window.
    rcvbuf: u32,
    rcvbuf_max: u32,
    /// Of the buffer, in 1/256.
    window_ratio: u32,
    /// From 6.6 on the ratio follows the segments.
    measures_ratio: bool,
    window_clamp: u32,
    rcv_ssthresh: u32,
    rcv_wnd: u32,
    /// `rcv_nxt` at the last ACK sent.
    rcv_wup: u32,
    window_scale: u32,
    advmss: u32,
    skb_overhead_bytes: u32,

    // Delayed ACKs.
    rcv_mss: u32,
    last_seg_size: u32,
    quick: u32,
    pingpong: bool,
    /// Delayed-ACK time in jiffies; 0: no data yet.
    ato: u32,
    ato_min: u32,
    /// Jiffies of the last data received.
    lrcvtime: u32,
    /// Jiffies at which a delayed ACK is due.
    delack_due: u32,
    /// A delayed ACK was scheduled, and no pure ACK has left since (the defect `stale_special_ack`).
    delack_noted: bool,
    pub(super) delayed_ack: LazyTimer,

    // SACK compression.
    pub(super) compressed_acks: u32,
    compressed_rcv_nxt: u32,
    dup_acks: u32,
    /// Jiffies of the last answer to an unacceptable segment without data.
    out_of_window_ack_at: Option<u32>,
    pub(super) compressed_ack: LazyTimer,

    // Timestamps and the receiver's own RTT, us << 3.
    pub(super) ts_recent: u32,
    pub(super) ts_ecr: u32,
    last_ts_ecr: u32,
    rcv_rtt_us: u32,
    /// The window being timed: its end, and when it began, us (0: none).
    rcv_rtt_seq: u32,
    rcv_rtt_since_us: u64,

    // Receive buffer tuning: bytes read per round trip.
    space_bytes: u32,
    space_seq: u32,
    space_us: u64,
}

impl Receiver {
    pub(super) fn new(config: &HostConfig, listens: bool) -> Receiver {
        let advmss = config.mss_bytes();
        let window_ratio =
            if config.linux >= LinuxVersion::V6_12 { WINDOW_RATIO_6_6 } else { WINDOW_RATIO_6_1 };
        let full_space = share(config.rcvbuf_initial_bytes, window_ratio);
        let space = config.rcvbuf_max_bytes.max(config.rcvbuf_initial_bytes);
        // Room for one segment is kept back.
        let window_clamp = full_space.saturating_sub(advmss).max(2 * advmss).min(full_space);
        // The listening side knows by now that timestamps take 12 bytes of each segment.
        let mss = if listens { advmss } else { advmss + 12 };
        let first_window =
            if full_space > mss { full_space - full_space % mss } else { full_space };
        let rcv_wnd = first_window.min(FIRST_WINDOW_BYTES);
        Receiver {
            peer_sack: config.sack,
            out_of_order: OutOfOrder::default(),
            unread_bytes: 0,
            read_at_bytes: 1,
            received_bytes: 0,
            rcvbuf: config.rcvbuf_initial_bytes,
            rcvbuf_max: config.rcvbuf_max_bytes,
            window_ratio,
            measures_ratio: config.linux >= LinuxVersion::V6_12,
            window_clamp,
            rcv_ssthresh: rcv_wnd.min(window_clamp),
            rcv_wnd,
            rcv_wup: 0,
            window_scale: space.max(1).ilog2().saturating_sub(15).min(14),
            advmss,
            skb_overhead_bytes: config.skb_overhead_bytes,
            rcv_mss: (rcv_wnd / 2).min(MSS_DEFAULT).min(advmss).max(MSS_MIN),
            last_seg_size: 0,
            quick: 0,
            pingpong: false,
            ato: 0,
            ato_min: 0,
            lrcvtime: 0,
            delack_due: 0,
            delack_noted: false,
            delayed_ack: LazyTimer::default(),
            compressed_acks: 0,
            compressed_rcv_nxt: 0,
            dup_acks: 0,
            out_of_window_ack_at: None,
            compressed_ack: LazyTimer::default(),
            ts_recent: 0,
            ts_ecr: 0,
            last_ts_ecr: 0,
            rcv_rtt_us: 0,
            rcv_rtt_seq: 0,
            rcv_rtt_since_us: 0,
            space_bytes: rcv_wnd.min(10 * advmss),
            space_seq: 0,
            space_us: 0,
        }
    }

    /// The connection is established: the peer's first byte is `rcv_nxt`.
    pub(super) fn establish(&mut self, rcv_nxt: u32, jiffies: u32, host: &HostState, now_us: u64) {
        self.rcv_wup = rcv_nxt;
        self.space_seq = rcv_nxt;
        self.space_us = now_us;
        self.lrcvtime = jiffies;
        self.ato_min = host.jiffies.of_ms(ATO_MIN_MS);
    }

    /// The application wants to be woken for so much (`SO_RCVLOWAT`): the buffer has to hold it.
    pub(crate) fn set_read_at(&mut self, bytes: u32) {
        self.read_at_bytes = bytes.min(self.rcvbuf_max.max(self.rcvbuf) / 2).max(1);
        if 2 * self.read_at_bytes > self.rcvbuf {
            self.rcvbuf = 2 * self.read_at_bytes;
            self.window_clamp = share(self.rcvbuf, self.window_ratio);
        }
    }

    /// The window that a SYN or SYN-ACK offers: not scaled.
    pub(super) fn first_window(&self) -> u32 {
        self.rcv_wnd.min(FIRST_WINDOW_BYTES)
    }

    /// As its SYN says it.
    pub(crate) fn window_scale(&self) -> u8 {
        self.window_scale as u8
    }

    pub(super) fn forget_data(&mut self) {
        self.out_of_order = OutOfOrder::default();
        self.delayed_ack.disarm();
        self.compressed_ack.disarm();
    }

    /// Data was sent: a reply soon after data received makes the connection interactive.
    #[inline]
    pub(super) fn data_sent(&mut self, jiffies: u32) {
        if jiffies_since(jiffies, self.lrcvtime) < self.ato {
            self.pingpong = true;
        }
    }

    pub(super) fn delayed_ack_missed(&mut self, rto_jiffies: u32) {
        if self.pingpong {
            self.pingpong = false;
            self.ato = self.ato_min;
        } else {
            self.ato = (self.ato << 1).min(rto_jiffies);
        }
    }

    /// Room for payload, as Linux counts: a share of the buffer not taken up.
    fn space(&self) -> u32 {
        let payload = self.unread_bytes + self.out_of_order.bytes();
        let buffers = payload.div_ceil(self.advmss);
        let free = self.rcvbuf.saturating_sub(payload + buffers * self.skb_overhead_bytes);
        share(free, self.window_ratio)
    }

    fn in_quickack_mode(&self) -> bool {
        self.quick > 0 && !self.pingpong
    }

    fn raise_quick(&mut self, most: u32) {
        let quick = match self.rcv_wnd / (2 * self.rcv_mss) {
            0 => 2,
            quick => quick,
        };
        self.quick = self.quick.max(quick.min(most));
    }

    fn enter_quickack_mode(&mut self, most: u32) {
        self.raise_quick(most);
        self.pingpong = false;
        self.ato = self.ato_min;
    }
}

impl Sock {
    /// A segment arrives on an established connection.
    pub(super) fn on_segment(&mut self, packet: &Packet, net: &mut Net) {
        let payload_bytes = packet.payload_bytes();
        if self.is_out_of_date(packet, payload_bytes) {
            self.on_unacceptable(packet, payload_bytes, net);
            return;
        }
        if !after(packet.seq, self.receiver.rcv_wup)
            && !before(packet.ts_val, self.receiver.ts_recent)
        {
            self.receiver.ts_recent = packet.ts_val;
        }
        self.receiver.ts_ecr = packet.ts_ecr;
        let predicted = packet.flags & (flags::ECE | flags::CWR) == 0 && packet.sacks_len == 0;
        let only_data = payload_bytes > 0
            && predicted
            && packet.ack_seq == self.tp.snd_una
            && packet.window_bytes == self.snd_wnd;
        if !only_data {
            self.on_ack(packet, net);
        }
        if payload_bytes == 0 {
            self.push_pending(net);
            self.check_space(net);
            return;
        }
        self.measure_rcv_rtt(packet, payload_bytes);
        self.on_data(packet, payload_bytes, net);
        self.push_pending(net);
        self.check_space(net);
        if self.tp.icsk_ack_pending & ack_pending::SCHED != 0 {
            self.decide_ack(net);
        }
    }

    /// Wholly below the last ACK, or with a timestamp older than one seen (PAWS) by more than a tick
    /// (RFC 7323); but old pure ACKs that only come late are harmless.
    #[inline]
    fn is_out_of_date(&self, packet: &Packet, payload_bytes: u32) -> bool {
        if before(packet.end_seq, self.receiver.rcv_wup) {
            return true;
        }
        let older_by = self.receiver.ts_recent.wrapping_sub(packet.ts_val) as i32;
        if older_by <= 1 {
            return false;
        }
        let late_ack = payload_bytes == 0
            && packet.seq == self.tp.rcv_nxt
            && packet.ack_seq == self.tp.snd_una
            && packet.window_bytes == self.snd_wnd;
        !late_ack
    }

    /// A segment that cannot be taken is answered, so that a peer that has lost its way finds it;
    /// one without data at most twice a second.
    fn on_unacceptable(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        let now = net.cc.jiffies;
        if payload_bytes > 0 {
            if before(packet.seq, self.tp.rcv_nxt) {
                self.receiver.enter_quickack_mode(MAX_QUICKACKS);
                let end = packet.end_seq;
                let end = if after(end, self.tp.rcv_nxt) { self.tp.rcv_nxt } else { end };
                self.on_duplicate(packet.seq, end, net);
            }
        } else {
            let half_second = self.host.jiffies.of_ms(OUT_OF_WINDOW_ACK_MS);
            let last = self.receiver.out_of_window_ack_at;
            if last.is_some_and(|last| jiffies_since(now, last) < half_second) {
                return;
            }
            self.receiver.out_of_window_ack_at = Some(now);
        }
        self.send_ack(net);
    }

    fn on_data(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        if packet.ecn == Ecn::Ce {
            self.counters.ce_segs_received += u64::from(payload_bytes.div_ceil(self.mss()));
        }
        self.receiver.out_of_order.dsack = None;
        let rcv_nxt = self.tp.rcv_nxt;
        if packet.seq != rcv_nxt {
            if !after(packet.end_seq, rcv_nxt) {
                // Nothing new: acknowledged once more, at once.
                self.on_duplicate(packet.seq, packet.end_seq, net);
                self.receiver.enter_quickack_mode(MAX_QUICKACKS);
                self.tp.icsk_ack_pending |= ack_pending::SCHED;
                return;
            }
            let window_end = rcv_nxt.wrapping_add(self.receive_window());
            if !before(packet.seq, window_end) {
                self.receiver.enter_quickack_mode(MAX_QUICKACKS);
                self.tp.icsk_ack_pending |= ack_pending::SCHED;
                return;
            }
            if after(packet.seq, rcv_nxt) {
                self.on_out_of_order(packet, payload_bytes, net);
                return;
            }
            self.receiver.out_of_order.note_duplicate(packet.seq, rcv_nxt);
        }
        self.received(packet.end_seq);
        self.on_data_in_order(packet, payload_bytes, net);
        if !self.receiver.out_of_order.is_empty() {
            let rcv_nxt = self.receiver.out_of_order.take_in_order(self.tp.rcv_nxt);
            self.received(rcv_nxt);
            if self.receiver.out_of_order.is_empty() {
                // The gap is filled.
                self.tp.icsk_ack_pending |= ack_pending::NOW;
            }
            self.receiver.out_of_order.remove_sacks(rcv_nxt);
        }
    }

    /// Delayed-ACK bookkeeping, ECN and window growth for a segment in order.
    #[inline]
    fn on_data_in_order(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        self.tp.icsk_ack_pending |= ack_pending::SCHED;
        self.measure_rcv_mss(packet, payload_bytes);
        self.measure_rcv_rtt_by_window();
        let now = net.cc.jiffies;
        let receiver = &mut self.receiver;
        if receiver.ato == 0 {
            receiver.raise_quick(MAX_QUICKACKS);
            receiver.ato = receiver.ato_min;
        } else {
            let gap = jiffies_since(now, receiver.lrcvtime);
            if gap <= receiver.ato_min / 2 {
                receiver.ato = (receiver.ato >> 1) + receiver.ato_min / 2;
            } else if gap < receiver.ato {
                receiver.ato = ((receiver.ato >> 1) + gap).min(self.rtt.rto_jiffies);
            } else if gap > self.rtt.rto_jiffies {
                // The sender may have restarted its window.
                receiver.raise_quick(MAX_QUICKACKS);
            }
        }
        receiver.lrcvtime = now;
        self.check_ce(packet.ecn, net);
        if payload_bytes >= 128 {
            self.grow_window(payload_bytes);
        }
    }

    fn measure_rcv_mss(&mut self, packet: &Packet, payload_bytes: u32) {
        let receiver = &mut self.receiver;
        let previous = std::mem::take(&mut receiver.last_seg_size);
        let psh = packet.has(flags::PSH);
        // Of a merged segment, the size of the wire segments counts.
        let len = payload_bytes.min(receiver.advmss);
        if len >= receiver.rcv_mss {
            if receiver.measures_ratio && len != receiver.rcv_mss {
                receiver.window_ratio = (len << 8) / (len + receiver.skb_overhead_bytes);
                receiver.window_clamp = share(receiver.rcvbuf, receiver.window_ratio);
            }
            receiver.rcv_mss = len;
            if psh && payload_bytes <= receiver.advmss {
                self.tp.icsk_ack_pending |= ack_pending::PUSHED;
            }
            return;
        }
        // Header and timestamps are 32 bytes of TCP; 20 of them count in Linux's comparison.
        if len + 32 >= MSS_DEFAULT + 20 || (len + 32 >= MSS_MIN + 20 && !psh) {
            receiver.last_seg_size = len;
            if len == previous {
                receiver.rcv_mss = len;
                return;
            }
        }
        if self.tp.icsk_ack_pending & ack_pending::PUSHED != 0 {
            self.tp.icsk_ack_pending |= ack_pending::PUSHED2;
        }
        self.tp.icsk_ack_pending |= ack_pending::PUSHED;
    }

    /// The ECN field of a data segment that is not a mere duplicate.
    #[inline]
    fn check_ce(&mut self, ecn: Ecn, net: &mut Net) {
        if !self.ecn_ok() {
            return;
        }
        match ecn {
            Ecn::NotEct => {
                if self.tp.ecn_flags & ecn_flags::SEEN != 0 {
                    // Probably a retransmission.
                    self.receiver.enter_quickack_mode(2);
                }
            }
            Ecn::Ce => {
                if self.cc.algorithm().needs_ecn() {
                    self.on_ce_event(true, net);
                }
                if self.tp.ecn_flags & ecn_flags::DEMAND_CWR == 0 {
                    // The sender's window may be small soon: no delay.
                    self.receiver.enter_quickack_mode(2);
                    self.tp.ecn_flags |= ecn_flags::DEMAND_CWR;
                }
                self.tp.ecn_flags |= ecn_flags::SEEN;
            }
            Ecn::Ect0 | Ecn::Ect1 => {
                if self.cc.algorithm().needs_ecn() {
                    self.on_ce_event(false, net);
                }
                self.tp.ecn_flags |= ecn_flags::SEEN;
            }
        }
    }

    #[inline]
    fn on_ce_event(&mut self, ce: bool, net: &mut Net) {
        let defects = self.host.config.defects;
        let owed_before = self.tp.icsk_ack_pending;
        if defects.stale_special_ack && self.receiver.delack_noted {
            self.tp.icsk_ack_pending |= ack_pending::TIMER;
        }
        self.ce_event(ce, net);
        if defects.stale_special_ack {
            self.tp.icsk_ack_pending &= !ack_pending::TIMER | owed_before;
        }
        // In the kernel the ACK leaves within the event, by what was owed then; what the algorithm
        // asked for after it stays.
        let mut owed_after = self.tp.icsk_ack_pending;
        let asks_now = owed_after & !owed_before & ack_pending::NOW != 0;
        if asks_now && (defects.no_immediate_ack_on_ce_change || defects.ce_change_resets_ato) {
            owed_after &= !ack_pending::NOW;
        }
        for AskedAck { rcv_nxt, ecn_flags } in net.cc.take_asked_acks() {
            self.tp.icsk_ack_pending = owed_before;
            let says = if defects.ece_not_on_special_ack { self.tp.ecn_flags } else { ecn_flags };
            self.send_pure_ack(rcv_nxt, says, net);
            if defects.special_ack_cancels_delack {
                self.all_is_acked();
                owed_after &= ack_pending::NOW;
            }
        }
        self.tp.icsk_ack_pending = owed_after;
        if asks_now && defects.ce_change_resets_ato {
            self.receiver.enter_quickack_mode(1);
        }
    }

    fn on_out_of_order(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        self.check_ce(packet.ecn, net);
        self.tp.icsk_ack_pending |= ack_pending::SCHED;
        let (seq, end_seq) = (packet.seq, packet.end_seq);
        let new = self.receiver.out_of_order.insert(seq, end_seq);
        if self.receiver.peer_sack {
            let place = self.receiver.out_of_order.sack_place(seq, end_seq);
            if self.receiver.compressed_acks > 0 && place >= SACKS_EXPECTED {
                // A range that grows is in the ACK that it releases, a new one is not.
                if place < self.receiver.out_of_order.sacks_len() {
                    self.receiver.out_of_order.note_sack(seq, end_seq);
                }
                self.send_ack(net);
            }
            self.receiver.out_of_order.note_sack(seq, end_seq);
        }
        if new && self.receiver.peer_sack {
            self.grow_window(payload_bytes);
        }
    }

    /// All below `rcv_nxt` is in order now, and waits for the application.
    fn received(&mut self, rcv_nxt: u32) {
        let new_bytes = rcv_nxt.wrapping_sub(self.tp.rcv_nxt);
        self.receiver.unread_bytes += new_bytes;
        self.receiver.received_bytes += u64::from(new_bytes);
        self.tp.rcv_nxt = rcv_nxt;
    }

    /// Each full segment lets the window limit grow by two, and is acknowledged at once for it.
    #[inline]
    fn grow_window(&mut self, payload_bytes: u32) {
        let receiver = &mut self.receiver;
        if receiver.rcv_ssthresh >= receiver.window_clamp {
            return;
        }
        let room =
            receiver.window_clamp.min(receiver.space()).saturating_sub(receiver.rcv_ssthresh);
        if room == 0 {
            return;
        }
        let growth = (2 * receiver.advmss).max(2 * payload_bytes);
        receiver.rcv_ssthresh += room.min(growth);
        receiver.quick |= 1;
    }

    // ---- window ----

    fn receive_window(&self) -> u32 {
        let used = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
        self.receiver.rcv_wnd.saturating_sub(used)
    }

    /// The window that would be advertised now.
    #[inline]
    fn new_window(&mut self) -> u32 {
        let receiver = &mut self.receiver;
        let whole_space = share(receiver.rcvbuf, receiver.window_ratio);
        let full_space = receiver.window_clamp.min(whole_space);
        let mut free = receiver.space();
        if free < full_space >> 1 {
            receiver.quick = 0;
            free &= !((1 << receiver.window_scale) - 1);
            if free < whole_space >> 4 || free < receiver.rcv_mss.min(full_space) {
                return 0;
            }
        }
        free = free.min(receiver.rcv_ssthresh);
        free.next_multiple_of(1 << receiver.window_scale)
    }

    /// Decides on the window to advertise in a packet about to leave. It never shrinks.
    #[inline]
    pub(super) fn select_window(&mut self) -> u32 {
        let current = self.receive_window();
        let mut window = self.new_window();
        if window < current {
            window = current.next_multiple_of(1 << self.receiver.window_scale);
        }
        self.receiver.rcv_wnd = window;
        self.receiver.rcv_wup = self.tp.rcv_nxt;
        window.min(65_535 << self.receiver.window_scale)
    }

    // ---- ACKs ----

    /// An ACK leaves, alone or with data: what was owed is paid. A special ACK for less than
    /// `rcv_nxt` pays nothing.
    #[inline]
    pub(super) fn acks_sent_with(&mut self, rcv_nxt: u32) {
        let receiver = &mut self.receiver;
        if receiver.compressed_acks > 0 {
            receiver.compressed_acks = 0;
            receiver.compressed_ack.disarm();
        }
        if rcv_nxt == self.tp.rcv_nxt {
            self.all_is_acked();
        }
    }

    /// What was owed is paid.
    #[inline]
    fn all_is_acked(&mut self) {
        let receiver = &mut self.receiver;
        if receiver.quick > 0 {
            let used = u32::from(self.tp.icsk_ack_pending & ack_pending::SCHED != 0);
            if used >= receiver.quick {
                receiver.quick = 0;
                receiver.ato = receiver.ato_min;
            } else {
                receiver.quick -= used;
            }
        }
        self.tp.icsk_ack_pending = 0;
        receiver.delayed_ack.disarm();
    }

    pub(super) fn send_ack(&mut self, net: &mut Net) {
        self.send_pure_ack(self.tp.rcv_nxt, self.tp.ecn_flags, net);
    }

    fn send_pure_ack(&mut self, rcv_nxt: u32, with_ecn_flags: u8, net: &mut Net) {
        if !matches!(self.state, State::Established) {
            return;
        }
        let mut packet = self.packet();
        packet.ack_seq = rcv_nxt;
        packet.flags = flags::ACK;
        if self.ecn_ok() && with_ecn_flags & ecn_flags::DEMAND_CWR != 0 {
            packet.flags |= flags::ECE;
        }
        packet.ecn = if self.sends_ect(false) { Ecn::Ect0 } else { Ecn::NotEct };
        if packet.sacks_len > 0 {
            packet.wire_bytes = self.header_bytes + 4 + 8 * u32::from(packet.sacks_len);
        }
        self.acks_sent_with(rcv_nxt);
        // Not held back, also not by fq (docs/tcp.md), but the time until which nothing was sent is over.
        self.begin_departure(net);
        self.receiver.delack_noted = false;
        self.counters.acks_sent += 1;
        // What becomes of an ACK is nobody's business here: a lost one is made up for by the next.
        let _ = net.transmit(packet);
    }

    /// Now, later, or together with others?
    #[inline]
    fn decide_ack(&mut self, net: &mut Net) {
        let unacked = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
        // Where the window would shrink, reading sends the ACK, unless nobody is going to read yet.
        let every_second = unacked > self.receiver.rcv_mss
            && (self.receiver.unread_bytes < self.receiver.read_at_bytes
                || self.new_window() >= self.receiver.rcv_wnd);
        if every_second
            || self.receiver.in_quickack_mode()
            || self.tp.icsk_ack_pending & ack_pending::NOW != 0
        {
            self.send_ack(net);
            return;
        }
        if self.receiver.out_of_order.is_empty() {
            self.schedule_delayed_ack(net);
            return;
        }
        if !self.receiver.peer_sack || self.receiver.compressed_acks >= COMPRESSED_MAX {
            self.send_ack(net);
            return;
        }
        if self.receiver.compressed_rcv_nxt != self.tp.rcv_nxt {
            self.receiver.compressed_rcv_nxt = self.tp.rcv_nxt;
            self.receiver.dup_acks = 0;
        }
        if self.receiver.dup_acks < DUP_ACKS_AT_ONCE {
            self.receiver.dup_acks += 1;
            self.send_ack(net);
            return;
        }
        self.receiver.compressed_acks += 1;
        if self.receiver.compressed_ack.armed() {
            return;
        }
        let mut rtt_us = self.receiver.rcv_rtt_us;
        if self.tp.srtt_us != 0 {
            rtt_us = rtt_us.min(self.tp.srtt_us);
        }
        // 5 % of the RTT (us << 3), up to a limit. A high-resolution timer with slack fires at its
        // end when nothing else wakes the processor.
        let delay_ns = (u64::from(rtt_us) * (1000 >> 3) / 20).min(COMPRESSED_DELAY_MAX_NS);
        let due = net.now + Duration::from_ns(delay_ns + COMPRESSED_SLACK_NS);
        self.receiver.compressed_ack.arm(due, self.id, Timer::CompressedAck, net);
    }

    fn schedule_delayed_ack(&mut self, net: &mut Net) {
        let jiffies = &self.host.jiffies;
        let mut ato = self.receiver.ato;
        if ato > jiffies.of_ms(DELACK_MIN_MS) {
            let interactive =
                self.receiver.pingpong || self.tp.icsk_ack_pending & ack_pending::PUSHED != 0;
            let mut most = jiffies.of_ms(if interactive { DELACK_MAX_MS } else { 500 });
            if self.tp.srtt_us != 0 {
                let rtt = jiffies.of_us(u64::from(self.tp.srtt_us >> 3));
                most = most.min(rtt.max(jiffies.of_ms(DELACK_MIN_MS)));
            }
            ato = ato.min(most);
        }
        ato = ato.min(jiffies.of_ms(DELACK_MAX_MS));
        if self.host.config.linux >= LinuxVersion::V6_12 {
            // Never so late that the sender's least timeout could come first.
            let rto_min = jiffies.of_us(self.host.config.rto_min.us());
            ato = ato.min(rto_min.saturating_sub(1).max(1));
        }
        let now = net.cc.jiffies;
        let mut due = now.wrapping_add(ato);
        if self.tp.icsk_ack_pending & ack_pending::TIMER != 0 {
            let already = self.receiver.delack_due;
            if !after(already, now.wrapping_add(ato >> 2)) {
                self.send_ack(net);
                return;
            }
            if !before(due, already) {
                due = already;
            }
        }
        self.tp.icsk_ack_pending |= ack_pending::SCHED | ack_pending::TIMER;
        self.receiver.delack_noted = true;
        self.receiver.delack_due = due;
        let fires = jiffies.fires(net.now, due.wrapping_sub(now));
        self.receiver.delayed_ack.arm(fires, self.id, Timer::DelayedAck, net);
    }

    // ---- the application reads ----

    /// Whether the application is to be woken: what it waits for is there, or will not fit.
    pub(crate) fn is_readable(&self) -> bool {
        let receiver = &self.receiver;
        receiver.unread_bytes >= receiver.read_at_bytes
            || (receiver.unread_bytes > 0 && self.receive_window() <= receiver.rcv_mss)
    }

    /// The application reads all there is; that may send an ACK or open the window.
    pub(crate) fn read(&mut self, net: &mut Net) -> u32 {
        self.enter(net);
        let bytes = self.receiver.unread_bytes;
        if bytes == 0 {
            return 0;
        }
        // Linux reads buffer by buffer, and looks at the rate of reading after each. In the reference
        // runs each holds one segment: two merge only when nobody else holds them, and there the
        // sender does until the ACK.
        while self.receiver.unread_bytes > 0 {
            self.receiver.unread_bytes -= self.receiver.unread_bytes.min(self.receiver.advmss);
            self.tune_rcvbuf();
        }
        let pending = self.tp.icsk_ack_pending;
        let mut ack = false;
        if pending & ack_pending::SCHED != 0 {
            let unacked = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
            let pushed = pending & ack_pending::PUSHED2 != 0
                || (pending & ack_pending::PUSHED != 0 && !self.receiver.pingpong);
            ack = unacked > self.receiver.rcv_mss
                || (pushed && self.receiver.out_of_order.is_empty());
        }
        if !ack {
            let current = self.receive_window();
            if 2 * u64::from(current) <= u64::from(self.receiver.window_clamp) {
                let window = self.new_window();
                ack = window > 0 && u64::from(window) >= 2 * u64::from(current);
            }
        }
        if ack {
            self.send_ack(net);
        }
        bytes
    }

    /// The receiver's own idea of the RTT, from echoed timestamps.
    #[inline]
    fn measure_rcv_rtt(&mut self, packet: &Packet, payload_bytes: u32) {
        let receiver = &mut self.receiver;
        if receiver.last_ts_ecr == packet.ts_ecr {
            return;
        }
        receiver.last_ts_ecr = packet.ts_ecr;
        if payload_bytes < receiver.rcv_mss || packet.ts_ecr == 0 {
            return;
        }
        let Some(sample_us) = super::rtt::from_ticks(self.ts_now().wrapping_sub(packet.ts_ecr))
        else {
            return;
        };
        let receiver = &mut self.receiver;
        receiver.rcv_rtt_us = if receiver.rcv_rtt_us == 0 {
            sample_us << 3
        } else {
            receiver.rcv_rtt_us - (receiver.rcv_rtt_us >> 3) + sample_us
        };
    }

    /// A window's worth of data takes a round trip at least: a shorter time than thought counts.
    #[inline]
    fn measure_rcv_rtt_by_window(&mut self) {
        let (now_us, rcv_nxt) = (self.tp.tcp_mstamp, self.tp.rcv_nxt);
        let receiver = &mut self.receiver;
        if receiver.rcv_rtt_since_us != 0 {
            if before(rcv_nxt, receiver.rcv_rtt_seq) {
                return;
            }
            let elapsed_us = (now_us - receiver.rcv_rtt_since_us).clamp(1, 500_000_000) as u32;
            if receiver.rcv_rtt_us == 0 || elapsed_us << 3 < receiver.rcv_rtt_us {
                receiver.rcv_rtt_us = elapsed_us << 3;
            }
        }
        receiver.rcv_rtt_seq = rcv_nxt.wrapping_add(receiver.rcv_wnd);
        receiver.rcv_rtt_since_us = now_us;
    }

    /// Receive buffer tuning: room for twice what was read in the last round trip, and for growth.
    fn tune_rcvbuf(&mut self) {
        let now_us = self.tp.tcp_mstamp;
        let receiver = &mut self.receiver;
        let elapsed_us = now_us.saturating_sub(receiver.space_us);
        if receiver.rcv_rtt_us == 0 || elapsed_us < u64::from(receiver.rcv_rtt_us >> 3) {
            return;
        }
        let copied_seq = self.tp.rcv_nxt.wrapping_sub(receiver.unread_bytes);
        let copied = copied_seq.wrapping_sub(receiver.space_seq);
        if copied > receiver.space_bytes && receiver.space_bytes > 0 {
            let mut window = 2 * u64::from(copied) + 16 * u64::from(receiver.advmss);
            let growth =
                window * u64::from(copied - receiver.space_bytes) / u64::from(receiver.space_bytes);
            window += 2 * growth;
            let segments = window / u64::from(receiver.advmss);
            let rcvbuf = (segments * u64::from(receiver.segment_memory()))
                .min(u64::from(receiver.rcvbuf_max)) as u32;
            if rcvbuf > receiver.rcvbuf {
                receiver.rcvbuf = rcvbuf;
                receiver.window_clamp = share(rcvbuf, receiver.window_ratio);
            }
            receiver.space_bytes = copied;
        }
        receiver.space_seq = copied_seq;
        receiver.space_us = now_us;
    }
}

impl Receiver {
    /// Memory to plan for a full segment.
    fn segment_memory(&self) -> u32 {
        // What a segment with headers is charged, in steps of 128 until its share is an MSS.
        let mut memory = self.advmss + self.skb_overhead_bytes;
        while share(memory, self.window_ratio) < self.advmss {
            memory += 128;
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_window_grows_for_1426_segments() {
        let config = HostConfig {
            rcvbuf_initial_bytes: 8 << 20,
            rcvbuf_max_bytes: 512 << 20,
            ..HostConfig::new(LinuxVersion::V6_1)
        };
        let receiver = Receiver::new(&config, true);
        let segments = (receiver.window_clamp - receiver.rcv_ssthresh).div_ceil(2 * 1448);
        assert_eq!(segments, 1426);
        assert_eq!(receiver.window_scale, 14);
    }
}

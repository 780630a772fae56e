//! Receives data, lets the application read it, and sends ACKs.

mod memory;
mod reading;
mod window;

pub(super) use window::rmem_max;

use window::share;

use super::close::LateData;
use super::out_of_order::OutOfOrder;
use super::seq::{after, before};
use super::timers::LazyTimer;
use super::{HostState, Sock, State};
use crate::clock::jiffies_since;
use crate::events::Timer;
use crate::net::Net;
use crate::packet::{Packet, flags};
use knee_algo::{AskedAck, ack_pending, ecn_flags};
use knee_queue::Ecn;
use knee_queue::time::Duration;
use knee_run::spec::{HostConfig, LinuxVersion};

/// The initial and smallest delayed-ACK time.
const ATO_MIN_MS: u64 = 40;
const DELACK_MIN_MS: u64 = 40;
const DELACK_MAX_MS: u64 = 200;
/// Segments acknowledged one by one at the start and after trouble.
const MAX_QUICKACKS: u32 = 16;
/// The smallest MSS assumed of a peer before it has sent full segments, bytes.
const MSS_DEFAULT: u32 = 536;
const MSS_MIN: u32 = 88;
/// A change of a range from this place on makes a held ACK leave.
const SACKS_EXPECTED: usize = 2;
/// SACK compression: duplicate ACKs that leave at once.
const DUP_ACKS_AT_ONCE: u32 = 3;
/// The largest window that a new connection offers.
const FIRST_WINDOW_BYTES: u32 = 65_535;

/// The receiving half of a socket. What each segment touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiver {
    // Flags.
    pub(super) peer_sack: bool,
    /// The peer's FIN arrived in order.
    pub(super) has_ended: bool,
    /// The application has set the buffer (`SO_RCVBUF`).
    rcvbuf_locked: bool,
    /// Linux tunes the buffer (`tcp_moderate_rcvbuf` is on and the application has not set a size).
    tunes: bool,
    /// Both ends scale windows.
    scales: bool,
    /// The ratio follows the segments' sizes (6.6 and later).
    measures_ratio: bool,
    pingpong: bool,
    /// A delayed ACK was scheduled, and no pure ACK has left since (the defect
    /// `stale_special_ack`).
    delack_noted: bool,
    /// The present segment has a newer timestamp than all before.
    pub(super) ts_advanced: bool,
    /// This end has ended writing, and its application still reads.
    pub(super) reads_on: bool,
    /// Payload of the segments of which longer ones are merged.
    pub(crate) merged_mss: u16,

    // Window.
    /// Share of the buffer that is offered as window, in 1/256.
    window_ratio: u16,
    window_scale: u8,
    /// The most full segments that join in one skb.
    max_skb_frags: u8,
    /// Bytes in order that the application has not read, and the number for which it waits.
    pub(crate) unread_bytes: u32,
    read_at_bytes: u32,
    /// Unread bytes in the first skb.
    first_skb_bytes: u32,
    rcvbuf: u32,
    window_clamp: u32,
    rcv_ssthresh: u32,
    rcv_wnd: u32,
    /// `rcv_nxt` at the last ACK sent.
    rcv_wup: u32,
    advmss: u32,
    skb_overhead_bytes: u32,

    // Timestamps and the receiver's own RTT, us << 3.
    pub(super) ts_recent: u32,
    pub(super) ts_ecr: u32,
    last_ts_ecr: u32,
    rcv_rtt_us: u32,
    /// The window for which the RTT is measured: its end, and below its start time, us (0: none).
    rcv_rtt_seq: u32,

    // Delayed ACKs.
    rcv_mss: u32,
    last_seg_size: u32,
    quick: u32,
    /// Delayed-ACK time in jiffies; 0 before the first data.
    ato: u32,
    ato_min: u32,
    /// Jiffies at the last data segment.
    lrcvtime: u32,
    /// Jiffies at which a delayed ACK is due.
    delack_due: u32,
    pub(super) compressed_acks: u32,
    dup_acks: u32,
    pub(super) delayed_ack: LazyTimer,
    pub(super) received_bytes: u64,
    rcv_rtt_since_us: u64,
    /// Data that arrived beyond a gap.
    pub(super) out_of_order: OutOfOrder,

    // Receive buffer tuning: bytes read per round trip.
    space_bytes: u32,
    space_seq: u32,
    space_us: u64,
    rcvbuf_max: u32,
    max_tcp_header_bytes: u32,
    // SACK compression.
    compressed_rcv_nxt: u32,
    pub(super) compressed_ack: LazyTimer,
    /// Jiffies of the last answer to an unacceptable segment without data.
    out_of_window_ack_at: Option<u32>,
}

impl Receiver {
    pub(super) fn new(config: &HostConfig, listens: bool) -> Receiver {
        Receiver::with_buffer(config, None, listens)
    }

    /// Establishes the connection; the peer's first byte is `rcv_nxt`. Linux:
    /// `tcp_init_buffer_space`.
    pub(super) fn establish(&mut self, rcv_nxt: u32, jiffies: u32, host: &HostState, now_us: u64) {
        // Answers before the connection do not count for its rate limit.
        self.out_of_window_ack_at = None;
        self.rcv_wup = rcv_nxt;
        self.space_seq = rcv_nxt;
        self.space_us = now_us;
        self.lrcvtime = jiffies;
        self.ato_min = host.jiffies.of_ms(ATO_MIN_MS);
    }

    /// Reports whether the connection counts as interactive (ping-pong mode).
    pub(super) fn is_interactive(&self) -> bool {
        self.pingpong
    }

    pub(super) fn set_interactive(&mut self, interactive: bool) {
        self.pingpong = interactive;
    }

    /// Returns the delayed-ACK time, jiffies, and the peer's segment size, bytes.
    pub(super) fn ato_and_mss(&self) -> (u32, u32) {
        (self.ato, self.rcv_mss)
    }

    /// Returns the jiffies since the last data segment, or since the connection began.
    pub(super) fn since_data(&self, jiffies: u32) -> u32 {
        jiffies_since(jiffies, self.lrcvtime)
    }

    /// Sets the bytes for which the application wants to be woken (`SO_RCVLOWAT`). The buffer must
    /// hold them. Linux: `tcp_set_rcvlowat`.
    pub(crate) fn set_read_at(&mut self, bytes: u32) {
        let most = if self.rcvbuf_locked { self.rcvbuf } else { self.rcvbuf_max.max(self.rcvbuf) };
        self.read_at_bytes = bytes.min(most / 2).max(1);
        if !self.rcvbuf_locked && 2 * self.read_at_bytes > self.rcvbuf {
            self.rcvbuf = 2 * self.read_at_bytes;
            self.window_clamp = share(self.rcvbuf, self.window_ratio);
        }
    }

    /// Returns the window of a SYN or SYN-ACK, which is not scaled.
    pub(super) fn first_window(&self) -> u32 {
        self.rcv_wnd.min(FIRST_WINDOW_BYTES)
    }

    /// Returns the window scale in this end's SYN.
    pub(crate) fn window_scale(&self) -> u8 {
        self.window_scale
    }

    pub(super) fn forget_data(&mut self) {
        self.out_of_order = OutOfOrder::default();
        self.delayed_ack.disarm();
        self.compressed_ack.disarm();
    }

    /// Notes that data was sent. A reply soon after received data makes the connection interactive.
    /// Linux: `tcp_event_data_sent`.
    #[inline]
    pub(super) fn data_sent(&mut self, jiffies: u32) {
        if jiffies_since(jiffies, self.lrcvtime) < self.ato {
            self.pingpong = true;
        }
    }

    /// Adapts the delayed-ACK time after an ACK that no data took along. Linux:
    /// `tcp_delack_timer_handler`.
    pub(super) fn delayed_ack_missed(&mut self, rto_jiffies: u32, host: &HostState) {
        if self.pingpong {
            self.pingpong = false;
            self.ato = self.ato_min;
        } else {
            self.ato = (self.ato << 1).min(Receiver::most_ato(rto_jiffies, host));
        }
    }

    /// Returns the longest delayed-ACK time that a connection remembers, jiffies.
    fn most_ato(rto_jiffies: u32, host: &HostState) -> u32 {
        // 6.12.117 has it, 6.12.0 had not; when it came is not known.
        if host.config.linux >= LinuxVersion(6, 12) {
            rto_jiffies.min(host.jiffies.of_ms(DELACK_MAX_MS))
        } else {
            rto_jiffies
        }
    }

    /// Reports whether segments are acknowledged one by one. Linux: `tcp_in_quickack_mode`.
    fn in_quickack_mode(&self) -> bool {
        self.quick > 0 && !self.pingpong
    }

    /// Acknowledges the next segments one by one: those of half a window, at most `most`. Linux:
    /// `tcp_incr_quickack`.
    fn raise_quick(&mut self, most: u32) {
        let quick = match self.rcv_wnd / (2 * self.rcv_mss) {
            0 => 2,
            quick => quick,
        };
        self.quick = self.quick.max(quick.min(most));
    }

    /// Acknowledges the next segments one by one, and ends the interactive mode. Linux:
    /// `tcp_enter_quickack_mode`.
    fn enter_quickack_mode(&mut self, most: u32) {
        self.raise_quick(most);
        self.pingpong = false;
        self.ato = self.ato_min;
    }
}

impl Sock {
    /// Handles a segment of an established connection. Linux: `tcp_rcv_established`,
    /// `tcp_rcv_state_process`, `tcp_replace_ts_recent`.
    pub(super) fn on_segment(&mut self, packet: &Packet, net: &mut Net) {
        let payload_bytes = packet.payload_bytes();
        let odd = packet.flags & (flags::SYN | flags::RST) != 0 || !packet.has(flags::ACK);
        if self.is_unacceptable(packet) {
            if odd {
                self.on_syn_or_rst(packet, false, net);
            } else {
                self.on_unacceptable(packet, net);
            }
            return;
        }
        if odd {
            self.on_syn_or_rst(packet, true, net);
            return;
        }
        self.receiver.ts_advanced = false;
        if packet.has(flags::NO_TS) {
            self.receiver.ts_ecr = 0;
        } else {
            if !after(packet.seq, self.receiver.rcv_wup)
                && !before(packet.ts_val, self.receiver.ts_recent)
                && !after(packet.ack_seq, self.tp.snd_nxt)
            {
                self.receiver.ts_advanced = packet.ts_val != self.receiver.ts_recent;
                self.receiver.ts_recent = packet.ts_val;
            }
            self.receiver.ts_ecr = packet.ts_ecr;
            self.note_timestamps(packet);
        }
        let predicted = packet.flags & (flags::ECE | flags::CWR) == 0 && packet.sacks_len == 0;
        let only_data = payload_bytes > 0
            && predicted
            && packet.ack_seq == self.tp.snd_una
            && packet.window_bytes == self.tp.snd_wnd;
        // Linux's fast path needs room for the segment in the rest of the socket's last page, which is not modelled. But a socket whose
        // packets hold no memory has given all pages back (`sk_mem_uncharge`), and no page holds a merged segment.
        let is_idle = self.tp.snd_una == self.tp.write_seq;
        let may_fit = payload_bytes <= self.mss() && (!is_idle || self.receiver.unread_bytes > 0);
        if only_data && is_idle && !may_fit {
            if self.cc.algorithm().has_in_ack_event() {
                self.on_ack_of_nothing(packet, net);
            }
        } else if !(only_data && may_fit || self.on_ack(packet, net)) {
            return;
        }
        let closing = self.state != State::Established;
        if closing && !self.on_ack_while_closing(net) {
            return;
        }
        if packet.sequence_len() == 0 {
            self.push_pending(net);
            self.check_space(net);
            return;
        }
        if payload_bytes > 0 {
            self.measure_rcv_rtt(packet, payload_bytes);
        }
        let late = if closing { self.take_late_data(packet, net) } else { LateData::Taken };
        if late == LateData::Taken {
            self.on_data(packet, payload_bytes, net);
        }
        if !self.state.is_synchronised() {
            return;
        }
        self.push_pending(net);
        self.check_space(net);
        if self.tp.icsk_ack_pending & ack_pending::SCHED != 0 {
            self.decide_ack(net);
        }
    }

    /// Handles SYN, RST, and segments without the ACK flag. Linux: `tcp_validate_incoming`.
    #[cold]
    fn on_syn_or_rst(&mut self, packet: &Packet, acceptable: bool, net: &mut Net) {
        if packet.has(flags::RST) {
            self.on_reset(packet, acceptable, net);
        } else if packet.has(flags::SYN) {
            // The peer did not get the last ACK of the handshake, or is another peer.
            self.challenge(net);
        }
    }

    /// Reports whether to refuse a segment because it lies wholly below the last ACK or beyond the
    /// window, or its timestamp is older than one seen by more than a tick (PAWS, RFC 7323). Old
    /// pure ACKs that are only late are accepted. Linux: `tcp_validate_incoming`.
    #[inline]
    fn is_unacceptable(&self, packet: &Packet) -> bool {
        // Fast path: nearly all segments end within the offered window and have no older timestamp.
        let from_last_ack = packet.end_seq.wrapping_sub(self.receiver.rcv_wup);
        let older_by = self.receiver.ts_recent.wrapping_sub(packet.ts_val) as i32;
        (from_last_ack > self.receiver.rcv_wnd || older_by > 1) && self.is_refused(packet)
    }

    /// Decides what [`Sock::is_unacceptable`] asks. Linux: `tcp_sequence`, `tcp_paws_discard`,
    /// `tcp_disordered_ack`, `tcp_disordered_ack_check`.
    #[cold]
    fn is_refused(&self, packet: &Packet) -> bool {
        let window_end = self.tp.rcv_nxt.wrapping_add(self.receive_window());
        if before(packet.end_seq, self.receiver.rcv_wup) || after(packet.seq, window_end) {
            return true;
        }
        let payload_end = packet.end_seq.wrapping_sub(u32::from(packet.has(flags::FIN)));
        if after(payload_end, window_end)
            && self.receiver.unread_bytes > 0
            && self.host.config.linux >= LinuxVersion(6, 17)
        {
            // Payload beyond the window is accepted only if no unread data waits.
            return true;
        }
        let older_by = self.receiver.ts_recent.wrapping_sub(packet.ts_val) as i32;
        if older_by <= 1 || packet.flags & (flags::NO_TS | flags::RST) != 0 {
            return false;
        }
        let late_ack = packet.sequence_len() == 0
            && packet.seq == self.tp.rcv_nxt
            && packet.ack_seq == self.tp.snd_una
            && !self.updates_window(packet, packet.ack_seq)
            && older_by <= self.replay_ticks();
        !late_ack
    }

    /// Returns the ticks by which a pure ACK may be late: one RTO of a peer with a slightly faster
    /// clock. Linux: `tcp_tsval_replay`.
    fn replay_ticks(&self) -> i32 {
        // In 6.12, not in 6.1; when it came is not known.
        let hz_of_peer = if self.host.config.linux >= LinuxVersion(6, 12) { 1200 } else { 1024 };
        let ticks = u64::from(self.rtt.rto_jiffies) * hz_of_peer / u64::from(self.host.config.hz);
        ticks as i32
    }

    /// Answers an unacceptable segment, so that a peer out of step can recover. Segments without
    /// data are answered at most twice a second. Linux: `tcp_validate_incoming`, `tcp_send_dupack`.
    #[cold]
    fn on_unacceptable(&mut self, packet: &Packet, net: &mut Net) {
        // By the date of the change.
        if self.host.config.linux >= LinuxVersion(6, 14) && self.is_old_ack(packet) {
            return;
        }
        if packet.sequence_len() > 0 {
            if before(packet.seq, self.tp.rcv_nxt) {
                self.receiver.enter_quickack_mode(MAX_QUICKACKS);
                let end = packet.end_seq;
                let end = if after(end, self.tp.rcv_nxt) { self.tp.rcv_nxt } else { end };
                self.on_duplicate(packet.seq, end, net);
            }
        } else if !self.may_answer_out_of_window(net) {
            return;
        }
        self.send_ack(net);
    }

    /// Reports whether a packet is an ACK that others have overtaken: without data, older than what has been received, by
    /// its timestamp too. Linux: `tcp_disordered_ack_check` (6.14).
    fn is_old_ack(&self, packet: &Packet) -> bool {
        let older_by = self.receiver.ts_recent.wrapping_sub(packet.ts_val) as i32;
        packet.sequence_len() == 0
            && before(packet.seq, self.tp.rcv_nxt)
            && !packet.has(flags::NO_TS)
            && older_by > 1
    }

    /// Limits answers to two per second (`tcp_invalid_ratelimit`). Linux: `__tcp_oow_rate_limited`.
    pub(super) fn may_answer_out_of_window(&mut self, net: &Net) -> bool {
        let now = net.cc.jiffies;
        let shortest_ns = self.host.config.sysctls.invalid_ratelimit.ns();
        let shortest = self.host.jiffies.of_ms(shortest_ns / 1_000_000);
        let last = self.receiver.out_of_window_ack_at;
        if last.is_some_and(|last| jiffies_since(now, last) < shortest) {
            return false;
        }
        self.receiver.out_of_window_ack_at = Some(now);
        true
    }

    /// Takes a segment's data, and its FIN. Linux: `tcp_data_queue`.
    fn on_data(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        if packet.tos.ecn() == Ecn::Ce && payload_bytes > 0 {
            self.counters.ce_segs_received += u64::from(payload_bytes.div_ceil(self.mss()));
        }
        self.receiver.out_of_order.dsack = None;
        let rcv_nxt = self.tp.rcv_nxt;
        if packet.seq != rcv_nxt {
            if !after(packet.end_seq, rcv_nxt) {
                // The segment has nothing new: acknowledge it again, at once.
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
        // Linux takes a bare FIN from 6.18 on, and in 6.12.y.
        let takes_fin = self.host.config.linux.has(LinuxVersion(6, 18), LinuxVersion(6, 12));
        let bare_fin = payload_bytes == 0 && takes_fin;
        if self.receive_window() == 0 && !bare_fin {
            self.receiver.enter_quickack_mode(MAX_QUICKACKS);
            self.tp.icsk_ack_pending |= ack_pending::SCHED;
            return;
        }
        if bare_fin && self.receiver.used() > self.receiver.rcvbuf {
            // Linux: `tcp_try_rmem_schedule`.
            self.tp.icsk_ack_pending |= ack_pending::NOW;
        }
        self.received(packet.end_seq);
        if payload_bytes > 0 {
            self.on_data_in_order(packet, payload_bytes, net);
        }
        if packet.has(flags::FIN) {
            self.receiver.unread_bytes -= 1;
            self.on_fin(net);
            if !self.state.is_synchronised() {
                return;
            }
        }
        if !self.receiver.out_of_order.is_empty() {
            let rcv_nxt = self.receiver.out_of_order.take_in_order(self.tp.rcv_nxt);
            self.received(rcv_nxt);
            if self.receiver.out_of_order.fin == Some(rcv_nxt) {
                self.receiver.unread_bytes -= 1;
                self.on_fin(net);
                if !self.state.is_synchronised() {
                    return;
                }
            }
            if self.receiver.out_of_order.is_empty() {
                // The gap is filled.
                self.tp.icsk_ack_pending |= ack_pending::NOW;
            }
            self.receiver.out_of_order.remove_sacks(rcv_nxt);
        }
    }

    /// Updates delayed ACKs, ECN and the window for a segment in order. Linux:
    /// `tcp_event_data_recv`.
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
                let most = Receiver::most_ato(self.rtt.rto_jiffies, &self.host);
                receiver.ato = ((receiver.ato >> 1) + gap).min(most);
            } else if gap > self.rtt.rto_jiffies {
                // The sender may have restarted its window.
                receiver.raise_quick(MAX_QUICKACKS);
            }
        }
        receiver.lrcvtime = now;
        self.check_ce(packet.tos.ecn(), net);
        if payload_bytes >= 128 {
            self.grow_window(payload_bytes);
        }
    }

    /// Estimates the peer's segment size, and with it the share of payload in memory. Linux:
    /// `tcp_measure_rcv_mss`.
    #[inline]
    fn measure_rcv_mss(&mut self, packet: &Packet, payload_bytes: u32) {
        let header = if self.timestamps { 32 } else { 20 };
        let receiver = &mut self.receiver;
        let previous = std::mem::take(&mut receiver.last_seg_size);
        let psh = packet.has(flags::PSH);
        // For a merged segment, the size of the wire segments counts.
        let merged_mss = u32::from(receiver.merged_mss).min(receiver.advmss);
        let len = payload_bytes.min(merged_mss);
        if len >= receiver.rcv_mss {
            if receiver.measures_ratio && len != receiver.rcv_mss {
                receiver.window_ratio = ((len << 8) / (len + receiver.skb_overhead_bytes)) as u16;
                let clamp = share(receiver.rcvbuf, receiver.window_ratio);
                receiver.clamp_window(clamp, self.host.config.linux);
            }
            receiver.rcv_mss = len;
            if psh && payload_bytes <= merged_mss {
                self.tp.icsk_ack_pending |= ack_pending::PUSHED;
            }
            return;
        }
        // For a short segment, the SACK option counts as payload, because only timestamps are
        // always present.
        let sacks = u32::from(packet.sacks_len);
        let len = len + if sacks > 0 { 4 + 8 * sacks } else { 0 };
        // The comparison includes headers, so 20 bytes are added on the other side.
        if len + header >= MSS_DEFAULT + 20 || (len + header >= MSS_MIN + 20 && !psh) {
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

    /// Handles the ECN field of a data segment with new data. Linux: `tcp_ecn_check_ce`,
    /// `__tcp_ecn_check_ce`, `tcp_data_ecn_check`.
    #[inline]
    fn check_ce(&mut self, ecn: Ecn, net: &mut Net) {
        if !self.ecn_ok() {
            return;
        }
        match ecn {
            Ecn::NotEct => {
                if self.tp.ecn_flags & ecn_flags::SEEN != 0 {
                    // The segment is probably a retransmission.
                    self.receiver.enter_quickack_mode(2);
                }
            }
            Ecn::Ce => {
                self.tp.received_ce = self.tp.received_ce.wrapping_add(1);
                if self.cc.algorithm().wants_ce_events() {
                    self.on_ce_event(true, net);
                }
                if self.tp.ecn_flags & (ecn_flags::DEMAND_CWR | ecn_flags::ACCECN) == 0 {
                    // The sender's window may become small, so ACKs are not delayed.
                    self.receiver.enter_quickack_mode(2);
                    self.tp.ecn_flags |= ecn_flags::DEMAND_CWR;
                }
                self.tp.ecn_flags |= ecn_flags::SEEN;
            }
            Ecn::Ect0 | Ecn::Ect1 => {
                if self.cc.algorithm().wants_ce_events() {
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
        // In the kernel the ACK leaves during the event and follows what was owed before it. The
        // algorithm's later requests stay.
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

    /// Takes data beyond a gap. Linux: `tcp_data_queue_ofo`, `tcp_sack_new_ofo_skb`.
    fn on_out_of_order(&mut self, packet: &Packet, payload_bytes: u32, net: &mut Net) {
        self.check_ce(packet.tos.ecn(), net);
        // 6.12.y since August 2025.
        let linux = self.host.config.linux;
        if payload_bytes > 0 && linux.has(LinuxVersion(6, 17), LinuxVersion(6, 12)) {
            self.measure_rcv_mss(packet, payload_bytes);
        }
        self.tp.icsk_ack_pending |= ack_pending::SCHED;
        let (seq, end_seq) = (packet.seq, packet.end_seq);
        let new = self.receiver.out_of_order.insert(seq, end_seq);
        if packet.has(flags::FIN) {
            self.receiver.out_of_order.fin = Some(end_seq);
        }
        if self.receiver.peer_sack {
            let place = self.receiver.out_of_order.sack_place(seq, end_seq);
            if self.receiver.compressed_acks > 0 && place >= SACKS_EXPECTED {
                // The ACK reports a grown range at its old place, but not yet a new range.
                self.receiver.out_of_order.extend_sack(place, seq, end_seq);
                self.send_ack(net);
            }
            self.receiver.out_of_order.note_sack(seq, end_seq);
        }
        if new && self.receiver.peer_sack {
            self.grow_window(payload_bytes);
        }
        if linux >= LinuxVersion(6, 16) {
            let space_bytes = self.receiver.space_bytes;
            self.receiver.grow_rcvbuf(space_bytes, self.tp.rcv_nxt, linux);
        }
    }

    /// Grows the window limit by two segments per full segment, and asks for an immediate ACK. A
    /// segment may be charged more memory than the window's share allows. Then the limit stops at
    /// half of the largest window or less: the smaller the segment, the lower the limit. Linux:
    /// `tcp_grow_window`, `__tcp_grow_window`, `truesize_adjust`.
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
        let ratio = receiver.window_ratio;
        let mut charged = share(payload_bytes + receiver.skb_overhead_bytes, ratio);
        let mut growth = 2 * receiver.advmss;
        if charged > payload_bytes {
            let mut most = share(receiver.rcvbuf_max, ratio);
            while charged > payload_bytes {
                (charged, most) = (charged >> 1, most >> 1);
            }
            if receiver.rcv_ssthresh > most {
                return;
            }
            growth = 2 * receiver.rcv_mss;
        }
        receiver.rcv_ssthresh += room.min(growth.max(2 * payload_bytes));
        receiver.quick |= 1;
    }

    // ---- ACKs ----

    /// Handles an ACK that leaves, alone or with data, and clears what was owed. A special ACK
    /// below `rcv_nxt` clears nothing. Linux: `tcp_event_ack_sent`.
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

    /// Clears all owed ACKs. Linux: `tcp_event_ack_sent`, `tcp_dec_quickack_mode`.
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

    /// Sends an ACK now. Linux: `tcp_send_ack`.
    pub(super) fn send_ack(&mut self, net: &mut Net) {
        self.send_pure_ack(self.tp.rcv_nxt, self.tp.ecn_flags, net);
    }

    /// Sends an ACK of `rcv_nxt` with ECE as `with_ecn_flags` says. Linux: `__tcp_send_ack`.
    fn send_pure_ack(&mut self, rcv_nxt: u32, with_ecn_flags: u8, net: &mut Net) {
        if !self.state.is_synchronised() && self.state != State::TimeWait {
            return;
        }
        let mut packet = self.packet();
        packet.ack_seq = rcv_nxt;
        if !self.counts_ce() {
            packet.flags &= !flags::ECE;
            if self.ecn_ok() && with_ecn_flags & ecn_flags::DEMAND_CWR != 0 {
                packet.flags |= flags::ECE;
            }
        }
        packet.tos.set_ecn(self.ecn_of(false));
        if packet.sacks_len > 0 {
            packet.wire_bytes = self.header_bytes + 4 + 8 * u32::from(packet.sacks_len);
        }
        self.acks_sent_with(rcv_nxt);
        // An ACK is never held back, not even by fq (docs/tcp.md). It does end the idle time for
        // pacing.
        self.begin_departure(net);
        self.receiver.delack_noted = false;
        self.counters.acks_sent += 1;
        // The result is ignored, because the next ACK makes up for a lost one.
        let _ = net.transmit(packet);
    }

    /// Decides whether an ACK leaves now, later, or compressed with others. Linux:
    /// `__tcp_ack_snd_check`.
    #[inline]
    fn decide_ack(&mut self, net: &mut Net) {
        let unacked = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
        // If the window would shrink, the read sends the ACK, unless the application is not yet
        // woken.
        let every_second = unacked > self.receiver.rcv_mss
            && (self.tp.fast_ack_mode == 1
                || self.receiver.unread_bytes < self.receiver.read_at_bytes
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
        let sysctls = &self.host.config.sysctls;
        let (most_delay, slack) = (sysctls.comp_sack_delay, sysctls.comp_sack_slack);
        if !self.receiver.peer_sack || self.receiver.compressed_acks >= sysctls.comp_sack_nr {
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
        // 5 % of the RTT (us << 3), up to a limit. A high-resolution timer with slack fires at the
        // slack's end when nothing else wakes the processor.
        // `tcp_comp_sack_rtt_percent`.
        let percent = if self.host.config.linux >= LinuxVersion(7, 3) { 33 } else { 5 };
        let delay_ns = (u64::from(rtt_us) * (1000 >> 3) * percent / 100).min(most_delay.ns());
        let due = net.now + Duration::from_ns(delay_ns) + slack;
        self.receiver.compressed_ack.arm(due, self.id, Timer::CompressedAck, net);
    }

    /// Delays the ACK of a SYN-ACK until an interactive application sends data, 200 ms at most.
    /// Linux: `tcp_rcv_synsent_state_process`.
    pub(super) fn delay_first_ack(&mut self, net: &mut Net) {
        self.receiver.ato = self.receiver.ato_min;
        self.receiver.raise_quick(MAX_QUICKACKS);
        self.receiver.pingpong = false;
        let most = self.host.jiffies.of_ms(DELACK_MAX_MS);
        self.tp.icsk_ack_pending |= ack_pending::SCHED | ack_pending::TIMER;
        self.receiver.delack_due = net.cc.jiffies.wrapping_add(most);
        let fires = self.host.jiffies.fires(net.now, most);
        self.receiver.delayed_ack.arm(fires, self.id, Timer::DelayedAck, net);
    }

    /// Arms the delayed-ACK timer, or sends the ACK if it is due. Linux: `tcp_send_delayed_ack`,
    /// `tcp_delack_max`.
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
        if self.host.config.linux >= LinuxVersion(6, 7) {
            // The ACK is due before the sender's smallest timeout.
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
}

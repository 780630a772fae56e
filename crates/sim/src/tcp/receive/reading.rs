//! The application reads, and the receive buffer follows its rate of reading per round trip.

use super::super::Sock;
use super::super::rtt::from_ticks;
use super::super::seq::before;
use super::Receiver;
use super::window::share;
use crate::net::Net;
use crate::packet::Packet;
use knee_algo::ack_pending;
use knee_run::spec::LinuxVersion;

impl Sock {
    /// Reports whether to wake the application: the bytes it waits for are there, or would not fit.
    /// Linux: `tcp_epollin_ready`.
    pub(crate) fn is_readable(&self) -> bool {
        let receiver = &self.receiver;
        receiver.unread_bytes >= receiver.read_at_bytes
            || (receiver.unread_bytes > 0
                && (receiver.is_pressed() || self.receive_window() <= receiver.rcv_mss))
    }

    /// Reads at most `most` bytes. This may send an ACK or open the window. Linux:
    /// `tcp_recvmsg_locked`.
    pub(crate) fn read(&mut self, most: u64, net: &mut Net) -> u32 {
        self.enter(net);
        let bytes = u64::from(self.receiver.unread_bytes).min(most) as u32;
        if bytes == 0 {
            return 0;
        }
        let stays = self.receiver.unread_bytes - bytes;
        // Linux reads skb by skb and tunes the receive buffer after each.
        while self.receiver.unread_bytes > stays {
            let left = self.receiver.unread_bytes - stays;
            let read = left.min(self.receiver.first_skb_bytes);
            self.receiver.take(read);
            self.tune_rcvbuf();
        }
        self.ack_after_reading(net);
        bytes
    }

    /// Sends an ACK after a read, if one is owed or the window has grown enough. Linux:
    /// `__tcp_cleanup_rbuf`.
    pub(in crate::tcp) fn ack_after_reading(&mut self, net: &mut Net) {
        if !self.state.is_synchronised() {
            return;
        }
        let pending = self.tp.icsk_ack_pending;
        let mut ack = false;
        if pending & ack_pending::SCHED != 0 {
            let unacked = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
            let pushed = pending & ack_pending::PUSHED2 != 0
                || (pending & ack_pending::PUSHED != 0 && !self.receiver.pingpong);
            ack = unacked > self.receiver.rcv_mss
                || (pushed
                    && self.receiver.unread_bytes == 0
                    && self.receiver.out_of_order.is_empty());
        }
        if !ack && !self.receiver.has_ended {
            let current = self.receive_window();
            if 2 * u64::from(current) <= u64::from(self.receiver.window_clamp) {
                let window = self.new_window();
                ack = window > 0 && u64::from(window) >= 2 * u64::from(current);
            }
        }
        if ack {
            self.send_ack(net);
        }
    }

    /// Measures the receiver's RTT by echoed timestamps. Linux: `tcp_rcv_rtt_measure_ts`,
    /// `tcp_rcv_rtt_update`.
    #[inline]
    pub(in crate::tcp) fn measure_rcv_rtt(&mut self, packet: &Packet, payload_bytes: u32) {
        let receiver = &mut self.receiver;
        if receiver.last_ts_ecr == packet.ts_ecr {
            return;
        }
        receiver.last_ts_ecr = packet.ts_ecr;
        if payload_bytes < receiver.rcv_mss || packet.ts_ecr == 0 {
            return;
        }
        let ticks = self.ts_now().wrapping_sub(packet.ts_ecr);
        let Some(sample_us) = from_ticks(ticks) else { return };
        let receiver = &mut self.receiver;
        let linux = self.host.config.linux;
        if linux.has(LinuxVersion(6, 16), LinuxVersion(6, 12)) && ticks == 0 {
            // A time below one tick is no sample.
            return;
        }
        let is_less = receiver.rcv_rtt_us == 0 || sample_us << 3 < receiver.rcv_rtt_us;
        if linux >= LinuxVersion(6, 16) && !is_less && receiver.unread_bytes > 0 {
            // Unread data may have closed the window.
            return;
        }
        receiver.rcv_rtt_us = if is_less {
            sample_us << 3
        } else {
            receiver.rcv_rtt_us - (receiver.rcv_rtt_us >> 3) + sample_us
        };
    }

    /// Measures the receiver's RTT by windows. A window of data takes at least a round trip, so
    /// only a shorter time counts. Linux: `tcp_rcv_rtt_measure`, `tcp_rcv_rtt_update`.
    #[inline]
    pub(in crate::tcp) fn measure_rcv_rtt_by_window(&mut self) {
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

    /// Tunes the receive buffer once per round trip, by the bytes read in it. Linux:
    /// `tcp_rcv_space_adjust`.
    fn tune_rcvbuf(&mut self) {
        let now_us = self.tp.tcp_mstamp;
        let linux = self.host.config.linux;
        let receiver = &mut self.receiver;
        let elapsed_us = now_us.saturating_sub(receiver.space_us);
        if receiver.rcv_rtt_us == 0 || elapsed_us < u64::from(receiver.rcv_rtt_us >> 3) {
            return;
        }
        let copied_seq = self.tp.rcv_nxt.wrapping_sub(receiver.unread_bytes);
        let mut copied = copied_seq.wrapping_sub(receiver.space_seq);
        if linux.has(LinuxVersion(6, 16), LinuxVersion(6, 12)) {
            // An application that falls behind gets no more room.
            copied = copied.saturating_sub(receiver.unread_bytes);
        }
        if copied > receiver.space_bytes && receiver.space_bytes > 0 {
            receiver.grow_rcvbuf(copied, self.tp.rcv_nxt, linux);
        }
        receiver.space_seq = copied_seq;
        receiver.space_us = now_us;
    }
}

/// Linux's estimate for the two structures of a packet, bytes, whatever a device charges.
const SKB_STRUCTURES_BYTES: u32 = 576;

/// `tcp_rcvbuf_low_rtt`: below this RTT, buffers grow in proportion to it.
const RCVBUF_LOW_RTT_US: u64 = 1000;

impl Receiver {
    /// Grows the buffer after `copied` bytes were read in a round trip: room for twice as many, and
    /// for continued growth. Linux: `tcp_rcvbuf_grow` (6.16), `tcp_rcv_space_adjust`.
    pub(super) fn grow_rcvbuf(&mut self, copied: u32, rcv_nxt: u32, linux: LinuxVersion) {
        let before = std::mem::replace(&mut self.space_bytes, copied);
        let mut window = 2 * u64::from(copied);
        if linux < LinuxVersion(6, 16) {
            // Reserve for losses; later the data beyond a gap takes this role.
            window += 16 * u64::from(self.advmss);
        }
        let rtt_us = u64::from(self.rcv_rtt_us >> 3);
        window += if linux >= LinuxVersion(7, 3) && rtt_us < RCVBUF_LOW_RTT_US {
            window * rtt_us / RCVBUF_LOW_RTT_US
        } else {
            2 * (window * u64::from(copied.saturating_sub(before)) / u64::from(before.max(1)))
        };
        if linux >= LinuxVersion(6, 16) {
            let beyond = self.out_of_order.end().map_or(0, |end| end.wrapping_sub(rcv_nxt));
            window += u64::from(beyond);
        }
        let rcvbuf = self.memory_for(window, linux).min(self.rcvbuf_max.into()) as u32;
        if self.tunes && rcvbuf > self.rcvbuf {
            self.rcvbuf = rcvbuf;
            self.window_clamp = share(rcvbuf, self.window_ratio);
        }
    }

    /// Returns the buffer size of which Linux offers `window` bytes. Linux: `tcp_space_from_win`.
    fn memory_for(&self, window: u64, linux: LinuxVersion) -> u64 {
        if linux >= LinuxVersion(6, 6) {
            return (window << 8) / u64::from(self.window_ratio.max(1));
        }
        window / u64::from(self.advmss) * u64::from(self.segment_memory())
    }

    /// Returns the memory to plan for a full segment, bytes. Linux: `tcp_rcv_space_adjust`.
    fn segment_memory(&self) -> u32 {
        // Adds 128 until the payload share is an MSS.
        let mut memory = self.advmss + self.max_tcp_header_bytes + SKB_STRUCTURES_BYTES;
        while share(memory, self.window_ratio) < self.advmss {
            memory += 128;
        }
        memory
    }
}

//! The application writes: data goes into skbs as far as there is room, and what fills one may leave.

use super::close::Fin;
use super::output::Push;
use super::seq::after;
use super::{GSO_MAX_BYTES, Sock};
use crate::clock::jiffies_since;
use crate::net::Net;
use knee_queue::time::Time;

/// `TCP_MSS_DEFAULT`: half of a window up to this is not a size of skbs.
const MSS_DEFAULT_BYTES: u32 = 536;
/// Bytes of a write that are in the socket at once if no send buffer limits it.
const WRITE_CHUNK_BYTES: u32 = 1 << 20;
/// The same with TSO: more than the two skbs that decide what leaves next, and little that was cut for an earlier window.
const TSO_WRITE_CHUNK_BYTES: u32 = 1 << 18;

impl Sock {
    /// Writes `bytes` more for the application. Linux: `tcp_sendmsg_locked`.
    pub(crate) fn write(&mut self, bytes: u64, net: &mut Net) {
        self.writer.more_follows = false;
        self.write_bytes(bytes, net);
    }

    /// Writes `bytes` with `MSG_MORE`: the short end waits as if corked, but only for this write.
    /// Linux: `tcp_push`.
    pub(crate) fn write_before_more(&mut self, bytes: u64, net: &mut Net) {
        self.writer.more_follows = true;
        self.write_bytes(bytes, net);
    }

    fn write_bytes(&mut self, bytes: u64, net: &mut Net) {
        if !self.state.is_writable() || self.writer.closes {
            return;
        }
        self.attend(net);
        self.check_app_limited(net.now);
        self.writer.pending_bytes = self.writer.pending_bytes.saturating_add(bytes);
        self.write_on(net);
    }

    /// Writes as much as there is room for, corked if more follows. Linux: `tcp_sendmsg_locked`,
    /// `tcp_push`.
    fn write_on(&mut self, net: &mut Net) {
        let cork = self.writer.cork;
        self.writer.cork |= self.writer.more_follows;
        self.write_and_push(net);
        self.writer.cork = cork;
    }

    fn write_and_push(&mut self, net: &mut Net) {
        let has_skbs = self.host.config.gso_max_segs > 1;
        if has_skbs {
            self.write_skbs(net);
        } else {
            self.refill(net);
        }
        if !self.has_unsent() {
            return;
        }
        if !has_skbs {
            // The restart after an idle time, above, sees the clock of the event before.
            self.read_clock(net);
            self.write_xmit(Push::FullOnly, net);
        }
        // A full buffer blocks the write; the segment that ends here carries PSH.
        if self.writer.is_waiting && self.has_unsent() {
            self.writer.full_at.push_back(self.tp.write_seq);
        }
        if self.has_unsent() && (self.writer.fin == Fin::Waits || !self.corks_tail(net)) {
            self.write_xmit(Push::All, net);
        }
        self.probe_if_stuck(net);
    }

    /// Writes as much as there is room for, skb by skb: each that is full may leave at once, as far as the windows
    /// permit. The next bytes then fill up what is left of it. Linux: `tcp_sendmsg_locked`, `tcp_push_one`.
    fn write_skbs(&mut self, net: &mut Net) {
        if self.writer.pending_bytes == 0 || self.writer.is_waiting {
            return;
        }
        let mut room = self.writer.pending_bytes.min(u64::from(self.room_bytes())) as u32;
        let goal = self.size_goal();
        let mut pushed_seq = self.tp.pushed_seq;
        if room > 0 {
            self.restart_after_idle(net);
            self.read_clock(net);
        }
        while room > 0 {
            let tail = self.write_queue.tail_bytes(self.tp.snd_nxt);
            let bytes = if tail < goal { goal - tail } else { goal }.min(room);
            room -= bytes;
            self.append(bytes, goal);
            if self.write_queue.tail_bytes(self.tp.snd_nxt) < goal {
                continue;
            }
            self.write_queue.set_filling(true);
            if after(self.tp.write_seq, pushed_seq.wrapping_add(self.tp.max_window >> 1)) {
                pushed_seq = self.tp.write_seq;
                self.write_xmit(Push::NagleOff, net);
            } else if self.write_queue.has_one() {
                self.write_xmit(Push::First, net);
            }
            self.write_queue.set_filling(false);
        }
        self.end_refill();
    }

    /// Automatic corking: holds the short end of a write until an earlier packet has left the host,
    /// because more data may follow. Linux: `tcp_push`, `tcp_should_autocork`.
    fn corks_tail(&mut self, net: &mut Net) -> bool {
        let tail = if self.host.config.gso_max_segs > 1 {
            self.write_queue.tail_bytes(self.tp.snd_nxt)
        } else {
            self.unsent_bytes()
        };
        if tail >= self.size_goal() || self.rtx.is_empty() || !self.host.config.sysctls.autocorking
        {
            return false;
        }
        self.forget_departed(net.now);
        if self.in_host_bytes < u64::from(tail) + u64::from(self.host.config.skb_overhead_bytes) {
            return false;
        }
        self.throttle(net);
        true
    }

    /// Returns the bytes that the kernel puts into one skb: a segment, or as much as one burst may
    /// hold, but no more than half of the peer's largest window. Linux: `tcp_xmit_size_goal`.
    pub(super) fn size_goal(&self) -> u32 {
        let (mss, most) = (self.mss(), self.host.config.gso_max_segs);
        if most <= 1 {
            return mss;
        }
        let window = self.tp.max_window;
        let half = if window > MSS_DEFAULT_BYTES { window >> 1 } else { window };
        let bytes = if half == 0 { GSO_MAX_BYTES } else { GSO_MAX_BYTES.min(half) };
        mss * (bytes / mss).min(most).max(1)
    }

    /// Returns the length of the skb that is sent next, bytes.
    pub(super) fn head_bytes(&self) -> u32 {
        let whole = self.unsent_bytes().min(self.size_goal());
        self.write_queue.head_bytes(self.tp.snd_nxt).unwrap_or(whole).min(self.unsent_bytes())
    }

    /// Moves the application's pending data into the socket, as far as there is room. Linux:
    /// `tcp_sendmsg_locked`.
    #[inline]
    pub(super) fn refill(&mut self, net: &mut Net) {
        if self.writer.pending_bytes == 0 || self.writer.is_waiting || self.write_queue.is_filling()
        {
            return;
        }
        let bytes = self.writer.pending_bytes.min(u64::from(self.room_bytes())) as u32;
        if bytes > 0 {
            self.restart_after_idle(net);
            self.append(bytes, self.size_goal());
        }
        self.end_refill();
    }

    /// Returns the bytes that a write may put into the socket now.
    fn room_bytes(&self) -> u32 {
        if self.writer.is_limited {
            self.sndbuf_room_bytes().min(self.notsent_room_bytes())
        } else {
            let tso = self.host.config.gso_max_segs > 1;
            let goal = self.size_goal();
            // Whole skbs, so that none is short because the write goes on later.
            let whole = || TSO_WRITE_CHUNK_BYTES.div_ceil(goal) * goal;
            let chunk = if tso { whole() } else { WRITE_CHUNK_BYTES };
            if self.unsent_bytes() > chunk / 2 { 0 } else { chunk }
        }
    }

    /// Moves pending bytes into the socket, into skbs of `goal` bytes.
    fn append(&mut self, bytes: u32, goal: u32) {
        self.writer.pending_bytes -= u64::from(bytes);
        if self.host.config.gso_max_segs > 1 {
            self.write_queue.append(self.tp.snd_nxt, self.tp.write_seq, bytes, goal);
        }
        self.tp.write_seq = self.tp.write_seq.wrapping_add(bytes);
        self.tp.pushed_seq = self.tp.write_seq;
    }

    /// Notes whether the write goes on later, or ends the connection's data.
    fn end_refill(&mut self) {
        self.writer.is_waiting = self.writer.is_limited && self.writer.pending_bytes > 0;
        if self.writer.closes && self.writer.pending_bytes == 0 {
            self.append_fin();
        }
    }

    /// Returns the payload that `tcp_notsent_lowat` permits, in whole skbs until the limit is
    /// passed. Linux: `tcp_stream_memory_free`.
    fn notsent_room_bytes(&self) -> u32 {
        let lowat = self.host.config.sysctls.notsent_lowat;
        let goal = self.size_goal();
        let free = lowat.saturating_sub(self.unsent_bytes());
        free.div_ceil(goal).saturating_mul(goal)
    }

    /// Returns the memory of a full segment, bytes.
    fn charged_per_segment(&self) -> u32 {
        self.mss() + self.host.config.skb_overhead_bytes
    }

    /// Returns the memory of all unacknowledged and unsent data, bytes.
    fn sndbuf_used_bytes(&self) -> u32 {
        let queued = self.tp.write_seq.wrapping_sub(self.tp.snd_una);
        let skbs = queued.div_ceil(self.size_goal());
        queued.saturating_add(skbs.saturating_mul(self.host.config.skb_overhead_bytes))
    }

    /// Returns the payload that still fits, bytes. Linux accepts one skb beyond the limit. Linux:
    /// `__sk_stream_memory_free`.
    fn sndbuf_room_bytes(&self) -> u32 {
        let free = self.writer.sndbuf_bytes.saturating_sub(self.sndbuf_used_bytes());
        let goal = self.size_goal();
        let skbs = free.div_ceil(goal + self.host.config.skb_overhead_bytes);
        skbs.saturating_mul(goal).min(u32::MAX / 4)
    }

    /// Grows the send buffer to twice the window, or to the algorithm's factor. Linux:
    /// `tcp_sndbuf_expand`.
    pub(super) fn expand_sndbuf(&mut self, net: &mut Net) {
        let Some(max) = self.host.config.sndbuf_max_bytes else { return };
        if self.writer.is_locked {
            return;
        }
        let windows = self.cc.sndbuf_expand(&mut self.tp, &mut net.cc);
        let segments = self.tp.snd_cwnd.max(10).max(self.tp.reordering + 1);
        let bytes = windows.saturating_mul(segments).saturating_mul(self.charged_per_segment());
        self.writer.sndbuf_bytes = self.writer.sndbuf_bytes.max(bytes.min(max));
    }

    /// Lets a waiting application continue after an ACK, when a third of the buffer is free. Linux:
    /// `tcp_check_space`, `tcp_new_space`, `sk_stream_write_space`.
    pub(super) fn check_space(&mut self, net: &mut Net) {
        if !self.writer.is_waiting {
            return;
        }
        if self.in_flight() < self.tp.snd_cwnd {
            self.expand_sndbuf(net);
        }
        let used = self.sndbuf_used_bytes();
        let lowat = self.host.config.sysctls.notsent_lowat;
        if self.writer.sndbuf_bytes.saturating_sub(used) >= used / 2
            && u64::from(self.unsent_bytes()) * 2 < u64::from(lowat)
        {
            self.writer.is_waiting = false;
            self.check_app_limited(net.now);
            self.write_on(net);
        }
    }

    /// Restarts slow start if nothing was sent for longer than the timeout. Linux:
    /// `tcp_slow_start_after_idle_check`.
    pub(super) fn restart_after_idle(&mut self, net: &mut Net) {
        if !self.host.config.slow_start_after_idle
            || self.tp.packets_out > 0
            || self.cc.algorithm().has_cong_control()
        {
            return;
        }
        let idle = jiffies_since(net.cc.jiffies, self.tp.lsndtime);
        if idle > self.rtt.rto_jiffies {
            self.cwnd_restart(idle, net);
        }
    }

    /// Marks later rate samples as application-limited if the application leaves the window unused.
    /// Linux: `tcp_rate_check_app_limited`.
    fn check_app_limited(&mut self, now: Time) {
        self.forget_departed(now);
        if self.unsent_bytes() < self.mss()
            && self.in_host_bytes < u64::from(self.host.config.skb_overhead_bytes)
            && self.in_flight() < self.tp.snd_cwnd
            && self.tp.lost_out <= self.tp.retrans_out
        {
            self.tp.app_limited = (self.tp.delivered.wrapping_add(self.in_flight())).max(1);
        }
    }
}

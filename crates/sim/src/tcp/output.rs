//! Sends segments: what may leave, the size of bursts, and the host's own queue.

use super::close::Fin;
use super::rtt::RTO_MAX_MS;
use super::rtx_queue::{Segment, SegmentId, mark};
use super::seq::{after, before};
use super::timers::Pending;
use super::{GSO_MAX_BYTES, Sock};
use crate::clock::jiffies_since;
use crate::events::Timer;
use crate::net::Net;
use crate::packet::{MAX_SACKS, NO_SACKS, Packet, Tos, flags};
use knee_algo::{ca_state, ecn_flags};
use knee_queue::Ecn;
use knee_queue::time::Time;
use knee_run::spec::LinuxVersion;

/// The shortest time before a stuck sender probes.
const PROBE_MIN_US: u64 = 200_000;
/// Time before a retry after the host's own queue refused a segment.
pub(super) const LOCAL_DROP_RETRY_MS: u64 = 500;
/// The most doublings of the time between probes (`tcp_retries2`).
const BACKOFF_MAX: u8 = 15;
/// A burst may wait for more window only if the last one left less than this ago.
const DEFER_WITHIN_NS: u64 = 1_000_000;

/// The limits of a send attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    All,
    /// Short segments do not wait for earlier short ones.
    NagleOff,
    /// Only full skbs leave, because the application is still writing.
    FullOnly,
    /// One burst leaves without delay, because the application is still writing and filled the first
    /// skb.
    First,
    /// One segment leaves as a tail loss probe, whatever cwnd says.
    Probe,
}

impl Sock {
    /// Sends unsent data as far as the limits allow. Linux: `__tcp_push_pending_frames`.
    pub(super) fn push_pending(&mut self, net: &mut Net) {
        self.refill(net);
        if self.has_unsent() {
            self.write_xmit(Push::All, net);
            self.probe_if_stuck(net);
        }
    }

    /// Sends short segments and the FIN too, against Nagle's rule. Linux:
    /// `__tcp_push_pending_frames`.
    pub(super) fn push_past_nagle(&mut self, net: &mut Net) {
        if !self.has_unsent() {
            return;
        }
        self.write_xmit(Push::NagleOff, net);
        self.probe_if_stuck(net);
    }

    /// Arms a timer if data waits and no ACK is outstanding that could restart it. This happens if
    /// the window is closed or the host's own queue refused the data. Linux:
    /// `tcp_check_probe_timer`.
    #[inline]
    pub(super) fn probe_if_stuck(&mut self, net: &mut Net) {
        if self.tp.packets_out == 0
            && self.has_unsent()
            && self.retransmit.pending == Pending::Nothing
        {
            let least = self.host.jiffies.of_us(PROBE_MIN_US);
            self.arm_after_pacing(Pending::WindowProbe, self.rtt.rto_jiffies.max(least), net);
        }
    }

    /// Handles the timer of a stuck sender: sends as much as the window permits, or a packet that
    /// the peer must answer. Linux: `tcp_send_probe0`, `tcp_write_wakeup`, `tcp_xmit_probe_skb`.
    pub(super) fn send_window_probe(&mut self, net: &mut Net) {
        if self.tp.packets_out > 0 || !self.has_unsent() {
            (self.backoff, self.probes_out) = (0, 0);
            return;
        }
        let window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
        let mut refused = false;
        if window > 0 && window <= i32::MAX as u32 {
            let skb_bytes = self.head_bytes();
            let bytes = skb_bytes.min(window).min(self.mss());
            let stays_cut = self.host.config.linux < LinuxVersion(6, 8);
            if bytes < skb_bytes && stays_cut && self.write_queue.is_empty() {
                self.write_queue.cut_head(self.tp.snd_nxt.wrapping_add(skb_bytes));
            }
            // This makes the segment carry PSH in any case.
            self.writer.psh_seq = self.tp.snd_nxt.wrapping_sub(self.tp.max_window / 2 + 1);
            refused = self.send_burst(bytes, window > bytes, net) == 0;
        } else {
            let mut packet = self.packet();
            packet.seq = self.tp.snd_una.wrapping_sub(1);
            packet.end_seq = packet.seq;
            packet.tos.set_ecn(self.ecn_of(false));
            let _ = net.transmit(packet);
        }
        if self.tp.packets_out > 0 {
            (self.backoff, self.probes_out) = (0, 0);
            return;
        }
        self.probes_out = self.probes_out.saturating_add(1);
        let jiffies = if refused {
            self.host.jiffies.of_ms(LOCAL_DROP_RETRY_MS)
        } else {
            self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
            self.window_probe_jiffies()
        };
        self.arm_after_pacing(Pending::WindowProbe, jiffies, net);
    }

    /// Returns the time to the next window probe, which doubles each time. Linux:
    /// `tcp_probe0_when`, `tcp_probe0_base`.
    fn window_probe_jiffies(&self) -> u32 {
        let least = self.host.jiffies.of_us(PROBE_MIN_US);
        let base = u64::from(self.rtt.rto_jiffies.max(least));
        let most = u64::from(self.host.jiffies.of_ms(RTO_MAX_MS));
        (base << self.backoff.min(10)).min(most) as u32
    }

    /// Handles an ACK while nothing is outstanding: checks whether the window now permits the next
    /// segment. Linux: `tcp_ack_probe`.
    pub(super) fn on_window_update(&mut self, net: &mut Net) {
        if !self.has_unsent() {
            return;
        }
        let window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
        if window <= i32::MAX as u32 && self.next_segment_len() <= window {
            self.backoff = 0;
            if self.retransmit.pending == Pending::WindowProbe {
                self.retransmit.disarm();
            }
            self.restart_after_idle(net);
        } else {
            self.arm_after_pacing(Pending::WindowProbe, self.window_probe_jiffies(), net);
        }
    }

    /// Continues when the host's queue or the pacing timer permits it. Linux: `tcp_tsq_write`.
    pub(super) fn resume_sending(&mut self, net: &mut Net) {
        if !self.state.is_synchronised() {
            return;
        }
        if self.tp.lost_out > self.tp.retrans_out && self.tp.snd_cwnd > self.in_flight() {
            self.retransmit_queue(net);
        }
        self.push_pending(net);
    }

    /// Sends new data as far as the windows, pacing, Nagle and the host's queue permit. Returns
    /// whether it sent anything. Linux: `tcp_write_xmit`, `tcp_snd_wnd_test`.
    pub(super) fn write_xmit(&mut self, push: Push, net: &mut Net) -> bool {
        let mss = self.mss();
        let probe = push == Push::Probe;
        let nagle_off = matches!(push, Push::Probe | Push::NagleOff | Push::First);
        // In 6.12, not in 6.1; when it came is not known.
        let old_fin = self.host.config.linux < LinuxVersion(6, 12);
        let size_goal = self.size_goal();
        let max_segs = self.tso_segs(net);
        let grows = self.host.config.linux >= LinuxVersion(6, 10);
        let mut sent_pkts = 0;
        let mut cwnd_limited = false;
        loop {
            let unsent = self.unsent_bytes();
            let fin = self.writer.fin == Fin::Waits;
            if (unsent == 0 && !fin) || self.blocked_by_pacing(net) {
                break;
            }
            let mut quota = self.cwnd_quota();
            if quota == 0 {
                let lone_fin = fin && unsent <= mss && old_fin;
                if !probe && !lone_fin {
                    break;
                }
                quota = 1;
            }
            if grows {
                self.write_queue.grow_head(self.tp.snd_nxt, quota.min(max_segs) * mss);
            }
            let window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
            if self.next_segment_len() > window || window > i32::MAX as u32 {
                break;
            }
            let skb_bytes = self.head_bytes();
            // While it still writes, an application has full skbs sent as far as they may, without delay.
            if push == Push::FullOnly && skb_bytes < size_goal {
                break;
            }
            let is_last = unsent == skb_bytes;
            let mut bytes = skb_bytes;
            if skb_bytes <= mss {
                if skb_bytes < mss && is_last && !fin && self.nagle_holds(nagle_off) {
                    break;
                }
            } else {
                let ends = (is_last, is_last && fin);
                if !matches!(push, Push::Probe | Push::FullOnly | Push::First)
                    && self.defers_burst(skb_bytes, ends, max_segs, net, &mut cwnd_limited)
                {
                    break;
                }
                bytes = self.split_point(skb_bytes, is_last, quota.min(max_segs), nagle_off);
            }
            if probe {
                bytes = bytes.min(mss);
            }
            if bytes < skb_bytes && self.host.config.gso_max_segs > 1 {
                // It stays cut, whatever stops it now.
                self.write_queue.cut_head(self.tp.snd_nxt.wrapping_add(bytes));
            }
            if self.throttled_by_host_queue(bytes, 0, net) {
                break;
            }
            match self.send_burst(bytes, true, net) {
                0 => break,
                pkts => sent_pkts += pkts,
            }
            self.refill(net);
            if probe || push == Push::First {
                break;
            }
        }
        cwnd_limited |= self.in_flight() >= self.tp.snd_cwnd;
        if sent_pkts > 0 || cwnd_limited {
            self.validate_cwnd(cwnd_limited, net);
        }
        if sent_pkts == 0 {
            return false;
        }
        if self.in_cwnd_reduction() {
            self.prr.out += sent_pkts;
        }
        if !probe {
            self.arm_loss_probe(false, net);
        }
        true
    }

    /// Returns the packets that cwnd permits now: half of it at most. Linux: `tcp_cwnd_test`.
    fn cwnd_quota(&self) -> u32 {
        let in_flight = self.in_flight();
        let cwnd = self.tp.snd_cwnd;
        if in_flight >= cwnd {
            return 0;
        }
        (cwnd >> 1).max(1).min(cwnd - in_flight)
    }

    /// Reports whether a short segment must wait because an earlier short one is unacknowledged.
    /// Linux: `tcp_nagle_check`.
    fn nagle_holds(&self, nagle_off: bool) -> bool {
        !nagle_off && (self.writer.cork || (!self.writer.no_delay && self.has_short_outstanding()))
    }

    /// Reports whether a short segment is outstanding (Minshall's variant). Linux:
    /// `tcp_minshall_check`.
    fn has_short_outstanding(&self) -> bool {
        self.tp.packets_out > 0
            && after(self.snd_sml, self.tp.snd_una)
            && !after(self.snd_sml, self.tp.snd_nxt)
    }

    /// Returns the bytes of an skb that may leave as one burst. Linux: `tcp_mss_split_point`.
    fn split_point(&self, skb_bytes: u32, is_last: bool, max_segs: u32, nagle_off: bool) -> u32 {
        let mss = self.mss();
        let window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
        let most = mss * max_segs;
        if most <= window && !is_last {
            return most.min(skb_bytes);
        }
        let needed = skb_bytes.min(window);
        if most <= needed {
            return most;
        }
        let partial = needed % mss;
        if partial != 0 && self.nagle_holds(nagle_off) { needed - partial } else { needed }
    }

    /// Returns the segments per burst: about 1 ms at the pacing rate, more on short paths. Linux:
    /// `tcp_tso_segs`, `tcp_tso_autosize`.
    fn tso_segs(&mut self, net: &mut Net) -> u32 {
        if self.host.config.gso_max_segs <= 1 {
            return 1;
        }
        if self.cc.algorithm().has_tso_segs() {
            let mss = self.mss();
            if let Some(segs) = self.cc.tso_segs(&mut self.tp, &mut net.cc, mss) {
                return segs.clamp(1, self.host.config.gso_max_segs);
            }
        }
        let least = match self.cc.algorithm().has_min_tso_segs() {
            true => self.cc.min_tso_segs(&mut self.tp, &mut net.cc),
            false => self.host.config.sysctls.min_tso_segs,
        };
        let mut bytes = self.tp.sk_pacing_rate >> self.tp.sk_pacing_shift;
        let log = u32::from(self.host.config.sysctls.tso_rtt_log);
        let shift = self.min_rtt.get().unwrap_or(u32::MAX).checked_shr(log).unwrap_or(0);
        if log > 0 && shift < 32 {
            bytes += u64::from(GSO_MAX_BYTES >> shift);
        }
        let bytes = bytes.min(u64::from(GSO_MAX_BYTES)) as u32;
        (bytes / self.mss()).max(least).clamp(1, self.host.config.gso_max_segs)
    }

    /// Reports whether a burst should wait until the window permits a larger one. Linux:
    /// `tcp_tso_should_defer`.
    fn defers_burst(
        &self,
        skb_bytes: u32,
        (is_last, carries_fin): (bool, bool),
        max_segs: u32,
        net: &Net,
        cwnd_limited: &mut bool,
    ) -> bool {
        let now_ns = net.now.ns();
        if self.tp.icsk_ca_state >= ca_state::RECOVERY
            || now_ns > self.tp.tcp_wstamp_ns + DEFER_WITHIN_NS
        {
            return false;
        }
        let mss = self.mss();
        let send_window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
        let cong_window = self.tp.snd_cwnd.saturating_sub(self.in_flight()).saturating_mul(mss);
        let limit = send_window.min(cong_window);
        if limit >= max_segs * mss || (!is_last && limit >= skb_bytes) {
            return false;
        }
        let window = self.tp.snd_wnd.min(self.tp.snd_cwnd.saturating_mul(mss));
        match self.host.config.sysctls.tso_win_divisor {
            // Linux: `tcp_max_tso_deferred_mss`.
            0 if limit > 3 * mss => return false,
            divisor if divisor > 0 && limit >= window / divisor => return false,
            _ => {}
        }
        let Some(head) = self.rtx.front() else { return false };
        let srtt_us = i64::from(self.tp.srtt_us >> 3);
        let ack_expected_us = head.sent_us as i64 + srtt_us - self.tp.tcp_mstamp as i64;
        if ack_expected_us > (srtt_us / 2).min(1000) {
            return false;
        }
        *cwnd_limited |= cong_window < send_window && cong_window <= skb_bytes;
        limit <= skb_bytes || !carries_fin
    }

    /// TCP small queues: limits the host's own queue to about 1 ms at the pacing rate. Linux:
    /// `tcp_small_queue_check`.
    pub(super) fn throttled_by_host_queue(
        &mut self,
        bytes: u32,
        factor: u32,
        net: &mut Net,
    ) -> bool {
        if self.in_host_bytes == 0 || self.host.config.defects.no_small_queues {
            return false;
        }
        self.forget_departed(net.now);
        let charged = u64::from(bytes + self.host.config.skb_overhead_bytes);
        let mut limit = (2 * charged).max(self.tp.sk_pacing_rate >> self.tp.sk_pacing_shift);
        if self.tp.sk_pacing_status == 0 || self.host.config.linux >= LinuxVersion(7, 3) {
            limit = limit.min(u64::from(self.host.config.limit_output_bytes));
        }
        // Linux counts from 1, so reaching the limit already blocks.
        let one_skb = self.rtx.len() <= 1 || self.write_queue.one_is_out(self.tp.snd_una);
        if self.in_host_bytes < limit << factor || one_skb {
            return false;
        }
        self.throttle(net);
        true
    }

    /// Stops the socket until its next packet leaves the host.
    pub(super) fn throttle(&mut self, net: &mut Net) {
        self.throttled = true;
        // fq reports its packets' departures itself, and so does a link that flow control may stop.
        // The memory of a burst is free when its last segment leaves.
        let frees = self.in_host.iter().find(|(_, charged)| *charged > 0);
        if let Some(&(leaves, _)) = frees.filter(|(leaves, _)| *leaves < Time::MAX) {
            self.tx_completion.arm(leaves, self.id, Timer::TxCompletion, net);
        }
    }

    /// Handles the departure of the host queue's first segment with an unknown departure time. The
    /// segment starts at `seq`. Linux: `tcp_wfree`.
    pub(crate) fn on_left_host(&mut self, seq: u32, net: &mut Net) {
        if self.ended() {
            return;
        }
        let mut frees = true;
        if let Some(first) = self.in_host.iter_mut().find(|(leaves, _)| *leaves == Time::MAX) {
            first.0 = net.now;
            frees = first.1 > 0;
        }
        let id = self.rtx.find(seq);
        if self.rtx.contains(id) && self.rtx.get(id).leaves_host == Time::MAX {
            self.rtx.get_mut(id).leaves_host = net.now;
        }
        if self.throttled && frees {
            self.enter(net);
            self.throttled = false;
            self.resume_sending(net);
        }
    }

    #[inline]
    pub(super) fn forget_departed(&mut self, now: Time) {
        while let Some(&(leaves, charged)) = self.in_host.front() {
            if leaves > now {
                return;
            }
            self.in_host.pop_front();
            self.in_host_bytes -= u64::from(charged);
        }
        // The ring starts again in the lines that a near cache has.
        self.in_host.clear();
    }

    /// Sends `bytes` of new data as consecutive segments. Also sends the FIN if no data follows and
    /// `fin_too` permits it. Returns the number of segments sent. Linux: `tcp_event_new_data_sent`,
    /// `tcp_minshall_update`.
    #[inline]
    fn send_burst(&mut self, bytes: u32, fin_too: bool, net: &mut Net) -> u32 {
        let mss = self.mss();
        let mut fin = self.writer.fin == Fin::Waits && fin_too && bytes == self.unsent_bytes();
        let mut left = bytes;
        let mut sent = 0;
        let prior_wstamp_ns = self.begin_departure(net);
        if self.in_flight() == 0 {
            self.transmission_starts(net);
        }
        let begin = self.tp.snd_nxt;
        while left > 0 || fin {
            let len = left.min(mss);
            let seq = self.tp.snd_nxt;
            let mut end_seq = seq.wrapping_add(len);
            let mut marks = if len > 0 && self.pushes(end_seq) { mark::PSH } else { 0 };
            let with_fin = fin && len == left;
            if with_fin {
                end_seq = end_seq.wrapping_add(1);
                marks |= mark::FIN;
            }
            let id = self.rtx.push(Segment::new(seq, end_seq, marks));
            let mut in_burst = if sent > 0 { flags::IN_BURST } else { 0 };
            if sent > 0 && len > 0 && len == left {
                // Of the packet alone: a retransmission of this segment has none.
                in_burst |= flags::PSH;
            }
            // The memory of an skb is free when its last segment has left.
            let charged = if len == left { bytes + self.host.config.skb_overhead_bytes } else { 0 };
            if !self.transmit_segment(id, false, in_burst, charged, net) {
                self.rtx.drop_last();
                self.enter_cwr(net);
                break;
            }
            let was_empty = self.tp.packets_out == 0;
            self.tp.snd_nxt = end_seq;
            self.tp.packets_out += 1;
            if was_empty || self.retransmit.pending == Pending::LossProbe {
                self.rearm_rto(net);
            }
            if len < mss {
                self.snd_sml = end_seq;
            }
            left -= len;
            sent += 1;
            if with_fin {
                fin = false;
                self.writer.fin = Fin::Sent;
                self.tp.write_seq = end_seq;
            }
        }
        if sent > 0 {
            self.write_queue.send(begin, self.tp.snd_nxt);
        }
        if let Some(last) = self.in_host.back_mut().filter(|_| sent > 0 && left > 0) {
            // The host's queue has refused the rest, and with it the segment that is charged.
            let charged = bytes - left + self.host.config.skb_overhead_bytes;
            last.1 += charged;
            self.in_host_bytes += u64::from(charged);
        }
        self.end_departure(prior_wstamp_ns, self.paced_bytes(bytes - left, sent));
        self.counters.bursts += u64::from(sent > 0);
        sent
    }

    /// Reports whether a segment carries PSH: the last of a write, the last that fit the send
    /// buffer, and one in each half of the largest window. Linux: `tcp_mark_push`, `forced_push`.
    fn pushes(&mut self, end_seq: u32) -> bool {
        let mut ends_write = end_seq == self.tp.write_seq
            && self.writer.pending_bytes == 0
            && !self.writer.more_follows;
        while self.writer.full_at.front().is_some_and(|end| !before(end_seq, *end)) {
            self.writer.full_at.pop_front();
            ends_write = true;
        }
        let forced = end_seq.wrapping_sub(self.writer.psh_seq) > self.tp.max_window / 2;
        if ends_write || forced {
            self.writer.psh_seq = end_seq;
        }
        ends_write || forced
    }

    // ---- one segment ----

    /// Puts a segment on the wire. Returns false if the host's own queue refused it. Linux:
    /// `__tcp_transmit_skb`, `tcp_rate_skb_sent`.
    #[inline]
    pub(super) fn transmit_segment(
        &mut self,
        id: SegmentId,
        again: bool,
        in_burst: u16,
        charged_bytes: u32,
        net: &mut Net,
    ) -> bool {
        let segment = *self.rtx.get(id);
        let len = segment.payload_bytes();
        let mut packet = self.packet();
        packet.seq = segment.seq;
        packet.end_seq = segment.end_seq;
        packet.wire_bytes = self.header_bytes + len;
        packet.flags |= in_burst;
        if segment.has(mark::PSH) {
            packet.flags |= flags::PSH;
        }
        if segment.has(mark::FIN) {
            packet.flags |= flags::FIN;
        }
        // A FIN without payload is not data.
        let new_data = !again && len > 0;
        if new_data && self.tp.ecn_flags & ecn_flags::QUEUE_CWR != 0 && self.ecn_ok() {
            self.tp.ecn_flags &= !ecn_flags::QUEUE_CWR;
            packet.flags |= flags::CWR;
        }
        packet.tos.set_ecn(self.ecn_of(new_data));
        self.acks_sent_with(self.tp.rcv_nxt);

        let Some(leaves) = self.leave_host(packet, charged_bytes, net) else { return false };
        self.counters.data_segs_sent += 1;
        self.tp.data_segs_out = self.counters.data_segs_sent as u32;
        net.work.data_pkts += 1;
        self.tp.lsndtime = net.cc.jiffies;
        self.receiver.data_sent(net.cc.jiffies);

        let sent_us = self.tp.tcp_wstamp_ns / 1000;
        if self.tp.packets_out == 0 {
            self.tp.first_tx_mstamp = sent_us;
            self.tp.delivered_mstamp = sent_us;
        }
        let app_limited = self.tp.app_limited != 0;
        let (first_tx_us, delivered_us) = (self.tp.first_tx_mstamp, self.tp.delivered_mstamp);
        let (delivered, delivered_ce) = (self.tp.delivered, self.tp.delivered_ce);
        let (lost, in_flight) = (self.tp.lost, self.in_flight() + 1);
        let segment = self.rtx.get_mut(id);
        segment.sent_us = sent_us;
        segment.leaves_host = leaves;
        segment.first_tx_us = first_tx_us;
        segment.delivered_us = delivered_us;
        segment.delivered = delivered;
        segment.delivered_ce = delivered_ce;
        segment.lost = lost;
        segment.set_in_flight(in_flight);
        if app_limited {
            segment.marks |= mark::APP_LIMITED;
        } else {
            segment.marks &= !mark::APP_LIMITED;
        }
        self.rtx.move_to_newest(id);
        true
    }

    /// Creates a packet of an established connection, with acknowledgement and window. Linux:
    /// `__tcp_transmit_skb`, `tcp_established_options`.
    #[inline]
    pub(super) fn packet(&mut self) -> Packet {
        let window_bytes = self.select_window();
        let no_timestamps = !self.timestamps;
        let ece = self.ecn_ok() && self.tp.ecn_flags & ecn_flags::DEMAND_CWR != 0;
        let mut packet = Packet {
            to: self.peer,
            hop: self.path,
            wire_bytes: self.header_bytes,
            seq: self.tp.snd_nxt,
            end_seq: self.tp.snd_nxt,
            ack_seq: self.tp.rcv_nxt,
            window_bytes,
            ts_val: self.ts_now(),
            ts_ecr: self.receiver.ts_recent,
            flags: flags::ACK
                | if ece { flags::ECE } else { 0 }
                | if no_timestamps { flags::NO_TS } else { 0 },
            tos: Tos::new(self.dscp, Ecn::NotEct),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        if self.counts_ce() {
            packet.flags = self.with_ce_count(packet.flags);
        }
        if self.receiver.out_of_order.has_report() {
            let mut ranges = [(0, 0); MAX_SACKS];
            let room = MAX_SACKS - usize::from(self.timestamps);
            let len = self.receiver.out_of_order.sack_blocks(&mut ranges[..room]);
            packet.set_sacks(&ranges[..len.into()]);
        }
        packet
    }

    // ---- cwnd validation ----

    /// Notes whether cwnd limits the flow, and reduces a cwnd that stays unused. Linux:
    /// `tcp_cwnd_validate`, `tcp_is_cwnd_limited`, `tcp_cwnd_application_limited`.
    #[inline]
    fn validate_cwnd(&mut self, cwnd_limited: bool, net: &mut Net) {
        if !before(self.tp.snd_una, self.cwnd_usage_seq)
            || cwnd_limited
            || (self.tp.is_cwnd_limited == 0 && self.tp.packets_out > self.tp.max_packets_out)
        {
            self.tp.is_cwnd_limited = u8::from(cwnd_limited);
            self.tp.max_packets_out = self.tp.packets_out;
            self.cwnd_usage_seq = self.tp.snd_nxt;
        }
        let now = net.cc.jiffies;
        let limited = self.tp.is_cwnd_limited != 0
            || (self.tp.in_slow_start() && self.tp.snd_cwnd < 2 * self.tp.max_packets_out);
        if limited {
            self.tp.snd_cwnd_used = 0;
            self.tp.snd_cwnd_stamp = now;
            return;
        }
        self.tp.snd_cwnd_used = self.tp.snd_cwnd_used.max(self.tp.packets_out);
        if self.host.config.slow_start_after_idle
            && jiffies_since(now, self.tp.snd_cwnd_stamp) >= self.rtt.rto_jiffies
            && !self.cc.algorithm().has_cong_control()
        {
            // A writer that waits for room is not idle.
            if self.tp.icsk_ca_state == ca_state::OPEN && self.writer.pending_bytes == 0 {
                let used = self.tp.snd_cwnd_used.max(self.host.config.initial_cwnd_pkts);
                if used < self.tp.snd_cwnd {
                    self.tp.snd_ssthresh = self.current_ssthresh();
                    self.tp.snd_cwnd = (self.tp.snd_cwnd + used) >> 1;
                }
                self.tp.snd_cwnd_used = 0;
            }
            self.tp.snd_cwnd_stamp = now;
        }
    }
}

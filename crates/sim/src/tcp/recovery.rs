//! The congestion states CWR, Recovery and Loss: how they begin and end, and which segments are
//! lost.

use super::Sock;
use super::ack::Progress;
use super::rtx_queue::{SegmentId, mark};
use super::seq::{after, before};
use super::timers::{Pending, TIMEOUT_MIN_US};
use crate::net::Net;
use knee_algo::{
    INFINITE_SSTHRESH, RateSample, SentSegment, SentState, ca_event, ca_state, ecn_flags, sent_mark,
};

/// Successful recoveries after which the reordering window returns to its minimum.
const RACK_RECOVERY_THRESH: u8 = 16;
/// Bits of `tcp_recovery`.
const RACK_STATIC_REO_WND: u8 = 2;
const RACK_NO_DUPTHRESH: u8 = 4;

/// The shortest wait for a receiver that seems to have discarded SACKed data.
const RENEGED_WAIT_MS: u64 = 10;

/// The segments to send after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rexmit {
    Nothing,
    /// Only segments marked lost.
    Lost,
    /// New data instead (F-RTO). Lost segments leave only if there is no new data.
    New,
}

impl Sock {
    // ---- states ----

    /// Sets the congestion state, and tells the algorithm. Linux: `tcp_set_ca_state`.
    fn set_ca_state(&mut self, state: u8, net: &mut Net) {
        self.cc.set_state(&mut self.tp, &mut net.cc, state);
        // The state is set before the algorithm's requests, which may change it again.
        self.tp.icsk_ca_state = state;
        self.do_what_was_asked(net);
    }

    /// Tells the algorithm of an event. Linux: `tcp_ca_event`.
    fn ca_event(&mut self, event: u32, net: &mut Net) {
        self.cc.cwnd_event(&mut self.tp, &mut net.cc, event);
        self.do_what_was_asked(net);
    }

    /// Reports whether PRR reduces cwnd. Linux: `tcp_in_cwnd_reduction`.
    #[inline]
    pub(super) fn in_cwnd_reduction(&self) -> bool {
        matches!(self.tp.icsk_ca_state, ca_state::CWR | ca_state::RECOVERY)
    }

    /// Returns the ssthresh to remember: at least three quarters of cwnd. Linux:
    /// `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.in_cwnd_reduction() {
            self.tp.snd_ssthresh
        } else {
            let cwnd = self.tp.snd_cwnd;
            self.tp.snd_ssthresh.max((cwnd >> 1) + (cwnd >> 2))
        }
    }

    /// Makes the next new segment carry CWR. Linux: `tcp_ecn_queue_cwr`.
    fn queue_cwr(&mut self) {
        if self.ecn_ok() && !self.counts_ce() {
            self.tp.ecn_flags |= ecn_flags::QUEUE_CWR;
        }
    }

    /// Starts proportional rate reduction towards the algorithm's ssthresh. Linux:
    /// `tcp_init_cwnd_reduction`.
    fn init_cwnd_reduction(&mut self, net: &mut Net) {
        self.tp.high_seq = self.tp.snd_nxt;
        self.tp.tlp_high_seq = 0;
        self.tp.snd_cwnd_cnt = 0;
        self.tp.prior_cwnd = self.tp.snd_cwnd;
        self.prr = super::Prr::default();
        self.tp.snd_ssthresh = self.cc.ssthresh(&mut self.tp, &mut net.cc);
        self.queue_cwr();
    }

    /// PRR: cwnd follows the delivered packets, and reaches ssthresh after one round trip. Linux:
    /// `tcp_cwnd_reduction`.
    #[inline]
    pub(super) fn cwnd_reduction(&mut self, delivered: u32, newly_lost: u32, advanced: bool) {
        if delivered == 0 || self.tp.prior_cwnd == 0 {
            return;
        }
        self.prr.delivered += delivered;
        let in_flight = self.in_flight();
        let room = i64::from(self.tp.snd_ssthresh) - i64::from(in_flight);
        let conserved = i64::from(self.prr.delivered) - i64::from(self.prr.out);
        let mut send = if room < 0 {
            let prior_cwnd = u64::from(self.tp.prior_cwnd);
            let share = u64::from(self.tp.snd_ssthresh) * u64::from(self.prr.delivered);
            share.div_ceil(prior_cwnd) as i64 - i64::from(self.prr.out)
        } else {
            let slow_start = i64::from(advanced && newly_lost == 0);
            room.min(conserved.max(i64::from(delivered)) + slow_start)
        };
        // The first retransmission of an episode always leaves.
        send = send.max(i64::from(self.prr.out == 0));
        self.tp.snd_cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// Ends PRR: cwnd is ssthresh. Linux: `tcp_end_cwnd_reduction`.
    fn end_cwnd_reduction(&mut self, net: &mut Net) {
        if self.cc.algorithm().has_cong_control() {
            return;
        }
        if self.tp.snd_ssthresh < INFINITE_SSTHRESH
            && (self.tp.icsk_ca_state == ca_state::CWR || self.tp.undo_marker != 0)
        {
            self.tp.snd_cwnd = self.tp.snd_ssthresh;
            self.tp.snd_cwnd_stamp = net.cc.jiffies;
        }
        self.ca_event(ca_event::COMPLETE_CWR, net);
    }

    /// Enters CWR. Linux: `tcp_enter_cwr`.
    pub(super) fn enter_cwr(&mut self, net: &mut Net) {
        self.tp.prior_ssthresh = 0;
        if self.tp.icsk_ca_state < ca_state::CWR {
            self.tp.undo_marker = 0;
            self.init_cwnd_reduction(net);
            self.set_ca_state(ca_state::CWR, net);
            self.counters.cwr_reductions += 1;
        }
    }

    /// Remembers what an undo needs. Linux: `tcp_init_undo`.
    fn init_undo(&mut self) {
        self.tp.undo_marker = self.tp.snd_una;
        self.tp.undo_retrans =
            self.tp.retrans_out as i32 + i32::from(self.tp.tlp_high_seq != 0 && self.tlp_retrans);
        if self.tp.undo_retrans == 0 {
            // 0 would mean that every retransmission was needless.
            self.tp.undo_retrans = -1;
        }
    }

    /// Enters Recovery. Linux: `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, ece: bool, net: &mut Net) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.counters.fast_recoveries += 1;
        self.tp.prior_ssthresh = 0;
        self.init_undo();
        self.undoes_timeout = false;
        if !self.in_cwnd_reduction() {
            if !ece {
                self.tp.prior_ssthresh = self.current_ssthresh();
            }
            self.init_cwnd_reduction(net);
        }
        self.set_ca_state(ca_state::RECOVERY, net);
    }

    /// Enters Loss after a timeout. Linux: `tcp_enter_loss`.
    pub(super) fn enter_loss(&mut self, net: &mut Net) {
        let state = self.tp.icsk_ca_state;
        self.mark_lost_by_timeout(net);
        let once_per_window = state <= ca_state::DISORDER
            || !after(self.tp.high_seq, self.tp.snd_una)
            || (state == ca_state::LOSS && self.tp.icsk_retransmits == 0);
        if once_per_window {
            self.tp.prior_ssthresh = self.current_ssthresh();
            self.tp.prior_cwnd = self.tp.snd_cwnd;
            self.tp.snd_ssthresh = self.cc.ssthresh(&mut self.tp, &mut net.cc);
            self.ca_event(ca_event::LOSS, net);
            self.init_undo();
        }
        self.undoes_timeout = true;
        self.tp.snd_cwnd = self.in_flight() + 1;
        self.tp.snd_cwnd_cnt = 0;
        self.tp.snd_cwnd_stamp = net.cc.jiffies;
        let least = self.host.config.sysctls.reordering;
        if state <= ca_state::DISORDER && self.tp.sacked_out >= least {
            self.tp.reordering = self.tp.reordering.min(least);
        }
        self.set_ca_state(ca_state::LOSS, net);
        self.tp.high_seq = self.tp.snd_nxt;
        self.tp.tlp_high_seq = 0;
        self.queue_cwr();
        self.frto = self.host.config.sysctls.frto != 0
            && (state < ca_state::RECOVERY || self.tp.icsk_retransmits > 0);
    }

    /// Marks all segments lost except those sent less than a round trip ago; the first is always
    /// lost. If the first was SACKed, all SACK marks are cleared. Linux: `tcp_timeout_mark_lost`.
    fn mark_lost_by_timeout(&mut self, net: &mut Net) {
        let reneged = self.rtx.front().is_some_and(|head| head.has(mark::SACKED));
        self.tp.is_sack_reneg |= u8::from(reneged);
        if reneged || !self.receiver.peer_sack {
            self.tp.sacked_out = 0;
        }
        let first = self.rtx.first_id();
        for offset in 0..self.rtx.len() as u32 {
            let id = first.wrapping_add(offset);
            if reneged {
                self.rtx.get_mut(id).marks &= !mark::SACKED;
            } else if id != first && self.rack_wait_us(id, 0) > 0 {
                continue;
            }
            self.mark_lost(id, net);
        }
        self.retransmit_hint = None;
    }

    // ---- what is lost ----

    /// Marks a segment lost, or its retransmission. Linux: `tcp_mark_skb_lost`,
    /// `tcp_verify_retransmit_hint`.
    fn mark_lost(&mut self, id: SegmentId, net: &mut Net) {
        let segment = self.rtx.get(id);
        if segment.has(mark::SACKED) {
            return;
        }
        let (is_lost, is_retrans) = (segment.has(mark::LOST), segment.has(mark::RETRANS));
        let seq = segment.seq;
        let hint_moves = match self.retransmit_hint.filter(|hint| self.rtx.contains(*hint)) {
            None => self.tp.retrans_out >= self.tp.lost_out,
            Some(hint) => before(seq, self.rtx.get(hint).seq),
        };
        if hint_moves {
            self.retransmit_hint = Some(id);
        }
        let segment = self.rtx.get_mut(id);
        if is_lost {
            if !is_retrans {
                return;
            }
            segment.marks &= !mark::RETRANS;
            self.tp.retrans_out -= 1;
        } else {
            segment.marks |= mark::LOST;
            self.tp.lost_out += 1;
        }
        self.tp.lost += 1;
        if self.cc.algorithm().has_skb_marked_lost() {
            let segment = self.sent_segment(id);
            self.cc.skb_marked_lost(&mut self.tp, &mut net.cc, &segment);
        }
    }

    /// Returns a segment as algorithms see it.
    fn sent_segment(&self, id: SegmentId) -> SentSegment {
        let segment = self.rtx.get(id);
        let marks = [
            (mark::SACKED, sent_mark::SACKED),
            (mark::RETRANS, sent_mark::RETRANS),
            (mark::LOST, sent_mark::LOST),
            (mark::EVER_RETRANS, sent_mark::EVER_RETRANS),
        ];
        let shown = marks.into_iter().filter(|(ours, _)| segment.has(*ours));
        SentSegment {
            seq: segment.seq,
            end_seq: segment.end_seq,
            gso_segs: 1,
            sacked: shown.map(|(_, theirs)| theirs).sum(),
            tx: SentState {
                is_app_limited: segment.has(mark::APP_LIMITED),
                delivered_ce: segment.delivered_ce,
                in_flight: segment.in_flight(),
                delivered: segment.delivered,
                lost: segment.lost,
                first_tx_mstamp: segment.first_tx_us,
                delivered_mstamp: segment.delivered_us,
            },
            len: segment.payload_bytes(),
        }
    }

    /// Reports whether the segment sent at `a_us` (ending at `a_end`) was sent after the other.
    /// Linux: `tcp_skb_sent_after`.
    fn sent_after((a_us, a_end): (u64, u32), (b_us, b_end): (u64, u32)) -> bool {
        a_us > b_us || (a_us == b_us && after(a_end, b_end))
    }

    /// Updates RACK's latest send time after a delivery. Linux: `tcp_rack_advance`.
    #[inline]
    pub(super) fn rack_advance(&mut self, marks: u8, end_seq: u32, sent_us: u64) {
        let rtt_us = self.tp.tcp_mstamp.saturating_sub(sent_us) as u32;
        if marks & (mark::RETRANS | mark::EVER_RETRANS) != 0
            && rtt_us < self.min_rtt.get().unwrap_or(u32::MAX)
        {
            // The ACK is too fast for the retransmission; it may answer the original.
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt_us = rtt_us;
        if Sock::sent_after((sent_us, end_seq), (self.rack.sent_us, self.rack.end_seq)) {
            self.rack.sent_us = sent_us;
            self.rack.end_seq = end_seq;
        }
    }

    /// Returns RACK's reordering window, us. Linux: `tcp_rack_reo_wnd`.
    fn reo_wnd_us(&self) -> u32 {
        if !self.reord_seen
            && (self.tp.icsk_ca_state >= ca_state::RECOVERY
                || (self.tp.sacked_out >= self.tp.reordering
                    && self.host.config.sysctls.recovery & RACK_NO_DUPTHRESH == 0))
        {
            return 0;
        }
        let quarter = self.min_rtt.get().unwrap_or(u32::MAX) >> 2;
        quarter.saturating_mul(u32::from(self.rack.reo_wnd_steps)).min(self.tp.srtt_us >> 3)
    }

    /// Returns how long the segment may still be only late, us; 0 or less means lost. Linux:
    /// `tcp_rack_skb_timeout`.
    fn rack_wait_us(&self, id: SegmentId, reo_wnd_us: u32) -> i64 {
        let elapsed_us = self.tp.tcp_mstamp as i64 - self.rtx.get(id).sent_us as i64;
        i64::from(self.rack.rtt_us) + i64::from(reo_wnd_us) - elapsed_us
    }

    /// Marks segments lost that were sent long enough before a delivered one. Arms the reordering
    /// timer if others may still be only late. Returns whether it armed the timer. Linux:
    /// `tcp_rack_mark_lost`, `tcp_rack_detect_loss`.
    pub(super) fn rack_detect_loss(&mut self, net: &mut Net) -> bool {
        let reo_wnd_us = self.reo_wnd_us();
        let mut longest_wait_us = 0;
        let mut next = self.rtx.oldest();
        while let Some(id) = next {
            next = self.rtx.newer(id);
            let segment = self.rtx.get(id);
            if segment.has(mark::LOST) && !segment.has(mark::RETRANS) {
                continue;
            }
            let delivered = (self.rack.sent_us, self.rack.end_seq);
            if !Sock::sent_after(delivered, (segment.sent_us, segment.end_seq)) {
                break;
            }
            let wait_us = self.rack_wait_us(id, reo_wnd_us);
            if wait_us <= 0 {
                self.mark_lost(id, net);
                self.rtx.unlink(id);
            } else {
                longest_wait_us = longest_wait_us.max(wait_us);
            }
        }
        if longest_wait_us > 0 {
            let jiffies = self.host.jiffies.of_us(longest_wait_us as u64 + TIMEOUT_MIN_US);
            let jiffies = jiffies.min(self.rtt.rto_jiffies);
            self.arm_retransmit(Pending::Reordering, jiffies, net);
        }
        longest_wait_us > 0
    }

    /// Looks for lost segments after an ACK. Linux: `tcp_identify_packet_loss`.
    fn identify_packet_loss(&mut self, progress: &mut Progress, net: &mut Net) {
        if self.rtx.is_empty() {
            return;
        }
        if !self.receiver.peer_sack {
            self.newreno_mark_lost(progress.advanced, net);
            return;
        }
        let prior_retrans = self.tp.retrans_out;
        if self.rack.advanced {
            self.rack.advanced = false;
            if self.rack_detect_loss(net) {
                progress.set_xmit_timer = false;
            }
        }
        if prior_retrans > self.tp.retrans_out {
            progress.lost_retrans = true;
        }
    }

    /// Without SACK: the first segment is lost after three duplicate ACKs, and after each partial
    /// ACK in Recovery. Linux: `tcp_newreno_mark_lost`.
    fn newreno_mark_lost(&mut self, advanced: bool, net: &mut Net) {
        let state = self.tp.icsk_ca_state;
        let lost = (state < ca_state::RECOVERY && self.tp.sacked_out >= self.tp.reordering)
            || (state == ca_state::RECOVERY && advanced);
        let head = self.rtx.first_id();
        // A segment that is lost already stays so. A partial ACK does not send it again.
        if lost && !self.rtx.get(head).has(mark::LOST) {
            self.mark_lost(head, net);
        }
    }

    /// Widens RACK's window once per round trip after DSACKs that reordering may have caused.
    /// Linux: `tcp_rack_update_reo_wnd`.
    pub(super) fn rack_update_reo_wnd(&mut self, prior_delivered: u32) {
        if prior_delivered == 0 || self.host.config.sysctls.recovery & RACK_STATIC_REO_WND != 0 {
            return;
        }
        if before(prior_delivered, self.rack.last_delivered) {
            self.rack.dsack_seen = false;
        }
        if self.rack.dsack_seen {
            self.rack.reo_wnd_steps = self.rack.reo_wnd_steps.saturating_add(1);
            self.rack.dsack_seen = false;
            self.rack.last_delivered = self.tp.delivered;
            self.rack.reo_wnd_persist = RACK_RECOVERY_THRESH;
        } else if self.rack.reo_wnd_persist == 0 {
            self.rack.reo_wnd_steps = 1;
        }
    }

    /// Handles a segment below the highest SACK that arrived without a retransmission. Linux:
    /// `tcp_check_sack_reordering`.
    pub(super) fn check_sack_reordering(&mut self, low_seq: u32) {
        let highest = self.highest_sack_seq();
        if !before(low_seq, highest) {
            return;
        }
        let distance = highest.wrapping_sub(low_seq);
        let mss = self.mss();
        if distance > self.tp.reordering * mss {
            let most = self.host.config.sysctls.max_reordering;
            self.tp.reordering = distance.div_ceil(mss).min(most);
        }
        self.reord_seen = true;
        self.counters.reorderings += 1;
    }

    /// Returns the start of what lies above all SACKed data. Linux: `tcp_highest_sack_seq`.
    pub(super) fn highest_sack_seq(&self) -> u32 {
        // Without SACK no segment is marked; Linux then takes the first unacknowledged segment.
        if self.tp.sacked_out == 0 || !self.receiver.peer_sack {
            self.tp.snd_una
        } else {
            self.highest_sack_end
        }
    }

    // ---- undo ----

    /// Reports whether a retransmission is outstanding. Linux: `tcp_any_retrans_done`.
    pub(super) fn any_retrans_done(&self) -> bool {
        self.tp.retrans_out > 0
            || self.rtx.front().is_some_and(|segment| segment.has(mark::EVER_RETRANS))
    }

    /// Reports whether the echoed timestamp is older than `when` (ticks of 1 ms), strictly. Linux:
    /// `tcp_tsopt_ecr_before`.
    pub(super) fn echo_before(&self, when: u32) -> bool {
        let echo = self.receiver.ts_ecr;
        echo != 0 && before(echo, when)
    }

    /// Reports whether the original arrived instead of its retransmission, or nothing was
    /// retransmitted. Linux: `tcp_packet_delayed`.
    fn packet_delayed(&self) -> bool {
        if self.retrans_stamp != 0 {
            return self.echo_before(self.retrans_stamp);
        }
        self.receiver.peer_sack || before(self.tp.snd_una, self.tp.high_seq)
    }

    /// Reports whether every retransmission was needless. Linux: `tcp_may_undo`.
    fn may_undo(&self) -> bool {
        self.tp.undo_marker != 0 && (self.tp.undo_retrans == 0 || self.packet_delayed())
    }

    /// Takes back a reduction of cwnd. Linux: `tcp_undo_cwnd_reduction`.
    fn undo_cwnd_reduction(&mut self, unmark_lost: bool, net: &mut Net) {
        if unmark_lost {
            let first = self.rtx.first_id();
            for offset in 0..self.rtx.len() as u32 {
                self.rtx.get_mut(first.wrapping_add(offset)).marks &= !mark::LOST;
            }
            self.tp.lost_out = 0;
            self.retransmit_hint = None;
        }
        self.counters.undos += 1;
        self.counters.spurious_timeouts += u64::from(self.undoes_timeout);
        if self.tp.prior_ssthresh != 0 {
            self.tp.snd_cwnd = self.cc.undo_cwnd(&mut self.tp, &mut net.cc);
            if self.tp.prior_ssthresh > self.tp.snd_ssthresh {
                self.tp.snd_ssthresh = self.tp.prior_ssthresh;
                self.tp.ecn_flags &= !ecn_flags::QUEUE_CWR;
            }
        }
        self.tp.snd_cwnd_stamp = net.cc.jiffies;
        self.tp.undo_marker = 0;
        self.rack.advanced = true;
    }

    /// Without SACK, reports whether the state must stay until an ACK above `high_seq`. Linux:
    /// `tcp_is_non_sack_preventing_reopen`.
    fn must_not_reopen(&mut self) -> bool {
        if self.tp.snd_una == self.tp.high_seq && !self.receiver.peer_sack {
            if !self.any_retrans_done() {
                self.retrans_stamp = 0;
            }
            return true;
        }
        false
    }

    /// Ends Recovery or Loss, with an undo if it was needless. Returns true if the state stays.
    /// Linux: `tcp_try_undo_recovery`.
    fn try_undo_recovery(&mut self, net: &mut Net) -> bool {
        if self.may_undo() {
            self.undo_cwnd_reduction(false, net);
        } else if self.rack.reo_wnd_persist > 0 {
            self.rack.reo_wnd_persist -= 1;
        }
        if self.must_not_reopen() {
            return true;
        }
        self.set_ca_state(ca_state::OPEN, net);
        self.tp.is_sack_reneg = 0;
        false
    }

    /// Undoes a reduction if DSACKs report every retransmission. Linux: `tcp_try_undo_dsack`.
    fn try_undo_dsack(&mut self, net: &mut Net) -> bool {
        if self.tp.undo_marker == 0 || self.tp.undo_retrans != 0 {
            return false;
        }
        self.rack.reo_wnd_persist = (self.rack.reo_wnd_persist + 1).min(RACK_RECOVERY_THRESH);
        self.undo_cwnd_reduction(false, net);
        true
    }

    /// Undoes a timeout that was needless, as F-RTO says or else timestamps or DSACKs. Linux:
    /// `tcp_try_undo_loss`.
    fn try_undo_loss(&mut self, frto: bool, net: &mut Net) -> bool {
        if !frto && !self.may_undo() {
            return false;
        }
        self.undo_cwnd_reduction(true, net);
        self.tp.icsk_retransmits = 0;
        if self.must_not_reopen() {
            return true;
        }
        if frto || self.receiver.peer_sack {
            self.set_ca_state(ca_state::OPEN, net);
            self.tp.is_sack_reneg = 0;
        }
        true
    }

    /// Handles an ACK below `high_seq` in Recovery. Returns true if the ACK needs no more work.
    /// Linux: `tcp_try_undo_partial`.
    fn try_undo_partial(&mut self, prior_snd_una: u32, net: &mut Net) -> bool {
        if self.tp.undo_marker == 0 || !self.packet_delayed() {
            return false;
        }
        self.check_sack_reordering(prior_snd_una);
        if self.tp.retrans_out > 0 {
            return true;
        }
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(true, net);
        self.try_keep_open(net);
        false
    }

    // ---- the state machine of an ACK ----

    /// Enters Open, or Disorder if something is missing. Linux: `tcp_try_keep_open`.
    fn try_keep_open(&mut self, net: &mut Net) {
        let left_out = self.tp.sacked_out + self.tp.lost_out;
        let state = if left_out > 0 || self.any_retrans_done() {
            ca_state::DISORDER
        } else {
            ca_state::OPEN
        };
        if self.tp.icsk_ca_state != state {
            self.set_ca_state(state, net);
            self.tp.high_seq = self.tp.snd_nxt;
        }
    }

    /// Handles an ACK without losses outside Recovery and Loss. Linux: `tcp_try_to_open`.
    fn try_to_open(&mut self, progress: &Progress, net: &mut Net) {
        if !self.any_retrans_done() {
            self.retrans_stamp = 0;
        }
        if progress.ece {
            self.enter_cwr(net);
        }
        if self.tp.icsk_ca_state != ca_state::CWR {
            self.try_keep_open(net);
        }
    }

    /// Handles an ACK that is not a plain one in Open: ends and begins states, and finds losses.
    /// Linux: `tcp_fastretrans_alert`, `tcp_check_sack_reneging`.
    pub(super) fn fast_retransmit_alert(
        &mut self,
        prior_snd_una: u32,
        dup_acks: u32,
        progress: &mut Progress,
        net: &mut Net,
    ) -> Rexmit {
        if self.tp.packets_out == 0 {
            self.tp.sacked_out = 0;
        }
        if progress.ece {
            self.tp.prior_ssthresh = 0;
        }
        if progress.reneged && progress.advanced {
            // Only a timeout retransmits the data. If the receiver still has it, an ACK arrives
            // before that.
            let soon = self.host.jiffies.of_us(u64::from(self.tp.srtt_us >> 4));
            let soon = soon.max(self.host.jiffies.of_ms(RENEGED_WAIT_MS));
            self.arm_retransmit(Pending::Retransmit, soon, net);
            progress.set_xmit_timer = false;
            return Rexmit::Nothing;
        }
        let sack = self.receiver.peer_sack;

        // Check whether the present state ends.
        if self.tp.icsk_ca_state == ca_state::OPEN {
            self.retrans_stamp = 0;
        } else if !before(self.tp.snd_una, self.tp.high_seq) {
            match self.tp.icsk_ca_state {
                // CWR lasts until an ACK above high_seq shows that the CWR flag has reached the
                // receiver.
                ca_state::CWR if self.tp.snd_una != self.tp.high_seq => {
                    self.end_cwnd_reduction(net);
                    self.set_ca_state(ca_state::OPEN, net);
                }
                ca_state::RECOVERY => {
                    if !sack {
                        self.tp.sacked_out = 0;
                    }
                    if self.try_undo_recovery(net) {
                        return Rexmit::Nothing;
                    }
                    self.end_cwnd_reduction(net);
                }
                _ => {}
            }
        }

        match self.tp.icsk_ca_state {
            ca_state::RECOVERY => {
                if !progress.advanced {
                    if !sack {
                        self.add_reno_sack(dup_acks, progress.ece);
                    }
                } else if self.try_undo_partial(prior_snd_una, net) {
                    return Rexmit::Nothing;
                }
                if self.try_undo_dsack(net) {
                    self.try_to_open(progress, net);
                }
                self.identify_packet_loss(progress, net);
                if self.tp.icsk_ca_state != ca_state::RECOVERY {
                    if self.tp.lost_out == 0 {
                        return Rexmit::Nothing;
                    }
                    self.enter_recovery(progress.ece, net);
                }
                return Rexmit::Lost;
            }
            ca_state::LOSS => {
                let rexmit = self.process_loss(progress, dup_acks, net);
                self.identify_packet_loss(progress, net);
                if self.tp.icsk_ca_state != ca_state::OPEN && !progress.lost_retrans {
                    return rexmit;
                }
            }
            _ => {}
        }
        // Open, Disorder and CWR; or a timeout just undone; or a retransmission lost again.
        if !sack {
            if progress.advanced {
                self.tp.sacked_out = 0;
            }
            self.add_reno_sack(dup_acks, progress.ece);
        }
        if self.tp.icsk_ca_state <= ca_state::DISORDER {
            self.try_undo_dsack(net);
        }
        self.identify_packet_loss(progress, net);
        if self.tp.lost_out == 0 {
            self.try_to_open(progress, net);
            return Rexmit::Nothing;
        }
        self.enter_recovery(progress.ece, net);
        Rexmit::Lost
    }

    /// Handles an ACK in Loss. Linux: `tcp_process_loss`.
    fn process_loss(&mut self, progress: &Progress, dup_acks: u32, net: &mut Net) -> Rexmit {
        let recovered = !before(self.tp.snd_una, self.tp.high_seq);
        if progress.advanced && self.try_undo_loss(false, net) {
            return Rexmit::Nothing;
        }
        if self.frto {
            // F-RTO (RFC 5682, with SACK): check whether the originals were only late.
            if progress.orig_sack_acked && self.try_undo_loss(true, net) {
                return Rexmit::Nothing;
            }
            if after(self.tp.snd_nxt, self.tp.high_seq) {
                if progress.data_sacked || dup_acks > 0 {
                    self.frto = false;
                }
            } else if progress.advanced && !recovered {
                self.tp.high_seq = self.tp.snd_nxt;
                if self.has_unsent() && after(self.wnd_end(), self.tp.snd_nxt) {
                    return Rexmit::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(net);
            return Rexmit::Nothing;
        }
        if !self.receiver.peer_sack {
            if after(self.tp.snd_nxt, self.tp.high_seq) && dup_acks > 0 {
                self.add_reno_sack(dup_acks, progress.ece);
            } else if progress.advanced {
                self.tp.sacked_out = 0;
            }
        }
        Rexmit::Lost
    }

    /// Without SACK, counts each duplicate ACK as one delivered segment. Linux:
    /// `tcp_add_reno_sack`.
    fn add_reno_sack(&mut self, dup_acks: u32, ece: bool) {
        if dup_acks == 0 {
            return;
        }
        let prior = self.tp.sacked_out;
        self.tp.sacked_out += dup_acks;
        self.check_reno_reordering(0);
        self.count_delivered(self.tp.sacked_out.saturating_sub(prior), ece);
    }

    /// Limits the count of duplicate ACKs to the outstanding packets less the missing ones. More
    /// duplicate ACKs prove reordering, by as many packets as were outstanding before this ACK took
    /// `acked` of them. Linux: `tcp_check_reno_reordering`, `tcp_limit_reno_sacked`.
    pub(super) fn check_reno_reordering(&mut self, acked: u32) {
        let holes = self.tp.lost_out.max(1).min(self.tp.packets_out);
        let most = self.tp.packets_out - holes;
        if self.tp.sacked_out <= most {
            return;
        }
        self.tp.sacked_out = most;
        let max_reordering = self.host.config.sysctls.max_reordering;
        self.tp.reordering = (self.tp.packets_out + acked).min(max_reordering);
        self.reord_seen = true;
        self.counters.reorderings += 1;
    }

    /// Counts delivered packets. Linux: `tcp_count_delivered`.
    #[inline]
    pub(super) fn count_delivered(&mut self, packets: u32, ece: bool) {
        self.tp.delivered = self.tp.delivered.wrapping_add(packets);
        if ece {
            self.tp.delivered_ce = self.tp.delivered_ce.wrapping_add(packets);
        }
    }

    /// Checks whether this ACK ends the episode of a tail loss probe, and whether the probe
    /// repaired a loss. Linux: `tcp_process_tlp_ack`.
    pub(super) fn process_tlp_ack(
        &mut self,
        ack: u32,
        progress: &Progress,
        sample: &mut RateSample,
        net: &mut Net,
    ) {
        if self.tp.tlp_high_seq == 0 || before(ack, self.tp.tlp_high_seq) {
            return;
        }
        if !self.tlp_retrans || progress.dsack_tlp {
            self.tp.tlp_high_seq = 0;
        } else if after(ack, self.tp.tlp_high_seq) {
            if self.cc.algorithm().is_patched() {
                self.ca_event(ca_event::TLP_RECOVERY, net);
            }
            self.init_cwnd_reduction(net);
            self.set_ca_state(ca_state::CWR, net);
            self.end_cwnd_reduction(net);
            self.try_keep_open(net);
        } else if !progress.advanced && !progress.not_dup && !progress.data_sacked {
            self.tp.tlp_high_seq = 0;
        } else {
            sample.is_acking_tlp_retrans_seq = true;
        }
    }

    /// Halves the window for each timeout that passed while idle, down to the initial window.
    /// Linux: `tcp_cwnd_restart`.
    pub(super) fn cwnd_restart(&mut self, idle_jiffies: u32, net: &mut Net) {
        self.ca_event(ca_event::CWND_RESTART, net);
        self.tp.snd_ssthresh = self.current_ssthresh();
        let mut cwnd = self.tp.snd_cwnd;
        let restart_cwnd = self.host.config.initial_cwnd_pkts.min(cwnd);
        let mut idle = i64::from(idle_jiffies) - i64::from(self.rtt.rto_jiffies);
        while idle > 0 && cwnd > restart_cwnd {
            cwnd >>= 1;
            idle -= i64::from(self.rtt.rto_jiffies);
        }
        self.tp.snd_cwnd = cwnd.max(restart_cwnd);
        self.tp.snd_cwnd_stamp = net.cc.jiffies;
        self.tp.snd_cwnd_used = 0;
    }

    pub(super) fn transmission_starts(&mut self, net: &mut Net) {
        self.ca_event(ca_event::TX_START, net);
    }

    pub(super) fn ce_event(&mut self, ce: bool, net: &mut Net) {
        self.ca_event(if ce { ca_event::ECN_IS_CE } else { ca_event::ECN_NO_CE }, net);
    }
}

//! Retransmits segments after recovery or a timer asks for it, and sends the tail loss probe.

use super::Sock;
use super::output::Push;
use super::recovery::Rexmit;
use super::rtx_queue::{SegmentId, mark};
use super::seq::{after, before};
use super::timers::Pending;
use crate::net::Net;

impl Sock {
    /// Does what the state machine asked for. Linux: `tcp_xmit_recovery`.
    pub(super) fn retransmit_after(&mut self, rexmit: Rexmit, net: &mut Net) {
        match rexmit {
            Rexmit::Nothing => return,
            Rexmit::New => {
                self.refill(net);
                if self.has_unsent() {
                    self.write_xmit(Push::NagleOff, net);
                }
                if after(self.tp.snd_nxt, self.tp.high_seq) {
                    return;
                }
                self.frto = false;
            }
            Rexmit::Lost => {}
        }
        self.retransmit_queue(net);
    }

    /// Retransmits lost segments in order, as far as cwnd and the host's queue permit. Linux:
    /// `tcp_xmit_retransmit_queue`.
    pub(super) fn retransmit_queue(&mut self, net: &mut Net) {
        if self.tp.packets_out == 0 {
            return;
        }
        let head = self.rtx.first_id();
        let end = self.rtx.end_id();
        let mut id = self.retransmit_hint.filter(|hint| self.rtx.contains(*hint)).unwrap_or(head);
        let mut hole = false;
        let mut restart_rto = false;
        while id != end {
            if self.blocked_by_pacing(net) {
                break;
            }
            if !hole {
                self.retransmit_hint = Some(id);
            }
            if self.tp.snd_cwnd <= self.in_flight() || self.tp.retrans_out >= self.tp.lost_out {
                break;
            }
            let segment = self.rtx.get(id);
            if !segment.has(mark::LOST) {
                hole |= !segment.has(mark::RETRANS | mark::SACKED);
                id = id.wrapping_add(1);
                continue;
            }
            if segment.has(mark::SACKED | mark::RETRANS) {
                id = id.wrapping_add(1);
                continue;
            }
            let len = segment.payload_bytes();
            if self.throttled_by_host_queue(len, 1, net) || !self.retransmit_segment(id, net) {
                break;
            }
            if self.in_cwnd_reduction() {
                self.prr.out += 1;
            }
            if id == head && self.retransmit.pending != Pending::Reordering {
                restart_rto = true;
            }
            id = id.wrapping_add(1);
        }
        if restart_rto {
            self.arm_after_pacing(Pending::Retransmit, self.rtt.rto_jiffies, net);
        }
    }

    /// Retransmits a segment. Returns false if its last transmission is still in the host, or the
    /// host's queue refuses it. Linux: `tcp_retransmit_skb`.
    pub(super) fn retransmit_segment(&mut self, id: SegmentId, net: &mut Net) -> bool {
        let ts_now = self.ts_now();
        if self.retrans_stamp == 0 {
            self.retrans_stamp = ts_now;
        }
        self.tp.undo_retrans = self.tp.undo_retrans.max(0) + 1;
        if !self.send_again(id, net) {
            return false;
        }
        let segment = self.rtx.get_mut(id);
        // After F-RTO has undone a timeout, the head's retransmission may still be counted.
        self.tp.retrans_out += u32::from(!segment.has(mark::RETRANS));
        segment.marks |= mark::RETRANS | mark::EVER_RETRANS;
        true
    }

    /// Sends a segment again. Returns false if that is not possible now. Linux:
    /// `__tcp_retransmit_skb`.
    fn send_again(&mut self, id: SegmentId, net: &mut Net) -> bool {
        if self.rtx.get(id).leaves_host > net.now {
            return false;
        }
        let una = self.tp.snd_una;
        let segment = self.rtx.get_mut(id);
        if before(segment.seq, una) {
            // The acknowledged part is not sent again.
            segment.seq = una;
        }
        let segment = self.rtx.get(id);
        let len = segment.payload_bytes();
        if !before(segment.seq, self.wnd_end()) && segment.seq != self.tp.snd_una {
            // The peer has shrunk its window. Beyond it, only the first segment is sent, as a
            // probe.
            return false;
        }
        self.counters.retransmitted_segs += 1;
        let prior_wstamp_ns = self.begin_departure(net);
        if self.in_flight() == 0 {
            self.transmission_starts(net);
        }
        let charged = len + self.host.config.skb_overhead_bytes;
        let sent = self.transmit_segment(id, true, 0, charged, net);
        self.rtx.get_mut(id).marks |= mark::EVER_RETRANS;
        let paced_bytes = if sent { self.paced_bytes(len, 1) } else { 0 };
        self.end_departure(prior_wstamp_ns, paced_bytes);
        self.counters.bursts += u64::from(sent);
        sent
    }

    /// Probes for a tail loss: sends new data if there is any, else the last segment again. Linux:
    /// `tcp_send_loss_probe`.
    pub(super) fn send_loss_probe(&mut self, net: &mut Net) {
        if self.tp.tlp_high_seq == 0 {
            self.tlp_retrans = false;
            self.refill(net);
            let window = self.wnd_end().wrapping_sub(self.tp.snd_nxt);
            let fits = window <= i32::MAX as u32 && self.next_segment_len() <= window;
            let probed = if self.has_unsent() && fits {
                self.write_xmit(Push::Probe, net)
            } else if self.rtx.is_empty() {
                self.retransmit.disarm();
                return;
            } else {
                let last = self.rtx.end_id().wrapping_sub(1);
                let app_limited = self.rtx.get(last).has(mark::APP_LIMITED);
                self.tp.tlp_orig_data_app_limited = u8::from(app_limited);
                self.tlp_retrans = self.send_again(last, net);
                self.tlp_retrans
            };
            if probed {
                self.tp.tlp_high_seq = self.tp.snd_nxt;
                self.counters.tail_loss_probes += 1;
                // The timeout starts again.
                self.retransmit.pending = Pending::Nothing;
            }
        }
        self.rearm_rto(net);
    }
}

//! Processes an incoming ACK, in Linux's order.

use super::recovery::Rexmit;
use super::rtx_queue::{SegmentId, mark};
use super::seq::{after, before};
use super::{Sock, State};
use crate::net::Net;
use crate::packet::{Packet, flags};
use knee_algo::{AckSample, RateSample, ca_state, ecn_flags};
use knee_run::spec::LinuxVersion;

/// Flags of `in_ack_event`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;

/// The effects of one ACK (the FLAG_ bits of Linux's `tcp_ack`).
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `snd_una` moved.
    pub(super) advanced: bool,
    /// The ACK cumulatively acknowledged data.
    pub(super) data_acked: bool,
    /// The ACK acknowledged a retransmitted segment.
    pub(super) retrans_acked: bool,
    pub(super) data_sacked: bool,
    pub(super) ece: bool,
    pub(super) dsack: bool,
    /// The ACK reports a tail loss probe as a duplicate.
    pub(super) dsack_tlp: bool,
    /// The ACK delivered data up to `high_seq` that was never retransmitted.
    pub(super) orig_sack_acked: bool,
    /// The segment carries data, updates the window or acknowledges something.
    pub(super) not_dup: bool,
    pub(super) win_update: bool,
    pub(super) slow_path: bool,
    pub(super) maybe_delayed: bool,
    pub(super) set_xmit_timer: bool,
    /// A retransmission was found lost.
    pub(super) lost_retrans: bool,
    /// The queue begins with SACKed data, so the receiver has discarded it (reneging).
    pub(super) reneged: bool,
}

/// Results of SACK processing.
#[derive(Debug, Default)]
struct Sacked {
    /// The lowest segment that arrived out of order and was never retransmitted.
    reord: u32,
    /// Send times, us, of the first and last newly SACKed segments that were never retransmitted;
    /// 0: none.
    first_us: u64,
    last_us: u64,
    /// Packets that SACK newly delivered or reported as duplicates.
    delivered: u32,
}

impl Sock {
    /// Processes the acknowledgement of a segment. Returns whether to process the rest of the
    /// segment. Linux: `tcp_ack`.
    pub(super) fn on_ack(&mut self, packet: &Packet, net: &mut Net) -> bool {
        let ack = packet.ack_seq;
        let prior_snd_una = self.tp.snd_una;
        let mut sample = RateSample::default();
        let mut progress = Progress::default();
        if before(ack, prior_snd_una) {
            return self.on_old_ack(packet, &mut sample, net);
        }
        if after(ack, self.tp.snd_nxt) {
            // The ACK covers data that was never sent. 6.18.44 challenges it; when that came is not known.
            let newest = self.host.config.linux >= LinuxVersion(6, 18);
            if newest || self.state != State::Established {
                self.challenge(net);
            }
            return false;
        }
        progress.advanced = after(ack, prior_snd_una);
        if progress.advanced {
            self.tp.icsk_retransmits = 0;
            self.tp.bytes_acked += u64::from(ack.wrapping_sub(prior_snd_una));
        }
        let prior_highest_sack = self.highest_sack_seq();
        let prior_packets = self.tp.packets_out;
        let prior_delivered = self.tp.delivered;
        let prior_lost = self.tp.lost;
        let prior_delivered_ce = self.tp.delivered_ce;
        let was_reneged = self.tp.is_sack_reneg != 0;
        sample.prior_in_flight = self.in_flight();

        self.probes_out = 0;
        let carries_data = packet.sequence_len() > 0;
        let counts_ce = self.counts_ce();
        let ece = packet.has(flags::ECE) && self.ecn_ok() && !counts_ce;
        let mut sacked = Sacked { reord: self.tp.snd_nxt, ..Sacked::default() };
        let plain = packet.sacks_len == 0
            && packet.flags & (flags::ECE | flags::CWR) == 0
            && !carries_data
            && packet.window_bytes == self.tp.snd_wnd;
        if plain && progress.advanced {
            // Header prediction: the ACK only advances `snd_una`.
            self.tp.snd_wl1 = packet.seq;
            self.tp.snd_una = ack;
            progress.win_update = true;
        } else {
            progress.slow_path = true;
            progress.not_dup |= carries_data;
            progress.win_update = self.update_window(packet, ack);
            if packet.sacks_len > 0 && self.receiver.peer_sack {
                self.on_sack(packet, prior_snd_una, &mut sacked, &mut sample, &mut progress);
            }
            progress.ece = ece;
            if sacked.delivered > 0 {
                self.count_delivered(sacked.delivered, ece);
            }
        }
        progress.not_dup |= progress.win_update;
        if packet.has(flags::CWR) && !counts_ce {
            self.accept_cwr(carries_data);
        }
        if prior_packets == 0 {
            self.in_ack_event(&progress, net);
            if progress.dsack {
                let rexmit = self.fast_retransmit_alert(prior_snd_una, 0, &mut progress, net);
                debug_assert_eq!(rexmit, Rexmit::Nothing, "nothing is out");
            }
            self.process_tlp_ack(ack, &progress, &mut sample, net);
            self.on_window_update(net);
            return true;
        }

        self.clean_rtx_queue(
            (prior_highest_sack, prior_snd_una),
            &sacked,
            &mut sample,
            &mut progress,
            net,
        );
        self.rack_update_reo_wnd(sample.prior_delivered);
        if counts_ce {
            let delivered = self.tp.delivered.wrapping_sub(prior_delivered);
            self.take_ce_count(packet, delivered, &mut progress);
        }
        self.in_ack_event(&progress, net);
        if self.tp.tlp_high_seq != 0 {
            self.process_tlp_ack(ack, &progress, &mut sample, net);
        }
        let mut rexmit = Rexmit::Nothing;
        let dubious = !progress.not_dup
            || progress.data_sacked
            || progress.ece
            || progress.dsack
            || self.tp.icsk_ca_state != ca_state::OPEN;
        if dubious {
            let dup = !progress.advanced && !progress.not_dup && !progress.dsack;
            rexmit = self.fast_retransmit_alert(prior_snd_una, u32::from(dup), &mut progress, net);
        }
        if progress.set_xmit_timer {
            self.arm_probe_or_rto(true, net);
        }
        let delivered = self.tp.delivered.wrapping_sub(prior_delivered);
        let lost = self.tp.lost.wrapping_sub(prior_lost);
        sample.is_ack_delayed = progress.maybe_delayed;
        sample.is_ece = progress.ece;
        sample.ece_delta = self.tp.delivered_ce.wrapping_sub(prior_delivered_ce);
        self.finish_rate_sample(delivered, lost, was_reneged, &mut sample);
        self.cong_control(ack, delivered, &sample, &progress, net);
        self.retransmit_after(rexmit, net);
        true
    }

    /// Handles the ACK field of data that arrives while nothing is outstanding and says nothing new. Linux: what `tcp_ack` does then.
    pub(super) fn on_ack_of_nothing(&mut self, packet: &Packet, net: &mut Net) {
        self.tp.snd_wl1 = packet.seq;
        let progress = Progress { win_update: true, slow_path: true, ..Progress::default() };
        self.in_ack_event(&progress, net);
    }

    /// Handles an ACK below `snd_una`. Only its SACK blocks are used, and their data does not count
    /// as delivered. An ACK older than a window, or than the connection, is refused (RFC 5961 sec.
    /// 5). Linux: `tcp_ack`.
    #[cold]
    fn on_old_ack(&mut self, packet: &Packet, sample: &mut RateSample, net: &mut Net) -> bool {
        let oldest = u64::from(self.tp.max_window).min(self.tp.bytes_acked) as u32;
        if before(packet.ack_seq, self.tp.snd_una.wrapping_sub(oldest)) {
            self.challenge(net);
            return false;
        }
        if packet.sacks_len == 0 || !self.receiver.peer_sack {
            return true;
        }
        let prior_snd_una = self.tp.snd_una;
        let mut progress = Progress::default();
        let mut sacked = Sacked { reord: self.tp.snd_nxt, ..Sacked::default() };
        self.on_sack(packet, prior_snd_una, &mut sacked, sample, &mut progress);
        let rexmit = self.fast_retransmit_alert(prior_snd_una, 0, &mut progress, net);
        self.retransmit_after(rexmit, net);
        true
    }

    /// Reports whether to take over a segment's window. The segment is newer, or equally new with a
    /// larger window or in newer versions a closed one. Linux: `tcp_may_update_window`.
    pub(super) fn updates_window(&self, packet: &Packet, ack: u32) -> bool {
        let window = packet.window_bytes;
        let closes = window == 0 && self.host.config.linux >= LinuxVersion(6, 6);
        after(ack, self.tp.snd_una)
            || after(packet.seq, self.tp.snd_wl1)
            || (packet.seq == self.tp.snd_wl1 && (window > self.tp.snd_wnd || closes))
    }

    /// Takes over the window and the acknowledgement of a segment. Returns whether the window is
    /// newer. Linux: `tcp_ack_update_window`.
    fn update_window(&mut self, packet: &Packet, ack: u32) -> bool {
        let window = packet.window_bytes;
        let newer = self.updates_window(packet, ack);
        if newer {
            self.tp.snd_wl1 = packet.seq;
            self.tp.snd_wnd = window;
            if window > self.tp.max_window {
                self.tp.max_window = window;
                self.bound_mss();
            }
        }
        self.tp.snd_una = ack;
        newer
    }

    /// Handles the CWR flag of a segment. Linux: `tcp_ecn_accept_cwr`.
    fn accept_cwr(&mut self, carries_data: bool) {
        self.tp.ecn_flags &= !ecn_flags::DEMAND_CWR;
        if carries_data && !self.host.config.defects.no_ack_on_cwr {
            // The sender's window may be down to one packet.
            self.tp.icsk_ack_pending |= knee_algo::ack_pending::NOW;
        }
    }

    /// Tells the algorithm of an ACK's effects. Linux: `tcp_in_ack_event`.
    #[inline]
    pub(super) fn in_ack_event(&mut self, progress: &Progress, net: &mut Net) {
        if !self.cc.algorithm().has_in_ack_event() {
            return;
        }
        let mut ack_flags = 0;
        if progress.win_update {
            ack_flags |= CA_ACK_WIN_UPDATE;
        }
        if progress.slow_path {
            ack_flags |= CA_ACK_SLOWPATH;
            if progress.ece {
                ack_flags |= CA_ACK_ECE;
            }
        }
        self.cc.in_ack_event(&mut self.tp, &mut net.cc, ack_flags);
        self.do_what_was_asked(net);
    }

    /// Lets the algorithm, or PRR, set cwnd after an ACK. Linux: `tcp_cong_control`,
    /// `tcp_may_raise_cwnd`, `tcp_cong_avoid`.
    #[inline]
    fn cong_control(
        &mut self,
        ack: u32,
        delivered: u32,
        sample: &RateSample,
        progress: &Progress,
        net: &mut Net,
    ) {
        if self.cc.algorithm().has_cong_control() {
            let cc = &mut net.cc;
            self.cc.cong_control(&mut self.tp, cc, (ack, 0), sample);
            self.do_what_was_asked(net);
            self.look_after_file();
            return;
        }
        if self.in_cwnd_reduction() {
            self.cwnd_reduction(delivered, sample.losses as u32, progress.advanced);
        } else {
            let forward = if self.tp.reordering > self.host.config.sysctls.reordering {
                progress.data_acked || progress.data_sacked
            } else {
                progress.data_acked
            };
            if forward {
                self.cc.cong_avoid(&mut self.tp, &mut net.cc, ack, delivered);
                self.do_what_was_asked(net);
                self.tp.snd_cwnd_stamp = net.cc.jiffies;
            }
        }
        self.update_pacing_rate();
        self.look_after_file();
    }

    /// Counts what an algorithm from a file should not do.
    #[inline]
    fn look_after_file(&mut self) {
        if self.cc.is_of_file() {
            let waits = self.unsent_bytes() > 0;
            self.cc.after_ack(&self.tp, waits);
        }
    }

    // ---- SACK ----

    /// Processes the SACK blocks of an ACK. Linux: `tcp_sacktag_write_queue`.
    fn on_sack(
        &mut self,
        packet: &Packet,
        prior_snd_una: u32,
        sacked: &mut Sacked,
        sample: &mut RateSample,
        progress: &mut Progress,
    ) {
        let blocks = packet.sacks();
        if self.tp.sacked_out == 0 {
            self.highest_sack_end = self.tp.snd_una;
        }
        let dsack = self.check_dsack(packet, prior_snd_una, sacked, progress);
        if self.tp.packets_out == 0 {
            return;
        }
        let mut ranges = [(0, 0); 4];
        let mut n = 0;
        for (index, &(start, end)) in blocks.iter().enumerate() {
            let is_dsack = dsack && index == 0;
            if !self.sack_block_valid(is_dsack, start, end) || !after(end, prior_snd_una) {
                continue;
            }
            ranges[n] = (start, end);
            n += 1;
        }
        let ranges = &mut ranges[..n];
        ranges.sort_unstable_by(|a, b| {
            if a.0 == b.0 {
                std::cmp::Ordering::Equal
            } else if before(a.0, b.0) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        // This includes data that the ACK itself acknowledges, because it is still in the queue.
        let mut dsack_range = (dsack && after(blocks[0].1, prior_snd_una)).then(|| blocks[0]);
        let cache = if self.tp.sacked_out > 0 { self.sack_cache } else { [(0, 0); 4] };
        for &(start, end) in ranges.iter() {
            // The DSACK counts once, either as a range of its own or within another.
            let dsack_here =
                dsack_range.filter(|dsack| !before(dsack.0, start) && !after(dsack.1, end));
            if dsack_here.is_some() {
                dsack_range = None;
            }
            // Ranges in the last SACK are skipped, except for a DSACK.
            let mut from = start;
            if dsack_here.is_none() {
                for &(cached_start, cached_end) in &cache {
                    if cached_start == cached_end || !before(cached_start, end) {
                        continue;
                    }
                    if before(from, cached_start) {
                        self.walk_sack(from, cached_start, None, sacked, sample, progress);
                    }
                    if after(cached_end, from) {
                        from = cached_end;
                    }
                }
            }
            if before(from, end) {
                self.walk_sack(from, end, dsack_here, sacked, sample, progress);
            }
        }
        self.sack_cache = [(0, 0); 4];
        self.sack_cache[..n].copy_from_slice(ranges);
        if self.tp.icsk_ca_state != ca_state::LOSS || self.tp.undo_marker != 0 {
            self.check_sack_reordering(sacked.reord);
        }
    }

    /// Reports whether a SACK block is possible. Linux: `tcp_is_sackblock_valid`.
    fn sack_block_valid(&self, is_dsack: bool, start: u32, end: u32) -> bool {
        if after(end, self.tp.snd_nxt) || !before(start, end) || !before(start, self.tp.snd_nxt) {
            return false;
        }
        if after(start, self.tp.snd_una) {
            return true;
        }
        if !is_dsack || self.tp.undo_marker == 0 || after(end, self.tp.snd_una) {
            return false;
        }
        if !before(start, self.tp.undo_marker) {
            return true;
        }
        after(end, self.tp.undo_marker) && !before(start, end.wrapping_sub(self.tp.max_window))
    }

    /// Detects a DSACK: the first block repeats acknowledged data, so a needless retransmission
    /// arrived. Linux: `tcp_check_dsack`, `tcp_dsack_seen`.
    fn check_dsack(
        &mut self,
        packet: &Packet,
        prior_snd_una: u32,
        sacked: &mut Sacked,
        progress: &mut Progress,
    ) -> bool {
        let blocks = packet.sacks();
        let (start, end) = blocks[0];
        let duplicate = before(start, packet.ack_seq)
            || blocks.get(1).is_some_and(|&(outer_start, outer_end)| {
                !after(end, outer_end) && !before(start, outer_start)
            });
        if !duplicate || !before(start, end) || end.wrapping_sub(start) > self.tp.max_window {
            return false;
        }
        let len = end.wrapping_sub(start);
        let mut segments = 1;
        if len > self.mss() {
            segments = len.div_ceil(self.mss());
        } else if self.tp.tlp_high_seq != 0 && self.tp.tlp_high_seq == end {
            progress.dsack_tlp = true;
        }
        self.counters.dsack_segs += u64::from(segments);
        if self.counters.dsack_segs > self.counters.retransmitted_segs {
            return false;
        }
        if self.reord_seen && !progress.dsack_tlp {
            self.rack.dsack_seen = true;
        }
        progress.dsack = true;
        sacked.delivered += segments;
        if self.tp.undo_marker != 0
            && self.tp.undo_retrans > 0
            && !after(end, prior_snd_una)
            && after(end, self.tp.undo_marker)
        {
            self.tp.undo_retrans = (self.tp.undo_retrans - segments as i32).max(0);
        }
        true
    }

    /// Marks the segments that lie completely in `start..end`. Linux: `tcp_sacktag_walk`,
    /// `tcp_match_skb_to_sack`.
    fn walk_sack(
        &mut self,
        start: u32,
        end: u32,
        dsack: Option<(u32, u32)>,
        sacked: &mut Sacked,
        sample: &mut RateSample,
        progress: &mut Progress,
    ) {
        let mut id = self.rtx.find(start);
        let stop = self.rtx.range_end(end);
        while id != stop && self.rtx.contains(id) {
            let segment = self.rtx.get(id);
            let within = |start, end| !after(start, segment.seq) && !before(end, segment.end_seq);
            let is_dsack = dsack.is_some_and(|(start, end)| within(start, end));
            if is_dsack || within(start, end) {
                self.tag_sacked(id, is_dsack, sacked, progress);
                self.sample_delivered(id, sample);
                if self.rtx.get(id).has(mark::SACKED) {
                    self.rtx.unlink(id);
                    self.rtx.get_mut(id).delivered_us = 0;
                }
            }
            id = id.wrapping_add(1);
        }
    }

    /// Marks one segment that SACK reports. Linux: `tcp_sacktag_one`.
    fn tag_sacked(
        &mut self,
        id: SegmentId,
        is_dsack: bool,
        sacked: &mut Sacked,
        progress: &mut Progress,
    ) {
        let segment = *self.rtx.get(id);
        let ever_retrans = segment.has(mark::RETRANS | mark::EVER_RETRANS);
        if is_dsack && ever_retrans {
            if self.tp.undo_marker != 0
                && self.tp.undo_retrans > 0
                && after(segment.end_seq, self.tp.undo_marker)
            {
                self.tp.undo_retrans -= 1;
            }
            if segment.has(mark::SACKED) && before(segment.seq, sacked.reord) {
                sacked.reord = segment.seq;
            }
        }
        if !after(segment.end_seq, self.tp.snd_una) {
            return;
        }
        if !segment.has(mark::SACKED) {
            self.rack_advance(segment.marks, segment.end_seq, segment.sent_us);
            let mut marks = segment.marks;
            if segment.has(mark::RETRANS) {
                // The segment no longer counts as lost, but its retransmission stays in flight.
                if segment.has(mark::LOST) {
                    marks &= !(mark::LOST | mark::RETRANS);
                    self.tp.lost_out -= 1;
                    self.tp.retrans_out -= 1;
                }
            } else {
                if !ever_retrans {
                    if before(segment.seq, self.highest_sack_seq())
                        && before(segment.seq, sacked.reord)
                    {
                        sacked.reord = segment.seq;
                    }
                    if !after(segment.end_seq, self.tp.high_seq) {
                        progress.orig_sack_acked = true;
                    }
                    if sacked.first_us == 0 {
                        sacked.first_us = segment.sent_us;
                    }
                    sacked.last_us = segment.sent_us;
                }
                if segment.has(mark::LOST) {
                    marks &= !mark::LOST;
                    self.tp.lost_out -= 1;
                }
            }
            if self.tp.sacked_out == 0 || after(segment.end_seq, self.highest_sack_end) {
                self.highest_sack_end = segment.end_seq;
            }
            self.rtx.get_mut(id).marks = marks | mark::SACKED;
            progress.data_sacked = true;
            self.tp.sacked_out += 1;
            sacked.delivered += 1;
        }
        let segment = self.rtx.get_mut(id);
        if is_dsack && segment.has(mark::RETRANS) {
            segment.marks &= !mark::RETRANS;
            self.tp.retrans_out -= 1;
        }
    }

    // ---- the cumulative part ----

    /// Removes the segments that `snd_una` acknowledges, and takes RTT samples. Linux:
    /// `tcp_clean_rtx_queue`.
    fn clean_rtx_queue(
        &mut self,
        (prior_highest_sack, prior_snd_una): (u32, u32),
        sacked: &Sacked,
        sample: &mut RateSample,
        progress: &mut Progress,
        net: &mut Net,
    ) {
        let prior_sacked = self.tp.sacked_out;
        let mut reord = self.tp.snd_nxt;
        let (mut first_us, mut last_us) = (0, 0);
        let mut acked = 0;
        while let Some(segment) = self.rtx.front() {
            if after(segment.end_seq, self.tp.snd_una) {
                break;
            }
            let segment = *segment;
            let id = self.rtx.first_id();
            if segment.has(mark::RETRANS | mark::EVER_RETRANS) {
                if segment.has(mark::RETRANS) {
                    self.tp.retrans_out -= 1;
                }
                progress.retrans_acked = true;
            } else if !segment.has(mark::SACKED) {
                last_us = segment.sent_us;
                if first_us == 0 {
                    first_us = last_us;
                }
                if before(segment.seq, reord) {
                    reord = segment.seq;
                }
                if !after(segment.end_seq, self.tp.high_seq) {
                    progress.orig_sack_acked = true;
                }
            }
            if segment.has(mark::SACKED) {
                self.tp.sacked_out -= 1;
            } else if self.receiver.peer_sack {
                self.count_delivered(1, progress.ece);
                let spurious = segment.has(mark::RETRANS | mark::EVER_RETRANS)
                    && self.echo_before((segment.sent_us / 1000) as u32 + 1);
                if !spurious {
                    self.rack_advance(segment.marks, segment.end_seq, segment.sent_us);
                }
            }
            if segment.has(mark::LOST) {
                self.tp.lost_out -= 1;
            }
            self.tp.packets_out -= 1;
            acked += 1;
            self.sample_delivered(id, sample);
            self.rtx.pop_front();
        }
        progress.reneged = self.rtx.front().is_some_and(|segment| segment.has(mark::SACKED));
        progress.data_acked = acked > 0;
        progress.not_dup |= progress.data_acked;
        if self.rtx.is_empty() {
            self.rtx.shrink();
        }

        let (mut seq_rtt_us, mut cc_rtt_us) = (None, None);
        if first_us != 0 && !progress.retrans_acked {
            seq_rtt_us = Some(self.age_us(first_us));
            cc_rtt_us = Some(self.age_us(last_us));
            progress.maybe_delayed = acked == 1
                && prior_sacked == 0
                && self.tp.snd_una.wrapping_sub(prior_snd_una) < self.mss()
                && sample.prior_delivered.wrapping_add(1) == self.tp.delivered
                && !progress.data_sacked
                && !progress.dsack;
        }
        let sack_rtt_us = (sacked.first_us != 0).then(|| self.age_us(sacked.first_us));
        if sack_rtt_us.is_some() {
            cc_rtt_us = Some(self.age_us(sacked.last_us));
        }
        let rtt_updated = self.update_rtt(
            (seq_rtt_us, sack_rtt_us, cc_rtt_us),
            progress.data_acked,
            progress.maybe_delayed,
            sample,
            net,
        );

        if progress.data_acked {
            progress.set_xmit_timer = true;
            if !self.receiver.peer_sack {
                self.remove_reno_sacks(acked, progress);
            } else if before(reord, prior_highest_sack) {
                // The ACK filled a hole without a retransmission.
                self.check_sack_reordering(reord);
            }
        } else if let (Some(head), Some(sack_rtt_us), true) =
            (self.rtx.front(), sack_rtt_us, rtt_updated)
        {
            if sack_rtt_us > self.age_us(head.sent_us) {
                progress.set_xmit_timer = true;
            }
        }

        let since = self.tp.delivered.wrapping_sub(sample.prior_delivered);
        let in_flight = self.mss().wrapping_mul(since);
        let rtt_us = sample.rtt_us as i32;
        self.tell_acked(&AckSample { pkts_acked: acked, rtt_us, in_flight }, net);
    }

    /// Tells the algorithm which packets left the retransmission queue.
    #[inline]
    pub(super) fn tell_acked(&mut self, sample: &AckSample, net: &mut Net) {
        if self.cc.algorithm().has_pkts_acked() {
            self.cc.pkts_acked(&mut self.tp, &mut net.cc, sample);
            self.do_what_was_asked(net);
        }
    }

    /// Returns the time since `sent_us`, us. Linux: `tcp_stamp_us_delta`.
    fn age_us(&self, sent_us: u64) -> u32 {
        self.tp.tcp_mstamp.saturating_sub(sent_us) as u32
    }

    /// Without SACK: does not deliver packets again that duplicate ACKs have already counted.
    /// Linux: `tcp_remove_reno_sacks`.
    fn remove_reno_sacks(&mut self, acked: u32, progress: &mut Progress) {
        let newly = acked.saturating_sub(self.tp.sacked_out).max(1);
        self.count_delivered(newly, progress.ece);
        // One packet filled the hole; the duplicate ACKs before it counted the rest.
        self.tp.sacked_out = self.tp.sacked_out.saturating_sub(acked.saturating_sub(1));
        self.check_reno_reordering(acked);
        if progress.retrans_acked {
            progress.orig_sack_acked = false;
        }
    }

    /// Takes an RTT sample by send time, by SACK, or else by timestamp (ticks of 1 ms). Linux:
    /// `tcp_ack_update_rtt`.
    #[inline]
    fn update_rtt(
        &mut self,
        (seq_rtt_us, sack_rtt_us, mut cc_rtt_us): (Option<u32>, Option<u32>, Option<u32>),
        acked: bool,
        maybe_delayed: bool,
        sample: &mut RateSample,
        net: &mut Net,
    ) -> bool {
        let mut rtt_us = seq_rtt_us.or(sack_rtt_us);
        if rtt_us.is_none() && self.receiver.ts_ecr != 0 && acked {
            rtt_us = super::rtt::from_ticks(self.ts_now().wrapping_sub(self.receiver.ts_ecr));
            cc_rtt_us = rtt_us;
        }
        sample.rtt_us = cc_rtt_us.map_or(-1, i64::from);
        let Some(rtt_us) = rtt_us else { return false };
        self.update_min_rtt(cc_rtt_us.unwrap_or(rtt_us), maybe_delayed, net);
        let seqs = (self.tp.snd_una, self.tp.snd_nxt);
        self.tp.srtt_us = self.rtt.sample(self.tp.srtt_us, rtt_us, seqs);
        self.rtt.set_rto(self.tp.srtt_us, &self.host);
        self.backoff = 0;
        true
    }

    /// Takes a sample of the minimum RTT, unless a delayed ACK may have lengthened it. Linux:
    /// `tcp_update_rtt_min`.
    pub(super) fn update_min_rtt(&mut self, rtt_us: u32, maybe_delayed: bool, net: &Net) {
        if maybe_delayed && self.min_rtt.get().is_some_and(|min_us| rtt_us > min_us) {
            return;
        }
        self.min_rtt.update(net.now, rtt_us.max(1), self.host.config.sysctls.min_rtt_wlen);
        self.tp.min_rtt_us = self.min_rtt.get().unwrap_or(u32::MAX);
    }

    // ---- delivery rate ----

    /// Handles a delivered segment. The rate sample comes from the delivered segment that was sent
    /// last. Linux: `tcp_rate_skb_delivered`.
    #[inline]
    fn sample_delivered(&mut self, id: SegmentId, sample: &mut RateSample) {
        let segment = self.rtx.get(id);
        if segment.delivered_us == 0 {
            return;
        }
        let later = segment.sent_us > self.tp.first_tx_mstamp
            || (segment.sent_us == self.tp.first_tx_mstamp
                && after(segment.end_seq, sample.last_end_seq));
        if sample.prior_delivered == 0 || later {
            sample.prior_delivered_ce = segment.delivered_ce;
            sample.prior_delivered = segment.delivered;
            sample.prior_lost = segment.lost;
            sample.tx_in_flight = segment.in_flight();
            sample.prior_mstamp = segment.delivered_us;
            sample.is_app_limited = segment.has(mark::APP_LIMITED);
            sample.is_retrans = segment.has(mark::RETRANS | mark::EVER_RETRANS);
            sample.last_end_seq = segment.end_seq;
            self.tp.first_tx_mstamp = segment.sent_us;
            sample.interval_us = (segment.sent_us - segment.first_tx_us) as i64;
        }
    }

    /// Completes the rate sample of an ACK. Linux: `tcp_rate_gen`.
    #[inline]
    pub(super) fn finish_rate_sample(
        &mut self,
        delivered: u32,
        lost: u32,
        was_reneged: bool,
        sample: &mut RateSample,
    ) {
        if self.tp.app_limited != 0 && after(self.tp.delivered, self.tp.app_limited) {
            self.tp.app_limited = 0;
        }
        if delivered > 0 {
            self.tp.delivered_mstamp = self.tp.tcp_mstamp;
        }
        sample.acked_sacked = delivered;
        sample.losses = lost as i32;
        if sample.prior_mstamp == 0 || was_reneged {
            sample.delivered = -1;
            sample.interval_us = -1;
            return;
        }
        sample.delivered = self.tp.delivered.wrapping_sub(sample.prior_delivered) as i32;
        sample.delivered_ce = self.tp.delivered_ce.wrapping_sub(sample.prior_delivered_ce) as i32;
        sample.lost = self.tp.lost.wrapping_sub(sample.prior_lost) as i32;
        let send_us = sample.interval_us;
        let ack_us = self.tp.tcp_mstamp.saturating_sub(sample.prior_mstamp) as i64;
        sample.interval_us = send_us.max(ack_us);
        sample.snd_interval_us = send_us as u32;
        sample.rcv_interval_us = ack_us as u32;
        if sample.interval_us < i64::from(self.min_rtt.get().unwrap_or(u32::MAX)) {
            sample.interval_us = -1;
        }
    }
}

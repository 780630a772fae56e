//! The start of a connection: SYN, SYN-ACK, ACK, including the negotiation of ECN.

use super::ack::Progress;
use super::rtt::{RTO_INITIAL_MS, from_ticks};
use super::seq::{after, before};
use super::timers::{Pending, TIMEOUT_MIN_JIFFIES};
use super::{Sock, State};
use crate::net::Net;
use crate::packet::{NO_SACKS, Packet, SYN_BYTES, TIMESTAMP_BYTES, Tos, flags};
use knee_algo::{AckSample, INFINITE_SSTHRESH, RateSample, ca_state, ecn_flags};
use knee_queue::Ecn;
use knee_run::spec::LinuxVersion;

/// MSS of a peer that sends no MSS option, with TCP options included, bytes.
const MSS_DEFAULT: u32 = 536;
/// The smallest accepted MSS of a peer (`tcp_min_snd_mss`), bytes.
const MSS_LEAST: u32 = 48;
/// The smallest MSS that a small window can cause, with TCP options included: 68 bytes less TCP's
/// header.
const MSS_OF_LEAST_MTU: u32 = 48;
/// After more SYN retransmissions than this, a connection starts with a cwnd of one packet.
const SYN_RETRIES_FOR_CWND_1: u32 = 1;

impl Sock {
    pub(crate) fn listen(&mut self) {
        self.receiver = self.receiver.anew(&self.host.config, true);
        if self.host.config.sysctls.timestamps && !self.timestamps {
            self.timestamps = true;
            self.header_bytes += TIMESTAMP_BYTES;
        }
        self.enter_state(State::Listen);
    }

    /// Starts to connect. Linux: `tcp_connect`, `tcp_connect_init`, `tcp_ecn_send_syn`.
    pub(crate) fn connect(&mut self, net: &mut Net) {
        self.enter(net);
        self.receiver = self.receiver.anew(&self.host.config, false);
        self.enter_state(State::SynSent);
        if self.host.config.tcp_ecn == 1 || self.wants_ecn {
            self.tp.ecn_flags = ecn_flags::OK;
        }
        self.tp.undo_retrans = -1;
        self.send_syn(net);
    }

    /// Handles a packet for this socket. Linux: `tcp_v4_rcv`, `tcp_rcv_state_process`.
    pub(crate) fn on_packet(&mut self, packet: &Packet, net: &mut Net) {
        self.enter(net);
        match self.state {
            state if state.is_synchronised() => self.on_packet_when_open(packet, net),
            State::Listen if packet.has(flags::RST) => {}
            State::Listen if packet.has(flags::ACK) => self.answer_with_reset(packet, net),
            State::Listen if packet.has(flags::SYN) => self.on_syn(packet, net),
            State::SynReceived => self.on_packet_of_request(packet, net),
            State::SynSent => self.on_packet_while_connecting(packet, net),
            State::TimeWait => self.on_packet_in_time_wait(packet, net),
            State::Gone => self.answer_with_reset(packet, net),
            _ => {}
        }
    }

    #[inline]
    fn on_packet_when_open(&mut self, packet: &Packet, net: &mut Net) {
        if !self.merges(packet, net) {
            self.on_segment(packet, net);
        }
    }

    /// Sends a SYN, or a listener's SYN-ACK. Linux: `tcp_connect`, `tcp_syn_options`,
    /// `tcp_make_synack`, `tcp_synack_options`.
    fn send_syn(&mut self, net: &mut Net) {
        let answers = self.state == State::SynReceived;
        let mut flags = flags::SYN;
        if self.host.config.sack {
            flags |= flags::SACK_OK;
        }
        if answers {
            flags |= flags::ACK;
            if self.counts_ce() {
                flags |= self.accecn_answer;
            } else if self.ecn_ok() {
                flags |= flags::ECE;
            }
            if !self.receiver.peer_sack {
                flags &= !flags::SACK_OK;
            }
            if !self.receiver.scales() {
                flags |= flags::NO_SCALE;
            }
        } else if self.ecn_ok() && (self.syn_retries == 0 || !self.host.config.tcp_ecn_fallback) {
            flags |= flags::ECE | flags::CWR | self.accecn_syn_flags();
        }
        if !self.timestamps {
            flags |= flags::NO_TS;
        }
        self.syn_sent_us = self.tp.tcp_mstamp;
        if self.syn_retries == 0 {
            self.retrans_stamp = self.ts_now();
        }
        if !answers {
            // In Linux the SYN-ACK is of a request, which is no socket yet.
            self.begin_departure(net);
        }
        let ect = self.wants_ecn && self.host.config.syn_ect;
        let packet = Packet {
            to: self.peer,
            hop: self.path,
            wire_bytes: SYN_BYTES + self.host.config.extra_header_bytes(),
            seq: self.iss,
            end_seq: self.iss.wrapping_add(1),
            ack_seq: self.tp.rcv_nxt,
            window_bytes: self.receiver.first_window(),
            ts_val: self.ts_now(),
            ts_ecr: self.receiver.ts_recent,
            flags,
            tos: Tos::new(self.dscp, if ect { Ecn::Ect0 } else { Ecn::NotEct }),
            sacks_len: 0,
            sacks: NO_SACKS,
        };
        let timeout = self.host.jiffies.of_ms(RTO_INITIAL_MS) << self.syn_doublings();
        self.arm_retransmit(Pending::Retransmit, timeout, net);
        let _ = net.transmit(packet);
    }

    /// Returns how often the timeout has doubled. From 6.5 on the first SYN retries are 1 s apart.
    /// Linux: `tcp_retransmit_timer`.
    fn syn_doublings(&self) -> u32 {
        let linear = match self.state {
            State::SynSent => {
                let config = &self.host.config;
                let of_version = if config.linux >= LinuxVersion(6, 5) { 4 } else { 0 };
                config.sysctls.syn_linear_timeouts.unwrap_or(of_version).into()
            }
            _ => 0,
        };
        self.syn_timeouts.saturating_sub(linear).min(6)
    }

    /// Sends the SYN or SYN-ACK again. Linux: `tcp_retransmit_timer`, `reqsk_timer_handler`.
    pub(super) fn on_syn_timeout(&mut self, net: &mut Net) {
        self.syn_retries += 1;
        self.syn_timeouts += 1;
        self.counters.retransmitted_segs += 1;
        self.counters.timeouts += 1;
        self.counters.syn_timeouts += 1;
        self.rehash_at_timeout(net);
        self.send_syn(net);
    }

    /// Handles the SYN that a listener gets. Linux: `tcp_conn_request`, `tcp_ecn_create_request`.
    fn on_syn(&mut self, packet: &Packet, net: &mut Net) {
        if packet.has(flags::FIN) {
            return;
        }
        // There is no Fast Open, so data in a SYN or SYN-ACK is ignored.
        self.tp.rcv_nxt = packet.seq.wrapping_add(1);
        self.negotiate(packet);
        if !self.timestamps {
            self.receiver.offer_without_timestamps();
        }
        self.tp.snd_wnd = packet.window_bytes;
        self.tp.snd_wl1 = packet.seq;
        let asks = packet.has(flags::ECE) && packet.has(flags::CWR);
        // RFC 3168 forbids ECT on a SYN, so an ordinary listener treats it as a fault. An algorithm
        // that needs ECN sends ECT, and its listeners expect it. Accurate ECN allows it.
        let plain = (packet.tos.ecn() == Ecn::NotEct || packet.has(flags::AE))
            && self.host.config.tcp_ecn != 0;
        self.tp.ecn_flags = if asks && (plain || self.wants_ecn) { ecn_flags::OK } else { 0 };
        if self.ecn_ok() {
            self.grant_accecn(packet);
        }
        self.enter_state(State::SynReceived);
        self.send_syn(net);
    }

    /// Establishes the connecting end. Linux: `tcp_rcv_synsent_state_process`,
    /// `tcp_finish_connect`, `tcp_ecn_rcv_synack`.
    fn on_syn_ack(&mut self, packet: &Packet, net: &mut Net) {
        self.negotiate(packet);
        self.receiver.ts_ecr = if self.timestamps { packet.ts_ecr } else { 0 };
        self.note_timestamps(packet);
        if self.ecn_ok() && self.cc.algorithm().needs_accecn() {
            self.on_accecn_answer(packet);
        } else if self.ecn_ok() && (!packet.has(flags::ECE) || packet.has(flags::CWR)) {
            self.tp.ecn_flags = 0;
        }
        self.number_data();
        // TCP_INFO counts this side's acknowledged SYN, but not the other side's.
        self.tp.bytes_acked = 1;
        self.set_first_window(packet);
        self.tp.snd_wl1 = packet.seq;
        self.tp.delivered = 1;
        let rtt_us = self.measure_first_rtt(net);
        self.on_syn_acked(rtt_us, packet, net);
        self.tp.rcv_nxt = packet.seq.wrapping_add(1);
        self.enter_state(State::Established);
        self.init_transfer(net);
        self.tp.lsndtime = net.cc.jiffies;
        if self.receiver.is_interactive() {
            // `TCP_QUICKACK` was cleared before the connect, so the ACK waits for data or the
            // timer.
            self.tp.icsk_ack_pending |= knee_algo::ack_pending::SCHED;
            self.delay_first_ack(net);
            return;
        }
        self.send_ack(net);
    }

    /// Processes the acknowledgement of the SYN. It is the first of the retransmission queue, so
    /// modules of Linux see it as they see the ACKs of data, but before `init`. None of knee's own
    /// algorithms keeps state from before `init`, and nv would draw a random number here. Linux:
    /// `tcp_ack`.
    fn on_syn_acked(&mut self, rtt_us: Option<u32>, packet: &Packet, net: &mut Net) {
        let sees_syn = self.is_module_of_linux();
        let rtt_us = rtt_us.map_or(-1, |us| us as i32);
        if sees_syn {
            self.tell_acked(&AckSample { pkts_acked: 1, rtt_us, in_flight: self.mss() }, net);
        }
        self.tell_handshake_ack(packet, net);
        let mut sample =
            RateSample { prior_in_flight: 1, rtt_us: rtt_us.into(), ..RateSample::default() };
        self.finish_rate_sample(1, 0, false, &mut sample);
        if !self.cc.algorithm().has_cong_control() {
            self.update_pacing_rate();
        } else if sees_syn {
            let given = (packet.ack_seq, 0);
            self.cc.cong_control(&mut self.tp, &mut net.cc, given, &sample);
            self.do_what_was_asked(net);
        }
    }

    fn is_module_of_linux(&self) -> bool {
        self.cc.algorithm().module().is_some_and(|it| it.is_kernel_module())
    }

    /// Tells the algorithm of the handshake's last segment, which is an ACK like any other.
    fn tell_handshake_ack(&mut self, packet: &Packet, net: &mut Net) {
        let echoes = packet.has(flags::ECE) && self.ecn_ok() && !self.counts_ce();
        let ece = !packet.has(flags::SYN) && echoes;
        let progress = Progress { win_update: true, slow_path: true, ece, ..Progress::default() };
        self.in_ack_event(&progress, net);
    }

    /// Sets the timestamps of a segment as algorithms see them. The peer's value has its random
    /// offset, as between hosts with `tcp_timestamps = 1`. The echo excludes this end's offset,
    /// which is 1 here (`ts_now`). Linux: `tcp_parse_aligned_timestamp`.
    #[inline]
    pub(super) fn note_timestamps(&mut self, packet: &Packet) {
        if self.timestamps && !packet.has(flags::NO_TS) {
            self.tp.rx_opt_rcv_tsval = packet.ts_val.wrapping_add(self.peer_ts_offset);
            self.tp.rx_opt_rcv_tsecr = packet.ts_ecr.saturating_sub(1);
        }
    }

    /// Applies the options of the peer's SYN. Linux: `tcp_openreq_init`,
    /// `tcp_rcv_synsent_state_process`.
    fn negotiate(&mut self, packet: &Packet) {
        self.receiver.peer_sack &= packet.has(flags::SACK_OK);
        if packet.has(flags::NO_TS) && self.timestamps {
            self.timestamps = false;
            self.header_bytes -= TIMESTAMP_BYTES;
        }
        let sysctls = &self.host.config.sysctls;
        self.receiver.negotiated(
            self.timestamps,
            self.receiver.peer_sack && sysctls.dsack,
            !packet.has(flags::NO_SCALE),
        );
        self.receiver.ts_recent = if self.timestamps { packet.ts_val } else { 0 };
        // The offset is derived from the random initial sequence number, but differs from it.
        self.peer_ts_offset = packet.seq.wrapping_mul(0x9e37_79b1).rotate_left(15);
        self.bound_mss();
    }

    /// Sets the largest payload: the limit of both ends, and at most half of the largest window
    /// seen. Linux: `tcp_sync_mss`, `__tcp_mtu_to_mss`, `tcp_bound_to_half_wnd`.
    #[cold]
    pub(super) fn bound_mss(&mut self) {
        let options = if self.timestamps { TIMESTAMP_BYTES } else { 0 };
        let own = self.host.config.mss_bytes() + TIMESTAMP_BYTES;
        let mut mss = own.min(self.peer_mss).max(MSS_LEAST) - options;
        let half = if self.tp.max_window > MSS_DEFAULT {
            self.tp.max_window >> 1
        } else {
            self.tp.max_window
        };
        if half > 0 {
            mss = mss.min(half.max(MSS_OF_LEAST_MTU - options));
        }
        self.tp.mss_cache = mss;
    }

    /// Sets the value of the peer's MSS option; without the option it is 536.
    pub(crate) fn set_peer_mss(&mut self, mss: Option<u16>) {
        self.peer_mss = mss.map_or(MSS_DEFAULT, u32::from);
    }

    /// Handles a packet while a SYN is outstanding. Linux: `tcp_rcv_synsent_state_process`.
    fn on_packet_while_connecting(&mut self, packet: &Packet, net: &mut Net) {
        if packet.has(flags::ACK) {
            if packet.ack_seq != self.iss.wrapping_add(1) {
                if self.syn_retries == 0 {
                    // The peer may still hold an older connection. It listens again after this
                    // reset.
                    self.arm_retransmit(Pending::Retransmit, TIMEOUT_MIN_JIFFIES, net);
                }
                self.answer_with_reset(packet, net);
                return;
            }
            if packet.has(flags::RST) {
                self.leave(State::Gone, net);
                return;
            }
        }
        // Simultaneous open is not modelled.
        if packet.has(flags::SYN) && packet.has(flags::ACK) {
            self.on_syn_ack(packet, net);
        }
    }

    /// Handles a packet for a listener that has answered a SYN. Linux: `tcp_check_req`.
    fn on_packet_of_request(&mut self, packet: &Packet, net: &mut Net) {
        let is_syn = packet.has(flags::SYN) && !packet.has(flags::ACK);
        if is_syn && !packet.has(flags::RST) && packet.seq.wrapping_add(1) == self.tp.rcv_nxt {
            // The SYN came again, so the SYN-ACK is sent again, at most twice a second.
            if self.may_answer_out_of_window(net) {
                self.syn_retries += 1;
                self.counters.retransmitted_segs += 1;
                self.send_syn(net);
            }
            return;
        }
        let window_end = self.tp.rcv_nxt.wrapping_add(self.receiver.first_window());
        let in_window = packet.seq == self.tp.rcv_nxt
            || (after(packet.end_seq, self.tp.rcv_nxt) && before(packet.seq, window_end));
        if packet.has(flags::ACK)
            && !packet.has(flags::RST)
            && packet.ack_seq != self.iss.wrapping_add(1)
        {
            self.answer_with_reset(packet, net);
        } else if !in_window {
            // Linux answers some of these with an ACK (docs/tcp.md).
        } else if packet.has(flags::RST) || packet.has(flags::SYN) {
            // The listener drops the request; a SYN is answered with a reset.
            self.answer_with_reset(packet, net);
            self.retransmit.disarm();
            (self.syn_retries, self.syn_timeouts) = (0, 0);
            self.listen();
        } else if packet.has(flags::ACK) {
            self.on_final_ack(packet, net);
        }
    }

    /// Establishes the accepting end. In Linux a copy of the listener becomes the connection, and
    /// then takes the segment as any other. Linux: `tcp_create_openreq_child`,
    /// `tcp_rcv_state_process`.
    fn on_final_ack(&mut self, packet: &Packet, net: &mut Net) {
        self.number_data();
        self.tp.snd_wnd = packet.window_bytes;
        self.tp.max_window = packet.window_bytes;
        self.tp.snd_wl1 = self.tp.rcv_nxt.wrapping_sub(1);
        self.tp.lsndtime = net.cc.jiffies;
        if self.is_module_of_linux() {
            (self.tp.advmss, self.tp.mss_cache) = (0, MSS_DEFAULT);
            self.cc.set_state(&mut self.tp, &mut net.cc, ca_state::OPEN);
            self.do_what_was_asked(net);
        }
        self.tp.advmss = self.host.config.mss_bytes() + TIMESTAMP_BYTES;
        self.receiver.ts_ecr = if packet.has(flags::NO_TS) { 0 } else { packet.ts_ecr };
        self.note_timestamps(packet);
        if self.timestamps && !packet.has(flags::NO_TS) && !after(packet.seq, self.tp.rcv_nxt) {
            // Linux: `tcp_check_req`.
            self.receiver.ts_recent = packet.ts_val;
        }
        self.set_first_window(packet);
        self.tp.snd_wl1 = packet.seq;
        self.measure_first_rtt(net);
        self.tell_handshake_ack(packet, net);
        // Linux counts the SYN-ACK as delivered, but samples no rate by it.
        self.tp.delivered = 1;
        self.init_transfer(net);
        self.enter_state(State::Established);
        if !self.cc.algorithm().has_cong_control() {
            self.update_pacing_rate();
        }
        if packet.sequence_len() > 0 {
            // The handshake's last ACK was lost, or came after the data.
            self.on_segment(packet, net);
        }
    }

    /// Sets the sequence numbers of this end: only its SYN was sent, and acknowledged.
    fn number_data(&mut self) {
        self.retransmit.disarm();
        let first = self.iss.wrapping_add(1);
        self.tp.snd_una = first;
        self.tp.snd_nxt = first;
        self.tp.write_seq = first;
        self.snd_sml = first;
        self.tp.pushed_seq = first;
        self.writer.psh_seq = first;
        self.cwnd_usage_seq = first;
        self.highest_sack_end = first;
    }

    fn set_first_window(&mut self, packet: &Packet) {
        self.tp.snd_wnd = packet.window_bytes;
        self.tp.max_window = packet.window_bytes;
        self.bound_mss();
    }

    /// Takes the first RTT sample, from the SYN or SYN-ACK to its ACK. Linux:
    /// `tcp_synack_rtt_meas`, `tcp_init_metrics`.
    fn measure_first_rtt(&mut self, net: &mut Net) -> Option<u32> {
        let rtt_us = if self.syn_retries == 0 {
            Some((self.tp.tcp_mstamp - self.syn_sent_us) as u32)
        } else if self.timestamps {
            from_ticks(self.ts_now().wrapping_sub(self.receiver.ts_ecr)).or(Some(1000))
        } else {
            None
        };
        if let Some(rtt_us) = rtt_us {
            let first = self.tp.snd_una;
            self.update_min_rtt(rtt_us, false, net);
            self.tp.srtt_us = self.rtt.sample(0, rtt_us.max(1), (first, first));
            self.rtt.set_rto(self.tp.srtt_us, &self.host);
        } else {
            self.rtt.fall_back(&self.host);
        }
        self.backoff = 0;
        rtt_us
    }

    /// Prepares either side for data: the receiver, the first cwnd, the algorithm. Linux:
    /// `tcp_init_transfer`, `tcp_init_metrics`, `tcp_try_undo_spurious_syn`.
    fn init_transfer(&mut self, net: &mut Net) {
        self.established_at = net.now;
        if self.timestamps {
            self.tp.advmss -= TIMESTAMP_BYTES;
        }
        self.receiver.establish(self.tp.rcv_nxt, net.cc.jiffies, &self.host, self.tp.tcp_mstamp);
        // An answer to the first SYN proves that the SYN retransmissions were needless.
        let spurious =
            self.timestamps && self.syn_retries > 0 && self.receiver.ts_ecr == self.retrans_stamp;
        self.retrans_stamp = 0;
        let by_timer = self.syn_timeouts > 0;
        self.tp.snd_cwnd = if self.syn_retries > SYN_RETRIES_FOR_CWND_1 && by_timer && !spurious {
            1
        } else {
            self.host.config.initial_cwnd_pkts
        };
        self.tp.snd_cwnd_stamp = net.cc.jiffies;
        self.tp.snd_ssthresh = INFINITE_SSTHRESH;
        self.tp.icsk_ca_state = ca_state::OPEN;
        self.init_algorithm(net);
        self.expand_sndbuf(net);
    }
}

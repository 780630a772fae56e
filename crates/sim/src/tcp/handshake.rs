//! A connection begins: SYN, SYN-ACK, ACK, with ECN negotiated on the way.

use super::ack::Progress;
use super::receive::Receiver;
use super::rtt::{RTO_INITIAL_MS, from_ticks};
use super::timers::Pending;
use super::{Sock, State};
use crate::net::Net;
use crate::packet::{MAX_SACKS, Packet, SYN_BYTES, flags};
use crate::spec::LinuxVersion;
use knee_algo::{INFINITE_SSTHRESH, ca_state, ecn_flags};
use knee_queue::Ecn;

/// `tcp_syn_linear_timeouts`.
const SYN_LINEAR_RETRIES: u32 = 4;
/// Retransmissions of a SYN after which a connection starts with one packet.
const SYN_RETRIES_FOR_CWND_1: u32 = 1;

impl Sock {
    pub(crate) fn listen(&mut self) {
        self.receiver = Receiver::new(&self.host.config, true);
        self.enter_state(State::Listen);
    }

    pub(crate) fn connect(&mut self, net: &mut Net) {
        self.enter(net);
        self.enter_state(State::SynSent);
        if self.host.config.tcp_ecn == 1 || self.wants_ecn {
            self.tp.ecn_flags = ecn_flags::OK;
        }
        self.send_syn(net);
    }

    /// A packet for this socket.
    pub(crate) fn on_packet(&mut self, packet: &Packet, net: &mut Net) {
        self.enter(net);
        match self.state {
            State::Established => {
                if packet.has(flags::SYN) {
                    // Its peer did not get the last ACK of the handshake.
                    self.send_ack(net);
                } else if !self.merges(packet, net) {
                    self.on_segment(packet, net);
                }
            }
            State::Listen if packet.has(flags::SYN) => self.on_syn(packet, net),
            State::SynReceived if packet.has(flags::SYN) => self.send_syn(net),
            State::SynReceived => self.on_final_ack(packet, net),
            State::SynSent if packet.has(flags::SYN) => self.on_syn_ack(packet, net),
            State::SynSent | State::Listen | State::Closed | State::Ended => {}
        }
    }

    /// A SYN, or the SYN-ACK of a listener.
    fn send_syn(&mut self, net: &mut Net) {
        let answers = self.state == State::SynReceived;
        let mut flags = flags::SYN;
        if self.host.config.sack {
            flags |= flags::SACK_OK;
        }
        if answers {
            flags |= flags::ACK;
            if self.ecn_ok() {
                flags |= flags::ECE;
            }
        } else if self.ecn_ok() && (self.syn_retries == 0 || !self.host.config.tcp_ecn_fallback) {
            flags |= flags::ECE | flags::CWR;
        }
        self.syn_sent_us = self.tp.tcp_mstamp;
        let ect = self.wants_ecn;
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
            ecn: if ect { Ecn::Ect0 } else { Ecn::NotEct },
            sacks_len: 0,
            sacks: [(0, 0); MAX_SACKS],
        };
        let timeout = self.host.jiffies.of_ms(RTO_INITIAL_MS) << self.syn_doublings();
        self.arm_retransmit(Pending::Retransmit, timeout, net);
        let _ = net.transmit(packet);
    }

    /// How often the timeout has doubled: from 6.5 on the first retries of a SYN are 1 s apart.
    fn syn_doublings(&self) -> u32 {
        let linear = self.host.config.linux >= LinuxVersion::V6_12 && self.state == State::SynSent;
        self.syn_retries.saturating_sub(if linear { SYN_LINEAR_RETRIES } else { 0 }).min(6)
    }

    pub(super) fn on_syn_timeout(&mut self, net: &mut Net) {
        self.syn_retries += 1;
        self.counters.retransmitted_segs += 1;
        self.counters.timeouts += 1;
        self.counters.syn_timeouts += 1;
        self.rehash_at_timeout(net);
        self.send_syn(net);
    }

    fn on_syn(&mut self, packet: &Packet, net: &mut Net) {
        self.tp.rcv_nxt = packet.end_seq;
        self.receiver.ts_recent = packet.ts_val;
        self.receiver.peer_sack &= packet.has(flags::SACK_OK);
        self.snd_wnd = packet.window_bytes;
        self.snd_wl1 = packet.seq;
        let asks = packet.has(flags::ECE) && packet.has(flags::CWR);
        // RFC 3168 forbids ECT on a SYN, so an ordinary listener takes it for a fault; an
        // algorithm that needs ECN sends it, and its listeners expect it.
        let plain = packet.ecn == Ecn::NotEct && self.host.config.tcp_ecn != 0;
        self.tp.ecn_flags = if asks && (plain || self.wants_ecn) { ecn_flags::OK } else { 0 };
        self.enter_state(State::SynReceived);
        self.send_syn(net);
    }

    fn on_syn_ack(&mut self, packet: &Packet, net: &mut Net) {
        if packet.ack_seq != self.iss.wrapping_add(1) {
            return;
        }
        self.receiver.ts_ecr = packet.ts_ecr;
        self.receiver.ts_recent = packet.ts_val;
        self.receiver.peer_sack &= packet.has(flags::SACK_OK);
        if self.ecn_ok() && (!packet.has(flags::ECE) || packet.has(flags::CWR)) {
            self.tp.ecn_flags = 0;
        }
        self.tp.rcv_nxt = packet.end_seq;
        self.establish(packet, net);
        self.send_ack(net);
    }

    fn on_final_ack(&mut self, packet: &Packet, net: &mut Net) {
        if packet.ack_seq != self.iss.wrapping_add(1) {
            return;
        }
        self.receiver.ts_ecr = packet.ts_ecr;
        self.establish(packet, net);
        if packet.payload_bytes() > 0 {
            // The ACK was lost, or came behind the data.
            self.on_segment(packet, net);
        }
    }

    /// Both sides: the window, the first RTT sample, the algorithm.
    fn establish(&mut self, packet: &Packet, net: &mut Net) {
        self.enter_state(State::Established);
        self.established_at = Some(net.now);
        self.retransmit.disarm();
        let first = self.iss.wrapping_add(1);
        self.tp.snd_una = first;
        self.tp.snd_nxt = first;
        self.write_seq = first;
        self.snd_sml = first;
        self.pushed_seq = first;
        // The acknowledged SYN counts, as in TCP_INFO.
        self.bytes_acked = 1;
        self.high_seq = first;
        self.cwnd_usage_seq = first;
        self.highest_sack_end = first;
        self.snd_wnd = packet.window_bytes;
        self.max_window = packet.window_bytes;
        self.snd_wl1 = packet.seq;
        self.tp.delivered = 1;
        self.tp.app_limited = 0;
        self.tp.delivered_mstamp = self.tp.tcp_mstamp;
        self.receiver.establish(self.tp.rcv_nxt, net.cc.jiffies, &self.host, self.tp.tcp_mstamp);
        self.tp.lsndtime = net.cc.jiffies;

        let rtt_us = if self.syn_retries == 0 {
            (self.tp.tcp_mstamp - self.syn_sent_us) as u32
        } else {
            from_ticks(self.ts_now().wrapping_sub(self.receiver.ts_ecr)).unwrap_or(1000)
        };
        self.update_min_rtt(rtt_us, false, net);
        self.tp.srtt_us = self.rtt.sample(0, rtt_us.max(1), (first, first));
        self.rtt.set_rto(self.tp.srtt_us, &self.host);

        self.tp.snd_cwnd = if self.syn_retries > SYN_RETRIES_FOR_CWND_1 {
            1
        } else {
            self.host.config.initial_cwnd_pkts
        };
        self.tp.snd_cwnd_stamp = net.cc.jiffies;
        self.tp.snd_ssthresh = INFINITE_SSTHRESH;
        self.tp.icsk_ca_state = ca_state::OPEN;
        self.update_pacing_rate();
        // The last segment of the handshake is an ACK as any other: the algorithm hears of it before it begins.
        let ece = !packet.has(flags::SYN) && packet.has(flags::ECE) && self.ecn_ok();
        let progress = Progress { win_update: true, slow_path: true, ece, ..Progress::default() };
        self.in_ack_event(&progress, net);
        self.init_algorithm(net);
        self.expand_sndbuf(net);
    }
}

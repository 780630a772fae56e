//! Socket options that the application sets, and the values that it can read.

use super::receive::rmem_max;
use super::{Sock, State};
use crate::net::Net;
use knee_algo::ack_pending;
use knee_run::spec::Cc;

/// The smallest buffers that an application can request (`SOCK_MIN_RCVBUF`, `SOCK_MIN_SNDBUF`),
/// bytes.
const RCVBUF_MIN: u32 = 2304;
const SNDBUF_MIN: u32 = 4608;
/// `sk_pacing_status` of a socket that TCP itself paces.
const SK_PACING_NEEDED: u32 = 1;

impl Sock {
    /// Sets `TCP_NODELAY`: short segments do not wait for the ACKs of others. Linux:
    /// `__tcp_sock_set_nodelay`.
    pub(crate) fn set_no_delay(&mut self, on: bool, net: &mut Net) {
        self.enter(net);
        self.writer.no_delay = on;
        if on && self.state.is_synchronised() {
            // This also sends corked data.
            self.push_past_nagle(net);
        }
    }

    /// Sets `TCP_CORK`: short segments wait for more data. Linux: `__tcp_sock_set_cork`.
    pub(crate) fn set_cork(&mut self, on: bool, net: &mut Net) {
        self.enter(net);
        self.writer.cork = on;
        if !on && self.state.is_synchronised() {
            self.push_pending(net);
        }
    }

    /// Sets `TCP_QUICKACK`: leaves or enters the interactive mode, and sends an ACK that is owed.
    /// Linux: `__tcp_sock_set_quickack`.
    pub(crate) fn set_quick_ack(&mut self, on: bool, net: &mut Net) {
        self.enter(net);
        self.receiver.set_interactive(!on);
        let open = matches!(self.state, State::Established | State::CloseWait);
        if on && open && self.tp.icsk_ack_pending & ack_pending::SCHED != 0 {
            self.tp.icsk_ack_pending |= ack_pending::PUSHED;
            self.ack_after_reading(net);
        }
    }

    /// Sets `SO_RCVBUF`. Linux doubles it, to cover the memory charged for segments beyond their
    /// payload. Linux: `__sock_set_rcvbuf`.
    pub(crate) fn set_rcvbuf(&mut self, bytes: u32) {
        let bytes = bytes.min(rmem_max(self.host.config.linux));
        self.receiver.set_rcvbuf((2 * bytes).max(RCVBUF_MIN));
    }

    /// Sets `SO_SNDBUF`, doubled likewise. Linux: `sk_setsockopt`.
    pub(crate) fn set_sndbuf(&mut self, bytes: u32, net: &mut Net) {
        self.enter(net);
        let bytes = bytes.min(rmem_max(self.host.config.linux));
        self.writer.sndbuf_bytes = (2 * bytes).max(SNDBUF_MIN);
        (self.writer.is_limited, self.writer.is_locked) = (true, true);
        self.writer.is_waiting = self.writer.pending_bytes > 0;
        self.check_space(net);
    }

    /// Sets `SO_MAX_PACING_RATE`, bytes per second; TCP paces from then on. Linux: `sk_setsockopt`.
    pub(crate) fn set_max_pacing_rate(&mut self, bytes_per_sec: u64) {
        self.tp.sk_max_pacing_rate = bytes_per_sec;
        self.tp.sk_pacing_rate = self.tp.sk_pacing_rate.min(bytes_per_sec);
        if bytes_per_sec != u64::MAX && self.tp.sk_pacing_status == 0 {
            self.tp.sk_pacing_status = SK_PACING_NEEDED;
        }
    }

    /// Sets `TCP_CONGESTION`: another algorithm, at once if the connection is established. Linux:
    /// `tcp_set_congestion_control`, `tcp_reinit_congestion_control`.
    pub(crate) fn set_congestion_control(&mut self, cc: &Cc, net: &mut Net) {
        self.enter(net);
        if self.state.is_synchronised() {
            self.cc.release(&mut self.tp, &mut net.cc);
        }
        self.wants_ecn = cc.algorithm.needs_ecn();
        self.cc = cc.algorithm.instance_on(cc.params.clone(), &self.host.modules);
        self.cc.set_socket(self.id);
        self.cc.assign(&mut self.tp);
        if self.state.is_synchronised() {
            self.tp.prior_ssthresh = 0;
            self.init_algorithm(net);
        }
    }

    /// Returns the values of `TCP_INFO` that a sample does not have. Linux: `tcp_get_info`.
    pub(crate) fn info(&self, net: &Net) -> crate::endpoint::Info {
        let (ato, rcv_mss) = self.receiver.ato_and_mss();
        let (rcv_ssthresh, rcv_space) = self.receiver.window_limits();
        let connecting = matches!(self.state, State::SynSent | State::SynReceived);
        let retransmits =
            if connecting { self.syn_timeouts } else { u32::from(self.tp.icsk_retransmits) };
        crate::endpoint::Info {
            retransmits,
            backoff: u32::from(self.backoff),
            probes: u32::from(self.probes_out),
            ato_us: self.host.jiffies.in_us(ato) as u32,
            reordering: self.tp.reordering,
            bytes_received: self.receiver.received_bytes,
            notsent_bytes: self.unsent_bytes()
                + u32::from(self.writer.fin == super::close::Fin::Waits),
            snd_mss: self.mss(),
            rcv_mss,
            rcv_ssthresh,
            rcv_space,
            ecn: self.ecn_ok(),
            last_data_recv_us: self
                .host
                .jiffies
                .in_us(self.receiver.since_data(self.host.jiffies.at(net.now))),
            unread_bytes: self.receiver.unread_bytes,
        }
    }
}

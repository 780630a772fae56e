//! When a burst may leave: pacing by the socket's own timer, and the rate that sizes bursts.

use super::Sock;
use super::fq::SK_PACING_FQ;
use crate::events::Timer;
use crate::net::Net;
use knee_queue::time::Time;

/// Segments that leave before pacing starts.
const UNPACED_SEGS: u64 = 10;

impl Sock {
    /// Sets the departure time of the next burst. Returns that of the last. Linux:
    /// `__tcp_transmit_skb`.
    pub(super) fn begin_departure(&mut self, net: &Net) -> u64 {
        let prior = self.tp.tcp_wstamp_ns;
        self.tp.tcp_wstamp_ns = prior.max(net.now.ns());
        prior
    }

    /// Returns the bytes of a burst that pacing counts: the payload, and with an old fq also the
    /// headers.
    #[inline]
    pub(super) fn paced_bytes(&self, bytes: u32, segments: u32) -> u32 {
        let counts_headers = self.host.config.fq_counts_headers && self.host.config.fq;
        bytes + if counts_headers { segments * self.header_bytes } else { 0 }
    }

    /// Sets the time of the next burst under pacing after `bytes` have left. Half of the next
    /// interval can make up for lateness. Linux: `tcp_update_skb_after_send`.
    pub(super) fn end_departure(&mut self, prior_wstamp_ns: u64, bytes: u32) {
        if self.tp.sk_pacing_status == 0 {
            return;
        }
        let rate = self.tp.sk_pacing_rate;
        if rate == 0 || rate == u64::MAX || self.counters.data_segs_sent < UNPACED_SEGS {
            return;
        }
        let len_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        let credit_ns = self.tp.tcp_wstamp_ns - prior_wstamp_ns;
        self.tp.tcp_wstamp_ns += len_ns - (len_ns / 2).min(credit_ns);
    }

    /// Reports whether pacing delays the next burst, and arms its timer. Linux: `tcp_pacing_check`.
    pub(super) fn blocked_by_pacing(&mut self, net: &mut Net) -> bool {
        let by_fq = self.tp.sk_pacing_status == SK_PACING_FQ;
        if self.tp.sk_pacing_status == 0 || by_fq || self.tp.tcp_wstamp_ns <= net.now.ns() {
            return false;
        }
        if !self.pacing.armed() {
            self.pacing.arm(Time::from_ns(self.tp.tcp_wstamp_ns), self.id, Timer::Pacing, net);
        }
        true
    }

    /// Sets the rate for TCP small queues and burst sizes if the algorithm sets none. Linux:
    /// `tcp_update_pacing_rate`.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
        let cwnd = self.tp.snd_cwnd;
        let sysctls = &self.host.config.sysctls;
        let percent = if cwnd < self.tp.snd_ssthresh / 2 {
            sysctls.pacing_ss_ratio
        } else {
            sysctls.pacing_ca_ratio
        };
        let window = u64::from(cwnd.max(self.tp.packets_out));
        // 64 bits hold every real flight; a configured initial window beyond that saturates.
        let bytes = u64::from(self.mss()) * window;
        let mut rate = bytes.saturating_mul((10_000 << 3) * u64::from(percent));
        if self.tp.srtt_us != 0 {
            rate /= u64::from(self.tp.srtt_us);
        }
        self.tp.sk_pacing_rate = rate.min(self.tp.sk_max_pacing_rate);
    }
}

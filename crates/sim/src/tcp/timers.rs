//! A socket's timers. Re-arming one is cheap: a scheduled event that comes too early schedules the
//! next.

use super::output::LOCAL_DROP_RETRY_MS;
use super::recovery::Rexmit;
use super::rtt::RTO_MAX_MS;
use super::{Sock, State};
use crate::events::Timer;
use crate::net::Net;
use knee_algo::{ack_pending, ca_state};
use knee_queue::time::Time;
use knee_run::spec::LinuxVersion;

/// The first timeouts of a thin stream, which do not double.
const THIN_LINEAR_RETRIES: u8 = 6;
/// The shortest time of timers based on microseconds.
pub(super) const TIMEOUT_MIN_US: u64 = 2_000;
/// The shortest time of timers based on jiffies (`TCP_TIMEOUT_MIN`). A wrongly answered SYN is sent
/// again after it.
pub(super) const TIMEOUT_MIN_JIFFIES: u32 = 2;

/// A timer of which at most one event matters.
#[derive(Debug)]
pub(crate) struct LazyTimer {
    due: Time,
    event_at: Time,
}

impl Default for LazyTimer {
    fn default() -> LazyTimer {
        LazyTimer { due: Time::MAX, event_at: Time::MAX }
    }
}

impl LazyTimer {
    #[inline]
    pub(super) fn arm(&mut self, due: Time, sock: u32, timer: Timer, net: &mut Net) {
        self.due = due;
        if due < self.event_at {
            self.event_at = due;
            net.schedule_timer(due, sock, timer);
        }
    }

    #[inline]
    pub(super) fn disarm(&mut self) {
        self.due = Time::MAX;
    }

    pub(super) fn armed(&self) -> bool {
        self.due != Time::MAX
    }

    /// Handles an event. Returns whether the timer is due, and then disarms it.
    pub(super) fn fires(&mut self, sock: u32, timer: Timer, net: &mut Net) -> bool {
        if self.event_at != net.now {
            return false;
        }
        self.event_at = Time::MAX;
        if self.due > net.now {
            if self.armed() {
                self.arm(self.due, sock, timer, net);
            }
            return false;
        }
        self.disarm();
        true
    }
}

/// The present use of the retransmission timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pending {
    #[default]
    Nothing,
    Retransmit,
    LossProbe,
    Reordering,
    WindowProbe,
}

#[derive(Debug, Default)]
pub(crate) struct RetransmitTimer {
    pub(super) pending: Pending,
    timer: LazyTimer,
}

impl RetransmitTimer {
    pub(super) fn disarm(&mut self) {
        self.pending = Pending::Nothing;
        self.timer.disarm();
    }
}

impl Sock {
    /// Handles an event of one of this socket's timers.
    pub(crate) fn on_timer(&mut self, timer: Timer, net: &mut Net) {
        let id = self.id;
        match timer {
            Timer::Retransmit => {
                if self.retransmit.timer.fires(id, timer, net) && !self.ended() {
                    self.enter(net);
                    self.on_retransmit_timer(net);
                }
            }
            Timer::DelayedAck => {
                if self.receiver.delayed_ack.fires(id, timer, net) && !self.ended() {
                    self.enter(net);
                    self.on_delayed_ack_timer(net);
                }
            }
            Timer::CompressedAck => {
                if self.receiver.compressed_ack.fires(id, timer, net) && !self.ended() {
                    self.enter(net);
                    self.send_ack(net);
                }
            }
            Timer::Pacing => {
                if self.pacing.fires(id, timer, net) && !self.ended() {
                    self.counters.pacing_timers += 1;
                    self.enter(net);
                    self.resume_sending(net);
                }
            }
            Timer::Fq => {
                if self.fq_timer.fires(id, timer, net) && !self.ended() {
                    self.enter(net);
                    self.on_fq_timer(net);
                }
            }
            Timer::TxCompletion => {
                if self.tx_completion.fires(id, timer, net) && !self.ended() && self.throttled {
                    self.enter(net);
                    self.throttled = false;
                    self.resume_sending(net);
                }
            }
            Timer::Gro => {
                if self.gro.fires(id, timer, net) && !self.ended() {
                    self.enter(net);
                    self.on_merged_segments(net);
                }
            }
        }
    }

    /// Arms the retransmission timer for `what`, `jiffies` after pacing permits the next segment.
    /// Linux: `tcp_reset_xmit_timer`.
    #[inline]
    pub(super) fn arm_after_pacing(&mut self, what: Pending, jiffies: u32, net: &mut Net) {
        self.arm_retransmit(what, jiffies.saturating_add(self.pacing_delay_jiffies(net)), net);
    }

    /// Arms the retransmission timer for `what` in `jiffies`, without regard to pacing. Linux:
    /// `inet_csk_reset_xmit_timer`.
    #[inline]
    pub(super) fn arm_retransmit(&mut self, what: Pending, jiffies: u32, net: &mut Net) {
        let jiffies = jiffies.min(self.host.jiffies.of_ms(RTO_MAX_MS));
        self.retransmit.pending = what;
        let due = self.host.jiffies.fires(net.now, jiffies);
        self.retransmit.timer.arm(due, self.id, Timer::Retransmit, net);
    }

    /// Returns the time until pacing permits the next segment, jiffies. Linux: `tcp_pacing_delay`.
    fn pacing_delay_jiffies(&self, net: &Net) -> u32 {
        let now_ns = net.now.ns();
        if self.tp.tcp_wstamp_ns <= now_ns {
            return 0;
        }
        let hz = u64::from(self.host.config.hz);
        let delay_ns = u128::from(self.tp.tcp_wstamp_ns - now_ns);
        u32::try_from(delay_ns * u128::from(hz) / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// Returns the time to the first segment's timeout, us; negative if it has passed. Linux:
    /// `tcp_rto_delta_us`.
    fn rto_delta_us(&self) -> i64 {
        let sent_us = self.rtx.front().map_or(self.tp.tcp_mstamp, |segment| segment.sent_us);
        let rto_us = self.host.jiffies.in_us(self.rtt.rto_jiffies);
        sent_us as i64 + rto_us as i64 - self.tp.tcp_mstamp as i64
    }

    /// Restarts the retransmission timeout, or stops it if nothing is outstanding. Linux:
    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self, net: &mut Net) {
        if self.tp.packets_out == 0 {
            self.retransmit.disarm();
            return;
        }
        let mut rto = self.rtt.rto_jiffies;
        if matches!(self.retransmit.pending, Pending::Reordering | Pending::LossProbe) {
            // The timer had another use, so the timeout counts from the first segment's
            // transmission.
            rto = self.host.jiffies.of_us(self.rto_delta_us().max(1) as u64);
        }
        self.arm_after_pacing(Pending::Retransmit, rto, net);
    }

    /// Arms a tail loss probe if one is permitted, else the timeout. `from_now`: an ACK came, so
    /// the timeout that bounds the probe would start now. Linux: `tcp_set_xmit_timer`.
    #[inline]
    pub(super) fn arm_probe_or_rto(&mut self, from_now: bool, net: &mut Net) {
        if !self.arm_loss_probe(from_now, net) {
            self.rearm_rto(net);
        }
    }

    /// Arms a tail loss probe. Returns false if none is permitted. Linux:
    /// `tcp_schedule_loss_probe`.
    #[inline]
    pub(super) fn arm_loss_probe(&mut self, from_now: bool, net: &mut Net) -> bool {
        let state = self.tp.icsk_ca_state;
        if self.tp.packets_out == 0
            || !self.receiver.peer_sack
            || (state != ca_state::OPEN && state != ca_state::CWR)
            || !matches!(self.host.config.sysctls.early_retrans, 3 | 4)
        {
            return false;
        }
        let mut jiffies = if self.tp.srtt_us != 0 {
            let extra_us = if self.tp.packets_out == 1 {
                u64::from(self.rtt.rto_min_us())
            } else {
                TIMEOUT_MIN_US
            };
            self.host.jiffies.of_us(u64::from(self.tp.srtt_us >> 2) + extra_us)
        } else {
            self.host.jiffies.of_ms(super::rtt::RTO_INITIAL_MS)
        };
        let rto_us = if from_now {
            self.host.jiffies.in_us(self.rtt.rto_jiffies) as i64
        } else {
            self.rto_delta_us()
        };
        if rto_us > 0 {
            jiffies = jiffies.min(self.host.jiffies.of_us(rto_us as u64));
        }
        self.arm_after_pacing(Pending::LossProbe, jiffies, net);
        true
    }

    /// Handles the retransmission timer in its present use. Linux: `tcp_write_timer_handler`.
    fn on_retransmit_timer(&mut self, net: &mut Net) {
        match (self.state, self.retransmit.pending) {
            (State::SynSent | State::SynReceived, _) => self.on_syn_timeout(net),
            (_, Pending::Nothing) => {}
            (_, Pending::Reordering) => self.on_reordering_timeout(net),
            (_, Pending::LossProbe) => self.send_loss_probe(net),
            (_, Pending::WindowProbe) => {
                self.retransmit.pending = Pending::Nothing;
                self.send_window_probe(net);
            }
            (_, Pending::Retransmit) => {
                self.retransmit.pending = Pending::Nothing;
                self.on_retransmit_timeout(net);
            }
        }
    }

    /// Handles the retransmission timeout. Linux: `tcp_retransmit_timer`.
    fn on_retransmit_timeout(&mut self, net: &mut Net) {
        if self.tp.packets_out == 0 {
            return;
        }
        self.counters.timeouts += 1;
        self.rehash_at_timeout(net);
        self.enter_loss(net);
        // If the peer has closed its window, the retransmission is a probe.
        let is_probe = self.tp.snd_wnd == 0 && !self.state.is_orphan();
        if !is_probe {
            self.tp.icsk_retransmits = self.tp.icsk_retransmits.saturating_add(1);
        }
        let head = self.rtx.first_id();
        let is_in_host = self.rtx.get(head).leaves_host > net.now;
        if !self.retransmit_segment(head, net) && !is_in_host {
            let soon = self.host.jiffies.of_ms(LOCAL_DROP_RETRY_MS);
            self.arm_retransmit(Pending::Retransmit, soon, net);
            return;
        }
        if self.is_thin() && self.tp.icsk_retransmits <= THIN_LINEAR_RETRIES {
            self.backoff = 0;
            self.rtt.set_rto(self.tp.srtt_us, &self.host);
        } else {
            // Earlier a probe did not count here.
            if !is_probe || self.host.config.linux >= LinuxVersion(6, 5) {
                self.backoff = self.backoff.saturating_add(1);
            }
            self.rtt.back_off(&self.host);
        }
        self.arm_retransmit(Pending::Retransmit, self.rtt.rto_jiffies, net);
    }

    /// Reports whether too little is in flight for other signs of loss
    /// (`tcp_thin_linear_timeouts`). Linux: `tcp_stream_is_thin`.
    fn is_thin(&self) -> bool {
        self.host.config.sysctls.thin_linear_timeouts
            && self.state == State::Established
            && self.tp.packets_out < 4
            && self.tp.snd_ssthresh < knee_algo::INFINITE_SSTHRESH
    }

    /// Handles the reordering timeout: some segments had enough time for plain reordering. Linux:
    /// `tcp_rack_reo_timeout`.
    fn on_reordering_timeout(&mut self, net: &mut Net) {
        let prior_in_flight = self.in_flight();
        let prior_lost = self.tp.lost;
        self.rack_detect_loss(net);
        if prior_in_flight != self.in_flight() {
            if self.tp.icsk_ca_state != ca_state::RECOVERY {
                self.enter_recovery(false, net);
                if !self.cc.algorithm().has_cong_control() {
                    let newly_lost = self.tp.lost.wrapping_sub(prior_lost);
                    self.cwnd_reduction(1, newly_lost, false);
                }
            }
            self.retransmit_after(Rexmit::Lost, net);
        }
        if self.retransmit.pending != Pending::Retransmit {
            self.rearm_rto(net);
        }
    }

    /// Sends the ACK that was delayed. Linux: `tcp_delack_timer_handler`.
    fn on_delayed_ack_timer(&mut self, net: &mut Net) {
        if self.receiver.compressed_acks > 0 {
            self.send_ack(net);
            return;
        }
        if self.tp.icsk_ack_pending & ack_pending::TIMER == 0 {
            return;
        }
        self.tp.icsk_ack_pending &= !ack_pending::TIMER;
        if self.tp.icsk_ack_pending & ack_pending::SCHED != 0 {
            self.receiver.delayed_ack_missed(self.rtt.rto_jiffies, &self.host);
            self.send_ack(net);
        }
    }
}

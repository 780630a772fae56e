//! The initial receive buffer, and the window that TCP offers of it.

use super::super::Sock;
use super::super::out_of_order::OutOfOrder;
use super::super::timers::LazyTimer;
use super::{FIRST_WINDOW_BYTES, MSS_DEFAULT, MSS_MIN, Receiver};
use crate::packet::TIMESTAMP_BYTES;
use knee_run::spec::{HostConfig, LinuxVersion};

/// Share of the receive buffer that is offered as window, in 1/256. Up to 6.5, `tcp_adv_win_scale`
/// sets it. Later it is the share of payload in a segment's charge; in 6.10 and later it has this
/// value until the first full segment. What 6.6 to 6.9 begin with, the simulator does not have.
const WINDOW_RATIO_6_10: u16 = 128;
/// `net.core.rmem_max`, which sets the window scale if the buffer is smaller. When it grew after 6.12 is not known.
const RMEM_MAX_6_1: u32 = 212_992;
const RMEM_MAX_6_18: u32 = 4 << 20;

fn window_ratio(config: &HostConfig) -> u16 {
    let scale = config.sysctls.adv_win_scale;
    if config.linux >= LinuxVersion(6, 10) {
        WINDOW_RATIO_6_10
    } else if scale > 0 {
        256 - (256 >> scale.min(8))
    } else {
        256 >> scale.unsigned_abs().min(8)
    }
}

/// Returns `net.core.rmem_max`.
pub(in crate::tcp) fn rmem_max(linux: LinuxVersion) -> u32 {
    if linux >= LinuxVersion(6, 18) { RMEM_MAX_6_18 } else { RMEM_MAX_6_1 }
}

/// Returns the window in `bytes` of buffer. Linux: `tcp_win_from_space`, `__tcp_win_from_space`.
pub(in crate::tcp) fn share(bytes: u32, ratio: u16) -> u32 {
    ((u64::from(bytes) * u64::from(ratio)) >> 8) as u32
}

impl Receiver {
    /// Resets the receiver for a new connection. The application's settings stay.
    pub(in crate::tcp) fn anew(&self, config: &HostConfig, listens: bool) -> Receiver {
        let set = self.rcvbuf_locked.then_some(self.rcvbuf);
        Receiver {
            read_at_bytes: self.read_at_bytes,
            merged_mss: self.merged_mss,
            pingpong: self.pingpong,
            ..Receiver::with_buffer(config, set, listens)
        }
    }

    /// Creates the receiver of a connection whose buffer is `set`, or as configured. Linux:
    /// `tcp_select_initial_window`, `tcp_init_buffer_space`, `tcp_initialize_rcv_mss`.
    pub(in crate::tcp) fn with_buffer(
        config: &HostConfig,
        set: Option<u32>,
        listens: bool,
    ) -> Receiver {
        let advmss = config.mss_bytes();
        let window_ratio = window_ratio(config);
        let rcvbuf = set.unwrap_or(config.rcvbuf_initial_bytes);
        let full_space = share(rcvbuf, window_ratio);
        let mut space = config.rcvbuf_max_bytes.max(rcvbuf).max(rmem_max(config.linux));
        if set.is_some() {
            space = space.min(full_space);
        }
        // The clamp reserves room for one segment.
        let window_clamp = match config.sysctls.app_win {
            0 => full_space,
            app_win => {
                let mut clamp = full_space;
                if full_space > 4 * advmss {
                    let kept_back = full_space.checked_shr(app_win.into()).unwrap_or(0);
                    clamp = (full_space - kept_back).max(4 * advmss);
                }
                if clamp > 2 * advmss && clamp + advmss > full_space {
                    clamp = full_space.saturating_sub(advmss).max(2 * advmss);
                }
                clamp
            }
        };
        // The listening side already knows that timestamps take 12 bytes of each segment.
        let mss = if listens { advmss } else { advmss + 12 };
        let first_window =
            if full_space > mss { full_space - full_space % mss } else { full_space };
        // In later versions the limit applies to the field of the SYN, but not to the next segment.
        let most = if config.linux >= LinuxVersion(6, 11) { u32::MAX } else { FIRST_WINDOW_BYTES };
        let rcv_wnd = first_window.min(most);
        Receiver {
            peer_sack: config.sack,
            out_of_order: OutOfOrder::default(),
            unread_bytes: 0,
            read_at_bytes: 1,
            first_skb_bytes: 0,
            has_ended: false,
            received_bytes: 0,
            rcvbuf,
            rcvbuf_max: config.rcvbuf_max_bytes,
            rcvbuf_locked: set.is_some(),
            tunes: config.sysctls.moderate_rcvbuf && set.is_none(),
            scales: true,
            window_ratio,
            measures_ratio: config.linux >= LinuxVersion(6, 6),
            window_clamp,
            rcv_ssthresh: rcv_wnd.min(window_clamp),
            rcv_wnd,
            rcv_wup: 0,
            window_scale: space.max(1).ilog2().saturating_sub(15).min(14) as u8,
            advmss,
            merged_mss: u16::MAX,
            reads_on: false,
            skb_overhead_bytes: config.skb_overhead_bytes,
            max_skb_frags: config.max_skb_frags as u8,
            max_tcp_header_bytes: config.max_tcp_header_bytes,
            rcv_mss: (rcv_wnd / 2).min(MSS_DEFAULT).min(advmss).max(MSS_MIN),
            last_seg_size: 0,
            quick: 0,
            pingpong: false,
            ato: 0,
            ato_min: 0,
            lrcvtime: 0,
            delack_due: 0,
            delack_noted: false,
            delayed_ack: LazyTimer::default(),
            compressed_acks: 0,
            compressed_rcv_nxt: 0,
            dup_acks: 0,
            out_of_window_ack_at: None,
            compressed_ack: LazyTimer::default(),
            ts_recent: 0,
            ts_advanced: false,
            ts_ecr: 0,
            last_ts_ecr: 0,
            rcv_rtt_us: 0,
            rcv_rtt_seq: 0,
            rcv_rtt_since_us: 0,
            space_bytes: rcv_wnd.min(10 * advmss),
            space_seq: 0,
            space_us: 0,
        }
    }

    /// Applies the options that both SYNs agree on: timestamps, DSACK, and scaled windows.
    pub(in crate::tcp) fn negotiated(&mut self, timestamps: bool, dsack: bool, scales: bool) {
        self.out_of_order.hides_duplicates = !dsack;
        if !timestamps {
            self.advmss += TIMESTAMP_BYTES;
        }
        self.scales = scales;
        if !scales {
            self.window_scale = 0;
            self.window_clamp = self.window_clamp.min(FIRST_WINDOW_BYTES);
            self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
        }
    }

    /// Takes back the room for timestamps from the window that a listener is about to offer. Linux:
    /// `tcp_openreq_init_rwin`.
    pub(in crate::tcp) fn offer_without_timestamps(&mut self) {
        let full_space = share(self.rcvbuf, self.window_ratio);
        if full_space > self.advmss && self.rcv_wnd < FIRST_WINDOW_BYTES {
            self.rcv_wnd = full_space - full_space % self.advmss;
            self.rcv_ssthresh = self.rcv_wnd.min(self.window_clamp);
            self.space_bytes = self.rcv_wnd.min(10 * self.advmss);
        }
    }

    /// Sets the largest window, which follows the share of payload. In 6.18, not in
    /// 6.12.117, the present limit follows at once; when that came is not known. Linux:
    /// `tcp_set_window_clamp`.
    pub(in crate::tcp) fn clamp_window(&mut self, clamp: u32, linux: LinuxVersion) {
        if linux < LinuxVersion(6, 18) || linux >= LinuxVersion(7, 3) {
            // The limit grows with later segments.
        } else if clamp < self.window_clamp {
            self.rcv_ssthresh = self.rcv_ssthresh.min(clamp);
        } else {
            self.rcv_ssthresh = self.rcv_ssthresh.max(self.rcv_wnd.min(clamp));
        }
        self.window_clamp = clamp;
        self.space_bytes = self.space_bytes.min(clamp);
    }

    /// Returns the largest window to offer, and the most bytes read in a round trip.
    pub(in crate::tcp) fn window_limits(&self) -> (u32, u32) {
        (self.rcv_ssthresh, self.space_bytes)
    }

    /// Reports whether the peer's SYN had a window scale.
    pub(crate) fn scales(&self) -> bool {
        self.scales
    }

    /// Sets the buffer for the application, which ends tuning.
    pub(in crate::tcp) fn set_rcvbuf(&mut self, bytes: u32) {
        self.rcvbuf = bytes;
        self.rcvbuf_locked = true;
        self.tunes = false;
    }
}

impl Sock {
    /// Returns what is left of the window that was offered. Linux: `tcp_receive_window`.
    pub(in crate::tcp) fn receive_window(&self) -> u32 {
        let used = self.tp.rcv_nxt.wrapping_sub(self.receiver.rcv_wup);
        self.receiver.rcv_wnd.saturating_sub(used)
    }

    /// Returns the window that TCP would advertise now. Linux: `__tcp_select_window`.
    #[inline]
    pub(in crate::tcp) fn new_window(&mut self) -> u32 {
        let receiver = &mut self.receiver;
        let whole_space = share(receiver.rcvbuf, receiver.window_ratio);
        let full_space = receiver.window_clamp.min(whole_space);
        let mut free = receiver.space();
        if free < full_space >> 1 {
            receiver.quick = 0;
            free &= !((1 << receiver.window_scale) - 1);
            if free < whole_space >> 4 || free < receiver.rcv_mss.min(full_space) {
                return 0;
            }
        }
        free = free.min(receiver.rcv_ssthresh);
        if receiver.window_scale > 0 {
            return free.next_multiple_of(1 << receiver.window_scale);
        }
        // The window has whole segments. It stays unless it changes by a segment, or by half of a
        // window that holds only one segment.
        let (window, mss) = (receiver.rcv_wnd, receiver.rcv_mss.min(full_space).max(1));
        if window > free || window.saturating_add(mss) <= free {
            free - free % mss
        } else if mss == full_space && free > window + (full_space >> 1) {
            free
        } else {
            window
        }
    }

    /// Chooses the window of a packet that is about to leave. The window never shrinks. Linux:
    /// `tcp_select_window`.
    #[inline]
    pub(in crate::tcp) fn select_window(&mut self) -> u32 {
        let current = self.receive_window();
        let mut window = self.new_window();
        if window < current {
            window = current.next_multiple_of(1 << self.receiver.window_scale);
        }
        self.receiver.rcv_wnd = window;
        self.receiver.rcv_wup = self.tp.rcv_nxt;
        window.min(65_535 << self.receiver.window_scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_window_grows_for_1426_segments() {
        let config = HostConfig {
            rcvbuf_initial_bytes: 8 << 20,
            rcvbuf_max_bytes: 512 << 20,
            ..HostConfig::new(LinuxVersion(6, 1))
        };
        let receiver = Receiver::new(&config, true);
        let segments = (receiver.window_clamp - receiver.rcv_ssthresh).div_ceil(2 * 1448);
        assert_eq!(segments, 1426);
        assert_eq!(receiver.window_scale, 14);
    }

    #[test]
    fn a_buffer_is_planned_by_linux_s_own_measure_whatever_a_packet_is_charged() {
        // The kernel's values: 1448, 576 and the headers, plus steps of 128 until half of the sum
        // is an MSS.
        for (max_tcp_header_bytes, planned) in [(192, 2984), (256, 2920), (320, 2984)] {
            for skb_overhead_bytes in [16, 768, 832, 1216, 2048] {
                let config = HostConfig {
                    skb_overhead_bytes,
                    max_tcp_header_bytes,
                    ..HostConfig::new(LinuxVersion(6, 1))
                };
                let mut receiver = Receiver::new(&config, true);
                // 20 segments were read instead of 10: (2 * 20 + 16) and twice as much again, 168
                // segments.
                receiver.grow_rcvbuf(20 * 1448, 0, LinuxVersion(6, 1));
                assert_eq!(receiver.rcvbuf, 168 * planned, "{skb_overhead_bytes}");
            }
        }
    }
}

//! Sysctls of `net.ipv4` that experiments leave at their defaults.

use knee_queue::time::Duration;

/// The kernel's names without `tcp_`, and its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctls {
    /// Whether the receiver reports duplicates (D-SACK).
    pub dsack: bool,
    /// Whether timeouts are looked at for being spurious (any value but 0).
    pub frto: u8,
    /// 3 or 4: tail loss probes.
    pub early_retrans: u8,
    /// 2: RACK's window does not grow with DSACKs; 4: three SACKs do not make it 0. 1, RACK itself, is always
    /// on here, as it is from 6.18 on.
    pub recovery: u8,
    /// Longest time for which an ACK is held back while there is a gap.
    pub comp_sack_delay: Duration,
    /// By how much that timer may be late.
    pub comp_sack_slack: Duration,
    /// ACKs held back at most; 0: none.
    pub comp_sack_nr: u32,
    /// Pacing rate over cwnd per srtt in slow start, percent.
    pub pacing_ss_ratio: u32,
    /// Pacing ratio in congestion avoidance, in per cent.
    pub pacing_ca_ratio: u32,
    /// Bytes not sent from which on the application waits; only where the send buffer is limited.
    pub notsent_lowat: u32,
    /// Retries of a SYN before the time between them doubles; `None`: as the version has it, 4 from 6.5 on.
    pub syn_linear_timeouts: Option<u8>,
    /// Packets by which reordering is believed in at first.
    pub reordering: u32,
    /// And at most.
    pub max_reordering: u32,
    /// Time for which a minimum RTT counts.
    pub min_rtt_wlen: Duration,
    /// Bursts halve with each 2^this us of minimum RTT; 0: they do not grow on short paths.
    pub tso_rtt_log: u8,
    /// The short end of a write waits for packets in the host's queue.
    pub autocorking: bool,
    /// The receive buffer is tuned.
    pub moderate_rcvbuf: bool,
    /// Share of the receive buffer that is no window, as a power of two; no effect from 6.6 on.
    pub adv_win_scale: i8,
    /// 0: no segment is kept back of the window at the start.
    pub app_win: u8,
    /// Timeouts of thin streams do not double.
    pub thin_linear_timeouts: bool,
    /// Segments carry timestamps if the peer's do.
    pub timestamps: bool,
}

impl Default for Sysctls {
    /// A stock kernel's.
    fn default() -> Sysctls {
        Sysctls {
            dsack: true,
            frto: 2,
            early_retrans: 3,
            recovery: 1,
            comp_sack_delay: Duration::from_ms(1),
            comp_sack_slack: Duration::from_us(100),
            comp_sack_nr: 44,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            notsent_lowat: u32::MAX,
            syn_linear_timeouts: None,
            reordering: 3,
            max_reordering: 300,
            min_rtt_wlen: Duration::from_ms(300_000),
            tso_rtt_log: 9,
            autocorking: true,
            moderate_rcvbuf: true,
            adv_win_scale: 1,
            app_win: 31,
            thin_linear_timeouts: false,
            timestamps: true,
        }
    }
}

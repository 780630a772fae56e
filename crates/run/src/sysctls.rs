//! Sysctls of `net.ipv4` that experiments leave at their defaults.

use knee_queue::time::Duration;
use knee_units::LinuxVersion;

knee_units::settings! {
    /// The kernel's names without `tcp_`, and its defaults.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Sysctls as (it, v) {
        /// Whether the receiver reports duplicates (D-SACK).
        pub dsack: bool = true;
        /// Whether timeouts are looked at for being spurious (any value but 0).
        pub frto: u8 = 2;
        /// 3 or 4: tail loss probes.
        pub early_retrans: u8 = 3;
        /// 2: RACK's window does not grow with DSACKs; 4: three SACKs do not make it 0. 1, RACK itself, is always
        /// on here, as it is from 6.18 on.
        pub recovery: u8 = 1;
        /// Longest time for which an ACK is held back while there is a gap.
        pub comp_sack_delay: Duration = Duration::from_ms(1);
        /// By how much that timer may be late.
        pub comp_sack_slack: Duration = Duration::from_us(100);
        /// ACKs held back at most; 0: none.
        pub comp_sack_nr: u32 = 44;
        /// Pacing rate over cwnd per srtt in slow start, percent.
        pub pacing_ss_ratio: u32 = 200;
        /// Pacing ratio in congestion avoidance, in per cent.
        pub pacing_ca_ratio: u32 = 120;
        /// Bytes not sent from which on the application waits; only where the send buffer is limited.
        pub notsent_lowat: u32 = u32::MAX;
        /// Retries of a SYN before the time between them doubles; `None`: as the version has it, 4 from 6.5 on.
        pub syn_linear_timeouts: Option<u8> = None;
        /// Packets by which reordering is believed in at first.
        pub reordering: u32 = 3;
        /// And at most.
        pub max_reordering: u32 = 300;
        /// Time for which a minimum RTT counts.
        pub min_rtt_wlen: Duration = Duration::from_ms(300_000);
        /// Sysctl: larger bursts below an RTT of 2^this us; 0: off.
        pub tso_rtt_log: u8 = 9 => "tso_rtt_log": Small.within(0, 31);
        /// The short end of a write waits for packets in the host's queue.
        pub autocorking: bool = true;
        /// The receive buffer is tuned.
        pub moderate_rcvbuf: bool = true;
        /// Share of the receive buffer that is no window, as a power of two; no effect from 6.6 on.
        pub adv_win_scale: i8 = 1;
        /// 0: no segment is kept back of the window at the start.
        pub app_win: u8 = 31;
        /// Timeouts of thin streams do not double.
        pub thin_linear_timeouts: bool = false;
        /// Segments of a burst at least, unless the algorithm says it.
        pub min_tso_segs: u32 = 2;
        /// A burst waits for more window while it may have less than one part in so many; 0: never for that.
        pub tso_win_divisor: u32 = 3;
        /// Shortest time between answers to segments that are not acceptable.
        pub invalid_ratelimit: Duration = Duration::from_ms(500);
        /// Segments carry timestamps if the peer's do.
        pub timestamps: bool = true;
    }
}

impl Sysctls {
    /// The defaults of a version of Linux.
    pub fn of(linux: LinuxVersion) -> Sysctls {
        let mut sysctls = Sysctls::default();
        if linux >= LinuxVersion(7, 3) {
            sysctls.comp_sack_slack = Duration::from_us(10);
        }
        sysctls
    }
}

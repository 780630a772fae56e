//! Settings of a script before its first event: the TCP end point under test.

use knee_queue::time::Duration;
use std::ops::RangeInclusive;

/// Headers of IPv4 and of IPv6, and TCP's with timestamps, bytes.
const HEADERS_BYTES: u32 = 52;
const IPV6_HEADERS_BYTES: u32 = 72;
/// Bytes of the timestamp option in each segment; the MSS option counts them as payload.
pub(crate) const TIMESTAMPS_BYTES: u32 = 12;
/// Range of `mss`.
pub(crate) const MSS_BYTES: RangeInclusive<u32> = 88..=8948;
/// Range of `gso`.
pub(crate) const GSO_SEGS: RangeInclusive<u32> = 1..=44;

/// An end point, as a script wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The algorithm's name as in `knee algorithms`.
    pub algorithm: String,
    /// Parameters of the algorithm, by name.
    pub params: Vec<(String, String)>,
    /// Those that `set algorithm` names later. A kernel loads them before its clock starts, since that takes time.
    pub later_algorithms: Vec<String>,
    /// Payload of a full segment with timestamps, bytes; the device's MTU follows (52 more with IPv4, 72 with
    /// IPv6).
    pub mss_bytes: u32,
    /// IPv6 in place of IPv4.
    pub ipv6: bool,
    /// Segments that leave as one burst at most (`gso_max_segs`); 1: offloads off.
    pub gso_max_segs: u32,
    /// Sysctls of `net.ipv4` without that prefix, of [`SYSCTLS`], in the order given.
    pub sysctls: Vec<(String, String)>,
    /// RTT without queues, for algorithms that ask for it.
    pub base_rtt: Option<Duration>,
    /// Packets of the peer that are longer come merged by the device, of segments of this payload.
    pub merged_mss: Option<u16>,
    /// The host's queue is fq, which paces.
    pub fq: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            algorithm: "reno".to_owned(),
            params: Vec::new(),
            later_algorithms: Vec::new(),
            mss_bytes: 1000,
            ipv6: false,
            gso_max_segs: 1,
            sysctls: Vec::new(),
            base_rtt: None,
            merged_mss: None,
            fq: false,
        }
    }
}

impl Settings {
    /// Sets the payload of full segments by the MTU of the device.
    pub(crate) fn set_mtu_bytes(&mut self, mtu_bytes: u32) {
        self.mss_bytes = mtu_bytes.saturating_sub(headers_bytes(self.ipv6));
    }

    /// The MTU of a device that carries full segments.
    pub(crate) fn mtu_bytes(&self) -> u32 {
        self.mss_bytes.saturating_add(headers_bytes(self.ipv6))
    }
}

/// Bytes of IP and TCP headers of a full segment.
pub(crate) fn headers_bytes(ipv6: bool) -> u32 {
    if ipv6 { IPV6_HEADERS_BYTES } else { HEADERS_BYTES }
}

/// Sysctls of `net.ipv4` that scripts may set: all belong to a network namespace.
pub const SYSCTLS: &[&str] = &[
    "tcp_adv_win_scale",
    "tcp_app_win",
    "tcp_autocorking",
    "tcp_comp_sack_delay_ns",
    "tcp_comp_sack_nr",
    "tcp_comp_sack_slack_ns",
    "tcp_dsack",
    "tcp_early_retrans",
    "tcp_ecn",
    "tcp_ecn_fallback",
    "tcp_frto",
    "tcp_invalid_ratelimit",
    "tcp_limit_output_bytes",
    "tcp_max_reordering",
    "tcp_min_rtt_wlen",
    "tcp_min_tso_segs",
    "tcp_moderate_rcvbuf",
    "tcp_notsent_lowat",
    "tcp_pacing_ca_ratio",
    "tcp_pacing_ss_ratio",
    "tcp_recovery",
    "tcp_reordering",
    "tcp_rmem",
    "tcp_rto_min_us",
    "tcp_sack",
    "tcp_slow_start_after_idle",
    "tcp_syn_linear_timeouts",
    "tcp_thin_linear_timeouts",
    "tcp_timestamps",
    "tcp_tso_rtt_log",
    "tcp_tso_win_divisor",
    "tcp_wmem",
];

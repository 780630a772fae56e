//! Sysctls of a host, as its configuration asks for them.

use knee_queue::time::Duration;
use knee_run::spec::HostConfig;

/// A sysctl below `/proc/sys/net` with its value.
pub type Setting = (&'static str, String);

/// `tcp_wmem` where the sender never waits for memory. The buffer starts with more than an initial window and grows to twice
/// the congestion window whatever that is: this is more than paths of 1 Gbps and 2 s hold.
const SNDBUF_INITIAL_BYTES: u32 = 256 << 10;
const SNDBUF_MAX_BYTES: u32 = 512 << 20;
/// Least buffer, the kernel's own.
const LEAST_BUFFER_BYTES: u32 = 4096;
/// `tcp_min_rtt_wlen` is in these.
const SECOND: Duration = Duration::from_ms(1000);

/// The least retransmission timeout (6.11): before, a route says it.
pub const RTO_MIN: &str = "ipv4/tcp_rto_min_us";

/// Sysctls of a host's configuration.
pub fn wanted(config: &HostConfig) -> Vec<Setting> {
    let mut all = of_connections(config);
    let sysctls = &config.sysctls;
    let flag = |on: bool| u8::from(on).to_string();
    all.extend([
        ("ipv4/tcp_dsack", flag(sysctls.dsack)),
        ("ipv4/tcp_frto", sysctls.frto.to_string()),
        ("ipv4/tcp_early_retrans", sysctls.early_retrans.to_string()),
        ("ipv4/tcp_recovery", sysctls.recovery.to_string()),
        ("ipv4/tcp_comp_sack_delay_ns", sysctls.comp_sack_delay.ns().to_string()),
        ("ipv4/tcp_comp_sack_slack_ns", sysctls.comp_sack_slack.ns().to_string()),
        ("ipv4/tcp_comp_sack_nr", sysctls.comp_sack_nr.to_string()),
        ("ipv4/tcp_pacing_ss_ratio", sysctls.pacing_ss_ratio.to_string()),
        ("ipv4/tcp_pacing_ca_ratio", sysctls.pacing_ca_ratio.to_string()),
        ("ipv4/tcp_notsent_lowat", sysctls.notsent_lowat.to_string()),
        ("ipv4/tcp_reordering", sysctls.reordering.to_string()),
        ("ipv4/tcp_max_reordering", sysctls.max_reordering.to_string()),
        ("ipv4/tcp_min_rtt_wlen", (sysctls.min_rtt_wlen.ps() / SECOND.ps()).to_string()),
        ("ipv4/tcp_tso_rtt_log", sysctls.tso_rtt_log.to_string()),
        ("ipv4/tcp_autocorking", flag(sysctls.autocorking)),
        ("ipv4/tcp_moderate_rcvbuf", flag(sysctls.moderate_rcvbuf)),
        ("ipv4/tcp_adv_win_scale", sysctls.adv_win_scale.to_string()),
        ("ipv4/tcp_app_win", sysctls.app_win.to_string()),
        ("ipv4/tcp_thin_linear_timeouts", flag(sysctls.thin_linear_timeouts)),
        ("ipv4/tcp_timestamps", flag(sysctls.timestamps)),
    ]);
    let retries = sysctls.syn_linear_timeouts;
    all.extend(retries.map(|retries| ("ipv4/tcp_syn_linear_timeouts", retries.to_string())));
    all
}

fn of_connections(config: &HostConfig) -> Vec<Setting> {
    let flag = |on: bool| u8::from(on).to_string();
    let buffer =
        |first: u32, most: u32| format!("{} {first} {most}", first.min(LEAST_BUFFER_BYTES));
    let (first, most) = match config.sndbuf_max_bytes {
        Some(most) => (config.sndbuf_initial_bytes, most),
        None => (SNDBUF_INITIAL_BYTES, SNDBUF_MAX_BYTES),
    };
    vec![
        ("ipv4/tcp_ecn", config.tcp_ecn.to_string()),
        ("ipv4/tcp_ecn_fallback", flag(config.tcp_ecn_fallback)),
        ("ipv4/tcp_slow_start_after_idle", flag(config.slow_start_after_idle)),
        ("ipv4/tcp_sack", flag(config.sack)),
        ("ipv4/tcp_limit_output_bytes", config.limit_output_bytes.to_string()),
        ("ipv4/tcp_rmem", buffer(config.rcvbuf_initial_bytes, config.rcvbuf_max_bytes)),
        ("ipv4/tcp_wmem", buffer(first, most)),
        (RTO_MIN, config.rto_min.us().to_string()),
        // One connection teaches the next nothing.
        ("ipv4/tcp_no_metrics_save", flag(true)),
    ]
}

/// With dots, as `sysctl` writes it.
pub fn name(key: &str) -> String {
    format!("net.{}", key.replace('/', "."))
}

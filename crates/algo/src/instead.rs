//! What a file on the contract uses instead of kernel functions that the contract lacks.

/// Kernel functions, and the replacement for each in the contract.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["inet_csk_ca"], "cc_state(sk)"),
    (
        &["get_random_u32", "get_random_u32_below", "prandom_u32", "prandom_u32_max"],
        "cc_random_u32(sk)",
    ),
    (&["min", "min_t", "max", "max_t", "clamp", "clamp_t"], "min_u32, max_u32 or clamp_u32"),
    (&["tcp_snd_cwnd", "tcp_snd_cwnd_set"], "tp->snd_cwnd"),
    (&["tcp_min_rtt"], "cc_min_rtt_us(tp)"),
    (&["div_u64", "do_div", "div64_ul"], "div64_u64(dividend, divisor)"),
    (
        &["div64_s64", "div64_long", "div_s64"],
        "div64_u64 of the absolute value, and the sign apart",
    ),
    (&["__tcp_send_ack", "tcp_send_ack"], "cc_send_ack(sk, rcv_nxt)"),
    (
        &["printk", "pr_info", "pr_debug", "pr_warn", "pr_err"],
        "CC_DIAG, which shows values from outside",
    ),
    (&["kmalloc", "kzalloc", "kcalloc", "kfree"], "CC_LARGE_STATE, if 104 bytes are not enough"),
    (&["ktime_get", "ktime_get_ns", "tcp_clock_us"], "tcp_sk(sk)->tcp_mstamp, us"),
    (&["WARN_ON", "WARN_ONCE", "BUG_ON"], "a clamp, with the reason beside it"),
];

/// Where a file on the contract looks for what there is.
const LOOK: &str = "tcp.h, native.h and bpf.h have what there is";

/// Returns what to use instead of a function.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

/// Returns the sentence about something that the contract lacks. A check and a compilation give the same answer.
pub(crate) fn no_such(kind: &str, name: &str) -> String {
    match instead_of(name) {
        Some(instead) => format!("knee's contract has no such {kind}: use {instead}"),
        None => format!("knee's contract has no such {kind}; {LOOK}"),
    }
}

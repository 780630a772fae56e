//! Fields that algorithms may read and TCP alone writes. The simulator relies on them, so a call of
//! a user's file must not change them.

use crate::TcpSock;

/// A burst is the pacing rate, a 64-bit number, shifted right by `sk_pacing_shift`. This is the
/// largest valid shift.
const MOST_PACING_SHIFT: u32 = 63;

macro_rules! kept {
    ($($field:ident: $type:ty,)*) => {
        /// Values of these fields before a call.
        #[derive(Clone, Copy)]
        pub(crate) struct Kept {
            tcp_wstamp_ns: u64,
            $($field: $type,)*
        }

        impl Kept {
            #[inline]
            pub(crate) fn of(sock: &TcpSock) -> Kept {
                Kept { tcp_wstamp_ns: sock.tcp_wstamp_ns, $($field: sock.$field,)* }
            }

            /// Returns whether no field has changed. It compares without a branch for each field.
            #[inline]
            pub(crate) fn holds(&self, sock: &TcpSock) -> bool {
                let changed = $((self.$field != sock.$field) |)*
                    (sock.sk_pacing_shift > MOST_PACING_SHIFT) | self.has_other_wstamp(sock);
                !changed
            }

            /// Describes the first changed field.
            #[cold]
            pub(crate) fn broken(&self, sock: &TcpSock) -> Option<String> {
                let not_its = |name: &str| Some(format!("wrote `{name}`, which an algorithm may not"));
                $(if self.$field != sock.$field {
                    return not_its(stringify!($field));
                })*
                if self.has_other_wstamp(sock) {
                    return not_its("tcp_wstamp_ns");
                }
                (sock.sk_pacing_shift > MOST_PACING_SHIFT).then(|| {
                    let shift = sock.sk_pacing_shift;
                    format!("set `sk_pacing_shift` to {shift}: the most is {MOST_PACING_SHIFT}")
                })
            }
        }

        /// Names of the fields.
        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($field)),*];
    };
}

kept! {
    sk_state: u8,
    icsk_ca_state: u8,
    icsk_retransmits: u8,
    snd_una: u32,
    snd_nxt: u32,
    packets_out: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    max_packets_out: u32,
    delivered: u32,
    delivered_ce: u32,
    lost: u32,
    srtt_us: u32,
    mss_cache: u32,
    rcv_nxt: u32,
    lsndtime: u32,
    reordering: u32,
    min_rtt_us: u32,
    tcp_mstamp: u64,
    delivered_mstamp: u64,
    first_tx_mstamp: u64,
    tcp_clock_cache: u64,
    bytes_acked: u64,
    data_segs_out: u32,
    advmss: u32,
    is_sack_reneg: u8,
    write_seq: u32,
    pushed_seq: u32,
    snd_wnd: u32,
    snd_wl1: u32,
    max_window: u32,
    high_seq: u32,
    tlp_high_seq: u32,
    undo_retrans: i32,
    received_ce: u32,
}

impl Kept {
    /// Returns whether `tcp_wstamp_ns`, the earliest time of the next transmission, changed in a
    /// way that is not allowed. An ACK request sets it to the present; nothing else may move it.
    #[inline]
    fn has_other_wstamp(&self, sock: &TcpSock) -> bool {
        (sock.tcp_wstamp_ns != self.tcp_wstamp_ns) & (sock.tcp_wstamp_ns != sock.tcp_clock_cache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_that_is_written_is_named() {
        let before = TcpSock::default();
        let kept = Kept::of(&before);
        assert!(kept.holds(&before) && kept.broken(&before).is_none());
        for (write, expected) in [
            ((|sock| sock.high_seq += 1) as fn(&mut TcpSock), "wrote `high_seq`, which"),
            (|sock| sock.undo_retrans = -7, "wrote `undo_retrans`"),
            (|sock| sock.is_sack_reneg = 1, "wrote `is_sack_reneg`"),
            (|sock| sock.min_rtt_us = 1, "wrote `min_rtt_us`"),
            (|sock| sock.tcp_wstamp_ns = 1 << 60, "wrote `tcp_wstamp_ns`"),
            (|sock| sock.sk_pacing_shift = 64, "set `sk_pacing_shift` to 64: the most is 63"),
        ] {
            let mut sock = before.clone();
            write(&mut sock);
            assert!(!kept.holds(&sock), "{expected}");
            assert!(kept.broken(&sock).is_some_and(|why| why.starts_with(expected)), "{expected}");
        }
    }

    #[test]
    fn what_algorithms_write_is_theirs() {
        let before = TcpSock { tcp_clock_cache: 5000, tcp_wstamp_ns: 3000, ..TcpSock::default() };
        let kept = Kept::of(&before);
        let mut sock = before;
        (sock.snd_cwnd, sock.snd_cwnd_cnt, sock.snd_cwnd_clamp, sock.snd_ssthresh) = (1, 2, 3, 4);
        (sock.sk_pacing_rate, sock.sk_pacing_status, sock.ecn_flags) = (5, 1, 3);
        (sock.app_limited, sock.prior_cwnd, sock.snd_cwnd_stamp, sock.undo_marker) = (6, 7, 8, 0);
        (sock.icsk_ack_pending, sock.srtt_pace_us, sock.fast_ack_mode) = (4, 9, 1);
        // `cc_send_ack` does the same.
        sock.tcp_wstamp_ns = sock.tcp_clock_cache;
        assert!(kept.holds(&sock), "{:?}", kept.broken(&sock));
        assert!(!NAMES.contains(&"snd_cwnd"));
    }
}

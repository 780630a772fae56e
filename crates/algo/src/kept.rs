//! Fields that an algorithm reads and TCP alone writes: the simulator rests on them. A call of a file's code must leave them as they were.

use crate::TcpSock;

/// A burst is 2^-this s of the pacing rate, in 64 bits.
const MOST_PACING_SHIFT: u32 = 63;

macro_rules! kept {
    ($($field:ident: $type:ty,)*) => {
        /// What they were before a call.
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

            /// Whether all are as they were; without a branch for each.
            #[inline]
            pub(crate) fn holds(&self, sock: &TcpSock) -> bool {
                let changed = $((self.$field != sock.$field) |)*
                    (sock.sk_pacing_shift > MOST_PACING_SHIFT) | self.has_other_wstamp(sock);
                !changed
            }

            /// What is wrong, of the first that is not as it was.
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

        /// Their names.
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
    /// An ACK that is asked for ends the time until which nothing leaves; nothing else moves it.
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
        // As cc_send_ack does.
        sock.tcp_wstamp_ns = sock.tcp_clock_cache;
        assert!(kept.holds(&sock), "{:?}", kept.broken(&sock));
        assert!(!NAMES.contains(&"snd_cwnd"));
    }
}

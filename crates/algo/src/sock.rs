//! Mirrors of the structs in `algorithms/include/native.h`, field for field and name for name.

use crate::GivenLog;

/// A connection as the algorithms see it: the kernel's `struct tcp_sock`, trimmed. The nested
/// kernel structs are flattened here; their fields keep the kernel's names.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct TcpSock {
    /// Bytes per second; all ones: no limit.
    pub sk_pacing_rate: u64,
    /// Bytes per second that the application allows; all ones: no limit.
    pub sk_max_pacing_rate: u64,
    /// This flow's parameters, set by [`crate::Instance`] around each call.
    #[doc(hidden)]
    pub cc_params: *const u32,
    /// 0 none, 1 TCP paces itself, 2 the fq qdisc paces.
    pub sk_pacing_status: u32,
    /// Bytes of the largest burst handed to the device at once.
    pub sk_gso_max_size: u32,
    /// Segments of that burst at most.
    pub sk_gso_max_segs: u32,
    /// A burst is 2^-this seconds of the pacing rate; 10 is about 1 ms.
    pub sk_pacing_shift: u32,
    /// Where loss recovery stands: see [`crate::ca_state`].
    pub icsk_ca_state: u8,
    /// Consecutive timeouts.
    pub icsk_retransmits: u8,
    /// What ACK is owed: see [`crate::ack_pending`].
    pub icsk_ack_pending: u8,
    /// The algorithm's own 104 bytes.
    pub icsk_ca_priv: [u64; 13],
    /// First byte not acknowledged.
    pub snd_una: u32,
    /// Next byte to send.
    pub snd_nxt: u32,
    /// Packets.
    pub snd_cwnd: u32,
    /// Packets acked towards the next increment.
    pub snd_cwnd_cnt: u32,
    /// Packets, never passed.
    pub snd_cwnd_clamp: u32,
    /// Packets.
    pub snd_ssthresh: u32,
    /// Packets, before the reduction in progress.
    pub prior_cwnd: u32,
    /// Packets, for undo; 0: undo not allowed.
    pub prior_ssthresh: u32,
    /// Packets sent and not cumulatively acked.
    pub packets_out: u32,
    /// Packets SACKed.
    pub sacked_out: u32,
    /// Packets marked lost.
    pub lost_out: u32,
    /// Packets retransmitted and not yet acked.
    pub retrans_out: u32,
    /// Largest `packets_out` of this window.
    pub max_packets_out: u32,
    /// Packets delivered, cumulative, also by SACK.
    pub delivered: u32,
    /// Of these, acked with ECE.
    pub delivered_ce: u32,
    /// Packets marked lost, cumulative.
    pub lost: u32,
    /// `delivered` up to which rate samples are application-limited; 0: none.
    pub app_limited: u32,
    /// Smoothed RTT, us << 3.
    pub srtt_us: u32,
    /// Bytes of payload in a full segment.
    pub mss_cache: u32,
    /// Next byte expected.
    pub rcv_nxt: u32,
    /// Jiffies of the last data sent.
    pub lsndtime: u32,
    /// Packets.
    pub reordering: u32,
    /// `snd_una` when the episode began; 0: nothing to undo.
    pub undo_marker: u32,
    /// Jiffies when cwnd was last validated.
    pub snd_cwnd_stamp: u32,
    /// Windowed minimum RTT of the core, us.
    pub min_rtt_us: u32,
    /// See [`crate::ecn_flags`].
    pub ecn_flags: u8,
    /// Noted by the last send attempt.
    pub is_cwnd_limited: u8,
    /// Clock of the packet being processed, us.
    pub tcp_mstamp: u64,
    /// When `delivered` last changed, us.
    pub delivered_mstamp: u64,
    /// Start of the send phase being sampled, us.
    pub first_tx_mstamp: u64,
    /// The clock that `tcp_mstamp` was taken from, ns.
    pub tcp_clock_cache: u64,
    /// When pacing lets the next packet leave, ns.
    pub tcp_wstamp_ns: u64,
}

// SAFETY: the one pointer is set and cleared around each call into an algorithm.
unsafe impl Send for TcpSock {}
// SAFETY: as above; nothing follows the pointer outside such a call.
unsafe impl Sync for TcpSock {}

impl Default for TcpSock {
    fn default() -> TcpSock {
        TcpSock {
            sk_pacing_rate: u64::MAX,
            sk_max_pacing_rate: u64::MAX,
            cc_params: std::ptr::null(),
            sk_pacing_status: 0,
            sk_gso_max_size: 0,
            sk_gso_max_segs: 0,
            sk_pacing_shift: 10,
            icsk_ca_state: 0,
            icsk_retransmits: 0,
            icsk_ack_pending: 0,
            icsk_ca_priv: [0; 13],
            snd_una: 0,
            snd_nxt: 0,
            snd_cwnd: 0,
            snd_cwnd_cnt: 0,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: crate::INFINITE_SSTHRESH,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            app_limited: 0,
            srtt_us: 0,
            mss_cache: 0,
            rcv_nxt: 0,
            lsndtime: 0,
            reordering: 0,
            undo_marker: 0,
            snd_cwnd_stamp: 0,
            min_rtt_us: 0,
            ecn_flags: 0,
            is_cwnd_limited: 0,
            tcp_mstamp: 0,
            delivered_mstamp: 0,
            first_tx_mstamp: 0,
            tcp_clock_cache: 0,
            tcp_wstamp_ns: 0,
        }
    }
}

impl TcpSock {
    /// Whether cwnd is below ssthresh.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Packets believed to be in the network.
    #[inline]
    pub fn packets_in_flight(&self) -> u32 {
        self.packets_out
            .wrapping_sub(self.sacked_out + self.lost_out)
            .wrapping_add(self.retrans_out)
    }
}

/// What one ACK tells about RTT and the flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Packets cumulatively acked by this ACK.
    pub pkts_acked: u32,
    /// RTT of the last segment (S)ACKed, us; -1: none.
    pub rtt_us: i32,
    /// Bytes delivered since that segment was sent.
    pub in_flight: u32,
}

/// One delivery-rate sample.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// When `prior_delivered` was current, us.
    pub prior_mstamp: u64,
    /// Packets delivered when the sampled packet was sent.
    pub prior_delivered: u32,
    /// Of these, acked with ECE.
    pub prior_delivered_ce: u32,
    /// Packets over the interval; negative: invalid.
    pub delivered: i32,
    /// Of these, acked with ECE.
    pub delivered_ce: i32,
    /// Length of the interval, us; negative: invalid.
    pub interval_us: i64,
    /// Length by the send times, us.
    pub snd_interval_us: u32,
    /// Length by the ACK times, us.
    pub rcv_interval_us: u32,
    /// RTT of the last segment (S)ACKed, us; -1: none.
    pub rtt_us: i64,
    /// Packets marked lost by this ACK.
    pub losses: i32,
    /// Packets delivered by this ACK.
    pub acked_sacked: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// End of the sampled packet.
    pub last_end_seq: u32,
    /// The application, not the network, may have limited the sample.
    pub is_app_limited: bool,
    /// The sampled packet had been retransmitted.
    pub is_retrans: bool,
    /// The ACK may have been delayed by the receiver.
    pub is_ack_delayed: bool,
}

/// What the host decides, and what an algorithm asked for during one call.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Host {
    /// State of the random numbers that algorithms draw.
    pub random_state: u64,
    /// Large state of the connection being worked on, set by [`crate::Instance`] around each call.
    pub(crate) storage: *mut u64,
    /// Coarse clock, in ticks of 1/`hz`.
    pub jiffies: u32,
    /// Ticks per second.
    pub hz: u32,
    /// RTT without queues of the connection being worked on, us; 0: unknown.
    pub base_rtt_us: u32,
    acks_asked: u32,
    ack_rcv_nxt: [u32; 2],
    ack_ecn_flags: [u8; 2],
    rehashes_asked: u8,
    fallback_asked: u8,
    fallback_name: [u8; 16],
    /// Where what this host gives is noted, set by [`crate::Instance`] while somebody looks on.
    pub(crate) given: *mut GivenLog,
    /// The values to give, set while a call is replayed.
    pub(crate) replayed: *const GivenLog,
}

// SAFETY: the pointers are set and cleared around each call into an algorithm.
unsafe impl Send for Host {}
// SAFETY: as above; nothing follows the pointers outside such a call.
unsafe impl Sync for Host {}

/// An ACK that an algorithm asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAck {
    /// It acknowledges all below this.
    pub rcv_nxt: u32,
    /// `ecn_flags` at the moment of asking: decides whether it carries ECE.
    pub ecn_flags: u8,
}

impl Host {
    /// A host with `hz` ticks per second whose random numbers follow from `seed`.
    pub fn new(hz: u32, seed: u64) -> Host {
        Host {
            random_state: seed,
            storage: std::ptr::null_mut(),
            jiffies: 0,
            hz,
            base_rtt_us: 0,
            acks_asked: 0,
            ack_rcv_nxt: [0; 2],
            ack_ecn_flags: [0; 2],
            rehashes_asked: 0,
            fallback_asked: 0,
            fallback_name: [0; 16],
            given: std::ptr::null_mut(),
            replayed: std::ptr::null(),
        }
    }

    /// The ACKs asked for and not taken yet, in order.
    pub fn asked_acks(&self) -> impl Iterator<Item = AskedAck> + use<> {
        let (rcv_nxt, ecn_flags) = (self.ack_rcv_nxt, self.ack_ecn_flags);
        (0..(self.acks_asked as usize).min(2))
            .map(move |i| AskedAck { rcv_nxt: rcv_nxt[i], ecn_flags: ecn_flags[i] })
    }

    /// How often another path was asked for and not taken yet.
    #[inline]
    pub fn asked_rehashes(&self) -> u8 {
        self.rehashes_asked
    }

    /// The algorithm to change to, if one was asked for and not taken yet.
    pub fn asked_fallback(&self) -> Option<String> {
        (self.fallback_asked != 0).then(|| {
            let name = &self.fallback_name;
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..len]).into_owned()
        })
    }

    /// The ACKs asked for since the last call of this, in order.
    #[inline]
    pub fn take_asked_acks(&mut self) -> impl Iterator<Item = AskedAck> + use<> {
        let asked = self.asked_acks();
        self.acks_asked = 0;
        asked
    }

    /// How often another path was asked for since the last call of this.
    #[inline]
    pub fn take_asked_rehashes(&mut self) -> u8 {
        std::mem::take(&mut self.rehashes_asked)
    }

    /// The algorithm to change to, if one was asked for since the last call of this.
    pub fn take_fallback(&mut self) -> Option<String> {
        let asked = self.asked_fallback();
        self.fallback_asked = 0;
        self.fallback_name = [0; 16];
        asked
    }
}

/// Name and offset (or size) of what the C side has, to compare with the mirrors here.
#[cfg(test)]
pub(crate) fn layout() -> Vec<(&'static str, u64)> {
    use crate::Given;
    use std::mem::{offset_of, size_of};
    macro_rules! fields {
        ($kind:ty, $prefix:literal: $($field:ident),* $(,)?) => {
            [$((concat!($prefix, stringify!($field)), offset_of!($kind, $field) as u64)),*]
        };
    }
    let mut all = vec![
        ("tcp_sock", size_of::<TcpSock>() as u64),
        ("cc_host", size_of::<Host>() as u64),
        ("ack_sample", size_of::<AckSample>() as u64),
        ("rate_sample", size_of::<RateSample>() as u64),
        ("tcp_congestion_ops", size_of::<crate::Ops>() as u64),
        ("cc_given", size_of::<Given>() as u64),
        ("cc_given_log", size_of::<GivenLog>() as u64),
        ("icsk_ack.pending", offset_of!(TcpSock, icsk_ack_pending) as u64),
    ];
    all.extend(fields!(TcpSock, "": sk_pacing_rate, sk_max_pacing_rate, cc_params,
        sk_pacing_status, sk_gso_max_size, sk_gso_max_segs, sk_pacing_shift, icsk_ca_state, icsk_retransmits, icsk_ca_priv, snd_una,
        snd_nxt, snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh, prior_cwnd, prior_ssthresh,
        packets_out, sacked_out, lost_out, retrans_out, max_packets_out, delivered, delivered_ce,
        lost, app_limited, srtt_us, mss_cache, rcv_nxt, lsndtime, reordering, undo_marker,
        snd_cwnd_stamp, min_rtt_us, ecn_flags, is_cwnd_limited, tcp_mstamp, delivered_mstamp,
        first_tx_mstamp, tcp_clock_cache, tcp_wstamp_ns));
    all.extend(fields!(Host, "host.": random_state, storage, jiffies, hz, base_rtt_us, acks_asked,
        ack_rcv_nxt, ack_ecn_flags, rehashes_asked, fallback_asked, fallback_name, given, replayed));
    all
}

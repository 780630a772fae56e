/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The arithmetic that both versions of BBR have in common: bandwidth, the rates and packets that follow
 * from it, and their scales. What each makes of it is in bbr.c and bbr3.c.
 */
#ifndef KNEE_BBR_H
#define KNEE_BBR_H

/* Bandwidth is in packets per us, times 2^24: a unit is 715 bit/s at 1500 bytes, and 32 bits 3 Tbps. */
#define BW_SCALE		24
#define BW_UNIT			(1 << BW_SCALE)
/* Gains are in 1/256. */
#define BBR_SCALE		8
#define BBR_UNIT		(1 << BBR_SCALE)

#define BBR_CWND_MIN_TARGET	4
/* Before an RTT is known. */
#define BBR_DEFAULT_RTT_US	1000

/* A queue that is never quite emptied would hide min_rtt: the rate stays this much below bw. */
#define BBR_PACING_MARGIN_PCT	1
#define BBR_USEC_LESS_MARGIN	(1000000 / 100 * (100 - BBR_PACING_MARGIN_PCT))

/* Bursts are limited as if for a device that takes 64 KiB, less room for headers. */
#define BBR_GSO_MAX_BYTES	(65536 - 1 - 320)
#define BBR_TSO_SEGS_MAX	127

#define BBR_MIN_RTT_WIN_SEC	10
#define BBR_PROBE_RTT_MODE_MS	200

/* ACKs that come together: two slots of 5 rounds, an epoch of at most 2^20 packets, 100 ms of bw. */
#define BBR_EXTRA_ACKED_WIN_RTTS 5
#define BBR_ACK_EPOCH_ACKED_MAX	(1U << 20)
#define BBR_EXTRA_ACKED_MAX_US	(100 * 1000)

enum bbr_mode {
	BBR_STARTUP = 0,
	BBR_DRAIN = 1,
	BBR_PROBE_BW = 2,
	BBR_PROBE_RTT = 3,
};

/*
 * Bytes per second at bw * gain, less the margin. bw * mss is 2^43 at 3 Tbps, so that the product stays
 * below 2^64 with the largest gain; what is beyond stays there.
 */
static inline u64 bbr_rate_bytes_per_sec(const struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache;

	rate = (rate * gain) >> BBR_SCALE;
	if (rate > ~0ULL / BBR_USEC_LESS_MARGIN)
		rate = ~0ULL / BBR_USEC_LESS_MARGIN;
	return (rate * BBR_USEC_LESS_MARGIN) >> BW_SCALE;
}

/* A rate of 0 would mean none. */
static inline u64 bbr_pacing_rate(const struct sock *sk, u32 bw, u32 gain)
{
	u64 rate = bbr_rate_bytes_per_sec(sk, bw, gain);

	if (!rate)
		rate = 1;
	return rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/* cwnd / RTT at a gain, before there is a sample of bw. True if an RTT is known. */
static inline bool bbr_init_pacing_rate(struct sock *sk, u32 gain)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = tp->srtt_us ? max_u32(tp->srtt_us >> 3, 1) : BBR_DEFAULT_RTT_US;
	u64 bw = ((u64)tp->snd_cwnd << BW_SCALE) / rtt_us;

	sk->sk_pacing_rate = bbr_pacing_rate(sk, bw < ~0U ? bw : ~0U, gain);
	return tp->srtt_us;
}

/* Packets that gain times the path holds, rounded up; below 2^64 up to 2^30 packets. */
static inline u32 bbr_bdp_pkts(u32 bw, u32 min_rtt_us, u32 gain)
{
	u64 bdp = ((u64)bw * min_rtt_us * gain) >> BBR_SCALE;

	return (bdp + BW_UNIT - 1) >> BW_SCALE;
}

/*
 * Packets in the network when the next one may leave: what is in flight now, less what bw delivers
 * until then.
 */
static inline u32 bbr_inflight_at_edt(const struct tcp_sock *tp, u32 bw, u32 inflight)
{
	u64 wait_ns = 0, delivered;

	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		wait_ns = tp->tcp_wstamp_ns - tp->tcp_clock_cache;
	delivered = (bw * (wait_ns / 1000)) >> BW_SCALE;
	return delivered >= inflight ? 0 : inflight - (u32)delivered;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BIC's law: growth, reduction, and what both remember. bic.c is nothing else; nv2010.c grows by it
 * while it sees no congestion.
 *
 *   below W_max    half-way towards it: by (W_max - cwnd) / 4 per RTT, at most max_increment packets,
 *                  and slowly once that is one packet
 *   beyond W_max   slowly at first, then by more, then by max_increment per RTT
 *   congestion     W_max = cwnd (lower if cwnd had not come back to the W_max before), cwnd = beta cwnd
 *
 * W_max is where the last congestion was: last_max_cwnd. Up to low_window packets it is Reno.
 *
 * An algorithm has BIC_PARAMS among its parameters and hands their values on as BIC_LAW(sk).
 */
#ifndef KNEE_BIC_H
#define KNEE_BIC_H

/* Fractions of the parameter beta. */
#define BIC_BETA_UNIT		1024
/* The binary search goes a quarter of the distance per RTT. */
#define BIC_SEARCH		4
/* Before the first loss at most one packet per so many acked: 5 % per RTT. */
#define BIC_CNT_BEFORE_LOSS	20
/* Packets per ACK are kept in 1/16. */
#define BIC_ACK_RATIO_SHIFT	4

#define BIC_PARAMS(P)								\
	P(low_window, 14, 0, 1000000, "", "packets: up to this cwnd it grows and halves as Reno") \
	P(max_increment, 16, 1, 1000000, "", "packets: largest growth per round trip") \
	P(beta, 819, 1, 1023, "", "share of cwnd kept at congestion, in 1/1024")	\
	P(smooth_part, 20, 1, 1000, "", "round trips for the last 4 packets up to W_max") \
	P(fast_convergence, 1, 0, 1, "", "release bandwidth when W_max falls")

#define BIC_LAW_FIELD(name, value, min, max, choices, meaning) u32 name;
#define BIC_LAW_VALUE(name, value, min, max, choices, meaning) .name = cc_params(sk)->name,

/* The parameters' values, whatever else the algorithm has beside them. */
struct bic_law {
	BIC_PARAMS(BIC_LAW_FIELD)
};

#define BIC_LAW(sk) ((const struct bic_law){ BIC_PARAMS(BIC_LAW_VALUE) })

struct bic_growth {
	u32 cnt;		/* packets to be acked per packet of growth */
	u32 last_max_cwnd;	/* W_max, packets; 0: no congestion yet */
	u32 last_cwnd;		/* cwnd at the last update */
	u32 last_time;		/* jiffies of the last update */
	u32 delayed_ack;	/* packets per ACK, average, in 1/16 */
};

static inline void bic_reset(struct bic_growth *bic)
{
	bic->cnt = 0;
	bic->last_max_cwnd = 0;
	bic->last_cwnd = 0;
	bic->last_time = 0;
	bic->delayed_ack = 2 << BIC_ACK_RATIO_SHIFT;
}

/* Packets acked per packet of growth below W_max: cwnd / (growth per RTT). cwnd is at least 1. */
static inline u32 bic_cnt_below(u32 cwnd, u32 distance, const struct bic_law *law)
{
	u32 step = distance / BIC_SEARCH;

	if (step > law->max_increment)
		return cwnd / law->max_increment;
	if (step <= 1)
		return cwnd * law->smooth_part / BIC_SEARCH;
	return cwnd / step;
}

/* The same from W_max on, by how far cwnd is beyond it. */
static inline u32 bic_cnt_beyond(u32 cwnd, u32 distance, const struct bic_law *law)
{
	if (distance < BIC_SEARCH)
		return cwnd * law->smooth_part / BIC_SEARCH;
	if (distance < law->max_increment * (BIC_SEARCH - 1))
		return cwnd * (BIC_SEARCH - 1) / distance;
	return cwnd / law->max_increment;
}

/*
 * How many packets make one packet of growth. The division by packets per ACK is from the time when
 * growth counted ACKs; now that it counts packets, delayed ACKs double it, in Linux as here.
 * cwnd * smooth_part * 4 keeps within 32 bits up to 53 million packets at the default.
 */
static inline void bic_look_again(struct bic_growth *bic, const struct bic_law *law, u32 cwnd, u32 now)
{
	/* About 31 ms: within them only a changed window is looked at again. */
	if (bic->last_cwnd == cwnd && (s32)(now - bic->last_time) <= (s32)(HZ / 32))
		return;
	bic->last_cwnd = cwnd;
	bic->last_time = now;
	if (cwnd <= law->low_window) {
		bic->cnt = cwnd;
		return;
	}
	if (cwnd < bic->last_max_cwnd)
		bic->cnt = bic_cnt_below(cwnd, bic->last_max_cwnd - cwnd, law);
	else
		bic->cnt = bic_cnt_beyond(cwnd, cwnd - bic->last_max_cwnd, law);
	if (!bic->last_max_cwnd)
		bic->cnt = min_u32(bic->cnt, BIC_CNT_BEFORE_LOSS);
	/* delayed_ack stays at 15 or more: a sixteenth of less than 16 is nothing. */
	bic->cnt = (bic->cnt << BIC_ACK_RATIO_SHIFT) / max_u32(bic->delayed_ack, 1);
	bic->cnt = max_u32(bic->cnt, 1);
}

static inline void bic_grow(struct sock *sk, struct bic_growth *bic, const struct bic_law *law,
			    u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	bic_look_again(bic, law, tp->snd_cwnd, tcp_jiffies32);
	tcp_cong_avoid_ai(tp, bic->cnt, acked);
}

/* cwnd * 1024 keeps within 32 bits up to 2^21 packets, in Linux as here. */
static inline u32 bic_reduce(struct bic_growth *bic, const struct bic_law *law, u32 cwnd)
{
	if (cwnd < bic->last_max_cwnd && law->fast_convergence)
		bic->last_max_cwnd = cwnd * (BIC_BETA_UNIT + law->beta) / (2 * BIC_BETA_UNIT);
	else
		bic->last_max_cwnd = cwnd;
	if (cwnd <= law->low_window)
		return max_u32(cwnd >> 1, 2);
	return max_u32(cwnd * law->beta / BIC_BETA_UNIT, 2);
}

/* delayed_ack = 15/16 delayed_ack + pkts_acked, so in 1/16: an average over 16 ACKs. */
static inline void bic_count_ack(struct bic_growth *bic, u32 pkts_acked)
{
	bic->delayed_ack += pkts_acked - (bic->delayed_ack >> BIC_ACK_RATIO_SHIFT);
}

#endif

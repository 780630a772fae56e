// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CUBIC: after a loss at W_max, approach W_max fast, linger there, then probe beyond it.
 *
 *   W(t) = C (t - K)^3 + W_max       K = cbrt((W_max - cwnd) / C), t since the last reduction
 *   target of one RTT ahead: W(t + RTT); cwnd grows by one packet per `cnt` packets acked
 *   never slower than Reno would grow (the TCP-friendly window)
 *   congestion: ssthresh = beta * cwnd; fast convergence lowers W_max further if it fell before
 *
 * HyStart leaves slow start when ACKs of one round have been arriving as a train for about half of
 * an RTT, or when the RTT of a round has risen.
 *
 * Sources: RFC 9438; Ha, Rhee, "Taming the elephants" (HyStart); behaves as tcp_cubic of Linux 6.1.
 *
 * Deviation: the cube root is exact; Linux's table and one Newton step are off by 0.2 % on average,
 * which moves K by that much.
 */
#include "tcp.h"

/* Time runs in 1/1024 s inside the cubic. */
#define CUBIC_TIME_SHIFT	10
/* Fractions of the parameter beta. */
#define CUBIC_BETA_UNIT		1024
/* C = 0.4 as 410 / 2^40 for t in 1/1024 s: (410 / 2^40) * 1024^3 = 0.4 packets per s^3. */
#define CUBIC_C			410
#define CUBIC_C_SHIFT		40
/* (packets) << 40 / 410: 2^40 / 410, so that K^3 = CUBIC_FACTOR * packets. */
#define CUBIC_FACTOR		2681735677ull
/* In CWND terms: before the first loss at most 5 % per RTT, and never faster than 1.5x per RTT. */
#define CUBIC_CNT_BEFORE_LOSS	20
#define CUBIC_CNT_MIN		2
/* cbrt() of a difference of 2^32 packets is below 2^22 time units: 22 steps settle every bit. */
#define CUBIC_ROOT_BITS		22

/* HyStart, all in us: bounds of the rise in delay that counts, and samples needed to judge it. */
#define HYSTART_DELAY_MIN_US	4000
#define HYSTART_DELAY_MAX_US	16000
#define HYSTART_MIN_SAMPLES	8
#define HYSTART_ACK_DELAY_MAX_US 1000
#define HYSTART_ACK_TRAIN	1
#define HYSTART_DELAY		2

struct cubic {
	u32 cnt;		/* packets to be acked per packet of growth */
	u32 last_max_cwnd;	/* W_max, packets */
	u32 last_cwnd;		/* cwnd at the last update */
	u32 last_time;		/* jiffies of the last update */
	u32 origin_point;	/* packets: the plateau of this epoch */
	u32 k;			/* 1/1024 s from epoch start to the plateau */
	u32 delay_min_us;	/* smallest RTT seen */
	u32 epoch_start;	/* jiffies; 0: no epoch */
	u32 ack_cnt;		/* packets acked since tcp_cwnd last grew */
	u32 tcp_cwnd;		/* packets: what Reno would have */
	u16 sample_cnt;		/* RTT samples of this round */
	u8 found;		/* slow start was left, or must not be judged again */
	u32 round_start_us;	/* HyStart's round of one RTT */
	u32 end_seq;		/* the round ends when this is acknowledged */
	u32 last_ack_us;	/* end of the ACK train so far */
	u32 curr_rtt_us;	/* smallest RTT of this round */
};

CC_STATE(cubic, struct cubic)

#define CUBIC_PARAMS(P)								\
	P(fast_convergence, 1, 0, 1, "", "release bandwidth when W_max falls")	\
	P(beta, 717, 1, 1023, "", "share of cwnd kept at congestion, in 1/1024")	\
	P(tcp_friendliness, 1, 0, 1, "", "never grow slower than Reno")		\
	P(hystart, 1, 0, 1, "", "leave slow start by ACK train or delay")	\
	P(hystart_detect, 3, 0, 3, "", "1: ACK train, 2: delay, 3: either")	\
	P(hystart_low_window, 16, 0, 1000000, "", "packets: below this cwnd HyStart does not act") \
	P(hystart_ack_delta_us, 2000, 0, 1000000, "", "us: largest gap inside an ACK train")
CC_PARAMS(cubic, CUBIC_PARAMS)

#define CUBIC_DIAG(D)								\
	D(last_max_cwnd, "packets", cc_state(sk)->last_max_cwnd)			\
	D(cnt, "packets", cc_state(sk)->cnt)					\
	D(delay_min, "us", cc_state(sk)->delay_min_us)				\
	D(found, "", cc_state(sk)->found)
CC_DIAG(cubic, CUBIC_DIAG)

static u32 cubic_clock_us(const struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

/* Largest r with r^3 <= value, bit by bit; values here stay below 2^64, roots below 2^22. */
static u32 cubic_root(u64 value)
{
	u64 root = 0;
	int bit;

	for (bit = CUBIC_ROOT_BITS - 1; bit >= 0; bit--) {
		u64 next = root | (1ull << bit);

		/* next < 2^22, so its cube passes 64 bits only from 2^21.3 on: compare by division. */
		if (div64_u64(div64_u64(value, next), next) >= next)
			root = next;
	}
	return (u32)root;
}

static void cubic_hystart_reset(struct sock *sk)
{
	struct cubic *ca = cc_state(sk);

	ca->round_start_us = cubic_clock_us(sk);
	ca->last_ack_us = ca->round_start_us;
	ca->end_seq = tcp_sk(sk)->snd_nxt;
	ca->curr_rtt_us = ~0u;
	ca->sample_cnt = 0;
}

static void cubic_reset(struct cubic *ca)
{
	ca->cnt = 0;
	ca->last_max_cwnd = 0;
	ca->last_cwnd = 0;
	ca->last_time = 0;
	ca->origin_point = 0;
	ca->k = 0;
	ca->delay_min_us = 0;
	ca->epoch_start = 0;
	ca->ack_cnt = 0;
	ca->tcp_cwnd = 0;
	ca->found = 0;
}

CC_OP(void, cubic_init, struct sock *sk)
{
	cubic_reset(cc_state(sk));
	if (cc_params(sk)->hystart)
		cubic_hystart_reset(sk);
}

/* After idle the epoch moves on by as long, so that the idle time does not count as growth. */
CC_OP(void, cubic_cwnd_event, struct sock *sk, u32 event)
{
	struct cubic *ca = cc_state(sk);
	u32 now = tcp_jiffies32;
	s32 idle;

	if (event != CA_EVENT_TX_START)
		return;
	idle = (s32)(now - tcp_sk(sk)->lsndtime);
	if (!ca->epoch_start || idle <= 0)
		return;
	ca->epoch_start += idle;
	if (after(ca->epoch_start, now))
		ca->epoch_start = now;
}

static void cubic_start_epoch(struct cubic *ca, u32 cwnd, u32 acked, u32 now)
{
	ca->epoch_start = now;
	ca->ack_cnt = acked;
	ca->tcp_cwnd = cwnd;
	if (ca->last_max_cwnd <= cwnd) {
		ca->k = 0;
		ca->origin_point = cwnd;
	} else {
		ca->k = cubic_root(CUBIC_FACTOR * (ca->last_max_cwnd - cwnd));
		ca->origin_point = ca->last_max_cwnd;
	}
}

/*
 * W(t + RTT). 410 * |t - K|^3 keeps within 64 bits up to 355,668 time units, 5.8 minutes without a
 * reduction; beyond it wraps, as Linux's does.
 */
static u32 cubic_target(const struct cubic *ca, u32 now)
{
	u64 t = (u64)(u32)(now - ca->epoch_start) + usecs_to_jiffies(ca->delay_min_us);
	u64 offset;
	u32 delta;

	t = div64_u64(t << CUBIC_TIME_SHIFT, HZ);
	offset = t < ca->k ? ca->k - t : t - ca->k;
	delta = (u32)((CUBIC_C * offset * offset * offset) >> CUBIC_C_SHIFT);
	return t < ca->k ? ca->origin_point - delta : ca->origin_point + delta;
}

/* Reno's window grows one packet per cwnd * 8 / 15 packets acked under this beta (RFC 9438, 4.3). */
static void cubic_keep_up_with_reno(struct sock *sk, struct cubic *ca, u32 cwnd)
{
	u32 beta = cc_params(sk)->beta;
	u32 scale = 8 * (CUBIC_BETA_UNIT + beta) / 3 / (CUBIC_BETA_UNIT - beta);
	u32 per_packet = (cwnd * scale) >> 3;

	if (per_packet && ca->ack_cnt > per_packet) {
		/* ack_cnt ends within 1..per_packet */
		u32 packets = (ca->ack_cnt - 1) / per_packet;

		ca->ack_cnt -= packets * per_packet;
		ca->tcp_cwnd += packets;
	}
	if (ca->tcp_cwnd > cwnd)
		ca->cnt = min_u32(ca->cnt, cwnd / (ca->tcp_cwnd - cwnd));
}

static void cubic_update(struct sock *sk, u32 cwnd, u32 acked)
{
	struct cubic *ca = cc_state(sk);
	u32 now = tcp_jiffies32;

	ca->ack_cnt += acked;
	if (ca->last_cwnd == cwnd && (s32)(now - ca->last_time) <= (s32)(HZ / 32))
		return;
	/* The cubic itself moves once per jiffy at most. */
	if (!ca->epoch_start || now != ca->last_time) {
		u32 target;

		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (!ca->epoch_start)
			cubic_start_epoch(ca, cwnd, acked, now);
		target = cubic_target(ca, now);
		ca->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
		if (!ca->last_max_cwnd)
			ca->cnt = min_u32(ca->cnt, CUBIC_CNT_BEFORE_LOSS);
	}
	if (cc_params(sk)->tcp_friendliness)
		cubic_keep_up_with_reno(sk, ca, cwnd);
	ca->cnt = max_u32(ca->cnt, CUBIC_CNT_MIN);
}

CC_OP(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cubic_update(sk, tp->snd_cwnd, acked);
	tcp_cong_avoid_ai(tp, cc_state(sk)->cnt, acked);
}

CC_OP(u32, cubic_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 beta = cc_params(sk)->beta;
	struct cubic *ca = cc_state(sk);

	ca->epoch_start = 0;
	if (tp->snd_cwnd < ca->last_max_cwnd && cc_params(sk)->fast_convergence)
		ca->last_max_cwnd = tp->snd_cwnd * (CUBIC_BETA_UNIT + beta) / (2 * CUBIC_BETA_UNIT);
	else
		ca->last_max_cwnd = tp->snd_cwnd;
	return max_u32(tp->snd_cwnd * beta / CUBIC_BETA_UNIT, 2);
}

CC_OP(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss) {
		cubic_reset(cc_state(sk));
		cubic_hystart_reset(sk);
	}
}

/* How long a host may have held ACKs together: four of the largest bursts at the pacing rate. */
static u32 cubic_ack_delay_us(const struct sock *sk)
{
	u64 rate = sk->sk_pacing_rate;

	if (!rate)
		return 0;
	return (u32)div64_u64((u64)sk->sk_gso_max_size * 4 * 1000000, rate);
}

static void cubic_leave_slow_start(struct sock *sk, struct cubic *ca)
{
	ca->found = 1;
	tcp_sk(sk)->snd_ssthresh = tcp_sk(sk)->snd_cwnd;
}

static void cubic_hystart_train(struct sock *sk, struct cubic *ca)
{
	u32 now = cubic_clock_us(sk);
	u32 threshold_us;

	if ((s32)(now - ca->last_ack_us) > (s32)cc_params(sk)->hystart_ack_delta_us)
		return;
	ca->last_ack_us = now;
	threshold_us = ca->delay_min_us +
		       min_u32(cubic_ack_delay_us(sk), HYSTART_ACK_DELAY_MAX_US);
	/* Without pacing the train of a round is as long as the window, not as the RTT. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		threshold_us >>= 1;
	if ((s32)(now - ca->round_start_us) > (s32)threshold_us)
		cubic_leave_slow_start(sk, ca);
}

static void cubic_hystart_delay(struct sock *sk, struct cubic *ca, u32 delay_us)
{
	ca->curr_rtt_us = min_u32(ca->curr_rtt_us, delay_us);
	if (ca->sample_cnt < HYSTART_MIN_SAMPLES) {
		ca->sample_cnt++;
		return;
	}
	if (ca->curr_rtt_us > ca->delay_min_us + clamp_u32(ca->delay_min_us >> 3,
							   HYSTART_DELAY_MIN_US,
							   HYSTART_DELAY_MAX_US))
		cubic_leave_slow_start(sk, ca);
}

static void cubic_hystart(struct sock *sk, struct cubic *ca, u32 delay_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 detect = cc_params(sk)->hystart_detect;

	if (after(tp->snd_una, ca->end_seq))
		cubic_hystart_reset(sk);
	if (tp->snd_cwnd < cc_params(sk)->hystart_low_window)
		return;
	if (detect & HYSTART_ACK_TRAIN)
		cubic_hystart_train(sk, ca);
	if (detect & HYSTART_DELAY)
		cubic_hystart_delay(sk, ca, delay_us);
}

CC_OP(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic *ca = cc_state(sk);
	s32 rtt_us = sample->rtt_us;
	u32 delay_us;

	if (rtt_us < 0)
		return;
	/* The second after a reduction still has that congestion's delays in it. */
	if (ca->epoch_start && (s32)(tcp_jiffies32 - ca->epoch_start) < (s32)HZ)
		return;
	delay_us = max_u32((u32)rtt_us, 1);
	if (!ca->delay_min_us || ca->delay_min_us > delay_us)
		ca->delay_min_us = delay_us;
	if (!ca->found && tcp_in_slow_start(tcp_sk(sk)) && cc_params(sk)->hystart)
		cubic_hystart(sk, ca, delay_us);
}

CC_OP(u32, cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(cubic) = {
	.init = CC_FN(cubic_init),
	.ssthresh = CC_FN(cubic_ssthresh),
	.cong_avoid = CC_FN(cubic_cong_avoid),
	.set_state = CC_FN(cubic_set_state),
	.undo_cwnd = CC_FN(cubic_undo_cwnd),
	.cwnd_event = CC_FN(cubic_cwnd_event),
	.pkts_acked = CC_FN(cubic_pkts_acked),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "cubic",
};

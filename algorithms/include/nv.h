/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-NV's model of the path, and the window that it predicts. nv.c and nv2010.c decide by it.
 *
 *   rate       = bytes delivered while the newest acked segment was under way / RTT
 *   predicted  = largest rate since the last decision * min_rtt      the window that would give this
 *                                                                    rate with an empty queue
 *   limit      = predicted + pad                                     so about `pad` packets may queue
 *
 * min_rtt is forgotten now and then, lest a path that has become longer looks congested for ever. A
 * base RTT, if somebody knows it, bounds min_rtt: from above, so that a queue that never empties is
 * not taken for the path; from below, so that a strange sample does no lasting harm.
 *
 * An algorithm has NV_MODEL_PARAMS among its parameters and hands their values on as NV_LAW(sk).
 */
#ifndef KNEE_NV_H
#define KNEE_NV_H

/* Rates are in 100 bit/s: bytes per us are this many of them. */
#define NV_RATE_UNIT		80000
/*
 * Largest rate: 859 Gbps. Linux keeps 32 bits, which wrap at 429 Gbps. With an RTT below 2^31 us the
 * product of both keeps within 64 bits.
 */
#define NV_MAX_RATE		0x1ffffffffull
/* min_rtt before the first sample. */
#define NV_INIT_RTT_US		(~0u)
/* The first minimum is not forgotten before so many seconds. */
#define NV_FIRST_RESET_S	2
/* The period is drawn from 3/4 to 5/4 of the parameter, in 1/512, so that flows do not agree. */
#define NV_RESET_SHIFT		9
#define NV_RESET_LEAST		384
/* No minimum is below 80 % of the base RTT, in 1/256. */
#define NV_LOWER_BOUND		205
#define NV_RTT_FACTOR_UNIT	256
/* What is decremented is counted in 1/128 of the excess. */
#define NV_DEC_SHIFT		7
/* Samples and round trips are counted up to here. */
#define NV_COUNT_MAX		255

/* `weight`: of a new RTT sample; the two versions differ in its default. */
#define NV_MODEL_PARAMS(P, weight)						\
	P(pad, 10, 0, 1000000, "", "packets of queue that a flow may cause")	\
	P(reset_period, 5, 1, 86400, "", "s: min_rtt is forgotten so often, a quarter more or less") \
	P(rtt_factor, weight, 1, 256, "", "weight of a new RTT sample, in 1/256")	\
	P(cong_dec_mult, 38, 1, 128, "", "share of the excess that is cut, in 1/128") \
	P(base_rtt_us, 0, 0, 60000000, "", "us: RTT without queues, where no policy says it; 0: unknown")

#define NV_LAW_FIELD(name, value, min, max, choices, meaning) u32 name;
#define NV_LAW_VALUE(name, value, min, max, choices, meaning) .name = cc_params(sk)->name,

/* The parameters' values, whatever else the algorithm has beside them. */
struct nv_law {
	NV_MODEL_PARAMS(NV_LAW_FIELD, 0)
};

#define NV_LAW(sk) ((const struct nv_law){ NV_MODEL_PARAMS(NV_LAW_VALUE, 0) })

struct nv_model {
	u64 max_rate;		/* largest rate since the last decision, 100 bit/s */
	u32 last_rtt_us;	/* average of the RTT samples; 0: none since the last restart */
	u32 min_rtt_us;		/* smallest average since the reset before the last */
	u32 min_rtt_new_us;	/* smallest average since the last reset */
	u32 upper_bound_us;	/* min_rtt is at most the base RTT; 0: unknown */
	u32 lower_bound_us;	/* and at least so much */
	u32 min_rtt_reset;	/* jiffies: the next reset is due */
	u32 rtt_start_seq;	/* a round trip ends when more than this is acknowledged */
	u32 last_snd_una;	/* snd_una at the last ACK that was looked at */
	u8 eval_calls;		/* samples since the last decision */
	u8 rtt_cnt;		/* round trips since the last decision */
};

/*
 * Measures anew, at the start and after congestion. With the average goes min_rtt, as in Linux: it begins
 * again with the next sample, though min_rtt_new stays.
 */
static inline void nv_model_restart(const struct sock *sk, struct nv_model *model)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	model->max_rate = 0;
	model->last_rtt_us = 0;
	model->rtt_start_seq = tp->snd_una;
	model->last_snd_una = tp->snd_una;
	model->eval_calls = 0;
	model->rtt_cnt = 0;
}

/* `told_us`: the base RTT as a policy says it, which comes before the parameter. */
static inline void nv_model_init(const struct sock *sk, struct nv_model *model,
				 const struct nv_law *law, u32 told_us)
{
	u32 base_rtt_us = told_us ? told_us : law->base_rtt_us;

	nv_model_restart(sk, model);
	model->upper_bound_us = base_rtt_us;
	model->lower_bound_us = (u32)(((u64)base_rtt_us * NV_LOWER_BOUND) >> 8);
	model->min_rtt_us = NV_INIT_RTT_US;
	model->min_rtt_new_us = NV_INIT_RTT_US;
	model->min_rtt_reset = tcp_jiffies32 + NV_FIRST_RESET_S * HZ;
}

/* What is measured in other states than these is recovery, not the path. */
static inline bool nv_is_measurable(const struct sock *sk, const struct ack_sample *sample)
{
	u8 state = cc_ca_state(sk);

	return sample->rtt_us >= 0 && (state == TCP_CA_Open || state == TCP_CA_Disorder);
}

/* Bytes newly acknowledged since the last ACK that was looked at. */
static inline u32 nv_bytes_acked(const struct sock *sk, struct nv_model *model)
{
	u32 snd_una = tcp_sk(sk)->snd_una;
	u32 bytes = snd_una - model->last_snd_una;

	model->last_snd_una = snd_una;
	return bytes;
}

/* avg = weight * rtt + (1 - weight) * avg, weight in 1/256. */
static inline u32 nv_average_rtt(struct nv_model *model, u32 rtt_us, u32 weight)
{
	u32 avg_us = rtt_us;

	if (model->last_rtt_us)
		avg_us = (u32)(((u64)rtt_us * weight +
				(u64)model->last_rtt_us * (NV_RTT_FACTOR_UNIT - weight)) >> 8);
	else
		model->min_rtt_us = rtt_us << 1;
	model->last_rtt_us = avg_us;
	return avg_us;
}

static inline u32 nv_bounded_rtt(const struct nv_model *model, u32 rtt_us)
{
	if (rtt_us < model->lower_bound_us)
		return model->lower_bound_us;
	if (model->upper_bound_us && rtt_us > model->upper_bound_us)
		return model->upper_bound_us;
	return rtt_us;
}

/* One sample: rate and minimum RTT. in_flight * 80000 stays below 2^49. */
static inline void nv_model_update(struct nv_model *model, const struct nv_law *law, u32 rtt_us,
				   u32 in_flight_bytes)
{
	u32 avg_us = nv_average_rtt(model, rtt_us, law->rtt_factor);
	u64 rate = div64_u64((u64)in_flight_bytes * NV_RATE_UNIT, max_u32(avg_us, 1));
	u32 bounded_us = nv_bounded_rtt(model, avg_us);

	if (rate > NV_MAX_RATE)
		rate = NV_MAX_RATE;
	if (model->max_rate < rate)
		model->max_rate = rate;
	if (model->eval_calls < NV_COUNT_MAX)
		model->eval_calls++;
	model->min_rtt_us = min_u32(model->min_rtt_us, bounded_us);
	model->min_rtt_new_us = min_u32(model->min_rtt_new_us, bounded_us);
}

/* Forgets the older minimum when its time has come; true if it did. Below 2^44 at HZ 1000. */
static inline bool nv_reset_min_rtt(struct sock *sk, struct nv_model *model,
				    const struct nv_law *law)
{
	u32 now = tcp_jiffies32;
	u64 period;

	if (before(now, model->min_rtt_reset))
		return false;
	period = (u64)law->reset_period * (NV_RESET_LEAST + (cc_random_u32(sk) & 0xff)) * HZ;
	model->min_rtt_us = model->min_rtt_new_us;
	model->min_rtt_new_us = NV_INIT_RTT_US;
	model->min_rtt_reset = now + (u32)(period >> NV_RESET_SHIFT);
	return true;
}

/* Whether a round trip is over; the next one begins. */
static inline bool nv_round_is_over(const struct sock *sk, struct nv_model *model)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!before(model->rtt_start_seq, tp->snd_una))
		return false;
	model->rtt_start_seq = tp->snd_nxt;
	if (model->rtt_cnt < NV_COUNT_MAX)
		model->rtt_cnt++;
	return true;
}

/* Packets: the window above which the flow queues more than `pad` of them. */
static inline u32 nv_limit(const struct sock *sk, const struct nv_model *model,
			   const struct nv_law *law)
{
	u64 packet = (u64)NV_RATE_UNIT * max_u32(tcp_sk(sk)->mss_cache, 1);
	u64 predicted = div64_u64(model->max_rate * model->min_rtt_us, packet);

	if (predicted > TCP_INFINITE_SSTHRESH)
		predicted = TCP_INFINITE_SSTHRESH;
	return (u32)predicted + law->pad;
}

/* cwnd after a cut: a share of the excess, at least 2 packets, never to below the limit by it. */
static inline u32 nv_reduced_cwnd(u32 cwnd, u32 limit, const struct nv_law *law)
{
	u32 excess = cwnd - limit;

	if (excess <= 2)
		return limit;
	return cwnd - max_u32((u32)(((u64)excess * law->cong_dec_mult) >> NV_DEC_SHIFT), 2);
}

/* A decision was made: measure for the next one. */
static inline void nv_model_decided(struct nv_model *model)
{
	model->max_rate = 0;
	model->eval_calls = 0;
	model->rtt_cnt = 0;
}

#endif

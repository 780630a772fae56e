// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP-NV as first shown, in 2010: BIC, held back where the rate no longer follows the window.
 *
 *   slope     = rate / window of one sample = 1 / RTT; the largest one is that of an empty queue
 *   predicted = largest rate / largest slope = largest rate * min_rtt      include/nv.h
 *   limit     = predicted + pad
 *
 *   cwnd > limit   congested: cut 30 % of the excess, stop BIC's growth
 *   else           BIC may grow                                             include/bic.h
 *
 * What the version of 2016 (nv.c) has and this has not: averaged RTTs, the space below the limit
 * where cwnd is left alone, growth of its own, another number of samples for each kind of decision,
 * and the way out of windows that come back in one ACK.
 *
 * Source: L. Brakmo, "TCP-NV: Congestion Avoidance for TCP", Linux Plumbers 2010. Slides only, no
 * source was published: what they leave open is filled in as follows.
 *
 *   - The slide cuts if predicted + pad > cwnd; that is the wrong way round for the idea it
 *     explains. Here it is cwnd > predicted + pad.
 *   - "Every so often" is the first end of a round trip with min_samples samples.
 *   - "By percent of congestion" is a share of the excess, the 30 % and the pad those of 2016.
 *   - The largest slope is recomputed by forgetting min_rtt as in 2016: from time to time, and after a loss.
 *   - Loss is BIC's affair; samples during recovery do not count.
 */
#include "tcp.h"
#include "bic.h"
#include "nv.h"

/* No cut goes below, packets: with one there would be one delayed ACK per packet. */
#define NV2010_MIN_CWND		2

struct nv2010 {
	struct bic_growth bic;	/* growth and loss */
	struct nv_model model;	/* the path: rate, RTT, samples */
	u8 allow_growth;	/* the last decision was not against it */
	u8 needs_restart;	/* congestion; the measurement starts again when it is over */
};

CC_STATE(nv2010, struct nv2010)
CC_BASE_RTT

/* min_samples: with fewer, a burst that came back at once passes for the rate. */
#define NV2010_PARAMS(P)							\
	BIC_PARAMS(P)								\
	NV_MODEL_PARAMS(P, 256)							\
	P(min_samples, 20, 1, 255, "", "RTT samples to decide")			\
	P(avoidance, 1, 0, 1, "", "0: BIC alone")
CC_PARAMS(nv2010, NV2010_PARAMS)

#define NV2010_DIAG(D)								\
	D(nv_min_rtt, "us", cc_state(sk)->model.min_rtt_us)				\
	D(nv_rtt, "us", cc_state(sk)->model.last_rtt_us)				\
	D(base_rtt, "us", cc_state(sk)->model.upper_bound_us)			\
	D(allow_growth, "", cc_state(sk)->allow_growth)				\
	D(last_max_cwnd, "packets", cc_state(sk)->bic.last_max_cwnd)
CC_DIAG(nv2010, NV2010_DIAG)

CC_OP(void, nv2010_init, struct sock *sk)
{
	const struct nv_law law = NV_LAW(sk);
	struct nv2010 *ca = cc_state(sk);

	bic_reset(&ca->bic);
	nv_model_init(sk, &ca->model, &law, cc_base_rtt_us(sk));
	ca->allow_growth = 1;
	ca->needs_restart = 0;
}

CC_OP(void, nv2010_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	const struct bic_law law = BIC_LAW(sk);
	struct nv2010 *ca = cc_state(sk);

	if (tcp_is_cwnd_limited(sk) && ca->allow_growth)
		bic_grow(sk, &ca->bic, &law, acked);
}

CC_OP(u32, nv2010_ssthresh, struct sock *sk)
{
	const struct bic_law law = BIC_LAW(sk);

	return bic_reduce(&cc_state(sk)->bic, &law, tcp_sk(sk)->snd_cwnd);
}

CC_OP(void, nv2010_set_state, struct sock *sk, u8 new_state)
{
	struct nv2010 *ca = cc_state(sk);

	if (new_state == TCP_CA_Loss)
		bic_reset(&ca->bic);
	/* The reduction is made: what NV thought of the window before no longer holds BIC back. */
	if (new_state > TCP_CA_Disorder) {
		ca->needs_restart = 1;
		ca->allow_growth = 1;
	}
	if (new_state == TCP_CA_Open && ca->needs_restart) {
		nv_model_restart(sk, &ca->model);
		ca->needs_restart = 0;
	}
}

/* At the end of a round trip with samples enough. */
static void nv2010_decide(struct sock *sk, struct nv2010 *ca, const struct nv_law *law)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 limit = nv_limit(sk, &ca->model, law);

	ca->allow_growth = tp->snd_cwnd <= limit;
	if (!ca->allow_growth) {
		tp->snd_ssthresh = max_u32(limit, NV2010_MIN_CWND);
		tp->snd_cwnd = min_u32(max_u32(nv_reduced_cwnd(tp->snd_cwnd, limit, law),
					       NV2010_MIN_CWND), tp->snd_cwnd_clamp);
	}
	nv_model_decided(&ca->model);
}

CC_OP(void, nv2010_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct nv_law law = NV_LAW(sk);
	struct nv2010 *ca = cc_state(sk);

	if (cc_ca_state(sk) == TCP_CA_Open)
		bic_count_ack(&ca->bic, sample->pkts_acked);
	if (!cc_params(sk)->avoidance || !nv_is_measurable(sk, sample) || !sample->in_flight)
		return;
	nv_model_update(&ca->model, &law, sample->rtt_us, sample->in_flight);
	nv_reset_min_rtt(sk, &ca->model, &law);
	if (nv_round_is_over(sk, &ca->model) && ca->model.eval_calls >= cc_params(sk)->min_samples)
		nv2010_decide(sk, ca, &law);
}

CC_OP(u32, nv2010_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(nv2010) = {
	.init = CC_FN(nv2010_init),
	.ssthresh = CC_FN(nv2010_ssthresh),
	.cong_avoid = CC_FN(nv2010_cong_avoid),
	.set_state = CC_FN(nv2010_set_state),
	.undo_cwnd = CC_FN(nv2010_undo_cwnd),
	.pkts_acked = CC_FN(nv2010_pkts_acked),
	.name = "nv2010",
};

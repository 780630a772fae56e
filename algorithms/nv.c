// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP-NV, as in Linux since 2016: keep about `pad` packets in the queue, and so lose none.
 *
 * If the window were no larger than the path holds, a larger one would give a larger rate. What it
 * does not give in rate is queue:
 *
 *   predicted = largest rate * min_rtt              include/nv.h measures both
 *   limit     = predicted + pad
 *
 *   cwnd > limit               congested: cut 30 % of the excess, stop growing
 *   cwnd <= limit - pad_buffer clear: grow
 *   between                    leave it alone
 *
 * A decision is made at the end of a round trip, once there are samples enough for it; until then
 * the measurement goes on. Growth is Reno's, slower after timeouts (growth_factor); the reaction to
 * loss is a cut to 80 %.
 *
 * A window that comes back in a single ACK gives one sample per round trip and no idea of the rate.
 * So while that happens it may grow, and the window that is thought to behave so (sample_cwnd) with
 * it, up to a TSO burst and a bit.
 *
 * For racks: one hop of 10 Gbps, RTTs of 20 to 50 us, no loss-based flows beside it.
 *
 * Sources: L. Brakmo, "TCP-NV" (Linux Plumbers 2010; the patch of 2016); behaves as tcp_nv of Linux
 * 6.1.
 *
 * Deviations: rates above 429 Gbps do not wrap; the flag `catchup`, which nothing in Linux sets, is
 * not there; the base RTT comes from a policy's socket storage or from a parameter instead of a
 * sock_ops call.
 */
#include "tcp.h"
#include "nv.h"

/* Bounds of sample_cwnd, packets: it ends one above 80, where a TSO burst is over for sure. */
#define NV_SAMPLE_CWND_MIN	4
#define NV_SAMPLE_CWND_GROW	2
#define NV_SAMPLE_CWND_MAX	81
/* Growth is never faster than one packet for so many acked. */
#define NV_CNT_MIN		4
/* Timeouts make growth slower by powers of two, at most so many; clean times faster, likewise. */
#define NV_SLOWEST_GROWTH	(-8)
#define NV_FASTEST_GROWTH	31
/* loss_dec_factor is in 1/1024, ssthresh_factor in 1/8. */
#define NV_LOSS_SHIFT		10
#define NV_SSTHRESH_SHIFT	3

struct nv {
	struct nv_model model;	/* the path: rate, RTT, samples */
	u32 no_cong_cnt;	/* decisions without congestion since growth_factor last changed */
	s32 growth_factor;	/* growth is this power of two times Reno's */
	u8 sample_cwnd;		/* packets: a window of this size may come back in one ACK */
	u8 allow_growth;	/* the last decision was not against it */
	u8 needs_restart;	/* congestion; the measurement starts again when it is over */
};

CC_STATE(nv, struct nv)
CC_BASE_RTT

/*
 * pad                  fewer make decisions hang on a single packet of noise, more are delay
 * dec_eval_min_calls   samples to cut: fewer than a window's take a burst for the rate
 */
#define NV_PARAMS(P)								\
	NV_MODEL_PARAMS(P, 128)							\
	P(pad_buffer, 2, 0, 1000000, "", "packets below the limit where cwnd is left alone") \
	P(min_cwnd, 2, 1, 1000, "", "packets: no decision goes below")		\
	P(ssthresh_factor, 8, 1, 64, "", "ssthresh after a cut, in 1/8 of the limit") \
	P(loss_dec_factor, 819, 1, 1023, "", "share of cwnd kept at loss, in 1/1024") \
	P(cwnd_growth_rate_neg, 8, 0, 255, "", "clean decisions that undo a timeout's slower growth; 0: growth stays") \
	P(cwnd_growth_rate_pos, 0, 0, 255, "", "clean decisions that double growth; 0: never") \
	P(dec_eval_min_calls, 60, 1, 255, "", "RTT samples to cut")		\
	P(inc_eval_min_calls, 20, 1, 255, "", "RTT samples to let cwnd grow")	\
	P(ssthresh_eval_min_calls, 30, 1, 255, "", "RTT samples to leave the first slow start") \
	P(stop_rtt_cnt, 10, 0, 255, "", "round trips above the limit, yet undecided, after which growth stops") \
	P(rtt_min_cnt, 2, 0, 255, "", "round trips to cut")
CC_PARAMS(nv, NV_PARAMS)

#define NV_DIAG(D)								\
	D(nv_min_rtt, "us", cc_state(sk)->model.min_rtt_us)				\
	D(nv_rtt, "us", cc_state(sk)->model.last_rtt_us)				\
	D(nv_rtt_cnt, "", cc_state(sk)->model.rtt_cnt)				\
	D(base_rtt, "us", cc_state(sk)->model.upper_bound_us)			\
	D(allow_growth, "", cc_state(sk)->allow_growth)				\
	D(sample_cwnd, "packets", cc_state(sk)->sample_cwnd)
CC_DIAG(nv, NV_DIAG)

static void nv_restart(const struct sock *sk, struct nv *ca)
{
	nv_model_restart(sk, &ca->model);
	ca->no_cong_cnt = 0;
	ca->needs_restart = 0;
}

CC_OP(void, nv_init, struct sock *sk)
{
	const struct nv_law law = NV_LAW(sk);
	struct nv *ca = cc_state(sk);

	nv_model_init(sk, &ca->model, &law, cc_base_rtt_us(sk));
	ca->no_cong_cnt = 0;
	ca->growth_factor = 0;
	ca->sample_cwnd = NV_SAMPLE_CWND_MIN;
	ca->allow_growth = 1;
	ca->needs_restart = 0;
}

/* ---- growth ---- */

/* Packets acked per packet of growth: cwnd / 2^growth_factor. */
static u32 nv_growth_cnt(const struct nv *ca, u32 cwnd)
{
	s32 factor = ca->growth_factor;

	/* Slower than this does not count up in 32 bits: a window above 16 million packets. */
	if (factor < 0)
		return cwnd >> (32 + NV_SLOWEST_GROWTH) ? ~0u : cwnd << (-factor & 31);
	return max_u32(cwnd >> (factor & 31), NV_CNT_MIN);
}

CC_OP(void, nv_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct nv *ca = cc_state(sk);

	if (!tcp_is_cwnd_limited(sk) || !ca->allow_growth)
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, nv_growth_cnt(ca, tp->snd_cwnd), acked);
}

/* ---- loss ---- */

/* cwnd * 819 keeps within 32 bits up to 5 million packets; the product is 64 bits wide. */
CC_OP(u32, nv_ssthresh, struct sock *sk)
{
	u64 kept = (u64)tcp_sk(sk)->snd_cwnd * cc_params(sk)->loss_dec_factor;

	return max_u32((u32)(kept >> NV_LOSS_SHIFT), 2);
}

CC_OP(void, nv_set_state, struct sock *sk, u8 new_state)
{
	struct nv *ca = cc_state(sk);

	if (new_state == TCP_CA_Open && ca->needs_restart)
		nv_restart(sk, ca);
	if (new_state != TCP_CA_Loss && new_state != TCP_CA_CWR && new_state != TCP_CA_Recovery)
		return;
	ca->needs_restart = 1;
	ca->allow_growth = 0;
	if (new_state != TCP_CA_Loss)
		return;
	if (ca->growth_factor > 0)
		ca->growth_factor = 0;
	if (cc_params(sk)->cwnd_growth_rate_neg && ca->growth_factor > NV_SLOWEST_GROWTH)
		ca->growth_factor--;
}

/* ---- decision ---- */

/*
 * Whether the whole window came back in one ACK. The next round trip then begins a window later than
 * usual, so that growth has shown in it.
 */
static bool nv_is_too_small_to_judge(struct sock *sk, struct nv *ca, u32 bytes_acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (ca->model.eval_calls != 1 || ca->sample_cwnd >= NV_SAMPLE_CWND_MAX ||
	    bytes_acked < (ca->sample_cwnd - 1) * tp->mss_cache)
		return false;
	ca->sample_cwnd = min_u32(ca->sample_cwnd + NV_SAMPLE_CWND_GROW, NV_SAMPLE_CWND_MAX);
	ca->model.rtt_start_seq = tp->snd_nxt + ca->sample_cwnd * tp->mss_cache;
	ca->model.eval_calls = 0;
	ca->allow_growth = 1;
	return true;
}

/* cwnd is above the limit. False if there are not samples enough to cut it. */
static bool nv_cut(struct sock *sk, struct nv *ca, const struct nv_law *law, u32 limit)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_first = tp->snd_ssthresh == TCP_INFINITE_SSTHRESH;
	u64 ssthresh;

	if (ca->model.rtt_cnt < cc_params(sk)->rtt_min_cnt)
		return false;
	if (is_first && ca->model.eval_calls < cc_params(sk)->ssthresh_eval_min_calls)
		return false;
	if (!is_first && ca->model.eval_calls < cc_params(sk)->dec_eval_min_calls) {
		if (ca->model.rtt_cnt > cc_params(sk)->stop_rtt_cnt)
			ca->allow_growth = 0;
		return false;
	}
	ca->allow_growth = 0;
	ssthresh = ((u64)limit * cc_params(sk)->ssthresh_factor) >> NV_SSTHRESH_SHIFT;
	tp->snd_ssthresh = ssthresh < TCP_INFINITE_SSTHRESH ? (u32)ssthresh : TCP_INFINITE_SSTHRESH;
	tp->snd_cwnd = nv_reduced_cwnd(tp->snd_cwnd, limit, law);
	if (ca->growth_factor > 0)
		ca->growth_factor = 0;
	ca->no_cong_cnt = 0;
	return true;
}

/* cwnd is well below the limit. False if there are not samples enough to say so. */
static bool nv_let_grow(struct sock *sk, struct nv *ca)
{
	u32 rate_neg = cc_params(sk)->cwnd_growth_rate_neg;
	u32 rate_pos = cc_params(sk)->cwnd_growth_rate_pos;
	bool is_faster;

	if (ca->model.eval_calls < cc_params(sk)->inc_eval_min_calls)
		return false;
	ca->allow_growth = 1;
	ca->no_cong_cnt++;
	if (ca->growth_factor < 0)
		is_faster = ca->no_cong_cnt > rate_neg;
	else
		is_faster = rate_pos && ca->no_cong_cnt > rate_pos;
	if (is_faster) {
		ca->growth_factor = ca->growth_factor < NV_FASTEST_GROWTH ? ca->growth_factor + 1
									   : NV_FASTEST_GROWTH;
		ca->no_cong_cnt = 0;
	}
	return true;
}

/* At the end of a round trip. */
static void nv_decide(struct sock *sk, struct nv *ca, const struct nv_law *law)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 limit = nv_limit(sk, &ca->model, law);
	bool is_decided = false;

	if (tp->snd_cwnd > limit)
		is_decided = nv_cut(sk, ca, law, limit);
	else if ((u64)tp->snd_cwnd + cc_params(sk)->pad_buffer <= limit)
		is_decided = nv_let_grow(sk, ca);
	if (!is_decided)
		return;
	nv_model_decided(&ca->model);
	tp->snd_cwnd = min_u32(max_u32(tp->snd_cwnd, cc_params(sk)->min_cwnd), tp->snd_cwnd_clamp);
}

CC_OP(void, nv_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct nv_law law = NV_LAW(sk);
	struct nv *ca = cc_state(sk);
	u32 bytes_acked;

	if (!nv_is_measurable(sk, sample))
		return;
	bytes_acked = nv_bytes_acked(sk, &ca->model);
	if (!sample->in_flight)
		return;
	nv_model_update(&ca->model, &law, sample->rtt_us, sample->in_flight);
	/* What was thought of small windows may have changed too. */
	if (nv_reset_min_rtt(sk, &ca->model, &law))
		ca->sample_cwnd = max_u32(ca->sample_cwnd / 2, NV_SAMPLE_CWND_MIN);
	if (nv_round_is_over(sk, &ca->model) && !nv_is_too_small_to_judge(sk, ca, bytes_acked))
		nv_decide(sk, ca, &law);
}

CC_OP(u32, nv_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(nv) = {
	.init = CC_FN(nv_init),
	.ssthresh = CC_FN(nv_ssthresh),
	.cong_avoid = CC_FN(nv_cong_avoid),
	.set_state = CC_FN(nv_set_state),
	.undo_cwnd = CC_FN(nv_undo_cwnd),
	.pkts_acked = CC_FN(nv_pkts_acked),
	.name = "nv",
};

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * algorithms/cubic.c as a module: parameters are variables of the module, and what follows from them
 * is computed once, when it is registered.
 */
#include <linux/mm.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>
#include <linux/math64.h>
#include <net/tcp.h>

#define BETA_UNIT	1024
#define TIME_SHIFT	10
#define C_SCALED	410
#define C_SHIFT		40

#define TRAIN		0x1
#define DELAY		0x2
#define MIN_SAMPLES	8
#define DELAY_MIN	(4000U)
#define DELAY_MAX	(16000U)
#define DELAY_THRESH(x)	clamp(x, DELAY_MIN, DELAY_MAX)

static int fast_convergence __read_mostly = 1;
static int beta __read_mostly = 717;
static int tcp_friendliness __read_mostly = 1;
static int hystart __read_mostly = 1;
static int hystart_detect __read_mostly = TRAIN | DELAY;
static int hystart_low_window __read_mostly = 16;
static int hystart_ack_delta_us __read_mostly = 2000;

static u32 beta_scale __read_mostly;
static u64 cube_factor __read_mostly;

module_param(fast_convergence, int, 0644);
MODULE_PARM_DESC(fast_convergence, "turn on/off fast convergence");
module_param(beta, int, 0644);
MODULE_PARM_DESC(beta, "beta for multiplicative increase");
module_param(tcp_friendliness, int, 0644);
MODULE_PARM_DESC(tcp_friendliness, "turn on/off tcp friendliness");
module_param(hystart, int, 0644);
MODULE_PARM_DESC(hystart, "turn on/off hybrid slow start algorithm");
module_param(hystart_detect, int, 0644);
module_param(hystart_low_window, int, 0644);
module_param(hystart_ack_delta_us, int, 0644);

struct cubictcp {
	u32	cnt;
	u32	last_max_cwnd;
	u32	last_cwnd;
	u32	last_time;
	u32	origin_point;
	u32	k;
	u32	delay_min;
	u32	epoch_start;
	u32	ack_cnt;
	u32	tcp_cwnd;
	u16	unused;
	u8	sample_cnt;
	u8	found;
	u32	round_start;
	u32	end_seq;
	u32	last_ack;
	u32	curr_rtt;
};

static inline void cubictcp_reset(struct cubictcp *ca)
{
	memset(ca, 0, offsetof(struct cubictcp, unused));
	ca->found = 0;
}

static inline u32 cubictcp_clock_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static inline void cubictcp_hystart_reset(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubictcp *ca = inet_csk_ca(sk);

	ca->round_start = ca->last_ack = cubictcp_clock_us(sk);
	ca->end_seq = tp->snd_nxt;
	ca->curr_rtt = ~0U;
	ca->sample_cnt = 0;
}

__bpf_kfunc static void cubictcp_init(struct sock *sk)
{
	cubictcp_reset(inet_csk_ca(sk));
	if (hystart)
		cubictcp_hystart_reset(sk);
}

__bpf_kfunc static void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START) {
		struct cubictcp *ca = inet_csk_ca(sk);
		u32 now = tcp_jiffies32;
		s32 delta = now - tcp_sk(sk)->lsndtime;

		if (ca->epoch_start && delta > 0) {
			ca->epoch_start += delta;
			if (after(ca->epoch_start, now))
				ca->epoch_start = now;
		}
	}
}

/* The largest root whose cube is not above `a`: below 2^22, so each cube fits 128 bits. */
static u32 cubic_root(u64 a)
{
	u32 low = 0, high = 1U << 22;

	while (high - low > 1) {
		u32 middle = low + (high - low) / 2;

		if (mul_u64_u64_shr((u64)middle * middle, middle, 0) <= a &&
		    mul_u64_u64_shr((u64)middle * middle, middle, 64) == 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static inline void cubictcp_update(struct cubictcp *ca, u32 cwnd, u32 acked)
{
	u32 delta, target, max_cnt;
	u64 offs, t;

	ca->ack_cnt += acked;

	if (ca->last_cwnd == cwnd && (s32)(tcp_jiffies32 - ca->last_time) <= HZ / 32)
		return;
	if (ca->epoch_start && tcp_jiffies32 == ca->last_time)
		goto tcp_friendliness;

	ca->last_cwnd = cwnd;
	ca->last_time = tcp_jiffies32;

	if (ca->epoch_start == 0) {
		ca->epoch_start = tcp_jiffies32;
		ca->ack_cnt = acked;
		ca->tcp_cwnd = cwnd;
		if (ca->last_max_cwnd <= cwnd) {
			ca->k = 0;
			ca->origin_point = cwnd;
		} else {
			ca->k = cubic_root(cube_factor * (ca->last_max_cwnd - cwnd));
			ca->origin_point = ca->last_max_cwnd;
		}
	}

	t = (s32)(tcp_jiffies32 - ca->epoch_start);
	t += usecs_to_jiffies(ca->delay_min);
	t <<= TIME_SHIFT;
	do_div(t, HZ);

	offs = t < ca->k ? ca->k - t : t - ca->k;
	delta = (C_SCALED * offs * offs * offs) >> C_SHIFT;
	target = t < ca->k ? ca->origin_point - delta : ca->origin_point + delta;
	ca->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	if (ca->last_max_cwnd == 0 && ca->cnt > 20)
		ca->cnt = 20;

tcp_friendliness:
	if (tcp_friendliness) {
		delta = (cwnd * beta_scale) >> 3;
		while (delta && ca->ack_cnt > delta) {
			ca->ack_cnt -= delta;
			ca->tcp_cwnd++;
		}
		if (ca->tcp_cwnd > cwnd) {
			max_cnt = cwnd / (ca->tcp_cwnd - cwnd);
			if (ca->cnt > max_cnt)
				ca->cnt = max_cnt;
		}
	}
	ca->cnt = max(ca->cnt, 2U);
}

__bpf_kfunc static void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubictcp *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cubictcp_update(ca, tcp_snd_cwnd(tp), acked);
	tcp_cong_avoid_ai(tp, ca->cnt, acked);
}

__bpf_kfunc static u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubictcp *ca = inet_csk_ca(sk);

	ca->epoch_start = 0;
	if (tcp_snd_cwnd(tp) < ca->last_max_cwnd && fast_convergence)
		ca->last_max_cwnd = (tcp_snd_cwnd(tp) * (BETA_UNIT + beta)) / (2 * BETA_UNIT);
	else
		ca->last_max_cwnd = tcp_snd_cwnd(tp);
	return max((tcp_snd_cwnd(tp) * beta) / BETA_UNIT, 2U);
}

__bpf_kfunc static void cubictcp_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss) {
		cubictcp_reset(inet_csk_ca(sk));
		cubictcp_hystart_reset(sk);
	}
}

static u32 hystart_ack_delay(const struct sock *sk)
{
	unsigned long rate = READ_ONCE(sk->sk_pacing_rate);

	if (!rate)
		return 0;
	return min_t(u64, USEC_PER_MSEC,
		     div64_ul((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC, rate));
}

static void hystart_update(struct sock *sk, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubictcp *ca = inet_csk_ca(sk);
	u32 threshold;

	if (after(tp->snd_una, ca->end_seq))
		cubictcp_hystart_reset(sk);
	if (tcp_snd_cwnd(tp) < hystart_low_window)
		return;

	if (hystart_detect & TRAIN) {
		u32 now = cubictcp_clock_us(sk);

		if ((s32)(now - ca->last_ack) <= hystart_ack_delta_us) {
			ca->last_ack = now;
			threshold = ca->delay_min + hystart_ack_delay(sk);
			if (sk->sk_pacing_status == SK_PACING_NONE)
				threshold >>= 1;
			if ((s32)(now - ca->round_start) > (s32)threshold) {
				ca->found = 1;
				pr_debug("hystart_ack_train (%u > %u) delay_min %u\n",
					 now - ca->round_start, threshold, ca->delay_min);
				tp->snd_ssthresh = tcp_snd_cwnd(tp);
			}
		}
	}

	if (hystart_detect & DELAY) {
		if (ca->curr_rtt > delay)
			ca->curr_rtt = delay;
		if (ca->sample_cnt < MIN_SAMPLES) {
			ca->sample_cnt++;
		} else if (ca->curr_rtt > ca->delay_min + DELAY_THRESH(ca->delay_min >> 3)) {
			ca->found = 1;
			tp->snd_ssthresh = tcp_snd_cwnd(tp);
		}
	}
}

__bpf_kfunc static void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubictcp *ca = inet_csk_ca(sk);
	u32 delay;

	if (sample->rtt_us < 0)
		return;
	if (ca->epoch_start && (s32)(tcp_jiffies32 - ca->epoch_start) < HZ)
		return;
	delay = sample->rtt_us;
	if (delay == 0)
		delay = 1;
	if (ca->delay_min == 0 || ca->delay_min > delay)
		ca->delay_min = delay;
	if (!ca->found && tcp_in_slow_start(tp) && hystart)
		hystart_update(sk, delay);
}

static struct tcp_congestion_ops cubictcp __read_mostly = {
	.init		= cubictcp_init,
	.ssthresh	= cubictcp_recalc_ssthresh,
	.cong_avoid	= cubictcp_cong_avoid,
	.set_state	= cubictcp_state,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cwnd_event	= cubictcp_cwnd_event,
	.pkts_acked     = cubictcp_acked,
	.owner		= THIS_MODULE,
	.name		= "cubic",
};

static int __init cubictcp_register(void)
{
	BUILD_BUG_ON(sizeof(struct cubictcp) > ICSK_CA_PRIV_SIZE);

	beta_scale = 8 * (BETA_UNIT + beta) / 3 / (BETA_UNIT - beta);

	cube_factor = 1ull << C_SHIFT;
	do_div(cube_factor, C_SCALED);

	return tcp_register_congestion_control(&cubictcp);
}

static void __exit cubictcp_unregister(void)
{
	tcp_unregister_congestion_control(&cubictcp);
}

module_init(cubictcp_register);
module_exit(cubictcp_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("CUBIC TCP");
MODULE_VERSION("2.3");

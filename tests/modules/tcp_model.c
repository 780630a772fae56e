// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A model-based control after BBR: the largest delivery rate of ten rounds and the smallest RTT of
 * ten seconds set the pacing rate and the window. For kernels before 6.10 and after: the form of
 * cong_control follows LINUX_VERSION_CODE.
 */
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>
#include <linux/inet_diag.h>
#include <linux/inet.h>
#include <linux/random.h>
#include <linux/win_minmax.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>

#define BW_SCALE	24
#define BW_UNIT		(1 << BW_SCALE)
#define MODEL_SCALE	8
#define MODEL_UNIT	(1 << MODEL_SCALE)

enum model_mode {
	MODEL_STARTUP,
	MODEL_DRAIN,
	MODEL_CYCLE,
};

struct model {
	u32	min_rtt_us;
	u32	min_rtt_stamp;
	struct minmax bw;
	u32	rtt_cnt;
	u32	next_rtt_delivered;
	u64	cycle_mstamp;
	u32	mode:3,
		cycle_idx:3,
		round_start:1,
		full_bw_cnt:2,
		unused:23;
	u32	full_bw;
	u32	pacing_gain:10,
		cwnd_gain:10,
		unused_b:12;
};

static int cycle_len = 8;
module_param(cycle_len, int, 0644);
MODULE_PARM_DESC(cycle_len, "rounds of a gain cycle");

static const int model_high_gain = MODEL_UNIT * 2885 / 1000 + 1;
static const int model_drain_gain = MODEL_UNIT * 1000 / 2885;
static const int model_pacing_gain[] = {
	MODEL_UNIT * 5 / 4, MODEL_UNIT * 3 / 4,
	MODEL_UNIT, MODEL_UNIT, MODEL_UNIT, MODEL_UNIT, MODEL_UNIT, MODEL_UNIT,
};

static u32 model_bw(const struct sock *sk)
{
	struct model *model = inet_csk_ca(sk);

	return minmax_get(&model->bw);
}

static u64 model_rate(struct sock *sk, u64 rate, int gain)
{
	unsigned int mss = tcp_sk(sk)->mss_cache;

	rate *= mss;
	rate *= gain;
	rate >>= MODEL_SCALE;
	rate *= USEC_PER_SEC / 100 * 99;
	return rate >> BW_SCALE;
}

static void model_set_pacing(struct sock *sk, u32 bw, int gain)
{
	u64 rate = model_rate(sk, bw, gain);

	rate = min_t(u64, rate, sk->sk_max_pacing_rate);
	if (rate)
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

static u32 model_target(struct sock *sk, u32 bw, int gain)
{
	struct model *model = inet_csk_ca(sk);
	u64 w;

	if (unlikely(model->min_rtt_us == ~0U))
		return TCP_INIT_CWND;
	w = (u64)bw * model->min_rtt_us;
	return (((w * gain) >> MODEL_SCALE) + BW_UNIT - 1) / BW_UNIT + 3;
}

static void model_update_bw(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct model *model = inet_csk_ca(sk);
	u64 bw;

	model->round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (!before(rs->prior_delivered, model->next_rtt_delivered)) {
		model->next_rtt_delivered = tp->delivered;
		model->rtt_cnt++;
		model->round_start = 1;
	}
	bw = div64_long((u64)rs->delivered * BW_UNIT, rs->interval_us);
	if (!rs->is_app_limited || bw >= model_bw(sk))
		minmax_running_max(&model->bw, 10, model->rtt_cnt, bw);
}

static void model_update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct model *model = inet_csk_ca(sk);
	bool expired = after(tcp_jiffies32, model->min_rtt_stamp + 10 * HZ);

	if (rs->rtt_us >= 0 && (rs->rtt_us < model->min_rtt_us || expired)) {
		model->min_rtt_us = rs->rtt_us;
		model->min_rtt_stamp = tcp_jiffies32;
	}
}

static void model_start_cycle(struct sock *sk)
{
	struct model *model = inet_csk_ca(sk);

	model->mode = MODEL_CYCLE;
	model->cycle_idx = get_random_u32_below(clamp(cycle_len, 1, 8));
	model->cycle_mstamp = tcp_sk(sk)->delivered_mstamp;
}

static void model_update_mode(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct model *model = inet_csk_ca(sk);

	switch (model->mode) {
	case MODEL_STARTUP:
		if (!model->round_start || rs->is_app_limited)
			break;
		if (model_bw(sk) >= (u64)model->full_bw * 5 / 4) {
			model->full_bw = model_bw(sk);
			model->full_bw_cnt = 0;
		} else if (++model->full_bw_cnt >= 3) {
			model->mode = MODEL_DRAIN;
			model->pacing_gain = model_drain_gain;
		}
		break;
	case MODEL_DRAIN:
		if (tcp_packets_in_flight(tp) <= model_target(sk, model_bw(sk), MODEL_UNIT))
			model_start_cycle(sk);
		break;
	case MODEL_CYCLE:
		if (tcp_stamp_us_delta(tp->delivered_mstamp, model->cycle_mstamp) >
		    model->min_rtt_us) {
			model->cycle_idx = (model->cycle_idx + 1) % clamp(cycle_len, 1, 8);
			model->cycle_mstamp = tp->delivered_mstamp;
		}
		model->pacing_gain = model_pacing_gain[model->cycle_idx];
		model->cwnd_gain = 2 * MODEL_UNIT;
		break;
	default:
		WARN_ONCE(1, "bad mode: %u\n", model->mode);
	}
}

static void model_update(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct model *model = inet_csk_ca(sk);
	u32 target;

	model_update_bw(sk, rs);
	model_update_min_rtt(sk, rs);
	model_update_mode(sk, rs);
	model_set_pacing(sk, model_bw(sk), model->pacing_gain);
	target = model_target(sk, model_bw(sk), model->cwnd_gain);
	if (rs->acked_sacked) {
		u32 cwnd = tcp_snd_cwnd(tp) + rs->acked_sacked;

		if (model->mode != MODEL_STARTUP)
			cwnd = min(cwnd, target);
		tcp_snd_cwnd_set(tp, clamp(cwnd, 4U, tp->snd_cwnd_clamp));
	}
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
__bpf_kfunc static void model_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	model_update(sk, rs);
}
#else
static void model_main(struct sock *sk, const struct rate_sample *rs)
{
	model_update(sk, rs);
}
#endif

__bpf_kfunc static void model_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct model *model = inet_csk_ca(sk);
	u32 rtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : USEC_PER_MSEC;

	model->min_rtt_us = tcp_min_rtt(tp);
	model->min_rtt_stamp = tcp_jiffies32;
	minmax_reset(&model->bw, model->rtt_cnt, 0);
	model->mode = MODEL_STARTUP;
	model->pacing_gain = model_high_gain;
	model->cwnd_gain = model_high_gain;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	model_set_pacing(sk, div64_u64((u64)tcp_snd_cwnd(tp) * BW_UNIT, rtt_us), model_high_gain);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

__bpf_kfunc static u32 model_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

__bpf_kfunc static u32 model_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

__bpf_kfunc static u32 model_min_tso_segs(struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_rate) < (1200000 >> 3) ? 1 : 2;
}

static size_t model_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	if (ext & (1 << (INET_DIAG_BBRINFO - 1)) ||
	    ext & (1 << (INET_DIAG_VEGASINFO - 1))) {
		struct model *model = inet_csk_ca(sk);
		u64 bw = model_rate(sk, model_bw(sk), MODEL_UNIT);

		memset(&info->bbr, 0, sizeof(info->bbr));
		info->bbr.bbr_bw_lo = (u32)bw;
		info->bbr.bbr_bw_hi = (u32)(bw >> 32);
		info->bbr.bbr_min_rtt = model->min_rtt_us;
		info->bbr.bbr_pacing_gain = model->pacing_gain;
		info->bbr.bbr_cwnd_gain = model->cwnd_gain;
		*attr = INET_DIAG_BBRINFO;
		return sizeof(info->bbr);
	}
	return 0;
}

static struct tcp_congestion_ops tcp_model_cong_ops __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "model",
	.owner		= THIS_MODULE,
	.init		= model_init,
	.cong_control	= model_main,
	.undo_cwnd	= model_undo_cwnd,
	.ssthresh	= model_ssthresh,
	.min_tso_segs	= model_min_tso_segs,
	.get_info	= model_get_info,
};

BTF_KFUNCS_START(tcp_model_check_kfunc_ids)
BTF_ID_FLAGS(func, model_init)
BTF_ID_FLAGS(func, model_main)
BTF_ID_FLAGS(func, model_undo_cwnd)
BTF_ID_FLAGS(func, model_ssthresh)
BTF_ID_FLAGS(func, model_min_tso_segs)
BTF_KFUNCS_END(tcp_model_check_kfunc_ids)

static const struct btf_kfunc_id_set tcp_model_kfunc_set = {
	.owner = THIS_MODULE,
	.set   = &tcp_model_check_kfunc_ids,
};

static int __init model_register(void)
{
	int ret;

	BUILD_BUG_ON(sizeof(struct model) > ICSK_CA_PRIV_SIZE);

	ret = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &tcp_model_kfunc_set);
	if (ret < 0)
		return ret;
	return tcp_register_congestion_control(&tcp_model_cong_ops);
}

static void __exit model_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_model_cong_ops);
}

module_init(model_register);
module_exit(model_unregister);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Model-based control");

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes one field of the socket, of those that TCP keeps for itself and of those that are an algorithm's,
 * whatever value it is told.
 */
#include "hostile.h"

static uint field;
module_param(field, uint, 0644);
MODULE_PARM_DESC(field, "which, as the list below counts them");
static uint value;
module_param(value, uint, 0644);
MODULE_PARM_DESC(value, "what");
static uint from = 40;
module_param(from, uint, 0644);
MODULE_PARM_DESC(from, "packets of cwnd from which on it does");

#define WRITES(number, what)				\
	case number:					\
		what = (typeof(what))(s32)value;	\
		break

static void write_one(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	switch (field) {
	/* The simulator rests on these. */
	WRITES(1, tp->snd_una);
	WRITES(2, tp->snd_nxt);
	WRITES(3, tp->packets_out);
	WRITES(4, tp->sacked_out);
	WRITES(5, tp->lost_out);
	WRITES(6, tp->retrans_out);
	WRITES(7, tp->delivered);
	WRITES(8, tp->mss_cache);
	WRITES(9, tp->rcv_nxt);
	WRITES(10, tp->write_seq);
	WRITES(11, tp->high_seq);
	WRITES(12, tp->max_window);
	WRITES(13, tp->undo_retrans);
	WRITES(14, tp->snd_wnd);
	WRITES(15, tp->tlp_high_seq);
	WRITES(16, tp->tcp_mstamp);
	WRITES(17, tp->tcp_wstamp_ns);
	WRITES(18, icsk->icsk_retransmits);
	WRITES(19, tp->srtt_us);
	WRITES(20, tp->reordering);
	WRITES(21, sk->sk_pacing_shift);
	/* These are the algorithm's. */
	WRITES(50, tp->snd_cwnd);
	WRITES(51, tp->snd_cwnd_cnt);
	WRITES(52, tp->snd_cwnd_clamp);
	WRITES(53, tp->snd_ssthresh);
	WRITES(54, tp->prior_cwnd);
	WRITES(55, tp->prior_ssthresh);
	WRITES(56, tp->app_limited);
	WRITES(57, tp->undo_marker);
	WRITES(58, tp->snd_cwnd_stamp);
	WRITES(59, tp->snd_cwnd_used);
	WRITES(60, tp->ecn_flags);
	WRITES(61, sk->sk_pacing_rate);
	WRITES(62, sk->sk_max_pacing_rate);
	WRITES(63, sk->sk_pacing_status);
	WRITES(64, sk->sk_gso_max_size);
	WRITES(65, sk->sk_gso_max_segs);
	WRITES(66, icsk->icsk_ack.pending);
	WRITES(67, tp->rx_opt.rcv_tsval);
	}
}

static void writes(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	if (tcp_sk(sk)->snd_cwnd > from)
		write_one(sk);
}

static u32 writes_ssthresh(struct sock *sk)
{
	return field == 80 ? value : tcp_reno_ssthresh(sk);
}

static u32 writes_undo_cwnd(struct sock *sk)
{
	return field == 81 ? value : tcp_reno_undo_cwnd(sk);
}

static u32 writes_min_tso_segs(struct sock *sk)
{
	return field == 82 ? value : 2;
}

static u32 writes_sndbuf_expand(struct sock *sk)
{
	return field == 83 ? value : 2;
}

static struct tcp_congestion_ops writes_ops = {
	.ssthresh	= writes_ssthresh,
	.cong_avoid	= writes,
	.undo_cwnd	= writes_undo_cwnd,
	.min_tso_segs	= writes_min_tso_segs,
	.sndbuf_expand	= writes_sndbuf_expand,
	.owner		= THIS_MODULE,
	.name		= "writes",
};

static int __init writes_register(void)
{
	return tcp_register_congestion_control(&writes_ops);
}

module_init(writes_register);
MODULE_LICENSE("Dual BSD/GPL");

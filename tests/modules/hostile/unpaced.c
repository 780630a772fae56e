/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets the pacing rate to 0. */
#include <linux/module.h>
#include <net/tcp.h>

static void unpaced(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	tp->snd_cwnd = 20;
	if (tp->delivered > 40)
		sk->sk_pacing_rate = 0;
}

static struct tcp_congestion_ops hostile __read_mostly = {
	.ssthresh = tcp_reno_ssthresh,
	.cong_control = unpaced,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "hostile",
};

static int __init hostile_register(void)
{
	return tcp_register_congestion_control(&hostile);
}

module_init(hostile_register);
MODULE_LICENSE("GPL");

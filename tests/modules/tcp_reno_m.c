// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno as a module with parameters: how much of the window a congestion leaves, and how many packets
 * it grows by per window.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <net/tcp.h>

static int beta __read_mostly = 512;
static unsigned int increase __read_mostly = 1;
static bool slow_start __read_mostly = true;

module_param(beta, int, 0644);
MODULE_PARM_DESC(beta, "share of the window kept at congestion, in 1/1024");
module_param(increase, uint, 0644);
MODULE_PARM_DESC(increase, "packets that the window grows by per round trip");
module_param(slow_start, bool, 0444);

static u32 reno_m_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max((u32)((tcp_snd_cwnd(tp) * beta) >> 10), 2U);
}

static void reno_m_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (slow_start && tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, max(tcp_snd_cwnd(tp) / max(increase, 1U), 1U), acked);
}

static struct tcp_congestion_ops reno_m __read_mostly = {
	.ssthresh	= reno_m_ssthresh,
	.cong_avoid	= reno_m_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NON_RESTRICTED,

	.owner		= THIS_MODULE,
	.name		= "reno_m",
};

static int __init reno_m_register(void)
{
	return tcp_register_congestion_control(&reno_m);
}

static void __exit reno_m_unregister(void)
{
	tcp_unregister_congestion_control(&reno_m);
}

module_init(reno_m_register);
module_exit(reno_m_unregister);

MODULE_AUTHOR("The knee authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno with parameters");

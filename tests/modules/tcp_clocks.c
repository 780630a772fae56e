// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno that reads whatever a host gives: jiffies in both widths, the clock, random numbers, parameters of several types, a table that
 * module_init computes. It keeps all of it, so that a replay which is given anything else differs. It may leave for a table of its own.
 */
#include <linux/module.h>
#include <linux/random.h>
#include <net/tcp.h>

static int offset __read_mostly = -3;
static unsigned int share __read_mostly = 512;
static bool eager __read_mostly;
static u8 bits __read_mostly = 2;

module_param(offset, int, 0644);
MODULE_PARM_DESC(offset, "is added to random numbers");
module_param(share, uint, 0644);
MODULE_PARM_DESC(share, "of the window that a loss leaves, in 1/1024");
module_param_named(hurry, eager, bool, 0644);
MODULE_PARM_DESC(hurry, "grow in every round");
module_param(bits, byte, 0644);

static int leave __read_mostly;
module_param(leave, int, 0644);
MODULE_PARM_DESC(leave, "1: connections go to a table of Reno");

static u32 steps[4] __read_mostly;

struct clocks {
	u64		now_us;
	ktime_t		now;
	unsigned long	ticks;
	u32		ticks32;
	s32		drawn;
	u8		bytes[6];
	u16		round;
	struct minmax	rtt;
};

static void clocks_read(struct clocks *ca)
{
	ca->now_us = tcp_clock_us();
	ca->now = ktime_get();
	ca->ticks = jiffies + msecs_to_jiffies(10);
	ca->ticks32 = tcp_jiffies32;
	ca->drawn = (s32)get_random_u32_below(1000) + offset;
	get_random_bytes(ca->bytes, sizeof(ca->bytes));
	pr_debug("drew %d, %u\n", ca->drawn, ca->ticks32);
}

static struct tcp_congestion_ops clocks_reno;

static void clocks_init(struct sock *sk)
{
	struct clocks *ca = inet_csk_ca(sk);

	if (leave) {
		inet_csk(sk)->icsk_ca_ops = &clocks_reno;
		return;
	}
	ca->round = 0;
	minmax_reset(&ca->rtt, tcp_jiffies32, ~0U);
	clocks_read(ca);
}

static u32 clocks_ssthresh(struct sock *sk)
{
	struct clocks *ca = inet_csk_ca(sk);

	clocks_read(ca);
	return max((tcp_snd_cwnd(tcp_sk(sk)) * share) >> 10, 2U);
}

static void clocks_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct clocks *ca = inet_csk_ca(sk);

	clocks_read(ca);
	if (!tcp_is_cwnd_limited(sk) && !eager)
		return;
	ca->round++;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, max(tcp_snd_cwnd(tp) / steps[ca->round & 3], 1U), acked);
}

static void clocks_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct clocks *ca = inet_csk_ca(sk);

	if (sample->rtt_us > 0)
		minmax_running_min(&ca->rtt, HZ, tcp_jiffies32, sample->rtt_us);
}

static struct tcp_congestion_ops clocks __read_mostly = {
	.init		= clocks_init,
	.ssthresh	= clocks_ssthresh,
	.cong_avoid	= clocks_cong_avoid,
	.pkts_acked	= clocks_acked,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.owner		= THIS_MODULE,
	.name		= "clocks",
};

static struct tcp_congestion_ops clocks_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "clocks-reno",
};

static int __init clocks_register(void)
{
	int at;

	BUILD_BUG_ON(sizeof(struct clocks) > ICSK_CA_PRIV_SIZE);

	for (at = 0; at < 4; at++)
		steps[at] = 1 + (at >> bits);
	return tcp_register_congestion_control(&clocks);
}

static void __exit clocks_unregister(void)
{
	tcp_unregister_congestion_control(&clocks);
}

module_init(clocks_register);
module_exit(clocks_unregister);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("What a host gives");

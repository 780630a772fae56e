// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno, which begins with a slow start threshold that takes all that the verifier must be shown of a module: a
 * value that module_init computes, indices from memory, a loop whose end is in the data, and a clamp of cwnd.
 */
#include <linux/module.h>
#include <net/tcp.h>

static int factor __read_mostly = 3;
static int step __read_mostly = 2;
static int endless __read_mostly;

static u32 threshold __read_mostly;

module_param(factor, int, 0644);
MODULE_PARM_DESC(factor, "of the slow start threshold, hundreds of packets");
module_param(step, int, 0644);
MODULE_PARM_DESC(step, "which of the steps is added");
module_param(endless, int, 0644);
MODULE_PARM_DESC(endless, "1: a loop has no end");

static const u32 steps[] = { 5, 7, 11, 13 };

struct shown {
	u32	at;		/* where in the sums */
	u32	left;		/* turns of the loop */
	u32	sums[3];
};

static void shown_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct shown *ca = inet_csk_ca(sk);

	ca->at = step & 1;
	ca->sums[ca->at] = steps[step];
	ca->left = threshold;
	while (ca->left > 10 || endless) {
		ca->left -= 10;
		ca->sums[ca->at]++;
	}
	tp->snd_cwnd_clamp = 1000;
	if (tp->snd_cwnd_clamp != 1000)
		return;
	tp->snd_ssthresh = threshold + ca->sums[ca->at];
}

static struct tcp_congestion_ops shown __read_mostly = {
	.init		= shown_init,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "shown",
};

static int __init shown_register(void)
{
	BUILD_BUG_ON(sizeof(struct shown) > ICSK_CA_PRIV_SIZE);

	if (factor < 1)
		return -EINVAL;
	threshold = factor * 100;
	return tcp_register_congestion_control(&shown);
}

static void __exit shown_unregister(void)
{
	tcp_unregister_congestion_control(&shown);
}

module_init(shown_register);
module_exit(shown_unregister);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("What the verifier is shown");

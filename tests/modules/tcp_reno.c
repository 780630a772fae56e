// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* algorithms/reno.c as a module. */
#include <linux/module.h>
#include <net/tcp.h>

static struct tcp_congestion_ops tcp_reno_module = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.owner		= THIS_MODULE,
	.name		= "reno_module",
};

static int __init reno_module_register(void)
{
	return tcp_register_congestion_control(&tcp_reno_module);
}

module_init(reno_module_register);
MODULE_LICENSE("GPL");

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A module that is Reno but for its cong_avoid, which does what none should. */
#pragma once
#include <linux/module.h>
#include <net/tcp.h>

#define HOSTILE(function, register_it)						\
	static struct tcp_congestion_ops hostile __read_mostly = {		\
		.ssthresh = tcp_reno_ssthresh,					\
		.cong_avoid = function,						\
		.undo_cwnd = tcp_reno_undo_cwnd,				\
		.owner = THIS_MODULE,						\
		.name = "hostile",						\
	};									\
	static int __init hostile_register(void)				\
	{									\
		return register_it(&hostile);					\
	}									\
	module_init(hostile_register);						\
	MODULE_LICENSE("GPL")

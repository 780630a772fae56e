// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Prints what a module that works by windows can see (probe.h). It acts as Reno. */
#include "probe.h"

static struct tcp_congestion_ops probe_ops = {
	.init = probe_init,
	.release = probe_release,
	.ssthresh = probe_ssthresh,
	.cong_avoid = probe_cong_avoid,
	.set_state = probe_set_state,
	.cwnd_event = probe_cwnd_event,
	.in_ack_event = probe_in_ack_event,
	.pkts_acked = probe_pkts_acked,
	.undo_cwnd = probe_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "probe_window",
};

static int __init probe_register(void)
{
	return tcp_register_congestion_control(&probe_ops);
}

static void __exit probe_unregister(void)
{
	tcp_unregister_congestion_control(&probe_ops);
}

module_init(probe_register);
module_exit(probe_unregister);
MODULE_LICENSE("Dual BSD/GPL");

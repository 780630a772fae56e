// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Prints what a module that works by rate samples, and needs ECN, can see (probe.h). Its window grows in slow start alone. */
#include <linux/version.h>
#include "probe.h"

static void probe_grow(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	probe_sampled(sk, rs);
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh)
		tcp_snd_cwnd_set(tp, tcp_snd_cwnd(tp) + rs->acked_sacked);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void probe_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
#else
static void probe_cong_control(struct sock *sk, const struct rate_sample *rs)
#endif
{
	probe_grow(sk, rs);
}

static struct tcp_congestion_ops probe_ops = {
	.flags = TCP_CONG_NEEDS_ECN,
	.init = probe_init,
	.release = probe_release,
	.ssthresh = probe_ssthresh,
	.cong_control = probe_cong_control,
	.set_state = probe_set_state,
	.cwnd_event = probe_cwnd_event,
	.in_ack_event = probe_in_ack_event,
	.pkts_acked = probe_pkts_acked,
	.undo_cwnd = probe_undo_cwnd,
	.owner = THIS_MODULE,
	.name = "probe_rate",
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

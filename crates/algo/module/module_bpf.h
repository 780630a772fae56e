/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A running kernel as host of a module's source: what of module_net.h is the simulator's there. The
 * sockets are views of the kernel's own (bpf.h of the contract), which BPF may read, and write only where the
 * kernel lets a congestion control.
 */
#ifndef KNEE_MODULE_BPF_H
#define KNEE_MODULE_BPF_H

#define cc_hz()			((u32)CONFIG_HZ)
#define knee_jiffies32()	((u32)bpf_jiffies64())
#define knee_jiffies()		((u64)bpf_jiffies64())
#define knee_random_u32()	bpf_get_prandom_u32()

/* Where the kernel has it. */
#define sk_state		__sk_common.skc_state

static inline u64 tcp_clock_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

/* No program of sock_ops is asked from here: none knows. */
static inline int tcp_call_bpf(struct sock *sk, int operation, u32 count, u32 *arguments)
{
	return -1;
}

#endif

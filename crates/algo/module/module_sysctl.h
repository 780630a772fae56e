/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The network namespace of a host, as far as it is a set of sysctls: those that the simulator's hosts
 * have. Another is not declared, as its value would mean nothing.
 */
#ifndef KNEE_MODULE_SYSCTL_H
#define KNEE_MODULE_SYSCTL_H

/* Names in struct netns_ipv4, each with its type there. The simulator fills them by name. */
#define KNEE_SYSCTLS(SYSCTL)							\
	SYSCTL(u8, sysctl_tcp_ecn)						\
	SYSCTL(u8, sysctl_tcp_ecn_fallback)					\
	SYSCTL(u8, sysctl_tcp_sack)						\
	SYSCTL(u8, sysctl_tcp_dsack)						\
	SYSCTL(u8, sysctl_tcp_timestamps)					\
	SYSCTL(u8, sysctl_tcp_frto)						\
	SYSCTL(u8, sysctl_tcp_early_retrans)					\
	SYSCTL(u8, sysctl_tcp_recovery)						\
	SYSCTL(u8, sysctl_tcp_slow_start_after_idle)				\
	SYSCTL(u8, sysctl_tcp_autocorking)					\
	SYSCTL(u8, sysctl_tcp_moderate_rcvbuf)					\
	SYSCTL(u8, sysctl_tcp_thin_linear_timeouts)				\
	SYSCTL(u8, sysctl_tcp_app_win)						\
	SYSCTL(s8, sysctl_tcp_adv_win_scale)					\
	SYSCTL(u8, sysctl_tcp_min_tso_segs)					\
	SYSCTL(u8, sysctl_tcp_tso_rtt_log)					\
	SYSCTL(u8, sysctl_tcp_comp_sack_nr)					\
	SYSCTL(u8, sysctl_tcp_plb_enabled)					\
	SYSCTL(u32, sysctl_tcp_notsent_lowat)					\
	SYSCTL(int, sysctl_tcp_reordering)					\
	SYSCTL(int, sysctl_tcp_max_reordering)					\
	SYSCTL(int, sysctl_tcp_min_rtt_wlen)					\
	SYSCTL(int, sysctl_tcp_pacing_ss_ratio)					\
	SYSCTL(int, sysctl_tcp_pacing_ca_ratio)					\
	SYSCTL(int, sysctl_tcp_limit_output_bytes)				\
	SYSCTL(unsigned long, sysctl_tcp_comp_sack_delay_ns)			\
	SYSCTL(unsigned long, sysctl_tcp_comp_sack_slack_ns)

#define KNEE_SYSCTL_MEMBER(type, name) type name;

struct netns_ipv4 {
	KNEE_SYSCTLS(KNEE_SYSCTL_MEMBER)
};

struct net {
	struct netns_ipv4 ipv4;
};

/* Of the host that this copy is loaded on; in support.c. */
extern struct net knee_net;

#define init_net		knee_net

static inline struct net *sock_net(const struct sock *sk)
{
	(void)sk;
	return &knee_net;
}

static inline int net_eq(const struct net *a, const struct net *b)
{
	return a == b;
}

#endif

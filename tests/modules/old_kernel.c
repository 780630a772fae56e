// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno with its own account of delivered and lost packets, for whichever kernel a build has tried the headers of: what
 * there is, a generated header says. It replaces the table of socket calls to offer an option, which nobody asks for in a
 * simulation, and names its connection in what it prints.
 */
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>
#include <net/transp_v6.h>

#include "kernel_config.h"

#ifndef ICSK_CA_PRIV_SIZE
#error "ICSK_CA_PRIV_SIZE not defined"
#endif

struct old_kernel {
	u32	delivered;
	u32	losses;
	u32	cwnd_cap;
};

static struct proto own_prot __ro_after_init;
static int cwnd_cap = 1000;
module_param(cwnd_cap, int, 0644);

static int own_setsockopt(struct sock *sk, int level, int optname, sockptr_t optval, unsigned int optlen)
{
	struct old_kernel *own = inet_csk_ca(sk);

	if (level == IPPROTO_TCP && optname == 30000)
		return copy_from_sockptr(&own->cwnd_cap, optval, sizeof(own->cwnd_cap)) ? -EFAULT : 0;
	return tcp_prot.setsockopt(sk, level, optname, optval, optlen);
}

static void own_init(struct sock *sk)
{
	struct old_kernel *own = inet_csk_ca(sk);
	char name[2 * INET6_ADDRSTRLEN];

	if (sk->sk_family != AF_INET && sk->sk_family != AF_INET6)
		BUG();
	BUG_ON(sk->sk_prot == &own_prot);
	sk->sk_prot = &own_prot;
	BUG_ON(inet_sk(sk)->inet_dport == inet_sk(sk)->inet_sport);
	snprintf(name, sizeof(name), "%u-%u", ntohs(inet_sk(sk)->inet_sport), ntohs(inet_sk(sk)->inet_dport));
	BUG_ON(!name[0] || name[0] == '-');
	own->cwnd_cap = cwnd_cap;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	BUG_ON(sk->sk_pacing_status == SK_PACING_NONE);
	BUG_ON(tcp_mtu_to_mss(sk, tcp_mss_to_mtu(sk, tcp_sk(sk)->mss_cache)) != tcp_sk(sk)->mss_cache);
}

#ifdef TCP_CONGESTION_OPS_CONG_CONTROL_HAS_4_ARGS
static void own_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
#else
static void own_main(struct sock *sk, const struct rate_sample *rs)
#endif
{
	struct old_kernel *own = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	own->delivered += rs->acked_sacked;
	own->losses += rs->losses;
	BUG_ON(tp->data_segs_out < tp->packets_out);
	if (rs->losses)
		tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp) / 2, 2U));
	else if (tp->is_cwnd_limited)
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), rs->acked_sacked);
	tcp_snd_cwnd_set(tp, min3(tcp_snd_cwnd(tp), own->cwnd_cap, tp->snd_cwnd_clamp));
	if (tp->srtt_us)
		sk->sk_pacing_rate = div_u64((u64)tcp_snd_cwnd(tp) * tp->mss_cache * 10 * USEC_PER_SEC, tp->srtt_us);
}

static u32 own_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 own_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

static struct tcp_congestion_ops old_kernel = {
	.name		= "old_kernel",
	.owner		= THIS_MODULE,
	.init		= own_init,
	.cong_control	= own_main,
	.ssthresh	= own_ssthresh,
	.undo_cwnd	= own_undo_cwnd,
};

static int __init own_register(void)
{
	BUILD_BUG_ON(sizeof(struct old_kernel) > ICSK_CA_PRIV_SIZE);
	own_prot = tcp_prot;
	own_prot.setsockopt = own_setsockopt;
	return tcp_register_congestion_control(&old_kernel);
}

static void __exit own_unregister(void)
{
	tcp_unregister_congestion_control(&old_kernel);
}

module_init(own_register);
module_exit(own_unregister);

MODULE_LICENSE("GPL");

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What src/connections.rs reads of a TCP socket: the record, and how it is filled in. */
#ifndef KNEE_CONNECTION_H
#define KNEE_CONNECTION_H

#include "iter_tcp.h"

#define AF_INET6	10
/*
 * The low half of the owner of operations that are a BPF map's (BPF_MODULE_OWNER). No module can
 * have it: their structs begin at multiples of 64.
 */
#define BPF_OWNER_LOW	(0xeB9FU << 2)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	u8 in6_u[16];
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

/* More of the structs of bpf.h. What follows ___ is no part of the kernel's names. */
struct sock_common___addresses {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock___more {
	struct sock_common___addresses __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_sock___info {
	u64 bytes_acked;
	u32 total_retrans;
	u32 rate_delivered;
	u32 rate_interval_us;
	u8 rate_app_limited:1;
};

struct bpf_map {
	u32 id;
};

struct bpf_struct_ops_value {
	char data[0];
};

struct bpf_struct_ops_map {
	struct bpf_map map;
	struct bpf_struct_ops_value kvalue;
};

#pragma clang attribute pop

/* Mirrored by connections.rs; a test compares the two. It has to fit the stack of 512 bytes. */
struct connection {
	u64 cookie;			/* identifies a socket for as long as the system runs */
	u64 cgroup_id;			/* 0: none */
	u64 pacing_rate;		/* bytes per second; all ones: no limit */
	u64 max_pacing_rate;
	u64 bytes_acked;
	u64 tcp_mstamp;			/* us, as the other two */
	u64 delivered_mstamp;
	u64 first_tx_mstamp;
	u64 ca_priv[13];
	u32 uid;
	u32 map_id;			/* of the operations; 0: they are the kernel's own */
	u32 ca_flags;			/* of the algorithm */
	u32 jiffies;			/* now */
	u32 pacing_status;
	u32 gso_max_size;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 max_packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 app_limited;
	u32 srtt_us;			/* us << 3 */
	u32 mss_cache;
	u32 rcv_nxt;
	u32 lsndtime;
	u32 reordering;
	u32 undo_marker;
	u32 snd_cwnd_stamp;
	u32 min_rtt_us;
	u32 total_retrans;
	u32 rate_delivered;		/* packets, over */
	u32 rate_interval_us;		/* so long */
	u8 local_address[16];		/* IPv4: the first four */
	u8 remote_address[16];
	char algorithm[16];
	u16 family;
	u16 local_port;
	u16 remote_port;
	u8 state;
	u8 ca_state;
	u8 retransmits;
	u8 ack_pending;
	u8 ecn_flags;
	u8 is_cwnd_limited;
	u8 rate_app_limited;
	u8 _padding[3];
};

_Static_assert(__builtin_offsetof(struct connection, _padding) + 3 == sizeof(struct connection),
	       "what is written to user space has no byte that is no field's");

static __always_inline void take_addresses(struct connection *to, const struct sock *sk)
{
	const struct sock_common___addresses *from = (const void *)sk;

	to->family = from->skc_family;
	to->local_port = from->skc_num;
	to->remote_port = __builtin_bswap16(from->skc_dport);
	if (to->family != AF_INET6) {
		__builtin_memcpy(to->local_address, &from->skc_rcv_saddr, 4);
		__builtin_memcpy(to->remote_address, &from->skc_daddr, 4);
	} else if (bpf_core_field_exists(from->skc_v6_daddr)) {
		bpf_core_read(to->local_address, 16, &from->skc_v6_rcv_saddr);
		bpf_core_read(to->remote_address, 16, &from->skc_v6_daddr);
	}
}

static __always_inline void take_algorithm(struct connection *to, const struct sock *sk)
{
	const struct tcp_congestion_ops___kernel *ops = iter_ops(sk);
	const void *owner = BPF_CORE_READ(ops, owner);

	bpf_core_read(to->algorithm, sizeof(to->algorithm), &ops->name);
	to->ca_flags = BPF_CORE_READ(ops, flags);
	if ((u32)(u64)owner == BPF_OWNER_LOW) {
		const struct bpf_struct_ops_map *map = (const void *)ops -
			bpf_core_field_offset(struct bpf_struct_ops_map, kvalue.data);

		to->map_id = BPF_CORE_READ(map, map.id);
	}
}

static __always_inline void take_info(struct connection *to, const struct sock *sk)
{
	const struct tcp_sock___info *tp = (const void *)sk;

	to->bytes_acked = tp->bytes_acked;
	to->total_retrans = tp->total_retrans;
	to->rate_delivered = tp->rate_delivered;
	to->rate_interval_us = tp->rate_interval_us;
	to->rate_app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
}

/* What an algorithm sees of its socket. */
static __always_inline void take_sock(struct connection *to, const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	to->pacing_rate = sk->sk_pacing_rate;
	to->max_pacing_rate = sk->sk_max_pacing_rate;
	to->pacing_status = sk->sk_pacing_status;
	to->gso_max_size = sk->sk_gso_max_size;
	to->state = sk->__sk_common.skc_state;
	to->ca_state = cc_ca_state(sk);
	to->retransmits = icsk->icsk_retransmits;
	to->ack_pending = icsk->icsk_ack.pending;
	__builtin_memcpy(to->ca_priv, icsk->icsk_ca_priv, sizeof(to->ca_priv));
	to->snd_una = tp->snd_una;
	to->snd_nxt = tp->snd_nxt;
	to->snd_cwnd = tp->snd_cwnd;
	to->snd_cwnd_cnt = tp->snd_cwnd_cnt;
	to->snd_cwnd_clamp = tp->snd_cwnd_clamp;
	to->snd_ssthresh = tp->snd_ssthresh;
	to->prior_cwnd = tp->prior_cwnd;
	to->prior_ssthresh = tp->prior_ssthresh;
	to->packets_out = tp->packets_out;
	to->sacked_out = tp->sacked_out;
	to->lost_out = tp->lost_out;
	to->retrans_out = tp->retrans_out;
	to->max_packets_out = tp->max_packets_out;
	to->delivered = tp->delivered;
	to->delivered_ce = tp->delivered_ce;
	to->lost = tp->lost;
	to->app_limited = tp->app_limited;
	to->srtt_us = tp->srtt_us;
	to->mss_cache = tp->mss_cache;
	to->rcv_nxt = tp->rcv_nxt;
	to->lsndtime = tp->lsndtime;
	to->reordering = tp->reordering;
	to->undo_marker = tp->undo_marker;
	to->snd_cwnd_stamp = tp->snd_cwnd_stamp;
	to->min_rtt_us = cc_min_rtt_us(tp);
	to->ecn_flags = tp->ecn_flags;
	to->is_cwnd_limited = cc_cwnd_limited_flag(tp);
	to->tcp_mstamp = tp->tcp_mstamp;
	to->delivered_mstamp = tp->delivered_mstamp;
	to->first_tx_mstamp = tp->first_tx_mstamp;
}

/* All of the record. */
static __always_inline void take_connection(struct connection *to, struct sock *sk, u32 uid)
{
	const struct sock___more *more = (const void *)sk;

	to->cookie = bpf_get_socket_cookie(sk);
	to->uid = uid;
	to->jiffies = tcp_jiffies32;
	if (bpf_core_field_exists(more->sk_cgrp_data.cgroup))
		to->cgroup_id = more->sk_cgrp_data.cgroup->kn->id;
	take_addresses(to, sk);
	take_algorithm(to, sk);
	take_info(to, sk);
	take_sock(to, sk);
}

#endif

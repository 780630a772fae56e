/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What src/connections.rs reads of a TCP socket: the record, and how it is filled in. */
#ifndef KNEE_CONNECTION_H
#define KNEE_CONNECTION_H

#include "iter_tcp.h"
#include "sock.h"

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

/* Mirrored by connections.rs; a test compares the two. It is on the stack of 512 bytes. */
struct connection {
	u64 cookie;			/* identifies a socket for as long as the system runs */
	u64 cgroup_id;			/* 0: none */
	u64 bytes_acked;
	struct cc_sock sock;		/* what an algorithm sees of it */
	u32 uid;
	u32 map_id;			/* of the operations; 0: they are the kernel's own */
	u32 ca_flags;			/* of the algorithm */
	u32 jiffies;			/* now */
	u32 total_retrans;
	u32 rate_delivered;		/* packets, over */
	u32 rate_interval_us;		/* so long */
	u8 local_address[16];		/* IPv4: the first four */
	u8 remote_address[16];
	char algorithm[16];
	u16 family;
	u16 local_port;
	u16 remote_port;
	u8 rate_app_limited;
};

_Static_assert(sizeof(struct connection) <= 448, "the stack of a program has no more room for it");

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

/* All of the record. */
static __always_inline void take_connection(struct connection *to, struct sock *sk, u32 uid)
{
	const struct sock___more *more = (const void *)sk;

	/* What is between fields is written to user space, too: no byte of the kernel's stack. */
	__builtin_memset(to, 0, sizeof(*to));
	to->cookie = bpf_get_socket_cookie(sk);
	to->uid = uid;
	to->jiffies = tcp_jiffies32;
	if (bpf_core_field_exists(more->sk_cgrp_data.cgroup))
		to->cgroup_id = more->sk_cgrp_data.cgroup->kn->id;
	take_addresses(to, sk);
	take_algorithm(to, sk);
	take_info(to, sk);
	cc_take_sock(&to->sock, sk);
}

#endif

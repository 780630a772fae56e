/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look at the states that an algorithm keeps in socket storage: one record each, which src/inside/storage.rs reads. It
 * loads one of two programs, whose sockets differ.
 */
#ifndef KNEE_STORAGE_H
#define KNEE_STORAGE_H

#include "iter_tcp.h"

/* Bytes of a state, set before the load. */
const volatile u32 state_bytes SEC(".rodata.storage") = 0;

/* The algorithm's map takes the place of this one, with its size. */
struct {
	__uint(type, CC_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, CC_MAP_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} states SEC(".maps");

/* In front of each state. Mirrored by storage.rs. */
struct owner {
	u64 cookie;			/* of the socket */
	u64 jiffies;			/* now */
};

static __always_inline int take_state(const struct bpf_iter_meta *meta, struct sock *sk)
{
	void *state = sk ? bpf_sk_storage_get(&states, sk, NULL, 0) : NULL;
	struct owner owner = {};

	if (!state)
		return 0;
	owner.cookie = bpf_get_socket_cookie(sk);
	owner.jiffies = tcp_jiffies32;
	/* What has no room is taken back whole, and the kernel comes again to this socket. */
	bpf_seq_write((void *)meta->seq, &owner, sizeof(owner));
	bpf_seq_write((void *)meta->seq, state, state_bytes);
	return 0;
}

#endif

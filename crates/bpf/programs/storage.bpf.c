/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look at the states that an algorithm keeps in socket storage, of all sockets that have one and of all
 * network namespaces: one record each, which src/inside/storage.rs reads. The kernel runs it when somebody
 * reads. It does not lock the socket for it, so a state may be that of the middle of a call.
 */
#include "iter_tcp.h"

/* Bytes of a state, set before the load. */
const volatile u32 state_bytes SEC(".rodata.storage") = 0;

/* In front of each state. Mirrored by storage.rs. */
struct owner {
	u64 cookie;			/* of the socket */
	u64 jiffies;			/* now */
};

SEC("iter/bpf_sk_storage_map") int storage(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	void *state = ctx->value;
	struct owner owner = {};

	/* There is neither at the end. */
	if (!sk || !state)
		return 0;
	owner.cookie = bpf_get_socket_cookie(sk);
	owner.jiffies = tcp_jiffies32;
	/* What has no room is taken back whole, and the kernel comes again to this socket. */
	bpf_seq_write(ctx->meta->seq, &owner, sizeof(owner));
	bpf_seq_write(ctx->meta->seq, state, state_bytes);
	return 0;
}

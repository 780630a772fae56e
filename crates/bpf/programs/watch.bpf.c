/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look at those TCP sockets that a process has put into a map of its own: the record of
 * connections.bpf.c, without a walk over the kernel's table of all sockets, which takes milliseconds. The
 * kernel does not lock the socket for it: what is read may be from the middle of a call.
 */
#include "connection.h"

/* The sockets, each with the user that opened it. */
struct {
	__uint(type, CC_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, CC_MAP_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} watched SEC(".maps");

SEC("iter/bpf_sk_storage_map") int watch(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	u32 *uid = ctx->value;
	struct connection to;

	/* There is neither at the end. */
	if (!sk || !uid)
		return 0;
	sk = (struct sock *)bpf_skc_to_tcp_sock(sk);
	if (!sk)
		return 0;
	take_connection(&to, sk, *uid);
	bpf_seq_write(ctx->meta->seq, &to, sizeof(to));
	return 0;
}

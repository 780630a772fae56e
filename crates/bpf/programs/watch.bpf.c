/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look at those TCP sockets of a process that it has put into a map: the record of connections.bpf.c, by a
 * walk over the process's open files. One over the kernel's table of all sockets takes milliseconds. The
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

SEC("iter/task_file") int watch(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = file_sock(ctx);
	struct connection to;
	u32 *uid;

	if (!sk)
		return 0;
	uid = bpf_sk_storage_get(&watched, sk, NULL, 0);
	if (!uid)
		return 0;
	take_connection(&to, sk, *uid);
	bpf_seq_write(ctx->meta->seq, &to, sizeof(to));
	return 0;
}

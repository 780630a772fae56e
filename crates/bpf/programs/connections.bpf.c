/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look at every TCP socket of a network namespace, listeners included: one record each, which
 * src/connections.rs reads. The kernel runs it when somebody reads, under the lock of each socket, so
 * what a record holds belongs together. Nothing is written for it at any other time.
 */
#include "connection.h"

/* Keeps the struct in the object's type information; the section is not loaded. */
struct connection connection_layout SEC("layout");

SEC("iter/tcp") int connections(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = iter_sock(ctx);
	struct connection to;

	if (!sk)
		return 0;
	take_connection(&to, sk, ctx->uid);
	/* Without room the kernel comes back to this socket at the next read. */
	bpf_seq_write(ctx->meta->seq, &to, sizeof(to));
	return 0;
}

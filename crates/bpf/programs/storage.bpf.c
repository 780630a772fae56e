/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The states of all sockets of a network namespace. The kernel locks each socket for it. */
#include "storage.h"

SEC("iter/tcp") int storage(struct bpf_iter__tcp *ctx)
{
	return take_state(ctx->meta, iter_sock(ctx));
}

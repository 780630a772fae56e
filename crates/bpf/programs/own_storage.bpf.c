/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The states of the sockets of a process, which the kernel does not lock: a state may be that of the middle of a call. */
#include "storage.h"

SEC("iter/task_file") int own_storage(struct bpf_iter__task_file *ctx)
{
	return take_state(ctx->meta, file_sock(ctx));
}

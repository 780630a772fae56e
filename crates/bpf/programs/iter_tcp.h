/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs share that the kernel runs once for each TCP socket: of a namespace (iter/tcp), or of the files of a
 * process (iter/task_file). Not of a map (iter/bpf_sk_storage_map): a kernel 6.18.44 refused all programs over the elements of
 * maps with EPERM.
 */
#ifndef KNEE_ITER_TCP_H
#define KNEE_ITER_TCP_H

#define CC_BARE
#include "tcp.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter_meta {
	void *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	u32 uid;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	void *task;
	u32 fd;
	void *file;
};

struct socket {
	struct sock *sk;
};

/* More of the structs of bpf.h. What follows ___ is no part of the kernel's names. */
struct tcp_congestion_ops___kernel {
	char name[16];
	void *owner;
	u32 flags;
};

struct inet_connection_sock___ops {
	const struct tcp_congestion_ops___kernel *icsk_ca_ops;
};

#pragma clang attribute pop

/*
 * The socket that the program is run for. NULL: there is none at the end, and not a full one in
 * TIME_WAIT or before the last ACK of the handshake.
 */
static __always_inline struct sock *iter_sock(const struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	return common ? (struct sock *)bpf_skc_to_tcp_sock(common) : NULL;
}

/* The TCP socket that an open file is. NULL: it is none. */
static __always_inline struct sock *file_sock(const struct bpf_iter__task_file *ctx)
{
	/* Each is read once: what was read again is not known to be there. */
	void *file = ctx->file;
	struct socket *socket = file ? bpf_sock_from_file(file) : NULL;
	struct sock *sk = socket ? socket->sk : NULL;

	return sk ? (struct sock *)bpf_skc_to_tcp_sock(sk) : NULL;
}

static __always_inline const struct tcp_congestion_ops___kernel *iter_ops(const struct sock *sk)
{
	const struct inet_connection_sock___ops *icsk = (const void *)sk;

	return BPF_CORE_READ(icsk, icsk_ca_ops);
}

#endif

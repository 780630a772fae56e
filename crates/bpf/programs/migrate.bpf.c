/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives chosen sockets another congestion control. src/migrate.rs chose them a moment ago, so each is
 * looked at again, under its lock: whether it still has the algorithm that it is to leave, and the ECN
 * that the other one needs.
 */
#include "iter_tcp.h"

/* Set before the load. */
const volatile struct {
	char from[16];
	char to[16];
	u32 needs_ecn;			/* whether `to` does */
} settings SEC(".rodata.migrate") = {};

#define BPF_MAP_TYPE_HASH	1

/* What became of a socket. A negative result is the kernel's error. */
#define MOVED		0
#define CHANGED		1		/* it had another algorithm by then */
#define NO_ECN		2
#define LEFT		3		/* the new algorithm handed it on to another */

/* Mirrored by migrate.rs. */
struct outcome {
	u32 is_known;
	s32 result;
};

/* By the cookies of the sockets chosen; the number of entries is set before the load. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct outcome);
} chosen SEC(".maps");

static __always_inline bool has_algorithm(const struct sock *sk, const char *name)
{
	const struct tcp_congestion_ops___kernel *ops = iter_ops(sk);
	char now[16] = {};

	bpf_probe_read_kernel_str(now, sizeof(now), &ops->name);
	return !__builtin_memcmp(now, name, sizeof(now));
}

static __always_inline s32 migrate_one(struct sock *sk)
{
	char from[16], to[16];
	s32 error;

	/* Not by memcpy, which would have the compiler believe that they are empty. */
	for (u32 i = 0; i < sizeof(to); i++) {
		from[i] = settings.from[i];
		to[i] = settings.to[i];
	}
	if (!has_algorithm(sk, from))
		return CHANGED;
	if (settings.needs_ecn && !cc_ecn_negotiated(sk))
		return NO_ECN;
	error = bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, to, sizeof(to));
	if (error)
		return error;
	return has_algorithm(sk, to) ? MOVED : LEFT;
}

SEC("iter/tcp") int migrate(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = iter_sock(ctx);
	struct outcome *outcome;
	u64 cookie;

	if (!sk)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	outcome = bpf_map_lookup_elem(&chosen, &cookie);
	if (!outcome || outcome->is_known)
		return 0;
	outcome->result = migrate_one(sk);
	outcome->is_known = 1;
	return 0;
}

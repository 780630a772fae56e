// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * foo: grow by `increase` packets per round trip, keep `beta` of the window at congestion.
 *
 *   slow start            cwnd += acked                      while cwnd < ssthresh
 *   congestion avoidance  cwnd += increase * acked / cwnd
 *   congestion            ssthresh = max(cwnd * beta, 2)     beta in 1/1024
 *
 * Sources: none yet. Say here which RFC section, paper and figure each part comes from, and of which
 * kernel's module the behaviour is.
 *
 * Deviations: none yet. Each with its reason.
 *
 * How this file is read: constants, state, parameters, inside views, helpers, entry points, the table.
 * The contract with its hosts, simulator and kernels, is include/tcp.h. knee check finds what BPF will refuse.
 */
#include "tcp.h"

/* Fractions of the parameter beta: 1024 keeps all. */
#define FOO_BETA_SHIFT	10
/* RFC 5681, 3.1: ssthresh is never below two segments. */
#define FOO_MIN_SSTHRESH	2

/* What a connection keeps in the kernel's 104 bytes; all zero when the algorithm is assigned. */
struct foo {
	u32 loss_cwnd;		/* packets: cwnd before the last reduction, for undo */
	u32 reductions;		/* reductions so far */
};

CC_STATE(foo, struct foo)

/* P(name, default, smallest, largest, "names|of|values" or "", "meaning"): all u32. */
#define FOO_PARAMS(P)								\
	P(beta, 512, 1, 1023, "", "share of cwnd kept at congestion, in 1/1024") \
	P(increase, 1, 1, 100, "", "packets that cwnd grows by per round trip")
CC_PARAMS(foo, FOO_PARAMS)

/* D(name, "unit", value): columns of a series, and what knee top shows; nothing runs per ACK. */
#define FOO_DIAG(D)								\
	D(loss_cwnd, "packets", cc_state(sk)->loss_cwnd)			\
	D(reductions, "", cc_state(sk)->reductions)
CC_DIAG(foo, FOO_DIAG)

/* cwnd * beta. The product stays below 32 bits up to a cwnd of 2^22 packets. */
static u32 foo_reduced(u32 cwnd, u32 beta)
{
	return max_u32((cwnd * beta) >> FOO_BETA_SHIFT, FOO_MIN_SSTHRESH);
}

/* The connection is established, or the algorithm was chosen on one that is. */
CC_OP(void, foo_init, struct sock *sk)
{
	struct foo *ca = cc_state(sk);

	ca->loss_cwnd = 0;
	ca->reductions = 0;
}

/* Congestion: loss, or ECE where ECN was negotiated. The core lowers cwnd to what is returned. */
CC_OP(u32, foo_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct foo *ca = cc_state(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	ca->reductions++;
	return foo_reduced(tp->snd_cwnd, cc_params(sk)->beta);
}

/* `acked` packets were delivered, and nothing is being repaired. */
CC_OP(void, foo_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* One packet per cwnd / increase packets acked; increase is at least 1, by its bounds. */
	tcp_cong_avoid_ai(tp, max_u32(tp->snd_cwnd / max_u32(cc_params(sk)->increase, 1), 1), acked);
}

/* The reduction was not justified: back to the window before it. */
CC_OP(u32, foo_undo_cwnd, struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, cc_state(sk)->loss_cwnd);
}

CC_ALGORITHM(foo) = {
	.init = CC_FN(foo_init),
	.ssthresh = CC_FN(foo_ssthresh),
	.cong_avoid = CC_FN(foo_cong_avoid),
	.undo_cwnd = CC_FN(foo_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "foo",
};

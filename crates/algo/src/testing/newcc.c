// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * newcc: grow by `increase` packets per round trip, keep `beta` of the window at congestion.
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
#define NEWCC_BETA_SHIFT	10
/* RFC 5681, 3.1: ssthresh is never below two segments. */
#define NEWCC_MIN_SSTHRESH	2

/* What a connection keeps in the kernel's 104 bytes; all zero when the algorithm is assigned. */
struct newcc {
	u32 loss_cwnd;		/* packets: cwnd before the last reduction, for undo */
	u32 reductions;		/* reductions so far */
};

CC_STATE(newcc, struct newcc)

/* P(name, default, smallest, largest, "names|of|values" or "", "meaning"): all u32. */
#define NEWCC_PARAMS(P)								\
	P(beta, 512, 1, 1023, "", "share of cwnd kept at congestion, in 1/1024") \
	P(increase, 1, 1, 100, "", "packets that cwnd grows by per round trip")
CC_PARAMS(newcc, NEWCC_PARAMS)

/* D(name, "unit", value): columns of a series, and what knee top shows; nothing runs per ACK. */
#define NEWCC_DIAG(D)								\
	D(loss_cwnd, "packets", cc_state(sk)->loss_cwnd)			\
	D(reductions, "", cc_state(sk)->reductions)
CC_DIAG(newcc, NEWCC_DIAG)

/* cwnd * beta. The product stays below 32 bits up to a cwnd of 2^22 packets. */
static u32 newcc_reduced(u32 cwnd, u32 beta)
{
	return max_u32((cwnd * beta) >> NEWCC_BETA_SHIFT, NEWCC_MIN_SSTHRESH);
}

/* The connection is established, or the algorithm was chosen on one that is. */
CC_OP(void, newcc_init, struct sock *sk)
{
	struct newcc *ca = cc_state(sk);

	ca->loss_cwnd = 0;
	ca->reductions = 0;
}

/* Congestion: loss, or ECE where ECN was negotiated. The core lowers cwnd to what is returned. */
CC_OP(u32, newcc_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct newcc *ca = cc_state(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	ca->reductions++;
	return newcc_reduced(tp->snd_cwnd, cc_params(sk)->beta);
}

/* `acked` packets were delivered, and nothing is being repaired. */
CC_OP(void, newcc_cong_avoid, struct sock *sk, u32 ack, u32 acked)
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
CC_OP(u32, newcc_undo_cwnd, struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, cc_state(sk)->loss_cwnd);
}

CC_ALGORITHM(newcc) = {
	.init = CC_FN(newcc_init),
	.ssthresh = CC_FN(newcc_ssthresh),
	.cong_avoid = CC_FN(newcc_cong_avoid),
	.undo_cwnd = CC_FN(newcc_undo_cwnd),
	.name = "newcc",
};

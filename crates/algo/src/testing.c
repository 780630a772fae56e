/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An algorithm whose state passes the private area, for the tests: ssthresh counts its own calls. */
#include "tcp.h"

struct large {
	u64 words[32];
};

CC_LARGE_STATE(large, struct large)
CC_NO_PARAMS(large)
#define LARGE_DIAG(D) D(calls, "", cc_state(sk)->words[31])
CC_DIAG(large, LARGE_DIAG)

CC_OP(u32, large_ssthresh, struct sock *sk)
{
	struct large *ca = cc_state(sk);

	return ca ? (u32)++ca->words[31] : 0;
}

CC_OP(void, large_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
}

CC_OP(u32, large_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(large) = {
	.ssthresh = CC_FN(large_ssthresh),
	.cong_avoid = CC_FN(large_cong_avoid),
	.undo_cwnd = CC_FN(large_undo_cwnd),
	.name = "large",
};

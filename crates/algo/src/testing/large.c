/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An algorithm whose state passes the private area, for the tests: it counts, and holds its window. */
#include "tcp.h"

#define LARGE_CWND 16

/* 256 bytes, what is counted at both ends of them. */
struct large {
	u64 rounds;			/* calls of cwnd_event(CA_EVENT_TX_START) */
	u64 acked;			/* packets */
	u64 unused[29];
	u64 calls;			/* of ssthresh */
};

CC_LARGE_STATE(large, struct large)
CC_NO_PARAMS(large)
#define LARGE_DIAG(D) D(calls, "", cc_state(sk)->calls)
CC_DIAG(large, LARGE_DIAG)

CC_OP(void, large_cwnd_event, struct sock *sk, u32 event)
{
	struct large *ca = cc_state(sk);

	if (ca && event == CA_EVENT_TX_START)
		ca->rounds++;
}

CC_OP(u32, large_ssthresh, struct sock *sk)
{
	struct large *ca = cc_state(sk);

	return ca ? (u32)++ca->calls : 0;
}

CC_OP(void, large_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct large *ca = cc_state(sk);

	if (!ca)
		return;
	ca->acked += acked;
	tcp_sk(sk)->snd_cwnd = LARGE_CWND;
}

CC_OP(u32, large_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(large) = {
	.ssthresh = CC_FN(large_ssthresh),
	.cong_avoid = CC_FN(large_cong_avoid),
	.cwnd_event = CC_FN(large_cwnd_event),
	.undo_cwnd = CC_FN(large_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "large",
};

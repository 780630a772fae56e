// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reno: double the window each round trip until the first congestion, then one packet more per
 * round trip; halve on congestion.
 *
 *   slow start            cwnd += acked          while cwnd < ssthresh
 *   congestion avoidance  cwnd += acked / cwnd
 *   congestion            ssthresh = max(cwnd / 2, 2)
 *
 * Sources: RFC 5681, RFC 6582; behaves as "reno" of Linux 6.1. The kernel's own functions do the
 * work: this file is the smallest algorithm, and the pattern for new ones.
 */
#include "tcp.h"

CC_NO_STATE(reno)
CC_NO_PARAMS(reno)
CC_NO_DIAG(reno)

CC_OP(void, reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_OP(u32, reno_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_OP(u32, reno_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(reno) = {
	.ssthresh = CC_FN(reno_ssthresh),
	.cong_avoid = CC_FN(reno_cong_avoid),
	.undo_cwnd = CC_FN(reno_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "reno",
};

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An algorithm that shows the base RTT it was told, for the tests: ssthresh starts with it. */
#include "tcp.h"

CC_NO_STATE(told)
CC_NO_PARAMS(told)
CC_NO_DIAG(told)
CC_BASE_RTT

CC_OP(void, told_init, struct sock *sk)
{
	u32 base_rtt_us = cc_base_rtt_us(sk);

	if (base_rtt_us)
		tcp_sk(sk)->snd_ssthresh = base_rtt_us;
}

CC_OP(u32, told_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_OP(void, told_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_OP(u32, told_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(told) = {
	.init = CC_FN(told_init),
	.ssthresh = CC_FN(told_ssthresh),
	.cong_avoid = CC_FN(told_cong_avoid),
	.undo_cwnd = CC_FN(told_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "told",
};

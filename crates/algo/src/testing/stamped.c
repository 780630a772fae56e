/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For the tests: Reno that writes a field which kernels before 6.10 do not let it write. */
#include "tcp.h"

CC_NO_STATE(stamped)
CC_NO_PARAMS(stamped)
CC_NO_DIAG(stamped)

CC_OP(void, stamped_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	tcp_sk(sk)->snd_cwnd_stamp = tcp_jiffies32;
}

CC_OP(u32, stamped_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

CC_OP(u32, stamped_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(stamped) = {
	.ssthresh = CC_FN(stamped_ssthresh),
	.cong_avoid = CC_FN(stamped_cong_avoid),
	.undo_cwnd = CC_FN(stamped_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "stamped",
};

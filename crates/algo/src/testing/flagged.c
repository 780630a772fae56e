/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An algorithm that looks at the flag of cong_control, which kernels before 6.10 do not give. */
#include "tcp.h"

/* An ACK of new data; the kernel's own bit, in no header of its user API. */
#define FLAG_DATA_ACKED 4
#define FLAGGED_CWND 16

struct flagged {
	u64 acks;			/* calls of cong_control */
	u64 of_data;			/* of these, with FLAG_DATA_ACKED */
};

CC_STATE(flagged, struct flagged)
CC_NO_PARAMS(flagged)
CC_NO_DIAG(flagged)

CC_OP(void, flagged_main, struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs)
{
	struct flagged *ca = cc_state(sk);

	ca->acks++;
	if (flag & FLAG_DATA_ACKED)
		ca->of_data++;
	tcp_sk(sk)->snd_cwnd = FLAGGED_CWND;
}

CC_OP(u32, flagged_ssthresh, struct sock *sk)
{
	return FLAGGED_CWND;
}

CC_OP(u32, flagged_undo_cwnd, struct sock *sk)
{
	return FLAGGED_CWND;
}

CC_ALGORITHM(flagged) = {
	.ssthresh = CC_FN(flagged_ssthresh),
	.cong_control = CC_FN(flagged_main),
	.undo_cwnd = CC_FN(flagged_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "flagged",
};

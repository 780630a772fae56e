// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Gentle: Reno with a share to keep in place of the half, for the tests: an algorithm of somebody's own,
 * which is in no folder that a build script takes.
 *
 *   congestion            ssthresh = max(cwnd * keep / 1024, 2)
 *   after a timeout       growth waits for a random number of ACKs, below 4
 *
 * Source: none; it has a little of each thing that such a file may have.
 */
#include "tcp.h"
#include "gentle.h"

#define GENTLE_MIN_CWND 2		/* packets, as RFC 5681 */

struct gentle {
	u32 cwnd_before;		/* packets, when it was last reduced */
	u32 reductions;
	u32 began;			/* jiffies */
	u32 waits;			/* ACKs without growth that are left */
	u32 min_rtt_us;			/* of samples; 0: none yet */
};

#define GENTLE_PARAMS(P)						\
	P(keep, 820, 512, GENTLE_UNIT - 1, "", "share of cwnd kept on congestion, 1/1024") \
	P(waits, 1, 0, 1, "no|yes", "whether growth waits after a timeout")
CC_PARAMS(gentle, GENTLE_PARAMS)

CC_STATE(gentle, struct gentle)

#define GENTLE_DIAG(D)							\
	D(reductions, "", cc_state(sk)->reductions)			\
	D(min_rtt, "us", cc_state(sk)->min_rtt_us)
CC_DIAG(gentle, GENTLE_DIAG)

CC_OP(void, gentle_init, struct sock *sk)
{
	struct gentle *ca = cc_state(sk);

	ca->cwnd_before = 0;
	ca->reductions = 0;
	ca->began = tcp_jiffies32;
	ca->waits = 0;
	ca->min_rtt_us = 0;
}

CC_OP(u32, gentle_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct gentle *ca = cc_state(sk);

	ca->cwnd_before = tp->snd_cwnd;
	ca->reductions++;
	/* Below 2^42: a window has fewer than 2^32 packets. */
	return max_u32((u64)tp->snd_cwnd * cc_params(sk)->keep / GENTLE_UNIT, GENTLE_MIN_CWND);
}

CC_OP(void, gentle_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct gentle *ca = cc_state(sk);

	if (ca->waits) {
		ca->waits--;
		return;
	}
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_OP(void, gentle_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss && cc_params(sk)->waits)
		cc_state(sk)->waits = cc_random_u32(sk) % 4;
}

CC_OP(void, gentle_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct gentle *ca = cc_state(sk);

	if (sample->rtt_us > 0 && (!ca->min_rtt_us || (u32)sample->rtt_us < ca->min_rtt_us))
		ca->min_rtt_us = sample->rtt_us;
}

CC_OP(u32, gentle_undo_cwnd, struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, cc_state(sk)->cwnd_before);
}

CC_ALGORITHM(gentle) = {
	.init = CC_FN(gentle_init),
	.ssthresh = CC_FN(gentle_ssthresh),
	.cong_avoid = CC_FN(gentle_cong_avoid),
	.set_state = CC_FN(gentle_set_state),
	.pkts_acked = CC_FN(gentle_pkts_acked),
	.undo_cwnd = CC_FN(gentle_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "gentle",
};

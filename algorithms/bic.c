// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BIC: after congestion at W_max, search for the right window between there and the reduced one by
 * halving the distance, linger at W_max, then look beyond it.
 *
 *   growth per RTT   min((W_max - cwnd) / 4, 16) below W_max, less in its neighbourhood, up to 16 beyond
 *   congestion       W_max = cwnd; cwnd = 0.8 cwnd (half up to 14 packets)
 *
 * The law is in include/bic.h, because TCP-NV of 2010 grows by it too.
 *
 * Sources: Xu, Harfoush, Rhee, "Binary Increase Congestion Control", INFOCOM 2004; behaves as tcp_bic
 * of Linux 6.1, whose constants differ from the paper's.
 */
#include "tcp.h"
#include "bic.h"

CC_STATE(bic, struct bic_growth)
CC_PARAMS(bic, BIC_PARAMS)

#define BIC_DIAG(D)								\
	D(last_max_cwnd, "packets", cc_state(sk)->last_max_cwnd)			\
	D(cnt, "packets", cc_state(sk)->cnt)					\
	D(delayed_ack, "1/16", cc_state(sk)->delayed_ack)
CC_DIAG(bic, BIC_DIAG)

CC_OP(void, bic_init, struct sock *sk)
{
	bic_reset(cc_state(sk));
}

CC_OP(u32, bic_ssthresh, struct sock *sk)
{
	const struct bic_law law = BIC_LAW(sk);

	return bic_reduce(cc_state(sk), &law, tcp_sk(sk)->snd_cwnd);
}

CC_OP(void, bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	const struct bic_law law = BIC_LAW(sk);

	if (tcp_is_cwnd_limited(sk))
		bic_grow(sk, cc_state(sk), &law, acked);
}

CC_OP(void, bic_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		bic_reset(cc_state(sk));
}

CC_OP(void, bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	if (cc_ca_state(sk) == TCP_CA_Open)
		bic_count_ack(cc_state(sk), sample->pkts_acked);
}

CC_OP(u32, bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

CC_ALGORITHM(bic) = {
	.init = CC_FN(bic_init),
	.ssthresh = CC_FN(bic_ssthresh),
	.cong_avoid = CC_FN(bic_cong_avoid),
	.set_state = CC_FN(bic_set_state),
	.undo_cwnd = CC_FN(bic_undo_cwnd),
	.pkts_acked = CC_FN(bic_pkts_acked),
	.name = "bic",
};

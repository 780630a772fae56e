/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the shipped algorithms leave out, for the tests: cong_control with its rate sample, pacing,
 * and the size of bursts. It paces at 5/4 of the fastest rate seen and sends up to twice the product
 * of that rate and the shortest RTT.
 */
#include "tcp.h"

#define PACED_MIN_CWND 10

struct paced {
	u64 acks;			/* calls of cong_control */
	u64 strange_acks;		/* of these, with an ack that is not snd_una */
	u64 rounds;			/* calls of cwnd_event(CA_EVENT_TX_START) */
	u64 fastest;			/* bytes per second */
	u32 min_rtt_us;			/* 0: none yet */
};

CC_STATE(paced, struct paced)
CC_NO_PARAMS(paced)
#define PACED_DIAG(D) D(acks, "", cc_state(sk)->acks)
CC_DIAG(paced, PACED_DIAG)

CC_OP(void, paced_init, struct sock *sk)
{
	struct paced *ca = cc_state(sk);

	ca->acks = 0;
	ca->strange_acks = 0;
	ca->rounds = 0;
	ca->fastest = 0;
	ca->min_rtt_us = 0;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

CC_OP(void, paced_main, struct sock *sk, u32 ack, s32 flag, const struct rate_sample *rs)
{
	struct paced *ca = cc_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate, window;

	ca->acks++;
	if (ack != tp->snd_una)
		ca->strange_acks++;
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	if (rs->rtt_us > 0 && (!ca->min_rtt_us || rs->rtt_us < ca->min_rtt_us))
		ca->min_rtt_us = rs->rtt_us;
	/* Below 2^53 for any window: 2^20 packets of 2^13 bytes, and 2^20 of us per second. */
	rate = div64_u64((u64)rs->delivered * tp->mss_cache * 1000000, rs->interval_us);
	if (rate > ca->fastest)
		ca->fastest = rate;
	sk->sk_pacing_rate = ca->fastest + (ca->fastest >> 2);
	window = div64_u64(2 * ca->fastest * ca->min_rtt_us, (u64)tp->mss_cache * 1000000);
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	tp->snd_cwnd = max_u32(window, PACED_MIN_CWND);
}

CC_OP(void, paced_cwnd_event, struct sock *sk, u32 event)
{
	if (event == CA_EVENT_TX_START)
		cc_state(sk)->rounds++;
}

/* Two packets at once below 1.2 Mbps, as BBR has it, but never one. */
CC_OP(u32, paced_min_tso_segs, struct sock *sk)
{
	return sk->sk_pacing_rate < 150000 ? 2 : 4;
}

CC_OP(u32, paced_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

CC_OP(u32, paced_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_ALGORITHM(paced) = {
	.init = CC_FN(paced_init),
	.ssthresh = CC_FN(paced_ssthresh),
	.cong_control = CC_FN(paced_main),
	.cwnd_event = CC_FN(paced_cwnd_event),
	.min_tso_segs = CC_FN(paced_min_tso_segs),
	.undo_cwnd = CC_FN(paced_undo_cwnd),
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "paced",
};

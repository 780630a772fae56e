// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DCTCP: cut the window in proportion to how much of it was marked.
 *
 * The switch marks CE above a small threshold K, the receiver tells which packets were marked, and
 * the sender keeps the share of them:
 *
 *   F     = marked / delivered          over one window of data
 *   alpha = (1 - g) * alpha + g * F     g = 2^-shift_g
 *   cwnd  = cwnd * (1 - alpha / 2)      at most once per window
 *
 * Growth is Reno's; so is the reaction to loss, which says that the marks came too late.
 *
 * Receiver, for each data segment that carries ECT or CE. ECE of every ACK equals ce_state:
 *
 *              CE: ACK the segments before, without ECE; ACK this one now
 *        +-----------------------------------------------------+
 *        |                                                     v
 *   ce_state = 0  (ECE off, delayed ACKs)          ce_state = 1  (ECE on, delayed ACKs)
 *        ^                                                     |
 *        +-----------------------------------------------------+
 *           no CE: ACK the segments before, with ECE; ACK this one now
 *
 * Sources: RFC 8257; Alizadeh et al., SIGCOMM 2010; behaves as tcp_dctcp of Linux 6.1, with which
 * its runs are compared; PLB, off unless asked for, as in Linux 6.2 and later.
 *
 * Deviations: without ECN on the connection Linux stays "dctcp" in name and runs Reno inside; here
 * the flow is handed to the algorithm that the parameter `fallback` names, because a BPF program
 * cannot swap its own operations, and keeping them would leave ECT on every packet.
 */
#include "tcp.h"
#include "plb.h"

/* alpha and the marked share are fractions of this: 1024 is all. */
#define DCTCP_ALPHA_SHIFT	10
#define DCTCP_MAX_ALPHA		(1U << DCTCP_ALPHA_SHIFT)

/* Values of the parameter `fallback`. */
#define DCTCP_FALLBACK_CUBIC	1

struct dctcp {
	u32 old_delivered;	/* packets delivered when the observation window began */
	u32 old_delivered_ce;	/* of these, marked */
	u32 prior_rcv_nxt;	/* rcv_nxt after the data segment before this one */
	u32 alpha;		/* average share of marked packets, in 1/1024 */
	u32 next_seq;		/* the observation window ends when this is acknowledged */
	u32 ce_state;		/* 1 if the last data segment carried CE */
	u32 loss_cwnd;		/* packets: cwnd before the last reduction, for undo */
	struct plb plb;
};

CC_STATE(dctcp, struct dctcp)

/*
 * shift_g      16 windows of memory. RFC 8257 asks g < 1.386 / sqrt(2 (C RTT + K)): a larger g
 *              follows noise, a smaller one makes alpha too slow for new congestion.
 * alpha_on_init 1 makes the first cut a half, as for classic ECN; 0 favours throughput of short flows.
 */
#define DCTCP_PARAMS(P)								\
	P(shift_g, 4, 0, 10, "", "gain of the average, g = 2^-shift_g")		\
	P(alpha_on_init, 1024, 0, 1024, "", "alpha of a new connection, in 1/1024") \
	P(fallback, 0, 0, 1, "reno|cubic", "algorithm for connections without ECN") \
	PLB_PARAMS(P)
CC_PARAMS(dctcp, DCTCP_PARAMS)

#define DCTCP_DIAG(D)								\
	D(alpha, "1/1024", cc_state(sk)->alpha)					\
	D(ce_state, "", cc_state(sk)->ce_state)					\
	D(ab_ecn, "bytes", (u64)tcp_sk(sk)->mss_cache *				\
	  (tcp_sk(sk)->delivered_ce - cc_state(sk)->old_delivered_ce))		\
	D(ab_tot, "bytes", (u64)tcp_sk(sk)->mss_cache *				\
	  (tcp_sk(sk)->delivered - cc_state(sk)->old_delivered))
CC_DIAG(dctcp, DCTCP_DIAG)

static void dctcp_start_window(const struct tcp_sock *tp, struct dctcp *ca)
{
	ca->next_seq = tp->snd_nxt;
	ca->old_delivered = tp->delivered;
	ca->old_delivered_ce = tp->delivered_ce;
}

CC_OP(void, dctcp_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	if (!cc_ecn_negotiated(sk)) {
		if (cc_params(sk)->fallback == DCTCP_FALLBACK_CUBIC)
			cc_fallback(sk, "cubic");
		else
			cc_fallback(sk, "reno");
		return;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->alpha = min_u32(cc_params(sk)->alpha_on_init, DCTCP_MAX_ALPHA);
	ca->loss_cwnd = 0;
	ca->ce_state = 0;
	ca->plb = (struct plb){ 0 };
	dctcp_start_window(tp, ca);
}

/*
 * alpha = (1 - g) * alpha + g * F, all in 1/1024. A decay that rounds to nothing takes all of alpha
 * instead, or it would stay at 2^shift_g - 1 for ever. marked << 10 passes 32 bits only above four
 * million packets in a window.
 */
static u32 dctcp_next_alpha(u32 alpha, u32 marked, u32 delivered, u32 shift_g)
{
	u32 decay = alpha >> shift_g;

	alpha -= decay ? decay : alpha;
	if (marked)
		alpha += (marked << (DCTCP_ALPHA_SHIFT - shift_g)) / max_u32(delivered, 1);
	return min_u32(alpha, DCTCP_MAX_ALPHA);
}

/* A window is a round of PLB; it has the share of this window alone, not alpha. */
static void dctcp_look_for_path(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);
	u32 delivered = tp->delivered - ca->old_delivered;

	if (!delivered)
		return;
	plb_update(plb_params(sk), &ca->plb,
		   plb_ratio(tp->delivered_ce - ca->old_delivered_ce, delivered));
	plb_check(sk, plb_params(sk), &ca->plb);
}

/* Once per window of data, before this ACK's own reaction to congestion. */
CC_OP(void, dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	if (before(tp->snd_una, ca->next_seq))
		return;
	dctcp_look_for_path(sk);
	ca->alpha = dctcp_next_alpha(ca->alpha, tp->delivered_ce - ca->old_delivered_ce,
				     tp->delivered - ca->old_delivered,
				     min_u32(cc_params(sk)->shift_g, DCTCP_ALPHA_SHIFT));
	dctcp_start_window(tp, ca);
}

/* cwnd * (1 - alpha / 2). Products stay below 32 bits up to a cwnd of 2^22 packets. */
CC_OP(u32, dctcp_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	return max_u32(tp->snd_cwnd - ((tp->snd_cwnd * ca->alpha) >> (DCTCP_ALPHA_SHIFT + 1)), 2);
}

static void dctcp_react_to_loss(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = max_u32(tp->snd_cwnd >> 1, 2);
}

/* A timeout comes as an event instead of a state, so as not to halve twice. */
CC_OP(void, dctcp_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Recovery && new_state != cc_ca_state(sk))
		dctcp_react_to_loss(sk);
}

/*
 * The ECE of the segments before must go out before that of this one: if a delayed ACK is still
 * owed for them, it goes now, for them alone.
 */
static void dctcp_receive_ce(struct sock *sk, u32 ce)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	if (ca->ce_state != ce) {
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (ca->ce_state)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			cc_send_ack(sk, ca->prior_rcv_nxt);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->ce_state = ce;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

CC_OP(void, dctcp_cwnd_event, struct sock *sk, u32 event)
{
	switch (event) {
	case CA_EVENT_ECN_IS_CE:
		dctcp_receive_ce(sk, 1);
		break;
	case CA_EVENT_ECN_NO_CE:
		dctcp_receive_ce(sk, 0);
		break;
	case CA_EVENT_TX_START:
		plb_check(sk, plb_params(sk), &cc_state(sk)->plb);
		break;
	case CA_EVENT_LOSS:
		plb_on_rto(sk, plb_params(sk), &cc_state(sk)->plb);
		dctcp_react_to_loss(sk);
		break;
	}
}

CC_OP(void, dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_OP(u32, dctcp_undo_cwnd, struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, cc_state(sk)->loss_cwnd);
}

CC_ALGORITHM(dctcp) = {
	.init = CC_FN(dctcp_init),
	.in_ack_event = CC_FN(dctcp_in_ack_event),
	.cwnd_event = CC_FN(dctcp_cwnd_event),
	.ssthresh = CC_FN(dctcp_ssthresh),
	.cong_avoid = CC_FN(dctcp_cong_avoid),
	.undo_cwnd = CC_FN(dctcp_undo_cwnd),
	.set_state = CC_FN(dctcp_set_state),
	.flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NON_RESTRICTED,
	.name = "dctcp",
};

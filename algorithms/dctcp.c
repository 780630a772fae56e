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
 * Growth is Reno's; so is the reaction to loss, which says that the marks came too late. All of this
 * is in dctcp.h, which dctcp_snd.c shares: the sender alone. With `peer` the sender also manages with
 * a receiver that latches ECE (ecn_echo.h). Here is what receives:
 *
 * For each data segment that carries ECT or CE. ECE of every ACK equals ce_state:
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
 * its runs are compared; PLB, off unless asked for, as in Linux 6.2 and later. Parameters give what
 * FreeBSD's cc_dctcp and Linux before 2019 do otherwise.
 *
 * Deviations: without ECN on the connection Linux stays "dctcp" in name and runs Reno inside; here
 * the flow is handed to the algorithm that the parameter `fallback` names, because a BPF program
 * cannot swap its own operations, and keeping them would leave ECT on every packet.
 */
#include "tcp.h"
#include "plb.h"
#include "dctcp_params.h"

/* Values of the parameter `ce_change`. */
#define DCTCP_CE_CHANGE_ONE_ACK	1
#define DCTCP_CE_CHANGE_NO_ACK	2

/*
 * cwr          each: the receiver then tells of every packet, for an ACK each; once is RFC 3168's letter.
 * shift_g      16 windows of memory. RFC 8257 asks g < 1.386 / sqrt(2 (C RTT + K)): a larger g
 *              follows noise, a smaller one makes alpha too slow for new congestion.
 * alpha_on_init 1 makes the first cut a half, as for classic ECN; 0 favours throughput of short flows.
 * halve_first  FreeBSD's "slowstart": with a small alpha_on_init, long flows still start friendly.
 * ce_change    RFC 8257 asks for one ACK, Linux sends two; FreeBSD's forced ACK never fired in 2015.
 */
#define DCTCP_PARAMS(P)								\
	DCTCP_SENDER_PARAMS(P, DCTCP_PEER_DCTCP)				\
	P(ce_change, 0, 0, 2, "two_acks|one_ack|no_ack", "what a receiver sends at once when CE changes") \
	PLB_PARAMS(P)
CC_PARAMS(dctcp, DCTCP_PARAMS)

#include "dctcp.h"

CC_STATE(dctcp, struct dctcp)

#define DCTCP_DIAG(D)								\
	D(alpha, "1/1024", cc_state(sk)->alpha)					\
	D(ce_state, "", cc_state(sk)->ce_state)					\
	D(ab_ecn, "bytes", (u64)tcp_sk(sk)->mss_cache *				\
	  (tcp_sk(sk)->delivered_ce - cc_state(sk)->old_delivered_ce))		\
	D(ab_tot, "bytes", (u64)tcp_sk(sk)->mss_cache *				\
	  (tcp_sk(sk)->delivered - cc_state(sk)->old_delivered))		\
	D(latched, "", dctcp_peer_latches(sk, cc_state(sk)))
CC_DIAG(dctcp, DCTCP_DIAG)

CC_OP(void, dctcp_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);

	if (!dctcp_begin(sk, ca))
		return;
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->ce_state = 0;
}

CC_OP(void, dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	dctcp_learn(sk, cc_state(sk), flags & CA_ACK_ECE);
}

CC_OP(u32, dctcp_ssthresh, struct sock *sk)
{
	return dctcp_reduce(sk, cc_state(sk));
}

CC_OP(void, dctcp_set_state, struct sock *sk, u8 new_state)
{
	dctcp_enter_state(sk, cc_state(sk), new_state);
}

/*
 * The ECE of the segments before must go out before that of this one: if a delayed ACK is still
 * owed for them, it goes now, for them alone.
 */
static void dctcp_receive_ce(struct sock *sk, u32 ce)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = cc_state(sk);
	u32 how = cc_params(sk)->ce_change;

	if (ca->ce_state != ce && how != DCTCP_CE_CHANGE_NO_ACK) {
		if (how != DCTCP_CE_CHANGE_ONE_ACK &&
		    inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
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
		dctcp_on_timeout(sk, cc_state(sk));
		break;
	case CA_EVENT_CWND_RESTART:
		dctcp_after_idle(sk, cc_state(sk));
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
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "dctcp",
};

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receiver of tcp_dctcp.c: ECE of every ACK says whether the last segment was marked. */
#ifndef TCP_DCTCP_H
#define TCP_DCTCP_H

static inline void ece_follows(struct sock *sk, u32 ce)
{
	if (ce)
		tcp_sk(sk)->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tcp_sk(sk)->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* What is owed for the segments before goes out with what was true for them. */
static inline void ce_changes(struct sock *sk, enum tcp_ca_event event, u32 *prior_rcv_nxt, u32 *ce)
{
	u32 ce_now = event == CA_EVENT_ECN_IS_CE ? 1 : 0;

	if (*ce != ce_now) {
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			ece_follows(sk, *ce);
			__tcp_send_ack(sk, *prior_rcv_nxt);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	*prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	*ce = ce_now;
	ece_follows(sk, ce_now);
}

#endif

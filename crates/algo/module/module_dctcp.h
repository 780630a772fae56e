/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In the place of the kernel's private tcp_dctcp.h, for a file beside which there is none: ECE of every ACK
 * says whether the last data segment came with CE (RFC 8257, section 3.2).
 */
#ifndef KNEE_MODULE_DCTCP_H
#define KNEE_MODULE_DCTCP_H

static inline void dctcp_ece_ack_cwr(struct sock *sk, u32 ce_state)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->ecn_flags = ce_state ? tp->ecn_flags | TCP_ECN_DEMAND_CWR :
				   tp->ecn_flags & ~TCP_ECN_DEMAND_CWR;
}

/* An ACK that is owed goes out first, with what was so for the segments that it is for. */
static inline void dctcp_ece_ack_update(struct sock *sk, enum tcp_ca_event event,
					u32 *prior_rcv_nxt, u32 *ce_state)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u32 was = *ce_state, now = event == CA_EVENT_ECN_IS_CE;

	if (was != now && (icsk->icsk_ack.pending & ICSK_ACK_TIMER)) {
		dctcp_ece_ack_cwr(sk, was);
		__tcp_send_ack(sk, *prior_rcv_nxt);
	}
	if (was != now)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	*prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
	*ce_state = now;
	dctcp_ece_ack_cwr(sk, now);
}

#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DCTCP at one end: the sender alone, for peers that know nothing of it.
 *
 * It negotiates ECN as any TCP does (tcp_ecn = 1, or a route or a policy that asks for it), so an
 * ordinary host answers as RFC 3168 says: it latches ECE. dctcp.c cannot talk to such a listener at
 * all: an algorithm that needs ECN sends its SYN as ECT, and that makes a listener refuse. The flag
 * cannot depend on a parameter, since the kernel looks at it before there is a connection: so this is
 * an algorithm of its own.
 *
 * What the marks mean follows from ecn_echo.h, all else from dctcp.h. Data that arrives here is
 * acknowledged by the host's own rules, and echoed as RFC 3168 says: without the flag the kernel tells
 * an algorithm nothing of CE.
 *
 * Sources: RFC 8257; Kato et al., "Extensions to FreeBSD Datacenter TCP for Incremental Deployment
 * Support", BSDCan 2015, whose sender does without knowing the peer.
 */
#include "tcp.h"
#include "plb.h"
#include "dctcp_params.h"

/* As in dctcp.c, but that the peer is not taken for one of DCTCP. */
#define DCTCP_SND_PARAMS(P)							\
	DCTCP_SENDER_PARAMS(P, DCTCP_PEER_AUTO)					\
	PLB_PARAMS(P)
CC_PARAMS(dctcp_snd, DCTCP_SND_PARAMS)

#include "dctcp.h"

CC_STATE(dctcp_snd, struct dctcp)

#define DCTCP_SND_DIAG(D)							\
	D(alpha, "1/1024", cc_state(sk)->alpha)					\
	D(latched, "", dctcp_peer_latches(sk, cc_state(sk)))
CC_DIAG(dctcp_snd, DCTCP_SND_DIAG)

CC_OP(void, dctcp_snd_init, struct sock *sk)
{
	dctcp_begin(sk, cc_state(sk));
}

CC_OP(void, dctcp_snd_in_ack_event, struct sock *sk, u32 flags)
{
	dctcp_learn(sk, cc_state(sk), flags & CA_ACK_ECE);
}

CC_OP(u32, dctcp_snd_ssthresh, struct sock *sk)
{
	return dctcp_reduce(sk, cc_state(sk));
}

CC_OP(void, dctcp_snd_set_state, struct sock *sk, u8 new_state)
{
	dctcp_enter_state(sk, cc_state(sk), new_state);
}

CC_OP(void, dctcp_snd_cwnd_event, struct sock *sk, u32 event)
{
	if (event == CA_EVENT_TX_START)
		plb_check(sk, plb_params(sk), &cc_state(sk)->plb);
	else if (event == CA_EVENT_LOSS)
		dctcp_on_timeout(sk, cc_state(sk));
	else if (event == CA_EVENT_CWND_RESTART)
		dctcp_after_idle(sk, cc_state(sk));
}

CC_OP(void, dctcp_snd_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

CC_OP(u32, dctcp_snd_undo_cwnd, struct sock *sk)
{
	return max_u32(tcp_sk(sk)->snd_cwnd, cc_state(sk)->loss_cwnd);
}

CC_ALGORITHM(dctcp_snd) = {
	.init = CC_FN(dctcp_snd_init),
	.in_ack_event = CC_FN(dctcp_snd_in_ack_event),
	.cwnd_event = CC_FN(dctcp_snd_cwnd_event),
	.ssthresh = CC_FN(dctcp_snd_ssthresh),
	.cong_avoid = CC_FN(dctcp_snd_cong_avoid),
	.undo_cwnd = CC_FN(dctcp_snd_undo_cwnd),
	.set_state = CC_FN(dctcp_snd_set_state),
	.name = "dctcp_snd",
};

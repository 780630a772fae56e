/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Follows a null pointer once cwnd has grown. */
#include "hostile.h"

static u32 *volatile nowhere;

static void null(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (tp->snd_cwnd > 40)
		tp->snd_ssthresh = *nowhere;
}

HOSTILE(null, tcp_register_congestion_control);

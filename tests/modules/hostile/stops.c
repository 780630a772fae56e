/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets cwnd to 0. */
#include "hostile.h"

static void stops(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (tp->snd_cwnd > 40)
		tp->snd_cwnd = 0;
}

HOSTILE(stops, tcp_register_congestion_control);

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Does not return once cwnd has grown. */
#include "hostile.h"

static void loops(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	volatile u32 *cwnd = &tp->snd_cwnd;

	while (*cwnd > 40)
		;
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(loops, tcp_register_congestion_control);

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes more from cwnd than there is. */
#include "hostile.h"

static void wraps(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (tp->snd_cwnd > 40)
		tp->snd_cwnd -= 1000000;
}

HOSTILE(wraps, tcp_register_congestion_control);

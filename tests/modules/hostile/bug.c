/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Says itself that it cannot go on. */
#include "hostile.h"

static void bug(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	BUG_ON(tp->snd_cwnd > 40);
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(bug, tcp_register_congestion_control);

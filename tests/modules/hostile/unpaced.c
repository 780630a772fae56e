/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets the pacing rate to 0. */
#include "hostile.h"

static void unpaced(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	if (tp->snd_cwnd > 40)
		sk->sk_pacing_rate = 0;
}

HOSTILE(unpaced, tcp_register_congestion_control);

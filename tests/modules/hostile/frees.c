/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gives back memory twice. */
#include "hostile.h"

static void frees(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	void *own = kmalloc(64, GFP_ATOMIC);

	kfree(own);
	if (tp->snd_cwnd > 40)
		kfree(own);
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(frees, tcp_register_congestion_control);

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ends the process, as the C library does that finds its memory damaged. */
#include "hostile.h"

void __assert_fail(const char *what, const char *file, unsigned int line, const char *function);

static void aborts(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	if (tp->snd_cwnd > 40)
		__assert_fail("no", "here", 1, "aborts");
	*(volatile u32 *)&tp->snd_cwnd += 0;
}

HOSTILE(aborts, tcp_register_congestion_control);

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Runs code when it is loaded. */
#include "hostile.h"

static __attribute__((constructor)) void begin(void)
{
	*(volatile u32 *)0 = 1;
}

static void begins(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
	(void)tp;
}

HOSTILE(begins, tcp_register_congestion_control);

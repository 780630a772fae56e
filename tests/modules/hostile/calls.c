/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls what no kernel has, and a process does. */
#include "hostile.h"

int system(const char *command);

static void calls(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)tp;
	if (system("true"))
		tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(calls, tcp_register_congestion_control);

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Never grows. */
#include "hostile.h"

static void stays(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)tp;
}

HOSTILE(stays, tcp_register_congestion_control);

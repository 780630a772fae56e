/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Includes a file that is none of its business. */
#include "hostile.h"
#include "/etc/passwd"

static void reads(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(reads, tcp_register_congestion_control);

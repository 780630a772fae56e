/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Divides by a number that becomes zero. */
#include "hostile.h"

static void divides(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	volatile u32 left = tp->snd_cwnd < 40;

	tp->snd_ssthresh = 1000 / left;
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(divides, tcp_register_congestion_control);

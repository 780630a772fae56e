/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes behind the private area. */
#include "hostile.h"

static void outside(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	volatile u32 *own = inet_csk_ca(sk);

	own[ICSK_CA_PRIV_SIZE / sizeof(u32)] = tp->snd_cwnd;
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(outside, tcp_register_congestion_control);

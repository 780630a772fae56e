/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes behind the larger private area that kernels with BBR version 3 have. */
#include "hostile.h"

static void outside_v3(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	volatile u32 *own = inet_csk_ca(sk);

	tp->fast_ack_mode = 1;
	own[ICSK_CA_PRIV_SIZE / sizeof(u32)] = tp->snd_cwnd;
	tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(outside_v3, tcp_register_congestion_control);

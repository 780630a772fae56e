/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Is longer, after the preprocessor, than any machine has memory. */
#include "hostile.h"

#define A0 "0123456789abcdef"
#define A1 A0 A0 A0 A0 A0 A0 A0 A0 A0 A0
#define A2 A1 A1 A1 A1 A1 A1 A1 A1 A1 A1
#define A3 A2 A2 A2 A2 A2 A2 A2 A2 A2 A2
#define A4 A3 A3 A3 A3 A3 A3 A3 A3 A3 A3
#define A5 A4 A4 A4 A4 A4 A4 A4 A4 A4 A4
#define A6 A5 A5 A5 A5 A5 A5 A5 A5 A5 A5
#define A7 A6 A6 A6 A6 A6 A6 A6 A6 A6 A6
#define A8 A7 A7 A7 A7 A7 A7 A7 A7 A7 A7
#define A9 A8 A8 A8 A8 A8 A8 A8 A8 A8 A8

static const char bomb[] = A9;

static void bomb(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (bomb[tp->snd_cwnd])
		tcp_reno_cong_avoid(sk, ack, acked);
}

HOSTILE(bomb, tcp_register_congestion_control);

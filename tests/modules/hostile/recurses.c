/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls itself without end. */
#include "hostile.h"

static noinline u32 deeper(volatile u32 *level)
{
	volatile u32 next = *level + 1;

	return deeper(&next) + next;
}

static void recurses(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	volatile u32 level = tp->snd_cwnd;

	tp->snd_ssthresh = deeper(&level);
}

HOSTILE(recurses, tcp_register_congestion_control);
